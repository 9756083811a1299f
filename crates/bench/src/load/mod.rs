//! `larder-bench load`: a trace or a workload sent to a running server, over many connections.
//!
//! ```text
//!   trace --split by object--> connections --spread over--> threads, one poll each
//!                                  |
//!                closed loop: `depth` requests in flight on each, filled up from half
//!                open loop:   every request at its time, latency counted from that time
//! ```
//!
//! Objects that a get misses are stored at once if the workload fills misses, as a client does that
//! keeps a database's results in the cache.

pub mod command;
pub mod connection;
pub mod exchange;
pub mod found;
pub mod job;
pub mod pace;
pub mod schedule;

use std::io;
use std::net::SocketAddr;
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
use schedule::{Share, split};

/// Connections of one load: a limit far above what saturates a server.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Nearer to the next request than this a thread looks for replies without sleeping: the kernel's
/// timer would oversleep.
const SPIN: Duration = Duration::from_millis(2);
const EVENTS_MAX: usize = 1024;

/// How a load is spread.
#[derive(Debug, Clone)]
pub struct Spread {
    /// Connections over all threads.
    pub connections: usize,
    /// The core of each thread; empty: one thread, wherever it runs.
    pub cores: Vec<usize>,
}

/// Sends the whole job to the server at `address` and waits for all replies.
pub fn run(job: &Job<'_>, address: SocketAddr, spread: &Spread) -> Outcome<Found> {
    assert!((1..=CONNECTIONS_MAX).contains(&spread.connections), "connections out of range");
    let shares = split(job.trace, spread.connections);
    if spread.cores.is_empty() {
        return one(Worker::connect(address, &[(job, &shares)])?.run(Instant::now())?);
    }
    let per_thread = shares.len().div_ceil(spread.cores.len());
    let workers: Vec<_> = shares
        .chunks(per_thread)
        .map(|shares| Worker::connect(address, &[(job, shares)]))
        .collect::<Outcome<_>>()?;
    let started = Instant::now();
    let found: Vec<Outcome<Found>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (worker, core) in workers.into_iter().zip(spread.cores.iter().copied()) {
            threads.push(scope.spawn(move || {
                machine::pin(core)?;
                one(worker.run(started)?)
            }));
        }
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().expect("a sender reports what fails and does not panic")
        };
        threads.into_iter().map(join).collect()
    });
    let mut all = Found::new();
    for found in found {
        all.add(found?)?;
    }
    Ok(all)
}

/// Sends several jobs at once from this thread, each over so many connections of its own; returns
/// what each found. The thread's CPU time is with the first.
pub fn run_together(jobs: &[(&Job<'_>, usize)], address: SocketAddr) -> Outcome<Vec<Found>> {
    let shares: Vec<Vec<Share<'_>>> =
        jobs.iter().map(|(job, connections)| split(job.trace, *connections)).collect();
    let parts: Vec<_> =
        jobs.iter().zip(&shares).map(|((job, _), shares)| (*job, shares.as_slice())).collect();
    Worker::connect(address, &parts)?.run(Instant::now())
}

/// What the only part found.
fn one(found: Vec<Found>) -> Outcome<Found> {
    Ok(found.into_iter().next().expect("a worker has at least one part"))
}

/// One thread's connections.
struct Worker<'j, 't> {
    poll: Poll,
    /// With the number of the part that each is of.
    connections: Vec<(usize, Connection<'j>)>,
    parts: Vec<Part<'j, 't>>,
}

/// A job, and what came back of it.
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

    fn run(mut self, started: Instant) -> Outcome<Vec<Found>> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut heard = Instant::now();
        let cpu_before_ns = thread_cpu_ns();
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
                let (part, connection) = &mut self.connections[event.token().0];
                let Part { job, found } = &mut self.parts[*part];
                let was_open = !connection.is_done();
                connection.receive(job, found)?;
                connection.send(job, started, Instant::now())?;
                open -= usize::from(was_open && connection.is_done());
            }
            if is_paced {
                self.send_due(started)?;
            }
        }
        self.parts[0].found.cpu_ns = thread_cpu_ns() - cpu_before_ns;
        Ok(self.parts.into_iter().map(|part| part.found).collect())
    }

    fn send_due(&mut self, started: Instant) -> Outcome<()> {
        let now = Instant::now();
        for (part, connection) in &mut self.connections {
            connection.send(self.parts[*part].job, started, now)?;
        }
        Ok(())
    }

    /// How long nothing but replies can happen.
    fn timeout(&self, started: Instant, silence_max: Duration) -> Duration {
        let jobs = self.connections.iter().map(|(part, it)| (self.parts[*part].job, it));
        let paced = jobs.filter(|(job, _)| job.per_second.is_some());
        let next = paced.filter_map(|(job, connection)| connection.next_due(job)).min();
        let left = next.map_or(silence_max, |due| (started + due) - Instant::now());
        if left < SPIN { Duration::ZERO } else { (left - SPIN).min(silence_max) }
    }
}

/// How long this thread has run on a CPU.
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
    use std::time::Duration;

    use super::exchange::Protocol;
    use super::job::{Check, Job, SILENCE_MAX};
    use super::{Spread, run};
    use crate::failure::{Failure, Outcome};
    use crate::load::found::Found;
    use crate::trace::copies::Copies;
    use crate::trace::{Operation, Request, Trace};
    use crate::values::Values;

    /// How long the silent server is waited for: it never says anything, however long.
    const SILENCE: Duration = Duration::from_millis(20);

    type Items = Arc<Mutex<HashMap<String, Vec<u8>>>>;

    /// A server for `get` and `set` that is too simple to be wrong, unless it is asked to damage
    /// values or to refuse sets.
    fn serve(connections: usize, fault: Fault) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let items = Items::default();
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
        /// Closes every connection after so many requests.
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

    fn load(fault: Fault, depth: usize, per_second: Option<f64>, warm_up: u32) -> Outcome<Found> {
        let requests = (0..3000).map(|number| get(number % 1000)).collect();
        let trace = Copies::from(Trace { name: "t".into(), requests, objects: 1000 });
        let job = Job {
            protocol: Protocol::Text,
            trace: &trace,
            values: &Values::random(),
            fills_misses: true,
            depth,
            per_second,
            warm_up,
            check: Check::Whole,
            silence_max: if fault == Fault::Silence { SILENCE } else { SILENCE_MAX },
        };
        let spread = Spread { connections: 5, cores: vec![0, 0] };
        run(&job, serve(5, fault), &spread)
    }

    #[test]
    fn misses_are_filled_and_then_hit() {
        let found = load(Fault::None, 1, None, 0).expect("a well-behaved server");
        assert_eq!((found.counts.gets, found.counts.fills), (3000, 1000));
        assert_eq!((found.counts.hits, found.counts.checked), (2000, 2000));
        assert_eq!((found.get_ns.len(), found.other_ns.len()), (3000, 1000));
        assert!(found.counts.refused == 0 && found.refusal.is_none());
    }

    #[test]
    fn a_warm_up_is_sent_and_not_counted() {
        let found = load(Fault::None, 1, None, 1000).expect("a well-behaved server");
        assert_eq!((found.counts.gets, found.counts.hits, found.counts.fills), (2000, 2000, 0));
    }

    #[test]
    fn an_open_loop_sends_everything_too() {
        let found = load(Fault::None, 1, Some(20_000.0), 1000).expect("a well-behaved server");
        assert_eq!(found.counts.gets, 2000);
        assert_eq!(found.requests(), 2000 + found.counts.fills);
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

    #[test]
    fn refusals_are_counted_and_quoted() {
        let found = load(Fault::Refuse, 4, None, 0).expect("errors are findings");
        assert_eq!((found.counts.hits, found.counts.refused), (0, 3000));
        assert_eq!(found.refusal.as_deref(), Some("SERVER_ERROR out of memory"));
    }
}
