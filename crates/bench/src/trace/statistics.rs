//! Statistics of a trace: amounts, frequencies and sizes.
//!
//! Sizes and costs are those of objects, not of requests: each object has the largest in any of its
//! requests, since a get that misses has none.

use serde::Serialize;

use super::{Operation, Trace};
use crate::report;

/// The least requests of an object that counts for the skew: smaller counts are mostly chance.
const SKEW_COUNT_MIN: u32 = 4;
/// The ratio between the ranks of two neighbouring points of the skew's line.
const SKEW_STEP: f64 = 1.25;
/// The least number of points of a line.
const SKEW_POINTS_MIN: usize = 5;
/// The shares of most popular objects whose share of the requests is reported.
const TOP_SHARES: [f64; 4] = [0.001, 0.01, 0.1, 0.2];

/// All statistics of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statistics {
    /// Its name.
    pub name: String,
    /// All requests.
    pub requests: u64,
    /// Different objects.
    pub objects: u64,
    /// Requests of each operation that occurs, the most frequent first.
    pub operations: Vec<(Operation, u64)>,
    /// Seconds from the first request to the last.
    pub seconds: u32,
    /// Objects with a single request, as a share of all objects.
    pub one_hit_share: f64,
    /// First requests for an object, as a share of all requests: the misses of the largest cache.
    pub compulsory_miss_ratio: f64,
    /// Requests for each object, on average.
    pub requests_per_object: f64,
    /// The exponent of the power law that counts follow over ranks, if there are enough.
    pub skew: Option<f64>,
    /// The share of the requests that goes to the most popular objects, per share of the objects.
    pub top: Vec<(f64, f64)>,
    /// Keys and values of all objects.
    pub footprint_bytes: u64,
    /// Bytes of the keys.
    pub key_bytes: Percentiles,
    /// Bytes of the values.
    pub value_bytes: Percentiles,
    /// Microseconds to make an object again.
    pub cost_us: Percentiles,
}

/// The spread of a property over all objects.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// The smallest.
    pub min: u32,
    /// The value that half are not above.
    pub p50: u32,
    /// The value that nine tenths are not above.
    pub p90: u32,
    /// The value that 99 of 100 are not above.
    pub p99: u32,
    /// The largest.
    pub max: u32,
    /// The average.
    pub mean: f64,
}

impl Percentiles {
    /// Returns the percentiles of any values; zeros if there are none.
    pub fn of(mut values: Vec<u32>) -> Percentiles {
        values.sort_unstable();
        let at = |share: f64| {
            let rank = (values.len() as f64 * share).ceil() as usize;
            values.get(rank.saturating_sub(1)).copied().unwrap_or(0)
        };
        let sum: u64 = values.iter().map(|value| u64::from(*value)).sum();
        Percentiles {
            min: at(0.0),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
            mean: sum as f64 / values.len().max(1) as f64,
        }
    }

    fn row(&self, name: &str) -> Vec<String> {
        let Percentiles { min, p50, p90, p99, max, mean } = self;
        let whole = [min, p50, p90, p99, max].map(u32::to_string);
        [vec![name.to_owned()], whole.to_vec(), vec![format!("{mean:.1}")]].concat()
    }
}

impl Statistics {
    /// Returns the statistics of a trace.
    pub fn of(trace: &Trace) -> Statistics {
        let objects = trace.objects as usize;
        let mut counts = vec![0u32; objects];
        let mut largest = vec![(0u32, 0u32, 0u32); objects];
        let mut operations: Vec<(Operation, u64)> = Vec::new();
        for request in &trace.requests {
            counts[request.object as usize] += 1;
            let (key, value, cost) = &mut largest[request.object as usize];
            *key = (*key).max(u32::from(request.key_bytes));
            *value = (*value).max(request.value_bytes);
            *cost = (*cost).max(request.cost_us);
            match operations.iter_mut().find(|(known, _)| *known == request.operation) {
                Some((_, count)) => *count += 1,
                None => operations.push((request.operation, 1)),
            }
        }
        operations.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        let requests = trace.requests.len() as u64;
        let share = |part: usize, of: u64| part as f64 / of.max(1) as f64;
        let once = counts.len() - counts.partition_point(|count| *count > 1);
        Statistics {
            name: trace.name.clone(),
            requests,
            objects: objects as u64,
            operations,
            seconds: trace.requests.last().map_or(0, |last| last.time_s),
            one_hit_share: share(once, objects as u64),
            compulsory_miss_ratio: share(objects, requests),
            requests_per_object: requests as f64 / objects.max(1) as f64,
            skew: skew(&counts),
            top: TOP_SHARES.map(|share| (share, top(&counts, share, requests))).to_vec(),
            footprint_bytes: largest.iter().map(|it| u64::from(it.0) + u64::from(it.1)).sum(),
            key_bytes: Percentiles::of(largest.iter().map(|it| it.0).collect()),
            value_bytes: Percentiles::of(largest.iter().map(|it| it.1).collect()),
            cost_us: Percentiles::of(largest.iter().map(|it| it.2).collect()),
        }
    }

    /// Formats them as two tables for the terminal.
    pub fn text(&self) -> String {
        let mut rows = vec![
            ("requests".to_owned(), self.requests.to_string()),
            ("objects".to_owned(), self.objects.to_string()),
        ];
        for (operation, count) in &self.operations {
            let name = format!("{operation:?}").to_lowercase();
            let share = *count as f64 / self.requests.max(1) as f64;
            rows.push((format!("share of {name}"), format!("{share:.4}")));
        }
        rows.push(("seconds".into(), self.seconds.to_string()));
        rows.push(("objects requested once, share".into(), format!("{:.4}", self.one_hit_share)));
        let compulsory = format!("{:.4}", self.compulsory_miss_ratio);
        rows.push(("compulsory miss ratio".into(), compulsory));
        let per_object = format!("{:.2}", self.requests_per_object);
        rows.push(("requests per object".into(), per_object));
        let skew = self.skew.map_or("-".into(), |skew| format!("{skew:.3}"));
        rows.push(("skew of the counts".into(), skew));
        for (objects, requests) in &self.top {
            let name = format!("requests to the top {} % of objects, share", objects * 100.0);
            rows.push((name, format!("{requests:.4}")));
        }
        rows.push(("keys and values, bytes".into(), self.footprint_bytes.to_string()));
        let rows = rows.into_iter().map(|(name, value)| vec![name, value]);
        let facts = report::table(&[&self.name, "value"], 1, rows);
        let header = ["of objects", "min", "p50", "p90", "p99", "max", "mean"];
        let sizes = [
            self.key_bytes.row("key bytes"),
            self.value_bytes.row("value bytes"),
            self.cost_us.row("cost, us"),
        ];
        format!("{facts}\n\n{}", report::table(&header, 1, sizes))
    }
}

/// Returns the share of the requests that goes to this share of the objects.
fn top(counts: &[u32], share: f64, requests: u64) -> f64 {
    let taken = (counts.len() as f64 * share).ceil() as usize;
    let sum: u64 = counts.iter().take(taken).map(|count| u64::from(*count)).sum();
    sum as f64 / requests.max(1) as f64
}

/// Returns the slope of the best-fitting line of counts over ranks, both as logarithms, with its
/// sign inverted. Ranks are taken at even distances of their logarithm, so that the many rare
/// objects do not outweigh the popular ones.
fn skew(counts: &[u32]) -> Option<f64> {
    let mut points = Vec::new();
    let mut rank = 1usize;
    while let Some(count) = counts.get(rank - 1).filter(|count| **count >= SKEW_COUNT_MIN) {
        points.push(((rank as f64).ln(), f64::from(*count).ln()));
        rank = (rank + 1).max((rank as f64 * SKEW_STEP) as usize);
    }
    if points.len() < SKEW_POINTS_MIN {
        return None;
    }
    let number = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / number;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / number;
    let spread: f64 = points.iter().map(|point| (point.0 - mean_x).powi(2)).sum();
    let common: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    Some(-common / spread)
}

#[cfg(test)]
mod tests {
    use super::{Percentiles, Statistics, skew};
    use crate::trace::Operation;
    use crate::trace::testing::example;

    #[test]
    fn a_small_trace_by_hand() {
        let found = Statistics::of(&example());
        assert_eq!((found.requests, found.objects, found.seconds), (6, 3, 9));
        assert_eq!(found.operations[0], (Operation::Get, 3));
        assert_eq!(found.operations.len(), 4);
        assert!((found.one_hit_share - 1.0 / 3.0).abs() < 1e-9);
        assert!((found.compulsory_miss_ratio - 0.5).abs() < 1e-9);
        assert!((found.requests_per_object - 2.0).abs() < 1e-9);
        assert_eq!(found.footprint_bytes, 20 + 21 + 22 + 100 + 101 + 102);
        assert_eq!((found.value_bytes.min, found.value_bytes.p50), (100, 101));
        assert_eq!(found.skew, None);
        assert!((found.top[3].1 - 0.5).abs() < 1e-9, "the first of three has three of six");
        let text = found.text();
        assert!(text.contains("| compulsory miss ratio"), "{text}");
    }

    #[test]
    fn percentiles_are_values_that_occur() {
        let found = Percentiles::of((1..=100).rev().collect());
        assert_eq!((found.min, found.p50, found.p90, found.p99, found.max), (1, 50, 90, 99, 100));
        assert!((found.mean - 50.5).abs() < 1e-9);
        assert_eq!(Percentiles::of(vec![]).max, 0);
    }

    #[test]
    fn the_skew_of_exact_power_laws_is_found() {
        for exponent in [0.6, 0.99, 1.3] {
            let count = |rank: u32| (1e6 * f64::from(rank).powf(-exponent)) as u32;
            let found = skew(&(1..10_000).map(count).collect::<Vec<_>>()).expect("many points");
            assert!((found - exponent).abs() < 0.01, "{found} for {exponent}");
        }
        assert!(skew(&[1000; 1000]).expect("many points").abs() < 1e-9);
    }
}
