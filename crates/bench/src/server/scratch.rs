//! Files of this process that last only as long as it: flash files, folders for keys and counts,
//! files that do not exist yet.
//!
//! They are removed when this is dropped. An interrupt and a panic of a release build drop nothing,
//! so all of them are also in a list, which `children` works off after it has ended the servers.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::failure::{Failure, Outcome};

/// The paths to remove.
static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Only for this user: there may be a key in it.
const FOLDER_MODE: u32 = 0o700;

/// A file or a folder that is removed when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Registers a path at which a file will be made.
    pub fn at(path: PathBuf) -> Scratch {
        if let Ok(mut paths) = PATHS.lock() {
            paths.push(path.clone());
        }
        Scratch { path }
    }

    /// Makes an empty folder for temporary files, whose name begins with `name` and ends with this
    /// process's number.
    pub fn folder(name: &str) -> Outcome<Scratch> {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let scratch = Scratch::at(path);
        // An earlier process of this number may have been killed before it removed the folder.
        let _ = fs::remove_dir_all(&scratch.path);
        let made = DirBuilder::new().mode(FOLDER_MODE).create(&scratch.path);
        made.map_err(Failure::io(format!("making {}", scratch.path.display())))?;
        Ok(scratch)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Ok(mut paths) = PATHS.lock() {
            paths.retain(|path| *path != self.path);
        }
        remove(&self.path);
    }
}

/// Removes all of them. A thread that panics while holding the list leaves them.
pub fn remove_all() {
    for path in PATHS.try_lock().iter().flat_map(|paths| paths.iter()) {
        remove(path);
    }
}

/// Removes a file and the server's companion file beside it for saving memory, or a folder.
fn remove(path: &Path) {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    // Most have only one of the three, and some none: the file was never made.
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(beside);
    let _ = fs::remove_dir_all(path);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::{PATHS, Scratch};

    /// Regression: only flash files were in the list: a private key stayed when a run was
    /// interrupted.
    #[test]
    fn a_folder_is_private_and_listed_until_it_is_removed() {
        let is_listed = |scratch: &Scratch| {
            PATHS.lock().expect("nobody panics with it").iter().any(|path| path == scratch.path())
        };
        let folder = Scratch::folder("larder-bench-tried").expect("a folder");
        assert!(is_listed(&folder));
        let mode = fs::metadata(folder.path()).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::write(folder.path().join("key"), "x").expect("it can be written to");
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists() && !PATHS.lock().expect("no panic").contains(&path));
    }
}
