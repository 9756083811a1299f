//! Size classes: the chunk sizes that slabs of the hot zone are cut into.
//!
//! Sizes are multiples of 8 bytes. While a step of 8 is more than the growth factor asks for, every
//! multiple of 8 is a class, so small items waste less than 8 bytes; above that, sizes grow by the
//! factor, and each is then stretched to the largest size that fits a slab equally often, so that
//! nothing is lost at a slab's end.
//!
//! The last class is 128 KiB, a sixteenth of a slab. Larger items are chained from chunks of that
//! class and one smaller chunk for the rest: with chunks up to half a slab, as few fit a slab, the
//! spacing between sizes would waste a fifth of large items' memory.
//!
//! The factor is 1.08 where memory is plenty. A small arena has few slabs, and each class in use
//! needs at least one, so there the classes are fewer: no more than there are slabs, down to
//! memcached's factor of 1.25.

use crate::arena::SLAB_BYTES;

/// The largest chunk, in bytes.
pub const CHUNK_BYTES_MAX: usize = 128 << 10;
/// The smallest chunk, in bytes: header, a short key and a short value.
pub const CHUNK_BYTES_MIN: usize = 24;
/// Sizes are multiples of this many bytes.
pub const CHUNK_ALIGN_BYTES: usize = 8;
/// The growth factor where there are slabs enough for all its classes.
pub const GROWTH_FACTOR_MIN: f64 = 1.08;
/// The growth factor of the smallest arenas; memcached's default.
pub const GROWTH_FACTOR_MAX: f64 = 1.25;

/// Which size class: its number, from 0, smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

/// All size classes of an arena.
#[derive(Debug)]
pub struct SizeClasses {
    chunk_bytes: Vec<u32>,
    /// The class for each size, by the size in units of 8 bytes, rounded up.
    by_size: Box<[u8]>,
}

impl SizeClasses {
    /// Classes that grow by `factor` from `chunk_bytes_min`; both are brought into their range.
    pub fn new(chunk_bytes_min: usize, factor: f64) -> Self {
        let first = chunk_bytes_min
            .clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX / 2)
            .next_multiple_of(CHUNK_ALIGN_BYTES);
        // Below 1.05 there would be more classes than a byte can number.
        let factor = factor.clamp(1.05, 16.0);
        let mut chunk_bytes = Vec::new();
        let mut size = first;
        while size < CHUNK_BYTES_MAX {
            let stretched = stretch(size);
            chunk_bytes.push(stretched as u32);
            let grown = (stretched as f64 * factor) as usize;
            size = grown
                .next_multiple_of(CHUNK_ALIGN_BYTES)
                .max(stretched + CHUNK_ALIGN_BYTES);
            if grown < size && size > stretched + CHUNK_ALIGN_BYTES {
                size -= CHUNK_ALIGN_BYTES;
            }
        }
        chunk_bytes.push(CHUNK_BYTES_MAX as u32);
        chunk_bytes.dedup();
        assert!(chunk_bytes.len() <= usize::from(u8::MAX));
        let mut class = 0;
        let by_size = (0..=CHUNK_BYTES_MAX / CHUNK_ALIGN_BYTES)
            .map(|units| {
                if units * CHUNK_ALIGN_BYTES > chunk_bytes[class] as usize {
                    class += 1;
                }
                class as u8
            })
            .collect();
        Self {
            chunk_bytes,
            by_size,
        }
    }

    /// Classes for an arena of so many slabs: as fine as gives no more classes than slabs.
    pub fn for_slabs(chunk_bytes_min: usize, slabs: usize) -> Self {
        let mut factor = GROWTH_FACTOR_MIN;
        loop {
            let classes = Self::new(chunk_bytes_min, factor);
            if classes.count() <= slabs || factor >= GROWTH_FACTOR_MAX {
                return classes;
            }
            factor = (factor + 0.01).min(GROWTH_FACTOR_MAX);
        }
    }

    /// How many classes there are.
    pub fn count(&self) -> usize {
        self.chunk_bytes.len()
    }

    /// The class of the smallest chunk that holds `bytes`, at most [`CHUNK_BYTES_MAX`].
    #[inline]
    pub fn class_for(&self, bytes: usize) -> ClassId {
        debug_assert!(bytes <= CHUNK_BYTES_MAX);
        ClassId(self.by_size[bytes.div_ceil(CHUNK_ALIGN_BYTES)])
    }

    /// Bytes of a chunk of `class`.
    #[inline]
    pub fn chunk_bytes(&self, class: ClassId) -> usize {
        self.chunk_bytes[usize::from(class.0)] as usize
    }

    /// How many chunks of `class` a slab holds.
    pub fn chunks_per_slab(&self, class: ClassId) -> usize {
        SLAB_BYTES / self.chunk_bytes(class)
    }

    /// All classes, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = ClassId> + use<> {
        (0..self.chunk_bytes.len() as u8).map(ClassId)
    }
}

/// The largest size that fits a slab as often as `size` does.
fn stretch(size: usize) -> usize {
    let count = SLAB_BYTES / size;
    let largest = SLAB_BYTES / count / CHUNK_ALIGN_BYTES * CHUNK_ALIGN_BYTES;
    // Stretching a small chunk gains nothing that an item could use.
    if largest - size < size / 16 {
        largest
    } else {
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_chunk_that_holds_it() {
        for factor in [1.0, 1.08, 1.25, 2.0] {
            let classes = SizeClasses::new(CHUNK_BYTES_MIN, factor);
            for bytes in 1..=CHUNK_BYTES_MAX {
                let class = classes.class_for(bytes);
                assert!(classes.chunk_bytes(class) >= bytes);
                if class.0 > 0 {
                    assert!(classes.chunk_bytes(ClassId(class.0 - 1)) < bytes);
                }
            }
        }
    }

    #[test]
    fn sizes_ascend_and_waste_little() {
        let classes = SizeClasses::new(CHUNK_BYTES_MIN, GROWTH_FACTOR_MIN);
        let mut last = 0;
        for class in classes.iter() {
            let bytes = classes.chunk_bytes(class);
            assert!(bytes > last && bytes.is_multiple_of(CHUNK_ALIGN_BYTES));
            if last > 0 {
                assert!(
                    bytes <= last + 8 || (bytes as f64) < last as f64 * 1.13,
                    "{last} {bytes}"
                );
            }
            let lost = SLAB_BYTES - classes.chunks_per_slab(class) * bytes;
            assert!(
                lost * 50 < SLAB_BYTES,
                "{bytes}: {lost} bytes lost in a slab"
            );
            last = bytes;
        }
        assert_eq!(last, CHUNK_BYTES_MAX);
    }

    #[test]
    fn a_small_arena_has_no_more_classes_than_slabs() {
        for slabs in [1, 64, 128, 4096] {
            let count = SizeClasses::for_slabs(CHUNK_BYTES_MIN, slabs).count();
            let coarsest = SizeClasses::new(CHUNK_BYTES_MIN, GROWTH_FACTOR_MAX).count();
            assert!(
                count <= slabs.max(coarsest) && coarsest < 48,
                "{slabs}: {count}"
            );
        }
    }
}
