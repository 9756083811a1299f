//! The dictionaries that units are compressed with, on the device and in memory.
//!
//! ```text
//!   slot 1    slot 2    ...   each of `slot_pages` pages
//!   +--------------------------------------+--------+--------------+
//!   | bytes u32 | CRC-32C of the dictionary u32 | the dictionary |  |
//!   +--------------------------------------+--------+--------------+
//! ```
//!
//! A segment has one dictionary for all of its units, or none: its entry of the segment table has
//! the number, from 1, and so has each unit that was compressed with it. New segments get the
//! current one. A slot is written again only when no segment names it. So the start reads the
//! dictionaries that segments name; a segment whose dictionary is damaged is void. A dictionary
//! that the device refuses is asked for again when recovery comes to the first segment that names
//! it.
//!
//! A dictionary's sum is mixed into the checksums of its units, because decoding with another one
//! would not fail: it would give other bytes.

use std::{fmt, io};

use ::io::device::{Device, PAGE_BYTES, Pages};
use codec::{Damaged, Dictionary};
use stdx::sync::{Arc, Mutex, lock};

/// Most dictionaries at a time.
pub(crate) const DICTIONARIES_MAX: usize = 8;

const SUM_AT: usize = 4;
const BYTES_AT: usize = 8;

/// A dictionary that is on the device.
pub(crate) struct Known {
    /// Its slot, from 1.
    pub(crate) number: u8,
    /// Its CRC-32C.
    pub(crate) sum: u32,
    pub(crate) dictionary: Dictionary,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The slots.
pub(crate) struct Dictionaries {
    slots: [Mutex<Option<Arc<Known>>>; DICTIONARIES_MAX],
    /// The first page of the first slot.
    page: u64,
    /// Pages of each slot; 0 if there are none.
    slot_pages: usize,
    level: i32,
}

impl Dictionaries {
    /// Slots with no dictionary in memory yet.
    pub(crate) fn new(page: u64, slot_pages: usize, level: i32) -> Self {
        let slots = std::array::from_fn(|_| Mutex::new(None));
        Self { slots, page, slot_pages, level }
    }

    /// Bytes of the longest dictionary that a slot has room for.
    pub(crate) fn bytes_max(&self) -> usize {
        (self.slot_pages * PAGE_BYTES).saturating_sub(BYTES_AT)
    }

    /// The dictionary with a number.
    pub(crate) fn get(&self, number: u8) -> Option<Arc<Known>> {
        lock(self.slot(number)?).clone()
    }

    /// Reads a dictionary from the device, for decoding or for encoding as well.
    pub(crate) fn read(
        &self,
        device: &dyn Device,
        number: u8,
        encodes: bool,
    ) -> io::Result<Result<Arc<Known>, Damaged>> {
        let Some(slot) = self.slot(number) else { return Ok(Err(Damaged)) };
        let mut pages = Pages::zeroed(self.slot_pages);
        device.read(self.page_of(number), pages.as_pages_mut())?;
        let known = self.decode(number, pages.bytes(), encodes).map(Arc::new);
        lock(slot).clone_from(&known.as_ref().ok().cloned());
        Ok(known)
    }

    /// Writes a dictionary to the device, into a slot that no segment names.
    pub(crate) fn write(
        &self,
        device: &dyn Device,
        number: u8,
        dictionary: &Dictionary,
    ) -> io::Result<()> {
        let mut pages = Pages::zeroed(self.slot_pages);
        let (bytes, sum) = (dictionary.bytes(), codec::checksum(dictionary.bytes()));
        let target = pages.bytes_mut();
        target[..SUM_AT].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        target[SUM_AT..BYTES_AT].copy_from_slice(&sum.to_le_bytes());
        target[BYTES_AT..][..bytes.len()].copy_from_slice(bytes);
        device.write(self.page_of(number), pages.as_pages())
    }

    /// Keeps a dictionary in memory that was written to this slot.
    pub(crate) fn keep(&self, number: u8, dictionary: Dictionary) -> Arc<Known> {
        let slot = self.slot(number).expect("there is such a slot");
        let sum = codec::checksum(dictionary.bytes());
        let known = Arc::new(Known { number, sum, dictionary });
        *lock(slot) = Some(Arc::clone(&known));
        known
    }

    /// Drops dictionaries that no segment names, and the encoding tables of all others but the
    /// current one. Returns the free slots.
    pub(crate) fn tidy(&self, current: u8, is_named: impl Fn(u8) -> bool) -> Vec<u8> {
        let mut free = Vec::new();
        for number in (1..=DICTIONARIES_MAX as u8).filter(|&number| number != current) {
            let mut slot = lock(&self.slots[usize::from(number) - 1]);
            if !is_named(number) {
                *slot = None;
                free.push(number);
            } else if let Some(known) = slot.as_deref()
                && known.dictionary.encodes()
                && let Ok(dictionary) = Dictionary::for_decoding(known.dictionary.bytes())
            {
                *slot = Some(Arc::new(Known { dictionary, ..*known }));
            }
        }
        if self.slot_pages > 0 { free } else { Vec::new() }
    }

    /// Dictionaries in memory.
    pub(crate) fn count(&self) -> usize {
        self.slots.iter().filter(|slot| lock(slot).is_some()).count()
    }

    /// Bytes of all dictionaries in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes = |slot: &Mutex<Option<Arc<Known>>>| {
            lock(slot).as_ref().map_or(0, |known| known.dictionary.memory_bytes())
        };
        self.slots.iter().map(bytes).sum()
    }

    /// The most that [`Self::memory_bytes`] grows to with dictionaries of `bytes` bytes, one of
    /// which encodes.
    pub(crate) fn memory_bytes_max(&self, bytes: usize) -> usize {
        let current = Dictionary::memory_bytes_of(bytes, Some(self.level));
        current + (DICTIONARIES_MAX - 1) * Dictionary::memory_bytes_of(bytes, None)
    }

    /// Corrects the checksum of a dictionary in its slot.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn put_right(slot: &mut [u8]) {
        let (head, rest) = slot.split_at_mut(BYTES_AT);
        let bytes = u32::from_le_bytes(head[..SUM_AT].try_into().expect("four bytes"));
        if let Some(bytes) = rest.get(..bytes as usize) {
            head[SUM_AT..].copy_from_slice(&codec::checksum(bytes).to_le_bytes());
        }
    }

    fn slot(&self, number: u8) -> Option<&Mutex<Option<Arc<Known>>>> {
        self.slots.get(usize::from(number).checked_sub(1)?)
    }

    pub(crate) fn page_of(&self, number: u8) -> u64 {
        self.page + (usize::from(number) - 1) as u64 * self.slot_pages as u64
    }

    fn decode(&self, number: u8, slot: &[u8], encodes: bool) -> Result<Known, Damaged> {
        let (bytes, rest) = slot.split_first_chunk().ok_or(Damaged)?;
        let (sum, rest) = rest.split_first_chunk().ok_or(Damaged)?;
        let bytes = rest.get(..u32::from_le_bytes(*bytes) as usize).ok_or(Damaged)?;
        let sum = u32::from_le_bytes(*sum);
        if bytes.is_empty() || codec::checksum(bytes) != sum {
            return Err(Damaged);
        }
        let dictionary = if encodes {
            Dictionary::from_bytes(bytes, self.level).map(Dictionary::with_hurried)
        } else {
            Dictionary::for_decoding(bytes)
        };
        Ok(Known { number, sum, dictionary: dictionary? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::io::device::{FakeDevice, Faults, Page};

    const PAGE: u64 = 3;
    const SLOT_PAGES: usize = 2;

    fn device() -> FakeDevice {
        FakeDevice::new(PAGE + (DICTIONARIES_MAX * SLOT_PAGES) as u64, 1, Faults::default())
    }

    fn dictionary(byte: u8) -> Dictionary {
        let bytes: Vec<u8> = (0..SLOT_PAGES * PAGE_BYTES - BYTES_AT)
            .map(|at| byte.wrapping_mul(at as u8 | 1).wrapping_add((at >> 8) as u8))
            .collect();
        Dictionary::from_bytes(&bytes, 3).expect("any bytes make one")
    }

    fn written(device: &FakeDevice) -> Dictionaries {
        let dictionaries = Dictionaries::new(PAGE, SLOT_PAGES, 3);
        for number in 1..=DICTIONARIES_MAX as u8 {
            dictionaries.write(device, number, &dictionary(number)).expect("it works");
            assert_eq!(dictionaries.keep(number, dictionary(number)).number, number);
        }
        dictionaries
    }

    #[test]
    fn dictionaries_come_back_from_their_slots() {
        let device = device();
        assert_eq!(written(&device).bytes_max(), dictionary(1).bytes().len());
        let again = Dictionaries::new(PAGE, SLOT_PAGES, 3);
        for number in 1..=DICTIONARIES_MAX as u8 {
            assert!(again.get(number).is_none());
            let encodes = number % 2 == 0;
            let read = again.read(&device, number, encodes).expect("it works").expect("sound");
            assert_eq!(
                (read.number, read.dictionary.bytes()),
                (number, dictionary(number).bytes())
            );
            assert!(again.get(number).is_some());
        }
        for number in [0, DICTIONARIES_MAX as u8 + 1] {
            assert!(again.get(number).is_none());
            assert!(again.read(&device, number, false).expect("nothing is read").is_err());
        }
    }

    #[test]
    fn a_changed_or_blank_slot_is_damage() {
        let device = device();
        written(&device);
        let again = Dictionaries::new(PAGE, SLOT_PAGES, 3);
        let mut page = [Page([0; PAGE_BYTES])];
        device.read(PAGE, &mut page).expect("it works");
        for at in [0, 2, 3, 5, 8, 4000] {
            page[0].0[at] ^= 0x40;
            device.write(PAGE, &page).expect("it works");
            assert!(again.read(&device, 1, false).expect("it works").is_err(), "{at}");
            assert!(again.get(1).is_none());
            page[0].0[at] ^= 0x40;
        }
        device.write(PAGE, &[Page([0; PAGE_BYTES])]).expect("it works");
        assert!(again.read(&device, 1, false).expect("it works").is_err());
    }

    #[test]
    fn an_unnamed_dictionary_is_freed_and_only_the_current_one_encodes() {
        let dictionaries = written(&device());
        let before = dictionaries.memory_bytes();
        assert_eq!(dictionaries.tidy(3, |_| true), []);
        let decoding = dictionaries.memory_bytes();
        assert!(decoding < before);
        assert_eq!(dictionaries.get(2).expect("named").sum, {
            codec::checksum(dictionary(2).bytes())
        });
        assert_eq!(dictionaries.tidy(3, |number| number != 5), [5]);
        assert!(dictionaries.get(5).is_none() && dictionaries.get(4).is_some());
        assert_eq!(dictionaries.tidy(3, |_| false), [1, 2, 4, 5, 6, 7, 8]);
        assert!(dictionaries.memory_bytes() > 0, "the current one stays");
        assert_eq!(Dictionaries::new(PAGE, 0, 3).tidy(0, |_| false), []);
        assert_eq!(Dictionaries::new(PAGE, 0, 3).bytes_max(), 0);
    }
}
