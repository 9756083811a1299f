//! The data of the charts: the last ten minutes by seconds, and the last day by minutes.
//!
//! Two rings of points. When sixty points have come to the first, their mean goes to the second;
//! the past is recorded whether or not the page is open. It takes 2040 points of 120 bytes.

use std::collections::VecDeque;

/// Points of the first ring, one a second.
pub const SECONDS_MAX: usize = 600;

/// Points of the second ring, one a minute.
pub const MINUTES_MAX: usize = 24 * 60;

/// Points of the first ring in one of the second.
pub const SECONDS_PER_MINUTE: usize = 60;

/// The names of a point's values, in their order: first rates of the second, then levels.
pub const POINT_NAMES: [&str; 28] = [
    "requests",
    "gets",
    "sets",
    "hits_hot",
    "hits_compressed",
    "hits_flash",
    "misses",
    "evicted",
    "expired",
    "bytes_in",
    "bytes_out",
    "flash_written_bytes",
    "flash_reads",
    "cost_saved_s",
    "cost_missed_s",
    "cpu_s",
    "memory_items",
    "memory_compressed",
    "memory_index",
    "memory_rest",
    "items_hot",
    "items_compressed",
    "items_flash",
    "compression_ratio",
    "flash_bytes",
    "connections",
    "get_p50_us",
    "get_p99_us",
];

/// One moment, or the mean of a minute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// When it ended, in Unix seconds.
    pub unix_s: u64,
    /// The values, as [`POINT_NAMES`] names them.
    pub values: [f32; POINT_NAMES.len()],
}

impl Point {
    /// The mean of consecutive points.
    fn mean(points: &[Self]) -> Self {
        let mut sums = [0.0_f64; POINT_NAMES.len()];
        for point in points {
            for (sum, value) in sums.iter_mut().zip(point.values) {
                *sum += f64::from(value);
            }
        }
        let unix_s = points.last().map_or(0, |point| point.unix_s);
        Self { unix_s, values: sums.map(|sum| (sum / points.len() as f64) as f32) }
    }
}

/// The two rings.
#[derive(Debug, Default)]
pub struct History {
    /// Points of the first ring, the newest last.
    pub seconds: VecDeque<Point>,
    /// Points of the second ring, the newest last.
    pub minutes: VecDeque<Point>,
    /// Points of the minute under way.
    open: Vec<Point>,
}

impl History {
    /// Adds the next second.
    pub fn add(&mut self, point: Point) {
        push(&mut self.seconds, point, SECONDS_MAX);
        self.open.push(point);
        if self.open.len() == SECONDS_PER_MINUTE {
            push(&mut self.minutes, Point::mean(&self.open), MINUTES_MAX);
            self.open.clear();
        }
    }
}

/// Appends a point to a ring of `length`.
fn push(ring: &mut VecDeque<Point>, point: Point, length: usize) {
    if ring.len() == length {
        ring.pop_front();
    }
    ring.push_back(point);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_bounded_and_minutes_are_means() {
        let mut history = History::default();
        let days = 2 * MINUTES_MAX * SECONDS_PER_MINUTE;
        for second in 0..days as u64 {
            let mut values = [0.0; POINT_NAMES.len()];
            values[0] = (second % 60) as f32;
            history.add(Point { unix_s: second, values });
        }
        assert_eq!((history.seconds.len(), history.minutes.len()), (SECONDS_MAX, MINUTES_MAX));
        let last = days as u64 - 1;
        assert_eq!(history.seconds.back().map(|point| point.unix_s), Some(last));
        assert_eq!(history.seconds[0].unix_s, last + 1 - SECONDS_MAX as u64);
        assert_eq!(history.minutes.back().map(|point| point.unix_s), Some(last));
        assert!(history.minutes.iter().all(|point| point.values[0] == 29.5));
        assert_eq!(history.open.len(), 0);
    }
}
