//! Units of size, in bytes.

/// 2^10 bytes.
pub const KIB: usize = 1 << 10;
/// 2^20 bytes.
pub const MIB: usize = 1 << 20;
/// 2^30 bytes.
pub const GIB: usize = 1 << 30;
/// A line of the CPU's caches.
pub const CACHE_LINE: usize = 64;
