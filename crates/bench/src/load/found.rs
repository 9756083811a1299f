//! The results of a run, as the client sees them.
//!
//! Every answered request counts as found or not. Times cover only the part in which all
//! connections had something to send: a closed loop of fifty connections ends with one, that of the
//! most popular key, and a server with one request in flight shows its round trip and not its
//! throughput.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::failure::{Failure, Outcome};

/// Latencies are kept in nanoseconds to three digits; greater ones count as the greatest.
const LATENCY_DIGITS: u8 = 3;
const LATENCY_NS_MAX: u64 = 100_000_000_000;
/// The least share of the counted requests that must be timed; a report mentions a smaller one.
const TIMED_SHARE_MIN: f64 = 1.0 / 3.0;

/// The least share of a wanted rate that counts as reached.
const RATE_SHARE_MIN: f64 = 0.98;

/// Counts of a run, without its warm-up except for what was refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Gets answered.
    pub gets: u64,
    /// Those with a value.
    pub hits: u64,
    /// Hits whose value was compared byte by byte.
    pub checked: u64,
    /// Objects stored after a get had missed them.
    pub fills: u64,
    /// All other requests that were answered.
    pub others: u64,
    /// Requests that the server answered with an error, those of the warm-up included: what was not
    /// stored then is missed later.
    pub refused: u64,
}

impl Counts {
    /// Returns the requests of the trace. Figures divided by them, or counted per second, are of
    /// the same work for every server, whatever it misses: a server that keeps less makes its
    /// client store more, which is its cost and no achievement.
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

/// All results of one thread, or of all together.
#[derive(Debug)]
pub struct Found {
    /// The replies.
    pub counts: Counts,
    /// Nanoseconds until the reply to a get, while the clock ran.
    pub get_ns: Histogram<u64>,
    /// Nanoseconds until the reply to anything else, while the clock ran.
    pub other_ns: Histogram<u64>,
    /// Nanoseconds from when a request of an open loop was due until it was sent. They are part of
    /// its latency: a server is charged for a client that is late.
    pub late_ns: Histogram<u64>,
    /// CPU time of the threads that sent while the clock ran, without the warm-up.
    pub cpu_ns: u64,
    /// The message of the first refusal.
    pub refusal: Option<String>,
    /// When the first counted request was sent and when the last reply came, while the clock ran.
    span: Option<(Instant, Instant)>,
    /// The counts when the clock stopped, if it has.
    stopped: Option<Counts>,
}

impl Found {
    /// Returns empty results.
    pub fn new() -> Found {
        Found {
            counts: Counts::default(),
            get_ns: histogram(),
            other_ns: histogram(),
            late_ns: histogram(),
            cpu_ns: 0,
            refusal: None,
            span: None,
            stopped: None,
        }
    }

    /// Returns the counts while the clock ran.
    pub fn timed(&self) -> Counts {
        self.stopped.unwrap_or(self.counts)
    }

    /// Returns the share of counted requests that were answered while the clock ran.
    pub fn timed_share(&self) -> f64 {
        self.timed().asked() as f64 / self.counts.asked().max(1) as f64
    }

    /// Returns whether so little was timed that times, CPU time and requests per second cover only
    /// a small part of the counted requests, their beginning: one connection had much less to send
    /// than the others.
    pub fn is_briefly_timed(&self) -> bool {
        self.counts.asked() > 0 && self.timed_share() < TIMED_SHARE_MIN
    }

    /// Returns the requests of an open loop that were answered per second, if they are fewer than
    /// the wanted ones: then the latency is that of a queue which grew until the end.
    pub fn missed_rate(&self, wanted: Option<f64>) -> Option<f64> {
        let reached = self.per_second(self.timed().asked());
        (reached < RATE_SHARE_MIN * wanted?).then_some(reached)
    }

    /// Returns how late requests of an open loop were sent, in microseconds.
    pub fn late_us(&self, share: f64) -> f64 {
        self.late_ns.value_at_quantile(share) as f64 / 1e3
    }

    /// Stops the clock: later replies are counted without a time.
    pub fn stop(&mut self) {
        self.stopped.get_or_insert(self.counts);
    }

    /// Returns a count per second, of something counted while the clock ran.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.elapsed().as_secs_f64().max(1e-9)
    }

    /// Returns the time from the first counted request to the last reply while the clock ran.
    pub fn elapsed(&self) -> Duration {
        self.span.map_or(Duration::ZERO, |(first, last)| last - first)
    }

    /// Returns hits per get.
    pub fn hit_ratio(&self) -> f64 {
        self.counts.hits as f64 / self.counts.gets.max(1) as f64
    }

    /// Counts `replies` replies to requests that were sent at one time and answered at another.
    pub fn answered(&mut self, is_get: bool, sent: Instant, answered: Instant, replies: u64) {
        if self.stopped.is_some() {
            return;
        }
        let waited_ns = answered.saturating_duration_since(sent).as_nanos() as u64;
        let latencies = if is_get { &mut self.get_ns } else { &mut self.other_ns };
        latencies.saturating_record_n(waited_ns, replies);
        self.note(sent, answered);
    }

    /// Notes that a counted request was sent at one time and answered at another.
    fn note(&mut self, sent: Instant, answered: Instant) {
        let (first, last) = self.span.get_or_insert((sent, answered));
        *first = sent.min(*first);
        *last = answered.max(*last);
    }

    /// Fails if a server of this name refused anything: a refused request was not done, and its
    /// figures would flatter.
    pub fn all_done(&self, server: &str) -> Outcome<()> {
        match &self.refusal {
            None => Ok(()),
            Some(words) => {
                let refused = self.counts.refused;
                Err(Failure::Reply(format!("{server} refused {refused} requests: {words}")))
            }
        }
    }

    /// Adds the results of another thread.
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
        self.late_ns.add(other.late_ns).map_err(too_long)?;
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
    use std::time::{Duration, Instant};

    use super::Found;

    /// Regression: a run that reached three quarters of its rate was reported like one that kept
    /// it.
    #[test]
    fn a_rate_that_was_not_reached_is_noticed_and_a_closed_loop_has_none() {
        let (mut found, begun) = (Found::new(), Instant::now());
        found.answered(true, begun, begun + Duration::from_secs(10), 1);
        found.counts.gets = 9800;
        assert_eq!((found.missed_rate(Some(1000.0)), found.missed_rate(None)), (None, None));
        found.counts.gets = 9700;
        assert_eq!(found.missed_rate(Some(1000.0)), Some(970.0));
    }

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
