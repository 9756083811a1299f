//! One axis of a plot: the place of a value on it, and its labelled ticks.
//!
//! Plotters asks a [`Scale`] for both. A logarithmic axis has ticks at the powers of ten, or at 1,
//! 2 and 5 where there are few of them. A value of zero or less has no logarithm: it lies on the
//! axis's lower end, and the plot says so.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

use super::model::Axis;

/// The approximate number of ticks of an axis.
const TICKS: usize = 7;
/// When a linear axis begins at zero although no value lies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zero {
    /// Always: the drawing begins there, as bars do.
    Always,
    /// Unless the values differ by little, which would then be hard to see.
    UnlessNear,
    /// Never.
    Never,
}

/// The share of the largest value below which the values' difference counts as little.
const SHARE_NEAR: f64 = 0.2;
/// A logarithmic axis with fewer decades has ticks at 1, 2 and 5.
const DECADES_FEW: f64 = 2.5;

/// A scale that holds all values.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// The values that are labelled.
    pub ticks: Vec<f64>,
    /// Whether some value has no place on a logarithmic axis and lies on its lower end.
    pub is_clamped: bool,
    /// The ends: values, or logarithms of values.
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, pixels: (i32, i32)) -> i32 {
        let share = (self.place(*value) - self.low) / (self.high - self.low);
        pixels.0 + (share * f64::from(pixels.1 - pixels.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        match self.logarithmic {
            true => 10f64.powf(self.low)..10f64.powf(self.high),
            false => self.low..self.high,
        }
    }
}

impl Scale {
    /// A scale for `values`.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, zero: Zero) -> Scale {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        if !axis.categories.is_empty() {
            Scale::of_words(axis.categories.len())
        } else if axis.logarithmic {
            Scale::of_ratios(&values)
        } else {
            Scale::of_differences(&values, zero)
        }
    }

    /// Returns the place of a value, between `low` and `high`.
    fn place(&self, value: f64) -> f64 {
        match self.logarithmic {
            true if value > 0.0 => value.log10().max(self.low),
            true => self.low,
            false => value,
        }
    }

    /// Returns the value at the lower end.
    pub fn bottom(&self) -> f64 {
        self.range().start
    }

    /// Returns the label of a tick.
    pub fn label(&self, value: f64) -> String {
        let step = match self.ticks[..] {
            [first, second, ..] if !self.logarithmic => second - first,
            _ => value,
        };
        short(value, step)
    }

    fn of_words(count: usize) -> Scale {
        Scale {
            low: -0.5,
            high: count as f64 - 0.5,
            ticks: (0..count).map(|place| place as f64).collect(),
            is_clamped: false,
            logarithmic: false,
        }
    }

    fn of_ratios(values: &[f64]) -> Scale {
        let positive = || values.iter().copied().filter(|value| *value > 0.0);
        let min = positive().fold(f64::INFINITY, f64::min);
        let max = positive().fold(0.0, f64::max);
        let (min, max) = if min > max { (1.0, 10.0) } else { (min, max) };
        let is_clamped = values.iter().any(|value| *value <= 0.0);
        let few = max.log10() - min.log10() < DECADES_FEW;
        // A tiny margin, so that a power of ten is its own bound.
        let (first, last) =
            ((min.log10() + 1e-9).floor() as i32, (max.log10() - 1e-9).ceil() as i32);
        let factors: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let marks = (first..=last.max(first + 1)).flat_map(|decade| {
            factors.iter().map(move |factor| f64::from(decade) + factor.log10())
        });
        let marks: Vec<f64> = marks.collect();
        let below = marks.iter().rposition(|mark| *mark <= min.log10() + 1e-9).unwrap_or(0);
        let above = marks.iter().position(|mark| *mark >= max.log10() - 1e-9);
        let above = above.unwrap_or(marks.len() - 1).max(below + 1).min(marks.len() - 1);
        // Room under the smallest value for those that have no logarithm.
        let low = marks[below] - if is_clamped { 0.3 * (marks[above] - marks[below]) } else { 0.0 };
        let every = (above - below).div_ceil(2 * TICKS).max(1);
        Scale {
            low,
            high: marks[above],
            ticks: marks[below..=above]
                .iter()
                .step_by(every)
                .map(|mark| 10f64.powf(*mark))
                .collect(),
            is_clamped,
            logarithmic: true,
        }
    }

    fn of_differences(values: &[f64], zero: Zero) -> Scale {
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (mut min, mut max) = if min > max { (0.0, 1.0) } else { (min, max) };
        let is_near = min <= 0.0 || max - min <= SHARE_NEAR * max;
        if zero == Zero::Always || (zero == Zero::UnlessNear && !is_near) {
            (min, max) = (min.min(0.0), max.max(0.0));
        }
        if min == max {
            let room = if min == 0.0 { 1.0 } else { min.abs() / 10.0 };
            (min, max) = (min - room, max + room);
        }
        let ticks = RangedCoordf64::from(min..max).key_points(TICKS);
        let step = match ticks[..] {
            [first, second, ..] => second - first,
            _ => max - min,
        };
        let (first, last) = ((min / step + 1e-9).floor(), (max / step - 1e-9).ceil());
        let ticks = (0..=(last - first) as usize).map(|tick| (first + tick as f64) * step);
        Scale {
            low: first * step,
            high: last * step,
            ticks: ticks.collect(),
            is_clamped: false,
            logarithmic: false,
        }
    }
}

/// Formats a number in few characters, exact to a fraction of `step`.
fn short(value: f64, step: f64) -> String {
    let (unit, name) = match value.abs() {
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let fraction = (step.abs() / unit).log10();
    let digits =
        if fraction.is_finite() { (-(fraction + 1e-9).floor()).clamp(0.0, 9.0) } else { 0.0 };
    let text = format!("{:.*}", digits as usize, value / unit);
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{}{name}", if text == "-0" { "0" } else { text })
}

#[cfg(test)]
mod tests {
    use super::{Scale, Zero, short};
    use crate::report::model::Axis;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks.iter().map(|tick| scale.label(*tick)).collect()
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(2_500_000.0, 500_000.0), "2.5M");
        assert_eq!(short(20_000.0, 20_000.0), "20k");
        assert_eq!(short(0.1 + 0.2, 0.1), "0.3");
        assert_eq!(short(100.0, 20.0), "100");
        assert_eq!(short(0.0, 0.0), "0");
    }

    #[test]
    fn a_linear_axis_begins_at_zero_unless_the_values_are_near() {
        let far = Scale::new(&Axis::linear(""), [2.0, 9.0].into_iter(), Zero::UnlessNear);
        assert_eq!((far.low, far.high), (0.0, 10.0));
        let near = Scale::new(&Axis::linear(""), [94.0, 99.5].into_iter(), Zero::UnlessNear);
        assert!(near.low > 90.0 && near.high >= 99.5, "{near:?}");
        let bars = Scale::new(&Axis::linear(""), [94.0, 99.5].into_iter(), Zero::Always);
        assert_eq!(bars.low, 0.0);
        let never = Scale::new(&Axis::linear(""), [1.0, 4.0].into_iter(), Zero::Never);
        assert_eq!((never.low, never.high), (1.0, 4.0));
    }

    #[test]
    fn a_logarithmic_axis_puts_zero_at_its_end() {
        let axis = Axis::logarithmic("");
        let scale = Scale::new(&axis, [0.0, 1.0, 1e6].into_iter(), Zero::UnlessNear);
        assert!(scale.is_clamped);
        assert_eq!(scale.place(0.0), scale.low);
        assert!(scale.low < scale.place(1.0));
        assert_eq!(labels(&scale), ["1", "10", "100", "1000", "10k", "100k", "1M"]);
        let few = Scale::new(&axis, [3.0, 40.0].into_iter(), Zero::UnlessNear);
        assert!(!few.is_clamped);
        assert_eq!(labels(&few), ["2", "5", "10", "20", "50"]);
    }

    #[test]
    fn nothing_equal_values_and_what_is_no_number_have_a_scale() {
        for values in [vec![], vec![0.0], vec![5.0, 5.0], vec![f64::NAN, f64::INFINITY]] {
            for axis in [Axis::linear(""), Axis::logarithmic("")] {
                let scale = Scale::new(&axis, values.iter().copied(), Zero::UnlessNear);
                assert!(scale.low < scale.high && scale.ticks.len() > 1, "{values:?} {scale:?}");
            }
        }
    }
}
