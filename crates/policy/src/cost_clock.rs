//! CLOCK that knows costs: a byte per chunk, no lists, and no lock on the way of a hit.
//!
//! ```text
//!   mark    7..6 spare, left as they are    5..1 credit    0 recent
//!
//!                      hit: recent = 1
//!   stored:            |
//!   credit of -> [credit 3] -hand-> [2] -hand-> [1] -hand-> [0] -hand-> recent? no: evicted
//!   its cost          ^                                                   | yes
//!                     +---------- recharged with the credit of its cost --+
//! ```
//!
//! GreedyDual (`gd_wheel`) keeps what is left alone for a time in proportion to its cost. Here the
//! time is rounds of the hand: an item has a *credit* of so many rounds, each pass takes one, and
//! only what has none left is judged, as CLOCK judges: if it was hit since it was charged, it is
//! charged again; otherwise it goes. So a hit only sets a bit, as in CLOCK, and the credit is
//! touched by nobody but the hand. If all costs are equal, all credits are, and what CLOCK decides
//! is decided here: items are judged in the order in which they were charged.
//!
//! How much cost a round stands for, the *unit*, follows from what is stored: three quarters of the
//! harmonic mean of its costs. The cheap weigh most in that mean, as they have to: credit cannot
//! be less than a round, so a unit above the cost of cheap items would favour them; a smaller one
//! makes the hand go more rounds and tells costs apart that hardly differ. It is the reciprocals
//! that are averaged, so a charge needs no division.
//!
//! What differs from GreedyDual: times are whole rounds, costs beyond [`CREDIT_MAX`] units are the
//! same, and an item that is hit keeps what it has and is charged when that is used up, rather than
//! at once. The last gains: where GreedyDual saves a half of what LRU pays, this saves at least as
//! much (`docs/decisions/0007-cost-clock.md`, with the variants that are worse).
//!
//! The price is work: the hand makes two to four times the passes of CLOCK for each eviction where
//! few items are cheap, and [`CREDIT_MAX`] times as many at the most.
//!
//! Six bits are needed. Where marks have fewer to spare, only bit 0 has to be where hits can reach
//! it; the credit may lie in memory that belongs to the hand.

use crate::clock::RECENT;
use crate::{CostPolicy, Verdict};

/// The highest credit. With 15 the dear items of one configuration in thirteen lose some of what
/// they save, with 63 none gains.
pub const CREDIT_MAX: u8 = 31;
/// What a credit of one adds to a mark.
const CREDIT_ONE: u8 = RECENT << 1;
const CREDIT: u8 = CREDIT_MAX * CREDIT_ONE;

/// Binary places of a reciprocal.
const PLACES: u32 = 48;
/// The mean covers about so many stores: two to the power of this.
const MEMORY_SHIFT: u32 = 10;
/// Units in a harmonic mean: 4/3.
const UNITS: (u128, u128) = (4, 3);

/// The policy of one size class, with what it has learned of its costs.
#[derive(Debug, Clone, Copy, Default)]
pub struct CostClock {
    /// The mean of the reciprocals of the costs that are stored; 0 before the first.
    reciprocal: u64,
}

impl CostClock {
    /// The cost that a round of the hand stands for, in microseconds; nothing before the first.
    pub fn unit_us(&self) -> Option<f64> {
        let (units, means) = UNITS;
        let mean = (1u64 << PLACES) as f64 / self.reciprocal as f64;
        (self.reciprocal != 0).then(|| mean * means as f64 / units as f64)
    }

    /// Rounds of the hand that a cost pays for.
    fn credit(&self, cost: u32) -> u8 {
        let (units, means) = UNITS;
        let product = u128::from(cost.max(1)) * u128::from(self.reciprocal) * units / means;
        let rounds = (product + (1 << (PLACES - 1))) >> PLACES;
        rounds.clamp(1, u128::from(CREDIT_MAX)) as u8
    }

    /// A mark without its recent bit and with the credit of a cost, of which a round is used up
    /// when the hand next comes by and finds nothing left.
    fn charge(&self, mark: u8, cost: u32) -> u8 {
        (mark & !(CREDIT | RECENT)) | ((self.credit(cost) - 1) * CREDIT_ONE)
    }
}

impl CostPolicy for CostClock {
    fn store(&mut self, mark: u8, cost: u32) -> u8 {
        let reciprocal = (1 << PLACES) / u64::from(cost.max(1));
        if self.reciprocal == 0 {
            self.reciprocal = reciprocal;
        }
        let change = (reciprocal as i64 - self.reciprocal as i64) >> MEMORY_SHIFT;
        self.reciprocal = self.reciprocal.saturating_add_signed(change).max(1);
        self.charge(mark, cost)
    }

    fn hit(mark: u8) -> u8 {
        mark | RECENT
    }

    fn pass(&self, mark: u8, cost: u32) -> Verdict {
        match (mark & CREDIT, mark & RECENT) {
            (0, 0) => Verdict::Evict,
            (0, _) => Verdict::Spare(self.charge(mark, cost)),
            _ => Verdict::Spare(mark - CREDIT_ONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::clock::Clock;

    /// How often the hand spares what is left alone from now on.
    fn rounds(policy: &CostClock, mut mark: u8, cost: u32) -> u32 {
        let mut rounds = 0;
        while let Verdict::Spare(next) = policy.pass(mark, cost) {
            (mark, rounds) = (next, rounds + 1);
        }
        rounds
    }

    #[test]
    fn what_is_dear_stays_for_more_rounds() {
        let mut policy = CostClock::default();
        for _ in 0..10_000 {
            policy.store(0, 30);
        }
        for (cost, expected) in [(1, 0), (30, 0), (45, 1), (300, 12), (60_000, 30), (u32::MAX, 30)]
        {
            let mark = policy.charge(0, cost);
            assert_eq!(rounds(&policy, mark, cost), expected, "{cost}");
            // A hit is good for a second time, once the first is used up.
            let hit = CostClock::hit(mark);
            assert_eq!(CostClock::hit(hit), hit);
            assert_eq!(rounds(&policy, hit, cost), 2 * expected + 1, "{cost}");
        }
    }

    #[test]
    fn the_spare_bits_of_a_mark_stay() {
        let mut policy = CostClock::default();
        policy.store(0, 1);
        let mark = CostClock::hit(policy.store(0b1100_0000, 100));
        assert_eq!(mark, 0b1111_1101);
        let mut seen = mark;
        while let Verdict::Spare(next) = policy.pass(seen, 100) {
            assert_eq!(next & 0b1100_0000, 0b1100_0000);
            seen = next;
        }
        assert_eq!(seen, 0b1100_0000);
    }

    #[test]
    fn the_unit_follows_the_costs_that_are_stored() {
        let mut policy = CostClock::default();
        assert_eq!(policy.unit_us(), None);
        policy.store(0, 1000);
        assert_eq!(policy.credit(1000), 1);
        (0..20_000).for_each(|_| _ = policy.store(0, 100));
        assert_eq!((policy.credit(100), policy.credit(1000)), (1, 13));
        // Half of what is stored costs 100 and half 300: the harmonic mean is 150.
        (0..20_000).for_each(|at| _ = policy.store(0, [100, 300][at % 2]));
        assert_eq!((policy.credit(150), policy.credit(1125)), (1, 10));
        let unit_us = policy.unit_us().expect("something was stored");
        assert!((112.0..113.0).contains(&unit_us), "{unit_us}");
    }

    /// A ring of chunks: whatever is hit and stored, both policies evict the same.
    #[test]
    fn equal_costs_are_decided_as_by_clock() {
        for cost in [0, 1, 2, 7, 20, 65_535, u32::MAX] {
            let mut policy = CostClock::default();
            let mut marks = [(policy.store(0, cost), 0); 64];
            let (mut hand, mut random) = (0, 0x9e37_79b9_7f4a_7c15_u64);
            for _ in 0..100_000 {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let at = (random >> 58) as usize;
                if random >> 33 & 1 == 0 {
                    marks[at] = (CostClock::hit(marks[at].0), Clock::hit(marks[at].1));
                    continue;
                }
                let (ours, clocks) = &mut marks[hand];
                match (policy.pass(*ours, cost), Clock::pass(*clocks)) {
                    (Verdict::Evict, Verdict::Evict) => {
                        (*ours, *clocks) = (policy.store(0, cost), 0);
                    }
                    (Verdict::Spare(one), Verdict::Spare(other)) => (*ours, *clocks) = (one, other),
                    verdicts => panic!("{cost}: {verdicts:?}"),
                }
                hand = (hand + 1) % marks.len();
            }
        }
    }
}
