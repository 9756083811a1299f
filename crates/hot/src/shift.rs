//! Moving slabs: from a class that keeps old items to one that would evict young ones, to the
//! index, or back to the system when the memory limit was lowered. And the background's round.
//!
//! Where a class has free chunks for all items of one of its slabs, that slab goes before any other
//! ([`vacate`](crate::vacate)). Otherwise ages decide.
//!
//! A class that has to make room asks, once for each half slab of evictions, whether another class
//! has a slab that a hand left alone for much longer than the age of its own next victims
//! (`policy::rebalance`). It asks before it evicts, in a store as well as in the background, so
//! nothing depends on when the background comes. The slab's contents then decide:
//!
//! - Much of it was stored or read since: the slab is *spared* and gets another round.
//! - Mostly old, but with some of the newest items: it is *closed*. Nothing is allocated from it,
//!   and the next class that asks gets it as soon as its newest items are older than that class's
//!   victims.
//! - It is the only slab of a class in which something was stored: spared, or the class would need
//!   another at once.
//! - Otherwise it leaves.
//!
//! Where the policy keeps an order, no hand comes by the slabs. A slab is then as old as its
//! class's next victims, taken for the typical cost, or as the time since it came or was spared, if
//! that is less; and the offered slab holds the next victim. Where costs differ, costly items and
//! the newest may lie in every slab of the class. A slab is spared if half of it is so costly that
//! it would stay with the inflation of the class that asks, and closed for the newest; the rest of
//! its items are evicted with it.
//!
//! A slab that is to leave is *drained*: nothing is allocated from it any more, recently read items
//! move to other chunks of the class ([`rescue`](crate::rescue)), all others are evicted, and when
//! the last of its chunks is out of limbo it goes back to the arena. A draft in it (a client that
//! is half-way through a value) may hold it for a while; another slab is drained then, and the item
//! moves when it is published, if there is a free chunk for it. A hand comes by a leaving slab only
//! for such a late item. If the items to be rescued find room only in place of others that were
//! read as well, the slab is spared instead. A class that needs a slab waits for one that is about
//! to leave, and for the chunks that the items to be rescued from one need first.

mod spare;

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::Ordering;

use memory::{ClassId, Guard, Place, SlabId};
use policy::cost::Cost;
use policy::rebalance::{AGE_RATIO_MIN, Worths, is_much_older, is_settled};
use stdx::sync::lock;

use crate::allocate::RoomMade;
use crate::class::{AllocatedChunk, Class};
use crate::evict::GROUP;
use crate::rescue::RescueRoom;
use crate::vacate::Vacated;
use crate::{CacheHooks, Hot, PRESSED_BEHIND, PRESSED_CLASS, Shortage};

use spare::Renewed;

/// Chunks that are emptied before the class's lock is released for a moment.
const DRAIN_STEP: u32 = 512;
/// Slabs that are looked at for one request before it continues without.
const LOOKS_MAX: usize = 4;
/// How often in a row a class's slab stays because chunks for its rescued items have to come first.
const RESCUE_WAITS_MAX: u32 = 8;
/// How often the looks are repeated for a request that has to have a slab.
const ANY_ROUNDS_MAX: usize = 4;
/// Items that the background evicts from one class before it looks at the others.
const REFILL_BATCH: usize = 128;

impl Hot {
    /// A chunk for a class that owns nothing it could evict, from another class's slab.
    pub(crate) fn allocate_from_another_class(
        &self,
        own: ClassId,
        cost: Cost,
        hooks: &dyn CacheHooks,
    ) -> Result<AllocatedChunk, Shortage> {
        // Without eviction the index could not get another slab in the place of its spare one.
        let left = if hooks.may_evict() { 0 } else { self.reserve_slabs() };
        // Each turn either finds a chunk or empties one more slab, so it ends.
        for _ in 0..=self.arena.limit_slabs() {
            self.collect_all();
            self.sweep();
            {
                let mut class = lock(self.class(own));
                if let Some(room) = class.allocate_for(self.zone(), cost) {
                    return Ok(room);
                }
                let claim = class.claim;
                let claimed = || self.arena.take_claimed(claim?);
                if let Some(slab) = self.arena.take(left).or_else(claimed) {
                    class.claim = None;
                    class.adopt(self.zone(), slab, hooks.mutations());
                    continue;
                }
                class.claim = Some(self.arena.claim(claim));
            }
            if self.is_room_coming(own, hooks) {
                return Err(Shortage::Pinned);
            }
            match self.empty_any(Some(own), hooks) {
                Drained::Leaves => {}
                Drained::Waits => return Err(Shortage::Pinned),
                Drained::Stays => break,
            }
        }
        Err(Shortage::Nothing)
    }

    /// Whether a class without room gets some once readers have left: a slab, or chunks of its own.
    /// Chunks that others have unlinked in their classes are of no use to it, and with many stores
    /// there are always some; but where nothing is evicted, nothing else ever comes, and they may
    /// be borrowed.
    fn is_room_coming(&self, own: ClassId, hooks: &dyn CacheHooks) -> bool {
        let has_room = |id| lock(self.class(id)).room_in_limbo(self.zone(), 1) > 0;
        has_room(own)
            || self.slabs_leaving() > 0
            || (!hooks.may_evict() && self.sizes.iter().any(has_room))
    }

    /// Gives a class a slab of the arena if one can be spared.
    pub(crate) fn adopt_free_slab(&self, class: &mut Class, hooks: &dyn CacheHooks) -> bool {
        let Some(slab) = self.arena.take(self.reserve_slabs()) else {
            return false;
        };
        class.adopt(self.zone(), slab, hooks.mutations());
        true
    }

    /// Gets a slab for a class: one that can be vacated, or else, if it `may_drain`, one that is
    /// much older than the class's next victims. Returns whether the class had better wait for the
    /// slab, or for the chunks that have to come before it leaves, than evict.
    pub(crate) fn seek_slab(&self, id: ClassId, may_drain: bool, hooks: &dyn CacheHooks) -> bool {
        let may_ask = {
            let mut class = lock(self.class(id));
            match class.awaits.take() {
                Some(tag) if !self.epochs.try_reach(tag) => {
                    class.awaits = Some(tag);
                    return true;
                }
                Some(_) => may_drain,
                None => may_drain && class.may_ask(),
            }
        };
        if !may_ask && !self.may_vacate.load(Ordering::Relaxed) {
            return false;
        }
        // The system would get the slab, not the class: a hot zone whose stores each gave one up
        // would have none left long before the compressed zone has shrunk.
        if self.arena.excess_slabs() > 0 {
            return false;
        }
        self.sweep_draining();
        if !self.is_full() {
            return true;
        }
        let from = match self.vacate(Some(id), false, hooks) {
            Vacated::Slab(from) => Some(from),
            // With no free chunk left, it evicts at once.
            Vacated::Partly => return lock(self.class(id)).free > 0,
            Vacated::Nothing => {
                self.may_vacate.store(false, Ordering::Relaxed);
                if !may_ask {
                    return false;
                }
                match self.drain_older(id, hooks) {
                    (Drained::Leaves, from) => from,
                    // The rescued items' chunks come once readers have left. Asked again then.
                    (Drained::Waits, _) => {
                        lock(self.class(id)).awaits = Some(self.epochs.latest_tag());
                        return true;
                    }
                    (Drained::Stays, _) => None,
                }
            }
        };
        let Some(from) = from else {
            lock(self.class(id)).evicted_since = 0;
            return false;
        };
        // Read after everything in the slab was unlinked.
        let tag = self.epochs.latest_tag();
        self.collect(from);
        lock(self.class(from)).sweep_limbo(self.zone());
        if self.is_full() {
            lock(self.class(id)).awaits = Some(tag);
        }
        true
    }

    /// Drains a slab whose contents are much older than a class's next victims. Returns the
    /// outcome, and the class whose slab it was.
    fn drain_older(&self, id: ClassId, hooks: &dyn CacheHooks) -> (Drained, Option<ClassId>) {
        if !hooks.may_evict() {
            return (Drained::Stays, None);
        }
        let victims = {
            let guard = self.epochs.pin();
            let mut class = lock(self.class(id));
            Victims { age: self.victim_age(&guard, &mut class, hooks), density: class.density() }
        };
        let (offers, worths) = self.offers(hooks);
        let victim_age = worths.scaled(victims.age, victims.density);
        let settled = |offer: &&Offer| offer.is_closed && is_settled(offer.age, victim_age);
        for offer in offers.iter().filter(settled) {
            match self.drain(offer, false, hooks) {
                Drained::Stays => {}
                drained => return (drained, Some(offer.class)),
            }
        }
        let older = offers.iter().filter(|offer| !offer.is_closed && offer.class != id);
        let mut looks = 0;
        for offer in older.take_while(|offer| is_much_older(offer.age, victim_age)) {
            let drained = self.drain_unless_spared(offer, Some(victim_age), &mut looks, hooks);
            if drained != Drained::Stays {
                return (drained, Some(offer.class));
            }
            if looks == LOOKS_MAX {
                break;
            }
        }
        (Drained::Stays, None)
    }

    /// Vacates a slab, or drains the one that is missed least if anything may be evicted.
    fn empty_any(&self, except: Option<ClassId>, hooks: &dyn CacheHooks) -> Drained {
        if self.vacate_whole(except, hooks) {
            return Drained::Leaves;
        }
        if !hooks.may_evict() {
            return Drained::Stays;
        }
        let offers = || {
            let (mut offers, _) = self.offers(hooks);
            offers.retain(|offer| Some(offer.class) != except);
            offers
        };
        let old = offers().first().map_or(0, |oldest| oldest.age / AGE_RATIO_MIN);
        for _ in 0..ANY_ROUNDS_MAX {
            let offers = offers();
            // Slabs spared meanwhile are not old any more.
            let open = offers.iter().filter(|offer| !offer.is_closed && offer.age > old);
            let mut looks = 0;
            for offer in open {
                let drained = self.drain_unless_spared(offer, None, &mut looks, hooks);
                if drained != Drained::Stays {
                    return drained;
                }
                // Unread items of slabs that stay may have made room for the contents of one.
                self.epochs.try_reach(self.epochs.latest_tag());
                self.sweep();
                if self.vacate_whole(except, hooks) {
                    return Drained::Leaves;
                }
                if looks == LOOKS_MAX {
                    break;
                }
            }
        }
        // A class with one slab is asked last: without it, it can store nothing.
        let mut offers = offers();
        offers.sort_by_key(|offer| offer.is_last);
        let mut drained = offers.iter().map(|offer| self.drain(offer, true, hooks));
        drained.find(|drained| *drained != Drained::Stays).unwrap_or(Drained::Stays)
    }

    /// Drains a slab unless its contents spare it, where otherwise items of age `victim_age` would
    /// be evicted, or of half the slab's age.
    fn drain_unless_spared(
        &self,
        offer: &Offer,
        victim_age: Option<u64>,
        looks: &mut usize,
        hooks: &dyn CacheHooks,
    ) -> Drained {
        let least = offer.age / AGE_RATIO_MIN;
        let times = offer.age as f64 / victim_age.unwrap_or(least).max(1) as f64;
        if self.spare(offer, times, looks, hooks) {
            return Drained::Stays;
        }
        self.drain(offer, false, hooks)
    }

    /// The slabs that each class would miss least, the oldest first, and the worth of their ages.
    fn offers(&self, hooks: &dyn CacheHooks) -> (Vec<Offer>, Worths) {
        let (zone, guard) = (self.zone(), self.epochs.pin());
        let (mut offers, mut worths) = (Vec::new(), Worths::default());
        for class in &self.classes {
            let mut class = lock(class);
            // After the lock was taken, so that no slab is younger than now.
            let mutations = hooks.mutations();
            class.policy.enter_waiting(zone);
            let density = class.density().filter(|_| !class.slabs.is_empty());
            density.into_iter().for_each(|density| worths.add(density));
            let closed = class.closed.first().copied();
            let oldest = class.oldest_slab(zone, mutations);
            let mut push = |slab, is_closed| {
                let age = if is_closed {
                    zone.slab(slab).age(mutations)
                } else {
                    self.slab_age(&guard, &mut class, slab, hooks)
                };
                let is_last = !is_closed && class.staying() == 1;
                offers.push(Offer { class: class.id, slab, age, density, is_closed, is_last });
            };
            closed.into_iter().for_each(|slab| push(slab, true));
            oldest.into_iter().for_each(|slab| push(slab, false));
        }
        offers.iter_mut().for_each(|offer| offer.age = worths.scaled(offer.age, offer.density));
        offers.sort_unstable_by_key(|offer| Reverse(offer.age));
        (offers, worths)
    }

    /// Evicts the contents of a slab, except the rescued items; the slab leaves its class then.
    /// Unless it `must` leave it waits until there is room for the items to be rescued.
    fn drain(&self, offer: &Offer, must: bool, hooks: &dyn CacheHooks) -> Drained {
        let (zone, slab) = (self.zone(), self.zone().slab(offer.slab));
        let rescues = self.rescues(offer.class, offer.slab, hooks);
        let life = {
            let guard = self.epochs.pin();
            let mut class = lock(self.class(offer.class));
            let is_open = class.stays(zone, offer.slab);
            if !is_open && !class.closed.contains(&offer.slab) {
                return Drained::Stays;
            }
            // Nothing of the last slab can be rescued.
            if class.staying() == usize::from(is_open) && rescues.has_unjudged && !must {
                _ = self.judge(&guard, &mut class, offer.slab);
                class.spare(zone, offer.slab, hooks.mutations());
                return Drained::Stays;
            }
            // Before room is made: the slab's own room is of no use, and no hand comes by it.
            if is_open {
                class.start_draining(zone, offer.slab);
            }
            slab.life()
        };
        let room = self.make_room_for_rescues(&rescues, hooks);
        match self.decide(offer, life, room, must, hooks) {
            (Drained::Leaves, _) => {}
            (Drained::Waits, _) => return Drained::Waits,
            (Drained::Stays, renewed) => {
                self.judge_next(offer, renewed, hooks);
                return Drained::Stays;
            }
        }
        self.rescue(offer.class, rescues, hooks);
        self.empty_slab(offer.class, offer.slab, hooks);
        Drained::Leaves
    }

    /// The fate of a draining slab, in this life of it, with this room for rescued items, and which
    /// items were renewed in it if it stays.
    fn decide(
        &self,
        offer: &Offer,
        life: u32,
        room: RescueRoom,
        must: bool,
        hooks: &dyn CacheHooks,
    ) -> (Drained, Renewed) {
        let (zone, guard) = (self.zone(), self.epochs.pin());
        let (slab, mut renewed) = (zone.slab(offer.slab), Renewed::default());
        let mut class = lock(self.class(offer.class));
        // With nothing in it, it has left by itself.
        if !slab.belongs_to(offer.class) || slab.life() != life {
            return (Drained::Leaves, renewed);
        }
        // It may have been opened again.
        if !slab.is_draining() {
            return (Drained::Stays, renewed);
        }
        let is_closed = class.closed.contains(&offer.slab);
        let drained = match room {
            // Stores in the class take some of the coming chunks: the wait has an end.
            RescueRoom::Coming if !must && class.rescues_waited < RESCUE_WAITS_MAX => {
                class.rescues_waited += 1;
                if !is_closed {
                    class.stop_draining(zone, offer.slab);
                }
                Drained::Waits
            }
            // All other items were read as well. Those not read once more do not spare it twice.
            RescueRoom::Short if !must => {
                if !is_closed {
                    class.stop_draining(zone, offer.slab);
                }
                renewed = self.judge(&guard, &mut class, offer.slab);
                class.spare(zone, offer.slab, hooks.mutations());
                Drained::Stays
            }
            _ => {
                class.rescues_waited = 0;
                class.closed.retain(|&other| other != offer.slab);
                Drained::Leaves
            }
        };
        (drained, renewed)
    }

    /// The mutations for which a slab was left alone. Without a hand, at most the age of the next
    /// victims.
    fn slab_age(
        &self,
        guard: &Guard<'_>,
        class: &mut Class,
        id: SlabId,
        hooks: &dyn CacheHooks,
    ) -> u64 {
        let alone = self.zone().slab(id).age(hooks.mutations());
        match class.policy.order() {
            Some(_) => alone.min(self.victim_age(guard, class, hooks)),
            None => alone,
        }
    }

    /// Frees the chunks that readers have left, in every class.
    pub fn sweep(&self) {
        for class in &self.classes {
            lock(class).sweep_limbo(self.zone());
        }
    }

    /// Does so in classes that a slab is leaving.
    pub(crate) fn sweep_draining(&self) {
        for id in self.sizes.iter() {
            let (leaving, draining) = {
                let class = lock(self.class(id));
                (class.draining - class.closed.len(), class.draining)
            };
            if leaving > 0 {
                self.collect(id);
            }
            if draining > 0 {
                lock(self.class(id)).sweep_limbo(self.zone());
            }
        }
    }

    /// Whether some class has so few free chunks that the background makes room.
    pub fn wants_room(&self) -> bool {
        self.classes.iter().any(|class| lock(class).missing() > 0)
    }

    /// One turn of the background's work: refills the reserve of free chunks in each class. If room
    /// comes by other ways (`room_comes`), nothing is evicted for a class that has some left.
    /// Returns whether there is more to do at once.
    pub fn maintain(&self, room_comes: bool, hooks: &dyn CacheHooks) -> bool {
        let pressed = self.pressed.fetch_and(PRESSED_BEHIND, Ordering::Relaxed);
        let (mut more, mut is_behind) = (false, false);
        if pressed & PRESSED_CLASS == 0 {
            self.collect_all();
        } else {
            self.collect_idle(hooks);
        }
        self.note_spare();
        for (number, class) in self.classes.iter().enumerate() {
            let id = ClassId(number as u8);
            self.finish_draining(id, hooks);
            let full = self.is_full();
            let (missing, is_low) = {
                let mut class = lock(class);
                class.sweep_limbo(self.zone());
                (if full { class.missing() } else { 0 }, class.is_nearly_out())
            };
            if missing == 0 {
                continue;
            }
            // A store that had to help says so for the class that is low, and not for others, nor
            // for longer: items that are demoted meanwhile are not compressed.
            if !is_low {
                self.pressed.fetch_and(!PRESSED_BEHIND, Ordering::Relaxed);
            }
            is_behind |= is_low;
            more |= if !hooks.may_evict() {
                self.seek_slab(id, false, hooks);
                self.adopt_free_slab(&mut lock(class), hooks)
            } else if room_comes && !is_low {
                self.seek_slab(id, false, hooks);
                true
            } else {
                match self.make_room(id, missing.min(REFILL_BATCH), hooks) {
                    RoomMade::Chunks(chunks) => chunks >= REFILL_BATCH,
                    RoomMade::Slab | RoomMade::Nothing => {
                        self.adopt_free_slab(&mut lock(class), hooks)
                    }
                }
            };
        }
        more |= self.go_on_vacating(hooks);
        if !is_behind {
            self.pressed.fetch_and(!PRESSED_BEHIND, Ordering::Relaxed);
        }
        more
    }

    /// Notes whether some class has free chunks to spare, before any other asks: expired items that
    /// a sweep has just found go before anything alive.
    fn note_spare(&self) {
        let may_vacate = self.classes.iter().any(|class| {
            let mut class = lock(class);
            class.sweep_limbo(self.zone());
            class.can_spare_slab(false)
        });
        self.may_vacate.store(may_vacate, Ordering::Relaxed);
    }

    /// Frees `slabs` slabs for the index or the system, as far as that is possible at once. Slabs
    /// that are about to leave their classes count. Returns whether some come free, perhaps once
    /// readers have left.
    pub fn give_up_slabs(&self, slabs: usize, hooks: &dyn CacheHooks) -> bool {
        if slabs == 0 {
            return false;
        }
        self.sweep_draining();
        let leaving = self.slabs_leaving();
        let mut comes = leaving > 0;
        for _ in leaving..slabs {
            match self.empty_any(None, hooks) {
                Drained::Leaves => comes = true,
                Drained::Waits => return true,
                Drained::Stays => break,
            }
            self.sweep_draining();
        }
        comes
    }

    /// Empties draining slabs once more, of drafts that were published after the first time. Where
    /// nothing may be evicted, an item that cannot move keeps its slab.
    fn finish_draining(&self, id: ClassId, hooks: &dyn CacheHooks) {
        if !lock(self.class(id)).emptied.is_empty() {
            self.collect(id);
        }
        // A client that sends nothing more may hold a slab for as long as it likes, and going
        // through one takes long.
        let with_late = lock(self.class(id)).emptied_with_late(self.zone(), hooks.now());
        for slab_id in with_late {
            let is_empty = self.move_to_spare(id, slab_id, hooks);
            if hooks.may_evict() {
                self.empty_slab(id, slab_id, hooks);
            } else if !is_empty {
                self.stop_leaving(id, slab_id);
            }
        }
    }

    /// Evicts the published items of a draining slab of a class.
    fn empty_slab(&self, id: ClassId, slab_id: SlabId, hooks: &dyn CacheHooks) {
        if hooks.demotes() || hooks.store_demotes_wanted() {
            self.move_slab(id, slab_id, hooks);
        }
        let slab = self.zone().slab(slab_id);
        let mut begin = 0;
        loop {
            let guard = self.epochs.pin();
            let mut chained = Vec::new();
            let end = {
                let mut class = lock(self.class(id));
                // While the lock was released the slab may have left, and may even have come back.
                if !slab.belongs_to(id) || !slab.is_draining() {
                    return;
                }
                let touched = slab.touched();
                let end = touched.min(begin + DRAIN_STEP);
                for group in (begin..end).step_by(GROUP) {
                    let numbers = group..end.min(group + GROUP as u32);
                    self.empty_chunks(&guard, &mut class, slab_id, numbers, hooks, &mut chained);
                }
                if end == touched {
                    class.note_emptied(slab_id);
                }
                (end < touched).then_some(end)
            };
            for place in chained {
                // SAFETY: unlinked just now, under this guard.
                unsafe { self.retire_at_once(&guard, place) };
            }
            match end {
                Some(end) => begin = end,
                None => return,
            }
        }
    }

    /// Evicts the published items of some chunks of a slab: few, so that the index lines that all
    /// of them need can be prefetched before the first is unlinked.
    fn empty_chunks(
        &self,
        guard: &Guard<'_>,
        class: &mut Class,
        slab_id: SlabId,
        numbers: Range<u32>,
        hooks: &dyn CacheHooks,
        chained: &mut Vec<Place>,
    ) {
        let slab = self.zone().slab(slab_id);
        let victim = |number| self.published(guard, slab.place(&self.arena, slab_id, number));
        for (item, _) in numbers.clone().filter_map(victim) {
            hooks.prefetch(guard, item);
        }
        for (_, place) in numbers.filter_map(victim) {
            self.unlink(guard, class, hooks, place, chained);
        }
    }
}

/// The outcome of a request that a slab leave its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drained {
    /// It leaves, once readers have left its items.
    Leaves,
    /// It will: once readers have left, its class has chunks for the items to be rescued.
    Waits,
    /// It stays.
    Stays,
}

/// A class's next victims.
#[derive(Debug, Clone, Copy)]
struct Victims {
    /// Mutations since they were stored.
    age: u64,
    /// The cost per byte that is given up in this time, if costs are known.
    density: Option<f64>,
}

/// A slab that a class could do without.
#[derive(Debug, Clone, Copy)]
struct Offer {
    class: ClassId,
    slab: SlabId,
    /// Mutations since a hand came by, or since it was closed, scaled by their worth.
    age: u64,
    /// The cost per byte that is given up in this time, if costs are known.
    density: Option<f64>,
    is_closed: bool,
    /// The class has no other slab that stays.
    is_last: bool,
}

#[cfg(test)]
mod tests;
