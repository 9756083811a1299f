//! The kernel's counts for a process: CPU time and resident memory.
//!
//! CPU time is kept twice. `schedstat` has nanoseconds, for each living thread: a thread's time is
//! lost when it ends. `stat` has clock ticks of usually 10 ms, and includes ended threads. So the
//! nanoseconds count, unless the ticks exceed them by more than their error.
//!
//! A server may be the child of the started program, such as a script that does not `exec`: figures
//! are those of a process and all its descendants.

use std::fs;

use crate::failure::{Failure, Outcome};

/// Written to `clear_refs`, it resets the peak of resident memory to the present.
const RESET_PEAK: &str = "5";
/// The error of a difference of two counts, in ticks: fractions of user and system time at either
/// end, and readings at different moments.
const TICKS_WRONG_MAX: u64 = 3;

/// Resident memory of a process, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Resident {
    /// Now.
    pub bytes: u64,
    /// The highest since the start or the last reset, by the kernel's count: no sampling.
    pub peak_bytes: u64,
}

/// Returns the bytes that a process has had written to storage, in the page cache or past it.
pub fn written_bytes(pid: u32) -> Outcome<u64> {
    let path = format!("/proc/{pid}/io");
    let text = fs::read_to_string(&path).map_err(Failure::io(format!("reading {path}")))?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes:"));
    let bytes = line.and_then(first_number);
    bytes.ok_or_else(|| Failure::Reply(format!("{path} has no write_bytes")))
}

/// The CPU time of a process and all its descendants so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    /// Of all living threads; 0 where the kernel does not keep it.
    threads_ns: u64,
    /// Of all threads that ever were, in whole ticks of the clock.
    ticks: u64,
}

impl CpuTime {
    /// Returns the time of this process so far.
    pub fn of(pid: u32) -> Outcome<CpuTime> {
        let mut all = CpuTime { threads_ns: 0, ticks: 0 };
        for one in of_family(pid, CpuTime::of_one)? {
            all.threads_ns += one.threads_ns;
            all.ticks += one.ticks;
        }
        Ok(all)
    }

    /// Returns the time of the calling process so far, without its servers.
    pub fn own() -> Outcome<CpuTime> {
        CpuTime::of_one(std::process::id())
    }

    fn of_one(pid: u32) -> Outcome<CpuTime> {
        let path = format!("/proc/{pid}/stat");
        let text = fs::read_to_string(&path).map_err(Failure::io(format!("reading {path}")))?;
        let ticks = ticks_of(&text).ok_or_else(|| Failure::Reply(format!("{path}: {text}")))?;
        let folder = format!("/proc/{pid}/task");
        let threads = fs::read_dir(&folder).map_err(Failure::io(format!("reading {folder}")))?;
        // A thread that ends meanwhile is left to the ticks.
        let stats = threads.flatten().map(|it| fs::read_to_string(it.path().join("schedstat")));
        let threads_ns = stats.flatten().filter_map(|text| first_number(&text)).sum();
        Ok(CpuTime { threads_ns, ticks })
    }

    /// Returns the nanoseconds since an earlier moment.
    pub fn since_ns(self, before: CpuTime) -> Outcome<u64> {
        let backwards = || Failure::Ended("CPU time ran backwards: was a process replaced?".into());
        let ticks = self.ticks.checked_sub(before.ticks).ok_or_else(backwards)?;
        // The time of ended threads is missing from it.
        let threads_ns = self.threads_ns.saturating_sub(before.threads_ns);
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        let is_lacking = threads_ns < ticks.saturating_sub(TICKS_WRONG_MAX) * tick_ns;
        let is_kept = self.threads_ns > 0;
        Ok(if is_lacking || !is_kept { ticks * tick_ns } else { threads_ns })
    }
}

/// Returns a process and all its descendants, the process first.
fn family(pid: u32) -> Vec<u32> {
    let mut pids = vec![pid];
    let mut next = 0;
    while let Some(pid) = pids.get(next) {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let children = threads.flat_map(|it| fs::read_to_string(it.path().join("children")));
        let children: Vec<u32> = children
            .flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<u32>>())
            .collect();
        pids.extend(children);
        next += 1;
    }
    pids
}

/// Returns a figure of a process and of all its descendants. These may end at any time.
fn of_family<T>(pid: u32, of_one: fn(u32) -> Outcome<T>) -> Outcome<Vec<T>> {
    let mut all = vec![of_one(pid)?];
    all.extend(family(pid).into_iter().skip(1).flat_map(of_one));
    Ok(all)
}

/// Returns resident memory now and at its peak. The peaks of several processes are added up,
/// whatever their times.
pub fn resident(pid: u32) -> Outcome<Resident> {
    let mut all = Resident { bytes: 0, peak_bytes: 0 };
    for one in of_family(pid, resident_of_one)? {
        all.bytes += one.bytes;
        all.peak_bytes += one.peak_bytes;
    }
    Ok(all)
}

fn resident_of_one(pid: u32) -> Outcome<Resident> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(Failure::io(format!("reading {path}")))?;
    let missing = |name| Failure::Reply(format!("{path} has no {name}: has the server ended?"));
    resident_of_status(&text).map_err(missing)
}

/// Parses the memory of a process, wherever the kernel has put it: swapped-out pages were allocated
/// like others, and huge pages of a pool are in no other count. Fails with the missing field.
fn resident_of_status(status: &str) -> Result<Resident, &'static str> {
    let field = |name| status_bytes(status, name).ok_or(name);
    let elsewhere = ["VmSwap:", "HugetlbPages:"].map(|name| status_bytes(status, name));
    let elsewhere: u64 = elsewhere.into_iter().flatten().sum();
    let bytes = field("VmRSS:")? + elsewhere;
    Ok(Resident { bytes, peak_bytes: field("VmHWM:")?.max(bytes) })
}

/// Resets the peak to the present. A kernel without this keeps the peak since the start, against
/// which a limit can be checked just as well.
pub fn reset_peak(pid: u32) {
    for pid in family(pid) {
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), RESET_PEAK);
    }
}

/// Returns `utime + stime`: the fields 14 and 15, counted after the name, which may hold anything.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn status_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    first_number(line.strip_prefix(name)?).map(|kib| kib * 1024)
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::written_bytes;
    use super::{CpuTime, family, resident, resident_of_status, status_bytes, ticks_of};
    use crate::server::children::Guard;

    #[test]
    fn fields_are_found_behind_a_strange_name() {
        let stat = "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 30 12 0 0 20";
        assert_eq!(ticks_of(stat), Some(42));
        assert_eq!(status_bytes("Name:\tx\nVmRSS:\t  12 kB\n", "VmRSS:"), Some(12 * 1024));
        assert_eq!(status_bytes("Name:\tx\n", "VmRSS:"), None);
    }

    /// Regression: a server whose cold pages had been swapped out kept its limit and held the most
    /// items per GiB.
    #[test]
    fn swapped_out_memory_counts() {
        let status = "VmHWM:\t 120 kB\nVmRSS:\t 100 kB\nHugetlbPages:\t 8 kB\nVmSwap:\t 30 kB\n";
        let Ok(found) = resident_of_status(status) else { panic!("nothing is missing") };
        assert_eq!((found.bytes, found.peak_bytes), (138 << 10, 138 << 10));
        let without = resident_of_status("VmHWM:\t 120 kB\nVmRSS:\t 100 kB\n");
        assert!(without.is_ok_and(|it| (it.bytes, it.peak_bytes) == (100 << 10, 120 << 10)));
        assert_eq!(resident_of_status("VmHWM:\t 120 kB\n").err(), Some("VmRSS:"));
    }

    #[test]
    fn this_process_has_run_and_is_resident() {
        let none = CpuTime { threads_ns: 0, ticks: 0 };
        assert!(CpuTime::own().expect("proc is mounted").since_ns(none).expect("more") > 0);
        let resident = resident(std::process::id()).expect("proc is mounted");
        assert!(resident.bytes > 0 && resident.peak_bytes > 0);
        assert!(written_bytes(std::process::id()).is_ok());
    }

    /// Regression: a thread that ended took its time out of the sum, and the difference overflowed.
    #[test]
    fn the_time_of_an_ended_thread_counts() {
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        let before = CpuTime { threads_ns: 5_000_000_000, ticks: 500 };
        let after = CpuTime { threads_ns: 1_000_000_000, ticks: 700 };
        assert_eq!(after.since_ns(before).expect("more ticks"), 200 * tick_ns);
        let exact = CpuTime { threads_ns: before.threads_ns + 2 * tick_ns, ticks: 503 };
        assert_eq!(exact.since_ns(before).expect("more ticks"), 2 * tick_ns);
        assert!(before.since_ns(after).is_err(), "another process");
    }

    /// Regression: a peer started by a script was measured as the shell.
    #[test]
    fn the_children_of_a_script_count_as_its_own() {
        let script = "while :; do :; done & wait";
        let guard = Guard::spawn(Command::new("sh").args(["-c", script])).expect("a shell");
        let before = CpuTime::of(guard.pid()).expect("it lives");
        let begun = Instant::now();
        let run_ns = |now: CpuTime| now.since_ns(before).expect("it only grows");
        while run_ns(CpuTime::of(guard.pid()).expect("it lives")) < 20_000_000 {
            assert!(begun.elapsed() < Duration::from_secs(60), "the loop does not count");
            thread::yield_now();
        }
        assert_eq!(family(guard.pid()).len(), 2);
    }
}
