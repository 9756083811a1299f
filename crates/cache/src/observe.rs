//! Changes that a caller makes up from the present item: observe it, prepare its successor, and
//! enter that only if no other client was faster.
//!
//! ```text
//! observe --> draft_over, fill --> replace --+
//!        \--> touch_observed ----------------+--> done, or changed meanwhile: observe again
//!         \-> remove_observed ---------------+
//! ```
//!
//! A CAS unique would not do: it tells a value from the next, but an item that is given another
//! expiry keeps its unique, if that is not very old. The value and the expiry are what is observed.
//! A client that finds them changed has lost to one that made progress, so a retry waits for
//! nobody.

use hot::Fields;
use index::Hash;
use policy::cost::Cost;

use crate::amend::{Marks, Numbering, Seen};
use crate::item::Item;
use crate::places::Fate;
use crate::session::Session;
use crate::store::Draft;
use crate::types::{Expiry, Refusal};

/// An item as it was at one moment, to be changed if it still is.
pub struct Observed<'s> {
    seen: Seen<'s>,
    item: Item<'s>,
    hash: Hash,
}

impl<'s> Observed<'s> {
    /// Returns the item.
    pub fn item(&self) -> &Item<'s> {
        &self.item
    }
}

/// The fields of its own of a draft that is to take an observed item's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Successor {
    /// Client flags; `None` keeps those of the item.
    pub flags: Option<u32>,
    /// When it expires.
    pub expiry: Expiry,
    /// Microseconds that it takes to make the value again; `None` keeps the item's.
    pub cost_us: Option<u32>,
}

impl<'c> Session<'c> {
    /// Finds the key's item, if it is there, to be changed; it is promoted if it is in a lower
    /// tier. Counts as an access; a miss is not noted.
    ///
    /// # Errors
    ///
    /// The item could not be promoted, or has to be read from flash first.
    pub fn observe(&self, key: &[u8], hash: Hash) -> Result<Option<Observed<'_>>, Refusal> {
        let Some(seen) = self.see(key, hash)? else {
            return Ok(None);
        };
        let mark = self.mark_hit(seen.found);
        let item = Item::hot(self.cache, seen.found, mark);
        Ok(Some(Observed { seen, item, hash }))
    }

    /// Reserves memory for the successor of an observed item.
    ///
    /// # Errors
    ///
    /// Those of [`Session::reserve`].
    pub fn draft_over(
        &self,
        observed: &Observed<'_>,
        successor: Successor,
        value_bytes: usize,
    ) -> Result<Draft<'c>, Refusal> {
        let old = observed.seen.found.item;
        let fields = old.fields();
        let fields = successor.expiry.put_in(Fields {
            flags: successor.flags.unwrap_or(fields.flags),
            cost: successor.cost_us.map_or(fields.cost, Cost::from_us),
            custom_cas: None,
            ..fields
        });
        self.cache.reserve_fields(old.key(), observed.hash, &fields, value_bytes)
    }

    /// Enters a filled draft in the place of the item. `false`, and nothing done, if that has
    /// changed meanwhile.
    pub fn replace(&self, observed: &Observed<'_>, draft: Draft<'c>) -> bool {
        self.amend(&observed.seen, draft, Numbering::Next, Marks::NEW).is_some()
    }

    /// Gives the item another expiry; one in the past removes it. `false`, and nothing done, if the
    /// item has changed meanwhile.
    ///
    /// # Errors
    ///
    /// There is no memory for an item that has to move for its expiry.
    pub fn touch_observed(&self, observed: &Observed<'_>, expiry: Expiry) -> Result<bool, Refusal> {
        Ok(self.touch_seen(&observed.seen, observed.hash, expiry)?.is_some())
    }

    /// Removes the item. `false`, and nothing done, if it has changed meanwhile.
    pub fn remove_observed(&self, observed: &Observed<'_>) -> bool {
        let seen = &observed.seen;
        let removed = self.cache.update_found(&self.guard, observed.hash, &seen.found, || {
            let unchanged = self.is_as_seen(seen);
            (if unchanged { Fate::Remove } else { Fate::Keep }, unchanged)
        });
        removed == Some(true)
    }
}

impl std::fmt::Debug for Observed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observed").field("item", &self.item).finish_non_exhaustive()
    }
}
