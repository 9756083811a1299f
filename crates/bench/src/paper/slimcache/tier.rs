//! The flash tier as these experiments use it: one thread, whose client waits for each read, and a
//! background that runs after every few stores.
//!
//! ```text
//!   set --stage_with--> Flash <--maintain, train-- after every few stores, until there is no more
//!   get --look, read, finish--> value          (and `promote`, which only does what the settings
//!   remove --forget--> Flash                    ask for)
//!            Words lead from a hash to a place
//! ```
//!
//! The device is memory or a file. Nothing depends on time, so with the same seed the same requests
//! leave the same counts.

use std::path::Path;
use std::sync::Arc;

use ::flash::{Fields, Flash, FlashStats, Look, Reader, Record, Refused, Settings};
use io::device::{Counts as DeviceCounts, Device, FakeDevice, Faults, FileDevice};
use io::device::{PAGE_BYTES, Pages};

use super::client::Store;
use super::places::{Words, hash};
use crate::failure::{Failure, Outcome};
use crate::paper::data::Data;

/// Stores between two turns of the background.
const STORES_PER_TURN: u64 = 16;
/// The least number of segments, where the device is large enough for these of the smallest size.
const SEGMENTS: u64 = 128;
const SEGMENT_BYTES: [u64; 2] = [64 << 10, 1 << 20];

/// When the background works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// It keeps step with the stores.
    Steady,
    /// It waits until [`Tier::catch_up`]; a store that finds no room makes some.
    Waiting,
}

/// A tier with its index and its device.
pub struct Tier {
    pub flash: Flash,
    pub background: Background,
    device: Arc<dyn Device>,
    /// The same device, if it is in memory.
    memory: Option<Arc<FakeDevice>>,
    words: Words,
    reader: Reader,
    pages: Pages,
    key: Vec<u8>,
    stores: u64,
    refused: u64,
    pages_read: u64,
}

/// Returns the default settings for a tier of this size.
pub fn settings(bytes: u64) -> Settings {
    let [least, most] = SEGMENT_BYTES;
    let segment_bytes = (bytes / SEGMENTS).next_power_of_two() / 2;
    let segment_bytes = segment_bytes.clamp(least, most) as usize;
    Settings { segment_bytes, ..Settings::new([7; 16], [1; 16]) }
}

impl Tier {
    /// Returns an empty tier on a device in memory.
    pub fn in_memory(bytes: u64, settings: &Settings) -> Outcome<Tier> {
        let pages = bytes / PAGE_BYTES as u64;
        let device = Arc::new(FakeDevice::new(pages, 1, Faults::default()));
        Tier::on(Arc::clone(&device) as Arc<dyn Device>, Some(device), settings)
    }

    /// Returns an empty tier on a file.
    pub fn on_file(file: Arc<dyn Device>, settings: &Settings) -> Outcome<Tier> {
        Tier::on(file, None, settings)
    }

    fn on(
        device: Arc<dyn Device>,
        memory: Option<Arc<FakeDevice>>,
        settings: &Settings,
    ) -> Outcome<Tier> {
        let flash = Flash::format(Arc::clone(&device), settings)
            .map_err(|error| Failure::invalid("making a flash tier", error.to_string()))?;
        Ok(Tier {
            flash,
            background: Background::Steady,
            device,
            memory,
            words: Words::default(),
            reader: Reader::new(),
            pages: Pages::default(),
            key: Vec::new(),
            stores: 0,
            refused: 0,
            pages_read: 0,
        })
    }

    /// Returns the tier's own statistics.
    pub fn stats(&self) -> FlashStats {
        self.flash.stats()
    }

    /// Returns the device's counts, if it is in memory.
    pub fn device_counts(&self) -> DeviceCounts {
        self.memory.as_ref().map_or_else(DeviceCounts::default, |device| device.counts())
    }

    /// Returns the number of stores for which there was no room.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns whether an object is there. This does not count as a read.
    pub fn holds(&self, object: u32) -> bool {
        self.words.get(hash(object)).is_some()
    }

    /// Removes an object. Returns whether it was there.
    pub fn remove(&mut self, object: u32) -> bool {
        let hash = hash(object);
        let Some(place) = self.words.take(hash) else { return false };
        self.flash.forget(place, hash);
        true
    }

    /// Lets the background do all pending work.
    pub fn catch_up(&mut self) {
        self.flash.train();
        while self.flash.maintain(&self.words, 0) {}
    }

    /// Reads the pages that a look waits for, until the object is found or not.
    fn look(&mut self, object: u32, data: &Data) -> Outcome<Option<Fields>> {
        let hash = hash(object);
        let Some(place) = self.words.get(hash) else { return Ok(None) };
        data.write_key(object, &mut self.key);
        let mut look = self.flash.look(place, &self.key, &mut self.reader);
        let mut read = None;
        while let Look::Wait(ticket) = look {
            if self.pages.as_pages().len() < ticket.pages {
                self.pages = Pages::zeroed(ticket.pages);
            }
            let target = &mut self.pages.as_pages_mut()[..ticket.pages];
            self.device.read(ticket.page, target).map_err(Failure::io("reading the flash tier"))?;
            self.pages_read += ticket.pages as u64;
            read = Some(ticket);
            look = self.flash.finish(&ticket, &self.pages, &self.key, &mut self.reader);
        }
        let Look::Found(fields) = look else {
            return Err(Failure::Check(format!("object {object} is not where the index leads")));
        };
        let seen = place.with_accesses(place.accesses() + 1);
        self.words.lead(hash, seen);
        if let Some(ticket) = read {
            let record = Record { key: &self.key, value: self.reader.value(), fields };
            // Whatever the outcome, it was read.
            let _ = self.flash.promote(hash, seen, &ticket, &record, &self.words);
        }
        Ok(Some(fields))
    }
}

impl Store for Tier {
    fn get(&mut self, object: u32, data: &Data, value: &mut Vec<u8>) -> Outcome<bool> {
        let found = self.look(object, data)?.is_some();
        if found {
            value.clear();
            value.extend_from_slice(self.reader.value());
        }
        Ok(found)
    }

    /// A store that finds no room lets the background work a turn, and tries once more.
    fn set(&mut self, object: u32, data: &Data, value: &[u8]) -> Outcome<()> {
        self.remove(object);
        data.write_key(object, &mut self.key);
        let (hash, words) = (hash(object), &self.words);
        let record = Record { key: &self.key, value, fields: Fields::default() };
        let stage = || {
            self.flash.stage_with(hash, &record, words, |place| {
                words.lead(hash, place);
                true
            })
        };
        let staged = match stage() {
            Err(Refused::Busy) => {
                self.flash.maintain(words, 0);
                stage()
            }
            staged => staged,
        };
        match staged {
            Ok(_) => {}
            Err(Refused::Busy | Refused::TooLarge) => self.refused += 1,
            Err(refused) => return Err(Failure::Check(format!("a store was {refused:?}"))),
        }
        self.stores += 1;
        if self.background == Background::Steady && self.stores.is_multiple_of(STORES_PER_TURN) {
            self.catch_up();
        }
        Ok(())
    }

    fn items(&self) -> usize {
        self.words.len()
    }

    fn pages_read(&self) -> u64 {
        self.pages_read
    }
}

/// Makes a file of this size as a device, past the page cache where that is possible; also returns
/// whether it is.
pub fn file(path: &Path, bytes: u64) -> Outcome<(Arc<dyn Device>, bool)> {
    let bytes = bytes - bytes % PAGE_BYTES as u64;
    let made = FileDevice::recreate(path, bytes);
    let (device, opened) = made.map_err(|error| {
        Failure::invalid(format!("making {}", path.display()), error.to_string())
    })?;
    Ok((Arc::new(device), opened.is_direct))
}

#[cfg(test)]
mod tests {
    use ::flash::{Partition, Promotion, Settings};

    use super::super::client::{Client, Store};
    use super::{Background, Tier, settings};
    use crate::paper::data::{Data, draw};
    use crate::workload::popularity::Choice;

    const BYTES: u64 = 1 << 20;

    fn run(settings: &Settings) -> (Tier, Vec<u64>) {
        let data = Data::of(20_000, None, 1).expect("no file is needed");
        let objects = draw(&Choice::Zipfian, 0.9, data.keys, 30_000, 3).expect("no file");
        let mut tier = Tier::in_memory(BYTES, settings).expect("large enough");
        let counts = Client::new(&mut tier, &data).run(objects).expect("every value is right");
        let stats = tier.stats();
        assert_eq!((stats.damaged, stats.io_errors, tier.refused()), (0, 0, 0));
        assert_eq!(stats.items as usize, tier.items());
        let found =
            vec![counts.hits, counts.pages, stats.bytes_written, stats.restaged, stats.promoted];
        (tier, found)
    }

    #[test]
    fn the_same_requests_leave_the_same_counts() {
        let adaptive = settings(BYTES);
        let immediate = Settings {
            promotion: Promotion::Immediate,
            partition: Partition::Fixed { hot_percent: 20 },
            ..adaptive.clone()
        };
        let found = [adaptive, immediate].map(|settings| {
            let [(tier, first), (_, again)] = [run(&settings), run(&settings)];
            assert_eq!(first, again);
            assert!(first[0] > 5_000 && tier.stats().collected > 10, "{first:?}");
            first
        });
        assert!(found[0][4] == 0 && found[1][4] > 100, "{found:?}");
    }

    #[test]
    fn a_removed_object_is_absent_and_a_waiting_background_is_idle() {
        let data = Data::of(20_000, None, 1).expect("no file is needed");
        let mut tier = Tier::in_memory(BYTES, &settings(BYTES)).expect("large enough");
        tier.background = Background::Waiting;
        let mut value = Vec::new();
        for object in 0..500 {
            data.write_value(object, &mut value);
            tier.set(object, &data, &value).expect("there is room");
        }
        assert!(tier.remove(7) && !tier.remove(7) && !tier.remove(9_999));
        assert!(!tier.get(7, &data, &mut value).expect("nothing fails"));
        assert!(tier.get(8, &data, &mut value).expect("nothing fails"));
        assert_eq!((tier.items(), tier.stats().trained), (499, 0));
        tier.catch_up();
        assert!(tier.get(8, &data, &mut value).expect("nothing fails"));
    }
}
