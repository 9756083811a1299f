//! The conformance suite: a server, started for the purpose, against memcached and against the
//! programs that people already use with memcached.
//!
//! A `Part` is a row of the report: a function that fails with a message, or reports that it could
//! not run. Most parts share one server; those that stop servers or need other options start their
//! own. `report` prints the table and writes `target/conformance/report.json`.

mod binary;
mod case;
mod clients;
mod commands;
pub mod crowd;
mod deviations;
mod differential;
mod dumps;
mod envoy;
mod exchange;
mod exporter;
mod generate;
mod hostile;
mod matrix;
mod memcached_proxy;
mod normal;
mod proxy;
mod redis;
mod report;
mod scale_out;
pub mod server;
mod stats;
mod suites;
mod tls;
pub mod wire;
mod witness;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use differential::Pair;
use report::{Check, Outcome, Report};
use server::{Recipe, Server};

use crate::{Result, fail};

/// The version of memcached that the list of deviations describes.
const DEBIAN_VERSION: &str = " 1.6.18";

/// The user's options.
pub struct Options {
    /// The parts to run; empty means all.
    pub only: Vec<String>,
    /// The server under test.
    pub server: Recipe,
    /// The memcached to compare with.
    pub reference: Recipe,
    /// The seed of everything random.
    pub seed: u64,
    /// The number of random sequences.
    pub sequences: usize,
    /// The file for the differences, written as deviations.
    pub record: Option<String>,
    /// Whether the table of clients is written rather than compared.
    pub writes_table: bool,
}

impl Default for Options {
    fn default() -> Options {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        Options {
            only: Vec::new(),
            server: Recipe::new("target/release/larder", &[]),
            reference: Recipe::new("/usr/bin/memcached", &[]),
            seed: now,
            sequences: 15_000,
            record: None,
            writes_table: false,
        }
    }
}

/// The counts of a part: things tried, and failures.
#[derive(Default)]
pub struct Tally {
    /// Number of things tried.
    pub tried: usize,
    /// The failures.
    pub failures: Vec<String>,
    /// Cases for options that the server does not have yet.
    pub not_there_yet: Vec<String>,
}

impl Tally {
    /// Counts one thing tried; `wrong` is what was wrong with it, if anything.
    pub fn done(&mut self, wrong: Option<String>) {
        self.tried += 1;
        self.failures.extend(wrong);
    }
}

/// The outcome of a part without failures.
pub enum Ended {
    /// It ran; the text says how much.
    Passed(String),
    /// It could not run; the text says what is missing.
    NotRun(String),
}

/// Resources for all parts.
pub struct Bench<'a> {
    options: &'a Options,
    larder: bool,
}

type Part = (&'static str, fn(&Bench) -> Result<Ended>);

const PARTS: &[Part] = &[
    ("cases", |bench| bench.compare(differential::cases)),
    ("cuts", |bench| bench.compare(differential::cuts)),
    ("pipelined", |bench| bench.compare(differential::pipelined)),
    ("random", |bench| bench.compare(generate::sequences)),
    ("binary", |bench| bench.compare(binary::sequences)),
    ("redis-random", redis::random),
    ("redis-users", redis::users::check),
    ("stats", stats::check),
    ("dumps", dumps::check),
    ("memccapable", clients::memccapable),
    ("memccapable-binary", clients::memccapable_binary),
    ("memcached-tool", clients::memcached_tool),
    ("memcached-exporter", exporter::check),
    ("pymemcache", clients::pymemcache),
    ("meta-memcache", clients::meta_memcache),
    ("bmemcached", clients::bmemcached),
    ("bmemcached-sasl", clients::bmemcached_sasl),
    ("gomemcache", clients::gomemcache),
    ("spymemcached", clients::spymemcached),
    ("spymemcached-binary", clients::spymemcached_binary),
    ("memcache-client", clients::memcache_client),
    ("memjs", clients::memjs),
    ("memjs-sasl", clients::memjs_sasl),
    ("redis-cli", redis::clients::redis_cli),
    ("redis-benchmark", redis::clients::redis_benchmark),
    ("redis-py", redis::clients::redis_py),
    ("ioredis", redis::clients::ioredis),
    ("go-redis", redis::clients::go_redis),
    ("jedis", redis::clients::jedis),
    ("pymemcache-tls", tls::pymemcache),
    ("bmemcached-tls", tls::bmemcached),
    ("redis-py-tls", tls::redis_py),
    ("redis-tests", suites::of_redis),
    ("memcached-tests", suites::of_memcached),
    ("django-tests", suites::of_django),
    ("twemproxy", proxy::check),
    ("scale-out", scale_out::twemproxy),
    ("memcached-proxy", scale_out::memcached_proxy),
    ("envoy", scale_out::envoy),
    ("hash-client", scale_out::hash_client),
    ("bad-input", hostile::bad_input),
    ("half-requests", hostile::half_requests),
    ("deaf-client", hostile::deaf_client),
    ("pipeline", hostile::long_pipeline),
    ("tiny-memory", hostile::tiny_memory),
    ("crowd", crowd::check),
    ("too-many", crowd::too_many),
];

impl Bench<'_> {
    /// Returns whether this server is the memcached that the list of deviations describes.
    fn is_debian(&self, server: &Server) -> Result<bool> {
        Ok(version(server)?.contains(DEBIAN_VERSION))
    }

    /// Compares the server with memcached, both freshly started.
    fn compare(&self, compare: fn(&Pair, &mut Tally) -> Result) -> Result<Ended> {
        let memcached = &self.options.reference;
        if !memcached.path.is_file() {
            return Ok(Ended::NotRun(format!("there is no {}", memcached.path.display())));
        }
        let reference = memcached.start("-m 64")?;
        let subject = self.options.server.start("-m 64")?;
        let mut tally = Tally::default();
        let pair = Pair {
            reference: reference.port,
            subject: subject.port,
            larder: self.larder,
            newer: !self.is_debian(&reference)?,
            options: self.options,
        };
        compare(&pair, &mut tally)?;
        if tally.failures.is_empty() {
            let mut words = format!("{} compared", tally.tried);
            for waiting in tally.not_there_yet {
                words.push_str(&format!(", {waiting} wait for the option"));
            }
            return Ok(Ended::Passed(words));
        }
        let (wrong, tried) = (tally.failures.len(), tally.tried);
        fail(format!("{wrong} of {tried} differ\n  {}", tally.failures.join("\n  ")))
    }
}

/// `cargo xtask conformance`.
pub fn main(arguments: &[String]) -> Result {
    let options = options(arguments)?;
    // An existing program may be out of date.
    if options.server.path == std::path::Path::new("target/release/larder") {
        crate::command::Run::new("cargo build --quiet --release -p larder-server").run()?;
    }
    let report = run(&options)?;
    println!("{} passed, {} failed", report.passed(), report.failed());
    report.verdict()
}

fn options(arguments: &[String]) -> Result<Options> {
    let mut options = Options::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(value) = words.next() else {
            return fail(format!("{word} takes a value"));
        };
        let number = || value.parse().map_err(|_| crate::Failure(format!("{word} takes a number")));
        match word.as_str() {
            "--only" => options.only = value.split(',').map(str::to_string).collect(),
            "--server" => options.server.path = value.into(),
            "--server-args" => {
                options.server.extra = value.split_whitespace().map(str::to_string).collect();
            }
            "--reference" => options.reference.path = value.into(),
            "--seed" => options.seed = number()?,
            "--sequences" => options.sequences = number()? as usize,
            "--table" if value == "write" => options.writes_table = true,
            "--record" => options.record = Some(value.clone()),
            other => return fail(format!("no option is called {other}")),
        }
    }
    let known = |name: &String| PARTS.iter().any(|(part, _)| part == name);
    match options.only.iter().find(|name| !known(name)) {
        Some(name) => {
            let names: Vec<&str> = PARTS.iter().map(|(part, _)| *part).collect();
            fail(format!("no part is called {name}; there are {}", names.join(", ")))
        }
        None => Ok(options),
    }
}

fn version(server: &Server) -> Result<String> {
    wire::Wire::connect(server.port)?.ask("version\r\n", "\r\n")
}

/// Runs the suite, prints its table and writes its report.
pub fn run(options: &Options) -> Result<Report> {
    let version = version(&options.server.start("-m 64")?)?;
    let larder = version.to_lowercase().contains("larder");
    println!("server {} answers {:?}", options.server.path.display(), version.trim());
    println!("seed {}", options.seed);
    let bench = Bench { options, larder };
    let mut report = Report::new(options.seed, version.trim());
    for (name, part) in PARTS {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
            continue;
        }
        let started = Instant::now();
        let outcome = outcome(part(&bench));
        report.add(Check { name, outcome, seconds: started.elapsed().as_secs_f64() });
    }
    // A server other than Larder has a table of its own.
    if larder {
        let table = matrix::check(&report.checks, options.writes_table).transpose();
        if let Some(table) = table {
            let outcome = outcome(table.map(Ended::Passed));
            report.add(Check { name: "client-table", outcome, seconds: 0.0 });
        }
    }
    report.write()?;
    Ok(report)
}

fn outcome(ended: Result<Ended>) -> Outcome {
    match ended {
        Ok(Ended::Passed(words)) => Outcome::Passed(words),
        Ok(Ended::NotRun(words)) if std::env::var_os("CI").is_some_and(|ci| ci == "true") => {
            Outcome::Failed(format!("not run: {words}"))
        }
        Ok(Ended::NotRun(words)) => Outcome::NotRun(words),
        Err(failure) => Outcome::Failed(failure.0),
    }
}
