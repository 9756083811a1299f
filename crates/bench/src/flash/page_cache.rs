//! Keeps the kernel's page cache from serving reads: the cached pages of a file are written back
//! and dropped at short intervals.
//!
//! extstore reads and writes through the page cache, memory that is charged to nobody; a file that
//! is small compared with the machine's memory is then never read from the device at all. Limiting
//! that memory takes rights that not everyone has (cgroups), whereas anyone may drop the pages of
//! one's own file. Data read twice within the pause still comes from memory.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{Advice, fadvise, fdatasync};

use crate::failure::{Failure, Outcome};

/// The pause between two drops: some hundred reads at ten thousand a second.
const PAUSE: Duration = Duration::from_millis(20);

/// Does `work` while the pages of a file are dropped again and again.
pub fn without<R>(path: &Path, work: impl FnOnce() -> Outcome<R>) -> Outcome<R> {
    let doing = || format!("dropping what is cached of {}", path.display());
    let file = File::open(path).map_err(Failure::io(doing()))?;
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let dropping = scope.spawn(move || {
            // The sender hangs up when the work is done, also by a panic.
            while ended.recv_timeout(PAUSE) == Err(mpsc::RecvTimeoutError::Timeout) {
                drop_pages(&file)?;
            }
            Ok(())
        });
        let done = work();
        drop(end);
        let dropped: std::io::Result<()> = dropping.join().expect("dropping does not panic");
        dropped.map_err(Failure::io(doing()))?;
        done
    })
}

/// Drops a file's pages, which have to be written back first.
fn drop_pages(file: &File) -> std::io::Result<()> {
    fdatasync(file)?;
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

#[cfg(test)]
mod tests {
    use super::without;
    use crate::trace::testing::Folder;

    #[test]
    fn work_is_done_and_a_missing_file_is_told() {
        let folder = Folder::new();
        let path = folder.write("file", b"bytes");
        assert_eq!(without(&path, || Ok(7)).expect("it is there"), 7);
        assert_eq!(std::fs::read(&path).expect("it is there"), b"bytes");
        let missing = without(&folder.path("none"), || Ok(7)).expect_err("it is not there");
        assert!(missing.to_string().contains("none"), "{missing}");
    }
}
