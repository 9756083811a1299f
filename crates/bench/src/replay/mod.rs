//! `larder-bench replay`: a trace in the real engine, in this process, beside memcached's LRU and a
//! cache that knows the future with the same memory.
//!
//! ```text
//!   trace -> threads (`drive`) --get, on a miss set--> `cache::Cache`
//!                                                       |- Engine: crate `larder`, with values
//!                                                       `- Model: a policy, without values
//! ```
//!
//! The engine runs as in the server: a separate thread does the background's work. Every returned
//! value is compared with the stored one, as far as the trace determines it. Time to live follows
//! the trace's clock.
//!
//! `clock, same items` is no rival but a check of the engine: CLOCK with exactly the bytes for each
//! item of an engine that does not compress. Larder decides by CLOCK within each size class, so the
//! two should nearly agree.

pub mod cache;
mod compressed;
mod document;
mod drive;
pub mod engine;

use std::sync::Arc;

use clap::{Args, ValueEnum};

use crate::amounts::Amounts;
use crate::arguments::each_once;
use crate::failure::Outcome;
use crate::machine::{self, Machine};
use crate::mrc::sweep::{self, Measure};
use crate::policies::belady::next_uses;
use crate::policies::kind::Kind;
use crate::policies::weight::Scale;
use crate::report;
use crate::report::ReportOptions;
use crate::say;
use crate::trace::copies::{Copies, CopyOptions};
use crate::values::{self, ValueOptions, Values};
use crate::workload::requests::Requests;
use cache::Model;
use compressed::Compressed;
use document::Row;
pub use drive::Done;
use drive::Replay;
use engine::Engine;

/// The trace, and the engines and models to replay it in.
#[derive(Debug, Args)]
pub struct ReplayOptions {
    /// The trace file, or "make" and the options of a workload in one argument.
    trace: Requests,
    /// Memory limits in MiB or percent of all keys and values: `16,64`, `1..64` (doubling), `5%`.
    #[arg(long, value_name = "SIZES", default_value = "5%,10%,20%,50%")]
    memory: Amounts,
    /// Threads that send requests at the same time; each has objects of its own. Several numbers:
    /// each in turn.
    #[arg(long, value_delimiter = ',', default_value = "1",
        value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Vec<u8>,
    /// The engine's policies; each in turn.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [EnginePolicy::Clock])]
    engine_policies: Vec<EnginePolicy>,
    /// Whether the engine may compress seldom used items; several: each in turn [default: the
    /// engine's own default].
    #[arg(long, value_enum, value_delimiter = ',')]
    engine_compressed: Vec<Compressed>,
    /// Models to replay beside the engine.
    #[arg(long, value_enum, value_delimiter = ',',
        default_values_t = [Kind::Memcached, Kind::Belady])]
    policies: Vec<Kind>,
    #[command(flatten)]
    copies: CopyOptions,
    #[command(flatten)]
    values: ValueOptions,
    #[command(flatten)]
    report: ReportOptions,
}

/// A policy of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EnginePolicy {
    /// Recency alone.
    Clock,
    /// Recency and costs, approximately.
    CostClock,
    /// Recency and costs, by cost wheels; a unit is a microsecond.
    GdWheel,
    /// A list with a second chance.
    Lru,
}

impl EnginePolicy {
    /// Returns the engine's own value for it.
    pub fn policy(self) -> larder::Policy {
        match self {
            EnginePolicy::Clock => larder::Policy::Clock,
            EnginePolicy::CostClock => larder::Policy::CostClock,
            EnginePolicy::GdWheel => larder::Policy::GdWheel,
            EnginePolicy::Lru => larder::Policy::Lru,
        }
    }

    /// Returns the report's name of an engine with this policy.
    pub fn title(self) -> &'static str {
        match self {
            EnginePolicy::Clock => "larder",
            EnginePolicy::CostClock => "larder, cost-clock",
            EnginePolicy::GdWheel => "larder, gd-wheel",
            EnginePolicy::Lru => "larder, lru",
        }
    }
}

/// Returns every policy of the engine with every wish about compression, which is none without the
/// option.
fn contenders(options: &ReplayOptions) -> Vec<(EnginePolicy, Option<Compressed>)> {
    let wishes: Vec<Option<Compressed>> = match options.engine_compressed.as_slice() {
        [] => vec![None],
        wishes => wishes.iter().copied().map(Some).collect(),
    };
    let policies = options.engine_policies.iter();
    policies.flat_map(|policy| wishes.iter().map(|wish| (*policy, *wish))).collect()
}

/// Returns the engine's counts over a trace with `limit` bytes of memory, by recency alone and
/// without its compressed zone, as `replay` runs it by default.
pub fn engine_done(trace: &Copies, values: &Values, limit: u64) -> Outcome<Done> {
    let engine = Engine::new(limit, larder::Policy::Clock)?;
    let replay = Replay { trace, values, threads: 1 };
    let progress = report::progress(trace.len() as u64);
    let done = engine.maintained(|| replay.run(&engine, &|requests| progress.inc(requests)));
    progress.finish_and_clear();
    done.all_right()
}

/// A trace with everything that replaying it needs.
struct Subject {
    trace: Copies,
    values: Values,
    next_uses: Arc<[u32]>,
}

/// Runs the command.
pub fn run(options: &ReplayOptions) -> Outcome<()> {
    each_once("--threads", &options.threads)?;
    each_once("--engine-policies", options.engine_policies.iter().map(|it| it.title()))?;
    each_once("--engine-compressed", options.engine_compressed.iter().map(|it| it.title()))?;
    each_once("--policies", &options.policies)?;
    let mut trace = options.copies.of(options.trace.read_filled()?)?;
    let values = Values::attach(&options.values, &mut trace, options.trace.seed())?;
    let data_bytes = values::data_bytes(trace.iter(), trace.objects());
    let limits = options.memory.resolve(1 << 20, data_bytes);
    machine::check_memory(limits.last().copied().unwrap_or(0))?;
    let next_uses = next_uses(trace.iter(), trace.objects());
    let subject = Subject { trace, values, next_uses };
    let models = options.policies.len() as u64 + 1;
    let contenders = contenders(options);
    let engines = options.threads.len() * contenders.len();
    let steps = limits.len() as u64 * (engines as u64 + models);
    let progress = report::progress(steps * subject.trace.len() as u64);
    let mut rows = Vec::new();
    let bounds = sweep::bound(&subject.trace, &subject.next_uses, Measure::Memory, &limits);
    for (limit, bound) in limits.iter().zip(bounds) {
        let mut plain = None;
        for (policy, compressed) in &contenders {
            for threads in &options.threads {
                let step = |requests| progress.inc(requests);
                let row = subject.engine(*policy, *compressed, *limit, *threads, &step)?;
                if *compressed != Some(Compressed::Auto) {
                    plain = Some(row.clone());
                }
                rows.push(row);
            }
        }
        let step = |requests| progress.inc(requests);
        rows.extend(plain.map(|engine| subject.twin(&engine, *limit, &step)));
        for kind in &options.policies {
            let scale = kind.memory_scale();
            let name = kind.to_string();
            let step = |requests| progress.inc(requests);
            rows.push(subject.model(name, *kind, scale, *limit, &step));
        }
        rows.push(Row::bound(*limit, bound));
    }
    progress.finish_and_clear();
    let document =
        document::write(Machine::describe(), &subject.trace, data_bytes, &options.policies, &rows);
    say::out(report::text(&document))?;
    options.report.write(&document)
}

impl Subject {
    fn engine(
        &self,
        policy: EnginePolicy,
        compressed: Option<Compressed>,
        limit: u64,
        threads: u8,
        step: &drive::Step,
    ) -> Outcome<Row> {
        let engine = Engine::with(limit, policy.policy(), compressed)?;
        let replay = Replay { trace: &self.trace, values: &self.values, threads };
        let done = engine.maintained(|| replay.run(&engine, step)).all_right()?;
        let name = policy.title().to_owned() + compressed.map_or("", Compressed::title);
        Ok(Row::of(&name, limit, threads, &done, &engine))
    }

    fn model(&self, name: String, kind: Kind, scale: Scale, limit: u64, step: &drive::Step) -> Row {
        let simulation = sweep::simulation(kind, scale, limit, &self.trace, &self.next_uses);
        let model = Model::new(simulation);
        let replay = Replay { trace: &self.trace, values: &self.values, threads: 1 };
        let done = replay.run(&model, step);
        let mut row = Row::of(&name, limit, 1, &done, &model);
        // The speed of a model's decisions says nothing about a cache.
        row.requests_per_s = None;
        row
    }

    /// Replays CLOCK with the overhead that the engine was found to have at this limit.
    fn twin(&self, engine: &Row, limit: u64, step: &drive::Step) -> Row {
        let overhead = engine.overhead_bytes.unwrap_or(0.0).max(0.0).round() as u32;
        self.model("clock, same items".into(), Kind::Clock, Scale::Bytes(overhead), limit, step)
    }
}
