//! Whether a flash tier fits beside a memory limit: the index must be able to lead to all items on
//! it, and its buffers must leave memory for items.
//!
//! ```text
//!   segments * segment bytes / page * item bytes   <=  memory / INDEX_SHARE
//!   buffers, and what is known of each segment     <=  memory / BUFFERS_SHARE
//! ```
//!
//! An item takes [`IndexKind::item_bytes`] of the index. The first holds for items that fill a page
//! each. Smaller ones need more of the index: from [`FlashFit::item_bytes_min`] on, the whole of
//! the device can be used.

use std::fmt;

use ::flash::Sizing;
use ::io::device::PAGE_BYTES;
use index::Kind as IndexKind;
use stdx::units::MIB;

use crate::spill::INDEX_SHARE;

/// One part in this of the memory limit is what a tier's buffers may take.
const BUFFERS_SHARE: u64 = 4;
/// Bytes of a segment: small ones where there are few.
const SEGMENT_BYTES_RANGE: std::ops::RangeInclusive<usize> = 128 << 10..=1 << 20;
/// The least number of segments that a tier should have.
const SEGMENTS_WANTED: u64 = 512;
/// The most bytes of flash that a tier uses.
pub const FLASH_BYTES_MAX: u64 = ::flash::DEVICE_BYTES_MAX;
/// The most flash or memory that is suggested, in MiB.
const SUGGESTED_MIB_MAX: u64 = FLASH_BYTES_MAX / MIB as u64;

/// The capacity of a flash tier beside a memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashFit {
    /// Items to which the index can lead.
    pub items_max: u64,
    /// The least bytes on flash of an item with which all of it can be used; with smaller ones a
    /// part stays empty.
    pub item_bytes_min: u64,
}

/// A flash tier that is too large for a memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashMisfit {
    /// Bytes of the device.
    pub flash_bytes: u64,
    /// The memory limit.
    pub memory_bytes: u64,
    /// The use of memory for which there is too little.
    pub shortage: Shortage,
    /// The largest device that this much memory serves, in MiB; 0 if none.
    pub flash_mib_max: u64,
    /// The least memory that serves this device, in MiB.
    pub memory_mib_min: u64,
}

/// A use for which memory is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// The index of items that fill a page each.
    Index {
        /// The number of these items.
        items: u64,
        /// Bytes that the index would need.
        needed_bytes: u64,
        /// Bytes that it needs for one of them.
        item_bytes: u64,
    },
    /// Buffers, and the metadata of each segment.
    Buffers {
        /// Bytes that these need.
        needed_bytes: u64,
    },
}

impl FlashFit {
    /// Returns what a device of `flash_bytes` can hold beside a memory limit. One that is too small
    /// for a tier fits; that is reported when it is opened.
    ///
    /// # Errors
    ///
    /// The device is too large for the memory.
    pub fn new(memory_bytes: u64, flash_bytes: u64, index: IndexKind) -> Result<Self, FlashMisfit> {
        fit(memory_bytes, flash_bytes, index).map_err(|shortage| {
            let flash_fits = |mib: u64| fit(memory_bytes, mib * MIB as u64, index).is_ok();
            let memory_lacks = |mib: u64| fit(mib * MIB as u64, flash_bytes, index).is_err();
            let flash_mib_max = first_not(flash_fits).saturating_sub(1);
            let flash_bytes_max = flash_mib_max * MIB as u64;
            let is_any = Sizing::of(flash_bytes_max, segment_bytes(flash_bytes_max)).is_some();
            FlashMisfit {
                flash_bytes,
                memory_bytes,
                shortage,
                flash_mib_max: if is_any { flash_mib_max } else { 0 },
                memory_mib_min: first_not(memory_lacks),
            }
        })
    }
}

/// Returns the least bytes of flash that a tier needs, if `flash_bytes` are too few.
pub fn flash_shortage(flash_bytes: u64) -> Option<u64> {
    Sizing::shortage(flash_bytes, segment_bytes(flash_bytes))
}

/// Returns the first number of MiB for which `is_true`, which is true up to some number, is false.
fn first_not(is_true: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, SUGGESTED_MIB_MAX);
    while low < high {
        let middle = (low + high) / 2;
        if is_true(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

fn fit(memory_bytes: u64, flash_bytes: u64, index: IndexKind) -> Result<FlashFit, Shortage> {
    let item_bytes = index.item_bytes() as u64;
    let items_max = memory_bytes / INDEX_SHARE as u64 / item_bytes;
    let Some(sizing) = Sizing::of(flash_bytes, segment_bytes(flash_bytes)) else {
        return Ok(FlashFit { items_max, item_bytes_min: 0 });
    };
    let items = sizing.data_bytes / PAGE_BYTES as u64;
    if items > items_max {
        return Err(Shortage::Index { items, needed_bytes: items * item_bytes, item_bytes });
    }
    let needed_bytes = sizing.memory_bytes;
    if needed_bytes > memory_bytes / BUFFERS_SHARE {
        return Err(Shortage::Buffers { needed_bytes });
    }
    Ok(FlashFit { items_max, item_bytes_min: sizing.data_bytes.div_ceil(items_max.max(1)) })
}

/// Returns the bytes of a segment on a device of `flash_bytes`.
pub(crate) fn segment_bytes(flash_bytes: u64) -> usize {
    let (min, max) = (*SEGMENT_BYTES_RANGE.start(), *SEGMENT_BYTES_RANGE.end());
    let wanted = (flash_bytes / SEGMENTS_WANTED).clamp(min as u64, max as u64);
    wanted.next_power_of_two() as usize
}

impl fmt::Display for FlashMisfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes.div_ceil(MIB as u64);
        let (flash, memory) = (mib(self.flash_bytes), self.memory_bytes / MIB as u64);
        match self.shortage {
            Shortage::Index { items, needed_bytes, item_bytes } => write!(
                f,
                "{flash} MiB of flash hold {items} items of one page ({PAGE_BYTES} bytes) each. \
                 The index needs {item_bytes} bytes for each of them, {} MiB, and may take half \
                 of the {memory} MiB of memory",
                mib(needed_bytes)
            )?,
            Shortage::Buffers { needed_bytes } => write!(
                f,
                "{flash} MiB of flash need {} KiB of memory for buffers and for what is known of \
                 each segment, which may take a quarter of the {memory} MiB there are",
                needed_bytes >> 10
            )?,
        }
        let least = self.memory_mib_min;
        match self.flash_mib_max {
            0 => write!(f, ". So little memory goes with no flash; this one needs {least} MiB"),
            most => write!(
                f,
                ". So much memory goes with {most} MiB of flash at most, and so much flash with \
                 {least} MiB of memory at least"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const CUCKOO: IndexKind = IndexKind::Cuckoo;

    #[test]
    fn a_suggested_size_fits_and_a_mebibyte_beside_it_does_not() {
        for (memory_mib, flash_mib) in [(64, 512 << 10), (8, 4096), (1024, 300 << 10), (16, 8200)] {
            let (memory_bytes, flash_bytes) = (memory_mib << 20, flash_mib << 20);
            let misfit =
                FlashFit::new(memory_bytes, flash_bytes, CUCKOO).expect_err("far too large");
            let FlashMisfit { flash_mib_max, memory_mib_min, .. } = misfit;
            let fits = |memory_mib: u64, flash_mib: u64| {
                FlashFit::new(memory_mib << 20, flash_mib << 20, CUCKOO).is_ok()
            };
            assert!(fits(memory_mib, flash_mib_max), "{misfit}");
            assert!(!fits(memory_mib, flash_mib_max + 1), "{misfit}");
            assert!(fits(memory_mib_min, flash_mib), "{misfit}");
            assert!(!fits(memory_mib_min - 1, flash_mib), "{misfit}");
        }
    }

    #[test]
    fn the_index_of_pages_may_take_half_of_memory_and_buffers_a_quarter() {
        let misfit = FlashFit::new(GIB, 512 * GIB, CUCKOO).expect_err("too large");
        let Shortage::Index { items, needed_bytes, .. } = misfit.shortage else {
            panic!("{misfit}")
        };
        // Journals and tables take 3 % of the device.
        assert!((125_000_000..134_217_728).contains(&items));
        assert_eq!(needed_bytes, items * 9);
        assert!(misfit.to_string().contains("524288 MiB"));
        assert!((230 << 10..240 << 10).contains(&misfit.flash_mib_max), "{misfit}");
        let misfit = FlashFit::new(8 << 20, GIB, CUCKOO).expect_err("four buffers of a mebibyte");
        assert!(matches!(misfit.shortage, Shortage::Buffers { .. }), "{misfit}");
        assert!(misfit.memory_mib_min > 12 && misfit.flash_mib_max >= 64, "{misfit}");
        let none = FlashFit::new(1 << 20, GIB, CUCKOO).expect_err("too large").to_string();
        assert!(none.contains("goes with no flash"), "{none}");
    }

    #[test]
    fn items_from_the_least_size_on_can_fill_all_of_the_flash() {
        let fit = FlashFit::new(GIB, 100 * GIB, CUCKOO).expect("it fits");
        let data_bytes = Sizing::of(100 * GIB, segment_bytes(100 * GIB)).expect("large").data_bytes;
        assert!(data_bytes / fit.item_bytes_min <= fit.items_max);
        assert!(data_bytes / (fit.item_bytes_min - 1) > fit.items_max);
        assert!((1600..1800).contains(&fit.item_bytes_min), "{fit:?}");
        assert_eq!(FlashFit::new(GIB, 1 << 16, CUCKOO).expect("no tier").item_bytes_min, 0);
    }

    #[test]
    fn a_tree_leads_to_fewer_items_in_the_same_half_of_memory() {
        let fits = |kind| FlashFit::new(GIB, 100 * GIB, kind).expect("it fits").items_max;
        assert_eq!((fits(CUCKOO), fits(IndexKind::Tree)), (GIB / 18, GIB / 38));
        let misfit = FlashFit::new(GIB, 200 * GIB, IndexKind::Tree).expect_err("half as much fits");
        assert!(misfit.to_string().contains("19 bytes for each"), "{misfit}");
        assert!(FlashFit::new(GIB, 200 * GIB, CUCKOO).is_ok());
    }
}
