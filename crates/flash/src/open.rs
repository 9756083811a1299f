//! Opening a device, and formatting one.
//!
//! The contents of a device count if it was closed cleanly or if the machine was not restarted
//! since: notes outlive a process that is killed, in the kernel's page cache, but not a crash of
//! the machine. And the process that opens it has to hash keys like the one that has written it: by
//! these hashes items are found and their deaths noted. Of the segments that count, the superblock
//! says which are void, and their table entries are zeroed before anything else happens; the rest
//! wait for [`Flash::recover`].
//!
//! A page of the segment table that cannot be read, though others can, is *lost*: its segments are
//! given up. It may be readable at a later start, with entries of items that have died by then. So
//! it is zeroed, which gives a drive the occasion to write it elsewhere, and the superblock names
//! before that a sequence above all that such a page may hold: if the zeros do not reach the drive,
//! all below is void.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use ::io::device::{Device, PAGE_BYTES, Pages};
use codec::entropy::Threshold;
use codec::{Damaged, Encoder};
use stdx::random::mix;
use stdx::sync::Mutex;
use stdx::sync::atomic::{AtomicBool, AtomicU64};

use crate::area::Area;
use crate::changes::Changes;
use crate::chores::Chores;
use crate::close::ATTEMPTS_MAX;
use crate::dictionaries::{DICTIONARIES_MAX, Dictionaries, Known};
use crate::fill::Fill;
use crate::flash::Segment;
use crate::flushed::{self, FLUSHES_BEFORE, Flushed};
use crate::geometry::{ENTRY_BYTES, Geometry};
use crate::journal::BitsLock;
use crate::list::ListedSegment;
use crate::partition::HotTarget;
use crate::sampling::Sampling;
use crate::stats::Counters;
use crate::superblock::{NoSuperblock, SEQUENCE_MAX, Superblock};
use crate::sync::Syncing;
use crate::table::Entry;
use crate::watermarks::Watermarks;
use crate::worn::Worn;
use crate::writer::{BUFFERS, Stream, Writer};
use crate::{Costs, Flash, Reached, Settings};

/// Bytes of the segment table that are read and zeroed at once.
const TABLE_STEP_BYTES: usize = 64 << 10;

/// Pages of the segment table that a start gives up: a drive may take seconds to refuse each.
const LOST_PAGES_MAX: usize = 32;
/// Times that a page is asked for before it is lost, each behind a read elsewhere that succeeds:
/// while the path to a device is gone, no page is read.
const LOST_TRIES: u64 = 3;

/// Pages of a device that have to be blank before it is formatted.
const BLANK_PAGES: usize = (1 << 20) / PAGE_BYTES;

/// Most pages of a unit.
const UNIT_PAGES_MAX: usize = 4;

/// Most times that all of a device was written since the kernel last wrote its notes back, which it
/// does after half a minute. After a kill it is some buffers.
const ROUNDS_UNKNOWN: u64 = 4;

/// A start skips fewer sequences than this beside those, at random. More would not help: the checks
/// that tell units and notes of one sequence from those of another have 32 bits. Of 2^60 sequences
/// a start takes 2^33 at the most, as long as fewer segments are opened until the next.
const SKIPPED_BY_CHANCE: u64 = 1 << 32;

/// Sequences that a start skips if pages of the segment table are lost. Only starts that are killed
/// before they have found everything leave no higher sequence elsewhere, and this is enough for
/// thirty thousand of them.
const SKIPPED_FOR_LOST: u64 = 1 << 48;

const _: () = assert!(TABLE_STEP_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(PAGE_BYTES.is_multiple_of(ENTRY_BYTES));
const _: () = assert!(SKIPPED_FOR_LOST / (2 * SKIPPED_BY_CHANCE) > 30_000);
const _: () = assert!(SKIPPED_FOR_LOST < SEQUENCE_MAX >> 8);
const _: () = assert!(ROUNDS_UNKNOWN << u32::BITS < SEQUENCE_MAX >> 20);
const _: () = assert!(SKIPPED_BY_CHANCE < SEQUENCE_MAX >> 20);

/// Why a device cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// It has no room for as many segments as the tier needs.
    TooSmall {
        /// Bytes that it would need.
        bytes_min: u64,
    },
    /// Another version of the tier has written it.
    OtherVersion(u32),
    /// It was formatted with other sizes.
    OtherShape {
        /// Bytes of its segments.
        segment_bytes: u64,
        /// Its segments.
        segments: u64,
    },
    /// It does not begin like a device of the tier, and is not blank.
    Foreign,
    /// It cannot be read or written.
    Io(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { bytes_min } => {
                write!(formatter, "the device is too small: it needs at least {bytes_min} bytes")
            }
            Self::OtherVersion(version) => {
                write!(formatter, "the device holds data of another version ({version})")
            }
            Self::OtherShape { segment_bytes, segments } => write!(
                formatter,
                "the device was formatted with another size: {segments} segments of \
                 {segment_bytes} bytes"
            ),
            Self::Foreign => formatter.write_str(
                "the device holds something else than a flash tier, or its beginning is damaged",
            ),
            Self::Io(error) => write!(formatter, "the device cannot be used: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Why nothing on a tier's device is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// It was not closed, and the machine was restarted since: nobody knows which of the latest
    /// writes have reached the device.
    CutOff,
    /// Keys were hashed by another function ([`Settings::hash_check`]).
    OtherHash,
    /// Its first page begins like this version's, and is damaged otherwise.
    SuperblockDamaged,
    /// The flushed prefixes cannot be read.
    FlushesDamaged,
    /// A flush was planned, the clock was put back, and its time may have come.
    FlushMissed,
    /// Entries of the segment table are damaged, or lead to what is, and cannot be zeroed.
    TableUnwritable,
}

impl fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::CutOff => "it was not closed before the machine was started anew",
            Self::OtherHash => "a version that hashes keys in another way has written it",
            Self::SuperblockDamaged => "its first page is damaged",
            Self::FlushesDamaged => "what it says of flushes is damaged",
            Self::FlushMissed => {
                "a flush was planned, and the clock does not tell whether its time has come"
            }
            Self::TableUnwritable => "its segment table is damaged and cannot be written",
        })
    }
}

/// Why a device held nothing that can be found when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Empty {
    /// It was formatted, whatever was there ([`Flash::format`]).
    New,
    /// Its beginning was blank.
    Blank,
    /// It is a tier's, and none of its segments was written, or each is void.
    NoItems,
    /// Nothing there is believed.
    Doubted(Doubt),
}

impl fmt::Display for Empty {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::New => "it is new",
            Self::Blank => "there are only zeros in its first MiB",
            Self::NoItems => "its last run has left no items there",
            Self::Doubted(doubt) => return doubt.fmt(formatter),
        })
    }
}

impl Flash {
    /// Why there was nothing to be found on the device when it was opened; `None` if there was.
    pub fn empty(&self) -> Option<Empty> {
        self.empty
    }

    /// Why nothing that was on the device when it was opened is believed; `None` if it is, or if
    /// the device was formatted.
    pub fn doubt(&self) -> Option<Doubt> {
        match self.empty {
            Some(Empty::Doubted(doubt)) => Some(doubt),
            _ => None,
        }
    }

    /// When the process that left the items found here was last known to have the device, in Unix
    /// seconds: a minute before its end at the most. `None` if nothing was found. Which keys were
    /// changed since without the device is unknown.
    pub fn last_used(&self) -> Option<u32> {
        self.last_used
    }

    /// Segments whose earlier content was given up when the device was opened, because the segment
    /// table could not be read there.
    pub fn segments_lost(&self) -> u64 {
        self.segments_lost
    }

    /// Opens a device, and formats it if its first MiB is blank, or if the first page is a tier's
    /// and damaged. Stored items are found by [`Flash::recover`]. A device that is refused is left
    /// as it is.
    pub fn open(device: Arc<dyn Device>, settings: &Settings) -> Result<Self, OpenError> {
        let page = read_first(&*device)?;
        let before = match Superblock::decode(&page) {
            Ok(superblock) => superblock,
            Err(NoSuperblock::Blank) if is_blank(&*device)? => {
                let mut flash = Self::format(device, settings)?;
                flash.empty = Some(Empty::Blank);
                return Ok(flash);
            }
            Err(NoSuperblock::Version(version)) => return Err(OpenError::OtherVersion(version)),
            Err(NoSuperblock::Damaged) => return Self::begin_anew(device, settings),
            Err(NoSuperblock::Blank | NoSuperblock::Foreign) => return Err(OpenError::Foreign),
        };
        let geometry = geometry_as(&*device, settings, &before)?;
        let flushed = flushed::decode(&page);
        let (reached, knows_time) = before.reached.resumed(settings.now);
        let is_flush_missed = !knows_time && before.flush_at != 0;
        let is_flushed_damaged = flushed.is_err();
        let doubt = doubt(&before, settings, is_flushed_damaged, is_flush_missed);
        let flushed = flushed.unwrap_or_default();
        let counts = |sequence| doubt.is_none() && before.counts(sequence);
        let mut table = read_table(&*device, &geometry, counts)?;
        let dictionaries = geometry.dictionaries(settings.level);
        let counters = Counters::default();
        let current = read_dictionaries(&*device, &geometry, &dictionaries, &mut table, &counters);
        counters.damaged.add(if doubt.is_none() { table.damaged } else { 0 });
        counters.io_errors.add(table.refused + table.lost.pages.len() as u64);
        let doubt = doubt.or(table.is_unclear.then_some(Doubt::TableUnwritable));
        let is_trusted = doubt.is_none();
        let found = if is_trusted { table.found } else { VecDeque::new() };
        let next = next_sequence(&geometry, table.next, &before, &flushed) + chance(settings);
        let next = table.lost.above(next)?;
        let first = found.front().map(|found| found.entry.sequence);
        let unsettled = if first.is_some() { before.unsettled() } else { 0..0 };
        let changes_life = if unsettled.is_empty() { next } else { before.changes_life };
        // Before the superblock names other segments as those that the changes apply to.
        let begin = |_| Changes::begin(&*device, &geometry, unsettled, changes_life, &counters);
        let changes = first.map(begin).transpose()?;
        let superblock = Superblock {
            boot_id: settings.boot_id,
            clean: false,
            flush_at: if is_flush_missed { 0 } else { before.flush_at },
            untimed_below: if knows_time { before.untimed_below } else { next },
            reached,
            void_below: if is_trusted { before.void_below } else { next },
            hash_check: settings.hash_check,
            unsettled_from: first.unwrap_or(0),
            unsettled_below: first.map_or(0, |_| next),
            changes_life,
            ..before
        };
        device.write_note(0, &superblock.encode())?;
        table.lost.zero(&*device)?;
        if is_flushed_damaged {
            // All prefixes from before are void by now. New ones would be at the next start, too.
            flushed::write_none(&*device)?;
        }
        // The note of a clean close must not outlive what comes now.
        sync_or_void(&*device, &superblock, next)?;
        let mut flash = Self::new(device, settings, geometry, superblock, found, next);
        (flash.is_recovering, flash.changes) = (changes.is_some().into(), Mutex::new(changes));
        let writer = flash.writer.get_mut().expect("nobody has locked it");
        (writer.sampling, writer.dictionary) = (Sampling::new(current.is_some()), current);
        (flash.dictionaries, flash.flushed) = (dictionaries, Flushed::new(flushed));
        flash.counters = counters;
        flash.empty = doubt.map(Empty::Doubted).or(first.is_none().then_some(Empty::NoItems));
        flash.segments_lost = table.lost.segments;
        flash.last_used = first.map(|_| before.reached.now);
        Ok(flash)
    }

    /// Formats a device, whatever is there.
    pub fn format(device: Arc<dyn Device>, settings: &Settings) -> Result<Self, OpenError> {
        let geometry = Self::geometry_of(&*device, settings)?;
        // Half-way through, the device is not a formatted one.
        device.write_note(0, &[0; PAGE_BYTES])?;
        Self::write_first(device, settings, geometry, 1)
    }

    /// Formats a tier's device whose first page is damaged: a cache can begin anew, and no other
    /// program's bytes are lost. Until the new first page is written the damaged one is there, and
    /// a start that is cut off is begun again.
    fn begin_anew(device: Arc<dyn Device>, settings: &Settings) -> Result<Self, OpenError> {
        let geometry = Self::geometry_of(&*device, settings)?;
        flushed::write_none(&*device)?;
        let mut flash = Self::write_first(device, settings, geometry, anew_above(settings))?;
        flash.empty = Some(Empty::Doubted(Doubt::SuperblockDamaged));
        Ok(flash)
    }

    fn geometry_of(device: &dyn Device, settings: &Settings) -> Result<Geometry, OpenError> {
        let geometry = Geometry::new(device.pages(), settings.segment_bytes);
        geometry.map_err(|bytes_min| OpenError::TooSmall { bytes_min })
    }

    /// Empties the segment table and writes a superblock. The first segment gets at least this
    /// sequence.
    fn write_first(
        device: Arc<dyn Device>,
        settings: &Settings,
        geometry: Geometry,
        next_min: u64,
    ) -> Result<Self, OpenError> {
        let mut table = read_table(&*device, &geometry, |_| false)?;
        if table.is_unclear {
            return Err(io::Error::other("the segment table cannot be written").into());
        }
        // No sequence is known to be above those that it may hold.
        table.lost.none()?;
        let next = table.next.max(next_min);
        let superblock = Superblock {
            segment_bytes: settings.segment_bytes as u32,
            segments: geometry.segments.into(),
            hash_seed: settings.hash_seed,
            boot_id: settings.boot_id,
            clean: false,
            flush_at: 0,
            void_below: next,
            unsettled_from: 0,
            unsettled_below: 0,
            untimed_below: 0,
            reached: Reached { now: settings.now, number: 0 },
            hash_check: settings.hash_check,
            changes_life: 0,
        };
        device.write_note(0, &superblock.encode())?;
        sync_or_void(&*device, &superblock, next)?;
        Ok(Self::new(device, settings, geometry, superblock, table.found, next))
    }

    fn new(
        device: Arc<dyn Device>,
        settings: &Settings,
        geometry: Geometry,
        superblock: Superblock,
        found: VecDeque<ListedSegment>,
        next_sequence: u64,
    ) -> Self {
        let Settings { segment_bytes, unit_pages, single_rows, level, .. } = *settings;
        assert!((1..=UNIT_PAGES_MAX).contains(&unit_pages), "a unit has 1 to 4 pages");
        let watermarks = settings.watermarks.unwrap_or_else(|| Watermarks::of(geometry.segments));
        assert!(watermarks.fits(geometry.segments), "collection has room between the watermarks");
        let free = watermarks.high as u32;
        let hot_target = HotTarget::new(geometry.segments, free, settings.partition);
        let cold = Fill::cold(unit_pages, single_rows, segment_bytes);
        let writer = Writer {
            streams: [Stream::new(Area::Cold, cold), Stream::new(Area::Hot, Fill::hot())],
            waiting: VecDeque::new(),
            idle: (0..BUFFERS).map(|_| Pages::zeroed(geometry.segment_pages())).collect(),
            free: free_segments(&geometry, &found),
            prepared: VecDeque::new(),
            bad: VecDeque::new(),
            suspects: VecDeque::new(),
            found,
            flushes: 0,
            prefix_flushes: FLUSHES_BEFORE,
            failures: 0,
            is_closed: false,
            hot_target,
            costs: Costs::default(),
            compression: settings.compression,
            threshold: Threshold::default(),
            encoder: Encoder::new(level),
            sampling: Sampling::new(false),
            trained: None,
            dictionary: None,
            stored: Vec::new(),
            row: Vec::new(),
        };
        Self {
            device,
            geometry,
            hash_seed: superblock.hash_seed,
            watermarks,
            promotion: settings.promotion,
            level,
            dictionary_bytes: settings.compression.dictionary_bytes(settings.dictionary_bytes),
            dictionaries: geometry.dictionaries(level),
            flushed: Flushed::default(),
            is_recovering: AtomicBool::new(false),
            changes: Mutex::new(None),
            empty: Some(Empty::New),
            segments_lost: 0,
            last_used: None,
            untimed_below: superblock.untimed_below,
            superblock: Mutex::new(superblock),
            segments: (0..geometry.segments).map(|_| Segment::new()).collect(),
            chores: Mutex::new(Chores::default()),
            writer: Mutex::new(writer),
            next_sequence: AtomicU64::new(next_sequence),
            latest_rows: Default::default(),
            has_waiting: AtomicBool::new(false),
            worn: Worn::default(),
            bits_locks: BitsLock::all(geometry.segments),
            is_behind: AtomicBool::new(false),
            unsound: AtomicBool::new(false),
            syncing: Syncing::default(),
            counters: Counters::default(),
        }
    }
}

/// All segments but those that were found.
fn free_segments(geometry: &Geometry, found: &VecDeque<ListedSegment>) -> VecDeque<u32> {
    let mut is_found = vec![false; geometry.segments as usize];
    found.iter().for_each(|found| is_found[found.segment as usize] = true);
    (0..geometry.segments).filter(|&it| !is_found[it as usize]).collect()
}

/// The geometry of this superblock's device, if it has the shape that is asked for.
fn geometry_as(
    device: &dyn Device,
    settings: &Settings,
    before: &Superblock,
) -> Result<Geometry, OpenError> {
    let (segment_bytes, segments) = (u64::from(before.segment_bytes), before.segments);
    let geometry = Geometry::new(device.pages(), settings.segment_bytes).ok();
    let is_shape = |it: &Geometry| {
        it.segment_bytes as u64 == segment_bytes && u64::from(it.segments) == segments
    };
    geometry.filter(is_shape).ok_or(OpenError::OtherShape { segment_bytes, segments })
}

/// Why the device of this superblock is not believed, if it is not.
fn doubt(
    before: &Superblock,
    settings: &Settings,
    is_flushed_damaged: bool,
    is_flush_missed: bool,
) -> Option<Doubt> {
    let was_cut_off = !before.clean && before.boot_id != settings.boot_id;
    let doubts = [
        (was_cut_off, Doubt::CutOff),
        (before.hash_check != settings.hash_check, Doubt::OtherHash),
        (is_flushed_damaged, Doubt::FlushesDamaged),
        (is_flush_missed, Doubt::FlushMissed),
    ];
    doubts.into_iter().find_map(|(is_so, doubt)| is_so.then_some(doubt))
}

/// The sequence of the first segment to be opened: above that of every segment, and above all that
/// the first page names. It is also above those of segments that may have been written without a
/// note because the process was killed or the machine has crashed: their units would be sound in
/// the next segment with the same sequence, if the device lost that one's write. Two processes that
/// were killed one after the other may have left the same names here, so each start skips some
/// more, at random ([`chance`]).
fn next_sequence(
    geometry: &Geometry,
    next: u64,
    before: &Superblock,
    flushed: &[flushed::Entry],
) -> u64 {
    let Superblock { void_below, unsettled_below, untimed_below, changes_life, .. } = *before;
    // Each life of the changes begins with a sequence that no earlier one had.
    let next = next.max(changes_life);
    // New segments never count as void, unsettled or untimed.
    let next = next.max(void_below).max(unsettled_below).max(untimed_below);
    // A segment that was opened before a flush may not have been written.
    let next = flushed.iter().map(|entry| entry.point.below).fold(next, u64::max);
    next + ROUNDS_UNKNOWN * u64::from(geometry.segments)
}

/// Sequences that a process skips.
fn chance(settings: &Settings) -> u64 {
    drawn(settings) % SKIPPED_BY_CHANCE
}

/// Where sequences begin on a device whose earlier ones are unknown: at random, far above those
/// that a device reaches from 1 on, and with room for as many again.
fn anew_above(settings: &Settings) -> u64 {
    const ANEW_FROM: u64 = 1 << 56;
    ANEW_FROM + drawn(settings) % ANEW_FROM
}

/// A random number that differs from process to process: the caller draws a seed anew, also for a
/// device that has one.
fn drawn(settings: &Settings) -> u64 {
    let (seed, _) = settings.hash_seed.split_first_chunk().expect("a seed is longer");
    mix(u64::from_le_bytes(*seed))
}

/// Makes what was written outlast the machine. A device that does not sync may have lost any note
/// of this process and of the one before, and the kernel says so once. So the next start is to
/// believe nothing of it, unless it takes no note of that either.
fn sync_or_void(device: &dyn Device, superblock: &Superblock, next: u64) -> io::Result<()> {
    let synced = device.sync();
    if synced.is_err() {
        let void = Superblock { void_below: next, ..*superblock }.encode();
        let tell = || device.write_note(0, &void).and_then(|()| device.sync());
        let _is_told = (0..ATTEMPTS_MAX).any(|_| tell().is_ok());
    }
    synced
}

/// Whether a device whose first page is blank holds nothing. Other formats begin later: an array's
/// member or a file system at 4, 16, 32 or 64 KiB.
fn is_blank(device: &dyn Device) -> io::Result<bool> {
    let mut pages = Pages::zeroed(BLANK_PAGES.min(device.pages() as usize));
    device.read(0, pages.as_pages_mut())?;
    Ok(pages.bytes().iter().all(|&byte| byte == 0))
}

/// Reads the first page; once more if it is not sound, since everything on the device depends on
/// it.
fn read_first(device: &dyn Device) -> io::Result<[u8; PAGE_BYTES]> {
    let mut page = [0; PAGE_BYTES];
    if device.pages() > 0 {
        device.read_note(0, &mut page)?;
        if Superblock::decode(&page).is_err() || flushed::decode(&page).is_err() {
            device.read_note(0, &mut page)?;
        }
    }
    Ok(page)
}

/// Reads entries of the segment table, once more if any is damaged, and returns how many are.
fn read_entries(device: &dyn Device, at: u64, bytes: &mut [u8]) -> io::Result<u64> {
    let is_damaged =
        |bytes: &&[u8]| Entry::decode(bytes).is_none() && bytes.iter().any(|&byte| byte != 0);
    let count = |bytes: &[u8]| bytes.chunks_exact(ENTRY_BYTES).filter(is_damaged).count() as u64;
    device.read_note(at, bytes)?;
    if count(bytes) > 0 {
        device.read_note(at, bytes)?;
    }
    Ok(count(bytes))
}

/// Pages of the segment table that cannot be read.
#[derive(Debug, Default)]
struct Lost {
    /// Where they begin, in bytes.
    pages: Vec<u64>,
    /// The segments that they are about.
    segments: u64,
    /// Why the last of them was refused.
    error: Option<io::Error>,
}

impl Lost {
    /// Reads entries as [`read_entries`] does, but page by page if the device refuses; those of a
    /// lost page are zeros.
    fn read_entries(&mut self, device: &dyn Device, at: u64, bytes: &mut [u8]) -> io::Result<u64> {
        if let Ok(damaged) = read_entries(device, at, bytes) {
            return Ok(damaged);
        }
        let mut damaged = 0;
        for (bytes, at) in bytes.chunks_mut(PAGE_BYTES).zip((at..).step_by(PAGE_BYTES)) {
            match read_entries(device, at, bytes) {
                Ok(damaged_here) => damaged += damaged_here,
                Err(error) if self.pages.len() < LOST_PAGES_MAX && is_lost(device, at) => {
                    bytes.fill(0);
                    self.pages.push(at);
                    self.segments += (bytes.len() / ENTRY_BYTES) as u64;
                    self.error = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(damaged)
    }

    /// A sequence from this one on that is above all that lost pages may hold.
    fn above(&mut self, next: u64) -> io::Result<u64> {
        if self.pages.is_empty() {
            return Ok(next);
        }
        if next < SEQUENCE_MAX / 2 {
            Ok(next + SKIPPED_FOR_LOST)
        } else {
            self.none().map(|()| next)
        }
    }

    /// An error if any page is lost.
    fn none(&mut self) -> io::Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Zeroes lost pages, all of each, so that the kernel need not read the rest.
    fn zero(&self, device: &dyn Device) -> io::Result<()> {
        self.pages.iter().try_for_each(|at| device.write_note(*at, &[0; PAGE_BYTES]))
    }
}

/// Whether a device that refuses a page of the segment table reads others.
fn is_lost(device: &dyn Device, at: u64) -> bool {
    let mut page = [0; PAGE_BYTES];
    let mut other = Pages::zeroed(1);
    let mut is_refused_alone = |number| {
        // Where the tier's last segments lie, past the kernel's page cache.
        let read = device.read(device.pages() - 1 - number, other.as_pages_mut());
        read.is_ok() && device.read_note(at, &mut page).is_err()
    };
    (0..LOST_TRIES).all(&mut is_refused_alone)
}

/// The segment table of a device that is opened.
#[derive(Debug)]
struct Table {
    /// The segments whose entries count, in the order of their sequences, which are unique.
    found: VecDeque<ListedSegment>,
    /// A sequence above all that were read.
    next: u64,
    lost: Lost,
    /// Damaged entries.
    damaged: u64,
    /// Writes of zeros that the device has refused.
    refused: u64,
    /// An entry that does not count is on the device still, and might count at the next start:
    /// everything has to be void by then, since no death of its items is noted.
    is_unclear: bool,
}

impl Table {
    /// Zeroes the entries of these segments.
    fn void(&mut self, device: &dyn Device, geometry: &Geometry, void: &[ListedSegment]) {
        for void in void {
            if device.write_note(geometry.entry_at(void.segment), &[0; ENTRY_BYTES]).is_err() {
                self.refused += 1;
                self.is_unclear = true;
            }
        }
    }
}

/// Reads the segment table, and zeroes the entries that do not count. One that is sound and stays
/// because the device refuses that is below the superblock's `void_below` then.
fn read_table(
    device: &dyn Device,
    geometry: &Geometry,
    counts: impl Fn(u64) -> bool,
) -> io::Result<Table> {
    let (mut found, mut next, mut damaged) = (Vec::new(), 1, 0);
    let (mut refused, mut is_unclear, mut lost) = (0, false, Lost::default());
    let mut bytes = vec![0; geometry.segments as usize * ENTRY_BYTES];
    let mut segment = 0;
    for bytes in bytes.chunks_mut(TABLE_STEP_BYTES) {
        let at = geometry.entry_at(segment);
        let damaged_here = lost.read_entries(device, at, bytes)?;
        let mut is_changed = false;
        for bytes in bytes.chunks_exact_mut(ENTRY_BYTES) {
            let entry = Entry::decode(bytes);
            next = next.max(entry.map_or(0, |entry| entry.sequence.saturating_add(1)));
            if let Some(entry) = entry.filter(|entry| counts(entry.sequence)) {
                found.push(ListedSegment { segment, entry });
            } else if bytes.iter().any(|&byte| byte != 0) {
                bytes.fill(0);
                is_changed = true;
            }
            segment += 1;
        }
        if is_changed && device.write_note(at, bytes).is_err() {
            refused += 1;
            is_unclear |= damaged_here > 0;
        }
        damaged += damaged_here;
    }
    found.sort_unstable_by_key(|found| found.entry.sequence);
    let mut table = Table { found: VecDeque::new(), next, lost, damaged, refused, is_unclear };
    let doubled = take_doubled(&mut found);
    table.void(device, geometry, &doubled);
    table.damaged += doubled.len() as u64;
    table.found = found.into();
    Ok(table)
}

/// Takes away segments that share their sequence, which no two ever had: it is unknown whose it
/// is.
fn take_doubled(found: &mut Vec<ListedSegment>) -> Vec<ListedSegment> {
    let same =
        |one: &ListedSegment, other: &ListedSegment| one.entry.sequence == other.entry.sequence;
    let doubled = found.chunk_by(same).filter(|alike| alike.len() > 1);
    let doubled: Vec<ListedSegment> = doubled.flatten().copied().collect();
    found.retain(|found| {
        doubled.binary_search_by_key(&found.entry.sequence, |it| it.entry.sequence).is_err()
    });
    doubled
}

/// Reads the dictionaries that segments name, and returns the one that the latest of them does. A
/// segment whose dictionary is damaged, when read again too, is void: no segment names its slot
/// then, and the next dictionary is written there. A dictionary that the device refuses to read may
/// be sound: recovery asks for it again, during some seconds.
fn read_dictionaries(
    device: &dyn Device,
    geometry: &Geometry,
    dictionaries: &Dictionaries,
    table: &mut Table,
    counters: &Counters,
) -> Option<Arc<Known>> {
    let mut current = None;
    let mut read = [0; DICTIONARIES_MAX + 1].map(|_: u8| None);
    for number in table.found.iter().rev().map(|found| found.entry.dictionary).filter(|it| *it != 0)
    {
        let Some(outcome) = read.get_mut(usize::from(number)).filter(|it| it.is_none()) else {
            continue;
        };
        let read = || dictionaries.read(device, number, current.is_none());
        let mut known = read();
        if !matches!(known, Ok(Ok(_))) {
            known = read();
        }
        match known {
            Ok(Ok(_)) => {}
            Ok(Err(Damaged)) => counters.damaged.add(1),
            Err(_) => counters.io_errors.add(1),
        }
        *outcome = Some(!matches!(known, Ok(Err(Damaged))));
        current = current.or(known.ok().and_then(Result::ok));
    }
    let may_be_sound = |number: u8| {
        number == 0 || read.get(usize::from(number)).is_some_and(|read| *read == Some(true))
    };
    let is_void = |found: &&ListedSegment| !may_be_sound(found.entry.dictionary);
    let void: Vec<ListedSegment> = table.found.iter().filter(is_void).copied().collect();
    table.void(device, geometry, &void);
    table.found.retain(|found| may_be_sound(found.entry.dictionary));
    current
}
