//! Files that one server has to itself, by name: a lock on the file that has the name.
//!
//! A lock belongs to a file, and its holder may rename or remove the file before giving it up. The
//! locked file is therefore looked up under its name again.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ::io::lock::lock;

/// The most tries to open a file that another server renamed or removed meanwhile.
const OPEN_ATTEMPTS: usize = 8;

/// Opens a file and locks it for as long as it is open. [`io::ErrorKind::WouldBlock`] where another
/// server holds it for longer than the wait ([`::io::lock`]). `check` sees the name before each
/// attempt, and may refuse what is there.
pub fn open(
    path: &Path,
    options: &OpenOptions,
    check: impl Fn() -> io::Result<()>,
) -> io::Result<File> {
    for _ in 0..OPEN_ATTEMPTS {
        check()?;
        let file = options.open(path)?;
        lock(&file)?;
        let opened = file.metadata()?;
        match fs::metadata(path) {
            Ok(named) if is_same(&named, &opened) => return Ok(file),
            // The other server has given it another name, or none.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("others replace it again and again"))
}

/// Whether two names, or openings, lead to one file.
pub fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locked_file_is_the_one_with_the_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        let first = open(&path, &options, || Ok(())).expect("nobody has it");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| open(&path, &options, || Ok(())));
            // Whichever of the two comes first, the second one gets the file that then has the
            // name.
            fs::remove_file(&path).expect("it is there");
            fs::write(&path, "another").expect("a file");
            drop(first);
            let second = second.join().expect("no panic").expect("it is free");
            let named = fs::metadata(&path).expect("it is there");
            assert!(is_same(&second.metadata().expect("it is open"), &named));
        });
        assert_eq!(fs::read(&path).expect("it is there"), b"another");
    }
}
