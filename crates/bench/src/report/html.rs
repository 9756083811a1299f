//! A report as one self-contained page of HTML: it loads nothing else, runs no script, and follows
//! the reader's choice of a light or a dark page.
//!
//! Everything that comes from outside this file goes through [`Escaped`].

use std::fmt::{self, Write};

use super::model::{Cell, Document, Plot, Section, Table};
use super::plot::{COLOURS, draw};

/// Columns of words up to this length are not broken.
const SHORT_MAX: usize = 34;

/// Text that may hold characters with a meaning in HTML.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                other => out.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// The whole page.
pub fn render(document: &Document) -> String {
    let mut page = String::new();
    write_page(&mut page, document).expect("writing into a string does not fail");
    page
}

fn write_page(page: &mut String, document: &Document) -> fmt::Result {
    let title = Escaped(&document.title);
    writeln!(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(page, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
    writeln!(page, "<title>{title}</title>\n<style>\n{}</style>", include_str!("page.css"))?;
    writeln!(page, "</head>\n<body>\n<h1>{title}</h1>")?;
    facts(page, document)?;
    for part in &document.sections {
        section(page, part)?;
    }
    writeln!(page, "</body>\n</html>")
}

/// Where and how it was measured.
fn facts(page: &mut String, document: &Document) -> fmt::Result {
    let machine = &document.machine;
    let place = format!("{}, {} cores, Linux {}", machine.cpu, machine.cores, machine.kernel);
    writeln!(page, "<div class=\"scroll\"><table class=\"facts\"><tbody>")?;
    let mut fact = |name: &str, value: &str, tag: &str| {
        let (name, value) = (Escaped(name), Escaped(value));
        writeln!(page, "<tr><th scope=\"row\">{name}</th><td><{tag}>{value}</{tag}></td></tr>")
    };
    fact("machine", &place, "span")?;
    fact("commit", machine.commit.as_deref().unwrap_or("unknown"), "code")?;
    for note in &machine.notes {
        fact("note", note, "span")?;
    }
    fact("command", &machine.command, "code")?;
    for (name, value) in &document.facts {
        fact(name, value, "span")?;
    }
    writeln!(page, "</tbody></table></div>")
}

fn section(page: &mut String, section: &Section) -> fmt::Result {
    writeln!(page, "<section>\n<h2>{}</h2>", Escaped(&section.title))?;
    for text in &section.text {
        writeln!(page, "<p>{}</p>", Escaped(text))?;
    }
    for plot in &section.plots {
        figure(page, plot)?;
    }
    for one in &section.tables {
        table(page, one)?;
    }
    writeln!(page, "</section>")
}

fn figure(page: &mut String, plot: &Plot) -> fmt::Result {
    let drawing = draw(plot);
    writeln!(page, "<figure>\n<figcaption>{}</figcaption>", Escaped(&plot.title))?;
    writeln!(page, "<ul class=\"legend\">")?;
    for (number, series) in plot.series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let colour = format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
        let sign = if plot.x.categories.is_empty() {
            let line = format!("<path d=\"M0 6h22\" stroke=\"{colour}\" stroke-width=\"2\"/>");
            line + &marker(number, &colour)
        } else {
            format!("<rect width=\"22\" height=\"12\" fill=\"{colour}\"/>")
        };
        let name = Escaped(&series.name);
        writeln!(
            page,
            "<li><svg viewBox=\"0 0 22 12\" aria-hidden=\"true\">{sign}</svg>{name}</li>"
        )?;
    }
    writeln!(page, "</ul>\n<div role=\"img\" aria-label=\"{}\">", Escaped(&plot.title))?;
    writeln!(page, "{}</div>", drawing.svg)?;
    for note in drawing.notes {
        writeln!(page, "<p class=\"note\">{note}</p>")?;
    }
    writeln!(page, "</figure>")
}

/// The marker of a curve, as the plot draws it.
fn marker(number: usize, colour: &str) -> String {
    match number / COLOURS.len() % 3 {
        0 => format!("<circle cx=\"11\" cy=\"6\" r=\"3\" fill=\"{colour}\"/>"),
        1 => format!("<path d=\"M11 1l5 9h-10z\" fill=\"{colour}\"/>"),
        _ => format!("<path d=\"M7 2l8 8m0-8l-8 8\" stroke=\"{colour}\" stroke-width=\"2\"/>"),
    }
}

fn table(page: &mut String, table: &Table) -> fmt::Result {
    let is_number = |column: usize| {
        table
            .rows
            .iter()
            .any(|row| matches!(row[column], Cell::Number { .. } | Cell::Spread { .. }))
    };
    let is_short = |column: usize| {
        table.rows.iter().all(|row| row[column].to_string().chars().count() <= SHORT_MAX)
    };
    let class = |column: usize| match (is_number(column), is_short(column)) {
        (true, _) => " class=\"n\"",
        (false, true) => " class=\"s\"",
        (false, false) => "",
    };
    let class: Vec<&str> = (0..table.columns.len()).map(class).collect();
    writeln!(page, "<div class=\"scroll\"><table>\n<thead><tr>")?;
    for (column, class) in table.columns.iter().zip(&class) {
        writeln!(page, "<th scope=\"col\"{class}>{}</th>", Escaped(column))?;
    }
    writeln!(page, "</tr></thead>\n<tbody>")?;
    for row in &table.rows {
        write!(page, "<tr>")?;
        for (cell, class) in row.iter().zip(&class) {
            write!(page, "<td{class}>")?;
            figures(page, cell)?;
            write!(page, "</td>")?;
        }
        writeln!(page, "</tr>")?;
    }
    writeln!(page, "</tbody></table></div>")
}

/// Formats one figure; the range of a median is less prominent.
fn figures(page: &mut String, cell: &Cell) -> fmt::Result {
    if let Cell::Spread { spread, digits } = cell {
        let (median, min, max) = (spread.median, spread.min, spread.max);
        write!(page, "{median:.digits$} ")?;
        return write!(page, "<span class=\"range\">({min:.digits$}..{max:.digits$})</span>");
    }
    write!(page, "{}", Escaped(&cell.to_string()))
}

#[cfg(test)]
mod tests {
    use super::{Escaped, render};
    use crate::report::samples;

    #[test]
    fn characters_with_a_meaning_are_escaped() {
        let text = Escaped("<a href=\"x\">'&'</a>").to_string();
        assert_eq!(text, "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
        let page = render(&samples::document());
        for raw in ["<bacon>", "curve <a>", "a, \"b\"", "<of>", "<&>"] {
            assert!(!page.contains(raw), "{raw}");
        }
    }

    #[test]
    fn every_series_and_every_figure_is_on_the_page() {
        let page = render(&samples::document());
        for wanted in [
            "<h1>Eggs &amp; &lt;bacon&gt;</h1>",
            "<code>larder-bench eggs --fried</code>",
            "curve &lt;a&gt; &amp; &quot;b&quot;",
            "before</li>",
            "after</li>",
            "1.50 <span class=\"range\">(1.00..2.00)</span>",
            "<td class=\"n\">-</td>",
            "<td class=\"n\">0.1</td>",
            "pears &amp; plums",
            "weight (kg)",
            "Nothing was measured.",
        ] {
            assert!(page.contains(wanted), "{wanted}");
        }
        assert_eq!(page.matches("<figure>").count(), 3);
    }

    #[test]
    fn the_page_loads_nothing_and_runs_nothing() {
        let page = render(&samples::document());
        let space = "xmlns=\"http://www.w3.org/2000/svg\"";
        let rest = page.replace(space, "");
        for banned in ["http://", "https://", "<script", "src=", "url(", "@import", "<link"] {
            assert!(!rest.contains(banned), "{banned}");
        }
    }
}
