//! The tier's handle, and operations that concern all of its segments at once.

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
use crate::open::Empty;
use crate::stats::Counters;
use crate::superblock::{SEQUENCE_MAX, Superblock};
use crate::sync::Syncing;
use crate::usage::Usage;
use crate::worn::Worn;
use crate::writer::Writer;
use crate::{
    Compression, Costs, IndexAccess, Partition, Place, Promotion, Watermarks, table, unit,
};

/// Bytes of a segment by default.
pub const SEGMENT_BYTES_DEFAULT: usize = 1 << 20;
/// The default level of zstd: the first that looks at a match twice. It packs a twentieth more
/// items than the third, for three times the time, and reads are no slower.
pub const LEVEL_DEFAULT: i32 = 6;

/// Parameters of a tier.
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
    /// When items that were read move into the hot area.
    pub promotion: Promotion,
    /// How much of the tier is hot.
    pub partition: Partition,
    /// How many segments are kept free; by default, [`Watermarks::of`] the number of segments.
    pub watermarks: Option<Watermarks>,
    /// Most bytes of a dictionary that units are compressed with; 0: none is trained. A device has
    /// room for 8 of a 256th of its size each, 64 KiB at most.
    pub dictionary_bytes: usize,
    /// The seed of the hashes, for a new device; an old one has its own ([`Flash::hash_seed`]).
    /// Each process is to draw it anew all the same: on an old device the first sequence is derived
    /// from it.
    pub hash_seed: [u8; 16],
    /// Tells the function that hashes keys from every other, whatever the seed: nothing is believed
    /// of a device that was last opened with another one. 0 from callers whose function never
    /// changes.
    pub hash_check: u64,
    /// Tells this boot of the machine from every other.
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
    /// Prefixes whose items were flushed.
    pub(crate) flushed: Flushed,
    /// True while items of an earlier process are still being found.
    pub(crate) is_recovering: AtomicBool,
    /// Changes during recovery.
    pub(crate) changes: Mutex<Option<Changes>>,
    pub(crate) superblock: Mutex<Superblock>,
    /// Why nothing was found on the device.
    pub(crate) empty: Option<Empty>,
    /// Segments given up at the start because the segment table could not be read there.
    pub(crate) segments_lost: u64,
    /// When an earlier process last used the items that were found, if any were.
    pub(crate) last_used: Option<u32>,
    /// Items with an expiry are expired in segments with lower sequences.
    pub(crate) untimed_below: u64,
    pub(crate) segments: Box<[Segment]>,
    pub(crate) chores: Mutex<Chores>,
    pub(crate) writer: Mutex<Writer>,
    /// The sequence of the next segment to be opened.
    pub(crate) next_sequence: AtomicU64,
    /// The numbers of the rows that were staged last in each area.
    pub(crate) latest_rows: [AtomicU64; 2],
    /// True if a segment waits to be written. A hint.
    pub(crate) has_waiting: AtomicBool,
    /// Lists of journals that are nearly full.
    pub(crate) worn: Worn,
    pub(crate) bits_locks: Box<[BitsLock]>,
    /// True if a caller that could not wait found no room. A hint.
    pub(crate) is_behind: AtomicBool,
    /// True if a death or a flush has not been noted on the device.
    pub(crate) unsound: AtomicBool,
    /// The state of syncs to the device.
    pub(crate) syncing: Syncing,
    pub(crate) counters: Counters,
}

/// The part of a segment's state that is known without a lock.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The sequence, the area and whether the segment is written, in one word.
    state: AtomicU64,
    pub(crate) journal: Journal,
    pub(crate) usage: Usage,
}

/// Where the units of a segment are, and its sequence.
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
    /// The sequence of a segment, unless it is free.
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

    /// The segment's area, if it is not free.
    pub(crate) fn area(&self) -> Area {
        Area::from_bit(self.state.load(Ordering::Relaxed) >> Self::AREA_SHIFT)
    }

    /// Called under the writer's lock.
    pub(crate) fn set_state(&self, state: State, area: Area) {
        let word = |sequence| sequence << Self::SEQUENCE_SHIFT | (area as u64) << Self::AREA_SHIFT;
        let word = match state {
            State::Free => 0,
            State::Buffered(sequence) => word(sequence),
            State::Written(sequence) => word(sequence) | Self::WRITTEN,
        };
        // Release: partner is the acquire in `state`. A thread that sees a segment written finds
        // its pages on the device, and one that sees a sequence sees that the segment's last use
        // has ended.
        self.state.store(word, Ordering::Release);
    }
}

impl Flash {
    /// The seed of the hashes by which items are stored here.
    pub fn hash_seed(&self) -> [u8; 16] {
        self.hash_seed
    }

    /// The longest value that is taken: one of this length is alone in a segment.
    pub fn value_bytes_max(&self) -> usize {
        self.geometry.segment_bytes - unit::HEAD_BYTES - table::table_bytes(1, 1)
    }

    /// Whether the item at this place may have this hash.
    pub fn may_be(&self, place: Place, hash: u64) -> bool {
        self.geometry.may_be(place, hash)
    }

    /// Sets what reads cost, by which the areas are divided from now on.
    pub fn set_costs(&self, costs: Costs) {
        lock(&self.writer).costs = costs;
    }

    /// Notes that the key's item at this place is no longer its value. Takes no lock of the tier
    /// but the superblock's, and writes a note: it is called under the key's lock in the index,
    /// before the index leads elsewhere. The note is on the device when it returns; only then may
    /// the change become visible.
    ///
    /// A staged place needs no note: its unit is not on the device, and the thread that seals it
    /// asks the index under the key's lock, which no longer leads to the row.
    pub fn forget(&self, place: Place, hash: u64) {
        self.counters.items_gone(1);
        if let Some(spot) = self.geometry.locate(place) {
            self.journal(spot.segment, spot.granule, hash);
        }
    }

    /// Voids everything stored so far, on the device too. Places handed out before lead nowhere.
    /// The caller empties the index, and says so by [`Flash::note_emptied`].
    pub fn flush(&self) {
        let mut writer = lock(&self.writer);
        // First, while all journals take notes: an item that dies before this is on the device has
        // to be dead for a process that starts after a kill. No segment is opened meanwhile.
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
        // Segments that wait to be written or are being collected are freed by the thread that does
        // it.
        writer.waiting.iter_mut().for_each(|full| full.is_void = true);
        self.segments.iter().for_each(|segment| segment.set_state(State::Free, Area::Cold));
        self.counters.no_items();
        self.end_all_flushes();
    }

    /// Notes that the index no longer leads to any place from before a flush, and that nothing has
    /// come in since: until then a thread that takes one of them out counts an item as gone that
    /// the flush has counted.
    pub fn note_emptied(&self) {
        // No work of the tier itself has taken an item out without having counted it.
        let _chores = lock(&self.chores);
        let _writer = lock(&self.writer);
        self.counters.no_items();
    }

    /// Keeps the time of a planned flush of everything on the device, in Unix seconds, or 0 for no
    /// plan: [`Flash::planned_flush`] returns it after the next start. It flushes nothing. `at` is
    /// called under a lock, so the answer to the last call is kept.
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
            // Items that a later process finds must not outlast the planned time.
            self.void_device();
        }
    }

    /// When everything is to be flushed, in Unix seconds; 0 if nothing is planned.
    pub fn planned_flush(&self) -> u32 {
        lock(&self.superblock).flush_at
    }

    /// Whether something died or was flushed without a note on the device, because it takes no
    /// notes or has lost some: not even that everything on it is void, which [`Flash::maintain`]
    /// keeps trying to note. Until it is noted, a process that opens the device in the same boot
    /// may find items there that were deleted or replaced.
    pub fn is_unsound(&self) -> bool {
        self.unsound.load(Ordering::Relaxed) || self.syncing.has_lost()
    }

    /// Voids every segment opened before this moment, for the next start: this needs a note, and
    /// without it nothing new is taken. `false` if the note was refused.
    pub(crate) fn void_device(&self) -> bool {
        let mut superblock = lock(&self.superblock);
        let next = self.next_sequence.load(Ordering::Relaxed);
        superblock.void_below = superblock.void_below.max(next);
        let is_written = self.write_superblock(&superblock);
        self.unsound.store(!is_written, Ordering::Relaxed);
        is_written
    }

    /// Voids the segment with this sequence, and with it everything opened before now, unless it is
    /// void already: one place that refuses again and again costs only what had come before the
    /// first time. `false` if the note was refused.
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

    /// Frees a segment. Nothing may lead to it any more, or everything has to be void.
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

    /// Removes an item from the index for good.
    pub(crate) fn drop_item(&self, access: &dyn IndexAccess, hash: u64, place: Place) {
        let is_removed = access.remove(hash, place);
        self.count_dropped(is_removed);
    }

    /// Removes an item from the index if it is in memory as well. Returns whether it was.
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
