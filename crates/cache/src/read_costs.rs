//! The measured cost of a read from flash, by which the tier divides itself between compressed and
//! uncompressed items (`flash::Costs`).
//!
//! Two times are taken of some reads: how long the request waited for the pages, and how much
//! processor time it took to find the item in them. The first is alike for both areas, so all reads
//! make one average of it; the second is kept apart. Older reads count less and less.

use std::sync::Mutex;

use ::flash::{Area, Costs};
use stdx::sync::lock;

/// Of this many reads, one is timed.
const TIMED_SHARE: u64 = 16;
/// An average of fewer reads is not believed.
const COUNT_MIN: u32 = 16;
/// Beyond this many reads, earlier ones count half.
const COUNT_MAX: u32 = 1024;
/// Nanoseconds to find an item among uncompressed rows, as long as nothing is measured.
const HOT_FIND_NS: u64 = 1000;

/// Averages of the measured times.
#[derive(Debug, Default)]
pub(crate) struct ReadCosts(Mutex<Averages>);

#[derive(Debug, Default)]
struct Averages {
    wait: Average,
    /// By area.
    find: [Average; 2],
}

#[derive(Debug, Default)]
struct Average {
    sum_us: u64,
    count: u32,
}

impl Average {
    fn add(&mut self, us: u64) {
        if self.count >= COUNT_MAX {
            (self.sum_us, self.count) = (self.sum_us / 2, self.count / 2);
        }
        (self.sum_us, self.count) = (self.sum_us.saturating_add(us), self.count + 1);
    }

    /// Returns nanoseconds; `None` if too few are known.
    fn ns(&self) -> Option<u64> {
        let is_known = self.count >= COUNT_MIN;
        is_known.then(|| self.sum_us.saturating_mul(1000) / u64::from(self.count))
    }
}

impl ReadCosts {
    /// Whether the read of this number is timed.
    pub(crate) fn is_timed(&self, number: u64) -> bool {
        number.is_multiple_of(TIMED_SHARE)
    }

    /// Adds a read: how long its pages were waited for, and how long finding the item in them took.
    pub(crate) fn add(&self, area: Area, wait_us: u64, find_us: u64) {
        let mut averages = lock(&self.0);
        averages.wait.add(wait_us);
        averages.find[area as usize].add(find_us);
    }

    /// Returns the microseconds from the request for a compressed item to its arrival.
    pub(crate) fn read_us(&self) -> f64 {
        self.costs(None).cold_read_ns as f64 / 1000.0
    }

    /// Returns the costs of reads, and of a miss if that is known; the others are as the tier
    /// assumes.
    pub(crate) fn costs(&self, miss_ns: Option<u64>) -> Costs {
        let assumed = Costs::default();
        let averages = lock(&self.0);
        let [cold, hot] = [Area::Cold, Area::Hot].map(|area| averages.find[area as usize].ns());
        let wait_ns = averages.wait.ns().unwrap_or(assumed.hot_read_ns - HOT_FIND_NS);
        let assumed_find_ns = assumed.cold_read_ns - assumed.hot_read_ns + HOT_FIND_NS;
        Costs {
            hot_read_ns: wait_ns + hot.unwrap_or(HOT_FIND_NS),
            cold_read_ns: wait_ns + cold.unwrap_or(assumed_find_ns),
            miss_ns: miss_ns.unwrap_or(assumed.miss_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiers_assumptions_hold_until_enough_reads_are_known() {
        let costs = ReadCosts::default();
        assert_eq!(costs.costs(None), Costs::default());
        (1..COUNT_MIN).for_each(|_| costs.add(Area::Cold, 900, 50));
        assert_eq!(costs.costs(Some(7)), Costs { miss_ns: 7, ..Costs::default() });
        costs.add(Area::Cold, 900, 50);
        let expected = Costs { hot_read_ns: 901_000, cold_read_ns: 950_000, ..Costs::default() };
        assert_eq!(costs.costs(None), expected);
        (0..COUNT_MIN).for_each(|_| costs.add(Area::Hot, 900, 2));
        assert_eq!(costs.costs(None), Costs { hot_read_ns: 902_000, ..expected });
    }

    #[test]
    fn a_device_that_has_become_slow_is_noticed() {
        let costs = ReadCosts::default();
        (0..100_000).for_each(|_| costs.add(Area::Cold, 100, 20));
        (0..5 * COUNT_MAX).for_each(|_| costs.add(Area::Cold, 1000, 20));
        let Costs { cold_read_ns, .. } = costs.costs(None);
        assert!((980_000..=1_020_000).contains(&cold_read_ns), "{cold_read_ns}");
    }
}
