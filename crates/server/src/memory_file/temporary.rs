//! FILE.tmp: open and locked for as long as the server lives, so that no other has the same memory
//! file, and what FILE is made of.
//!
//! A lock lies on a file and not on its name, and the name can be taken away: whoever sweeps a
//! folder removes it, and then another server may make a file of its own with it. Renaming by name
//! would make that one FILE, empty as it is. So before anything is done with the name, it is looked
//! whether that still leads to this file.

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

/// What has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// This very file.
    This,
    Another,
    Nothing,
}

/// What a file of this name held when it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Nothing,
    /// The beginning of an image at least: whoever wrote it ended before it became FILE.
    Image,
    /// Less than there has to be of any, or zeros, as after a crash of the machine.
    Scrap,
}

impl Temporary {
    /// The file of this name, locked as it is; a new one if there is none. Only what is left of a
    /// memory file may be there already.
    pub fn take(path: PathBuf) -> Result<(Self, Left), String> {
        let file = open_locked(&path)?;
        let left = left_in(&file).map_err(|error| refusal(&path, &error))?;
        make_private(&file).map_err(|error| refusal(&path, &error))?;
        Ok((Self { path, file }, left))
    }

    /// Makes it empty for good: what it held does not come back with a crash of the machine either.
    pub fn clear(&self, left: Left) -> Result<(), String> {
        if left == Left::Nothing {
            return Ok(());
        }
        let cleared = self.file.set_len(0).and_then(|()| self.file.sync_all());
        cleared.map_err(|error| self.failed(&error))
    }

    /// What is written to and read from.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes it empty, for what is to be written, with another file if it has been removed. Returns
    /// whether its name was its own all the time, as far as can be seen.
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

    /// Gives it another name, for good. It is to be kept from then on, whatever fails behind that.
    pub fn become_file(&self, path: &Path) -> Result<(), String> {
        if self.named() != Named::This {
            return Err(format!("{} was removed while it was being written", self.path.display()));
        }
        fs::rename(&self.path, path).map_err(|error| {
            format!("cannot rename {} to {}: {error}", self.path.display(), path.display())
        })
    }

    /// What has to be said where it stays as it is, since FILE is somebody else's.
    pub fn kept(&self, path: &Path) -> String {
        format!(
            "the contents of memory are in {}, which the next start reads once {} is gone",
            self.path.display(),
            path.display()
        )
    }

    /// Leaves nothing of it.
    pub fn remove(&self) {
        // Room is given back even where the name stays.
        let _ = self.file.set_len(0);
        if self.named() == Named::This {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// What there is to say if it cannot be written.
    pub fn failed(&self, error: &io::Error) -> String {
        format!("cannot write {}: {error}", self.path.display())
    }

    fn named(&self) -> Named {
        match (fs::symlink_metadata(&self.path), self.file.metadata()) {
            (Ok(named), Ok(opened)) if is_same(&named, &opened) => Named::This,
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Named::Nothing,
            // What cannot be looked at is nothing to rely on.
            _ => Named::Another,
        }
    }
}

/// What a file holds; an error if that is somebody else's, or of another version.
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
