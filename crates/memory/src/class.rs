//! Size classes: the chunk sizes that slabs of the hot zone are cut into.
//!
//! Sizes are multiples of 8 bytes. While a step of 8 is more than the growth factor asks for, every
//! multiple of 8 is a class, so small items waste less than 8 bytes; above that, sizes grow by the
//! factor, and each is then stretched to the largest size that fits a slab equally often, so that
//! nothing is lost at a slab's end.
//!
//! The last class is a sixteenth of a slab (128 KiB of 2 MiB), or twice that or more where the item
//! limit is so large that the list of an item's pieces needs it. Larger items are chained from
//! chunks of that class and one smaller chunk for the rest: with chunks up to half a slab, as few
//! fit a slab, the spacing between sizes would waste a fifth of large items' memory.
//!
//! A slab may keep some bits beside each chunk, behind the last one: room for data that belongs to
//! a chunk and not to the item stored in it. Then fewer or smaller chunks fit, and sizes are chosen
//! so that chunks and those bits together fill the slab.
//!
//! The factor is 1.08 where slabs are plenty. Each class in use needs at least one slab, so with
//! few slabs the classes are fewer too, down to memcached's factor of 1.25.

/// The largest chunk of any arena, in bytes.
pub const CHUNK_BYTES_MAX: usize = 128 << 10;
/// Chunks of the largest class in a slab.
const LARGEST_PER_SLAB: usize = 16;
/// The smallest chunk, in bytes: header, a short key and a short value.
pub const CHUNK_BYTES_MIN: usize = 24;
/// Sizes are multiples of this many bytes.
pub const CHUNK_ALIGN_BYTES: usize = 8;
/// The growth factor where there are slabs enough for all its classes.
pub const GROWTH_FACTOR_MIN: f64 = 1.08;
/// The growth factor of the smallest arenas; memcached's default.
pub const GROWTH_FACTOR_MAX: f64 = 1.25;

/// Slabs for each class where classes are finer than they have to be: a mix of sizes uses most
/// classes, and a class with a slab or two evicts its items earlier or later than others do.
const SLABS_PER_CLASS_MIN: usize = 2;

/// A size class's number, from 0, smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

/// All size classes of an arena.
#[derive(Debug)]
pub struct SizeClasses {
    slab_bytes: usize,
    side_bits: usize,
    chunk_bytes: Vec<u32>,
    /// The class for each size, by the size in units of 8 bytes, rounded up.
    by_size: Box<[u8]>,
}

impl SizeClasses {
    /// Classes that grow by `factor` from `chunk_bytes_min`, both clamped to their range, for slabs
    /// of `slab_bytes` and items of up to `item_bytes_max`. A slab keeps `side_bits` beside each
    /// chunk.
    pub fn new(
        chunk_bytes_min: usize,
        factor: f64,
        slab_bytes: usize,
        item_bytes_max: usize,
        side_bits: usize,
    ) -> Self {
        let largest = floor(largest_chunk(slab_bytes, item_bytes_max) - side_bits.div_ceil(8));
        let first =
            chunk_bytes_min.clamp(CHUNK_BYTES_MIN, largest / 2).next_multiple_of(CHUNK_ALIGN_BYTES);
        // Below 1.05 there would be more classes than a byte can number.
        let factor = factor.clamp(1.05, 16.0);
        let mut chunk_bytes = Vec::new();
        let mut size = first;
        while size < largest {
            let stretched = stretch(size, slab_bytes, side_bits);
            chunk_bytes.push(stretched as u32);
            let grown = (stretched as f64 * factor) as usize;
            size = grown.next_multiple_of(CHUNK_ALIGN_BYTES).max(stretched + CHUNK_ALIGN_BYTES);
            if grown < size && size > stretched + CHUNK_ALIGN_BYTES {
                size -= CHUNK_ALIGN_BYTES;
            }
        }
        chunk_bytes.push(largest as u32);
        chunk_bytes.dedup();
        assert!(chunk_bytes.len() <= usize::from(u8::MAX));
        let mut class = 0;
        let by_size = (0..=largest / CHUNK_ALIGN_BYTES)
            .map(|units| {
                if units * CHUNK_ALIGN_BYTES > chunk_bytes[class] as usize {
                    class += 1;
                }
                class as u8
            })
            .collect();
        Self { slab_bytes, side_bits, chunk_bytes, by_size }
    }

    /// Classes for an arena of `slabs` slabs: as fine as leaves two slabs for each class.
    pub fn for_slabs(
        chunk_bytes_min: usize,
        slabs: usize,
        slab_bytes: usize,
        item_bytes_max: usize,
        side_bits: usize,
    ) -> Self {
        let mut factor = GROWTH_FACTOR_MIN;
        loop {
            let classes = Self::new(chunk_bytes_min, factor, slab_bytes, item_bytes_max, side_bits);
            if classes.count() <= slabs / SLABS_PER_CLASS_MIN || factor >= GROWTH_FACTOR_MAX {
                return classes;
            }
            factor = (factor + 0.01).min(GROWTH_FACTOR_MAX);
        }
    }

    /// Bytes of the largest chunk; larger items are chained.
    #[inline]
    pub fn chunk_bytes_max(&self) -> usize {
        self.chunk_bytes[self.chunk_bytes.len() - 1] as usize
    }

    /// The number of classes.
    pub fn count(&self) -> usize {
        self.chunk_bytes.len()
    }

    /// The class of the smallest chunk that holds `bytes`, at most the largest chunk.
    #[inline]
    pub fn class_for(&self, bytes: usize) -> ClassId {
        debug_assert!(bytes <= self.chunk_bytes_max());
        ClassId(self.by_size[bytes.div_ceil(CHUNK_ALIGN_BYTES)])
    }

    /// Bytes of a chunk of `class`.
    #[inline]
    pub fn chunk_bytes(&self, class: ClassId) -> usize {
        self.chunk_bytes[usize::from(class.0)] as usize
    }

    /// The number of chunks of `class` in a slab.
    pub fn chunks_per_slab(&self, class: ClassId) -> usize {
        8 * self.slab_bytes / (8 * self.chunk_bytes(class) + self.side_bits)
    }

    /// Bits that a slab keeps beside each chunk.
    pub fn side_bits(&self) -> usize {
        self.side_bits
    }

    /// All classes, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = ClassId> + use<> {
        (0..self.chunk_bytes.len() as u8).map(ClassId)
    }
}

/// The largest chunk for slabs and items of these sizes, with the bytes beside it. A chained item's
/// list of pieces has to fit one chunk, 8 bytes for each piece, and takes half a chunk at most.
fn largest_chunk(slab_bytes: usize, item_bytes_max: usize) -> usize {
    let mut largest = slab_bytes / LARGEST_PER_SLAB;
    while largest / 16 * largest < item_bytes_max && largest < CHUNK_BYTES_MAX {
        largest *= 2;
    }
    largest
}

/// The largest size that fits a slab as often as `size` does.
fn stretch(size: usize, slab_bytes: usize, side_bits: usize) -> usize {
    let count = 8 * slab_bytes / (8 * size + side_bits);
    let largest = floor((8 * slab_bytes / count - side_bits) / 8);
    // Stretching a small chunk gains nothing that an item could use.
    if largest - size < size / 16 { largest } else { size }
}

/// Rounds down to a chunk size.
fn floor(bytes: usize) -> usize {
    bytes / CHUNK_ALIGN_BYTES * CHUNK_ALIGN_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{SLAB_BYTES_MAX, SLAB_BYTES_MIN};

    const MIB: usize = 1 << 20;

    #[test]
    #[cfg_attr(miri, ignore = "safe code that counts to hundreds of thousands")]
    fn every_size_gets_the_smallest_chunk_that_holds_it() {
        for factor in [1.0, 1.08, 1.25, 2.0] {
            for (slab_bytes, side) in [(SLAB_BYTES_MIN, 0), (SLAB_BYTES_MAX, 0), (1 << 20, 96)] {
                let classes = SizeClasses::new(CHUNK_BYTES_MIN, factor, slab_bytes, MIB, side);
                for bytes in 1..=classes.chunk_bytes_max() {
                    let class = classes.class_for(bytes);
                    assert!(classes.chunk_bytes(class) >= bytes);
                    if class.0 > 0 {
                        assert!(classes.chunk_bytes(ClassId(class.0 - 1)) < bytes);
                    }
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "safe code that counts to hundreds of thousands")]
    fn sizes_ascend_and_waste_little() {
        let slabs = [SLAB_BYTES_MIN, SLAB_BYTES_MAX];
        for (slab_bytes, side) in slabs.iter().flat_map(|&slab| [0, 4, 96].map(|side| (slab, side)))
        {
            let factor = GROWTH_FACTOR_MIN;
            let classes = SizeClasses::new(CHUNK_BYTES_MIN, factor, slab_bytes, MIB, side);
            let mut last = 0;
            for class in classes.iter() {
                let bytes = classes.chunk_bytes(class);
                assert!(bytes > last && bytes.is_multiple_of(CHUNK_ALIGN_BYTES));
                let step = bytes as f64 / last.max(1) as f64;
                assert!(last == 0 || bytes <= last + 8 || step < 1.13, "{last} {bytes}");
                let chunks = classes.chunks_per_slab(class);
                let filled = chunks * bytes + (chunks * side).div_ceil(64) * 8;
                let lost = slab_bytes - filled;
                assert!(lost * 50 < slab_bytes, "{bytes}: {lost} bytes lost in a slab");
                last = bytes;
            }
            assert_eq!(last, (slab_bytes / LARGEST_PER_SLAB - side.div_ceil(8)) / 8 * 8);
            assert_eq!(classes.chunks_per_slab(classes.class_for(last)), LARGEST_PER_SLAB);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "safe code that counts to hundreds of thousands")]
    fn few_slabs_have_few_classes() {
        let (least, slab_bytes) = (CHUNK_BYTES_MIN, SLAB_BYTES_MIN);
        for slabs in [1, 64, 256, 4096] {
            let classes = SizeClasses::for_slabs(least, slabs, slab_bytes, MIB, 0);
            let coarsest = SizeClasses::new(least, GROWTH_FACTOR_MAX, slab_bytes, MIB, 0).count();
            assert!(classes.count() <= (slabs / 2).max(coarsest) && coarsest < 40);
        }
    }

    #[test]
    fn the_list_of_pieces_of_the_largest_item_fits_a_chunk() {
        for slab_bytes in [SLAB_BYTES_MIN, SLAB_BYTES_MAX] {
            for (item_bytes_max, side) in [MIB, 64 * MIB, 1024 * MIB].map(|item| (item, 96)) {
                let largest = floor(largest_chunk(slab_bytes, item_bytes_max) - side / 8);
                assert!(item_bytes_max.div_ceil(largest - 16) * 8 + 300 <= largest);
            }
        }
    }
}
