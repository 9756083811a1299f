//! The workers' counters.
//!
//! Every worker has a set of counters that only it writes, with a plain load and store; the sets
//! are added up when statistics are asked for. So counting costs no locked instruction and no cache
//! line is written by two threads. A sum is not a snapshot, and need not be.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use stdx::CachePadded;
use stdx::sync::lock;

/// A number with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one. Only the owner may.
    #[inline]
    pub fn one(&self) {
        self.add(1);
    }

    /// Counts `amount`. Only the owner may.
    #[inline]
    pub fn add(&self, amount: u64) {
        let value = self.0.load(Ordering::Relaxed);
        self.0.store(value.wrapping_add(amount), Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares the counters once: the struct, and the sums that `stats` shows.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One worker's counters.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        /// The counters of all workers added up.
        #[derive(Debug, Default, Clone)]
        pub struct Sums {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Sums {
            /// Adds one worker's counters.
            pub fn add(&mut self, counters: &Counters) {
                $(self.$name = self.$name.wrapping_add(counters.$name.get());)*
            }

            /// The counts since `before`, which is how `stats reset` works.
            pub fn since(&self, before: &Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(before.$name),)* }
            }
        }
    };
}

counters! {
    /// Keys asked for.
    cmd_get,
    /// Values sent to be stored.
    cmd_set,
    /// `flush_all`.
    cmd_flush,
    /// `flush_prefix`.
    cmd_flush_prefix,
    /// Touches, by `touch`, `gat` or a meta flag.
    cmd_touch,
    /// Meta commands.
    cmd_meta,
    /// Commands in Redis' protocol.
    cmd_redis,
    /// Commands in Redis' protocol that were answered with an error, and input that was no command.
    redis_errors,
    /// Keys found.
    get_hits,
    /// Keys not found.
    get_misses,
    /// Microseconds that remaking the values found would have taken, as far as is known.
    cost_saved_us,
    /// Microseconds that making the values stored took, as far as is known.
    cost_stored_us,
    /// Deletes of nothing.
    delete_misses,
    /// Deletes.
    delete_hits,
    /// `incr` on nothing.
    incr_misses,
    /// `incr`.
    incr_hits,
    /// `decr` on nothing.
    decr_misses,
    /// `decr`.
    decr_hits,
    /// `cas` on nothing.
    cas_misses,
    /// `cas` that stored.
    cas_hits,
    /// `cas` with another unique.
    cas_badval,
    /// Touches that found their item.
    touch_hits,
    /// Touches of nothing.
    touch_misses,
    /// Values over the item limit.
    store_too_large,
    /// Values that no memory could be found for.
    store_no_memory,
    /// Names and passwords that were given.
    auth_cmds,
    /// Those of them that were wrong.
    auth_errors,
    /// Those of these that were not checked, as their address has to wait.
    auth_throttled,
    /// Connections that ended before the TLS handshake did.
    ssl_handshake_errors,
    /// TLS sessions that were not resumed.
    ssl_new_sessions,
    /// Connections closed for silence.
    idle_kicks,
    /// Connections closed because their replies would not fit the output limit.
    output_kicks,
    /// Connections closed because they sent a part of a value and no more.
    unfinished_kicks,
    /// Requests for long values that waited until there was room for their replies.
    output_waits,
    /// Bytes that came in.
    bytes_read,
    /// Bytes that went out.
    bytes_written,
    /// Turns that ended with more to read, so that others come first.
    conn_yields,
}

/// The counters of every worker, each on cache lines of its own.
#[derive(Debug)]
pub struct CounterSets(Box<[CachePadded<Counters>]>);

impl CounterSets {
    /// One set for each of `workers`.
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| CachePadded::default()).collect())
    }

    /// A worker's own set.
    pub fn of(&self, worker: usize) -> &Counters {
        &self.0[worker]
    }

    /// The sum of all sets.
    pub fn sum(&self) -> Sums {
        let mut sums = Sums::default();
        for counters in &self.0 {
            sums.add(counters);
        }
        sums
    }

    /// The counts since the sums in `before` were stored.
    pub fn since(&self, before: &Mutex<Sums>) -> Sums {
        // Locked first: the sums stored there are older, so that no count is less now.
        let before = lock(before);
        self.sum().since(&before)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn sums_and_resets() {
        let sets = CounterSets::new(2);
        sets.of(0).get_hits.one();
        sets.of(1).get_hits.add(4);
        let before = sets.sum();
        assert_eq!(before.get_hits, 5);
        sets.of(1).get_hits.one();
        assert_eq!(sets.sum().since(&before).get_hits, 1);
    }

    /// Regression: a reset between the sum and the subtraction made numbers near 2^64.
    #[test]
    fn no_number_is_negative_while_another_thread_resets() {
        const LOOKS: usize = 100_000;
        let (sets, reset) = (CounterSets::new(1), Mutex::default());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // A thread that asks meanwhile has to wait, and a sum it had made before would
                    // be old.
                    let mut reset = lock(&reset);
                    sets.of(0).get_hits.one();
                    *reset = sets.sum();
                }
            });
            let most = (0..LOOKS).map(|_| sets.since(&reset).get_hits).max();
            is_over.store(true, Ordering::Relaxed);
            assert!(most < Some(1 << 63), "{most:?}");
        });
    }
}
