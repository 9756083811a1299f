//! The images of blocks, as they are appended to the log: `block` says how they lie.

use stdx::sync::atomic::Ordering;

use crate::block::{Head, RECENT_AT, RECENTS};
use crate::find::recent_moved;
use crate::raw::Block;
use crate::rewrite::Kept;
use crate::seal::ROWS_PER_DEAD_WORD;

/// Draws the image of a block of rows.
pub(crate) fn draw(head: &Head, rows: &[Kept], stored: &[u8], image: &mut Vec<u8>) {
    image.clear();
    head.write(image);
    let words = |per_word: usize, bit: &dyn Fn(&Kept) -> bool, image: &mut Vec<u8>| {
        for chunk in rows.chunks(per_word) {
            let bits = chunk.iter().enumerate().map(|(at, row)| u32::from(bit(row)) << at);
            let word = bits.fold(0, |word, bit| word | bit);
            image.extend_from_slice(&word.to_ne_bytes());
        }
    };
    words(ROWS_PER_DEAD_WORD, &|row| row.origin.is_none(), image);
    words(u32::BITS as usize, &|row| row.accessed, image);
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
    if head.checksum {
        image.extend_from_slice(&codec::checksum(stored).to_ne_bytes());
    }
    image.extend(rows.iter().map(|row| row.fingerprint));
    image.extend_from_slice(stored);
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

/// Draws a block of rows as it is at this moment.
pub(crate) fn draw_again(block: &Block<'_>, image: &mut Vec<u8>) {
    let head = block.head();
    image.clear();
    head.write(image);
    for (at, record) in block.recent().iter().enumerate().take(RECENTS) {
        let at = RECENT_AT + at * size_of::<u32>();
        let record = record.load(Ordering::Relaxed).to_ne_bytes();
        image[at..at + record.len()].copy_from_slice(&record);
    }
    for word in block.dead() {
        image.extend_from_slice(&word.bits().to_ne_bytes());
    }
    for word in block.accessed() {
        image.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
    for slot in block.longs() {
        image.extend_from_slice(&slot.load().to_ne_bytes());
    }
    if let Some(checksum) = block.checksum() {
        image.extend_from_slice(&checksum.to_ne_bytes());
    }
    image.extend_from_slice(block.fingerprints());
    image.extend_from_slice(block.stored());
    image.resize(head.block_bytes(), 0);
}
