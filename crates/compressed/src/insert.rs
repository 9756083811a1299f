//! Newcomers: an item enters the block that its hash leads to.
//!
//! The newcomer is published born dead. Then `confirm` runs, still under the lock of the shard, so
//! that the block stays where it is: it takes the key's lock, checks that the item is still the
//! key's, reveals the newcomer, and removes the item from its former place. A reader finds the key
//! in one place or the other, and a removal that comes in between waits for the key's lock.

use codec::Method;
use memory::Guard;
use stdx::sync::lock;

use crate::access::{self, ACCESSES_MAX};
use crate::block::{Head, owner_of};
use crate::frame::FRAME_BYTES;
use crate::image::draw_long;
use crate::raw::Block;
use crate::rewrite::{Gone, Unbuilt, Why, Writer, newcomer_row};
use crate::seal::ROWS_PER_DEAD_WORD;
use crate::space::{NoRoom, Purpose};
use crate::stats::Counters;
use crate::trie::Leaf;
use crate::zone::{STORED_SHARE, Zone};
use codec::record::{RECORD_KEY_BYTES_MAX, ROW_HEAD_BYTES_MAX, Record, write_row};

/// How often an insertion makes room before it gives up.
const ROOM_ATTEMPTS: usize = 3;

/// A row is long if, with its value, it is more than one part in this many of a block.
const LONG_SHARE: usize = 2;

/// Why an item is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Its value is too long, before or after compression.
    TooLarge,
    /// The budget, the arena or the table space leaves no room.
    NoRoom,
    /// There would be room if no reader, perhaps the calling thread itself, were pinned.
    Pinned,
    /// A flush is emptying the zone leaf by leaf.
    Flushing,
}

/// An item on its way in, and the generation of the block that it enters.
pub(crate) struct Arrival<'r> {
    pub(crate) hash: u64,
    pub(crate) record: &'r Record<'r>,
    pub(crate) generation: u16,
}

/// An item that is in the zone, where no lookup finds it yet.
pub struct Newcomer<'z, 'g> {
    zone: &'z Zone,
    block: Block<'g>,
    rank: usize,
}

impl Newcomer<'_, '_> {
    /// Makes the item alive. The caller holds the key's lock.
    pub fn reveal(self) {
        self.zone.counters.items.come(self.block.head().generation);
        self.block.dead()[self.rank / ROWS_PER_DEAD_WORD].reveal(self.rank % ROWS_PER_DEAD_WORD);
    }

    /// Records that the item was wanted before: the sweep spares it as often as one with this many
    /// accesses, 3 at the most.
    pub fn was_accessed(&self, accesses: u8) {
        access::set(self.block.accesses(), self.rank, accesses.min(ACCESSES_MAX));
    }
}

impl Zone {
    /// Puts an item into the zone, and calls `confirm` with it, pinned and under the lock of its
    /// shard. The caller holds no lock of the index and is not pinned: slabs that are cleaned to
    /// make room could not become free. If `confirm` drops the newcomer instead of revealing it,
    /// the item does not get in.
    pub fn insert(
        &self,
        hash: u64,
        record: &Record<'_>,
        now: u32,
        writer: &mut Writer<'_>,
        confirm: impl FnOnce(&Guard<'_>, Newcomer<'_, '_>),
    ) -> Result<(), Refused> {
        assert!((1..=RECORD_KEY_BYTES_MAX).contains(&record.key.len()));
        let result = self.insert_with_room(hash, record, now, writer, confirm);
        match result {
            Ok(()) => Counters::count(&self.counters.inserted),
            Err(_) => Counters::count(&self.counters.refused),
        }
        result
    }

    fn insert_with_room(
        &self,
        hash: u64,
        record: &Record<'_>,
        now: u32,
        writer: &mut Writer<'_>,
        confirm: impl FnOnce(&Guard<'_>, Newcomer<'_, '_>),
    ) -> Result<(), Refused> {
        let room_wanted = 2 * self.settings.block_bytes + record.value.len();
        for attempt in 0..ROOM_ATTEMPTS {
            self.make_room(room_wanted, attempt, now, writer);
            let guard = &self.epochs.pin();
            let _shard = lock(self.shard(hash));
            let generation = self.generation().ok_or(Refused::Flushing)?;
            let arrival = Arrival { hash, record, generation };
            match self.try_insert(guard, &arrival, now, writer) {
                Ok(place) => {
                    if let Some((block, rank)) = place {
                        confirm(guard, Newcomer { zone: self, block, rank });
                    }
                    return Ok(());
                }
                Err(Refused::NoRoom) => {}
                Err(refused) => return Err(refused),
            }
        }
        let waits = self.space.waits_for_readers();
        Err(if waits { Refused::Pinned } else { Refused::NoRoom })
    }

    /// Makes one attempt, under the lock of the shard. Returns where the newcomer is.
    fn try_insert<'g>(
        &self,
        guard: &'g Guard<'_>,
        arrival: &Arrival<'_>,
        now: u32,
        writer: &mut Writer<'_>,
    ) -> Result<Option<(Block<'g>, usize)>, Refused> {
        let long = self.append_long(guard, arrival, writer)?;
        writer.row.clear();
        write_row(arrival.record, long != 0, &mut writer.row);
        let leaf = self.trie.leaf(arrival.hash);
        let appended = self.append_row(guard, leaf, arrival, long, now, writer);
        let mut place = appended.map_err(|NoRoom| {
            self.retire_long(guard, long);
            Refused::NoRoom
        })?;
        if place.is_some() {
            Counters::count(&self.counters.inserted_short);
        } else {
            self.rewrite_with(guard, leaf, arrival, long, now, writer)?;
            place = self.newcomer(guard, &writer.batch);
        }
        if long == 0 {
            self.dictionaries.sample(&writer.row, FRAME_BYTES, self.budget_bytes());
        }
        Ok(place)
    }

    /// Inserts the long way: decodes the leaf and builds it anew.
    fn rewrite_with(
        &self,
        guard: &Guard<'_>,
        leaf: Leaf,
        arrival: &Arrival<'_>,
        long: u32,
        now: u32,
        writer: &mut Writer<'_>,
    ) -> Result<(), Refused> {
        writer.batch.clear();
        self.gather(guard, writer, leaf, now);
        let Writer { batch, row, .. } = writer;
        let (bytes, key) = (&batch.bytes, arrival.record.key);
        for row in batch.kept.extract_if(.., |kept| bytes[kept.key.clone()] == *key) {
            batch.gone.push(Gone { row, why: Why::Replaced });
        }
        newcomer_row(arrival, long, row, batch);
        while let Err(unbuilt) = self.build(guard, writer, leaf.node, arrival.generation) {
            let rows = writer.batch.kept.len();
            if unbuilt == Unbuilt::Crowded {
                crowd_out(writer);
            }
            if writer.batch.kept.len() == rows {
                self.retire_long(guard, long);
                return Err(Refused::NoRoom);
            }
        }
        self.offer(guard, writer);
        self.commit(guard, writer, &self.counters.expired_met);
        Ok(())
    }

    /// Appends a long value's block; returns the code for its slot, 0 if the value is not long.
    fn append_long(
        &self,
        guard: &Guard<'_>,
        arrival: &Arrival<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<u32, Refused> {
        let record = arrival.record;
        let row_bytes = ROW_HEAD_BYTES_MAX + record.key.len() + record.value.len();
        if row_bytes <= self.settings.block_bytes / LONG_SHARE {
            return Ok(0);
        }
        if record.value.len() > self.value_bytes_max() {
            return Err(Refused::TooLarge);
        }
        let (mut number, dictionary) = self.dictionaries.borrow(guard);
        let Writer { encoder, encoded: stored, image, .. } = writer;
        let method = encoder.encode(self.settings.method, dictionary, record.value, stored);
        if method == Method::Raw {
            self.dictionaries.release(number);
            number = 0;
        }
        let head = Head {
            owner: owner_of(arrival.hash),
            generation: arrival.generation,
            method,
            checksum: self.settings.checksums,
            summary: false,
            long: true,
            dictionary: number,
            stored_bytes: stored.len() as u32,
            raw_bytes: record.value.len() as u32,
            rows: 0,
            longs: 0,
            frames: 0,
        };
        let appended = if head.block_bytes() > self.space.slab_bytes() / STORED_SHARE {
            Err(Refused::TooLarge)
        } else {
            draw_long(&head, stored, image);
            self.space.append(Purpose::Store, image).map_err(|_| Refused::NoRoom)
        };
        match &appended {
            Ok(_) => self.enlist(&head),
            Err(_) => self.dictionaries.release(number),
        }
        appended.map(|reference| reference.code())
    }
}

/// Evicts half of the old rows: the cheaper half, or a random one.
fn crowd_out(writer: &mut Writer<'_>) {
    let Writer { batch, random, .. } = writer;
    let old = batch.kept.iter().enumerate().filter(|(_, kept)| kept.origin.is_some());
    let mut candidates: Vec<(u32, u64, usize)> =
        old.map(|(index, kept)| (kept.fields.cost.us(), random.draw(), index)).collect();
    candidates.sort_unstable();
    candidates.truncate(candidates.len().div_ceil(2));
    // From the back, so that the indices of those before stay valid.
    candidates.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.2));
    for (_, _, index) in candidates {
        batch.gone.push(Gone { row: batch.kept.remove(index), why: Why::Evicted });
    }
}
