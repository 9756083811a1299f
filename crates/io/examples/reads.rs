//! What a read of a flash device costs by each method: reads a second and microseconds of CPU time
//! for each, of pages at random places of a file, with so many reads under way.
//!
//! ```text
//! cargo run --release -p larder-io --example reads -- FILE [MIB] [SECONDS] [ROUNDS]
//! ```
//!
//! One thread submits, as a worker does: it takes everything that has come and submits as much
//! again. CPU time is that of the whole process, the kernel's part included: this thread's, and
//! that of those that read. The methods take turns, and what is shown is the median of the rounds
//! with the lowest and the highest.

use std::env;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use larder_io::device::{Device, FileDevice, PAGE_BYTES, Pages, ReadMethod, ReadPool};
use larder_io::process::cpu_time;

/// Reads under way.
const DEPTHS: [usize; 3] = [1, 8, 32];
/// As many as four workers have.
const THREADS: usize = 16;
/// Pages that are written at a time.
const WRITTEN_PAGES: u64 = 256;

/// What a round came to.
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
    // What was only reserved would be read from nowhere.
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
        let mut found = ReadMethod::ALL.map(|_| Vec::new());
        for round in 0..rounds {
            for (method, found) in ReadMethod::ALL.into_iter().zip(&mut found) {
                found.push(run(&device, method, depth, length, round + 1)?);
            }
        }
        for (method, found) in ReadMethod::ALL.into_iter().zip(&found) {
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

/// Keeps `depth` reads under way for so long.
fn run(
    device: &Arc<dyn Device>,
    method: ReadMethod,
    depth: usize,
    length: Duration,
    seed: u64,
) -> io::Result<Round> {
    let pool = ReadPool::new(Arc::clone(device), Some(method), THREADS, depth)?;
    let (sender, receiver) = channel();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut submit = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let (page, sender) = ((state >> 32) % device.pages(), sender.clone());
        let done = move |result| _ = sender.send(result);
        pool.submit(page, 1, Box::new(done)).expect("the queue holds all that are under way");
    };
    let (started, cpu_before) = (Instant::now(), cpu());
    (0..depth).for_each(|_| submit());
    let (mut reads, mut under_way) = (0_u64, depth);
    while under_way > 0 {
        let first = receiver.recv().expect("every read is answered");
        let mut come = 0;
        for result in std::iter::once(first).chain(receiver.try_iter()) {
            let pages: Pages = result?;
            assert!(pages.bytes().len() == PAGE_BYTES && pages.bytes()[0] != 0);
            come += 1;
        }
        (reads, under_way) = (reads + come, under_way - come as usize);
        if started.elapsed() < length {
            (0..come).for_each(|_| submit());
            under_way += come as usize;
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
