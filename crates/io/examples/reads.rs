//! The cost of reading a flash device by each method: reads per second and microseconds of CPU time
//! for each, of pages at random places of a file, with a given number of reads under way.
//!
//! ```text
//! cargo run --release -p larder-io --example reads -- FILE [MIB] [SECONDS] [ROUNDS]
//! ```
//!
//! One thread submits, as a worker does: it takes all results that have come and submits as many
//! again. It reads through a ring of its own, as a worker does where the kernel allows it, or has a
//! thread with a ring, or several threads that wait, read. CPU time is that of the whole process,
//! the kernel's part included: this thread's, and that of the reading threads. The methods take
//! turns, and the median of the rounds is shown with the lowest and the highest.

use std::env;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use larder_io::device::{
    Device, Done, FileDevice, PAGE_BYTES, Pages, ReadMethod, ReadPool, ReadRing,
};
use larder_io::poll::{Events, Interest, Poll, SourceFd, Token};
use larder_io::process::cpu_time;

/// Reads under way.
const DEPTHS: [usize; 3] = [1, 8, 32];
/// As many threads as four workers have.
const THREADS: usize = 16;
/// Pages that are written at a time.
const WRITTEN_PAGES: u64 = 256;

/// The reader.
#[derive(Clone, Copy)]
enum Method {
    /// The thread that submits.
    Own,
    /// Other threads.
    Pool(ReadMethod),
}

impl Method {
    const ALL: [Self; 3] =
        [Self::Own, Self::Pool(ReadMethod::IoUring), Self::Pool(ReadMethod::Threads)];

    fn name(self) -> &'static str {
        match self {
            Self::Own => "own ring",
            Self::Pool(method) => method.name(),
        }
    }
}

/// The reader, with its ring or pool.
enum Reader {
    Own(Box<ReadRing>, Poll),
    Pool(ReadPool),
}

impl Reader {
    fn new(device: &Arc<dyn Device>, method: Method, depth: usize) -> io::Result<Self> {
        let device = Arc::clone(device);
        match method {
            Method::Pool(method) => {
                ReadPool::new(device, Some(method), THREADS, depth).map(Self::Pool)
            }
            Method::Own => {
                let (ring, poll) = (ReadRing::new(device)?, Poll::new()?);
                let descriptor = ring.descriptor().expect("it is new");
                let mut source = SourceFd(&descriptor);
                poll.registry().register(&mut source, Token(0), Interest::READABLE)?;
                Ok(Self::Own(Box::new(ring), poll))
            }
        }
    }

    fn submit(&mut self, reads: Vec<(u64, usize, Done)>) {
        let refused = match self {
            Self::Own(ring, _) => ring.submit_all(reads).len(),
            Self::Pool(pool) => pool.submit_all(reads).len(),
        };
        assert_eq!(refused, 0, "there is room for all that are under way");
    }

    /// Waits for at least one result, and takes all that have come.
    fn take<T>(&mut self, receiver: &Receiver<T>) -> io::Result<Vec<T>> {
        let Self::Own(ring, poll) = self else {
            let first = receiver.recv().expect("every read is answered");
            return Ok(std::iter::once(first).chain(receiver.try_iter()).collect());
        };
        let mut events = Events::with_capacity(1);
        loop {
            ring.answer();
            let come: Vec<T> = receiver.try_iter().collect();
            if !come.is_empty() {
                return Ok(come);
            }
            match poll.poll(&mut events, None) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}

/// The figures of a round.
#[derive(Clone, Copy)]
struct Round {
    reads_per_second: f64,
    cpu_us: f64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, default| match arguments.get(at) {
        Some(text) => text.parse().ok(),
        None => Some(default),
    };
    let (Some(path), Some(mib), Some(seconds), Some(rounds)) =
        (arguments.first(), number(1, 1024), number(2, 2), number(3, 7))
    else {
        eprintln!("reads FILE [MIB] [SECONDS] [ROUNDS]");
        return ExitCode::FAILURE;
    };
    match measure(Path::new(path), mib << 20, Duration::from_secs(seconds), rounds.max(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(path: &Path, bytes: u64, length: Duration, rounds: u64) -> io::Result<()> {
    let (device, opened) = FileDevice::open(path, bytes).map_err(io::Error::other)?;
    let device: Arc<dyn Device> = Arc::new(device);
    // Pages that were only reserved would be read from nowhere.
    for page in (0..device.pages()).step_by(WRITTEN_PAGES as usize) {
        let mut pages = Pages::zeroed(WRITTEN_PAGES.min(device.pages() - page) as usize);
        pages.bytes_mut().fill(page as u8 | 1);
        device.write(page, pages.as_pages())?;
    }
    device.sync()?;
    let way = if opened.is_direct { "past the page cache" } else { "through the page cache" };
    println!("{} MiB, {way}, {rounds} rounds of {length:?}; {THREADS} threads", bytes >> 20);
    println!("depth  method     reads/s (lowest, highest)      CPU us/read (lowest, highest)");
    for depth in DEPTHS {
        let mut found = Method::ALL.map(|_| Vec::new());
        for round in 0..rounds {
            for (method, found) in Method::ALL.into_iter().zip(&mut found) {
                found.push(run(&device, method, depth, length, round + 1)?);
            }
        }
        for (method, found) in Method::ALL.into_iter().zip(&found) {
            let speed = spread(found.iter().map(|round| round.reads_per_second));
            let cost = spread(found.iter().map(|round| round.cpu_us));
            println!(
                "{depth:5}  {:9} {:8.0} ({:7.0}, {:7.0})   {:10.2} ({:6.2}, {:6.2})",
                method.name(),
                speed[1],
                speed[0],
                speed[2],
                cost[1],
                cost[0],
                cost[2]
            );
        }
        io::stdout().flush()?;
    }
    Ok(())
}

/// Keeps `depth` reads under way for a given time.
fn run(
    device: &Arc<dyn Device>,
    method: Method,
    depth: usize,
    length: Duration,
    seed: u64,
) -> io::Result<Round> {
    let mut reader = Reader::new(device, method, depth)?;
    let (sender, receiver) = channel();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut read = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let (page, sender) = ((state >> 32) % device.pages(), sender.clone());
        let done: Done = Box::new(move |result| _ = sender.send(result));
        (page, 1, done)
    };
    let (started, cpu_before) = (Instant::now(), cpu());
    reader.submit((0..depth).map(&mut read).collect());
    let (mut reads, mut under_way) = (0_u64, depth);
    while under_way > 0 {
        let come = reader.take(&receiver)?;
        let count = come.len();
        for result in come {
            let pages: Pages = result?;
            assert!(pages.bytes().len() == PAGE_BYTES && pages.bytes()[0] != 0);
        }
        (reads, under_way) = (reads + count as u64, under_way - count);
        if started.elapsed() < length {
            reader.submit((0..count).map(&mut read).collect());
            under_way += count;
        }
    }
    let (elapsed, cpu) = (started.elapsed(), cpu() - cpu_before);
    let reads = reads as f64;
    let cpu_us = cpu.as_secs_f64() * 1e6 / reads;
    Ok(Round { reads_per_second: reads / elapsed.as_secs_f64(), cpu_us })
}

fn cpu() -> Duration {
    let (user, system) = cpu_time();
    user + system
}

/// The lowest, the median and the highest.
fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}
