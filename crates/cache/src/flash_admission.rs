//! Admission to flash. Every write wears the device out, so items that are not worth it are
//! refused: items that were not read, unless there is much room, items that will expire soon, and
//! all beyond the budget of writes. Room is segments and words of the index, of which small items
//! need more: the scarcer of the two decides.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use ::flash::{FlashStats, Watermarks};
use hot::mark::FETCHED;
use policy::write_budget::{Admission, WriteBudget};
use stdx::sync::lock;

use crate::spill::WORDS_FREE_SHARE;

/// There is much room while this many times as many segments, and words, are free as collection
/// leaves,
const ROOM_TIMES: usize = 2;
/// or one segment in this many, if these are fewer.
const ROOM_SHARE: usize = 4;
/// Seconds before its expiry from which on an item is not worth being written.
const SECONDS_MIN: u32 = 60;

/// The state of admission. The background updates it; a thread that moves an item asks.
#[derive(Debug)]
pub(crate) struct FlashAdmission {
    /// Present only if writes are limited.
    budget: Option<Mutex<WriteBudget>>,
    /// An [`Admission`], as a number.
    admission: AtomicU8,
    has_room: AtomicBool,
    is_mostly_free: AtomicBool,
    /// Items that were refused because of the budget.
    pub(crate) over_budget: AtomicU64,
    pub(crate) expiring: AtomicU64,
}

/// Words of the index for items on flash: those in use, and the most there may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    pub(crate) used: usize,
    pub(crate) max: usize,
}

impl Words {
    fn free(self) -> usize {
        self.max.saturating_sub(self.used)
    }
}

impl FlashAdmission {
    /// Returns an admission with a limit in bytes a second, if there is one.
    pub(crate) fn new(limit: Option<f64>, segment_bytes: u64) -> Self {
        let budget = limit.map(|limit| Mutex::new(WriteBudget::new(limit, segment_bytes)));
        Self {
            budget,
            admission: AtomicU8::new(Admission::All as u8),
            has_room: AtomicBool::new(false),
            is_mostly_free: AtomicBool::new(false),
            over_budget: AtomicU64::new(0),
            expiring: AtomicU64::new(0),
        }
    }

    /// Updates the state of admission.
    pub(crate) fn look(&self, now_us: u64, stats: &FlashStats, words: Words) {
        // What a tier that takes nothing is offered would leave memory for nothing.
        let has_room = !stats.is_failing
            && stats.segments_free > room_taken_to(stats.segments)
            && words.free() > words.max * ROOM_TIMES / WORDS_FREE_SHARE;
        self.has_room.store(has_room, Ordering::Relaxed);
        let is_mostly_free = !stats.is_failing
            && stats.segments_free > stats.segments / 2
            && words.free() > words.max / 2;
        self.is_mostly_free.store(is_mostly_free, Ordering::Relaxed);
        if let Some(budget) = &self.budget {
            let admission = lock(budget).look(now_us, stats.bytes_written);
            self.admission.store(admission as u8, Ordering::Relaxed);
        }
    }

    /// Whether an item is admitted that leaves the hot zone and does not deserve the compressed
    /// one: if it is wanted, or as long as there is much room.
    pub(crate) fn takes_past_the_zone(&self, is_wanted: bool) -> bool {
        (is_wanted || self.has_room.load(Ordering::Relaxed)) && self.affords(is_wanted)
    }

    /// Whether an item is admitted at this time. It is wanted also if it was ever read.
    pub(crate) fn takes(&self, fields: &::flash::Fields, is_wanted: bool, now: u32) -> bool {
        if fields.expiry != 0 && fields.expiry.saturating_sub(now) < SECONDS_MIN {
            self.expiring.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.affords(is_wanted || fields.mark & FETCHED != 0)
    }

    /// Whether every item is admitted that leaves the hot zone, except those that expire soon, and
    /// may take its full length there. Where flash is half full, that would soon cost others their
    /// place.
    pub(crate) fn takes_all(&self) -> bool {
        let admission = self.admission.load(Ordering::Relaxed);
        self.is_mostly_free.load(Ordering::Relaxed) && admission == Admission::All as u8
    }

    fn affords(&self, is_read: bool) -> bool {
        let admission = self.admission.load(Ordering::Relaxed);
        let affords =
            admission == Admission::All as u8 || (is_read && admission == Admission::Read as u8);
        self.over_budget.fetch_add(u64::from(!affords), Ordering::Relaxed);
        affords
    }
}

/// Returns how many of the segments are left free for wanted items. Collection leaves no more, so
/// that it never makes room for the others.
fn room_taken_to(segments: u64) -> u64 {
    let Watermarks { high, .. } = Watermarks::of(segments as u32);
    (ROOM_TIMES * high).min(segments as usize / ROOM_SHARE).max(high) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNUSED: Words = Words { used: 0, max: 1000 };

    fn fields(expiry: u32, mark: u8) -> ::flash::Fields {
        ::flash::Fields { expiry, mark, ..::flash::Fields::default() }
    }

    #[test]
    fn an_item_expiring_within_a_minute_is_not_admitted() {
        let entrance = FlashAdmission::new(None, 1 << 20);
        for (expiry, takes) in [(0, true), (1, false), (999, false), (1059, false), (1060, true)] {
            assert_eq!(entrance.takes(&fields(expiry, 0), false, 1000), takes, "{expiry}");
        }
        assert_eq!(entrance.expiring.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn unread_items_are_refused_first_and_then_all() {
        let entrance = FlashAdmission::new(Some(1000.0), 300_000);
        let mut stats = FlashStats { segments: 100, segments_free: 100, ..FlashStats::default() };
        let mut takes = |bytes_written| {
            stats.bytes_written = bytes_written;
            entrance.look(5, &stats, UNUSED);
            let of_item = |mark, is_wanted| entrance.takes(&fields(0, mark), is_wanted, 1000);
            let [unread, read, known] = [(0, false), (FETCHED, false), (0, true)]
                .map(|(mark, is_wanted)| of_item(mark, is_wanted));
            assert_eq!(read, known);
            assert_eq!(entrance.takes_past_the_zone(true), read);
            assert_eq!(entrance.takes_past_the_zone(false), unread);
            [unread, read]
        };
        assert_eq!(takes(0), [true, true]);
        assert_eq!(takes(300_001), [false, true]);
        assert_eq!(takes(600_000), [false, false]);
        assert_eq!(entrance.over_budget.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn unread_items_go_past_the_zone_only_while_there_is_much_room() {
        let entrance = FlashAdmission::new(None, 1 << 20);
        for (segments_free, takes_all) in [(50, false), (51, true)] {
            let stats = FlashStats { segments: 100, segments_free, ..FlashStats::default() };
            entrance.look(0, &stats, UNUSED);
            assert_eq!(entrance.takes_all(), takes_all);
        }
        // Of few a quarter, of many twice what collection leaves.
        let cases = [(100, 25, false), (100, 26, true), (494, 32, false), (494, 33, true)];
        for (segments, segments_free, has_room) in cases {
            let stats = FlashStats { segments, segments_free, ..FlashStats::default() };
            entrance.look(0, &stats, UNUSED);
            assert!(entrance.takes_past_the_zone(true));
            assert_eq!(entrance.takes_past_the_zone(false), has_room, "{segments_free}");
            assert!(!entrance.takes_all(), "not in their full length");
        }
    }

    /// Regression: a tier with room whose device took nothing was offered all items past the
    /// compressed zone, refused them, and they left the cache.
    #[test]
    fn a_tier_that_is_failing_has_no_room() {
        let entrance = FlashAdmission::new(None, 1 << 20);
        for is_failing in [false, true, false] {
            let stats = FlashStats {
                segments: 100,
                segments_free: 100,
                is_failing,
                ..FlashStats::default()
            };
            entrance.look(0, &stats, UNUSED);
            assert_eq!(entrance.takes_all(), !is_failing);
            assert_eq!(entrance.takes_past_the_zone(false), !is_failing);
            assert!(entrance.takes_past_the_zone(true), "wanted ones are offered");
        }
    }

    /// Regression: small items run out of words with most segments free, which counted as room for
    /// everything.
    #[test]
    fn there_is_as_much_room_as_there_are_words() {
        let entrance = FlashAdmission::new(None, 1 << 20);
        let stats = FlashStats { segments: 100, segments_free: 95, ..FlashStats::default() };
        // Collection leaves one in 32.
        let cases = [(0, true, true), (499, true, true), (500, true, false), (937, true, false)];
        for (used, has_room, takes_all) in cases.into_iter().chain([(938, false, false)]) {
            entrance.look(0, &stats, Words { used, max: 1000 });
            assert!(entrance.takes_past_the_zone(true));
            assert_eq!(entrance.takes_past_the_zone(false), has_room, "{used}");
            assert_eq!(entrance.takes_all(), takes_all, "{used}");
        }
        entrance.look(0, &stats, Words { used: 1001, max: 1000 });
        assert!(!entrance.takes_past_the_zone(false), "the limit was lowered");
    }
}
