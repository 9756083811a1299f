//! What the kernel counted for a process: time on a CPU and resident memory.
//!
//! CPU time is the sum of `schedstat` over all threads, in nanoseconds of running. Where the
//! kernel does not keep it, it is `utime + stime` in clock ticks of usually 10 ms, which needs
//! runs of some seconds to be worth reading.

use std::fs;

use crate::failure::{Failure, Outcome};

/// Written to `clear_refs`, it sets the peak of resident memory back to the present.
const RESET_PEAK: &str = "5";

/// Resident memory of a process, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Resident {
    /// Now.
    pub bytes: u64,
    /// The highest since the start or the last reset, as the kernel saw it: no sampling.
    pub peak_bytes: u64,
}

/// Bytes that a process has had written to storage, in the page cache or past it.
pub fn written_bytes(pid: u32) -> Outcome<u64> {
    let path = format!("/proc/{pid}/io");
    let text = fs::read_to_string(&path).map_err(Failure::io(format!("reading {path}")))?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes:"));
    let bytes = line.and_then(first_number);
    bytes.ok_or_else(|| Failure::Reply(format!("{path} has no write_bytes")))
}

/// Nanoseconds that all threads of a process have run.
pub fn cpu_ns(pid: u32) -> Outcome<u64> {
    let folder = format!("/proc/{pid}/task");
    let threads = fs::read_dir(&folder).map_err(Failure::io(format!("reading {folder}")))?;
    let mut total = 0;
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("schedstat")) {
            Ok(text) => total += first_number(&text).unwrap_or(0),
            Err(_) => return cpu_ns_from_ticks(pid),
        }
    }
    if total > 0 { Ok(total) } else { cpu_ns_from_ticks(pid) }
}

/// Nanoseconds that the calling process has run.
pub fn own_cpu_ns() -> Outcome<u64> {
    cpu_ns(std::process::id())
}

/// Resident memory now and at its highest.
pub fn resident(pid: u32) -> Outcome<Resident> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(Failure::io(format!("reading {path}")))?;
    let field = |name| {
        status_bytes(&text, name)
            .ok_or_else(|| Failure::Reply(format!("{path} has no {name}: has the server ended?")))
    };
    Ok(Resident { bytes: field("VmRSS:")?, peak_bytes: field("VmHWM:")? })
}

/// Sets the peak back to the present. A kernel without this keeps the peak since the start, which
/// a limit can be checked against just as well.
pub fn reset_peak(pid: u32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), RESET_PEAK);
}

fn cpu_ns_from_ticks(pid: u32) -> Outcome<u64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).map_err(Failure::io(format!("reading {path}")))?;
    let ticks = ticks_of(&text).ok_or_else(|| Failure::Reply(format!("{path}: {text}")))?;
    Ok(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second())
}

/// `utime + stime`: the fields 14 and 15, counted behind the name, which may hold anything.
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
    use super::{cpu_ns_from_ticks, own_cpu_ns, resident, status_bytes, ticks_of, written_bytes};

    #[test]
    fn fields_are_found_behind_a_strange_name() {
        let stat = "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 30 12 0 0 20";
        assert_eq!(ticks_of(stat), Some(42));
        assert_eq!(status_bytes("Name:\tx\nVmRSS:\t  12 kB\n", "VmRSS:"), Some(12 * 1024));
        assert_eq!(status_bytes("Name:\tx\n", "VmRSS:"), None);
    }

    #[test]
    fn this_process_has_run_and_is_resident() {
        assert!(own_cpu_ns().expect("proc is mounted") > 0);
        assert!(cpu_ns_from_ticks(std::process::id()).is_ok());
        let resident = resident(std::process::id()).expect("proc is mounted");
        assert!(resident.bytes > 0 && resident.peak_bytes > 0);
        assert!(written_bytes(std::process::id()).is_ok());
    }
}
