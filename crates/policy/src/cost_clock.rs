//! CLOCK that knows costs: a byte per chunk, no lists, and no lock on a hit's path.
//!
//! ```text
//!   mark    7..1 credit    0 recent
//!
//!                      hit: recent = 1
//!   stored:            |
//!   credit of -> [credit 3] -hand-> [2] -hand-> [1] -hand-> [0] -hand-> recent? no: evicted
//!   its cost          ^                                                   | yes
//!                     +---------- recharged with the credit of its cost --+
//! ```
//!
//! GreedyDual (`gd_wheel`) keeps an unread item for a time in proportion to its cost. Here the time
//! is rounds of the hand: an item has a *credit* of several rounds, each pass takes one, and only
//! an item that has none left is judged, as CLOCK judges: if it was hit since it was charged, it is
//! charged again; otherwise it is evicted. So a hit only sets a bit, as in CLOCK, and only the hand
//! touches the credit. If all costs are equal, all credits are, and the decisions are CLOCK's:
//! items are judged in the order in which they were charged.
//!
//! The cost that a round stands for, the *unit*, follows from the stored costs: three quarters of
//! their harmonic mean. Cheap items weigh most in that mean, as they have to: credit cannot be less
//! than a round, so a unit above the cost of cheap items would favour them; a smaller one makes the
//! hand go more rounds and tells costs apart that hardly differ. Where a few items cost next to
//! nothing, as if some costs are unknown, the hand would go a hundred rounds for them; so the unit
//! is no less than a [`SPREAD`]th of the mean.
//!
//! What differs from GreedyDual: times are whole rounds, costs beyond [`CREDIT_MAX`] units are
//! equal, and an item that is hit keeps its credit and is charged when that is used up, rather than
//! at once. The last is a gain: with it this saves as much as GreedyDual, or more
//! (`docs/decisions/0007-cost-clock.md`, with the variants that are worse).
//!
//! The price is work: the hand makes two to five times the passes of CLOCK for each eviction, and
//! about [`SPREAD`] times as many where a few items cost next to nothing. A store costs two
//! divisions, a charge none.
//!
//! All bits of the byte are the policy's. Where marks have fewer to spare, only bit 0 has to be
//! where hits can reach it; the credit may lie in memory that belongs to the hand.

use crate::Verdict;
use crate::clock::RECENT;

/// The highest credit: what fits a byte. With 31, a cache that is small beside its keys loses a
/// fifth of the saving where costs differ a hundredfold.
pub const CREDIT_MAX: u8 = u8::MAX >> 1;
/// A credit of one, in a mark.
const CREDIT_ONE: u8 = RECENT << 1;

/// Binary places of a reciprocal.
const PLACES: u32 = 48;
/// Binary places of a mean.
const MEAN_PLACES: u32 = 11;
/// The means cover about this many stores, as a power of two.
const MEMORY_SHIFT: u32 = 10;
/// Units in a harmonic mean: 4/3.
const UNITS: (u64, u64) = (4, 3);
/// The arithmetic mean is at most this many units. Where a tenth of the items cost next to nothing,
/// the hand looks at about this many times the items that CLOCK looks at.
pub const SPREAD: u64 = 16;
const _: () = assert!(SPREAD << (PLACES + MEAN_PLACES) >> (PLACES + MEAN_PLACES) == SPREAD);

/// The policy of one size class, with what it has learned of its costs.
#[derive(Debug, Clone, Copy, Default)]
pub struct CostClock {
    /// The mean of the reciprocals of the costs that are stored; 0 before the first.
    reciprocal: u64,
    /// The mean of the costs.
    mean: u64,
    /// The worth of a microsecond in rounds, with the places of a reciprocal.
    rate: u64,
}

impl CostClock {
    /// The cost that a round of the hand stands for, in microseconds; `None` before the first.
    pub fn unit_us(&self) -> Option<f64> {
        (self.rate != 0).then(|| (1u64 << PLACES) as f64 / self.rate as f64)
    }

    /// Learns a stored cost, which is not 0.
    fn learn(&mut self, cost: u32) {
        let (reciprocal, cost) = ((1 << PLACES) / u64::from(cost), u64::from(cost) << MEAN_PLACES);
        if self.mean == 0 {
            (self.reciprocal, self.mean) = (reciprocal, cost);
        }
        self.reciprocal = approach(self.reciprocal, reciprocal);
        self.mean = approach(self.mean, cost);
        let (units, means) = UNITS;
        self.rate = self.reciprocal * units / means;
        // The division is for cases where a few costs are next to nothing.
        let spread = SPREAD << (PLACES + MEAN_PLACES);
        if u128::from(self.rate) * u128::from(self.mean) > u128::from(spread) {
            self.rate = spread / self.mean;
        }
    }

    /// Rounds of the hand that a cost pays for.
    fn credit(&self, cost: u32) -> u8 {
        let product = u128::from(cost.max(1)) * u128::from(self.rate);
        let rounds = (product + (1 << (PLACES - 1))) >> PLACES;
        rounds.clamp(1, u128::from(CREDIT_MAX)) as u8
    }

    /// Learns from a store with this cost, and returns the mark of the item; 0 is unknown and
    /// counts as 1.
    pub fn store(&mut self, cost: u32) -> u8 {
        self.learn(cost.max(1));
        self.charge(cost)
    }

    /// The hand's decision on a chunk with this mark.
    pub fn pass(&self, mark: u8, cost: u32) -> Verdict {
        match mark {
            0 => Verdict::Evict,
            RECENT => Verdict::Keep(self.charge(cost)),
            _ => Verdict::Keep(mark - CREDIT_ONE),
        }
    }

    /// The mark of an item with the credit of a cost that was not hit since. The pass that finds no
    /// credit left is the last of the rounds.
    pub fn charge(&self, cost: u32) -> u8 {
        (self.credit(cost) - 1) * CREDIT_ONE
    }
}

/// A mean after one value more.
fn approach(mean: u64, value: u64) -> u64 {
    let change = (value as i64 - mean as i64) >> MEMORY_SHIFT;
    mean.saturating_add_signed(change).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    /// How often the hand spares an item that is not hit from now on.
    fn rounds(policy: &CostClock, mut mark: u8, cost: u32) -> u32 {
        let mut rounds = 0;
        while let Verdict::Keep(next) = policy.pass(mark, cost) {
            (mark, rounds) = (next, rounds + 1);
        }
        rounds
    }

    #[test]
    fn costly_items_stay_for_more_rounds() {
        let mut policy = CostClock::default();
        for _ in 0..10_000 {
            policy.store(30);
        }
        for (cost, expected) in
            [(1, 0), (30, 0), (45, 1), (300, 12), (60_000, 126), (u32::MAX, 126)]
        {
            let mark = policy.charge(cost);
            assert_eq!(rounds(&policy, mark, cost), expected, "{cost}");
            // A hit is good for a second time, once the first is used up.
            let hit = mark | RECENT;
            assert_eq!(rounds(&policy, hit, cost), 2 * expected + 1, "{cost}");
        }
    }

    #[test]
    fn a_few_items_of_no_cost_do_not_keep_the_hand_busy() {
        let mut policy = CostClock::default();
        // The harmonic mean is about 10, and the mean 900.
        (0..20_000).for_each(|at| _ = policy.store(if at % 10 == 0 { 0 } else { 1000 }));
        let credit = u64::from(policy.credit(1000));
        assert!((SPREAD..=SPREAD + SPREAD / 4).contains(&credit), "{credit}");
        assert_eq!(policy.credit(0), 1);
    }

    #[test]
    fn the_unit_follows_the_costs_that_are_stored() {
        let mut policy = CostClock::default();
        assert_eq!(policy.unit_us(), None);
        policy.store(1000);
        assert_eq!(policy.credit(1000), 1);
        (0..20_000).for_each(|_| _ = policy.store(100));
        assert_eq!((policy.credit(100), policy.credit(1000)), (1, 13));
        // Half of the stored items cost 100 and half 300: the harmonic mean is 150.
        (0..20_000).for_each(|at| _ = policy.store([100, 300][at % 2]));
        assert_eq!((policy.credit(150), policy.credit(1125)), (1, 10));
        let unit_us = policy.unit_us().expect("something was stored");
        assert!((112.0..113.0).contains(&unit_us), "{unit_us}");
    }

    /// A ring of chunks: whatever is hit and stored, both policies evict the same items.
    #[test]
    fn equal_costs_are_decided_as_by_clock() {
        for cost in [0, 1, 2, 7, 20, 65_535, u32::MAX] {
            let mut policy = CostClock::default();
            let mut marks = [(policy.store(cost), 0); 64];
            let (mut hand, mut random) = (0, 0x9e37_79b9_7f4a_7c15_u64);
            for _ in 0..100_000 {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let at = (random >> 58) as usize;
                if random >> 33 & 1 == 0 {
                    marks[at] = (marks[at].0 | RECENT, marks[at].1 | RECENT);
                    continue;
                }
                let (ours, clocks) = &mut marks[hand];
                match (policy.pass(*ours, cost), clock::pass(*clocks)) {
                    (Verdict::Evict, Verdict::Evict) => {
                        (*ours, *clocks) = (policy.store(cost), 0);
                    }
                    (Verdict::Keep(one), Verdict::Keep(other)) => (*ours, *clocks) = (one, other),
                    verdicts => panic!("{cost}: {verdicts:?}"),
                }
                hand = (hand + 1) % marks.len();
            }
        }
    }
}
