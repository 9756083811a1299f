//! Time: of one thread in CPU seconds, which other work on the machine hardly changes, and of
//! several threads by the wall, each pinned to a core of its own as far as there are cores.
//!
//! Cores are those that this process may use, the requested one first: a user who bounds it with
//! `taskset` uses the others for something else.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use larder::Cache;
use rustix::time::{ClockId, clock_gettime};

use crate::background;
use crate::failure::Outcome;
use crate::machine;
use crate::report::Spread;

/// Returns the CPU seconds of this thread so far.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns how often this thread has yielded its core to wait so far, by the kernel's count.
pub fn waits() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let count = |line: &str| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok();
    status.lines().find_map(count).unwrap_or(0)
}

/// Runs something that does `count` operations; returns millions of them per CPU second.
pub fn millions_per_cpu_second(count: usize, run: impl FnOnce()) -> f64 {
    let before = cpu_seconds();
    run();
    count as f64 / (cpu_seconds() - before).max(1e-9) / 1e6
}

/// Measures each of `count` subjects once in each round, in an order that rotates.
pub fn in_rounds<T>(
    rounds: u64,
    count: usize,
    mut measure: impl FnMut(usize) -> Outcome<T>,
) -> Outcome<Vec<Vec<T>>> {
    let mut found: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
    for round in 0..rounds as usize {
        for turn in 0..count {
            let which = (turn + round) % count;
            found[which].push(measure(which)?);
        }
    }
    Ok(found)
}

/// Returns the spread of the ratios of two measurements of the same rounds.
pub fn ratio(over: &[f64], under: &[f64]) -> Spread {
    Spread::of(over.iter().zip(under).map(|(over, under)| over / under))
}

/// The results of several threads together.
#[derive(Debug, Clone, Copy)]
pub struct Together {
    /// Millions of operations a second, by the wall.
    pub millions_per_second: f64,
    /// Millions of operations a CPU second of all threads.
    pub millions_per_cpu_second: f64,
}

/// Runs `work` in this many threads at once, each on the next of these cores. It receives the
/// thread's number and returns how many operations it did.
pub fn together(
    cores: &[usize],
    threads: usize,
    work: impl Fn(usize) -> usize + Sync,
) -> Outcome<Together> {
    let (barrier, work) = (Barrier::new(threads), &work);
    let runs = thread::scope(|scope| {
        let run = |number: usize| {
            let barrier = &barrier;
            move || {
                let pinned = machine::pin(cores[number % cores.len()]);
                // The others wait for this one, whatever the outcome.
                barrier.wait();
                pinned?;
                let (begun, cpu) = (Instant::now(), cpu_seconds());
                let count = work(number);
                Ok((begun, Instant::now(), cpu_seconds() - cpu, count))
            }
        };
        let handles: Vec<_> = (0..threads).map(|number| scope.spawn(run(number))).collect();
        let runs = handles.into_iter().map(|one| one.join().expect("the work does not panic"));
        runs.collect::<Outcome<Vec<_>>>()
    })?;
    let begun = runs.iter().map(|run| run.0).min().expect("there is a thread");
    let ended = runs.iter().map(|run| run.1).max().expect("there is a thread");
    let count: usize = runs.iter().map(|run| run.3).sum();
    let cpu: f64 = runs.iter().map(|run| run.2).sum();
    Ok(Together {
        millions_per_second: count as f64 / (ended - begun).as_secs_f64().max(1e-9) / 1e6,
        millions_per_cpu_second: count as f64 / cpu.max(1e-9) / 1e6,
    })
}

/// Runs something while a thread on the last of these cores does the background's work; returns its
/// CPU seconds. Otherwise it would have to share the experiment's core.
pub fn maintained<R>(
    cores: &[usize],
    cache: &Cache,
    work: impl FnOnce() -> R,
) -> Outcome<(R, f64)> {
    let around = |maintain: &dyn Fn()| {
        machine::pin(*cores.last().expect("a process may use a core"))?;
        let before = cpu_seconds();
        maintain();
        Ok(cpu_seconds() - before)
    };
    let (done, seconds) = background::beside(cache, around, work);
    Ok((done, seconds?))
}

/// Returns the cores that this process may use, `first` before the others.
pub fn cores_from(first: usize) -> Outcome<Vec<usize>> {
    let others = machine::cores()?.into_iter().filter(|core| *core != first);
    Ok([first].into_iter().chain(others).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{cores_from, in_rounds, ratio, together, waits};
    use crate::machine;

    #[test]
    fn a_thread_that_sleeps_waits() {
        let before = waits();
        (0..3).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        assert!(waits() >= before + 3);
    }

    #[test]
    fn everything_is_measured_once_in_each_round_and_the_order_rotates() {
        let mut order = Vec::new();
        let found = in_rounds(3, 2, |which| {
            order.push(which);
            Ok(which)
        });
        assert_eq!(found.expect("nothing fails"), [vec![0; 3], vec![1; 3]]);
        assert_eq!(order, [0, 1, 1, 0, 0, 1]);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let spread = ratio(&[2.0, 30.0, 4.0], &[1.0, 10.0, 1.0]);
        assert_eq!((spread.min, spread.median, spread.max), (2.0, 3.0, 4.0));
    }

    /// Regression: one thread ran on core 0, whatever core was requested.
    #[test]
    fn threads_run_on_their_given_cores_in_order() {
        let cores = machine::cores().expect("readable");
        let last = *cores.last().expect("there is a core");
        let given = cores_from(last).expect("readable");
        assert_eq!((given[0], given.len()), (last, cores.len()));
        let is_there = |number: usize| {
            let own = machine::cores().expect("readable");
            usize::from(own == [given[number % given.len()]])
        };
        for threads in [1, given.len() + 1] {
            let there = std::sync::atomic::AtomicUsize::new(0);
            let work =
                |number| there.fetch_add(is_there(number), std::sync::atomic::Ordering::Relaxed);
            together(&given, threads, work).expect("they may run there");
            assert_eq!(there.into_inner(), threads);
        }
        assert!(together(&[1 << 20], 2, |_| 1).is_err(), "there is no such core");
    }

    #[test]
    fn the_work_of_all_threads_counts() {
        let cores = machine::cores().expect("readable");
        let found =
            together(&cores, 3, |number| (0..1000 * (number + 1)).filter(|n| n % 2 == 0).count());
        let found = found.expect("threads can be started");
        assert!(found.millions_per_second > 0.0 && found.millions_per_cpu_second > 0.0);
    }
}
