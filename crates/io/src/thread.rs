//! The calling thread's place in the kernel's schedule.
//!
//! Threads that share a core take turns. A thread that is woken waits until the turn of the running
//! one is over, milliseconds by default, unless it asks for a shorter turn than that one has and is
//! due (the `PREEMPT_SHORT` of Linux 6.12). Each keeps its share of the core, so no thread is
//! starved by it: short turns only come sooner.

use std::io;
use std::mem::size_of;
use std::time::Duration;

/// The shortest turn that the kernel grants.
const TURN_NS: u64 = 100_000;
/// Ten steps of priority below the usual, each of which is a fifth of a share.
const LATE_NICE: i32 = 10;

/// Asks for short turns for the calling thread, because another waits for it, or because it yields,
/// which gives up the rest of a turn. Kernels before 6.12 take no notice, and a thread with a
/// real-time policy keeps it. An error leaves everything as it was.
pub fn ask_for_short_turns() -> io::Result<()> {
    let mut attributes = attributes()?;
    let policy = attributes.sched_policy as i32;
    if policy == libc::SCHED_OTHER || policy == libc::SCHED_BATCH {
        attributes.sched_runtime = TURN_NS;
        set(&attributes)?;
    }
    Ok(())
}

/// Lets the calling thread come after all others, because no thread waits for it: beside one that
/// is always busy it has a tenth of a core. A thread with a real-time policy keeps it, and one with
/// a later place already keeps that. An error leaves everything as it was.
pub fn step_back() -> io::Result<()> {
    let mut attributes = attributes()?;
    let policy = attributes.sched_policy as i32;
    if policy == libc::SCHED_OTHER || policy == libc::SCHED_BATCH {
        attributes.sched_nice = attributes.sched_nice.max(LATE_NICE);
        set(&attributes)?;
    }
    Ok(())
}

/// Lets the calling thread run only where no other thread wants the core, and leave it at once when
/// one does. An error leaves everything as it was.
pub fn take_idle_time() -> io::Result<()> {
    let mut attributes = attributes()?;
    attributes.sched_policy = libc::SCHED_IDLE as u32;
    set(&attributes)
}

/// Leaves the core to others for `duration`: for a thread that waits for an event of which no other
/// thread could tell it without becoming slower.
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// The attributes of the calling thread.
fn attributes() -> io::Result<libc::sched_attr> {
    let mut attributes = libc::sched_attr {
        size: 0,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let bytes = size_of::<libc::sched_attr>();
    // SAFETY: the pointer is valid for a write of `bytes` bytes, and any bytes are a sched_attr. 0
    // is the calling thread.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, bytes, 0) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(attributes) }
}

/// Sets the attributes of the calling thread.
fn set(attributes: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: the pointer is valid for a read of as many bytes as the kernel itself has written
    // into its first field. 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn stepping_back_lowers_the_priority_and_never_raises_it() {
        let nice_after = |nice: libc::c_int| {
            let tried = thread::spawn(move || {
                // SAFETY: a plain number, for the calling thread.
                assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }, 0);
                step_back().expect("anybody may step back");
                attributes().expect("anybody may ask").sched_nice
            });
            tried.join().expect("nothing panics there")
        };
        for (nice, after) in [(3, LATE_NICE), (LATE_NICE, LATE_NICE), (15, 15)] {
            assert_eq!(nice_after(nice), after);
        }
    }

    #[test]
    fn taking_idle_time_sets_the_policy_for_it() {
        let tried = thread::spawn(|| {
            take_idle_time().expect("anybody may have less");
            attributes().expect("anybody may ask").sched_policy
        });
        let policy = tried.join().expect("nothing panics there");
        assert_eq!(policy, libc::SCHED_IDLE as u32);
    }

    #[test]
    fn short_turns_change_neither_the_policy_nor_the_share() {
        let tried = thread::spawn(|| {
            // SAFETY: a plain number, for the calling thread.
            assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 3) }, 0);
            let before = attributes().expect("anybody may ask");
            let asked = ask_for_short_turns();
            (before, asked, attributes().expect("anybody may ask"))
        });
        let (before, asked, after) = tried.join().expect("nothing panics there");
        assert_eq!(before.sched_nice, 3);
        assert_eq!(
            (after.sched_policy, after.sched_nice, after.sched_priority),
            (before.sched_policy, before.sched_nice, before.sched_priority)
        );
        // Kernels that support turns tell their length; others say 0.
        if asked.is_ok() && before.sched_runtime != 0 {
            assert_eq!(after.sched_runtime, TURN_NS);
        } else {
            assert_eq!(after.sched_runtime, before.sched_runtime);
        }
    }
}
