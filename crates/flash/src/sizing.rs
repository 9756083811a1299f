//! The size of a tier on a device of some size, before it is opened: to refuse in time what does
//! not fit.

use crate::flash::Segment;
use crate::geometry::Geometry;
use crate::journal::BitsLock;
use crate::list::ListedSegment;
use crate::writer::BUFFERS;
use ::io::device::PAGE_BYTES;

/// Buffers of a segment each in addition to the writer's: that of collection.
const BUFFERS_BESIDE: usize = 1;
/// Lists of segments grow by doubling.
const LIST_GROWTH: usize = 2;

/// The size of a tier that is not open yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizing {
    /// Bytes of all segments together, for items, their units' heads and tables.
    pub data_bytes: u64,
    /// Bytes of memory for the buffers of segments, for the state of each segment, and for the
    /// changes while the tier's items are being found.
    pub memory_bytes: u64,
}

impl Sizing {
    /// Bytes that a tier would need at least, if a device of `device_bytes` is too small for any.
    pub fn shortage(device_bytes: u64, segment_bytes: usize) -> Option<u64> {
        Self::geometry(device_bytes, segment_bytes).err()
    }

    fn geometry(device_bytes: u64, segment_bytes: usize) -> Result<Geometry, u64> {
        Geometry::new(device_bytes / PAGE_BYTES as u64, segment_bytes)
    }

    /// The tier on a device of `device_bytes`, with segments of `segment_bytes`; `None` if it is
    /// too small for any.
    pub fn of(device_bytes: u64, segment_bytes: usize) -> Option<Self> {
        let geometry = Self::geometry(device_bytes, segment_bytes).ok()?;
        let known_bytes =
            size_of::<Segment>() + size_of::<u32>() + LIST_GROWTH * size_of::<ListedSegment>();
        let buffers_bytes = (BUFFERS + BUFFERS_BESIDE) * segment_bytes;
        let segments = geometry.segments as usize;
        let locks_bytes = BitsLock::count(geometry.segments) as usize * size_of::<BitsLock>();
        Some(Self {
            data_bytes: (segments * segment_bytes) as u64,
            memory_bytes: (segments * known_bytes
                + locks_bytes
                + buffers_bytes
                + geometry.changes_bytes()) as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{World, cases::fill_a_segment, settings};

    #[test]
    fn a_tier_takes_what_was_foretold_and_its_codec() {
        // With something to find, so that the changes are kept.
        let world = World::new(4000);
        fill_a_segment(&world, 500);
        let world = world.killed();
        let segment_bytes = settings().segment_bytes;
        let sizing = Sizing::of(4000 * PAGE_BYTES as u64, segment_bytes).expect("large enough");
        let stats = world.flash.stats();
        assert_eq!(sizing.data_bytes, stats.segments * stats.segment_bytes);
        let memory_bytes = world.flash.memory_bytes() as u64;
        let codec_bytes = codec::Encoder::new(settings().level).memory_bytes() as u64;
        let rest = (memory_bytes - codec_bytes).abs_diff(sizing.memory_bytes);
        assert!(rest * 10 < sizing.memory_bytes, "{memory_bytes}, {codec_bytes}, {sizing:?}");
        assert_eq!(Sizing::of(1 << 16, segment_bytes), None);
        let least = Sizing::shortage(1 << 16, segment_bytes).expect("too small");
        assert_eq!(Sizing::shortage(least - 1, segment_bytes), Some(least));
        assert_eq!(Sizing::shortage(least, segment_bytes), None);
    }
}
