//! A plot as inline SVG, drawn by plotters: axes, grid, curves with their ranges, or bars.
//!
//! Only the parts that need axes are drawn here. The title and the legend are HTML around the
//! drawing, where they wrap and cannot hide a curve. Colours are given as attributes, which the
//! page's style sheet maps to those of a light or a dark page: each colour here is also in
//! `page.css`.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{Scale, Zero};
use super::model::{Axis, Plot, Point, Series};

/// The colours of series; further series reuse them, and the markers tell them apart.
pub const COLOURS: [RGBColor; 8] = [
    RGBColor(0x1B, 0x6C, 0xA8),
    RGBColor(0xC8, 0x50, 0x1E),
    RGBColor(0x2E, 0x85, 0x40),
    RGBColor(0x7A, 0x4F, 0xA3),
    RGBColor(0xA6, 0x7C, 0x00),
    RGBColor(0x00, 0x8B, 0x8B),
    RGBColor(0xC2, 0x41, 0x7F),
    RGBColor(0x6B, 0x72, 0x80),
];
const INK: RGBColor = RGBColor(0x10, 0x14, 0x18);
const GRID: RGBColor = RGBColor(0xD0, 0xD4, 0xD8);

const WIDTH: u32 = 800;
const HEIGHT: u32 = 420;
/// Plotters draws text a quarter smaller than it is asked to.
const FONT: (&str, u32) = ("sans-serif", 16);
/// The approximate width of a character of that size.
const LETTER_WIDTH: u32 = 7;
/// The distance between the lines of a label.
const LINE_HEIGHT: u32 = 15;
/// Room for the labels of the axes; at the bottom, with one line of words.
const LEFT: u32 = 76;
const BELOW: u32 = 52;
const MARGIN: u32 = 8;
const MARGIN_RIGHT: u32 = 28;
/// The most points of a curve with markers.
const MARKERS_MAX: usize = 40;
/// The share of a group's room that its bars fill.
const BARS_SHARE: f64 = 0.8;

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// A drawing and its notes.
#[derive(Debug)]
pub struct Drawing {
    /// The SVG element.
    pub svg: String,
    /// What the drawing cannot show.
    pub notes: Vec<&'static str>,
}

/// Draws a plot.
pub fn draw(plot: &Plot) -> Drawing {
    let bars = !plot.x.categories.is_empty();
    let points = || plot.series.iter().flat_map(|series| &series.points);
    let heights = points().flat_map(|point| {
        let (min, max) = point.range.unwrap_or((point.y, point.y));
        [point.y, min, max]
    });
    let x = Scale::new(&plot.x, points().map(|point| point.x), Zero::Never);
    let y = Scale::new(&plot.y, heights, if bars { Zero::Always } else { Zero::UnlessNear });
    let mut notes = Vec::new();
    if points().next().is_none() {
        notes.push("Nothing was measured.");
    }
    if x.is_clamped || y.is_clamped {
        notes.push("Values of zero lie on the edge of the logarithmic axis.");
    }
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
    draw_in(&area, plot, &x, &y).expect("drawing into a string does not fail");
    drop(area);
    Drawing { svg, notes }
}

fn draw_in(area: &DrawingArea<SVGBackend<'_>, Shift>, plot: &Plot, x: &Scale, y: &Scale) -> Drawn {
    let words: Vec<Vec<String>> =
        plot.x.categories.iter().map(|word| wrap(word, room(&plot.x))).collect();
    let lines = words.iter().map(Vec::len).max().unwrap_or(1) as u32;
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .margin_right(MARGIN_RIGHT)
        .x_label_area_size(BELOW + (lines - 1) * LINE_HEIGHT)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(x.clone(), y.clone())?;
    let font = FONT.into_font().color(&INK);
    let mut mesh = chart.configure_mesh();
    if !words.is_empty() {
        mesh.disable_x_mesh();
    }
    mesh.max_light_lines(0)
        .x_labels(x.ticks.len())
        .y_labels(y.ticks.len())
        .x_label_formatter(&|value| if words.is_empty() { x.label(*value) } else { String::new() })
        .y_label_formatter(&|value| y.label(*value))
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(font.clone())
        .axis_desc_style(font.clone())
        .x_desc(&plot.x.label)
        .y_desc(&plot.y.label)
        .draw()?;
    for (number, series) in plot.series.iter().enumerate() {
        if plot.x.categories.is_empty() {
            curve(&mut chart, number, series)?;
        } else {
            bars(&mut chart, number, plot.series.len(), series)?;
        }
    }
    let style = font.pos(Pos::new(HPos::Center, VPos::Top));
    for (place, lines) in words.iter().enumerate() {
        let (middle, bottom) = chart.backend_coord(&(place as f64, y.bottom()));
        for (line, text) in lines.iter().enumerate() {
            let top = bottom + 8 + line as i32 * LINE_HEIGHT as i32;
            area.draw(&Text::new(text.as_str(), (middle, top), style.clone()))?;
        }
    }
    area.present()?;
    Ok(())
}

/// Returns the approximate number of characters that fit under a group of bars.
fn room(axis: &Axis) -> usize {
    let groups = axis.categories.len().max(1) as u32;
    let width = (WIDTH - LEFT - MARGIN - MARGIN_RIGHT) / groups;
    (width / LETTER_WIDTH).saturating_sub(1).max(1) as usize
}

/// Breaks a text between its words into lines of about `room` characters.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= room {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

fn finite(series: &Series) -> impl Iterator<Item = &Point> {
    series.points.iter().filter(|point| point.x.is_finite() && point.y.is_finite())
}

/// A line through all points, with a marker and the range at each unless there are too many.
fn curve(chart: &mut Chart<'_, '_>, number: usize, series: &Series) -> Drawn {
    let style = colour(number).stroke_width(2);
    let places: Vec<(f64, f64)> = finite(series).map(|point| (point.x, point.y)).collect();
    chart.draw_series(LineSeries::new(places.clone(), style))?;
    for point in finite(series) {
        if let Some((min, max)) = point.range {
            chart.draw_series([ErrorBar::new_vertical(point.x, min, point.y, max, style, 8)])?;
        }
    }
    if places.len() > MARKERS_MAX {
        return Ok(());
    }
    let filled = colour(number).filled();
    let places = places.into_iter();
    match number / COLOURS.len() % 3 {
        0 => chart.draw_series(places.map(|place| Circle::new(place, 3, filled)))?,
        1 => chart.draw_series(places.map(|place| TriangleMarker::new(place, 5, filled)))?,
        _ => chart.draw_series(places.map(|place| Cross::new(place, 4, style)))?,
    };
    Ok(())
}

/// One bar of each group, with its range. On a logarithmic axis, zero is its lower end.
fn bars(chart: &mut Chart<'_, '_>, number: usize, of: usize, series: &Series) -> Drawn {
    let width = BARS_SHARE / of as f64;
    for point in finite(series) {
        let left = point.x - BARS_SHARE / 2.0 + number as f64 * width;
        let corners = [(left, 0.0), (left + 0.92 * width, point.y)];
        chart.draw_series([Rectangle::new(corners, colour(number).filled())])?;
        if let Some((min, max)) = point.range {
            let (middle, style) = (left + 0.46 * width, INK.stroke_width(1));
            chart.draw_series([ErrorBar::new_vertical(middle, min, point.y, max, style, 6)])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{COLOURS, GRID, INK, draw, wrap};
    use crate::report::samples;

    #[test]
    fn every_colour_stands_in_the_style_sheet() {
        let sheet = include_str!("page.css");
        for colour in COLOURS.iter().chain([&INK, &GRID]) {
            let name = format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
            assert!(sheet.contains(&format!("[stroke=\"{name}\"]")), "{name}");
        }
    }

    #[test]
    fn a_value_of_zero_on_a_logarithmic_axis_is_drawn_and_mentioned() {
        let drawing = draw(&samples::curves());
        assert_eq!(drawing.notes.len(), 1);
        assert!(drawing.notes[0].contains("zero"));
        assert_eq!(drawing.svg.matches("<circle").count(), 3 + 1, "three points and a median");
        assert!(!drawing.svg.contains("NaN") && !drawing.svg.contains("inf"), "{}", drawing.svg);
    }

    #[test]
    fn labels_are_escaped() {
        let drawing = draw(&samples::curves());
        assert!(drawing.svg.contains("share &lt;&amp;&gt;"), "{}", drawing.svg);
        assert!(draw(&samples::bars()).svg.contains("pears &amp; plums"));
    }

    #[test]
    fn long_words_are_broken_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 3), ["unbreakable"]);
        assert_eq!(wrap("", 3), [""]);
    }

    #[test]
    fn a_plot_without_points_is_an_empty_one() {
        let mut plot = samples::curves();
        plot.series.clear();
        assert_eq!(draw(&plot).notes, ["Nothing was measured."]);
        let mut bars = samples::bars();
        bars.series[0].points.clear();
        assert!(draw(&bars).notes.is_empty());
    }
}
