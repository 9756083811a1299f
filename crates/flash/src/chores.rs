//! What the background does: writing full segments, and keeping segments free. One chore at a time,
//! under a lock of their own, which is taken before the writer's.

use ::io::device::Pages;
use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::area::Area;
use crate::collect::Need;
use crate::flash::State;
use crate::list::ListedSegment;
use crate::refusal::Refusal;
use crate::scrub::Scrub;
use crate::stage::FAILURES_MAX;
use crate::table;
use crate::window::Window;
use crate::writer::{BUFFERS, FullSegment, Writer};
use crate::{Flash, Links};

/// What a chore keeps for the next one.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    /// A segment that is being collected.
    pub(crate) pages: Pages,
    /// Collection goes on until the high watermark.
    pub(crate) is_collecting: bool,
    /// Of the segment that was thinned out last more moved than left the index.
    pub(crate) evicts_next: bool,
    /// What recovery waits for.
    pub(crate) refusal: Refusal,
    /// Where scrubbing stands.
    pub(crate) scrub: Scrub,
    /// Its steps are made by [`Flash::scrub_on`].
    pub(crate) is_scrubbed_apart: bool,
    /// In which hits are counted for the partition.
    pub(crate) window: Window,
}

impl Flash {
    /// Seals full units, writes full segments, adapts the size of the hot area, and collects a
    /// segment when few are free. `true` if there is more to do.
    pub fn maintain(&self, links: &dyn Links, now: u32) -> bool {
        let mut chores = lock(&self.chores);
        if lock(&self.writer).is_closed {
            return false;
        }
        self.heal(&mut chores.pages);
        self.publish_trained();
        {
            let mut writer = lock(&self.writer);
            self.end_flushes(&writer);
            for area in Area::ALL {
                if writer.stream(area).is_full() {
                    // Without room the unit is sealed another time.
                    let _ = self.seal(&mut writer, area, links);
                }
            }
        }
        self.write_waiting(links);
        self.prepare_ahead();
        if !chores.is_scrubbed_apart {
            self.scrub(&mut chores, links, now);
        }
        self.repartition(&mut chores.window);
        if self.is_failing() && lock(&self.writer).free_segments() > 0 {
            // Nothing that would move finds a place, and there is a segment to try.
            return false;
        }
        // First, since whoever finds no room asks for a turn once and relies on it; and both in one
        // turn, since either may be wanted all the time.
        let collects_more = self.wants_collection(&mut chores)
            && self.collect(&mut chores, links, now, Need::Room)
            && self.wants_collection(&mut chores);
        self.turn_worn(links) || collects_more
    }

    /// Whether nothing new is taken, because the device takes no pages or no notes.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_unsound() || lock(&self.writer).failures >= FAILURES_MAX
    }

    /// Tries again what a device refused: a whole segment, since one that is nearly full may take a
    /// page, and then lose what it is given of segments.
    fn heal(&self, pages: &mut Pages) {
        self.tell_of_loss();
        if self.unsound.load(Ordering::Relaxed) {
            self.void_device();
        }
        self.freeze_void();
        let segment = {
            let mut writer = lock(&self.writer);
            if writer.failures < FAILURES_MAX {
                return;
            }
            let next = writer.free.pop_front().or_else(|| writer.prepared.pop_front());
            let Some(segment) = next else { return };
            segment
        };
        // Nobody reads a free segment, and nobody opens one that is not listed.
        *pages = Pages::zeroed(self.geometry.segment_pages());
        let tried = self.device.write(self.geometry.page_of(segment), pages.as_pages());
        let mut writer = lock(&self.writer);
        writer.free.push_front(segment);
        match tried {
            Ok(()) => writer.failures = 0,
            Err(_) => self.counters.io_errors.add(1),
        }
    }

    /// Lets the open segments wait to be written that a note has made void: what they took from now
    /// on the next start would not believe either. Where the device does not take that note, or no
    /// segments, nothing new comes in, and what is there had better stay in memory.
    fn freeze_void(&self) {
        // Whoever has this lock may be waiting for the device: not under the writer's.
        let void_below = lock(&self.superblock).void_below;
        if self.unsound.load(Ordering::Relaxed) {
            return;
        }
        let mut writer = lock(&self.writer);
        if writer.failures >= FAILURES_MAX {
            return;
        }
        for area in Area::ALL {
            let open = writer.stream(area).open.as_ref();
            if open.is_some_and(|open| open.sequence < void_below) {
                self.freeze(&mut writer, area);
            }
        }
    }

    /// Writes the segments that wait, one after the other. The lock of chores is held.
    pub(crate) fn write_waiting(&self, links: &dyn Links) {
        loop {
            let Some(full) = lock(&self.writer).waiting.front().cloned() else { return };
            let is_written = full.is_void || self.write_segment(&full, links);
            drop(full);
            let mut writer = lock(&self.writer);
            let full = writer.waiting.pop_front().expect("only a chore takes it away");
            let segment = full.segment;
            if full.is_void || !is_written {
                self.free_segment(&mut writer, segment);
            } else {
                self.list(&mut writer, &full);
            }
            if !full.is_void {
                writer.failures = if is_written { 0 } else { writer.failures + 1 };
            }
            let pages = std::sync::Arc::try_unwrap(full.pages).expect("the clone is dropped");
            writer.idle.push(pages);
            self.has_waiting.store(!writer.waiting.is_empty(), Ordering::Relaxed);
            self.is_behind.store(false, Ordering::Relaxed);
        }
    }

    /// Writes the segments that wait, if there are any.
    pub fn write_full(&self, links: &dyn Links) {
        if self.has_waiting.load(Ordering::Relaxed) {
            let _chores = lock(&self.chores);
            self.write_waiting(links);
            self.prepare_ahead();
        }
    }

    /// Whether a segment waits to be written.
    pub fn has_waiting(&self) -> bool {
        self.has_waiting.load(Ordering::Relaxed)
    }

    /// Whether there are a segment and a buffer for what no open segment has room for.
    pub fn has_room_to_open(&self) -> bool {
        let writer = lock(&self.writer);
        !writer.idle.is_empty() && writer.free_segments() > 0
    }

    /// Whether [`Flash::stage_at_once`] has found no room since a segment was last written.
    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    /// Makes as many free segments ready as there are buffers. The lock of chores is held.
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
                writer.failures += 1;
                writer.free.push_back(segment);
                return;
            }
            writer.prepared.push_back(segment);
            self.is_behind.store(false, Ordering::Relaxed);
        }
    }

    /// Writes the pages of a segment. If that fails, the index forgets what was in it.
    fn write_segment(&self, full: &FullSegment, links: &dyn Links) -> bool {
        let page = self.geometry.page_of(full.segment);
        if self.device.write(page, full.pages.as_pages()).is_ok() {
            self.counters.bytes_written.add(self.geometry.segment_bytes as u64);
            return true;
        }
        self.counters.io_errors.add(1);
        let items = table::read_items(&self.geometry, full.entry, full.pages.bytes())
            .expect("as it was written");
        for item in items.iter().filter(|item| !item.is_dead) {
            self.drop_item(links, item.hash, self.place_of(full.segment, item));
        }
        false
    }

    /// Says on the device, whose pages of it are written, that a segment is valid. Under the
    /// writer's lock, so that a flush comes before, and this is not reached, or after.
    fn list(&self, writer: &mut Writer, full: &FullSegment) {
        let at = self.geometry.entry_at(full.segment);
        let stamped = self.write_stamp(full.segment, full.entry.sequence);
        if stamped.and_then(|()| self.device.write_note(at, &full.entry.encode())).is_err() {
            // It is used as any other, but not found again at the next start.
            self.counters.io_errors.add(1);
        }
        let table::Entry { sequence, area, .. } = full.entry;
        self.segments[full.segment as usize].set_state(State::Written(sequence), area);
        let listed = ListedSegment { segment: full.segment, entry: full.entry };
        writer.stream(area).list(listed);
    }
}
