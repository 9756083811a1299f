//! How many reads an LRU cache of each size would miss, and what that costs, by the distances at
//! which keys are read again (Mattson and others, 1970): a read hits in every cache that is at
//! least as large as the bytes used since, the item itself included.
//!
//! Distances are counted by eighths of a doubling, and each count stands for as many reads as the
//! sample says. The chance choice of sampled keys decides how many reads there are: one popular key
//! more or less changes that a lot, and the curve hardly, for it hits nearly everywhere. So misses
//! are divided by the number of all reads, which is known, and not by that of the sample; reads
//! missing there count as reads that hit everywhere (SHARDS-adj of the paper).
//!
//! What differs from the paper: a distance is in bytes, not in items; and counts fade, so that the
//! curve is of the present. The eight groups, by position, are miniatures of it: their differences
//! tell how far the whole can be off by chance.

/// Steps for each doubling of the distance: 9 % of its size, between which the curve is straight.
const STEPS_PER_DOUBLING: usize = 8;

/// Distances below 2^12 bytes count as that.
const LOG2_MIN: usize = 12;

/// Distances from 2^48 bytes on are beyond any cache.
const LOG2_MAX: usize = 48;

const STEPS: usize = (LOG2_MAX - LOG2_MIN) * STEPS_PER_DOUBLING;

/// Parts of the sample that are counted apart.
const GROUPS: usize = 8;

/// Reads at one distance.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    reads: f64,
    cost_us: f64,
    groups: [f32; GROUPS],
}

/// The curve.
#[derive(Debug)]
pub struct Curve {
    steps: Box<[Step]>,
    /// Reads of keys that no cache would have had.
    never: Step,
    reads: f64,
    hits: f64,
    seconds: f64,
    /// Reads in the sample, as they were.
    events: f64,
}

/// The curve at one size.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// The share of all reads that miss, from 0 to 1.
    pub miss_ratio: f64,
    /// The standard error of the miss ratio by the choice of the sample.
    pub error: f64,
    /// Seconds that it takes to make one second's misses again, as far as costs are known.
    pub missed_s: f64,
}

impl Default for Curve {
    fn default() -> Self {
        Self {
            steps: vec![Step::default(); STEPS].into(),
            never: Step::default(),
            reads: 0.0,
            hits: 0.0,
            seconds: 0.0,
            events: 0.0,
        }
    }
}

impl Step {
    fn add(&mut self, position: u64, reads: f64, cost_us: u32) {
        self.reads += reads;
        self.cost_us += reads * f64::from(cost_us);
        // Bits that choose neither the sample nor the place in its table.
        self.groups[(position >> 32) as usize % GROUPS] += reads as f32;
    }

    /// Adds a part of another step.
    fn join(&mut self, other: &Self, part: f64) {
        self.reads += other.reads * part;
        self.cost_us += other.cost_us * part;
        for (group, other) in self.groups.iter_mut().zip(other.groups) {
            *group += other * part as f32;
        }
    }

    fn fade(&mut self, factor: f64) {
        self.reads *= factor;
        self.cost_us *= factor;
        self.groups.iter_mut().for_each(|group| *group *= factor as f32);
    }
}

/// A distance in steps, from 0.
fn steps_of(bytes: f64) -> f64 {
    ((bytes.max(1.0).log2() - LOG2_MIN as f64) * STEPS_PER_DOUBLING as f64).max(0.0)
}

impl Curve {
    /// Bytes of memory that a curve takes.
    pub const BYTES: usize = size_of::<Self>() + STEPS * size_of::<Step>();

    /// Counts a read of a sampled key, which stands for `reads`, at this distance.
    pub(crate) fn again(&mut self, position: u64, bytes: f64, reads: f64, cost_us: u32) {
        self.events += 1.0;
        let step = self.steps.get_mut(steps_of(bytes) as usize);
        step.unwrap_or(&mut self.never).add(position, reads, cost_us);
    }

    /// Counts a read that misses at any size.
    pub(crate) fn never(&mut self, position: u64, reads: f64, cost_us: u32) {
        self.events += 1.0;
        self.never.add(position, reads, cost_us);
    }

    /// Discounts a read that hit, of a key of which nothing else is known, as if it had not been.
    pub(crate) fn unknown(&mut self, reads: f64) {
        self.reads = (self.reads - reads).max(0.0);
        self.hits = (self.hits - reads).max(0.0);
    }

    /// Counts all reads of some seconds, sampled or not, and how many of them hit.
    pub(crate) fn all(&mut self, reads: f64, hits: f64, seconds: f64) {
        self.reads += reads;
        self.hits += hits;
        self.seconds += seconds;
    }

    /// Reduces the weight of everything counted so far.
    pub(crate) fn fade(&mut self, factor: f64) {
        self.steps.iter_mut().chain([&mut self.never]).for_each(|step| step.fade(factor));
        let sums = [&mut self.reads, &mut self.hits, &mut self.seconds, &mut self.events];
        sums.into_iter().for_each(|sum| *sum *= factor);
    }

    /// The reads that the curve rests on; those that have faded count by their remaining weight.
    pub fn reads(&self) -> f64 {
        self.reads
    }

    /// Those of them that are reads of sampled keys.
    pub fn events(&self) -> f64 {
        self.events
    }

    /// Reads by the sample for each actual read: 1 but for chance, if all sampled reads were
    /// counted.
    #[cfg(test)]
    pub(crate) fn balance(&self) -> f64 {
        let steps = self.steps.iter().chain([&self.never]);
        steps.map(|step| step.reads).sum::<f64>() / self.reads.max(1.0)
    }

    /// Reads per second.
    pub fn reads_per_second(&self) -> f64 {
        self.reads / self.seconds.max(1.0)
    }

    /// The share of all reads that really missed.
    pub fn measured_miss_ratio(&self) -> f64 {
        if self.reads > 0.0 { 1.0 - self.hits / self.reads } else { 0.0 }
    }

    /// The misses of a cache for `bytes` bytes of items; `None` if nothing was read.
    pub fn at(&self, bytes: f64) -> Option<Point> {
        if self.reads < 1.0 {
            return None;
        }
        let place = steps_of(bytes);
        let first = (place as usize).min(STEPS - 1);
        let mut missed = self.never;
        missed.join(&self.steps[first], 1.0 - (place - first as f64).min(1.0));
        self.steps[first + 1..].iter().for_each(|step| missed.join(step, 1.0));
        let ratio = |missed: f64, reads: f64| (missed / reads).min(1.0);
        let part = self.reads / GROUPS as f64;
        let groups = missed.groups.map(|group| ratio(f64::from(group), part));
        let mean = groups.iter().sum::<f64>() / GROUPS as f64;
        let squares = groups.iter().map(|group| (group - mean).powi(2)).sum::<f64>();
        let error = (squares / (GROUPS * (GROUPS - 1)) as f64).sqrt();
        let missed_s = missed.cost_us / 1e6 / self.seconds.max(1.0);
        Some(Point { miss_ratio: ratio(missed.reads, self.reads), error, missed_s })
    }
}

#[cfg(test)]
mod tests {
    use super::{Curve, LOG2_MAX, steps_of};

    #[test]
    fn a_read_hits_where_its_distance_fits() {
        let mut curve = Curve::default();
        assert_eq!(curve.at(1e6), None);
        curve.all(10.0, 4.0, 2.0);
        curve.again(0, 5000.0, 2.0, 1_000_000);
        curve.again(1, 5e6, 3.0, 0);
        curve.again(2, 2_f64.powi(LOG2_MAX as i32), 1.0, 0);
        curve.never(3, 2.0, 500_000);
        let ratio = |bytes: f64| curve.at(bytes).expect("there are reads").miss_ratio;
        assert_eq!(
            [0.0, 1000.0, 10_000.0, 4e6, 6e6, 1e30].map(ratio),
            [0.8, 0.8, 0.6, 0.6, 0.3, 0.3]
        );
        let saved = |bytes: f64| curve.at(bytes).expect("there are reads").missed_s;
        assert_eq!([0.0, 6000.0].map(saved), [1.5, 0.5]);
        assert!((curve.measured_miss_ratio() - 0.6).abs() < 1e-9);
        assert_eq!((curve.reads_per_second(), curve.balance()), (5.0, 0.8));
    }

    #[test]
    fn fading_leaves_ratios_as_they_are_and_the_present_prevails() {
        let mut curve = Curve::default();
        curve.all(100.0, 0.0, 1.0);
        curve.never(0, 100.0, 0);
        let before = curve.at(1e6);
        curve.fade(0.5);
        assert_eq!(curve.at(1e6).map(|it| it.miss_ratio), before.map(|it| it.miss_ratio));
        assert_eq!(curve.reads_per_second(), 50.0);
        for _ in 0..20 {
            curve.fade(0.5);
            curve.all(100.0, 100.0, 1.0);
        }
        assert!(curve.at(1e6).expect("there are reads").miss_ratio < 1e-4);
    }

    #[test]
    fn steps_rise_with_distances() {
        assert_eq!([0.0, 4096.0, 8192.0, 16384.0].map(steps_of), [0.0, 0.0, 8.0, 16.0]);
    }
}
