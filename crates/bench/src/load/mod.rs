//! `larder-bench load`: a trace or a workload sent to a running server, over many connections.
//!
//! ```text
//!   trace --split by object--> connections --spread over--> threads, one poll each
//!                                  |
//!                closed loop: `depth` requests in flight on each, filled up from half
//!                open loop:   every request at its time, latency counted from that time
//! ```
//!
//! Objects that a get misses are stored at once if the workload fills misses, like a client that
//! caches a database's results.
//!
//! The warm-up is sent and answered, on every connection, before the first counted request is sent.
//! So there is a moment when neither side has anything to do, and CPU time read at that moment is
//! the warm-up's alone, however many threads send.
//!
//! The clock of a closed loop stops when the first connection is done. Where objects are split, the
//! connection of the most popular one has several times the mean to send, and goes on alone: of 50
//! connections and a zipfian choice the last three send 7 % of the requests in up to 15 % of the
//! time. That would measure a server's round trip instead of its throughput, and the faster the
//! server is compared with its round trip the larger that part would be. A request answered after
//! that moment counts as a hit or a miss like all others, but has no time.

pub mod command;
pub mod connection;
pub mod exchange;
pub mod found;
pub mod job;
pub mod pace;
pub mod schedule;

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rustix::time::{ClockId, clock_gettime};

use crate::failure::{Failure, Outcome};
use crate::machine;
use connection::Connection;
use found::Found;
use job::Job;
use schedule::{Deal, Share, due, split};

/// The most connections of one load, far above what saturates a server.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Nearer to the next request than this, a thread looks for replies without sleeping: the kernel's
/// timer would oversleep.
const SPIN: Duration = Duration::from_millis(2);
const EVENTS_MAX: usize = 1024;

/// The senders of a load: their connections and cores.
#[derive(Debug, Clone)]
pub struct Senders {
    /// Connections over all threads.
    pub connections: usize,
    /// The core of each thread; empty: one thread, on any core.
    pub cores: Vec<usize>,
    /// How requests are dealt out to connections.
    pub deal: Deal,
}

impl Senders {
    /// Senders with `connections` connections, all on the calling thread.
    pub fn here(connections: usize) -> Senders {
        Senders { connections, cores: Vec::new(), deal: Deal::ByObject }
    }
}

/// Sends the whole job to the server at `address` and waits for all replies.
pub fn run(job: &Job<'_>, address: SocketAddr, senders: &Senders) -> Outcome<Found> {
    Ok(run_noting(job, address, senders, || Ok(()))?.0)
}

/// Sends the whole job like `run`. Also returns the results of `note`, such as the CPU time of the
/// server so far, called once when the warm-up is answered and nothing else is sent, and again when
/// the clock stops.
pub fn run_noting<N: Send>(
    job: &Job<'_>,
    address: SocketAddr,
    senders: &Senders,
    note: impl Fn() -> Outcome<N> + Sync,
) -> Outcome<(Found, [N; 2])> {
    run_since(job, address, senders, None, note)
}

/// Sends the whole job like `run_noting`; the first request of an open loop is due at `begun`, or
/// as soon as the connections are there.
pub fn run_since<N: Send>(
    job: &Job<'_>,
    address: SocketAddr,
    senders: &Senders,
    begun: Option<Instant>,
    note: impl Fn() -> Outcome<N> + Sync,
) -> Outcome<(Found, [N; 2])> {
    assert!((1..=CONNECTIONS_MAX).contains(&senders.connections), "connections out of range");
    let shares = split(job.trace, senders.connections, senders.deal);
    let mut workers: Vec<_> = spread(&shares, senders.cores.len())
        .map(|shares| Worker::connect(address, &[(job, shares)]))
        .collect::<Outcome<_>>()?;
    if job.warm_up > 0 {
        send_all(&mut workers, &senders.cores, job.warm_up, Instant::now(), None)?;
    }
    let noted = note()?;
    let stopped = Mutex::new(None);
    let note_stop = || *stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(note());
    let clock = Clock { stopped: OnceLock::new(), note: &note_stop };
    // Paced connections are done when their last request was due, all at about one time.
    let clock = job.per_second.is_none().then_some(&clock);
    // The pace of an open loop continues with the next request: the time until the warm-up was
    // answered is no delay of the counted requests.
    let sent = job.per_second.map(|per_second| due(job.warm_up, per_second));
    let started = begun.unwrap_or_else(|| Instant::now() - sent.unwrap_or_default());
    send_all(&mut workers, &senders.cores, u32::MAX, started, clock)?;
    let mut all = Found::new();
    for worker in workers {
        all.add(one(worker))?;
    }
    let stopped = stopped.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((all, [noted, stopped.unwrap_or_else(note)?]))
}

/// Spreads connections over threads: each has one at least, and none more than one above another,
/// since a thread with fewer would be done first and stop the clock.
fn spread<T>(connections: &[T], threads: usize) -> impl Iterator<Item = &[T]> {
    let threads = threads.clamp(1, connections.len());
    let first = move |thread| thread * connections.len() / threads;
    (0..threads).map(move |thread| &connections[first(thread)..first(thread + 1)])
}

/// Stops for all threads when the first connection is done.
struct Clock<'n> {
    stopped: OnceLock<()>,
    note: &'n (dyn Fn() + Sync),
}

impl Clock<'_> {
    fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    fn stop(&self) {
        self.stopped.get_or_init(self.note);
    }
}

/// Sends all requests before the one at this place in the trace, and waits for their replies: on
/// these cores, or on the calling thread if there are none.
fn send_all<'j, 't: 'j>(
    workers: &mut [Worker<'j, 't>],
    cores: &[usize],
    end: u32,
    started: Instant,
    clock: Option<&Clock<'_>>,
) -> Outcome<()> {
    if cores.is_empty() {
        return workers.iter_mut().try_for_each(|worker| worker.run(end, started, clock));
    }
    let sent: Vec<Outcome<()>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (worker, core) in workers.iter_mut().zip(cores.iter().copied()) {
            threads.push(scope.spawn(move || {
                machine::pin(core)?;
                worker.run(end, started, clock)
            }));
        }
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().expect("a sender reports what fails and does not panic")
        };
        threads.into_iter().map(join).collect()
    });
    sent.into_iter().collect()
}

/// Sends several jobs at once from this thread, each over its own number of connections; returns
/// the results of each. The thread's CPU time is in the first. None of them warms up.
pub fn run_together(jobs: &[(&Job<'_>, usize)], address: SocketAddr) -> Outcome<Vec<Found>> {
    assert!(jobs.iter().all(|(job, _)| job.warm_up == 0), "there is no moment that ends them all");
    let shares: Vec<Vec<Share<'_>>> = jobs
        .iter()
        .map(|(job, connections)| split(job.trace, *connections, Deal::ByObject))
        .collect();
    let parts: Vec<_> =
        jobs.iter().zip(&shares).map(|((job, _), shares)| (*job, shares.as_slice())).collect();
    let mut worker = Worker::connect(address, &parts)?;
    worker.run(u32::MAX, Instant::now(), None)?;
    Ok(worker.parts.into_iter().map(|part| part.found).collect())
}

/// Returns the results of the only part.
fn one(worker: Worker<'_, '_>) -> Found {
    let part = worker.parts.into_iter().next().expect("a worker has at least one part");
    part.found
}

/// One thread's connections.
struct Worker<'j, 't> {
    poll: Poll,
    /// Each with the number of its part.
    connections: Vec<(usize, Connection<'j>)>,
    parts: Vec<Part<'j, 't>>,
}

/// A job, and its results.
struct Part<'j, 't> {
    job: &'j Job<'t>,
    found: Found,
}

impl<'j, 't: 'j> Worker<'j, 't> {
    fn connect(
        address: SocketAddr,
        parts: &[(&'j Job<'t>, &'j [Share<'j>])],
    ) -> Outcome<Worker<'j, 't>> {
        let poll = Poll::new().map_err(Failure::io("making a poll"))?;
        let mut connections = Vec::new();
        for (part, (_, shares)) in parts.iter().enumerate() {
            for share in *shares {
                let stream = std::net::TcpStream::connect(address)
                    .map_err(Failure::io(format!("connecting to {address}")))?;
                stream.set_nodelay(true).map_err(Failure::io("setting TCP_NODELAY"))?;
                let doing = "making a socket non-blocking";
                stream.set_nonblocking(true).map_err(Failure::io(doing))?;
                let mut stream = TcpStream::from_std(stream);
                let token = Token(connections.len());
                poll.registry()
                    .register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)
                    .map_err(Failure::io("registering a connection"))?;
                connections.push((part, Connection::new(stream, share)));
            }
        }
        let parts = parts.iter().map(|(job, _)| Part { job, found: Found::new() }).collect();
        Ok(Worker { poll, connections, parts })
    }

    /// Sends all requests before the one at this place in the trace, and waits for their replies.
    fn run(&mut self, end: u32, started: Instant, clock: Option<&Clock<'_>>) -> Outcome<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut heard = Instant::now();
        let (cpu_before_ns, mut is_timed) = (thread_cpu_ns(), true);
        self.connections.iter_mut().for_each(|(_, connection)| connection.go_on_before(end));
        let mut open = self.connections.iter().filter(|(_, it)| !it.is_done()).count();
        let is_paced = self.parts.iter().any(|part| part.job.per_second.is_some());
        let silences = self.parts.iter().map(|part| part.job.silence_max);
        let silence_max = silences.max().unwrap_or_default();
        self.send_due(started)?;
        while open > 0 {
            let timeout = self.timeout(started, silence_max);
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other.map_err(Failure::io("waiting for replies"))?,
            }
            let now = Instant::now();
            if !events.is_empty() || !self.connections.iter().any(|(_, it)| it.is_owed()) {
                heard = now;
            } else if now - heard >= silence_max {
                return Err(Failure::Reply(format!("no reply for {silence_max:?}")));
            }
            for event in &events {
                if is_timed && clock.is_some_and(Clock::is_stopped) {
                    is_timed = false;
                    self.stop(cpu_before_ns);
                }
                let (part, connection) = &mut self.connections[event.token().0];
                let Part { job, found } = &mut self.parts[*part];
                let was_open = !connection.is_done();
                connection.receive(job, found)?;
                connection.send(job, found, (started, Instant::now()))?;
                if was_open && connection.is_done() {
                    open -= 1;
                    clock.inspect(|clock| clock.stop());
                }
            }
            if is_paced {
                self.send_due(started)?;
            }
        }
        if is_timed {
            self.parts[0].found.cpu_ns = thread_cpu_ns() - cpu_before_ns;
        }
        Ok(())
    }

    /// Stops the clock: later replies have no time.
    fn stop(&mut self, cpu_before_ns: u64) {
        self.parts[0].found.cpu_ns = thread_cpu_ns() - cpu_before_ns;
        self.parts.iter_mut().for_each(|part| part.found.stop());
    }

    fn send_due(&mut self, started: Instant) -> Outcome<()> {
        let now = Instant::now();
        for (part, connection) in &mut self.connections {
            let Part { job, found } = &mut self.parts[*part];
            connection.send(job, found, (started, now))?;
        }
        Ok(())
    }

    /// Returns how long nothing but replies can happen.
    fn timeout(&self, started: Instant, silence_max: Duration) -> Duration {
        let jobs = self.connections.iter().map(|(part, it)| (self.parts[*part].job, it));
        let paced = jobs.filter(|(job, _)| job.per_second.is_some());
        let next = paced.filter_map(|(job, connection)| connection.next_due(job)).min();
        let left = next.map_or(silence_max, |due| (started + due) - Instant::now());
        if left < SPIN { Duration::ZERO } else { (left - SPIN).min(silence_max) }
    }
}

/// Returns the time that this thread has run on a CPU.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::exchange::Protocol;
    use super::job::{Check, Job, SILENCE_MAX};
    use super::schedule::Deal;
    use super::{Senders, run, run_noting, spread};
    use crate::failure::{Failure, Outcome};
    use crate::load::found::Found;
    use crate::trace::copies::Copies;
    use crate::trace::{Operation, Request, Trace};
    use crate::values::Values;

    /// How long the silent server is waited for; it never answers anyway.
    const SILENCE: Duration = Duration::from_millis(20);

    type Items = Arc<Mutex<HashMap<String, Vec<u8>>>>;

    /// A server for `get` and `set` that is too simple to be wrong, unless it is told to damage
    /// values or to refuse sets.
    fn serve(connections: usize, fault: Fault, items: Items) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || {
            for stream in listener.incoming().take(connections).flatten() {
                let items = items.clone();
                thread::spawn(move || answer(stream, &items, fault));
            }
        });
        address
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        None,
        Damage,
        Refuse,
        /// Answers nothing.
        Silence,
        /// Closes every connection after this many requests.
        Death(u32),
        /// Stores, and returns one byte less.
        Cut,
    }

    fn answer(mut stream: TcpStream, items: &Items, fault: Fault) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut line, mut requests) = (String::new(), 0);
        while reader.read_line(&mut line)? > 0 {
            requests += 1;
            if fault == Fault::Death(requests) {
                return Ok(());
            }
            if fault == Fault::Silence {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            if words[0] == "get" {
                let mut reply = Vec::new();
                if let Some(value) = items.lock().expect("unpoisoned").get(words[1]) {
                    write!(reply, "VALUE {} 0 {}\r\n", words[1], value.len())?;
                    reply.extend_from_slice(value);
                    reply.extend_from_slice(b"\r\n");
                }
                reply.extend_from_slice(b"END\r\n");
                stream.write_all(&reply)?;
            } else {
                let bytes: usize = words[4].parse().expect("a length");
                let mut value = vec![0; bytes + 2];
                reader.read_exact(&mut value)?;
                value.truncate(bytes);
                if fault == Fault::Damage {
                    value[0] ^= 1;
                }
                if fault == Fault::Cut {
                    value.pop();
                }
                if fault == Fault::Refuse {
                    stream.write_all(b"SERVER_ERROR out of memory\r\n")?;
                } else {
                    items.lock().expect("unpoisoned").insert(words[1].to_owned(), value);
                    stream.write_all(b"STORED\r\n")?;
                }
            }
            line.clear();
        }
        Ok(())
    }

    fn get(object: u32) -> Request {
        Request {
            time_s: 0,
            object,
            value_bytes: 10 + object % 50,
            ttl_s: 0,
            cost_us: 0,
            key_bytes: 16,
            operation: Operation::Get,
        }
    }

    fn two_threads() -> Senders {
        Senders { cores: vec![0, 0], ..Senders::here(5) }
    }

    fn trace() -> Copies {
        let requests = (0..3000).map(|number| get(number % 1000)).collect();
        Trace { name: "t".into(), requests, objects: 1000 }.into()
    }

    fn load(fault: Fault, depth: usize, per_second: Option<f64>, warm_up: u32) -> Outcome<Found> {
        let (trace, values) = (trace(), Values::random());
        let job = Job {
            depth,
            per_second,
            silence_max: if fault == Fault::Silence { SILENCE } else { SILENCE_MAX },
            ..job(&trace, &values, warm_up)
        };
        run(&job, serve(5, fault, Items::default()), &two_threads())
    }

    fn job<'t>(trace: &'t Copies, values: &'t Values, warm_up: u32) -> Job<'t> {
        Job {
            protocol: Protocol::Text,
            trace,
            values,
            fills_misses: true,
            depth: 1,
            per_second: None,
            warm_up,
            check: Check::Whole,
            silence_max: SILENCE_MAX,
        }
    }

    #[test]
    fn misses_are_filled_and_then_hit() {
        let found = load(Fault::None, 1, None, 0).expect("a well-behaved server");
        assert_eq!((found.counts.gets, found.counts.fills), (3000, 1000));
        assert_eq!((found.counts.hits, found.counts.checked), (2000, 2000));
        let timed = found.timed();
        assert_eq!((found.get_ns.len(), found.other_ns.len()), (timed.gets, timed.fills));
        assert!(found.counts.refused == 0 && found.refusal.is_none());
    }

    #[test]
    fn a_warm_up_is_sent_and_not_counted() {
        let found = load(Fault::None, 1, None, 1000).expect("a well-behaved server");
        assert_eq!((found.counts.gets, found.counts.hits, found.counts.fills), (2000, 2000, 0));
    }

    /// Regression: counted requests began on one connection while others still warmed up, and CPU
    /// time included both.
    #[test]
    fn every_connection_ends_its_warm_up_before_anything_counts() {
        let (trace, values) = (trace(), Values::random());
        for (depth, per_second, cores, deal) in [
            (1, None, vec![], Deal::ByObject),
            (100, None, vec![0, 0], Deal::ByObject),
            (100, None, vec![0, 0], Deal::InTurn),
            (1, Some(50_000.0), vec![0, 0], Deal::ByObject),
        ] {
            let items = Items::default();
            let stored = || items.lock().expect("unpoisoned").len();
            let threads = cores.len().max(1) as u32;
            let job = Job { depth, per_second, ..job(&trace, &values, 500) };
            let senders = Senders { connections: 5, cores, deal };
            let address = serve(5, Fault::None, items.clone());
            let note = || Ok((stored(), Instant::now()));
            let (found, noted) =
                run_noting(&job, address, &senders, note).expect("it behaves well");
            let [noted, stopped] = noted;
            assert_eq!((noted.0, stored()), (500, 1000));
            assert!(stopped.0 > 500 && stopped.1 > noted.1, "{} were stored", stopped.0);
            // With many in flight an object may be asked for again before it is stored.
            assert!(found.counts.gets == 2500 && found.counts.fills >= 500, "{:?}", found.counts);
            // No thread can have run for longer than the elapsed time.
            assert!(Duration::from_nanos(found.cpu_ns) <= threads * noted.1.elapsed());
        }
    }

    /// Regression: the popular object's connection, which goes on alone at the end, was counted in
    /// the time.
    #[test]
    fn the_clock_stops_when_the_first_connection_is_done() {
        let values = Values::random();
        for cores in [vec![], vec![0, 0]] {
            let requests = (0..2000).map(|number| get(if number < 1000 { number } else { 1 }));
            let (requests, objects) = (requests.collect(), 1000);
            let trace: Copies = Trace { name: "t".into(), requests, objects }.into();
            let senders = Senders { cores, ..Senders::here(5) };
            let address = serve(5, Fault::None, Items::default());
            let note = || Ok(Instant::now());
            let job = job(&trace, &values, 0);
            let (found, [begun, stopped]) =
                run_noting(&job, address, &senders, note).expect("it behaves well");
            assert_eq!((found.counts.gets, found.counts.hits), (2000, 1000));
            assert!(found.elapsed() <= stopped - begun || senders.cores.len() > 1);
            let timed = found.timed();
            assert!((1..2000).contains(&timed.gets), "{timed:?} of {:?}", found.counts);
            assert_eq!((found.get_ns.len(), found.other_ns.len()), (timed.gets, timed.fills));
        }
    }

    /// Regression: 64 connections left one of 12 threads without any, and another of 10 with one.
    #[test]
    fn connections_are_spread_evenly_over_any_number_of_threads() {
        let sizes = |connections: usize, threads| -> Vec<usize> {
            spread(&vec![(); connections], threads).map(<[()]>::len).collect()
        };
        for (connections, threads) in [(64, 12), (64, 10), (5, 4), (3, 8), (1, 0), (64, 8)] {
            let sizes = sizes(connections, threads);
            assert_eq!(sizes.len(), threads.clamp(1, connections));
            assert_eq!(sizes.iter().sum::<usize>(), connections);
            let (least, most) = (sizes.iter().min(), sizes.iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{sizes:?}");
        }
    }

    #[test]
    fn an_open_loop_sends_everything_too() {
        let found = load(Fault::None, 1, Some(20_000.0), 1000).expect("a well-behaved server");
        assert_eq!(found.counts.gets, 2000);
        assert_eq!(found.counts.asked(), 2000);
    }

    #[test]
    fn a_damaged_value_is_found() {
        let failure = load(Fault::Damage, 4, None, 0).expect_err("values differ");
        assert!(matches!(failure, Failure::Check(_)), "{failure}");
    }

    #[test]
    fn a_cut_value_is_found() {
        let failure = load(Fault::Cut, 4, None, 0).expect_err("values are too short");
        assert!(failure.to_string().contains("bytes, not"), "{failure}");
    }

    #[test]
    fn a_silent_server_is_given_up() {
        for (depth, per_second) in [(1, None), (100, None), (1, Some(20_000.0))] {
            let failure = load(Fault::Silence, depth, per_second, 0).expect_err("no reply");
            assert_eq!(failure.to_string(), "bad reply: no reply for 20ms");
        }
    }

    #[test]
    fn a_server_that_dies_is_a_failure_and_no_figure() {
        for depth in [1, 100] {
            let failure = load(Fault::Death(50), depth, None, 0).expect_err("it closes");
            assert_eq!(failure.exit_code(), 4, "{failure}");
        }
    }

    /// Regression: a refused fill counted as a filled miss, and refusals of the warm-up did not
    /// count at all.
    #[test]
    fn refusals_are_counted_and_quoted_and_fill_no_miss() {
        let found = load(Fault::Refuse, 4, None, 1000).expect("errors are findings");
        assert_eq!((found.counts.gets, found.counts.fills, found.counts.refused), (2000, 0, 3000));
        let found = load(Fault::Refuse, 4, None, 0).expect("errors are findings");
        assert_eq!((found.counts.hits, found.counts.refused), (0, 3000));
        assert_eq!(found.refusal.as_deref(), Some("SERVER_ERROR out of memory"));
        let failure = found.all_done("one").expect_err("nothing was done").to_string();
        assert!(failure.contains("one refused 3000 requests: SERVER_ERROR"), "{failure}");
        let found = load(Fault::None, 4, None, 0).expect("all is well");
        assert!(found.all_done("one").is_ok());
    }
}
