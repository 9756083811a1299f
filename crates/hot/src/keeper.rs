//! Who stays in a size class: the policy, and what it has learned. Behind the class's lock.
//!
//! The hand asks of each item that it comes to; a hit only leaves its bit in the mark. With
//! cost-CLOCK an item that has a cost carries the rounds that are left to it in a byte of its own,
//! the credit. An item of which no cost is known has none, and is judged as by CLOCK.

use std::sync::atomic::Ordering;

use policy::clock::{Clock, RECENT};
use policy::cost::Cost;
use policy::cost_clock::CostClock;
use policy::{CostPolicy, Policy, Verdict};

use crate::ItemRef;

/// A replacement policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replacement {
    /// CLOCK: recency alone.
    #[default]
    Clock,
    /// CLOCK that knows what items cost to make again.
    CostClock,
}

/// The policy of one class.
#[derive(Debug)]
pub(crate) enum Keeper {
    Clock,
    CostClock(CostClock),
}

impl Keeper {
    pub(crate) fn new(replacement: Replacement) -> Self {
        match replacement {
            Replacement::Clock => Self::Clock,
            Replacement::CostClock => Self::CostClock(CostClock::default()),
        }
    }

    /// Takes note of the cost of an item that is about to be stored; returns its credit.
    #[inline]
    pub(crate) fn charge(&mut self, cost: Cost) -> u8 {
        match self {
            Self::CostClock(policy) if cost.is_known() => credit_of(policy.store(cost.us())),
            _ => 0,
        }
    }

    /// Whether the policy lets the item go; if not, it has lost what spared it this time.
    pub(crate) fn judge(&self, item: ItemRef<'_>) -> bool {
        let mark = item.mark().load(Ordering::Relaxed);
        let recent = match (self, item.credit()) {
            (Self::CostClock(policy), Some(credit)) => {
                let had = credit.load(Ordering::Relaxed);
                let joined = had << 1 | (mark & RECENT);
                match policy.pass(joined, item.cost().us()) {
                    Verdict::Evict => return true,
                    Verdict::Spare(left) => {
                        credit.store(credit_of(left), Ordering::Relaxed);
                        left & RECENT
                    }
                }
            }
            _ => match Clock::pass(mark) {
                Verdict::Evict => return true,
                Verdict::Spare(left) => left & RECENT,
            },
        };
        let spared = (mark & !RECENT) | recent;
        if spared != mark {
            // Lost to a hit that came between: then the item keeps its mark, as it should.
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            let _ = item.mark().compare_exchange(mark, spared, success, failure);
        }
        false
    }

    /// The cost that a round of the hand gives up, in microseconds, if costs are known.
    pub(crate) fn unit_us(&self) -> Option<f64> {
        match self {
            Self::Clock => None,
            Self::CostClock(policy) => policy.unit_us(),
        }
    }

    /// Whether the policy would spare the item.
    pub(crate) fn spares(&self, item: ItemRef<'_>) -> bool {
        let is_recent = item.mark().load(Ordering::Relaxed) & RECENT != 0;
        let has_credit = match self {
            Self::Clock => false,
            Self::CostClock(_) => {
                item.credit().is_some_and(|credit| credit.load(Ordering::Relaxed) != 0)
            }
        };
        is_recent || has_credit
    }
}

/// The credit in a mark of cost-CLOCK, which has it above the recent bit.
fn credit_of(mark: u8) -> u8 {
    mark >> 1
}
