//! All child processes, so that none outlives the measurement.
//!
//! A guard ends its child when dropped. That is not enough: a release build aborts on a panic and
//! an interrupt ends the process at once, and neither drops anything. So each child is also in a
//! list, which the panic hook and the signal handler work off.
//!
//! A started program may be a script, and the server its child. So each child leads a process group
//! of its own, which is ended as a whole.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use super::scratch;

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
        // The lock is held during the start: an interrupt must not fall between start and list.
        let mut children = lock();
        let child = command.process_group(0).spawn()?;
        let pid = child.id();
        children.push(child);
        Ok(Guard { pid })
    }

    /// Returns its process id.
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

    /// Returns whether the child has ended by itself.
    pub fn has_ended(&self) -> bool {
        let mut children = lock();
        let child = children.iter_mut().find(|child| child.id() == self.pid);
        child.is_none_or(|child| state(child) != State::Runs)
    }

    /// Returns the status of a child that has ended.
    pub fn status(&self) -> Option<ExitStatus> {
        let mut children = lock();
        let child = children.iter_mut().find(|child| child.id() == self.pid)?;
        if state(child) == State::Ended {
            end(child);
        }
        child.try_wait().ok().flatten()
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = pid_of(self.pid).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(kill_process(pid, signal)?)
    }
}

fn pid_of(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut children = lock();
        if let Some(at) = children.iter().position(|child| child.id() == self.pid) {
            end(&mut children.swap_remove(at));
        }
    }
}

/// Makes panics and interrupts end all children and remove the files of this process. Call once, at
/// the start.
pub fn end_with_this_process() -> Result<(), ctrlc::Error> {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        // The panicking thread may hold the list; then it is left to the other thread.
        if let Ok(mut children) = CHILDREN.try_lock() {
            children.iter_mut().for_each(end);
        }
        scratch::remove_all();
    }));
    ctrlc::set_handler(|| {
        let mut children = lock();
        children.iter_mut().for_each(end);
        scratch::remove_all();
        std::process::exit(EXIT_INTERRUPTED);
    })
}

fn lock() -> MutexGuard<'static, Vec<Child>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    /// Ended but not waited for: its number is still its own, and that of its group.
    Ended,
    /// Waited for: its number may belong to another process by now.
    WaitedFor,
}

fn state(child: &Child) -> State {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match pid_of(child.id()).map(|pid| waitid(WaitId::Pid(pid), options)) {
        Some(Ok(None)) => State::Runs,
        Some(Ok(Some(_))) => State::Ended,
        Some(Err(_)) | None => State::WaitedFor,
    }
}

fn end(child: &mut Child) {
    if state(child) != State::WaitedFor
        && let Some(group) = pid_of(child.id())
    {
        // It fails only if there is no such group, and then there is nothing to end.
        let _ = kill_process_group(group, Signal::KILL);
    }
    // It fails only if the child has ended and been waited for already.
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::Guard;
    use std::io::{BufRead, BufReader};
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn a_dropped_guard_leaves_no_process() {
        let guard = Guard::spawn(Command::new("sleep").arg("1000")).expect("sleep exists");
        let path = format!("/proc/{}", guard.pid());
        assert!(!guard.has_ended());
        assert!(Path::new(&path).exists());
        drop(guard);
        assert!(!Path::new(&path).exists());
    }

    /// Regression: the server of a peer that was a script lived on.
    #[test]
    fn ending_a_child_ends_its_own_children() {
        let mut script = Command::new("sh");
        script.args(["-c", "sleep 1000 & echo $!; wait"]).stdout(Stdio::piped());
        let guard = Guard::spawn(&mut script).expect("a shell");
        let mut number = String::new();
        let mut children = super::lock();
        let child = children.iter_mut().find(|child| child.id() == guard.pid());
        let output = child.and_then(|child| child.stdout.take());
        drop(children);
        BufReader::new(output.expect("it is piped")).read_line(&mut number).expect("a number");
        let path = format!("/proc/{}/cmdline", number.trim());
        let lives = || std::fs::read_to_string(&path).is_ok_and(|words| words.contains("1000"));
        let is_soon = |wanted: bool| {
            let begun = Instant::now();
            while lives() != wanted {
                assert!(begun.elapsed() < Duration::from_secs(60), "{path}: not {wanted}");
                std::thread::yield_now();
            }
        };
        // Its command line is empty between its fork and the end of its exec.
        is_soon(true);
        drop(guard);
        // The process that inherits it has to wait for it: until then it is there, with an empty
        // command line again.
        is_soon(false);
    }
}
