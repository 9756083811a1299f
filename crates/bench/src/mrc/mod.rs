//! `larder-bench mrc`: the misses of every policy, at a range of sizes.
//!
//! ```text
//!   trace -> lengths (`values`) -> every policy at every size (`sweep`) -> tables and plot
//!        \-> a sample of its objects (`shards`) -> the same, and how far off it is
//! ```
//!
//! Sizes are numbers of objects, or bytes of memory with all of an item's overhead; the report
//! states the overhead of each policy. The trace is held once, at 28 bytes for each request and its
//! next use; each running simulation adds less than 100 bytes for each object.

mod document;
pub mod live;
mod shards;
pub mod sweep;

use std::num::NonZeroUsize;

use clap::{Args, ValueEnum};

use crate::amounts::Amounts;
use crate::arguments::{each_once, share};
use crate::failure::{Failure, Outcome};
use crate::machine::Machine;
use crate::policies::kind::Kind;
use crate::policies::stack;
use crate::report;
use crate::report::ReportOptions;
use crate::say;
use crate::trace::copies::{Copies, CopyOptions};
use crate::values::{self, ValueOptions, Values};
use crate::workload::requests::Requests;
use document::{Curve, Findings};
use sweep::{Measure, Sweep};

/// The default sizes.
const OBJECTS: &str = "1%,5%,10%,20%";

/// The policies and sizes to simulate.
#[derive(Debug, Args)]
pub struct MrcOptions {
    /// The trace file, or "make" and the options of a workload in one argument.
    trace: Requests,
    /// The policies [default: all of them].
    #[arg(long, value_enum, value_delimiter = ',')]
    policies: Vec<Kind>,
    /// Memory in MiB or percent of all keys and values: `16,64` or `1..64` (doubling) or `5%`.
    #[arg(long, value_name = "SIZES", conflicts_with = "objects")]
    memory: Option<Amounts>,
    /// Sizes in objects or percent of the distinct objects [default: 1%,5%,10%,20%].
    #[arg(long, value_name = "SIZES")]
    objects: Option<Amounts>,
    /// Also compute the exact curve of LRU at this many sizes, in one pass.
    #[arg(long, value_name = "POINTS", value_parser = clap::value_parser!(u16).range(2..=1000))]
    curve: Option<u16>,
    /// Simulate only this share of the objects, and scale the sizes (SHARDS).
    #[arg(long, value_name = "RATE", value_parser = share)]
    shards: Option<f64>,
    /// With --shards: simulate all objects too, and report the error of the sample.
    #[arg(long, requires = "shards")]
    full: bool,
    /// Simulations that run at a time [default: the cores].
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    copies: CopyOptions,
    #[command(flatten)]
    values: ValueOptions,
    #[command(flatten)]
    report: ReportOptions,
}

impl MrcOptions {
    /// Refuses options that would change nothing: in objects all weigh the same.
    fn check_heard(&self) -> Outcome<()> {
        if self.memory.is_none() && self.values.is_any_given() {
            let what = "--values, --value-bytes and --key-bytes count where --memory is given";
            return Err(Failure::Usage(what.into()));
        }
        Ok(())
    }
}

/// Runs the command.
pub fn run(options: &MrcOptions) -> Outcome<()> {
    each_once("--policies", &options.policies)?;
    options.check_heard()?;
    let mut trace = options.copies.of(options.trace.read_filled()?)?;
    let (measure, sizes, data_bytes) = sizes(options, &mut trace)?;
    let kinds = match options.policies.as_slice() {
        [] => Kind::value_variants(),
        chosen => chosen,
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = options.threads.map_or(cores, NonZeroUsize::get);
    let sweep = |trace: &Copies, sizes: &[u64]| -> Vec<Curve> {
        Sweep { trace, kinds, measure, sizes, threads }.run()
    };
    let (sampled, full) = match options.shards {
        None => (None, Some(sweep(&trace, &sizes))),
        Some(rate) => {
            let sample = shards::sample(&trace, rate)?;
            let curves = sweep(&sample, &shards::scale(&sizes, rate));
            let curves = shards::adjust(curves, &trace, rate);
            (Some((rate, curves)), options.full.then(|| sweep(&trace, &sizes)))
        }
    };
    let exact = options.curve.map(|points| {
        let scale = measure.scale(Kind::Lru);
        let sizes = document::spaced(*sizes.last().expect("a list has an entry"), points);
        let tallies = stack::lru_at(trace.iter(), trace.objects(), scale, &sizes);
        sizes.into_iter().zip(tallies).collect()
    });
    let findings =
        Findings { trace: &trace, measure, data_bytes, sizes: &sizes, full, sampled, exact };
    let document = document::write(Machine::describe(), &findings);
    say::out(report::text(&document))?;
    options.report.write(&document)
}

/// Returns how caches are measured, the sizes to simulate, and the bytes of the data if they count.
fn sizes(options: &MrcOptions, trace: &mut Copies) -> Outcome<(Measure, Vec<u64>, Option<u64>)> {
    let Some(memory) = &options.memory else {
        let default = || OBJECTS.parse().expect("the default is a list of sizes");
        let amounts = options.objects.clone().unwrap_or_else(default);
        return Ok((Measure::Objects, amounts.resolve(1, u64::from(trace.objects())), None));
    };
    Values::attach(&options.values, trace, options.trace.seed())?;
    let data_bytes = values::data_bytes(trace.iter(), trace.objects());
    Ok((Measure::Memory, memory.resolve(1 << 20, data_bytes), Some(data_bytes)))
}
