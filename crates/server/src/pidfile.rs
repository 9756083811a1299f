//! `-P`: the file with the server's process number.
//!
//! It is opened before the process goes to the background, so that the starting process can report
//! that it cannot be written; and it is written by the process that stays. The server has it locked
//! for as long as it lives, so a second one with the same file is refused: a signal to the number
//! there is meant for the first. At the end it is removed, unless another number has been written
//! there.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process;

use crate::{locked_file, stdio};

/// The most bytes of a number and the space around it.
const TEXT_BYTES_MAX: u64 = 64;

/// The file.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    file: File,
}

impl PidFile {
    /// Checks that it can be written, and leaves its contents.
    pub fn open(path: &Path) -> Result<Self, String> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        let refused = |error| cannot_write(path, &error);
        // A device can be shared, and has no number to read.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Ok(Self { path: path.to_owned(), file: options.open(path).map_err(refused)? });
        }
        let file = match locked_file::open(path, &options, || Ok(())) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let text = format!("another server uses {} for --pidfile", path.display());
                return Err(match number(path) {
                    Some(id) => format!("{text}: process {id}"),
                    None => text,
                });
            }
            // Not every file system knows locks.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                options.open(path).map_err(refused)?
            }
            Err(error) => return Err(refused(error)),
        };
        if let Some(id) = number(path)
            && id != process::id()
            && Path::new("/proc").join(id.to_string()).exists()
        {
            // A number that a process left behind may by now be another's.
            let path = path.display();
            stdio::err(format_args!(
                "larder: {path} names process {id}, which is running; --pidfile overwrites it"
            ));
        }
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes the number of this process.
    pub fn write(mut self) -> Result<Self, String> {
        let is_file = self.file.metadata().is_ok_and(|found| found.is_file());
        let emptied = if is_file { self.file.set_len(0) } else { Ok(()) };
        let written = emptied.and_then(|()| writeln!(self.file, "{}", process::id()));
        written.map_err(|error| cannot_write(&self.path, &error))?;
        Ok(self)
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if !fs::metadata(&self.path).is_ok_and(|found| found.is_file()) {
            return;
        }
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        if text.is_empty() || text.trim().parse() == Ok(process::id()) {
            // Another process may have removed it; there is nothing more to do either way.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The number in a file, if there is one.
fn number(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path).ok()?.take(TEXT_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn cannot_write(path: &Path, error: &std::io::Error) -> String {
    format!("cannot write {} for --pidfile: {error}", path.display())
}
