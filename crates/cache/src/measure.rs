//! What items cost to make again, measured from outside: the time from a key's miss to its next
//! store, on whichever connections they come.
//!
//! ```text
//!   get, gat, mg: not there --> misses: key, time       a bounded table of notes
//!                                  |
//!   set, add, cas, ms ... ---------+--> time since then --> bound --> mix --> item's cost
//!                                                             ^        ^
//!                                  prefixes: usual cost ------+        +-- what the key had cost
//! ```
//!
//! A store gets its cost when its memory is reserved, since the cost has a place in the item. For
//! a value that arrives in parts this is when its first bytes do. What the store teaches is entered
//! when it succeeded, and then the note is gone.
//!
//! - **A cost that the client states** is taken as it is. It adds to the sums of misses, and
//!   teaches the prefix nothing: clients may count in other units.
//! - **A store after a miss** costs the time between, 1 µs to [`COST_US_MAX`]. If that is beyond
//!   what is usual for the key's prefix it is drawn to the edge of it, and if it is known what the
//!   key had cost before, it counts a quarter beside that ([`model`]).
//! - **A store without one** keeps what the key's present item costs, and otherwise gets what is
//!   typical for its prefix, if that is known.
//! - **Of many who miss a key together**, the first is noted and the first store uses the note up:
//!   that long the value was not there. The others' stores come without a note and keep the cost.
//! - **Who is handed a win token** makes the value, so the note is replaced by one of that moment.
//! - **A note is used up or forgotten**: after a minute it counts no more.
//!
//! What the key had cost before is known if its item is still there (also stale, or expired and not
//! yet removed), or if the miss found the item expired and noted the cost. Of an evicted item it is
//! not: then only the prefix helps.
//!
//! Nothing here waits, and sessions may be open. Hits come by nowhere.

use std::sync::atomic::{AtomicU64, Ordering};

use index::Hash;
use memory::Guard;
use stdx::CachePadded;

use crate::cache::Cache;
use crate::types::Attributes;
use misses::{Misses, NOTE_US_MAX, Noted};
pub use prefixes::CostPrefix;
use prefixes::{Prefixes, prefix_of};

mod misses;
mod model;
mod prefixes;

/// The highest cost that is measured, in microseconds. Clients rarely wait longer for a value; what
/// takes longer was most likely interrupted.
const COST_US_MAX: u64 = 10_000_000;
/// Threads that count at the same time mostly do so on different cache lines.
const STRIPES: usize = 8;

/// What measuring needs: about 600 KiB, whatever the memory limit.
#[derive(Debug)]
pub(crate) struct Measure {
    misses: Misses,
    prefixes: Prefixes,
    counters: [CachePadded<Counters>; STRIPES],
}

/// What measuring costs came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostStats {
    /// Misses and win tokens that were noted.
    pub misses_noted: u64,
    /// Misses of a key that others had missed already.
    pub misses_again: u64,
    /// Notes that gave way to other keys' while they were still of use.
    pub notes_lost: u64,
    /// Notes that the key's next store could not use: too old, or made while its value arrived.
    pub notes_late: u64,
    /// Stores whose cost was measured.
    pub measured: u64,
    /// Of these, the ones whose time was beyond what is usual for the prefix, and was bounded.
    pub outliers: u64,
    /// Stores after a miss whose cost the client stated.
    pub stated: u64,
    /// Stores without a miss that kept the cost of the item before.
    pub kept: u64,
    /// Stores without a miss that got the typical cost of their prefix.
    pub presumed: u64,
    /// What the measured and stated misses cost together, in microseconds.
    pub miss_cost_us: u64,
}

#[derive(Debug, Default)]
struct Counters {
    misses_noted: AtomicU64,
    misses_again: AtomicU64,
    notes_lost: AtomicU64,
    notes_late: AtomicU64,
    measured: AtomicU64,
    outliers: AtomicU64,
    stated: AtomicU64,
    kept: AtomicU64,
    presumed: AtomicU64,
    miss_cost_us: AtomicU64,
}

/// Where a draft's cost comes from, for when it is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    kind: Kind,
    /// What the miss cost, bounded, before it is mixed with what the key had cost.
    us: u32,
    /// The hash of the key's prefix, for the kinds that have to do with it.
    prefix: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    /// There was nothing to go by, or the client stated a cost and had missed nothing.
    #[default]
    Other,
    Stated,
    Measured,
    Outlier,
    Kept,
    Presumed,
}

impl Measure {
    pub(crate) fn new() -> Self {
        Self {
            misses: Misses::new(),
            prefixes: Prefixes::new(),
            counters: std::array::from_fn(|_| CachePadded::default()),
        }
    }

    fn counters(&self, hash: Hash) -> &Counters {
        &self.counters[(hash.0 >> 16) as usize % STRIPES].0
    }

    fn note(&self, hash: Hash, now_us: u64, key_us: u32, is_won: bool) {
        let counters = self.counters(hash);
        let noted = self.misses.note(hash.0, now_us, key_us, is_won);
        let counter = match noted {
            Noted::Known => &counters.misses_again,
            Noted::Fresh | Noted::Displaced => &counters.misses_noted,
        };
        one(counter);
        if noted == Noted::Displaced {
            one(&counters.notes_lost);
        }
    }

    /// What a store costs that comes so long after its key's miss, and how usual that is.
    fn measured(&self, prefix: u64, elapsed_us: u64, key_us: u32) -> (u32, Origin) {
        let raw = elapsed_us.clamp(1, COST_US_MAX) as u32;
        let us = self.prefixes.model(prefix).bound(raw, key_us);
        let kind = if us == raw { Kind::Measured } else { Kind::Outlier };
        (model::mix(key_us, us), Origin { kind, us, prefix })
    }

    /// Enters what a store has taught.
    fn settle(&self, hash: Hash, origin: Origin) {
        let Origin { kind, us, prefix } = origin;
        let counters = self.counters(hash);
        let had_note = self.misses.take(hash.0);
        match kind {
            // Another store has used up the note meanwhile.
            Kind::Stated | Kind::Measured | Kind::Outlier if !had_note => {}
            Kind::Stated | Kind::Measured | Kind::Outlier => {
                let is_outlier = kind == Kind::Outlier;
                one(if kind == Kind::Stated { &counters.stated } else { &counters.measured });
                counters.miss_cost_us.fetch_add(u64::from(us), Ordering::Relaxed);
                if is_outlier {
                    one(&counters.outliers);
                }
                if kind != Kind::Stated {
                    self.prefixes.teach(prefix, us);
                }
                self.prefixes.count(prefix, us, is_outlier);
                return;
            }
            Kind::Kept => one(&counters.kept),
            Kind::Presumed => {
                one(&counters.presumed);
                self.prefixes.count_presumed(prefix);
            }
            Kind::Other => {}
        }
        if had_note {
            one(&counters.notes_late);
        }
    }

    /// The sums of all counters.
    pub(crate) fn stats(&self) -> CostStats {
        let mut stats = CostStats::default();
        for counters in &self.counters {
            let sums = [
                (&mut stats.misses_noted, &counters.misses_noted),
                (&mut stats.misses_again, &counters.misses_again),
                (&mut stats.notes_lost, &counters.notes_lost),
                (&mut stats.notes_late, &counters.notes_late),
                (&mut stats.measured, &counters.measured),
                (&mut stats.outliers, &counters.outliers),
                (&mut stats.stated, &counters.stated),
                (&mut stats.kept, &counters.kept),
                (&mut stats.presumed, &counters.presumed),
                (&mut stats.miss_cost_us, &counters.miss_cost_us),
            ];
            for (sum, counter) in sums {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
        stats
    }

    /// Begins all sums anew. What is known of costs stays.
    pub(crate) fn reset(&self) {
        for counters in &self.counters {
            let Counters {
                misses_noted,
                misses_again,
                notes_lost,
                notes_late,
                measured,
                outliers,
                stated,
                kept,
                presumed,
                miss_cost_us,
            } = &counters.0;
            let counts = [misses_noted, misses_again, notes_lost, notes_late, measured, outliers];
            for counter in counts.into_iter().chain([stated, kept, presumed, miss_cost_us]) {
                counter.store(0, Ordering::Relaxed);
            }
        }
        self.prefixes.reset();
    }
}

impl Cache {
    /// Takes note that a reader did not find a key. `key_us` is what the key had cost before, 0 if
    /// nobody knows.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_miss(&self, hash: Hash, key_us: u32) {
        if let Some(measure) = &self.measure {
            measure.note(hash, self.clock.monotonic_us(), key_us, false);
        }
    }

    /// Takes note that a reader was told to make a key's value.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_win(&self, hash: Hash, key_us: u32) {
        if let Some(measure) = &self.measure {
            measure.note(hash, self.clock.monotonic_us(), key_us, true);
        }
    }

    /// With the cost that a store of this key shall have, and where that comes from.
    #[inline(never)]
    pub(crate) fn with_cost(
        &self,
        measure: &Measure,
        guard: &Guard<'_>,
        key: &[u8],
        hash: Hash,
        attributes: Attributes,
    ) -> (Attributes, Origin) {
        let (cost_us, origin) = self.presume(measure, guard, key, hash, attributes.cost_us);
        (Attributes { cost_us, ..attributes }, origin)
    }

    fn presume(
        &self,
        measure: &Measure,
        guard: &Guard<'_>,
        key: &[u8],
        hash: Hash,
        stated_us: u32,
    ) -> (u32, Origin) {
        let note = measure.misses.find(hash.0).and_then(|note| {
            let age_us = note.age_us(self.clock.monotonic_us());
            (age_us <= NOTE_US_MAX).then_some((note, age_us))
        });
        let prefix = prefix_of(key);
        let prefix_hash = || self.hash(prefix).0.max(1);
        if stated_us != 0 {
            if note.is_none() {
                return (stated_us, Origin::default());
            }
            let origin = Origin { kind: Kind::Stated, us: stated_us, prefix: prefix_hash() };
            measure.prefixes.admit(origin.prefix, prefix);
            return (stated_us, origin);
        }
        let present_us = self.find(guard, key, hash).map_or(0, |found| found.item.cost().us());
        if let Some((note, age_us)) = note {
            let key_us = if present_us != 0 { present_us } else { note.key_us() };
            let prefix_hash = prefix_hash();
            measure.prefixes.admit(prefix_hash, prefix);
            return measure.measured(prefix_hash, age_us, key_us);
        }
        if present_us != 0 {
            return (present_us, Origin { kind: Kind::Kept, ..Origin::default() });
        }
        let prefix = prefix_hash();
        match measure.prefixes.model(prefix).typical_us() {
            0 => (0, Origin::default()),
            us => (us, Origin { kind: Kind::Presumed, us, prefix }),
        }
    }

    /// Enters what a draft that was stored says of costs.
    #[inline]
    pub(crate) fn settle_cost(&self, hash: Hash, origin: Origin) {
        if let Some(measure) = &self.measure {
            measure.settle(hash, origin);
        }
    }

    /// What misses cost, for each prefix of keys that there is room for, the dearest first: see
    /// [`CostPrefix`]. Empty if costs are not measured.
    pub fn cost_prefixes(&self) -> Vec<CostPrefix> {
        self.measure.as_deref().map_or_else(Vec::new, |measure| measure.prefixes.list())
    }
}

fn one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
