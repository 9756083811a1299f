//! A zone in a small arena of its own, and a check of everything that must agree.

mod expiry;
mod frames;
mod limits;
mod merges;
mod model;
mod threads;

use std::sync::Arc;

use codec::Method;
use memory::{Arena, ArenaTables, Epochs};

use crate::find::is_dead;
use crate::frame::FRAME_BYTES;
use crate::raw::Block;
use crate::rewrite::Writer;
use crate::trie::Leaf;
use crate::{Reader, Refused, Settings, Zone};
use codec::record::{Fields, Record};

/// A zone, its epochs, and the buffers of one thread.
pub(crate) struct World {
    pub(crate) zone: Zone,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) reader: Reader,
    pub(crate) writer: Writer<'static>,
    pub(crate) now: u32,
}

/// FNV-1a, and a last mix for the top bits.
pub(crate) fn hash(key: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, step);
    (hash ^ hash >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

pub(crate) fn settings(budget_slabs: usize) -> Settings {
    Settings { checksums: true, ..Settings::new(Box::new(hash), budget_slabs) }
}

impl World {
    /// A zone with a budget of slabs of 256 KiB, in an arena with some more.
    pub(crate) fn new(settings: Settings) -> Self {
        let slabs = settings.budget_slabs + 4;
        let arena = Arc::new(Arena::new(0, 128 << 20, 0).expect("addresses"));
        assert_eq!(arena.slab_bytes(), 1 << 18);
        arena.set_limit_slabs(slabs);
        let epochs = Arc::new(Epochs::new());
        let tables = Arc::new(ArenaTables::new(Arc::clone(&arena)));
        let zone = Zone::new(arena, Arc::clone(&epochs), tables, settings).expect("room");
        let writer = Writer::new(&zone);
        Self { zone, epochs, reader: Reader::new(), writer, now: 1_000_000 }
    }

    pub(crate) fn small(budget_slabs: usize) -> Self {
        Self::new(settings(budget_slabs))
    }

    pub(crate) fn insert_record(
        &mut self,
        record: &Record<'_>,
        reveal: bool,
    ) -> Result<(), Refused> {
        let hash = hash(record.key);
        self.zone.insert(hash, record, self.now, &mut self.writer, |_, newcomer| {
            if reveal {
                newcomer.reveal();
            }
        })
    }

    pub(crate) fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), Refused> {
        self.insert_record(&Record { key, value, fields: Fields::default() }, true)
    }

    pub(crate) fn find(&mut self, key: &[u8]) -> Option<(Vec<u8>, Fields)> {
        let guard = self.epochs.pin();
        let hit = self.zone.find(&guard, hash(key), key, self.now, self.now, &mut self.reader)?;
        Some((self.reader.value().to_vec(), hit.fields))
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let guard = self.epochs.pin();
        self.zone.remove(&guard, hash(key), key, &mut self.reader).is_some()
    }

    pub(crate) fn evict(&mut self, bytes: usize) -> usize {
        self.zone.evict(bytes, self.now, &mut self.writer)
    }

    /// Runs a round of the sweep for expired items.
    pub(crate) fn sweep_expired(&mut self) {
        while self.zone.sweep_expired(16, self.now, &mut self.writer) {}
    }

    pub(crate) fn maintain(&mut self) -> bool {
        self.zone.train() | self.zone.maintain(self.now, &mut self.writer)
    }

    /// Calls `look` with the block that a key's hash leads to.
    pub(crate) fn with_block(&self, key: &[u8], look: impl FnOnce(Block<'_>)) {
        let guard = self.epochs.pin();
        let reference = self.zone.trie.leaf(hash(key)).block.expect("there is a block");
        look(self.zone.space.ground.block(&guard, reference).expect("its head is sound"));
    }

    /// Decodes a leaf, and compares its rows with its summary, and with the leaf that their keys
    /// lead to.
    fn check_summary(&self, leaf: Leaf, block: &Block<'_>) {
        let mut writer = Writer::new(&self.zone);
        self.zone.gather(&self.epochs.pin(), &mut writer, leaf, 0);
        let gone = writer.batch.gone.iter().map(|gone| &gone.row);
        let rows = writer.batch.kept.iter().chain(gone).map(|row| row.fields.expiry);
        let expiries: Vec<u32> = rows.collect();
        let expires = expiries.iter().any(|&expiry| expiry != 0);
        if writer.batch.has_lost() {
            return;
        }
        for row in writer.batch.kept.iter().chain(writer.batch.gone.iter().map(|gone| &gone.row)) {
            let hash = (self.zone.settings.hash)(&writer.batch.bytes[row.key.clone()]);
            let found = self.zone.trie.leaf(hash);
            assert_eq!(found.node, leaf.node, "a row is where nobody looks for it");
        }
        // Rows that are dead and were not read may be the only ones that expire.
        assert!(block.summary().is_some() == expires || writer.batch.has_unread());
        assert!(block.summary().is_some() || !expires);
        let Some(summary) = block.summary() else { return };
        let end = |&expiry: &u32| if expiry == 0 { u32::MAX } else { expiry };
        let last = expiries.iter().map(end).max();
        assert!(Some(summary.over()) >= last, "{summary:?}: {expiries:?}");
        assert!(self.zone.is_noted(leaf.node, &summary), "{summary:?}");
    }

    /// Walks every leaf and compares its contents with the zone's counts.
    pub(crate) fn check(&self) {
        let zone = &self.zone;
        let guard = self.epochs.pin();
        let mut live = vec![0; zone.space.live_by_slab().len()];
        let mut users = [0; crate::dictionaries::DICTIONARIES_MAX];
        let (mut rows, mut raw, mut items, mut leaves) = (0, 0, 0, 0);
        let mut count = |block: &Block<'_>| {
            let (slab, _) = zone.space.ground.locate(block.reference());
            live[slab.0 as usize] += zone.space.placed_bytes(block.head().block_bytes());
            if let Some(index) = usize::from(block.head().dictionary).checked_sub(1) {
                users[index] += 1;
            }
        };
        let mut hash = 0;
        loop {
            let Leaf { node, block } = zone.trie.leaf(hash);
            leaves += 1;
            if let Some(reference) = block {
                let block = zone.space.ground.block(&guard, reference).expect("sound");
                count(&block);
                for slot in block.longs() {
                    let long = crate::raw::Reference::from_code(slot.load()).expect("a long block");
                    count(&zone.space.ground.block(&guard, long).expect("sound"));
                }
                rows += usize::from(block.head().rows);
                raw += block.head().raw_bytes as usize;
                assert!(
                    block.head().raw_bytes as usize
                        <= zone.settings.block_bytes * crate::zone::OVERFULL
                );
                assert_eq!(
                    block.head().method == Method::Raw,
                    block.head().stored_bytes == block.head().raw_bytes
                );
                let frames = block.frames().expect("they agree with the head");
                assert!(frames.clone().all(|frame| {
                    let head = frame.head;
                    let is_short = usize::from(head.raw_bytes) <= FRAME_BYTES || head.rows == 1;
                    is_short && head.rows > 0 && head.stored_bytes <= head.raw_bytes
                }));
                assert_eq!(frames.count(), usize::from(block.head().frames));
                if Some(block.head().generation) == zone.generation() {
                    let ranks = 0..usize::from(block.head().rows);
                    items += ranks.filter(|&rank| !is_dead(&block, rank)).count();
                    self.check_summary(Leaf { node, block: Some(reference) }, &block);
                }
            }
            hash = node.next_hash();
            if hash == 0 {
                break;
            }
        }
        let stats = zone.stats();
        assert_eq!(live, zone.space.live_by_slab());
        assert_eq!(live.iter().sum::<usize>(), stats.space.live_bytes);
        assert_eq!(users, zone.dictionaries.users());
        assert_eq!(
            (rows, raw, items, leaves),
            (stats.rows, stats.raw_bytes, stats.items, stats.leaves)
        );
    }
}
