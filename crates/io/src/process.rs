//! The process as the kernel sees it: its user, its limits, its memory locks, its CPU time.
//!
//! All of it is done once at the start, before there is a second thread, except [`cpu_time`].

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Turns a system call's `-1` into its error.
fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Runs `create` such that the files it creates have at most the permission bits `mode`.
pub fn with_file_mode<T>(mode: u32, create: impl FnOnce() -> T) -> T {
    // SAFETY: umask only changes a number of the process and cannot fail.
    let before = unsafe { libc::umask(!mode & 0o777) };
    let result = create();
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    result
}

/// The identity of this boot of the machine.
pub fn boot_id() -> io::Result<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits = text.bytes().filter_map(|byte| char::from(byte).to_digit(16));
    let mut id = [0; 16];
    let mut count = 0;
    for digit in digits.take(2 * id.len()) {
        id[count / 2] = id[count / 2] << 4 | digit as u8;
        count += 1;
    }
    if count == 2 * id.len() { Ok(id) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The number of the user that the process runs as.
pub fn user() -> u32 {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether the process runs as root.
pub fn is_root() -> bool {
    user() == 0
}

/// A user of the system, with the main group.
#[derive(Debug, Clone, Copy)]
pub struct User {
    /// The user's number.
    pub user: u32,
    /// The group's.
    pub group: u32,
}

impl User {
    /// Looks the user `name` up.
    pub fn named(name: &str) -> io::Result<Self> {
        let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: `name` ends in a zero byte; the result is only used before the next call of
        // getpwnam, and no other thread exists yet that could make one.
        let entry = unsafe { libc::getpwnam(name.as_ptr()) };
        if entry.is_null() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such user"));
        }
        // SAFETY: getpwnam returned a pointer that is not null, so it points at an entry.
        let (user, group) = unsafe { ((*entry).pw_uid, (*entry).pw_gid) };
        Ok(Self { user, group })
    }

    /// Makes the process this user's, with the main group and no other.
    pub fn become_it(self) -> io::Result<()> {
        // SAFETY: a list of length 0 is not read, so a null pointer is allowed.
        check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
        // SAFETY: plain numbers.
        check(unsafe { libc::setgid(self.group) })?;
        // SAFETY: plain numbers. Last, because only root may do the two before.
        check(unsafe { libc::setuid(self.user) })
    }
}

/// Keeps the memory that the process touches, now and later, out of swap. Addresses that are only
/// reserved take none, but count against [`lock_limit`].
pub fn lock_memory() -> io::Result<()> {
    let what = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: plain flags.
    check(unsafe { libc::mlockall(what) })
}

/// Allows any amount of locked memory, which only root may do; the limit stays when the process
/// becomes another user.
pub fn raise_lock_limit() -> io::Result<()> {
    let lock = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `lock` is a valid rlimit that the call only reads.
    check(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &lock) })
}

/// The bytes of addresses that may be locked; `None` where there is no limit.
pub fn lock_limit() -> Option<u64> {
    let bytes = limit(libc::RLIMIT_MEMLOCK).ok()?.rlim_cur;
    (bytes != libc::RLIM_INFINITY).then_some(bytes)
}

/// The type of a resource's number, which differs between C libraries.
#[cfg(target_env = "musl")]
type Resource = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Resource = libc::__rlimit_resource_t;

/// Reads a resource limit.
fn limit(resource: Resource) -> io::Result<libc::rlimit> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: the pointer is valid for a write of one rlimit.
    check(unsafe { libc::getrlimit(resource, limit.as_mut_ptr()) })?;
    // SAFETY: getrlimit succeeded, so it has filled the limit in.
    Ok(unsafe { limit.assume_init() })
}

/// Lets a crash write as large a core file as the hard limit allows.
pub fn raise_core_limit() -> io::Result<()> {
    let mut core = limit(libc::RLIMIT_CORE)?;
    core.rlim_cur = core.rlim_max;
    // SAFETY: `core` is a valid rlimit that the call only reads.
    check(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &core) })
}

/// Allows at least `files` open files; above the hard limit only root may.
pub fn raise_file_limit(files: u64) -> io::Result<()> {
    let mut open = limit(libc::RLIMIT_NOFILE)?;
    if open.rlim_cur >= files {
        return Ok(());
    }
    open.rlim_cur = files;
    open.rlim_max = open.rlim_max.max(files);
    // SAFETY: `open` is a valid rlimit that the call only reads.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &open) })
}

/// The most open files that a process may allow itself without being root.
pub fn file_limit() -> io::Result<u64> {
    Ok(limit(libc::RLIMIT_NOFILE)?.rlim_max)
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail, as one on a full disk does, rather
/// than end the process.
pub fn survive_file_limit() -> io::Result<()> {
    // SAFETY: an ignored signal runs no code, and this one has no other use.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Continues in the background: a new process without a terminal, its standard streams to nowhere.
/// To be called while there is only one thread.
pub fn daemonize() -> io::Result<()> {
    // SAFETY: the caller has one thread, so the child's copy of the memory is consistent.
    check(unsafe { libc::daemon(1, 0) })
}

/// The resident memory of the process, in bytes, as the kernel counts it; `None` where it does not
/// tell.
pub fn resident_bytes() -> Option<u64> {
    Some(memory_bytes()?[1])
}

/// The part of [`resident_bytes`] that belongs to no file: heaps, stacks and anonymous mappings.
pub fn anonymous_bytes() -> Option<u64> {
    let [_, resident, of_files] = memory_bytes()?;
    Some(resident.saturating_sub(of_files))
}

/// Bytes of addresses, of resident memory, and of the part of that which belongs to files.
fn memory_bytes() -> Option<[u64; 3]> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    // SAFETY: sysconf only reads.
    let page_bytes = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    let mut pages = text.split(' ').map_while(|word| word.parse::<u64>().ok());
    let mut next = || Some(pages.next()? * page_bytes);
    Some([next()?, next()?, next()?])
}

/// CPU time of the process so far, in user space and in the kernel.
pub fn cpu_time() -> (Duration, Duration) {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a write of one rusage; a zeroed one is valid even if the
    // call were to fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |value: libc::timeval| {
        let seconds = u64::try_from(value.tv_sec).unwrap_or(0);
        Duration::from_secs(seconds)
            + Duration::from_micros(u64::try_from(value.tv_usec).unwrap_or(0))
    };
    (time(usage.ru_utime), time(usage.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "it has no /proc")]
    fn memory_that_was_touched_is_resident() {
        const BYTES: usize = 256 << 20;
        let before = resident_bytes().expect("the kernel tells");
        let touched = std::hint::black_box(vec![1_u8; BYTES]);
        let now = resident_bytes().expect("the kernel tells");
        assert!(now >= BYTES as u64 && now > before, "{before} and then {now}");
        let anonymous = anonymous_bytes().expect("the kernel tells");
        assert!(anonymous >= BYTES as u64, "{anonymous}");
        let of_heap = crate::heap::used_bytes();
        assert!(of_heap.is_none_or(|bytes| bytes >= BYTES as u64), "{of_heap:?}");
        drop(touched);
    }
}
