//! `-P`: the file that says which process the server is.
//!
//! It is opened before the process goes to the background, so that whoever starts a server hears
//! that it cannot be written; and it is written by the process that stays. At the end it is
//! removed, unless a server that was started with the same file has written its own number there.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process;

/// The file.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Sees that it can be written, and leaves what it holds.
    pub fn open(path: &Path) -> Result<Self, String> {
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|error| cannot_write(path, &error))?;
        Ok(Self { path: path.to_owned() })
    }

    /// Writes the number of this process.
    pub fn write(self) -> Result<Self, String> {
        let written = fs::write(&self.path, format!("{}\n", process::id()));
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
            // Somebody else may have removed it; there is nothing more to do either way.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> String {
    format!("cannot write {} for --pidfile: {error}", path.display())
}
