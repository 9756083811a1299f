//! An item's data for its wheel, and the references between queues and chunks.
//!
//! ```text
//!   0          4          8      10         12
//!   +----------+----------+------+----------+
//!   | previous | next     | cost | priority |     the lower 16 bits of the priority
//!   +----------+----------+------+----------+
//!
//!   reference   0                in no queue
//!               1 to 2^31 - 1    a chunk's number, and 1
//!               from 2^31 on     a queue's number: both ends of a queue refer to the queue
//! ```
//!
//! A queue is a ring through its head, so a chunk leaves without knowing which one it is in, and
//! the queue that becomes empty is known by its number. A link of zeros is in no queue: fresh
//! memory needs no preparation.

/// Chunks have lower numbers than this.
pub const CHUNKS_MAX: u32 = (1 << 31) - 1;

/// A chunk, a queue, or nothing.
pub(super) type Reference = u32;

/// No reference: the chunk is in no queue.
pub(super) const NOWHERE: Reference = 0;
const QUEUE: Reference = 1 << 31;

/// A wheel's data for each chunk, in memory of the caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Link {
    pub(super) previous: Reference,
    pub(super) next: Reference,
    pub(super) cost: u16,
    pub(super) priority: u16,
}

const _: () = assert!(size_of::<Link>() == 12);

impl Link {
    /// Whether the chunk is in a queue.
    pub fn is_queued(self) -> bool {
        self.next != NOWHERE
    }

    /// The cost that the chunk was last entered with, after clamping; it stays when the chunk is
    /// taken out.
    pub fn cost(self) -> u16 {
        self.cost
    }
}

/// The store of the links. Before a chunk is entered for the first time its link is
/// [`Link::default`], which is all zeros; after that only the wheel sets it.
pub trait LinkStore {
    /// The link of a chunk.
    fn link(&self, chunk: u32) -> Link;

    /// The link of a chunk, to change it.
    fn link_mut(&mut self, chunk: u32) -> &mut Link;
}

impl LinkStore for Vec<Link> {
    fn link(&self, chunk: u32) -> Link {
        self[chunk as usize]
    }

    fn link_mut(&mut self, chunk: u32) -> &mut Link {
        &mut self[chunk as usize]
    }
}

pub(super) fn reference_to(chunk: u32) -> Reference {
    chunk + 1
}

pub(super) fn reference_to_queue(queue: usize) -> Reference {
    QUEUE | queue as u32
}

pub(super) fn chunk_of(reference: Reference) -> Option<u32> {
    if reference & QUEUE == 0 { reference.checked_sub(1) } else { None }
}

pub(super) fn queue_of(reference: Reference) -> Option<usize> {
    (reference & QUEUE != 0).then_some((reference & !QUEUE) as usize)
}
