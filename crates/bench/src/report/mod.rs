//! From rounds to reports: medians with their spread, in four forms.
//!
//! ```text
//!                            text    the terminal, Markdown
//!   command -> Document ->   serde   JSON, for programs
//!              (model)       csv     a file for each table and plot
//!                            html    one page: text, tables and the plots that `plot` draws
//! ```

mod axis;
pub mod bound;
mod build;
mod csv;
mod html;
pub mod misses;
pub mod model;
mod options;
mod plot;
#[cfg(test)]
mod samples;
mod text;

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::Outcome;
use crate::server::recipe::Recipe;

pub use build::servers;
pub use options::ReportOptions;
pub use text::render as text;

/// Redrawn between measurements only: a ticking thread would take time from the client.
const PROGRESS: &str = "{spinner} [{elapsed}] {bar:30} {pos}/{len} {msg}";

/// The median of several rounds, and the lowest and highest of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`, of which there must be at least one.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
            panic!("a spread needs at least one value");
        };
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Spread { median, min: *min, max: *max }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { median, min, max } = self;
        let digits = out.precision().unwrap_or(2);
        write!(out, "{median:.digits$} ({min:.digits$}..{max:.digits$})")
    }
}

/// Returns `part / whole`, where `whole` may be 0.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Formats a table that reads as plain text and as Markdown; all columns but the first `left` hold
/// numbers.
pub fn table(header: &[&str], left: usize, rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header.iter().copied());
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Returns a progress line on standard error.
pub fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(PROGRESS).expect("the template is valid");
    ProgressBar::new(steps).with_style(style)
}

/// Measures each recipe, one after the other, with a progress line.
pub fn measured<T>(
    recipes: &[Recipe],
    mut measure: impl FnMut(&Recipe) -> Outcome<T>,
) -> Outcome<Vec<T>> {
    let progress = progress(recipes.len() as u64);
    let mut samples = Vec::with_capacity(recipes.len());
    for recipe in recipes {
        progress.set_message(recipe.name.clone());
        samples.push(measure(recipe)?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::{Spread, servers, table};

    /// Regression: three commands named a server without its command line, so that nobody knew
    /// which build or which arguments had been measured.
    #[test]
    fn each_server_is_told_once_with_its_first_command_line() {
        let started = [("a", "a -p 1"), ("b", "b -p 2  # 1.6.18"), ("a", "a -p 3")];
        let wanted = ["a -p 1", "b -p 2  # 1.6.18"].map(|it| ("server".into(), it.into()));
        assert_eq!(servers(started), wanted);
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(Spread::of([3.0, 1.0, 9.0]), Spread { median: 3.0, min: 1.0, max: 9.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 9.0]).median, 3.0);
        assert_eq!(Spread::of([7.0]), Spread { median: 7.0, min: 7.0, max: 7.0 });
        assert_eq!(format!("{:.1}", Spread::of([1.0, 2.0])), "1.5 (1.0..2.0)");
    }

    #[test]
    fn tables_are_markdown() {
        let text = table(&["a", "b"], 1, [vec!["x".into(), "1".into()]]).to_string();
        assert!(text.starts_with("| a | b |\n|---|---|\n| x | 1 |"), "{text}");
    }
}
