//! The format of a journal: its bytes, and which items are dead by them.
//!
//! A damaged journal is not believed, and neither is its segment: otherwise items that it had noted
//! as dead would be alive. Each block of a filter has a check, which also tells the segment's life
//! ([`mod@crate::checked`]). An entry has one bit for that, which costs no room: it finds any
//! flipped bit, and half of the entries of an earlier life. The stamp is written when the segment
//! becomes valid, and tells a page of an earlier life, or one that was never written. The marks
//! differ in half of their bits. And a page's worth of empty entries never stands before one that
//! is not empty.
//!
//! This cannot find a page that is sound, and of this life, but old, because a drive lost a write
//! that it had confirmed. In a list of several pages that may be the last one, as it was before it
//! had any entries. Only a count of notes that is kept elsewhere would tell, with a write for each
//! note.

use std::collections::HashSet;

use ::io::device::PAGE_BYTES;
use codec::Damaged;
use stdx::random::mix;

use crate::checked::{BLOCK_BITS, Block, stamp};
use crate::geometry::{Geometry, JOURNAL_ENTRY_BYTES};
use crate::table::Item;

const MARK_LIST: u32 = 0;
/// As far from the other marks as can be.
pub(crate) const MARK_DISTRUSTED: u32 = u32::MAX;
/// To be replaced with every change of a filter's bits, or a start would take items that an earlier
/// build noted as dead for alive. Half of its bits are set.
pub(crate) const MARK_FILTER: u32 = 0x5a5a_a5a5;
/// Slots of four bytes before the first entry: the mark and the stamp.
pub(crate) const HEAD_SLOTS: u32 = 2;
/// The stamp's slot.
pub(crate) const STAMP_SLOT: u32 = 1;
/// The bit of an entry that checks the others.
const CHECK_SHIFT: u32 = u32::BITS - 1;
/// Threads killed on the way to their slots, before a later one was written, do not leave this many
/// empty slots: that is a lost page.
const HOLE_SLOTS: usize = PAGE_BYTES / JOURNAL_ENTRY_BYTES;

/// The contents of a journal at the start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It has overflowed.
    Distrusted,
    /// These items are dead.
    Dead(Dead),
}

/// The dead items of a journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    form: Form,
}

#[derive(Debug, PartialEq, Eq)]
enum Form {
    List(List),
    /// The blocks of a filter.
    Filter(Vec<Block>),
}

/// The entries, and the number of slots up to the last one that is written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) entries: HashSet<u32>,
    taken: u32,
}

impl Dead {
    /// Of an empty journal.
    pub(crate) fn none() -> Self {
        Self { form: Form::List(List::default()) }
    }

    pub(crate) fn contains(&self, geometry: &Geometry, item: &Item) -> bool {
        let entry = || geometry.journal_entry(item.granule, item.hash);
        item.is_dead
            || match &self.form {
                Form::List(list) => list.entries.contains(&entry()),
                Form::Filter(blocks) => Bits::of(entry(), blocks.len()).are_in(blocks),
            }
    }

    /// Slots of the list up to the last one that is written; `None` for a filter.
    pub(crate) fn taken(&self) -> Option<u32> {
        match &self.form {
            Form::List(list) => Some(list.taken),
            Form::Filter(_) => None,
        }
    }

    /// A list without entries, with this many slots taken.
    #[cfg(test)]
    pub(crate) fn with_taken(taken: u32) -> Self {
        Self { form: Form::List(List { taken, ..List::default() }) }
    }
}

/// Reads the journal of a segment with this sequence. A slot that was taken when the process died
/// may be empty among others.
pub(crate) fn read(bytes: &[u8], sequence: u64) -> Result<Found, Damaged> {
    let (Some(mark), Some(stamped)) = (slot(bytes, 0), slot(bytes, STAMP_SLOT)) else {
        return Err(Damaged);
    };
    if stamped != stamp(sequence, 0) {
        return Err(Damaged);
    }
    let form = match mark {
        MARK_LIST => Form::List(read_list(bytes, sequence)?),
        MARK_FILTER => Form::Filter(read_blocks(bytes, sequence)?),
        MARK_DISTRUSTED => return Ok(Found::Distrusted),
        _ => return Err(Damaged),
    };
    Ok(Found::Dead(Dead { form }))
}

fn slot(bytes: &[u8], slot: u32) -> Option<u32> {
    let at = slot as usize * JOURNAL_ENTRY_BYTES;
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Reads a list, whatever the journal's head says.
pub(crate) fn read_list(bytes: &[u8], sequence: u64) -> Result<List, Damaged> {
    let mut list = List::default();
    for (slot, found) in entries_of(bytes) {
        let index = slot - HEAD_SLOTS + 1;
        let entry = found & !(1 << CHECK_SHIFT);
        let hole = (index - list.taken - 1) as usize;
        let is_sound = entry.count_ones() >= 2 && with_check(entry, sequence, slot) == found;
        if !is_sound || hole >= HOLE_SLOTS {
            return Err(Damaged);
        }
        list.entries.insert(entry);
        list.taken = index;
    }
    Ok(list)
}

/// The slots of a list that have an entry, and the entries.
fn entries_of(bytes: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    let (slots, _) = bytes.as_chunks();
    let slots = (0..).zip(slots.iter().map(|entry| u32::from_le_bytes(*entry)));
    slots.skip(HEAD_SLOTS as usize).filter(|(_, entry)| *entry != 0)
}

/// An entry as it is written to a slot. It has at least two bits set ([`Geometry::journal_entry`]),
/// so that a flipped one neither passes nor leaves an empty slot.
pub(crate) fn with_check(entry: u32, sequence: u64, slot: u32) -> u32 {
    entry | (entry.count_ones() ^ stamp(sequence, slot)) << CHECK_SHIFT
}

fn read_blocks(bytes: &[u8], sequence: u64) -> Result<Vec<Block>, Damaged> {
    let (blocks, _) = bytes.as_chunks();
    let blocks = (0..).zip(blocks).skip(1);
    blocks.map(|(number, bytes)| Block::decode(bytes, sequence, number)).collect()
}

/// Corrects the checks of a journal, and leaves its marks.
#[cfg(any(test, fuzzing))]
pub(crate) fn put_right(bytes: &mut [u8], sequence: u64) {
    let mark = slot(bytes, 0);
    let mut put = |slot: u32, value: u32| {
        let at = slot as usize * JOURNAL_ENTRY_BYTES;
        if let Some(bytes) = bytes.get_mut(at..at + JOURNAL_ENTRY_BYTES) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    };
    put(STAMP_SLOT, stamp(sequence, 0));
    if mark == Some(MARK_LIST) {
        let entries: Vec<_> = entries_of(bytes).collect();
        for (slot, entry) in entries {
            let entry = with_check(entry & !(1 << CHECK_SHIFT) | 0b11, sequence, slot);
            let at = slot as usize * JOURNAL_ENTRY_BYTES;
            bytes[at..at + JOURNAL_ENTRY_BYTES].copy_from_slice(&entry.to_le_bytes());
        }
    } else if mark == Some(MARK_FILTER) {
        let (blocks, _) = bytes.as_chunks_mut();
        for (number, block) in (0..).zip(blocks).skip(1) {
            *block = Block::put_right(*block, sequence, number);
        }
    }
}

/// The bits of an entry in a filter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bits {
    pub(crate) block: usize,
    /// Positions in the block.
    bits: [usize; 3],
}

impl Bits {
    /// The bits of an entry in a filter of `blocks` blocks.
    pub(crate) fn of(entry: u32, blocks: usize) -> Self {
        // Entries of neighbours differ in few bits.
        let mixed = mix(entry.into());
        // The rest of the fraction after one number is the fraction for the next.
        let mut fraction = mixed as u32;
        let bits = [(); 3].map(|()| {
            let scaled = u64::from(fraction) * BLOCK_BITS as u64;
            fraction = scaled as u32;
            (scaled >> 32) as usize
        });
        Self { block: (((mixed >> 32) * blocks as u64) >> 32) as usize, bits }
    }

    /// The number of the block in the journal, counted from behind the head.
    pub(crate) fn number(self) -> u32 {
        self.block as u32 + 1
    }

    /// Sets the bits in their block; returns whether one was not set.
    pub(crate) fn set(self, block: &mut Block) -> bool {
        self.bits.iter().fold(false, |is_new, &bit| block.set(bit) | is_new)
    }

    fn are_in(self, blocks: &[Block]) -> bool {
        self.bits.iter().all(|&bit| blocks[self.block].has(bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checked::BLOCK_BYTES;

    const LIFE: u64 = 5;

    /// A list of `length` bytes with these entries, by their numbers from 1 on.
    fn list(entries: &[(u32, u32)], length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut put = |slot: u32, value: u32| {
            bytes[slot as usize * 4..][..4].copy_from_slice(&value.to_le_bytes());
        };
        put(STAMP_SLOT, stamp(LIFE, 0));
        for &(index, entry) in entries {
            let slot = index + HEAD_SLOTS - 1;
            put(slot, with_check(entry, LIFE, slot));
        }
        bytes
    }

    /// A filter of `blocks` blocks with these entries.
    fn filter(entries: &[u32], blocks: usize) -> Vec<u8> {
        let mut found = vec![Block::EMPTY; blocks];
        for &entry in entries {
            let bits = Bits::of(entry, blocks);
            bits.set(&mut found[bits.block]);
        }
        let mut bytes = list(&[], BLOCK_BYTES);
        bytes[..4].copy_from_slice(&MARK_FILTER.to_le_bytes());
        for (number, block) in (1..).zip(found) {
            bytes.extend_from_slice(&block.encode(LIFE, number));
        }
        bytes
    }

    #[test]
    fn a_journal_with_a_hole_is_read_to_its_last_entry() {
        assert_eq!(read(&list(&[], 32), LIFE), Ok(Found::Dead(Dead::none())));
        let mut bytes = list(&[(1, 7), (3, 9)], 32);
        let Ok(Found::Dead(dead)) = read(&bytes, LIFE) else { panic!("it has not run over") };
        let entries = HashSet::from([7, 9]);
        assert_eq!(dead.form, Form::List(List { entries, taken: 3 }));
        bytes[..4].copy_from_slice(&MARK_DISTRUSTED.to_le_bytes());
        assert_eq!(read(&bytes, LIFE), Ok(Found::Distrusted));
        bytes[..4].copy_from_slice(&9_u32.to_le_bytes());
        assert_eq!(read(&bytes, LIFE), Err(Damaged), "whatever it is");
        assert_eq!(read(&[], LIFE), Err(Damaged));
    }

    /// Regression: a flipped entry named an item that did not exist, so that the one that had died
    /// was back; and a mark was one bit away from that of a list.
    #[test]
    fn a_flipped_bit_of_a_journal_is_damage_wherever_it_is() {
        let few = list(&[(1, 3), (2, 0x7fff_ffff), (3, 0x4000_0001), (7, 0x000a_6def)], 64);
        let mut marked = few.clone();
        marked[..4].copy_from_slice(&MARK_DISTRUSTED.to_le_bytes());
        for sound in [list(&[], 64), few, marked, filter(&[3, 77, 0x4000_0001], 3)] {
            let is_filter = sound.starts_with(&MARK_FILTER.to_le_bytes());
            assert!(read(&sound, LIFE).is_ok());
            // Nothing is written between a filter's head and its first block.
            let unused = if is_filter { 64..BLOCK_BYTES * 8 } else { 0..0 };
            for bit in (0..sound.len() * 8).filter(|bit| !unused.contains(bit)) {
                let mut bytes = sound.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let found = read(&bytes, LIFE);
                // The bytes behind the mark of a distrusted journal say nothing.
                let is_distrusted = sound.starts_with(&[0xff; 4]) && bit >= 64;
                let expected = if is_distrusted { Ok(Found::Distrusted) } else { Err(Damaged) };
                assert_eq!(found, expected, "{bit}");
            }
        }
    }

    /// Each entry is written to a slot in which another life's entry passes one time in two; no
    /// slot is the same for both lives.
    #[test]
    fn an_entry_of_any_bits_has_a_check_of_its_life_and_slot() {
        let passes =
            |entry, slot| with_check(entry, LIFE, slot) == with_check(entry, LIFE + 1, slot);
        let passed = (2..2002).filter(|&slot| passes(0x000a_6def, slot)).count();
        assert!((900..1100).contains(&passed), "{passed}");
        for entry in [3, 0x7fff_ffff, 0x4000_0001] {
            for slot in 2..100 {
                assert_eq!(with_check(entry, LIFE, slot) & !(1 << CHECK_SHIFT), entry);
            }
        }
    }

    #[test]
    fn a_journal_of_an_earlier_life_or_that_was_never_written_is_damage() {
        for sound in [list(&[], 64), list(&[(1, 3)], 64), filter(&[3], 3)] {
            assert!(read(&sound, LIFE).is_ok());
            assert_eq!(read(&sound, LIFE + 1), Err(Damaged));
            assert_eq!(read(&vec![0; sound.len()], LIFE), Err(Damaged));
        }
        // The head was written in this life, and the rest was not.
        let mut bytes = filter(&[3], 3);
        bytes[64..].fill(0);
        assert_eq!(read(&bytes, LIFE), Err(Damaged));
        let other = |slot| 2 * slot + 1;
        let entries: Vec<_> = (1..40).map(|index| (index, other(index))).collect();
        let mut bytes = list(&entries, 256);
        bytes[4..8].copy_from_slice(&stamp(LIFE + 1, 0).to_le_bytes());
        assert_eq!(read(&bytes, LIFE + 1), Err(Damaged));
    }

    #[test]
    fn a_page_of_a_list_that_is_empty_before_one_that_is_not_is_damage() {
        let slots = HOLE_SLOTS as u32;
        let is_sound = |index| read(&list(&[(1, 3), (index, 5)], 4 * PAGE_BYTES), LIFE).is_ok();
        assert!(is_sound(2) && is_sound(slots + 1) && !is_sound(slots + 2));
    }

    /// If one of these numbers changes, so has the device's format: then [`MARK_FILTER`] has to
    /// change, too.
    #[test]
    fn an_entry_has_the_bits_that_it_had_when_the_mark_was_given() {
        for (entry, spots, bits) in [
            (0x0000_0003, [3, 57], [410, 305, 236]),
            (0x0002_0001, [4, 82], [134, 353, 405]),
            (0x7fff_ffff, [11, 195], [71, 212, 215]),
        ] {
            for (blocks, block) in [31, 511].into_iter().zip(spots) {
                let found = Bits::of(entry, blocks);
                assert_eq!((found.block, found.bits), (block, bits), "{entry:x} of {blocks}");
            }
        }
        assert_eq!([MARK_LIST, MARK_DISTRUSTED, MARK_FILTER], [0, 0xffff_ffff, 0x5a5a_a5a5]);
        let checked = [2, 3, 4, 5].map(|slot| with_check(0x000a_6def, LIFE, slot));
        assert_eq!(checked, [0x800a_6def, 0x000a_6def, 0x000a_6def, 0x800a_6def]);
    }

    #[test]
    fn marks_are_many_bits_apart() {
        let apart = |a: u32, b: u32| (a ^ b).count_ones();
        assert!(apart(MARK_LIST, MARK_FILTER) == 16 && apart(MARK_FILTER, MARK_DISTRUSTED) == 16);
    }

    /// Regression: earlier builds wrote filters with these marks, and each took items that another
    /// had noted as dead for alive.
    #[test]
    fn a_filter_of_an_earlier_format_is_not_believed() {
        let mut bytes = filter(&[3], 31);
        assert!(read(&bytes, LIFE).is_ok());
        for earlier in [2_u32, 3] {
            bytes[..4].copy_from_slice(&earlier.to_le_bytes());
            assert_eq!(read(&bytes, LIFE), Err(Damaged));
        }
    }

    #[test]
    fn a_filter_knows_its_entries_and_few_others() {
        const BLOCKS: usize = (32 << 10) / BLOCK_BYTES - 1;
        // As units of small rows have them: few granules, and hashes of every kind.
        let entry = |n: u32| (n / 90) << 17 | n.wrapping_mul(0x9e37_79b1) >> 15;
        let mut filter = vec![Block::EMPTY; BLOCKS];
        for (dead, taken_max) in [(7_168, 20), (11_500, 45), (20_000, 220)] {
            for n in 0..dead {
                let bits = Bits::of(entry(n), BLOCKS);
                bits.set(&mut filter[bits.block]);
                assert!(bits.are_in(&filter) && !bits.set(&mut filter[bits.block]));
            }
            let others = (dead..dead + 10_000).map(|n| Bits::of(entry(n), BLOCKS));
            let taken = others.filter(|bits| bits.are_in(&filter)).count();
            assert!(taken > 0 && taken < taken_max, "{taken} of 10000 beside {dead}");
        }
    }
}
