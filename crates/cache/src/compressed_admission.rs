//! Which items deserve to be demoted: a block is written anew for each, flash wears out, and of the
//! items that left the hot zone without ever having been read many are never asked for.
//!
//! While the compressed zone is full, some of the items that were not read are let go, and only
//! their hashes are *remembered*. If such an item is stored again, and its hash is still remembered
//! when it leaves the hot zone once more, it was wanted: it is demoted, and counts as accessed
//! there. The same holds for promoted items, and for those that the zone evicted. Items that cost
//! much more than is typical are demoted in any case but for a few.
//!
//! That is what S3-FIFO (Yang and others, SOSP 2023) does with a small queue, ghosts and a main
//! one; here the hot zone is the small queue, but items that are read again soon live there, too.
//! S3-FIFO lets go of every item that was not read, which is wrong where items are read first long
//! after they were stored. So the share that is demoted follows from misses: a miss of an item that
//! was passed over says that it should have been demoted, and one of an item that the zone evicted,
//! that some other item should not ([`AdmissionSampler::learn`]).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use index::Hash;
use policy::cost::{Cost, Typical};
use stdx::random::Xorshift;

use crate::cache::Cache;

/// Bytes of the memory limit for each byte of the table: with blocks that compress to a third, one
/// for each item of 600 bytes in the compressed zone.
const BYTES_PER_PLACE: usize = 256;
/// The least share of the items that were not read that is demoted,
const CHANCE_MIN: f64 = 1.0 / 16.0;
/// and the largest, so that there are some to learn from.
const CHANCE_MAX: f64 = 31.0 / 32.0;
/// Forgotten items after which misses of them are looked at.
const LEARNING_ITEMS: u64 = 1024;
/// The factor by which earlier counts weigh less each time.
const FORGETTING: f64 = 0.75;
/// Fewer items say nothing.
const EVIDENCE_ITEMS: f64 = 32.0;
/// The share of passed-over items that has to be missed beyond that of evicted ones for more to be
/// demoted: moving takes time as well.
const GAIN_MIN: f64 = 0.04;
/// Below this difference, fewer are demoted.
const GAIN_SLACK: f64 = 0.02;
/// Above this difference, the sweep skips demoted items once: one in the order of hashes would take
/// some of them at once.
const GAIN_SPARED: f64 = 0.3;

/// Why an item's hash is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Left {
    /// It was not read, and was not demoted.
    PassedOver = 0,
    /// The compressed zone made room.
    Evicted = 1,
    /// Anything else.
    Otherwise = 2,
}

/// Values of [`Left`] of which missed items are counted. A place of such an item that was missed
/// says so by the next two numbers.
const COUNTED: usize = 2;
/// Numbers for the reason, and whether the item was missed since.
const REASONS: u8 = 5;
/// Tags that a byte has room for beside; 0 is an empty place.
const TAGS: u8 = u8::MAX / REASONS;

impl Cache {
    /// Remembers an item that leaves a zone.
    pub(crate) fn remember(&self, hash: Hash, left: Left) {
        if let Some(remembered) = &self.remembered {
            remembered.add(hash.0, left);
        }
    }

    /// Notes a miss.
    pub(crate) fn missed(&self, hash: Hash) {
        if let Some(remembered) = &self.remembered {
            remembered.miss(hash.0);
        }
    }

    /// Whether an item left a zone recently.
    pub(crate) fn remembers(&self, hash: Hash) -> bool {
        self.remembered.as_ref().is_some_and(|remembered| remembered.has(hash.0))
    }
}

/// Hashes of items that left recently: a byte of each, in the place that the hash says; a later one
/// takes the place. One look in 51 is wrong, and then an item is demoted that need not be.
pub(crate) struct GhostFilter {
    places: Box<[AtomicU8]>,
    /// Items whose places were taken, by the reason why they had left, and of these those that were
    /// missed.
    forgotten: [AtomicU64; COUNTED],
    missed: [AtomicU64; COUNTED],
}

impl GhostFilter {
    /// Returns a table for a memory limit.
    pub(crate) fn new(memory_bytes: usize) -> Self {
        Self {
            places: (0..Self::bytes_for(memory_bytes)).map(|_| AtomicU8::new(0)).collect(),
            forgotten: Default::default(),
            missed: Default::default(),
        }
    }

    /// Returns the bytes of a table for a memory limit.
    pub(crate) fn bytes_for(memory_bytes: usize) -> usize {
        (memory_bytes / BYTES_PER_PLACE).max(1)
    }

    pub(crate) fn add(&self, hash: u64, left: Left) {
        let (place, tag) = self.place(hash);
        let before = place.load(Ordering::Relaxed);
        place.store(code(tag, left as u8), Ordering::Relaxed);
        let Some((_, why)) = decoded(before) else { return };
        let is_missed = why > Left::Otherwise as u8;
        let why = if is_missed { why - Left::Otherwise as u8 - 1 } else { why };
        if let Some(forgotten) = self.forgotten.get(usize::from(why)) {
            forgotten.fetch_add(1, Ordering::Relaxed);
            self.missed[usize::from(why)].fetch_add(is_missed.into(), Ordering::Relaxed);
        }
    }

    pub(crate) fn has(&self, hash: u64) -> bool {
        let (place, tag) = self.place(hash);
        decoded(place.load(Ordering::Relaxed)).is_some_and(|(found, _)| found == tag)
    }

    /// Notes a miss.
    pub(crate) fn miss(&self, hash: u64) {
        let (place, tag) = self.place(hash);
        if let Some((found, why)) = decoded(place.load(Ordering::Relaxed))
            && found == tag
            && usize::from(why) < COUNTED
        {
            place.store(code(tag, why + Left::Otherwise as u8 + 1), Ordering::Relaxed);
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.places.len()
    }

    /// Returns the items that were forgotten, and those of them that had been missed.
    fn counts(&self) -> [[u64; COUNTED]; 2] {
        let read = |counts: &[AtomicU64; COUNTED]| {
            [counts[0].load(Ordering::Relaxed), counts[1].load(Ordering::Relaxed)]
        };
        [read(&self.forgotten), read(&self.missed)]
    }

    fn place(&self, hash: u64) -> (&AtomicU8, u8) {
        // Mixed, because the zone and the index go by the hash's own ends.
        let mixed = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let at = (u128::from(mixed) * self.places.len() as u128) >> u64::BITS;
        (&self.places[at as usize], (mixed % u64::from(TAGS)) as u8)
    }
}

/// Returns the content of a place: a tag, and a number below [`REASONS`].
fn code(tag: u8, why: u8) -> u8 {
    1 + why * TAGS + tag
}

/// Returns the tag and the number in a place.
fn decoded(place: u8) -> Option<(u8, u8)> {
    let code = place.checked_sub(1)?;
    Some((code % TAGS, code / TAGS))
}

/// Chooses the items that are demoted though they were not read. For one thread.
#[derive(Debug)]
pub(crate) struct AdmissionSampler {
    typical: Typical,
    random: Xorshift,
    /// The share of the items that were not read that is demoted.
    chance: f64,
    /// The sweep is to skip them once.
    spares: bool,
    /// Counts at the last look.
    before: [[u64; COUNTED]; 2],
    /// Earlier counts, the less the older.
    known: [[f64; COUNTED]; 2],
}

impl Default for AdmissionSampler {
    fn default() -> Self {
        Self {
            typical: Typical::default(),
            random: Xorshift::default(),
            chance: CHANCE_MAX,
            spares: false,
            before: Default::default(),
            known: Default::default(),
        }
    }
}

impl AdmissionSampler {
    /// Whether an item with this cost is drawn.
    pub(crate) fn draw(&mut self, cost: Cost) -> bool {
        let chance = self.chance;
        self.draw_with(cost, chance)
    }

    /// Whether the sweep is to skip items that were not read, once.
    pub(crate) fn spares(&self) -> bool {
        self.spares
    }

    /// [`Self::draw`] where hardly any item is to be demoted.
    pub(crate) fn draw_seldom(&mut self, cost: Cost) -> bool {
        self.draw_with(cost, CHANCE_MIN)
    }

    fn draw_with(&mut self, cost: Cost, chance: f64) -> bool {
        let lets_go = self.typical.leaves(cost) * (1.0 - chance);
        !self.random.chance(lets_go)
    }

    /// Looks at misses, and lets more or fewer items be demoted. An item that comes in takes the
    /// place of one that leaves a little sooner; so the share of missed items should be the same
    /// among those that were passed over as among those that the zone evicted. The table keeps both
    /// for equally long, about as long as the zone keeps items that are not read; an item is
    /// counted when it is forgotten.
    pub(crate) fn learn(&mut self, remembered: &GhostFilter) {
        let counts = remembered.counts();
        let forgotten = |counts: &[[u64; COUNTED]; 2]| counts[0].iter().sum::<u64>();
        if forgotten(&counts) - forgotten(&self.before) < LEARNING_ITEMS {
            return;
        }
        for (what, known) in self.known.iter_mut().enumerate() {
            for (why, known) in known.iter_mut().enumerate() {
                let new = counts[what][why] - self.before[what][why];
                *known = *known * FORGETTING + new as f64;
            }
        }
        self.before = counts;
        let [[passed_over, evicted], [missed_passed, missed_evicted]] = self.known;
        if passed_over < EVIDENCE_ITEMS {
            return;
        }
        let gain = missed_passed / passed_over - missed_evicted / evicted.max(EVIDENCE_ITEMS);
        self.spares = gain > GAIN_SPARED;
        if gain > GAIN_MIN {
            self.chance = (self.chance * 2.0).min(CHANCE_MAX);
        } else if gain < GAIN_SLACK {
            self.chance = (self.chance / 2.0).max(CHANCE_MIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AdmissionSampler, CHANCE_MAX, CHANCE_MIN, GhostFilter, Left};
    use policy::cost::Cost;
    use stdx::random::Xorshift;

    #[test]
    fn an_item_that_left_is_remembered_until_others_take_its_place() {
        let remembered = GhostFilter::new(256 << 10);
        let hash = |number: u64| Xorshift::seeded(number + 1).draw();
        (0..100).for_each(|number| remembered.add(hash(number), Left::Otherwise));
        let known =
            |range: std::ops::Range<u64>| range.filter(|&n| remembered.has(hash(n))).count();
        assert!(known(0..100) >= 90);
        assert!(known(1000..2000) <= 10);
        (100..20_000).for_each(|number| remembered.add(hash(number), Left::PassedOver));
        assert!(known(0..100) <= 10);
        assert_eq!(remembered.memory_bytes(), 1024);
    }

    #[test]
    fn most_costly_items_win_and_few_others() {
        let mut sampler = AdmissionSampler::default();
        let (usual, costly) = (Cost::from_us(100), Cost::from_us(10_000));
        let mut wins = [0, 0];
        for _ in 0..10_000 {
            (0..9).for_each(|_| wins[0] += usize::from(sampler.draw_seldom(usual)));
            wins[1] += usize::from(sampler.draw_seldom(costly));
        }
        assert!((5000..6300).contains(&wins[0]), "{wins:?}");
        assert!(wins[1] > 9500, "{wins:?}");
    }

    #[test]
    fn as_many_move_down_as_are_missed() {
        let remembered = GhostFilter::new(256 << 12);
        let hash = |number: u64| Xorshift::seeded(number + 1).draw();
        let mut sampler = AdmissionSampler::default();
        let mut next = 0;
        // 4096 items of each kind leave, and one in `missed` of them is missed, twice.
        let mut round = |sampler: &mut AdmissionSampler, kinds: [(Left, u64); 2]| {
            for (left, missed) in kinds {
                for number in next..next + 4096 {
                    remembered.add(hash(number), left);
                    if number.is_multiple_of(missed) {
                        (0..2).for_each(|_| remembered.miss(hash(number)));
                    }
                }
                next += 4096;
            }
            sampler.learn(&remembered);
            sampler.chance
        };
        assert_eq!(sampler.chance, CHANCE_MAX);
        let never = 1 << 40;
        let mut after = |passed_over, evicted| {
            let kinds = [(Left::PassedOver, passed_over), (Left::Evicted, evicted)];
            (0..20).map(|_| round(&mut sampler, kinds)).last()
        };
        assert_eq!(after(never, never), Some(CHANCE_MIN), "nobody asks for any of them");
        assert_eq!(after(8, never), Some(CHANCE_MAX), "what was passed over is wanted");
        assert_eq!(after(4, 4), Some(CHANCE_MIN), "no more than what makes room for it");
        assert_eq!(after(4, 8), Some(CHANCE_MAX));
        assert_eq!(after(8, 4), Some(CHANCE_MIN));
    }
}
