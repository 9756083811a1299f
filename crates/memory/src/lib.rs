//! The memory every item lives in: one reserved arena of slabs, the size classes that slabs are cut
//! into, and the epochs that say when an unlinked chunk may be used again.
//!
//! ```text
//!   arena    one range of addresses, its slabs free or given out, never more than the limit
//!     |-> class    the sizes that the hot zone cuts its slabs into
//!     +-> tables   units of 2 KiB for the index, which asks for them by the trait in `space`
//!   epoch    which readers may still see unlinked memory
//! ```
//!
//! They are to be read in this order. Nothing here knows items or keys.

#[cfg(not(loom))]
pub mod arena;
#[cfg(not(loom))]
pub mod class;
pub mod epoch;
pub mod space;
#[cfg(not(loom))]
pub mod tables;

#[cfg(not(loom))]
pub use arena::{Arena, Claim, Place, SlabId};
#[cfg(not(loom))]
pub use class::{ClassId, SizeClasses};
pub use epoch::{Epochs, Guard, Tag};
pub use space::TableSpace;
#[cfg(not(loom))]
pub use tables::ArenaTables;
