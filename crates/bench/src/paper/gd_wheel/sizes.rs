//! The time of an operation by the number of items: the work of a priority queue grows with them,
//! that of wheels, lists and hands does not.

use crate::failure::Outcome;
use crate::paper::measure::{cpu_seconds, in_rounds};
use crate::paper::{Findings, Scale, table};
use crate::policies::gd_pq::GdPq;
use crate::policies::kind::Kind;
use crate::policies::simulate::{Simulation, Tally};
use crate::policies::weight;
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::trace::Trace;
use crate::workload::popularity::Choice;
use crate::workload::sizes::SizeChoice;

use super::costs::MODELS;
use super::workloads;

/// Keys of the smallest cache at a scale of 1; the others have multiples of it.
const KEYS: u64 = 2_000_000;
const STEPS: [u64; 3] = [1, 3, 10];
/// The share of the keys with room for which LRU hits about 95 %.
const ROOM: f64 = 0.73;
const COSTS: &str = "gd-1";
const SIZE: SizeChoice = SizeChoice::Fixed(256);

/// A policy in a cache of some size.
struct Subject {
    step: usize,
    simulation: Simulation,
    /// The next request.
    next: usize,
}

/// The steps of one subject.
#[derive(Debug, Clone, Copy)]
struct Steps {
    each: f64,
    eviction: f64,
}

/// Measures time and steps over a tenfold range of sizes.
pub fn sizes_of_cache(scale: &Scale) -> Outcome<Findings> {
    let mut traces = Vec::new();
    for step in STEPS {
        let keys = scale.items(KEYS) as u64 * step;
        let mut trace = workloads::requests(keys, Choice::Zipfian, &SIZE, scale.seed)?;
        workloads::price(&mut trace, &SIZE, COSTS, scale.seed)?;
        traces.push((trace, (keys as f64 * ROOM) as u64));
    }
    let kinds = STEPS.iter().enumerate();
    let kinds = kinds.flat_map(|(step, _)| MODELS.map(|kind| (kind, step)));
    let mut subjects: Vec<Subject> =
        kinds.map(|(kind, step)| subject(kind, step, &traces)).collect();
    // The smallest cache has few requests: all sizes make as many in a round.
    let smallest = &traces[0].0;
    let reads = smallest.requests.len() - workloads::warm(smallest);
    let timed = reads / scale.rounds as usize;
    let times = in_rounds(scale.rounds, subjects.len(), |which| {
        let subject = &mut subjects[which];
        let requests = &traces[subject.step].0.requests[subject.next..subject.next + timed];
        subject.next += timed;
        let before = cpu_seconds();
        subject.simulation.run(requests, |_| ());
        Ok((cpu_seconds() - before) * 1e9 / timed as f64)
    })?;
    drop(subjects);
    let steps: Vec<Option<Steps>> = STEPS
        .iter()
        .enumerate()
        .flat_map(|(step, _)| MODELS.map(|kind| counted(kind, &traces[step])))
        .collect();
    Ok(findings(&traces, &times, &steps))
}

/// Returns a warm cache.
fn subject(kind: Kind, step: usize, traces: &[(Trace, u64)]) -> Subject {
    let (trace, room) = &traces[step];
    let mut simulation = workloads::model(kind, weight::Scale::Objects, *room, trace.objects);
    let next = workloads::warm(trace);
    simulation.run(&trace.requests[..next], |_| ());
    Subject { step, simulation, next }
}

/// Counts the steps of a policy once it is warm; a counting queue takes the place of one that does
/// not count.
fn counted(kind: Kind, (trace, room): &(Trace, u64)) -> Option<Steps> {
    let scale = weight::Scale::Objects;
    let mut simulation = match kind {
        Kind::GdPq => {
            let policy = Box::new(GdPq::<true>::new(*room, trace.objects));
            Simulation::new(policy, scale, *room, trace.objects)
        }
        _ => workloads::model(kind, scale, *room, trace.objects),
    };
    let (warm, rest) = trace.requests.split_at(workloads::warm(trace));
    simulation.run(warm, |_| ());
    let before = simulation.steps()?;
    let Tally { gets, misses, .. } = simulation.run(rest, |_| ());
    let steps = (simulation.steps()? - before) as f64;
    Some(Steps { each: steps / gets as f64, eviction: steps / misses as f64 })
}

/// Returns the name of a step.
fn what(kind: Kind) -> &'static str {
    match kind {
        Kind::GdPq => "comparisons",
        Kind::GdWheel | Kind::GdWheelLazy => "victims taken and items migrated",
        Kind::Clock | Kind::CostClock => "items under the hand",
        _ => "not counted: one end of a list",
    }
}

fn findings(traces: &[(Trace, u64)], times: &[Vec<f64>], steps: &[Option<Steps>]) -> Findings {
    let place = |kind: Kind, step: usize| {
        let kind = MODELS.iter().position(|one| *one == kind).expect("it is one of them");
        step * MODELS.len() + kind
    };
    let time = |kind, step| Spread::of(times[place(kind, step)].iter().copied());
    let last = STEPS.len() - 1;
    let growth = |kind| time(kind, last).median / time(kind, 0).median;
    let more = |kind| {
        let each = |step| steps[place(kind, step)].map_or(f64::NAN, |steps| steps.each);
        each(last) / each(0)
    };
    let rows = MODELS.iter().flat_map(|kind| {
        (0..STEPS.len()).map(move |step| {
            let counted = steps[place(*kind, step)];
            let number = |figure: fn(Steps) -> f64| {
                counted.map_or(Cell::Nothing, |steps| Cell::number(figure(steps), 3))
            };
            vec![
                Cell::text(kind.to_string()),
                Cell::count(traces[step].1),
                Cell::spread(time(*kind, step), 0),
                number(|steps| steps.each),
                number(|steps| steps.eviction),
                Cell::text(what(*kind)),
            ]
        })
    });
    let columns = [
        "policy",
        "items",
        "CPU ns / operation",
        "steps / operation",
        "steps / eviction",
        "a step",
    ];
    let series = MODELS.iter().map(|kind| Series {
        name: kind.to_string(),
        points: (0..STEPS.len())
            .map(|step| Point::spread(traces[step].1 as f64, time(*kind, step)))
            .collect(),
    });
    let beside = [more(Kind::GdPq), more(Kind::GdWheel), growth(Kind::GdPq), growth(Kind::GdWheel)];
    Findings {
        beside: beside.map(|figure| Cell::number(figure, 2)).to_vec(),
        text: vec![format!(
            "Models, zipfian reads, costs of {COSTS}, LRU hits about 95 %. Steps are the same on \
             every machine; times are of this one, with the memory that more items take: what the \
             list takes longer with ten times the items, each of the others does too."
        )],
        tables: vec![table("gd-wheel-sizes-of-cache", &columns, rows.collect())],
        plots: vec![Plot {
            name: "gd-wheel-sizes-of-cache".into(),
            title: "Time of an operation by the number of items".into(),
            x: Axis::logarithmic("items"),
            y: Axis::linear("CPU ns / operation"),
            series: series.collect(),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::{MODELS, SIZE, counted};
    use crate::paper::gd_wheel::workloads;
    use crate::policies::kind::Kind;
    use crate::workload::popularity::Choice;

    #[test]
    fn a_queue_takes_more_steps_with_more_items_and_wheels_do_not() {
        let of = |kind: Kind, keys: u64| {
            let mut trace =
                workloads::requests(keys, Choice::Zipfian, &SIZE, 1).expect("no file is needed");
            workloads::price(&mut trace, &SIZE, "gd-1", 1).expect("no file is needed");
            counted(kind, &(trace, keys * 3 / 4)).map(|steps| steps.each)
        };
        for kind in MODELS {
            let growth = of(kind, 10_000).zip(of(kind, 1_000)).map(|(large, small)| large / small);
            match kind {
                Kind::GdPq => assert!(growth > Some(1.2), "{growth:?}"),
                Kind::Lru => assert_eq!(growth, None),
                _ => assert!(growth < Some(1.1), "{kind}: {growth:?}"),
            }
        }
    }
}
