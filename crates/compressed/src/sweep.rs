//! Making room: the sweep goes round the leaves, as zExpander's does.
//!
//! In each leaf it drops dead and expired rows, and every row that has no access left; from the
//! others it takes one access. The rest of a leaf joins its sibling if one block holds both with
//! some room to spare; if nothing is left, the sibling's block stays as it is, and only the slot
//! that leads to it changes. If the sibling is the leaf that comes next, the merged leaf is swept
//! next, and rows that were spared a moment ago lose a second access, or are evicted; waiting for
//! the second of a pair before they are joined finds less (decision 0010).
//!
//! So an unwanted row stays for a round at most, and for half of one on average: a row that is
//! wanted at all has been accessed by then, or comes in as accessed because it was wanted before.
//! Where costs are known, a row that costs n times the typical cost stays n times longer.
//!
//! The difference from zExpander: it drops from each block rows that were not accessed of late,
//! until a share of the block is gone. Dropping half of the rows that were not accessed, at random
//! or oldest first, missed more on every trace (decision 0010).

use memory::Guard;
use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::access::{self, ACCESSES_MAX};
use crate::append::has_few_dead;
use crate::block::ROWS_MAX;
use crate::expire::Found;
use crate::find::is_dead;
use crate::rewrite::{Batch, Gone, Kept, Leaving, Unbuilt, Why, Writer};
use crate::space::NoRoom;
use crate::stats::Counters;
use crate::trie::{Leaf, SHARD_BITS};
use crate::zone::Zone;
use codec::record::{Record, Rows};

/// Live bytes of a zone that is at its budget, per thousand: the rest is dead, and lets cleaning
/// find slabs that are worth moving. A lower value wastes memory, a higher one moves blocks more
/// often (decision 0009 has the measurements).
pub const LIVE_PER_MILLE: usize = 955;

/// At least this much of a slab is not live, in quarters: it matters for zones of few slabs.
const SLACK_QUARTERS: usize = 3;

/// How full a merged block may be, in quarters, so that it does not split at once.
const MERGED_QUARTERS: usize = 3;

/// The most leaves that one insertion sweeps, when it is not desperate.
const SWEEP_LEAVES: usize = 4;

/// The most leaves that one attempt of an insertion sweeps when it is desperate; a rewrite takes 25
/// to 80 us. As a rule it is a few, since the attempt sweeps for no more than ...
const SWEEP_LEAVES_MAX: usize = 1 << 10;
/// ... this many times the bytes that it wants. A budget that has shrunk by more is left to the
/// background.
const SWEEP_WANTED: usize = 4;

/// The most rounds that the sweep makes before it says that there is nothing more.
const ROUNDS_MAX: usize = 8;

/// After this many rounds the sweep ignores costs, and goes only by accesses, which are used up by
/// then.
const ROUNDS_BY_COST: usize = 4;

/// The most bytes of long values that are evicted from a leaf at once, unless it is one value: half
/// of the smallest segment of flash, in which they may have to find room while other threads wait.
const LONG_BYTES_MAX: usize = 64 << 10;

/// Before any live item is evicted, this many leaves are searched for expired ones: that takes
/// about a tenth of the time of a rewrite.
const EXPIRY_LEAVES: usize = 64;

const _: () = assert!(ROUNDS_MAX > ROUNDS_BY_COST && ROUNDS_BY_COST > ACCESSES_MAX as usize);

/// Which rows are removed from a swept leaf, beside the dead ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Expired rows, in a leaf that the sweep for them has come to.
    Due,
    /// Expired rows, in a leaf that is swept for something else.
    Expired,
    /// Expired rows, and those that were not accessed.
    Unused {
        /// Spare rows that cost much.
        by_cost: bool,
    },
}

impl Zone {
    /// Makes room of at least `wanted_bytes`, as far as there is anything to evict; returns how
    /// many live bytes were evicted. The caller holds no lock of the index.
    pub fn evict(&self, wanted_bytes: usize, now: u32, writer: &mut Writer<'_>) -> usize {
        self.sweep_for(wanted_bytes, self.trie.leaves() * ROUNDS_MAX, now, writer)
    }

    fn sweep_for(
        &self,
        wanted_bytes: usize,
        leaves_max: usize,
        now: u32,
        writer: &mut Writer<'_>,
    ) -> usize {
        let before = self.space.live_bytes();
        for step in 0..leaves_max {
            let gone = before.saturating_sub(self.space.live_bytes());
            let done = gone >= wanted_bytes || self.space.live_bytes() == 0;
            let by_cost = step < self.trie.leaves() * ROUNDS_BY_COST;
            if done || self.sweep_one(now, by_cost, writer).is_err() {
                return gone;
            }
        }
        before.saturating_sub(self.space.live_bytes())
    }

    /// Sweeps a few leaves while more is live than the budget wants. Returns whether there is more
    /// to sweep: not if there is no room to rewrite a leaf, or if the last rounds have made no
    /// room.
    pub(crate) fn sweep_a_turn(
        &self,
        leaves_max: usize,
        now: u32,
        writer: &mut Writer<'_>,
    ) -> bool {
        let has_excess = || self.space.live_bytes() > self.live_bytes_max();
        for _ in 0..leaves_max {
            if !has_excess() {
                self.fruitless.store(0, Ordering::Relaxed);
                return false;
            }
            let (leaves, before) = (self.trie.leaves(), self.space.live_bytes());
            let fruitless = self.fruitless.load(Ordering::Relaxed);
            let by_cost = fruitless < leaves * ROUNDS_BY_COST;
            if self.sweep_one(now, by_cost, writer).is_err() {
                return false;
            }
            let is_fruitless = self.space.live_bytes() >= before;
            let fruitless = if is_fruitless { fruitless + 1 } else { 0 };
            self.fruitless.store(fruitless, Ordering::Relaxed);
        }
        has_excess() && self.fruitless.load(Ordering::Relaxed) < self.trie.leaves() * ROUNDS_MAX
    }

    /// Makes sure that stores can append: sweeps while more is live than the budget wants, and
    /// cleans. A first attempt does a little whenever less than a slab is left, so that the work
    /// keeps pace with the stores; a further attempt does as much as is needed.
    pub(crate) fn make_room(
        &self,
        wanted_bytes: usize,
        attempt: usize,
        now: u32,
        writer: &mut Writer<'_>,
    ) {
        let enough = self.room_goal().max(wanted_bytes);
        if attempt == 0 {
            if self.space.room() >= enough {
                return;
            }
            for _ in 0..SWEEP_LEAVES {
                let excess = self.space.live_bytes() > self.live_bytes_max();
                if !excess || self.sweep_next(now, writer).is_err() {
                    break;
                }
            }
            self.clean_a_little(now, writer);
            if self.space.room() >= wanted_bytes {
                return;
            }
        }
        let excess = self.space.live_bytes().saturating_sub(self.live_bytes_max());
        if excess > 0 {
            let bytes = excess.min(SWEEP_WANTED * wanted_bytes);
            self.sweep_for(bytes, SWEEP_LEAVES_MAX, now, writer);
        }
        // Live items are evicted only for want of room: not for slabs that another thread has
        // emptied or is about to empty, nor for those that pinned readers still see.
        if self.clean_for(wanted_bytes, now, writer) || self.space.waits_for_readers() {
            return;
        }
        self.sweep_for(attempt * wanted_bytes, SWEEP_LEAVES_MAX, now, writer);
        self.clean_for(wanted_bytes, now, writer);
    }

    /// Cleans until stores can append `wanted_bytes`. Returns whether they can.
    fn clean_for(&self, wanted_bytes: usize, now: u32, writer: &mut Writer<'_>) -> bool {
        for _ in 0..=self.space.owned_slabs() {
            if self.space.tidy() >= wanted_bytes {
                return true;
            }
            if !self.clean(now, writer) {
                break;
            }
        }
        self.space.tidy() >= wanted_bytes
    }

    /// Whether the zone has the slabs of its budget, except perhaps one that is on its way.
    pub fn has_its_budget(&self) -> bool {
        self.space.owned_slabs() + 1 >= self.space.budget_slabs()
    }

    /// Whether the zone has its budget and next to no room left in it, so that a new item displaces
    /// another.
    pub fn is_full(&self) -> bool {
        self.has_its_budget()
            && self.space.live_bytes() + self.space.slab_bytes() > self.live_bytes_max()
    }

    /// The number of live bytes for which the budget, or the slabs that the arena can still give,
    /// leave room.
    pub(crate) fn live_bytes_max(&self) -> usize {
        let usable = self.usable_bytes();
        let slack = self.space.slab_bytes() / 4 * SLACK_QUARTERS;
        (usable / 1000 * LIVE_PER_MILLE).min(usable.saturating_sub(slack))
    }

    /// The number of free bytes that stores should find: a slab, or in a zone of few slabs half of
    /// the bytes that are not live. Gathering all of those in one place would move everything for
    /// every store.
    pub(crate) fn room_goal(&self) -> usize {
        let unused = self.usable_bytes().saturating_sub(self.space.live_bytes());
        self.space.slab_bytes().min(unused / 2)
    }

    /// The bytes of the slabs that the zone has or can get, less the reserve.
    fn usable_bytes(&self) -> usize {
        self.space.slabs_attainable().saturating_sub(1) * self.space.slab_bytes()
    }

    /// Sweeps the next leaf. Without room to rewrite the leaf, it is left for later.
    pub(crate) fn sweep_next(&self, now: u32, writer: &mut Writer<'_>) -> Result<(), NoRoom> {
        self.sweep_one(now, true, writer)
    }

    fn sweep_one(&self, now: u32, by_cost: bool, writer: &mut Writer<'_>) -> Result<(), NoRoom> {
        writer.pause();
        match self.take_expired(EXPIRY_LEAVES, now, writer) {
            Ok(Found::Something) => return Ok(()),
            Err(NoRoom) if !self.is_closing() => return Err(NoRoom),
            _ => {}
        }
        let hash = self.hand.load(Ordering::Relaxed);
        let guard = self.epochs.pin();
        let _shard = lock(self.shard(hash));
        let leaf = self.trie.leaf(hash);
        // Another sweep may have been as quick; then this leaf is swept twice.
        self.hand.store(leaf.node.next_hash(), Ordering::Relaxed);
        // While some of the leaf has expired, removing that is enough.
        let block = leaf.block.and_then(|at| self.space.ground.block(&guard, at));
        let summary = block.and_then(|block| block.summary());
        let choice = match summary {
            Some(summary) if summary.begins() <= now && !self.is_closing() => Choice::Expired,
            _ => Choice::Unused { by_cost },
        };
        self.sweep(&guard, leaf, now, choice, writer)?;
        if writer.batch.has_more {
            self.hand.store(hash, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sweeps a leaf, under the lock of its shard.
    pub(crate) fn sweep(
        &self,
        guard: &Guard<'_>,
        leaf: Leaf,
        now: u32,
        choice: Choice,
        writer: &mut Writer<'_>,
    ) -> Result<(), NoRoom> {
        let Some(generation) = self.generation() else { return Ok(()) };
        let takes_unused = matches!(choice, Choice::Unused { .. });
        writer.batch.clear();
        self.gather(guard, writer, leaf, now);
        if let Choice::Unused { by_cost } = choice {
            self.drop_unused(guard, by_cost, writer);
        }
        // The sweep would come to the leaf that it has just passed.
        let sibling = if writer.batch.has_more {
            None
        } else {
            self.mergeable(guard, leaf, generation, writer)
        };
        let built = match sibling {
            Some(sibling)
                if writer.batch.kept.is_empty()
                    && self.stays_whole(guard, sibling, generation, now) =>
            {
                self.move_up(writer, sibling)
            }
            Some(sibling) => {
                self.gather(guard, writer, sibling, now);
                self.build(guard, writer, leaf.node.parent(), generation)
            }
            None if writer.batch.gone.is_empty() && !writer.batch.has_unread() => {
                let block = leaf.block.and_then(|at| self.space.ground.block(guard, at));
                if takes_unused {
                    block.iter().for_each(|block| access::age(block.accesses()));
                }
                return Ok(());
            }
            None => self.build(guard, writer, leaf.node, generation),
        };
        match built {
            Ok(()) => {
                self.offer(guard, writer);
                let counters = &self.counters;
                let is_due = choice == Choice::Due;
                let expired = if is_due { &counters.expired_swept } else { &counters.expired_met };
                self.commit(guard, writer, expired);
            }
            // Cleaning, or readers that leave, will make room.
            Err(Unbuilt::NoRoom) if !self.is_closing() => return Err(NoRoom),
            Err(_) if !takes_unused => return Err(NoRoom),
            Err(Unbuilt::NoRoom | Unbuilt::Crowded) => {
                self.drop_for_room(guard, leaf, now, writer);
            }
        }
        Ok(())
    }

    /// Empties a leaf that there is no room to rewrite or to move: all its items are evicted. Under
    /// the lock of its shard.
    pub(crate) fn drop_for_room(
        &self,
        guard: &Guard<'_>,
        leaf: Leaf,
        now: u32,
        writer: &mut Writer<'_>,
    ) {
        writer.batch.clear();
        self.gather(guard, writer, leaf, now);
        let Batch { kept, gone, .. } = &mut writer.batch;
        gone.extend(kept.drain(..).map(|row| Gone { row, why: Why::Evicted }));
        self.offer(guard, writer);
        Counters::count(&self.counters.dropped_leaves);
        self.drop_leaf(guard, leaf);
        // No mark counts any more: a row that is not dead by now was removed because it expired.
        let block = leaf.block.and_then(|at| self.space.ground.block(guard, at));
        let is_alive = |gone: &&Gone| {
            let rank = gone.row.origin.map(|(_, rank)| rank);
            block.zip(rank).is_some_and(|(block, rank)| !is_dead(&block, rank))
        };
        let expired = writer.batch.gone.iter().filter(|gone| gone.why == Why::Expired);
        let expired = expired.filter(is_alive).count();
        self.counters.expired_met.fetch_add(expired as u64, Ordering::Relaxed);
    }

    /// Whether the zone is to have next to nothing, or neither cleaning nor leaving readers would
    /// make room: then rows that cannot be rewritten are dropped.
    fn is_closing(&self) -> bool {
        self.space.budget_slabs() < 2 || self.space.is_stuck()
    }

    /// The sibling that fits into one block with the kept rows of a leaf.
    fn mergeable(
        &self,
        guard: &Guard<'_>,
        leaf: Leaf,
        generation: u16,
        writer: &Writer<'_>,
    ) -> Option<Leaf> {
        if leaf.node.level() == SHARD_BITS {
            return None;
        }
        let sibling = self.trie.leaf_at(leaf.node.sibling())?;
        let (mut bytes, mut rows) = (writer.batch.kept_bytes(), writer.batch.kept.len());
        if let Some(reference) = sibling.block {
            let head = *self.space.ground.block(guard, reference)?.head();
            if head.generation == generation {
                bytes += head.raw_bytes as usize;
                rows += usize::from(head.rows);
            }
        }
        let bytes_max = self.settings.block_bytes / 4 * MERGED_QUARTERS;
        (bytes <= bytes_max && rows <= ROWS_MAX).then_some(sibling)
    }

    /// Whether building a leaf's block anew would hardly change it: it is of this generation, and
    /// few of its rows are dead or expired.
    fn stays_whole(&self, guard: &Guard<'_>, leaf: Leaf, generation: u16, now: u32) -> bool {
        let block = leaf.block.and_then(|at| self.space.ground.block(guard, at));
        block.is_some_and(|block| {
            let is_over = block.summary().is_some_and(|summary| summary.begins() <= now);
            block.head().generation == generation && !is_over && has_few_dead(&block)
        })
    }

    /// Chooses the rows to evict: every row that was not accessed since the sweep last came by,
    /// except those that cost much, if it goes by costs.
    ///
    /// No more long values are evicted at once than the sink can take without having to wait for a
    /// device. If there are more, the others are evicted when the sweep comes again, which is next.
    /// No row has lost an access before, and a row that was spared for its cost has one until then,
    /// so that it is drawn for once a round.
    fn drop_unused(&self, guard: &Guard<'_>, by_cost: bool, writer: &mut Writer<'_>) {
        let Writer { batch, random, typical, .. } = writer;
        let unused = batch.kept.iter().filter(|kept| kept.accesses == 0);
        let long_bytes: usize = unused.map(|kept| self.long_bytes(guard, kept.long)).sum();
        let are_too_many = long_bytes > LONG_BYTES_MAX;
        let mut taken_bytes = 0;
        let goes = |kept: &mut Kept| {
            if kept.accesses > 0 {
                kept.accesses -= u8::from(!are_too_many);
                return false;
            }
            let bytes = self.long_bytes(guard, kept.long);
            if bytes > 0 && taken_bytes > 0 && taken_bytes + bytes > LONG_BYTES_MAX {
                return false;
            }
            if by_cost && !random.chance(typical.leaves(kept.fields.cost)) {
                kept.accesses = u8::from(are_too_many);
                return false;
            }
            taken_bytes += bytes;
            true
        };
        let gone = batch.kept.extract_if(.., goes);
        batch.gone.extend(gone.map(|row| Gone { row, why: Why::Evicted }));
        batch.has_more = are_too_many && taken_bytes > 0;
        if are_too_many && !batch.has_more {
            batch.kept.iter_mut().for_each(|kept| kept.accesses = kept.accesses.saturating_sub(1));
        }
    }

    /// Hands the rows that are to be evicted to the sink, before the commit.
    pub(crate) fn offer(&self, guard: &Guard<'_>, writer: &mut Writer<'_>) {
        let Writer { batch, sink, reader, .. } = writer;
        for gone in batch.gone.iter().filter(|gone| gone.why == Why::Evicted) {
            let leaving = gone.row.origin.and_then(|(source, rank)| {
                let block = self.space.ground.block(guard, batch.sources[source].block?)?;
                Some(Leaving { zone: self, block, rank })
            });
            let Some(leaving) = leaving.filter(Leaving::is_alive) else { continue };
            Counters::count(&self.counters.evicted);
            let Some(sink) = sink else {
                Counters::count(&self.counters.evicted_untold);
                continue;
            };
            let row = Rows::new(&batch.bytes[gone.row.bytes.clone()]).next_row();
            let row = row.expect("it was read before it was kept");
            let mut value = row.value;
            if row.long {
                if self.read_long(guard, gone.row.long, row.value_bytes, reader).is_err() {
                    Counters::count(&self.counters.evicted_untold);
                    continue;
                }
                value = &reader.long;
            }
            sink(guard, &Record { key: row.key, value, fields: row.fields }, &leaving);
        }
    }
}
