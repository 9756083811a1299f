//! What this process leaves in the file system for as long as it runs: flash files, folders for
//! keys and counts, files that have no name yet.
//!
//! It goes away when it is dropped. An interrupt and a panic of a release build drop nothing, so
//! all of it is also in one list, which `children` has worked off when it has ended the servers.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::failure::{Failure, Outcome};

/// What is to go away.
static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// A folder is nobody else's business: there may be a key in it.
const FOLDER_MODE: u32 = 0o700;

/// A file or a folder that goes with this.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// For a file that somebody will make at this path.
    pub fn at(path: PathBuf) -> Scratch {
        if let Ok(mut paths) = PATHS.lock() {
            paths.push(path.clone());
        }
        Scratch { path }
    }

    /// An empty folder for temporary files, whose name begins so and ends with this process's
    /// number.
    pub fn folder(name: &str) -> Outcome<Scratch> {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let scratch = Scratch::at(path);
        // A process that had this number may have been killed before it could.
        let _ = fs::remove_dir_all(&scratch.path);
        let made = DirBuilder::new().mode(FOLDER_MODE).create(&scratch.path);
        made.map_err(Failure::io(format!("making {}", scratch.path.display())))?;
        Ok(scratch)
    }

    /// Where it is, once it is there.
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

/// Removes all of it. Who panics while holding the list leaves it.
pub fn remove_all() {
    for path in PATHS.try_lock().iter().flat_map(|paths| paths.iter()) {
        remove(path);
    }
}

/// Removes a file with the one beside it that a server has which is to save memory to it, or a
/// folder.
fn remove(path: &Path) {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    // Most have only one of the three, and some none: nobody has made the file yet.
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(beside);
    let _ = fs::remove_dir_all(path);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::{PATHS, Scratch};

    /// Only flash files were in the list: a private key stayed when a run was interrupted.
    #[test]
    fn a_folder_is_ones_own_and_in_the_list_until_it_goes() {
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
