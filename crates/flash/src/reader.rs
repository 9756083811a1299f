//! Looking for an item.

use ::io::device::Pages;
use codec::record::Fields;

use crate::{Flash, Place};

/// A thread's decoder and buffers. The value of the last hit lies in it.
#[derive(Default)]
pub struct Reader {
    value: Vec<u8>,
}

impl Reader {
    /// No buffers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of the last hit; empty after anything else.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Bytes of decoder and buffers.
    pub fn memory_bytes(&self) -> usize {
        todo!()
    }
}

/// What a look has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The item; its value is [`Reader::value`].
    Found(Fields),
    /// It is not there.
    Absent,
    /// Pages have to be read first: then [`Flash::finish`].
    Wait(Ticket),
}

/// Which pages a look waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The first page.
    pub page: u64,
    /// How many.
    pub pages: usize,
}

impl Flash {
    /// Whether the item at this place may have this hash.
    pub fn may_be(&self, place: Place, hash: u64) -> bool {
        todo!()
    }

    /// Looks for the item of a key at a place that the index gave. Takes the writer's lock only
    /// for a place that is staged.
    pub fn look(&self, place: Place, key: &[u8], reader: &mut Reader) -> Look {
        todo!()
    }

    /// Goes on with what a ticket's read has brought. What is damaged, or another key's, or was
    /// written over since, is absent. The caller asks the index again before he believes a hit.
    pub fn finish(&self, ticket: &Ticket, pages: &Pages, key: &[u8], reader: &mut Reader) -> Look {
        todo!()
    }
}
