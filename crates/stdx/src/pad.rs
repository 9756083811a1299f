//! A value on cache lines of its own.

use std::ops::{Deref, DerefMut};

/// Keeps `T` away from its neighbours' cache lines, so that a thread that writes it does not take
/// the line from a thread that reads something else.
///
/// 128 bytes, not 64: recent x86-64 prefetchers fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
