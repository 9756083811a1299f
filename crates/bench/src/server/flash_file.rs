//! The file of a server's flash tier, memory or database while it is measured; it is removed when
//! this is dropped, unless it is kept.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::scratch::Scratch;
use crate::failure::{Failure, Outcome};

/// Gives each file of this process a name of its own. Relaxed: nothing else depends on it.
static NAMED: AtomicU32 = AtomicU32::new(0);

/// A path where a server may make its file.
#[derive(Debug)]
pub struct FlashFile {
    path: PathBuf,
    /// `None` if the file stays.
    scratch: Option<Scratch>,
}

impl FlashFile {
    /// Returns a path that nobody else uses, in `folder` or the folder of temporary files. With
    /// `is_kept` the file stays.
    pub fn in_folder(folder: Option<&Path>, is_kept: bool) -> Outcome<FlashFile> {
        let folder = folder.map_or_else(std::env::temp_dir, Path::to_owned);
        let doing = format!("making {}", folder.display());
        std::fs::create_dir_all(&folder).map_err(Failure::io(doing))?;
        let number = NAMED.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("larder-bench-{}-{number}.flash", std::process::id()));
        if path.display().to_string().contains(char::is_whitespace) {
            return Err(Failure::Usage(format!("{} has a space in it", folder.display())));
        }
        let scratch = (!is_kept).then(|| Scratch::at(path.clone()));
        Ok(FlashFile { path, scratch })
    }

    /// Returns the path of the file, once a server has made it.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for FlashFile {
    fn drop(&mut self) {
        if self.scratch.is_none() {
            eprintln!("larder-bench: {} is kept", self.path.display());
        }
    }
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
