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

/// How often a store makes room for a full index before it gives up.
const INDEX_ROOM_ATTEMPTS: usize = 4;

/// The longest value that is copied, in bytes, when it turns out that its item needs a field for a
/// cost. Longer ones have one from the beginning.
const COPIED_BYTES_MAX: usize = 1023;

/// Memory reserved for an item, to be filled with its value. Nobody sees it until it is stored;
/// dropped before, its memory goes back. Not tied to a session: a value may arrive over many reads
/// of a socket.
#[derive(Debug)]
#[must_use = "a draft that is not stored is dropped"]
pub struct Draft<'c> {
    pub(crate) hot: hot::Draft<'c>,
    pub(crate) hash: Hash,
    pub(crate) origin: Origin,
}

impl Draft<'_> {
    /// The key.
    pub fn key(&self) -> &[u8] {
        self.hot.item().key()
    }

    /// Microseconds that it takes to make the value again: as the client says, or as was measured;
    /// 0 if nobody knows. What the key's present item costs has its say when the draft is stored.
    pub fn cost_us(&self) -> u32 {
        self.hot.item().cost().us()
    }

    /// Bytes of the whole value.
    pub fn value_bytes(&self) -> usize {
        self.hot.layout().value_bytes()
    }

    /// Bytes of the value that are still to be filled in.
    pub fn remaining(&self) -> usize {
        self.hot.remaining()
    }

    /// Bytes of memory that it has by now: as much as comes with [`Cache::extend`] later is not
    /// among them.
    pub fn held_bytes(&self) -> usize {
        self.hot.held_bytes()
    }

    /// Whether it needs more memory for the next bytes of the value: [`Cache::extend`].
    pub fn lacks_memory(&self) -> bool {
        self.hot.lacks_piece()
    }

    /// The next bytes of the value to fill in, as far as they are contiguous; empty when it is
    /// full, or lacks memory for more.
    pub fn writable(&mut self) -> &mut [u8] {
        self.hot.writable()
    }

    /// Says that `bytes` more of [`Draft::writable`] are filled in.
    pub fn advance(&mut self, bytes: usize) {
        self.hot.advance(bytes);
    }

    /// Copies as much of `value` as still fits; returns how much that was.
    pub fn write(&mut self, value: &[u8]) -> usize {
        self.hot.write(value)
    }
}

/// What entering a draft came to.
pub(crate) enum Entered<'c> {
    /// It is in the index, with this CAS unique, and costs this.
    Stored(u64, Cost),
    /// The condition did not hold; the draft is still there.
    Refused(Stored, hot::Draft<'c>),
}

/// What was decided under the lock.
enum Decision<'c> {
    /// To enter it, with this CAS unique and this number.
    Enter(u64, u64),
    /// Not to.
    Refuse(Stored, hot::Draft<'c>),
    /// A flush came between the look at what was there and the decision.
    Again(hot::Draft<'c>),
    /// The item whose unique matters is below, where it has none.
    Raise(hot::Draft<'c>),
    /// The draft has no field for the cost that it shall have.
    Widen(hot::Draft<'c>, Cost),
}

/// What a draft is to be entered under.
struct Terms {
    hash: Hash,
    condition: Condition,
    /// Bits of its mark beside the fresh ones.
    mark_bits: u8,
    /// The count of flushes before the key was looked at.
    flushes: u64,
}

impl Cache {
    /// Reserves memory for an item. The key is 1 to 250 bytes.
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

    // Always, as [`Session::reserve`], whose heart it is.
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

    /// Gets a draft that lacks memory some more ([`Session::begin`]). The caller may have a session
    /// open, unless it was told to end it.
    pub fn extend(&self, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        let extended = draft.hot.extend(self);
        if self.hot.is_pressed() {
            self.call_for_work();
        }
        extended.map_err(refusal_for)
    }
}

/// The fields of an item whose cost was measured. A long one, which is not copied for a field more,
/// has room for a cost that is known only when it is stored.
#[inline(always)]
fn costed(fields: Fields, origin: Origin, value_bytes: usize) -> Fields {
    let cost_reserved = origin.asks_present() && value_bytes > COPIED_BYTES_MAX;
    Fields { cost: origin.cost, cost_reserved, ..fields }
}

/// What a shortage is called outside.
fn refusal_for(shortage: Shortage) -> Refusal {
    match shortage {
        Shortage::Pinned => Refusal::SessionTooLong,
        Shortage::Nothing => Refusal::NoMemory,
        Shortage::Quota => Refusal::TooLarge,
    }
}

impl<'c> Session<'c> {
    /// [`Cache::reserve`] for a key whose hash is known, while the index lines that storing it will
    /// need are on their way. The draft may outlive the session.
    // Always, as [`Self::look_up`]: each protocol has one caller.
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

    /// [`Session::reserve`] for a value that has yet to come: if it is long, memory for it follows
    /// as it comes ([`Draft::lacks_memory`]), so that to announce values takes nothing from others.
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

    /// Stores a filled draft if the condition holds. The error gives the draft back.
    #[inline]
    pub fn store(&self, draft: Draft<'c>, store: Store) -> Result<Stored, (Draft<'c>, Refusal)> {
        Ok(self.store_costed(draft, store)?.0)
    }

    /// [`Session::store`] that also tells how many microseconds it takes to make the value again,
    /// as the item has it from now on; 0 if nobody knows, or if nothing was stored.
    // Always, as [`Self::reserve`].
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
                // Nothing that anybody could give up would help.
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

    /// The draft with a field for this cost. If there is no memory for that, as it was: it is
    /// stored without the cost then.
    #[cold]
    #[inline(never)]
    fn widen(&self, draft: Draft<'c>, cost: Cost) -> Draft<'c> {
        match self.redraft(draft, |fields| Fields { cost, ..fields }) {
            Ok(wide) => wide,
            Err((draft, _)) => Draft { origin: draft.origin.unknown(), ..draft },
        }
    }

    /// Gives a draft its cost beside that of the key's present item, gone or not. Returns the cost
    /// if the draft has no field for it.
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

    /// What the key's present item costs, if that is known: the one in the hot zone, gone or not,
    /// or else the one in the compressed zone, which is asked before it is forgotten there: for a
    /// draft without a field for the cost it has to stay. Under the lock of its index table.
    #[cold]
    #[inline(never)]
    fn present_cost(&self, found: Option<Found<'_>>, key: &[u8], hash: Hash) -> Option<Cost> {
        let cost = match found {
            Some(found) => Some(found.item.cost()),
            None => self.compressed_cost(key, hash),
        };
        cost.filter(|cost| cost.is_known())
    }

    /// What becomes of the key: runs under the lock of its index table.
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

/// What is late, as memcached has it: it replaces the value, keeps the expiry, and leaves the item
/// to be recomputed. Only when nothing is in its way any more: a draft that is judged anew still
/// has the expiry that its client asked for. Returns bits of its mark.
fn inherit(draft: &hot::Draft<'_>, present: ItemRef<'_>) -> u8 {
    let has_room = draft.item().set_expiry(whole_second(expiry_of(present)).second);
    debug_assert!(has_room, "room was made before");
    STALE | (present.mark().load(Ordering::Relaxed) & SENT)
}

/// The last whole second up to an expiry: what may get another's expiry in place ends there, a
/// little early rather than late.
fn whole_second(expiry: Expiry) -> Expiry {
    match expiry.early_ms {
        0 => expiry,
        // The first second of all has none before it but 0, which is never.
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

    /// What becomes of a late store of `k`.
    fn decided<'c>(session: &Session<'c>, draft: Draft<'c>) -> Decision<'c> {
        let Draft { hot, hash, mut origin } = draft;
        let condition = Condition::UniqueOrStale(0);
        let flushes = session.cache.moment.flush.settled_count();
        let terms = Terms { hash, condition, mark_bits: 0, flushes };
        let is_key = |item: ItemRef<'_>| item.has_key(b"k");
        let decide = |present: Present<'_>| session.decide(hot, &present, &terms, &mut origin);
        session.cache.update(&session.guard, hash, is_key, decide).expect("it is there")
    }

    /// The copy with a field for a cost had no room for the expiry that what is late inherits: it
    /// stayed, stale, for ever.
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
        // Meanwhile somebody gives the item an expiry.
        assert_eq!(session.touch(b"k", hash, Expiry::at(NOW + 60)), Ok(true));
        let Decision::Enter(..) = decided(&session, wide) else { panic!("nothing is in its way") };
        let item = session.peek(b"k", hash).expect("it is there");
        assert_eq!((item.stale(), item.expiry()), (true, Expiry::at(NOW + 60)));
    }

    #[test]
    fn a_late_store_that_is_judged_anew_has_the_expiry_that_its_client_asked_for() {
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
