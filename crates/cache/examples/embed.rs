//! A program that keeps the results of a slow function in a cache of its own.
//!
//! `cargo run --release -p larder --example embed`
//!
//! Four threads ask for the lengths of Collatz sequences, small numbers more often than large ones,
//! and compute only those that the cache does not hold. A fifth thread does the cache's background
//! work, in the same loop that the server has: without it everything works too, but stores evict
//! and move slabs on their own path.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use larder::{Cache, Expiry};

const THREADS: u64 = 4;
const QUESTIONS: u64 = 500_000;
/// Far more than the memory holds, so that the cache has to choose.
const NUMBERS: u64 = 10_000_000;
/// No number below `NUMBERS` takes so many steps.
const LENGTH_LIMIT: u64 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::builder().memory_bytes(16 << 20).build()?;
    let computed = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let background = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if !cache.maintain() {
                    cache.wait_for_work(Duration::from_millis(100));
                }
            }
        });
        let (cache, computed) = (&cache, &computed);
        let askers: Vec<_> =
            (0..THREADS).map(|seed| scope.spawn(move || ask(cache, seed, computed))).collect();
        let answers: Vec<_> = askers.into_iter().map(|asker| asker.join()).collect();
        // Whatever came of them: the scope waits for the background.
        is_over.store(true, Ordering::Relaxed);
        cache.call_for_work();
        background.join().expect("the background does not panic");
        answers.into_iter().for_each(|asked| asked.expect("asking does not panic"));
    });
    let stats = cache.stats();
    let mut out = std::io::stdout().lock();
    writeln!(out, "asked     {:>10}", THREADS * QUESTIONS)?;
    writeln!(out, "computed  {:>10}", computed.load(Ordering::Relaxed))?;
    writeln!(out, "items     {:>10}", stats.items)?;
    writeln!(out, "evicted   {:>10}", stats.evicted)?;
    writeln!(out, "memory    {:>10} of {} bytes", stats.used_bytes, stats.limit_bytes)?;
    Ok(())
}

/// Asks many times, and counts the computed results.
fn ask(cache: &Cache, seed: u64, computed: &AtomicU64) {
    let mut random = seed;
    for _ in 0..QUESTIONS {
        let number = skewed(&mut random);
        let key = number.to_le_bytes();
        let known = cache.get(&key).and_then(|value| value.try_into().ok());
        let length = match known {
            Some(bytes) => u64::from_le_bytes(bytes),
            None => {
                computed.fetch_add(1, Ordering::Relaxed);
                let length = collatz_length(number);
                // A refusal means that there is no memory: the result is not kept, that is all.
                let _ = cache.set(&key, &length.to_le_bytes(), Expiry::NEVER);
                length
            }
        };
        assert!(length < LENGTH_LIMIT, "a value that nobody stored");
    }
}

/// Returns a number below `NUMBERS`, small ones more often.
fn skewed(random: &mut u64) -> u64 {
    *random =
        random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let share = (*random >> 11) as f64 / (1_u64 << 53) as f64;
    1 + (share.powi(8) * (NUMBERS - 1) as f64) as u64
}

/// Returns how many steps it takes from `number` to 1.
fn collatz_length(mut number: u64) -> u64 {
    let mut length = 0;
    while number != 1 {
        number = if number.is_multiple_of(2) { number / 2 } else { 3 * number + 1 };
        length += 1;
    }
    length
}
