//! Hints to fetch a cache line before it is needed.
//!
//! A prefetch neither reads nor writes as far as a program can tell, and never faults, whatever the
//! address: so these functions are safe. Where a processor has no such instruction they do nothing.

#![allow(unsafe_code)]

/// Asks for the cache line at an address, to read it.
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

/// Asks for the cache line at an address, to write it: takes it away from other cores.
#[inline(always)]
pub fn write(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch may be given any address. Processors of 64 bits that do not know this one
    // take it for a `nop`. The compiler has a name for it only where it may take the processor to
    // know it.
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
