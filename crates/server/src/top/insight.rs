//! The part of `larder top` about the sample of keys: the most requested ones, and beside them the
//! miss ratio in more or less memory and the reasons of misses.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::widgets::{Block, Row, Table};
use serde_json::Value;

use super::format::{count, percent};

/// Its lines, with the borders: as many as the miss ratios of three tiers take.
pub const LINES: u16 = 11;

/// Sizes of memory that are shown, as parts of the present.
const SIZES: [(f64, &str); 4] = [(0.5, "1/2"), (1.0, "now"), (2.0, "2 ×"), (4.0, "4 ×")];

/// Draws the field `insight` of `/api/stats`.
pub fn draw(insight: &Value, frame: &mut Frame<'_>, area: Rect) {
    let thirds = [Constraint::Fill(3), Constraint::Fill(2), Constraint::Fill(2)];
    let [keys, memory, reasons] = Layout::horizontal(thirds).areas(area);
    let list = |name: &str| insight[name].as_array().map_or(&[][..], Vec::as_slice);
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let rows = list("by_requests").iter().map(|one| {
        let key = one["key"].as_str().unwrap_or_default().to_owned();
        [key, format!("{}/s", count(number(&one["least"]))), percent(number(&one["share"]))]
    });
    let widths = [Constraint::Fill(1), Constraint::Length(9), Constraint::Length(8)];
    table(frame, keys, "most requested keys", rows.collect(), &widths);

    let curve = &insight["curve"];
    let points = curve["points"].as_array().map_or(&[][..], Vec::as_slice);
    let miss = |size: f64| points.iter().find(|point| point[0] == size).map(|it| number(&it[1]));
    let sizes = SIZES
        .into_iter()
        .filter_map(|(size, name)| Some([format!("misses, {name}"), percent(miss(size)?)]));
    // Beside the prediction: the measured ratio, and twice the standard error, as on the page.
    let share = |name: &str| curve[name].as_f64();
    let measured = share("measured").map(|it| ["measured, now".to_owned(), percent(it)]);
    let error = share("error").map(|it| ["misses, now ±".to_owned(), percent(2.0 * it)]);
    let sizes = measured.into_iter().chain(sizes).chain(error);
    let more = curve["more"].as_array().map_or(&[][..], Vec::as_slice).iter().map(|more| {
        let tier = more["tier"].as_str().unwrap_or_default();
        [format!("GiB {tier}"), format!("+{}/s", count(number(&more["hits"])))]
    });
    let widths = [Constraint::Fill(1), Constraint::Length(9)];
    table(frame, memory, "with more or less memory", sizes.chain(more).collect(), &widths);

    let whole: f64 = list("reasons").iter().map(|reason| number(&reason[1])).sum();
    let rows = list("reasons").iter().map(|reason| {
        let name = reason[0].as_str().unwrap_or_default().to_owned();
        [name, percent(number(&reason[1]) / whole.max(1e-9))]
    });
    table(frame, reasons, "why reads missed", rows.collect(), &widths);
}

fn table<const COLUMNS: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &'static str,
    rows: Vec<[String; COLUMNS]>,
    widths: &[Constraint; COLUMNS],
) {
    let block = Block::bordered().title(title);
    if rows.is_empty() {
        let empty = Table::new([Row::new(["no data yet"])], [Constraint::Fill(1)]).dark_gray();
        return frame.render_widget(empty.block(block), area);
    }
    frame.render_widget(Table::new(rows.into_iter().map(Row::new), widths).block(block), area);
}
