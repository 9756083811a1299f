//! The allocator's heap, asked to stay small.
//!
//! glibc learns from each large piece that is freed: pieces of that size then come from the heap,
//! where memory above a piece in use, and twice that size at the end, stays with the process. One
//! training of a dictionary, which takes 15 MiB for a moment, left 6 MiB behind.

/// Pieces of at least this many bytes come from the kernel, and go back to it when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_BYTES_MIN: libc::c_int = 2 << 20;

/// The most bytes that may be free at the end of a thread's heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const SPARE_BYTES_MAX: libc::c_int = 1 << 20;

/// Asks the allocator to give back, from now on, the memory that a burst of allocations leaves. To
/// be called at the start, before there is a second thread.
pub fn keep_small() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: plain numbers, and no other thread allocates meanwhile. A number that glibc does not
    // accept changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
        libc::mallopt(libc::M_TRIM_THRESHOLD, SPARE_BYTES_MAX);
    }
}

/// Returns the bytes of all pieces in use, with those that come from the kernel one by one; `None`
/// where the allocator does not tell. It counts up to 4 GiB of either kind.
pub fn used_bytes() -> Option<u64> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: it locks the arenas that it visits, and only reads.
        let info = unsafe { libc::mallinfo() };
        Some(u64::from(info.uordblks.cast_unsigned()) + u64::from(info.hblkhd.cast_unsigned()))
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

/// Gives back memory that is free between pieces in use. To be called after a burst of allocations
/// that will not come again soon: it visits the whole heap, in a few milliseconds at most.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it locks the arenas that it visits, and gives back only memory that is not allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}
