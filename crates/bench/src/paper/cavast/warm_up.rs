//! The rise of hits with the requests, and their final level.

use super::placement::AREA;
use super::run::{HUGE, Load, count, usual};
use super::store::{Config, Store};
use super::together::ALL_OF_THE_PAPERS;
use super::zones::Placement;
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::workload::sizes::SizeChoice;

/// Number of windows, each this share of the items in requests.
const WINDOWS: usize = 75;
const WINDOW_SHARE: f64 = 0.02;
/// The table has the first ones, and then one in this many.
const FIRST: usize = 5;
const SHOWN: usize = 5;
/// The first window after which hits change by no more than this is stable.
const STABLE_POINTS: f64 = 0.5;

/// Returns the stores, each with its name.
fn stores() -> [(&'static str, Config); 4] {
    [
        ("as stored", HUGE),
        ("columns", Config { placement: Placement::Columns(1), ..HUGE }),
        ("area", Config { placement: AREA, ..HUGE }),
        ("all of the paper's", ALL_OF_THE_PAPERS),
    ]
}

/// Hits of each window, and swaps of a request.
type Course = Vec<(f64, f64)>;

/// Measures stores that begin with an empty cache and no temperatures.
pub fn warm_up(scale: &Scale) -> Outcome<Findings> {
    let app = usual(scale, SizeChoice::App)?;
    let load = Load::zipfian(scale, &app);
    let window = (f64::from(app.count()) * WINDOW_SHARE) as usize;
    let course = |(_, config): &(&str, Config)| -> Outcome<Course> {
        let mut store = Store::new(*config, &app, &load.geometry, scale.seed);
        let mut requests = app.requests((&load.choice, load.skew), scale.seed, true)?;
        let windows = (0..WINDOWS).map(|_| {
            let figures = count(&mut store, &mut requests, window);
            (figures.own_hits(), figures.each(figures.swaps))
        });
        Ok(windows.collect())
    };
    let stores = stores();
    let courses: Vec<Course> = stores.iter().map(course).collect::<Outcome<_>>()?;
    let shown = (0..WINDOWS).filter(|at| *at < FIRST || (at + 1).is_multiple_of(SHOWN));
    let rows = shown.map(|at| {
        let mut cells = vec![Cell::count(((at + 1) * window) as u64)];
        for course in &courses {
            cells.extend([Cell::number(course[at].0, 1), Cell::number(course[at].1, 4)]);
        }
        cells
    });
    let series = stores.iter().zip(&courses).map(|((name, _), course)| Series {
        name: (*name).into(),
        points: (1..)
            .zip(course)
            .map(|(at, (hits, _))| Point::exact((at * window) as f64 / 1e6, *hits))
            .collect(),
    });
    let headings = stores.iter().flat_map(|(name, _)| [format!("{name}, %"), "swaps".into()]);
    let columns: Vec<String> = std::iter::once("requests".to_owned()).chain(headings).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    // Requests for as many per item in the paper's full size, in millions.
    let full = app.count_in_full() * WINDOW_SHARE / 1e6;
    Ok(Findings {
        beside: courses
            .iter()
            .map(|course| Cell::number(stable(course) as f64 * full, 1))
            .collect(),
        text: vec![format!(
            "{}. Hits of what requests read for themselves, in windows of {window}, and swaps of a \
             request. Caches begin empty, and all items cold. A window is {full:.1} million \
             requests in the paper's full size, where cache, data and requests are as many times \
             more.",
            load.in_words()
        )],
        tables: vec![table("cavast-warm-up", &columns, rows.collect())],
        plots: vec![Plot {
            name: "cavast-warm-up".into(),
            title: "Hits from the first request on".into(),
            x: Axis::linear("requests (millions)"),
            y: Axis::linear("hits (%)"),
            series: series.collect(),
        }],
    })
}

/// Returns the number of windows until hits are stable.
fn stable(course: &[(f64, f64)]) -> usize {
    let last = course.last().expect("there are windows").0;
    let moved = course.iter().rposition(|(hits, _)| (hits - last).abs() > STABLE_POINTS);
    moved.map_or(1, |at| at + 2)
}

#[cfg(test)]
mod tests {
    use super::stable;

    #[test]
    fn a_course_is_stable_from_the_window_on_after_which_it_does_not_leave() {
        let course = |hits: &[f64]| hits.iter().map(|hits| (*hits, 0.0)).collect::<Vec<_>>();
        assert_eq!(stable(&course(&[40.0, 40.2, 40.1])), 1);
        assert_eq!(stable(&course(&[30.0, 40.2, 38.0, 40.1, 40.0])), 4);
    }
}
