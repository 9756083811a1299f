//! Who did what with which costs, and the tables that say so.

use crate::paper::table;
use crate::report::model::{Axis, Cell, Plot, Point, Series, Table};

use super::runs::Counts;

/// How long a hit takes where latency is modelled: a tenth of a millisecond, as over a network.
pub const HIT_US: f64 = 100.0;
/// What a unit of the configurations' costs is taken for there: a millisecond, so that values are
/// made in 10 to 450, as by queries of a database. The configurations have no unit.
pub const UNIT_US: f64 = 1000.0;
/// The tail.
pub const TAIL: f64 = 0.99;

/// One contender's runs.
pub struct Column {
    /// What it is called.
    pub name: String,
    /// The column whose figures its own are compared with.
    pub reference: usize,
    /// One for each row.
    pub runs: Vec<Counts>,
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
    /// A contender's and its reference's run.
    fn pair(&self, column: usize, row: usize) -> (&Counts, &Counts) {
        let reference = &self.columns[self.columns[column].reference];
        (&self.columns[column].runs[row], &reference.runs[row])
    }

    /// The contender of this name.
    pub fn column(&self, name: &str) -> usize {
        let found = self.columns.iter().position(|column| column.name == name);
        found.expect("the experiment has this contender")
    }

    /// Cost saved, in percent.
    pub fn saved(&self, column: usize, row: usize) -> f64 {
        let (own, reference) = self.pair(column, row);
        own.saved_percent(reference)
    }

    /// Percent of all reads that hit and do not with the reference.
    pub fn points(&self, column: usize, row: usize) -> f64 {
        let (own, reference) = self.pair(column, row);
        own.hits_percent() - reference.hits_percent()
    }

    /// The tail's latency saved, in percent, where a unit of cost takes so long.
    pub fn tail(&self, column: usize, row: usize, unit_us: f64) -> f64 {
        let (own, reference) = self.pair(column, row);
        let latency = |counts: &Counts| counts.latency_us(TAIL, HIT_US, unit_us);
        100.0 - 100.0 * latency(own) / latency(reference)
    }

    /// A figure of one contender in all rows that count.
    pub fn all(&self, column: usize, figure: impl Fn(&Matrix, usize, usize) -> f64) -> Vec<f64> {
        let rows = (0..self.rows.len()).filter(|row| Some(*row) != self.left_out);
        rows.map(|row| figure(self, column, row)).collect()
    }

    /// A table of a figure: configurations down, contenders across, then the average and the
    /// highest.
    pub fn table(&self, name: &str, figure: impl Fn(&Matrix, usize, usize) -> f64) -> Table {
        let names = self.columns.iter().map(|column| column.name.as_str());
        let columns: Vec<&str> = std::iter::once("costs").chain(names).collect();
        let cell = |value| Cell::number(value, 2);
        let row = |(row, name): (usize, &String)| {
            let cells = (0..self.columns.len()).map(|column| cell(figure(self, column, row)));
            std::iter::once(Cell::text(name.clone())).chain(cells).collect()
        };
        let mut rows: Vec<Vec<Cell>> = self.rows.iter().enumerate().map(row).collect();
        let mut summary = |name: &str, fold: fn(&[f64]) -> f64| {
            let cells =
                (0..self.columns.len()).map(|column| cell(fold(&self.all(column, &figure))));
            rows.push(std::iter::once(Cell::text(name)).chain(cells).collect());
        };
        summary("average", mean);
        summary("highest", highest);
        table(name, &columns, rows)
    }

    /// The same figure as bars.
    pub fn plot(
        &self,
        name: &str,
        title: &str,
        label: &str,
        figure: impl Fn(&Matrix, usize, usize) -> f64,
    ) -> Plot {
        let series = |(column, one): (usize, &Column)| Series {
            name: one.name.clone(),
            points: (0..self.rows.len())
                .map(|row| Point::exact(row as f64, figure(self, column, row)))
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

    /// Contenders down, and of some row: hits, items, and how long reads take.
    pub fn latencies(&self, name: &str, rows: &[usize]) -> Table {
        let columns = [
            "costs",
            "cache",
            "items",
            "hits, %",
            "mean, ms",
            "p99, ms",
            "p99.9, ms",
            "dearest miss, ms",
        ];
        let each = rows.iter().flat_map(|row| self.columns.iter().map(move |one| (*row, one)));
        let cells = each.map(|(row, column)| {
            let run = &column.runs[row];
            let latency = |share| Cell::number(run.latency_us(share, HIT_US, UNIT_US) / 1e3, 1);
            vec![
                Cell::text(self.rows[row].clone()),
                Cell::text(column.name.clone()),
                Cell::count(run.items),
                Cell::number(run.hits_percent(), 2),
                Cell::number(run.latency_mean_us(HIT_US, UNIT_US) / 1e3, 2),
                latency(TAIL),
                latency(0.999),
                latency(1.0),
            ]
        });
        table(name, &columns, cells.collect())
    }
}

/// The mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The highest.
pub fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::{Column, Matrix, highest, mean};
    use crate::paper::gd_wheel::runs::Counts;
    use crate::policies::simulate::Tally;
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
            runs: runs.iter().map(|run| self::run(run)).collect(),
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
        assert_eq!(matrix.all(1, Matrix::saved), [50.0, 75.0]);
        assert_eq!(matrix.all(1, Matrix::points), [0.0, 1.0]);
        assert_eq!(matrix.all(0, Matrix::saved), [0.0, 0.0]);
        let table = matrix.table("t", Matrix::saved);
        assert_eq!(table.columns, ["costs", "lru", "own"]);
        assert_eq!(table.rows[3][2], Cell::number(62.5, 2));
        assert_eq!(table.rows[4][2], Cell::number(75.0, 2));
    }

    #[test]
    fn the_tail_is_of_hits_and_misses() {
        let matrix = matrix();
        // The 99th of a hundred reads: 10.1 and 5.1 ms, and 20.1 beside a hit of 0.1.
        assert!((matrix.tail(1, 0, 1000.0) - 49.5).abs() < 0.01);
        assert!((matrix.tail(1, 1, 1000.0) - 99.5).abs() < 0.01);
        assert_eq!((mean(&[1.0, 3.0]), highest(&[1.0, 3.0])), (2.0, 3.0));
    }
}
