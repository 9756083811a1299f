//! The memory file, `-e`: a clean stop writes memory to it, and the next start reads it.
//!
//! An order of steps keeps an older value from coming back:
//!
//! ```text
//!   start   lock FILE.tmp | read FILE | store its items | remove FILE | serve
//!   stop    threads end | write FILE.tmp | sync | rename to FILE | sync the folder | exit
//! ```
//!
//! - FILE exists only while no server serves. It is removed, and the folder synced, before the
//!   first request is read, so a process that is killed later, with the machine or alone, leaves
//!   nothing that could be read. One that is killed before leaves FILE as it was, and no client has
//!   been served since: reading it again is right.
//! - FILE comes into being whole, or as far as the disk has room, or not at all: it is synced under
//!   another name first. The threads that serve have ended by then, so it holds the last version of
//!   every key.
//! - FILE.tmp is empty, for good, before the first request is read. So an image that a start finds
//!   in it was written by a stop that was killed before it was done, and no server has served
//!   since: where there is no FILE, it becomes FILE then. It begins with the most valuable items.
//! - FILE.tmp is open and locked for as long as the server lives, and becomes FILE as it is. So a
//!   second server with the same file is refused, also while the first one saves, if that takes
//!   longer than a start waits ([`::io::lock`]); and the start checks that the folder can be
//!   written to. Where it does not become FILE, it is removed: no start that is refused leaves it,
//!   unless it was there before. If a stop finds something else in FILE's place, FILE.tmp stays for
//!   a start after that is gone. If FILE.tmp was removed meanwhile, it is made anew, unless another
//!   server has done so (`memory_file/temporary.rs`).
//!
//! A file that is no image of this format is never touched: the start is refused.

mod temporary;

use std::borrow::Borrow;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ::io::moment::{Stopwatch, unix_time};
use larder::image_format::{self, OpenError};
use larder::{Cache, ImageHead, ImageSaved, ImageSource, Restored};

use crate::exit::Failed;
use temporary::{Left, Temporary};

/// The memory file of a server.
#[derive(Debug)]
pub struct MemoryFile {
    path: PathBuf,
    temporary: Temporary,
    /// It is not removed: it has become FILE, or holds an image that may.
    is_kept: bool,
    /// FILE, as long as it is there.
    image: Option<(ImageFile, ImageHead)>,
}

/// The items that a start found.
#[derive(Debug, Clone, Copy, Default)]
pub struct Found {
    /// The outcome of restoring them.
    pub restored: Restored,
    /// Items that were evicted meanwhile: most of them had been restored, into less memory than
    /// they came from.
    pub evicted: u64,
    /// Seconds since they were saved.
    pub age_s: u64,
    /// Milliseconds that restoring took.
    pub ms: u64,
}

/// The outcome of saving.
#[derive(Debug)]
pub enum Written {
    /// Everything was saved.
    All(ImageSaved),
    /// There was no room for more.
    Part {
        /// Bytes of the file, the most valuable items.
        bytes: u64,
        /// The system's error.
        error: io::Error,
    },
}

/// Whether the error is a lack of room.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// A file that is read at any place.
#[derive(Debug)]
struct Opened<F>(F);

/// An image that is this process's own.
type ImageFile = Opened<File>;

impl<F: Borrow<File> + Sync> ImageSource for Opened<F> {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.borrow().metadata()?.len())
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.0.borrow().read_exact_at(target, offset)
    }
}

impl MemoryFile {
    /// Opens the file, and locks out other servers.
    pub fn open(path: &Path) -> Result<Self, Failed> {
        // A path in the log has to be unambiguous.
        let path = std::path::absolute(path).map_err(|error| refusal(path, &error))?;
        let mut name = OsString::from(&path);
        name.push(".tmp");
        let name = PathBuf::from(name);
        let (temporary, left) = Temporary::take(name.clone())?;
        // Behind the lock: the server that wrote this file has ended.
        let found = find(&path);
        let is_left = left == Left::Image && !matches!(found, Ok(Some(_)));
        // From here on it is this server's, to be removed, unless it may be all that was saved.
        let mut opened = Self { path, temporary, is_kept: is_left, image: None };
        opened.image = found?;
        if is_left {
            opened.adopt(name)?;
        } else {
            opened.temporary.clear(left)?;
        }
        Ok(opened)
    }

    /// Makes FILE.tmp FILE, as the server that wrote it would have done, had it not been killed.
    fn adopt(&mut self, name: PathBuf) -> Result<(), Failed> {
        self.temporary.become_file(&self.path)?;
        sync_folder(&self.path).map_err(|error| refusal(&self.path, &error))?;
        // If another server takes the name before that, it finds FILE.
        let (temporary, left) = Temporary::take(name)?;
        temporary.clear(left)?;
        (self.temporary, self.is_kept) = (temporary, false);
        self.image = find(&self.path)?;
        Ok(())
    }

    /// The head of the image, if there is one.
    pub fn head(&self) -> Option<ImageHead> {
        self.image.as_ref().map(|(_, head)| *head)
    }

    /// Bytes of the image, if there is one.
    pub fn image_bytes(&self) -> Option<u64> {
        self.image.as_ref().and_then(|(image, _)| image.bytes().ok())
    }

    /// Stores its items in a cache that was built with its head.
    pub fn restore(&self, cache: &Cache, threads: usize) -> Result<Option<Found>, String> {
        let Some((image, head)) = &self.image else { return Ok(None) };
        let began = Stopwatch::start();
        let restored = cache.restore(image, head, threads);
        let restored = restored.map_err(|error| refusal(&self.path, &error))?;
        // No other thread uses the cache yet.
        let evicted = cache.stats().evicted;
        let saved_at = head.wall_at.unwrap_or(head.saved_at);
        let age_s = unix_time().as_secs().saturating_sub(saved_at.into());
        Ok(Some(Found { restored, evicted, age_s, ms: began.elapsed().as_millis() as u64 }))
    }

    /// Removes it: from now on its values may be old.
    pub fn discard(&mut self) -> Result<(), String> {
        if self.image.take().is_none() {
            return Ok(());
        }
        let removed = fs::remove_file(&self.path).and_then(|()| sync_folder(&self.path));
        removed.map_err(|error| {
            format!("cannot remove {} before its items change: {error}", self.path.display())
        })
    }

    /// Writes memory, as long as `goes_on` says so, and as there is room for it. After an error
    /// there is no file.
    pub fn save(
        &mut self,
        cache: &Cache,
        goes_on: impl FnMut() -> bool,
    ) -> Result<Written, String> {
        let is_there = self.temporary.begin()?;
        // Something may have been put there since it was removed. Saved items are older than these,
        // but if FILE.tmp was gone, another server may have saved them.
        let is_free = find(&self.path).map(|found| found.is_none() || is_there);
        if let Ok(false) = is_free {
            let path = self.path.display();
            return Err(format!("{path} exists; another server may have saved it"));
        }
        let file = self.temporary.file();
        let failed = |error: io::Error| self.temporary.failed(&error);
        let written = match cache.save_image(file, goes_on) {
            Ok((_, saved)) => Written::All(saved),
            // A partial image is read as far as it goes. One without a head would be read as
            // damaged.
            Err(error) if is_full(&error) && image_format::open(&Opened(file)).is_ok() => {
                let bytes = file.metadata().map_err(failed)?.len();
                Written::Part { bytes, error }
            }
            Err(error) => return Err(failed(error)),
        };
        file.sync_all().map_err(failed)?;
        if let Err(Failed { text: why, .. }) = is_free {
            self.is_kept = true;
            return Err(format!("{why}; {}", self.temporary.kept(&self.path)));
        }
        self.temporary.become_file(&self.path)?;
        self.is_kept = true;
        sync_folder(&self.path).map_err(|error| {
            format!("cannot make the name of {} durable: {error}", self.path.display())
        })?;
        Ok(written)
    }
}

/// Removes everything except a saved image.
impl Drop for MemoryFile {
    fn drop(&mut self) {
        if !self.is_kept {
            self.temporary.remove();
        }
    }
}

/// The image of this name, if there is one. An empty file counts as none.
fn find(path: &Path) -> Result<Option<(ImageFile, ImageHead)>, Failed> {
    check_kind(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Failed::of_data(refusal(path, &error)),
        _ => refusal(path, &error).into(),
    })?;
    let file = match File::open(path) {
        Ok(file) => Opened(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refusal(path, &error).into()),
    };
    if file.bytes().map_err(|error| refusal(path, &error))? == 0 {
        return Ok(None);
    }
    let head = image_format::open(&file).map_err(|error| match error {
        OpenError::Io(_) => refusal(path, &error).into(),
        _ => Failed::of_data(refusal(path, &error)),
    })?;
    Ok(Some((file, head)))
}

/// Refuses anything but a file, as invalid input.
fn check_kind(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes changes of file names in the folder last.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    File::open(folder)?.sync_all()
}

/// Why a file cannot be used, and what to do about it.
fn refusal(path: &Path, error: &(dyn std::error::Error + 'static)) -> String {
    let advice = match error.downcast_ref::<OpenError>() {
        Some(OpenError::Foreign) => "; it is left unchanged: name another file, or remove it",
        Some(OpenError::Version(_)) => {
            "; start the version of larder that saved it, or remove it to start empty"
        }
        Some(OpenError::Damaged) => "; remove it to start empty",
        _ => "",
    };
    format!("cannot use {} for --memory-file: {error}{advice}", path.display())
}
