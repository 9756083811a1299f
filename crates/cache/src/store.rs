//! Storing: reserve memory, fill in the value, and enter it under a condition.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use hot::mark::{SENT, STALE};
use hot::{Fields, ItemRef, Layout, Shortage};
use index::Hash;
use policy::cost::Cost;

use crate::cache::Cache;
use crate::measure::Origin;
use crate::pending_reads::OnReadFailure;
use crate::places::{Fate, Found, Present};
use crate::session::Session;
use crate::types::{Attributes, Condition, Expiry, Refusal, Store, Stored, expiry_in, expiry_of};

/// Rounds of making room for a full index after which a store gives up.
const INDEX_ROOM_ATTEMPTS: usize = 4;

/// The longest value, in bytes, that is copied when its item turns out to need a field for a cost.
/// Items with longer ones have the field from the beginning.
const COPIED_BYTES_MAX: usize = 1023;

/// Memory reserved for an item, to be filled with its value. Readers do not see it until it is
/// stored; dropped before, its memory goes back. Not tied to a session: a value may arrive over
/// many reads of a socket.
#[derive(Debug)]
#[must_use = "a draft that is not stored is dropped"]
pub struct Draft<'c> {
    pub(crate) hot: hot::Draft<'c>,
    pub(crate) hash: Hash,
    pub(crate) origin: Origin,
}

impl Draft<'_> {
    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        self.hot.item().key()
    }

    /// Returns the microseconds that it takes to make the value again, as the client says or as was
    /// measured; 0 if unknown. Storing the draft takes the cost of the key's present item into
    /// account.
    pub fn cost_us(&self) -> u32 {
        self.hot.item().cost().us()
    }

    /// Returns the bytes of the whole value.
    pub fn value_bytes(&self) -> usize {
        self.hot.layout().value_bytes()
    }

    /// Returns the bytes of the value that are still to be filled in.
    pub fn remaining(&self) -> usize {
        self.hot.remaining()
    }

    /// Returns the bytes of memory that the draft has so far, without those that [`Cache::extend`]
    /// adds later.
    pub fn held_bytes(&self) -> usize {
        self.hot.held_bytes()
    }

    /// Whether the next bytes of the value need more memory: [`Cache::extend`].
    pub fn lacks_memory(&self) -> bool {
        self.hot.lacks_piece()
    }

    /// Returns room for the next bytes of the value, as far as it is contiguous; empty when the
    /// draft is full, or lacks memory for more.
    pub fn writable(&mut self) -> &mut [u8] {
        self.hot.writable()
    }

    /// Counts `bytes` of [`Draft::writable`] as filled in.
    pub fn advance(&mut self, bytes: usize) {
        self.hot.advance(bytes);
    }

    /// Copies as much of `value` as still fits; returns the number of bytes copied.
    pub fn write(&mut self, value: &[u8]) -> usize {
        self.hot.write(value)
    }
}

/// The outcome of entering a draft.
pub(crate) enum Entered<'c> {
    /// The item is in the index, with this CAS unique and this cost.
    Stored(u64, Cost),
    /// The condition did not hold; the draft is still there.
    Refused(Stored, hot::Draft<'c>),
}

/// A decision made under the lock.
enum Decision<'c> {
    /// Enter the draft, with this CAS unique and this sequence number.
    Enter(u64, u64),
    /// Do not enter it.
    Refuse(Stored, hot::Draft<'c>),
    /// Decide once more: a flush came between the look at the present item and the decision.
    Again(hot::Draft<'c>),
    /// Promote the present item: its CAS unique matters, and it has none in a lower tier.
    Raise(hot::Draft<'c>),
    /// Copy the draft, which has no field for the cost that it is to have.
    Widen(hot::Draft<'c>, Cost),
}

/// The terms on which a draft is to be entered.
struct Terms {
    hash: Hash,
    condition: Condition,
    /// Bits of its mark beside those of a new item.
    mark_bits: u8,
    /// The count of flushes before the key was looked up.
    flushes: u64,
}

impl Cache {
    /// Reserves memory for an item. The key is 1 to 250 bytes.
    ///
    /// # Errors
    ///
    /// Any [`Refusal`] but [`Refusal::Pending`].
    pub fn reserve(
        &self,
        key: &[u8],
        attributes: Attributes,
        value_bytes: usize,
    ) -> Result<Draft<'_>, Refusal> {
        let hash = self.hash(key);
        let origin = match &self.measure {
            None => return self.reserve_fields(key, hash, &attributes.fields(), value_bytes),
            Some(measure) => self.origin(measure, key, hash, attributes.cost_us),
        };
        self.reserve_costed(key, hash, attributes.fields(), value_bytes, origin)
    }

    /// [`Cache::reserve_fields`] where costs are measured.
    #[inline(always)]
    fn reserve_costed(
        &self,
        key: &[u8],
        hash: Hash,
        fields: Fields,
        value_bytes: usize,
        origin: Origin,
    ) -> Result<Draft<'_>, Refusal> {
        let fields = costed(fields, origin, value_bytes);
        let draft = self.reserve_fields(key, hash, &fields, value_bytes)?;
        Ok(Draft { origin, ..draft })
    }

    // Always inlined, as [`Session::reserve`], of which it is the main part.
    #[inline(always)]
    pub(crate) fn reserve_fields(
        &self,
        key: &[u8],
        hash: Hash,
        fields: &Fields,
        value_bytes: usize,
    ) -> Result<Draft<'_>, Refusal> {
        self.reserve_by(key, hash, fields, value_bytes, |layout| {
            self.hot.draft(layout, fields, key, self)
        })
    }

    #[inline(always)]
    fn reserve_by<'c>(
        &'c self,
        key: &[u8],
        hash: Hash,
        fields: &Fields,
        value_bytes: usize,
        draft: impl FnOnce(Layout) -> Result<hot::Draft<'c>, Shortage>,
    ) -> Result<Draft<'c>, Refusal> {
        if value_bytes > self.item_bytes_max {
            return Err(Refusal::TooLarge);
        }
        let layout = self.hot.layout(fields, key.len(), value_bytes);
        if layout.item_bytes() > self.item_bytes_max {
            return Err(Refusal::TooLarge);
        }
        let draft = draft(layout);
        if self.hot.is_pressed() {
            self.call_for_work();
        }
        match draft {
            Ok(hot) => Ok(Draft { hot, hash, origin: Origin::unmeasured(fields.cost) }),
            Err(shortage) => Err(refusal_for(shortage)),
        }
    }

    /// Gets more memory for a draft that lacks it ([`Session::begin`]). The caller may have a
    /// session open, unless it was told to end it.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::reserve`].
    pub fn extend(&self, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        let extended = draft.hot.extend(self);
        if self.hot.is_pressed() {
            self.call_for_work();
        }
        extended.map_err(refusal_for)
    }
}

/// Returns the fields of an item whose cost was measured. The item of a long value, which is not
/// copied to add a field, has room for a cost that is known only when it is stored.
#[inline(always)]
fn costed(fields: Fields, origin: Origin, value_bytes: usize) -> Fields {
    let cost_reserved = origin.asks_present() && value_bytes > COPIED_BYTES_MAX;
    Fields { cost: origin.cost, cost_reserved, ..fields }
}

/// Returns the public error for a shortage.
fn refusal_for(shortage: Shortage) -> Refusal {
    match shortage {
        Shortage::Pinned => Refusal::SessionTooLong,
        Shortage::Nothing => Refusal::NoMemory,
        Shortage::Quota => Refusal::TooLarge,
    }
}

impl<'c> Session<'c> {
    /// [`Cache::reserve`] for a key whose hash is known; prefetches the index lines that storing it
    /// will need. The draft may outlive the session.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::reserve`].
    // Always inlined, as [`Self::look_up`]: each protocol has one caller.
    #[inline(always)]
    pub fn reserve(
        &self,
        key: &[u8],
        hash: Hash,
        attributes: Attributes,
        value_bytes: usize,
    ) -> Result<Draft<'c>, Refusal> {
        self.prefetch(hash);
        let Some(measure) = &self.cache.measure else {
            return self.cache.reserve_fields(key, hash, &attributes.fields(), value_bytes);
        };
        let origin = self.cache.origin(measure, key, hash, attributes.cost_us);
        self.cache.reserve_costed(key, hash, attributes.fields(), value_bytes, origin)
    }

    /// [`Session::reserve`] for a value that has yet to arrive: memory for a long one follows as it
    /// arrives ([`Draft::lacks_memory`]), so that announcing a value takes no memory from others.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::reserve`].
    #[cold]
    #[inline(never)]
    pub fn begin(
        &self,
        key: &[u8],
        hash: Hash,
        attributes: Attributes,
        value_bytes: usize,
    ) -> Result<Draft<'c>, Refusal> {
        let cache = self.cache;
        let origin = cache
            .measure
            .as_ref()
            .map(|measure| cache.origin(measure, key, hash, attributes.cost_us));
        let mut fields = attributes.fields();
        if let Some(origin) = origin {
            fields = costed(fields, origin, value_bytes);
        }
        let draft = cache.reserve_by(key, hash, &fields, value_bytes, |layout| {
            cache.hot.begin_draft(layout, &fields, key, cache)
        })?;
        Ok(Draft { origin: origin.unwrap_or(draft.origin), ..draft })
    }

    /// Stores a filled draft if the condition holds.
    ///
    /// # Errors
    ///
    /// A [`Refusal`], with the draft, which may be stored later.
    #[inline]
    pub fn store(&self, draft: Draft<'c>, store: Store) -> Result<Stored, (Draft<'c>, Refusal)> {
        Ok(self.store_costed(draft, store)?.0)
    }

    /// As [`Session::store`]; also returns the microseconds that it takes to make the value again,
    /// as the item has it from now on; 0 if unknown, or if nothing was stored.
    ///
    /// # Errors
    ///
    /// Those of [`Session::store`].
    // Always inlined, as [`Self::reserve`].
    #[inline(always)]
    pub fn store_costed(
        &self,
        draft: Draft<'c>,
        store: Store,
    ) -> Result<(Stored, u32), (Draft<'c>, Refusal)> {
        let needs_room = matches!(store.condition, Condition::UniqueOrStale(_));
        let draft = match (store.new_cas, needs_room) {
            (None, false) => draft,
            (custom_cas, expiry_reserved) => self.redraft(draft, |fields| {
                let fields = Fields { custom_cas, expiry_reserved, ..fields };
                if needs_room { whole_second(expiry_in(&fields)).put_in(fields) } else { fields }
            })?,
        };
        match self.enter(draft, store.condition, 0)? {
            Entered::Stored(cas, cost) => Ok((Stored::Stored { cas }, cost.us())),
            Entered::Refused(outcome, _) => Ok((outcome, 0)),
        }
    }

    /// Copies a draft into one with other fields.
    pub(crate) fn redraft(
        &self,
        draft: Draft<'c>,
        change: impl FnOnce(Fields) -> Fields,
    ) -> Result<Draft<'c>, (Draft<'c>, Refusal)> {
        let item = draft.hot.item();
        let fields = change(item.fields());
        let fresh = self.cache.reserve_fields(item.key(), draft.hash, &fields, item.value_bytes());
        let mut fresh = match fresh {
            Ok(fresh) => fresh,
            Err(refusal) => return Err((draft, refusal)),
        };
        let copied = fresh.hot.copy_value(item);
        debug_assert_eq!(copied, item.value_bytes());
        fresh.origin = draft.origin;
        Ok(fresh)
    }

    /// Enters a draft under a condition.
    pub(crate) fn enter(
        &self,
        draft: Draft<'c>,
        condition: Condition,
        mark_bits: u8,
    ) -> Result<Entered<'c>, (Draft<'c>, Refusal)> {
        let (hash, mut origin) = (draft.hash, draft.origin);
        // The comparison of keys needs the draft until the moment the decision takes it.
        let pending = RefCell::new(Some(draft.hot));
        let (mut room_attempts, mut room_comes) = (0, false);
        while room_attempts < INDEX_ROOM_ATTEMPTS {
            let flushes = self.cache.moment.flush.settled_count();
            let terms = Terms { hash, condition, mark_bits, flushes };
            let is_key = |item: ItemRef<'_>| {
                pending.borrow().as_ref().is_some_and(|draft| item.has_key(draft.item().key()))
            };
            let result = self.cache.update(&self.guard, hash, is_key, |present| {
                let draft = pending.take().expect("decided once");
                self.decide(draft, &present, &terms, &mut origin)
            });
            match result {
                Ok(Decision::Enter(cas, sequence)) => {
                    self.cache.renumber_if_overdue(sequence);
                    self.cache.settle_cost(hash, origin);
                    return Ok(Entered::Stored(cas, origin.cost));
                }
                Ok(Decision::Widen(hot, cost)) => {
                    let draft = self.widen(Draft { hot, hash, origin }, cost);
                    origin = draft.origin;
                    pending.replace(Some(draft.hot));
                }
                Ok(Decision::Refuse(outcome, draft)) => {
                    return Ok(Entered::Refused(outcome, draft));
                }
                Ok(Decision::Again(draft)) => {
                    pending.replace(Some(draft));
                }
                Ok(Decision::Raise(hot)) => {
                    if let Err(refusal) = self.promote(hot.item().key(), hash, OnReadFailure::Goes)
                    {
                        return Err((Draft { hot, hash, origin }, refusal));
                    }
                    pending.replace(Some(hot));
                }
                // No memory that could be freed would help.
                Err(index::Full::Unplaceable) => break,
                Err(index::Full::NoMemory) => {
                    room_attempts += 1;
                    // Another slab would be as little use: this session sees both.
                    if !room_comes {
                        room_comes = self.cache.make_room_for_index();
                    }
                }
            }
        }
        let hot = pending.take().expect("never decided");
        // The slabs that were drained for the index may still be visible to this very session.
        let refusal = if room_comes { Refusal::SessionTooLong } else { Refusal::NoMemory };
        Err((Draft { hot, hash, origin }, refusal))
    }

    /// Returns the draft with a field for this cost; without memory for that, the draft as it was,
    /// which is then stored without the cost.
    #[cold]
    #[inline(never)]
    fn widen(&self, draft: Draft<'c>, cost: Cost) -> Draft<'c> {
        match self.redraft(draft, |fields| Fields { cost, ..fields }) {
            Ok(wide) => wide,
            Err((draft, _)) => Draft { origin: draft.origin.unknown(), ..draft },
        }
    }

    /// Gives a draft its cost, taking that of the key's present item, gone or not, into account.
    /// Returns the cost if the draft has no field for it.
    #[cold]
    #[inline(never)]
    fn reprice(
        &self,
        draft: &mut hot::Draft<'c>,
        present: Cost,
        origin: &mut Origin,
    ) -> Option<Cost> {
        *origin = self.cache.measure.as_deref()?.beside(*origin, present);
        (!draft.set_cost(origin.cost)).then_some(origin.cost)
    }

    /// Returns the cost of the key's present item, if it is known: the one in the hot zone, gone or
    /// not, or else the one in the compressed zone. That one is asked before it is forgotten, since
    /// it has to stay if the draft has no field for the cost. Under the lock of its index table.
    #[cold]
    #[inline(never)]
    fn present_cost(&self, found: Option<Found<'_>>, key: &[u8], hash: Hash) -> Option<Cost> {
        let cost = match found {
            Some(found) => Some(found.item.cost()),
            None => self.compressed_cost(key, hash),
        };
        cost.filter(|cost| cost.is_known())
    }

    /// Decides what becomes of the key. Runs under the lock of its index table.
    fn decide(
        &self,
        mut draft: hot::Draft<'c>,
        in_index: &Present<'_>,
        terms: &Terms,
        origin: &mut Origin,
    ) -> (Fate<'c>, Decision<'c>) {
        let Terms { hash, condition, mut mark_bits, flushes } = *terms;
        let found = in_index.hot;
        if found.is_none() && in_index.flash.is_some() && condition != Condition::Always {
            return (Fate::Keep, Decision::Raise(draft));
        }
        let present = found.filter(|found| !self.cache.is_gone(found.item));
        let cas = present.map(|found| self.cache.cas_of(found.item));
        let is_compressed = found.is_none()
            && condition != Condition::Always
            && self.is_compressed(draft.item().key(), hash);
        let mut late_over = None;
        let refused = match (condition, cas) {
            (Condition::Always, _) => None,
            (Condition::Absent | Condition::Present, _) => {
                let holds = (cas.is_some() || is_compressed) == (condition == Condition::Present);
                (!holds).then_some(Stored::NotStored)
            }
            (_, None) if is_compressed => return (Fate::Keep, Decision::Raise(draft)),
            (Condition::Unique(_) | Condition::UniqueOrStale(_) | Condition::Never, None) => {
                Some(Stored::NotFound)
            }
            (Condition::Unique(wanted) | Condition::UniqueOrStale(wanted), Some(cas))
                if wanted == cas =>
            {
                None
            }
            (Condition::UniqueOrStale(wanted), Some(cas)) if wanted < cas => {
                late_over = present;
                None
            }
            (Condition::Unique(_) | Condition::UniqueOrStale(_) | Condition::Never, Some(_)) => {
                Some(Stored::Exists)
            }
        };
        if let Some(outcome) = refused {
            let fate = if found.is_some() && present.is_none() { Fate::Remove } else { Fate::Keep };
            return (fate, Decision::Refuse(outcome, draft));
        }
        if origin.asks_present()
            && let Some(cost) = self.present_cost(found, draft.item().key(), hash)
            && let Some(cost) = self.reprice(&mut draft, cost, origin)
        {
            return (Fate::Keep, Decision::Widen(draft, cost));
        }
        let sequence = self.cache.next_sequence();
        let depends = (present.is_some() || is_compressed) && condition != Condition::Always;
        if depends && !self.cache.moment.flush.is_unchanged_since(flushes) {
            return (Fate::Keep, Decision::Again(draft));
        }
        if found.is_none() {
            self.forget_compressed(draft.item().key(), hash);
        }
        if let Some(late_over) = late_over {
            mark_bits |= inherit(&draft, late_over.item);
        }
        let cas = draft.item().custom_cas().unwrap_or(sequence);
        let fate = Fate::Publish { draft, sequence: sequence as u32, mark_bits };
        (fate, Decision::Enter(cas, sequence))
    }
}

/// Makes a late store inherit from the present item, as in memcached: it replaces the value, keeps
/// the expiry, and leaves the item to be recomputed. Called only when nothing is in its way any
/// more: a draft that is decided on once more still has the expiry that its client asked for.
/// Returns bits of its mark.
fn inherit(draft: &hot::Draft<'_>, present: ItemRef<'_>) -> u8 {
    let has_room = draft.item().set_expiry(whole_second(expiry_of(present)).second);
    debug_assert!(has_room, "room was made before");
    STALE | (present.mark().load(Ordering::Relaxed) & SENT)
}

/// Returns the last whole second up to an expiry: an item that may get another's expiry in place
/// expires there, a little early rather than late.
fn whole_second(expiry: Expiry) -> Expiry {
    match expiry.early_ms {
        0 => expiry,
        // Before the first second of all there is only 0, which is never.
        _ => Expiry::at((expiry.second - 1).max(1)),
    }
}

impl Attributes {
    fn fields(&self) -> Fields {
        self.expiry.put_in(Fields {
            flags: self.flags,
            base64_key: self.base64_key,
            cost: Cost::from_us(self.cost_us),
            ..Fields::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u32 = 1_800_000_000;

    /// Returns the decision on a late store of `k`.
    fn decided<'c>(session: &Session<'c>, draft: Draft<'c>) -> Decision<'c> {
        let Draft { hot, hash, mut origin } = draft;
        let condition = Condition::UniqueOrStale(0);
        let flushes = session.cache.moment.flush.settled_count();
        let terms = Terms { hash, condition, mark_bits: 0, flushes };
        let is_key = |item: ItemRef<'_>| item.has_key(b"k");
        let decide = |present: Present<'_>| session.decide(hot, &present, &terms, &mut origin);
        session.cache.update(&session.guard, hash, is_key, decide).expect("it is there")
    }

    /// Regression: the copy with a field for a cost had no room for the expiry that a late store
    /// inherits, so that the item stayed, stale, for ever.
    #[test]
    fn a_late_store_that_is_widened_for_a_cost_still_inherits_the_expiry() {
        let clock = std::sync::Arc::new(io::ManualClock::new(NOW));
        let builder = Cache::builder().memory_bytes(8 << 20).clock(clock);
        let cache = builder.measure_costs(true).build().expect("a small cache");
        let present = Attributes { cost_us: 700, ..Attributes::default() };
        cache.put(b"k", b"early", present, Condition::Always).expect("an empty cache has room");
        let session = cache.session();
        let draft = session.reserve(b"k", cache.hash(b"k"), Attributes::default(), 0);
        let draft = draft.expect("there is room");
        let with_room = |fields| Fields { expiry_reserved: true, ..fields };
        let draft = session.redraft(draft, with_room).map_err(|(_, refusal)| refusal);
        let draft = draft.expect("there is room");
        let Decision::Widen(hot, cost) = decided(&session, draft) else {
            panic!("the present item's cost is known, and the draft has no field for it");
        };
        let hash = cache.hash(b"k");
        let origin = Origin::unmeasured(Cost::UNKNOWN);
        let wide = session.widen(Draft { hot, hash, origin }, cost);
        assert_eq!(wide.cost_us(), 700);
        // Meanwhile another client gives the item an expiry.
        assert_eq!(session.touch(b"k", hash, Expiry::at(NOW + 60)), Ok(true));
        let Decision::Enter(..) = decided(&session, wide) else { panic!("nothing is in its way") };
        let item = session.peek(b"k", hash).expect("it is there");
        assert_eq!((item.stale(), item.expiry()), (true, Expiry::at(NOW + 60)));
    }

    #[test]
    fn a_late_store_decided_anew_keeps_the_expiry_that_its_client_asked_for() {
        let clock = std::sync::Arc::new(io::ManualClock::new(NOW));
        let builder = Cache::builder().memory_bytes(8 << 20).clock(clock);
        let cache = builder.measure_costs(true).build().expect("a small cache");
        let present =
            Attributes { cost_us: 700, expiry: Expiry::at(NOW + 60), ..Attributes::default() };
        cache.put(b"k", b"early", present, Condition::Always).expect("an empty cache has room");
        let session = cache.session();
        let own = Attributes { expiry: Expiry::at(NOW + 5), ..Attributes::default() };
        let draft = session.reserve(b"k", cache.hash(b"k"), own, 0).expect("there is room");
        let Decision::Widen(hot, _) = decided(&session, draft) else {
            panic!("the present item's cost is known, and the draft has no field for it");
        };
        assert_eq!(expiry_of(hot.item()), Expiry::at(NOW + 5));
    }
}
