//! Lookups: no lock, nothing written, and a version only before saying that a key is absent.
//!
//! Where words do not move, as in a tree, the first look decides: `tree` says why. The rest of this
//! is about a cuckoo table.
//!
//! Why a hit needs no version: the word that was read was in the table at that moment, and the item
//! behind it is immutable. Why a miss does: a word that moves is in its new slot before it leaves
//! the old one, but a scan may pass the new slot too early and the old one too late. So the miss
//! counts only when the version of the key's tag was even before a scan and the same after. The
//! lookup waits while a writer moves a word, for a moment, or until a writer that lost its core
//! continues.
//!
//! Why a lookup may continue in a table that has just been replaced: that table does not change any
//! more, so its answer was true at the moment it was closed, or when the lookup entered it if that
//! was later. Both lie within the lookup.

use crate::engine::{Engine, View};
use crate::layout::Layout;
use crate::location::{Hash, Location};
use crate::word::{Side, pattern};
use memory::Guard;
use stdx::sync::Backoff;

/// A word that a scan found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) bucket: usize,
    pub(crate) slot: usize,
    pub(crate) side: Side,
    pub(crate) location: Location,
}

impl<L: Layout> Engine<L> {
    /// See [`Index::prefetch`](crate::Index::prefetch).
    #[inline]
    pub(crate) fn prefetch(&self, guard: &Guard<'_>, hash: Hash) {
        L::prefetch(&self.view(guard, hash));
    }

    /// See [`Index::candidate`](crate::Index::candidate).
    #[inline]
    pub(crate) fn candidate(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        mut is_wanted: impl FnMut(Location) -> bool,
    ) -> Option<Location> {
        let found = L::scan(&self.view(guard, hash), &mut is_wanted);
        found.map(|found| found.location)
    }

    /// See [`Index::find`](crate::Index::find).
    #[inline(always)]
    pub(crate) fn find(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        mut eq: impl FnMut(Location) -> bool,
    ) -> Option<Location> {
        let mut view = self.view(guard, hash);
        let mut version_before = None;
        let mut backoff = Backoff::default();
        loop {
            if let Some(found) = L::scan(&view, &mut eq) {
                return Some(found.location);
            }
            if !L::WORDS_MOVE {
                return None;
            }
            let version = view.table.version(view.tag);
            if version.is_multiple_of(2) {
                if version_before == Some(version) {
                    return None;
                }
                version_before = Some(version);
            } else {
                // A word is moving, or the table has been replaced.
                backoff.wait();
                view = self.view(guard, hash);
                version_before = None;
            }
        }
    }

    /// See [`Index::lookup_lines`](crate::Index::lookup_lines).
    pub(crate) fn lookup_lines(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        mut eq: impl FnMut(Location) -> bool,
    ) -> usize {
        let view = self.view(guard, hash);
        L::lines(&view, L::scan(&view, &mut eq))
    }
}

impl<L: Layout> View<'_, L> {
    /// One look at one bucket, for words that lie on `side` of it.
    #[inline]
    pub(crate) fn scan_bucket(
        &self,
        index: usize,
        side: Side,
        eq: &mut impl FnMut(Location) -> bool,
    ) -> Option<Found> {
        let bucket = self.table.bucket(index);
        let sought = pattern(side, self.tag);
        let mut matches = bucket.matches(sought, L::SLOTS);
        while matches != 0 {
            let slot = matches.trailing_zeros() as usize;
            matches &= matches - 1;
            let word = bucket.load(slot);
            if word.pattern() == sought
                && let Some(location) = word.location()
                && eq(location)
            {
                return Some(Found { bucket: index, slot, side, location });
            }
        }
        None
    }
}

#[cfg(all(test, loom))]
mod models {
    //! `RUSTFLAGS="--cfg loom" cargo test -p larder-index --release --lib models`

    use super::*;
    use crate::cuckoo::{Cuckoo, SLOTS};
    use crate::{Change, Options};
    use memory::{Epochs, TableSpace};
    use std::ptr::NonNull;
    use std::sync::Arc;

    /// A space that agrees to everything: under loom, tables live in boxes of their own.
    struct Consent;

    impl TableSpace for Consent {
        fn allocate(&self, _units: usize) -> Option<NonNull<u8>> {
            Some(NonNull::dangling())
        }

        unsafe fn release(&self, _start: NonNull<u8>, _units: usize) {}
    }

    const KEY: Hash = Hash(0x1234_5678_9abc_def0);
    const HOME: Location = Location::new(1, 7);

    /// Moves the word of `KEY` to its other bucket, into a slot that is free.
    fn turn(index: &Engine<Cuckoo>) {
        let guard = index.epochs.pin();
        let view = index.view(&guard, KEY);
        let locked = view.table.lock().expect("nobody retires it");
        let found = Cuckoo::scan(&view, &mut |_| true).expect("it is there");
        let target = view.home[1 - found.side as usize];
        let slot = view.table.bucket(target).free_slot(SLOTS).expect("nobody else is");
        locked.move_word((found.bucket, found.slot), (target, slot));
    }

    /// A lookup scans at least twice before it says that a key is absent, so a key that escapes it
    /// must move three times. Without versions it does.
    #[test]
    fn a_key_that_moves_to_and_fro_is_found() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(5);
        // Building a table takes more stack than loom gives a thread.
        let start = || loom::thread::Builder::new().stack_size(256 << 10);
        model.check(move || {
            let run = start().spawn(run).expect("loom can start another thread");
            run.join().expect("the model holds");
        });

        fn run() {
            let epochs = Arc::new(Epochs::new());
            let layout = Cuckoo { paths: Options::default().paths };
            let index = Engine::new(layout, &Options::default(), epochs, Arc::new(Consent));
            let index = Arc::new(index.expect("there is memory"));
            let guard = index.epochs.pin();
            let set = |_| (Change::Set(HOME), ());
            let room = index.update(&guard, KEY, |_| false, set);
            assert_eq!(room, Ok(()));
            drop(guard);
            turn(&index);
            let reader = {
                let index = index.clone();
                loom::thread::spawn(move || {
                    let guard = index.epochs.pin();
                    let found = index.find(&guard, KEY, |location| location == HOME);
                    assert_eq!(found, Some(HOME), "a false miss");
                })
            };
            for _ in 0..3 {
                turn(&index);
            }
            reader.join().expect("the reader found it");
        }
    }
}
