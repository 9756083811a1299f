//! Lookups and removals: no lock, and nothing is decoded but the frames of live rows whose
//! fingerprint matches.
//!
//! A lookup is right at the moment at which it finds a row's dead bit clear: the row itself never
//! changes. A removal that meets a seal waits for the new block and looks there.
//!
//! What zExpander calls reuse time comes from two records in each block: which row was accessed
//! when. A hit on a row that has a record says how long ago that was, and moves the record to now;
//! any other hit takes the place of the older record.

use codec::Damaged;
use memory::Guard;
use stdx::sync::Backoff;
use stdx::sync::atomic::Ordering;

use crate::access;
use crate::block::{RECENTS, fingerprint};
use crate::frame::Frame;
use crate::raw::Block;
use crate::reader::{Reader, Value, unpack_frame};
use crate::seal::{Mark, ROWS_PER_DEAD_WORD};
use crate::stats::Counters;
use crate::trie::Leaf;
use crate::zone::Zone;
use codec::record::{Fields, Rows};

/// The time of a recent access has this many bits of ticks, whatever a tick is to the caller;
/// beyond that many ticks an old access may look recent.
const RECENT_TIME_BITS: u32 = 24;
const RECENT_TIME: u32 = (1 << RECENT_TIME_BITS) - 1;

/// An item that was found. Its value is in the reader until the next lookup.
#[derive(Debug, Clone, Copy)]
pub struct Hit<'g> {
    pub(crate) block: Block<'g>,
    pub(crate) rank: usize,
    /// The fields kept beside key and value.
    pub fields: Fields,
    /// Ticks since the last access that is on record, if one is.
    pub reuse_ticks: Option<u32>,
    /// Whether an earlier access still counts.
    pub was_accessed: bool,
}

impl Zone {
    /// Prefetches the first cache lines of the block that a hash leads to.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(reference) = self.trie.leaf(hash).block {
            self.space.ground.prefetch(reference);
        }
    }

    /// Looks up the item of a key, if it is there and not expired at `now` (Unix seconds). Notes
    /// the access and its `tick`: the caller's time, by which it measures how soon an item is
    /// wanted again.
    pub fn find<'g>(
        &self,
        guard: &'g Guard<'_>,
        hash: u64,
        key: &[u8],
        now: u32,
        tick: u32,
        reader: &mut Reader,
    ) -> Option<Hit<'g>> {
        let mut hit = self.peek(guard, hash, key, now, reader)?;
        hit.was_accessed = access::note(hit.block.accesses(), hit.rank);
        hit.reuse_ticks = note_time(&hit.block, hit.rank, tick);
        Some(hit)
    }

    /// Looks up like [`Zone::find`], but notes nothing.
    pub fn peek<'g>(
        &self,
        guard: &'g Guard<'_>,
        hash: u64,
        key: &[u8],
        now: u32,
        reader: &mut Reader,
    ) -> Option<Hit<'g>> {
        let (block, found) = self.locate(guard, hash, key, now, reader)?;
        let rank = found.rank;
        match found.long {
            None => reader.value = Value::Row(found.value),
            Some((slot, value_bytes)) => {
                let code = block.longs().get(slot).map_or(0, |slot| slot.load());
                if self.read_long(guard, code, value_bytes, reader).is_err() {
                    reader.counts.damaged += 1;
                    // No other reader can read it either, and the row must not be taken for an
                    // item.
                    self.give_up(&block, rank);
                    return None;
                }
                reader.value = Value::Long;
            }
        }
        Some(Hit { block, rank, fields: found.fields, reuse_ticks: None, was_accessed: false })
    }

    /// Returns the fields of a key's item, if it is there and not expired at `now`; a value that
    /// lies in a block of its own is not read for it.
    pub fn fields_of(
        &self,
        guard: &Guard<'_>,
        hash: u64,
        key: &[u8],
        now: u32,
        reader: &mut Reader,
    ) -> Option<Fields> {
        Some(self.locate(guard, hash, key, now, reader)?.1.fields)
    }

    /// Finds the live row of a key that has not expired, and its block.
    #[inline]
    fn locate<'g>(
        &self,
        guard: &'g Guard<'_>,
        hash: u64,
        key: &[u8],
        now: u32,
        reader: &mut Reader,
    ) -> Option<(Block<'g>, FoundRow)> {
        reader.value = Value::Nowhere;
        reader.met_dead = false;
        reader.counts.lookups += 1;
        let block = self.block_of(guard, hash)?;
        let found = self.search(guard, &block, hash, key, reader).ok().flatten()?;
        (!found.fields.is_expired(now)).then_some((block, found))
    }

    /// Removes a key's item, if there is one, and returns its fields. An item that cannot be read
    /// any more may have been the key's: it is removed, and nothing is returned. The caller holds
    /// the key's lock, so that no newcomer of the key is revealed meanwhile.
    pub fn remove(
        &self,
        guard: &Guard<'_>,
        hash: u64,
        key: &[u8],
        reader: &mut Reader,
    ) -> Option<Fields> {
        reader.value = Value::Nowhere;
        reader.counts.lookups += 1;
        let mut backoff = Backoff::default();
        loop {
            let block = self.block_of(guard, hash)?;
            let mark = match self.search(guard, &block, hash, key, reader) {
                Ok(None) => return None,
                Ok(Some(found)) => match mark(&block, found.rank) {
                    Mark::Killed => {
                        self.counters.items.go(block.head().generation, 1);
                        return Some(found.fields);
                    }
                    mark => mark,
                },
                Err(Damaged) => self.mark_unreadable(guard, &block, hash, reader),
            };
            if mark != Mark::Sealed {
                return None;
            }
            self.wait_for_successor(guard, hash, &block, &mut backoff);
        }
    }

    /// Removes exactly the item of a hit. `false` if it was gone already, or if its block was
    /// replaced: then the item may still be there. The caller holds the key's lock.
    pub fn remove_hit(&self, hit: &Hit<'_>) -> bool {
        let flushed = self.generation() != Some(hit.block.head().generation);
        !flushed && self.give_up(&hit.block, hit.rank)
    }

    /// Marks exactly one row dead. `false` if it was dead already, or if its block is being
    /// replaced.
    fn give_up(&self, block: &Block<'_>, rank: usize) -> bool {
        let killed = mark(block, rank) == Mark::Killed;
        if killed {
            self.counters.items.go(block.head().generation, 1);
        }
        killed
    }

    /// The block that a hash leads to, if there is one of the present generation.
    #[inline]
    fn block_of<'g>(&self, guard: &'g Guard<'_>, hash: u64) -> Option<Block<'g>> {
        let generation = self.generation()?;
        let block = self.space.ground.block(guard, self.trie.leaf(hash).block?)?;
        (block.head().generation == generation).then_some(block)
    }

    /// Searches a block for the live row of a key; its frame stays in the reader. A damaged frame
    /// is counted, and is an error unless the key is in another one.
    #[inline]
    pub(crate) fn search(
        &self,
        guard: &Guard<'_>,
        block: &Block<'_>,
        hash: u64,
        key: &[u8],
        reader: &mut Reader,
    ) -> Result<Option<FoundRow>, Damaged> {
        if !block.fingerprints().contains(&fingerprint(hash)) {
            reader.counts.filtered += 1;
            return Ok(None);
        }
        let frames = block.frames().inspect_err(|Damaged| reader.counts.damaged += 1)?;
        let decoded_before = reader.counts.decoded;
        let mut result = Ok(None);
        for frame in frames {
            match self.search_frame(guard, block, &frame, hash, key, reader) {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(Damaged) => {
                    reader.counts.damaged += 1;
                    result = Err(Damaged);
                }
            }
        }
        // After the frames, since a row may have died when its frame had been looked at.
        let mut prints = block.fingerprints().iter().enumerate();
        reader.met_dead =
            prints.any(|(rank, &print)| print == fingerprint(hash) && is_dead(block, rank));
        let in_vain = reader.counts.decoded - decoded_before;
        reader.counts.decoded_in_vain += in_vain;
        reader.counts.filtered += u64::from(in_vain == 0);
        result
    }

    #[inline]
    fn search_frame(
        &self,
        guard: &Guard<'_>,
        block: &Block<'_>,
        frame: &Frame,
        hash: u64,
        key: &[u8],
        reader: &mut Reader,
    ) -> Result<Option<FoundRow>, Damaged> {
        let prints = block.fingerprints();
        let may_be = |rank: usize| prints[rank] == fingerprint(hash) && !is_dead(block, rank);
        if !frame.ranks().any(may_be) {
            return Ok(None);
        }
        let Reader { decoder, rows: raw, counts, .. } = reader;
        unpack_frame(&self.dictionaries, guard, block, frame, decoder, raw)?;
        counts.decoded += 1;
        let (mut rows, mut longs) = (Rows::new(raw), frame.longs());
        for rank in frame.ranks() {
            let row = rows.next_row()?;
            let slot = if row.long { Some(longs.next().ok_or(Damaged)?) } else { None };
            if row.key == key && may_be(rank) {
                let start = row.value.as_ptr().addr() - raw.as_ptr().addr();
                let value = start..start + row.value.len();
                let long = slot.map(|slot| (slot, row.value_bytes));
                return Ok(Some(FoundRow { rank, fields: row.fields, value, long }));
            }
        }
        if rows.is_empty() { Ok(None) } else { Err(Damaged) }
    }

    /// Marks dead the rows in unreadable frames whose fingerprint matches: each may be the key's,
    /// and another reader may be luckier.
    fn mark_unreadable(
        &self,
        guard: &Guard<'_>,
        block: &Block<'_>,
        hash: u64,
        reader: &mut Reader,
    ) -> Mark {
        let sought = fingerprint(hash);
        for (rank, &print) in block.fingerprints().iter().enumerate() {
            if print != sought || self.is_readable(guard, block, rank, reader) {
                continue;
            }
            match mark(block, rank) {
                Mark::Killed => self.counters.items.go(block.head().generation, 1),
                Mark::WasDead => {}
                Mark::Sealed => return Mark::Sealed,
            }
        }
        Mark::WasDead
    }

    /// Whether the frame of a row can be decoded, and holds rows.
    fn is_readable(
        &self,
        guard: &Guard<'_>,
        block: &Block<'_>,
        rank: usize,
        reader: &mut Reader,
    ) -> bool {
        let Ok(frame) = block.frame_of(rank) else { return false };
        let Reader { decoder, rows: raw, .. } = reader;
        if unpack_frame(&self.dictionaries, guard, block, &frame, decoder, raw).is_err() {
            return false;
        }
        let mut rows = Rows::new(raw);
        frame.ranks().all(|_| rows.next_row().is_ok()) && rows.is_empty()
    }

    /// Waits until a sealed block is no longer where the hash leads. The thread that sealed it
    /// holds the lock of its shard until then. If no thread does, the seal is damage, and the
    /// block, which nothing would ever replace, is given up.
    fn wait_for_successor(
        &self,
        guard: &Guard<'_>,
        hash: u64,
        sealed: &Block<'_>,
        backoff: &mut Backoff,
    ) {
        let leads_there = |leaf: &Leaf| leaf.block == Some(sealed.reference());
        while leads_there(&self.trie.leaf(hash)) {
            backoff.wait();
            // Only tried: the caller holds a key's lock, which comes after a shard's.
            let Ok(_shard) = self.shard(hash).try_lock() else { continue };
            let leaf = self.trie.leaf(hash);
            if leads_there(&leaf) {
                Counters::count(&self.counters.damaged);
                self.drop_leaf(guard, leaf);
            }
        }
    }
}

/// A row that was found, and where its value lies.
pub(crate) struct FoundRow {
    rank: usize,
    fields: Fields,
    value: std::ops::Range<usize>,
    /// Which of the long blocks, and the bytes that it must have, if it is long.
    long: Option<(usize, usize)>,
}

#[inline]
pub(crate) fn is_dead(block: &Block<'_>, rank: usize) -> bool {
    block.dead()[rank / ROWS_PER_DEAD_WORD].is_dead(rank % ROWS_PER_DEAD_WORD)
}

pub(crate) fn mark(block: &Block<'_>, rank: usize) -> Mark {
    block.dead()[rank / ROWS_PER_DEAD_WORD].mark(rank % ROWS_PER_DEAD_WORD)
}

/// Notes the tick of an access; returns the ticks since the last one on record.
fn note_time(block: &Block<'_>, rank: usize, now: u32) -> Option<u32> {
    let records = block.recent();
    let values: [u32; RECENTS] = std::array::from_fn(|i| records[i].load(Ordering::Relaxed));
    let fresh = recent(rank, now);
    let since = |record: u32| fresh.wrapping_sub(record) & RECENT_TIME;
    let mine = values.iter().position(|&record| recent_of(record, rank));
    let at = mine.unwrap_or(if is_older(values[0], values[1], now) { 0 } else { 1 });
    if values[at] != fresh {
        records[at].store(fresh, Ordering::Relaxed);
    }
    mine.map(|at| since(values[at]))
}

/// The record of an access; never 0, which is none.
pub(crate) fn recent(rank: usize, now: u32) -> u32 {
    (rank as u32) << RECENT_TIME_BITS | (now & RECENT_TIME).max(1)
}

/// Whether a record is that of a row.
pub(crate) fn recent_of(record: u32, rank: usize) -> bool {
    record != 0 && (record >> RECENT_TIME_BITS) as usize == rank
}

/// The record of the same time for another rank.
pub(crate) fn recent_moved(record: u32, rank: usize) -> u32 {
    (rank as u32) << RECENT_TIME_BITS | record & RECENT_TIME
}

/// Whether the first record is older than the second; an empty record is older than any.
fn is_older(first: u32, second: u32, now: u32) -> bool {
    let age =
        |record: u32| if record == 0 { u32::MAX } else { now.wrapping_sub(record) & RECENT_TIME };
    age(first) >= age(second)
}
