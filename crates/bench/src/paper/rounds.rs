//! Several subjects under several conditions, measured in turn: the table and the plot of
//! operations a second that experiments with threads share.

use crate::paper::measure::{Together, ratio};
use crate::paper::table;
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Plot, Point, Series, Table};

/// The results of the rounds.
pub struct Rounds<'a> {
    /// The name of the table and the plot.
    pub name: &'a str,
    /// The subjects.
    pub subjects: &'a [&'a str],
    /// The measured pairs of a subject and its condition, a number.
    pub kinds: &'a [(usize, usize)],
    /// The rounds of each kind.
    pub found: &'a [Vec<Together>],
}

/// Returns the rate by the wall.
pub fn wall(together: &Together) -> f64 {
    together.millions_per_second
}

/// Returns the rate by the CPU time of all threads.
pub fn cpu(together: &Together) -> f64 {
    together.millions_per_cpu_second
}

impl Rounds<'_> {
    /// Returns a row for each kind: subject, condition, and both rates.
    pub fn table(&self, columns: &[&str; 4]) -> Table {
        let rows = self.kinds.iter().enumerate().map(|(which, (subject, condition))| {
            vec![
                Cell::text(self.subjects[*subject]),
                Cell::count(*condition as u64),
                Cell::spread(self.spread(which, wall), 2),
                Cell::spread(self.spread(which, cpu), 2),
            ]
        });
        table(self.name, columns, rows.collect())
    }

    /// Returns a curve for each subject; `place` returns the place of a condition on the axis.
    pub fn plot(
        &self,
        title: &str,
        (x, y): (Axis, Axis),
        rate: fn(&Together) -> f64,
        place: impl Fn(usize) -> f64,
    ) -> Plot {
        let series = self.subjects.iter().enumerate().map(|(subject, name)| {
            let mine = self.kinds.iter().enumerate().filter(|(_, kind)| kind.0 == subject);
            let points =
                mine.map(|(which, kind)| Point::spread(place(kind.1), self.spread(which, rate)));
            Series { name: (*name).to_owned(), points: points.collect() }
        });
        let (name, title, series) = (self.name.into(), title.into(), series.collect());
        Plot { name, title, x, y, series }
    }

    /// Returns the ratio of two kinds' rates, within the rounds.
    pub fn over(&self, which: usize, other: usize, rate: fn(&Together) -> f64) -> Spread {
        ratio(&self.rates(which, rate), &self.rates(other, rate))
    }

    fn rates(&self, which: usize, rate: fn(&Together) -> f64) -> Vec<f64> {
        self.found[which].iter().map(rate).collect()
    }

    fn spread(&self, which: usize, rate: fn(&Together) -> f64) -> Spread {
        Spread::of(self.rates(which, rate))
    }
}

#[cfg(test)]
mod tests {
    use super::{Rounds, wall};
    use crate::paper::measure::Together;
    use crate::report::model::{Axis, Cell};

    #[test]
    fn subjects_become_curves_and_kinds_rows() {
        let rate = |millions| Together {
            millions_per_second: millions,
            millions_per_cpu_second: 2.0 * millions,
        };
        let found = [vec![rate(1.0), rate(2.0)], vec![rate(3.0), rate(6.0)], vec![rate(4.0); 2]];
        let rounds = Rounds {
            name: "n",
            subjects: &["a", "b"],
            kinds: &[(0, 1), (1, 1), (0, 2)],
            found: &found,
        };
        let table = rounds.table(&["s", "c", "wall", "cpu"]);
        assert_eq!(table.rows[2][..2], [Cell::text("a"), Cell::count(2)]);
        let axes = (Axis::linear("x"), Axis::linear("y"));
        let plot = rounds.plot("t", axes, wall, |condition| condition as f64 * 10.0);
        assert_eq!((plot.series[0].points.len(), plot.series[1].points.len()), (2, 1));
        assert_eq!((plot.series[0].points[1].x, plot.series[0].points[1].y), (20.0, 4.0));
        assert_eq!(rounds.over(1, 0, wall).median, 3.0);
    }
}
