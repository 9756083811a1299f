//! Times of sampled requests, as histograms of high dynamic range: one for all time and a few for
//! the last minute, for each series.
//!
//! The last minute is six histograms of ten seconds, the oldest of which is emptied for the next:
//! quantiles are computed from their sum, so they react within ten seconds and rest on a minute's
//! samples.

use hdrhistogram::Histogram;

use crate::sampling::{Command, SERIES, Sample};

/// Two digits: a quantile is right within 1 %.
const DIGITS: u8 = 2;

/// Parts of the last minute.
const PARTS: usize = 6;

/// Ticks in a part.
const PART_TICKS: usize = 10;

/// Bounds of the buckets that Prometheus gets, in nanoseconds: from a quarter of a microsecond,
/// which is a hit in a processor's cache, by factors of two to half a second.
pub const BOUNDS_NS: [u64; 22] = {
    let mut bounds = [250; 22];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 2;
        at += 1;
    }
    bounds
};

/// One series.
#[derive(Debug)]
pub struct Series {
    whole: Histogram<u64>,
    sum_ns: u64,
    parts: [Histogram<u64>; PARTS],
}

/// A distribution, as Prometheus has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Buckets {
    /// Samples up to each of [`BOUNDS_NS`].
    pub counts: [u64; BOUNDS_NS.len()],
    /// All samples.
    pub count: u64,
    /// The sum of their times, in seconds.
    pub sum_s: f64,
}

/// The last minute of a series, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles {
    /// Number of samples.
    pub count: u64,
    /// The time that half of the requests took at most.
    pub p50_us: f64,
    /// The time of all but a hundredth.
    pub p99_us: f64,
    /// The time of all but a thousandth.
    pub p999_us: f64,
    /// The longest time.
    pub max_us: f64,
}

/// All series, in the order of [`SERIES`].
#[derive(Debug)]
pub struct Latencies {
    series: Vec<Series>,
    part: usize,
    ticks: usize,
}

/// An empty histogram, which grows with its samples.
fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("two digits are within what it can do")
}

impl Series {
    fn new() -> Self {
        Self { whole: histogram(), sum_ns: 0, parts: std::array::from_fn(|_| histogram()) }
    }

    /// The distribution of all time; `None` if there was no sample.
    pub fn buckets(&self) -> Option<Buckets> {
        let count = self.whole.len();
        let counts = BOUNDS_NS.map(|bound| self.whole.count_between(0, bound));
        (count > 0).then(|| Buckets { counts, count, sum_s: self.sum_ns as f64 / 1e9 })
    }

    /// The quantiles of the last minute; `None` if there was no sample in it.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let mut minute = histogram();
        self.add_to(&mut minute);
        let us = |quantile| minute.value_at_quantile(quantile) as f64 / 1e3;
        (!minute.is_empty()).then(|| Quantiles {
            count: minute.len(),
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: minute.max() as f64 / 1e3,
        })
    }

    fn add_to(&self, minute: &mut Histogram<u64>) {
        for part in &self.parts {
            minute.add(part).expect("a histogram that grows takes any other");
        }
    }
}

impl Latencies {
    /// This many series.
    pub fn new(series: usize) -> Self {
        Self { series: (0..series).map(|_| Series::new()).collect(), part: 0, ticks: 0 }
    }

    /// Adds one request.
    pub fn add(&mut self, sample: Sample) {
        let series = &mut self.series[usize::from(sample.series)];
        let ns = u64::from(sample.ns);
        for histogram in [&mut series.whole, &mut series.parts[self.part]] {
            histogram.record(ns).expect("a histogram that grows takes any value");
        }
        series.sum_ns += ns;
    }

    /// Ends a second. Returns the median and the 99th percentile of the last minute's gets, in
    /// microseconds, 0 without any.
    pub fn tick(&mut self) -> [f64; 2] {
        let mut minute = histogram();
        for (series, (command, _)) in self.series.iter().zip(SERIES) {
            if command == Command::Get {
                series.add_to(&mut minute);
            }
        }
        self.ticks += 1;
        if self.ticks == PART_TICKS {
            self.ticks = 0;
            self.part = (self.part + 1) % PARTS;
            self.series.iter_mut().for_each(|series| series.parts[self.part].reset());
        }
        [0.5, 0.99].map(|quantile| minute.value_at_quantile(quantile) as f64 / 1e3)
    }

    /// The series, each with its labels.
    pub fn series(&self) -> impl Iterator<Item = (&'static str, &'static str, &Series)> {
        let named = SERIES.map(|(command, tier)| (command.name(), tier.name()));
        named.into_iter().zip(&self.series).map(|((command, tier), series)| (command, tier, series))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_last_minute_and_buckets_of_all_time() {
        let mut latencies = Latencies::new(SERIES.len());
        for ns in 1..=1000 {
            latencies.add(Sample { series: 0, ns: ns * 1000 });
        }
        let near = |found: f64, right: f64| (found / right - 1.0).abs() < 0.01;
        let quantiles = latencies.series[0].quantiles().expect("there are samples");
        assert!(near(quantiles.p50_us, 500.0) && near(quantiles.p99_us, 990.0), "{quantiles:?}");
        assert!(near(quantiles.p999_us, 999.0) && near(quantiles.max_us, 1000.0), "{quantiles:?}");
        for second in 0..PARTS * PART_TICKS {
            let [p50_us, p99_us] = latencies.tick();
            assert!(near(p50_us, 500.0) && near(p99_us, 990.0), "after {second} s: {p50_us}");
        }
        assert_eq!(latencies.tick(), [0.0; 2]);
        assert!(latencies.series[0].quantiles().is_none());
        let buckets = latencies.series[0].buckets().expect("what was is still counted");
        assert_eq!((buckets.count, buckets.counts[BOUNDS_NS.len() - 1]), (1000, 1000));
        assert!(buckets.counts.is_sorted() && near(buckets.sum_s, 0.5005));
        // 32 microseconds, within the digits of the histogram.
        assert!(buckets.counts[7].abs_diff(32) <= 1, "{buckets:?}");
        assert!(latencies.series[1].buckets().is_none());
    }

    #[test]
    fn any_time_fits() {
        let mut latencies = Latencies::new(SERIES.len());
        for ns in [0, 1, u32::MAX] {
            latencies.add(Sample { series: 8, ns });
        }
        let buckets = latencies.series[8].buckets().expect("there are samples");
        assert_eq!((buckets.count, buckets.counts[0], buckets.counts[21]), (3, 2, 2));
    }
}
