//! Packing rows into a block: in frames, compressed, appended to the log.
//!
//! The frames of a block share its method and dictionary. A frame for which compressing does not
//! pay is raw, and if all of them are, the block needs neither. A frame whose rows come together
//! from an old block is copied as it is stored there.

use std::ops::Range;

use codec::{Dictionary, Method};
use memory::Guard;

use crate::block::{Head, owner_of};
use crate::frame::{FRAME_BYTES, FRAME_ROWS_MAX, FrameHead};
use crate::image::{Content, draw};
use crate::raw::Reference;
use crate::rewrite::{Kept, Writer};
use crate::space::{NoRoom, Purpose};
use crate::summary::Summary;
use crate::trie::{Leaf, Node};
use crate::zone::Zone;

impl Zone {
    /// Compresses rows into a block of their own and appends it.
    pub(crate) fn pack(
        &self,
        guard: &Guard<'_>,
        writer: &mut Writer<'_>,
        node: Node,
        rows: Range<usize>,
        generation: u16,
    ) -> Result<Reference, NoRoom> {
        let (number, dictionary) = self.dictionaries.borrow(guard);
        let raw_bytes = self.encode_frames(guard, writer, (number, dictionary), rows.clone());
        let Writer { stored, frames, image, batch, .. } = writer;
        let rows = &batch.kept[rows];
        let summary = self.summary_of(guard, rows);
        let head = Head {
            owner: owner_of(node.first_hash()),
            generation,
            method: Method::Raw,
            checksum: self.settings.checksums,
            summary: summary.is_some(),
            long: false,
            dictionary: 0,
            stored_bytes: stored.len() as u32,
            raw_bytes: raw_bytes as u32,
            rows: rows.len() as u8,
            longs: rows.iter().filter(|row| row.long != 0).count() as u8,
            frames: frames.len() as u8,
        };
        let head = self.with_method(head, number);
        draw(&head, rows, &Content { summary, frames, stored }, image);
        let reference = self.space.append(Purpose::Store, image).inspect_err(|NoRoom| {
            self.dictionaries.release(head.dictionary);
        })?;
        self.enlist(&head);
        Ok(reference)
    }

    /// The summary of a block with these rows.
    fn summary_of(&self, guard: &Guard<'_>, rows: &[Kept]) -> Option<Summary> {
        if rows.iter().all(|row| row.fields.expiry == 0) {
            return None;
        }
        let bytes = |row: &Kept| row.bytes.len() + self.long_bytes(guard, row.long);
        Summary::of(rows.iter().map(|row| (row.fields.expiry, bytes(row))))
    }

    /// Bytes of a long value, given the code in its slot; 0 if there is none.
    pub(crate) fn long_bytes(&self, guard: &Guard<'_>, code: u32) -> usize {
        let block = Reference::from_code(code).and_then(|at| self.space.ground.block(guard, at));
        block.map_or(0, |block| block.head().raw_bytes as usize)
    }

    /// Compresses rows in frames; returns how many bytes they have. The result goes to the writer's
    /// `stored` and `frames`.
    fn encode_frames(
        &self,
        guard: &Guard<'_>,
        writer: &mut Writer<'_>,
        (number, dictionary): (u8, Option<&Dictionary>),
        rows: Range<usize>,
    ) -> usize {
        let Writer { encoder, raw, encoded, stored, frames, batch, .. } = writer;
        stored.clear();
        frames.clear();
        let mut raw_bytes = 0;
        let mut rest = &batch.kept[rows];
        while !rest.is_empty() {
            let (framed, behind) = rest.split_at(frame_rows(rest));
            let stored_before = stored.len();
            if let Some(bytes) = self.stored_already(guard, &batch.sources, framed, number) {
                stored.extend_from_slice(bytes);
            } else {
                raw.clear();
                for row in framed {
                    raw.extend_from_slice(&batch.bytes[row.bytes.clone()]);
                }
                encoder.encode(self.settings.method, dictionary, raw, encoded);
                stored.extend_from_slice(encoded);
            }
            let frame_bytes: usize = framed.iter().map(|row| row.bytes.len()).sum();
            frames.push(FrameHead {
                rows: framed.len() as u8,
                longs: framed.iter().filter(|row| row.long != 0).count() as u8,
                raw_bytes: frame_bytes as u16,
                stored_bytes: (stored.len() - stored_before) as u16,
            });
            raw_bytes += frame_bytes;
            rest = behind;
        }
        raw_bytes
    }

    /// The frame of a source that has exactly these rows, as it is stored there. That holds above
    /// all for rows that are frames alone, which splits and sweeps leave whole.
    fn stored_already<'g>(
        &self,
        guard: &'g Guard<'_>,
        sources: &[Leaf],
        rows: &[Kept],
        number: u8,
    ) -> Option<&'g [u8]> {
        let (source, rank) = rows.first()?.origin?;
        let block = self.space.ground.block(guard, sources[source].block?)?;
        let frame = block.frame_of(rank).ok()?;
        let ranks = frame.ranks().map(|rank| Some((source, rank)));
        let same = block.head().dictionary == number && rows.iter().map(|row| row.origin).eq(ranks);
        same.then(|| &block.stored()[frame.stored()])
    }

    /// The head of a block of rows with the method and dictionary that its frames need: none if all
    /// of them are raw, and then the borrowed dictionary is released.
    pub(crate) fn with_method(&self, head: Head, number: u8) -> Head {
        if head.stored_bytes == head.raw_bytes {
            self.dictionaries.release(number);
            return Head { method: Method::Raw, dictionary: 0, ..head };
        }
        Head { method: self.settings.method, dictionary: number, ..head }
    }
}

/// The number of these rows that go into the first frame.
fn frame_rows(rows: &[Kept]) -> usize {
    let mut bytes = 0;
    let fits = |row: &&Kept| {
        bytes += row.bytes.len();
        bytes <= FRAME_BYTES
    };
    rows.iter().take(FRAME_ROWS_MAX).take_while(fits).count().max(1)
}
