//! How hits come up with the requests, and where they stay.

use super::placement::AREA;
use super::run::{HUGE, Load, count, usual};
use super::store::{Config, Store};
use super::zones::Placement;
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::workload::sizes::SizeChoice;

/// Windows, each of so large a share of the items in requests.
const WINDOWS: usize = 15;
const WINDOW_SHARE: f64 = 0.1;
/// The first window after which hits change by no more than this is stable.
const STABLE_POINTS: f64 = 0.5;
const STORES: [(&str, Placement); 3] =
    [("as stored", Placement::AsStored), ("columns", Placement::Columns(1)), ("area", AREA)];

/// Hits of each window, and swaps of a request.
type Course = Vec<(f64, f64)>;

/// Stores that begin with an empty cache and no temperatures.
pub fn warm_up(scale: &Scale) -> Outcome<Findings> {
    let app = usual(scale, SizeChoice::App)?;
    let load = Load::zipfian(scale, &app);
    let window = (f64::from(app.count()) * WINDOW_SHARE) as usize;
    let course = |(_, placement): &(&str, Placement)| -> Outcome<Course> {
        let mut store = Store::new(Config { placement: *placement, ..HUGE }, &app, &load.geometry);
        let mut requests = app.requests((&load.choice, load.skew), scale.seed, true)?;
        let windows = (0..WINDOWS).map(|_| {
            let figures = count(&mut store, &mut requests, window);
            (figures.own_hits(), figures.each(figures.swaps))
        });
        Ok(windows.collect())
    };
    let courses: Vec<Course> = STORES.iter().map(course).collect::<Outcome<_>>()?;
    let rows = (0..WINDOWS).map(|at| {
        let mut cells = vec![Cell::count(((at + 1) * window) as u64)];
        for course in &courses {
            cells.extend([Cell::number(course[at].0, 1), Cell::number(course[at].1, 4)]);
        }
        cells
    });
    let series = STORES.iter().zip(&courses).map(|((name, _), course)| Series {
        name: (*name).into(),
        points: (1..)
            .zip(course)
            .map(|(at, (hits, _))| Point::exact((at * window) as f64 / 1e6, *hits))
            .collect(),
    });
    let columns = ["requests", "as stored, %", "swaps", "columns, %", "swaps", "area, %", "swaps"];
    Ok(Findings {
        beside: courses
            .iter()
            .map(|course| Cell::count((stable(course) * window) as u64))
            .collect(),
        text: vec![format!(
            "{}. Hits of what requests read for themselves, in windows of {window}, and swaps of a \
             request. Caches begin empty, and all items cold.",
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

/// Windows until hits stay where they are.
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
