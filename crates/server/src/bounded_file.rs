//! Files that operators name, read up to a limit: a wrong name does not fill the memory, and no
//! thread waits at a FIFO.

use std::io::{self, Read};
use std::path::Path;

use ::io::regular;

/// The contents of a file; `None` if it is longer than `bytes_max`.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    regular::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= bytes_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_at_its_edge() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").expect("a file");
        let found = |bytes_max| read(&path, bytes_max).expect("it can be read");
        assert_eq!((found(5), found(4)), (Some(b"12345".to_vec()), None));
        assert!(read(folder.path(), 5).is_err());
    }

    /// Regression: a device has length 0 and no end; and a worker that read a certificate again
    /// waited for a writer at the FIFO in its place.
    #[test]
    fn a_device_or_fifo_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.expect("mkfifo runs").success());
        for path in [Path::new("/dev/zero"), &fifo, folder.path()] {
            let refused = read(path, 1000).expect_err("it is no file");
            assert_eq!(refused.to_string(), "it is not a regular file");
        }
        std::os::unix::fs::symlink("file", folder.path().join("link")).expect("a link");
        std::fs::write(folder.path().join("file"), "12345").expect("a file");
        assert_eq!(
            read(&folder.path().join("link"), 5).expect("a file").as_deref(),
            Some(&b"12345"[..])
        );
    }
}
