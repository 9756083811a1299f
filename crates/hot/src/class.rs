//! A size class: its slabs, its free chunks, the chunks that wait for readers to leave, and the
//! hand of its CLOCK, or the order that the policy keeps in its place. All of it is behind the
//! class's lock.
//!
//! A chunk's life: free -> drafted (mark 0) -> published (mark set, then in the index) -> unlinked
//! and *in limbo*, tagged with the epoch, while readers may still look at it -> free. Limbo is a
//! queue in the order of the tags, or nearly: a tag is read before the lock is taken, so two may be
//! swapped. The front is freed first, and a chunk that is out of order a little late.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use memory::{Arena, Claim, ClassId, Epochs, Place, SlabId, Tag};
use policy::cost::Cost;

use crate::chunk::ChunkFormat;
use crate::class_policy::ClassPolicy;
use crate::evict::{GROUP, VICTIM_LOOKS};
use crate::heat::Heat;
use crate::quota::Quotas;
use crate::slab::{self, Slab};
use crate::vacate::Vacating;

/// A class asks for a slab again when it has evicted one in this many of a slab's chunks since it
/// last asked in vain. Asking looks at every class, which is too much for every eviction.
const ASKING_SHARE: usize = 2;
/// A class without a slab borrows chunks of larger classes until they number one in this many of a
/// slab's; then it is worth a slab.
const BORROWING_SHARE: usize = 4;

/// The background is called when one in this many chunks of the reserve is left,
const LOW_SHARE: usize = 4;
/// and stores help it when one in this many is left.
const HELPED_SHARE: usize = 8;
/// Bytes that a store demotes at once at most, but for one item: tens of microseconds of work.
const HANDFUL_BYTES_MAX: usize = 32 << 10;

/// A moving item takes a free chunk only if the class has more than this part of its reserve.
const SPARE_SHARE: usize = 2;

/// A class asks the epoch to move on after this many retired chunks. A look at the pinned threads
/// costs about as much as one store, and the chunks of three moves stay in the first-level cache.
const RETIRES_PER_MOVE: u32 = 32;

/// Counts of what happened in a class since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Items evicted to make room.
    pub evicted: u64,
    /// Of these, never read.
    pub evicted_unfetched: u64,
    /// Of these, read since the hand last came by: evicted with their slab, or as the last resort.
    pub evicted_recent: u64,
    /// Microseconds that it takes to make the evicted items again, as far as is known.
    pub evicted_cost_us: u64,
    /// Items that moved to a tier below since the class began; a reset leaves this count alone.
    pub demoted: u64,
    /// Expired items whose memory was taken back.
    pub expired: u64,
    /// Of these, never read.
    pub expired_unfetched: u64,
    /// Of the expired items, those found by the sweep.
    pub swept: u64,
    /// Chunks that the sweep looked at.
    pub swept_looks: u64,
    /// Requests for a chunk that could not be met.
    pub out_of_memory: u64,
    /// Slabs that other classes or the index took away.
    pub slabs_lost: u64,
    /// Items that were moved within the class when their slab left.
    pub rescued: u64,
}

/// Where the hand stands.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hand {
    /// Position in the class's list of slabs.
    pub(crate) slab: usize,
    /// Chunk in that slab.
    pub(crate) chunk: u32,
}

/// The state of one size class.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) id: ClassId,
    pub(crate) format: ChunkFormat,
    pub(crate) chunks_per_slab: usize,
    /// The slabs, in the order in which the hand goes round them.
    pub(crate) slabs: Vec<SlabId>,
    /// The number of slabs that are draining.
    pub(crate) draining: usize,
    /// Draining slabs that are not being emptied yet: they had the newest items among old ones.
    pub(crate) closed: Vec<SlabId>,
    /// The draining slab whose items move to free chunks.
    pub(crate) vacating: Option<Vacating>,
    /// The last few slabs that could not be vacated, the latest last.
    pub(crate) stuck: Vec<SlabId>,
    /// Draining slabs that were emptied and are not gone: their used chunks wait for readers to
    /// leave, or were drafts then.
    pub(crate) emptied: Vec<SlabId>,
    /// Unix seconds at which all of `emptied` was last searched for items published there since.
    emptied_seen: u32,
    /// Slabs with a free chunk in their list that are not draining; the last is used first.
    pub(crate) with_free: Vec<SlabId>,
    /// Free chunks that lie at hand rather than in the list of their slab: the first to be used.
    /// They came out of limbo, and going through a slab's list would read the memory of each, one
    /// after the other. Never more than a reserve, all in slabs that stay.
    at_hand: VecDeque<Place>,
    /// Free chunks: those at hand, and those in the lists of slabs that stay.
    pub(crate) free: usize,
    /// Unlinked chunks that a reader may still see, oldest first.
    limbo: VecDeque<(Tag, Place)>,
    pub(crate) hand: Hand,
    /// Unix seconds at which the hand began its round.
    pub(crate) round_began: u32,
    /// Seconds that the last full round took: about how long an item stays unread.
    pub(crate) round_seconds: u32,
    /// The count of mutations when the hand came to the slab that it is in.
    pub(crate) hand_came: u64,
    /// Mutations since its visit there before.
    pub(crate) hand_found: u64,
    /// Chunks evicted since the class last asked for a slab in vain.
    pub(crate) evicted_since: usize,
    /// When this tag is safe, a slab that was drained for the class arrives, or there are chunks
    /// for the items to be rescued from one.
    pub(crate) awaits: Option<Tag>,
    /// To the next slab that another class gives up, since it has no chunk for an item.
    pub(crate) claim: Option<Claim>,
    /// Stores told to wait for readers since limbo last freed a chunk.
    pub(crate) waiting: usize,
    /// How often in a row a slab of the class was to leave and chunks for the rescued items had to
    /// come first.
    pub(crate) rescues_waited: u32,
    /// The background makes chunks free until the reserve is refilled.
    refills: bool,
    /// Chunks of larger classes that were allocated since the class last got a slab.
    pub(crate) borrowed: usize,
    /// A chunk was allocated since it was last checked whether the class needs its last slab.
    pub(crate) stores: bool,
    /// Chunks retired, modulo 2^32.
    retired: u32,
    /// The latest tag when the magazines were last emptied.
    collected: Option<Tag>,
    pub(crate) counters: ClassCounters,
    /// Something was evicted before the counters were last reset.
    has_evicted: bool,
    pub(crate) policy: ClassPolicy,
}

/// A chunk for an item, and the credit that the policy of its class gives the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AllocatedChunk {
    pub(crate) place: Place,
    pub(crate) credit: u8,
    /// Whether the class keeps an order that has yet to be told of the chunk.
    pub(crate) is_unentered: bool,
}

/// A chunk that was taken: its mark is 0, and no other thread writes it or reads more of it.
#[derive(Debug)]
#[must_use = "a chunk that was taken is drafted in or released"]
pub(crate) struct ClaimedChunk(pub(crate) Place);

/// The parts of the hot zone that a class needs to see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zone<'h> {
    pub(crate) arena: &'h Arena,
    pub(crate) epochs: &'h Epochs,
    pub(crate) slabs: &'h [Slab],
    pub(crate) heat: Option<&'h Heat>,
    pub(crate) quotas: Option<&'h Quotas>,
}

impl<'h> Zone<'h> {
    pub(crate) fn slab(&self, id: SlabId) -> &'h Slab {
        &self.slabs[id.0 as usize]
    }

    /// The slab that a place is in.
    pub(crate) fn slab_at(&self, place: Place) -> &'h Slab {
        self.slab(self.arena.locate(place).0)
    }

    /// Takes a retired or released chunk out of its quota.
    #[inline(always)]
    pub(crate) fn leave_quota(self, place: Place) {
        if let Some(quotas) = self.quotas {
            quotas.leave(self, place);
        }
    }
}

impl Class {
    pub(crate) fn new(
        id: ClassId,
        format: ChunkFormat,
        chunks_per_slab: usize,
        policy: ClassPolicy,
    ) -> Self {
        Self {
            id,
            format,
            chunks_per_slab,
            slabs: Vec::new(),
            draining: 0,
            closed: Vec::new(),
            vacating: None,
            stuck: Vec::new(),
            emptied: Vec::new(),
            emptied_seen: 0,
            with_free: Vec::new(),
            at_hand: VecDeque::new(),
            free: 0,
            limbo: VecDeque::new(),
            hand: Hand::default(),
            round_began: 0,
            round_seconds: 0,
            hand_came: 0,
            hand_found: 0,
            evicted_since: chunks_per_slab,
            awaits: None,
            claim: None,
            waiting: 0,
            rescues_waited: 0,
            refills: false,
            borrowed: 0,
            stores: false,
            retired: 0,
            collected: None,
            counters: ClassCounters::default(),
            has_evicted: false,
            policy,
        }
    }

    /// Whether something ever had to leave. Counters that can be reset decide nothing.
    pub(crate) fn had_to_make_room(&self) -> bool {
        self.has_evicted || self.counters.evicted + self.counters.demoted > 0
    }

    /// Resets the counters, except that of demoted items.
    pub(crate) fn reset_counters(&mut self) {
        self.has_evicted |= self.counters.evicted > 0;
        let demoted = self.counters.demoted;
        self.counters = ClassCounters { demoted, ..ClassCounters::default() };
    }

    /// All chunks of all slabs.
    pub(crate) fn chunks(&self) -> usize {
        self.slabs.len() * self.chunks_per_slab
    }

    /// Chunks in limbo.
    pub(crate) fn in_limbo(&self) -> usize {
        self.limbo.len()
    }

    /// The chunks of slabs that stay, up to `most`, which come free for the class once readers have
    /// left.
    pub(crate) fn room_in_limbo(&self, zone: Zone<'_>, most: usize) -> usize {
        if self.draining == 0 {
            return self.limbo.len().min(most);
        }
        let slab = |place| zone.slab_at(place);
        self.limbo.iter().filter(|&&(_, place)| !slab(place).is_draining()).take(most).count()
    }

    /// The number of slabs that leave the class as soon as readers have: all their used chunks are
    /// in limbo.
    pub(crate) fn leaving(&self, zone: Zone<'_>) -> usize {
        let leaves = |&&id: &&SlabId| {
            let in_limbo = self.limbo.iter().filter(|&&(_, at)| zone.arena.locate(at).0 == id);
            in_limbo.count() == zone.slab(id).used()
        };
        self.emptied.iter().filter(leaves).count()
    }

    /// Notes that all published items of a leaving slab have been unlinked.
    pub(crate) fn note_emptied(&mut self, id: SlabId) {
        if !self.emptied.contains(&id) {
            self.emptied.push(id);
        }
    }

    /// The emptied slabs in which something was published since; once a second, all of them: an
    /// item that was published at the moment its slab began to drain, or reached the index only
    /// after its slab was looked at, is not reported.
    pub(crate) fn emptied_with_late(&mut self, zone: Zone<'_>, now: u32) -> Vec<SlabId> {
        let sees_all = self.emptied_seen != now;
        self.emptied_seen = now;
        let has_late = |id: &SlabId| zone.slab(*id).take_late() || sees_all;
        self.emptied.iter().copied().filter(has_late).collect()
    }

    /// Whether the hand visits a slab of the class.
    pub(crate) fn is_for_hand(&self, slab: &Slab, id: SlabId) -> bool {
        !slab.is_draining() || self.emptied.contains(&id)
    }

    /// Whether there is a slab for the hand to visit.
    pub(crate) fn has_for_hand(&self) -> bool {
        self.staying() > 0 || !self.emptied.is_empty()
    }

    /// Allocates from a closed slab again if the class has no other. Returns whether it does.
    pub(crate) fn reopen(&mut self, zone: Zone<'_>) -> bool {
        let reopened = if self.staying() == 0 { self.closed.pop() } else { None };
        reopened.inspect(|&id| self.stop_draining(zone, id)).is_some()
    }

    /// The tag that has to be safe before the oldest chunk in limbo is free.
    pub(crate) fn oldest_tag(&self) -> Option<Tag> {
        self.limbo.front().map(|&(tag, _)| tag)
    }

    /// The free chunks that the background keeps at most: enough for a burst of sets, never much of
    /// a small class. Slabs that are leaving do not count.
    pub(crate) fn reserve_target(&self) -> usize {
        self.reserve_of(self.staying())
    }

    /// The reserve, in chunks, of a class with `slabs` slabs that stay.
    pub(crate) fn reserve_of(&self, slabs: usize) -> usize {
        (slabs * self.chunks_per_slab / 32).min(1024)
    }

    /// The chunks that a store demotes at once, if it does: at least one. If that one alone has
    /// more bytes than a handful, the store brings as many.
    pub(crate) fn handful(&self) -> usize {
        (HANDFUL_BYTES_MAX / self.format.bytes).clamp(1, GROUP)
    }

    /// The chunks that the background has to make free, once few enough are left that it does so.
    pub(crate) fn missing(&mut self) -> usize {
        let (target, have) = (self.reserve_target(), self.free + self.limbo.len());
        let goal = target - target / 4;
        self.refills = have < goal && (self.refills || have <= target / 2);
        if self.refills { goal - have } else { 0 }
    }

    /// Whether so few chunks are free, or soon will be, that stores may have to wait for them.
    pub(crate) fn is_nearly_out(&self) -> bool {
        self.free + self.limbo.len() <= self.reserve_target() / LOW_SHARE
    }

    /// The number of free chunks at which the background is called.
    pub(crate) fn low(&self) -> usize {
        self.reserve_target() / LOW_SHARE
    }

    /// Whether so few chunks are free that the background is called.
    pub(crate) fn is_low(&self) -> bool {
        self.free <= self.low()
    }

    /// Whether the magazines are to be emptied before anything is evicted for a chunk. Readers of
    /// chunks retired since the last time will not have left before the epoch moves.
    pub(crate) fn is_collected_first(&mut self, zone: Zone<'_>) -> bool {
        let tag = Some(zone.epochs.latest_tag());
        std::mem::replace(&mut self.collected, tag) != tag
    }

    /// Whether the store that has just taken a chunk of a low reserve demotes a handful: one store
    /// in half a handful does, which demotes twice as many items as are stored, until the chunks on
    /// their way make a reserve. Not before the background has had time to come since it was
    /// called.
    pub(crate) fn is_helped(&self) -> bool {
        self.free <= self.reserve_target() / HELPED_SHARE
            && self.free.is_multiple_of((self.handful() / 2).max(1))
            && self.free + self.limbo.len() < self.reserve_target()
    }

    /// Slabs that are not leaving.
    pub(crate) fn staying(&self) -> usize {
        self.slabs.len() - self.draining
    }

    /// The cost, per byte, of what is given up while victims grow old, if costs are known.
    pub(crate) fn density(&self) -> Option<f64> {
        Some(self.policy.unit_us()? / self.format.bytes as f64)
    }

    /// Whether it has evicted enough since it last asked for a slab in vain to ask again.
    pub(crate) fn may_ask(&self) -> bool {
        self.evicted_since * ASKING_SHARE >= self.chunks_per_slab
    }

    /// Whether it may take another chunk of a larger class rather than a slab.
    pub(crate) fn may_borrow(&self) -> bool {
        self.borrowed * BORROWING_SHARE < self.chunks_per_slab
    }

    /// Adds a slab from the arena. `mutations`: the count at this moment.
    pub(crate) fn adopt(&mut self, zone: Zone<'_>, slab: SlabId, mutations: u64) {
        zone.slab(slab).adopt(self.id, self.format, self.chunks_per_slab, mutations);
        self.policy.adopt(zone, slab);
        if let Some(heat) = zone.heat {
            heat.adopt(zone.arena, slab, self.chunks_per_slab as u32);
        }
        if let Some(quotas) = zone.quotas {
            quotas.adopt(zone.arena, zone.slab(slab), slab);
        }
        self.put_behind_hand(slab);
        self.borrowed = 0;
        self.with_free.push(slab);
        self.free += self.chunks_per_slab;
    }

    /// Puts a slab where the hand comes last: what it holds, or will hold, is newer than all else.
    fn put_behind_hand(&mut self, slab: SlabId) {
        self.slabs.insert(self.hand.slab, slab);
        self.hand.slab += 1;
    }

    /// The staying slab that the class would miss least: the oldest. Without a hand it is, of the
    /// slabs that hold the next victims and the empty ones, the one left alone for longest: an
    /// empty one may have come a moment ago. `mutations`: the count at this moment.
    pub(crate) fn oldest_slab(&mut self, zone: Zone<'_>, mutations: u64) -> Option<SlabId> {
        if self.slabs.is_empty() {
            return None;
        }
        self.policy.enter_waiting(zone);
        let Some(order) = self.policy.order() else {
            return self.next_of_hand(zone);
        };
        let mut ahead = [Place(0); VICTIM_LOOKS];
        let count = order.ahead(zone, &mut ahead);
        let empty = self.with_free.iter().copied().filter(|&id| self.is_empty(zone, id));
        ahead[..count]
            .iter()
            .map(|&place| zone.arena.locate(place).0)
            .filter(|&id| !zone.slab(id).is_draining())
            .chain(empty)
            .max_by_key(|&id| zone.slab(id).age(mutations))
            .or_else(|| self.next_of_hand(zone))
    }

    /// Whether a slab that was the oldest a moment ago may still be taken as such.
    pub(crate) fn is_oldest(&self, zone: Zone<'_>, id: SlabId) -> bool {
        match self.policy.order() {
            // The next victim changes with each eviction.
            Some(_) => self.stays(zone, id),
            None => self.next_of_hand(zone) == Some(id),
        }
    }

    /// Whether a slab belongs to the class, and stays there.
    pub(crate) fn stays(&self, zone: Zone<'_>, id: SlabId) -> bool {
        zone.slab(id).belongs_to(self.id) && !zone.slab(id).is_draining()
    }

    /// The staying slab that the hand has left alone for longest: the one it comes to next. The
    /// slab it is in comes last, since behind the hand lie the items stored in place of those it
    /// evicted. Without a hand, the slab that was adopted or spared first.
    fn next_of_hand(&self, zone: Zone<'_>) -> Option<SlabId> {
        let count = self.slabs.len();
        let next = self.hand.slab + usize::from(self.hand.chunk > 0);
        let mut from_next = (0..count).map(|at| self.slabs[(next + at) % count]);
        from_next.find(|&id| !zone.slab(id).is_draining())
    }

    /// Lets a slab stay for another round, as if the hand had just come by.
    pub(crate) fn spare(&mut self, zone: Zone<'_>, id: SlabId, mutations: u64) {
        zone.slab(id).pass(mutations);
        self.rescues_waited = 0;
        let Some(at) = self.slabs.iter().position(|&other| other == id) else {
            return;
        };
        if at == self.hand.slab && self.hand.chunk > 0 {
            self.hand_came = mutations;
            return;
        }
        self.slabs.remove(at);
        if at < self.hand.slab {
            self.hand.slab -= 1;
        }
        self.put_behind_hand(id);
    }

    /// A free chunk: the one that has been in limbo for longest, if no reader can see it any more,
    /// or else one at hand or in a slab's list. A chunk retired a moment ago is still in the
    /// processor's cache.
    #[inline(never)]
    fn allocate(&mut self, zone: Zone<'_>) -> Option<Place> {
        if let Some(place) = self.reuse(zone) {
            return Some(place);
        }
        // Chunks that the caller's own session holds back are not looked at, or each store of a
        // long session would do so in vain.
        if self.free == 0 && self.oldest_tag().is_some_and(|tag| zone.epochs.may_reach(tag)) {
            self.sweep_limbo(zone);
        }
        let place = self.pop(zone);
        if let Some(&next) = self.at_hand.front() {
            // Where there is no magazine, this chunk is written next.
            let chunk = zone.slab_at(next).chunk(zone.arena, next);
            chunk.prefetch_for_writing(self.format.bytes);
        }
        place
    }

    /// A free chunk that is at hand, or else from a slab's list.
    pub(crate) fn pop(&mut self, zone: Zone<'_>) -> Option<Place> {
        if let Some(place) = self.at_hand.pop_front() {
            self.free -= 1;
            self.stores = true;
            return Some(place);
        }
        while let Some(&id) = self.with_free.last() {
            let slab = zone.slab(id);
            if let Some(place) = slab.pop(zone.arena, id) {
                self.free -= 1;
                self.stores = true;
                if slab.free() == 0 {
                    self.with_free.pop();
                }
                return Some(place);
            }
            self.with_free.pop();
        }
        None
    }

    /// A free chunk for an item with this cost, and the credit that the item begins with.
    #[inline(always)]
    pub(crate) fn allocate_for(&mut self, zone: Zone<'_>, cost: Cost) -> Option<AllocatedChunk> {
        let place = self.allocate(zone)?;
        let credit = self.policy.enter(zone, place, cost);
        Some(AllocatedChunk { place, credit, is_unentered: false })
    }

    /// A free chunk for an item that moves, with this cost.
    pub(crate) fn take(&mut self, zone: Zone<'_>, cost: Cost) -> Option<ClaimedChunk> {
        let stores = self.stores;
        let room = self.allocate_for(zone, cost);
        // Nothing was stored.
        self.stores = stores;
        Some(ClaimedChunk(room?.place))
    }

    /// As [`Class::take`], only if the class has more free chunks than it may need at once.
    pub(crate) fn take_beyond_reserve(
        &mut self,
        zone: Zone<'_>,
        cost: Cost,
    ) -> Option<ClaimedChunk> {
        let is_spare = self.free > self.reserve_target() / SPARE_SHARE;
        is_spare.then(|| self.take(zone, cost)).flatten()
    }

    /// A chunk that was unlinked with this tag and kept aside; or `None`, and the chunk is in limbo
    /// or free, as if it had been retired.
    pub(crate) fn take_back(
        &mut self,
        zone: Zone<'_>,
        tag: Tag,
        place: Place,
    ) -> Option<ClaimedChunk> {
        if !zone.epochs.is_safe(tag) {
            self.limbo.push_back((tag, place));
            return None;
        }
        if zone.slab_at(place).is_draining() {
            self.release(zone, place);
            return None;
        }
        slab::mark(zone.arena, place).store(0, Ordering::Relaxed);
        Some(ClaimedChunk(place))
    }

    /// The oldest chunk in limbo, if it is safe and stays in the class.
    pub(crate) fn reuse(&mut self, zone: Zone<'_>) -> Option<Place> {
        let &(tag, place) = self.limbo.front()?;
        if !zone.epochs.is_safe(tag) {
            return None;
        }
        self.limbo.pop_front();
        if zone.slab_at(place).is_draining() {
            self.release(zone, place);
            return None;
        }
        slab::mark(zone.arena, place).store(0, Ordering::Relaxed);
        self.stores = true;
        Some(place)
    }

    /// Takes a chunk that was unlinked under the guard that `tag` is of. Now and then it moves the
    /// epoch on, so that limbo stays short: a store that replaces an item then finds a chunk that
    /// an earlier one has just left.
    pub(crate) fn retire(&mut self, zone: Zone<'_>, tag: Tag, place: Place) {
        zone.leave_quota(place);
        self.retire_free_of_quotas(zone, tag, place);
    }

    /// As [`Class::retire`], for a chunk that no quota counts any more.
    pub(crate) fn retire_free_of_quotas(&mut self, zone: Zone<'_>, tag: Tag, place: Place) {
        self.limbo.push_back((tag, place));
        self.retired = self.retired.wrapping_add(1);
        if self.retired.is_multiple_of(RETIRES_PER_MOVE) {
            zone.epochs.advance();
        }
    }

    /// Frees the chunks that no reader can see any more. Returns whether any came free.
    pub(crate) fn sweep_limbo(&mut self, zone: Zone<'_>) -> bool {
        let before = self.limbo.len();
        if let Some(tag) = self.oldest_tag() {
            zone.epochs.try_reach(tag);
        }
        while let Some(&(tag, place)) = self.limbo.front() {
            if !zone.epochs.is_safe(tag) {
                break;
            }
            self.limbo.pop_front();
            self.release(zone, place);
        }
        if self.limbo.len() < before {
            self.waiting = 0;
        }
        self.limbo.len() < before
    }

    /// Frees a chunk that no reader can see: from limbo, or never published.
    pub(crate) fn release(&mut self, zone: Zone<'_>, place: Place) {
        self.policy.leave(zone, place);
        zone.leave_quota(place);
        let slab = zone.slab_at(place);
        if self.at_hand.len() < self.reserve_target() && !slab.is_draining() {
            slab::mark(zone.arena, place).store(0, Ordering::Relaxed);
            self.at_hand.push_back(place);
            self.free += 1;
            return;
        }
        self.push(zone, place);
    }

    /// Puts a free chunk into its slab's list.
    fn push(&mut self, zone: Zone<'_>, place: Place) {
        let (id, _) = zone.arena.locate(place);
        let slab = zone.slab(id);
        slab.push(zone.arena, place);
        if slab.is_draining() {
            if slab.used() == 0 {
                self.disown(zone, id);
            }
            return;
        }
        self.free += 1;
        if slab.free() == 1 {
            self.with_free.push(id);
        }
    }

    /// Puts the chunks at hand into the lists of their slabs, for a caller that looks at those
    /// lists.
    pub(crate) fn settle(&mut self, zone: Zone<'_>) {
        while let Some(place) = self.at_hand.pop_front() {
            self.free -= 1;
            self.push(zone, place);
        }
    }

    /// How many chunks of a slab are not free.
    pub(crate) fn used_in(&self, zone: Zone<'_>, id: SlabId) -> usize {
        let at_hand = self.at_hand.iter().filter(|&&place| zone.arena.locate(place).0 == id);
        zone.slab(id).used() - at_hand.count()
    }

    /// Whether all chunks of a slab that stays are free.
    fn is_empty(&self, zone: Zone<'_>, id: SlabId) -> bool {
        zone.slab(id).used() <= self.at_hand.len() && self.used_in(zone, id) == 0
    }

    /// Free chunks that are in no list.
    #[cfg(test)]
    pub(crate) fn at_hand(&self) -> impl Iterator<Item = Place> {
        self.at_hand.iter().copied()
    }

    /// Stops allocating from a slab. If nothing is in it, it leaves at once.
    pub(crate) fn start_draining(&mut self, zone: Zone<'_>, id: SlabId) {
        self.settle(zone);
        let slab = zone.slab(id);
        slab.start_draining();
        self.draining += 1;
        self.free -= slab.free();
        self.with_free.retain(|&other| other != id);
        if slab.used() == 0 {
            self.disown(zone, id);
        }
    }

    /// Allocates from a draining slab again, after all others.
    pub(crate) fn stop_draining(&mut self, zone: Zone<'_>, id: SlabId) {
        let slab = zone.slab(id);
        slab.stop_draining();
        self.emptied.retain(|&other| other != id);
        self.draining -= 1;
        self.free += slab.free();
        if slab.free() > 0 {
            self.with_free.insert(0, id);
        }
        self.policy.enter_waiting(zone);
        if let Some(order) = self.policy.order_mut() {
            order.put_first(zone, id);
        }
    }

    /// Stops allocating from a slab, and leaves its items alone until they are old.
    pub(crate) fn close(&mut self, zone: Zone<'_>, id: SlabId, mutations: u64) {
        zone.slab(id).pass(mutations);
        self.closed.push(id);
        self.start_draining(zone, id);
    }

    /// Gives an empty slab back to the arena.
    fn disown(&mut self, zone: Zone<'_>, id: SlabId) {
        self.closed.retain(|&other| other != id);
        self.emptied.retain(|&other| other != id);
        self.stuck.retain(|&other| other != id);
        self.vacating.take_if(|vacating| vacating.slab == id);
        let at = self
            .slabs
            .iter()
            .position(|&other| other == id)
            .expect("a draining slab belongs to its class until it is empty");
        self.slabs.remove(at);
        if let Some(order) = self.policy.order_mut() {
            order.disown(zone, id);
        }
        debug_assert!(self.policy.order().is_none_or(|order| {
            let slab = zone.slab(id);
            (0..slab.touched()).all(|at| !order.has(zone, slab.place(zone.arena, id, at)))
        }));
        self.draining -= 1;
        if self.hand.slab > at {
            self.hand.slab -= 1;
        } else if self.hand.slab == at {
            self.hand.chunk = 0;
        }
        self.counters.slabs_lost += 1;
        zone.slab(id).disown();
        if let Some(heat) = zone.heat {
            heat.disown(id);
        }
        // SAFETY: the slab was taken from this arena, all its chunks are free and none is listed
        // any more, and free chunks are those that no reader can see.
        unsafe { zone.arena.give(id) };
    }
}
