//! Changes that need the present item: append, prepend, arithmetic, touch, removal.
//!
//! A new item is prepared outside any lock from the one that was found, and entered only if that
//! one is still there with the same expiry and number, and nothing was flushed in between;
//! otherwise it is prepared anew from the item that is there then. Only an expiry at a whole second
//! that the item has room for is changed in place, under the same lock; one in the past is a
//! removal there.

use std::sync::atomic::Ordering;

use hot::Fields;
use hot::mark::{FETCHED, SENT, STALE};
use index::Hash;
use policy::clock::RECENT;

use crate::compressed_tier::Promoted;
use crate::pending_reads::OnReadFailure;
use crate::places::{Fate, Found};
use crate::session::Session;
use crate::store::{Draft, Entered};
use crate::types::{
    Arithmetic, Condition, Counted, Expiry, Refusal, Remove, Removed, Side, Store, Stored,
    expiry_of,
};

/// The most digits of a number in 64 bits.
const DIGITS_MAX: usize = 20;

/// An item's state when a change was prepared from it.
pub(crate) struct Seen<'g> {
    pub(crate) found: Found<'g>,
    expiry: Expiry,
    sequence: u32,
    flushes: u64,
}

/// An item that took another's place.
pub(crate) struct Amended<'g> {
    pub(crate) found: Found<'g>,
    /// Its CAS unique.
    pub(crate) cas: u64,
}

/// The outcome of giving an item another expiry.
enum Touch {
    Done,
    Changed,
    /// The item has no room for an expiry, and has to move to a chunk that has.
    NoRoom,
}

/// The bits of the old item's mark that the new one keeps, and those that are added.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    kept: u8,
    added: u8,
}

impl Marks {
    /// For another value, which no client has fetched: only its key's recency is kept.
    pub(crate) const NEW: Self = Self { kept: RECENT, added: 0 };
    /// For the same value.
    pub(crate) const ALL: Self = Self { kept: FETCHED | RECENT | SENT | STALE, added: 0 };
    /// For a value to be recomputed by the client that gets a new win token.
    const STALE: Self = Self { kept: FETCHED | RECENT, added: STALE };
}

/// How an item that takes another's place is numbered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// As a mutation of its own.
    Next,
    /// As the same item, moved.
    Same,
}

impl<'c> Session<'c> {
    /// Finds the key's item to prepare a change from; it is promoted if it is in a lower tier.
    pub(crate) fn see(&self, key: &[u8], hash: Hash) -> Result<Option<Seen<'_>>, Refusal> {
        loop {
            // Before the item is looked at: a flush from here on must be noticed.
            let flushes = self.cache.moment.flush.settled_count();
            if let Some(found) = self.find_present(key, hash) {
                let (expiry, sequence) = (expiry_of(found.item), found.item.sequence());
                return Ok(Some(Seen { found, expiry, sequence, flushes }));
            }
            if self.promote(key, hash, OnReadFailure::Goes)? == Promoted::Nowhere {
                return Ok(None);
            }
        }
    }

    /// Enters a draft in the place of the item it was prepared from. `None` if that item has
    /// changed meanwhile.
    pub(crate) fn amend(
        &self,
        seen: &Seen<'_>,
        draft: Draft<'c>,
        numbering: Numbering,
        marks: Marks,
    ) -> Option<Amended<'_>> {
        let (old, hash) = (seen.found.item, draft.hash);
        let (found, cas) =
            self.cache.replace_found(&self.guard, hash, &seen.found, draft.hot, || {
                let sequence = match numbering {
                    Numbering::Next => self.cache.next_sequence(),
                    Numbering::Same => self.cache.full_sequence(seen.sequence),
                };
                // After the number was taken: a flush that is not noticed here has a higher one.
                let mark_bits = old.mark().load(Ordering::Relaxed) & marks.kept | marks.added;
                self.is_as_seen(seen).then_some((sequence, mark_bits))
            })?;
        if numbering == Numbering::Next {
            self.cache.renumber_if_overdue(self.cache.full_sequence(found.item.sequence()));
        }
        Some(Amended { found, cas })
    }

    /// Whether an item is unchanged since it was seen. To be asked under the lock of its index
    /// table.
    #[inline]
    pub(crate) fn is_as_seen(&self, seen: &Seen<'_>) -> bool {
        let item = seen.found.item;
        (expiry_of(item), item.sequence()) == (seen.expiry, seen.sequence)
            && self.cache.moment.flush.is_unchanged_since(seen.flushes)
            && !self.cache.is_gone(item)
    }

    /// Adds the draft's value behind or before the present one. `store.condition` is `Present` or
    /// `Unique`. With `create`, a missing item is stored with that expiry; without, nothing is
    /// stored, as in memcached, with a CAS unique too.
    ///
    /// # Errors
    ///
    /// A [`Refusal`], with the draft.
    pub fn concat(
        &self,
        draft: Draft<'c>,
        side: Side,
        store: Store,
        create: Option<Expiry>,
    ) -> Result<Stored, (Draft<'c>, Refusal)> {
        Ok(self.concat_sized(draft, side, store, create)?.0)
    }

    /// As [`Session::concat`]; also returns the bytes that the value has from now on, or those of
    /// the draft if nothing was stored.
    ///
    /// # Errors
    ///
    /// Those of [`Session::concat`].
    pub fn concat_sized(
        &self,
        draft: Draft<'c>,
        side: Side,
        store: Store,
        create: Option<Expiry>,
    ) -> Result<(Stored, usize), (Draft<'c>, Refusal)> {
        let added_bytes = draft.hot.item().value_bytes();
        let mut draft = draft;
        loop {
            let (key, hash, origin) = (draft.hot.item().key(), draft.hash, draft.origin);
            let seen = match self.see(key, hash) {
                Ok(seen) => seen,
                Err(refusal) => return Err((draft, refusal)),
            };
            let Some(seen) = seen else {
                let Some(expiry) = create else {
                    return Ok((Stored::NotStored, added_bytes));
                };
                draft = self.redraft(draft, |fields| {
                    expiry.put_in(Fields { custom_cas: store.new_cas, ..fields })
                })?;
                match self.enter(draft, Condition::Absent, 0)? {
                    Entered::Stored(cas, _) => {
                        return Ok((Stored::Stored { cas }, added_bytes));
                    }
                    Entered::Refused(_, hot) => draft = Draft { hot, hash, origin },
                }
                continue;
            };
            if let Condition::Unique(cas) = store.condition
                && cas != self.cache.cas_of(seen.found.item)
            {
                return Ok((Stored::Exists, added_bytes));
            }
            let joined = match self.join(&seen, &draft, side, store.new_cas) {
                Ok(joined) => joined,
                Err(refusal) => return Err((draft, refusal)),
            };
            let amended = self.amend(&seen, joined, Numbering::Next, Marks::NEW);
            if let Some(Amended { cas, .. }) = amended {
                let value_bytes = seen.found.item.value_bytes() + added_bytes;
                return Ok((Stored::Stored { cas }, value_bytes));
            }
        }
    }

    /// Returns a draft with both values, and all else from the item that was seen.
    fn join(
        &self,
        seen: &Seen<'_>,
        draft: &Draft<'c>,
        side: Side,
        custom_cas: Option<u64>,
    ) -> Result<Draft<'c>, Refusal> {
        let (old, new) = (seen.found.item, draft.hot.item());
        let fields = seen.expiry.put_in(Fields { custom_cas, ..old.fields() });
        let value_bytes = old.value_bytes() + new.value_bytes();
        let mut joined = self.cache.reserve_fields(old.key(), draft.hash, &fields, value_bytes)?;
        let (first, second) = match side {
            Side::Back => (old, new),
            Side::Front => (new, old),
        };
        self.count_copied(value_bytes);
        joined.hot.copy_value(first);
        joined.hot.copy_value(second);
        Ok(joined)
    }

    /// Adds to or subtracts from the decimal number that is the key's value.
    ///
    /// # Errors
    ///
    /// The new number could not be stored, or the item has to be read from flash first.
    pub fn arithmetic(
        &self,
        key: &[u8],
        hash: Hash,
        arithmetic: &Arithmetic,
    ) -> Result<Counted, Refusal> {
        loop {
            let Some(seen) = self.see(key, hash)? else {
                let Some((value, expiry)) = arithmetic.create else {
                    return Ok(Counted::NotFound);
                };
                match self.create_number(key, hash, arithmetic, value, expiry)? {
                    Some(counted) => return Ok(counted),
                    None => continue,
                }
            };
            let item = seen.found.item;
            // As in memcached: an empty value is no number, whatever its CAS unique.
            let value = item.contiguous().unwrap_or_default();
            if value.is_empty() {
                return Ok(Counted::NotANumber);
            }
            if arithmetic.compare_cas.is_some_and(|cas| cas != self.cache.cas_of(item)) {
                return Ok(Counted::Exists);
            }
            let Some(number) = parse_number(value) else {
                return Ok(Counted::NotANumber);
            };
            let value = if arithmetic.increment {
                number.wrapping_add(arithmetic.delta)
            } else {
                number.saturating_sub(arithmetic.delta)
            };
            let expiry = arithmetic.touch.unwrap_or(seen.expiry);
            let custom_cas = arithmetic.new_cas;
            let fields = expiry.put_in(Fields { custom_cas, ..item.fields() });
            let draft = self.number_draft(key, hash, &fields, value, item.value_bytes())?;
            // As in memcached, which rewrites a number in place for as long as it fits.
            let fits = draft.hot.item().value_bytes() == item.value_bytes();
            let marks = if fits { Marks::ALL } else { Marks::NEW };
            if let Some(Amended { cas, .. }) = self.amend(&seen, draft, Numbering::Next, marks) {
                let (expiry_before, flags) = (seen.expiry, fields.flags);
                return Ok(Counted::Value { value, cas, expiry_before, flags, created: false });
            }
        }
    }

    /// Stores a number for a key without an item. `None` if another client was first.
    fn create_number(
        &self,
        key: &[u8],
        hash: Hash,
        arithmetic: &Arithmetic,
        value: u64,
        expiry: Expiry,
    ) -> Result<Option<Counted>, Refusal> {
        let fields = expiry.put_in(Fields {
            custom_cas: arithmetic.new_cas,
            base64_key: arithmetic.base64_key,
            ..Fields::default()
        });
        let draft = self.number_draft(key, hash, &fields, value, 0)?;
        match self.enter(draft, Condition::Absent, 0).map_err(|(_, refusal)| refusal)? {
            Entered::Stored(cas, _) => {
                let expiry_before = Expiry::NEVER;
                Ok(Some(Counted::Value { value, cas, expiry_before, flags: 0, created: true }))
            }
            Entered::Refused(..) => Ok(None),
        }
    }

    /// Returns a draft whose value is a number, padded with spaces to at least `bytes_min`, as in
    /// memcached, whose clients read the length they knew.
    fn number_draft(
        &self,
        key: &[u8],
        hash: Hash,
        fields: &Fields,
        value: u64,
        bytes_min: usize,
    ) -> Result<Draft<'c>, Refusal> {
        let mut text = [b' '; DIGITS_MAX];
        let mut digits = 0;
        let mut rest = value;
        while digits == 0 || rest > 0 {
            text[..=digits].rotate_right(1);
            text[0] = b'0' + (rest % 10) as u8;
            rest /= 10;
            digits += 1;
        }
        let bytes = digits.max(bytes_min);
        let mut draft = self.cache.reserve_fields(key, hash, fields, bytes)?;
        self.count_copied(bytes);
        draft.write(&text[..digits]);
        loop {
            let padding = draft.writable();
            if padding.is_empty() {
                return Ok(draft);
            }
            padding.fill(b' ');
            let bytes = padding.len();
            draft.advance(bytes);
        }
    }

    /// Gives the key's item another expiry. Returns whether it was there. Counts as an access.
    ///
    /// # Errors
    ///
    /// The item could not be promoted or moved, or has to be read from flash first.
    pub fn touch(&self, key: &[u8], hash: Hash, expiry: Expiry) -> Result<bool, Refusal> {
        let found = self.touch_found(key, hash, expiry)?;
        Ok(found.inspect(|&found| _ = self.mark_hit(found)).is_some())
    }

    /// Gives the key's item another expiry. Returns the item as it is from then on; if that expiry
    /// has passed, the item as it was, which is no longer found.
    pub(crate) fn touch_found(
        &self,
        key: &[u8],
        hash: Hash,
        expiry: Expiry,
    ) -> Result<Option<Found<'_>>, Refusal> {
        loop {
            let Some(seen) = self.see(key, hash)? else {
                return Ok(None);
            };
            if let Some(touched) = self.touch_seen(&seen, hash, expiry)? {
                return Ok(Some(touched));
            }
        }
    }

    /// Gives an item that was seen another expiry: in place, or, if it has no room for one, in a
    /// chunk that has. `None` if it has changed meanwhile.
    pub(crate) fn touch_seen<'s>(
        &'s self,
        seen: &Seen<'s>,
        hash: Hash,
        expiry: Expiry,
    ) -> Result<Option<Found<'s>>, Refusal> {
        let item = seen.found.item;
        let touched = self.cache.update_found(&self.guard, hash, &seen.found, || {
            if !self.is_as_seen(seen) {
                return (Fate::Keep, Touch::Changed);
            }
            if self.cache.is_expired(expiry) {
                return (Fate::Remove, Touch::Done);
            }
            if expiry_of(item) == expiry {
                // So its row on flash, if that is spare, is as it was, too.
                return (Fate::Keep, Touch::Done);
            }
            if self.put_expiry(seen, expiry) {
                (Fate::Alter, Touch::Done)
            } else {
                (Fate::Keep, Touch::NoRoom)
            }
        });
        match touched {
            Some(Touch::Done) => Ok(Some(seen.found)),
            None | Some(Touch::Changed) => Ok(None),
            Some(Touch::NoRoom) => {
                let fields = expiry.put_in(Fields { expiry_reserved: true, ..item.fields() });
                let draft = self.copy_with(item.key(), hash, &fields, seen)?;
                // It moves, perhaps past the walk that renumbers old items.
                let is_old = self.cache.is_old(item);
                let numbering = if is_old { Numbering::Next } else { Numbering::Same };
                let amended = self.amend(seen, draft, numbering, Marks::ALL);
                Ok(amended.map(|amended| amended.found))
            }
        }
    }

    /// Gives an item another expiry in place, if it has room for that one. Under the lock of its
    /// index table.
    pub(crate) fn put_expiry(&self, seen: &Seen<'_>, expiry: Expiry) -> bool {
        let item = seen.found.item;
        let has_room = expiry.early_ms == 0 && item.set_expiry(expiry.second);
        if has_room {
            self.cache.hot.note_expiry(seen.found.place(), expiry.second);
        }
        has_room
    }

    pub(crate) fn copy_with(
        &self,
        key: &[u8],
        hash: Hash,
        fields: &Fields,
        seen: &Seen<'_>,
    ) -> Result<Draft<'c>, Refusal> {
        let item = seen.found.item;
        let mut draft = self.cache.reserve_fields(key, hash, fields, item.value_bytes())?;
        self.count_copied(item.value_bytes());
        draft.hot.copy_value(item);
        Ok(draft)
    }

    /// Removes the key's item, or marks it, as `remove` says.
    ///
    /// # Errors
    ///
    /// The item could not be promoted or moved, or has to be read from flash first.
    pub fn remove(&self, key: &[u8], hash: Hash, remove: &Remove) -> Result<Removed, Refusal> {
        if remove.invalidate || remove.drop_value {
            return self.invalidate(key, hash, remove);
        }
        loop {
            // An item in a lower tier gets a CAS unique only when it is promoted.
            if remove.compare_cas.is_some() && self.see(key, hash)?.is_none() {
                return Ok(Removed::NotFound);
            }
            if let Some(removed) = self.remove_where_it_is(key, hash, remove) {
                return Ok(removed);
            }
        }
    }

    /// Removes the key's item from whichever tier it is in. `None`, and nothing done, if a CAS
    /// unique is compared and the item has none there.
    fn remove_where_it_is(&self, key: &[u8], hash: Hash, remove: &Remove) -> Option<Removed> {
        let is_key = |item: hot::ItemRef<'_>| item.has_key(key);
        self.cache.update_or_note(&self.guard, hash, is_key, |present| {
            let Some(found) = present.hot else {
                // It was demoted since it was seen, or it is not there any more.
                if remove.compare_cas.is_some() {
                    return (Fate::Keep, None);
                }
                let was_compressed = self.forget_compressed(key, hash);
                let was_on_flash = present.flash.is_some_and(|place| {
                    !self.cache.is_flushed_on_flash(place, key) && self.cache.is_flash_purged()
                });
                let is_removed = was_compressed || was_on_flash;
                let removed = if is_removed { Removed::Removed } else { Removed::NotFound };
                let fate = if present.flash.is_some() { Fate::Remove } else { Fate::Keep };
                return (fate, Some(removed));
            };
            if self.cache.is_gone(found.item) {
                self.cache.count_gone(found.item);
                return (Fate::Remove, Some(Removed::NotFound));
            }
            if remove.compare_cas.is_some_and(|cas| cas != self.cache.cas_of(found.item)) {
                return (Fate::Keep, Some(Removed::Exists));
            }
            (Fate::Remove, Some(Removed::Removed))
        })
    }

    /// Invalidates an item or drops its value: it stays, under a new number.
    fn invalidate(&self, key: &[u8], hash: Hash, remove: &Remove) -> Result<Removed, Refusal> {
        loop {
            let Some(seen) = self.see(key, hash)? else {
                return Ok(Removed::NotFound);
            };
            let item = seen.found.item;
            if remove.compare_cas.is_some_and(|cas| cas != self.cache.cas_of(item)) {
                return Ok(Removed::Exists);
            }
            let old = item.fields();
            let (flags, expiry) = match remove.drop_value {
                true => (remove.flags, Expiry::NEVER),
                false => (old.flags, seen.expiry),
            };
            let expiry = remove.touch.unwrap_or(expiry);
            let fields = expiry.put_in(Fields { flags, custom_cas: remove.new_cas, ..old });
            let draft = if remove.drop_value {
                self.cache.reserve_fields(key, hash, &fields, 0)?
            } else {
                self.copy_with(key, hash, &fields, &seen)?
            };
            let marks = match (remove.invalidate, remove.drop_value) {
                (true, false) => Marks::STALE,
                // No client has fetched the empty item.
                (true, true) => Marks { added: STALE, ..Marks::NEW },
                // Nor has it a value to be recomputed.
                (false, _) => Marks::NEW,
            };
            let entered = self.amend(&seen, draft, Numbering::Next, marks);
            if entered.is_some() {
                return Ok(Removed::Removed);
            }
        }
    }
}

/// Returns the number that a value begins with, up to the first space, as the C library reads it:
/// spaces before it and a sign are allowed. incr leaves spaces behind it.
fn parse_number(value: &[u8]) -> Option<u64> {
    let text = value.trim_ascii_start();
    let (digits, is_negative) = match text {
        [b'-', digits @ ..] => (digits, true),
        [b'+', digits @ ..] => (digits, false),
        _ => (text, false),
    };
    let digits_end = digits.iter().position(|digit| !digit.is_ascii_digit());
    let (digits, behind) = digits.split_at(digits_end.unwrap_or(digits.len()));
    if digits.is_empty() || !matches!(behind, [] | [b' ' | b'\t'..=b'\r' | 0, ..]) {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, &digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    // Of the negative numbers, only 0 is not.
    (!is_negative || number == 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use io::ManualClock;

    use super::{expiry_of, parse_number};
    use crate::cache::Cache;
    use crate::flush::RENUMBER_MUTATIONS;
    use crate::types::{
        Arithmetic, Attributes, Condition, Expiry, Remove, Removed, Side, Store, Stored,
    };

    const NOW: u32 = 1_800_000_000;

    /// Returns a cache with some items that expire at `NOW + 100` in its compressed zone, and the
    /// key of one of those.
    fn with_a_compressed_item() -> (Cache, Arc<ManualClock>, Vec<u8>) {
        let clock = Arc::new(ManualClock::new(NOW));
        let builder = Cache::builder().memory_bytes(8 << 20).compress(true).clock(clock.clone());
        let cache = builder.build().expect("a small cache");
        let attributes = Attributes { expiry: Expiry::at(NOW + 100), ..Attributes::default() };
        let key = |number: u32| format!("item-{number}").into_bytes();
        for number in 0..20_000 {
            let stored = cache.put(&key(number), &[7; 500], attributes, Condition::Always);
            assert!(stored.is_ok() && cache.get(&key(number)).is_some());
            if number.is_multiple_of(32) {
                while cache.maintain() {}
            }
        }
        let is_compressed = |key: &Vec<u8>| cache.session().is_compressed(key, cache.hash(key));
        let found = (0..20_000).map(key).find(is_compressed).expect("most of them are below");
        (cache, clock, found)
    }

    #[test]
    fn a_removal_by_unique_leaves_an_item_demoted_since() {
        let (cache, _, key) = with_a_compressed_item();
        let (session, hash) = (cache.session(), cache.hash(&key));
        let other = Remove { compare_cas: Some(1 << 60), ..Remove::default() };
        assert_eq!(session.remove_where_it_is(&key, hash, &other), None);
        assert!(session.is_compressed(&key, hash));
        assert_eq!(session.remove(&key, hash, &other), Ok(Removed::Exists));
    }

    #[test]
    fn an_item_expired_in_the_zone_is_not_found_by_a_removal() {
        let (cache, clock, key) = with_a_compressed_item();
        clock.advance(200);
        let remove = |key: &[u8]| cache.session().remove(key, cache.hash(key), &Remove::default());
        assert_eq!(remove(&key), Ok(Removed::NotFound));
    }

    /// An expiry with milliseconds does not fit into an item in place. An item that got one all the
    /// time could move past each walk that renumbers old items, until its number came round.
    #[test]
    fn a_touch_that_moves_an_item_renumbers_it_if_that_is_due() {
        let cache = Cache::builder().memory_bytes(4 << 20).build().expect("a small cache");
        cache.set(b"k", b"v", Expiry::NEVER).expect("an empty cache has room");
        let (session, hash) = (cache.session(), cache.hash(b"k"));
        let mut second = u64::from(NOW) + 100_000_000;
        let mut touched = || {
            second += 1;
            let touched = session.touch(b"k", hash, Expiry::at_ms(second * 1000 + 1));
            assert_eq!(touched, Ok(true));
            session.peek(b"k", hash).expect("it is there").cas()
        };
        let before = touched();
        assert_eq!(touched(), before, "it keeps its unique");
        cache.sequence.fetch_add(RENUMBER_MUTATIONS + 1, Ordering::Relaxed);
        let renumbered = touched();
        assert_ne!(renumbered, before);
        assert_eq!(touched(), renumbered);
    }

    /// A server that does not know the bytes copied makes other clients wait for them.
    #[test]
    fn changes_count_the_bytes_that_they_copy() {
        let cache = Cache::builder().memory_bytes(4 << 20).build().expect("a small cache");
        cache.set(b"k", &[b' '; 5000], Expiry::NEVER).expect("an empty cache has room");
        let number = [&b"7"[..], &[b' '; 5000]].concat();
        cache.set(b"n", &number, Expiry::NEVER).expect("there is room");
        let session = cache.session();
        let [k, n] = [&b"k"[..], b"n"].map(|key| cache.hash(key));
        let taken = |change: &dyn Fn()| {
            change();
            session.take_copied_bytes()
        };
        let touch = |ms| {
            let expiry = Expiry::at_ms(u64::from(cache.now() + 100) * 1000 + ms);
            assert_eq!(session.touch(b"k", k, expiry), Ok(true));
        };
        assert_eq!(taken(&|| touch(1)), 5000, "it has no room for an expiry");
        assert_eq!(taken(&|| touch(2)), 5000, "nor for another to the millisecond");
        assert_eq!(taken(&|| touch(2)), 0, "it is the same");
        let invalidate = Remove { invalidate: true, ..Remove::default() };
        let remove = || assert_eq!(session.remove(b"k", k, &invalidate), Ok(Removed::Removed));
        assert_eq!(taken(&remove), 5000);
        let count = || assert!(session.arithmetic(b"n", n, &Arithmetic::INCREMENT).is_ok());
        assert_eq!(taken(&count), 5001);
        let append = || {
            let draft = session.reserve(b"k", k, Attributes::default(), 1);
            let mut draft = draft.expect("there is room");
            draft.write(b"x");
            let how = Store::when(Condition::Present);
            assert!(session.concat(draft, Side::Back, how, None).is_ok());
        };
        assert_eq!(taken(&append), 5001);
    }

    /// Regression: it was checked once more, against the expiry that another touch had given it.
    #[test]
    fn an_item_that_moves_for_its_expiry_is_returned_where_it_is() {
        let cache = Cache::builder().memory_bytes(4 << 20).build().expect("a small cache");
        cache.set(b"k", b"v", Expiry::NEVER).expect("an empty cache has room");
        let (session, hash) = (cache.session(), cache.hash(b"k"));
        let seen = session.see(b"k", hash).expect("room").expect("it is there");
        let [one, other] = [1, 2].map(|ms| Expiry::at_ms(u64::from(cache.now()) * 2000 + ms));
        let touched = session.touch_seen(&seen, hash, one).expect("room").expect("unchanged");
        assert!(cache.is_still(&session.guard, hash, touched.place()));
        assert_eq!(expiry_of(touched.item), one);
        // A change prepared from what was seen before has lost.
        assert!(session.touch_seen(&seen, hash, other).expect("room").is_none());
        assert_eq!(session.touch(b"k", hash, other), Ok(true));
        assert_eq!(
            expiry_of(session.see(b"k", hash).expect("room").expect("there").found.item),
            other
        );
    }

    /// Regression: such an item could be read for ever, and every change of it was refused as too
    /// large, however short.
    #[test]
    fn an_item_too_large_for_the_hot_zone_is_removed_on_promotion() {
        let (mut cache, _, key) = with_a_compressed_item();
        cache.item_bytes_max = 400;
        let is_compressed = |key: &[u8]| cache.session().is_compressed(key, cache.hash(key));
        assert!(cache.get(&key).is_some() && is_compressed(&key), "who only reads it gets it");
        let put = |value: &[u8]| {
            cache.put(&key, value, Attributes::default(), Condition::Unique(1 << 60))
        };
        assert_eq!(put(b"v"), Ok(Stored::NotFound));
        assert!(cache.get(&key).is_none() && !is_compressed(&key));
        let short = cache.put(&key, b"v", Attributes::default(), Condition::Absent);
        assert!(matches!(short, Ok(Stored::Stored { .. })), "{short:?}");
    }

    #[test]
    fn a_number_is_decimal_and_fits_64_bits() {
        assert_eq!(parse_number(b"0"), Some(0));
        assert_eq!(parse_number(b"9 "), Some(9));
        assert_eq!(parse_number(b"1 2"), Some(1));
        assert_eq!(parse_number(b" \t+7\r\nrest"), Some(7));
        assert_eq!(parse_number(b"-0"), Some(0));
        assert_eq!(parse_number(b"000000000000000000001"), Some(1));
        assert_eq!(parse_number(b"18446744073709551615"), Some(u64::MAX));
        let refused: [&[u8]; 8] =
            [b"", b" ", b"+", b"18446744073709551616", b"-1", b"1x", b"x1", b"- 0"];
        for value in refused {
            assert_eq!(parse_number(value), None, "{value:?}");
        }
    }
}
