//! Eviction inside a class: by its hand, or from the front of the order where the policy keeps one
//! ([`order`](crate::order)).
//!
//! The hand of a class goes round its slabs, chunk by chunk, skipping slabs that are leaving the
//! class: an eviction there frees nothing for a store until the slab is empty. It passes over
//! unpublished chunks, takes items that are expired or flushed, and lets the policy judge the rest
//! by their marks. A chained item is met in up to three classes; only the meeting at its first
//! piece uses up the bit or credit that spares it. An item that was stored long after the hand last
//! came by is passed over, too: its chunk was freed out of turn, by an overwrite or with a chained
//! item, and it has had no round to itself. Victims are gathered in small groups whose index lines
//! are prefetched together, since each removal from the index is a cache miss. After [`STEPS_MAX`]
//! chunks without enough victims the hand takes whatever comes: when nearly everything was read
//! lately, the choice of the victim matters less than that a store is not kept waiting.

use std::sync::atomic::Ordering;

use memory::{Arena, ClassId, Guard, Place};
use policy::clock::RECENT;
use policy::rebalance::is_young;
use stdx::sync::lock;

use crate::allocate::INLINE_BATCH_MAX;
use crate::class::Class;
use crate::item::ItemRef;
use crate::mark::FETCHED;
use crate::{CacheHooks, Hot, Unlinked, slab};

/// Victims gathered before they are unlinked: enough misses in flight to hide one another.
pub(crate) const GROUP: usize = 16;
/// Victims gathered even while stores wait for the class: they need the chunks that come free.
const VICTIMS_AT_LEAST: usize = 4;
/// Chunks that a hand looks at for one call before it stops being choosy.
const STEPS_MAX: usize = 4096;
/// How many chunks ahead of a hand are prefetched: a few looks take as long as one from memory.
pub(crate) const HAND_PREFETCH: u32 = 6;
/// Items among the chunks ahead of a hand whose median age is the age of its victims.
const VICTIMS: usize = 5;
/// Chunks looked at ahead of a hand to find [`VICTIMS`].
pub(crate) const VICTIM_LOOKS: usize = 64;
/// Slabs in which these chunks lie, at most.
const AHEAD_SLABS: usize = 3;
/// Mutations for which a long value is one of the newest: its client may be about to read it.
const NEWEST_MUTATIONS: u64 = 2;
/// An item to evict.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Victim {
    /// Where the item begins.
    pub(crate) place: Place,
    /// The chunk of it that the hand met, in the class of that hand.
    pub(crate) came_up: Place,
}

impl Victim {
    /// Fills an array of victims where there are none.
    pub(crate) const NONE: Self = Self { place: Place(0), came_up: Place(0) };
}

/// A request for room in a class, and what has been done for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoomRequest {
    /// Chunks still wanted.
    pub(crate) wanted: usize,
    /// Chunks that were looked at.
    pub(crate) steps: usize,
    /// Items that the policy spares stay, and keep the bit or credit that spares them: the room is
    /// for such items, or the others are judged already.
    pub(crate) only_unread: bool,
}

impl RoomRequest {
    pub(crate) fn new(wanted: usize) -> Self {
        Self { wanted, steps: 0, only_unread: false }
    }

    /// A request for the room of unread items, as far as there are any.
    pub(crate) fn of_unread(wanted: usize) -> Self {
        Self { only_unread: true, ..Self::new(wanted) }
    }

    /// Steps of a hand until it gives up: as many rounds as it may take until every item has lost
    /// the bit or credit that spares it, or one round without being choosy, in which it meets every
    /// item. Where only dead items may be evicted, it continues from there next time: otherwise
    /// each refused store would look at all chunks.
    pub(crate) fn steps_max(&self, class: &Class, hooks: &dyn CacheHooks) -> usize {
        let round = class.chunks() + class.slabs.len();
        if self.only_unread {
            // In the first of two rounds it may be met early.
            (2 * round).min(STEPS_MAX)
        } else if hooks.may_evict() {
            (class.policy.rounds_max() * round).min(STEPS_MAX + round)
        } else {
            round.min(STEPS_MAX)
        }
    }
}

/// Whether an item lies in pieces and was stored a moment ago, by mutations of the whole cache. In
/// a class of only a few chunks, such as those of the ends of long values, it may be the oldest all
/// the same.
pub(crate) fn is_newest(item: ItemRef<'_>, hooks: &dyn CacheHooks) -> bool {
    item.layout().is_chained() && hooks.age(item) < NEWEST_MUTATIONS
}

impl Hot {
    /// Demotes items of a class, if there is a tier that takes them, or evicts them, a group at a
    /// time. Returns how many chunks are on their way to being free.
    pub(crate) fn evict_or_demote(
        &self,
        id: ClassId,
        request: RoomRequest,
        hooks: &dyn CacheHooks,
    ) -> usize {
        if hooks.demotes() {
            return self.demote(id, request, hooks);
        }
        let (mut request, mut left, mut paid) = (request, 0, 0);
        while request.wanted > 0 && hooks.store_demotes_wanted() {
            // As in `evict_for`.
            if left - paid >= INLINE_BATCH_MAX {
                (request.steps, paid) = (0, left);
            }
            match self.demote_for_store(id, &mut request, hooks) {
                0 if left > 0 => return left,
                0 => break,
                chunks => left += chunks,
            }
        }
        // The tier takes no more, or there is nothing that it takes.
        left + self.evict_for(id, RoomRequest { steps: 0, ..request }, hooks)
    }

    /// [`Hot::evict_or_demote`] where there is no tier below.
    #[cfg(test)]
    pub(crate) fn evict(&self, id: ClassId, wanted: usize, hooks: &dyn CacheHooks) -> usize {
        self.evict_for(id, RoomRequest::new(wanted), hooks)
    }

    /// Evicts items of a class until about as many chunks as are wanted are on their way to being
    /// free, which they are once no reader can see them. Returns how many chunks that is. Between
    /// groups it releases the class and its pin of the epoch, so that a store waits for one group
    /// at most.
    fn evict_for(&self, id: ClassId, mut request: RoomRequest, hooks: &dyn CacheHooks) -> usize {
        let (mut evicted, mut paid) = (0, 0);
        while request.wanted > 0 {
            // The steps before a hand stops being choosy are for this many chunks.
            if evicted - paid >= INLINE_BATCH_MAX {
                (request.steps, paid) = (0, evicted);
            }
            match self.evict_group(id, &mut request, hooks) {
                Some(chunks) => {
                    evicted += chunks;
                    request.wanted = request.wanted.saturating_sub(chunks);
                }
                None => break,
            }
            // After the last group it would let others have the chunks that it made.
            if request.wanted > 0 {
                self.make_way(id);
            }
        }
        evicted
    }

    /// Evicts at most one group. `None` if there was no victim.
    fn evict_group(
        &self,
        id: ClassId,
        request: &mut RoomRequest,
        hooks: &dyn CacheHooks,
    ) -> Option<usize> {
        let guard = self.epochs.pin();
        let (mut chained, mut evicted) = (Vec::new(), 0);
        {
            let mut class = lock(self.class(id));
            let mut victims = [Victim::NONE; GROUP];
            let found = self.gather(&guard, &mut class, hooks, &mut victims, request);
            if found == 0 {
                return None;
            }
            // Under the same lock: a victim may have been in limbo before this guard was pinned,
            // and without the lock its chunk may hold another item, or be in another class, by now.
            for &Victim { place, came_up } in &victims[..found] {
                let chunks = self.unlink(&guard, &mut class, hooks, place, &mut chained);
                if chunks == 0 {
                    self.put_back(&mut class, came_up);
                }
                evicted += chunks;
            }
            class.evicted_since += evicted;
        }
        for place in chained {
            // SAFETY: unlinked by this call, under this guard.
            unsafe { self.retire_at_once(&guard, place) };
        }
        Some(evicted)
    }

    /// Judges the next items until `victims` is full, or they have as many chunks as are wanted, or
    /// the rounds are over, and prefetches what unlinking them will need. Returns how many it
    /// found. All of them have to be evicted: one that were passed over now would stay for another
    /// round, and the hand would soon come to the newest items. They are out of the order, if there
    /// is one: a victim that stays after all is for [`Hot::put_back`].
    pub(crate) fn gather(
        &self,
        guard: &Guard<'_>,
        class: &mut Class,
        hooks: &dyn CacheHooks,
        victims: &mut [Victim; GROUP],
        request: &mut RoomRequest,
    ) -> usize {
        let (zone, mut found, mut chunks) = (self.zone(), 0, 0);
        let has_any = class.policy.order().is_some() || class.has_for_hand();
        let steps_max = if has_any { request.steps_max(class, hooks) } else { 0 };
        // Drafts and free chunks: more than a round of these in a row is all that there is.
        let (mut passed, round) = (0, class.chunks() + class.slabs.len());
        while found < GROUP
            && chunks < request.wanted
            && request.steps < steps_max
            && passed <= round
        {
            (request.steps, passed) = (request.steps + 1, passed + 1);
            let choosy = request.steps <= STEPS_MAX;
            let next = match class.policy.order_mut() {
                Some(order) if order.is_empty() => break,
                Some(order) => order.pop(zone, !choosy),
                None => self.advance_hand(class, hooks),
            };
            let Some(judged_at) = next else {
                continue;
            };
            let Some((item, place)) = self.published(guard, judged_at) else {
                class.policy.renew(zone, judged_at);
                continue;
            };
            // An eviction in a leaving slab makes no room for a store before the slab is empty. The
            // item has left the order, and enters it once more if the slab stays.
            let slab_id = self.arena.locate(judged_at).0;
            if !class.is_for_hand(zone.slab(slab_id), slab_id) {
                class.policy.set_aside(judged_at);
                continue;
            }
            passed = 0;
            if !self.is_judged_at(guard, class.id, judged_at, place) {
                continue;
            }
            // Stored long after the hand came by, in a chunk that was freed before its turn: it has
            // had no round to itself.
            let young = choosy && is_young(hooks.age(item), class.hand_found);
            // Elsewhere than at its mark an item loses no bit or credit: it is evicted in the end.
            // So are the newest, where there are no others.
            let is_last_round = request.steps + round > steps_max;
            let young = young || !is_last_round && is_newest(item, hooks);
            let lets_go = |class: &Class| match self.has_its_mark(item, place, judged_at) {
                _ if request.only_unread => !class.policy.keeps(item),
                true => !choosy || class.policy.judge(item),
                false => !choosy || is_last_round || !class.policy.keeps(item),
            };
            let goes = hooks.is_gone(item) || (hooks.may_evict() && !young && lets_go(class));
            if !goes || victims[..found].iter().any(|victim| victim.place == place) {
                class.policy.renew(zone, judged_at);
                continue;
            }
            hooks.prefetch(guard, item);
            victims[found] = Victim { place, came_up: judged_at };
            found += 1;
            chunks += item.chunks();
            if found >= VICTIMS_AT_LEAST && self.waiting_for(class.id) > 0 {
                break;
            }
        }
        found
    }

    /// Whether an item, which begins at `owner`, loses its access bit or credit at this chunk of
    /// it: an item in pieces is met by the hands of up to three classes, and would have to be read
    /// before each comes by.
    pub(crate) fn has_its_mark(&self, item: ItemRef<'_>, owner: Place, place: Place) -> bool {
        place == self.marked_place(item, owner)
    }

    /// The chunk at which the item loses its access bit or credit.
    pub(crate) fn marked_place(&self, item: ItemRef<'_>, owner: Place) -> Place {
        if item.layout().is_chained() { item.piece(0) } else { owner }
    }

    /// Enters once more, in an order, the chunk of a victim that stays, if the item is still there
    /// and not in the order again. The item was published a moment ago and the index does not point
    /// at it yet; or a walk has given it another number. A chunk in limbo may be in the order until
    /// it is reused, except pieces, whose mark says that they are in limbo.
    pub(crate) fn put_back(&self, class: &mut Class, came_up: Place) {
        if slab::mark(&self.arena, came_up).load(Ordering::Relaxed) != 0 {
            class.policy.put_back(self.zone(), came_up);
        }
    }

    /// The item that the hand of class `id` has to judge at `place`, if there is one. A chained
    /// item has many chunks and is judged once in a round: at the first of its pieces in the class.
    pub(crate) fn judged_here<'g>(
        &self,
        guard: &'g Guard<'_>,
        id: ClassId,
        place: Place,
    ) -> Option<(ItemRef<'g>, Place)> {
        let found = self.published(guard, place)?;
        self.is_judged_at(guard, id, place, found.1).then_some(found)
    }

    /// Whether an item that was found by its chunk at `place`, in class `id`, is judged there.
    fn is_judged_at(&self, guard: &Guard<'_>, id: ClassId, place: Place, owner: Place) -> bool {
        if owner == place {
            return true;
        }
        // SAFETY: `published` found the chunk's mark set, under the lock that the caller holds.
        let number = unsafe { self.item(guard, place) }.piece_number();
        // All pieces are of the largest class, except that the last may be of a smaller one.
        number == 0 || id != self.largest_class()
    }

    /// The chunk under the hand; the hand moves on. `None` at the end of a slab, and instead of a
    /// slab that leaves the class: an eviction there makes no room for a store before the slab is
    /// empty, and the draining thread sees to that. An item it has left there, a draft that was
    /// published since, is evicted like all else.
    fn advance_hand(&self, class: &mut Class, hooks: &dyn CacheHooks) -> Option<Place> {
        if class.hand.slab >= class.slabs.len() {
            class.hand = crate::class::Hand::default();
            let now = hooks.now();
            if class.round_began != 0 {
                class.round_seconds = now.saturating_sub(class.round_began);
            }
            class.round_began = now;
        }
        let &id = class.slabs.get(class.hand.slab)?;
        let slab = self.zone().slab(id);
        if !class.is_for_hand(slab, id) {
            class.hand.slab += 1;
            class.hand.chunk = 0;
            return None;
        }
        if class.hand.chunk == 0 {
            class.hand_came = hooks.mutations();
            class.hand_found = slab.age(class.hand_came);
            self.note_stay(class.id, class.hand_found);
        }
        if class.hand.chunk >= slab.touched() {
            slab.pass(class.hand_came);
            class.hand.slab += 1;
            class.hand.chunk = 0;
            return None;
        }
        let place = slab.place(&self.arena, id, class.hand.chunk);
        // Chunks lie further apart than the processor looks ahead by itself.
        let soon = class.hand.chunk + HAND_PREFETCH;
        if soon < slab.touched() {
            slab.chunk(&self.arena, slab.place(&self.arena, id, soon)).prefetch();
        }
        class.hand.chunk += 1;
        Some(place)
    }

    /// The age, in mutations, of the items that the class is about to evict, as it would be if they
    /// cost what is typical: the median of a few that are next; `u64::MAX` if these are dead
    /// anyway. If all that are next were read lately, it is the age of the oldest slab.
    pub(crate) fn victim_age(
        &self,
        guard: &Guard<'_>,
        class: &mut Class,
        hooks: &dyn CacheHooks,
    ) -> u64 {
        let zone = self.zone();
        class.policy.enter_waiting(zone);
        let mut ahead = [Place(0); VICTIM_LOOKS];
        let count = match class.policy.order() {
            Some(order) => order.ahead(zone, &mut ahead),
            None => self.ahead_of_hand(class, &mut ahead),
        };
        let next = ahead[..count].iter().filter_map(|&place| {
            let slab_id = self.arena.locate(place).0;
            let comes_up = class.is_for_hand(zone.slab(slab_id), slab_id);
            let (item, _) = comes_up.then(|| self.judged_here(guard, class.id, place))??;
            let age = hooks.age(item);
            let stays = class.policy.keeps(item) || is_young(age, class.hand_found);
            let age = class.policy.order().map_or(age, |order| order.typical_age(zone, place, age));
            (!stays).then(|| if hooks.is_gone(item) { u64::MAX } else { age })
        });
        let (mut ages, mut known) = ([0; VICTIMS], 0);
        for age in next.take(VICTIMS) {
            ages[known] = age;
            known += 1;
        }
        let ages = &mut ages[..known];
        ages.sort_unstable();
        ages.get(known / 2).copied().unwrap_or_else(|| {
            let mutations = hooks.mutations();
            let oldest = class.oldest_slab(zone, mutations);
            oldest.map_or(0, |id| zone.slab(id).age(mutations))
        })
    }

    /// Fills in the chunks that the hand comes to next; returns how many there are.
    fn ahead_of_hand(&self, class: &Class, ahead: &mut [Place]) -> usize {
        let zone = self.zone();
        let count = class.slabs.len();
        // The hand's own slab comes once more at the end of the round.
        let round = (0..count + usize::from(count > 0))
            .map(|at| (at, class.slabs[(class.hand.slab + at) % count]))
            .filter(|&(_, id)| !zone.slab(id).is_draining());
        let from_hand = round.take(AHEAD_SLABS).flat_map(|(at, id)| {
            let begin = if at == 0 { class.hand.chunk } else { 0 };
            (begin..zone.slab(id).touched())
                .map(move |number| zone.slab(id).place(zone.arena, id, number))
        });
        fill(ahead, from_hand)
    }

    /// The item that the chunk at `place` is or belongs to, if it is published. The caller holds
    /// the lock of the chunk's class, and keeps it while it reads the item.
    #[inline]
    pub(crate) fn published<'g>(
        &self,
        guard: &'g Guard<'_>,
        place: Place,
    ) -> Option<(ItemRef<'g>, Place)> {
        let _ = guard;
        // SAFETY: the caller holds the lock, and under the guard the chunk is not reused.
        unsafe { published_in(&self.arena, place) }
    }

    /// Unlinks one victim and sends its chunk to limbo; chained ones are left to the caller, which
    /// must not hold a class's lock when it retires them. Returns how many chunks are on their way
    /// to being free: 0 if the item was not in the index any more.
    pub(crate) fn unlink(
        &self,
        guard: &Guard<'_>,
        class: &mut Class,
        hooks: &dyn CacheHooks,
        place: Place,
        chained: &mut Vec<Place>,
    ) -> usize {
        // SAFETY: the place was found published under the same guard.
        let item = unsafe { self.item(guard, place) };
        let is_gone = hooks.is_gone(item);
        let mark = item.mark().load(Ordering::Relaxed);
        let unlinked = hooks.unlink(guard, item, place);
        if unlinked == Unlinked::Not {
            return 0;
        }
        let counters = &mut class.counters;
        let fetched = mark & FETCHED != 0;
        if is_gone {
            counters.expired += 1;
            counters.expired_unfetched += u64::from(!fetched);
        } else if unlinked == Unlinked::Rests {
            counters.demoted += 1;
        } else {
            counters.evicted += 1;
            counters.evicted_unfetched += u64::from(!fetched);
            counters.evicted_cost_us += u64::from(item.cost().us());
            hooks.evicted(item, class.id);
            counters.evicted_recent += u64::from(fetched && mark & RECENT != 0);
        }
        let pieces = item.layout().pieces();
        if pieces > 0 {
            chained.push(place);
        } else {
            class.retire(self.zone(), guard.tag(), place);
        }
        pieces.max(1)
    }
}

/// [`Hot::published`] for a caller that is not pinned.
///
/// # Safety
/// The caller holds the lock of the chunk's class, during all of `'a` unless it is pinned as well.
#[inline]
pub(crate) unsafe fn published_in<'a>(arena: &Arena, place: Place) -> Option<(ItemRef<'a>, Place)> {
    // Acquire: partner is the release in `Draft::publish`.
    if slab::mark(arena, place).load(Ordering::Acquire) == 0 {
        return None;
    }
    // SAFETY: a mark that is set says that the chunk was laid out, visibly; it is cleared when the
    // chunk is freed, which takes the lock that the caller holds.
    let item = unsafe { ItemRef::new(arena, place) };
    if !item.is_piece() {
        return Some((item, place));
    }
    let owner = item.owner();
    // SAFETY: a piece's mark is set when its owner is laid out. Retiring the owner first clears the
    // marks of its pieces and sends each to limbo, under the lock that the caller holds, and only
    // then the owner; so while this mark is set and the lock held, the owner's chunk is not free.
    let owner_item = unsafe { ItemRef::new(arena, owner) };
    // Acquire: partner is the release in `Draft::publish`, as above.
    let owner_mark = owner_item.mark().load(Ordering::Acquire);
    (owner_mark != 0).then_some((owner_item, owner))
}

/// Fills in places from `come` as far as there is room; returns how many.
pub(crate) fn fill(places: &mut [Place], come: impl Iterator<Item = Place>) -> usize {
    places.iter_mut().zip(come).map(|(place, next)| *place = next).count()
}

#[cfg(test)]
mod tests;
