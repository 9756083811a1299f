//! The hot zone: uncompressed items in slabs.
