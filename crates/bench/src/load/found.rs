//! What a run found, seen from the client.
//!
//! Everything that is answered counts as found or not. Times are only those of the part in which
//! all connections had something to send: a closed loop of fifty connections ends with one, the one
//! that has the most popular key, and a server with one request in flight shows its round trip and
//! not what it can do.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::failure::{Failure, Outcome};

/// Latencies are kept in nanoseconds to three digits; beyond the limit they count as the limit.
const LATENCY_DIGITS: u8 = 3;
const LATENCY_NS_MAX: u64 = 100_000_000_000;
/// The least share of what counts that was timed, unless it is said that there was less.
const TIMED_SHARE_MIN: f64 = 1.0 / 3.0;

/// Counts of a run, without its warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Gets answered.
    pub gets: u64,
    /// Of these, with a value.
    pub hits: u64,
    /// Hits whose value was compared byte by byte.
    pub checked: u64,
    /// Objects stored because a get had missed them.
    pub fills: u64,
    /// All other requests that were answered.
    pub others: u64,
    /// Requests that the server answered with an error.
    pub refused: u64,
}

impl Counts {
    /// Requests of the trace. What is divided by them, or counts them for each second, is of the
    /// same work for every server, whatever it misses: a server that keeps less makes its client
    /// store more, which is its cost and no achievement.
    pub fn asked(&self) -> u64 {
        self.gets + self.others
    }

    fn add(&mut self, other: Counts) {
        self.gets += other.gets;
        self.hits += other.hits;
        self.checked += other.checked;
        self.fills += other.fills;
        self.others += other.others;
        self.refused += other.refused;
    }
}

/// Everything that one thread, or all together, found.
#[derive(Debug)]
pub struct Found {
    /// What came back.
    pub counts: Counts,
    /// Nanoseconds until the reply to a get, while the clock ran.
    pub get_ns: Histogram<u64>,
    /// Nanoseconds until the reply to anything else, while the clock ran.
    pub other_ns: Histogram<u64>,
    /// CPU time of the threads that sent while the clock ran, without the warm-up.
    pub cpu_ns: u64,
    /// The words of the first refusal.
    pub refusal: Option<String>,
    /// When the first request that counts was sent and the last reply came, while the clock ran.
    span: Option<(Instant, Instant)>,
    /// What had come back when the clock stopped, if it has.
    stopped: Option<Counts>,
}

impl Found {
    /// Nothing yet.
    pub fn new() -> Found {
        Found {
            counts: Counts::default(),
            get_ns: histogram(),
            other_ns: histogram(),
            cpu_ns: 0,
            refusal: None,
            span: None,
            stopped: None,
        }
    }

    /// What came back while the clock ran.
    pub fn timed(&self) -> Counts {
        self.stopped.unwrap_or(self.counts)
    }

    /// The share of the requests that count which came back while the clock ran.
    pub fn timed_share(&self) -> f64 {
        self.timed().asked() as f64 / self.counts.asked().max(1) as f64
    }

    /// Whether so little was timed that times, CPU time and requests a second are of a small part
    /// of what counts, and of its beginning: one connection had much less to send than the others.
    pub fn is_briefly_timed(&self) -> bool {
        self.counts.asked() > 0 && self.timed_share() < TIMED_SHARE_MIN
    }

    /// Stops the clock: what comes back from now on counts, and takes no time.
    pub fn stop(&mut self) {
        self.stopped.get_or_insert(self.counts);
    }

    /// How many of something that came back while the clock ran came in each second.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.elapsed().as_secs_f64().max(1e-9)
    }

    /// From the first request that counts to the last reply while the clock ran.
    pub fn elapsed(&self) -> Duration {
        self.span.map_or(Duration::ZERO, |(first, last)| last - first)
    }

    /// Hits for each get.
    pub fn hit_ratio(&self) -> f64 {
        self.counts.hits as f64 / self.counts.gets.max(1) as f64
    }

    /// Counts so many replies to requests that were sent at one time, all at another.
    pub fn answered(&mut self, is_get: bool, sent: Instant, answered: Instant, replies: u64) {
        if self.stopped.is_some() {
            return;
        }
        let waited_ns = answered.saturating_duration_since(sent).as_nanos() as u64;
        let latencies = if is_get { &mut self.get_ns } else { &mut self.other_ns };
        latencies.saturating_record_n(waited_ns, replies);
        self.note(sent, answered);
    }

    /// Notes that something that counts was sent at one time and answered at another.
    fn note(&mut self, sent: Instant, answered: Instant) {
        let (first, last) = self.span.get_or_insert((sent, answered));
        *first = sent.min(*first);
        *last = answered.max(*last);
    }

    /// An error if a server of this name refused anything: what was refused was not done, and
    /// figures of it would flatter.
    pub fn all_done(&self, server: &str) -> Outcome<()> {
        match &self.refusal {
            None => Ok(()),
            Some(words) => {
                let refused = self.counts.refused;
                Err(Failure::Reply(format!("{server} refused {refused} requests: {words}")))
            }
        }
    }

    /// Adds what another thread found.
    pub fn add(&mut self, other: Found) -> Outcome<()> {
        if self.stopped.is_some() || other.stopped.is_some() {
            let (mut timed, its) = (self.timed(), other.timed());
            timed.add(its);
            self.stopped = Some(timed);
        }
        self.counts.add(other.counts);
        let too_long = |_| Failure::Reply("latencies of two threads do not add up".into());
        self.get_ns.add(other.get_ns).map_err(too_long)?;
        self.other_ns.add(other.other_ns).map_err(too_long)?;
        self.cpu_ns += other.cpu_ns;
        self.refusal = self.refusal.take().or(other.refusal);
        if let Some((first, last)) = other.span {
            self.note(first, last);
        }
        Ok(())
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_NS_MAX, LATENCY_DIGITS).expect("the constants are in range")
}

#[cfg(test)]
mod tests {
    use super::Found;

    #[test]
    fn less_than_a_third_is_briefly_timed() {
        let mut found = Found::new();
        assert!(!found.is_briefly_timed(), "nothing came back");
        for (timed, is_brief) in [(33, true), (34, false)] {
            found.stopped = None;
            found.counts.gets = timed;
            assert!(!found.is_briefly_timed(), "all of it while the clock ran");
            found.stop();
            found.counts.gets = 60;
            found.counts.others = 40;
            found.counts.fills = 900;
            assert_eq!(
                (found.timed_share(), found.is_briefly_timed()),
                (timed as f64 / 100.0, is_brief)
            );
            found.counts = super::Counts::default();
        }
    }
}
