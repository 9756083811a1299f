//! The allocator's heap, as far as it can be asked to stay small.
//!
//! glibc learns from each large piece that is freed: pieces of that size come from the heap then,
//! where what lies above something in use, and twice that size at the end, stays with the process.
//! One training of a dictionary, which takes 15 MiB for a moment, left 6 MiB behind.

/// Pieces of so many bytes come from the kernel, and go back to it when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_BYTES_MIN: libc::c_int = 2 << 20;

/// What may be free at the end of a thread's heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const SPARE_BYTES_MAX: libc::c_int = 1 << 20;

/// Asks the allocator for good to give back what a burst of allocations leaves. At the start,
/// before there is a second thread.
pub fn keep_small() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: plain numbers, and no other thread allocates meanwhile. What glibc does not accept
    // it leaves as it was.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
        libc::mallopt(libc::M_TRIM_THRESHOLD, SPARE_BYTES_MAX);
    }
}

/// Gives back what is free between pieces in use. After a burst of allocations that will not come
/// again soon: it visits the whole heap, in a few milliseconds at the most.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it locks what it looks at, and gives back only what nobody has allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}
