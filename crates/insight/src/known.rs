//! The sampled keys, in the order of their last use, and the last event of each.
//!
//! ```text
//! places   hash table of numbers into keys, half full at most
//! keys     one after the other as they came; each says in which time slot it was used last
//! order    the weights of the keys by slot; dead keys weigh nothing, but keep their slot
//! ```
//!
//! Nothing is removed one by one. When the slots or the room for keys are used up, everything is
//! put in order at once: keys are sorted by their slots, which are numbered anew; keys unused for
//! so long that no cache of interest would still have them are forgotten; and if that is not
//! enough, the threshold of positions falls until an eighth of the room is free. That is linear
//! except for the sorting, and happens once for as many events as an eighth of the room has keys.
//!
//! No event reports that a key expires, or which keys a flush takes. Keys dead in these ways are
//! weighed out of the order within ten seconds, which is linear without any sorting.
//!
//! The threshold can rise again. Newly sampled keys are in the order at once, but weigh and count
//! for nothing until enough is known of them.

use crate::order::Order;

/// Time slots for every two keys that there is room for: beyond one for each key, they last for
/// half the room's events.
const SLOTS_PER_TWO_KEYS: usize = 3;

/// Places of the hash table for each key.
const PLACES_PER_KEY: usize = 2;

/// Bytes of memory for each key that there is room for.
pub const KEY_BYTES: usize = size_of::<Key>()
    + PLACES_PER_KEY * size_of::<u32>()
    + SLOTS_PER_TWO_KEYS * size_of::<u64>() / 2;

/// Seconds after which all keys are weighed again: a few hundred thousand additions.
const WEIGHED_S: u32 = 10;

/// The least room for keys, so that an eighth of it is one.
const KEYS_MIN: usize = 8;

/// Not a number of a key.
const NOBODY: u32 = u32::MAX;

/// A key of which every request since its store is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// The position of its hash; no other key has the same.
    pub(crate) position: u64,
    slot: u32,
    /// Bytes of memory that the item takes.
    pub(crate) bytes: u32,
    /// Microseconds that it takes to make again; 0 if unknown.
    pub(crate) cost_us: u32,
    /// When it expires, in seconds; 0 is never.
    pub(crate) expiry_s: u32,
    /// When it was last requested, in seconds.
    pub(crate) seen_s: u32,
    /// The count of flushes when it was stored, in 31 bits; the last bit says that it was deleted
    /// since.
    state: u32,
}

impl Key {
    const FLUSHES: u32 = u32::MAX >> 1;

    /// A key that was stored after `flushes` flushes.
    pub(crate) fn stored(
        position: u64,
        [bytes, cost_us, expiry_s]: [u32; 3],
        flushes: u32,
    ) -> Self {
        let state = flushes & Self::FLUSHES;
        Self { position, slot: 0, bytes, cost_us, expiry_s, seen_s: 0, state }
    }

    /// The same key, requested now.
    pub(crate) fn seen(self, now_s: u32) -> Self {
        Self { seen_s: now_s, ..self }
    }

    /// The same key with an expired item.
    pub(crate) fn over(self, now_s: u32) -> Self {
        Self { expiry_s: now_s.max(1), ..self }
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.state > Self::FLUSHES
    }

    pub(crate) fn is_expired(&self, now_s: u32) -> bool {
        self.expiry_s != 0 && self.expiry_s <= now_s
    }

    pub(crate) fn is_flushed(&self, flushes: u32) -> bool {
        (self.state ^ flushes) & Self::FLUSHES != 0
    }

    pub(crate) fn is_gone(&self, now_s: u32, flushes: u32) -> bool {
        self.is_deleted() || self.is_expired(now_s) || self.is_flushed(flushes)
    }

    /// Its weight in the order, if all is known of the positions below `whole_below`.
    fn weight(&self, whole_below: u64, moment: Moment) -> u64 {
        let is_gone = self.is_gone(moment.now_s, moment.flushes);
        if is_gone || self.position >= whole_below { 0 } else { u64::from(self.bytes) }
    }

    pub(crate) fn delete(&mut self) {
        self.state |= !Self::FLUSHES;
    }
}

/// The present state of the cache, beside the keys' own events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Seconds.
    pub(crate) now_s: u32,
    /// The number of flushes so far.
    pub(crate) flushes: u32,
    /// A key behind which this many bytes were used is forgotten.
    pub(crate) depth_bytes: u64,
}

/// The sampled keys.
#[derive(Debug)]
pub(crate) struct Known {
    keys: Vec<Key>,
    keys_max: usize,
    /// Numbers into `keys`, by the low halves of their positions.
    places: Box<[u32]>,
    order: Order,
    /// When all keys were last weighed, in seconds.
    weighed_s: u32,
    /// The slot that was given last.
    slot: u32,
    /// Positions below this are sampled,
    threshold: u64,
    /// and of those below this, all is known; it is no higher.
    whole_below: u64,
    forgotten: f64,
}

impl Known {
    pub(crate) fn new(keys_max: usize, threshold: u64) -> Self {
        let keys_max = keys_max.max(KEYS_MIN);
        Self {
            keys: Vec::with_capacity(keys_max),
            keys_max,
            places: vec![NOBODY; keys_max * PLACES_PER_KEY].into(),
            order: Order::new(keys_max * SLOTS_PER_TWO_KEYS / 2),
            weighed_s: 0,
            slot: 0,
            threshold,
            whole_below: threshold,
            forgotten: 0.0,
        }
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.threshold
    }

    /// The share of all positions of which all is known.
    pub(crate) fn rate(&self) -> f64 {
        self.whole_below as f64 * (-64_f64).exp2()
    }

    /// Whether all is known of the key at a sampled position. If not, it is in the order without
    /// weight.
    pub(crate) fn is_whole(&self, position: u64) -> bool {
        position < self.whole_below
    }

    /// Whether some sampled keys are not completely known.
    pub(crate) fn is_growing(&self) -> bool {
        self.whole_below < self.threshold
    }

    /// The number of keys that there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.keys_max
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The number of them of which all is known.
    pub(crate) fn whole(&self) -> usize {
        match self.is_growing() {
            true => self.keys.iter().filter(|key| self.is_whole(key.position)).count(),
            false => self.keys.len(),
        }
    }

    /// Keys that were forgotten for their age, scaled up.
    pub(crate) fn forgotten(&self) -> f64 {
        self.forgotten
    }

    /// The weight of all present keys, scaled up.
    #[cfg(test)]
    pub(crate) fn total_bytes(&self) -> f64 {
        self.order.total() as f64 / self.rate()
    }

    pub(crate) fn find(&self, position: u64) -> Option<usize> {
        let place = self.place(position);
        let number = self.places[place];
        (number != NOBODY).then_some(number as usize)
    }

    /// The place of the key, or the free one that it would take.
    fn place(&self, position: u64) -> usize {
        let places = self.places.len();
        let mut place = ((u64::from(position as u32) * places as u64) >> 32) as usize;
        loop {
            let number = self.places[place];
            if number == NOBODY || self.keys[number as usize].position == position {
                return place;
            }
            place = if place + 1 == places { 0 } else { place + 1 };
        }
    }

    pub(crate) fn key(&self, number: usize) -> &Key {
        &self.keys[number]
    }

    /// The bytes used since the key was, and the key's own; scaled up.
    pub(crate) fn distance(&self, number: usize) -> f64 {
        let key = &self.keys[number];
        self.order.behind(key.slot) as f64 / self.rate() + f64::from(key.bytes)
    }

    /// Uses a key: it is the last in order from now on, and weighs nothing if it is dead. A new one
    /// must be below the threshold, and still be after room was made for it.
    pub(crate) fn put(&mut self, key: Key, moment: Moment) {
        let is_full = self.keys.len() == self.keys_max && self.find(key.position).is_none();
        if self.slot as usize == self.order.slots() || is_full {
            self.tidy(moment);
            if key.position >= self.threshold {
                return;
            }
        }
        let weight = key.weight(self.whole_below, moment);
        self.slot += 1;
        let key = Key { slot: self.slot, ..key };
        let place = self.place(key.position);
        if self.places[place] == NOBODY {
            self.places[place] = self.keys.len() as u32;
            self.keys.push(key);
        } else {
            let number = self.places[place] as usize;
            self.unweigh(number);
            self.keys[number] = key;
        }
        self.order.add(self.slot, weight);
    }

    /// Takes expired and flushed keys out of the order, if that was not done lately.
    pub(crate) fn settle(&mut self, moment: Moment) {
        if moment.now_s.abs_diff(self.weighed_s) >= WEIGHED_S {
            self.weigh(moment);
        }
    }

    /// Weighs all keys by their present state.
    fn weigh(&mut self, moment: Moment) {
        let whole_below = self.whole_below;
        let weights = self.keys.iter().map(|key| (key.slot, key.weight(whole_below, moment)));
        self.order.fill(weights);
        self.weighed_s = moment.now_s;
    }

    /// Takes a key's weight out of the order.
    fn unweigh(&mut self, number: usize) {
        let slot = self.keys[number].slot;
        let weight = self.order.behind(slot - 1) - self.order.behind(slot);
        self.order.take(slot, weight);
    }

    /// Samples only this share of the presently sampled positions.
    pub(crate) fn narrow(&mut self, share: f64, moment: Moment) {
        self.threshold = ((self.threshold as f64 * share) as u64).max(1);
        self.tidy(moment);
    }

    /// Declares the presently sampled keys completely known, and samples `times` times as many
    /// positions, up to `threshold_max`.
    pub(crate) fn widen(&mut self, times: f64, threshold_max: u64, moment: Moment) {
        self.whole_below = self.threshold;
        self.threshold = ((self.threshold as f64 * times) as u64).min(threshold_max);
        self.tidy(moment);
    }

    /// Puts everything in order, as described above.
    fn tidy(&mut self, moment: Moment) {
        let was_full = self.keys.len() == self.keys_max;
        self.keys.sort_unstable_by_key(|key| key.slot);
        self.forget(moment);
        let room = self.keys_max - self.keys_max / 8;
        self.keys.retain(|key| key.position < self.threshold);
        while was_full && self.keys.len() > room {
            self.threshold -= (self.threshold / 8).max(1);
            self.keys.retain(|key| key.position < self.threshold);
        }
        self.whole_below = self.whole_below.min(self.threshold);
        self.places.fill(NOBODY);
        for number in 0..self.keys.len() {
            self.keys[number].slot = number as u32 + 1;
            let place = self.place(self.keys[number].position);
            self.places[place] = number as u32;
        }
        self.weigh(moment);
        self.slot = self.keys.len() as u32;
    }

    /// Forgets keys that no cache of interest would still have; the keys are in order. A dead key
    /// needs no room in any, so only the present ones count behind a present key. A dead key itself
    /// is kept, for the reason of a miss, until as many bytes as the depth were used since, present
    /// or not: otherwise the room would fill with dead keys.
    fn forget(&mut self, moment: Moment) {
        let whole_below = self.whole_below;
        let is_whole = |key: &Key| key.position < whole_below;
        let bytes = |key: &Key| if is_whole(key) { u64::from(key.bytes) } else { 0 };
        let weight = |key: &Key| key.weight(whole_below, moment);
        let depth_bytes = (moment.depth_bytes as f64 * self.rate()) as u64;
        let mut used: u64 = self.keys.iter().map(bytes).sum();
        let mut there: u64 = self.keys.iter().map(weight).sum();
        let mut forgotten = 0_u32;
        self.keys.retain(|key| {
            let is_gone = key.is_gone(moment.now_s, moment.flushes);
            let is_deep = depth_bytes < if is_gone { used } else { there };
            used -= bytes(key);
            there -= weight(key);
            forgotten += u32::from(is_deep && is_whole(key));
            !is_deep
        });
        self.forgotten += f64::from(forgotten) / self.rate();
    }
}
