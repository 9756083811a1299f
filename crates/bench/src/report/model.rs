//! The content of a report, apart from its presentation: sections of text, tables and plots. A
//! command fills this in once; the terminal, JSON, CSV and the HTML page are made from it.

use serde::Serialize;

use super::Spread;
use crate::machine::Machine;

/// All results of one command.
#[derive(Debug, Clone, Serialize)]
pub struct Document {
    /// The headline.
    pub title: String,
    /// Where and how it was measured.
    pub machine: Machine,
    /// Seeds, rounds, scale and whatever else is needed to reproduce the figures.
    pub facts: Vec<(String, String)>,
    /// In reading order.
    pub sections: Vec<Section>,
}

/// A part of a report under a heading of its own.
#[derive(Debug, Clone, Serialize)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What to look at, what is left out, and the paper's figure or the promise.
    pub text: Vec<String>,
    /// Figures in rows.
    pub tables: Vec<Table>,
    /// Figures as curves.
    pub plots: Vec<Plot>,
    /// Single measurements, for recalculation: in the files, not on the terminal.
    pub is_detail: bool,
}

/// Rows of figures.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// The table's name; also the name of its CSV file, so short and without spaces.
    pub name: String,
    /// One heading for each column, with the unit.
    pub columns: Vec<String>,
    /// Each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// One figure, or a word.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A number, shown with this many decimal places.
    Number {
        /// The number.
        value: f64,
        /// Decimal places.
        digits: usize,
    },
    /// A median with its range, shown with this many decimal places.
    Spread {
        /// The median, the lowest and the highest.
        spread: Spread,
        /// Decimal places.
        digits: usize,
    },
    /// Not measured.
    Nothing,
}

/// Curves over a common axis.
#[derive(Debug, Clone, Serialize)]
pub struct Plot {
    /// The plot's name; short and without spaces.
    pub name: String,
    /// Its caption.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, or the groups of bars.
    pub series: Vec<Series>,
}

/// An axis of a plot.
#[derive(Debug, Clone, Serialize)]
pub struct Axis {
    /// Its quantity, with the unit.
    pub label: String,
    /// Whether its scale is logarithmic.
    pub logarithmic: bool,
    /// Words instead of numbers: value `i` stands for word `i`, and the series are bars.
    pub categories: Vec<String>,
}

/// A curve.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// In order of `x`.
    pub points: Vec<Point>,
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Its place on the horizontal axis.
    pub x: f64,
    /// Its value: the median if it was measured several times.
    pub y: f64,
    /// The lowest and the highest, if it was measured several times.
    pub range: Option<(f64, f64)>,
}
