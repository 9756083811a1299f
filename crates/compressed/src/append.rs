//! The short way of a newcomer: its row is appended to the block, and little else is decoded.
//!
//! ```text
//!   old   | rows 0 .. 8 | rows 9 .. 20 | rows 21 .. 25 | row 26 | row 27 |
//!   new   | copied      | copied       | copied        | copied | copied | row 28 |   it waits, or
//!         | copied      | copied       | rows 21 .. 28                            |   all join
//! ```
//!
//! Joining a frame means decoding it and compressing it again, and the frame that is being filled
//! would be compressed once for each of its rows. So a few rows wait behind it, each in a frame of
//! its own, and join it together. A waiting row costs one more frame head, and some bytes because
//! it is compressed by itself. When the frame is nearly full, rows wait until they fill it.
//!
//! The old rows keep their ranks, so their bits, records of accesses and slots of long values are
//! copied as they are, and the old block is replaced as by cleaning: sealed, late marks carried
//! over, published, retired.
//!
//! Every other case goes the long way, in [`mod@crate::rewrite`]: a leaf that has to be split, a
//! block with another dictionary than the current one, dead rows to be dropped, an older row of the
//! same key, and damage in anything that the short way looks at.

use codec::{Dictionary, Method};
use memory::Guard;

use crate::block::{Head, ROWS_MAX, fingerprint};
use crate::frame::{FRAME_BYTES, FRAME_ROWS_MAX, Frame, FrameHead, Frames};
use crate::image::{Addition, draw_appended};
use crate::insert::Arrival;
use crate::raw::Block;
use crate::reader::{Reader, unpack_frame};
use crate::rewrite::Writer;
use crate::space::{NoRoom, Purpose};
use crate::summary::Summary;
use crate::trie::Leaf;
use crate::zone::Zone;

/// A block is built anew when one row in this many is dead.
const DEAD_SHARE: usize = 4;

/// At most this many rows wait, unless the frame is nearly full...
const WAITING_ROWS_MAX: usize = 3;
/// ... and at most this many bytes of them: decision 0009 has the measurements.
const WAITING_BYTES_MAX: usize = FRAME_BYTES / 4;

impl Zone {
    /// Appends the writer's row, born dead, to the block of a leaf. Returns where it is; `None` if
    /// it has to go the long way, or if there is no room for it and rewriting would make none,
    /// since the block has no dead row, and few expired ones at most. Under the lock of the shard.
    pub(crate) fn append_row<'g>(
        &self,
        guard: &'g Guard<'_>,
        leaf: Leaf,
        arrival: &Arrival<'_>,
        long: u32,
        now: u32,
        writer: &mut Writer<'_>,
    ) -> Result<Option<(Block<'g>, usize)>, NoRoom> {
        let old = leaf.block.and_then(|at| self.space.ground.block(guard, at));
        let Some(old) = old.filter(|old| self.takes_row(guard, old, arrival, writer)) else {
            return Ok(None);
        };
        let (number, dictionary) = self.dictionaries.borrow(guard);
        let added = self.encode_added(guard, &old, number, dictionary, long, writer);
        let Some((kept, frame)) = added else {
            self.dictionaries.release(number);
            return Ok(None);
        };
        let summary = self.summary_with(guard, &old, arrival, writer);
        let grown = grown(&old, kept, frame, writer.row.len(), long);
        let head = self.with_method(Head { summary: summary.is_some(), ..grown }, number);
        let added = Addition {
            fingerprint: fingerprint(arrival.hash),
            summary,
            long,
            frames_kept: kept.index,
            stored_kept: kept.stored_at,
            frame,
            stored: &writer.encoded,
        };
        draw_appended(&old, &head, &added, &mut writer.image);
        let Ok(reference) = self.space.append(Purpose::Store, &writer.image) else {
            self.dictionaries.release(head.dictionary);
            return if is_whole(&old, now) { Err(NoRoom) } else { Ok(None) };
        };
        let moved = Leaf { block: Some(reference), ..leaf };
        let copy = self.lead_to_copy(guard, &old, leaf, moved);
        self.note_due(moved.node, summary);
        self.enlist(&head);
        self.retire(&old);
        Ok(Some((copy, old.fingerprints().len())))
    }

    /// Whether a block has room for the row, few dead rows, and none of the same key.
    fn takes_row(
        &self,
        guard: &Guard<'_>,
        old: &Block<'_>,
        arrival: &Arrival<'_>,
        writer: &mut Writer<'_>,
    ) -> bool {
        let head = old.head();
        let (rows, raw_bytes) = (usize::from(head.rows), head.raw_bytes as usize);
        head.generation == arrival.generation
            && rows < ROWS_MAX
            && raw_bytes + writer.row.len() <= self.settings.block_bytes
            && has_few_dead(old)
            && self
                .search(guard, old, arrival.hash, arrival.record.key, &mut writer.reader)
                .is_ok_and(|found| found.is_none())
    }

    /// The summary of a block with the newcomer in it.
    fn summary_with(
        &self,
        guard: &Guard<'_>,
        old: &Block<'_>,
        arrival: &Arrival<'_>,
        writer: &mut Writer<'_>,
    ) -> Option<Summary> {
        let (before, record) = (old.summary(), arrival.record);
        if before.is_none() && record.fields.expiry == 0 {
            return None;
        }
        let longs = old.longs().iter().map(|slot| self.long_bytes(guard, slot.load()));
        let old_bytes = old.head().raw_bytes as usize + longs.sum::<usize>();
        // The row, or a long value beside it.
        let new_bytes = writer.row.len().max(record.value.len());
        let share = new_bytes as f64 / (old_bytes + new_bytes) as f64;
        Summary::with(before, record.fields.expiry, share, &mut writer.random)
    }

    /// Compresses the frame that gets the row. Returns the place where the kept frames end, and the
    /// new frame, whose bytes are in the writer; `None` if a frame that the row joins is damaged,
    /// or the kept ones need another dictionary.
    fn encode_added(
        &self,
        guard: &Guard<'_>,
        old: &Block<'_>,
        number: u8,
        dictionary: Option<&Dictionary>,
        long: u32,
        writer: &mut Writer<'_>,
    ) -> Option<(Frame, FrameHead)> {
        if old.head().method != Method::Raw && old.head().dictionary != number {
            return None;
        }
        let Writer { encoder, reader: Reader { decoder, rows, .. }, row, raw, encoded, .. } =
            writer;
        let joined = joined(old.frames().ok()?, row.len());
        let kept = joined.place();
        let mut head = FrameHead { rows: 1, longs: u8::from(long != 0), ..FrameHead::default() };
        raw.clear();
        for frame in joined {
            unpack_frame(&self.dictionaries, guard, old, &frame, decoder, rows).ok()?;
            raw.extend_from_slice(rows);
            head.rows += frame.head.rows;
            head.longs += frame.head.longs;
        }
        raw.extend_from_slice(row);
        encoder.encode(self.settings.method, dictionary, raw, encoded);
        head.raw_bytes = raw.len() as u16;
        head.stored_bytes = encoded.len() as u16;
        Some((kept, head))
    }
}

/// Whether so few rows of a block are dead that it need not be built anew because of them.
pub(crate) fn has_few_dead(block: &Block<'_>) -> bool {
    let dead: u32 = block.dead().iter().map(|word| word.bits().count_ones()).sum();
    dead as usize * DEAD_SHARE < usize::from(block.head().rows)
}

/// Whether all rows of a block are alive, and no more of them have expired than its summary leaves
/// out.
fn is_whole(block: &Block<'_>, now: u32) -> bool {
    let are_alive = block.dead().iter().all(|word| word.bits() == 0);
    are_alive && block.summary().is_none_or(|summary| summary.begins() > now)
}

/// The last frames of a block that a row joins; none if the row is to wait in a frame of its own.
fn joined(frames: Frames<'_>, row_bytes: usize) -> Frames<'_> {
    let add = |(rows, bytes): (usize, usize), frame: Frame| {
        (rows + usize::from(frame.head.rows), bytes + usize::from(frame.head.raw_bytes))
    };
    // The open frame, and the rows that wait behind it.
    let (mut joined, mut rest) = (frames.clone(), frames);
    loop {
        let here = rest.clone();
        let Some(frame) = rest.next() else { break };
        if frame.head.rows > 1 {
            joined = here;
        }
    }
    // Those of them that have room for the row when merged.
    let (mut rows, mut bytes) = joined.clone().fold((0, 0), add);
    while rows >= FRAME_ROWS_MAX || bytes + row_bytes > FRAME_BYTES {
        let Some(frame) = joined.next() else { break };
        rows -= usize::from(frame.head.rows);
        bytes -= usize::from(frame.head.raw_bytes);
    }
    let waiting = joined.clone().skip_while(|frame| frame.head.rows > 1);
    let (waiting_rows, waiting_bytes) = waiting.fold((0, 0), add);
    let too_many =
        waiting_rows >= WAITING_ROWS_MAX || waiting_bytes + row_bytes > WAITING_BYTES_MAX;
    let room_then = FRAME_BYTES.saturating_sub(bytes + row_bytes);
    let is_full = room_then < row_bytes || rows + 1 == FRAME_ROWS_MAX;
    let is_full_soon = room_then < 2 * row_bytes;
    if is_full || too_many && !is_full_soon { joined } else { rest }
}

/// The head of a block with one more row, whose frame follows the frames before `kept`; its method
/// is still the old block's.
fn grown(old: &Block<'_>, kept: Frame, frame: FrameHead, row_bytes: usize, long: u32) -> Head {
    let head = *old.head();
    Head {
        rows: head.rows + 1,
        longs: head.longs + u8::from(long != 0),
        frames: kept.index as u8 + 1,
        raw_bytes: head.raw_bytes + row_bytes as u32,
        stored_bytes: kept.stored_at as u32 + u32::from(frame.stored_bytes),
        ..head
    }
}
