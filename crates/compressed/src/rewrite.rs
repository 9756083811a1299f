//! How leaves are replaced: gather the rows that stay, build new blocks, and commit.
//!
//! ```text
//!   gather   decode the old blocks, sort out dead and expired rows
//!   build    divide the kept rows among leaves, pack each: may fail, and then nothing happened
//!   commit   seal the old blocks, carry late marks over, lead the slots to the new ones, retire
//! ```
//!
//! All steps happen under the lock of the shard, in the buffers of one [`Writer`]. Sweeps, merges
//! and stores that cannot just append (see [`mod@crate::append`]) differ only in what they do to
//! the rows between gathering and building.

use std::ops::Range;

use codec::{Damaged, Encoder};
use memory::Guard;
use policy::cost::Typical;
use stdx::random::Xorshift;
use stdx::sync::atomic::{AtomicU64, Ordering};

use crate::access;
use crate::block::{ROWS_MAX, fingerprint};
use crate::find::{is_dead, mark, recent_of};
use crate::frame::{Frame, FrameHead};
use crate::insert::Arrival;
use crate::raw::Block;
use crate::reader::{Reader, unpack_frame};
use crate::seal::{Mark, ROWS_PER_DEAD_WORD};
use crate::space::NoRoom;
use crate::stats::Counters;
use crate::trie::{Leaf, Node};
use crate::zone::{OVERFULL, Zone};
use codec::record::{Fields, Record, Rows};

/// Dead words of a block that is full.
const DEAD_WORDS_MAX: usize = ROWS_MAX.div_ceil(ROWS_PER_DEAD_WORD);

/// Receives the records that leave the zone to make room. Called under the lock of a shard, while
/// the item can still be found: until [`Leaving::bury`], or a moment after the call. It must not
/// call the zone.
pub type Sink<'s> = &'s mut (dyn FnMut(&Guard<'_>, &Record<'_>, &Leaving<'_, '_>) + Send);

/// Called between the pieces of long work, without the lock of a shard: the thread may yield the
/// CPU there.
pub type Yield<'s> = &'s mut (dyn FnMut() + Send);

/// An item that is about to leave the zone.
pub struct Leaving<'z, 'g> {
    pub(crate) zone: &'z Zone,
    pub(crate) block: Block<'g>,
    pub(crate) rank: usize,
}

impl Leaving<'_, '_> {
    /// Whether it is still alive, and not flushed. Asked under the key's lock, the answer holds as
    /// long as that lock is held.
    pub fn is_alive(&self) -> bool {
        let flushed = self.zone.generation() != Some(self.block.head().generation);
        !flushed && !is_dead(&self.block, self.rank)
    }

    /// Removes it now, because it is found elsewhere.
    pub fn bury(&self) {
        if mark(&self.block, self.rank) == Mark::Killed {
            self.zone.counters.items.go(self.block.head().generation, 1);
        }
    }
}

/// A thread's encoder, decoder and buffers for changing the zone.
pub struct Writer<'s> {
    pub(crate) encoder: Encoder,
    /// Decodes for writers.
    pub(crate) reader: Reader,
    /// The newcomer's row.
    pub(crate) row: Vec<u8>,
    /// The rows of a frame that is about to be compressed.
    pub(crate) raw: Vec<u8>,
    /// A compressed frame or long value.
    pub(crate) encoded: Vec<u8>,
    /// The frames of a block.
    pub(crate) frames: Vec<FrameHead>,
    pub(crate) stored: Vec<u8>,
    pub(crate) image: Vec<u8>,
    pub(crate) batch: Batch,
    pub(crate) sink: Option<Sink<'s>>,
    pause: Option<Yield<'s>>,
    pub(crate) random: Xorshift,
    /// The typical cost of rows that were not accessed.
    pub(crate) typical: Typical,
}

/// The rows of the leaves that are being replaced.
#[derive(Default)]
pub(crate) struct Batch {
    /// The bytes of all rows, one after the other.
    pub(crate) bytes: Vec<u8>,
    pub(crate) kept: Vec<Kept>,
    pub(crate) gone: Vec<Gone>,
    pub(crate) sources: Vec<Leaf>,
    /// Whether a part of a source could not be read, or was flushed.
    lost: bool,
    /// Whether frames in which nothing is alive were skipped.
    passed_dead: bool,
    /// Sources, and ranks of rows that could not be read: their items still count.
    damaged: Vec<(usize, Range<usize>)>,
    /// Long blocks of rows that could not or need not be read.
    lost_longs: Vec<u32>,
    built: Vec<Built>,
    /// A leaf whose block stays as it is, and moves to the one leaf that is built.
    moved_up: Option<Leaf>,
    /// Whether some of the rows to be evicted have to wait for another time.
    pub(crate) has_more: bool,
}

/// A row that stays.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) bytes: Range<usize>,
    pub(crate) key: Range<usize>,
    pub(crate) fields: Fields,
    pub(crate) fingerprint: u8,
    /// Set only where leaves are split.
    pub(crate) hash: u64,
    /// The source and the row's rank in it; `None` for a newcomer, which is born dead.
    pub(crate) origin: Option<(usize, usize)>,
    /// How often it was accessed, as far as accesses are counted.
    pub(crate) accesses: u8,
    /// Its record of a recent access, or 0.
    pub(crate) recent: u32,
    /// The code in the slot of its long block; 0 if it is not long.
    pub(crate) long: u32,
}

/// Why a row is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Dead,
    Expired,
    Replaced,
    Evicted,
}

/// A row that is removed.
#[derive(Debug, Clone)]
pub(crate) struct Gone {
    pub(crate) row: Kept,
    pub(crate) why: Why,
}

/// A new leaf, and the range of kept rows that it gets.
struct Built {
    leaf: Leaf,
    rows: Range<usize>,
}

/// Why leaves cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unbuilt {
    /// No room for a block, or for a segment of the trie.
    NoRoom,
    /// More rows share their hash's top bits than an over-full block holds.
    Crowded,
}

impl From<NoRoom> for Unbuilt {
    fn from(_: NoRoom) -> Self {
        Self::NoRoom
    }
}

impl Writer<'static> {
    /// Makes buffers for a zone with these settings. Items that leave to make room go nowhere.
    pub fn new(zone: &Zone) -> Self {
        Self {
            encoder: Encoder::new(zone.settings.level),
            reader: Reader::new(),
            row: Vec::new(),
            raw: Vec::new(),
            encoded: Vec::new(),
            frames: Vec::new(),
            stored: Vec::new(),
            image: Vec::new(),
            batch: Batch::default(),
            sink: None,
            pause: None,
            random: Xorshift::default(),
            typical: Typical::default(),
        }
    }

    /// Sets the sink that gets the items that leave to make room; keeps the buffers.
    pub fn with_sink<'s>(self, sink: Sink<'s>) -> Writer<'s> {
        Writer { sink: Some(sink), pause: None, ..self }
    }
}

impl<'s> Writer<'s> {
    /// Sets `pause`, called between the pieces of long work; keeps the buffers.
    pub fn with_yield(self, pause: Yield<'s>) -> Self {
        Self { pause: Some(pause), ..self }
    }

    /// Removes the sink and the pause; keeps the buffers.
    pub fn without_sink(self) -> Writer<'static> {
        Writer { sink: None, pause: None, ..self }
    }

    pub(crate) fn pause(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause();
        }
    }

    /// Bytes of codecs and buffers: at most a few blocks and twice the longest value, and what the
    /// codecs need for them.
    pub fn memory_bytes(&self) -> usize {
        let buffers = [&self.row, &self.raw, &self.encoded, &self.stored, &self.image];
        let buffers: usize = buffers.iter().map(|buffer| buffer.capacity()).sum();
        self.encoder.memory_bytes()
            + self.reader.memory_bytes()
            + buffers
            + self.batch.bytes.capacity()
    }
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.kept.clear();
        self.gone.clear();
        self.sources.clear();
        self.lost = false;
        self.passed_dead = false;
        self.damaged.clear();
        self.lost_longs.clear();
        self.built.clear();
        self.moved_up = None;
        self.has_more = false;
    }

    /// Whether a source has rows that are neither kept nor known to be removed.
    pub(crate) fn has_unread(&self) -> bool {
        self.lost || self.passed_dead
    }

    /// Whether some of those unread rows are not just dead.
    #[cfg(test)]
    pub(crate) fn has_lost(&self) -> bool {
        self.lost
    }

    /// Gives up rows that cannot be read, with the long values in some of the slots.
    fn lose(&mut self, block: &Block<'_>, slots: Range<usize>) {
        self.lost = true;
        self.lose_longs(block, slots);
    }

    fn lose_longs(&mut self, block: &Block<'_>, slots: Range<usize>) {
        self.lost_longs.extend(block.longs()[slots].iter().map(|slot| slot.load()));
    }

    /// Bytes of the rows that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|kept| kept.bytes.len()).sum()
    }
}

impl Zone {
    /// Adds the rows of a leaf to the batch.
    pub(crate) fn gather(&self, guard: &Guard<'_>, writer: &mut Writer<'_>, leaf: Leaf, now: u32) {
        let source = writer.batch.sources.len();
        writer.batch.sources.push(leaf);
        let Some(reference) = leaf.block else { return };
        let Some(block) = self.space.ground.block(guard, reference) else {
            Counters::count(&self.counters.damaged);
            return;
        };
        let all = 0..block.fingerprints().len();
        if Some(block.head().generation) != self.generation() {
            writer.batch.lose(&block, 0..block.longs().len());
            return;
        }
        let Ok(frames) = block.frames() else {
            Counters::count(&self.counters.damaged);
            writer.batch.lose(&block, 0..block.longs().len());
            writer.batch.damaged.push((source, all));
            return;
        };
        for frame in frames {
            // A dead row stays dead: a newcomer is revealed under the lock that is held.
            if frame.ranks().all(|rank| is_dead(&block, rank)) {
                writer.batch.passed_dead = true;
                writer.batch.lose_longs(&block, frame.longs());
                continue;
            }
            let (kept, gone) = (writer.batch.kept.len(), writer.batch.gone.len());
            if self.gather_frame(guard, writer, &block, &frame, source, now).is_err() {
                Counters::count(&self.counters.damaged);
                writer.batch.kept.truncate(kept);
                writer.batch.gone.truncate(gone);
                writer.batch.lose(&block, frame.longs());
                writer.batch.damaged.push((source, frame.ranks()));
            }
        }
    }

    fn gather_frame(
        &self,
        guard: &Guard<'_>,
        writer: &mut Writer<'_>,
        block: &Block<'_>,
        frame: &Frame,
        source: usize,
        now: u32,
    ) -> Result<(), Damaged> {
        let Writer { reader: Reader { decoder, rows: raw, .. }, batch, .. } = writer;
        unpack_frame(&self.dictionaries, guard, block, frame, decoder, raw)?;
        let mut rows = Rows::new(raw);
        let mut longs = block.longs()[frame.longs()].iter();
        for rank in frame.ranks() {
            let row = rows.next_row()?;
            let long = if row.long { longs.next().ok_or(Damaged)?.load() } else { 0 };
            let start = batch.bytes.len();
            batch.bytes.extend_from_slice(row.bytes);
            let key = row.key.as_ptr().addr() - row.bytes.as_ptr().addr() + start;
            let kept = Kept {
                bytes: start..start + row.bytes.len(),
                key: key..key + row.key.len(),
                fields: row.fields,
                fingerprint: block.fingerprints()[rank],
                hash: 0,
                origin: Some((source, rank)),
                accesses: access::count(block.accesses(), rank),
                recent: record_of(block, rank),
                long,
            };
            if is_dead(block, rank) {
                batch.gone.push(Gone { row: kept, why: Why::Dead });
            } else if row.fields.is_expired(now) {
                batch.gone.push(Gone { row: kept, why: Why::Expired });
            } else {
                batch.kept.push(kept);
            }
        }
        if rows.is_empty() { Ok(()) } else { Err(Damaged) }
    }

    /// Builds new leaves for the kept rows below `node`. A failure leaves nothing behind.
    pub(crate) fn build(
        &self,
        guard: &Guard<'_>,
        writer: &mut Writer<'_>,
        node: Node,
        generation: u16,
    ) -> Result<(), Unbuilt> {
        let result = self.try_build(guard, writer, node, generation);
        if result.is_err() {
            self.abandon(guard, writer);
        }
        result
    }

    /// Used instead of building: a leaf whose sibling keeps nothing takes the place of both, with
    /// its block as it is.
    pub(crate) fn move_up(&self, writer: &mut Writer<'_>, leaf: Leaf) -> Result<(), Unbuilt> {
        debug_assert!(writer.batch.kept.is_empty(), "nobody writes down what is kept");
        let node = leaf.node.parent();
        if !self.trie.ensure(node) {
            return Err(Unbuilt::NoRoom);
        }
        writer.batch.moved_up = Some(leaf);
        writer.batch.built.push(Built { leaf: Leaf { node, ..leaf }, rows: 0..0 });
        Ok(())
    }

    fn try_build(
        &self,
        guard: &Guard<'_>,
        writer: &mut Writer<'_>,
        node: Node,
        generation: u16,
    ) -> Result<(), Unbuilt> {
        let batch = &mut writer.batch;
        // Asked for once, since leaves elsewhere are split meanwhile. If rows were held to fit
        // here, and then not to fit below, rows whose hashes are not known would be divided.
        let level_max = self.trie.level_wanted_max();
        if !self.fits(&batch.kept, node, level_max) {
            for kept in &mut batch.kept {
                kept.hash = (self.settings.hash)(&batch.bytes[kept.key.clone()]);
            }
        }
        self.divide(batch, node, 0..batch.kept.len(), level_max)?;
        for index in 0..writer.batch.built.len() {
            let Built { leaf, rows } = &writer.batch.built[index];
            let (node, rows) = (leaf.node, rows.clone());
            if !self.trie.ensure(node) {
                return Err(Unbuilt::NoRoom);
            }
            if !rows.is_empty() {
                let block = self.pack(guard, writer, node, rows, generation)?;
                writer.batch.built[index].leaf.block = Some(block);
            }
        }
        Ok(())
    }

    /// Whether rows fit one leaf, given that leaves of this level and deeper become over-full
    /// rather than split.
    fn fits(&self, rows: &[Kept], node: Node, level_max: u32) -> bool {
        let bytes: usize = rows.iter().map(|kept| kept.bytes.len()).sum();
        let deep = node.level() >= level_max;
        let bytes_max = self.settings.block_bytes * if deep { OVERFULL } else { 1 };
        bytes <= bytes_max && rows.len() <= ROWS_MAX
    }

    /// Divides rows among the leaves below a node; their hashes are known if they do not fit one
    /// leaf. The rows of one leaf keep their order, so that frames can be copied as they are.
    fn divide(
        &self,
        batch: &mut Batch,
        node: Node,
        rows: Range<usize>,
        level_max: u32,
    ) -> Result<(), Unbuilt> {
        if self.fits(&batch.kept[rows.clone()], node, level_max) {
            batch.built.push(Built { leaf: Leaf { node, block: None }, rows });
            return Ok(());
        }
        if node.level() >= level_max {
            return Err(Unbuilt::Crowded);
        }
        let divided = &mut batch.kept[rows.clone()];
        divided.sort_by_key(|kept| node.side(kept.hash));
        let lefts = divided.partition_point(|kept| node.side(kept.hash) == 0);
        let middle = rows.start + lefts;
        let [left, right] = node.children();
        self.divide(batch, left, rows.start..middle, level_max)?;
        self.divide(batch, right, middle..rows.end, level_max)
    }

    /// Retires leaves that were built in vain.
    fn abandon(&self, guard: &Guard<'_>, writer: &mut Writer<'_>) {
        for built in writer.batch.built.drain(..) {
            let block = built.leaf.block.and_then(|block| self.space.ground.block(guard, block));
            if let Some(block) = block {
                self.retire(&block);
            }
        }
    }

    /// Puts the built leaves in the place of the sources. Afterwards `gone` has only the rows that
    /// were alive to the end; those removed because they expired are counted in `expired`.
    pub(crate) fn commit(&self, guard: &Guard<'_>, writer: &mut Writer<'_>, expired: &AtomicU64) {
        let batch = &mut writer.batch;
        let ground = &self.space.ground;
        let block_of = |leaf: &Leaf| ground.block(guard, leaf.block?);
        let blocks: Vec<Option<Block<'_>>> = batch.sources.iter().map(block_of).collect();
        let leaves: Vec<Leaf> = batch.built.iter().map(|built| built.leaf).collect();
        let replaced: Vec<Leaf> = batch.sources.iter().copied().chain(batch.moved_up).collect();
        let mut finals = vec![[0; DEAD_WORDS_MAX]; blocks.len()];
        // From the first seal until everything is published, markers wait: so nothing is allocated.
        for (block, finals) in blocks.iter().zip(&mut finals) {
            let words = block.iter().flat_map(|block| block.dead());
            words.zip(finals).for_each(|(word, bits)| *bits = word.seal());
        }
        let died = |origin: Option<(usize, usize)>| {
            origin.is_some_and(|(source, rank)| {
                let word = finals[source][rank / ROWS_PER_DEAD_WORD];
                word >> (rank % ROWS_PER_DEAD_WORD) & 1 != 0
            })
        };
        for built in &batch.built {
            let Some(block) = block_of(&built.leaf) else { continue };
            for (rank, kept) in batch.kept[built.rows.clone()].iter().enumerate() {
                if died(kept.origin) {
                    block.dead()[rank / ROWS_PER_DEAD_WORD]
                        .bury_all(1 << (rank % ROWS_PER_DEAD_WORD));
                }
            }
        }
        self.trie.replace(&replaced, &leaves);
        for leaf in &leaves {
            self.note_due(leaf.node, block_of(leaf).and_then(|block| block.summary()));
        }
        self.count_restructuring(replaced.len(), leaves.len());
        self.counters.moved_up.fetch_add(batch.moved_up.iter().count() as u64, Ordering::Relaxed);
        blocks.iter().flatten().for_each(|block| self.retire(block));
        let longs = batch.gone.iter().map(|gone| gone.row.long);
        for long in longs.chain(batch.lost_longs.iter().copied()) {
            self.retire_long(guard, long);
        }
        batch.gone.retain(|gone| !died(gone.row.origin));
        let uncount = |source: usize, count: usize| {
            let Some(block) = &blocks[source] else { return };
            self.counters.items.go(block.head().generation, count);
        };
        for (source, _) in batch.gone.iter().filter_map(|gone| gone.row.origin) {
            uncount(source, 1);
        }
        for (source, ranks) in &batch.damaged {
            let alive = ranks.clone().filter(|&rank| !died(Some((*source, rank))));
            uncount(*source, alive.count());
        }
        let gone = batch.gone.iter().filter(|gone| gone.why == Why::Expired);
        expired.fetch_add(gone.count() as u64, Ordering::Relaxed);
    }

    fn count_restructuring(&self, sources: usize, leaves: usize) {
        if leaves > sources {
            let splits = (leaves - sources) as u64;
            self.counters.splits.fetch_add(splits, Ordering::Relaxed);
        } else if sources > leaves {
            Counters::count(&self.counters.merges);
        }
    }

    /// The newcomer's block and rank, after the commit.
    pub(crate) fn newcomer<'g>(
        &self,
        guard: &'g Guard<'_>,
        batch: &Batch,
    ) -> Option<(Block<'g>, usize)> {
        batch.built.iter().find_map(|built| {
            let rows = &batch.kept[built.rows.clone()];
            let rank = rows.iter().position(|kept| kept.origin.is_none())?;
            Some((self.space.ground.block(guard, built.leaf.block?)?, rank))
        })
    }
}

/// A row's record of a recent access, or 0.
fn record_of(block: &Block<'_>, rank: usize) -> u32 {
    let mut records = block.recent().iter().map(|record| record.load(Ordering::Relaxed));
    records.find(|&record| recent_of(record, rank)).unwrap_or(0)
}

/// Adds a newcomer's row to the batch.
pub(crate) fn newcomer_row(arrival: &Arrival<'_>, long: u32, row: &[u8], batch: &mut Batch) {
    let start = batch.bytes.len();
    batch.bytes.extend_from_slice(row);
    let end = batch.bytes.len();
    let record = arrival.record;
    let key_end = end - if long != 0 { 0 } else { record.value.len() };
    batch.kept.push(Kept {
        bytes: start..end,
        key: key_end - record.key.len()..key_end,
        fields: record.fields,
        fingerprint: fingerprint(arrival.hash),
        hash: arrival.hash,
        origin: None,
        accesses: 0,
        recent: 0,
        long,
    });
}
