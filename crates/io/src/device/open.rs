//! Opens a file or block device, in an order of steps in which a process that is killed between two
//! of them leaves nothing that looks like something else.
//!
//! 1. A path that cannot be a device is refused by its kind, before it is opened: opening some
//!    character devices has effects of its own.
//! 2. The file is opened for notes, through the page cache, and locked. A block device is also
//!    claimed, which the kernel refuses for one that is mounted.
//! 3. A file's room is reserved beyond its end, and only then is its length set. So a file has
//!    either its whole length or none, and an empty file counts as one that does not exist yet;
//!    room that a process killed in between has reserved beyond the end is given back first. Room
//!    that the file system does not have is not asked for: some would fill up before they refuse,
//!    and other programs write there too.
//! 4. The same file is opened again for pages, past the page cache. A file system may refuse that
//!    at once or with the first read; pages then share the descriptor of notes. So they do where
//!    blocks are larger than pages: the page cache writes whole blocks, and with a note it would
//!    write its old copy of the pages beside it.
//!
//! The lock is the first descriptor's own, so it also keeps out a second opening in this process,
//! and it goes with the descriptor, however the process ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use super::{OpenError, PAGE_BYTES, Pages};
use crate::lock::lock;

/// The state of a device when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Whether all of it is zeros, because it was made just now. A block device never counts as
    /// new: its content is not known.
    pub is_new: bool,
    /// Whether pages bypass the page cache.
    pub is_direct: bool,
}

/// A device to open, and the way to open it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The file or block device.
    pub path: &'a Path,
    /// The bytes that it is to have.
    pub bytes: u64,
    /// Whether a file's content is kept.
    pub keeps_content: bool,
    /// Whether pages are to bypass the page cache, where that is possible.
    pub wants_direct: bool,
}

/// The descriptors of one file.
#[derive(Debug)]
pub struct Descriptors {
    /// For notes, through the page cache. Holds the lock.
    pub notes: File,
    /// For pages, past the page cache; `None` where they go through it too.
    pub pages: Option<File>,
}

impl Request<'_> {
    /// Opens it.
    pub fn open(&self) -> Result<(Descriptors, Opened), OpenError> {
        let (is_block, was_there) = match fs::metadata(self.path) {
            Ok(found) => (self.is_block(&found)?, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (false, false),
            Err(error) => return Err(self.explain(error)),
        };
        let notes = self.open_notes(is_block)?;
        let made =
            if is_block { self.check_room(&notes).map(|()| false) } else { self.make_room(&notes) };
        if made.is_err() && !was_there {
            self.remove_empty(&notes);
        }
        let is_new = made?;
        let is_fine = is_block || has_fine_blocks(&notes).map_err(|error| self.explain(error))?;
        let pages = if self.wants_direct && is_fine { self.open_pages(&notes)? } else { None };
        let opened = Opened { is_new, is_direct: pages.is_some() };
        Ok((Descriptors { notes, pages }, opened))
    }

    fn explain(&self, error: impl Into<io::Error>) -> OpenError {
        OpenError::explain(self.path, self.bytes, error.into())
    }

    /// Whether it is a block device rather than a file.
    fn is_block(&self, found: &fs::Metadata) -> Result<bool, OpenError> {
        let (kind, path) = (found.file_type(), self.path.to_path_buf());
        if kind.is_dir() {
            Err(OpenError::Directory { path })
        } else if kind.is_file() || kind.is_block_device() {
            Ok(kind.is_block_device())
        } else {
            Err(OpenError::NotStorage { path })
        }
    }

    /// Opens and locks it, and creates a file that is missing.
    fn open_notes(&self, is_block: bool) -> Result<File, OpenError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        if is_block {
            options.custom_flags(libc::O_EXCL);
        } else {
            options.create(true).truncate(false);
        }
        let notes = options.open(self.path).map_err(|error| self.explain(error))?;
        let found = notes.metadata().map_err(|error| self.explain(error))?;
        if self.is_block(&found)? != is_block {
            return Err(self.replaced());
        }
        lock(&notes).map_err(|error| self.explain(error))?;
        Ok(notes)
    }

    /// Checks that a block device is long enough.
    fn check_room(&self, mut notes: &File) -> Result<(), OpenError> {
        let found = notes.seek(SeekFrom::End(0)).map_err(|error| self.explain(error))?;
        if found < self.bytes {
            let (path, wanted) = (self.path.to_path_buf(), self.bytes);
            return Err(OpenError::TooSmall { path, found, wanted });
        }
        Ok(())
    }

    /// Gives a file its length and its room; returns whether it had none before.
    fn make_room(&self, notes: &File) -> Result<bool, OpenError> {
        if !self.keeps_content {
            notes.set_len(0).map_err(|error| self.explain(error))?;
        }
        let found = notes.metadata().map_err(|error| self.explain(error))?.len();
        if found != 0 && found != self.bytes {
            let (path, wanted) = (self.path.to_path_buf(), self.bytes);
            return Err(OpenError::OtherSize { path, found, wanted });
        }
        let is_new = found == 0;
        let made = if is_new { make(notes, self.bytes) } else { reserve(notes, self.bytes) };
        made.map_err(|error| self.explain(error))?;
        Ok(is_new)
    }

    /// Opens the file of `notes` once more, past the page cache; `None` where that is refused.
    fn open_pages(&self, notes: &File) -> Result<Option<File>, OpenError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        let pages = match options.open(self.path) {
            Ok(pages) => pages,
            Err(error) if is_refusal(&error) => return Ok(None),
            Err(error) => return Err(self.explain(error)),
        };
        let same = |file: &File| file.metadata().map(|found| (found.dev(), found.ino()));
        let found = same(&pages).map_err(|error| self.explain(error))?;
        if found != same(notes).map_err(|error| self.explain(error))? {
            return Err(self.replaced());
        }
        let mut probe = Pages::zeroed(1);
        match pages.read_at(probe.bytes_mut(), 0) {
            Err(error) if is_refusal(&error) => Ok(None),
            // A page that cannot be read is noticed when it is needed.
            _ => Ok(Some(pages)),
        }
    }

    /// Removes the file that was made here and has got no room. Its lock is held, so that nobody
    /// else has begun to use it.
    fn remove_empty(&self, notes: &File) {
        let of = |found: fs::Metadata| (found.dev(), found.ino(), found.len());
        let (opened, found) = (notes.metadata().map(of), fs::symlink_metadata(self.path).map(of));
        // A file that stays counts as missing all the same.
        if let (Ok(opened), Ok(found)) = (opened, found)
            && opened == found
            && opened.2 == 0
        {
            let _ = fs::remove_file(self.path);
        }
    }

    fn replaced(&self) -> OpenError {
        self.explain(io::Error::other("something else took its place while it was opened"))
    }
}

/// Whether the error means that direct I/O was refused.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

/// Whether no block of the file system is larger than a page.
fn has_fine_blocks(file: &File) -> io::Result<bool> {
    Ok(fstatvfs(file)?.f_frsize <= PAGE_BYTES as u64)
}

/// Makes an empty file `bytes` bytes long, or leaves it empty.
fn make(file: &File, bytes: u64) -> io::Result<()> {
    // An earlier process may have been killed when it had reserved room and not set the length.
    // That room is given back, or there might be too little for this request.
    file.set_len(0)?;
    let system = fstatvfs(file)?;
    // A file system without a limit says that it has no blocks at all.
    let has_limit = system.f_blocks > 0;
    if has_limit && system.f_bavail.saturating_mul(system.f_frsize) < bytes {
        return Err(Errno::NOSPC.into());
    }
    let made = reserve(file, bytes).and_then(|()| lengthen(file, bytes));
    if made.is_err() {
        // Gives back the reserved room, as far as the system allows. The first error is the one to
        // report.
        let _ = file.set_len(0);
    }
    made
}

/// Sets a file's length. Files of some systems, such as `/proc`, accept it and do not change.
fn lengthen(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)?;
    if file.metadata()?.len() == bytes {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "it does not keep its length"))
}

/// Makes sure that `bytes` bytes can be written to a file, without changing its length. Where the
/// file system cannot reserve room, a later write may find none.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    debug_assert!(bytes.is_multiple_of(PAGE_BYTES as u64));
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
            Err(Errno::INTR) => {}
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
