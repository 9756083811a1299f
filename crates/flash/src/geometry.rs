//! How a device is laid out, and how places name spots on it.
//!
//! ```text
//!   page 0       1                                                                pages of 4 KiB
//!   +------------+---------------+----------+--------------+---------+-----------+----
//!   | superblock | segment table | journals | dictionaries | changes | segment 0 | ...
//!   |            | 16 B each     | 1/32 of  | 8 or none    | 1 to    |           |
//!   |            |               | segments |              | 1024    |           |
//!   +------------+---------------+----------+--------------+---------+-----------+----
//!     notes        notes           notes      one write      notes
//!                                             each
//! ```
//!
//! Units begin at granules, 64 bytes where the device is small enough for a place to name each of
//! them with [`HASH_BITS_MIN`] bits left for the hash: up to 128 GiB. Each doubling beyond doubles
//! the granule, up to a page at 8 TiB; the rest of a larger device is not used.

use ::io::device::PAGE_BYTES;

use crate::dictionaries::{DICTIONARIES_MAX, Dictionaries};
use crate::place::{HASH_SHIFT, Place, SHARED_BITS, SPAN_LONG, SPAN_STAGED, low_bits};

/// Bytes of the smallest segment.
pub(crate) const SEGMENT_BYTES_MIN: usize = 64 << 10;
/// Bytes of the largest segment.
pub(crate) const SEGMENT_BYTES_MAX: usize = 8 << 20;
/// Fewest segments of a device: the watermarks of collection need some to stand between.
pub(crate) const SEGMENTS_MIN: u32 = 8;
/// Bytes of an entry of the segment table.
pub(crate) const ENTRY_BYTES: usize = 16;
/// Bytes of an entry of a journal.
pub(crate) const JOURNAL_ENTRY_BYTES: usize = 4;

/// Bytes of a segment for each byte of its journal: 8,192 entries for 1 MiB.
const JOURNAL_SHARE: usize = 32;
/// Fewest bits of the hash in a place.
const HASH_BITS_MIN: u32 = 2;
const ADDRESS_BITS_MAX: u32 = SHARED_BITS - HASH_BITS_MIN;
/// Bytes of the largest device, 8 TiB: places name no page beyond them.
pub const DEVICE_BYTES_MAX: u64 = (PAGE_BYTES as u64) << ADDRESS_BITS_MAX;
/// An index of places compares at least this many upper bits of two keys' hashes, and all bits that
/// its places have, before it takes one of them for the other. A journal entry has no other bits of
/// an item's hash: the note is written by the thread that takes the item out of the index, and it
/// may hold a key that cannot be told from the item's.
pub const INDEX_HASH_BITS: u32 = 31;
/// Bits of the numbers of staged rows, at least: a number recurs only after a million others,
/// however small the device.
pub(crate) const ADDRESS_BITS_MIN: u32 = 20;
const GRANULE_LOG2_MIN: u32 = 6;
const GRANULE_LOG2_MAX: u32 = PAGE_BYTES.trailing_zeros();

const _: () = assert!(PAGE_BYTES.is_power_of_two() && ADDRESS_BITS_MAX == 31);
const _: () = assert!((SEGMENT_BYTES_MIN / JOURNAL_SHARE).is_multiple_of(JOURNAL_ENTRY_BYTES));
/// The highest bit of a journal's entry checks the others.
const _: () = assert!(SEGMENT_BYTES_MAX >> GRANULE_LOG2_MIN <= 1 << 17);
/// And an entry's hash bits are among those that an index compares.
const _: () = assert!(
    u32::BITS - 1 - (SEGMENT_BYTES_MIN >> GRANULE_LOG2_MAX).trailing_zeros() <= INDEX_HASH_BITS
);

/// Pages of the device for one page of a dictionary's slot: all slots take 3 % at most...
const SLOT_SHARE: u64 = 256;
/// ... and less than 1 % from 64 MiB on, because this is the most pages of a slot.
const SLOT_PAGES_MAX: u64 = 16;

/// Pages of the device for one page of the changes, until they have enough for some hundred
/// thousand keys ...
const CHANGES_SHARE: u64 = 512;
const CHANGES_PAGES_ENOUGH: u64 = 32;
/// ... and from there on, because a large device takes longer to recover.
const CHANGES_SHARE_LARGE: u64 = 32 << 10;
const CHANGES_PAGES_MAX: u64 = 1024;

/// The layout of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) segment_bytes: usize,
    pub(crate) segments: u32,
    granule_log2: u32,
    hash_bits: u32,
    journals_at: u64,
    changes_page: u64,
    changes_pages: u64,
    segments_page: u64,
    /// Pages of a dictionary's slot; 0: there are no dictionaries.
    pub(crate) slot_pages: usize,
}

/// Where a unit begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) segment: u32,
    /// Counted from the segment's start.
    pub(crate) granule: u32,
}

impl Geometry {
    /// The layout of a device of `pages` pages, or the bytes it would need at least.
    pub(crate) fn new(pages: u64, segment_bytes: usize) -> Result<Self, u64> {
        assert!(segment_bytes.is_power_of_two(), "the segments' size is a power of two");
        assert!((SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes), "and in range");
        let pages = pages.min(1 << ADDRESS_BITS_MAX);
        let changes_pages = Self::changes_pages(pages);
        // A device too small for both has a tier without dictionaries.
        let slot_pages = (pages / SLOT_SHARE).min(SLOT_PAGES_MAX) as usize;
        let fit = [slot_pages, 0].map(|slot_pages| {
            let between_pages = (DICTIONARIES_MAX * slot_pages) as u64 + changes_pages;
            (Self::segments(pages, segment_bytes, between_pages), slot_pages, between_pages)
        });
        let enough = fit.into_iter().find(|(segments, ..)| *segments >= SEGMENTS_MIN);
        let Some((segments, slot_pages, between_pages)) = enough else {
            return Err(Self::bytes_min(segment_bytes));
        };
        let end = Self::end_page(segments, segment_bytes, between_pages) * PAGE_BYTES as u64;
        let bits_of = |granule_log2: u32| u64::BITS - ((end - 1) >> granule_log2).leading_zeros();
        let granule_log2 = (GRANULE_LOG2_MIN..=GRANULE_LOG2_MAX)
            .find(|&granule_log2| bits_of(granule_log2) <= ADDRESS_BITS_MAX)
            .expect("the pages are few enough for granules of a page");
        let segments_page = Self::segments_page(segments, segment_bytes, between_pages);
        Ok(Self {
            segment_bytes,
            segments,
            granule_log2,
            hash_bits: SHARED_BITS - bits_of(granule_log2).max(ADDRESS_BITS_MIN),
            journals_at: Self::journals_page(segments) * PAGE_BYTES as u64,
            changes_page: segments_page - changes_pages,
            changes_pages,
            segments_page,
            slot_pages,
        })
    }

    /// Bytes of the smallest device.
    fn bytes_min(segment_bytes: usize) -> u64 {
        let end_page =
            |pages| Self::end_page(SEGMENTS_MIN, segment_bytes, Self::changes_pages(pages));
        let mut pages = end_page(0);
        while end_page(pages) > pages {
            pages += 1;
        }
        pages * PAGE_BYTES as u64
    }

    /// Pages of the changes on a device of `pages` pages.
    fn changes_pages(pages: u64) -> u64 {
        let of_small = (pages / CHANGES_SHARE).clamp(1, CHANGES_PAGES_ENOUGH);
        (pages / CHANGES_SHARE_LARGE).clamp(of_small, CHANGES_PAGES_MAX)
    }

    /// As many segments as there is room for, with `between_pages` between journals and segments.
    fn segments(pages: u64, segment_bytes: usize, between_pages: u64) -> u32 {
        let each = (segment_bytes + segment_bytes / JOURNAL_SHARE + ENTRY_BYTES) as u64;
        let mut segments = (pages * PAGE_BYTES as u64 / each) as u32;
        while segments > 0 && Self::end_page(segments, segment_bytes, between_pages) > pages {
            segments -= 1;
        }
        segments
    }

    fn journals_page(segments: u32) -> u64 {
        1 + (u64::from(segments) * ENTRY_BYTES as u64).div_ceil(PAGE_BYTES as u64)
    }

    fn slots_page(segments: u32, segment_bytes: usize) -> u64 {
        let journals = u64::from(segments) * (segment_bytes / JOURNAL_SHARE) as u64;
        Self::journals_page(segments) + journals.div_ceil(PAGE_BYTES as u64)
    }

    fn segments_page(segments: u32, segment_bytes: usize, between_pages: u64) -> u64 {
        Self::slots_page(segments, segment_bytes) + between_pages
    }

    fn end_page(segments: u32, segment_bytes: usize, between_pages: u64) -> u64 {
        let pages = (segment_bytes / PAGE_BYTES) as u64;
        Self::segments_page(segments, segment_bytes, between_pages) + u64::from(segments) * pages
    }

    /// The dictionaries of a device with this layout, none of them read yet.
    pub(crate) fn dictionaries(&self, level: i32) -> Dictionaries {
        let page = Self::slots_page(self.segments, self.segment_bytes);
        Dictionaries::new(page, self.slot_pages, level)
    }

    pub(crate) fn granule_bytes(&self) -> usize {
        1 << self.granule_log2
    }

    /// Where a segment's entry of the table lies, in bytes.
    pub(crate) fn entry_at(&self, segment: u32) -> u64 {
        assert!(segment < self.segments, "there is such a segment");
        PAGE_BYTES as u64 + u64::from(segment) * ENTRY_BYTES as u64
    }

    /// Where a segment's journal lies, in bytes.
    pub(crate) fn journal_at(&self, segment: u32) -> u64 {
        assert!(segment < self.segments, "there is such a segment");
        self.journals_at + u64::from(segment) * self.journal_bytes() as u64
    }

    pub(crate) fn journal_bytes(&self) -> usize {
        self.segment_bytes / JOURNAL_SHARE
    }

    /// Where the changes lie, in bytes.
    pub(crate) fn changes_at(&self) -> u64 {
        self.changes_page * PAGE_BYTES as u64
    }

    pub(crate) fn changes_bytes(&self) -> usize {
        self.changes_pages as usize * PAGE_BYTES
    }

    /// The first page of a segment.
    pub(crate) fn page_of(&self, segment: u32) -> u64 {
        assert!(segment < self.segments, "there is such a segment");
        self.segments_page + u64::from(segment) * self.segment_pages() as u64
    }

    pub(crate) fn segment_pages(&self) -> usize {
        self.segment_bytes / PAGE_BYTES
    }

    /// The journal entry for the item with this hash in the unit at this granule, and for all that
    /// an index cannot tell from it ([`INDEX_HASH_BITS`]). At least two of the lower 31 bits are
    /// set, and the highest is not: it is the journal's.
    ///
    /// It has the hash bits of a place, and the lowest of the upper ones: a unit's items are in the
    /// order of their hashes, and have most of the others in common.
    pub(crate) fn journal_entry(&self, granule: u32, hash: u64) -> u32 {
        let granule_bits = (self.segment_bytes >> self.granule_log2).trailing_zeros();
        let hash_bits = u32::BITS - 1 - granule_bits;
        let place_bits = self.hash_bits.min(hash_bits);
        let upper = hash >> (u64::BITS - INDEX_HASH_BITS) & low_bits(hash_bits - place_bits);
        let hash = upper << place_bits | hash & low_bits(place_bits);
        let entry = granule << hash_bits | hash as u32;
        // One in some thousand items of a segment's first unit, and fewer of others.
        if entry.count_ones() < 2 { entry ^ 0b111 } else { entry }
    }

    /// The place of an item in a sealed unit of `unit_bytes`, its head included.
    pub(crate) fn sealed(&self, spot: Spot, span: u8, hash: u64) -> Place {
        assert!(span != SPAN_STAGED, "a sealed unit has pages");
        let at = self.page_of(spot.segment) * PAGE_BYTES as u64;
        let address = (at >> self.granule_log2) + u64::from(spot.granule);
        Place::compose(span, self.hash_bits, hash, address)
    }

    /// After this many further numbers a staged row may have the same place.
    pub(crate) fn staged_numbers(&self) -> u64 {
        1 << (SHARED_BITS - self.hash_bits)
    }

    /// The place of the staged row with this number.
    pub(crate) fn staged(&self, number: u64, hash: u64) -> Place {
        let address = number & (self.staged_numbers() - 1);
        Place::compose(SPAN_STAGED, self.hash_bits, hash, address)
    }

    /// The span of a unit of `unit_bytes`, its head included.
    pub(crate) fn span(&self, granule: u32, unit_bytes: usize) -> u8 {
        let pages = self.pages_of(granule, unit_bytes);
        pages.min(usize::from(SPAN_LONG)) as u8
    }

    /// Pages that hold `unit_bytes` from a granule on.
    pub(crate) fn pages_of(&self, granule: u32, unit_bytes: usize) -> usize {
        (self.offset_of(granule) % PAGE_BYTES + unit_bytes).div_ceil(PAGE_BYTES)
    }

    /// Bytes from a segment's start to a granule.
    pub(crate) fn offset_of(&self, granule: u32) -> usize {
        (granule as usize) << self.granule_log2
    }

    /// The spot of a place in a sealed unit, if it is one in a segment.
    pub(crate) fn locate(&self, place: Place) -> Option<Spot> {
        let address = place.0 >> (HASH_SHIFT + self.hash_bits);
        let first = self.segments_page << (GRANULE_LOG2_MAX - self.granule_log2);
        let granule = address.checked_sub(first)?;
        let granules = (self.segment_bytes >> self.granule_log2) as u64;
        let segment = u32::try_from(granule / granules).ok()?;
        let is_there = segment < self.segments && !place.is_staged();
        is_there.then_some(Spot { segment, granule: (granule % granules) as u32 })
    }

    /// Whether a place has the hash's bits.
    pub(crate) fn may_be(&self, place: Place, hash: u64) -> bool {
        (place.0 >> HASH_SHIFT ^ hash) & low_bits(self.hash_bits) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::PLACE_BITS;

    fn check(geometry: &Geometry) {
        let granules = (geometry.segment_bytes / geometry.granule_bytes()) as u32;
        let last = geometry.segments - 1;
        let mut seen = std::collections::HashSet::new();
        for segment in [0, 1, last] {
            for granule in [0, 1, granules - 1] {
                for hash in [0, 1, u64::MAX] {
                    let spot = Spot { segment, granule };
                    let place = geometry.sealed(spot, SPAN_LONG, hash);
                    assert_eq!(place.0 >> PLACE_BITS, 0);
                    assert_eq!(geometry.locate(place), Some(spot));
                    assert!(geometry.may_be(place, hash) && !geometry.may_be(place, hash ^ 1));
                    assert!(seen.insert(place.0));
                    let entry = geometry.journal_entry(granule, hash);
                    assert!(entry >> 31 == 0 && entry.count_ones() >= 2);
                    assert_ne!(entry, geometry.journal_entry(granule ^ 1, hash));
                    assert_ne!(entry, geometry.journal_entry(granule, hash ^ 1));
                    assert_ne!(entry, geometry.journal_entry(granule, hash ^ 1 << 33));
                    // Bits between the two that the index may not have compared.
                    let unknown = low_bits(33) & !low_bits(geometry.hash_bits);
                    assert_eq!(entry, geometry.journal_entry(granule, hash ^ unknown));
                }
            }
        }
        assert_eq!(geometry.locate(Place(0)), None);
        let highest = geometry.locate(Place(low_bits(PLACE_BITS)));
        assert!(highest.is_none_or(|spot| spot.segment == last));
    }

    #[test]
    fn places_come_back_as_spots_on_devices_of_every_size() {
        let mut granules = Vec::new();
        for pages_log2 in 12..36 {
            for segment_bytes in [SEGMENT_BYTES_MIN, 1 << 20, SEGMENT_BYTES_MAX] {
                let Ok(geometry) = Geometry::new(1 << pages_log2, segment_bytes) else { continue };
                check(&geometry);
                granules.push(geometry.granule_bytes());
            }
        }
        granules.dedup();
        assert_eq!(granules, [64, 128, 256, 512, 1024, 2048, 4096]);
    }

    /// If one of these numbers changes, the journals on existing devices name other items as dead:
    /// then the superblock's version has to rise.
    #[test]
    fn a_journal_says_of_an_item_what_it_has_always_said() {
        for (pages_log2, entry) in [(14, 0x000a_6def), (25, 0x000a_8acf)] {
            let geometry = Geometry::new(1 << pages_log2, 1 << 20).expect("large enough");
            assert_eq!(geometry.journal_entry(5, 0x0123_4567_89ab_cdef), entry, "{pages_log2}");
        }
    }

    /// If one of these numbers changes, an existing device is read shifted, and most of it looks
    /// like damage: then the superblock's version has to rise.
    #[test]
    fn the_parts_of_a_device_lie_where_they_have_always_lain() {
        for (bytes, segment_bytes, expected) in [
            (64_u64 << 20, SEGMENT_BYTES_MIN, [982, 20_480, 496, 16, 624, 32, 656, 64, 13]),
            (10 << 30, 1 << 20, [9928, 163_840, 79_464, 16, 79_592, 80, 79_672, 64, 5]),
            (
                1 << 40,
                1 << 20,
                [1_016_781, 16_273_408, 8_138_221, 16, 8_138_349, 1024, 8_139_373, 512, 2],
            ),
        ] {
            let it = Geometry::new(bytes / PAGE_BYTES as u64, segment_bytes).expect("large enough");
            let slots = if it.slot_pages > 0 { it.dictionaries(3).page_of(1) } else { 0 };
            let found = [
                it.segments.into(),
                it.journal_at(0),
                slots,
                it.slot_pages as u64,
                it.changes_page,
                it.changes_pages,
                it.segments_page,
                it.granule_bytes() as u64,
                it.hash_bits.into(),
            ];
            assert_eq!(found, expected, "{bytes} in segments of {segment_bytes}");
        }
    }

    /// With one bit set, an entry might be flipped to an empty slot.
    #[test]
    fn an_entry_of_a_journal_has_two_bits_at_least_and_not_the_highest() {
        let geometry = Geometry::new(1 << 14, 1 << 20).expect("large enough");
        let hashes = [0, 1, 2, 1 << 33, u64::MAX];
        for (granule, hash) in [0, 1, 2, 3, 4, 1 << 13].into_iter().zip(hashes.repeat(2)) {
            let entry = geometry.journal_entry(granule, hash);
            assert!(entry.count_ones() >= 2 && entry >> 31 == 0, "{granule}, {hash:x}: {entry:x}");
        }
        assert_eq!([0, 1, 2].map(|hash| geometry.journal_entry(0, hash)), [7, 6, 5]);
    }

    #[test]
    fn granules_grow_just_above_what_places_can_name() {
        let edge = 128 << 30 >> GRANULE_LOG2_MAX;
        let small = Geometry::new(edge, 1 << 20).expect("large enough");
        let large = Geometry::new(edge + 1024, 1 << 20).expect("large enough");
        assert_eq!((small.granule_bytes(), small.hash_bits), (64, HASH_BITS_MIN));
        assert_eq!((large.granule_bytes(), large.hash_bits), (128, HASH_BITS_MIN));
    }

    #[test]
    fn parts_of_a_device_do_not_meet_and_end_within_it() {
        for pages in [2200, 2201, 2304, 100_000, 12_345_678] {
            let geometry = Geometry::new(pages, 1 << 20).expect("large enough");
            let last = geometry.segments - 1;
            let page = |at: u64| at.div_ceil(PAGE_BYTES as u64);
            let table_end = geometry.entry_at(last) + ENTRY_BYTES as u64;
            let journals_end = geometry.journal_at(last) + geometry.journal_bytes() as u64;
            assert!(page(table_end) * PAGE_BYTES as u64 <= geometry.journal_at(0));
            let first_slot = geometry.dictionaries(3).page_of(1);
            assert!(page(journals_end) <= first_slot);
            let slots_end = first_slot + (DICTIONARIES_MAX * geometry.slot_pages) as u64;
            assert!(slots_end * PAGE_BYTES as u64 <= geometry.changes_at());
            let changes_end = geometry.changes_at() + geometry.changes_bytes() as u64;
            assert!(geometry.changes_bytes() > 0 && page(changes_end) <= geometry.page_of(0));
            let end = geometry.page_of(last) + geometry.segment_pages() as u64;
            assert!(end <= pages && end + 300 > pages, "{pages}: {end}");
        }
    }

    #[test]
    fn a_device_below_the_least_number_of_segments_is_too_small() {
        let bytes_min = Geometry::new(1, 1 << 20).expect_err("one page");
        let pages = bytes_min / PAGE_BYTES as u64;
        assert_eq!(Geometry::new(pages - 1, 1 << 20), Err(bytes_min));
        assert_eq!(Geometry::new(pages, 1 << 20).expect("enough").segments, SEGMENTS_MIN);
    }

    #[test]
    fn spans_count_the_pages_that_a_unit_touches() {
        let geometry = Geometry::new(10_000, 1 << 20).expect("large enough");
        assert_eq!(geometry.span(0, 1), 1);
        assert_eq!(geometry.span(0, PAGE_BYTES), 1);
        assert_eq!(geometry.span(1, PAGE_BYTES), 2);
        assert_eq!(geometry.span(63, 64), 1);
        assert_eq!(geometry.span(63, 65), 2);
        assert_eq!(geometry.span(0, 6 * PAGE_BYTES), 6);
        assert_eq!(geometry.span(0, 6 * PAGE_BYTES + 1), SPAN_LONG);
        assert_eq!(geometry.span(0, 1 << 20), SPAN_LONG);
    }
}
