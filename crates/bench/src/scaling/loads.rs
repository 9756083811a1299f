//! The six loads, each of a fill and of counted requests.
//!
//! ```text
//!   fits      every object once | what counts, at one thread ... | more, at many threads
//!   evicts    requests alike    | what counts, at one thread ... | more, at many threads
//! ```
//!
//! A load is made once for the most threads; fewer are sent its first part, after the same fill.
//! Requests grow with threads, so that a run takes about as long with many.

use std::fmt;

use clap::ValueEnum;

use crate::failure::Outcome;
use crate::trace::copies::Copies;
use crate::trace::{Operation, Request, Trace};
use crate::values::{ValueChoice, ValueOptions, Values};
use crate::workload::requests::Requests;

/// The divisor of keys, requests and memory with `--quick`.
const QUICK_SHARE: u64 = 16;
/// Keys whose items all fit, and their memory.
const KEYS_FITTING: u64 = 400_000;
const MEMORY_FITTING_MB: u64 = 1024;
/// Keys whose items do not fit, the memory, and the requests that fill it.
const KEYS_EVICTED: u64 = 3_000_000;
const MEMORY_EVICTED_MB: u64 = 128;
const FILL_REQUESTS: u64 = 4_000_000;
/// Keys that all connections request.
const KEYS_HOT: u64 = 16;
/// The compression ratio of values where items do not fit.
const RATIO: f64 = 3.0;

/// The name of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// 95 % gets of keys that are all there.
    Get,
    /// Half gets, half sets of the same keys.
    Mixed,
    /// Sets of the same keys.
    Set,
    /// 90 % gets of far more keys than fit; missed keys are stored.
    Evict,
    /// Sets of as many keys in as little memory.
    EvictSet,
    /// Half gets, half sets of 16 keys.
    Hot,
}

impl Name {
    /// In the order in which they are run.
    pub const ALL: [Name; 6] =
        [Name::Get, Name::Mixed, Name::Set, Name::Evict, Name::EvictSet, Name::Hot];

    /// Returns whether memory is too small for all items.
    fn evicts(self) -> bool {
        matches!(self, Name::Evict | Name::EvictSet)
    }

    /// Returns the share of gets, and the number of counted requests; each thread adds a quarter.
    fn shape(self) -> (f64, u64) {
        match self {
            Name::Get => (0.95, 4_000_000),
            Name::Mixed => (0.5, 4_000_000),
            Name::Set => (0.0, 3_000_000),
            Name::Evict => (0.9, 3_000_000),
            Name::EvictSet => (0.0, 2_000_000),
            Name::Hot => (0.5, 2_000_000),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no name is hidden");
        out.pad(value.get_name())
    }
}

/// A prepared load.
#[derive(Debug)]
pub struct Load {
    /// Its name.
    pub name: Name,
    /// The workload, as an argument of the commands that take one.
    pub words: String,
    /// Memory limit of each server.
    pub memory_mb: u64,
    /// The content of the objects.
    pub values: Values,
    /// Requests at the front that fill the server.
    pub fill: u32,
    is_quick: bool,
    /// The fill and the counted requests, for the most threads.
    all: Copies,
}

impl Load {
    /// Makes a load for up to `threads_max` threads.
    pub fn make(name: Name, threads_max: u32, is_quick: bool) -> Outcome<Load> {
        let small = |count: u64| if is_quick { count / QUICK_SHARE } else { count };
        let (keys, sizes, memory_mb, choice) = match name.evicts() {
            true => (small(KEYS_EVICTED), "etc", MEMORY_EVICTED_MB, ValueChoice::Made(RATIO)),
            false => (small(KEYS_FITTING), "fixed:100", MEMORY_FITTING_MB, ValueChoice::Random),
        };
        let keys = if name == Name::Hot { KEYS_HOT } else { keys };
        let fill = if name.evicts() { small(FILL_REQUESTS) } else { 0 };
        let requests = fill + u64::from(counted(name, threads_max, is_quick));
        let get_share = name.shape().0;
        let words = format!("make --keys {keys} --sizes {sizes} --get-share {get_share}");
        let made: Requests = format!("{words} --requests {requests}")
            .parse()
            .expect("these are options of a workload");
        let mut trace = made.read()?;
        let mut fill = fill as u32;
        if !name.evicts() {
            let stores = stores(&trace.requests);
            fill = stores.len() as u32;
            trace.requests.splice(0..0, stores);
        }
        let mut all = Copies::from(trace);
        let options = ValueOptions { values: Some(choice), ..ValueOptions::default() };
        let values = Values::attach(&options, &mut all, made.seed())?;
        Ok(Load { name, words, memory_mb: small(memory_mb), values, fill, is_quick, all })
    }

    /// Returns the requests for a server with this many threads: the fill, and the counted ones.
    pub fn trace(&self, threads: u32) -> Copies {
        let end = self.fill + self.counted(threads);
        let Trace { name, requests, objects } = self.all.trace();
        let requests = requests[..end as usize].to_vec();
        Trace { name: name.clone(), requests, objects: *objects }.into()
    }

    /// Returns the number of counted requests for a server with this many threads.
    pub fn counted(&self, threads: u32) -> u32 {
        counted(self.name, threads, self.is_quick)
    }
}

fn counted(name: Name, threads: u32, is_quick: bool) -> u32 {
    let requests = name.shape().1 * u64::from(4 + threads) / 4;
    (if is_quick { requests / QUICK_SHARE } else { requests }) as u32
}

/// Returns a set of each object, in order of appearance.
fn stores(requests: &[Request]) -> Vec<Request> {
    let mut stores: Vec<Request> = Vec::new();
    for request in requests {
        if request.object as usize == stores.len() {
            stores.push(Request { operation: Operation::Set, time_s: 0, ..*request });
        }
    }
    stores
}

#[cfg(test)]
mod tests {
    use super::{Load, Name, counted};
    use crate::trace::Operation;

    #[test]
    fn fitting_objects_are_stored_once_before_any_get() {
        for name in [Name::Get, Name::Hot] {
            let load = Load::make(name, 2, true).expect("no file is needed");
            let trace = load.trace(1);
            let mut stored = vec![0; trace.objects() as usize];
            let (fill, counted) = trace.trace().requests.split_at(load.fill as usize);
            for request in fill {
                assert_eq!(request.operation, Operation::Set);
                stored[request.object as usize] += 1;
            }
            assert!(stored.iter().all(|&times| times == 1), "{name}");
            assert_eq!(counted.len() as u32, load.counted(1));
        }
    }

    #[test]
    fn fewer_threads_are_sent_the_first_part_of_the_same() {
        for name in Name::ALL {
            let load = Load::make(name, 4, true).expect("no file is needed");
            let (few, many) = (load.trace(1), load.trace(4));
            assert!(few.len() < many.len() && few.iter().zip(many.iter()).all(|(a, b)| a == b));
            assert_eq!(many.len() as u32, load.fill + load.counted(4), "{name}");
            assert!(load.fill > 0);
        }
    }

    #[test]
    fn requests_are_bounded_and_grow_with_threads() {
        assert_eq!(counted(Name::Get, 1, false), 5_000_000);
        assert_eq!(counted(Name::Get, 8, false), 12_000_000);
        assert_eq!(counted(Name::Get, 64, false), 68_000_000);
        assert_eq!(counted(Name::Hot, 4, true), 250_000);
    }
}
