//! A server's way through the rounds.
//!
//! The last count of items on flash before the end says how many must be found again. Their keys
//! are not known, so after the restart every key is read once. While the server recovers, a mixture
//! of requests runs, since that is when an old value could overtake a new one; the keys that it
//! changed say nothing about the recovery, and their share is taken out:
//!
//! ```text
//!   share found = found among unchanged keys / items before / (unchanged keys / keys)
//! ```
//!
//! A server that is asked to end saves its memory. The keys that each owner stored last are looked
//! at first, which does not count as a use, then a few more requests follow until the end. Nearly
//! all keys that were seen must be found.

use std::thread;
use std::time::{Duration, Instant};

use super::content::Content;
use super::fuse::{Fuse, Stop};
use super::options::{RestartOptions, is_due};
use super::owner::{Ended, Owner};
use super::tally::Tally;
use super::work::{Choice, Work};
use crate::failure::{Failure, Outcome};
use crate::random::Random;
use crate::report;
use crate::server::Server;
use crate::server::query::{self, FlashCounts};
use crate::server::recipe::Recipe;

/// How often the server is asked for its counts.
const WATCH_STEP: Duration = Duration::from_millis(5);
/// The least number of written segments for a judgement: unwritten ones are then a few percent of
/// the tier at most.
const WRITTEN_SEGMENTS_MIN: u64 = 100;
/// Time for a recovery.
const RECOVERY_MAX: Duration = Duration::from_secs(300);
/// The most requests between that look and the end.
const LAST_REQUESTS_MAX: u64 = 200;
/// The most requests during a recovery, as a share of the keys: most keys stay unchanged.
const RECOVERY_REQUESTS: f64 = 0.05;

/// The pace of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// At the rate of the options.
    Rate,
    /// As fast as they are answered.
    Full,
}

/// A server, and the owners of its keys.
#[derive(Debug)]
pub struct Course<'c> {
    options: &'c RestartOptions,
    recipe: Recipe,
    server: Server,
    owners: Vec<Owner<'c>>,
    keys: u32,
    random: Random,
    /// The place in the course, for messages about faults.
    place: String,
}

/// The results of one round.
#[derive(Debug, Clone)]
pub struct Round {
    /// Its number, from 1 on.
    pub number: u64,
    /// How the server was ended.
    pub stop: Stop,
    /// Whether it was killed once more after its restart.
    pub is_interrupted: bool,
    /// The tier, as last seen before the end.
    pub before: FlashCounts,
    /// Keys found, extrapolated as if none had been changed.
    pub found: f64,
    /// Keys stored last that were seen shortly before the end, and not changed since.
    pub in_memory: u64,
    /// Those found again.
    pub found_in_memory: u64,
    /// Time from the start until it took connections.
    pub listened_after: Duration,
    /// Time from the start to the first value read.
    pub first_hit_after: Option<Duration>,
    /// Time from the start to the end of the recovery.
    pub recovered_after: Duration,
    /// The tier at the end of the round.
    pub after: FlashCounts,
    /// The counts of all connections.
    pub tally: Tally,
}

impl Round {
    /// Returns the share of the items on flash that was found again, if there were any.
    pub fn share(&self) -> Option<f64> {
        let items = self.before.items;
        (items > 0).then(|| self.found / items as f64)
    }

    /// Returns the share of the items in memory at the end that was found again.
    pub fn share_in_memory(&self) -> Option<f64> {
        (self.in_memory > 0).then(|| self.found_in_memory as f64 / self.in_memory as f64)
    }

    /// Returns whether the share can be judged: unwritten items die with the process.
    pub fn is_judged(&self) -> bool {
        self.before.segments_written >= WRITTEN_SEGMENTS_MIN
    }

    /// Returns whether a forbidden value was read.
    pub fn is_broken(&self) -> bool {
        self.tally.stale + self.tally.wrong > 0
    }
}

impl<'c> Course<'c> {
    /// Starts the server and stores every key.
    pub fn start(
        options: &'c RestartOptions,
        recipe: Recipe,
        content: &'c Content,
        keys: u32,
    ) -> Outcome<Course<'c>> {
        let cores = &options.servers_options.server_cores;
        let server = Server::start(&recipe, options.memory_mb, cores)?;
        let owners = 0..options.connections;
        let owners = owners.map(|at| Owner::new(content, at, options.connections, keys)).collect();
        let random = Random::new(options.seed);
        let place = "fill".into();
        let mut course = Course { options, recipe, server, owners, keys, random, place };
        course.converse(Pace::Rate, None, |_| Work::Fill(0), |_| Ok(()))?;
        Ok(course)
    }

    /// Returns the report's facts about the server.
    pub fn servers(&self) -> Vec<(String, String)> {
        report::servers([(self.server.name.as_str(), self.server.command_line.as_str())])
    }

    /// Ends the server under load, restarts it and looks for everything.
    pub fn round(&mut self, number: u64) -> Outcome<Round> {
        let is_terminated = is_due(number, self.options.terminate_every);
        let stop = if is_terminated { Stop::Terminate } else { Stop::Kill };
        let is_interrupted = is_due(number, self.options.interrupt_every);
        let mut tally = Tally::default();
        let place = |what| format!("round {number} ({stop}), {what}");
        if is_due(number, self.options.flush_every) {
            self.place = place("refill");
            tally.add(self.flush()?);
        }
        self.place = place("load");
        let (before, load) = self.load(stop)?;
        self.await_end(stop)?;
        tally.add(load);
        self.owners.iter_mut().for_each(Owner::begin);
        if is_interrupted {
            self.place = place("recovery that was interrupted");
            tally.add(self.interrupt()?);
        }
        self.place = place("recovery");
        let started = Instant::now();
        self.start_again()?;
        // Earlier reads do not count for the first hit after the restart.
        tally.first_hit = None;
        let (recovered_after, recovery) = self.recover(started)?;
        tally.add(recovery);
        self.place = place("sweep");
        let sweep = self.converse(Pace::Full, None, |_| Work::Sweep(0), |_| Ok(()))?;
        let changed = self.owners.iter().map(|owner| owner.history.changed());
        let unchanged = u64::from(self.keys) - changed.sum::<u64>();
        let (in_memory, found_in_memory) =
            (self.owners.iter().map(Owner::in_memory).sum(), sweep.found_in_memory);
        let found = sweep.found_unchanged as f64 * f64::from(self.keys) / unchanged.max(1) as f64;
        tally.add(sweep);
        Ok(Round {
            number,
            stop,
            is_interrupted,
            before,
            found,
            in_memory,
            found_in_memory,
            listened_after: self.server.listened_after,
            first_hit_after: tally.first_hit.map(|hit| hit - started),
            recovered_after,
            after: self.flash()?,
            tally,
        })
    }

    /// Flushes the server, and stores the second half of each owner's keys anew.
    fn flush(&mut self) -> Outcome<Tally> {
        let answer = query::line(self.server.address, "flush_all\r\n")?;
        if answer != "OK" {
            return Err(Failure::Reply(format!("{answer:?} to flush_all")));
        }
        self.owners.iter_mut().for_each(|owner| owner.history.flushed());
        self.converse(Pace::Rate, None, |owner| Work::Fill(owner.history.keys() / 2), |_| Ok(()))
    }

    /// Sends a mixture until the server is ended; returns the tier, as last seen.
    fn load(&mut self, stop: Stop) -> Outcome<(FlashCounts, Tally)> {
        let requests_max = self.options.requests(self.keys);
        let mut requests = 1 + self.random.below(requests_max);
        let mut tally = Tally::default();
        if stop == Stop::Terminate {
            let each = requests / u64::from(self.options.connections);
            let mut mixture = self.mixture(each, Choice::Skewed);
            tally.add(self.converse(Pace::Rate, None, |_| mixture(), |_| Ok(()))?);
            let look = Owner::look_at_latest;
            tally.add(self.converse(Pace::Full, None, look, |_| Ok(()))?);
            requests = 1 + self.random.below(LAST_REQUESTS_MAX);
        }
        let mut before = self.flash()?;
        let (has_flash, address) = (!self.options.no_flash, self.server.address);
        let mut mixture = self.mixture(requests, Choice::Skewed);
        let count = |fuse: &Fuse<'_>| {
            if has_flash {
                let counts = query::flash_counts(address)?;
                before = if fuse.is_burnt() { before } else { counts };
            }
            Ok(())
        };
        tally.add(self.converse(Pace::Rate, Some((stop, requests)), |_| mixture(), count)?);
        Ok((before, tally))
    }

    /// Starts the server and kills it while it recovers, or shortly after.
    fn interrupt(&mut self) -> Outcome<Tally> {
        self.start_again()?;
        let requests_max = (f64::from(self.keys) * RECOVERY_REQUESTS) as u64;
        let requests = 1 + self.random.below(requests_max);
        let mut mixture = self.mixture(requests, Choice::Even);
        let tally =
            self.converse(Pace::Full, Some((Stop::Kill, requests)), |_| mixture(), |_| Ok(()))?;
        self.await_end(Stop::Kill)?;
        Ok(tally)
    }

    /// Sends a mixture until everything is recovered; returns when that was.
    fn recover(&mut self, started: Instant) -> Outcome<(Duration, Tally)> {
        let requests = f64::from(self.keys) * RECOVERY_REQUESTS;
        let mut mixture =
            self.mixture(requests as u64 / u64::from(self.options.connections), Choice::Even);
        let (has_flash, address) = (!self.options.no_flash, self.server.address);
        let is_over =
            || Ok::<_, Failure>(!has_flash || !query::flash_counts(address)?.is_recovering);
        let mut recovered_after = None;
        let tally = self.converse(
            Pace::Full,
            None,
            |_| mixture(),
            |fuse| {
                if recovered_after.is_none() && is_over()? {
                    recovered_after = Some(started.elapsed());
                    fuse.enough();
                }
                Ok(())
            },
        )?;
        while recovered_after.is_none() {
            if is_over().map_err(|failure| self.server.explain(failure))? {
                recovered_after = Some(started.elapsed());
            } else if started.elapsed() > RECOVERY_MAX {
                return Err(Failure::Ended("the server does not end to recover".into()));
            }
            thread::sleep(WATCH_STEP);
        }
        Ok((recovered_after.unwrap_or_default(), tally))
    }

    /// Waits for the end of the server; one that was asked to end must do so without an error.
    fn await_end(&self, stop: Stop) -> Outcome<()> {
        match self.server.await_end()? {
            Some(status) if stop == Stop::Terminate && !status.success() => {
                Err(Failure::Check(format!("asked to end, the server did so with {status}")))
            }
            _ => Ok(()),
        }
    }

    /// Starts another server in place of the one that has ended.
    fn start_again(&mut self) -> Outcome<()> {
        let (memory_mb, cores) =
            (self.options.memory_mb, &self.options.servers_options.server_cores);
        self.server.start_again(&self.recipe, memory_mb, cores)
    }

    /// Runs all owners at once, each with its work, and watches the server meanwhile. With `end`,
    /// the server is ended that way after that many requests.
    fn converse(
        &mut self,
        pace: Pace,
        end: Option<(Stop, u64)>,
        mut work: impl FnMut(&mut Owner<'c>) -> Work,
        mut watch: impl FnMut(&Fuse<'_>) -> Outcome<()>,
    ) -> Outcome<Tally> {
        let fuse = match end {
            Some((stop, requests)) => Fuse::new(&self.server, stop, requests),
            None => Fuse::never(&self.server),
        };
        let fuse = &match pace {
            Pace::Rate => fuse.burning_at(self.options.rate()),
            Pace::Full => fuse,
        };
        let mut watched = Ok(());
        let ends: Vec<Outcome<Ended>> = thread::scope(|scope| {
            let mut threads = Vec::new();
            for owner in &mut self.owners {
                let work = work(owner);
                threads.push(scope.spawn(move || owner.run(work, fuse)));
            }
            while threads.iter().any(|thread| !thread.is_finished()) {
                watched = std::mem::replace(&mut watched, Ok(())).and_then(|()| watch(fuse));
                thread::sleep(WATCH_STEP);
            }
            let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
            joined.map(|end| end.expect("an owner's thread does not panic")).collect()
        });
        for end in ends {
            if let Ended::Cut(failure) = end?
                && !fuse.is_burnt()
            {
                let why = self.server.explain(failure);
                return Err(Failure::Reply(format!("{}: {why}", self.place)));
            }
        }
        if !fuse.is_burnt() {
            watched?;
        }
        let mut tally = Tally::default();
        for owner in &mut self.owners {
            tally.add(std::mem::take(&mut owner.tally));
        }
        Ok(tally.at(&self.place))
    }

    /// Returns mixtures of `requests` requests, each with a seed of its own.
    fn mixture(&mut self, requests: u64, choice: Choice) -> impl FnMut() -> Work + use<'c> {
        let mut random = Random::new(self.random.word());
        move || Work::Mixture(requests, choice, Random::new(random.word()))
    }

    fn flash(&self) -> Outcome<FlashCounts> {
        if self.options.no_flash {
            return Ok(FlashCounts::default());
        }
        let counts = query::flash_counts(self.server.address);
        counts.map_err(|failure| self.server.explain(failure))
    }
}
