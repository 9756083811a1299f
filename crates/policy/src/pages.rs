//! Sets of a slab's pages: which of them are for hot items.
//!
//! ```text
//!   slab of 2 MiB   | 0 | 1 | 2 | 3 | ...        | 511 |    pages of 4 KiB
//!   eight words      bit of word n / 64, n % 64
//! ```

/// Bytes of a small page.
pub const PAGE_BYTES: usize = 4096;
/// Pages of the largest slab.
pub const SLAB_PAGES_MAX: usize = 512;

const WORDS: usize = SLAB_PAGES_MAX / u64::BITS as usize;

/// Some of a slab's pages, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageSet([u64; WORDS]);

impl PageSet {
    /// The number of pages in the set.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether this page is in the set.
    #[inline]
    pub fn has(&self, page: usize) -> bool {
        self.0[page / u64::BITS as usize] >> (page % u64::BITS as usize) & 1 != 0
    }

    /// Whether the page of this byte of the slab is in the set.
    #[inline]
    pub fn has_byte(&self, offset: usize) -> bool {
        self.has(offset / PAGE_BYTES)
    }

    /// The pages' numbers, the lowest first.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let set = *self;
        (0..SLAB_PAGES_MAX).filter(move |&page| set.has(page))
    }
}

impl FromIterator<usize> for PageSet {
    fn from_iter<I: IntoIterator<Item = usize>>(pages: I) -> Self {
        let mut set = Self::default();
        for page in pages {
            set.0[page / u64::BITS as usize] |= 1 << (page % u64::BITS as usize);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_its_pages_up_to_the_last() {
        let pages = [0, 63, 64, 300, SLAB_PAGES_MAX - 1];
        let set = PageSet::from_iter(pages.into_iter().chain([64]));
        assert_eq!((set.count(), PageSet::default().count()), (pages.len(), 0));
        assert!(set.iter().eq(pages));
        for page in 0..SLAB_PAGES_MAX {
            assert_eq!(set.has(page), pages.contains(&page));
            let (first, last) = (page * PAGE_BYTES, (page + 1) * PAGE_BYTES - 1);
            assert!(set.has_byte(first) == set.has(page) && set.has_byte(last) == set.has(page));
        }
    }
}
