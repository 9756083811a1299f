//! What makes a slab stay that was offered to another class: a look at its contents, and what
//! becomes of them once the slab is spared.

use memory::{Guard, Place, SlabId};
use policy::rebalance::{Ages, Look};
use stdx::sync::lock;

use super::Offer;
use crate::class::Class;
use crate::evict::RoomRequest;
use crate::slab::Slab;
use crate::{CacheHooks, Hot};

/// Slabs of one class that may be closed at a time.
const CLOSED_MAX: usize = 4;
/// Chunks sampled in a look at a slab: all used ones, where these are few enough that each matters.
const LOOK_CHUNKS_MAX: usize = 1024;
/// Chunks at the front of an order that are judged under one lock of the class.
const NEXT_STEP: usize = 256;

impl Hot {
    /// Spares or closes an offered slab, if its contents call for it; they are `times` times as old
    /// as the victims would be otherwise. Returns whether it did.
    pub(super) fn spare(
        &self,
        offer: &Offer,
        times: f64,
        looks: &mut usize,
        hooks: &dyn CacheHooks,
    ) -> bool {
        // Chunks that wait in magazines would look like drafts.
        self.collect(offer.class);
        let renewed = {
            let guard = self.epochs.pin();
            let zone = self.zone();
            let mut class = lock(self.class(offer.class));
            if !class.is_oldest(zone, offer.slab) {
                return true;
            }
            let is_only = class.staying() == 1;
            // A rare size needs no more than its only slab, and would need it back at once.
            if is_only && std::mem::take(&mut class.stores) {
                class.spare(zone, offer.slab, hooks.mutations());
                return true;
            }
            *looks += 1;
            let look = self.look(&guard, &mut class, offer.slab, times, hooks);
            let was_used = look.was_used_lately();
            if !was_used && !look.has_newest() {
                return false;
            }
            let renewed = self.judge(&guard, &mut class, offer.slab);
            if was_used || is_only || class.closed.len() == CLOSED_MAX {
                class.spare(zone, offer.slab, hooks.mutations());
            } else {
                class.close(zone, offer.slab, hooks.mutations());
            }
            renewed
        };
        self.judge_next(offer, renewed, hooks);
        true
    }

    /// Judges the next chunks of a slab now, if its class keeps an order: the slab stays, and
    /// chunks left at the front would stay there for as long as nothing is stored in the class, and
    /// all other slabs would look young beside it. Read items are renewed; unread ones are evicted,
    /// since they are much older than the victims otherwise. Where the class has little else, an
    /// item that this look `renewed` comes up again, by now without its mark: that is where it
    /// ends.
    pub(super) fn judge_next(&self, offer: &Offer, mut renewed: Renewed, hooks: &dyn CacheHooks) {
        let mut left = self.zone().slab(offer.slab).touched() as usize;
        while left > 0 {
            let (looks, unread) = {
                let guard = self.epochs.pin();
                let mut class = lock(self.class(offer.class));
                self.renew_next(&guard, &mut class, offer.slab, &mut renewed)
            };
            if looks == 0 {
                break;
            }
            left = left.saturating_sub(looks);
            if unread > 0 {
                self.evict_or_demote(offer.class, RoomRequest::of_unread(unread), hooks);
            }
        }
    }

    /// Takes the next chunks, as long as they lie in this slab, away from the front of an order,
    /// except those of unread items, until it comes to one that was `renewed` before. Returns how
    /// many chunks it looked at, and how many chunks the items that stay at the front have.
    fn renew_next(
        &self,
        guard: &Guard<'_>,
        class: &mut Class,
        slab_id: SlabId,
        renewed: &mut Renewed,
    ) -> (usize, usize) {
        let (zone, slab) = (self.zone(), self.zone().slab(slab_id));
        class.policy.enter_waiting(zone);
        let mut ahead = [Place(0); NEXT_STEP];
        let count = class.policy.order().map_or(0, |order| order.ahead(zone, &mut ahead));
        let is_there = |&&place: &&Place| zone.arena.locate(place).0 == slab_id;
        let (mut looks, mut unread) = (0, 0);
        for &place in ahead[..count].iter().take_while(is_there) {
            let number = slab.number(&self.arena, place);
            if renewed.has(number) {
                break;
            }
            looks += 1;
            let comes_up = self.published(guard, place);
            if comes_up.is_some() && !class.is_for_hand(slab, slab_id) {
                class.policy.leave(zone, place);
                class.policy.set_aside(place);
                continue;
            }
            match self.judged_here(guard, class.id, place) {
                Some((item, _)) if !class.policy.keeps(item) => {
                    unread += item.chunks();
                    continue;
                }
                Some((item, owner)) if self.has_its_mark(item, owner, place) => {
                    class.policy.judge(item);
                }
                _ => {}
            }
            class.policy.leave(zone, place);
            class.policy.renew(zone, place);
            renewed.note(number);
        }
        (looks, unread)
    }

    /// Uses up, as a hand does, access bits and credit of the items that a look at a slab sees. In
    /// an order the items are renewed, as if they had come up. Returns which ones were.
    pub(super) fn judge(&self, guard: &Guard<'_>, class: &mut Class, slab_id: SlabId) -> Renewed {
        let (zone, slab) = (self.zone(), self.zone().slab(slab_id));
        let mut renewed = Renewed::default();
        for number in (0..slab.touched()).step_by(look_step(slab)) {
            let place = slab.place(&self.arena, slab_id, number);
            if let Some((item, owner)) = self.published(guard, place)
                && self.has_its_mark(item, owner, place)
                && class.policy.keeps(item)
            {
                class.policy.judge(item);
                class.policy.leave(zone, place);
                class.policy.renew(zone, place);
                renewed.note(number);
            }
        }
        renewed
    }

    /// Samples the contents of a slab. In an order by costs, a costly item counts as recently read
    /// if it would stay even though inflation had come `times` as far, to where the other victims
    /// are.
    fn look(
        &self,
        guard: &Guard<'_>,
        class: &mut Class,
        slab_id: SlabId,
        times: f64,
        hooks: &dyn CacheHooks,
    ) -> Look {
        let slab = self.zone().slab(slab_id);
        let slab_age = self.slab_age(guard, class, slab_id, hooks);
        let ages = Ages { slab: slab_age, victims: (slab_age as f64 / times) as u64 };
        let step = look_step(slab);
        let mut look = Look { chunks: class.chunks_per_slab / step, ..Look::default() };
        let mut published = 0;
        for number in (0..slab.touched()).step_by(step) {
            let place = slab.place(&self.arena, slab_id, number);
            let Some((item, owner)) = self.published(guard, place) else {
                continue;
            };
            published += 1;
            if hooks.is_gone(item) {
                continue;
            }
            let is_spared = class.policy.keeps(item);
            let order = class.policy.order();
            let is_costly = order.is_some_and(|order| order.stays(self.zone(), place, times));
            // An item in pieces loses them all with its first chunk; at a piece it is rescued.
            let begins = owner == place && item.layout().is_chained();
            let chunks = if begins { item.layout().total_bytes() / class.format.bytes } else { 1 };
            look.add(hooks.age(item), ages, is_spared || is_costly, chunks);
        }
        if step == 1 {
            // A used, unpublished chunk is a draft, newer than all else, or in limbo.
            look.add_drafts(class.used_in(self.zone(), slab_id).saturating_sub(published));
        }
        look
    }
}

/// A look at a slab samples one chunk in this many.
fn look_step(slab: &Slab) -> usize {
    (slab.touched() as usize).div_ceil(LOOK_CHUNKS_MAX).max(1)
}

/// The chunks of a slab, by number, that were renewed in one look at it.
#[derive(Debug, Default)]
pub(super) struct Renewed(Vec<bool>);

impl Renewed {
    fn note(&mut self, number: u32) {
        let number = number as usize;
        self.0.resize(self.0.len().max(number + 1), false);
        self.0[number] = true;
    }

    fn has(&self, number: u32) -> bool {
        self.0.get(number as usize).is_some_and(|&is_renewed| is_renewed)
    }
}
