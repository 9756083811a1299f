//! The flash tier: compressed items in log-structured segments of a file or block device.

#![forbid(unsafe_code)]
