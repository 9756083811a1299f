//! Properties that hold for any bytes on a device: the bodies of the fuzz targets, which stable
//! tests run too.
//!
//! [`formats`] reads one structure of a device, and writes it again. [`device`] changes a device
//! that the tier has written, opens it, and uses it: damage is a miss or a refusal, no read goes
//! beyond the device, and items stored from then on are found, also after the next start.
//!
//! In both, checksums are corrected before, if the input says so: otherwise hardly any code behind
//! them would be reached.

use std::cell::RefCell;
use std::collections::{BTreeMap, btree_map};
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use ::io::device::{Device, PAGE_BYTES, Page, Pages};
use codec::record::{Record, Rows};
use codec::{Decoder, Dictionary};
use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::dictionaries::{DICTIONARIES_MAX, Dictionaries};
use crate::geometry::{ENTRY_BYTES, Geometry, JOURNAL_ENTRY_BYTES, SEGMENT_BYTES_MIN, Spot};
use crate::place::{PLACE_BITS, SPAN_LONG, low_bits};
use crate::superblock::{self, SEQUENCE_MAX, SUPERBLOCK_BYTES, Superblock};
use crate::table::{self, Entry};
use crate::unit::{self, Origin};
use crate::{
    Compression, Fields, Flash, IndexAccess, Inserted, Look, OpenError, Partition, Place,
    Promotion, Reader, Refused, Settings, Walk, Walked, changes, dead, flushed,
};

/// Pages of the device: enough for slots of dictionaries.
const PAGES: usize = 256;
/// Items of the device that is changed.
const ITEMS: u64 = 2000;
/// Items that are stored after the changes.
const LATER: std::ops::Range<u64> = 1 << 32..(1 << 32) + 12;
/// Steps of the background before it is taken to have no end.
const STEPS_MAX: usize = 500;
const NOW: u32 = 1000;

/// The highest bit of an input's first byte: correct the checksums.
const PUTS_RIGHT: u8 = 0x80;
/// The next bit, for a device: flip one bit, and nothing else.
const FLIPS: u8 = 0x40;

/// Reads the first bytes as the structure that the lowest bits of the first byte name.
pub fn formats(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else { return };
    let is_put_right = kind & PUTS_RIGHT != 0;
    match kind % 7 {
        0 => first_page(bytes, is_put_right),
        1 => entry(bytes, is_put_right),
        2 => item_table(bytes, is_put_right),
        3 => journal(bytes, is_put_right),
        4 => dictionary_and_unit(bytes, is_put_right),
        5 => unit(&Dictionaries::new(0, 0, 3), bytes, is_put_right),
        _ => place(bytes),
    }
}

fn first_page(bytes: &[u8], is_put_right: bool) {
    let mut page = [0; PAGE_BYTES];
    let length = bytes.len().min(PAGE_BYTES);
    page[..length].copy_from_slice(&bytes[..length]);
    if is_put_right {
        superblock::put_right(&mut page);
        flushed::put_right(&mut page);
    }
    if let Ok(found) = Superblock::decode(&page) {
        let mut again = [0; PAGE_BYTES];
        again[..SUPERBLOCK_BYTES].copy_from_slice(&found.encode());
        assert_eq!(Superblock::decode(&again), Ok(found));
    }
    if let Ok(entries) = flushed::decode(&page) {
        let encoded = flushed::encoded(entries.clone());
        let mut again = [0; PAGE_BYTES];
        again[flushed::FLUSHED_AT..][..encoded.len()].copy_from_slice(&encoded);
        assert_eq!(flushed::decode(&again).as_ref(), Ok(&entries));
    }
}

fn entry(bytes: &[u8], is_put_right: bool) {
    let Some(bytes) = bytes.first_chunk::<ENTRY_BYTES>() else {
        return assert_eq!(Entry::decode(bytes), None);
    };
    let mut bytes = *bytes;
    if is_put_right {
        table::put_entry_right(&mut bytes);
    }
    if let Some(entry) = Entry::decode(&bytes) {
        assert_eq!(entry.encode(), bytes);
    }
}

fn item_table(bytes: &[u8], is_put_right: bool) {
    let Some((entry, table)) = bytes.split_first_chunk::<ENTRY_BYTES>() else { return };
    let (mut entry, mut table) = (*entry, table.to_vec());
    table::put_entry_right(&mut entry);
    let Some(entry) = Entry::decode(&entry) else { return };
    if is_put_right {
        table::put_items_right(entry, &mut table);
    }
    let geometry = geometry();
    let Ok(items) = table::read_items(&geometry, entry, &table) else { return };
    assert!(items.len() <= table.len() / size_of::<u64>());
    let mut again = vec![0; table.len()];
    let length = table::write_items(&items, entry.sequence, &mut again);
    assert_eq!(length, entry.table_bytes);
    let start = table.len() - length as usize;
    assert_eq!(again[start..], table[start..]);
    for item in &items {
        let spot = Spot { segment: 1, granule: item.granule };
        let place = geometry.sealed(spot, item.span, item.hash);
        assert_eq!(geometry.locate(place), Some(spot));
    }
}

fn journal(bytes: &[u8], is_put_right: bool) {
    const LIFE: u64 = 3;
    let whole = bytes.len() / JOURNAL_ENTRY_BYTES * JOURNAL_ENTRY_BYTES;
    let (mut bytes, entries) = (bytes[..whole].to_vec(), whole / JOURNAL_ENTRY_BYTES);
    if is_put_right {
        dead::put_right(&mut bytes, LIFE);
    }
    if let Ok(dead::Found::Dead(dead)) = dead::read(&bytes, LIFE) {
        assert!(dead.taken().is_none_or(|taken| (taken as usize) < entries));
    }
}

/// A dictionary, of as many bytes as its head says, and a unit behind it.
fn dictionary_and_unit(bytes: &[u8], is_put_right: bool) {
    let geometry = geometry();
    let slot_bytes = geometry.slot_pages * PAGE_BYTES;
    let dictionaries = geometry.dictionaries(3);
    let (slot, rest) = bytes.split_at(bytes.len().min(slot_bytes));
    let mut slot = slot.to_vec();
    slot.resize(slot_bytes, 0);
    if is_put_right {
        Dictionaries::put_right(&mut slot);
    }
    let device = Bytes::new(vec![0; PAGES * PAGE_BYTES]);
    let at = dictionaries.page_of(1) as usize * PAGE_BYTES;
    device.change(|bytes| bytes[at..][..slot_bytes].copy_from_slice(&slot));
    let known = dictionaries.read(&device, 1, false).expect("the device works");
    if let Ok(known) = known {
        assert!((1..=dictionaries.bytes_max()).contains(&known.dictionary.bytes().len()));
        unit(&dictionaries, rest, is_put_right);
    }
}

fn unit(dictionaries: &Dictionaries, bytes: &[u8], is_put_right: bool) {
    let origin = Origin { sequence: 3, granule: 17 };
    let mut bytes = bytes.to_vec();
    if is_put_right {
        unit::put_right(origin, dictionaries, &mut bytes);
    }
    let (mut raw, mut decoder) = (Vec::new(), Decoder::new());
    let raw_bytes_max = SEGMENT_BYTES_MIN;
    let decoded = unit::decode(origin, dictionaries, &bytes, raw_bytes_max, &mut decoder, &mut raw);
    assert!(raw.len() <= raw_bytes_max);
    if decoded.is_err() {
        return;
    }
    let mut rows = Rows::new(&raw);
    while let Ok(row) = rows.next_row() {
        assert!(!matches!(unit::find(&raw, row.key), Ok(None)), "what is there is found");
    }
}

/// Any place of the index is a spot in a segment, or none.
fn place(bytes: &[u8]) {
    let Some((place, hash)) = bytes.split_first_chunk::<8>() else { return };
    let place = Place(u64::from_le_bytes(*place) & low_bits(PLACE_BITS));
    let hash = hash.first_chunk().map_or(0, |hash| u64::from_le_bytes(*hash));
    let geometry = geometry();
    let Some(spot) = geometry.locate(place) else { return };
    assert!(spot.segment < geometry.segments);
    assert!(geometry.offset_of(spot.granule) < geometry.segment_bytes);
    let again = geometry.sealed(spot, SPAN_LONG, hash);
    assert_eq!(geometry.locate(again), Some(spot));
    assert!(geometry.may_be(again, hash));
}

/// Changes a device as the input says, and uses it.
///
/// Behind the first byte come changes: in which part of the device (a byte), of which segment or
/// dictionary (a byte), how far from the part's beginning (two bytes), how many bytes (a byte), and
/// these. Or the first of them says which bit is flipped: then no dead item is back.
pub fn device(input: &[u8]) {
    let Some((&choice, mut changes)) = input.split_first() else { return };
    let mut bytes = written().clone();
    while let Some((&[part, which, low, high, length], rest)) = changes.split_first_chunk::<5>() {
        let (new, rest) = rest.split_at(rest.len().min(length.into()));
        let at = changed_at(part, which, u16::from_le_bytes([low, high]).into());
        if choice & FLIPS != 0 {
            bytes[at] ^= 1 << (length % 8);
            break;
        }
        for (byte, new) in bytes[at..].iter_mut().zip(new) {
            *byte = *new;
        }
        changes = rest;
    }
    if choice & (PUTS_RIGHT | FLIPS) == PUTS_RIGHT {
        put_right(&mut bytes);
    }
    let device = Arc::new(Bytes::new(bytes));
    let before = device.change(|bytes| bytes.clone());
    match Tier::open(&device, choice) {
        Ok(tier) => tier.use_all(choice),
        Err(OpenError::Io(error)) => panic!("a device that works: {error}"),
        Err(_) => assert!(device.change(|bytes| *bytes == before), "it is left as it is"),
    }
}

/// The position of a change on the device.
fn changed_at(part: u8, which: u8, offset: usize) -> usize {
    let geometry = geometry();
    let segment = u32::from(which) % geometry.segments;
    let dictionaries = geometry.dictionaries(3);
    let slot = which % DICTIONARIES_MAX as u8 + 1;
    let segment_at = geometry.page_of(segment) as usize * PAGE_BYTES;
    let segment_end = segment_at + geometry.segment_bytes;
    match part % 8 {
        0 => offset % PAGE_BYTES,
        1 => geometry.entry_at(segment) as usize + offset % ENTRY_BYTES,
        2 => geometry.journal_at(segment) as usize + offset % geometry.journal_bytes(),
        3 => dictionaries.page_of(slot) as usize * PAGE_BYTES + offset % PAGE_BYTES,
        4 => segment_at + offset % geometry.segment_bytes,
        // Item tables are found from their ends.
        5 => segment_end - 1 - offset % geometry.segment_bytes,
        6 => geometry.changes_at() as usize + offset % geometry.changes_bytes(),
        _ => segment_at + offset * geometry.granule_bytes() % geometry.segment_bytes,
    }
}

/// Items that were dead when the device was closed.
fn dead() -> impl Iterator<Item = u64> {
    (ITEMS * 3 / 4..ITEMS).step_by(7)
}

/// Corrects all checksums of a device, and its shape.
fn put_right(bytes: &mut Vec<u8>) {
    let geometry = geometry();
    let page: &mut [u8; PAGE_BYTES] = bytes.first_chunk_mut().expect("there are pages");
    superblock::put_right(page);
    flushed::put_right(page);
    if let Ok(superblock) = Superblock::decode(page) {
        let (segment_bytes, segments) = (geometry.segment_bytes as u32, geometry.segments.into());
        let superblock = Superblock { segment_bytes, segments, ..superblock };
        page[..SUPERBLOCK_BYTES].copy_from_slice(&superblock.encode());
        let changes = &mut bytes[geometry.changes_at() as usize..][..geometry.changes_bytes()];
        changes::put_right(changes, superblock.changes_life);
    }
    let dictionaries = geometry.dictionaries(3);
    for number in 1..=DICTIONARIES_MAX as u8 {
        let at = dictionaries.page_of(number) as usize * PAGE_BYTES;
        Dictionaries::put_right(&mut bytes[at..][..geometry.slot_pages * PAGE_BYTES]);
    }
    let device = Bytes::new(std::mem::take(bytes));
    for number in 1..=DICTIONARIES_MAX as u8 {
        // An invalid dictionary is none.
        let _ = dictionaries.read(&device, number, false);
    }
    *bytes = device.change(std::mem::take);
    for segment in 0..geometry.segments {
        let at = geometry.entry_at(segment) as usize;
        let entry = &mut bytes[at..][..ENTRY_BYTES];
        if entry.iter().all(|&byte| byte == 0) {
            continue;
        }
        table::put_entry_right(entry);
        let Some(entry) = Entry::decode(entry) else { continue };
        let journal = &mut bytes[geometry.journal_at(segment) as usize..];
        dead::put_right(&mut journal[..geometry.journal_bytes()], entry.sequence);
        let at = geometry.page_of(segment) as usize * PAGE_BYTES;
        let segment = &mut bytes[at..][..geometry.segment_bytes];
        table::put_items_right(entry, segment);
        let Ok(items) = table::read_items(&geometry, entry, segment) else { continue };
        for unit in table::units(&items) {
            let origin = Origin { sequence: entry.sequence, granule: unit[0].granule };
            let at = geometry.offset_of(unit[0].granule);
            unit::put_right(origin, &dictionaries, &mut segment[at..]);
        }
    }
}

fn geometry() -> Geometry {
    Geometry::new(PAGES as u64, SEGMENT_BYTES_MIN).expect("it is large enough")
}

fn settings() -> Settings {
    Settings {
        segment_bytes: SEGMENT_BYTES_MIN,
        compression: Compression::Any,
        promotion: Promotion::Immediate,
        // An adaptive partition would begin with nothing hot.
        partition: Partition::Fixed { hot_percent: 5 },
        ..Settings::new([7; 16], [1; 16])
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("{}-{number}", if number.is_multiple_of(3) { "third" } else { "key" }).into_bytes()
}

fn hash(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// A value of phrases that it shares with other values.
fn value(number: u64) -> Vec<u8> {
    let phrase = |place| {
        let phrase = hash(hash(number << 8 | place) % 100);
        (0..4).map(|part| format!("{:016x}", hash(phrase ^ part))).collect::<String>()
    };
    (0..16).map(phrase).collect::<String>().into_bytes()
}

/// A device that the tier has written and closed: with both areas, dictionaries, notes, and
/// a prefix that was flushed.
fn written() -> &'static Vec<u8> {
    static WRITTEN: OnceLock<Vec<u8>> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let device = Arc::new(Bytes::new(vec![0; PAGES * PAGE_BYTES]));
        let tier = Tier::open(&device, 0).expect("it is blank and large enough");
        for number in 0..ITEMS {
            tier.put(number);
            if number % 5 == 0 {
                tier.get(number / 2);
            }
            if number % (ITEMS / 3) == 0 {
                let bytes = (number..number + 3).flat_map(value).collect::<Vec<u8>>();
                let dictionary = Dictionary::from_bytes(&bytes, settings().level);
                assert!(tier.flash.publish(dictionary.expect("any bytes make one")));
            }
            if number == ITEMS / 2 {
                tier.flash.flush_prefix(b"third-1", &tier.index);
            }
            if number % 20 == 0 {
                tier.maintain();
            }
        }
        dead().for_each(|number| tier.forget(number));
        tier.flash.flush_prefix(b"third-2", &tier.index);
        let stats = tier.flash.stats();
        let are_there = [
            stats.dictionaries,
            stats.journalled,
            stats.collected,
            stats.cold.segments,
            stats.hot.segments,
            tier.flash.prefixes_flushed() as u64,
        ];
        assert!(!are_there.contains(&0), "{are_there:?}");
        tier.flash.close(&tier.index).expect("the device works");
        device.change(|bytes| bytes.clone())
    })
}

/// A tier with an index that is a map.
struct Tier {
    device: Arc<Bytes>,
    flash: Flash,
    index: Index,
    reader: RefCell<Reader>,
}

impl Tier {
    /// Opens the tier, by the lowest bit of the choice in the same boot of the machine, or another.
    fn open(device: &Arc<Bytes>, choice: u8) -> Result<Self, OpenError> {
        let settings = Settings { boot_id: [1 + (choice & 1); 16], ..settings() };
        let device = Arc::clone(device);
        let flash = Flash::open(Arc::clone(&device) as Arc<dyn Device>, &settings)?;
        Ok(Self { device, flash, index: Index::default(), reader: RefCell::default() })
    }

    /// Uses every operation of a tier.
    fn use_all(self, choice: u8) {
        self.recover();
        if choice & FLIPS != 0 {
            dead().for_each(|number| assert_eq!(self.get(number), None, "{number} was dead"));
        }
        for number in (0..ITEMS).step_by(37) {
            self.get(number);
        }
        if choice & 8 != 0 {
            self.walk();
        }
        self.maintain();
        if choice & 2 != 0 {
            self.flash.flush_prefix(b"key-2", &self.index);
            self.maintain();
        }
        if choice & 4 != 0 {
            self.flash.thin_out(&self.index, NOW);
            self.flash.evict(&self.index);
        }
        let stored: Vec<u64> = LATER.filter(|number| self.put(*number)).collect();
        assert!(!stored.is_empty(), "there is room after the background's turn");
        let is_found = |tier: &Self| {
            for number in &stored {
                assert_eq!(tier.get(*number), Some(value(*number)), "{number}");
            }
        };
        is_found(&self);
        assert_eq!(self.flash.stats().io_errors, 0);
        self.flash.close(&self.index).expect("the device works");
        if self.flash.next_sequence.load(Ordering::Relaxed) > SEQUENCE_MAX {
            // The changes left none that the next start would believe.
            return;
        }
        let Self { device, flash, .. } = self;
        drop(flash);
        let again = Self::open(&device, choice).expect("it was open before");
        again.recover();
        is_found(&again);
    }

    fn recover(&self) {
        let mut steps = 0;
        while self.flash.recover(&self.index, NOW) {
            steps += 1;
            assert!(steps <= STEPS_MAX, "recovery ends");
        }
        let places_max = geometry().segments as usize * SEGMENT_BYTES_MIN / size_of::<u64>();
        assert!(lock(&self.index.0).len() <= places_max);
    }

    fn maintain(&self) {
        for _ in 0..STEPS_MAX {
            if !self.flash.maintain(&self.index, NOW) {
                return;
            }
        }
        panic!("the background comes to an end");
    }

    /// Stores an item in place of another. `false` if it is not taken.
    fn put(&self, number: u64) -> bool {
        self.forget(number);
        let (key, value) = (key(number), value(number));
        let record = Record { key: &key, value: &value, fields: Fields::default() };
        let lead = |place| lock(&self.index.0).insert(hash(number), place).is_none();
        let mut staged = if number.is_multiple_of(2) {
            self.flash.stage_with(hash(number), &record, &self.index, lead)
        } else {
            self.flash.stage_at_once(hash(number), &record, &self.index, lead)
        };
        if staged == Err(Refused::Busy) {
            self.maintain();
            staged = self.flash.stage_with(hash(number), &record, &self.index, lead);
        }
        assert!(matches!(staged, Ok(Some(_)) | Err(Refused::Busy)), "{staged:?}");
        staged.is_ok()
    }

    fn forget(&self, number: u64) {
        let place = lock(&self.index.0).remove(&hash(number));
        if let Some(place) = place {
            self.flash.forget(place, hash(number));
        }
    }

    fn get(&self, number: u64) -> Option<Vec<u8>> {
        let (key, hash) = (key(number), hash(number));
        let mut reader = self.reader.borrow_mut();
        let place = *lock(&self.index.0).get(&hash)?;
        let mut look = self.flash.look(place, &key, &mut reader);
        let mut read = None;
        while let Look::Wait(ticket) = look {
            assert!(ticket.pages <= geometry().segment_pages());
            read = Some(ticket);
            let mut pages = Pages::zeroed(ticket.pages);
            self.device.read(ticket.page, pages.as_pages_mut()).expect("within the device");
            look = self.flash.finish(&ticket, &pages, &key, &mut reader);
        }
        assert!(reader.value().len() <= SEGMENT_BYTES_MIN);
        let Look::Found(fields) = look else { return None };
        let place = place.with_accesses(place.accesses() + 1);
        lock(&self.index.0).insert(hash, place);
        if let Some(ticket) = read {
            let record = Record { key: &key, value: reader.value(), fields };
            // Whatever comes of it, it was read.
            let _ = self.flash.promote(hash, place, &ticket, &record, &self.index);
        }
        Some(reader.value().to_vec())
    }

    fn walk(&self) {
        let (mut walk, mut pages, mut visited) = (Walk::default(), None, 0);
        let rows_max = PAGES * PAGE_BYTES;
        for _ in 0..rows_max {
            let visit = |record: &Record<'_>| {
                visited += 1;
                assert!(record.value.len() <= SEGMENT_BYTES_MIN);
            };
            match self.flash.walk(&mut walk, pages.as_ref(), &self.index, visit) {
                Walked::More => pages = None,
                Walked::End => return assert!(visited <= rows_max),
                Walked::Wait { page, pages: count } => {
                    let mut read = Pages::zeroed(count);
                    self.device.read(page, read.as_pages_mut()).expect("within the device");
                    pages = Some(read);
                }
            }
        }
        panic!("a walk ends");
    }
}

/// An index that is a map from hashes to places.
#[derive(Default)]
struct Index(Mutex<BTreeMap<u64, Place>>);

impl Index {
    /// Applies `with` to the place that a hash leads to, if it is this one.
    fn at<R>(&self, hash: u64, place: Place, with: impl FnOnce(&mut Map, Place) -> R) -> Option<R> {
        let mut map = lock(&self.0);
        let found = *map.get(&hash).filter(|found| found.is_same(place))?;
        Some(with(&mut map, found))
    }
}

type Map = BTreeMap<u64, Place>;

impl IndexAccess for Index {
    fn accesses(&self, hash: u64, place: Place) -> Option<u8> {
        self.at(hash, place, |_, found| found.accesses())
    }

    fn relocate(&self, hash: u64, from: Place, to: Place) -> bool {
        self.at(hash, from, |map, _| map.insert(hash, to)).is_some()
    }

    fn remove(&self, hash: u64, place: Place) -> bool {
        self.at(hash, place, |map, _| map.remove(&hash)).is_some()
    }

    fn remove_where(&self, is_gone: &dyn Fn(Place) -> bool) -> u64 {
        let mut map = lock(&self.0);
        let before = map.len();
        map.retain(|_, place| !is_gone(*place));
        (before - map.len()) as u64
    }

    fn insert(&self, hash: u64, place: Place) -> Inserted {
        match lock(&self.0).entry(hash) {
            btree_map::Entry::Occupied(_) => Inserted::Outdated,
            btree_map::Entry::Vacant(entry) => {
                entry.insert(place);
                Inserted::There
            }
        }
    }
}

/// A device in memory. Reading or writing beyond it panics.
#[derive(Debug)]
struct Bytes(Mutex<Vec<u8>>);

impl Bytes {
    fn new(bytes: Vec<u8>) -> Self {
        Self(Mutex::new(bytes))
    }

    fn change<R>(&self, change: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        change(&mut lock(&self.0))
    }
}

impl Device for Bytes {
    fn pages(&self) -> u64 {
        (lock(&self.0).len() / PAGE_BYTES) as u64
    }

    fn read(&self, page: u64, target: &mut [Page]) -> io::Result<()> {
        let bytes = lock(&self.0);
        for (index, target) in target.iter_mut().enumerate() {
            target.0.copy_from_slice(&bytes[(page as usize + index) * PAGE_BYTES..][..PAGE_BYTES]);
        }
        Ok(())
    }

    fn write(&self, page: u64, source: &[Page]) -> io::Result<()> {
        let mut bytes = lock(&self.0);
        for (index, source) in source.iter().enumerate() {
            bytes[(page as usize + index) * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(&source.0);
        }
        Ok(())
    }

    fn read_note(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
        target.copy_from_slice(&lock(&self.0)[at as usize..][..target.len()]);
        Ok(())
    }

    fn write_note(&self, at: u64, source: &[u8]) -> io::Result<()> {
        lock(&self.0)[at as usize..][..source.len()].copy_from_slice(source);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from a printed seed (splitmix64).
    struct Random(u64);

    impl Random {
        fn draw(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            hash(self.0)
        }

        fn below(&mut self, end: usize) -> usize {
            (self.draw() % end as u64) as usize
        }

        /// Bytes that are often small numbers, or as if they had been written.
        fn bytes(&mut self, length: usize) -> Vec<u8> {
            let kind = self.below(4);
            let mut byte = || match kind {
                0 => 0,
                1 => 0xff,
                2 => (self.draw() % 9) as u8,
                _ => self.draw() as u8,
            };
            (0..length).map(|_| byte()).collect()
        }
    }

    fn number_from_environment(name: &str, default: u64) -> u64 {
        std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
    }

    /// `LARDER_SEED` repeats a run and `LARDER_RUNS` lengthens it.
    fn run(runs: u64, input: impl Fn(&mut Random) -> Vec<u8>, body: fn(&[u8])) {
        let seed = number_from_environment("LARDER_SEED", 0x1a2d_e202);
        for run in seed..seed + number_from_environment("LARDER_RUNS", runs) {
            let input = input(&mut Random(run));
            let ran = std::panic::catch_unwind(|| body(&input));
            assert!(ran.is_ok(), "LARDER_SEED={run} LARDER_RUNS=1, input {input:?}");
        }
    }

    #[test]
    fn any_bytes_are_damage_or_what_is_written_the_same_again() {
        let input = |random: &mut Random| {
            let (kind, length) = (random.draw() as u8, random.below(200));
            [vec![kind], random.bytes(length)].concat()
        };
        run(20_000, input, formats);
    }

    #[test]
    fn a_flipped_bit_of_a_device_brings_nothing_back() {
        let input = |random: &mut Random| {
            // Of journals, mostly, where most of them are used.
            let part = if random.below(4) > 0 { 2 } else { random.draw() as u8 };
            let offset = random.below(if part == 2 { 80 } else { 9999 }) as u16;
            let [low, high] = offset.to_le_bytes();
            let choice = FLIPS | random.draw() as u8 & 0x0e;
            vec![choice, part, random.draw() as u8, low, high, random.draw() as u8]
        };
        run(200, input, device);
    }

    #[test]
    fn a_device_with_any_changes_is_refused_or_serves() {
        let input = |random: &mut Random| {
            let mut input = vec![random.draw() as u8];
            for _ in 0..random.below(5) {
                let length = 1 + random.below(24);
                let offset =
                    if random.below(2) == 0 { random.below(40) } else { random.below(9999) };
                input.extend([random.draw() as u8, random.draw() as u8]);
                input.extend((offset as u16).to_le_bytes());
                input.push(length as u8);
                input.extend(random.bytes(length));
            }
            input
        };
        run(150, input, device);
    }
}
