//! Short ways to make the parts of a report, and the text of a figure.

use std::fmt;

use super::Spread;
use super::model::{Axis, Cell, Point, Section, Series, Table};

impl Cell {
    /// A word.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// A whole number.
    pub fn count(count: u64) -> Cell {
        Cell::Number { value: count as f64, digits: 0 }
    }

    /// A number with this many decimal places.
    pub fn number(value: f64, digits: usize) -> Cell {
        Cell::Number { value, digits }
    }

    /// A median with its range, with this many decimal places.
    pub fn spread(spread: Spread, digits: usize) -> Cell {
        Cell::Spread { spread, digits }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) => out.write_str(text),
            Cell::Number { value, digits } => write!(out, "{value:.digits$}"),
            Cell::Spread { spread, digits } => write!(out, "{spread:.digits$}"),
            Cell::Nothing => out.write_str("-"),
        }
    }
}

/// Returns a fact for each server: how it was started first, and its version. Ports, and in some
/// commands memory and threads, differ from start to start: one line for each server is enough.
pub fn servers<'s>(started: impl IntoIterator<Item = (&'s str, &'s str)>) -> Vec<(String, String)> {
    let mut known: Vec<(&str, &str)> = Vec::new();
    for (name, command_line) in started {
        if !known.iter().any(|(other, _)| *other == name) {
            known.push((name, command_line));
        }
    }
    known.into_iter().map(|(_, line)| ("server".to_owned(), line.to_owned())).collect()
}

impl Table {
    /// A table with these headings.
    pub fn new(name: &str, columns: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) -> Table {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Table { name: name.to_owned(), columns, rows: rows.into_iter().collect() }
    }
}

impl Series {
    /// Adds a point to the series of this name, which is the last if it is new.
    pub fn add(all: &mut Vec<Series>, name: &str, point: Point) {
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => all.push(Series { name: name.to_owned(), points: vec![point] }),
        }
    }
}

impl Axis {
    /// Equal steps for equal differences.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), logarithmic: false, categories: Vec::new() }
    }

    /// Equal steps for equal ratios.
    pub fn logarithmic(label: impl Into<String>) -> Axis {
        Axis { logarithmic: true, ..Axis::linear(label) }
    }

    /// A word for each group of bars.
    pub fn words(label: impl Into<String>, categories: Vec<String>) -> Axis {
        Axis { categories, ..Axis::linear(label) }
    }
}

impl Point {
    /// A value that was counted, or measured once.
    pub fn exact(x: f64, y: f64) -> Point {
        Point { x, y, range: None }
    }

    /// A value that was measured several times.
    pub fn spread(x: f64, spread: Spread) -> Point {
        Point { x, y: spread.median, range: Some((spread.min, spread.max)) }
    }
}

impl Section {
    /// A section for the files only.
    pub fn detail(title: impl Into<String>) -> Section {
        Section { is_detail: true, ..Section::new(title, Vec::<String>::new()) }
    }

    /// A section with a heading and a text; tables and plots are added.
    pub fn new<T: Into<String>>(
        title: impl Into<String>,
        text: impl IntoIterator<Item = T>,
    ) -> Section {
        Section {
            title: title.into(),
            text: text.into_iter().map(Into::into).collect(),
            tables: Vec::new(),
            plots: Vec::new(),
            is_detail: false,
        }
    }
}
