//! The segment table, which says which segments are valid, and the item tables, which say which
//! items are in one.
//!
//! ```text
//!   the segment table's entry (a note)            the item table (the end of its segment)
//!    0          8           12                      ... | unit 0 | unit 1 | ... | tail |  end
//!   +----------+-----------+---------------+
//!   | sequence | word u32  | CRC-32C of    |      unit   granule u32, rows u16, span u16, then the
//!   | u64      |           | the 12 before |             hash u64 of each row; 0: it is dead
//!   +----------+-----------+---------------+      tail   sequence u64, items u32, CRC-32C u32
//!   word       hot << 31 | dictionary << 24 | bytes of the item table
//!   all zeros  nothing valid
//! ```
//!
//! Items are in the order of units and rows, dead ones included: rows that the index did not lead
//! to when their unit was sealed. Items that died later are in the journal. An item whose hash is 0
//! counts as dead: the only effect is that the next start does not find it.

use codec::Damaged;

use crate::area::Area;
use crate::dictionaries::DICTIONARIES_MAX;
use crate::geometry::{ENTRY_BYTES, Geometry, SEGMENT_BYTES_MAX};
use crate::place::SPAN_LONG;
use crate::superblock::SEQUENCE_MAX;
use crate::unit::ROWS_MAX;

/// Bytes of an item of the item table.
const ITEM_BYTES: usize = 8;
/// Bytes before the items of a unit.
const UNIT_BYTES: usize = 4 + 2 + 2;
/// Bytes behind the items.
const TAIL_BYTES: usize = 8 + 4 + 4;

const HOT_SHIFT: u32 = u32::BITS - 1;
const DICTIONARY_SHIFT: u32 = 24;
const DICTIONARY_MASK: u32 = 0x7f;

const _: () = assert!(ENTRY_BYTES == 8 + 4 + 4 && ROWS_MAX <= u16::MAX as usize);
const _: () = assert!(SEGMENT_BYTES_MAX < 1 << DICTIONARY_SHIFT);
const _: () = assert!(DICTIONARIES_MAX <= DICTIONARY_MASK as usize);

/// An entry of the segment table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) sequence: u64,
    pub(crate) table_bytes: u32,
    pub(crate) area: Area,
    /// The number of the dictionary that its units may name; 0 for none.
    pub(crate) dictionary: u8,
}

impl Entry {
    pub(crate) fn encode(self) -> [u8; ENTRY_BYTES] {
        assert!(self.sequence != 0, "sequences begin at 1");
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        let word = self.table_bytes
            | u32::from(self.dictionary) << DICTIONARY_SHIFT
            | (self.area as u32) << HOT_SHIFT;
        bytes[8..12].copy_from_slice(&word.to_le_bytes());
        let sum = codec::checksum(&bytes[..12]);
        bytes[12..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes an entry; `None` if the bytes are zeros or damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (sequence, rest) = bytes.split_first_chunk()?;
        let (word, rest) = rest.split_first_chunk()?;
        let (sum, _) = rest.split_first_chunk()?;
        let sequence = u64::from_le_bytes(*sequence);
        let is_sound = u32::from_le_bytes(*sum) == codec::checksum(&bytes[..12])
            && (1..=SEQUENCE_MAX).contains(&sequence);
        let word = u32::from_le_bytes(*word);
        let area = Area::from_bit(u64::from(word >> HOT_SHIFT));
        let dictionary = (word >> DICTIONARY_SHIFT & DICTIONARY_MASK) as u8;
        let table_bytes = word & ((1 << DICTIONARY_SHIFT) - 1);
        is_sound.then_some(Self { sequence, table_bytes, area, dictionary })
    }
}

/// A row of a unit, as in the item table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) hash: u64,
    pub(crate) granule: u32,
    pub(crate) span: u8,
    pub(crate) is_dead: bool,
}

/// Bytes of an item table.
pub(crate) fn table_bytes(units: usize, items: usize) -> usize {
    units * UNIT_BYTES + items * ITEM_BYTES + TAIL_BYTES
}

/// The items of each unit: those with the same granule.
pub(crate) fn units(items: &[Item]) -> impl Iterator<Item = &[Item]> {
    items.chunk_by(|left, right| left.granule == right.granule)
}

/// Writes the item table into the end of a segment's bytes, and returns its length.
pub(crate) fn write_items(items: &[Item], sequence: u64, segment: &mut [u8]) -> u32 {
    let length = table_bytes(units(items).count(), items.len());
    let start = segment.len() - length;
    let mut table = &mut segment[start..];
    let mut put = |bytes: &[u8]| {
        let (target, rest) = std::mem::take(&mut table).split_at_mut(bytes.len());
        target.copy_from_slice(bytes);
        table = rest;
    };
    for items in units(items) {
        put(&items[0].granule.to_le_bytes());
        put(&(items.len() as u16).to_le_bytes());
        put(&u16::from(items[0].span).to_le_bytes());
        for item in items {
            put(&(if item.is_dead { 0 } else { item.hash }).to_le_bytes());
        }
    }
    put(&sequence.to_le_bytes());
    put(&(items.len() as u32).to_le_bytes());
    let sum_at = segment.len() - size_of::<u32>();
    let sum = codec::checksum(&segment[start..sum_at]);
    segment[sum_at..].copy_from_slice(&sum.to_le_bytes());
    length as u32
}

/// Corrects the checksum of an entry.
#[cfg(any(test, fuzzing))]
pub(crate) fn put_entry_right(bytes: &mut [u8]) {
    let (known, sum) = bytes.split_at_mut(12);
    sum.copy_from_slice(&codec::checksum(known).to_le_bytes());
}

/// Corrects the tail of an item table, which is at the end of these bytes.
#[cfg(any(test, fuzzing))]
pub(crate) fn put_items_right(entry: Entry, bytes: &mut [u8]) {
    let length = entry.table_bytes as usize;
    let Some(start) = bytes.len().checked_sub(length) else { return };
    let Some((_, tail)) = bytes[start..].split_last_chunk_mut::<TAIL_BYTES>() else { return };
    tail[..8].copy_from_slice(&entry.sequence.to_le_bytes());
    let sum_at = bytes.len() - size_of::<u32>();
    let sum = codec::checksum(&bytes[start..sum_at]);
    bytes[sum_at..].copy_from_slice(&sum.to_le_bytes());
}

/// Reads the item table at the end of these bytes, which are a segment's last ones. Each unit
/// begins behind the one before and in front of the table, has rows, and a span of pages, so that
/// each item has a place.
pub(crate) fn read_items(
    geometry: &Geometry,
    entry: Entry,
    bytes: &[u8],
) -> Result<Vec<Item>, Damaged> {
    let length = entry.table_bytes as usize;
    let start = bytes.len().checked_sub(length).ok_or(Damaged)?;
    let (mut units, tail) = bytes[start..].split_last_chunk::<TAIL_BYTES>().ok_or(Damaged)?;
    let (&sequence, rest) = tail.split_first_chunk().ok_or(Damaged)?;
    let (&count, sum) = rest.split_first_chunk().ok_or(Damaged)?;
    let sum = u32::from_le_bytes(sum.try_into().map_err(|_| Damaged)?);
    let is_sound = u64::from_le_bytes(sequence) == entry.sequence
        && codec::checksum(&bytes[start..bytes.len() - size_of::<u32>()]) == sum;
    if !is_sound {
        return Err(Damaged);
    }
    let units_end = geometry.segment_bytes.checked_sub(length).ok_or(Damaged)?;
    let mut items = Vec::with_capacity(units.len() / ITEM_BYTES);
    while !units.is_empty() {
        let before = items.last().map(|item: &Item| item.granule);
        units = read_unit(units, &mut items)?;
        let Item { granule, .. } = items.last().ok_or(Damaged)?;
        if before >= Some(*granule) || geometry.offset_of(*granule) >= units_end {
            return Err(Damaged);
        }
    }
    if items.len() == u32::from_le_bytes(count) as usize { Ok(items) } else { Err(Damaged) }
}

/// Reads the items of the first unit, and returns the bytes behind them.
fn read_unit<'b>(bytes: &'b [u8], items: &mut Vec<Item>) -> Result<&'b [u8], Damaged> {
    let (&granule, rest) = bytes.split_first_chunk().ok_or(Damaged)?;
    let (&rows, rest) = rest.split_first_chunk().ok_or(Damaged)?;
    let (&span, rest) = rest.split_first_chunk().ok_or(Damaged)?;
    let hashes_bytes = usize::from(u16::from_le_bytes(rows)) * ITEM_BYTES;
    let (hashes, rest) = rest.split_at_checked(hashes_bytes).ok_or(Damaged)?;
    let granule = u32::from_le_bytes(granule);
    let span = u8::try_from(u16::from_le_bytes(span)).map_err(|_| Damaged)?;
    if hashes.is_empty() || !(1..=SPAN_LONG).contains(&span) {
        return Err(Damaged);
    }
    items.extend(hashes.as_chunks().0.iter().map(|hash| {
        let hash = u64::from_le_bytes(*hash);
        Item { hash, granule, span, is_dead: hash == 0 }
    }));
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(400, 64 << 10).expect("it is large enough")
    }

    fn items() -> Vec<Item> {
        let item = |index: u32| Item {
            hash: if index.is_multiple_of(3) { 0 } else { u64::from(index) << 40 | 5 },
            granule: 1000 + index / 4,
            span: (index / 4 % 7 + 1) as u8,
            is_dead: index.is_multiple_of(3),
        };
        (0..20).map(item).collect()
    }

    #[test]
    fn an_entry_comes_back_and_zeros_are_none() {
        for area in Area::ALL {
            let entry = Entry { sequence: 77, table_bytes: (8 << 20) - 1, area, dictionary: 8 };
            let bytes = entry.encode();
            assert_eq!(Entry::decode(&bytes), Some(entry));
            for at in 0..ENTRY_BYTES {
                let mut changed = bytes;
                changed[at] ^= 0x80;
                assert_eq!(Entry::decode(&changed), None, "{at}");
            }
        }
        assert_eq!(Entry::decode(&[0; ENTRY_BYTES]), None);
        let of = |sequence| Entry { sequence, table_bytes: 9, area: Area::Hot, dictionary: 0 };
        for (sequence, is_sound) in [(SEQUENCE_MAX, true), (SEQUENCE_MAX + 1, false)] {
            let found = Entry::decode(&of(sequence).encode());
            assert_eq!(found, Some(of(sequence)).filter(|_| is_sound));
        }
    }

    #[test]
    fn an_item_table_comes_back_from_the_end_of_a_segment() {
        for count in [0, 1, 20] {
            let items = &items()[..count];
            let mut segment = vec![0xee; 1000];
            let table_bytes = write_items(items, 9, &mut segment);
            assert_eq!(table_bytes as usize, super::table_bytes(count.div_ceil(4), count));
            assert!(segment[..1000 - table_bytes as usize].iter().all(|&byte| byte == 0xee));
            let entry = Entry { sequence: 9, table_bytes, area: Area::Cold, dictionary: 0 };
            assert_eq!(read_items(&geometry(), entry, &segment).expect("sound"), items);
            assert_eq!(read_items(&geometry(), entry, &segment[500..]).expect("sound"), items);
            assert!(read_items(&geometry(), Entry { sequence: 8, ..entry }, &segment).is_err());
        }
    }

    /// A place has no room for another span or granule, and a walk goes by rising granules: with a
    /// table like these, right checksums included, recovery or a walk would panic.
    #[test]
    fn an_item_table_with_units_that_no_place_leads_to_is_damage() {
        let item = |granule, span| Item { hash: 5, granule, span, is_dead: false };
        let is_sound = |items: &[Item]| {
            let mut segment = vec![0; 300];
            let table_bytes = write_items(items, 9, &mut segment);
            let entry = Entry { sequence: 9, table_bytes, area: Area::Cold, dictionary: 0 };
            read_items(&geometry(), entry, &segment).is_ok_and(|found| found == items)
        };
        let last = |items| ((64 << 10) - table_bytes(1, items) - 1) as u32 / 64;
        for span in 0..=u8::MAX {
            assert_eq!(is_sound(&[item(1, span)]), (1..=SPAN_LONG).contains(&span), "{span}");
        }
        assert!(is_sound(&[item(last(1), 1)]) && !is_sound(&[item(last(1) + 1, 1)]));
        assert!(!is_sound(&[item(u32::MAX, 1)]));
        assert!(is_sound(&[item(1, 1), item(2, 1)]) && !is_sound(&[item(2, 1), item(1, 1)]));
        // A unit without rows, and two that begin at one granule.
        let mut segment = vec![0; 300];
        let table_bytes = (table_bytes(1, 0)) as u32;
        let entry = Entry { sequence: 9, table_bytes, area: Area::Cold, dictionary: 0 };
        let start = segment.len() - table_bytes as usize;
        segment[start + 6] = 1;
        put_items_right(entry, &mut segment);
        assert!(read_items(&geometry(), entry, &segment).is_err());
    }

    #[test]
    fn a_changed_or_shorter_item_table_is_damage() {
        let mut segment = vec![0; 300];
        let table_bytes = write_items(&items(), 9, &mut segment);
        let entry = Entry { sequence: 9, table_bytes, area: Area::Hot, dictionary: 0 };
        for at in segment.len() - table_bytes as usize..segment.len() {
            segment[at] ^= 1;
            assert!(read_items(&geometry(), entry, &segment).is_err(), "{at}");
            segment[at] ^= 1;
        }
        for table_bytes in (0..301).filter(|&other| other != table_bytes) {
            assert!(read_items(&geometry(), Entry { table_bytes, ..entry }, &segment).is_err());
        }
    }
}
