//! An anonymous mapping: a range of addresses reserved once, whose pages are allocated when they
//! are first touched and freed when they are given back.

use std::fs;
use std::io;
use std::ptr::{self, NonNull};

/// The size of a huge page on x86-64 and, with 4 KiB base pages, on aarch64.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// How memory is mapped. Miri has only this way, and no overcommitment.
const FLAGS: libc::c_int =
    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };

/// Where the kernel tells whether it gives huge pages, to the whole system and to this process.
const HUGE_ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const STATUS: &str = "/proc/self/status";

/// A range of private, zero-filled memory, aligned to huge pages.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// The address that `mmap` returned and the length: more than `bytes`, for the alignment's
    /// sake.
    mapped_start: NonNull<u8>,
    mapped_bytes: usize,
}

// SAFETY: a mapping is a range of addresses; it belongs to no thread. The use of the bytes is up to
// the code that takes pointers from `start`.
unsafe impl Send for Mapping {}
// SAFETY: as above; the methods that change the mapping are system calls, safe from any thread.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `bytes` of address space, a multiple of the huge page, without touching it.
    pub fn reserve(bytes: usize) -> io::Result<Self> {
        assert!(bytes > 0 && bytes.is_multiple_of(HUGE_PAGE_BYTES));
        let mapped_bytes = bytes
            .checked_add(HUGE_PAGE_BYTES)
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that
        // exists.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                FLAGS,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapped_start = NonNull::new(mapped.cast::<u8>())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let gap = mapped_start.align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `gap` is below HUGE_PAGE_BYTES, by which the mapping is longer than `bytes`.
        let start = unsafe { mapped_start.add(gap) };
        Ok(Self { start, bytes, mapped_start, mapped_bytes })
    }

    /// The first byte; aligned to a huge page.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Asks for huge pages, as transparently as the kernel can. Returns whether it will give them:
    /// a kernel in which they are switched off takes the advice, too, and gives none.
    pub fn advise_huge(&self) -> bool {
        // SAFETY: the range is this mapping's own; the advice changes no content.
        let is_taken =
            unsafe { advise(self.start.as_ptr().cast(), self.bytes, libc::MADV_HUGEPAGE) };
        if !is_taken {
            return false;
        }
        let [system, process] = [HUGE_ENABLED, STATUS].map(fs::read_to_string);
        gives_huge(&system.unwrap_or_default(), &process.unwrap_or_default())
    }

    /// Withdraws, for the first `bytes`, what [`Self::advise_huge`] asked for: there the kernel no
    /// longer replaces small pages by a huge one, nor pages that were given back between them. Huge
    /// pages that are there stay. Returns whether it agreed.
    pub fn advise_small(&self, bytes: usize) -> bool {
        self.check(0, bytes);
        // SAFETY: the range was checked to be this mapping's own; the advice changes no content.
        unsafe { advise(self.start.as_ptr().cast(), bytes, libc::MADV_NOHUGEPAGE) }
    }

    /// Makes the pages of a range present now rather than at their first use. Returns whether the
    /// kernel did so; content is unchanged either way.
    pub fn populate(&self, offset: usize, bytes: usize) -> bool {
        self.check(offset, bytes);
        // SAFETY: the range was checked to be this mapping's own; populating keeps content.
        unsafe {
            let start = self.start.as_ptr().add(offset).cast();
            advise(start, bytes, libc::MADV_POPULATE_WRITE)
        }
    }

    /// Gives the pages of a range back to the system: they leave the resident set, and read as
    /// zeroes when they are next touched.
    ///
    /// # Safety
    /// No thread reads or writes the range during the call, or relies on its former content.
    pub unsafe fn discard(&self, offset: usize, bytes: usize) -> io::Result<()> {
        self.check(offset, bytes);
        // SAFETY: the range was checked to be this mapping's own, and the caller promises that it
        // is not in use. Unlocking and locking change neither its content nor who may use it.
        unsafe {
            let start = self.start.as_ptr().add(offset).cast();
            match discard_pages(start, bytes) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                done => return done,
            }
            // Locked pages are only given back unlocked. Pages touched later are to be locked
            // again; if the kernel refuses that, they may go to swap, which is the lesser harm.
            libc::munlock(start, bytes);
            let done = discard_pages(start, bytes);
            libc::syscall(libc::SYS_mlock2, start, bytes, libc::MLOCK_ONFAULT);
            done
        }
    }

    fn check(&self, offset: usize, bytes: usize) {
        assert!(offset.is_multiple_of(4096) && bytes.is_multiple_of(4096));
        assert!(offset <= self.bytes && bytes <= self.bytes - offset);
    }
}

/// Gives pages back.
///
/// # Safety
/// They are of a live private mapping, not in use, and their content is not relied on.
unsafe fn discard_pages(start: *mut libc::c_void, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller promises just what is needed.
    let done = unsafe { advise(start, bytes, libc::MADV_DONTNEED) };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Advises the kernel about pages. Returns whether it took the advice.
///
/// # Safety
/// They are of a live private mapping. If the advice changes their content, they are not in use,
/// and that content is not relied on.
unsafe fn advise(start: *mut libc::c_void, bytes: usize, advice: libc::c_int) -> bool {
    if cfg!(miri) {
        // Miri has no such call. Callers rely only on pages given back being zero.
        if advice == libc::MADV_DONTNEED {
            // SAFETY: the caller promises that the range is writable and not in use.
            unsafe { start.cast::<u8>().write_bytes(0, bytes) };
        }
        return advice == libc::MADV_DONTNEED;
    }
    // SAFETY: the caller promises just what is needed.
    unsafe { libc::madvise(start, bytes, advice) == 0 }
}

/// Whether huge pages are given where they are advised, by the kernel's words on the system and on
/// this process. An old kernel says nothing of processes.
fn gives_huge(system: &str, process: &str) -> bool {
    let enabled = process.lines().find_map(|line| line.strip_prefix("THP_enabled:"));
    !system.contains("[never]") && enabled.is_none_or(|enabled| enabled.trim() != "0")
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `reserve` mapped, and the owner of the mapping promised
        // by dropping it that no pointer into it is used any more.
        let done = unsafe { libc::munmap(self.mapped_start.as_ptr().cast(), self.mapped_bytes) };
        debug_assert_eq!(done, 0);
    }
}

/// The machine's memory, in bytes; `None` where the system does not say.
pub fn physical_memory_bytes() -> Option<usize> {
    // SAFETY: sysconf only reads.
    let (pages, page_bytes) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).ok()?.checked_mul(usize::try_from(page_bytes).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_aligned_zeroed_and_can_be_given_back() {
        let mapping = Mapping::reserve(2 * HUGE_PAGE_BYTES).unwrap();
        let start = mapping.start().as_ptr();
        assert_eq!(start as usize % HUGE_PAGE_BYTES, 0);
        // SAFETY: the byte lies in the second huge page of the mapping, which only this test uses.
        unsafe {
            let byte = start.add(HUGE_PAGE_BYTES + 5);
            assert_eq!(byte.read(), 0);
            byte.write(7);
            mapping.discard(HUGE_PAGE_BYTES, HUGE_PAGE_BYTES).unwrap();
            assert_eq!(byte.read(), 0);
        }
    }

    /// Regression: with `-k` every page is locked, and the kernel gives back no locked page: a
    /// server that wanted to give up a slab crashed there.
    #[test]
    fn locked_pages_can_be_given_back_and_are_locked_again() {
        let mapping = Mapping::reserve(HUGE_PAGE_BYTES).unwrap();
        let bytes = 16 * 4096;
        let locked = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
            line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
        };
        // SAFETY: the bytes lie in the mapping, which only this test uses; locking changes none.
        unsafe {
            let start = mapping.start().as_ptr();
            assert_eq!(libc::mlock(start.cast(), bytes), 0);
            start.add(5).write(7);
            mapping.discard(0, bytes).unwrap();
            assert_eq!(start.add(5).read(), 0);
        }
        // Other tests lock nothing.
        assert_eq!(locked(), bytes);
    }

    /// Regression: the kernel takes the advice without following it, and small pages were said to
    /// be huge.
    #[test]
    fn huge_pages_that_are_switched_off_are_not_agreed_to() {
        let status = |enabled: &str| format!("Name:\tx\nTHP_enabled:\t{enabled}\nThreads:\t1\n");
        for (system, process, gives) in [
            ("always [madvise] never\n", status("1"), true),
            ("[always] madvise never\n", "Name:\tx\n".to_owned(), true),
            ("always madvise [never]\n", status("1"), false),
            ("always [madvise] never\n", status("0"), false),
            ("", String::new(), true),
        ] {
            assert_eq!(gives_huge(system, &process), gives, "{system} {process}");
        }
    }

    #[test]
    #[should_panic]
    fn a_range_beyond_the_mapping_is_refused() {
        let mapping = Mapping::reserve(HUGE_PAGE_BYTES).unwrap();
        mapping.populate(HUGE_PAGE_BYTES, 4096);
    }
}
