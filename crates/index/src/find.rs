//! Lookups: no lock, nothing written, and a version only before saying that a key is absent.
//!
//! Why a hit needs no version: the word that was read was in the table at that moment, and the
//! item behind it is immutable. Why a miss does: a word that moves is in its new slot before it
//! leaves the old one, but a scan may pass the new slot too early and the old one too late. So the
//! miss counts only when the version of the key's tag was even before a scan and the same after.
//!
//! Why a lookup may go on in a table that has just been replaced: that table does not change any
//! more, so what it says was true at the moment it was closed, or when the lookup entered it if
//! that was later. Both lie within the lookup.

use crate::index::{Index, View};
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

impl Index {
    /// Asks the processor for the two cache lines that a lookup of `hash` will read.
    #[inline]
    pub fn prefetch(&self, guard: &Guard<'_>, hash: Hash) {
        let view = self.view(guard, hash);
        for bucket in view.buckets {
            view.table.bucket(bucket).prefetch();
        }
    }

    /// The first location whose tag matches, for fetching the item ahead. It may be another key's,
    /// and `None` proves nothing.
    #[inline]
    pub fn candidate(&self, guard: &Guard<'_>, hash: Hash) -> Option<Location> {
        let found = self.view(guard, hash).scan(&mut |_| true);
        found.map(|found| found.location)
    }

    /// The location for which `eq` says that its item has the sought key. `eq` may be called more
    /// than once for a location, and must not call the index.
    #[inline]
    pub fn find(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        mut eq: impl FnMut(Location) -> bool,
    ) -> Option<Location> {
        let mut view = self.view(guard, hash);
        let mut version_before = None;
        let mut backoff = Backoff::default();
        loop {
            if let Some(found) = view.scan(&mut eq) {
                return Some(found.location);
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

    /// Whether this very location is in the index under `hash`.
    #[inline]
    pub fn contains_exact(&self, guard: &Guard<'_>, hash: Hash, location: Location) -> bool {
        self.find(guard, hash, |found| found == location).is_some()
    }
}

impl View<'_> {
    /// One look at both buckets. What it does not find may still be there: see [`Index::find`].
    #[inline]
    pub(crate) fn scan(&self, eq: &mut impl FnMut(Location) -> bool) -> Option<Found> {
        for side in Side::BOTH {
            let index = self.buckets[side as usize];
            let bucket = self.table.bucket(index);
            let sought = pattern(side, self.tag);
            let mut matches = bucket.matches(sought);
            while matches != 0 {
                let slot = matches.trailing_zeros() as usize;
                matches &= matches - 1;
                let word = bucket.load(slot);
                if word.pattern() == sought
                    && let Some(location) = word.location()
                    && eq(location)
                {
                    return Some(Found {
                        bucket: index,
                        slot,
                        side,
                        location,
                    });
                }
            }
        }
        None
    }
}
