//! Sending many requests batch by batch, so that memory does not limit their number, until all are
//! sent or the time is up.

use std::time::{Duration, Instant};

use super::Subject;
use crate::failure::Outcome;
use crate::load::exchange::Protocol;
use crate::load::found::Found;
use crate::load::job::{Check, Job, SILENCE_MAX};
use crate::load::{self, Senders};
use crate::server::Server;
use crate::server::usage::CpuTime;
use crate::trace::copies::Copies;

/// Requests made at a time.
const BATCH_REQUESTS: u64 = 1 << 17;
/// Length of a paced batch in seconds, the most by which a phase outlasts its time.
const BATCH_SECONDS: f64 = 2.0;

/// How requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Connections.
    pub connections: usize,
    /// Requests in flight on each, without a rate.
    pub depth: usize,
    /// Requests per second, each at its time.
    pub per_second: Option<f64>,
    /// Whether missed objects are stored.
    pub fills_misses: bool,
}

/// The times of paced requests, which go on from batch to batch: whatever happens between two
/// batches, the next one catches up with.
#[derive(Debug)]
pub struct Schedule {
    begun: Instant,
    requests: u64,
}

impl Schedule {
    /// Returns a schedule whose first request is due now.
    pub fn begin() -> Schedule {
        Schedule { begun: Instant::now(), requests: 0 }
    }

    /// Takes the next batch; returns when its first request is due.
    fn next(&mut self, requests: u64, per_second: f64) -> Instant {
        let due = Duration::from_secs_f64(self.requests as f64 / per_second);
        self.requests += requests;
        self.begun + due
    }

    /// Returns the requests per second so far, if all of them are answered now.
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.begun.elapsed().as_secs_f64().max(1e-9)
    }
}

/// The results of a phase.
#[derive(Debug)]
pub struct Phase {
    /// The client's results.
    pub found: Found,
    /// The time of requests, without the pauses in which they were made.
    pub elapsed: Duration,
    /// CPU time of the server, all threads.
    pub server_ns: u64,
}

impl Pace {
    /// Returns a subject's requests as a job.
    pub fn job<'t>(&self, server: &Server, subject: &'t Subject, trace: &'t Copies) -> Job<'t> {
        Job {
            protocol: Protocol::of(server.dialect, server.has_meta, self.depth, self.per_second),
            trace,
            values: &subject.values,
            fills_misses: self.fills_misses,
            depth: self.depth,
            per_second: self.per_second,
            warm_up: 0,
            check: Check::Whole,
            silence_max: SILENCE_MAX,
        }
    }

    /// Returns the requests of a batch.
    fn batch(&self) -> u64 {
        let paced = self.per_second.map(|rate| (rate * BATCH_SECONDS) as u64);
        paced.map_or(BATCH_REQUESTS, |requests| requests.clamp(1, BATCH_REQUESTS))
    }
}

/// Sends up to `requests` requests for up to `longest`, of which none may be refused. `next` makes
/// the next batch of a given number, empty when there are no more.
pub fn send(
    server: &Server,
    subject: &Subject,
    pace: Pace,
    limits: (u64, Duration),
    next: impl FnMut(u64) -> Copies,
) -> Outcome<Phase> {
    send_by(None, server, subject, pace, limits, next)
}

/// Sends requests like `send`, those of a pace by a schedule that goes on.
pub fn send_by(
    mut schedule: Option<&mut Schedule>,
    server: &Server,
    subject: &Subject,
    pace: Pace,
    (requests, longest): (u64, Duration),
    mut next: impl FnMut(u64) -> Copies,
) -> Outcome<Phase> {
    let (started, before) = (Instant::now(), CpuTime::of(server.pid())?);
    let mut phase = Phase { found: Found::new(), elapsed: Duration::ZERO, server_ns: 0 };
    let mut left = requests;
    while left > 0 && started.elapsed() < longest {
        let trace = next(pace.batch().min(left));
        let sent = trace.len() as u64;
        if sent == 0 {
            break;
        }
        left = left.saturating_sub(sent);
        let job = pace.job(server, subject, &trace);
        let senders = Senders { deal: job.deal(), ..Senders::here(pace.connections) };
        let paced = schedule.as_deref_mut().zip(pace.per_second);
        let begun = paced.map(|(schedule, per_second)| schedule.next(sent, per_second));
        let (found, _) = load::run_since(&job, server.address, &senders, begun, || Ok(()))
            .map_err(|failure| server.explain(failure))?;
        found.all_done(&server.name)?;
        phase.elapsed += found.elapsed();
        phase.found.add(found)?;
    }
    phase.server_ns = CpuTime::of(server.pid())?.since_ns(before)?;
    Ok(phase)
}

impl Phase {
    /// Returns the gets answered per second.
    pub fn gets_per_second(&self) -> f64 {
        self.found.timed().gets as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns CPU seconds of the server for a million requests and everything caused by them: a
    /// set after a miss costs time but is no request.
    pub fn server_cpu(&self) -> f64 {
        self.server_ns as f64 / self.found.counts.asked().max(1) as f64 / 1e3
    }

    /// Returns the latency in microseconds that this share of the gets did not exceed.
    pub fn waited_us(&self, share: f64) -> f64 {
        self.found.get_ns.value_at_quantile(share) as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BATCH_REQUESTS, Pace, Schedule};

    /// Regression: the pace began anew with each batch, so the time between two batches made the
    /// requests fewer than were asked for, by half where batches were small.
    #[test]
    fn a_schedule_goes_on_whatever_the_time_between_two_batches() {
        let mut schedule = Schedule::begin();
        let begun = schedule.begun;
        for number in 0..3 {
            assert_eq!(schedule.next(250, 1000.0), begun + number * Duration::from_millis(250));
        }
        assert_eq!(schedule.requests, 750);
    }

    #[test]
    fn a_batch_of_a_paced_phase_is_short() {
        let pace = |per_second| Pace { connections: 1, depth: 1, per_second, fills_misses: false };
        assert_eq!(pace(None).batch(), BATCH_REQUESTS);
        assert_eq!(pace(Some(1000.0)).batch(), 2000);
        assert_eq!(pace(Some(0.1)).batch(), 1);
        assert_eq!(pace(Some(1e9)).batch(), BATCH_REQUESTS);
    }
}
