//! The screen of `larder top`.
//!
//! ```text
//! Larder 0.1.0  127.0.0.1:9150  serving  policy ...
//! four numbers: hit ratio, requests a second, memory, items
//! memory by owner as one bar, with its legend
//! curves: requests, hit ratio, 99 % of gets
//! latencies by command           flows: network, items that leave, costs, flash
//! keys asked for most            misses in other memory, and why they are: on tall terminals
//! ```
//!
//! Everything is shown by words, shapes and numbers, and colours only repeat it. ratatui lets no
//! control character from the server through to the terminal.

use std::collections::{HashMap, VecDeque};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table, Wrap};
use serde_json::Value;

use super::format::{bytes, count, duration, micros, percent};
use super::insight;

/// Points of the curves: more than any terminal has columns.
const POINTS_MAX: usize = 600;

/// Lines of a terminal from which there is room for keys.
const TALL_LINES: u16 = 39;

/// The owners of memory, their names here, and how they are drawn.
const OWNERS: [(&str, &str, &str, Color); 7] = [
    ("items", "items", "█", Color::Red),
    ("compressed", "compressed", "▓", Color::Cyan),
    ("index", "index", "#", Color::Magenta),
    ("chunks_free", "free chunks", "▒", Color::Yellow),
    ("rest", "rest", "-", Color::Gray),
    ("flash", "for flash", "%", Color::Blue),
    ("free", "free", "·", Color::DarkGray),
];

/// One second.
type Point = HashMap<String, f64>;

/// The server's data.
#[derive(Debug, Default)]
pub struct View {
    address: String,
    stats: Value,
    points: VecDeque<Point>,
    /// Why the last answer did not come.
    error: Option<String>,
}

/// A point by the names of its values.
fn point(names: &Value, values: &Value) -> Option<Point> {
    let names = names.as_array()?.iter().map(|name| name.as_str().unwrap_or_default());
    let values = values.as_array()?.iter().map(|value| value.as_f64().unwrap_or(0.0));
    Some(std::iter::once("time").chain(names).map(str::to_owned).zip(values).collect())
}

/// A value of a point, 0 if it has none of that name.
fn of(point: &Point, name: &str) -> f64 {
    point.get(name).copied().unwrap_or(0.0)
}

/// Keys found in a second, and keys requested.
fn found(point: &Point) -> (f64, f64) {
    let hits = ["hits_hot", "hits_compressed", "hits_flash"].map(|name| of(point, name));
    let hits: f64 = hits.iter().sum();
    (hits, hits + of(point, "misses"))
}

impl View {
    /// A view of the server at `address`, without data.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), ..Self::default() }
    }

    /// Takes the past.
    pub fn remember(&mut self, history: &Value) {
        let points = history["seconds"]["points"].as_array().map_or(&[][..], Vec::as_slice);
        self.points = points.iter().filter_map(|it| point(&history["names"], it)).collect();
    }

    /// Takes the present.
    pub fn take(&mut self, stats: Value) {
        let newest = self.points.back().map_or(0.0, |last| of(last, "time"));
        if let Some(point) = point(&stats["names"], &stats["point"])
            && of(&point, "time") != newest
        {
            self.points.push_back(point);
            let extra = self.points.len().saturating_sub(POINTS_MAX);
            self.points.drain(..extra);
        }
        self.stats = stats;
        self.error = None;
    }

    /// Notes that the present did not come.
    pub fn fail(&mut self, error: String) {
        self.error = Some(error);
    }

    /// A metric, 0 if it is missing.
    fn metric(&self, name: &str) -> f64 {
        self.stats["metrics"][name].as_f64().unwrap_or(0.0)
    }

    /// A metric with labels.
    fn labelled(&self, name: &str, label: &str) -> f64 {
        self.stats["metrics"][name][label].as_f64().unwrap_or(0.0)
    }

    /// Draws all of it.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let lines = if frame.area().height < TALL_LINES { 0 } else { insight::LINES };
        let [head, tiles, memory, curves, below, keys, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(5),
            Constraint::Length(5),
            Constraint::Min(4),
            Constraint::Max(12),
            Constraint::Length(lines),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.head(), head);
        self.tiles(frame, tiles);
        self.memory(frame, memory);
        self.curves(frame, curves);
        let halves = [Constraint::Fill(3), Constraint::Fill(2)];
        let [left, right] = Layout::horizontal(halves).areas(below);
        self.latency(frame, left);
        self.flows(frame, right);
        if lines > 0 {
            insight::draw(&self.stats["insight"], frame, keys);
        }
        frame.render_widget(Line::from("q quits; the view is read-only").dark_gray(), foot);
    }

    fn head(&self) -> Line<'_> {
        let text = |name: &str| self.stats[name].as_str().unwrap_or("?").to_owned();
        let uptime = duration(self.metric("memcached_uptime_seconds"));
        let mut spans = vec![
            Span::from(format!("Larder {}", text("version"))).bold(),
            Span::from(format!("  {}  policy {}  up {uptime}  ", self.address, text("policy"))),
        ];
        spans.push(match (&self.error, text("phase")) {
            (Some(error), _) => Span::from(format!("no answer: {error}")).red().bold(),
            (None, phase) if phase == "serving" => Span::from(phase).green(),
            (None, phase) => Span::from(phase).red().bold(),
        });
        Line::from(spans)
    }

    /// The four numbers.
    fn tiles(&self, frame: &mut Frame<'_>, area: Rect) {
        let none = Point::new();
        let now = self.points.back().unwrap_or(&none);
        let (hits, asked) = found(now);
        let ratio = if asked > 0.0 { percent(hits / asked) } else { "-".to_owned() };
        let tiers = ["hot", "compressed", "flash"].into_iter();
        let by_tier = tiers.clone().map(|tier| {
            let hits = of(now, &format!("hits_{tier}"));
            format!("{tier} {:.1}", 100.0 * hits / asked.max(1e-9))
        });
        let limit = self.metric("memcached_limit_bytes");
        // While memory is given back to a limit that was lowered, the owners have more than that.
        let owners = OWNERS.iter().filter(|(owner, ..)| *owner != "free");
        let owned: f64 =
            owners.map(|(owner, ..)| self.labelled("larder_memory_bytes", owner)).sum();
        let used = owned.max(limit - self.labelled("larder_memory_bytes", "free"));
        let items =
            tiers.map(|tier| format!("{tier} {}", count(self.labelled("larder_items", tier))));
        let requests = format!("gets {} sets {}", count(of(now, "gets")), count(of(now, "sets")));
        let space = if owned > limit {
            format!("{} over {}", bytes(owned - limit), bytes(limit))
        } else {
            format!("of {}, {}", bytes(limit), percent(used / limit.max(1.0)))
        };
        let tiles = [
            ("hit ratio", ratio, by_tier.collect::<Vec<_>>().join(" ")),
            ("requests per second", count(of(now, "requests")), requests),
            ("memory", bytes(used), space),
            (
                "items",
                count(self.metric("memcached_current_items")),
                items.collect::<Vec<_>>().join(" "),
            ),
        ];
        let columns: [Rect; 4] = Layout::horizontal([Constraint::Fill(1); 4]).areas(area);
        for ((title, number, text), column) in tiles.into_iter().zip(columns) {
            let lines = vec![Line::from(number).bold(), Line::from(text).dark_gray()];
            let text = Paragraph::new(lines).wrap(Wrap { trim: true });
            frame.render_widget(text.block(Block::bordered().title(title)), column);
        }
    }

    /// The bar of memory.
    fn memory(&self, frame: &mut Frame<'_>, area: Rect) {
        let parts = OWNERS.map(|(owner, ..)| self.labelled("larder_memory_bytes", owner));
        let whole = parts.iter().sum::<f64>().max(1.0);
        let columns = f64::from(area.width.saturating_sub(2));
        let (mut bar, mut legend) = (Vec::new(), Vec::new());
        let (mut sum, mut drawn) = (0.0, 0);
        for ((_, name, shape, color), part) in OWNERS.into_iter().zip(parts) {
            sum += part;
            let until = (sum / whole * columns).round() as usize;
            let style = Style::new().fg(color);
            bar.push(Span::styled(shape.repeat(until.saturating_sub(drawn)), style));
            drawn = drawn.max(until);
            legend.push(Span::styled(shape, style));
            legend.push(Span::from(format!(" {name} {}  ", bytes(part))));
        }
        let lines = vec![Line::from(bar), Line::from(legend)];
        let block = Block::bordered().title("memory by owner");
        let text = Paragraph::new(lines).wrap(Wrap { trim: false });
        frame.render_widget(text.block(block), area);
    }

    fn curves(&self, frame: &mut Frame<'_>, area: Rect) {
        let columns: [Rect; 3] = Layout::horizontal([Constraint::Fill(1); 3]).areas(area);
        let width = usize::from(columns[0].width.saturating_sub(2));
        let newest = self.points.len().saturating_sub(width);
        let shown = || self.points.iter().skip(newest);
        let ratio = |point: &Point| {
            let (hits, asked) = found(point);
            if asked > 0.0 { (1000.0 * hits / asked) as u64 } else { 0 }
        };
        let requests: Vec<u64> = shown().map(|it| of(it, "requests") as u64).collect();
        let ratios: Vec<u64> = shown().map(ratio).collect();
        let slowest: Vec<u64> = shown().map(|it| (of(it, "get_p99_us") * 1e3) as u64).collect();
        let top = |values: &[u64]| values.iter().copied().max().unwrap_or(0) as f64;
        let slow_title = match top(&slowest) {
            0.0 => "99 % of gets: none recently".to_owned(),
            most => format!("99 % of gets, up to {}", micros(most / 1e3)),
        };
        let curves = [
            (format!("requests/s, up to {}", count(top(&requests))), requests, None),
            ("hit ratio, up to 100 %".to_owned(), ratios, Some(1000)),
            (slow_title, slowest, None),
        ];
        for ((title, values, max), column) in curves.into_iter().zip(columns) {
            let curve = Sparkline::default().data(values).block(Block::bordered().title(title));
            let curve = if let Some(max) = max { curve.max(max) } else { curve };
            frame.render_widget(curve.style(Style::new().fg(Color::Cyan)), column);
        }
    }

    fn latency(&self, frame: &mut Frame<'_>, area: Rect) {
        let kinds = self.stats["latency"].as_array().map_or(&[][..], Vec::as_slice);
        let rows = kinds.iter().map(|kind| {
            let text = |name: &str| kind[name].as_str().unwrap_or_default().to_owned();
            let time = |name: &str| micros(kind[name].as_f64().unwrap_or(0.0));
            let tier = if text("tier") == "any" { String::new() } else { text("tier") };
            let name = format!("{} {tier}", text("command"));
            Row::new([name, time("p50_us"), time("p99_us"), time("p999_us"), time("max_us")])
        });
        let widths = [
            Constraint::Fill(2),
            Constraint::Fill(1),
            Constraint::Fill(1),
            Constraint::Fill(1),
            Constraint::Fill(1),
        ];
        let header = Row::new(["", "median", "99 %", "99.9 %", "longest"]).dark_gray();
        let block = Block::bordered().title("latency in the last minute, sampled");
        frame.render_widget(Table::new(rows, widths).header(header).block(block), area);
    }

    fn flows(&self, frame: &mut Frame<'_>, area: Rect) {
        let none = Point::new();
        let now = self.points.back().unwrap_or(&none);
        let rate = |name: &str| format!("{}/s", count(of(now, name)));
        let flow = |name: &str| format!("{}/s", bytes(of(now, name)));
        let mut rows = vec![
            ("network in", flow("bytes_in")),
            ("network out", flow("bytes_out")),
            ("connections", count(of(now, "connections"))),
            ("processor", format!("{:.2} cores", of(now, "cpu_s"))),
            ("evicted", rate("evicted")),
            ("expired", rate("expired")),
            ("saved by hits", format!("{:.2} s/s", of(now, "cost_saved_s"))),
            ("compression", format!("{:.2} ×", of(now, "compression_ratio"))),
        ];
        if self.metric("larder_flash_size_bytes") > 0.0 {
            rows.push(("flash written", flow("flash_written_bytes")));
            rows.push(("flash reads", rate("flash_reads")));
        }
        let rows = rows.into_iter().map(|(name, value)| Row::new([name.to_owned(), value]));
        let table = Table::new(rows, [Constraint::Fill(1), Constraint::Fill(1)]);
        frame.render_widget(table.block(Block::bordered().title("flows")), area);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::drawn;
    use super::*;

    fn view() -> View {
        let mut view = View::new("localhost:9150");
        let names = json!(["requests", "gets", "sets", "hits_hot", "hits_compressed", "misses"]);
        view.remember(&json!({
            "names": names,
            "seconds": { "points": [[1, 10, 8, 2, 6, 0, 2], [2, 20, 16, 4, 12, 2, 2]] },
        }));
        view.take(json!({
            "names": names,
            "point": [3, 2500, 2000, 500, 1500, 300, 200],
            "version": "1.2.3", "phase": "serving", "policy": "cost-clock",
            "latency": [{
                "command": "get", "tier": "hot", "p50_us": 0.5, "p99_us": 2.25, "p999_us": 1500.0,
                "max_us": 2e6,
            }],
            "insight": {
                "by_requests": [{ "key": "<b>\u{1b}[2Jhot", "least": 1500.0, "share": 0.25 }],
                "curve": {
                    "points": [[0.5, 0.4, 0.0, 0.0], [1.0, 0.3, 0.0, 0.0]],
                    "predicted": 0.3, "error": 0.011, "measured": 0.175,
                    "more": [{ "tier": "hot", "hits": 12.5, "saved_s": 0.1 }],
                },
                "reasons": [["never", 1.0], ["evicted", 3.0]],
            },
            "metrics": {
                "memcached_limit_bytes": 64 << 20,
                "memcached_current_items": 12345,
                "memcached_uptime_seconds": 7200,
                "larder_items": { "hot": 12000, "compressed": 345 },
                "larder_memory_bytes": { "items": 32 << 20, "flash": 8 << 20, "free": 24 << 20 },
            },
        }));
        view
    }

    #[test]
    fn the_numbers_stand_where_they_are_looked_for() {
        let text = drawn(&view(), (120, 40));
        for part in [
            "Larder 1.2.3  localhost:9150  policy cost-clock  up 2 h  serving",
            "90.0 %",
            "hot 75.0 compressed 15.0",
            "2.50 k",
            "32.0 MiB",
            "of 64.0 MiB, 62.5 %",
            "for flash 8.00 MiB",
            "12.3 k",
            "requests/s, up to 2.50 k",
            "get hot",
            "2.25 µs",
            "1.50 ms",
            "<b>[2Jhot",
            "1.50 k/s",
            "misses, now",
            "30.0 %",
            "measured, now",
            "17.5 %",
            "misses, now ±",
            "2.2 %",
            "+12.5/s",
            "evicted",
            "75.0 %",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        let bar = text.lines().find(|line| line.contains("██")).expect("the bar of memory");
        let columns = |shape| bar.matches(shape).count();
        assert_eq!((columns("█"), columns("%"), columns("·")), (59, 15, 44), "{bar}");
    }

    /// Regression: after the limit was lowered, the number was the limit, whatever was in use.
    #[test]
    fn memory_beyond_a_lowered_limit_is_told() {
        let mut view = view();
        view.stats["metrics"]["memcached_limit_bytes"] = json!(24 << 20);
        view.stats["metrics"]["larder_memory_bytes"]["free"] = json!(0);
        let text = drawn(&view, (120, 40));
        assert!(text.contains("40.0 MiB") && text.contains("16.0 MiB over 24.0 MiB"), "{text}");
    }

    #[test]
    fn a_server_that_is_gone_is_told_and_any_size_is_drawn() {
        let mut view = view();
        view.fail("connection refused".to_owned());
        assert!(drawn(&view, (100, 40)).contains("no answer: connection refused"));
        for size in [(1, 1), (20, 5), (80, 24), (300, 100)] {
            drawn(&view, size);
            drawn(&View::new(""), size);
        }
    }

    #[test]
    fn nothing_that_the_server_says_moves_the_cursor() {
        let mut view = View::new("");
        view.take(json!({ "version": "\u{1b}[2J\u{7}x", "phase": "serving" }));
        let text = drawn(&view, (100, 40));
        assert!(text.contains("[2Jx") && !text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    }
}
