//! What events of sampled keys come to: see [`Watcher`].

use crate::curve::Curve;
use crate::known::{KEY_BYTES, Key, Known, Moment};
use crate::position;
use crate::reasons::{Reason, Reasons};

/// After so many seconds what was counted weighs half. Long enough that a few thousand sampled
/// reads lie within it even where only one a second is sampled, on which a ratio is right to a
/// point or two; short enough that the curve follows the hours of a day.
pub const HALF_LIFE_S: f64 = 3600.0;

/// Keys are known for as long as a cache so many times the present size would keep them: twice the
/// largest size that the curve is shown for.
pub const DEPTH: f64 = 16.0;

/// Of a cache's memory, one byte in so many may be taken by a watcher and by the lists of events
/// that wait for it.
pub const MEMORY_SHARE: usize = 100;

/// Of that, the tenths that are the watcher's.
const WATCHER_TENTHS: usize = 9;

/// The most keys that are known. So many are within half a point nearly everywhere, and more would
/// only cost more.
pub const KEYS_MAX: usize = 64 << 10;

/// The most that is sampled of all keys: a sampled request costs a few hundred instructions more.
pub const RATE_MAX: f64 = 1.0 / 16.0;

/// What is there after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// An item.
    Item {
        /// What it takes of memory.
        bytes: u32,
        /// What it takes to make again, in microseconds; 0 if nobody knows.
        cost_us: u32,
        /// When its time is over, in seconds; 0 is never.
        expiry_s: u32,
    },
    /// An item somewhere else, of which nothing more is known.
    Elsewhere,
    /// Nothing: it was deleted.
    Deleted,
    /// Nothing, for another reason.
    Nothing,
}

/// A request for a sampled key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The key's hash.
    pub hash: u64,
    /// When it was, in seconds.
    pub now_s: u32,
    /// How many flushes there had been.
    pub flushes: u32,
    /// If the item was asked for, whether it was found.
    pub read: Option<bool>,
    /// What is there now.
    pub after: After,
}

/// Takes events, and knows what they come to.
#[derive(Debug)]
pub struct Watcher {
    known: Known,
    curve: Curve,
    reasons: Reasons,
    depth_bytes: u64,
    moment: Moment,
}

impl Watcher {
    /// With room for so many keys, of which at most this share is sampled.
    pub fn new(keys_max: usize, rate_max: f64) -> Self {
        let threshold = (rate_max * 64_f64.exp2()) as u64;
        let moment = Moment { now_s: 0, flushes: 0, depth_bytes: u64::MAX };
        Self {
            known: Known::new(keys_max, threshold),
            curve: Curve::default(),
            reasons: Reasons::default(),
            depth_bytes: u64::MAX,
            moment,
        }
    }

    /// For a cache with so much memory, of which it takes its share, up to [`KEYS_MAX`].
    pub fn of_cache(memory_bytes: usize) -> Self {
        let share_bytes = memory_bytes / MEMORY_SHARE / 10 * WATCHER_TENTHS;
        let keys = share_bytes.saturating_sub(size_of::<Self>() + Curve::BYTES) / KEY_BYTES;
        Self::new(keys.clamp(1, KEYS_MAX), RATE_MAX)
    }

    /// What the lists of events of a cache with so much memory may take together.
    pub fn lists_bytes(memory_bytes: usize) -> usize {
        memory_bytes / MEMORY_SHARE / 10 * (10 - WATCHER_TENTHS)
    }

    /// What it takes of memory.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + Curve::BYTES + self.known.capacity() * KEY_BYTES
    }

    /// A key is sampled if its [`position`] is below this. Never rises.
    pub fn threshold(&self) -> u64 {
        self.known.threshold()
    }

    /// The share of all keys that is sampled.
    pub fn rate(&self) -> f64 {
        self.known.rate()
    }

    /// Sampled keys that are known.
    pub fn keys(&self) -> usize {
        self.known.len()
    }

    /// Keys that were forgotten because nobody had asked for them for too long, scaled up.
    pub fn forgotten(&self) -> f64 {
        self.known.forgotten()
    }

    /// What all the keys weigh that were stored and not forgotten, scaled up: a cache that large
    /// would miss none of them.
    pub fn known_bytes(&self) -> f64 {
        self.known.total_bytes()
    }

    /// The curve.
    pub fn curve(&self) -> &Curve {
        &self.curve
    }

    /// Why reads missed.
    pub fn reasons(&self) -> &Reasons {
        &self.reasons
    }

    /// The cache has room for so many bytes of items.
    pub fn set_present(&mut self, bytes: f64) {
        self.depth_bytes = (bytes * DEPTH) as u64;
    }

    /// There are too many events: samples only this share of what is sampled.
    pub fn narrow(&mut self, share: f64) {
        self.known.narrow(share, self.moment);
    }

    /// Seconds have passed in which there were so many reads, sampled or not, and so many hits.
    pub fn pass(&mut self, seconds: f64, reads: f64, hits: f64) {
        let factor = (-seconds / HALF_LIFE_S).exp2();
        self.curve.fade(factor);
        self.reasons.fade(factor);
        self.curve.all(reads, hits, seconds);
    }

    /// A request.
    pub fn observe(&mut self, event: &Event) {
        let position = position(event.hash);
        if position >= self.known.threshold() {
            return;
        }
        let (now_s, flushes) = (event.now_s, event.flushes);
        self.moment = Moment { now_s, flushes, depth_bytes: self.depth_bytes };
        let number = self.known.find(position);
        if let Some(is_hit) = event.read {
            self.read(position, number, is_hit);
        }
        let before = number.map(|number| *self.known.key(number));
        let key = match (event.after, before) {
            (After::Item { bytes, cost_us, expiry_s }, _) => {
                Key::stored(position, [bytes, cost_us, expiry_s], flushes)
            }
            // What is there was not deleted, whatever is known of it.
            (After::Elsewhere, Some(key)) if key.is_gone(now_s, flushes) => {
                Key::stored(position, [key.bytes, key.cost_us, 0], flushes)
            }
            (_, None) => return,
            (After::Deleted, Some(mut key)) => {
                key.delete();
                key
            }
            // Of what made room it is assumed that it would be there in a larger cache, and comes
            // back to this one.
            (After::Elsewhere | After::Nothing, Some(key)) => key,
        };
        self.known.put(key.seen(now_s), self.moment);
    }

    /// A read.
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
