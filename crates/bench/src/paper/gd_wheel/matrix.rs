//! The runs of contenders with configurations of costs, and the tables of them.

use crate::paper::table;
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Plot, Point, Series, Table};

use super::runs::Counts;

/// The latency of a hit in the model: a tenth of a millisecond, as over a network.
pub const HIT_US: f64 = 100.0;
/// The length of a unit of the configurations' costs in the model: a millisecond, so that values
/// take 10 to 450 ms, as from queries of a database. The configurations have no unit.
pub const UNIT_US: f64 = 1000.0;
/// The quantile of the tail.
pub const TAIL: f64 = 0.99;

/// A figure of each run.
pub type Figures = Vec<f64>;

/// One contender's runs.
pub struct Column {
    /// Its name.
    pub name: String,
    /// The column that its figures are compared with.
    pub reference: usize,
    /// For each row one run of a model, and as many of the engine as there are rounds.
    pub runs: Vec<Vec<Counts>>,
}

/// Runs of several contenders with several configurations.
pub struct Matrix {
    /// The configurations.
    pub rows: Vec<String>,
    /// The contenders.
    pub columns: Vec<Column>,
    /// A row that averages leave out.
    pub left_out: Option<usize>,
}

impl Matrix {
    /// Returns a figure of each of a contender's runs, and that of its reference, the median of all
    /// its runs: a run is not compared with another one's chance.
    fn pairs(&self, column: usize, row: usize, figure: impl Fn(&Counts) -> f64) -> (Figures, f64) {
        let of = |column: &Column| column.runs[row].iter().map(&figure).collect::<Figures>();
        let own = &self.columns[column];
        (of(own), Spread::of(of(&self.columns[own.reference])).median)
    }

    /// Returns the contender of this name.
    pub fn column(&self, name: &str) -> usize {
        let found = self.columns.iter().position(|column| column.name == name);
        found.expect("the experiment has this contender")
    }

    /// Returns the columns of these names alone, all compared with the first of them.
    pub fn among(mut self, names: &[&str]) -> Matrix {
        self.columns.retain(|column| names.contains(&column.name.as_str()));
        let reference = self.column(names[0]);
        self.columns.iter_mut().for_each(|column| column.reference = reference);
        self
    }

    /// Returns the cost saved, in percent.
    pub fn saved(&self, column: usize, row: usize) -> Figures {
        let paid_us = |counts: &Counts| counts.tally.missed_cost_us as f64;
        let (own, reference) = self.pairs(column, row, paid_us);
        own.iter().map(|paid_us| 100.0 - 100.0 * paid_us / reference.max(1.0)).collect()
    }

    /// Returns the reads that hit and do not with the reference, in percent of all reads.
    pub fn points(&self, column: usize, row: usize) -> Figures {
        let (own, reference) = self.pairs(column, row, Counts::hits_percent);
        own.iter().map(|hits| hits - reference).collect()
    }

    /// Returns the tail's latency saved, in percent, for a unit of cost of this length.
    pub fn tail(&self, column: usize, row: usize, unit_us: f64) -> Figures {
        let latency = |counts: &Counts| counts.latency_us(TAIL, HIT_US, unit_us);
        let (own, reference) = self.pairs(column, row, latency);
        own.iter().map(|own| 100.0 - 100.0 * own / reference).collect()
    }

    /// Returns a figure of one contender in all rows that count.
    pub fn all(
        &self,
        column: usize,
        figure: impl Fn(&Matrix, usize, usize) -> Figures,
    ) -> Vec<Figures> {
        let rows = (0..self.rows.len()).filter(|row| Some(*row) != self.left_out);
        rows.map(|row| figure(self, column, row)).collect()
    }

    /// Returns a table of a figure: configurations down, contenders across, then the average and
    /// the highest.
    pub fn table(&self, name: &str, figure: impl Fn(&Matrix, usize, usize) -> Figures) -> Table {
        let names = self.columns.iter().map(|column| column.name.as_str());
        let columns: Vec<&str> = std::iter::once("costs").chain(names).collect();
        let row = |(row, name): (usize, &String)| {
            let cells = (0..self.columns.len()).map(|column| cell(&figure(self, column, row), 2));
            std::iter::once(Cell::text(name.clone())).chain(cells).collect()
        };
        let mut rows: Vec<Vec<Cell>> = self.rows.iter().enumerate().map(row).collect();
        let mut summary = |name: &str, fold: fn(&[Figures]) -> Figures| {
            let cells =
                (0..self.columns.len()).map(|column| cell(&fold(&self.all(column, &figure)), 2));
            rows.push(std::iter::once(Cell::text(name)).chain(cells).collect());
        };
        summary("average", mean);
        summary("highest", highest);
        table(name, &columns, rows)
    }

    /// Plots the same figure as bars.
    pub fn plot(
        &self,
        name: &str,
        title: &str,
        label: &str,
        figure: impl Fn(&Matrix, usize, usize) -> Figures,
    ) -> Plot {
        let series = |(column, one): (usize, &Column)| Series {
            name: one.name.clone(),
            points: (0..self.rows.len())
                .map(|row| point(row, &figure(self, column, row)))
                .collect(),
        };
        Plot {
            name: name.into(),
            title: title.into(),
            x: Axis::words("costs", self.rows.clone()),
            y: Axis::linear(label),
            series: self.columns.iter().enumerate().map(series).collect(),
        }
    }

    /// Returns a table with contenders down, and for these rows: hits, items, and latencies of
    /// reads.
    pub fn latencies(&self, name: &str, rows: &[usize]) -> Table {
        let columns = [
            "costs",
            "cache",
            "items",
            "hits, %",
            "mean, ms",
            "p99, ms",
            "p99.9, ms",
            "costliest miss, ms",
        ];
        let each = rows.iter().flat_map(|row| self.columns.iter().map(move |one| (*row, one)));
        let cells = each.map(|(row, column)| {
            let each = |digits: usize, figure: &dyn Fn(&Counts) -> f64| {
                cell(&column.runs[row].iter().map(figure).collect::<Figures>(), digits)
            };
            let latency = |share| each(1, &|run| run.latency_us(share, HIT_US, UNIT_US) / 1e3);
            vec![
                Cell::text(self.rows[row].clone()),
                Cell::text(column.name.clone()),
                each(0, &|run| run.items as f64),
                each(2, &Counts::hits_percent),
                each(2, &|run| run.latency_mean_us(HIT_US, UNIT_US) / 1e3),
                latency(TAIL),
                latency(0.999),
                latency(1.0),
            ]
        });
        table(name, &columns, cells.collect())
    }
}

/// Formats a figure; of several runs the median with its range.
pub fn cell(runs: &[f64], digits: usize) -> Cell {
    match runs {
        [only] => Cell::number(*only, digits),
        _ => Cell::spread(Spread::of(runs.iter().copied()), digits),
    }
}

fn point(row: usize, runs: &[f64]) -> Point {
    match runs {
        [only] => Point::exact(row as f64, *only),
        _ => Point::spread(row as f64, Spread::of(runs.iter().copied())),
    }
}

/// Returns the mean of several rows, for each run separately.
pub fn mean(rows: &[Figures]) -> Figures {
    let runs = rows.first().map_or(0, Vec::len);
    let sum = |run: usize| rows.iter().map(|row| row[run]).sum::<f64>();
    (0..runs).map(|run| sum(run) / rows.len() as f64).collect()
}

/// Returns the row with the highest median: the highest of all runs would be the luckiest.
pub fn highest(rows: &[Figures]) -> Figures {
    let median = |row: &Figures| Spread::of(row.iter().copied()).median;
    let highest = rows.iter().max_by(|one, other| median(one).total_cmp(&median(other)));
    highest.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Column, Matrix, cell, highest, mean};
    use crate::paper::gd_wheel::runs::Counts;
    use crate::policies::simulate::Tally;
    use crate::report::Spread;
    use crate::report::model::Cell;

    /// A run of a hundred reads with these misses.
    fn run(missed_us: &[u32]) -> Counts {
        let missed_cost_us = missed_us.iter().map(|cost| u64::from(*cost)).sum();
        let tally = Tally { gets: 100, misses: missed_us.len() as u64, cost_us: 0, missed_cost_us };
        Counts { tally, missed_us: missed_us.to_vec(), items: 0 }
    }

    fn matrix() -> Matrix {
        let column = |name: &str, runs: [&[u32]; 3]| Column {
            name: name.into(),
            reference: 0,
            runs: runs.iter().map(|run| vec![self::run(run)]).collect(),
        };
        Matrix {
            rows: ["a", "b", "same"].map(String::from).to_vec(),
            columns: vec![
                column("lru", [&[10, 10], &[20, 20], &[5]]),
                column("own", [&[5, 5], &[10], &[6]]),
            ],
            left_out: Some(2),
        }
    }

    #[test]
    fn figures_are_beside_the_reference_and_averages_leave_a_row_out() {
        let matrix = matrix();
        assert_eq!(matrix.column("own"), 1);
        assert_eq!(matrix.all(1, Matrix::saved), [[50.0], [75.0]]);
        assert_eq!(matrix.all(1, Matrix::points), [[0.0], [1.0]]);
        assert_eq!(matrix.all(0, Matrix::saved), [[0.0], [0.0]]);
        let table = matrix.table("t", Matrix::saved);
        assert_eq!(table.columns, ["costs", "lru", "own"]);
        assert_eq!(table.rows[3][2], Cell::number(62.5, 2));
        assert_eq!(table.rows[4][2], Cell::number(75.0, 2));
    }

    #[test]
    fn the_tail_is_of_hits_and_misses() {
        let matrix = matrix();
        // The 99th of a hundred reads: 10.1 and 5.1 ms, and 20.1 beside a hit of 0.1.
        assert!((matrix.tail(1, 0, 1000.0)[0] - 49.5).abs() < 0.01);
        assert!((matrix.tail(1, 1, 1000.0)[0] - 99.5).abs() < 0.01);
    }

    /// Regression: one run of each was compared, and a policy without costs saved up to 24 % of
    /// another run's cost.
    #[test]
    fn several_runs_have_a_range_beside_the_median_of_the_reference() {
        let mut matrix = matrix();
        let rows = matrix.columns.iter_mut().flat_map(|column| &mut column.runs);
        rows.for_each(|runs| *runs = vec![runs[0].clone(); 3]);
        matrix.columns[0].runs[0] = [&[10][..], &[20], &[90]].map(run).to_vec();
        matrix.columns[1].runs[0] = [&[10][..], &[30], &[20]].map(run).to_vec();
        assert_eq!(matrix.saved(1, 0), [50.0, -50.0, 0.0]);
        let found = matrix.table("t", Matrix::saved).rows[0][2].clone();
        let spread = Spread { median: 0.0, min: -50.0, max: 50.0 };
        assert_eq!(found, Cell::spread(spread, 2));
        assert_eq!(cell(&[1.0], 1), Cell::number(1.0, 1));
        let rows = [vec![9.0, 1.0, 1.0], vec![2.0, 3.0, 4.0]];
        assert_eq!(mean(&rows), [5.5, 2.0, 2.5]);
        assert_eq!(highest(&rows), rows[1], "the highest run of all was lucky");
    }

    #[test]
    fn columns_alone_are_compared_with_the_first() {
        let matrix = matrix().among(&["own"]);
        assert_eq!((matrix.columns.len(), matrix.columns[0].reference), (1, 0));
        assert_eq!(matrix.saved(0, 1), [0.0]);
    }
}
