//! Every child process, so that none outlives the measurement.
//!
//! A guard ends its child when dropped. That is not enough: a release build aborts on a panic and
//! an interrupt ends the process at once, and neither drops anything. So each child is also in
//! one list, which the panic hook and the signal handler work off.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

use super::flash_file;

/// The exit code of a process that was interrupted.
const EXIT_INTERRUPTED: i32 = 130;

static CHILDREN: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// A child that ends with its guard.
#[derive(Debug)]
pub struct Guard {
    pid: u32,
}

impl Guard {
    /// Starts a child.
    pub fn spawn(command: &mut Command) -> io::Result<Guard> {
        // The lock is held over the start: an interrupt must not fall between start and list.
        let mut children = lock();
        let child = command.spawn()?;
        let pid = child.id();
        children.push(child);
        Ok(Guard { pid })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Asks the child to end, in its own time.
    pub fn ask_to_end(&self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Ends the child at once, whatever it is doing.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    /// Whether the child has ended by itself.
    pub fn has_ended(&self) -> bool {
        let mut children = lock();
        let child = children.iter_mut().find(|child| child.id() == self.pid);
        child.is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// How the child has ended, if it has.
    pub fn status(&self) -> Option<ExitStatus> {
        let mut children = lock();
        let child = children.iter_mut().find(|child| child.id() == self.pid)?;
        child.try_wait().ok().flatten()
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut children = lock();
        if let Some(at) = children.iter().position(|child| child.id() == self.pid) {
            end(&mut children.swap_remove(at));
        }
    }
}

/// Makes panics and interrupts end all children and remove the files of their flash tiers. Call
/// once, at the start.
pub fn end_with_this_process() -> Result<(), ctrlc::Error> {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        // The panicking thread may hold the list; then it is left to the other thread.
        if let Ok(mut children) = CHILDREN.try_lock() {
            children.iter_mut().for_each(end);
        }
        flash_file::remove_all();
    }));
    ctrlc::set_handler(|| {
        let mut children = lock();
        children.iter_mut().for_each(end);
        flash_file::remove_all();
        std::process::exit(EXIT_INTERRUPTED);
    })
}

fn lock() -> MutexGuard<'static, Vec<Child>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end(child: &mut Child) {
    // Both fail only if the child has ended and been waited for already.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::Guard;
    use std::path::Path;
    use std::process::Command;

    #[test]
    fn a_dropped_guard_leaves_no_process() {
        let guard = Guard::spawn(Command::new("sleep").arg("1000")).expect("sleep exists");
        let path = format!("/proc/{}", guard.pid());
        assert!(!guard.has_ended());
        assert!(Path::new(&path).exists());
        drop(guard);
        assert!(!Path::new(&path).exists());
    }
}
