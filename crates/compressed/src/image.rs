//! The images of blocks, as they are appended to the log: `block` says how they are laid out.

use stdx::sync::atomic::Ordering;

use crate::access::{self, ROWS_PER_ACCESS_WORD};
use crate::block::{Head, RECENT_AT, RECENTS};
use crate::find::recent_moved;
use crate::frame::{FRAME_HEAD_BYTES, FrameHead};
use crate::raw::Block;
use crate::rewrite::Kept;
use crate::seal::ROWS_PER_DEAD_WORD;
use crate::summary::Summary;

/// The parts of a block that are drawn behind the words that change.
pub(crate) struct Content<'c> {
    pub(crate) summary: Option<Summary>,
    pub(crate) frames: &'c [FrameHead],
    pub(crate) stored: &'c [u8],
}

/// A row that is appended to a copy of a block, and the frame that holds it.
pub(crate) struct Addition<'a> {
    pub(crate) fingerprint: u8,
    /// The summary of the block with the row in it.
    pub(crate) summary: Option<Summary>,
    /// The code in the slot of its long block; 0 if it is not long.
    pub(crate) long: u32,
    /// The number of the block's frames that are kept; the new frame stands behind them.
    pub(crate) frames_kept: usize,
    /// Stored bytes of those.
    pub(crate) stored_kept: usize,
    pub(crate) frame: FrameHead,
    pub(crate) stored: &'a [u8],
}

/// Draws the image of a block of rows.
pub(crate) fn draw(head: &Head, rows: &[Kept], content: &Content<'_>, image: &mut Vec<u8>) {
    image.clear();
    head.write(image);
    for rows in rows.chunks(ROWS_PER_DEAD_WORD) {
        let newborn = |(at, row): (_, &Kept)| u32::from(row.origin.is_none()) << at;
        let word = rows.iter().enumerate().map(newborn).fold(0, |word, bit| word | bit);
        image.extend_from_slice(&word.to_ne_bytes());
    }
    for rows in rows.chunks(ROWS_PER_ACCESS_WORD) {
        let word = access::word_of(rows.iter().map(|row| row.accesses));
        image.extend_from_slice(&word.to_ne_bytes());
    }
    let mut records = rows.iter().enumerate().filter(|(_, row)| row.recent != 0);
    for at in 0..RECENTS {
        if let Some((rank, row)) = records.next() {
            let at = RECENT_AT + at * size_of::<u32>();
            let record = recent_moved(row.recent, rank);
            image[at..at + size_of::<u32>()].copy_from_slice(&record.to_ne_bytes());
        }
    }
    for row in rows.iter().filter(|row| row.long != 0) {
        image.extend_from_slice(&row.long.to_ne_bytes());
    }
    image.extend(content.summary.iter().flat_map(Summary::bytes));
    if head.checksum {
        let mut rest = content.stored;
        for frame in content.frames {
            let (stored, behind) = rest.split_at(frame.stored_bytes.into());
            image.extend_from_slice(&codec::checksum(stored).to_ne_bytes());
            rest = behind;
        }
    }
    image.extend(rows.iter().map(|row| row.fingerprint));
    image.extend(content.frames.iter().flat_map(FrameHead::bytes));
    image.extend_from_slice(content.stored);
    image.resize(head.block_bytes(), 0);
}

/// Draws the image of a long block.
pub(crate) fn draw_long(head: &Head, stored: &[u8], image: &mut Vec<u8>) {
    image.clear();
    head.write(image);
    if head.checksum {
        image.extend_from_slice(&codec::checksum(stored).to_ne_bytes());
    }
    image.extend_from_slice(stored);
    image.resize(head.block_bytes(), 0);
}

/// Draws a block of rows as it is at this moment. Its shard is locked, so its slots stay.
pub(crate) fn draw_moved(block: &Block<'_>, image: &mut Vec<u8>) {
    image.clear();
    image.reserve(block.head().block_bytes());
    block.head().write(image);
    image.truncate(RECENT_AT);
    let mut draw = |word: u32| image.extend_from_slice(&word.to_ne_bytes());
    block.recent().iter().for_each(|record| draw(record.load(Ordering::Relaxed)));
    // Without the seal: it is not set, unless it is damaged.
    block.dead().iter().for_each(|word| draw(word.bits()));
    block.accesses().iter().for_each(|word| draw(word.load(Ordering::Relaxed)));
    block.longs().iter().for_each(|slot| draw(slot.load()));
    image.extend_from_slice(block.unchanging());
}

/// Draws a block of rows as it is at this moment, with one more row, which is born dead. `head` is
/// the copy's head.
pub(crate) fn draw_appended(
    block: &Block<'_>,
    head: &Head,
    added: &Addition<'_>,
    image: &mut Vec<u8>,
) {
    image.clear();
    head.write(image);
    for (at, record) in block.recent().iter().enumerate() {
        let at = RECENT_AT + at * size_of::<u32>();
        let record = record.load(Ordering::Relaxed).to_ne_bytes();
        image[at..at + record.len()].copy_from_slice(&record);
    }
    // The newcomer's rank is the last one, so that old rows keep their bits in their words.
    let born_dead = block.fingerprints().len();
    for index in 0..head.dead_words() {
        let bits = block.dead().get(index).map_or(0, |word| word.bits());
        let is_newborns = born_dead / ROWS_PER_DEAD_WORD == index;
        let newborn = u32::from(is_newborns) << (born_dead % ROWS_PER_DEAD_WORD);
        image.extend_from_slice(&(bits | newborn).to_ne_bytes());
    }
    for index in 0..head.access_words() {
        let word = block.accesses().get(index).map_or(0, |word| word.load(Ordering::Relaxed));
        image.extend_from_slice(&word.to_ne_bytes());
    }
    for slot in block.longs() {
        image.extend_from_slice(&slot.load().to_ne_bytes());
    }
    if added.long != 0 {
        image.extend_from_slice(&added.long.to_ne_bytes());
    }
    image.extend(added.summary.iter().flat_map(Summary::bytes));
    if head.checksum {
        image.extend_from_slice(&block.checksums()[..added.frames_kept * size_of::<u32>()]);
        image.extend_from_slice(&codec::checksum(added.stored).to_ne_bytes());
    }
    image.extend_from_slice(block.fingerprints());
    image.push(added.fingerprint);
    image.extend_from_slice(&block.frame_heads()[..added.frames_kept * FRAME_HEAD_BYTES]);
    image.extend_from_slice(&added.frame.bytes());
    image.extend_from_slice(&block.stored()[..added.stored_kept]);
    image.extend_from_slice(added.stored);
    image.resize(head.block_bytes(), 0);
}
