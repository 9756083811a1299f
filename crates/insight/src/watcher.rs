//! The evaluation of the events of sampled keys: see [`Watcher`].

use crate::curve::Curve;
use crate::known::{KEY_BYTES, Key, Known, Moment};
use crate::position;
use crate::reasons::{Reason, Reasons};

/// Seconds after which counts weigh half. Long enough that a few thousand sampled reads lie within
/// it even where only one a second is sampled, on which a ratio is right to a point or two; short
/// enough that the curve follows the hours of a day.
pub const HALF_LIFE_S: f64 = 3600.0;

/// Keys are known for as long as a cache of this many times the present size would keep them: twice
/// the largest size that the curve is shown for.
pub const DEPTH: f64 = 16.0;

/// Seconds after a sample was made narrower or wider, or was considered for that, until it is
/// widened if there is room then; for as long, newly sampled keys are only recorded. A key that is
/// requested less often than that counts as never stored once.
const WIDEN_PAUSE_S: f64 = HALF_LIFE_S;

/// A sample is widened this many times at once,
const WIDEN_TIMES: f64 = 2.0;
/// if no more than one part in this many of the room for keys is used.
const WIDEN_ROOM: usize = 4;

/// One byte in this many of a cache's memory may be taken by a watcher and by the lists of events
/// that wait for it.
pub const MEMORY_SHARE: usize = 100;

/// The tenths of it that are the watcher's.
const WATCHER_TENTHS: usize = 9;

/// The most keys that are known. With this many, results are within half a point nearly everywhere,
/// and more would only cost more.
pub const KEYS_MAX: usize = 64 << 10;

/// The largest share of keys that is sampled: a sampled request costs a few hundred instructions
/// more.
pub const RATE_MAX: f64 = 1.0 / 16.0;

/// The state of the key after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// An item.
    Item {
        /// Bytes of memory that it takes.
        bytes: u32,
        /// Microseconds that it takes to make again; 0 if unknown.
        cost_us: u32,
        /// When it expires, in seconds; 0 is never.
        expiry_s: u32,
    },
    /// An item somewhere else, of which nothing more is known.
    Elsewhere,
    /// Nothing: it was deleted.
    Deleted,
    /// Nothing: the request gave the item an expiry in the past.
    Over,
    /// Nothing, for another reason.
    Nothing,
}

/// A request for a sampled key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The key's hash.
    pub hash: u64,
    /// The time of the request, in seconds.
    pub now_s: u32,
    /// The number of flushes before it.
    pub flushes: u32,
    /// If the item was requested, whether it was found.
    pub read: Option<bool>,
    /// The state of the key now.
    pub after: After,
}

/// Takes events, and evaluates them.
#[derive(Debug)]
pub struct Watcher {
    known: Known,
    curve: Curve,
    reasons: Reasons,
    depth_bytes: u64,
    moment: Moment,
    threshold_max: u64,
    /// Seconds since the sample was made narrower for too many events, or wider, or could have
    /// been. A sample narrowed for want of room is as wide as there is room for.
    unchanged_s: f64,
}

impl Watcher {
    /// A watcher with room for `keys_max` keys, of which at most the share `rate_max` is sampled.
    pub fn new(keys_max: usize, rate_max: f64) -> Self {
        let threshold = (rate_max * 64_f64.exp2()) as u64;
        let moment = Moment { now_s: 0, flushes: 0, depth_bytes: u64::MAX };
        Self {
            known: Known::new(keys_max, threshold),
            curve: Curve::default(),
            reasons: Reasons::default(),
            depth_bytes: u64::MAX,
            moment,
            threshold_max: threshold,
            unchanged_s: 0.0,
        }
    }

    /// A watcher for a cache with this much memory, of which it takes its share, up to
    /// [`KEYS_MAX`].
    pub fn of_cache(memory_bytes: usize) -> Self {
        let share_bytes = memory_bytes / MEMORY_SHARE / 10 * WATCHER_TENTHS;
        let keys = share_bytes.saturating_sub(size_of::<Self>() + Curve::BYTES) / KEY_BYTES;
        Self::new(keys.min(KEYS_MAX), RATE_MAX)
    }

    /// The bytes that all lists of events of a cache with this much memory may take.
    pub fn lists_bytes(memory_bytes: usize) -> usize {
        memory_bytes / MEMORY_SHARE / 10 * (10 - WATCHER_TENTHS)
    }

    /// The bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + Curve::BYTES + self.known.capacity() * KEY_BYTES
    }

    /// A key is sampled if its [`position`] is below this.
    pub fn threshold(&self) -> u64 {
        self.known.threshold()
    }

    /// The share of all keys of which everything is known.
    pub fn rate(&self) -> f64 {
        self.known.rate()
    }

    /// The number of sampled keys of which everything is known: [`Self::rate`] of all that were
    /// stored and are not forgotten.
    pub fn keys(&self) -> usize {
        self.known.whole()
    }

    /// Keys that were forgotten because they were not requested for too long, scaled up.
    pub fn forgotten(&self) -> f64 {
        self.known.forgotten()
    }

    /// The weight of all stored keys that are not dead or forgotten, scaled up: a cache that large
    /// would miss none of them.
    #[cfg(test)]
    fn known_bytes(&self) -> f64 {
        self.known.total_bytes()
    }

    /// The curve.
    pub fn curve(&self) -> &Curve {
        &self.curve
    }

    /// The reasons of misses.
    pub fn reasons(&self) -> &Reasons {
        &self.reasons
    }

    /// Notes that the cache has room for `bytes` bytes of items.
    pub fn set_present(&mut self, bytes: f64) {
        self.depth_bytes = (bytes * DEPTH) as u64;
    }

    /// Reduces the sample to this share of it, if there are too many events.
    pub fn narrow(&mut self, share: f64) {
        self.unchanged_s = 0.0;
        self.known.narrow(share, self.moment);
    }

    /// Counts reads and hits, sampled or not.
    pub fn count(&mut self, reads: f64, hits: f64) {
        self.curve.all(reads, hits, 0.0);
    }

    /// Notes that seconds have passed.
    pub fn pass(&mut self, seconds: f64) {
        let factor = (-seconds / HALF_LIFE_S).exp2();
        self.curve.fade(factor);
        self.reasons.fade(factor);
        self.curve.all(0.0, 0.0, seconds);
        self.unchanged_s += seconds;
        if self.unchanged_s >= WIDEN_PAUSE_S {
            self.unchanged_s = 0.0;
            let has_room = self.known.len() * WIDEN_ROOM <= self.known.capacity();
            let times = if has_room { WIDEN_TIMES } else { 1.0 };
            if self.known.is_growing() || has_room && self.threshold() < self.threshold_max {
                self.known.widen(times, self.threshold_max, self.moment);
            }
        }
    }

    /// Evaluates a request.
    pub fn observe(&mut self, event: &Event) {
        let position = position(event.hash);
        if position >= self.known.threshold() {
            return;
        }
        let (now_s, flushes) = (event.now_s, event.flushes);
        self.moment = Moment { now_s, flushes, depth_bytes: self.depth_bytes };
        self.known.settle(self.moment);
        let number = self.known.find(position);
        if let Some(is_hit) = event.read.filter(|_| self.known.is_whole(position)) {
            self.read(position, number, is_hit);
        }
        let before = number.map(|number| *self.known.key(number));
        let key = match (event.after, before) {
            (After::Item { bytes, cost_us, expiry_s }, _) => {
                Key::stored(position, [bytes, cost_us, expiry_s], flushes)
            }
            // An item that is there was not deleted, whatever is known of it.
            (After::Elsewhere, Some(key)) if key.is_gone(now_s, flushes) => {
                Key::stored(position, [key.bytes, key.cost_us, 0], flushes)
            }
            (_, None) => return,
            (After::Deleted, Some(mut key)) => {
                key.delete();
                key
            }
            (After::Over, Some(key)) => key.over(now_s),
            // An item that made room is assumed to be there in a larger cache, and to come back to
            // this one.
            (After::Elsewhere | After::Nothing, Some(key)) => key,
        };
        self.known.put(key.seen(now_s), self.moment);
    }

    /// Evaluates a read.
    fn read(&mut self, position: u64, number: Option<usize>, is_hit: bool) {
        let reads = 1.0 / self.known.rate();
        let Moment { now_s, flushes, .. } = self.moment;
        let Some(number) = number else {
            if is_hit {
                self.curve.unknown(reads);
            } else {
                self.curve.never(position, reads, 0);
                self.reasons.add(Reason::Never, reads);
            }
            return;
        };
        let key = *self.known.key(number);
        let gone = if key.is_deleted() {
            Some(Reason::Deleted)
        } else if key.is_flushed(flushes) {
            Some(Reason::Flushed)
        } else {
            key.is_expired(now_s).then_some(Reason::Expired)
        };
        match gone {
            Some(_) if is_hit => self.curve.unknown(reads),
            Some(reason) => {
                self.curve.never(position, reads, key.cost_us);
                self.reasons.add(reason, reads);
            }
            None => {
                let distance = self.known.distance(number);
                self.curve.again(position, distance, reads, key.cost_us);
                if !is_hit {
                    let age_s = now_s.saturating_sub(key.seen_s);
                    self.reasons.add(Reason::Evicted(age_s), reads);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stdx::random::Xorshift;

    use super::*;
    use crate::reasons::AGE_BOUNDS_S;

    const ITEM: After = After::Item { bytes: 100, cost_us: 0, expiry_s: 0 };

    fn event(key: u64, now_s: u32, read: Option<bool>, after: After) -> Event {
        Event { hash: Xorshift::seeded(key).draw(), now_s, flushes: 0, read, after }
    }

    /// A watcher of all keys, with room for `keys_max`.
    fn watcher(keys_max: usize) -> Watcher {
        Watcher::new(keys_max, 1.0)
    }

    /// The misses of each kind that an event adds.
    fn misses_of(watcher: &mut Watcher, event: Event) -> [f64; 5] {
        let before = watcher.reasons().whole();
        watcher.observe(&event);
        let mut grown = watcher.reasons().whole();
        grown.iter_mut().zip(before).for_each(|(now, then)| *now = (*now - then).round());
        grown
    }

    /// Compares distances with a plain list: the bytes behind the last use of each requested key.
    #[test]
    fn distances_are_those_of_a_plain_list_in_every_order_of_events() {
        let mut random = Xorshift::seeded(7);
        let mut watcher = watcher(100);
        let mut list: Vec<(u64, u32)> = Vec::new();
        let mut reads_at = Vec::new();
        for _ in 0..20_000 {
            let key = random.draw() % 60;
            let bytes = 5000 + (random.draw() % 90_000) as u32;
            let found = list.iter().position(|(known, _)| *known == key);
            match random.draw() % 8 {
                0 => {
                    watcher.observe(&event(key, 1, None, After::Deleted));
                    found.map(|at| list.remove(at));
                }
                1 => {
                    let after = After::Item { bytes, cost_us: 0, expiry_s: 0 };
                    watcher.observe(&event(key, 1, None, after));
                    found.map(|at| list.remove(at));
                    list.push((key, bytes));
                }
                _ => {
                    watcher.observe(&event(key, 1, Some(found.is_some()), After::Nothing));
                    let distance =
                        found.map(|at| list[at..].iter().map(|it| u64::from(it.1)).sum());
                    reads_at.push(distance.unwrap_or(u64::MAX));
                    if let Some(at) = found {
                        list[at..].rotate_left(1);
                    }
                }
            }
        }
        watcher.count(reads_at.len() as f64, 0.0);
        // At the borders of steps, where nothing is estimated.
        for step in 0..160 {
            let size = (12.0 + f64::from(step) / 8.0).exp2();
            let missed = reads_at.iter().filter(|&&distance| distance as f64 >= size).count();
            let found = watcher.curve().at(size).expect("there are reads").miss_ratio;
            let right = missed as f64 / reads_at.len() as f64;
            assert!((found - right).abs() < 1e-9, "{size}: {found} {right}");
        }
        assert!((watcher.curve().balance() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn every_reason_is_told_by_what_happened_last() {
        let mut watcher = watcher(100);
        let miss = |now_s| event(1, now_s, Some(false), After::Nothing);
        assert_eq!(misses_of(&mut watcher, miss(10)), [1.0, 0.0, 0.0, 0.0, 0.0]);
        watcher.observe(&event(1, 10, None, After::Item { bytes: 9, cost_us: 0, expiry_s: 20 }));
        assert_eq!(misses_of(&mut watcher, miss(19)), [0.0, 0.0, 0.0, 0.0, 1.0], "before its time");
        assert_eq!(misses_of(&mut watcher, miss(20)), [0.0, 1.0, 0.0, 0.0, 0.0], "at its time");
        watcher.observe(&event(1, 21, None, ITEM));
        watcher.observe(&event(1, 22, Some(true), After::Over));
        assert_eq!(misses_of(&mut watcher, miss(22)), [0.0, 1.0, 0.0, 0.0, 0.0]);
        watcher.observe(&event(1, 23, None, ITEM));
        watcher.observe(&event(1, 24, None, After::Deleted));
        assert_eq!(misses_of(&mut watcher, miss(25)), [0.0, 0.0, 1.0, 0.0, 0.0]);
        watcher.observe(&event(1, 26, None, ITEM));
        let flushed = Event { flushes: 1, ..miss(27) };
        assert_eq!(misses_of(&mut watcher, flushed), [0.0, 0.0, 0.0, 1.0, 0.0]);
        watcher.observe(&Event { flushes: 1, ..event(1, 28, None, ITEM) });
        let evicted = Event { flushes: 1, ..miss(28 + AGE_BOUNDS_S[0]) };
        assert_eq!(misses_of(&mut watcher, evicted), [0.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(watcher.reasons().ages(), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        let elsewhere = Event { flushes: 1, ..event(1, 60, Some(true), After::Elsewhere) };
        assert_eq!(misses_of(&mut watcher, elsewhere), [0.0; 5], "a hit has no reason");
    }

    /// An item from before the watching began says nothing of a distance.
    #[test]
    fn hits_of_unknown_keys_are_left_out() {
        let mut watcher = watcher(100);
        watcher.observe(&event(1, 1, Some(true), ITEM));
        watcher.observe(&event(1, 1, Some(true), ITEM));
        watcher.count(2.0, 2.0);
        assert_eq!(watcher.curve().events(), 1.0);
        assert_eq!(watcher.curve().at(1e6).expect("there are reads").miss_ratio, 0.0);
    }

    #[test]
    fn room_for_keys_is_never_passed_and_the_sample_goes_on() {
        for keys_max in [8, 9, 15, 16, 1000] {
            let mut watcher = watcher(keys_max);
            let bytes = watcher.memory_bytes();
            for key in 0..20_000 {
                watcher.observe(&event(key, 1, Some(false), ITEM));
                assert!(watcher.keys() <= keys_max);
            }
            assert_eq!(watcher.memory_bytes(), bytes);
            let expected = keys_max as f64 / 20_000.0;
            if keys_max == 1000 {
                let share = watcher.rate() / expected;
                assert!((0.7..=1.2).contains(&share), "{share}");
                assert!(watcher.keys() > keys_max / 2);
                let whole = watcher.known_bytes() / (20_000.0 * 100.0);
                assert!((0.9..1.1).contains(&whole), "{whole}");
            }
        }
    }

    #[test]
    fn a_cache_gives_a_hundredth_of_its_memory_at_most() {
        for mebibytes in [8, 16, 64, 1024, 1 << 20] {
            let memory_bytes = mebibytes << 20;
            let watcher = Watcher::of_cache(memory_bytes);
            let taken = watcher.memory_bytes() + Watcher::lists_bytes(memory_bytes);
            assert!(taken * MEMORY_SHARE <= memory_bytes, "{taken} of {memory_bytes}");
        }
        assert_eq!(Watcher::of_cache(1 << 50).known.capacity(), KEYS_MAX);
        assert_eq!(Watcher::of_cache(0).known.capacity(), 8, "the least there is");
    }

    #[test]
    fn keys_that_no_cache_would_keep_are_forgotten_and_counted() {
        let mut watcher = watcher(1000);
        watcher.set_present(100.0 * 10.0);
        for key in 0..50_000 {
            watcher.observe(&event(key, 1, None, ITEM));
        }
        // Sixteen times ten items, and those since everything was last put in order.
        assert_eq!(watcher.rate(), 1.0, "there was room");
        assert!((40_000.0..50_000.0).contains(&watcher.forgotten()), "{}", watcher.forgotten());
        let miss = |key| event(key, 2, Some(false), After::Nothing);
        assert_eq!(misses_of(&mut watcher, miss(0)), [1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(misses_of(&mut watcher, miss(49_850)), [0.0, 0.0, 0.0, 0.0, 1.0]);
    }

    /// Keys that come and go need no room beside those that stay, in a cache of any size.
    #[test]
    fn present_keys_are_not_forgotten_for_dead_ones() {
        let ways: [fn(u64) -> Event; 2] = [
            |key| event(key, 1, None, After::Deleted),
            |key| event(key, 1, None, After::Item { bytes: 100, cost_us: 0, expiry_s: 1 }),
        ];
        for goes in ways {
            let mut watcher = watcher(1000);
            watcher.set_present(100.0 * 10.0);
            watcher.observe(&event(0, 1, None, ITEM));
            for key in 1..50_000 {
                watcher.observe(&event(key, 1, None, ITEM));
                watcher.observe(&goes(key));
            }
            assert_eq!(watcher.rate(), 1.0, "those that have gone do not fill the room");
            assert!((40_000.0..50_000.0).contains(&watcher.forgotten()));
            let miss = |key| event(key, 2, Some(false), After::Nothing);
            assert_eq!(misses_of(&mut watcher, miss(0)), [0.0, 0.0, 0.0, 0.0, 1.0]);
            assert_eq!(misses_of(&mut watcher, miss(1)), [1.0, 0.0, 0.0, 0.0, 0.0]);
            let last = misses_of(&mut watcher, miss(49_999));
            assert_eq!((last[1] + last[2], last[4]), (1.0, 0.0), "it is known why");
        }
    }

    /// An item that expired unread, or was flushed, took room until then and takes none since.
    #[test]
    fn dead_unread_keys_weigh_nothing_ten_seconds_later() {
        let mut watcher = watcher(10_000);
        let short = |now_s| After::Item { bytes: 100_000, cost_us: 0, expiry_s: now_s + 10 };
        watcher.observe(&event(0, 0, None, ITEM));
        for now_s in 1..=1000 {
            watcher.observe(&event(u64::from(now_s), now_s, None, short(now_s)));
        }
        // Ten are present, and those that have died since all were weighed.
        let bytes = watcher.known_bytes();
        assert!((1e6..=2.1e6).contains(&bytes), "{bytes}");
        watcher.observe(&event(0, 1000, Some(true), ITEM));
        watcher.count(1.0, 1.0);
        assert_eq!(watcher.curve().at(3e6).expect("there is a read").miss_ratio, 0.0);
        assert_eq!(watcher.curve().at(1e5).expect("there is a read").miss_ratio, 1.0);
        watcher.observe(&Event { flushes: 1, ..event(5000, 1010, None, ITEM) });
        assert!((watcher.known_bytes() - 100.0).abs() < 1e-6, "{}", watcher.known_bytes());
    }

    #[test]
    fn a_narrower_sample_stands_for_as_many() {
        let mut watcher = watcher(10_000);
        for key in 0..8000 {
            watcher.observe(&event(key, 1, None, ITEM));
        }
        watcher.narrow(0.25);
        assert_eq!((watcher.rate() * 100.0).round(), 25.0);
        let whole = watcher.known_bytes() / (8000.0 * 100.0);
        assert!((0.9..1.1).contains(&whole) && watcher.keys() < 2400, "{whole}");
        let misses: f64 = (0..8000)
            .map(|key| misses_of(&mut watcher, event(key, 2, Some(false), After::Nothing))[4])
            .sum();
        assert!((7000.0..9000.0).contains(&misses), "{misses}");
    }

    #[test]
    fn a_narrow_sample_widens_and_is_complete_an_hour_later() {
        let mut watcher = watcher(4000);
        let ask = |watcher: &mut Watcher, is_hit| {
            for key in 0..900 {
                watcher.observe(&event(key, 1, Some(is_hit), ITEM));
            }
        };
        ask(&mut watcher, false);
        watcher.narrow(0.25);
        let (narrow, threshold) = (watcher.rate(), watcher.threshold());
        watcher.pass(WIDEN_PAUSE_S / 2.0);
        assert_eq!(watcher.threshold(), threshold, "not so soon");
        watcher.pass(WIDEN_PAUSE_S / 2.0);
        assert_eq!((watcher.rate(), watcher.threshold()), (narrow, threshold * 2));
        // New keys are recorded, and count for nothing.
        let (before, keys) = (watcher.reasons().whole()[0], watcher.keys());
        ask(&mut watcher, false);
        assert_eq!(watcher.reasons().whole()[0], before);
        assert_eq!(watcher.keys(), keys, "not all is known of the others");
        assert!(watcher.known.len() > keys);
        let bytes = |watcher: &Watcher| watcher.known_bytes() / (900.0 * 100.0);
        assert!((0.8..1.2).contains(&bytes(&watcher)), "{}", bytes(&watcher));
        watcher.pass(WIDEN_PAUSE_S);
        assert_eq!(watcher.rate(), narrow * 2.0);
        assert!((0.85..1.15).contains(&bytes(&watcher)), "{}", bytes(&watcher));
        watcher.pass(WIDEN_PAUSE_S);
        watcher.pass(WIDEN_PAUSE_S);
        assert!(watcher.rate() > 0.99, "not beyond the most: {}", watcher.rate());
        ask(&mut watcher, true);
    }
}
