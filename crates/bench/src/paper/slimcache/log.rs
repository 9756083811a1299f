//! The tier's baseline: an uncompressed log of whole segments, first in, first out, on the same
//! device.
//!
//! ```text
//!   item   | object u32 | value bytes u32 | key | value |      8 bytes beside key and value
//!   log    ... | segment | segment | open segment, in memory |
//!                ^ the oldest: its items leave when its room is needed
//! ```
//!
//! This is the paper's starting point, an uncompressed cache on flash written in slabs, without its
//! size classes: it wastes nothing but the end of each segment.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use io::device::{Device, FakeDevice, Faults, PAGE_BYTES, Pages};

use super::client::Store;
use crate::failure::{Failure, Outcome};
use crate::paper::data::Data;

/// Bytes of an item besides key and value.
pub const HEAD_BYTES: usize = 8;

/// The place of an item in the log, counted from its first byte ever, and its length.
#[derive(Debug, Clone, Copy)]
struct Spot {
    start: u64,
    bytes: usize,
}

/// The log.
pub struct FifoLog {
    device: Arc<dyn Device>,
    segment_bytes: usize,
    segments: u64,
    /// The segment that is being filled, and its content.
    open: Pages,
    end: usize,
    /// Its number, counted from the first ever.
    number: u64,
    spots: HashMap<u32, Spot>,
    /// The objects of each present segment, the open one last.
    written: VecDeque<Vec<u32>>,
    pages: Pages,
    key: Vec<u8>,
    pages_read: u64,
}

impl FifoLog {
    /// Returns an empty log in memory.
    pub fn in_memory(bytes: u64, segment_bytes: usize) -> FifoLog {
        let pages = bytes / PAGE_BYTES as u64;
        FifoLog::on(Arc::new(FakeDevice::new(pages, 1, Faults::default())), segment_bytes)
    }

    /// Returns an empty log that fills a device.
    pub fn on(device: Arc<dyn Device>, segment_bytes: usize) -> FifoLog {
        let segments = device.pages() * PAGE_BYTES as u64 / segment_bytes as u64;
        FifoLog {
            device,
            segment_bytes,
            segments,
            open: Pages::zeroed(segment_bytes / PAGE_BYTES),
            end: 0,
            number: 0,
            spots: HashMap::new(),
            written: VecDeque::from([Vec::new()]),
            pages: Pages::default(),
            key: Vec::new(),
            pages_read: 0,
        }
    }

    /// Returns the number of segments begun.
    pub fn turns(&self) -> u64 {
        self.number / self.segments
    }

    fn page_of(&self, number: u64) -> u64 {
        number % self.segments * (self.segment_bytes / PAGE_BYTES) as u64
    }

    /// Writes the open segment, and begins the next one in place of the oldest.
    fn advance(&mut self) -> Outcome<()> {
        let page = self.page_of(self.number);
        self.device.write(page, self.open.as_pages()).map_err(Failure::io("writing the log"))?;
        (self.number, self.end) = (self.number + 1, 0);
        if self.written.len() as u64 == self.segments {
            let first = (self.number + 1 - self.segments) * self.segment_bytes as u64;
            for object in self.written.pop_front().unwrap_or_default() {
                // The object may have been stored again since.
                if self.spots.get(&object).is_some_and(|spot| spot.start < first) {
                    self.spots.remove(&object);
                }
            }
        }
        self.written.push_back(Vec::new());
        Ok(())
    }
}

impl Store for FifoLog {
    fn get(&mut self, object: u32, data: &Data, value: &mut Vec<u8>) -> Outcome<bool> {
        let Some(&Spot { start, bytes }) = self.spots.get(&object) else { return Ok(false) };
        let number = start / self.segment_bytes as u64;
        let at = (start % self.segment_bytes as u64) as usize;
        data.write_key(object, &mut self.key);
        let item = if number == self.number {
            &self.open.bytes()[at..at + bytes]
        } else {
            let (first, end) = (at / PAGE_BYTES, (at + bytes).div_ceil(PAGE_BYTES));
            if self.pages.as_pages().len() < end - first {
                self.pages = Pages::zeroed(end - first);
            }
            let page = self.page_of(number) + first as u64;
            let target = &mut self.pages.as_pages_mut()[..end - first];
            self.device.read(page, target).map_err(Failure::io("reading the log"))?;
            self.pages_read += (end - first) as u64;
            &self.pages.bytes()[at % PAGE_BYTES..][..bytes]
        };
        let (key, rest) = item[HEAD_BYTES..].split_at(self.key.len());
        if key != self.key.as_slice() {
            return Err(Failure::Check(format!("object {object} is not where the log has it")));
        }
        value.clear();
        value.extend_from_slice(rest);
        Ok(true)
    }

    fn set(&mut self, object: u32, data: &Data, value: &[u8]) -> Outcome<()> {
        data.write_key(object, &mut self.key);
        let bytes = HEAD_BYTES + self.key.len() + value.len();
        if bytes > self.segment_bytes {
            return Err(Failure::Check(format!("object {object} is longer than a segment")));
        }
        if self.end + bytes > self.segment_bytes {
            self.advance()?;
        }
        let item = &mut self.open.bytes_mut()[self.end..self.end + bytes];
        item[..4].copy_from_slice(&object.to_le_bytes());
        item[4..HEAD_BYTES].copy_from_slice(&(value.len() as u32).to_le_bytes());
        item[HEAD_BYTES..][..self.key.len()].copy_from_slice(&self.key);
        item[HEAD_BYTES + self.key.len()..].copy_from_slice(value);
        let start = self.number * self.segment_bytes as u64 + self.end as u64;
        self.spots.insert(object, Spot { start, bytes });
        self.written.back_mut().expect("one is open").push(object);
        self.end += bytes;
        Ok(())
    }

    fn items(&self) -> usize {
        self.spots.len()
    }

    fn pages_read(&self) -> u64 {
        self.pages_read
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::Store;
    use super::{FifoLog, HEAD_BYTES};
    use crate::paper::data::Data;

    /// Segments of 64 KiB with 105 items of 624 bytes each.
    #[test]
    fn the_oldest_items_leave_and_restored_ones_stay() {
        let data = Data::of(10_000, None, 1).expect("no file is needed");
        let mut log = FifoLog::in_memory(4 * 65_536, 65_536);
        let (mut value, mut wanted) = (Vec::new(), Vec::new());
        let each = HEAD_BYTES + 16 + 600;
        let in_segment = (65_536 / each) as u32;
        let mut set = |log: &mut FifoLog, object| {
            data.write_value(object, &mut value);
            log.set(object, &data, &value).expect("memory takes it");
        };
        (0..4 * in_segment).for_each(|object| set(&mut log, object));
        assert_eq!(log.items() as u32, 4 * in_segment);
        // The next item takes the room of the first segment, since the open one is in memory.
        set(&mut log, 3 * in_segment);
        assert_eq!(log.items() as u32, 3 * in_segment);
        let mut found = Vec::new();
        let mut get = |log: &mut FifoLog, object| {
            let is_there = log.get(object, &data, &mut found).expect("nothing fails");
            data.write_value(object, &mut wanted);
            assert!(!is_there || found == wanted);
            is_there
        };
        assert!(!get(&mut log, in_segment - 1) && get(&mut log, in_segment));
        assert!(get(&mut log, 3 * in_segment) && log.pages_read() == 1, "it is in memory");
        // Three segments later its first copy has left.
        (5_000..5_000 + 3 * in_segment).for_each(|object| set(&mut log, object));
        assert!(get(&mut log, 3 * in_segment) && !get(&mut log, 3 * in_segment + 1));
        assert_eq!(log.turns(), 1);
    }
}
