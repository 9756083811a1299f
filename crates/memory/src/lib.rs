//! The memory every item lives in: one reserved arena of 2 MiB slabs, the size classes that slabs
//! are cut into, and the epochs that say when a chunk nobody can see any more may be used again.

pub mod epoch;
pub mod space;

pub use epoch::{Epochs, Guard, Tag};
pub use space::TableSpace;
