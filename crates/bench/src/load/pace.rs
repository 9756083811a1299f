//! The pace and the connections of a load: the options that `load` and `compare trace` share.

use clap::Args;

use super::CONNECTIONS_MAX;
use super::exchange::Protocol;
use super::job::{Check, Job, SILENCE_MAX};
use crate::trace::copies::Copies;
use crate::values::Values;

/// The pace and the connections of a load.
#[derive(Debug, Clone, Args)]
pub struct PaceOptions {
    /// Connections; all requests for an object go over the same one.
    #[arg(long, default_value_t = 50,
        value_parser = clap::value_parser!(u64).range(1..=CONNECTIONS_MAX as u64))]
    pub connections: u64,
    /// Requests in flight on each connection, filled up when half are answered; not with --rate.
    #[arg(long, default_value_t = 1, conflicts_with = "rate",
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub depth: u64,
    /// Requests per second, each at its time whatever the server does; latency counts from that
    /// time.
    #[arg(long, value_parser = rate)]
    pub rate: Option<f64>,
    /// Requests at the front that are sent but not counted, as a share of all [default: 0 to a
    /// running server, 0.2 to servers that begin empty].
    #[arg(long, value_parser = warm_up)]
    pub warm_up: Option<f64>,
    /// Send only this many requests, of all copies together.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
}

/// The lowest rate: at this rate the last request of the longest trace is due in some hundred
/// thousand years, which a clock can still represent.
const RATE_MIN: f64 = 1e-3;

/// Reads a number of requests per second.
pub fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate >= RATE_MIN && rate.is_finite() => Ok(rate),
        _ => Err(format!("a rate is a number of requests, at least {RATE_MIN}")),
    }
}

fn warm_up(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(share),
        _ => Err("a warm-up is a share from 0 to below 1".into()),
    }
}

impl PaceOptions {
    /// Turns a trace into a job that fills misses, with this warm-up if none was given.
    pub fn job<'t>(
        &self,
        protocol: Protocol,
        trace: &'t Copies,
        values: &'t Values,
        warm_up: f64,
    ) -> Job<'t> {
        let warm_up = self.warm_up.unwrap_or(warm_up);
        Job {
            protocol,
            trace,
            values,
            fills_misses: true,
            depth: self.depth as usize,
            per_second: self.rate,
            warm_up: (trace.len() as f64 * warm_up) as u32,
            check: Check::of(trace),
            silence_max: SILENCE_MAX,
        }
    }

    /// Describes the pace in words.
    pub fn in_words(&self) -> String {
        match self.rate {
            Some(rate) => format!("open loop, {rate} requests/s; latency from when each was due"),
            None => format!(
                "closed loop, {} in flight on each connection; times are until the first is done",
                self.depth
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{rate, warm_up};
    use crate::load::schedule::due;

    #[test]
    fn nonsense_is_refused() {
        assert!(["0", "-1", "inf", "nan", "x", "1e-17"].iter().all(|text| rate(text).is_err()));
        assert!(["1", "-0.1", "nan", "x"].iter().all(|text| warm_up(text).is_err()));
        assert_eq!((rate("2.5"), warm_up("0.5")), (Ok(2.5), Ok(0.5)));
        // The due time of the last possible request can be represented.
        let rate = rate("0.001").expect("the lowest");
        assert!(Instant::now().checked_add(due(u32::MAX, rate)).is_some());
    }
}
