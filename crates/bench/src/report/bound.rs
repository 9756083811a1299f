//! A bound for a figure, and the one rule by which a figure of several rounds meets it: every round
//! does. The median of rounds on both sides would be "yes" or "no" by chance.

use super::Spread;

/// Where a figure should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
    /// More than this.
    Above(f64),
    /// Less than this.
    Below(f64),
    /// At least the first and at most the second.
    Within(f64, f64),
}

/// Whether a figure is where it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// In every round.
    Met,
    /// In no round.
    NotMet,
    /// The rounds lie on both sides.
    NotToldApart,
}

impl Bound {
    /// Judges a figure. What is no number, or infinite, meets nothing.
    pub fn verdict(self, figure: Spread) -> Verdict {
        let Spread { min, max, .. } = figure;
        if !(min.is_finite() && max.is_finite()) {
            return Verdict::NotMet;
        }
        let (all, none) = match self {
            Bound::AtLeast(least) => (min >= least, max < least),
            Bound::AtMost(most) => (max <= most, min > most),
            Bound::Above(least) => (min > least, max <= least),
            Bound::Below(most) => (max < most, min >= most),
            Bound::Within(least, most) => (min >= least && max <= most, max < least || min > most),
        };
        match (all, none) {
            (true, _) => Verdict::Met,
            (_, true) => Verdict::NotMet,
            _ => Verdict::NotToldApart,
        }
    }

    /// The bound in the words of a report.
    pub fn in_words(self) -> String {
        match self {
            Bound::AtLeast(least) => format!("at least {least}"),
            Bound::AtMost(most) => format!("at most {most}"),
            Bound::Above(least) => format!("above {least}"),
            Bound::Below(most) => format!("below {most}"),
            Bound::Within(least, most) => format!("{least} to {most}"),
        }
    }
}

impl Verdict {
    /// The verdict in the words of a report.
    pub fn in_words(self) -> &'static str {
        match self {
            Verdict::Met => "yes",
            Verdict::NotMet => "no",
            Verdict::NotToldApart => "not told apart",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bound::{Above, AtLeast, AtMost, Below, Within};
    use super::Verdict::{Met, NotMet, NotToldApart};
    use super::{Bound, Spread};

    fn one(figure: f64) -> Spread {
        Spread { median: figure, min: figure, max: figure }
    }

    /// Regression: the median of rounds that differed by a third was "yes" or "no" by chance.
    #[test]
    fn a_bound_between_the_rounds_is_undecided_whatever_the_median() {
        let spread = |min, max| Spread { median: 4.5, min, max };
        for (bound, figure, verdict) in [
            (AtLeast(4.0), spread(4.0, 6.0), Met),
            (AtLeast(4.0), spread(3.9, 6.0), NotToldApart),
            (AtLeast(4.0), spread(2.0, 3.9), NotMet),
            (AtMost(4.0), spread(3.0, 4.0), Met),
            (AtMost(4.0), spread(3.0, 5.0), NotToldApart),
            (AtMost(4.0), spread(4.1, 5.0), NotMet),
            (Within(4.0, 5.0), spread(4.0, 5.0), Met),
            (Within(4.0, 5.0), spread(4.5, 5.5), NotToldApart),
            (Within(4.0, 5.0), spread(3.0, 6.0), NotToldApart),
            (Within(4.0, 5.0), spread(5.1, 6.0), NotMet),
            (Within(4.0, 5.0), spread(1.0, 3.0), NotMet),
        ] {
            assert_eq!(bound.verdict(figure), verdict, "{bound:?} {figure:?}");
        }
    }

    #[test]
    fn a_tie_is_no_better_and_no_worse() {
        let met = |bound: Bound, figure| bound.verdict(one(figure)) == Met;
        assert!(met(AtLeast(1.0), 1.0) && met(AtMost(1.0), 1.0));
        assert!(!met(Above(1.0), 1.0) && !met(Below(1.0), 1.0));
        assert!(met(Above(1.0), 1.01) && met(Below(1.0), 0.99));
        assert!(!met(AtLeast(1.0), 0.99) && !met(AtMost(1.0), 1.01));
    }

    #[test]
    fn what_is_no_number_meets_nothing() {
        for bound in [AtLeast(1.0), AtMost(1.0), Above(1.0), Below(1.0), Within(0.0, 1.0)] {
            assert_eq!(bound.verdict(one(f64::NAN)), NotMet);
            assert_eq!(bound.verdict(one(f64::INFINITY)), NotMet);
        }
    }
}
