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
//! A store is timed when its memory is reserved: for a value that arrives in parts this is when its
//! first bytes do. The cost of the key's present item is seen when the draft takes its place, where
//! the store looks for that item anyway, and the cost is written into the draft then. What the
//! store teaches is entered when it succeeded, and then the note is gone.
//!
//! - **A cost that the client states** is taken as it is. It adds to the sums of misses, and
//!   teaches the prefix nothing: clients may count in other units.
//! - **A store after a miss** costs the time between, 1 µs to [`COST_US_MAX`]. If that is beyond
//!   what is usual for the key's prefix it is drawn to the edge of it, and if the key's earlier
//!   cost is known, it counts a quarter beside that ([`model`]).
//! - **A store without a miss** keeps the cost of the key's present item, and otherwise gets the
//!   typical cost of its prefix, if that is known.
//! - **Of many clients that miss a key together**, the first miss is noted and the first store uses
//!   the note up: that long the value was not there. The others' stores come without a note and
//!   keep the cost.
//! - **A client that is handed a win token** makes the value, so the note is replaced by one of
//!   that moment.
//! - **A note is used up or forgotten**: after a minute it counts no more.
//!
//! The key's earlier cost is known if its item is still in memory (in the hot zone also if it is
//! expired and not yet removed), or if the miss found the item expired there and noted the cost. It
//! is not known of an evicted item, nor of one that is on flash only, of which a store reads
//! nothing: then only the prefix helps.
//!
//! Nothing here waits, and sessions may be open. Hits do not come here.

use std::sync::atomic::{AtomicU64, Ordering};

use index::Hash;
use policy::cost::Cost;
use stdx::CachePadded;

use crate::cache::Cache;
use misses::{Misses, NOTE_US_MAX, Note, Noted};
pub use prefixes::CostPrefix;
use prefixes::{Prefixes, prefix_of};

mod misses;
mod model;
mod prefixes;

/// The highest cost that is measured, in microseconds. Clients rarely wait longer for a value; a
/// longer time was most likely an interruption.
const COST_US_MAX: u64 = 10_000_000;
/// The fewest costs that have a meaningful mean.
const MEAN_OF_MIN: u64 = 100;
/// Sets of counters, so that threads that count at the same time mostly do so on different cache
/// lines.
const STRIPES: usize = 8;

/// The state of measuring: about 600 KiB, whatever the memory limit.
#[derive(Debug)]
pub(crate) struct Measure {
    misses: Misses,
    prefixes: Prefixes,
    counters: [CachePadded<Counters>; STRIPES],
}

/// Statistics of measuring costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostStats {
    /// Misses and win tokens that were noted.
    pub misses_noted: u64,
    /// Misses of a key that other clients had missed already.
    pub misses_again: u64,
    /// Notes that gave way to other keys' while they were still of use.
    pub notes_lost: u64,
    /// Notes that the key's next store could not use: too old, or made while its value arrived.
    pub notes_late: u64,
    /// Stores whose cost was measured.
    pub measured: u64,
    /// Of `measured`, those whose time was beyond what is usual for the prefix, and was bounded.
    pub outliers: u64,
    /// Stores after a miss whose cost the client stated.
    pub stated: u64,
    /// Stores without a miss that kept the cost of the item before.
    pub kept: u64,
    /// Stores without a miss that got the typical cost of their prefix.
    pub presumed: u64,
    /// The total cost of the measured and stated misses, in microseconds.
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

/// The cost that a draft is to have and its origin, for when it is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    kind: Kind,
    /// The cost of the item, as far as it is known without the key's present item.
    pub(crate) cost: Cost,
    /// The cost of the miss, bounded, before it is mixed with the key's earlier cost.
    us: u32,
    /// The cost of the miss before it was bounded.
    elapsed_us: u32,
    /// The hash of the key's prefix, for the kinds that depend on it.
    prefix: u32,
    /// The key had a note, of use or not.
    has_note: bool,
    /// Notes that had been made when the key's was looked for, modulo 2^32: of the keys that are
    /// counted together with it.
    notes: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    /// Costs are not measured, or not of this draft.
    #[default]
    None,
    /// The client stated a cost, and the key had not been missed.
    Told,
    Stated,
    Measured,
    Outlier,
    Kept,
    Presumed,
    /// There was nothing to go by.
    Unknown,
}

impl Origin {
    /// Returns the origin of a draft of this cost of which nothing is measured.
    pub(crate) fn unmeasured(cost: Cost) -> Self {
        Self { cost, ..Self::default() }
    }

    /// Whether the cost of the key's present item affects that of the draft.
    #[inline]
    pub(crate) fn asks_present(self) -> bool {
        !matches!(self.kind, Kind::None | Kind::Told | Kind::Stated)
    }

    /// Returns the origin without a cost, and without asking for the present item's.
    pub(crate) fn unknown(self) -> Self {
        Self { kind: Kind::Told, cost: Cost::UNKNOWN, ..self }
    }
}

impl CostStats {
    /// Returns the mean cost of a miss, in microseconds, if enough are known.
    pub(crate) fn mean_miss_us(&self) -> Option<u64> {
        let known = self.measured + self.stated;
        (known >= MEAN_OF_MIN).then(|| self.miss_cost_us / known)
    }
}

impl Measure {
    /// Returns a measurement that knows nothing yet.
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

    /// Returns the notes made so far, modulo 2^32, of the keys that are counted together.
    #[inline]
    fn notes(&self, hash: Hash) -> u32 {
        self.counters(hash).misses_noted.load(Ordering::Relaxed) as u32
    }

    /// Prefetches what a store of the key will look at.
    #[inline]
    pub(crate) fn prefetch(&self, hash: Hash) {
        self.misses.prefetch(hash.0);
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

    /// Returns the cost of a store that comes `elapsed_us` after its key's miss, and whether that
    /// is usual.
    fn measured(&self, prefix: u32, elapsed_us: u32, key_us: u32) -> Origin {
        let us = self.prefixes.model(prefix).bound(elapsed_us, key_us);
        let kind = if us == elapsed_us { Kind::Measured } else { Kind::Outlier };
        let cost = Cost::from_us(model::mix(key_us, us));
        Origin { kind, cost, us, elapsed_us, prefix, ..Origin::default() }
    }

    /// Whether a cost may be known without a miss of the key.
    fn knows_without_miss(&self) -> bool {
        self.prefixes.is_any_settled()
    }

    /// Returns the typical cost of the key's prefix, if that is known.
    fn typical(&self, prefix: &[u8], hash_of: impl FnOnce(&[u8]) -> u32) -> Origin {
        let prefix = hash_of(prefix);
        match self.prefixes.model(prefix).typical_us() {
            0 => Origin { kind: Kind::Unknown, ..Origin::default() },
            us => {
                let cost = Cost::from_us(us);
                Origin { kind: Kind::Presumed, cost, us, prefix, ..Origin::default() }
            }
        }
    }

    /// Returns the origin of the cost of a draft that takes the place of an item with this cost.
    #[cold]
    #[inline(never)]
    pub(crate) fn beside(&self, origin: Origin, present: Cost) -> Origin {
        let beside = match origin.kind {
            Kind::Measured | Kind::Outlier => {
                self.measured(origin.prefix, origin.elapsed_us, present.us())
            }
            _ => Origin { kind: Kind::Kept, cost: present, ..Origin::default() },
        };
        Origin { notes: origin.notes, has_note: origin.has_note, ..beside }
    }

    /// Enters what a store has taught.
    fn settle(&self, hash: Hash, origin: Origin) {
        // A store that found no note nearly always comes here before another is made.
        let may_have = origin.has_note || origin.notes != self.notes(hash);
        let had_note = may_have && self.misses.take(hash.0);
        if had_note || matches!(origin.kind, Kind::Kept | Kind::Presumed) {
            self.count(hash, origin, had_note);
        }
    }

    #[inline(never)]
    fn count(&self, hash: Hash, origin: Origin, had_note: bool) {
        let Origin { kind, us, prefix, .. } = origin;
        let counters = self.counters(hash);
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
            Kind::None | Kind::Told | Kind::Unknown => {}
        }
        if had_note {
            one(&counters.notes_late);
        }
    }

    /// Returns the sums of all counters.
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

    /// Resets all sums. What is known of costs stays.
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
    /// Notes that a reader did not find a key. `key_us` is the key's earlier cost, 0 if unknown.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_miss(&self, hash: Hash, key_us: u32) {
        if let Some(measure) = &self.measure {
            measure.note(hash, self.clock.monotonic_us(), key_us, false);
        }
    }

    /// Notes that a reader was told to make a key's value.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_win(&self, hash: Hash, key_us: u32) {
        if let Some(measure) = &self.measure {
            measure.note(hash, self.clock.monotonic_us(), key_us, true);
        }
    }

    /// Returns the cost that a store of this key is to have, and its origin. `stated_us` is the
    /// cost that the client states, 0 if none.
    // Always inlined, as [`Session::reserve`](crate::Session::reserve), whose part it is.
    #[inline(always)]
    pub(crate) fn origin(
        &self,
        measure: &Measure,
        key: &[u8],
        hash: Hash,
        stated_us: u32,
    ) -> Origin {
        let notes = measure.notes(hash);
        let note = measure.misses.find(hash.0);
        if note.is_none() && stated_us == 0 && !measure.knows_without_miss() {
            return Origin { kind: Kind::Unknown, notes, ..Origin::default() };
        }
        let has_note = note.is_some();
        Origin { notes, has_note, ..self.origin_of_known(measure, key, stated_us, note) }
    }

    /// [`Self::origin`] where something is known of costs.
    #[inline(never)]
    fn origin_of_known(
        &self,
        measure: &Measure,
        key: &[u8],
        stated_us: u32,
        note: Option<Note>,
    ) -> Origin {
        let note = note.and_then(|note| {
            let age_us = note.age_us(self.clock.monotonic_us());
            (age_us <= NOTE_US_MAX).then_some((note, age_us))
        });
        let hash_of = |prefix: &[u8]| ((self.hash(prefix).0 >> 32) as u32).max(1);
        if stated_us != 0 {
            let cost = Cost::from_us(stated_us);
            if note.is_none() {
                return Origin { kind: Kind::Told, cost, ..Origin::default() };
            }
            let prefix = measure.prefixes.admit(prefix_of(key), hash_of);
            return Origin { kind: Kind::Stated, cost, us: stated_us, prefix, ..Origin::default() };
        }
        match note {
            Some((note, age_us)) => {
                let prefix = measure.prefixes.admit(prefix_of(key), hash_of);
                let elapsed_us = age_us.clamp(1, COST_US_MAX) as u32;
                measure.measured(prefix, elapsed_us, note.key_us())
            }
            None => measure.typical(prefix_of(key), hash_of),
        }
    }

    /// Enters what a stored draft has taught of costs, if it was measured.
    #[inline]
    pub(crate) fn settle_cost(&self, hash: Hash, origin: Origin) {
        if let Some(measure) = &self.measure
            && origin.kind != Kind::None
        {
            measure.settle(hash, origin);
        }
    }

    /// Returns what misses cost, for each prefix of keys that there is room for, the costliest
    /// first: see [`CostPrefix`]. Empty if costs are not measured.
    pub fn cost_prefixes(&self) -> Vec<CostPrefix> {
        self.measure.as_deref().map_or_else(Vec::new, |measure| measure.prefixes.list())
    }
}

fn one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
