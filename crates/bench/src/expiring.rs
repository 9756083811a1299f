//! `larder-bench expiring`: does memory freed by expired items go to other sizes?
//!
//! Small items come at a steady rate and live for some seconds, except a fixed share that lives for
//! ever: so chunks come free everywhere, and no slab is ever empty. At first they come so fast that
//! they fill most of the memory, then at a third of that rate. In the last part large items that
//! live for ever come as well, as many as there is room for beside the others. A server that gives
//! the memory of small items to them evicts nothing.

use std::time::Duration;

use clap::Args;

use crate::failure::{Failure, Outcome};
use crate::load::exchange::Protocol;
use crate::machine::{self, Machine};
use crate::report::model::{Cell, Document, Section, Table};
use crate::report::{self, ReportOptions};
use crate::say;
use crate::server::recipe::{Kind, Recipe, ServerOptions};
use crate::server::{Server, query};
use crate::subject::send::{Pace, Schedule, send_by};
use crate::subject::{Subject, SubjectOptions};
use crate::trace::copies::Copies;
use crate::trace::{Operation, Request, Trace};

/// Bytes of the values.
const SMALL_BYTES: u32 = 150;
const LARGE_BYTES: u32 = 700;
const KEY_BYTES: u16 = 24;
/// One small item in this many lives for ever.
const KEPT_SHARE: u32 = 8;
/// Life of the others, in seconds.
const LIFE_S: u32 = 5;
const QUICK_LIFE_S: u32 = 1;
/// Items per life and MiB of memory: small ones at first, small ones later, and large ones.
const MANY: u32 = 3125;
const FEW: u32 = 900;
const LARGE: u32 = 150;
/// The length of each part of the run, in lives.
const LIVES: [u32; 3] = [2, 2, 3];
const QUICK_MEMORY_MB: u64 = 8;
/// Gets in flight at the end. Sets are paced.
const DEPTH: usize = 64;

/// The servers, and their memory.
#[derive(Debug, Args)]
pub struct ExpiringOptions {
    /// The servers.
    #[arg(long, value_enum, value_delimiter = ',',
        default_values_t = [Kind::Larder, Kind::Memcached])]
    servers: Vec<Kind>,
    /// Memory limit of each server in MiB.
    #[arg(short, long = "memory-mb", default_value_t = 64,
        value_parser = clap::value_parser!(u64).range(8..=1024))]
    memory_mb: u64,
    /// The seed of the values.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A small memory limit and short lives, as a smoke test.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    report: ReportOptions,
    #[command(flatten)]
    servers_options: ServerOptions,
}

/// The memory and the life of items.
#[derive(Debug, Clone, Copy)]
struct Plan {
    memory_mb: u64,
    life_s: u32,
}

impl Plan {
    fn of(options: &ExpiringOptions) -> Self {
        match options.quick {
            true => {
                Self { memory_mb: options.memory_mb.min(QUICK_MEMORY_MB), life_s: QUICK_LIFE_S }
            }
            false => Self { memory_mb: options.memory_mb, life_s: LIFE_S },
        }
    }

    /// Returns the items per second for `a_life` items per life and MiB.
    fn rate(self, a_life: u32) -> u32 {
        a_life / self.life_s * self.memory_mb as u32
    }

    /// Returns the length of each part of the run, in seconds.
    fn seconds(self) -> [u32; 3] {
        LIVES.map(|lives| lives * self.life_s)
    }
}

/// The results of one server at the end.
struct Sample {
    server: String,
    command: String,
    items: u64,
    evictions: u64,
    /// Stores per second in each part of the run.
    stores_per_second: Vec<f64>,
    /// Gets and hits of large items, and of small ones that live for ever.
    found: [[u64; 2]; 2],
}

/// Runs the command.
pub fn run(options: &ExpiringOptions) -> Outcome<()> {
    if options.servers.contains(&Kind::Null) {
        return Err(Failure::Usage("the null server keeps no items".into()));
    }
    let plan = Plan::of(options);
    let stores = stores(plan);
    let values = vec!["made:incompressible".parse().map_err(Failure::Usage)?];
    let subject = SubjectOptions {
        values,
        made_bytes: SMALL_BYTES,
        key_bytes: KEY_BYTES,
        seed: options.seed,
    };
    let bytes = f64::from(SMALL_BYTES + u32::from(KEY_BYTES)) * stores.len() as f64;
    let subject = subject.subjects(bytes)?.pop().expect("one kind of values");
    let recipes = options.servers_options.recipes(&options.servers)?;
    let machine = Machine::describe()
        .with_sides(&options.servers_options.server_cores, &[options.servers_options.client_core]);
    machine::pin(options.servers_options.client_core)?;
    let samples =
        report::measured(&recipes, |recipe| measure(options, recipe, plan, &subject, &stores))?;
    let document = document(machine, plan, &samples);
    say::out(report::text(&document))?;
    options.report.write(&document)
}

/// Returns all stores of a run, in order, with their seconds.
fn stores(plan: Plan) -> Vec<Request> {
    let small = |object: u32| Request {
        object,
        value_bytes: SMALL_BYTES,
        key_bytes: KEY_BYTES,
        ttl_s: if object.is_multiple_of(KEPT_SHARE) { 0 } else { plan.life_s },
        operation: Operation::Set,
        ..Request::default()
    };
    let ([many, few, both], [many_rate, few_rate, large_rate]) =
        (plan.seconds(), [MANY, FEW, LARGE].map(|a_life| plan.rate(a_life)));
    let rates = [(many, many_rate, 0), (few, few_rate, 0), (both, few_rate, large_rate)];
    let smalls: u32 = rates.iter().map(|(seconds, small_rate, _)| seconds * small_rate).sum();
    let (mut next_small, mut next_large, mut began_s) = (0, smalls, 0);
    let mut stores = Vec::new();
    for (seconds, small_rate, large_rate) in rates {
        for second in 0..seconds {
            for number in 0..small_rate {
                let time_s = began_s + second;
                stores.push(Request { time_s, ..small(next_small) });
                next_small += 1;
                // As evenly as whole numbers allow.
                let due = |number| large_due(number, large_rate, small_rate);
                if due(number + 1) > due(number) {
                    let (object, value_bytes) = (next_large, LARGE_BYTES);
                    stores.push(Request { object, value_bytes, ttl_s: 0, time_s, ..small(0) });
                    next_large += 1;
                }
            }
        }
        began_s += seconds;
    }
    stores
}

/// Returns how many large items are due with the first `smalls` small ones of a second.
fn large_due(smalls: u32, large_rate: u32, small_rate: u32) -> u64 {
    u64::from(smalls) * u64::from(large_rate) / u64::from(small_rate)
}

fn measure(
    options: &ExpiringOptions,
    recipe: &Recipe,
    plan: Plan,
    subject: &Subject,
    stores: &[Request],
) -> Outcome<Sample> {
    let server = Server::start(recipe, plan.memory_mb, &options.servers_options.server_cores)?;
    let ask = |requests: Vec<Request>, per_second| {
        let pace = Pace { connections: 1, depth: DEPTH, per_second, fills_misses: false };
        let (mut requests, limits) = (requests.into_iter(), (u64::MAX, Duration::MAX));
        let mut schedule = Schedule::begin();
        let phase = send_by(Some(&mut schedule), &server, subject, pace, limits, |count| {
            trace(requests.by_ref().take(count as usize).collect(), stores.len() as u32)
        })?;
        let counts = phase.found.counts;
        Outcome::Ok(([counts.gets, counts.hits], schedule.per_second()))
    };
    let (mut began_s, mut stores_per_second) = (0, Vec::new());
    for seconds in plan.seconds() {
        let part = began_s..began_s + seconds;
        let part: Vec<_> = stores.iter().filter(|it| part.contains(&it.time_s)).copied().collect();
        let rate = part.len() as f64 / f64::from(seconds);
        stores_per_second.push(ask(part, Some(rate))?.1);
        began_s += seconds;
    }
    let query::Counts { items, evictions } =
        query::counts(server.address, server.dialect).map_err(|failure| server.explain(failure))?;
    let gets = |is_large: bool| {
        let bytes = if is_large { LARGE_BYTES } else { SMALL_BYTES };
        let stays = stores.iter().filter(|it| it.ttl_s == 0 && it.value_bytes == bytes);
        stays.map(|it| Request { operation: Operation::Get, ..*it }).collect()
    };
    let found = [ask(gets(true), None)?.0, ask(gets(false), None)?.0];
    let (name, command) = (server.name.clone(), server.command_line.clone());
    Ok(Sample { server: name, command, items, evictions, stores_per_second, found })
}

fn trace(requests: Vec<Request>, objects: u32) -> Copies {
    Trace { name: "expiring".into(), requests, objects }.into()
}

fn document(machine: Machine, plan: Plan, samples: &[Sample]) -> Document {
    let life_s = plan.life_s;
    let mut section = Section::new(
        "Items that live for ever and were found at the end, percent",
        [format!(
            "Small items live for {life_s} seconds, but for one in {KEPT_SHARE}; large ones come \
             when fewer small ones do. There is room for all that are alive. Every value that was \
             found was compared. Stores a second are those that it was really sent: at first, \
             later, and with large items at the end."
        )],
    );
    let parts = ["stores/s at first", "stores/s later", "stores/s at the end"];
    let columns = [&["server", "large", "small", "evictions", "items"][..], &parts].concat();
    let columns = columns.into_iter().map(String::from).collect();
    let rows = samples.iter().map(|sample| {
        let percent =
            |[gets, hits]: [u64; 2]| Cell::number(100.0 * hits as f64 / gets.max(1) as f64, 1);
        let [large, small] = sample.found.map(percent);
        let counts = [sample.evictions, sample.items].map(Cell::count);
        let mut row = vec![Cell::text(sample.server.clone()), large, small];
        row.extend(counts);
        row.extend(sample.stores_per_second.iter().map(|rate| Cell::number(*rate, 0)));
        row
    });
    section.tables.push(Table { name: "expiring".into(), columns, rows: rows.collect() });
    let [many, few, large] = [MANY, FEW, LARGE].map(|a_life| plan.rate(a_life));
    let mut facts = vec![
        ("memory limit".to_owned(), format!("{} MiB", plan.memory_mb)),
        (
            "small items".to_owned(),
            format!("{SMALL_BYTES} bytes, {many}/s and then {few}/s wanted"),
        ),
        ("large items".to_owned(), format!("{LARGE_BYTES} bytes, {large}/s wanted at the end")),
    ];
    facts.push(Protocol::fact_of_paced_sets(DEPTH));
    facts.extend(samples.iter().map(|sample| ("server".to_owned(), sample.command.clone())));
    Document { title: "Where items expire".into(), machine, facts, sections: vec![section] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: from 892 MiB on the product overflowed, and the command panicked or left a large
    /// item out.
    #[test]
    fn the_most_memory_has_its_large_items_too() {
        let plan = Plan { memory_mb: 1024, life_s: LIFE_S };
        let (few, large) = (plan.rate(FEW), plan.rate(LARGE));
        assert_eq!(large_due(few, large, few), u64::from(large));
    }

    #[test]
    fn every_object_is_stored_once_and_what_is_alive_at_the_end_has_room() {
        for plan in [Plan { memory_mb: 8, life_s: 1 }, Plan { memory_mb: 64, life_s: 5 }] {
            let stores = stores(plan);
            let mut objects: Vec<u32> = stores.iter().map(|it| it.object).collect();
            objects.sort_unstable();
            assert!(objects.into_iter().eq(0..stores.len() as u32));
            assert!(stores.is_sorted_by_key(|it| it.time_s));
            let end: u32 = plan.seconds().iter().sum();
            let alive = |it: &&Request| it.ttl_s == 0 || it.time_s + it.ttl_s >= end;
            let bytes = |it: &Request| u64::from(it.value_bytes + u32::from(it.key_bytes));
            let alive: u64 = stores.iter().filter(alive).map(bytes).sum();
            let memory = plan.memory_mb << 20;
            assert!((memory / 2..memory * 3 / 4).contains(&alive), "{alive} of {memory}");
            let large = stores.iter().filter(|it| it.value_bytes == LARGE_BYTES).count() as u32;
            assert_eq!(large, plan.rate(LARGE) * plan.seconds()[2]);
        }
    }
}
