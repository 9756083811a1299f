//! Workloads: traces made from a description and a seed instead of read from a file.
//!
//! ```text
//!   Spec --+-- popularity: which key --> numbered as they appear --+--> Trace
//!          +-- operation: get or set -------------------------------+
//!          +-- sizes, costs: properties of an object, not of a request
//! ```
//!
//! A key's size and cost follow from the object's number and the seed alone, so they stay the same
//! over all its requests, and `attach` gives them to a trace from a file in the same way. The same
//! spec makes the same trace everywhere. A value's content follows from the object too (`values`),
//! and is made by the sender. `requests` is the argument of commands: a workload or a trace file.
//!
//! A workload does not say which gets hit: `fill_misses` tells a replay to store the objects that
//! gets miss, like a client that caches a database's answers.

mod cachebench;
pub mod command;
pub mod costs;
mod distribution;
mod facebook;
pub mod popularity;
pub mod requests;
pub mod sizes;
mod zipf;

use clap::Args;
use serde::Serialize;

use crate::arguments::share;
use crate::failure::Outcome;
use crate::random::{Random, unit};
use crate::trace::format::REQUESTS_MAX;
use crate::trace::{Builder, Operation, Request, Trace};
use costs::{CostChoice, Costs};
use popularity::{Choice, KEYS_MAX};
use sizes::{SizeChoice, Sizes};

/// Everything that determines a workload.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Spec {
    /// Number of different keys at the beginning; not all need to be asked for.
    #[arg(long, default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    pub keys: u64,
    /// Number of requests.
    #[arg(long, default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..REQUESTS_MAX))]
    pub requests: u64,
    /// The popularity of keys: uniform, zipfian, hotspot-R-K (R % of the requests for K % of the
    /// keys), normal, latest, cachebench:FILE.
    #[arg(long, default_value = "zipfian")]
    pub choice: Choice,
    /// The exponent of zipfian and latest.
    #[arg(long, default_value_t = 0.99, value_parser = skew)]
    pub skew: f64,
    /// The share of gets; the others are sets, with `latest` of new keys.
    #[arg(long, default_value_t = 1.0, value_parser = share_or_none)]
    pub get_share: f64,
    /// The sizes of values: fixed:BYTES, log-uniform:MIN..MAX, etc, app, sys, usr, cachebench:FILE,
    /// records:FILE.
    #[arg(long, default_value = "fixed:32")]
    pub sizes: SizeChoice,
    /// Bytes of every key, unless the sizes determine them.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..=250))]
    pub key_bytes: u16,
    /// The cost of making a value again: none, fixed:MICROSECONDS, groups:SHARE@LOW-HIGH,..., or
    /// the name of a configuration.
    #[arg(long, default_value = "none")]
    pub costs: CostChoice,
    /// Requests in each second of the trace.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: u64,
    /// Seconds that a stored value stays valid, whether set or filled after a miss; 0: for ever.
    #[arg(long, default_value_t = 0)]
    pub ttl_s: u32,
    /// Whether a replay stores the objects that gets miss.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub fill_misses: bool,
    /// The seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Reads an exponent of Zipf's law.
pub fn skew(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(skew) if (0.0..=10.0).contains(&skew) => Ok(skew),
        _ => Err("an exponent is at least 0 and at most 10".into()),
    }
}

fn share_or_none(text: &str) -> Result<f64, String> {
    if text.parse() == Ok(0.0) { Ok(0.0) } else { share(text) }
}

impl Spec {
    /// Generates the trace.
    pub fn generate(&self) -> Outcome<Trace> {
        let sizes = self.sizes.load(self.key_bytes)?;
        let mut chooser = self.choice.load(self.keys, self.skew)?;
        // Separate streams: the choice of keys does not change with the share of gets.
        let mut choosing = Random::new(object_word(self.seed, Purpose::Choice, 0));
        let mut operating = Random::new(object_word(self.seed, Purpose::Operation, 0));
        let mut builder: Builder<u64> = Builder::new(u64::MAX);
        for number in 0..self.requests {
            let is_get = operating.unit() < self.get_share;
            let operation = if is_get { Operation::Get } else { Operation::Set };
            let key =
                if is_get { chooser.read(&mut choosing) } else { chooser.write(&mut choosing) };
            // A get has it, too, for the store after a miss.
            let request = Request { operation, ttl_s: self.ttl_s, ..Request::default() };
            builder
                .push(&key, number / self.rate, request)
                .expect("the limits of a spec are within those of a trace");
        }
        let mut trace = builder.finish(self.name());
        attach(&mut trace, &sizes, &self.costs.costs(), self.seed);
        Ok(trace)
    }

    /// Returns its name in reports.
    pub fn name(&self) -> String {
        let skewed = matches!(self.choice, Choice::Zipfian | Choice::Latest);
        let skew = if skewed { format!(" {}", self.skew) } else { String::new() };
        let (choice, sizes, keys) = (&self.choice, &self.sizes, self.keys);
        format!("{choice}{skew}, {keys} keys, {sizes}, {} gets", self.get_share)
    }
}

/// Gives every object of a trace a new size and cost.
pub fn attach(trace: &mut Trace, sizes: &Sizes, costs: &Costs, seed: u64) {
    let body = |object| {
        let place = |purpose| unit(object_word(seed, purpose, u64::from(object)));
        let value_place = place(Purpose::ValueSize);
        let key_bytes = sizes.key_bytes(place(Purpose::KeySize));
        let value_bytes = sizes.value_bytes(object, value_place);
        let cost_us = costs.cost_us(value_place, place(Purpose::Group), place(Purpose::Cost));
        (key_bytes, value_bytes, cost_us)
    };
    let bodies: Vec<(u16, u32, u32)> = (0..trace.objects).map(body).collect();
    for request in &mut trace.requests {
        (request.key_bytes, request.value_bytes, request.cost_us) = bodies[request.object as usize];
    }
}

/// The purpose of a random number; each has its own numbers.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    Choice = 1,
    Operation,
    KeySize,
    ValueSize,
    Group,
    Cost,
}

/// Returns a random word for each object and purpose.
fn object_word(seed: u64, purpose: Purpose, object: u64) -> u64 {
    let stream = Random::new(seed.wrapping_mul(8).wrapping_add(purpose as u64)).word();
    Random::new(stream ^ object).word()
}
#[cfg(test)]
mod tests {
    use super::Spec;
    use crate::trace::{Operation, Trace};
    use clap::{Args, Command, FromArgMatches};

    /// Parses these arguments into a spec.
    pub fn spec(arguments: &str) -> Spec {
        let command = Spec::augment_args(Command::new("spec").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments.split_whitespace());
        Spec::from_arg_matches(&matches.expect("the arguments are right")).expect("they are")
    }

    fn generate(arguments: &str) -> Trace {
        spec(arguments).generate().expect("no file is needed")
    }

    #[test]
    fn the_same_seed_makes_the_same_trace() {
        let small = "--keys 1000 --requests 5000 --sizes etc --costs gd-1 --get-share 0.9";
        assert_eq!(generate(small), generate(small));
        let other = generate(&format!("{small} --seed 2"));
        assert_ne!(generate(small).requests, other.requests);
    }

    #[test]
    fn operations_have_their_shares_and_times_their_rate() {
        let trace = generate("--requests 100000 --get-share 0.75 --ttl-s 60 --rate 1000");
        let gets = trace.requests.iter().filter(|it| it.operation == Operation::Get).count();
        // Six standard deviations of a binomial count.
        assert!(gets.abs_diff(75_000) < 822, "{gets}");
        assert_eq!(trace.requests.last().map(|last| last.time_s), Some(99));
        assert!(trace.requests.iter().all(|it| it.ttl_s == 60), "what a get misses is stored");
        let reads = generate("--requests 1000 --get-share 1");
        assert!(reads.requests.iter().all(|it| it.operation == Operation::Get));
        let writes = generate("--requests 1000 --get-share 0");
        assert!(writes.requests.iter().all(|it| it.operation == Operation::Set));
    }

    #[test]
    fn objects_are_numbered_as_they_appear_and_keep_their_bodies() {
        let trace = generate("--keys 500 --requests 5000 --sizes etc --costs gd-1");
        let mut next = 0;
        let mut bodies = Vec::new();
        for it in &trace.requests {
            let body = (it.key_bytes, it.value_bytes, it.cost_us);
            if it.object == next {
                next += 1;
                bodies.push(body);
            }
            assert_eq!(bodies.get(it.object as usize), Some(&body));
        }
        assert_eq!(trace.objects, next);
    }

    #[test]
    fn latest_inserts_new_keys_and_reads_the_newest_most() {
        let trace = generate("--choice latest --keys 1 --requests 50000 --get-share 0.95");
        let sets = trace.requests.iter().filter(|it| it.operation == Operation::Set).count();
        assert!(trace.objects as usize >= sets, "every set is of a new key");
        let mut age = vec![0u64; 4];
        let mut newest = 0;
        for it in &trace.requests {
            match it.operation {
                Operation::Set => newest = it.object,
                _ if newest > 1000 => age[(newest - it.object).min(3) as usize] += 1,
                _ => {}
            }
        }
        assert!(age[0] > age[1] && age[1] > age[2] && age[2] > 0, "{age:?}");
    }
}
