//! The tier as its caller holds it, and what concerns all of its segments at once.

use std::sync::Arc;

use ::io::device::Device;
use stdx::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stdx::sync::{Mutex, lock};

use crate::area::Area;
use crate::changes::Changes;
use crate::chores::Chores;
use crate::dictionaries::Dictionaries;
use crate::flushed::Flushed;
use crate::geometry::Geometry;
use crate::journal::{BitsLock, Journal};
use crate::open::Doubt;
use crate::stats::Counters;
use crate::superblock::{SEQUENCE_MAX, Superblock};
use crate::sync::Syncing;
use crate::usage::Usage;
use crate::worn::Worn;
use crate::writer::Writer;
use crate::{
    Compression, Costs, IndexAccess, Partition, Place, Promotion, Watermarks, table, unit,
};

/// Bytes of a segment unless something else is asked for.
pub const SEGMENT_BYTES_DEFAULT: usize = 1 << 20;
/// The level of zstd unless another is asked for: the first that looks at a match twice. It packs a
/// twentieth more items than the third, for three times the time, and reads are no slower.
pub const LEVEL_DEFAULT: i32 = 6;

/// What a tier is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a segment: a power of two from 64 KiB to 8 MiB.
    pub segment_bytes: usize,
    /// The level of zstd.
    pub level: i32,
    /// Pages that a unit of the cold area fills when it is stored, from 1 to 4: more compress
    /// better, and take longer to read.
    pub unit_pages: usize,
    /// Whether the rows of the cold area are compressed one by one instead.
    pub single_rows: bool,
    /// Which units of the cold area are compressed.
    pub compression: Compression,
    /// When what was read moves into the hot area.
    pub promotion: Promotion,
    /// How much of the tier is hot.
    pub partition: Partition,
    /// How many segments are kept free, if not [`Watermarks::of`] as many as there are.
    pub watermarks: Option<Watermarks>,
    /// Bytes of the longest dictionary that units are compressed with; 0: none is trained. A device
    /// has room for 8 of a 256th of its size each, 64 KiB at most.
    pub dictionary_bytes: usize,
    /// The seed of the hashes, for a new device; an old one has its own ([`Flash::hash_seed`]). It
    /// is to be drawn anew by each process all the same: on an old device it says by chance with
    /// which sequence segments begin.
    pub hash_seed: [u8; 16],
    /// What tells the function that hashes keys from every other, whatever the seed: of a device
    /// that was last opened with another one nothing is believed. 0 from callers whose function
    /// never changes.
    pub hash_check: u64,
    /// What tells this boot of the machine from every other.
    pub boot_id: [u8; 16],
    /// The wall clock, in Unix seconds.
    pub now: u32,
}

impl Settings {
    /// The default sizes and level, in 1970.
    pub fn new(hash_seed: [u8; 16], boot_id: [u8; 16]) -> Self {
        Self {
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            level: LEVEL_DEFAULT,
            unit_pages: 1,
            single_rows: false,
            compression: Compression::Promising,
            promotion: Promotion::Merged,
            partition: Partition::Adaptive,
            watermarks: None,
            dictionary_bytes: codec::DICTIONARY_BYTES_MAX,
            hash_seed,
            hash_check: 0,
            boot_id,
            now: 0,
        }
    }
}

/// The flash tier of one device.
pub struct Flash {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) geometry: Geometry,
    pub(crate) hash_seed: [u8; 16],
    pub(crate) watermarks: Watermarks,
    pub(crate) promotion: Promotion,
    pub(crate) level: i32,
    pub(crate) dictionary_bytes: usize,
    pub(crate) dictionaries: Dictionaries,
    /// Prefixes whose items are gone.
    pub(crate) flushed: Flushed,
    /// Items of an earlier process are still being found.
    pub(crate) is_recovering: AtomicBool,
    /// What has changed meanwhile.
    pub(crate) changes: Mutex<Option<Changes>>,
    pub(crate) superblock: Mutex<Superblock>,
    /// Why nothing of what was there is believed.
    pub(crate) doubt: Option<Doubt>,
    /// When an earlier process had what was found, if anything was.
    pub(crate) last_used: Option<u32>,
    /// What has an expiry is over in segments with lower sequences.
    pub(crate) untimed_below: u64,
    pub(crate) segments: Box<[Segment]>,
    pub(crate) chores: Mutex<Chores>,
    pub(crate) writer: Mutex<Writer>,
    /// What the next segment to be opened gets.
    pub(crate) next_sequence: AtomicU64,
    /// The numbers of the rows that were staged last in each area.
    pub(crate) latest_rows: [AtomicU64; 2],
    /// A segment waits to be written. A hint.
    pub(crate) has_waiting: AtomicBool,
    /// Lists of journals that are nearly full.
    pub(crate) worn: Worn,
    pub(crate) bits_locks: Box<[BitsLock]>,
    /// Somebody who could not wait found no room. A hint.
    pub(crate) is_behind: AtomicBool,
    /// Something died or was flushed, and the device does not know.
    pub(crate) unsound: AtomicBool,
    /// Whether the device keeps what it was told.
    pub(crate) syncing: Syncing,
    pub(crate) counters: Counters,
}

/// What is known of a segment without a lock.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The sequence, the area and whether it is written, in one word.
    state: AtomicU64,
    pub(crate) journal: Journal,
    pub(crate) usage: Usage,
}

/// Where the units of a segment are, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nowhere.
    Free,
    /// In a buffer, under the writer's lock.
    Buffered(u64),
    /// On the device.
    Written(u64),
}

impl State {
    /// The sequence of a segment that is not free.
    pub(crate) fn sequence(self) -> Option<u64> {
        match self {
            Self::Free => None,
            Self::Buffered(sequence) | Self::Written(sequence) => Some(sequence),
        }
    }
}

const _: () = assert!(SEQUENCE_MAX << (Segment::SEQUENCE_SHIFT + 1) != 0);

impl Segment {
    const WRITTEN: u64 = 1;
    const AREA_SHIFT: u32 = 1;
    const SEQUENCE_SHIFT: u32 = 2;

    pub(crate) fn new() -> Self {
        Self { state: AtomicU64::new(0), journal: Journal::new(), usage: Usage::new() }
    }

    pub(crate) fn state(&self) -> State {
        // Acquire: partner is the release in `set_state`.
        match self.state.load(Ordering::Acquire) {
            0 => State::Free,
            word if word & Self::WRITTEN == 0 => State::Buffered(word >> Self::SEQUENCE_SHIFT),
            word => State::Written(word >> Self::SEQUENCE_SHIFT),
        }
    }

    /// Its area, if it is not free.
    pub(crate) fn area(&self) -> Area {
        Area::from_bit(self.state.load(Ordering::Relaxed) >> Self::AREA_SHIFT)
    }

    /// Under the writer's lock.
    pub(crate) fn set_state(&self, state: State, area: Area) {
        let word = |sequence| sequence << Self::SEQUENCE_SHIFT | (area as u64) << Self::AREA_SHIFT;
        let word = match state {
            State::Free => 0,
            State::Buffered(sequence) => word(sequence),
            State::Written(sequence) => word(sequence) | Self::WRITTEN,
        };
        // Release: partner is the acquire in `state`. Whoever sees a segment written finds its
        // pages on the device, and whoever sees a sequence sees that its last use is over.
        self.state.store(word, Ordering::Release);
    }
}

impl Flash {
    /// The seed of the hashes by which items are stored here.
    pub fn hash_seed(&self) -> [u8; 16] {
        self.hash_seed
    }

    /// A longer value is refused, whatever stands beside it: it is alone in a segment then.
    pub fn value_bytes_max(&self) -> usize {
        self.geometry.segment_bytes - unit::HEAD_BYTES - table::table_bytes(1, 1)
    }

    /// Whether the item at this place may have this hash.
    pub fn may_be(&self, place: Place, hash: u64) -> bool {
        self.geometry.may_be(place, hash)
    }

    /// Says what reads cost, by which the areas are divided from now on.
    pub fn set_costs(&self, costs: Costs) {
        lock(&self.writer).costs = costs;
    }

    /// Says that the key's item at this place is no longer its value. Takes no lock of the tier but
    /// the superblock's, and writes a note: it is called under the key's lock in the index, before
    /// the index leads elsewhere. What it says is on the device when it returns; only then may
    /// anybody see the change.
    ///
    /// There is nothing to write for a staged place: its unit is not on the device, and whoever
    /// seals it asks the index under the key's lock, which does not lead to the row any more.
    pub fn forget(&self, place: Place, hash: u64) {
        self.counters.items_gone(1);
        if let Some(spot) = self.geometry.locate(place) {
            self.journal(spot.segment, spot.granule, hash);
        }
    }

    /// Makes everything stored so far void, on the device too. Places handed out before lead
    /// nowhere. The index is the caller's to empty, who says so by [`Flash::note_emptied`].
    pub fn flush(&self) {
        let mut writer = lock(&self.writer);
        // First, while all journals take notes: what dies before this is on the device has to be
        // dead there for whoever starts after a kill. No segment is opened meanwhile.
        self.void_device();
        writer.flushes += 1;
        for area in Area::ALL {
            let stream = writer.stream(area);
            stream.unit.clear();
            let (open, written) = (stream.open.take(), std::mem::take(&mut stream.written));
            if let Some(open) = open {
                writer.idle.push(open.pages);
                self.free_segment(&mut writer, open.segment);
            }
            written.iter().for_each(|written| self.free_segment(&mut writer, written.segment));
        }
        while let Some(found) = writer.found.pop_front() {
            self.free_segment(&mut writer, found.segment);
        }
        // What waits to be written or is being collected is freed by whoever does that.
        writer.waiting.iter_mut().for_each(|full| full.is_void = true);
        self.segments.iter().for_each(|segment| segment.set_state(State::Free, Area::Cold));
        self.counters.no_items();
        self.end_all_flushes();
    }

    /// Takes note that the index leads to none of the places of before a flush any more, and that
    /// nothing has come in since: until then whoever takes out one of them counts an item as gone
    /// that the flush has counted.
    pub fn note_emptied(&self) {
        // Nobody takes anything out of the index for the tier's own work, and has yet to count it.
        let _chores = lock(&self.chores);
        let _writer = lock(&self.writer);
        self.counters.no_items();
    }

    /// Keeps on the device when all is to be flushed, in Unix seconds, or 0 for no such plan: what
    /// [`Flash::planned_flush`] says after the next start. Nothing is flushed by it. `at` is asked
    /// under a lock, so what is kept is the answer to the last call.
    pub fn plan_flush(&self, at: impl FnOnce() -> u32) {
        let mut superblock = lock(&self.superblock);
        let at = at();
        if superblock.flush_at == at {
            return;
        }
        superblock.flush_at = at;
        let is_written = self.write_superblock(&superblock);
        drop(superblock);
        if !is_written {
            // What a later process finds must not outlast the time that was named.
            self.void_device();
        }
    }

    /// When all is to be flushed, in Unix seconds; 0 if nothing is planned.
    pub fn planned_flush(&self) -> u32 {
        lock(&self.superblock).flush_at
    }

    /// Whether something died or was flushed of which the device does not know, because it takes no
    /// notes, or has lost some: not even that all on it is void, which [`Flash::maintain`] goes on
    /// telling it. Until it knows, whoever opens it in the same boot may find there what was
    /// deleted or replaced.
    pub fn is_unsound(&self) -> bool {
        self.unsound.load(Ordering::Relaxed) || self.syncing.has_lost()
    }

    /// Makes every segment void that was opened before this moment, for the next start: it needs a
    /// note, and without it nothing new is taken. `false` if that was refused.
    pub(crate) fn void_device(&self) -> bool {
        let mut superblock = lock(&self.superblock);
        let next = self.next_sequence.load(Ordering::Relaxed);
        superblock.void_below = superblock.void_below.max(next);
        let is_written = self.write_superblock(&superblock);
        self.unsound.store(!is_written, Ordering::Relaxed);
        is_written
    }

    /// Makes void what has this sequence, and with it all that was opened before now, unless it is
    /// void already: one place that refuses again and again costs what had come before the first
    /// time. `false` if the note was refused.
    pub(crate) fn void_with(&self, sequence: u64) -> bool {
        let is_void = {
            let superblock = lock(&self.superblock);
            sequence < superblock.void_below && !self.unsound.load(Ordering::Relaxed)
        };
        is_void || self.void_device()
    }

    /// Writes the superblock. `false` if that fails.
    pub(crate) fn write_superblock(&self, superblock: &Superblock) -> bool {
        let written = self.device.write_note(0, &superblock.encode());
        if written.is_err() {
            self.counters.io_errors.add(1);
        }
        written.is_ok()
    }

    /// Gives a segment back. Nothing may lead to it any more, or everything be void.
    pub(crate) fn free_segment(&self, writer: &mut Writer, segment: u32) {
        self.let_go(segment);
        writer.free.push_back(segment);
    }

    /// Ends a segment's life.
    pub(crate) fn let_go(&self, segment: u32) {
        let known = &self.segments[segment as usize];
        known.set_state(State::Free, Area::Cold);
        known.journal.close();
    }

    /// Takes an item out of the index for good.
    pub(crate) fn drop_item(&self, access: &dyn IndexAccess, hash: u64, place: Place) {
        let is_removed = access.remove(hash, place);
        self.count_dropped(is_removed);
    }

    /// The same of one that is in memory as well. Returns whether it was.
    pub(crate) fn drop_spare(&self, access: &dyn IndexAccess, hash: u64, place: Place) -> bool {
        let is_removed = access.remove_spare(hash, place);
        self.count_dropped(is_removed);
        is_removed
    }

    fn count_dropped(&self, is_dropped: bool) {
        if is_dropped {
            self.counters.dropped.add(1);
            self.counters.items_gone(1);
        }
    }
}
