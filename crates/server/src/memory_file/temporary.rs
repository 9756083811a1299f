//! FILE.tmp: open and locked for as long as the server lives, so that no other has the same memory
//! file, and the file that becomes FILE.
//!
//! A lock belongs to a file and not to its name, and the name can be removed: a sweep of the folder
//! does, and then another server may make its own file of that name. Renaming by name would make
//! that one FILE, empty as it is. So before anything is done with the name, the server checks that
//! it still leads to this file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ::io::lock::make_private;
use larder::image_format::{self, MAGIC, OpenError};

use super::{Opened, check_kind, refusal};
use crate::locked_file::{self, is_same};

/// Bytes that a crash of the machine makes zeros together.
const PAGE_BYTES: u64 = 4096;

/// FILE.tmp, locked.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    file: File,
}

/// The file that has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// This very file.
    This,
    Another,
    Nothing,
}

/// The contents of a file of this name when it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Nothing,
    /// The beginning of an image at least: its writer ended before it became FILE.
    Image,
    /// Less than any image has, or zeros, as after a crash of the machine.
    Scrap,
}

impl Temporary {
    /// Takes the file of this name, locked as it is; a new one if there is none. Only the remains
    /// of a memory file may be there already.
    pub fn take(path: PathBuf) -> Result<(Self, Left), String> {
        let file = open_locked(&path)?;
        let left = left_in(&file).map_err(|error| refusal(&path, &error))?;
        make_private(&file).map_err(|error| refusal(&path, &error))?;
        Ok((Self { path, file }, left))
    }

    /// Makes it empty for good: its contents do not come back with a crash of the machine either.
    pub fn clear(&self, left: Left) -> Result<(), String> {
        if left == Left::Nothing {
            return Ok(());
        }
        let cleared = self.file.set_len(0).and_then(|()| self.file.sync_all());
        cleared.map_err(|error| self.failed(&error))
    }

    /// The file to write to and read from.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Empties it for an image, with another file if it has been removed. Returns whether its name
    /// was its own all the time, as far as can be seen.
    pub fn begin(&mut self) -> Result<bool, String> {
        let is_there = match self.named() {
            Named::This => true,
            Named::Another => {
                let path = self.path.display();
                return Err(format!(
                    "{path} was removed while the server ran, and now belongs to another server"
                ));
            }
            Named::Nothing => {
                (*self, _) = Self::take(self.path.clone())?;
                false
            }
        };
        let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
        emptied.map_err(|error| self.failed(&error))?;
        Ok(is_there)
    }

    /// Renames it, for good. From then on it is kept, whatever fails afterwards.
    pub fn become_file(&self, path: &Path) -> Result<(), String> {
        if self.named() != Named::This {
            return Err(format!("{} was removed while it was being written", self.path.display()));
        }
        fs::rename(&self.path, path).map_err(|error| {
            format!("cannot rename {} to {}: {error}", self.path.display(), path.display())
        })
    }

    /// The message where it stays as it is, since FILE is another's.
    pub fn kept(&self, path: &Path) -> String {
        format!(
            "the contents of memory are in {}, which the next start reads once {} is gone",
            self.path.display(),
            path.display()
        )
    }

    /// Removes it.
    pub fn remove(&self) {
        // Room is given back even where the name stays.
        let _ = self.file.set_len(0);
        if self.named() == Named::This {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// The message if it cannot be written.
    pub fn failed(&self, error: &io::Error) -> String {
        format!("cannot write {}: {error}", self.path.display())
    }

    fn named(&self) -> Named {
        match (fs::symlink_metadata(&self.path), self.file.metadata()) {
            (Ok(named), Ok(opened)) if is_same(&named, &opened) => Named::This,
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Named::Nothing,
            // A name that cannot be looked up is nothing to rely on.
            _ => Named::Another,
        }
    }
}

/// The contents of a file; an error if they are foreign, or of another version.
fn left_in(file: &File) -> Result<Left, OpenError> {
    let mut first = Vec::new();
    Read::take(file, PAGE_BYTES).read_to_end(&mut first).map_err(OpenError::Io)?;
    if first.is_empty() {
        return Ok(Left::Nothing);
    }
    if first.iter().all(|byte| *byte == 0) {
        return Ok(Left::Scrap);
    }
    match image_format::open(&Opened(file)) {
        Ok(_) => Ok(Left::Image),
        Err(OpenError::Damaged) => Ok(Left::Scrap),
        Err(OpenError::Foreign) if MAGIC.starts_with(&first) => Ok(Left::Scrap),
        Err(error) => Err(error),
    }
}

/// Opens a file of this name and locks it; makes it if there is none.
fn open_locked(path: &Path) -> Result<File, String> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    locked_file::open(path, &options, || check_kind(path)).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            format!("another server uses {} for --memory-file", path.display())
        }
        _ => refusal(path, &error),
    })
}
