//! Opening regular files by names that may lead to anything.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading, and refuses all else: opening a FIFO waits for a writer, a
/// device may have no end, and opening some has effects of its own.
pub fn open(path: &Path) -> io::Result<File> {
    check(&fs::metadata(path)?)?;
    // If another file has taken its place, this keeps the opening itself from waiting. For a
    // regular file it means nothing.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

fn check(found: &fs::Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is not a regular file")),
    }
}
