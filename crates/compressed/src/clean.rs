//! Cleaning moves the live blocks out of a slab, so that the slab can be used again.
//!
//! The slab with the fewest live bytes is walked from its start. A block leads by its owner's hash
//! to its leaf; if the leaf still refers to it, it is copied to the end of the log and replaced
//! like any other block, with seal and late marks, but nothing is decoded. A long block is found
//! among those of the leaf's block, and only its slot changes. Blocks of a flushed generation are
//! dropped.
//!
//! The work comes in steps, so that an insertion pays a little each time; the background takes one
//! step after another until a slab is done.

use memory::Guard;
use stdx::sync::lock;

use crate::block::hash_of_owner;
use crate::image::{draw_long, draw_moved};
use crate::raw::Block;
use crate::rewrite::Writer;
use crate::seal::Slot;
use crate::space::{NoRoom, Purpose, Victim};
use crate::stats::Counters;
use crate::trie::Leaf;
use crate::zone::Zone;

/// Bytes of a slab that are walked in a step.
pub(crate) const STEP_BYTES: usize = 16 << 10;

/// The position at which a slab's cleaning goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    victim: Victim,
    at: usize,
}

impl Zone {
    /// Walks a few blocks of the slab that is being cleaned, unless another thread does so.
    pub(crate) fn clean_a_little(&self, now: u32, writer: &mut Writer<'_>) {
        if let Ok(mut cleaner) = self.cleaner.try_lock() {
            self.walk_victim(&mut cleaner, STEP_BYTES, now, writer);
        }
    }

    /// Walks a slab to its end, unpinned between the steps. `false` if there is no slab to clean.
    pub(crate) fn clean(&self, now: u32, writer: &mut Writer<'_>) -> bool {
        let mut cleaner = lock(&self.cleaner);
        let mut begun = None;
        while self.walk_victim(&mut cleaner, STEP_BYTES, now, writer) {
            let Some(Cursor { victim: Victim { number, .. }, .. }) = *cleaner else {
                return true;
            };
            // Nothing was left of the first slab, and this is another.
            if *begun.get_or_insert(number) != number {
                return true;
            }
            writer.pause();
        }
        begun.is_some() && cleaner.is_none()
    }

    fn walk_victim(
        &self,
        cleaner: &mut Option<Cursor>,
        bytes_max: usize,
        now: u32,
        writer: &mut Writer<'_>,
    ) -> bool {
        // Pinned first: a slab that is closed now cannot be filled anew before the guard is
        // dropped.
        let guard = self.epochs.pin();
        let resumed = cleaner.filter(|cursor| self.space.is_closed(cursor.victim.number));
        let fresh = || self.space.choose_victim().map(|victim| Cursor { victim, at: 0 });
        let Some(mut cursor) = resumed.or_else(fresh) else {
            *cleaner = None;
            return false;
        };
        let Victim { slab, number, end } = cursor.victim;
        let ground = &self.space.ground;
        let mut walked = 0;
        while cursor.at < end && walked < bytes_max {
            let reference = ground.reference(slab, cursor.at);
            let Some(block) = ground.block(&guard, reference) else {
                Counters::count(&self.counters.damaged);
                self.space.give_up(number);
                *cleaner = None;
                return true;
            };
            let bytes = self.space.placed_bytes(block.head().block_bytes());
            if self.move_block(&guard, &block, now, writer).is_err() {
                *cleaner = Some(cursor);
                return false;
            }
            cursor.at += bytes;
            walked += bytes;
        }
        let is_over = cursor.at >= end;
        if is_over && self.space.has_live(slab) {
            // A damaged head leads to none of its long blocks, or the walk to wrong places.
            // Otherwise nothing is left: a thread that has appended here and not published yet
            // holds the lock of a shard that the walk has taken since, and nothing can be added
            // while the guard is pinned.
            Counters::count(&self.counters.damaged);
            self.space.give_up(number);
        }
        *cleaner = (!is_over).then_some(cursor);
        drop(guard);
        self.space.tidy();
        true
    }

    /// Moves a block, if anything refers to it.
    fn move_block(
        &self,
        guard: &Guard<'_>,
        block: &Block<'_>,
        now: u32,
        writer: &mut Writer<'_>,
    ) -> Result<(), NoRoom> {
        let hash = hash_of_owner(block.head().owner);
        let _shard = lock(self.shard(hash));
        let leaf = self.trie.leaf(hash);
        // Only a long block needs the leaf's block: most blocks of rows that are passed are dead.
        let (rows, slot) = if block.head().long {
            let Some(rows) = leaf.block.and_then(|at| self.space.ground.block(guard, at)) else {
                return Ok(());
            };
            let owns = |slot: &&Slot| slot.load() == block.reference().code();
            let Some(slot) = rows.longs().iter().find(owns) else { return Ok(()) };
            (rows, Some(slot))
        } else if leaf.block == Some(block.reference()) {
            (*block, None)
        } else {
            return Ok(());
        };
        if Some(rows.head().generation) != self.generation() {
            self.drop_leaf(guard, leaf);
            return Ok(());
        }
        if block.head().long {
            draw_long(block.head(), block.stored(), &mut writer.image);
        } else {
            draw_moved(block, &mut writer.image);
        }
        let Ok(reference) = self.space.append(Purpose::Move, &writer.image) else {
            if self.space.waits_for_readers() {
                return Err(NoRoom);
            }
            self.drop_for_room(guard, leaf, now, writer);
            return Ok(());
        };
        self.dictionaries.share(block.head().dictionary);
        match slot {
            Some(slot) => slot.publish(reference.code()),
            None => {
                let moved = Leaf { block: Some(reference), ..leaf };
                self.lead_to_copy(guard, block, leaf, moved);
            }
        }
        self.enlist(block.head());
        self.retire(block);
        Ok(())
    }

    /// Seals a block of rows, carries late marks to its copy, and publishes the copy, which has all
    /// rows at their ranks, and may have more.
    pub(crate) fn lead_to_copy<'g>(
        &self,
        guard: &'g Guard<'_>,
        block: &Block<'_>,
        leaf: Leaf,
        moved: Leaf,
    ) -> Block<'g> {
        let copy = moved.block.and_then(|reference| self.space.ground.block(guard, reference));
        let copy = copy.expect("it was written a moment ago");
        for (old, new) in block.dead().iter().zip(copy.dead()) {
            new.bury_all(old.seal());
        }
        self.trie.replace(&[leaf], &[moved]);
        copy
    }
}
