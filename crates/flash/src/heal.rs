//! Healing: retries what the device refused, and sets segments aside that it refuses.
//!
//! ```text
//!         +--refused right after another worked----> bad ------tried now and then----+
//!   free -+                                           ^                              +--> free
//!         +--refused, or beside one, after a failure--|--> suspects --tried soon-----+
//!                                                     +-------- refused
//! ```
//!
//! A device may refuse everything for a while, or one of its places for good: a bad sector, the
//! dead part of a volume, the holes of a file whose file system is full. So a segment that cannot
//! be written, or prepared for it, leaves the free list, which is short: otherwise its turn would
//! come again and again, and lose the rows it is given. The first that is refused is *bad*: others
//! worked a moment ago. Those that are refused behind it may be sound ones in an outage. They are
//! *suspects*.
//!
//! After [`FAILURES_MAX`] consecutive failures nothing new is taken. Then a segment is tried once a
//! second until one works: a free one, or else the suspects in turn. Bad segments lie side by side,
//! and there may be a hundred thousand of them. So with each free one that is refused twice as many
//! of those behind it become suspects untried. Those that are known to be bad say nothing about an
//! outage, however long it is: they have a turn once in [`BAD_TURN`] tries.
//!
//! When the device works, sound suspects come back in the same way: each one that works brings back
//! twice as many untried. The next try is of the last of those that it would bring back, since what
//! lies between two that work is rarely bad. One that is refused is bad. Bad ones are tried one by
//! one, and none comes back untried.
//!
//! In a full tier hardly any segments are free. When none is, and all suspects have been tried once
//! more, a segment is collected, which was written at least once, and tried next. Each takes a
//! second longer than the one before: a device that takes nothing for an hour costs a hundred
//! segments. If half of all have been set aside, an outage is more likely. Then the first takes
//! [`MOST_WAIT_S`], and each takes twice as long as the one before.
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

/// One bad segment is tried for this many that are opened, if the last one did not work: less than
/// a fiftieth more is written.
const OPENED_A_TRY: u64 = 64;
/// A tier of few segments tries one for each of this share of them that are opened: it cannot do
/// without those that a device refused once for as long as a large one.
const TRY_SHARE: u64 = 4;
/// Of this many tries while nothing is taken, one is of a bad segment: it may work again when no
/// suspect does.
const BAD_TURN: usize = 64;
/// Seconds until a segment in use is collected to be tried, if at least half of all are aside.
const MOST_WAIT_S: usize = 3600;

/// The state of the tries; the default is that of a device that has refused nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Healing {
    /// When a segment was last refused, in seconds.
    refused_at: Option<u32>,
    /// When the note that all is void was last refused: while it is written, threads that have to
    /// note a death wait.
    void_refused_at: Option<u32>,
    outage: Outage,
    /// Suspects to bring back with the next one that works.
    back_step: usize,
    /// The number of opened segments at which the next bad one is tried.
    pub(crate) opened_next: u64,
}

/// The list that a segment to be tried comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Free,
    Suspects,
    Bad,
}

/// The tries while nothing is taken.
#[derive(Debug, Clone, Copy, Default)]
struct Outage {
    /// Segments to set aside with the next free one that is refused.
    step: usize,
    /// Tries since a free segment was refused, or one was collected.
    round: usize,
    /// The tries before the next collection if half of all are aside; 0 before the first.
    most_wait: usize,
}

impl Flash {
    /// Retries what a device refused. Returns whether segments that were set aside have come back.
    pub(crate) fn heal(&self, chores: &mut Chores, now: u32) -> bool {
        if chores.healing.void_refused_at != Some(now) {
            self.tell_of_loss();
            if self.unsound.load(Ordering::Relaxed) && !self.void_device() {
                chores.healing.void_refused_at = Some(now);
            }
        }
        self.freeze_void();
        if lock(&self.writer).failures >= FAILURES_MAX {
            return self.try_any(chores, now);
        }
        chores.healing.outage = Outage::default();
        if chores.healing.refused_at == Some(now) {
            return false;
        }
        self.try_suspect(chores, now) || self.try_bad(chores, now)
    }

    /// Tries a segment where the device seems to take none, once a second: because it has refused
    /// many, or because none is free and none can be collected. `true` if it works.
    pub(crate) fn try_any(&self, chores: &mut Chores, now: u32) -> bool {
        if chores.healing.refused_at == Some(now) {
            return false;
        }
        let is_bad_ones_turn = chores.healing.outage.round % BAD_TURN == BAD_TURN - 1;
        let (segment, list) = {
            let Writer { free, prepared, suspects, bad, .. } = &mut *lock(&self.writer);
            let free = free.pop_front().or_else(|| prepared.pop_front());
            let is_bad_first = suspects.is_empty() || is_bad_ones_turn && !bad.is_empty();
            match free {
                Some(segment) => (Some(segment), List::Free),
                None if is_bad_first => (bad.pop_back(), List::Bad),
                None => (suspects.pop_back(), List::Suspects),
            }
        };
        let Some(segment) = segment else { return false };
        if self.works(segment, &mut chores.pages) {
            let writer = &mut *lock(&self.writer);
            writer.free.push_front(segment);
            writer.failures = 0;
            chores.healing = Healing::default();
            return true;
        }
        let Healing { refused_at, outage, .. } = &mut chores.healing;
        *refused_at = Some(now);
        outage.round += 1;
        let Writer { free, suspects, bad, failures, .. } = &mut *lock(&self.writer);
        match list {
            List::Free => {
                suspects.push_back(segment);
                suspects.extend(free.drain(..outage.step.min(free.len())));
                outage.step = self.doubled(outage.step);
                outage.round = 0;
            }
            List::Suspects => suspects.push_front(segment),
            List::Bad => bad.push_front(segment),
        }
        *failures = failures.saturating_add(u32::from(list != List::Bad));
        false
    }

    /// Whether a segment in use is to be collected while nothing is taken: because none is free,
    /// and all suspects have been tried since the last collection.
    pub(crate) fn wants_victim(&self, healing: &mut Healing) -> bool {
        let writer = lock(&self.writer);
        let outage = &mut healing.outage;
        let is_most = 2 * writer.segments_aside() >= self.geometry.segments as usize;
        let wait = if is_most { outage.most_wait.max(MOST_WAIT_S) } else { writer.suspects.len() };
        let wants = writer.free_segments() == 0 && outage.round >= wait;
        if wants {
            outage.round = 0;
            outage.most_wait = if is_most { 2 * wait } else { 0 };
        }
        wants
    }

    /// Tries a suspect, unless one was refused and nothing has worked since. `true` if it works.
    fn try_suspect(&self, chores: &mut Chores, now: u32) -> bool {
        let (segment, at, beside) = {
            let Writer { suspects, failures, .. } = &mut *lock(&self.writer);
            let beside = chores.healing.back_step.min(suspects.len().saturating_sub(1));
            let at = suspects.len().saturating_sub(1 + beside);
            let segment = if *failures == 0 { suspects.remove(at) } else { None };
            let Some(segment) = segment else { return false };
            (segment, at, beside)
        };
        let works = self.works(segment, &mut chores.pages);
        let healing = &mut chores.healing;
        let mut writer = lock(&self.writer);
        if works {
            let Writer { free, suspects, failures, .. } = &mut *writer;
            free.push_back(segment);
            // What was refused meanwhile comes behind them.
            free.extend(suspects.drain(at..at + beside));
            *failures = 0;
            healing.back_step = self.doubled(healing.back_step);
        } else {
            writer.set_aside(segment);
            healing.back_step = 0;
            healing.refused_at = Some(now);
        }
        works
    }

    /// Tries the segment that was last found to be bad, if enough were opened since one was tried.
    /// `true` if it works.
    fn try_bad(&self, chores: &mut Chores, now: u32) -> bool {
        let opened = self.counters.opened.get();
        if opened < chores.healing.opened_next {
            return false;
        }
        let Some(segment) = lock(&self.writer).bad.pop_back() else { return false };
        let works = self.works(segment, &mut chores.pages);
        let Writer { free, bad, .. } = &mut *lock(&self.writer);
        let healing = &mut chores.healing;
        if works {
            free.push_back(segment);
            healing.opened_next = opened + 1;
        } else {
            bad.push_front(segment);
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
        match tried {
            Ok(()) => self.counters.bytes_written.add(self.geometry.segment_bytes as u64),
            Err(_) => self.counters.io_errors.add(1),
        }
        tried.is_ok()
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
