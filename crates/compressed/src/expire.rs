//! The sweep for expired items: it goes round the leaves as the sweep that makes room does, but
//! looks at summaries, and decodes only blocks that are worth a rewrite.
//!
//! ```text
//!   hashes   | region 0 | region 1 | region 2 | ...     by their top bits
//!   due      | never    | 12:40    | 12:03    | ...     no later than that of any of its leaves
//!   leaves                         | |  |  |  |         each with the summary of its block
//! ```
//!
//! A region is skipped while nothing in it is due, and so is a leaf. A leaf that is due is built
//! anew from its live rows, and joins its sibling if little is left. A leaf in which everything has
//! expired is dropped as a whole, undecoded. A rebuilt leaf is due later than now, so that no block
//! is decoded twice for the same rows.
//!
//! A thread that replaces a block notes when the new one is due; a look at a region forgets the
//! notes for it, and notes anew the leaves that it passes. All of that happens under the lock of
//! the shard.

use std::sync::Mutex;

use memory::Guard;
use stdx::sync::atomic::{AtomicU32, Ordering};
use stdx::sync::lock;

use crate::rewrite::Writer;
use crate::space::NoRoom;
use crate::stats::Counters;
use crate::summary::Summary;
use crate::sweep::Choice;
use crate::trie::{Leaf, Node, SHARD_BITS};
use crate::zone::Zone;

/// The number of top bits of the hash that choose the region. In a zone of 10 GiB a region has
/// about a thousand leaves, and looking at all of them takes about as long as rewriting one or two.
const REGION_BITS: u32 = 12;
const REGIONS: usize = 1 << REGION_BITS;
const _: () = assert!(REGION_BITS >= SHARD_BITS, "a region lies in one shard");

/// The sweep goes ahead of the stores: it goes on while no more than this many slabs of room are
/// left.
const AHEAD_SLABS: usize = 4;
/// Room for this many blocks is made before a leaf is rewritten.
const ROOM_BLOCKS: usize = 2;
/// Seconds between two rounds, and between two attempts to rewrite a leaf for which there was no
/// room; times are in seconds.
const PAUSE_SECONDS: u32 = 1;

/// When something is due in each region, and the position of the sweep.
pub(crate) struct Expiries {
    /// Unix seconds; `u32::MAX` never.
    due: Box<[AtomicU32]>,
    pass: Mutex<Pass>,
}

/// The position of the sweep.
#[derive(Debug, Default)]
struct Pass {
    region: usize,
    /// Where in the region it goes on; `None` if it has not begun with the region.
    next_hash: Option<u64>,
    /// When the round began.
    began: u32,
    /// Unix seconds before which it does not go on.
    not_before: u32,
}

/// The result of a step of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It removed the expired items of a leaf.
    Something,
    /// It has only looked.
    NothingYet,
    /// There is nothing more at the moment.
    Nothing,
}

impl Default for Expiries {
    fn default() -> Self {
        let due = (0..REGIONS).map(|_| AtomicU32::new(u32::MAX)).collect();
        Self { due, pass: Mutex::default() }
    }
}

impl Expiries {
    /// Bytes on the heap.
    pub(crate) const MEMORY_BYTES: usize = REGIONS * size_of::<AtomicU32>();
}

impl Zone {
    /// Whether the zone is as good as full, so that expired items take room that new ones need.
    pub fn wants_expired(&self) -> bool {
        let room = AHEAD_SLABS * self.space.slab_bytes();
        self.has_its_budget() && self.space.live_bytes() + room > self.live_bytes_max()
    }

    /// Removes the expired items of the next leaf that is worth it, if that is among the next
    /// `leaves_max`. Returns whether there is more to look at. The caller holds no lock of the
    /// index and is not pinned: a slab is cleaned if there is no room to rewrite the leaf.
    pub fn sweep_expired(&self, leaves_max: usize, now: u32, writer: &mut Writer<'_>) -> bool {
        if self.space.room() < ROOM_BLOCKS * self.settings.block_bytes {
            self.clean(now, writer);
        }
        let found = self.take_expired(leaves_max, now, writer);
        if found.is_err() {
            lock(&self.expiries.pass).not_before = now.saturating_add(PAUSE_SECONDS);
        }
        found.is_ok_and(|found| found != Found::Nothing)
    }

    /// Makes a step of the sweep. Without room to rewrite a leaf, it goes on with that leaf later.
    pub(crate) fn take_expired(
        &self,
        leaves_max: usize,
        now: u32,
        writer: &mut Writer<'_>,
    ) -> Result<Found, NoRoom> {
        // If another thread is sweeping, that is enough.
        let Ok(mut pass) = self.expiries.pass.try_lock() else { return Ok(Found::Nothing) };
        if now < pass.not_before {
            return Ok(Found::Nothing);
        }
        if pass.region == 0 && pass.next_hash.is_none() {
            pass.began = now;
        }
        let mut leaves_left = leaves_max;
        while let Some(due) = self.expiries.due.get(pass.region) {
            if pass.next_hash.is_some() || due.load(Ordering::Relaxed) <= now {
                if self.sweep_region(&mut pass, &mut leaves_left, now, writer)? {
                    return Ok(Found::Something);
                }
                if leaves_left == 0 {
                    return Ok(Found::NothingYet);
                }
            } else {
                pass.region += 1;
            }
        }
        *pass = Pass { not_before: pass.began.saturating_add(PAUSE_SECONDS), ..Pass::default() };
        Ok(Found::Nothing)
    }

    /// Goes on with a region until items were removed from a leaf, or no leaf is left. Returns
    /// whether any were.
    fn sweep_region(
        &self,
        pass: &mut Pass,
        leaves_left: &mut usize,
        now: u32,
        writer: &mut Writer<'_>,
    ) -> Result<bool, NoRoom> {
        let guard = self.epochs.pin();
        let first_hash = (pass.region as u64) << (u64::BITS - REGION_BITS);
        let _shard = lock(self.shard(first_hash));
        let mut hash = pass.next_hash.unwrap_or_else(|| {
            self.expiries.due[pass.region].store(u32::MAX, Ordering::Relaxed);
            first_hash
        });
        while region_of(hash) == pass.region {
            pass.next_hash = Some(hash);
            if *leaves_left == 0 {
                return Ok(false);
            }
            *leaves_left -= 1;
            let leaf = self.trie.leaf(hash);
            let took = self.sweep_leaf(&guard, leaf, now, writer)?;
            hash = leaf.node.next_hash();
            if took {
                pass.next_hash = Some(hash);
                return Ok(true);
            }
        }
        (pass.region, pass.next_hash) = (pass.region + 1, None);
        Ok(false)
    }

    /// Removes the expired items of a leaf, if that is worth it; otherwise notes when it will be.
    fn sweep_leaf(
        &self,
        guard: &Guard<'_>,
        leaf: Leaf,
        now: u32,
        writer: &mut Writer<'_>,
    ) -> Result<bool, NoRoom> {
        let counters = &self.counters;
        Counters::count(&counters.expiry_looks);
        let block = leaf.block.and_then(|at| self.space.ground.block(guard, at));
        let Some((block, summary)) = block.and_then(|block| Some((block, block.summary()?))) else {
            return Ok(false);
        };
        if summary.due() > now && summary.over() > now {
            self.note_due(leaf.node, Some(summary));
            return Ok(false);
        }
        if Some(block.head().generation) != self.generation() {
            return Ok(false);
        }
        if summary.over() <= now {
            Counters::count(&counters.expiry_drops);
            let taken = self.drop_leaf(guard, leaf);
            counters.expired_swept.fetch_add(taken, Ordering::Relaxed);
        } else {
            // Without room the sweep goes on with this leaf.
            self.sweep(guard, leaf, now, Choice::Due, writer)?;
            Counters::count(&counters.expiry_rewrites);
        }
        Ok(true)
    }

    /// Notes when a block is due. Under the lock of its shard, after its leaf refers to it.
    pub(crate) fn note_due(&self, node: Node, summary: Option<Summary>) {
        if let Some(summary) = summary {
            let due = &self.expiries.due[region_of(node.first_hash())];
            due.fetch_min(summary.due().min(summary.over()), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
impl Zone {
    /// Whether the sweep will look at a leaf as soon as it is due.
    pub(crate) fn is_noted(&self, node: Node, summary: &Summary) -> bool {
        let region = region_of(node.first_hash());
        let pass = lock(&self.expiries.pass);
        let noted = self.expiries.due[region].load(Ordering::Relaxed);
        let is_ahead = pass.next_hash.is_some_and(|next| next <= node.first_hash());
        noted <= summary.due().min(summary.over()) || (pass.region == region && is_ahead)
    }
}

fn region_of(hash: u64) -> usize {
    (hash >> (u64::BITS - REGION_BITS)) as usize
}
