//! A tier under reads: the first half warms it, and the second half counts.

use std::ops::Sub;

use ::flash::{Costs, FlashStats, Settings};

use super::client::{Client, Counts};
use super::tier::Tier;
use crate::failure::Outcome;
use crate::paper::data::Data;
use crate::report::share;

/// A tier after reads of which the second half counted.
pub struct Run {
    pub tier: Tier,
    pub counts: Counts,
    /// The counts of the second half.
    pub stats: Happened,
}

/// The tier's counts between two moments.
#[derive(Debug, Clone, Copy)]
pub struct Happened {
    pub written: u64,
    pub moved: u64,
    pub collected: u64,
    pub evicted: u64,
    pub restaged: u64,
    pub promoted: u64,
    pub hits: u64,
    pub hot_hits: u64,
}

impl Happened {
    /// Returns the counts from the start until now.
    pub fn so_far(stats: &FlashStats) -> Happened {
        Happened {
            written: stats.bytes_written,
            moved: stats.bytes_moved,
            collected: stats.collected,
            evicted: stats.evicted,
            restaged: stats.restaged,
            promoted: stats.promoted,
            hits: stats.hits,
            hot_hits: stats.hot.hits,
        }
    }

    /// Returns moved bytes in percent of the written bytes.
    pub fn moved_percent(&self) -> f64 {
        100.0 * share(self.moved as f64, self.written as f64)
    }

    /// Returns hits in the hot area, in percent.
    pub fn hot_percent(&self) -> f64 {
        100.0 * share(self.hot_hits as f64, self.hits as f64)
    }
}

impl Sub for Happened {
    type Output = Happened;

    fn sub(self, before: Happened) -> Happened {
        Happened {
            written: self.written - before.written,
            moved: self.moved - before.moved,
            collected: self.collected - before.collected,
            evicted: self.evicted - before.evicted,
            restaged: self.restaged - before.restaged,
            promoted: self.promoted - before.promoted,
            hits: self.hits - before.hits,
            hot_hits: self.hot_hits - before.hot_hits,
        }
    }
}

impl Run {
    /// Runs a tier of this size in memory.
    pub fn of(
        bytes: u64,
        settings: &Settings,
        costs: Costs,
        data: &Data,
        objects: &[u32],
    ) -> Outcome<Run> {
        let mut tier = Tier::in_memory(bytes, settings)?;
        tier.flash.set_costs(costs);
        let (warm, counted) = objects.split_at(objects.len() / 2);
        Client::new(&mut tier, data).run(warm.iter().copied())?;
        let before = Happened::so_far(&tier.stats());
        let counts = Client::new(&mut tier, data).run(counted.iter().copied())?;
        let stats = Happened::so_far(&tier.stats()) - before;
        Ok(Run { tier, counts, stats })
    }
}
