//! Quotas: items whose keys begin with a given prefix take no more of the zone than a limit,
//! whatever is stored there. Room for one of them is made by evicting another of them.
//!
//! ```text
//!   slab  | chunk 0 | ... | chunk n-1 | label 0 | ... | label n-1 |    links of an order, if any |
//!         0                           ^ n * chunk_bytes           ^ + n                        end
//! ```
//!
//! *The account.* Each chunk has a label behind the chunks of its slab, a byte: the quota that its
//! bytes are charged to, if any. A draft charges each of its chunks when it gets it, the whole
//! chunk, and a thread that retires or releases a chunk finds the label, removes it and gives the
//! bytes back. Every chunk leaves through [`Class::retire`] or [`Class::release`], so no absent
//! item is counted, and no walk has to correct anything: labels and accounts always agree, except
//! while a thread is changing them. An item that moves
//! ([`Draft::publish_as`](crate::Draft::publish_as)) takes its label along.
//!
//! *The bound.* Bytes are charged by compare and swap, and only up to the limit; a thread that
//! finds no room makes some. So an account is never above its limit, unless the limit was lowered:
//! then the background evicts the excess ([`Hot::keep_quotas`]). Retired chunks do not count,
//! though readers may keep them for a moment.
//!
//! *Which item is evicted.* Each quota has a hand of its own, which goes round all slabs and stops
//! only at its own labels: so it takes nothing that is not under the quota, whatever its share of
//! the memory. Looking for a label costs a byte, not a cache line of an item, and slabs without any
//! are passed by, since each knows which quotas it has labels of. The hand spares items that were
//! stored since its round began, and lets the policy of the class judge the rest by marks and
//! credits, as a class's own hand does. Under policies that keep an order, marks alone decide. A
//! victim leaves the cache: it is not demoted, for a store is waiting.
//!
//! An item belongs to the longest prefix that its key begins with.
//!
//! [`Class::retire`]: crate::class::Class::retire
//! [`Class::release`]: crate::class::Class::release

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard};

use memory::{Arena, Place, SlabId};
use policy::cost::Cost;
use stdx::CachePadded;
use stdx::sync::lock;

use crate::chunk::ChunkNeed;
use crate::class::{AllocatedChunk, Class, Zone};
use crate::class_policy::Policy;
use crate::evict::GROUP;
use crate::item::ItemRef;
use crate::layout::Layout;
use crate::slab::Slab;
use crate::{CacheHooks, Hot, PRESSED_QUOTA, Shortage};

/// The most quotas there can be: a slab has a bit for each in one word.
pub const QUOTAS_MAX: usize = 64;
/// Bits that a slab keeps beside each chunk for its label.
pub const LABEL_BITS: usize = 8;
/// Chunks whose labels are looked at under one lock of a class.
const STEP_CHUNKS: u32 = 4096;
/// Items that the hand judges for one store before it stops being choosy; or, where no live item
/// may be evicted, before it gives up, to continue there for the next store.
const JUDGED_MAX: usize = 1024;
/// Rounds of the hand in which it is choosy: the rest of one, and one in which every item may lose
/// the bit or credit that spares it.
const CHOOSY_ROUNDS: usize = 2;
/// Rounds of the hand until it gives up: one more takes whatever comes, and one the part left out
/// of the first.
const ROUNDS_MAX: usize = CHOOSY_ROUNDS + 2;
/// Rounds until it gives up where no live item may be evicted: the rest of one, and one.
const ROUNDS_MAX_KEPT: usize = 2;
/// A store that makes room makes one in this many bytes of the limit more, for the next stores,
const AHEAD_SHARE: usize = 64;
/// but no more bytes than this, so that no store waits for long.
const AHEAD_BYTES_MAX: usize = 16 << 10;
/// How often room that another thread took is made once more.
const ATTEMPTS_MAX: usize = 64;
/// Bytes that the background evicts from one quota in a turn, when the limit was lowered.
const TURN_BYTES_MAX: usize = 1 << 20;
/// One in this many bytes of a quota is kept free by the background where a tier below takes
/// victims.
const RESERVE_SHARE: usize = 32;
/// Items that it demotes from one quota in a turn.
const TURN_ITEMS_MAX: usize = 128;

/// A limit for the keys with a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// The bytes that the keys begin with: not empty.
    pub prefix: Box<[u8]>,
    /// Bytes of chunks.
    pub limit_bytes: usize,
}

/// A quota as statistics show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaStats {
    /// The bytes that the keys begin with.
    pub prefix: Box<[u8]>,
    /// Bytes of chunks that its items may take.
    pub limit_bytes: usize,
    /// Bytes of chunks that they take, including items that are about to be stored.
    pub bytes: usize,
    /// The number of these items.
    pub items: usize,
    /// Items evicted so that others under the same quota had room.
    pub evicted: u64,
}

/// The quota that a chunk is charged to, and whether its item is counted with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label(u8);

impl Label {
    const NONE: Self = Self(0);
    /// The chunk is a piece: its item is counted at the head.
    const PIECE: u8 = 1 << 7;

    fn of_head(index: usize) -> Self {
        debug_assert!(index < QUOTAS_MAX);
        Self(index as u8 + 1)
    }

    fn of_piece(index: usize) -> Self {
        Self(Self::of_head(index).0 | Self::PIECE)
    }

    fn is_piece(self) -> bool {
        self.0 & Self::PIECE != 0
    }

    fn index(self) -> Option<usize> {
        usize::from(self.0 & !Self::PIECE).checked_sub(1)
    }
}

/// Where the hand of a quota stands.
#[derive(Debug, Default)]
struct Hand {
    slab: u32,
    chunk: u32,
    /// The count of mutations when it began its round.
    began: u64,
}

/// The bytes and items charged to one quota.
#[derive(Debug)]
struct Account {
    prefix: Box<[u8]>,
    limit_bytes: AtomicUsize,
    bytes: AtomicUsize,
    items: AtomicUsize,
    evicted: AtomicU64,
    /// Taken before the lock of any class.
    hand: Mutex<Hand>,
}

impl Account {
    fn new(quota: &Quota) -> Self {
        Self {
            prefix: quota.prefix.clone(),
            limit_bytes: AtomicUsize::new(quota.limit_bytes),
            bytes: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            hand: Mutex::default(),
        }
    }

    /// Charges bytes if there is room for them.
    fn charge(&self, bytes: usize) -> bool {
        let limit = self.limit_bytes.load(Relaxed);
        let charged = |before: usize| Some(before + bytes).filter(|&after| after <= limit);
        self.bytes.fetch_update(Relaxed, Relaxed, charged).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "what was charged is given back once");
    }

    /// Bytes that may still be charged.
    fn room(&self) -> usize {
        self.limit_bytes.load(Relaxed).saturating_sub(self.bytes.load(Relaxed))
    }

    /// Bytes that are charged beyond the limit.
    fn excess(&self) -> usize {
        self.bytes.load(Relaxed).saturating_sub(self.limit_bytes.load(Relaxed))
    }
}

/// All quotas, and which slabs have chunks under them.
#[derive(Debug)]
pub(crate) struct Quotas {
    accounts: Box<[CachePadded<Account>]>,
    /// Numbers of the accounts, those of the longest prefixes first.
    by_length: Box<[u8]>,
    /// By byte: whether a prefix begins with it.
    begins: [bool; 256],
    /// By slab: a bit for each quota of which there may be a label in it. A thread that labels a
    /// chunk sets it after the label; the hand clears it before it looks at a slab's labels, and
    /// sets it when it finds one.
    present: Box<[AtomicU64]>,
}

impl Quotas {
    fn new(quotas: &[Quota], reserved_slabs: usize) -> Self {
        assert!(quotas.len() <= QUOTAS_MAX);
        let mut begins = [false; 256];
        for quota in quotas {
            begins[usize::from(quota.prefix[0])] = true;
        }
        let mut by_length: Box<[u8]> = (0..quotas.len() as u8).collect();
        by_length.sort_by_key(|&at| std::cmp::Reverse(quotas[usize::from(at)].prefix.len()));
        Self {
            accounts: quotas.iter().map(|quota| CachePadded(Account::new(quota))).collect(),
            by_length,
            begins,
            present: (0..reserved_slabs).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The quota that a key's item is under: that of the longest prefix it begins with.
    fn of(&self, key: &[u8]) -> Option<usize> {
        if !key.first().is_some_and(|&first| self.begins[usize::from(first)]) {
            return None;
        }
        let mut by_length = self.by_length.iter().map(|&at| usize::from(at));
        by_length.find(|&at| key.starts_with(&self.accounts[at].prefix))
    }

    /// Clears the labels of a slab that has come to a class.
    pub(crate) fn adopt(&self, arena: &Arena, slab: &Slab, id: SlabId) {
        (0..slab.chunks()).for_each(|number| label(arena, slab, id, number).store(0, Relaxed));
        self.present[id.0 as usize].store(0, Relaxed);
    }

    /// Labels a chunk that the caller owns, whose bytes were charged, or come from another's label.
    fn put(&self, arena: &Arena, slab: &Slab, place: Place, new: Label) {
        let id = arena.locate(place).0;
        let before = label(arena, slab, id, slab.number(arena, place)).swap(new.0, Relaxed);
        debug_assert_eq!(Label(before), Label::NONE, "a chunk was left without a label");
        if let Some(index) = new.index() {
            // Release: partner is the acquire in `Quotas::begin`, which then sees the label.
            self.present[id.0 as usize].fetch_or(1 << index, Release);
        }
    }

    /// Takes the label off a chunk.
    fn take(&self, arena: &Arena, slab: &Slab, place: Place) -> Label {
        let id = arena.locate(place).0;
        let label = label(arena, slab, id, slab.number(arena, place));
        match label.load(Relaxed) {
            0 => Label::NONE,
            _ => Label(label.swap(0, Relaxed)),
        }
    }

    /// Gives back the bytes of a chunk that is retired or released, if they were charged. Under the
    /// lock of its class.
    #[inline(never)]
    pub(crate) fn leave(&self, zone: Zone<'_>, place: Place) {
        let slab = zone.slab_at(place);
        let label = self.take(zone.arena, slab, place);
        if let Some(index) = label.index() {
            let account = &self.accounts[index];
            account.give_back(slab.format().bytes);
            account.items.fetch_sub(usize::from(!label.is_piece()), Relaxed);
        }
    }

    /// Moves an item's label along with it. Under the lock of its index table, so that no thread
    /// retires the old place meanwhile.
    pub(crate) fn carry(&self, zone: Zone<'_>, from: Place, to: Place) {
        let slab_of = |place| zone.slab_at(place);
        let label = self.take(zone.arena, slab_of(from), from);
        self.put(zone.arena, slab_of(to), to, label);
    }

    /// Whether a slab may have a label of a quota.
    fn may_have(&self, slab: u32, index: usize) -> bool {
        self.present[slab as usize].load(Relaxed) & 1 << index != 0
    }

    /// Notes that the hand is about to look at a slab's labels.
    fn begin(&self, slab: u32, index: usize) {
        // Acquire: partner is the release in `put`: if its bit is cleared here, its label is seen.
        self.present[slab as usize].fetch_and(!(1 << index), AcqRel);
    }

    /// Notes that the hand has found a label in a slab.
    fn found(&self, slab: u32, index: usize) {
        if !self.may_have(slab, index) {
            self.present[slab as usize].fetch_or(1 << index, Relaxed);
        }
    }
}

/// The label of a chunk that the caller owns, or of whose class it holds the lock.
fn label<'a>(arena: &'a Arena, slab: &Slab, id: SlabId, number: u32) -> &'a AtomicU8 {
    assert!(number < slab.chunks());
    let at = slab.chunks() as usize * slab.format().bytes + number as usize;
    debug_assert!(at < arena.slab_bytes());
    // SAFETY: the byte lies behind the chunks of the slab and before what an order keeps at its
    // end: the size classes leave `LABEL_BITS` for each chunk beside that (asserted in
    // `Hot::with_quotas`). Nothing but these atomics accesses it while the slab belongs to a class,
    // which the caller keeps it in.
    unsafe { AtomicU8::from_ptr(arena.slab_start(id).add(at).as_ptr()) }
}

impl Hot {
    /// The zone with quotas, at most [`QUOTAS_MAX`], none twice, and none of an empty prefix. Its
    /// sizes leave a slab [`LABEL_BITS`] beside each chunk and what `policy` needs there.
    pub fn with_quotas(mut self, quotas: &[Quota], policy: Policy) -> Self {
        assert_eq!(self.sizes.side_bits(), policy.side_bits() + LABEL_BITS);
        self.quotas = Some(Box::new(Quotas::new(quotas, self.arena.reserved_slabs())));
        self
    }

    /// Whether a key's item is under a quota.
    pub fn has_quota(&self, key: &[u8]) -> bool {
        self.quota_of(key).is_some()
    }

    /// The quota that a key's item is under, as an index into those that were given, and its limit
    /// in bytes.
    pub fn quota_of(&self, key: &[u8]) -> Option<(usize, usize)> {
        let quotas = self.quotas.as_deref()?;
        let index = quotas.of(key)?;
        Some((index, quotas.accounts[index].limit_bytes.load(Relaxed)))
    }

    /// The state and the counters of every quota, in the order in which they were given.
    pub fn quota_stats(&self) -> Vec<QuotaStats> {
        let accounts = self.quotas.as_deref().map_or(&[][..], |quotas| &quotas.accounts);
        let stats = |account: &CachePadded<Account>| QuotaStats {
            prefix: account.prefix.clone(),
            limit_bytes: account.limit_bytes.load(Relaxed),
            bytes: account.bytes.load(Relaxed),
            items: account.items.load(Relaxed),
            evicted: account.evicted.load(Relaxed),
        };
        accounts.iter().map(stats).collect()
    }

    /// Resets the counters of the quotas.
    pub(crate) fn reset_quota_counters(&self) {
        let accounts = self.quotas.as_deref().map_or(&[][..], |quotas| &quotas.accounts);
        accounts.iter().for_each(|account| account.evicted.store(0, Relaxed));
    }

    /// Sets the limits of the quotas, in the order in which they were given.
    pub fn set_quota_limits(&self, limits_bytes: impl Iterator<Item = usize>) {
        let accounts = self.quotas.as_deref().map_or(&[][..], |quotas| &quotas.accounts);
        for (account, limit) in accounts.iter().zip(limits_bytes) {
            account.limit_bytes.store(limit, Relaxed);
        }
    }

    /// Evicts some of the excess over limits that were lowered. Where a tier below takes items,
    /// some room is kept under each quota, too: items that a store has to evict itself leave the
    /// cache. Returns whether there is more to do at once.
    pub fn keep_quotas(&self, hooks: &dyn CacheHooks) -> bool {
        let Some(quotas) = self.quotas.as_deref().filter(|_| hooks.may_evict()) else {
            return false;
        };
        let mut more = false;
        for (index, account) in quotas.accounts.iter().enumerate() {
            let excess = account.excess();
            if excess > 0 {
                let wanted = account.bytes.load(Relaxed).saturating_sub(excess.min(TURN_BYTES_MAX));
                let is_done = |account: &Account| account.bytes.load(Relaxed) <= wanted;
                more |= self.evict_under(quotas, index, is_done, hooks) && account.excess() > 0;
            } else if hooks.demotes() {
                more |= self.demote_under(quotas, index, hooks);
            }
        }
        more
    }

    /// Demotes items charged to a quota, or evicts them, until there is some room again. Returns
    /// whether that takes more than one turn.
    fn demote_under(&self, quotas: &Quotas, index: usize, hooks: &dyn CacheHooks) -> bool {
        let account = &quotas.accounts[index];
        let reserve = account.limit_bytes.load(Relaxed) / RESERVE_SHARE;
        if account.room() >= reserve / 2 {
            return false;
        }
        let (mut search, mut moved) = (Search::default(), 0);
        while moved < TURN_ITEMS_MAX && account.room() < reserve {
            let mut victims = Vec::with_capacity(GROUP);
            {
                let act = Act::Gather(&mut victims, reserve - account.room().min(reserve));
                self.hunt(Hunt::new(quotas, index, &mut search, act, hooks));
            }
            if victims.is_empty() {
                return false;
            }
            moved += victims.len();
            for place in victims {
                let chunks = self.demote_one(self.class_at(place), place, true, hooks);
                account.evicted.fetch_add(u64::from(chunks > 0), Relaxed);
            }
        }
        moved >= TURN_ITEMS_MAX
    }

    /// The quota that an item is under, if any. An error: the item alone would exceed it.
    // Always inlined: it is a branch where there are no quotas.
    #[inline(always)]
    pub(crate) fn quota_for(&self, key: &[u8], layout: &Layout) -> Result<Option<usize>, Shortage> {
        match self.quotas.as_deref() {
            None => Ok(None),
            Some(quotas) => self.quota_among(quotas, key, layout),
        }
    }

    #[inline(never)]
    fn quota_among(
        &self,
        quotas: &Quotas,
        key: &[u8],
        layout: &Layout,
    ) -> Result<Option<usize>, Shortage> {
        let Some(index) = quotas.of(key) else {
            return Ok(None);
        };
        let bytes_of = |need| self.sizes.chunk_bytes(self.class_for(need));
        let pieces = (0..layout.pieces()).map(|number| bytes_of(layout.piece_need(number)));
        let bytes = bytes_of(layout.need(self.largest.is_split)) + pieces.sum::<usize>();
        let fits = bytes <= quotas.accounts[index].limit_bytes.load(Relaxed);
        if fits { Ok(Some(index)) } else { Err(Shortage::Quota) }
    }

    /// A chunk that is charged to a quota, if there is one: the head of an item, or a piece.
    // Always inlined: it is a branch beside the chunk where there are no quotas.
    #[inline(always)]
    pub(crate) fn allocate_under(
        &self,
        quota: Option<usize>,
        is_piece: bool,
        need: ChunkNeed,
        cost: Cost,
        hooks: &dyn CacheHooks,
    ) -> Result<AllocatedChunk, Shortage> {
        match quota {
            None => self.allocate(need, cost, hooks),
            Some(index) => self.allocate_charged(index, is_piece, need, cost, hooks),
        }
    }

    #[inline(never)]
    fn allocate_charged(
        &self,
        index: usize,
        is_piece: bool,
        need: ChunkNeed,
        cost: Cost,
        hooks: &dyn CacheHooks,
    ) -> Result<AllocatedChunk, Shortage> {
        let quotas = self.quotas.as_deref().expect("a chunk is charged to a quota that is there");
        let account = &quotas.accounts[index];
        // Before the chunk: an item evicted for it leaves a chunk behind.
        let least = self.sizes.chunk_bytes(self.class_for(need));
        self.charge(quotas, index, least, hooks)?;
        let room = self.allocate(need, cost, hooks).inspect_err(|_| account.give_back(least))?;
        let slab = self.slab_at(room.place);
        // The chunk may be larger.
        let rest = slab.format().bytes - least;
        if rest > 0
            && let Err(shortage) = self.charge(quotas, index, rest, hooks)
        {
            account.give_back(least);
            let class = slab.class();
            lock(self.class(class)).release(self.zone(), room.place);
            return Err(shortage);
        }
        account.items.fetch_add(usize::from(!is_piece), Relaxed);
        let label = if is_piece { Label::of_piece(index) } else { Label::of_head(index) };
        quotas.put(&self.arena, slab, room.place, label);
        Ok(room)
    }

    /// Charges bytes to a quota, and makes room for them if there is none.
    fn charge(
        &self,
        quotas: &Quotas,
        index: usize,
        bytes: usize,
        hooks: &dyn CacheHooks,
    ) -> Result<(), Shortage> {
        let account = &quotas.accounts[index];
        let mut attempts = 0;
        while !account.charge(bytes) {
            if hooks.background_demotes() {
                self.press(PRESSED_QUOTA);
            }
            let ahead = (account.limit_bytes.load(Relaxed) / AHEAD_SHARE).min(AHEAD_BYTES_MAX);
            let has_room = |account: &Account| account.room() >= bytes + ahead;
            let found = self.evict_under(quotas, index, has_room, hooks);
            attempts += 1;
            if !found || attempts == ATTEMPTS_MAX {
                return if account.charge(bytes) { Ok(()) } else { Err(Shortage::Nothing) };
            }
        }
        Ok(())
    }

    /// Evicts items charged to a quota until `is_enough`. Returns whether it was enough, at some
    /// moment, or anything was evicted. The caller holds no lock of a class.
    fn evict_under(
        &self,
        quotas: &Quotas,
        index: usize,
        is_enough: impl Fn(&Account) -> bool,
        hooks: &dyn CacheHooks,
    ) -> bool {
        let act = Act::Evict(&|| is_enough(&quotas.accounts[index]));
        self.hunt(Hunt::new(quotas, index, &mut Search::default(), act, hooks))
    }

    /// Moves the hand of a quota on until it has found enough, or for the rounds that it may take.
    /// Returns whether it was enough, or anything was found.
    fn hunt(&self, mut hunt: Hunt<'_>) -> bool {
        let evicts = hunt.hooks.may_evict();
        let rounds_max = if evicts { ROUNDS_MAX } else { ROUNDS_MAX_KEPT };
        // Where only dead items are evicted, each refused store would otherwise look at all items.
        while hunt.search.rounds < rounds_max && (evicts || hunt.search.judged <= JUDGED_MAX) {
            if hunt.act.is_done() {
                return true;
            }
            if hunt.hand.slab as usize >= self.slabs.len() {
                *hunt.hand = Hand { slab: 0, chunk: 0, began: hunt.hooks.mutations() };
                hunt.search.rounds += 1;
                continue;
            }
            let is_passed =
                hunt.hand.chunk == 0 && !hunt.quotas.may_have(hunt.hand.slab, hunt.index);
            if is_passed || self.step(&mut hunt) {
                (hunt.hand.slab, hunt.hand.chunk) = (hunt.hand.slab + 1, 0);
            }
        }
        hunt.search.found
    }

    /// The hand's next step in its slab. Returns whether it has come to the slab's end.
    fn step(&self, hunt: &mut Hunt<'_>) -> bool {
        let Hunt { quotas, index, hand, search, act, hooks } = hunt;
        let (id, slab) = (SlabId(hand.slab), &self.slabs[hand.slab as usize]);
        let guard = self.epochs.pin();
        let mut chained = Vec::new();
        let is_over = {
            let mut class = lock(self.class(slab.class()));
            // The lock keeps the slab from changing hands.
            if !slab.belongs_to(class.id) {
                return true;
            }
            if hand.chunk == 0 {
                quotas.begin(hand.slab, *index);
            }
            let touched = slab.touched();
            let end = touched.min(hand.chunk + STEP_CHUNKS);
            while hand.chunk < end && chained.is_empty() && !act.is_done() {
                let number = hand.chunk;
                hand.chunk += 1;
                let label = Label(label(&self.arena, slab, id, number).load(Relaxed));
                if label.index() != Some(*index) {
                    continue;
                }
                quotas.found(hand.slab, *index);
                let place = slab.place(&self.arena, id, number);
                // A draft is not published, and a piece is evicted with its head.
                let Some((item, owner)) = self.published(&guard, place) else { continue };
                if owner != place || !search.takes(&class, hand, item, *hooks) {
                    continue;
                }
                let evicted_before = class.counters.evicted;
                let taken = match act {
                    Act::Evict(_) => self.unlink(&guard, &mut class, *hooks, place, &mut chained),
                    Act::Gather(victims, wanted) => {
                        let chunks = item.chunks();
                        *wanted = wanted.saturating_sub(chunks * slab.format().bytes);
                        victims.push(place);
                        chunks
                    }
                };
                search.found |= taken > 0;
                let evicted = class.counters.evicted - evicted_before;
                quotas.accounts[*index].evicted.fetch_add(evicted, Relaxed);
            }
            if hand.chunk == 0 && touched > 0 {
                // It was enough before the first label: all of them are still to be looked at.
                quotas.found(hand.slab, *index);
            }
            hand.chunk >= touched
        };
        for place in chained {
            // SAFETY: unlinked by this call, under this guard.
            unsafe { self.retire_at_once(&guard, place) };
        }
        is_over
    }
}

/// The hand of a quota on its way, locked meanwhile.
struct Hunt<'a> {
    quotas: &'a Quotas,
    index: usize,
    hand: MutexGuard<'a, Hand>,
    search: &'a mut Search,
    act: Act<'a>,
    hooks: &'a dyn CacheHooks,
}

impl<'a> Hunt<'a> {
    fn new(
        quotas: &'a Quotas,
        index: usize,
        search: &'a mut Search,
        act: Act<'a>,
        hooks: &'a dyn CacheHooks,
    ) -> Self {
        Self { quotas, index, hand: lock(&quotas.accounts[index].hand), search, act, hooks }
    }
}

/// The hand's action on its victims.
enum Act<'a> {
    /// Evict them, until that is enough.
    Evict(&'a dyn Fn() -> bool),
    /// Note their places, until about this many bytes are found, or a group.
    Gather(&'a mut Vec<Place>, usize),
}

impl Act<'_> {
    fn is_done(&self) -> bool {
        match self {
            Self::Evict(is_enough) => is_enough(),
            Self::Gather(victims, wanted) => victims.len() == GROUP || *wanted == 0,
        }
    }
}

/// The progress of one call in the hand's rounds.
#[derive(Debug, Default)]
struct Search {
    rounds: usize,
    judged: usize,
    /// There was an item to take.
    found: bool,
}

impl Search {
    /// Whether an item is to be evicted. One that stays has lost its access bit, or some of its
    /// credit, unless it is so new that the policy was not asked.
    fn takes(
        &mut self,
        class: &Class,
        hand: &Hand,
        item: ItemRef<'_>,
        hooks: &dyn CacheHooks,
    ) -> bool {
        if hooks.is_gone(item) {
            return true;
        }
        self.judged += 1;
        let is_choosy = self.rounds < CHOOSY_ROUNDS && self.judged <= JUDGED_MAX;
        let is_new = || hooks.age(item) < hooks.mutations().saturating_sub(hand.began);
        hooks.may_evict() && (!is_choosy || (!is_new() && class.policy.judge(item)))
    }
}
