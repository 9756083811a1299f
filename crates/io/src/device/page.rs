//! Pages: the unit in which devices are read and written, aligned in memory as direct I/O requires.

use bytemuck::{Pod, Zeroable};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// The bytes of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Zeroable, Pod)]
#[repr(C, align(4096))]
pub struct Page(pub [u8; PAGE_BYTES]);

/// Pages one behind the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pages(Vec<Page>);

impl Pages {
    /// Makes `count` pages of zeros.
    pub fn zeroed(count: usize) -> Self {
        Self(vec![Page::zeroed(); count])
    }

    /// The pages.
    pub fn as_pages(&self) -> &[Page] {
        &self.0
    }

    /// The pages, mutable.
    pub fn as_pages_mut(&mut self) -> &mut [Page] {
        &mut self.0
    }

    /// All their bytes.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }

    /// All their bytes, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_and_their_bytes_lie_one_behind_the_other() {
        let mut pages = Pages::zeroed(3);
        pages.bytes_mut()[PAGE_BYTES] = 7;
        assert_eq!(pages.bytes().len(), 3 * PAGE_BYTES);
        assert!(pages.bytes().as_ptr().addr().is_multiple_of(PAGE_BYTES));
        assert_eq!(pages.as_pages()[1].0[0], 7);
    }
}
