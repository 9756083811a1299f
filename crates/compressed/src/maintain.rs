//! The background's turn, and the walks over everything: for a dump, and to offer every item
//! elsewhere.

use std::ops::ControlFlow;

use memory::Guard;
use stdx::sync::lock;

use crate::access;
use crate::find::{is_dead, mark};
use crate::frame::Frame;
use crate::raw::Block;
use crate::reader::{Reader, unpack_frame};
use crate::rewrite::{Leaving, Writer};
use crate::seal::Mark;
use crate::zone::Zone;
use codec::record::{Record, Rows};

/// The most leaves that one turn sweeps. A rewrite takes some 25 us, and 80 with the cleaning that
/// it causes, so that this takes a few milliseconds, about as long as cleaning a slab.
pub(crate) const TURN_LEAVES: usize = 64;

/// The position of a walk over the items.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    hash: u64,
}

impl Cursor {
    /// At the leaf that a hash belongs to.
    pub fn at(hash: u64) -> Self {
        Self { hash }
    }

    /// The first hash of the leaf that comes next.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl Zone {
    /// Trains a dictionary if that is due, and frees those that are not used any more. Returns
    /// whether it has trained one, used or not: for a moment, training takes many times the
    /// dictionary's bytes of heap.
    pub fn train(&self) -> bool {
        self.dictionaries.maintain(&self.epochs, self.budget_bytes())
    }

    /// The bytes of the dictionary that blocks are encoded with, if there is one.
    pub fn dictionary(&self) -> Option<Vec<u8>> {
        self.dictionaries.current_bytes(&self.epochs)
    }

    /// Begins with a dictionary of an earlier zone ([`Self::dictionary`]), and does not sample the
    /// next `newcomers`, which that zone had as well. Refuses bytes that are no dictionary, or
    /// longer than one for the whole arena.
    pub fn adopt_dictionary(&self, bytes: &[u8], newcomers: u64) -> bool {
        let arena = self.space.ground.arena();
        self.dictionaries.adopt(bytes, newcomers, arena.limit_slabs() * arena.slab_bytes())
    }

    /// Runs one turn of the background: brings the zone within its budget and cleans ahead of the
    /// stores, a few leaves and a slab at a time. Returns whether there is more to do. The caller
    /// is not pinned, or no slab can become free.
    pub fn maintain(&self, now: u32, writer: &mut Writer<'_>) -> bool {
        let room = self.space.tidy();
        let over = self.space.owned_slabs() > self.space.budget_slabs();
        if !over && room >= self.room_goal() {
            return false;
        }
        let more = self.sweep_a_turn(TURN_LEAVES, now, writer);
        if !self.clean(now, writer) {
            self.space.tidy();
            return more;
        }
        true
    }

    /// Visits the items of the next `leaves_max` leaves, each with its count of accesses. Returns
    /// `false` at the end. Items that are stored or moved during a walk may be missed or come
    /// twice.
    pub fn walk(
        &self,
        guard: &Guard<'_>,
        cursor: &mut Cursor,
        leaves_max: usize,
        now: u32,
        reader: &mut Reader,
        mut visit: impl FnMut(&Record<'_>, u8),
    ) -> bool {
        for _ in 0..leaves_max {
            let leaf = self.trie.leaf(cursor.hash);
            let block = leaf.block.and_then(|at| self.space.ground.block(guard, at));
            if let Some(block) = block
                && Some(block.head().generation) == self.generation()
            {
                let _ = self.walk_block(guard, &block, now, reader, |rank, record| {
                    visit(record, access::count(block.accesses(), rank));
                    ControlFlow::Continue(())
                });
            }
            cursor.hash = leaf.node.next_hash();
            if cursor.hash == 0 {
                return false;
            }
        }
        true
    }

    /// Offers the items of the next leaf to `take`, as a sweep offers the items that it evicts:
    /// under the lock of their shard, which keeps the leaf from being replaced. `take` buries an
    /// item that it takes; the others stay. If `take` breaks off, the same leaf comes next. Returns
    /// `false` at the end.
    pub fn offer_all(
        &self,
        guard: &Guard<'_>,
        cursor: &mut Cursor,
        now: u32,
        reader: &mut Reader,
        mut take: impl FnMut(&Record<'_>, &Leaving<'_, '_>) -> ControlFlow<()>,
    ) -> bool {
        let _shard = lock(self.shard(cursor.hash));
        let leaf = self.trie.leaf(cursor.hash);
        if let Some(block) = leaf.block.and_then(|at| self.space.ground.block(guard, at))
            && Some(block.head().generation) == self.generation()
        {
            let walked = self.walk_block(guard, &block, now, reader, |rank, record| {
                take(record, &Leaving { zone: self, block, rank })
            });
            if walked.is_break() {
                return true;
            }
        }
        cursor.hash = leaf.node.next_hash();
        cursor.hash != 0
    }

    /// Removes the items of the next `leaves_max` leaves whose keys `takes` selects, and those that
    /// cannot be read, under the lock of each leaf's shard, which keeps it from being replaced.
    /// Returns `false` at the end. An item that was there when a walk began, and is still there at
    /// its end, was not selected.
    pub fn bury_where(
        &self,
        guard: &Guard<'_>,
        cursor: &mut Cursor,
        leaves_max: usize,
        reader: &mut Reader,
        takes: impl Fn(&[u8]) -> bool,
    ) -> bool {
        for _ in 0..leaves_max {
            let _shard = lock(self.shard(cursor.hash));
            let leaf = self.trie.leaf(cursor.hash);
            if let Some(block) = leaf.block.and_then(|at| self.space.ground.block(guard, at))
                && Some(block.head().generation) == self.generation()
            {
                self.bury_rows_where(guard, &block, reader, &takes);
            }
            cursor.hash = leaf.node.next_hash();
            if cursor.hash == 0 {
                return false;
            }
        }
        true
    }

    fn bury_rows_where(
        &self,
        guard: &Guard<'_>,
        block: &Block<'_>,
        reader: &mut Reader,
        takes: &impl Fn(&[u8]) -> bool,
    ) {
        let bury = |rank| {
            if mark(block, rank) == Mark::Killed {
                self.counters.items.go(block.head().generation, 1);
            }
        };
        let all = 0..block.fingerprints().len();
        let Ok(frames) = block.frames() else { return all.into_iter().for_each(bury) };
        let Reader { decoder, rows: raw, .. } = reader;
        for frame in frames {
            let is_alive = |rank: &usize| !is_dead(block, *rank);
            if !frame.ranks().any(|rank| is_alive(&rank)) {
                continue;
            }
            if unpack_frame(&self.dictionaries, guard, block, &frame, decoder, raw).is_err() {
                frame.ranks().for_each(bury);
                continue;
            }
            let mut rows = Rows::new(raw);
            for rank in frame.ranks() {
                if rows.next_row().map_or(true, |row| takes(row.key)) {
                    bury(rank);
                }
            }
        }
    }

    /// Visits the live rows of a block with their ranks, except those of damaged frames.
    fn walk_block(
        &self,
        guard: &Guard<'_>,
        block: &Block<'_>,
        now: u32,
        reader: &mut Reader,
        mut visit: impl FnMut(usize, &Record<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for frame in block.frames().into_iter().flatten() {
            let Reader { decoder, rows: raw, .. } = reader;
            if unpack_frame(&self.dictionaries, guard, block, &frame, decoder, raw).is_err() {
                continue;
            }
            // Taken out, since a long value is read into the reader as well.
            let raw = std::mem::take(&mut reader.rows);
            let walked = self.walk_frame(guard, block, (&frame, &raw), now, reader, &mut visit);
            reader.rows = raw;
            walked?;
        }
        ControlFlow::Continue(())
    }

    /// Visits the live rows of a frame that has been decoded.
    fn walk_frame(
        &self,
        guard: &Guard<'_>,
        block: &Block<'_>,
        (frame, raw): (&Frame, &[u8]),
        now: u32,
        reader: &mut Reader,
        visit: &mut impl FnMut(usize, &Record<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut rows = Rows::new(raw);
        let mut longs = block.longs()[frame.longs()].iter();
        for rank in frame.ranks() {
            let Ok(row) = rows.next_row() else { break };
            let slot = if row.long { longs.next() } else { None };
            if is_dead(block, rank) || row.fields.is_expired(now) {
                continue;
            }
            let mut value = row.value;
            if row.long {
                let code = slot.map_or(0, |slot| slot.load());
                // The row may have died while it was decoded.
                if self.read_long(guard, code, row.value_bytes, reader).is_err()
                    || is_dead(block, rank)
                {
                    continue;
                }
                value = &reader.long;
            }
            visit(rank, &Record { key: row.key, value, fields: row.fields })?;
        }
        ControlFlow::Continue(())
    }
}
