//! Checks that a call stays within its device. A position may have been read from a damaged medium,
//! so one outside is an error and must not end the process.

use std::io;

use super::PAGE_BYTES;

/// The byte at which `count` pages from `page` on begin, if a device of `pages` pages has them.
pub fn of_pages(pages: u64, page: u64, count: usize) -> io::Result<u64> {
    check(pages, page, count as u64)?;
    Ok(page * PAGE_BYTES as u64)
}

/// Checks that a device of `pages` pages has `bytes` bytes from `at` on.
pub fn of_note(pages: u64, at: u64, bytes: usize) -> io::Result<()> {
    check(pages * PAGE_BYTES as u64, at, bytes as u64)
}

fn check(length: u64, start: u64, count: u64) -> io::Result<()> {
    if start <= length && count <= length - start {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "the device ends before the range does"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_may_end_where_the_device_ends_and_not_later() {
        assert_eq!(of_pages(4, 1, 3).unwrap(), PAGE_BYTES as u64);
        assert_eq!(of_pages(4, 4, 0).unwrap(), 4 * PAGE_BYTES as u64);
        for (page, count) in [(1, 4), (4, 1), (5, 0), (u64::MAX, 1), (0, usize::MAX)] {
            let error = of_pages(4, page, count).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{page} {count}");
        }
        of_note(1, PAGE_BYTES as u64 - 2, 2).unwrap();
        of_note(1, PAGE_BYTES as u64 - 2, 3).unwrap_err();
        of_note(1, u64::MAX, 2).unwrap_err();
    }
}
