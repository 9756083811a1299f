//! The changes: which keys have changed while not all items found at the start were known.
//!
//! Until recovery ([`mod@crate::recover`]) has come to a segment, it is not known where an item of
//! a key lies in it. So a change of the key cannot be noted in that segment's journal. It is noted
//! here: as a bit of a filter, which is on the device before the change is acknowledged.
//!
//! ```text
//!   block 0    block 1   ...    a bit     set: keys whose hashes have it may have changed
//!   +----------+----------+---- hash      the bit's number is (hash * bits) >> 64
//!   | 480 bits | 480 bits |
//!   | check    | check    |
//!   +----------+----------+----
//! ```
//!
//! A damaged block, or one not written since the filter was last begun, says nothing of the keys
//! whose bits are there: all of them may have changed ([`mod@crate::checked`]). For that the
//! superblock names the filter's life, which is from one beginning to the next, across processes.
//!
//! The process that notes a change asks for it when recovery comes to the item. If the process is
//! killed before, the next one does, for all segments that the superblock names as unsettled. Every
//! possibly older value is dead then, and with it a few that have a bit by chance: with keys for a
//! tenth of the bits, one item in ten.

use ::io::device::{Device, PAGE_BYTES};
use codec::Damaged;
use std::io;
use std::ops::Range;
use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::Flash;
use crate::checked::{BLOCK_BITS, BLOCK_BYTES, Block};
use crate::geometry::Geometry;
use crate::stats::Counters;

const _: () = assert!(PAGE_BYTES.is_multiple_of(BLOCK_BYTES));

/// A set of hashes, with a bit for each.
#[derive(Debug, PartialEq, Eq)]
struct Filter(Box<[Block]>);

impl Filter {
    fn empty(geometry: &Geometry) -> Self {
        Self(vec![Block::EMPTY; geometry.changes_bytes() / BLOCK_BYTES].into())
    }

    /// A filter that has any hash.
    fn full(geometry: &Geometry) -> Self {
        Self(vec![Block::FULL; geometry.changes_bytes() / BLOCK_BYTES].into())
    }

    /// Reads the filter of this life. Where it is damaged, it has any hash.
    fn read(
        device: &dyn Device,
        geometry: &Geometry,
        life: u64,
        counters: &Counters,
    ) -> io::Result<Self> {
        let mut bytes = vec![0; geometry.changes_bytes()];
        device.read_note(geometry.changes_at(), &mut bytes)?;
        let (blocks, _) = bytes.as_chunks();
        let block = |(number, bytes): (u32, &[u8; BLOCK_BYTES])| {
            Block::decode(bytes, life, number).unwrap_or_else(|Damaged| {
                counters.damaged.add(1);
                Block::FULL
            })
        };
        Ok(Self((0..).zip(blocks).map(block).collect()))
    }

    /// Writes the whole filter, as the beginning of this life.
    fn write(&self, device: &dyn Device, geometry: &Geometry, life: u64) -> io::Result<()> {
        let blocks = (0..).zip(&self.0).map(|(number, block)| block.encode(life, number));
        let blocks: Vec<_> = blocks.collect();
        device.write_note(geometry.changes_at(), blocks.as_flattened())
    }

    /// The block that a hash has its bit in, and the bit.
    fn spot(&self, hash: u64) -> (usize, usize) {
        let bits = (self.0.len() * BLOCK_BITS) as u128;
        let bit = ((u128::from(hash) * bits) >> u64::BITS) as usize;
        (bit / BLOCK_BITS, bit % BLOCK_BITS)
    }

    fn contains(&self, hash: u64) -> bool {
        let (number, bit) = self.spot(hash);
        self.0[number].has(bit)
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// The changes, kept while items are being found.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Since this process has begun.
    now: Filter,
    /// Noted by earlier processes, which ended before they knew all of these segments.
    before: Option<(Filter, Range<u64>)>,
    life: u64,
    /// A change could not be written, and all segments that were found are void for that: no later
    /// process asks for a change of theirs.
    is_needless: bool,
}

impl Changes {
    /// No changes yet, beside those that were noted in the filter's present life for segments with
    /// these sequences. If these cannot be read, any key may have changed. Without such segments a
    /// new life begins.
    pub(crate) fn begin(
        device: &dyn Device,
        geometry: &Geometry,
        unsettled: Range<u64>,
        life: u64,
        counters: &Counters,
    ) -> io::Result<Self> {
        let before = if unsettled.is_empty() {
            Filter::empty(geometry).write(device, geometry, life)?;
            None
        } else {
            let read = || Filter::read(device, geometry, life, counters);
            let before = read().or_else(|_| read()).unwrap_or_else(|_| {
                counters.io_errors.add(1);
                Filter::full(geometry)
            });
            Some((before, unsettled))
        };
        Ok(Self { now: Filter::empty(geometry), before, life, is_needless: false })
    }

    /// Adds a hash; returns what to write for it and where in the filter, if it was not there.
    fn insert(&mut self, hash: u64) -> Option<(u64, [u8; BLOCK_BYTES])> {
        let (number, bit) = self.now.spot(hash);
        let block = &mut self.now.0[number];
        if !block.set(bit) {
            return None;
        }
        let before = self.before.as_ref().map_or(&Block::EMPTY, |(before, _)| &before.0[number]);
        let bytes = block.and(before).encode(self.life, number as u32);
        Some(((number * BLOCK_BYTES) as u64, bytes))
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

    /// Notes that a key changes, as long as there may be items that the index does not know: one of
    /// this key is no longer its value. To be called under the key's lock, with every change of a
    /// key that may have such an item: not of one whose item the index leads to, since that one was
    /// stored since the start, and noted then, or is the only one that its key has on the device.
    /// When it returns, the note is on the device.
    #[inline]
    pub fn note_change(&self, hash: u64) {
        if self.is_recovering() {
            self.write_change(hash);
        }
    }

    /// Whether a key, or one that cannot be told from it, has changed since the start. Called under
    /// the key's lock, as long as there may be items that the index does not know.
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

    /// The lock is held until the note is written: a set bit is on the device, and of two notes in
    /// one block the second has both bits.
    fn write_change(&self, hash: u64) {
        let mut changes = lock(&self.changes);
        let Some(changes) = &mut *changes else { return };
        let Some((at, block)) = changes.insert(hash).filter(|_| !changes.is_needless) else {
            return;
        };
        if self.device.write_note(self.geometry.changes_at() + at, &block).is_err() {
            self.counters.io_errors.add(1);
            changes.is_needless = self.void_device();
        }
    }

    /// Stops taking notes: the index knows all items.
    pub(crate) fn end_changes(&self) {
        *lock(&self.changes) = None;
        self.is_recovering.store(false, Ordering::Relaxed);
    }

    /// Bytes on the heap.
    pub(crate) fn changes_memory_bytes(&self) -> usize {
        lock(&self.changes).as_ref().map_or(0, Changes::memory_bytes)
    }
}

/// Corrects the checks of the changes.
#[cfg(any(test, fuzzing))]
pub(crate) fn put_right(bytes: &mut [u8], life: u64) {
    let (blocks, _) = bytes.as_chunks_mut();
    for (number, block) in (0..).zip(blocks) {
        *block = Block::put_right(*block, life, number);
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

    const LIFE: u64 = 9;

    fn begin(device: &MemoryDevice, geometry: &Geometry, unsettled: Range<u64>) -> Changes {
        let counters = Counters::default();
        let changes = Changes::begin(device, geometry, unsettled, LIFE, &counters);
        assert_eq!(counters.damaged.get(), 0);
        changes.expect("it works")
    }

    fn note(device: &MemoryDevice, geometry: &Geometry, changes: &mut Changes, hash: u64) {
        if let Some((at, block)) = changes.insert(hash) {
            device.write_note(geometry.changes_at() + at, &block).expect("it works");
        }
    }

    fn read(device: &MemoryDevice, geometry: &Geometry, life: u64) -> (Filter, u64) {
        let counters = Counters::default();
        let filter = Filter::read(device, geometry, life, &counters).expect("it works");
        (filter, counters.damaged.get())
    }

    #[test]
    fn noted_keys_are_known_to_the_next_process_and_the_one_after() {
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
            assert_eq!((unsettled, &changes.now), (&(3..7), &Filter::empty(&geometry)));
        }
        let others = (0..10_000).filter(|_| {
            changes.before.as_ref().is_some_and(|(before, _)| before.contains(random.draw()))
        });
        // 600 of 30,720 bits are set: 2 % of 10,000.
        assert!((100..300).contains(&others.count()));
        let changes = begin(&device, &geometry, 0..0);
        assert!(changes.before.is_none());
        assert_eq!(read(&device, &geometry, LIFE), (Filter::empty(&geometry), 0));
    }

    /// Regression: a bit that was misread as not set brought back the key's older value, and so did
    /// the whole earlier filter where the drive had not written the beginning of this one.
    #[test]
    fn any_key_may_have_changed_where_the_filter_is_not_as_written() {
        let (device, geometry) = device();
        let mut random = Random(6);
        let hashes: Vec<u64> = (0..100).map(|_| random.draw()).collect();
        let mut changes = begin(&device, &geometry, 0..0);
        hashes.iter().for_each(|&hash| note(&device, &geometry, &mut changes, hash));
        let at = geometry.changes_at() as usize;
        for &hash in &hashes {
            let (number, bit) = changes.now.spot(hash);
            let at = at + number * BLOCK_BYTES + bit / 8;
            device.change(|bytes| bytes[at] ^= 1 << (bit % 8));
            let (found, damaged) = read(&device, &geometry, LIFE);
            assert!(damaged == 1 && hashes.iter().all(|&hash| found.contains(hash)));
            assert_eq!((found.0[number], found.contains(!hash)), (Block::FULL, false));
            device.change(|bytes| bytes[at] ^= 1 << (bit % 8));
        }
        let blocks = geometry.changes_bytes() / BLOCK_BYTES;
        let full = (Filter::full(&geometry), blocks as u64);
        assert_eq!(read(&device, &geometry, LIFE + 1), full);
        device.change(|bytes| bytes[at..][..blocks * BLOCK_BYTES].fill(0));
        assert_eq!(read(&device, &geometry, LIFE), full);
    }

    /// If one of these changes, keys noted by an earlier process count as unchanged: then the
    /// superblock's version has to rise.
    #[test]
    fn a_hash_has_the_bit_that_it_has_always_had() {
        let filter = Filter::empty(&device().1);
        assert_eq!(filter.spot(0x0123_4567_89ab_cdef), (0, 136));
        assert_eq!(filter.spot(0xaaaa_aaaa_aaaa_aaaa), (42, 319));
    }

    #[test]
    fn the_first_and_the_last_bit_are_within_the_filter() {
        let (_, geometry) = device();
        let filter = Filter::empty(&geometry);
        assert_eq!(filter.spot(0), (0, 0));
        assert_eq!(filter.spot(u64::MAX), (filter.0.len() - 1, BLOCK_BITS - 1));
    }
}
