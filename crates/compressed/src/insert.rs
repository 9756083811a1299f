//! Newcomers: an item enters the block its hash leads to.
//!
//! The newcomer is published born dead. Then `confirm` runs, still under the lock of the shard, so
//! that the block stays where it is: it takes the key's lock, looks whether the item is still what
//! the key stands for, reveals the newcomer, and takes the item out of where it was. A reader finds
//! the key in the one place or the other, and a removal that comes between waits for the key's
//! lock.

use codec::Method;
use memory::Guard;
use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::block::{Head, owner_of};
use crate::image::draw_long;
use crate::record::{KEY_BYTES_MAX, ROW_HEAD_BYTES_MAX, Record};
use crate::rewrite::{Gone, Unbuilt, Why, Writer, newcomer_row};
use crate::seal::{DeadWord, ROWS_PER_DEAD_WORD};
use crate::space::Purpose;
use crate::stats::Counters;
use crate::sweep::select;
use crate::zone::{STORED_SHARE, Zone};

/// How often an insertion makes room before it gives up.
const ROOM_ATTEMPTS: usize = 3;

/// A row with its value is long if it is more than one part in this of a block.
const LONG_SHARE: usize = 2;

/// Why an item is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Its value is too long, before or after compression.
    TooLarge,
    /// The budget, the arena or the table space leaves no room.
    NoRoom,
    /// There would be room if no reader, perhaps the caller himself, were pinned.
    Pinned,
    /// A flush is emptying the zone leaf by leaf.
    Flushing,
}

/// An item that is in the zone, where nobody finds it yet.
pub struct Newcomer<'z, 'g> {
    zone: &'z Zone,
    word: &'g DeadWord,
    bit: usize,
}

impl Newcomer<'_, '_> {
    /// Makes the item alive. The caller holds the key's lock.
    pub fn reveal(self) {
        self.zone.counters.items.fetch_add(1, Ordering::Relaxed);
        self.word.reveal(self.bit);
    }
}

impl Zone {
    /// Puts an item into the zone, and calls `confirm` with it, pinned and under the lock of its
    /// shard. The caller holds no lock of the index and is not pinned: slabs that are cleaned to
    /// make room could not become free. If `confirm` drops the newcomer instead of revealing it,
    /// the item is not there.
    pub fn insert(
        &self,
        hash: u64,
        record: &Record<'_>,
        now: u32,
        writer: &mut Writer,
        confirm: impl FnOnce(&Guard<'_>, Newcomer<'_, '_>),
    ) -> Result<(), Refused> {
        assert!((1..=KEY_BYTES_MAX).contains(&record.key.len()));
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
        writer: &mut Writer,
        confirm: impl FnOnce(&Guard<'_>, Newcomer<'_, '_>),
    ) -> Result<(), Refused> {
        let room_wanted = 2 * self.settings.block_bytes + record.value.len();
        for attempt in 0..ROOM_ATTEMPTS {
            self.make_room(room_wanted, attempt, now, writer);
            let guard = &self.epochs.pin();
            let _shard = lock(self.shard(hash));
            let generation = self.generation().ok_or(Refused::Flushing)?;
            match self.try_insert(guard, hash, record, now, writer, generation) {
                Ok(()) => {
                    if let Some((block, rank)) = self.newcomer(guard, &writer.batch) {
                        let word = &block.dead()[rank / ROWS_PER_DEAD_WORD];
                        let bit = rank % ROWS_PER_DEAD_WORD;
                        confirm(guard, Newcomer { zone: self, word, bit });
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

    /// One attempt, under the lock of the shard.
    fn try_insert(
        &self,
        guard: &Guard<'_>,
        hash: u64,
        record: &Record<'_>,
        now: u32,
        writer: &mut Writer,
        generation: u16,
    ) -> Result<(), Refused> {
        writer.batch.clear();
        let long = self.append_long(guard, hash, record, writer, generation)?;
        let leaf = self.trie.leaf(hash);
        self.gather(guard, writer, leaf, now);
        let batch = &mut writer.batch;
        let bytes = &batch.bytes;
        for row in batch.kept.extract_if(.., |kept| bytes[kept.key.clone()] == *record.key) {
            batch.gone.push(Gone { row, why: Why::Replaced });
        }
        newcomer_row(record, hash, long, batch);
        while let Err(unbuilt) = self.build(guard, writer, leaf.node, generation) {
            let rows = writer.batch.kept.len();
            if unbuilt == Unbuilt::Crowded {
                select(writer, &mut |kept| kept.origin.is_some());
            }
            if writer.batch.kept.len() == rows {
                self.retire_long(guard, long);
                return Err(Refused::NoRoom);
            }
        }
        self.commit(guard, writer);
        self.report(guard, writer);
        if long == 0
            && let Some(row) = writer.batch.kept.iter().find(|kept| kept.origin.is_none())
        {
            let row = &writer.batch.bytes[row.bytes.clone()];
            self.dictionaries.sample(row, self.settings.block_bytes, self.budget_bytes());
        }
        Ok(())
    }

    /// Appends a long value's block; returns what is to stand in its slot, 0 if it is not long.
    fn append_long(
        &self,
        guard: &Guard<'_>,
        hash: u64,
        record: &Record<'_>,
        writer: &mut Writer,
        generation: u16,
    ) -> Result<u32, Refused> {
        let row_bytes = ROW_HEAD_BYTES_MAX + record.key.len() + record.value.len();
        if row_bytes <= self.settings.block_bytes / LONG_SHARE {
            return Ok(0);
        }
        if record.value.len() > self.value_bytes_max() {
            return Err(Refused::TooLarge);
        }
        let (mut number, dictionary) = self.dictionaries.borrow(guard);
        let Writer { encoder, stored, image, .. } = writer;
        let method = encoder.encode(self.settings.method, dictionary, record.value, stored);
        if method == Method::Raw {
            self.dictionaries.release(number);
            number = 0;
        }
        let head = Head {
            owner: owner_of(hash),
            generation,
            method,
            checksum: self.settings.checksums,
            long: true,
            dictionary: number,
            stored_bytes: stored.len() as u32,
            raw_bytes: record.value.len() as u32,
            rows: 0,
            longs: 0,
        };
        let appended = if head.block_bytes() > self.space.slab_bytes() / STORED_SHARE {
            Err(Refused::TooLarge)
        } else {
            draw_long(&head, stored, image);
            self.space.append(Purpose::Store, image).map_err(|_| Refused::NoRoom)
        };
        appended.map(|reference| reference.code()).inspect_err(|_| {
            self.dictionaries.release(number);
        })
    }
}
