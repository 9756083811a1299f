//! FIFO of segments, as in Segcache (Yang, Yue, Vinayak, NSDI 2021): items are appended to an open
//! segment, and memory is freed a whole segment at a time.
//!
//! Plain, the oldest segment is evicted with everything in it. With merging, the oldest four become
//! one that keeps the most used of their items, per byte, and stays in the place of the oldest;
//! items that were not used since the last merge are evicted.
//!
//! Segcache groups segments by time to live and merges within a group; here there is one group. Its
//! counter rises by chance beyond 16 and is reset by a merge; this one counts up to 127 and is
//! halved. A removed item's room stays lost until its segment is freed, as in Segcache.
//!
//! Memory per item: a byte for the counter; a segment's header is shared by thousands.

use std::collections::VecDeque;

use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 1;

/// One part in this many of the cache is a segment.
const SEGMENTS: u64 = 64;
/// Segments merged into one.
const MERGED: usize = 4;
/// The maximum of the counter of uses.
const USES_MAX: u8 = 127;

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// The segment that holds the item, and the item's place among its objects.
    segment: u64,
    place: usize,
    /// 0: not resident.
    weight: u32,
    uses: u8,
}

#[derive(Debug, Default)]
struct Segment {
    /// Counted from 1: absent objects are in segment 0.
    number: u64,
    objects: Vec<u32>,
    /// Weight written into it, dead or alive.
    filled: u64,
}

/// A cache of segments.
pub struct Segments {
    capacity: u64,
    segment_capacity: u64,
    is_merging: bool,
    used: u64,
    items: u64,
    /// Weight written into all segments, dead or alive.
    filled: u64,
    last_number: u64,
    entries: Vec<Entry>,
    /// The oldest first; the last is open.
    segments: VecDeque<Segment>,
}

impl Segments {
    /// An empty cache.
    pub fn new(capacity: u64, objects: u32, is_merging: bool) -> Segments {
        Segments {
            capacity,
            segment_capacity: (capacity / SEGMENTS).max(1),
            is_merging,
            used: 0,
            items: 0,
            filled: 0,
            last_number: 0,
            entries: vec![Entry::default(); objects as usize],
            segments: VecDeque::new(),
        }
    }

    fn evict(&mut self) {
        if self.is_merging && self.segments.len() > MERGED {
            self.merge();
        } else {
            let oldest = self.segments.pop_front().expect("what fits alone fits without the rest");
            self.filled -= oldest.filled;
            for object in self.living(&oldest) {
                self.remove(object);
            }
        }
    }

    fn living(&self, segment: &Segment) -> Vec<u32> {
        let is_there = |(place, object): &(usize, &u32)| {
            let entry = self.entries[**object as usize];
            (entry.segment, entry.place) == (segment.number, *place)
        };
        segment.objects.iter().enumerate().filter(is_there).map(|(_, object)| *object).collect()
    }

    /// Merges the oldest segments into one.
    fn merge(&mut self) {
        let mut candidates = Vec::new();
        for segment in self.segments.drain(..MERGED).collect::<Vec<_>>() {
            self.filled -= segment.filled;
            candidates.extend(self.living(&segment));
        }
        let worth = |entry: Entry| f64::from(entry.uses) / f64::from(entry.weight);
        let mut ranked = candidates.clone();
        ranked.sort_by(|a, b| {
            let [a, b] = [a, b].map(|object| worth(self.entries[*object as usize]));
            b.total_cmp(&a)
        });
        let mut merged = self.new_segment();
        for object in ranked {
            let entry = &mut self.entries[object as usize];
            let filled = merged.filled + u64::from(entry.weight);
            if entry.uses > 0 && filled <= self.segment_capacity {
                merged.filled = filled;
                entry.segment = merged.number;
                entry.uses /= 2;
            }
        }
        for object in candidates {
            let entry = &mut self.entries[object as usize];
            if entry.segment == merged.number {
                entry.place = merged.objects.len();
                merged.objects.push(object);
            } else {
                self.remove(object);
            }
        }
        self.filled += merged.filled;
        if !merged.objects.is_empty() {
            self.segments.push_front(merged);
        }
    }

    fn new_segment(&mut self) -> Segment {
        self.last_number += 1;
        Segment { number: self.last_number, ..Segment::default() }
    }
}

impl Policy for Segments {
    fn read(&mut self, visit: Visit) -> bool {
        let entry = &mut self.entries[visit.object as usize];
        let hit = entry.weight > 0;
        if hit {
            entry.uses = (entry.uses + 1).min(USES_MAX);
        }
        hit
    }

    fn insert(&mut self, visit: Visit) {
        let weight = u64::from(visit.weight);
        while self.filled + weight > self.capacity {
            self.evict();
        }
        let has_room = |open: &Segment| open.filled + weight <= self.segment_capacity;
        if !self.segments.back().is_some_and(has_room) {
            let segment = self.new_segment();
            self.segments.push_back(segment);
        }
        let open = self.segments.back_mut().expect("one was pushed if there was none");
        let (segment, place) = (open.number, open.objects.len());
        let entry = Entry { segment, place, weight: visit.weight, uses: 0 };
        self.entries[visit.object as usize] = entry;
        open.objects.push(visit.object);
        open.filled += weight;
        self.filled += weight;
        self.used += weight;
        self.items += 1;
    }

    fn remove(&mut self, object: u32) {
        let entry = std::mem::take(&mut self.entries[object as usize]);
        self.used -= u64::from(entry.weight);
        self.items -= u64::from(entry.weight > 0);
    }

    fn used(&self) -> u64 {
        self.used
    }

    fn items(&self) -> u64 {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::Segments;
    use crate::policies::check::hits;

    #[test]
    fn segments_of_one_item_are_fifo() {
        let mut cache = Segments::new(3, 5, false);
        assert_eq!(hits(&mut cache, &[0, 1, 2, 0, 3, 0, 1]), "...h...");
    }

    #[test]
    fn a_segment_leaves_as_a_whole() {
        // 64 segments of two items: item 128 makes 0 and 1 leave together.
        let mut cache = Segments::new(128, 200, false);
        let mut objects: Vec<u32> = (0..129).collect();
        objects.extend([1, 4, 5]);
        assert!(hits(&mut cache, &objects).ends_with(".hh"));
    }

    #[test]
    fn a_merge_keeps_what_was_used() {
        // Four segments of one item each, 0 to 3, of which 2 was used most: it stays.
        let mut cache = Segments::new(6, 12, true);
        let objects = [0, 1, 2, 3, 4, 5, 1, 2, 2, 6, 7, 8, 2, 1, 0];
        assert_eq!(hits(&mut cache, &objects), "......hhh...h..");
    }
}
