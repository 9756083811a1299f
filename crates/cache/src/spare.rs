//! Spare rows: what stays on flash of an item that has come up into memory.
//!
//! A row on flash takes its room until its segment is collected, whether anything leads to it or
//! not. So it is not forgotten when its item comes up, as long as that one does not change:
//!
//! ```text
//!                        index                 memory               flash
//!   read twice        flash -> row                                   row
//!   comes up      hot -> item, spare -> row    hot item              row
//!   goes down             spare -> row         compressed copy       row
//!   leaves memory      flash -> row                                  row, not written again
//! ```
//!
//! - A word of the index leads to a spare row as to any other row, beside the word of a hot item or
//!   alone, while the item is in the compressed zone. Readers ask for it last, as always: what it
//!   leads to is the same value.
//! - Who changes a key takes both words in one step, and notes on the device that the row is dead
//!   before anybody is answered, as for an item that is on flash only. A change in place, of an
//!   expiry, is one, too ([`Fate::Alter`](crate::places::Fate)). So a row that the index leads to,
//!   or that a restart finds, never is older than what was acknowledged.
//! - An item that leaves memory while its row is spare *rests* there: its word says so, and nothing
//!   is written. It was read since it was stored, so collection does not let go of it at once.
//! - Collection drops a row that is spare: it would be written only to be forgotten at the next
//!   change, and what is in memory can be written when it leaves.
//! - Marks of win tokens are no part of a change. An item that has one goes down as one without a
//!   row does.
//!
//! It costs the word, nine bytes for each row that is spare. After a crash of the process what is
//! in memory and has such a row is found again.

use std::sync::atomic::Ordering;

use hot::ItemRef;
use hot::mark::{SENT, STALE};
use index::Hash;
use memory::{Guard, Place};

use crate::cache::Cache;

/// Bits of a mark that a row would have to have as well.
const TOKENS: u8 = SENT | STALE;

impl Cache {
    /// Lets an item of the hot zone rest on flash, if its row there is spare and `is_same` says so
    /// of it under the key's lock. Returns whether it does.
    pub(crate) fn rest_hot(
        &self,
        guard: &Guard<'_>,
        (hash, hot): (Hash, Place),
        is_same: impl FnOnce(ItemRef<'_>) -> bool,
    ) -> bool {
        let agrees =
            |item: ItemRef<'_>| item.mark().load(Ordering::Relaxed) & TOKENS == 0 && is_same(item);
        let rests = self.flash.is_some() && self.exchange_for_spare(guard, hash, hot, agrees);
        self.count_rested(rests)
    }

    /// The same for an item of the compressed zone, which the caller buries then.
    pub(crate) fn rest_row(
        &self,
        guard: &Guard<'_>,
        record: &compressed::Record<'_>,
        hash: Hash,
        is_alive: impl FnOnce() -> bool,
    ) -> bool {
        let rests = record.fields.mark & TOKENS == 0 && self.rest(guard, hash, is_alive);
        self.count_rested(rests)
    }

    /// Counts an item that rests; returns whether it does.
    pub(crate) fn count_rested(&self, rests: bool) -> bool {
        if let Some(tier) = self.flash.as_deref().filter(|_| rests) {
            tier.counters.rested.fetch_add(1, Ordering::Relaxed);
        }
        rests
    }
}
