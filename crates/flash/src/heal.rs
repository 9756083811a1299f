//! Healing: retries what the device refused, and sets segments aside that it refuses.
//!
//! ```text
//!   free --refused--> aside --tried, once for many segments written--> free
//! ```
//!
//! A device may refuse everything for a while, or one of its places for good: a bad sector, the
//! dead part of a volume, the holes of a file whose file system is full. So a segment that cannot
//! be written, or prepared for it, leaves the free list, which is short: otherwise its turn would
//! come again and again, and lose the rows it is given. After [`FAILURES_MAX`] consecutive failures
//! nothing new is taken. Then another segment is tried once a second, until one works; each that
//! does not is set aside, too.
//!
//! Bad segments lie side by side, and there may be a hundred thousand of them. So with each try
//! that fails twice as many of those behind it are set aside untried, and sound ones come back in
//! the same way: with each one that works twice as many of those behind it. A device that refused
//! everything for a while has all of them back after few writes.
//!
//! In a full tier hardly any segments are free. When all of those are bad, and all that were set
//! aside have been tried once more, a segment is collected, which was written at least once, and
//! tried next. Each takes a second longer than the one before: a device that takes nothing for an
//! hour costs a hundred segments. It costs none if half of all have been set aside, because then
//! the fault is not one of some places.
//!
//! A try prepares a segment for its next use and writes all of it: a device that is nearly full may
//! take a page, and then lose segments, and one that takes pages and no notes is given zeros for
//! nothing.

use ::io::device::Pages;
use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::Flash;
use crate::area::Area;
use crate::chores::Chores;
use crate::stage::FAILURES_MAX;
use crate::writer::Writer;

/// One segment that was set aside is tried for this many that are opened, if the last one did not
/// work: less than a fiftieth more is written.
const OPENED_A_TRY: u64 = 64;
/// A tier of few segments tries one for each of this share of them that are opened: it cannot do
/// without those that a device refused once for as long as a large one.
const TRY_SHARE: u64 = 4;

/// The state of the tries; the default is that of a device that has refused nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Healing {
    /// When a segment was last refused, in seconds, while nothing was taken.
    refused_at: Option<u32>,
    /// Segments to set aside with the next one that is refused.
    aside_step: usize,
    /// Segments to bring back with the next one that works.
    back_step: usize,
    /// Segments set aside that were tried since another one was set aside.
    round: usize,
    /// The number of opened segments at which the next one set aside is tried.
    pub(crate) opened_next: u64,
}

impl Flash {
    /// Retries what a device refused. Returns whether segments that were set aside have come back.
    pub(crate) fn heal(&self, chores: &mut Chores, now: u32) -> bool {
        self.tell_of_loss();
        if self.unsound.load(Ordering::Relaxed) {
            self.void_device();
        }
        self.freeze_void();
        let has_failed = lock(&self.writer).failures >= FAILURES_MAX;
        if has_failed && !self.try_any(chores, now) {
            return false;
        }
        self.try_aside(chores, now)
    }

    /// Tries a segment while nothing is taken, once a second. `true` if it works.
    fn try_any(&self, chores: &mut Chores, now: u32) -> bool {
        if chores.healing.refused_at == Some(now) {
            return false;
        }
        let (segment, was_aside) = {
            let Writer { free, prepared, aside, .. } = &mut *lock(&self.writer);
            let free = free.pop_front().or_else(|| prepared.pop_front());
            (free.or_else(|| aside.pop_back()), free.is_none())
        };
        let Some(segment) = segment else { return false };
        let works = self.works(segment, &mut chores.pages);
        let mut writer = lock(&self.writer);
        let Writer { free, aside, failures, .. } = &mut *writer;
        let healing = &mut chores.healing;
        if works {
            free.push_front(segment);
            *failures = 0;
            *healing = Healing::default();
        } else {
            if was_aside {
                aside.push_front(segment);
            } else {
                aside.push_back(segment);
            }
            let beside = healing.aside_step.min(free.len());
            aside.extend(free.drain(..beside));
            healing.aside_step = self.doubled(healing.aside_step);
            healing.refused_at = Some(now);
            healing.round = if was_aside { healing.round + 1 } else { 0 };
        }
        works
    }

    /// Whether a segment in use is to be collected while nothing is taken: because none is free,
    /// and all that were set aside, fewer than half of the tier, have been tried since the last
    /// collection.
    pub(crate) fn wants_victim(&self, healing: &mut Healing) -> bool {
        let writer = lock(&self.writer);
        let aside = writer.aside.len();
        let is_over = healing.round >= aside && 2 * aside < self.geometry.segments as usize;
        let wants = writer.free_segments() == 0 && is_over;
        if wants {
            healing.round = 0;
        }
        wants
    }

    /// Tries the segment that was set aside last, if it is time to: because enough were opened
    /// since one was refused, or, once a second, because none is free. `true` if it works.
    fn try_aside(&self, chores: &mut Chores, now: u32) -> bool {
        let opened = self.counters.opened.get();
        let tried = {
            let mut writer = lock(&self.writer);
            let is_starved = writer.free_segments() == 0 && chores.healing.refused_at != Some(now);
            let is_due = is_starved || opened >= chores.healing.opened_next;
            if is_due { writer.aside.pop_back() } else { None }
        };
        let Some(segment) = tried else { return false };
        let works = self.works(segment, &mut chores.pages);
        let Writer { free, aside, .. } = &mut *lock(&self.writer);
        let healing = &mut chores.healing;
        if works {
            free.push_back(segment);
            let beside = healing.back_step.min(aside.len());
            free.extend(aside.split_off(aside.len() - beside));
            healing.back_step = self.doubled(healing.back_step);
        } else {
            aside.push_front(segment);
            healing.back_step = 0;
            healing.refused_at = Some(now);
            let segments = u64::from(self.geometry.segments);
            healing.opened_next = opened + OPENED_A_TRY.min(segments / TRY_SHARE);
        }
        works
    }

    fn doubled(&self, step: usize) -> usize {
        (2 * step).clamp(1, self.geometry.segments as usize)
    }

    /// Whether the device takes all of a segment. A free segment is not read, and one that is not
    /// listed is not opened.
    fn works(&self, segment: u32, pages: &mut Pages) -> bool {
        let page = self.geometry.page_of(segment);
        let tried = self.prepare(segment).and_then(|()| {
            *pages = Pages::zeroed(self.geometry.segment_pages());
            self.device.write(page, pages.as_pages())
        });
        if tried.is_err() {
            self.counters.io_errors.add(1);
        }
        tried.is_ok()
    }

    /// Sets a segment aside that the device has refused. Nothing may lead to it any more.
    pub(crate) fn set_aside(&self, writer: &mut Writer, segment: u32) {
        self.let_go(segment);
        writer.aside.push_back(segment);
    }

    /// Makes the open segments that a note has voided wait to be written: the next start would not
    /// believe what they take from now on either. If the device does not take that note, or no
    /// segments, nothing new comes in, and the rows had better stay in memory.
    fn freeze_void(&self) {
        // Its holder may be waiting for the device: not under the writer's.
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
}
