//! The background's work: writing full segments, and keeping segments free. One chore runs at a
//! time, under a lock of the chores, which is taken before the writer's.

use ::io::device::Pages;
use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::area::Area;
use crate::collect::{Need, Passed};
use crate::dictionaries::DICTIONARIES_MAX;
use crate::flash::State;
use crate::heal::Healing;
use crate::list::ListedSegment;
use crate::refusal::Refusal;
use crate::scrub::Scrub;
use crate::stage::FAILURES_MAX;
use crate::table;
use crate::window::Window;
use crate::writer::{BUFFERS, FullSegment, Writer};
use crate::{Flash, IndexAccess};

/// State that a chore keeps for the next one.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    /// A segment that is being collected.
    pub(crate) pages: Pages,
    /// Collection goes on until the high watermark.
    pub(crate) is_collecting: bool,
    /// Of the last segment that was thinned out, more items moved than left the index.
    pub(crate) evicts_next: bool,
    /// The segment that recovery asks for again, because the device refused it.
    pub(crate) refusal: Refusal,
    /// Dictionaries, by their numbers, that recovery has asked for in vain: segments still to be
    /// found that name one are void.
    pub(crate) lost_dictionaries: [bool; DICTIONARIES_MAX + 1],
    /// State about segments that the device refused.
    pub(crate) healing: Healing,
    /// The seconds for which collection has waited because the device reads no segment.
    pub(crate) unread: Refusal,
    /// Segments that are passed over, in their order, since one was last collected.
    pub(crate) passed: Vec<Passed>,
    /// The position of scrubbing.
    pub(crate) scrub: Scrub,
    /// Scrubbing is done by [`Flash::scrub_on`] only.
    pub(crate) is_scrubbed_apart: bool,
    /// The window in which hits are counted for the partition.
    pub(crate) window: Window,
}

impl Flash {
    /// Seals full units, writes full segments, adapts the size of the hot area, and collects a
    /// segment when few are free. `true` if there is more to do.
    pub fn maintain(&self, access: &dyn IndexAccess, now: u32) -> bool {
        let mut chores = lock(&self.chores);
        if lock(&self.writer).is_closed {
            return false;
        }
        let has_come_back = self.heal(&mut chores, now);
        self.publish_trained();
        {
            let mut writer = lock(&self.writer);
            self.end_flushes(&writer);
            // While it fails, another segment would be tried in vain for each unit, and its note
            // be refused under the writer's lock. Those who stage items would wait for it.
            let is_failing = writer.failures >= FAILURES_MAX || self.is_unsound();
            for area in Area::ALL {
                if !is_failing && writer.stream(area).is_full() {
                    // Without room the unit is sealed another time.
                    let _ = self.seal(&mut writer, area, access);
                }
            }
        }
        self.write_waiting(access);
        self.prepare_ahead();
        if !chores.is_scrubbed_apart {
            self.scrub(&mut chores, access, now);
        }
        self.repartition(&mut chores.window);
        if self.is_failing() && !self.wants_victim(&mut chores.healing) {
            // No item that would move finds a place, and there is a segment to try. But deaths go
            // on, and are noted if pages alone are refused.
            return !self.is_unsound() && self.turn_worn(access);
        }
        // First, since a caller that finds no room asks for this once and relies on it; and both in
        // one call, since either may be wanted all the time.
        let wants = !has_come_back && self.wants_collection(&mut chores);
        let collects = wants && self.collect(&mut chores, access, now, Need::Room);
        let is_stuck = wants && !collects && lock(&self.writer).free_segments() == 0;
        let has_come_back = has_come_back || is_stuck && self.try_any(&mut chores, now);
        let collects_more = collects && self.wants_collection(&mut chores);
        self.turn_worn(access) || collects_more || has_come_back
    }

    /// Whether nothing new is taken, because the device refuses pages or notes.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_unsound() || lock(&self.writer).failures >= FAILURES_MAX
    }

    /// Writes the waiting segments, one after the other. Called with the lock of the chores held.
    pub(crate) fn write_waiting(&self, access: &dyn IndexAccess) {
        loop {
            let Some(full) = lock(&self.writer).waiting.front().cloned() else { return };
            let is_written = full.is_void || self.write_segment(&full, access);
            drop(full);
            let mut writer = lock(&self.writer);
            let full = writer.waiting.pop_front().expect("only a chore takes it away");
            let segment = full.segment;
            if full.is_void {
                self.free_segment(&mut writer, segment);
            } else if !is_written {
                self.let_go(segment);
                writer.set_aside(segment);
            } else {
                self.list(&mut writer, &full);
                writer.failures = 0;
            }
            let pages = std::sync::Arc::try_unwrap(full.pages).expect("the clone is dropped");
            writer.idle.push(pages);
            self.has_waiting.store(!writer.waiting.is_empty(), Ordering::Relaxed);
            self.is_behind.store(false, Ordering::Relaxed);
        }
    }

    /// Writes the waiting segments, if there are any.
    pub fn write_full(&self, access: &dyn IndexAccess) {
        if self.has_waiting.load(Ordering::Relaxed) {
            let _chores = lock(&self.chores);
            self.write_waiting(access);
            self.prepare_ahead();
        }
    }

    /// Whether a segment waits to be written.
    pub fn has_waiting(&self) -> bool {
        self.has_waiting.load(Ordering::Relaxed)
    }

    /// Whether there are a segment and a buffer for a unit that does not fit in an open segment.
    pub fn has_room_to_open(&self) -> bool {
        let writer = lock(&self.writer);
        !writer.idle.is_empty() && writer.free_segments() > 0
    }

    /// Whether [`Flash::stage_at_once`] has found no room since a segment was last written.
    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    /// Prepares as many free segments as there are buffers. Called with the lock of the chores
    /// held.
    fn prepare_ahead(&self) {
        loop {
            let segment = {
                let mut writer = lock(&self.writer);
                if writer.failures >= FAILURES_MAX || writer.prepared.len() >= BUFFERS {
                    return;
                }
                let Some(segment) = writer.free.pop_front() else { return };
                segment
            };
            let prepared = self.prepare(segment);
            let mut writer = lock(&self.writer);
            if prepared.is_err() {
                self.counters.io_errors.add(1);
                writer.set_aside(segment);
                return;
            }
            writer.prepared.push_back(segment);
            self.is_behind.store(false, Ordering::Relaxed);
        }
    }

    /// Writes the pages of a segment. If that fails, the index forgets its items.
    fn write_segment(&self, full: &FullSegment, access: &dyn IndexAccess) -> bool {
        let page = self.geometry.page_of(full.segment);
        if self.device.write(page, full.pages.as_pages()).is_ok() {
            self.counters.bytes_written.add(self.geometry.segment_bytes as u64);
            return true;
        }
        self.counters.io_errors.add(1);
        let items = table::read_items(&self.geometry, full.entry, full.pages.bytes())
            .expect("as it was written");
        for item in items.iter().filter(|item| !item.is_dead) {
            self.drop_item(access, item.hash, self.place_of(full.segment, item));
        }
        false
    }

    /// Notes on the device that a segment, whose pages are written, is valid. Called under the
    /// writer's lock, so that a flush comes either before, and this is not reached, or after.
    fn list(&self, writer: &mut Writer, full: &FullSegment) {
        let at = self.geometry.entry_at(full.segment);
        let stamped = self.write_stamp(full.segment, full.entry.sequence);
        if stamped.and_then(|()| self.device.write_note(at, &full.entry.encode())).is_err() {
            // It is used like any other, but not found at the next start.
            self.counters.io_errors.add(1);
        }
        let table::Entry { sequence, area, .. } = full.entry;
        self.segments[full.segment as usize].set_state(State::Written(sequence), area);
        let listed = ListedSegment { segment: full.segment, entry: full.entry };
        writer.stream(area).list(listed);
    }
}
