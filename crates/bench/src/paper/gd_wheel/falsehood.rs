//! A client that states the highest possible cost for its values, and then reads them no more: how
//! long they stay, and what that costs the others.
//!
//! ```text
//!   warm: all keys are read, some of which lie      then: those that lie are left out
//!   ------------------------------------------->|------------------------------------->
//!                                               evictions are counted, in caches full, and how
//!                                               many of those that lied are still there
//! ```
//!
//! A policy cannot tell a lie from a high cost. But its inflation, or the rounds of its hand, go on
//! while others are stored, and reach any bound that the policy has for a cost.
//!
//! Values with false costs are one byte shorter, so that a cache's count of bytes tells how many of
//! them it holds.

use clap::ValueEnum;

use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::policies::weight;
use crate::random::Random;
use crate::replay::EnginePolicy;
use crate::replay::cache::Contents;
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::trace::{Request, Trace};
use crate::workload::popularity::Choice;
use crate::workload::sizes::SizeChoice;

use super::costs::MODELS;
use super::runs::{Contender, ENGINE_ITEM_BYTES, SUBJECT};
use super::workloads;

/// Values of others; those with false costs have one byte less. Large, so that few items fill the
/// fewest slabs that the engine works with.
const VALUE_BYTES: u32 = 1400;
const SIZE: SizeChoice = SizeChoice::Fixed(VALUE_BYTES);
const COSTS: &str = "gd-1";
const KEYS: u64 = 4_000;
const KEY_BYTES: u32 = 16;
/// Keys with false costs in a hundred. The rest must not fit, or nothing is evicted any more.
const LIARS: [u64; 3] = [1, 5, 10];
/// The share that the claim is about.
const LIARS_CLAIM: u64 = 10;
/// The length of the observation, in caches full of evictions: more than the rounds of the engine's
/// marks.
const FULLS_MAX: u64 = 160;
/// The length of the observation at a small scale.
const FULLS_QUICK: u64 = 6;
/// The least share of the full experiment at which the whole length is observed.
const SHARE_FULL: f64 = 0.01;
/// The most reads for each of these evictions: where fewer miss, the run ends.
const REQUESTS_PER_EVICTION_MAX: u64 = 100;
/// Looks per cache full of evictions.
const LOOKS: u64 = 4;
/// The caches full of evictions after which the rest is shown.
const SHOWN: [u64; 4] = [1, 4, 16, 64];
/// Hits of the others are counted until this many caches full.
const MEANWHILE: u64 = 4;

/// The results of one contender.
struct Course {
    /// The remaining share, in percent, at each look.
    left: Vec<f64>,
    /// Evictions between two looks, in caches full.
    step: f64,
    /// Hits of the others' reads meanwhile, in percent.
    hits: f64,
}

impl Course {
    /// Returns the evictions, in caches full, until no more than `percent` percent are left.
    fn until(&self, percent: f64) -> Option<f64> {
        let look = self.left.iter().position(|left| *left <= percent)?;
        Some(look as f64 * self.step)
    }

    /// Returns the remaining share after this many caches full, in percent.
    fn after(&self, fulls: u64) -> Option<f64> {
        self.left.get((fulls as f64 / self.step).round() as usize).copied()
    }
}

/// Measures false costs of some keys, with every policy.
pub fn false_costs(scale: &Scale) -> Outcome<Findings> {
    let fulls = if scale.share < SHARE_FULL { FULLS_QUICK } else { FULLS_MAX };
    let mut trace = workloads::requests(KEYS, Choice::Zipfian, &SIZE, scale.seed)?;
    workloads::price(&mut trace, &SIZE, COSTS, scale.seed)?;
    let items = workloads::room(&trace, weight::Scale::Objects);
    let models = MODELS.map(|kind| Contender::Model(kind, weight::Scale::Bytes(0)));
    let engines = EnginePolicy::value_variants().iter().map(|policy| Contender::Engine(*policy));
    let contenders: Vec<Contender> = models.into_iter().chain(engines).collect();
    let (mut rows, mut series, mut beside) = (Vec::new(), Vec::new(), Cell::Nothing);
    for liars in LIARS {
        let lies = |request: &Request| {
            Random::new(scale.seed ^ u64::from(request.object)).below(100) < liars
        };
        let mut trace = trace.clone();
        trace.requests.iter_mut().filter(|one| lies(one)).for_each(|one| one.value_bytes -= 1);
        for contender in &contenders {
            let lying = course(*contender, items, &trace, fulls, u32::MAX)?;
            let honest = course(*contender, items, &trace, MEANWHILE, 0)?;
            if liars == LIARS_CLAIM {
                series.push(curve(contender.name(), &lying));
                if *contender == Contender::Engine(SUBJECT) {
                    beside = within(lying.until(50.0), fulls);
                }
            }
            rows.push(row(liars, contender.name(), &lying, &honest, fulls));
        }
    }
    Ok(findings(beside, rows, series, fulls, items))
}

/// Returns whether a request is for a value with a false cost.
fn is_lie(request: &Request) -> bool {
    request.value_bytes < VALUE_BYTES
}

/// Returns how many of a cache's items have a false cost.
fn lies_in(contents: Contents) -> u64 {
    let data_bytes = contents.data_bytes.unwrap_or(contents.used_bytes);
    contents.items * u64::from(KEY_BYTES + VALUE_BYTES) - data_bytes
}

/// Warms a cache, with false costs of at least `claimed_us`, and then observes it while only the
/// others are read.
fn course(
    contender: Contender,
    items: u64,
    trace: &Trace,
    fulls: u64,
    claimed_us: u32,
) -> Outcome<Course> {
    let overhead = if matches!(contender, Contender::Engine(_)) { ENGINE_ITEM_BYTES } else { 0 };
    let room = items * (u64::from(KEY_BYTES + VALUE_BYTES) + overhead);
    let (warm, rest) = trace.requests.split_at(workloads::warm(trace));
    contender.with(room, trace.objects, |client| {
        for request in warm {
            let lied_us = if is_lie(request) { claimed_us } else { 0 };
            client.ask(request, request.cost_us.max(lied_us))?;
        }
        let full = client.cache.contents().items;
        let at_first = lies_in(client.cache.contents()).max(1);
        let mut course = Course { left: vec![100.0], step: 1.0 / LOOKS as f64, hits: 0.0 };
        let (mut misses, mut asked) = (0, 0);
        let others = rest.iter().filter(|request| !is_lie(request)).cycle();
        for request in others.take((fulls * full * REQUESTS_PER_EVICTION_MAX) as usize) {
            asked += 1;
            misses += u64::from(client.ask(request, request.cost_us)? == Some(false));
            if misses <= MEANWHILE * full {
                course.hits = 100.0 - 100.0 * misses as f64 / asked as f64;
            }
            if misses * LOOKS >= course.left.len() as u64 * full {
                let left = lies_in(client.cache.contents());
                course.left.push(100.0 * left as f64 / at_first as f64);
                let is_over = misses >= fulls * full || left == 0;
                if is_over && misses >= MEANWHILE * full {
                    break;
                }
            }
        }
        Ok(course)
    })
}

/// Formats a number of caches full, or that it exceeds the observation.
fn within(fulls: Option<f64>, most: u64) -> Cell {
    fulls.map_or_else(|| Cell::Text(format!("> {most}")), |fulls| Cell::number(fulls, 2))
}

fn row(liars: u64, name: String, lying: &Course, honest: &Course, fulls: u64) -> Vec<Cell> {
    let shown = SHOWN.iter().map(|after| {
        let gone = lying.until(0.0).map_or(Cell::Nothing, |_| Cell::number(0.0, 1));
        lying.after(*after).map_or(gone, |left| Cell::number(left, 1))
    });
    [Cell::count(liars), Cell::Text(name)]
        .into_iter()
        .chain(shown)
        .chain([within(lying.until(50.0), fulls), within(lying.until(0.0), fulls)])
        .chain([lying.hits, honest.hits].map(|hits| Cell::number(hits, 2)))
        .collect()
}

fn curve(name: String, course: &Course) -> Series {
    let point = |(look, left): (usize, &f64)| Point::exact(look as f64 * course.step, *left);
    Series { name, points: course.left.iter().enumerate().skip(1).map(point).collect() }
}

fn findings(
    beside: Cell,
    rows: Vec<Vec<Cell>>,
    series: Vec<Series>,
    fulls: u64,
    items: u64,
) -> Findings {
    let after = SHOWN.map(|fulls| format!("left after {fulls}, %"));
    let columns: Vec<&str> = ["lies, % of keys", "cache"]
        .into_iter()
        .chain(after.iter().map(String::as_str))
        .chain(["half gone after", "all gone after", "others' hits, %", "without lies, %"])
        .collect();
    Findings {
        beside: vec![beside],
        text: vec![format!(
            "{KEYS} keys, costs of {COSTS}, values of {VALUE_BYTES} bytes, room for {items} items; \
             a share of the keys claims 4294967295 microseconds, is read like all others until the \
             cache is warm, and then no more. Evictions are counted in caches full, up to {fulls}. \
             Hits are of the others' reads during the first {MEANWHILE} caches full, with the lies \
             and with true costs. The models of the wheels take costs up to 65535."
        )],
        tables: vec![table("gd-wheel-false-costs", &columns, rows)],
        plots: vec![Plot {
            name: "gd-wheel-false-costs".into(),
            title: format!("Items that lied and are read no more, {LIARS_CLAIM} % of the keys"),
            x: Axis::logarithmic("evictions (caches full)"),
            y: Axis::linear("left (%)"),
            series,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::{Course, lies_in};
    use crate::replay::cache::Contents;

    #[test]
    fn bytes_tell_how_many_items_are_one_byte_short() {
        let contents = Contents { items: 10, used_bytes: 10 * 1416 - 3, data_bytes: None };
        assert_eq!(lies_in(contents), 3);
        let contents = Contents { used_bytes: 99_999, data_bytes: Some(10 * 1416), ..contents };
        assert_eq!(lies_in(contents), 0);
    }

    #[test]
    fn a_course_says_when_so_much_was_gone() {
        let course = Course { left: vec![100.0, 60.0, 50.0, 1.0, 0.0], step: 0.25, hits: 0.0 };
        assert_eq!((course.until(50.0), course.until(0.0)), (Some(0.5), Some(1.0)));
        assert_eq!((course.after(1), course.after(2)), (Some(0.0), None));
    }
}
