//! A thread's means to look into blocks: a decoder and buffers.

use codec::{Damaged, Decoder, Method};
use memory::Guard;
use stdx::units::KIB;

use crate::dictionaries::Dictionaries;
use crate::frame::Frame;
use crate::raw::{Block, Reference};
use crate::zone::Zone;

/// The most bytes of each buffer that a reader keeps between the sessions that borrow it.
const KEPT_BYTES_MAX: usize = 256 * KIB;

/// A thread's decoder and buffers for lookups. The value of the last hit lies in it.
#[derive(Default)]
pub struct Reader {
    pub(crate) decoder: Decoder,
    /// The rows of one frame.
    pub(crate) rows: Vec<u8>,
    pub(crate) long: Vec<u8>,
    pub(crate) value: Value,
    pub(crate) met_dead: bool,
    pub(crate) counts: ReaderCounts,
}

/// Where the value of the last hit lies.
#[derive(Debug, Clone, Default)]
pub(crate) enum Value {
    /// There was none.
    #[default]
    Nowhere,
    /// Among the rows.
    Row(std::ops::Range<usize>),
    /// It was long.
    Long,
}

/// Counts of a reader's lookups and their results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReaderCounts {
    /// Lookups, those of [`crate::Zone::remove`] included.
    pub lookups: u64,
    /// Frames that were decoded.
    pub decoded: u64,
    /// Of those, for keys that were not there.
    pub decoded_in_vain: u64,
    /// Blocks that a lookup needed not decode to know that the key is not there.
    pub filtered: u64,
    /// Frames and long values that were damaged.
    pub damaged: u64,
}

impl Reader {
    /// Makes a reader without buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of the last hit; empty after a miss.
    pub fn value(&self) -> &[u8] {
        match &self.value {
            Value::Nowhere => &[],
            Value::Row(range) => &self.rows[range.clone()],
            Value::Long => &self.long,
        }
    }

    /// Whether the last lookup found nothing but a dead row that may have been the key's, and that
    /// perhaps died just now because the item is moving to another place.
    pub fn met_dead(&self) -> bool {
        self.met_dead
    }

    /// The counts so far.
    pub fn counts(&self) -> ReaderCounts {
        self.counts
    }

    /// Takes the counts, which begin anew.
    pub fn take_counts(&mut self) -> ReaderCounts {
        std::mem::take(&mut self.counts)
    }

    /// Frees the buffers that a long value has enlarged, and forgets the last hit: for a caller
    /// that keeps the reader.
    pub fn shrink_buffers(&mut self) {
        self.value = Value::Nowhere;
        if self.long.capacity() > KEPT_BYTES_MAX {
            self.long = Vec::new();
        }
    }

    /// Bytes of decoder and buffers: at most a frame and the longest value, and what the decoder
    /// needs for them.
    pub fn memory_bytes(&self) -> usize {
        self.decoder.memory_bytes() + self.rows.capacity() + self.long.capacity()
    }
}

/// Decodes a frame into a buffer, which is resized to the frame's raw length.
#[inline]
pub(crate) fn unpack_frame(
    dictionaries: &Dictionaries,
    guard: &Guard<'_>,
    block: &Block<'_>,
    frame: &Frame,
    decoder: &mut Decoder,
    target: &mut Vec<u8>,
) -> Result<(), Damaged> {
    let stored = &block.stored()[frame.stored()];
    if block.checksum(frame.index).is_some_and(|sum| sum != codec::checksum(stored)) {
        return Err(Damaged);
    }
    target.resize(frame.head.raw_bytes.into(), 0);
    let is_raw = stored.len() == target.len();
    let method = if is_raw { Method::Raw } else { block.head().method };
    let dictionary = dictionaries.get(guard, block.head().dictionary)?;
    decoder.decode(method, dictionary, stored, target)
}

impl Zone {
    /// Decodes the long value with this code in a row's slot into the reader; it has the length
    /// that the row says. The length in the block's head is trusted only if it agrees: a damaged
    /// one might say 4 GiB.
    pub(crate) fn read_long(
        &self,
        guard: &Guard<'_>,
        code: u32,
        value_bytes: usize,
        reader: &mut Reader,
    ) -> Result<(), Damaged> {
        let reference = Reference::from_code(code).ok_or(Damaged)?;
        let block = self.space.ground.block(guard, reference).ok_or(Damaged)?;
        let head = block.head();
        let is_its = head.long && head.raw_bytes as usize == value_bytes;
        if !is_its || value_bytes > self.value_bytes_max() {
            return Err(Damaged);
        }
        if block.checksum(0).is_some_and(|sum| sum != codec::checksum(block.stored())) {
            return Err(Damaged);
        }
        let dictionary = self.dictionaries.get(guard, head.dictionary)?;
        reader.long.resize(value_bytes, 0);
        reader.decoder.decode(head.method, dictionary, block.stored(), &mut reader.long)
    }
}
