//! Hints to fetch a cache line before it is needed.
//!
//! A prefetch neither reads nor writes as far as a program can tell, and never faults, whatever the
//! address: so these functions are safe. Where a processor has no such instruction they do nothing.

#![allow(unsafe_code)]

/// Prefetches the cache line at an address for reading.
#[inline(always)]
pub fn read(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has SSE, and a prefetch may be given any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Prefetches the cache line at an address for writing: takes it away from other cores.
#[inline(always)]
pub fn write(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch may be given any address. 64-bit processors that do not know this one
    // treat it as a `nop`. The compiler has an intrinsic for it only where it may assume that the
    // processor knows it.
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
