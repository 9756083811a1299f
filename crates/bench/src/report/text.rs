//! A report for the terminal: Markdown that reads as plain text. Plots and single measurements are
//! left to the files, so a section with nothing else is not shown.

use super::model::{Cell, Document, Section, Table};
use super::table as format_table;

/// The whole report.
pub fn render(document: &Document) -> String {
    let mut parts = vec![format!("# {}", document.title), head(document)];
    for section in document.sections.iter().filter(|section| has_words(section)) {
        parts.push(format!("## {}", section.title));
        parts.extend(section.text.iter().cloned());
        parts.extend(section.tables.iter().map(table));
    }
    parts.join("\n\n")
}

/// Where and how it was measured.
fn head(document: &Document) -> String {
    let mut head = document.machine.lines();
    for (name, value) in &document.facts {
        let name = format!("{name}:");
        head.push_str(&format!("\n{name:<8} {value}"));
    }
    head
}

fn has_words(section: &Section) -> bool {
    !section.is_detail && (!section.text.is_empty() || !section.tables.is_empty())
}

/// Formats a table: leading columns of words are left-aligned, all columns after them
/// right-aligned.
fn table(table: &Table) -> String {
    let is_words = |column: &usize| {
        table.rows.iter().all(|row| matches!(row[*column], Cell::Text(_) | Cell::Nothing))
    };
    let left = (0..table.columns.len()).take_while(is_words).count();
    let header: Vec<&str> = table.columns.iter().map(String::as_str).collect();
    let rows = table.rows.iter().map(|row| row.iter().map(Cell::to_string).collect());
    format_table(&header, left, rows).to_string()
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::report::model::Section;
    use crate::report::samples;

    #[test]
    fn a_small_report_reads_like_this() {
        let wanted = "\
# Eggs & <bacon>

machine: A CPU, 2 cores, Linux 6.1
commit:  abc
$ larder-bench eggs --fried
seed:    7
servers: \"one\", two

## First

Nothing is missing, and that is \"good\".

| server | rounds | keys, k/s (median) |
|--------|--------|--------------------|
| larder |      3 |  1.50 (1.00..2.00) |
| a, \"b\" |      - |                0.1 |";
        let mut document = samples::document();
        document.sections.push(Section {
            title: "Third".into(),
            is_detail: true,
            ..document.sections[0].clone()
        });
        assert_eq!(render(&document), wanted);
    }
}
