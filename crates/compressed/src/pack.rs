//! How rows become a block of their own: in frames, compressed, appended to the log.
//!
//! The frames of a block share its method and dictionary. Where compressing does not pay a frame is
//! raw, and if that is so for all of them the block needs neither.

use std::ops::Range;

use codec::{Dictionary, Method};
use memory::Guard;

use crate::block::{Head, owner_of};
use crate::frame::{FRAME_BYTES, FrameHead};
use crate::image::{Content, draw};
use crate::raw::Reference;
use crate::rewrite::{Kept, Writer};
use crate::space::{NoRoom, Purpose};
use crate::trie::Node;
use crate::zone::Zone;

impl Zone {
    /// Compresses rows into a block of their own and appends it.
    pub(crate) fn pack(
        &self,
        guard: &Guard<'_>,
        writer: &mut Writer,
        node: Node,
        rows: Range<usize>,
        generation: u16,
    ) -> Result<Reference, NoRoom> {
        let (number, dictionary) = self.dictionaries.borrow(guard);
        let raw_bytes = writer.encode_frames(self.settings.method, dictionary, rows.clone());
        let Writer { stored, frames, image, batch, .. } = writer;
        let rows = &batch.kept[rows];
        let head = Head {
            owner: owner_of(node.first_hash()),
            generation,
            method: Method::Raw,
            checksum: self.settings.checksums,
            long: false,
            dictionary: 0,
            stored_bytes: stored.len() as u32,
            raw_bytes: raw_bytes as u32,
            rows: rows.len() as u8,
            longs: rows.iter().filter(|row| row.long != 0).count() as u8,
            frames: frames.len() as u8,
        };
        let head = self.with_method(head, number);
        draw(&head, rows, &Content { frames, stored }, image);
        let reference = self.space.append(Purpose::Store, image).inspect_err(|NoRoom| {
            self.dictionaries.release(head.dictionary);
        })?;
        self.enlist(&head);
        Ok(reference)
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

impl Writer {
    /// Compresses rows in frames; returns how many bytes they have. `stored` and `frames` get what
    /// comes of it.
    fn encode_frames(
        &mut self,
        method: Method,
        dictionary: Option<&Dictionary>,
        rows: Range<usize>,
    ) -> usize {
        let Self { encoder, raw, encoded, stored, frames, batch, .. } = self;
        stored.clear();
        frames.clear();
        let mut raw_bytes = 0;
        let mut rest = &batch.kept[rows];
        while !rest.is_empty() {
            let (framed, behind) = rest.split_at(frame_rows(rest));
            raw.clear();
            for row in framed {
                raw.extend_from_slice(&batch.bytes[row.bytes.clone()]);
            }
            encoder.encode(method, dictionary, raw, encoded);
            stored.extend_from_slice(encoded);
            frames.push(FrameHead {
                rows: framed.len() as u8,
                longs: framed.iter().filter(|row| row.long != 0).count() as u8,
                raw_bytes: raw.len() as u16,
                stored_bytes: encoded.len() as u16,
            });
            raw_bytes += raw.len();
            rest = behind;
        }
        raw_bytes
    }
}

/// How many of these rows the first frame gets.
fn frame_rows(rows: &[Kept]) -> usize {
    let mut bytes = 0;
    let fits = |row: &&Kept| {
        bytes += row.bytes.len();
        bytes <= FRAME_BYTES
    };
    rows.iter().take_while(fits).count().max(1)
}
