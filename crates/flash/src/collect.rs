//! Collection: makes the oldest segment free.
//!
//! Its table entry is zeroed first. Then the index is asked about each row of its item table: what
//! it still leads to and was read since it was stored is staged again, with its accesses at 0, so
//! each read of an item is worth one more turn; the rest leaves the index. Then the segment is
//! free.
//!
//! The entry goes first because an item that is staged again can be forgotten without a note. A
//! process that is killed after that must not find the item in the segment it came from. It loses
//! with it the items of this one segment that are in memory only.
//!
//! Watermarks are in free segments: collection begins below the low one and goes on up to the high
//! one. When hardly any segment is free nothing is staged again, so that stores find room.

use ::io::device::Pages;
use codec::record::{Record, Row, Rows};
use codec::{Damaged, Decoder};
use stdx::sync::lock;

use crate::chores::Chores;
use crate::geometry::Spot;
use crate::table::{self, Item};
use crate::unit::{self, Origin};
use crate::writer::ListedSegment;
use crate::{Flash, Links, Place, Refused};

/// Collection begins when fewer segments are free.
const FREE_LOW: usize = 8;
/// And goes on until so many are.
const FREE_HIGH: usize = 16;
/// Of few segments, a smaller share is kept free; but always enough to stage something again.
const FREE_LOW_MIN: usize = 3;
const FREE_SHARE: usize = 8;
/// With fewer free segments nothing is staged again.
const FREE_PRESSED: usize = 2;

const _: () = assert!(FREE_PRESSED < FREE_LOW_MIN && FREE_LOW < FREE_HIGH);

/// The low and the high watermark for so many segments.
pub(crate) fn watermarks(segments: u32) -> (usize, usize) {
    let low = (segments as usize / FREE_SHARE).clamp(FREE_LOW_MIN, FREE_LOW);
    let high = (2 * low).min(FREE_HIGH).min(segments as usize / 2).max(low + 1);
    (low, high)
}

/// What collection has found to collect.
enum Choice {
    Nothing,
    /// It was free at once.
    Freed,
    Victim(Victim),
}

/// The segment that is collected.
struct Victim {
    listed: ListedSegment,
    /// Flushes until it was chosen.
    flushes: u64,
    is_pressed: bool,
}

impl Flash {
    pub(crate) fn wants_collection(&self, chores: &mut Chores) -> bool {
        let (low, high) = watermarks(self.geometry.segments);
        let free = lock(&self.writer).free.len();
        chores.is_collecting = free < if chores.is_collecting { high } else { low };
        chores.is_collecting
    }

    /// Collects the oldest segment. `false` if there is none, or the device refuses.
    pub(crate) fn collect(&self, chores: &mut Chores, links: &dyn Links, now: u32) -> bool {
        let victim = match self.choose_victim() {
            Choice::Nothing => return false,
            Choice::Freed => return true,
            Choice::Victim(victim) => victim,
        };
        let segment = victim.listed.segment;
        if self.invalidate(segment).is_err() {
            self.counters.io_errors.add(1);
            let mut writer = lock(&self.writer);
            if writer.flushes == victim.flushes {
                writer.written.push_front(victim.listed);
            } else {
                self.free_segment(&mut writer, segment);
            }
            return false;
        }
        if chores.pages.as_pages().is_empty() {
            chores.pages = Pages::zeroed(self.geometry.segment_pages());
        }
        let page = self.geometry.page_of(segment);
        if self.device.read(page, chores.pages.as_pages_mut()).is_err() {
            // What the index still leads to there is a miss from now on.
            self.counters.io_errors.add(1);
        } else {
            self.sort_out(&victim, &chores.pages, links, now);
        }
        self.free_segment(&mut lock(&self.writer), segment);
        self.counters.collected.add(1);
        true
    }

    /// Takes the oldest segment off its list. One that was found at the start and not given to the
    /// index yet is free at once: nobody has read its items since.
    fn choose_victim(&self) -> Choice {
        let mut writer = lock(&self.writer);
        let is_pressed = writer.free.len() < FREE_PRESSED;
        let sequence = |listed: Option<&ListedSegment>| listed.map(|it| it.entry.sequence);
        let written = sequence(writer.written.front());
        if let Some(found) = sequence(writer.found.front())
            && written.is_none_or(|written| found < written)
        {
            let found = writer.found.pop_front().expect("it has a front");
            self.reject(found.segment);
            self.free_segment(&mut writer, found.segment);
            self.counters.collected.add(1);
            return Choice::Freed;
        }
        match writer.written.pop_front() {
            None => Choice::Nothing,
            Some(listed) => Choice::Victim(Victim { listed, flushes: writer.flushes, is_pressed }),
        }
    }

    /// Decides about each item of a segment.
    fn sort_out(&self, victim: &Victim, pages: &Pages, links: &dyn Links, now: u32) {
        let ListedSegment { segment, entry } = victim.listed;
        let Ok(items) = table::read_items(entry, pages.bytes()) else {
            self.counters.damaged.add(1);
            return;
        };
        let (mut decoder, mut raw, mut wanted) = (Decoder::new(), Vec::new(), Vec::new());
        for items in items.chunk_by(|left, right| left.granule == right.granule) {
            wanted.clear();
            for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.is_dead) {
                let place = self.place_of(segment, item);
                match links.accesses(item.hash, place) {
                    None => {}
                    Some(1..) if !victim.is_pressed => wanted.push(index),
                    Some(_) => self.drop_item(links, item.hash, place),
                }
            }
            if wanted.is_empty() {
                continue;
            }
            let unit = pages.bytes().get(self.geometry.offset_of(items[0].granule)..);
            let origin = Origin { sequence: entry.sequence, granule: items[0].granule };
            let decoded = unit.ok_or(Damaged).and_then(|unit| {
                unit::decode(origin, unit, self.geometry.segment_bytes, &mut decoder, &mut raw)
            });
            let rows = decoded.and_then(|head| rows(&raw, head.rows, items.len()));
            if rows.is_err() {
                self.counters.damaged.add(1);
            }
            for &index in &wanted {
                let (item, place) = (&items[index], self.place_of(segment, &items[index]));
                let row = rows.as_ref().ok().map(|rows| &rows[index]);
                let row = row.filter(|row| !row.fields.is_expired(now));
                if !row.is_some_and(|row| self.restage(victim, item.hash, row, place, links)) {
                    self.drop_item(links, item.hash, place);
                }
            }
        }
    }

    /// Stages an item again. `false` if there is no room for it.
    fn restage(
        &self,
        victim: &Victim,
        hash: u64,
        row: &Row<'_>,
        from: Place,
        links: &dyn Links,
    ) -> bool {
        let record = Record { key: row.key, value: row.value, fields: row.fields };
        for attempt in 0..2 {
            let mut writer = lock(&self.writer);
            if writer.flushes != victim.flushes {
                return false;
            }
            match self.take_row(&mut writer, hash, &record, true, links) {
                Ok(place) if links.relocate(hash, from, place) => {
                    self.counters.restaged.add(1);
                    return true;
                }
                Ok(_) => {
                    writer.unit.pop();
                    return true;
                }
                Err(Refused::Busy) if attempt == 0 => {
                    drop(writer);
                    self.write_waiting(links);
                }
                Err(_) => return false,
            }
        }
        false
    }

    /// The place of an item of an item table.
    pub(crate) fn place_of(&self, segment: u32, item: &Item) -> Place {
        let spot = Spot { segment, granule: item.granule };
        self.geometry.sealed(spot, item.span, item.hash)
    }
}

/// The rows of a unit, of which there are as many as its head and the item table say.
fn rows(raw: &[u8], expected: usize, listed: usize) -> Result<Vec<Row<'_>>, Damaged> {
    let (mut rows, mut rest) = (Vec::with_capacity(listed), Rows::new(raw));
    while !rest.is_empty() {
        let row = rest.next_row()?;
        rows.push(row);
    }
    let is_sound = rows.len() == expected && rows.len() == listed;
    if is_sound && rows.iter().all(|row| !row.long) { Ok(rows) } else { Err(Damaged) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_shrink_with_the_number_of_segments() {
        assert_eq!(watermarks(8), (3, 4));
        assert_eq!(watermarks(32), (4, 8));
        assert_eq!(watermarks(63), (7, 14));
        assert_eq!(watermarks(64), (8, 16));
        assert_eq!(watermarks(1 << 20), (8, 16));
        assert!((8..100).map(watermarks).all(|(low, high)| FREE_PRESSED < low && low < high));
    }
}
