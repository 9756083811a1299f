//! Files that belong to one process, and one user, alone.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::moment::Stopwatch;
use crate::process::user;

/// How long to wait for a file to be released: on a restart the new server may be started when the
/// old one has been told to stop and has not ended yet.
const PATIENCE: Duration = Duration::from_secs(2);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Locks a file for as long as it is open. [`io::ErrorKind::WouldBlock`] where another opening, of
/// this process or of any other, holds the lock for two seconds more.
pub fn lock(file: &File) -> io::Result<()> {
    lock_within(file, PATIENCE)
}

/// Lets only its owner read or write a file, if that is the user that the process runs as. Anything
/// but a regular file stays as it is.
pub fn make_private(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    let is_ours = found.is_file() && found.uid() == user();
    if is_ours && found.mode() & 0o177 != 0 {
        file.set_permissions(PermissionsExt::from_mode(0o600))?;
    }
    Ok(())
}

fn lock_within(file: &File, patience: Duration) -> io::Result<()> {
    let began = Stopwatch::start();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if began.elapsed() < patience => std::thread::sleep(PAUSE),
            ended => return ended.map_err(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_there_is_made_its_owners_alone() {
        let place = tempfile::NamedTempFile::new().expect("writable");
        for mode in [0o644, 0o660, 0o606, 0o700] {
            place.as_file().set_permissions(PermissionsExt::from_mode(mode)).expect("ours");
            make_private(place.as_file()).expect("ours");
            let found = place.as_file().metadata().expect("it is there");
            assert_eq!(found.mode() & 0o777, 0o600, "{mode:o}");
        }
        let folder = tempfile::tempdir().expect("writable");
        let before = folder.path().metadata().expect("it is there").mode();
        make_private(&File::open(folder.path()).expect("readable")).expect("nothing to do");
        assert_eq!(folder.path().metadata().expect("it is there").mode(), before);
    }

    #[test]
    fn a_file_that_becomes_free_meanwhile_is_locked() {
        let place = tempfile::NamedTempFile::new().expect("writable");
        let first = place.reopen().expect("readable");
        lock(&first).expect("nobody has it");
        let second = place.reopen().expect("readable");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lock_within(&second, Duration::MAX));
            std::thread::sleep(10 * PAUSE);
            assert!(!waits.is_finished(), "it has been locked twice");
            drop(first);
            waits.join().expect("no panic").expect("it is free");
        });
        let third = place.reopen().expect("readable");
        let refused = lock_within(&third, Duration::ZERO).expect_err("it is kept");
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    }
}
