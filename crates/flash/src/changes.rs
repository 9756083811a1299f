//! The changes: which keys have changed while the items found at the start were not all known.
//!
//! Until recovery ([`mod@crate::recover`]) has come to a segment, nobody knows where an item of a
//! key lies in it. So a change of the key cannot be noted in that segment's journal. It is noted
//! here: as a bit of a filter, which is on the device before the change is acknowledged.
//!
//! ```text
//!   word 0   word 1   ...    a bit     set: keys whose hashes have it may have changed
//!   +--------+--------+----  hash      the bit's number is (hash * bits) >> 64
//!   | u64    | u64    |
//!   +--------+--------+----
//! ```
//!
//! The process that notes a change asks for it when recovery comes to the item. If the process is
//! killed before, the next one does, for all segments that the superblock names as unsettled. What
//! an older value might be is dead then, and with it a few that have a bit by chance: with one key
//! in ten of as many as there are bits, one item in ten.

use ::io::device::{Device, PAGE_BYTES};
use std::io;
use std::ops::Range;
use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::Flash;
use crate::geometry::Geometry;
use crate::stats::Counters;

const WORD_BYTES: usize = size_of::<u64>();
const WORD_BITS: usize = u64::BITS as usize;

const _: () = assert!(PAGE_BYTES.is_multiple_of(WORD_BYTES));

/// Hashes, as a bit each.
#[derive(Debug, PartialEq, Eq)]
struct Filter(Box<[u64]>);

impl Filter {
    fn empty(geometry: &Geometry) -> Self {
        Self(vec![0; geometry.changes_bytes() / WORD_BYTES].into())
    }

    /// One that may have any hash.
    fn full(geometry: &Geometry) -> Self {
        Self(vec![u64::MAX; geometry.changes_bytes() / WORD_BYTES].into())
    }

    fn read(device: &dyn Device, geometry: &Geometry) -> io::Result<Self> {
        let mut bytes = vec![0; geometry.changes_bytes()];
        device.read_note(geometry.changes_at(), &mut bytes)?;
        let (words, _) = bytes.as_chunks();
        Ok(Self(words.iter().map(|word| u64::from_le_bytes(*word)).collect()))
    }

    /// The word that a hash has its bit in, and the bit.
    fn spot(&self, hash: u64) -> (usize, u64) {
        let bits = (self.0.len() * WORD_BITS) as u128;
        let bit = ((u128::from(hash) * bits) >> u64::BITS) as usize;
        (bit / WORD_BITS, 1 << (bit % WORD_BITS))
    }

    fn contains(&self, hash: u64) -> bool {
        let (word, bit) = self.spot(hash);
        self.0[word] & bit != 0
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// What has changed, as long as items are being found.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Since this process has begun.
    now: Filter,
    /// While an earlier one did not know all of these segments, and ended.
    before: Option<(Filter, Range<u64>)>,
}

impl Changes {
    /// None yet, beside those that were noted for segments with these sequences. If these cannot be
    /// read, any key may have changed.
    pub(crate) fn begin(
        device: &dyn Device,
        geometry: &Geometry,
        unsettled: Range<u64>,
        counters: &Counters,
    ) -> io::Result<Self> {
        let before = if unsettled.is_empty() {
            device.write_note(geometry.changes_at(), &vec![0; geometry.changes_bytes()])?;
            None
        } else {
            let read = || Filter::read(device, geometry);
            let before = read().or_else(|_| read()).unwrap_or_else(|_| {
                counters.io_errors.add(1);
                Filter::full(geometry)
            });
            Some((before, unsettled))
        };
        Ok(Self { now: Filter::empty(geometry), before })
    }

    /// Takes in a hash: the word that is to be written for it, and its number, if it is not there.
    fn insert(&mut self, hash: u64) -> Option<(usize, u64)> {
        let (number, bit) = self.now.spot(hash);
        let word = &mut self.now.0[number];
        let is_new = *word & bit == 0;
        *word |= bit;
        let before = self.before.as_ref().map_or(0, |(before, _)| before.0[number]);
        is_new.then_some((number, *word | before))
    }

    fn memory_bytes(&self) -> usize {
        let before = self.before.as_ref().map_or(0, |(before, _)| before.memory_bytes());
        self.now.memory_bytes() + before
    }
}

impl Flash {
    /// Whether there may be items that the index does not know yet.
    #[inline]
    pub fn is_recovering(&self) -> bool {
        self.is_recovering.load(Ordering::Relaxed)
    }

    /// Takes note that a key changes, as long as there may be items that the index does not know:
    /// one of this key is not its value any more. To be called under the key's lock, with every
    /// change. When it returns, the note is on the device.
    #[inline]
    pub fn note_change(&self, hash: u64) {
        if self.is_recovering() {
            self.write_change(hash);
        }
    }

    /// Whether a key, or one that cannot be told from it, has changed since the start. As long as
    /// there may be items that the index does not know; under the key's lock.
    pub fn has_changed(&self, hash: u64) -> bool {
        lock(&self.changes).as_ref().is_some_and(|changes| changes.now.contains(hash))
    }

    /// Whether a key may have changed after it was stored in a segment with this sequence, while an
    /// earlier process did not know the segment.
    pub(crate) fn has_changed_before(&self, hash: u64, sequence: u64) -> bool {
        let is_older = |(before, unsettled): &(Filter, Range<u64>)| {
            unsettled.contains(&sequence) && before.contains(hash)
        };
        let changes = lock(&self.changes);
        changes.as_ref().and_then(|changes| changes.before.as_ref()).is_some_and(is_older)
    }

    /// The lock is held until the note is written: a bit that is set is on the device, and of two
    /// notes in one word the second has both bits.
    fn write_change(&self, hash: u64) {
        let mut changes = lock(&self.changes);
        let Some((number, word)) = changes.as_mut().and_then(|changes| changes.insert(hash)) else {
            return;
        };
        let at = self.geometry.changes_at() + (number * WORD_BYTES) as u64;
        if self.device.write_note(at, &word.to_le_bytes()).is_err() {
            self.counters.io_errors.add(1);
            self.void_device();
        }
    }

    /// Ends taking notes: the index knows all items there are.
    pub(crate) fn end_changes(&self) {
        *lock(&self.changes) = None;
        self.is_recovering.store(false, Ordering::Relaxed);
    }

    /// Bytes on the heap.
    pub(crate) fn changes_memory_bytes(&self) -> usize {
        lock(&self.changes).as_ref().map_or(0, Changes::memory_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{MemoryDevice, Random, settings};

    const PAGES: usize = 200;

    fn device() -> (MemoryDevice, Geometry) {
        let geometry = Geometry::new(PAGES as u64, settings().segment_bytes).expect("large enough");
        (MemoryDevice::new(PAGES), geometry)
    }

    fn begin(device: &MemoryDevice, geometry: &Geometry, unsettled: Range<u64>) -> Changes {
        Changes::begin(device, geometry, unsettled, &Counters::default()).expect("it works")
    }

    fn note(device: &MemoryDevice, geometry: &Geometry, changes: &mut Changes, hash: u64) {
        if let Some((number, word)) = changes.insert(hash) {
            let at = geometry.changes_at() + (number * WORD_BYTES) as u64;
            device.write_note(at, &word.to_le_bytes()).expect("it works");
        }
    }

    #[test]
    fn what_was_noted_is_known_to_the_next_process_and_to_the_one_after() {
        let (device, geometry) = device();
        let mut random = Random(5);
        let hashes: Vec<u64> = (0..600).map(|_| random.draw()).collect();
        let mut changes = begin(&device, &geometry, 0..0);
        for part in hashes.chunks(200) {
            part.iter().for_each(|&hash| note(&device, &geometry, &mut changes, hash));
            assert!(part.iter().all(|&hash| changes.now.contains(hash)));
            assert!(part.iter().all(|&hash| changes.insert(hash).is_none()), "nothing twice");
            changes = begin(&device, &geometry, 3..7);
            let (before, unsettled) = changes.before.as_ref().expect("something is unsettled");
            let end = hashes.iter().position(|hash| hash == part.last().expect("not empty"));
            assert!(hashes[..=end.expect("there")].iter().all(|&hash| before.contains(hash)));
            assert_eq!((unsettled, changes.now.0.iter().max()), (&(3..7), Some(&0)));
        }
        let others = (0..10_000).filter(|_| {
            changes.before.as_ref().is_some_and(|(before, _)| before.contains(random.draw()))
        });
        // 600 of 32,768 bits are set: 1.8 % of 10,000.
        assert!((100..300).contains(&others.count()));
        let changes = begin(&device, &geometry, 0..0);
        assert!(changes.before.is_none());
        assert_eq!(Filter::read(&device, &geometry).expect("it works"), Filter::empty(&geometry));
    }

    /// Where one of these changes, keys that a process before had noted count as unchanged: then
    /// the superblock's version has to rise.
    #[test]
    fn a_hash_has_the_bit_that_it_has_always_had() {
        let filter = Filter::empty(&device().1);
        assert_eq!(filter.spot(0x0123_4567_89ab_cdef), (2, 1 << 17));
        assert_eq!(filter.spot(0xaaaa_aaaa_aaaa_aaaa), (341, 1 << 21));
    }

    #[test]
    fn the_first_and_the_last_bit_are_within_the_filter() {
        let (_, geometry) = device();
        let filter = Filter::empty(&geometry);
        assert_eq!(filter.spot(0), (0, 1));
        assert_eq!(filter.spot(u64::MAX), (filter.0.len() - 1, 1 << (WORD_BITS - 1)));
    }
}
