//! What tells which segments are valid, and which items are in one.
//!
//! ```text
//!   the segment table's entry (a note)            the item table (the end of its segment)
//!    0          8             12                   ... | item 0 | item 1 | ... | tail |  end
//!   +----------+-------------+---------------+
//!   | sequence | item table's| CRC-32C of    |    item   hash u64, word u32
//!   | u64      | bytes u32   | the 12 before |    word   granule << 4 | span << 1 | dead
//!   +----------+-------------+---------------+    tail   sequence u64, items u32, CRC-32C u32
//!   all zeros: nothing valid
//!   the highest bit of the bytes: the segment is hot
//! ```
//!
//! The items stand in the order of units and rows, so the items with one granule are the rows of
//! the unit there, dead ones too. Dead are rows that the index did not lead to when their unit was
//! sealed; what died later is in the journal.

use codec::Damaged;

use crate::area::Area;
use crate::geometry::{ENTRY_BYTES, SEGMENT_BYTES_MAX};

/// Bytes of an item of the item table.
pub(crate) const ITEM_BYTES: usize = 8 + 4;
/// Bytes behind the items.
pub(crate) const TAIL_BYTES: usize = 8 + 4 + 4;

/// Set in the bytes of a hot segment's item table.
const HOT_SHIFT: u32 = u32::BITS - 1;

const DEAD: u32 = 1;
const SPAN_SHIFT: u32 = 1;
const GRANULE_SHIFT: u32 = 4;

const _: () = assert!(ENTRY_BYTES == 8 + 4 + 4 && (SEGMENT_BYTES_MAX >> 6) <= 1 << 28);
const _: () = assert!(SEGMENT_BYTES_MAX < 1 << HOT_SHIFT);

/// An entry of the segment table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) sequence: u64,
    pub(crate) table_bytes: u32,
    pub(crate) area: Area,
}

impl Entry {
    pub(crate) fn encode(self) -> [u8; ENTRY_BYTES] {
        assert!(self.sequence != 0, "sequences begin at 1");
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        let word = self.table_bytes | (self.area as u32) << HOT_SHIFT;
        bytes[8..12].copy_from_slice(&word.to_le_bytes());
        let sum = codec::checksum(&bytes[..12]);
        bytes[12..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The entry in these bytes; nothing if they are zeros or damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (sequence, rest) = bytes.split_first_chunk()?;
        let (table_bytes, rest) = rest.split_first_chunk()?;
        let (sum, _) = rest.split_first_chunk()?;
        let sequence = u64::from_le_bytes(*sequence);
        let is_sound = u32::from_le_bytes(*sum) == codec::checksum(&bytes[..12]);
        let word = u32::from_le_bytes(*table_bytes);
        let area = Area::from_bit(u64::from(word >> HOT_SHIFT));
        let table_bytes = word & !(1 << HOT_SHIFT);
        (is_sound && sequence != 0).then_some(Self { sequence, table_bytes, area })
    }
}

/// A row of a unit, as the item table has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) hash: u64,
    pub(crate) granule: u32,
    pub(crate) span: u8,
    pub(crate) is_dead: bool,
}

/// Bytes of an item table.
pub(crate) fn table_bytes(items: usize) -> usize {
    items * ITEM_BYTES + TAIL_BYTES
}

/// Writes the item table into the end of a segment's bytes, and returns its length.
pub(crate) fn write_items(items: &[Item], sequence: u64, segment: &mut [u8]) -> u32 {
    let length = table_bytes(items.len());
    let start = segment.len() - length;
    let table = &mut segment[start..];
    for (item, target) in items.iter().zip(table.chunks_exact_mut(ITEM_BYTES)) {
        let dead = if item.is_dead { DEAD } else { 0 };
        let word = item.granule << GRANULE_SHIFT | u32::from(item.span) << SPAN_SHIFT | dead;
        target[..8].copy_from_slice(&item.hash.to_le_bytes());
        target[8..].copy_from_slice(&word.to_le_bytes());
    }
    let tail = items.len() * ITEM_BYTES;
    table[tail..tail + 8].copy_from_slice(&sequence.to_le_bytes());
    table[tail + 8..tail + 12].copy_from_slice(&(items.len() as u32).to_le_bytes());
    let sum = codec::checksum(&table[..tail + 12]);
    table[tail + 12..].copy_from_slice(&sum.to_le_bytes());
    length as u32
}

/// Reads the item table at the end of these bytes, which are a segment's last ones.
pub(crate) fn read_items(entry: Entry, bytes: &[u8]) -> Result<Vec<Item>, Damaged> {
    let length = entry.table_bytes as usize;
    let start = bytes.len().checked_sub(length).ok_or(Damaged)?;
    let (items, tail) = bytes[start..].split_last_chunk::<TAIL_BYTES>().ok_or(Damaged)?;
    let (&sequence, rest) = tail.split_first_chunk().ok_or(Damaged)?;
    let (&count, sum) = rest.split_first_chunk().ok_or(Damaged)?;
    let sum = u32::from_le_bytes(sum.try_into().map_err(|_| Damaged)?);
    let is_sound = u64::from_le_bytes(sequence) == entry.sequence
        && u32::from_le_bytes(count) as usize * ITEM_BYTES == items.len()
        && codec::checksum(&bytes[start..bytes.len() - 4]) == sum;
    if !is_sound {
        return Err(Damaged);
    }
    Ok(items.chunks_exact(ITEM_BYTES).map(read_item).collect())
}

fn read_item(bytes: &[u8]) -> Item {
    let (hash, word) = bytes.split_first_chunk().expect("an item has its length");
    let word = u32::from_le_bytes(word.try_into().expect("an item has its length"));
    Item {
        hash: u64::from_le_bytes(*hash),
        granule: word >> GRANULE_SHIFT,
        span: (word >> SPAN_SHIFT) as u8 & 7,
        is_dead: word & DEAD != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items() -> Vec<Item> {
        let item = |index: u32| Item {
            hash: u64::from(index) << 40 | 5,
            granule: (1 << 17) - 1 - index,
            span: (index % 7 + 1) as u8,
            is_dead: index.is_multiple_of(3),
        };
        (0..20).map(item).collect()
    }

    #[test]
    fn an_entry_comes_back_and_zeros_are_none() {
        for area in Area::ALL {
            let entry = Entry { sequence: 77, table_bytes: 1234, area };
            let bytes = entry.encode();
            assert_eq!(Entry::decode(&bytes), Some(entry));
            for at in 0..ENTRY_BYTES {
                let mut changed = bytes;
                changed[at] ^= 0x80;
                assert_eq!(Entry::decode(&changed), None, "{at}");
            }
        }
        assert_eq!(Entry::decode(&[0; ENTRY_BYTES]), None);
    }

    #[test]
    fn an_item_table_comes_back_from_the_end_of_a_segment() {
        for count in [0, 1, 20] {
            let items = &items()[..count];
            let mut segment = vec![0xee; 1000];
            let table_bytes = write_items(items, 9, &mut segment);
            assert_eq!(table_bytes as usize, super::table_bytes(count));
            assert!(segment[..1000 - table_bytes as usize].iter().all(|&byte| byte == 0xee));
            let entry = Entry { sequence: 9, table_bytes, area: Area::Cold };
            assert_eq!(read_items(entry, &segment).expect("sound"), items);
            assert_eq!(read_items(entry, &segment[500..]).expect("sound"), items);
            assert!(read_items(Entry { sequence: 8, ..entry }, &segment).is_err());
        }
    }

    #[test]
    fn a_changed_or_shorter_item_table_is_damage() {
        let mut segment = vec![0; 300];
        let table_bytes = write_items(&items(), 9, &mut segment);
        let entry = Entry { sequence: 9, table_bytes, area: Area::Hot };
        for at in segment.len() - table_bytes as usize..segment.len() {
            segment[at] ^= 1;
            assert!(read_items(entry, &segment).is_err(), "{at}");
            segment[at] ^= 1;
        }
        for table_bytes in (0..301).filter(|&other| other != table_bytes) {
            assert!(read_items(Entry { table_bytes, ..entry }, &segment).is_err());
        }
    }
}
