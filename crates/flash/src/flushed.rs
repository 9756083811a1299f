//! Flushed prefixes: an item that lies before the point of a flush, under a key with its prefix, is
//! gone, though the index may lead to it and no thread has looked at it.
//!
//! ```text
//!   sequences   .. 4 5 6 7 8 9        segments that are opened later ..
//!                  all   ^   ^
//!                        |   open: up to a granule, one of each area
//! ```
//!
//! A *point* says which units were there: those of all segments that had been opened, without the
//! units that the two open ones take from then on. Rows that are staged at that moment have no unit
//! yet; those with the prefix are dropped instead, so that a row that is sealed later is younger
//! than every earlier flush. A row that collection stages again would become younger too, so
//! collection asks first, under the writer's lock, which a flush holds.
//!
//! A flush has two steps. The first only names the prefix, for which it waits for no other thread:
//! from then on nothing with it is found, wherever it lies, and nothing with it is staged. Every
//! item under it is older than the flush, also one that a thread was just staging. The second step
//! takes the writer's lock, drops the staged rows, replaces the bare name by the point, and writes
//! it down.
//!
//! A flush ends when every segment before its point is gone, or was scrubbed
//! ([`mod@crate::scrub`]). On a large device that takes a while, and there is not room for many:
//!
//! # On the device
//!
//! The prefixes are kept behind the superblock, in the same page, and written before a flush
//! returns:
//!
//! ```text
//!   128                132       134        136
//!   +------------------+---------+----------+----------------------------------------------+
//!   | CRC-32C of these | count   | bytes of | length u8, prefix, sequence u64,             |
//!   | bytes          4 | u16     | them u16 | per area: sequence u64 and granule u32; ...   |
//!   +------------------+---------+----------+----------------------------------------------+
//! ```
//!
//! A page of an earlier version has zeros there, which stand for no prefixes. If these bytes are
//! damaged, nothing on the device is believed.

use std::io;
use std::sync::RwLock;

use ::io::device::{Device, PAGE_BYTES};
use codec::Damaged;
use codec::record::Rows;
use stdx::sync::atomic::{AtomicBool, Ordering};
use stdx::sync::lock;

use crate::area::Area;
use crate::superblock::{SEQUENCE_MAX, SUPERBLOCK_BYTES};
use crate::writer::Writer;
use crate::{Flash, IndexAccess, Place, RECORD_KEY_BYTES_MAX};

/// Where in the first page the prefixes begin.
pub(crate) const FLUSHED_AT: usize = 128;
/// The bytes of the page that they have.
const FLUSHED_BYTES: usize = PAGE_BYTES - FLUSHED_AT;
const HEAD_BYTES: usize = 8;
/// Bytes of an entry beside its prefix.
const ENTRY_BYTES: usize = 1 + 8 + 2 * (8 + 4);

/// The number of the flushes of an earlier process; 0 is none.
pub(crate) const FLUSHES_BEFORE: u64 = 1;

const _: () = assert!(SUPERBLOCK_BYTES <= FLUSHED_AT && PAGE_BYTES <= u16::MAX as usize);
const _: () = assert!(RECORD_KEY_BYTES_MAX == u8::MAX as usize);

/// A moment, described by the units that had been written by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    /// Above the sequences of all segments that had been opened.
    pub(crate) below: u64,
    /// The segments that were open, and the granule at which their next unit begins. A sequence of
    /// 0 is none.
    open: [(u64, u32); 2],
}

impl Point {
    /// Whether a unit had been written by then.
    fn is_after(&self, sequence: u64, granule: u32) -> bool {
        let is_later = |&(open, next): &(u64, u32)| open == sequence && granule >= next;
        sequence < self.below && !self.open.iter().any(is_later)
    }
}

/// A prefix, and the point of its last flush.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    prefix: Box<[u8]>,
    pub(crate) point: Point,
    /// Flushes are numbered from [`FLUSHES_BEFORE`] on, the number of those of an earlier process.
    number: u64,
}

/// All flushed prefixes.
#[derive(Debug, Default)]
pub(crate) struct Flushed {
    is_any: AtomicBool,
    prefixes: RwLock<Prefixes>,
}

#[derive(Debug, Default)]
struct Prefixes {
    /// Prefixes that have their points.
    entries: Vec<Entry>,
    /// Prefixes between the two steps. One may be here twice.
    begun: Vec<Box<[u8]>>,
}

/// A flush that has begun: [`Flash::end_flush_prefix`] has to follow, or no item with its prefix
/// gets in any more.
#[derive(Debug)]
#[must_use]
pub struct PrefixFlush(Box<[u8]>);

impl Flushed {
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        let is_any = AtomicBool::new(!entries.is_empty());
        Self { is_any, prefixes: RwLock::new(Prefixes { entries, begun: Vec::new() }) }
    }

    /// Whether a unit's row with this key was flushed.
    #[inline]
    pub(crate) fn takes(&self, sequence: u64, granule: u32, key: &[u8]) -> bool {
        // Acquire: partner is the release in `change`. A thread that sees that there are none any
        // more sees that the segments before their points are free.
        self.is_any.load(Ordering::Acquire) && self.takes_one(sequence, granule, key)
    }

    #[cold]
    fn takes_one(&self, sequence: u64, granule: u32, key: &[u8]) -> bool {
        self.read(|prefixes| {
            let takes = |entry: &Entry| {
                key.starts_with(&entry.prefix) && entry.point.is_after(sequence, granule)
            };
            prefixes.has_begun_for(key) || prefixes.entries.iter().any(takes)
        })
    }

    /// Whether a flush of a prefix of this key has begun, and has no point yet.
    #[inline]
    pub(crate) fn has_begun_for(&self, key: &[u8]) -> bool {
        // Acquire: partner is the release in `change`, as in `takes`.
        self.is_any.load(Ordering::Acquire) && self.read(|prefixes| prefixes.has_begun_for(key))
    }

    /// The number of flushed prefixes.
    pub(crate) fn count(&self) -> usize {
        self.read(|prefixes| prefixes.entries.len() + prefixes.begun.len())
    }

    /// The number of the latest flush, and a sequence above all segments before the points.
    pub(crate) fn latest(&self) -> Option<(u64, u64)> {
        if !self.is_any.load(Ordering::Relaxed) {
            return None;
        }
        self.read(|Prefixes { entries, .. }| {
            let number = entries.iter().map(|entry| entry.number).max()?;
            Some((number, entries.iter().map(|entry| entry.point.below).max()?))
        })
    }

    fn read<R>(&self, look: impl FnOnce(&Prefixes) -> R) -> R {
        look(&self.prefixes.read().expect("nobody panics while he holds this lock"))
    }

    fn change<R>(&self, change: impl FnOnce(&mut Prefixes) -> R) -> R {
        let mut prefixes = self.prefixes.write().expect("nobody panics while he holds this lock");
        let result = change(&mut prefixes);
        let is_any = !prefixes.entries.is_empty() || !prefixes.begun.is_empty();
        // Release: partner is the acquire in `takes` and `has_begun_for`.
        self.is_any.store(is_any, Ordering::Release);
        result
    }

    /// Forgets those that have their points and that `stays` does not keep.
    fn retain(&self, stays: impl Fn(&Entry) -> bool) {
        self.change(|prefixes| prefixes.entries.retain(stays));
    }

    /// Takes the first step of a flush.
    fn begin(&self, prefix: &[u8]) {
        self.change(|prefixes| prefixes.begun.push(prefix.into()));
    }

    /// Takes the second: puts an entry in the place of its prefix, and of those that begin with it.
    fn end(&self, entry: Entry) {
        self.change(|Prefixes { entries, begun }| {
            let at = begun.iter().position(|begun| *begun == entry.prefix);
            begun.swap_remove(at.expect("it has begun"));
            entries.retain(|other| !other.prefix.starts_with(&entry.prefix));
            entries.push(entry);
        });
    }

    /// Whether the page has room for another prefix, which takes the place of those that begin with
    /// it. Prefixes that have begun count with all that they will replace: they may end in any
    /// order.
    fn has_room_for(&self, prefix: &[u8]) -> bool {
        let bytes = self.read(|Prefixes { entries, begun }| {
            let stay = entries.iter().filter(|entry| !entry.prefix.starts_with(prefix));
            let come = begun.iter().map(|begun| ENTRY_BYTES + begun.len());
            stay.map(Entry::bytes).chain(come).sum::<usize>()
        });
        HEAD_BYTES + bytes + ENTRY_BYTES + prefix.len() <= FLUSHED_BYTES
    }

    /// The share of the page that is in use; `None` without prefixes.
    fn used_share(&self) -> Option<f64> {
        if !self.is_any.load(Ordering::Relaxed) {
            return None;
        }
        let bytes = self.read(|Prefixes { entries, begun }| {
            let begun = begun.iter().map(|begun| ENTRY_BYTES + begun.len());
            HEAD_BYTES + entries.iter().map(Entry::bytes).chain(begun).sum::<usize>()
        });
        Some(bytes as f64 / FLUSHED_BYTES as f64)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        self.read(|Prefixes { entries, .. }| {
            entries.iter().for_each(|entry| entry.encode(&mut bytes));
            bytes[4..6].copy_from_slice(&(entries.len() as u16).to_le_bytes());
        });
        let body = bytes.len() - HEAD_BYTES;
        assert!(bytes.len() <= FLUSHED_BYTES, "whoever adds one has asked for room");
        bytes[6..8].copy_from_slice(&(body as u16).to_le_bytes());
        let sum = codec::checksum(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

impl Prefixes {
    fn has_begun_for(&self, key: &[u8]) -> bool {
        self.begun.iter().any(|prefix| key.starts_with(prefix))
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.prefix.len()
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.prefix.len() as u8);
        bytes.extend_from_slice(&self.prefix);
        bytes.extend_from_slice(&self.point.below.to_le_bytes());
        for (sequence, granule) in self.point.open {
            bytes.extend_from_slice(&sequence.to_le_bytes());
            bytes.extend_from_slice(&granule.to_le_bytes());
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let length = usize::from(take::<1>(bytes)?[0]);
        let (prefix, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        let below = u64::from_le_bytes(take(bytes)?);
        if below > SEQUENCE_MAX {
            return None;
        }
        let mut open = [(0, 0); 2];
        for (sequence, granule) in &mut open {
            *sequence = u64::from_le_bytes(take(bytes)?);
            *granule = u32::from_le_bytes(take(bytes)?);
        }
        Some(Self { prefix: prefix.into(), point: Point { below, open }, number: FLUSHES_BEFORE })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (part, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*part)
}

/// Reads the prefixes from a first page.
pub(crate) fn decode(page: &[u8; PAGE_BYTES]) -> Result<Vec<Entry>, Damaged> {
    let (head, rest) = page[FLUSHED_AT..].split_at(HEAD_BYTES);
    if head.iter().all(|&byte| byte == 0) {
        return Ok(Vec::new());
    }
    let number = |at: usize| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let mut body = rest.get(..number(6)).ok_or(Damaged)?;
    let sum = codec::checksum(&page[FLUSHED_AT + 4..][..4 + body.len()]);
    if sum.to_le_bytes() != head[..4] {
        return Err(Damaged);
    }
    let entries: Option<Vec<_>> = (0..number(4)).map(|_| Entry::decode(&mut body)).collect();
    entries.filter(|_| body.is_empty()).ok_or(Damaged)
}

/// Writes to a device that no prefix was flushed.
pub(crate) fn write_none(device: &dyn Device) -> io::Result<()> {
    device.write_note(FLUSHED_AT as u64, &Flushed::default().encode())
}

/// Corrects the checksum of a first page's prefixes.
#[cfg(any(test, fuzzing))]
pub(crate) fn put_right(page: &mut [u8; PAGE_BYTES]) {
    let (sum, known) = page[FLUSHED_AT..].split_at_mut(4);
    let body = usize::from(u16::from_le_bytes([known[2], known[3]]));
    if let Some(known) = known.get(..4 + body) {
        sum.copy_from_slice(&codec::checksum(known).to_le_bytes());
    }
}

/// The bytes that a first page with these entries has.
#[cfg(any(test, fuzzing))]
pub(crate) fn encoded(entries: Vec<Entry>) -> Vec<u8> {
    Flushed::new(entries).encode()
}

impl Flash {
    /// Whether [`Flash::flush_prefix`] has room for a prefix.
    pub fn has_room_for_prefix(&self, prefix: &[u8]) -> bool {
        self.flushed.has_room_for(prefix)
    }

    /// The number of flushed prefixes of which earlier segments are still there.
    pub fn prefixes_flushed(&self) -> usize {
        self.flushed.count()
    }

    /// The share of the page's room for prefixes that is in use, if any was flushed.
    pub fn prefixes_share(&self) -> Option<f64> {
        self.flushed.used_share()
    }

    /// Makes void everything stored so far whose key has this prefix, on the device too: both steps
    /// of a flush.
    pub fn flush_prefix(&self, prefix: &[u8], access: &dyn IndexAccess) {
        let begun = self.begin_flush_prefix(prefix);
        self.end_flush_prefix(begun, access);
    }

    /// Makes void everything whose key has this prefix, at once: nothing of it is found, and no
    /// item gets in, until [`Flash::end_flush_prefix`]. There has to be room for it; a caller asks
    /// for that and begins before the next caller does either. If the process is killed in between,
    /// the next one finds everything as if nothing had been flushed.
    pub fn begin_flush_prefix(&self, prefix: &[u8]) -> PrefixFlush {
        assert!(self.has_room_for_prefix(prefix), "whoever begins one has asked for room");
        self.flushed.begin(prefix);
        PrefixFlush(prefix.into())
    }

    /// Lets items from now on be found, and makes earlier ones void on the device too, before any
    /// client is told of the flush. The index may go on leading to items flushed by then: they are
    /// not found. If the flush cannot be noted, everything on the device is made void for the next
    /// start.
    pub fn end_flush_prefix(&self, begun: PrefixFlush, access: &dyn IndexAccess) {
        let prefix = begun.0;
        {
            let mut writer = lock(&self.writer);
            Area::ALL.iter().for_each(|&area| self.drop_staged(&mut writer, area, &prefix, access));
            writer.prefix_flushes += 1;
            let (point, number) = (self.point(&writer), writer.prefix_flushes);
            self.flushed.end(Entry { prefix, point, number });
        }
        if !self.write_flushed() {
            self.void_device();
        }
    }

    /// Whether a flush of its prefix has taken the item at a place, if that is the key's.
    pub fn is_flushed(&self, place: Place, key: &[u8]) -> bool {
        if place.is_staged() {
            return self.flushed.has_begun_for(key);
        }
        let Some(spot) = self.geometry.locate(place) else { return false };
        let sequence = self.segments[spot.segment as usize].state().sequence();
        sequence.is_some_and(|sequence| self.flushed.takes(sequence, spot.granule, key))
    }

    /// The units written until now, as a point. Under the writer's lock.
    fn point(&self, writer: &Writer) -> Point {
        let open = Area::ALL.map(|area| {
            let open = writer.streams[area.index()].open.as_ref();
            open.map_or((0, 0), |open| {
                (open.sequence, (open.end / self.geometry.granule_bytes()) as u32)
            })
        });
        Point { below: self.next_sequence.load(Ordering::Relaxed), open }
    }

    /// Drops the rows with this prefix from an open unit.
    fn drop_staged(
        &self,
        writer: &mut Writer,
        area: Area,
        prefix: &[u8],
        access: &dyn IndexAccess,
    ) {
        let unit = &mut writer.stream(area).unit;
        let mut rows = Rows::new(&unit.raw);
        let has_prefix = |row: codec::record::Row<'_>| row.key.starts_with(prefix);
        // In rising order, as the numbers of rows are.
        let dropped: Vec<u64> = unit
            .rows
            .iter()
            .filter(|_| has_prefix(rows.next_row().expect("as it was staged")))
            .map(|row| {
                self.drop_item(access, row.hash, self.geometry.staged(row.number, row.hash));
                row.number
            })
            .collect();
        unit.retain(|row| dropped.binary_search(&row.number).err().map(|_| row.accesses));
    }

    /// Forgets the flushes before whose points nothing is left. The writer's lock is held, and no
    /// segment is being collected.
    pub(crate) fn end_flushes(&self, writer: &Writer) {
        if !self.flushed.is_any.load(Ordering::Relaxed) {
            return;
        }
        let open = writer.streams.iter().filter_map(|stream| stream.open.as_ref());
        let written = writer.streams.iter().filter_map(|stream| stream.written.front());
        let sequences = open
            .map(|open| open.sequence)
            .chain(written.chain(writer.found.front()).map(|listed| listed.entry.sequence))
            .chain(writer.waiting.iter().map(|full| full.entry.sequence));
        let oldest = sequences.min().unwrap_or(u64::MAX);
        // The device may keep them until the next write: they take nothing.
        self.flushed.retain(|entry| entry.point.below > oldest);
    }

    /// Forgets the flushes up to a number, whose items are all dead on the device.
    pub(crate) fn end_flushes_up_to(&self, number: u64) {
        self.flushed.retain(|entry| entry.number > number);
        // If the device keeps them, they take nothing.
        self.write_flushed();
    }

    /// Forgets all flushes of prefixes, because everything is void.
    pub(crate) fn end_all_flushes(&self) {
        self.flushed.retain(|_| false);
    }

    /// Writes the flushes of prefixes to the device. Returns `false` if that fails.
    fn write_flushed(&self) -> bool {
        // A later caller writes the prefixes of that moment.
        let _superblock = lock(&self.superblock);
        let written = self.device.write_note(FLUSHED_AT as u64, &self.flushed.encode());
        if written.is_err() {
            self.counters.io_errors.add(1);
        }
        written.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(flushed: &Flushed) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        let bytes = flushed.encode();
        page[FLUSHED_AT..][..bytes.len()].copy_from_slice(&bytes);
        page
    }

    fn entry(prefix: &[u8], below: u64) -> Entry {
        let point = Point { below, open: [(below - 1, 3), (0, 0)] };
        Entry { prefix: prefix.into(), point, number: FLUSHES_BEFORE }
    }

    #[test]
    fn a_point_takes_units_that_were_there_and_none_that_came_later() {
        let point = Point { below: 10, open: [(9, 5), (7, 0)] };
        for (sequence, granule, is_after) in [
            (1, 0, true),
            (6, 99, true),
            (7, 0, false),
            (8, 99, true),
            (9, 4, true),
            (9, 5, false),
            (10, 0, false),
            (11, 9, false),
        ] {
            assert_eq!(point.is_after(sequence, granule), is_after, "{sequence}: {granule}");
        }
    }

    #[test]
    fn prefixes_come_back_from_the_page_and_any_changed_byte_is_damage() {
        assert_eq!(decode(&[0; PAGE_BYTES]).map(|entries| entries.len()), Ok(0));
        let entries = vec![entry(b"user:", 10), entry(&[0xff; RECORD_KEY_BYTES_MAX], 11)];
        let flushed = Flushed::new(entries.clone());
        assert_eq!(decode(&page(&flushed)), Ok(entries));
        let bytes = flushed.encode().len();
        for at in FLUSHED_AT..FLUSHED_AT + bytes {
            let mut page = page(&flushed);
            page[at] ^= 0x04;
            assert!(decode(&page).is_err(), "{at}");
        }
        for (below, is_sound) in [(SEQUENCE_MAX, true), (SEQUENCE_MAX + 1, false)] {
            let page = page(&Flushed::new(vec![entry(b"user:", below)]));
            assert_eq!(decode(&page).is_ok(), is_sound, "{below}");
        }
        let none = Flushed::default();
        assert_eq!(decode(&page(&none)).map(|entries| entries.len()), Ok(0));
    }

    #[test]
    fn the_page_has_room_for_prefixes_up_to_its_end() {
        let flushed = Flushed::default();
        let mut count = 0;
        let name = |count: usize| format!("{count:07}").into_bytes();
        while flushed.has_room_for(&name(count)) {
            flushed.begin(&name(count));
            count += 1;
        }
        assert_eq!(count, (FLUSHED_BYTES - HEAD_BYTES) / (ENTRY_BYTES + 7));
        assert!(!flushed.has_room_for(b"00"), "those that have begun may end later");
        assert_eq!(decode(&page(&flushed)).map(|entries| entries.len()), Ok(0));
        (0..count).for_each(|count| flushed.end(entry(&name(count), 10)));
        assert_eq!(decode(&page(&flushed)).map(|entries| entries.len()), Ok(count));
        assert!(flushed.has_room_for(&name(0)), "in its own place");
        assert!(flushed.has_room_for(b"00"), "or in that of a hundred others");
        assert!(!flushed.has_room_for(b"another"));
    }
}
