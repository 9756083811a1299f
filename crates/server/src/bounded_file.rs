//! Files that operators name, read up to a limit: a wrong name, such as a device's, does not fill
//! the memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What is in a file; none if it is longer than `bytes_max`.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
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

    /// The length that the system tells of a device is 0, and there is no end of it.
    #[test]
    fn what_has_no_end_is_too_long() {
        assert_eq!(read(Path::new("/dev/zero"), 1000).expect("it can be read"), None);
    }
}
