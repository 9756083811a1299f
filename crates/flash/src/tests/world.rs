//! A cache of one shelf: a tier, an index, and the steps that a cache would take.

use std::sync::Arc;

use ::io::device::{Device, Pages};

use stdx::sync::lock;

use super::{FakeIndex, MemoryDevice, TWINS, hash, settings};
use crate::stage::Intake;
use crate::{Fields, Flash, Look, OpenError, PrefixFlush, Reader, Record, Refused, Settings};

/// Keys that [`World::flush_prefix`] knows, and as many twins.
const NUMBERS_MAX: u64 = 2000;

pub(crate) struct World {
    pub(crate) device: Arc<MemoryDevice>,
    pub(crate) flash: Flash,
    pub(crate) index: FakeIndex,
    pub(crate) now: u32,
    settings: Settings,
}

/// The key with this number.
pub(crate) fn key(number: u64) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

/// A value that names its key and version. Some compress by half, some well, some not.
pub(crate) fn value(number: u64, version: u64, length: usize) -> Vec<u8> {
    let mut value = format!("{number} at {version}, ").into_bytes();
    let mut random = super::Random(version);
    while value.len() < length {
        match version % 4 {
            0 => value.push(random.draw() as u8),
            1 => value.extend_from_slice(b"and so on, "),
            _ => value.extend_from_slice(format!("{:016x}", random.draw()).as_bytes()),
        }
    }
    value
}

/// A value of phrases of one kind: values of one kind have much in common, those of two have not.
pub(crate) fn phrases(kind: u64, number: u64, length: usize) -> Vec<u8> {
    let mut random = super::Random(number << 8 | kind);
    let mut value = format!("{number}: ").into_bytes();
    while value.len() < length {
        let mut phrase = super::Random(hash(kind << 32 | random.below(100)));
        (0..4).for_each(|_| value.extend_from_slice(format!("{:016x}", phrase.draw()).as_bytes()));
    }
    value
}

impl World {
    pub(crate) fn new(pages: usize) -> Self {
        Self::with(pages, settings())
    }

    pub(crate) fn with(pages: usize, settings: Settings) -> Self {
        let device = Arc::new(MemoryDevice::new(pages));
        Self::open(device, settings).expect("it is blank and large enough")
    }

    fn open(device: Arc<MemoryDevice>, settings: Settings) -> Result<Self, OpenError> {
        let flash = Flash::open(Arc::clone(&device) as Arc<dyn Device>, &settings)?;
        Ok(Self { device, flash, index: FakeIndex::default(), now: 1000, settings })
    }

    /// Drops everything in memory, and opens the device again.
    pub(crate) fn killed(self) -> Self {
        let (device, settings) = (Arc::clone(&self.device), self.settings.clone());
        drop(self);
        device.die_after(u64::MAX);
        Self::open(device, settings).expect("it was open before")
    }

    /// Drops everything in memory, and opens the device again at this wall-clock time.
    pub(crate) fn killed_at(mut self, now: u32) -> Self {
        self.settings.now = now;
        self.killed()
    }

    /// Drops everything in memory, and opens the device again in a process that has drawn this
    /// seed.
    pub(crate) fn killed_drawing(mut self, seed: u8) -> Self {
        self.settings.hash_seed[0] = seed;
        self.killed()
    }

    /// Drops everything in memory, and opens the device again with the hash function of this check.
    pub(crate) fn killed_hashing(mut self, hash_check: u64) -> Self {
        self.settings.hash_check = hash_check;
        self.killed()
    }

    pub(crate) fn recovered(self) -> Self {
        while self.flash.recover(&self.index, self.now) {}
        self
    }

    /// Closes cleanly, and opens the device again.
    pub(crate) fn reopened(self) -> Self {
        self.flash.close(&self.index).expect("the device works");
        self.killed()
    }

    /// Closes cleanly, restarts the machine, and opens the device again.
    pub(crate) fn rebooted(mut self) -> Self {
        self.settings.boot_id[0] ^= 1;
        self.reopened()
    }

    /// Stores a value into memory.
    pub(crate) fn set(&self, number: u64, value: Vec<u8>) {
        self.replace(number, Some(value));
    }

    pub(crate) fn delete(&self, number: u64) {
        self.replace(number, None);
    }

    /// Changes memory; the key's item on flash is forgotten, also if it is of a key that cannot be
    /// told from this one.
    fn replace(&self, number: u64, value: Option<Vec<u8>>) {
        let hash = hash(number);
        let mut state = self.index.state();
        state.note_change(hash);
        self.flash.note_change(hash);
        match value {
            Some(value) => _ = state.memory.insert(hash, value),
            None => _ = state.memory.remove(&hash),
        }
        if let Some(place) = state.forget(hash) {
            self.flash.forget(place, hash);
        }
    }

    /// Moves an item from memory into the tier. `false` if there was none in memory.
    pub(crate) fn demote(&self, number: u64) -> Result<bool, Refused> {
        self.demote_by(number, Intake::Usual)
    }

    /// Demotes for a caller that cannot wait.
    pub(crate) fn demote_at_once(&self, number: u64) -> Result<bool, Refused> {
        self.demote_by(number, Intake::AtOnce)
    }

    pub(crate) fn demote_by(&self, number: u64, intake: Intake) -> Result<bool, Refused> {
        let (key, hash) = (key(number), hash(number));
        let Some(value) = self.index.state().memory.get(&hash).cloned() else { return Ok(false) };
        let fields = Fields { flags: number as u32, ..Fields::default() };
        let record = Record { key: &key, value: &value, fields };
        let lead = |place| {
            let mut state = self.index.state();
            let is_same = state.memory.get(&hash) == Some(&value);
            if is_same {
                state.memory.remove(&hash);
                // Two that cannot be told apart may not both be there.
                if let Some(other) = state.lead(hash, place) {
                    self.flash.forget(other, hash);
                }
            }
            is_same
        };
        let place = match intake {
            Intake::AtOnce => self.flash.stage_at_once(hash, &record, &self.index, lead),
            Intake::Hurried => self.flash.stage_hurried(hash, &record, &self.index, lead),
            _ => self.flash.stage_with(hash, &record, &self.index, lead),
        };
        Ok(place?.is_some())
    }

    /// Stores and demotes.
    pub(crate) fn put(&self, number: u64, value: &[u8]) {
        self.set(number, value.to_vec());
        assert_eq!(self.demote(number), Ok(true));
    }

    /// Looks up a key's value as a cache would: again when it has moved meanwhile.
    pub(crate) fn get(&self, number: u64, reader: &mut Reader) -> Option<Vec<u8>> {
        let (key, hash) = (key(number), hash(number));
        loop {
            let state = self.index.state();
            if let Some(value) = state.memory.get(&hash) {
                return Some(value.clone());
            }
            let place = state.place(hash)?;
            drop(state);
            assert!(self.flash.may_be(place, hash));
            let mut look = self.flash.look(place, &key, reader);
            let mut read = None;
            while let Look::Wait(ticket) = look {
                read = Some(ticket);
                let mut pages = Pages::zeroed(ticket.pages);
                look = match self.device.read(ticket.page, pages.as_pages_mut()) {
                    Ok(()) => self.flash.finish(&ticket, &pages, &key, reader),
                    Err(_) => Look::Absent,
                };
            }
            let mut state = self.index.state();
            let Some(same) = state.place(hash).filter(|found| found.is_same(place)) else {
                continue;
            };
            if let Look::Found(fields) = look {
                assert_eq!(fields.flags, number as u32);
                let place = same.with_accesses(same.accesses() + 1);
                state.lead(hash, place);
                drop(state);
                if let Some(ticket) = read {
                    let record = Record { key: &key, value: reader.value(), fields };
                    // Whatever comes of the promotion, the item was read.
                    let _ = self.flash.promote(hash, place, &ticket, &record, &self.index);
                }
                return Some(reader.value().to_vec());
            }
            // A mere reader leaves it: it may be another key's.
            if number < TWINS || number.is_multiple_of(4) {
                state.forget(hash);
                self.flash.forget(place, hash);
            }
            return None;
        }
    }

    pub(crate) fn maintain(&self) {
        self.flash.train();
        while self.flash.maintain(&self.index, self.now) {}
    }

    /// Leaves items that flushes of prefixes have taken to collection.
    pub(crate) fn stop_scrubbing(&self) {
        lock(&self.flash.chores).is_scrubbed_apart = true;
    }

    /// Flushes a prefix, if there is room for it.
    pub(crate) fn flush_prefix(&self, prefix: &[u8]) -> bool {
        let begun = self.begin_flush_prefix(prefix);
        let is_begun = begun.is_some();
        begun.into_iter().for_each(|begun| self.flash.end_flush_prefix(begun, &self.index));
        is_begun
    }

    /// Takes the first step of a flush: from then on it holds for every thread, but not for a
    /// process after a kill.
    pub(crate) fn begin_flush_prefix(&self, prefix: &[u8]) -> Option<PrefixFlush> {
        if !self.flash.has_room_for_prefix(prefix) {
            return None;
        }
        let begun = self.flash.begin_flush_prefix(prefix);
        let hashes = self.hashes_of(prefix);
        let mut state = self.index.state();
        hashes.iter().for_each(|hash| state.note_change(*hash));
        // The index may go on leading to items on flash.
        state.memory.retain(|hash, _| !hashes.contains(hash));
        Some(begun)
    }

    /// The hashes of the index's keys with a prefix.
    fn hashes_of(&self, prefix: &[u8]) -> Vec<u64> {
        let state = self.index.state();
        let has_prefix = |number: &u64| key(*number).starts_with(prefix);
        let numbers = (0..NUMBERS_MAX).chain(TWINS..TWINS + NUMBERS_MAX);
        let hashes = numbers.filter(has_prefix).map(hash);
        let is_known = |hash: &u64| state.memory.contains_key(hash) || state.place(*hash).is_some();
        hashes.filter(is_known).collect()
    }

    pub(crate) fn flush(&self) {
        self.flash.flush();
        self.index.state().clear();
    }
}
