//! A report for spreadsheets: each table and each plot as a file of comma-separated values.
//!
//! Numbers are written in full, whatever the terminal rounds them to. A column of medians becomes
//! three: the median under the column's own name, the lowest and the highest beside it. A plot has
//! a row for each point.

use std::fs;
use std::io;
use std::path::Path;

use csv::Writer;

use super::model::{Cell, Document, Plot, Table};
use crate::failure::{Failure, Outcome};

/// Returns whether this names a file rather than a folder.
pub fn is_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "csv")
}

/// Writes everything into a folder, which is made if it is missing; or the only table into a file,
/// if `path` ends in `.csv`. Several tables go beside that file, with their names appended to its
/// own.
pub fn write(document: &Document, path: &Path) -> Outcome<()> {
    let doing = format!("writing {}", path.display());
    write_to(document, path).map_err(Failure::io(doing))
}

fn write_to(document: &Document, path: &Path) -> io::Result<()> {
    let tables: Vec<&Table> = document.sections.iter().flat_map(|part| &part.tables).collect();
    let plots: Vec<&Plot> = document.sections.iter().flat_map(|part| &part.plots).collect();
    if is_file(path) {
        if let [only] = tables[..] {
            return fs::write(path, table(only)?);
        }
        let (mut names, stem) = (Names::default(), path.with_extension("").into_os_string());
        for one in tables {
            let mut name = stem.clone();
            name.push("-");
            name.push(names.file(&one.name));
            fs::write(name, table(one)?)?;
        }
        return Ok(());
    }
    fs::create_dir_all(path)?;
    let mut names = Names::default();
    for one in tables {
        fs::write(path.join(names.file(&one.name)), table(one)?)?;
    }
    for one in plots {
        fs::write(path.join(names.file(&format!("plot-{}", one.name))), plot(one)?)?;
    }
    Ok(())
}

/// File names that are already used.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    /// Returns a file name for a table: characters other than letters and digits become hyphens,
    /// and a used name gets a number.
    fn file(&mut self, name: &str) -> String {
        let letter = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '-' };
        let plain: String = name.chars().map(letter).collect();
        let used = self.0.iter().filter(|other| **other == plain).count();
        self.0.push(plain.clone());
        if used == 0 { format!("{plain}.csv") } else { format!("{plain}-{}.csv", used + 1) }
    }
}

/// One table.
fn table(table: &Table) -> io::Result<Vec<u8>> {
    let has_range = |column: usize| {
        table.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Spread { .. })))
    };
    let wide: Vec<bool> = (0..table.columns.len()).map(has_range).collect();
    let mut out = Writer::from_writer(Vec::new());
    let header = table.columns.iter().zip(&wide).flat_map(|(name, wide)| match wide {
        true => vec![name.clone(), format!("{name} min"), format!("{name} max")],
        false => vec![name.clone()],
    });
    out.write_record(header)?;
    for row in &table.rows {
        out.write_record(row.iter().zip(&wide).flat_map(|(cell, wide)| fields(cell, *wide)))?;
    }
    out.into_inner().map_err(|error| error.into_error())
}

/// Returns the fields of a figure in its column, or in its three columns.
fn fields(cell: &Cell, wide: bool) -> Vec<String> {
    let mut fields = match cell {
        Cell::Text(text) => vec![text.clone()],
        Cell::Number { value, .. } => vec![value.to_string()],
        Cell::Spread { spread, .. } => {
            vec![spread.median.to_string(), spread.min.to_string(), spread.max.to_string()]
        }
        Cell::Nothing => vec![String::new()],
    };
    fields.resize(if wide { 3 } else { 1 }, String::new());
    fields
}

/// One plot.
fn plot(plot: &Plot) -> io::Result<Vec<u8>> {
    let mut out = Writer::from_writer(Vec::new());
    out.write_record(["series", &plot.x.label, &plot.y.label, "min", "max"])?;
    for series in &plot.series {
        for point in &series.points {
            let x = match plot.x.categories.get(point.x as usize) {
                Some(word) => word.clone(),
                None => point.x.to_string(),
            };
            let (min, max) = match point.range {
                Some((min, max)) => (min.to_string(), max.to_string()),
                None => (String::new(), String::new()),
            };
            out.write_record([&series.name, &x, &point.y.to_string(), &min, &max])?;
        }
    }
    out.into_inner().map_err(|error| error.into_error())
}

#[cfg(test)]
mod tests {
    use super::{Names, plot, table, write};
    use crate::report::samples;
    use crate::trace::testing::Folder;

    fn text(bytes: std::io::Result<Vec<u8>>) -> String {
        String::from_utf8(bytes.expect("nothing fails in memory")).expect("text")
    }

    #[test]
    fn commas_and_quotes_are_quoted_and_ranges_have_columns_of_their_own() {
        let section = &samples::document().sections[0];
        let wanted = "server,rounds,\"keys, k/s (median)\",\"keys, k/s (median) min\",\
                      \"keys, k/s (median) max\"\nlarder,3,1.5,1,2\n\"a, \"\"b\"\"\",,0.125,,\n";
        assert_eq!(text(table(&section.tables[0])), wanted);
    }

    #[test]
    fn a_plot_has_a_row_for_each_point() {
        let section = &samples::document().sections[0];
        let text = text(plot(&section.plots[0]));
        assert!(text.starts_with("series,size (bytes),share <&>,min,max\n"), "{text}");
        assert!(text.contains("\"curve <a> & \"\"b\"\"\",1,0.5,0.25,0.75\n"), "{text}");
        assert!(text.contains(",10,0,,\n"), "{text}");
    }

    /// Regression: it was an error, after everything had been measured.
    #[test]
    fn several_tables_go_beside_the_named_file() {
        let folder = Folder::new();
        let mut document = samples::document();
        write(&document, &folder.path("all.csv")).expect("a table");
        assert_eq!(folder.names(), ["all.csv"]);
        let table = document.sections[0].tables[0].clone();
        document.sections[0].tables.push(table);
        write(&document, &folder.path("all.csv")).expect("two tables");
        let mut names = folder.names();
        names.sort_unstable();
        assert_eq!(names, ["all-servers-2.csv", "all-servers.csv", "all.csv"]);
    }

    #[test]
    fn no_file_is_written_twice_and_none_leaves_the_folder() {
        let mut names = Names::default();
        let found = ["a b", "../c", "a-b"].map(|name| names.file(name));
        assert_eq!(found, ["a-b.csv", "---c.csv", "a-b-2.csv"]);
    }
}
