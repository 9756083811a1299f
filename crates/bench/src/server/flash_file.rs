//! The file that a server's flash tier, or its memory, is put on for as long as it is measured.
//!
//! A file goes away when it is dropped. An interrupt and a panic of a release build drop nothing,
//! so files are also in one list, which `children` has worked off when it ends the servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::failure::{Failure, Outcome};

/// So that each file of this process has a name of its own. Nothing else hangs on it.
static NAMED: AtomicU32 = AtomicU32::new(0);
/// Files that are to go away.
static FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A path where a server may make its file; the file goes away with this.
#[derive(Debug)]
pub struct FlashFile {
    path: PathBuf,
    is_kept: bool,
}

impl FlashFile {
    /// A path that nobody else uses, in `folder` or that for temporary files. With `is_kept` the
    /// file stays.
    pub fn in_folder(folder: Option<&Path>, is_kept: bool) -> Outcome<FlashFile> {
        let folder = folder.map_or_else(std::env::temp_dir, Path::to_owned);
        fs::create_dir_all(&folder).map_err(Failure::io(format!("making {}", folder.display())))?;
        let number = NAMED.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("larder-bench-{}-{number}.flash", std::process::id()));
        if path.display().to_string().contains(char::is_whitespace) {
            return Err(Failure::Usage(format!("{} has a space in it", folder.display())));
        }
        if let (false, Ok(mut files)) = (is_kept, FILES.lock()) {
            files.push(path.clone());
        }
        Ok(FlashFile { path, is_kept })
    }

    /// Where it is, once a server has made it.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes all files that are not kept. Who panics while holding the list leaves them.
pub fn remove_all() {
    for path in FILES.try_lock().iter().flat_map(|files| files.iter()) {
        remove(path);
    }
}

impl Drop for FlashFile {
    fn drop(&mut self) {
        if let Ok(mut files) = FILES.lock() {
            files.retain(|path| *path != self.path);
        }
        if self.is_kept {
            eprintln!("larder-bench: the flash tier is kept in {}", self.path.display());
        } else {
            remove(&self.path);
        }
    }
}

/// Removes a file, and the one beside it that a server has which is to save memory to it.
fn remove(path: &Path) {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    // Without a tier there is no such file.
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(beside);
}

#[cfg(test)]
mod tests {
    use super::FlashFile;
    use crate::trace::testing::Folder;

    #[test]
    fn files_differ_and_go_away() {
        let folder = Folder::new();
        let dir = folder.path("tiers");
        let files = [0, 1].map(|_| FlashFile::in_folder(Some(&dir), false).expect("writable"));
        assert_ne!(files[0].path(), files[1].path());
        let path = files[0].path().to_owned();
        std::fs::write(&path, b"items").expect("writable");
        drop(files);
        assert!(!path.exists());
        let spaced = folder.path("a folder");
        assert!(FlashFile::in_folder(Some(&spaced), false).is_err());
    }
}
