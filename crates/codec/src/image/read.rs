//! The reading side: the heads of all blocks first, for a table, and then blocks in any order, by
//! any number of threads.

use std::{fmt, io};

use super::{
    BLOCK_HEAD_BYTES, BlockHead, HEAD_BYTES, Head, Kind, MARKER, NOTE_BYTES, Tier, Totals, u64_at,
};
use crate::record::{Row, Rows};
use crate::{Damaged, Decoder, checksum};

/// Bytes that are looked through at a time for the next block.
const SEARCH_BYTES: usize = 64 << 10;

/// Bytes that can be read at any place.
pub trait Source: Sync {
    /// The number of bytes.
    fn bytes(&self) -> io::Result<u64>;

    /// Fills `target` with the bytes from `offset` on.
    fn read_at(&self, offset: u64, target: &mut [u8]) -> io::Result<()>;
}

/// Bytes in memory.
impl Source for Vec<u8> {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        let bytes = from.and_then(|from| from.get(..target.len()));
        target.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Why bytes are no image that can be read.
#[derive(Debug)]
pub enum OpenError {
    /// It does not begin as an image does.
    Foreign,
    /// It is an image of this version.
    Version(u32),
    /// It begins as an image does, but the rest of its head does not match.
    Damaged,
    /// It cannot be read.
    Io(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("it holds something else than saved items"),
            Self::Version(version) => {
                write!(
                    f,
                    "its format is {version}, and the newest that is known is {}",
                    super::VERSION
                )
            }
            Self::Damaged => f.write_str("its first bytes are damaged"),
            Self::Io(error) => write!(f, "it cannot be read: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// A block, or a piece of a long value, that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

/// Reads the head of an image.
pub fn open(source: &dyn Source) -> Result<Head, OpenError> {
    let bytes = source.bytes().map_err(OpenError::Io)?.min(HEAD_BYTES as u64);
    let mut head = vec![0; bytes as usize];
    source.read_at(0, &mut head).map_err(OpenError::Io)?;
    Head::parse(&head)
}

/// A block whose head is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    offset: u64,
    head: BlockHead,
}

impl Block {
    /// The tier of its items; `None` if it holds none.
    pub fn tier(&self) -> Option<Tier> {
        match self.head.kind {
            Kind::Items(tier) => Some(tier),
            Kind::Piece | Kind::End | Kind::Dictionary => None,
        }
    }

    /// The number of items that it holds.
    pub fn items(&self) -> u64 {
        self.head.rows.into()
    }
}

/// The blocks of an image.
#[derive(Debug, Default)]
pub struct Table {
    blocks: Vec<Block>,
    /// The indices of the blocks of items in `blocks`, each followed by its pieces.
    groups: Vec<usize>,
    /// The totals that were written, if the end is there.
    totals: Option<Totals>,
    /// The block behind the end.
    dictionary: Option<Block>,
    /// Blocks whose heads are damaged, as far as numbers tell.
    missing: u64,
}

impl Table {
    /// Finds the blocks of an image.
    pub fn new(source: &dyn Source, head: &Head) -> io::Result<Self> {
        let mut table = Self::default();
        let bytes = source.bytes()?;
        let (mut offset, mut number) = (HEAD_BYTES as u64, 0);
        while let Some(block) = next_block(source, head.nonce, offset, bytes, number)? {
            table.missing += block.head.number - number;
            number = block.head.number.saturating_add(1);
            let payload = block.offset + BLOCK_HEAD_BYTES as u64;
            offset = payload + u64::from(block.head.stored_bytes);
            match block.head.kind {
                Kind::Items(_) => table.groups.push(table.blocks.len()),
                Kind::Piece => {}
                Kind::End => {
                    table.totals = read_totals(source, &block);
                    let next = next_block(source, head.nonce, offset, bytes, number)?;
                    table.dictionary = next.filter(|next| next.head.kind == Kind::Dictionary);
                    break;
                }
                // The end itself is damaged.
                Kind::Dictionary => {
                    table.dictionary = Some(block);
                    break;
                }
            }
            table.blocks.push(block);
        }
        Ok(table)
    }

    /// Whether every block's head and the end are there. The content of the blocks has not been
    /// read yet.
    pub fn is_whole(&self) -> bool {
        let items: u64 = self.blocks.iter().map(Block::items).sum();
        self.missing == 0 && self.totals.is_some_and(|totals| totals.items == items)
    }

    /// The number of items that were written, or at least that the found blocks hold.
    pub fn items(&self) -> u64 {
        let items = self.blocks.iter().map(Block::items).sum();
        self.totals.map_or(items, |totals| totals.items)
    }

    /// The dictionary of the compressed zone, if there is one that is not damaged.
    pub fn dictionary(&self, source: &dyn Source) -> Option<Vec<u8>> {
        let mut reader = Reader::new();
        reader.payload(source, &self.dictionary?).ok().map(<[u8]>::to_vec)
    }

    /// The number of blocks of items.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// A block of items, and the pieces of a long value that stand behind it.
    pub fn group(&self, number: usize) -> (&Block, &[Block]) {
        let first = self.groups[number];
        let end = self.groups.get(number + 1).copied().unwrap_or(self.blocks.len());
        let block = &self.blocks[first];
        let behind = &self.blocks[first + 1..end];
        // A piece after a gap belongs to another value, whose row is lost.
        let is_next =
            |(at, piece): &(usize, &Block)| piece.head.number == block.head.number + 1 + *at as u64;
        (block, &behind[..behind.iter().enumerate().take_while(is_next).count()])
    }
}

fn read_totals(source: &dyn Source, block: &Block) -> Option<Totals> {
    let mut reader = Reader::new();
    let raw = reader.payload(source, block).ok().filter(|raw| raw.len() == 16)?;
    Some(Totals { items: u64_at(raw, 0), bytes: u64_at(raw, 8), image_bytes: block.offset })
}

/// The block at `offset`, or the next one behind it with this number or a higher one.
fn next_block(
    source: &dyn Source,
    nonce: u64,
    offset: u64,
    bytes: u64,
    number: u64,
) -> io::Result<Option<Block>> {
    let block_at = |offset: u64, head: &[u8]| {
        let head = BlockHead::parse(nonce, head).filter(|head| head.number >= number)?;
        let end = offset + (BLOCK_HEAD_BYTES as u64) + u64::from(head.stored_bytes);
        // A block's number is at most the number of bytes, since there can be no more blocks.
        (end <= bytes && head.number <= bytes).then_some(Block { offset, head })
    };
    let mut head = [0; BLOCK_HEAD_BYTES];
    if bytes.saturating_sub(offset) < head.len() as u64 {
        return Ok(None);
    }
    source.read_at(offset, &mut head)?;
    if let Some(block) = block_at(offset, &head) {
        return Ok(Some(block));
    }
    let (mut from, mut window) = (offset + 1, vec![0; SEARCH_BYTES]);
    while bytes.saturating_sub(from) >= BLOCK_HEAD_BYTES as u64 {
        let there = (bytes - from).min(SEARCH_BYTES as u64) as usize;
        let window = &mut window[..there];
        source.read_at(from, window)?;
        let places = window.len() - BLOCK_HEAD_BYTES + 1;
        for at in (0..places).filter(|at| window[*at] == MARKER[0]) {
            if let Some(block) = block_at(from + at as u64, &window[at..]) {
                return Ok(Some(block));
            }
        }
        from += places as u64;
    }
    Ok(None)
}

/// The decoder and buffers with which one thread reads blocks.
pub struct Reader {
    decoder: Decoder,
    stored: Vec<u8>,
    raw: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// Makes a reader with empty buffers.
    pub fn new() -> Self {
        Self { decoder: Decoder::new(), stored: Vec::new(), raw: Vec::new() }
    }

    /// The items of a block, each with its note; an error if the block is not right.
    pub fn items(
        &mut self,
        source: &dyn Source,
        block: &Block,
    ) -> Result<impl Iterator<Item = (u32, Row<'_>)>, Lost> {
        let rows = block.head.rows as usize;
        let raw = self.payload(source, block)?;
        let (notes, rows) = raw.split_at_checked(rows * NOTE_BYTES).ok_or(Lost)?;
        let mut rows = Rows::new(rows);
        // An invalid row ends them: the checksum was right, so it was written that way.
        Ok(notes.chunks_exact(NOTE_BYTES).map_while(move |note| {
            let note = u32::from_le_bytes(*note.first_chunk()?);
            rows.next_row().ok().map(|row| (note, row))
        }))
    }

    /// A piece of a long value.
    pub fn piece(&mut self, source: &dyn Source, block: &Block) -> Result<&[u8], Lost> {
        self.payload(source, block)
    }

    fn payload(&mut self, source: &dyn Source, block: &Block) -> Result<&[u8], Lost> {
        let BlockHead { method, raw_bytes, stored_bytes, sum, .. } = block.head;
        self.stored.resize(stored_bytes as usize, 0);
        self.raw.resize(raw_bytes as usize, 0);
        let offset = block.offset + BLOCK_HEAD_BYTES as u64;
        source.read_at(offset, &mut self.stored).map_err(|_| Lost)?;
        if checksum(&self.stored) != sum {
            return Err(Lost);
        }
        let decoded = self.decoder.decode(method, None, &self.stored, &mut self.raw);
        decoded.map_err(|Damaged| Lost)?;
        Ok(&self.raw)
    }
}
