//! The superblock: what the first page of a device says of the rest.
//!
//! ```text
//!    0      8        12             16        24         40       56
//!   +-------+---------+---------------+----------+-----------+---------+-------+----------+
//!   | magic | version | segment bytes | segments | hash seed | boot id | clean | flush at |
//!   | 8     | u32     | u32           | u64      | 16        | 16      | u32   | u32      |
//!   +-------+---------+---------------+----------+-----------+---------+-------+----------+
//!   | void below | unsettled from | unsettled below | untimed below | number | seen at |
//!   | u64     64 | u64         72 | u64          80 | u64        88 | u64 96 | u32 104 |
//!   +------------+----------------+-----------------+---------------+--------+---------+
//!   | hash check | changes' life | CRC-32C |
//!   | u64    108 | u64       116 | u32 124 |
//!   +------------+---------------+---------+
//! ```
//!
//! Segments count by their sequence: none below `void_below` (a flush raises it). Those from
//! `unsettled_from` up to `unsettled_below` were found at the last start and not yet given to the
//! index. As long as a key's old item is among them, it cannot be journalled dead when the key is
//! changed. So if the process is killed then, the next one believes of these segments only items
//! that are not among the changes ([`mod@crate::changes`]) of the life that is named here.
//!
//! Item tables, journals and the changes are hashes of keys, or parts of them. `hash check` is the
//! caller's hash function of a constant. A process with another function would not find the items,
//! nor note their deaths where a process with the first function looks for them: then nothing on
//! the device is believed.
//!
//! `flush at` is the second, in Unix time, at which everything is to become void; 0 for none. It is
//! here so that a plan outlasts the process that was asked for it.
//!
//! `seen at` and `number` are the time (Unix seconds) and the number of mutations that the
//! processes so far have reached, as last kept ([`mod@crate::reached`]). An item with an expiry in
//! a segment below `untimed below` is expired: the clock was put back after it was written.

use std::ops::Range;

use ::io::device::PAGE_BYTES;

use crate::Reached;

/// Raised with every change of the device's format, except of a journal's filter: that has marks of
/// its own ([`mod@crate::journal`]), and costs no more than the segments that have one.
pub(crate) const VERSION: u32 = 7;

/// No segment has a higher sequence: a device takes at least some microseconds to open a segment,
/// so none gets there, and a higher one on a device is damage. This leaves room for the segments
/// opened after it, and for the bits beside it in a segment's word.
pub(crate) const SEQUENCE_MAX: u64 = 1 << 60;

/// No mutation has a higher number, for the same reason.
const NUMBER_MAX: u64 = 1 << 62;

const MAGIC: [u8; 8] = *b"LarderFL";
const VERSION_AT: usize = 8;
const SEGMENT_BYTES_AT: usize = 12;
const SEGMENTS_AT: usize = 16;
const HASH_SEED_AT: usize = 24;
const BOOT_ID_AT: usize = 40;
const CLEAN_AT: usize = 56;
const FLUSH_AT_AT: usize = 60;
const VOID_BELOW_AT: usize = 64;
const UNSETTLED_FROM_AT: usize = 72;
const UNSETTLED_BELOW_AT: usize = 80;
const UNTIMED_BELOW_AT: usize = 88;
const NUMBER_AT: usize = 96;
const SEEN_AT_AT: usize = 104;
const HASH_CHECK_AT: usize = 108;
const CHANGES_LIFE_AT: usize = 116;
const CRC_AT: usize = 124;

/// Bytes of the superblock.
pub(crate) const SUPERBLOCK_BYTES: usize = CRC_AT + 4;

const _: () = assert!(SUPERBLOCK_BYTES <= PAGE_BYTES && BOOT_ID_AT + 16 == CLEAN_AT);

/// The contents of the first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) segment_bytes: u32,
    pub(crate) segments: u64,
    pub(crate) hash_seed: [u8; 16],
    pub(crate) boot_id: [u8; 16],
    /// The device was closed after everything had been written, and not opened since.
    pub(crate) clean: bool,
    pub(crate) flush_at: u32,
    pub(crate) void_below: u64,
    pub(crate) unsettled_from: u64,
    pub(crate) unsettled_below: u64,
    pub(crate) untimed_below: u64,
    pub(crate) reached: Reached,
    /// The [`crate::Settings::hash_check`] of the process that has the device.
    pub(crate) hash_check: u64,
    /// A sequence with which no filter of the changes was begun before.
    pub(crate) changes_life: u64,
}

/// Why a first page is no superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSuperblock {
    /// It is all zeros.
    Blank,
    /// It does not begin like a superblock.
    Foreign,
    /// It is another version's.
    Version(u32),
    /// It is a damaged one of this version.
    Damaged,
}

impl Superblock {
    /// Whether a segment with this sequence counts.
    pub(crate) fn counts(&self, sequence: u64) -> bool {
        sequence != 0 && sequence >= self.void_below
    }

    /// The sequences of the segments that were found, and not all given to the index.
    pub(crate) fn unsettled(&self) -> Range<u64> {
        self.unsettled_from..self.unsettled_below
    }

    pub(crate) fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &MAGIC);
        put(VERSION_AT, &VERSION.to_le_bytes());
        put(SEGMENT_BYTES_AT, &self.segment_bytes.to_le_bytes());
        put(SEGMENTS_AT, &self.segments.to_le_bytes());
        put(HASH_SEED_AT, &self.hash_seed);
        put(BOOT_ID_AT, &self.boot_id);
        put(CLEAN_AT, &u32::from(self.clean).to_le_bytes());
        put(FLUSH_AT_AT, &self.flush_at.to_le_bytes());
        put(VOID_BELOW_AT, &self.void_below.to_le_bytes());
        put(UNSETTLED_FROM_AT, &self.unsettled_from.to_le_bytes());
        put(UNSETTLED_BELOW_AT, &self.unsettled_below.to_le_bytes());
        put(UNTIMED_BELOW_AT, &self.untimed_below.to_le_bytes());
        put(NUMBER_AT, &self.reached.number.to_le_bytes());
        put(SEEN_AT_AT, &self.reached.now.to_le_bytes());
        put(HASH_CHECK_AT, &self.hash_check.to_le_bytes());
        put(CHANGES_LIFE_AT, &self.changes_life.to_le_bytes());
        let sum = codec::checksum(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes a first page. The version is checked before the checksum, since another version may
    /// have its checksum elsewhere.
    pub(crate) fn decode(page: &[u8; PAGE_BYTES]) -> Result<Self, NoSuperblock> {
        if page.iter().all(|&byte| byte == 0) {
            return Err(NoSuperblock::Blank);
        }
        if page[..MAGIC.len()] != MAGIC {
            return Err(NoSuperblock::Foreign);
        }
        let version = u32::from_le_bytes(part(page, VERSION_AT));
        if version != VERSION {
            return Err(NoSuperblock::Version(version));
        }
        if codec::checksum(&page[..CRC_AT]) != u32::from_le_bytes(part(page, CRC_AT)) {
            return Err(NoSuperblock::Damaged);
        }
        let superblock = Self {
            segment_bytes: u32::from_le_bytes(part(page, SEGMENT_BYTES_AT)),
            segments: u64::from_le_bytes(part(page, SEGMENTS_AT)),
            hash_seed: part(page, HASH_SEED_AT),
            boot_id: part(page, BOOT_ID_AT),
            clean: u32::from_le_bytes(part(page, CLEAN_AT)) != 0,
            flush_at: u32::from_le_bytes(part(page, FLUSH_AT_AT)),
            void_below: u64::from_le_bytes(part(page, VOID_BELOW_AT)),
            unsettled_from: u64::from_le_bytes(part(page, UNSETTLED_FROM_AT)),
            unsettled_below: u64::from_le_bytes(part(page, UNSETTLED_BELOW_AT)),
            untimed_below: u64::from_le_bytes(part(page, UNTIMED_BELOW_AT)),
            reached: Reached {
                now: u32::from_le_bytes(part(page, SEEN_AT_AT)),
                number: u64::from_le_bytes(part(page, NUMBER_AT)),
            },
            hash_check: u64::from_le_bytes(part(page, HASH_CHECK_AT)),
            changes_life: u64::from_le_bytes(part(page, CHANGES_LIFE_AT)),
        };
        let Self { void_below, unsettled_below, untimed_below, changes_life, .. } = superblock;
        let highest = void_below.max(unsettled_below).max(untimed_below).max(changes_life);
        let is_damaged = highest > SEQUENCE_MAX || superblock.reached.number > NUMBER_MAX;
        if is_damaged { Err(NoSuperblock::Damaged) } else { Ok(superblock) }
    }
}

/// Makes a page a superblock of this version with a right checksum, whatever else it says.
#[cfg(any(test, fuzzing))]
pub(crate) fn put_right(page: &mut [u8; PAGE_BYTES]) {
    page[..MAGIC.len()].copy_from_slice(&MAGIC);
    page[VERSION_AT..SEGMENT_BYTES_AT].copy_from_slice(&VERSION.to_le_bytes());
    let sum = codec::checksum(&page[..CRC_AT]);
    page[CRC_AT..SUPERBLOCK_BYTES].copy_from_slice(&sum.to_le_bytes());
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the range has this length")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        Superblock {
            segment_bytes: 1 << 20,
            segments: 1000,
            hash_seed: [1; 16],
            boot_id: [2; 16],
            clean: true,
            flush_at: 5,
            void_below: 7,
            unsettled_from: 10,
            unsettled_below: 20,
            untimed_below: 6,
            reached: Reached { now: 30, number: 40 },
            hash_check: 50,
            changes_life: 60,
        }
    }

    fn page() -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        page[..SUPERBLOCK_BYTES].copy_from_slice(&superblock().encode());
        page
    }

    #[test]
    fn a_superblock_comes_back_as_it_was() {
        assert_eq!(Superblock::decode(&page()), Ok(superblock()));
        assert_eq!(Superblock::decode(&[0; PAGE_BYTES]), Err(NoSuperblock::Blank));
    }

    #[test]
    fn any_changed_byte_is_damage_or_another_version_or_foreign() {
        for at in 0..SUPERBLOCK_BYTES {
            let mut page = page();
            page[at] ^= 0x10;
            let found = Superblock::decode(&page).expect_err("changed");
            let expected = match at {
                0..VERSION_AT => NoSuperblock::Foreign,
                VERSION_AT..SEGMENT_BYTES_AT => {
                    NoSuperblock::Version(VERSION ^ 0x10 << (8 * (at - VERSION_AT)))
                }
                _ => NoSuperblock::Damaged,
            };
            assert_eq!(found, expected, "{at}");
        }
    }

    /// The next segment would have a higher sequence, and the highest number has none above it.
    #[test]
    fn a_sequence_that_leaves_none_for_the_next_segment_is_damage() {
        let decoded = |superblock: Superblock| {
            let mut page = page();
            page[..SUPERBLOCK_BYTES].copy_from_slice(&superblock.encode());
            Superblock::decode(&page)
        };
        for (sequence, is_sound) in
            [(SEQUENCE_MAX, true), (SEQUENCE_MAX + 1, false), (u64::MAX, false)]
        {
            let void = Superblock { void_below: sequence, ..superblock() };
            assert_eq!(decoded(void).is_ok(), is_sound, "{sequence}");
            let unsettled = Superblock { unsettled_below: sequence, ..superblock() };
            assert_eq!(decoded(unsettled).is_ok(), is_sound, "{sequence}");
            let untimed = Superblock { untimed_below: sequence, ..superblock() };
            assert_eq!(decoded(untimed).is_ok(), is_sound, "{sequence}");
            let changes = Superblock { changes_life: sequence, ..superblock() };
            assert_eq!(decoded(changes).is_ok(), is_sound, "{sequence}");
        }
    }

    #[test]
    fn void_segments_do_not_count() {
        let counts = |sequence| superblock().counts(sequence);
        assert!(!counts(0) && !counts(6) && counts(7) && counts(9));
        let blank = Superblock { void_below: 0, ..superblock() };
        assert!(!blank.counts(0) && blank.counts(1));
    }
}
