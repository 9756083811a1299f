//! An image: the items of a memory as bytes of a file, for a later process.
//!
//! ```text
//!   head | block | block | ... | end | dictionary
//!
//!   the most valuable items first, so that an image cut short for want of time holds the best
//!
//!   head    magic version wall_at nonce saved_at flush_at sequence share_ppm items limit checksum
//!   bytes     8      4       4      8      4        4        8         4       8     8      4
//!
//!   block   marker kind method 0  number rows raw_bytes stored_bytes sum checksum | payload
//!   bytes     4     1     1    2    8     4       4          4        4      4    |  stored_bytes
//!
//!   payload, decoded    of items    notes, u32 each | rows, as `record` has them
//!                       of a piece  bytes of the long value that the row before it leaves open
//!                       of the end  items and bytes of keys and values in all, u64 each
//!                       of a dictionary  its bytes: blocks of the compressed zone were encoded
//!                                   with it, so that as much fits again as did; there may be none
//! ```
//!
//! All numbers are little-endian. The head has 64 bytes. A block holds a few hundred KiB and
//! nothing that refers to another, but for a long value: its row stands alone in a block, with its
//! pieces right behind. A *note* is a tier's own datum of an item, beside its record ([`Tier`]). A
//! reader that knows no dictionaries stops at the end, and reads all items.
//!
//! The first version had 0 in the place of `wall_at`, and can be read as well.
//!
//! # Damage
//!
//! Nothing is taken on trust: `sum` is the checksum of the payload as it is stored, and `checksum`
//! that of everything before it in the head, behind the nonce of this image. A block that fails is
//! left out, with the pieces of a long value as a whole. Where a block's own head is damaged, the
//! next marker with a right checksum and a higher number is searched for. A client cannot make a
//! value look like a block: it does not know the nonce. Numbers without a gap and the totals of the
//! end show that nothing is missing ([`Table::is_whole`]).
//!
//! Whatever the bytes are, at most twice [`PAYLOAD_BYTES_MAX`] are allocated for a block, and for
//! the table as much as there are right heads.

mod read;
mod write;

pub use read::{Block, Lost, OpenError, Reader, Source, Table, open};
pub use write::{Totals, Writer};

use crate::{Method, checksum};

/// The first bytes of every image.
pub const MAGIC: [u8; 8] = *b"LARDERIM";
/// The format that is written.
pub const VERSION: u32 = 2;
/// The previous format, without [`Head::wall_at`].
const VERSION_BEFORE: u32 = 1;

/// A block is full with this many bytes of notes and rows. With more it hardly compresses better.
const BLOCK_BYTES: usize = 256 << 10;
/// A row longer than this has its value stored as a long one.
const LONG_BYTES: usize = BLOCK_BYTES / 2;
/// The longest payload, decoded or as it is stored.
pub const PAYLOAD_BYTES_MAX: usize = 2 * BLOCK_BYTES;
const _: () = assert!(BLOCK_BYTES + LONG_BYTES < PAYLOAD_BYTES_MAX);

/// Bytes of the head.
pub const HEAD_BYTES: usize = 64;
const BLOCK_HEAD_BYTES: usize = 36;
const MARKER: [u8; 4] = [0xb1, b'l', b'i', 0x0c];
const NOTE_BYTES: usize = 4;
/// The highest sequence number that is accepted: it leaves room to go on from.
const SEQUENCE_MAX: u64 = u64::MAX >> 2;
const PPM: u32 = 1_000_000;

/// Where an item was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// In the hot zone; the note is the low half of its number in the sequence of mutations.
    Hot,
    /// In the compressed zone; the note is the count of its accesses there.
    Compressed,
}

/// The head, with which an image begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Drawn for each image.
    pub nonce: u64,
    /// Unix seconds by the clock that expiries go by: it was right when its process began, and may
    /// have been ahead of the wall clock or behind it since.
    pub saved_at: u32,
    /// The same moment by the wall clock. `None` in an image of the version that did not have it.
    pub wall_at: Option<u32>,
    /// Seconds, by the clock of `saved_at`, at which everything is to be flushed; 0 never.
    pub flush_at: u32,
    /// The last number of the sequence of mutations.
    pub sequence: u64,
    /// The compressed zone's share of the memory, in millionths.
    pub share_ppm: u32,
    /// About how many items were in the hot zone; 0 if that is not known. Only an estimate of what
    /// is worth preparing depends on it.
    pub hot_items: u64,
    /// The memory limit, in bytes, with these items; 0 if that is not known.
    pub limit_bytes: u64,
}

impl Head {
    /// The head as it is written.
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        let version = if self.wall_at.is_some() { VERSION } else { VERSION_BEFORE };
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.wall_at.unwrap_or(0).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.saved_at.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.flush_at.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.share_ppm.to_le_bytes());
        bytes[44..52].copy_from_slice(&self.hot_items.to_le_bytes());
        bytes[52..60].copy_from_slice(&self.limit_bytes.to_le_bytes());
        let sum = checksum(&bytes[..HEAD_BYTES - 4]);
        bytes[HEAD_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the head from the first bytes of a file, fewer if it has no more.
    pub fn parse(bytes: &[u8]) -> Result<Self, OpenError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(OpenError::Foreign);
        }
        let bytes: &[u8; HEAD_BYTES] = bytes.first_chunk().ok_or(OpenError::Damaged)?;
        let version = u32_at(bytes, 8);
        let wall_at = match version {
            VERSION => Some(u32_at(bytes, 12)),
            VERSION_BEFORE => None,
            _ => return Err(OpenError::Version(version)),
        };
        let head = Self {
            nonce: u64_at(bytes, 16),
            saved_at: u32_at(bytes, 24),
            wall_at,
            flush_at: u32_at(bytes, 28),
            sequence: u64_at(bytes, 32),
            share_ppm: u32_at(bytes, 40),
            hot_items: u64_at(bytes, 44),
            limit_bytes: u64_at(bytes, 52),
        };
        let is_sound = checksum(&bytes[..HEAD_BYTES - 4]) == u32_at(bytes, HEAD_BYTES - 4)
            && head.sequence <= SEQUENCE_MAX
            && head.share_ppm <= PPM;
        if is_sound { Ok(head) } else { Err(OpenError::Damaged) }
    }

    /// The compressed zone's share of the memory.
    pub fn share(&self) -> f64 {
        f64::from(self.share_ppm) / f64::from(PPM)
    }

    /// How many items the hot zone may be expected to have again, with this memory limit.
    pub fn expected_hot_items(&self, limit_bytes: u64) -> u64 {
        let share = limit_bytes as f64 / self.limit_bytes.max(1) as f64;
        (self.hot_items as f64 * share.min(1.0)) as u64
    }

    /// A share as it is written, in millionths.
    pub fn ppm_of(share: f64) -> u32 {
        (share.clamp(0.0, 1.0) * f64::from(PPM)) as u32
    }
}

/// The content of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Items(Tier),
    Piece,
    End,
    Dictionary,
}

impl Kind {
    const ALL: [(u8, Self); 5] = [
        (1, Self::Items(Tier::Hot)),
        (2, Self::Items(Tier::Compressed)),
        (3, Self::Piece),
        (4, Self::End),
        (5, Self::Dictionary),
    ];

    fn code(self) -> u8 {
        let found = Self::ALL.iter().find(|(_, kind)| *kind == self);
        found.expect("every kind has a code").0
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == code).map(|(_, kind)| *kind)
    }
}

/// The head of a block, which stands before the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockHead {
    kind: Kind,
    method: Method,
    number: u64,
    rows: u32,
    raw_bytes: u32,
    stored_bytes: u32,
    sum: u32,
}

impl BlockHead {
    fn to_bytes(self, nonce: u64) -> [u8; BLOCK_HEAD_BYTES] {
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        bytes[..4].copy_from_slice(&MARKER);
        (bytes[4], bytes[5]) = (self.kind.code(), self.method.code());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.rows.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.raw_bytes.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.sum.to_le_bytes());
        let checksum = Self::checksum(nonce, &bytes);
        bytes[32..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn parse(nonce: u64, bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BLOCK_HEAD_BYTES] = bytes.first_chunk()?;
        if bytes[..4] != MARKER || Self::checksum(nonce, bytes) != u32_at(bytes, 32) {
            return None;
        }
        let head = Self {
            kind: Kind::from_code(bytes[4])?,
            method: Method::from_code(bytes[5])?,
            number: u64_at(bytes, 8),
            rows: u32_at(bytes, 16),
            raw_bytes: u32_at(bytes, 20),
            stored_bytes: u32_at(bytes, 24),
            sum: u32_at(bytes, 28),
        };
        let is_sound = head.raw_bytes as usize <= PAYLOAD_BYTES_MAX
            && head.stored_bytes <= head.raw_bytes
            && head.rows as usize * NOTE_BYTES <= head.raw_bytes as usize;
        is_sound.then_some(head)
    }

    fn checksum(nonce: u64, bytes: &[u8; BLOCK_HEAD_BYTES]) -> u32 {
        let mut known = [0; 8 + BLOCK_HEAD_BYTES - 4];
        known[..8].copy_from_slice(&nonce.to_le_bytes());
        known[8..].copy_from_slice(&bytes[..BLOCK_HEAD_BYTES - 4]);
        checksum(&known)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("within a head of fixed length"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("within a head of fixed length"))
}
