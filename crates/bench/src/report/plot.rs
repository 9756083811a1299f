//! A plot as inline SVG, drawn by plotters: axes, grid, curves with their ranges, or bars.
//!
//! Only what needs axes is drawn here. The title and the legend are HTML around the drawing, where
//! they wrap and cannot hide a curve. Colours are given as attributes, which the page's style sheet
//! maps to those of a light or a dark page: each colour below stands in `page.css` again.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::axis::Scale;
use super::model::{Axis, Plot, Point, Series};

/// The colours of series; further ones begin anew, which the markers tell apart.
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
/// About how wide a character of that size is.
const LETTER_WIDTH: u32 = 7;
/// What the labels of the axes need, with and without long words.
const LEFT: u32 = 76;
const BELOW: u32 = 52;
/// With more points than this, a curve has no markers.
const MARKERS_MAX: usize = 40;
/// The share of a group's room that its bars fill.
const BARS_SHARE: f64 = 0.8;

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// A drawing and what must be said beside it.
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
    let x = Scale::new(&plot.x, points().map(|point| point.x), false);
    let y = Scale::new(&plot.y, heights, bars);
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
    let turned = words_are_long(&plot.x);
    let below = if turned { BELOW + longest(&plot.x) * LETTER_WIDTH } else { BELOW };
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(28)
        .x_label_area_size(below)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(x.clone(), y.clone())?;
    let font = FONT.into_font().color(&INK);
    let label = if turned { font.transform(FontTransform::Rotate270) } else { font.clone() };
    let mut mesh = chart.configure_mesh();
    if !plot.x.categories.is_empty() {
        mesh.disable_x_mesh();
    }
    mesh.max_light_lines(0)
        .x_labels(x.ticks.len())
        .y_labels(y.ticks.len())
        .x_label_formatter(&|value| x.label(*value))
        .y_label_formatter(&|value| y.label(*value))
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(font.clone())
        .x_label_style(label)
        .axis_desc_style(font)
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
    area.present()?;
    Ok(())
}

/// Whether the words under the bars would run into each other.
fn words_are_long(axis: &Axis) -> bool {
    let room = (WIDTH - LEFT) / (axis.categories.len().max(1) as u32);
    (longest(axis) + 2) * LETTER_WIDTH > room
}

fn longest(axis: &Axis) -> u32 {
    axis.categories.iter().map(|word| word.chars().count() as u32).max().unwrap_or(0)
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
    use super::{COLOURS, GRID, INK, draw};
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
    fn a_plot_without_points_is_an_empty_one() {
        let mut plot = samples::curves();
        plot.series.clear();
        assert_eq!(draw(&plot).notes, ["Nothing was measured."]);
        let mut bars = samples::bars();
        bars.series[0].points.clear();
        assert!(draw(&bars).notes.is_empty());
    }
}
