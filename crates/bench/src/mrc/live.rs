//! `larder-bench mrc-live`: the curve on a server's admin port, estimated from a sample of the keys
//! in under a hundredth of the cache's memory, beside the exact one.
//!
//! ```text
//!   trace --sampled requests--> insight::Watcher, as in the server      predicted
//!        |--all requests------> LRU's stack, exact                      misses, and how far off
//!        `--all requests------> the engine itself, with --engine        what Larder's policy does
//! ```
//!
//! A get that misses is followed by a store, as everywhere here. Nothing fades: the whole trace
//! counts alike. The sampled keys are chosen by seeds, with one row of errors for each.

use clap::Args;
use insight::{After, Event, Watcher};

use crate::amounts::Amounts;
use crate::failure::{Failure, Outcome};
use crate::machine::Machine;
use crate::policies::kind::Kind;
use crate::policies::simulate::Tally;
use crate::policies::stack;
use crate::policies::weight::Scale;
use crate::random::Random;
use crate::replay::{self, Done};
use crate::report;
use crate::report::ReportOptions;
use crate::report::model::{Cell, Document, Section, Table};
use crate::say;
use crate::trace::Operation;
use crate::trace::copies::{Copies, CopyOptions};
use crate::values::{self, ValueOptions, Values};
use crate::workload::requests::Requests;

const MIB: f64 = (1_u64 << 20) as f64;

/// The trace, the cache, and the sizes to compare.
#[derive(Debug, Args)]
pub struct LiveOptions {
    /// The trace file, or "make" and the options of a workload in one argument.
    trace: Requests,
    /// The memory of the cache of which the estimator takes less than a hundredth, in MiB or
    /// percent of all keys and values [default: 64, as a server's].
    #[arg(long, value_name = "SIZE", default_value = "64", hide_default_value = true,
        value_parser = Amounts::one)]
    present: Amounts,
    /// Sizes to compare at, in MiB or percent of all keys and values.
    #[arg(long, value_name = "SIZES", default_value = "2%,5%,10%,15%,20%,30%,40%,50%,70%,100%")]
    memory: Amounts,
    /// Number of samples, one after the other, each with other keys.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    seeds: u8,
    /// Fail if the error of any point exceeds this many percentage points.
    #[arg(long, value_name = "POINTS", value_parser = points)]
    within: Option<f64>,
    /// Also replay the trace in the engine at each size.
    #[arg(long)]
    engine: bool,
    #[command(flatten)]
    copies: CopyOptions,
    #[command(flatten)]
    values: ValueOptions,
    #[command(flatten)]
    report: ReportOptions,
}

/// Reads a number of percentage points.
fn points(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(points) if points >= 0.0 && points.is_finite() => Ok(points),
        _ => Err("points are a number of at least 0".into()),
    }
}

/// The results of one sample.
struct Found {
    seed: u8,
    miss_ratios: Vec<f64>,
    errors: Vec<f64>,
    keys: usize,
    rate: f64,
    memory_bytes: usize,
}

/// Runs the command.
pub fn run(options: &LiveOptions) -> Outcome<()> {
    let mut trace = options.copies.of(options.trace.read_filled()?)?;
    let values = Values::attach(&options.values, &mut trace, options.trace.seed())?;
    let data_bytes = values::data_bytes(trace.iter(), trace.objects());
    let sizes = options.memory.resolve(1 << 20, data_bytes);
    let present = *options.present.resolve(1 << 20, data_bytes).first().expect("it has a size");
    let scale = Kind::Lru.memory_scale();
    let exact = stack::lru_at(trace.iter(), trace.objects(), scale, &sizes);
    let seeds = 1..=options.seeds;
    let found: Vec<Found> =
        seeds.map(|seed| estimate(&trace, scale, present, &sizes, seed)).collect();
    let engine = sizes.iter().filter(|_| options.engine);
    let engine: Vec<Done> =
        engine.map(|&size| replay::engine_done(&trace, &values, size)).collect::<Outcome<_>>()?;
    let section = Section::new(
        format!("Live estimate of {}", trace.name()),
        ["Misses of LRU in percent of reads: exact, and as the estimator predicts them from its \
          sample; how far off that is, in points, and what it says itself that chance may do."],
    );
    let section = Section {
        tables: vec![curve_table(&sizes, &exact, &found[0], &engine), error_table(&exact, &found)],
        ..section
    };
    let mut facts = vec![
        ("trace".to_owned(), trace.name()),
        ("requests".to_owned(), trace.len().to_string()),
        ("objects".to_owned(), trace.objects().to_string()),
        ("data".to_owned(), values::data_in_words(data_bytes)),
        ("memory of the cache".to_owned(), format!("{:.2} MiB", present as f64 / MIB)),
    ];
    facts.extend(trace.filled_in_words());
    let title = format!("The live miss-ratio curve over {}", trace.name());
    let document = Document { title, machine: Machine::describe(), facts, sections: vec![section] };
    say::out(report::text(&document))?;
    options.report.write(&document)?;
    let most = found.iter().map(|one| off_by(&exact, one).1).fold(0.0, f64::max);
    match options.within {
        Some(points) if most > points => {
            Err(Failure::Check(format!("a point is {most:.2} points off, not within {points}")))
        }
        _ => Ok(()),
    }
}

/// Feeds a trace to an estimator that has its share of `present` bytes.
fn estimate(trace: &Copies, scale: Scale, present: u64, sizes: &[u64], seed: u8) -> Found {
    let mut watcher = Watcher::of_cache(present as usize);
    watcher.set_present(*sizes.last().expect("a list has an entry") as f64);
    let salt = Random::new(u64::from(seed)).word();
    let mut gets = 0_u64;
    for request in trace.iter() {
        let hash = Random::new(u64::from(request.object) ^ salt).word();
        let after = match request.operation {
            Operation::Delete => After::Deleted,
            _ => {
                After::Item { bytes: scale.weigh(&request), cost_us: request.cost_us, expiry_s: 0 }
            }
        };
        let is_read = request.operation == Operation::Get;
        gets += u64::from(is_read);
        let read = is_read.then_some(false);
        watcher.observe(&Event { hash, now_s: 0, flushes: 0, read, after });
    }
    watcher.count(gets as f64, 0.0);
    let points: Vec<_> =
        sizes.iter().map(|size| watcher.curve().at(*size as f64).unwrap_or_default()).collect();
    Found {
        seed,
        miss_ratios: points.iter().map(|point| point.miss_ratio).collect(),
        errors: points.iter().map(|point| point.error).collect(),
        keys: watcher.keys(),
        rate: watcher.rate(),
        memory_bytes: watcher.memory_bytes(),
    }
}

/// Returns the mean and the greatest error of a sample, in points.
fn off_by(exact: &[Tally], found: &Found) -> (f64, f64) {
    let pairs = exact.iter().zip(&found.miss_ratios);
    let errors: Vec<f64> =
        pairs.map(|(tally, ratio)| 100.0 * (tally.miss_ratio() - ratio).abs()).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    (mean, errors.iter().copied().fold(0.0, f64::max))
}

fn curve_table(sizes: &[u64], exact: &[Tally], found: &Found, engine: &[Done]) -> Table {
    let mut columns = ["MiB", "LRU, exact", "live", "off by", "standard error"].to_vec();
    if !engine.is_empty() {
        columns.extend(["Larder", "Larder beyond live", "refused"]);
    }
    let percent = |ratio: f64| Cell::number(100.0 * ratio, 2);
    let rows = (0..sizes.len()).map(|at| {
        let (exact, live) = (exact[at].miss_ratio(), found.miss_ratios[at]);
        let mut row = vec![
            Cell::number(sizes[at] as f64 / MIB, 2),
            percent(exact),
            percent(live),
            percent(live - exact),
            percent(found.errors[at]),
        ];
        if let Some(Done { tally, refused, .. }) = engine.get(at) {
            row.extend([percent(tally.miss_ratio()), percent(tally.miss_ratio() - live)]);
            row.push(Cell::count(*refused));
        }
        row
    });
    Table {
        name: "live-curve".into(),
        columns: columns.into_iter().map(String::from).collect(),
        rows: rows.collect(),
    }
}

fn error_table(exact: &[Tally], found: &[Found]) -> Table {
    let columns = ["seed", "mean, points", "most, points", "keys known", "percent sampled", "KiB"];
    let row = |one: &Found| {
        let (mean, most) = off_by(exact, one);
        vec![
            Cell::text(one.seed.to_string()),
            Cell::number(mean, 2),
            Cell::number(most, 2),
            Cell::number(one.keys as f64, 0),
            Cell::number(100.0 * one.rate, 3),
            Cell::number(one.memory_bytes as f64 / 1024.0, 1),
        ]
    };
    Table::new("live-error", &columns, found.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::{estimate, off_by, points};
    use crate::policies::check::{reads, skewed};
    use crate::policies::stack;
    use crate::policies::weight::Scale;
    use crate::random::Random;
    use crate::trace::Trace;
    use crate::trace::copies::Copies;

    /// An error is never greater than a limit that is not a number.
    #[test]
    fn points_are_a_number() {
        assert!(["nan", "-1", "inf", "x"].iter().all(|text| points(text).is_err()));
        assert_eq!((points("0"), points("1.5")), (Ok(0.0), Ok(1.5)));
    }

    /// Skewed reads of objects of very different lengths, in a hundredth of the memory that holds a
    /// quarter of them: within two points of LRU at ten sizes, whichever keys are in the sample.
    #[test]
    fn a_sample_in_a_hundredth_of_the_memory_is_within_two_points() {
        let objects = 200_000;
        let mut random = Random::new(11);
        let asked: Vec<u32> = (0..1_500_000).map(|_| skewed(&mut random, objects)).collect();
        let mut requests = reads(&asked);
        for request in &mut requests {
            request.value_bytes = 20 + (Random::new(u64::from(request.object)).word() % 800) as u32;
        }
        let trace: Copies = Trace { name: "skewed".into(), requests, objects }.into();
        let data_bytes = u64::from(objects) * 420;
        let sizes: Vec<u64> = (1..=10).map(|tenth| data_bytes * tenth / 10).collect();
        let exact = stack::lru_at(trace.iter(), objects, Scale::Bytes(0), &sizes);
        let present = data_bytes / 4;
        for seed in 1..=3 {
            let found = estimate(&trace, Scale::Bytes(0), present, &sizes, seed);
            assert!(found.memory_bytes * 100 < present as usize, "{}", found.memory_bytes);
            let (mean, most) = off_by(&exact, &found);
            assert!(most < 2.0, "seed {seed}: {most} at most, {mean} in the mean");
        }
    }
}
