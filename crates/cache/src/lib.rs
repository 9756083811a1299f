//! An embeddable cache that keeps more in the same memory.
