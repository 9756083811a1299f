//! The side that writes: items go into blocks, and full blocks to whatever takes bytes.

use std::io::{self, Write};

use super::{BLOCK_BYTES, BlockHead, Head, Kind, LONG_BYTES, NOTE_BYTES, PAYLOAD_BYTES_MAX, Tier};
use crate::record::{Fields, ROW_HEAD_BYTES_MAX, Record, write_row, write_row_head};
use crate::{Encoder, Method, checksum};

/// The totals of an image that was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Items.
    pub items: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Bytes of the image.
    pub image_bytes: u64,
}

/// Writes an image.
pub struct Writer<W> {
    target: W,
    nonce: u64,
    method: Method,
    encoder: Encoder,
    /// The tier of the items in the block that is being filled.
    tier: Tier,
    notes: Vec<u8>,
    rows: Vec<u8>,
    raw: Vec<u8>,
    stored: Vec<u8>,
    blocks: u64,
    totals: Totals,
}

impl<W: Write> Writer<W> {
    /// Begins an image whose blocks are compressed by `method`, zstd at `level`.
    pub fn new(mut target: W, head: &Head, method: Method, level: i32) -> io::Result<Self> {
        let bytes = head.to_bytes();
        target.write_all(&bytes)?;
        Ok(Self {
            target,
            nonce: head.nonce,
            method,
            encoder: Encoder::new(level),
            tier: Tier::Hot,
            notes: Vec::new(),
            rows: Vec::new(),
            raw: Vec::new(),
            stored: Vec::new(),
            blocks: 0,
            totals: Totals { image_bytes: bytes.len() as u64, ..Totals::default() },
        })
    }

    /// Adds an item.
    pub fn push(&mut self, tier: Tier, note: u32, record: &Record<'_>) -> io::Result<()> {
        let Record { key, value, fields } = record;
        if ROW_HEAD_BYTES_MAX + key.len() + value.len() > LONG_BYTES {
            let pieces = std::iter::once(*value);
            return self.push_long(tier, note, (key, fields), value.len(), pieces);
        }
        self.turn_to(tier)?;
        self.notes.extend_from_slice(&note.to_le_bytes());
        write_row(record, false, &mut self.rows);
        self.count(key.len() + value.len());
        if self.notes.len() + self.rows.len() >= BLOCK_BYTES { self.end_rows() } else { Ok(()) }
    }

    /// Adds an item whose value comes in pieces, `value_bytes` in all.
    pub fn push_long<'v>(
        &mut self,
        tier: Tier,
        note: u32,
        (key, fields): (&[u8], &Fields),
        value_bytes: usize,
        pieces: impl Iterator<Item = &'v [u8]>,
    ) -> io::Result<()> {
        self.turn_to(tier)?;
        self.end_rows()?;
        self.notes.extend_from_slice(&note.to_le_bytes());
        write_row_head(key, fields, value_bytes, true, &mut self.rows);
        self.count(key.len() + value_bytes);
        self.end_rows()?;
        let mut left = value_bytes;
        for mut piece in pieces {
            left = left.checked_sub(piece.len()).expect("the length was said before");
            while !piece.is_empty() {
                let room = BLOCK_BYTES - self.raw.len();
                let (now, later) = piece.split_at(piece.len().min(room));
                self.raw.extend_from_slice(now);
                piece = later;
                if self.raw.len() == BLOCK_BYTES {
                    self.end_block(Kind::Piece, 0)?;
                }
            }
        }
        assert_eq!(left, 0, "the length was said before");
        if self.raw.is_empty() { Ok(()) } else { self.end_block(Kind::Piece, 0) }
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Ends the image, with the dictionary of the compressed zone if it has one. Returns the
    /// target, which may hold bytes back, and the totals.
    pub fn finish(mut self, dictionary: Option<&[u8]>) -> io::Result<(W, Totals)> {
        self.end_rows()?;
        let Totals { items, bytes, .. } = self.totals;
        self.raw.extend_from_slice(&items.to_le_bytes());
        self.raw.extend_from_slice(&bytes.to_le_bytes());
        self.end_block(Kind::End, 0)?;
        if let Some(dictionary) = dictionary {
            self.raw.extend_from_slice(dictionary);
            self.end_block(Kind::Dictionary, 0)?;
        }
        Ok((self.target, self.totals))
    }

    fn count(&mut self, bytes: usize) {
        self.totals.items += 1;
        self.totals.bytes += bytes as u64;
    }

    /// Ends the block if it is of another tier.
    fn turn_to(&mut self, tier: Tier) -> io::Result<()> {
        if tier != self.tier {
            self.end_rows()?;
            self.tier = tier;
        }
        Ok(())
    }

    fn end_rows(&mut self) -> io::Result<()> {
        if self.notes.is_empty() {
            return Ok(());
        }
        let rows = self.notes.len() / NOTE_BYTES;
        self.raw.append(&mut self.notes);
        self.raw.append(&mut self.rows);
        self.end_block(Kind::Items(self.tier), rows)
    }

    /// Writes the gathered rows as a block.
    fn end_block(&mut self, kind: Kind, rows: usize) -> io::Result<()> {
        assert!(self.raw.len() <= PAYLOAD_BYTES_MAX);
        let method = self.encoder.encode(self.method, None, &self.raw, &mut self.stored);
        let head = BlockHead {
            kind,
            method,
            number: self.blocks,
            rows: rows as u32,
            raw_bytes: self.raw.len() as u32,
            stored_bytes: self.stored.len() as u32,
            sum: checksum(&self.stored),
        };
        let bytes = head.to_bytes(self.nonce);
        self.target.write_all(&bytes)?;
        self.target.write_all(&self.stored)?;
        self.blocks += 1;
        self.totals.image_bytes += (bytes.len() + self.stored.len()) as u64;
        self.raw.clear();
        Ok(())
    }
}
