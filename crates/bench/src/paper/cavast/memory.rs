//! Simulated memory: data has addresses, comes through the cache line by line, and is counted by
//! kind.
//!
//! ```text
//!   read(kind, address, bytes) -> pages: address of the program to that of the machine
//!                                  |  an entry of the TLB is missing: lines of the page tables
//!                                  v
//!                              line by line -> Llc -> fetched, missed, by kind
//! ```
//!
//! With small pages, machine addresses are those of random frames: two neighbouring pages are
//! unrelated, and only the lowest six bits of the set are the program's. With huge pages the lowest
//! fifteen and more are. A page missing from the TLB costs an entry of the lowest table and, with
//! small pages, one of the table above. The TLB has 1024 entries of 8 ways at the size of the
//! paper's cache, and as many fewer as the cache is smaller.
//!
//! The smaller caches in between are reduced to this: a line that is read twice in a row counts
//! once, as where a key ends in the line in which its value begins. Other reads that they would
//! serve count as hits of the last-level cache. A real processor's reads besides the store's data
//! are not simulated: the stack, network buffers, the kernel.
//!
//! A *prefetched* line comes through the cache as any other, and takes a place there. A later read
//! hits if it is still there: so do a processor's counters of loads, which ignore prefetches. That
//! it came from memory is counted separately.

use std::ops::Sub;

use policy::geometry::CacheGeometry;

use super::llc::Llc;

/// The addresses of the simulation's parts: slabs begin at 0.
pub const INDEX_BASE: u64 = 1 << 37;
/// Temperatures of chunks.
pub const TEMPERATURE_BASE: u64 = 1 << 38;
/// A small index of the hot area's items.
pub const FRONT_BASE: u64 = 3 << 37;
const TABLES_BASE: u64 = 1 << 39;
const UPPER_BASE: u64 = 5 << 37;

const LINE_BITS: u32 = 6;
const SMALL_BITS: u32 = 12;
const HUGE_BITS: u32 = 21;
/// Numbers of small pages below `TABLES_BASE` have this many bits.
const FRAME_BITS: u32 = 27;
/// Bytes of a page table's entry.
const ENTRY_BYTES: u64 = 8;
const TLB_ENTRIES: usize = 1024;
const TLB_WAYS: usize = 8;
/// The cache size that goes with a TLB of this many entries.
const FULL_CACHE_BYTES: usize = 15 << 20;

/// The size of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Huge,
}

impl Pages {
    /// Returns the frame, in units of small pages, of a page of the program's address space.
    pub fn frame_of(self, page: u64) -> u64 {
        if self == Pages::Small { frame_of(page) } else { page }
    }
}

/// The purpose of a line's read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Finding the item: lines of the index, and of other items on the way.
    Index,
    /// The item's header and key.
    Key,
    /// The item's value.
    Value,
    /// Page tables.
    Walk,
    /// Temperatures, swaps and the search for expired items.
    Upkeep,
}

impl Kind {
    /// A request's own reads.
    pub const OWN: [Kind; 3] = [Kind::Index, Kind::Key, Kind::Value];
    /// All of them.
    pub const ALL: [Kind; 5] = [Kind::Index, Kind::Key, Kind::Value, Kind::Walk, Kind::Upkeep];
}

/// Lines of each kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    fetched: [u64; 5],
    missed: [u64; 5],
    ahead: [u64; 5],
}

impl Counts {
    /// Returns the lines read, of these kinds.
    pub fn fetched(&self, kinds: &[Kind]) -> u64 {
        kinds.iter().map(|kind| self.fetched[*kind as usize]).sum()
    }

    /// Returns those of them that were not in the cache.
    pub fn missed(&self, kinds: &[Kind]) -> u64 {
        kinds.iter().map(|kind| self.missed[*kind as usize]).sum()
    }

    /// Returns the lines that came from memory by a prefetch, which the others do not include.
    pub fn ahead(&self, kinds: &[Kind]) -> u64 {
        kinds.iter().map(|kind| self.ahead[*kind as usize]).sum()
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, before: Counts) -> Counts {
        let less = |now: [u64; 5], then: [u64; 5]| std::array::from_fn(|at| now[at] - then[at]);
        Counts {
            fetched: less(self.fetched, before.fetched),
            missed: less(self.missed, before.missed),
            ahead: less(self.ahead, before.ahead),
        }
    }
}

/// Memory behind a cache.
pub struct Memory {
    cache: Llc,
    tlb: Llc,
    pages: Pages,
    is_passing: bool,
    is_asking: bool,
    last_line: u64,
    last_page: u64,
    pub counts: Counts,
}

impl Memory {
    /// Returns memory of which nothing is in the cache yet.
    pub fn new(geometry: &CacheGeometry, pages: Pages) -> Memory {
        let entries = TLB_ENTRIES * geometry.bytes() / FULL_CACHE_BYTES / TLB_WAYS;
        let sets = entries.next_power_of_two();
        let tlb = CacheGeometry::new(64, TLB_WAYS, sets, 1).expect("a few entries");
        Memory {
            cache: Llc::new(geometry),
            tlb: Llc::new(&tlb),
            pages,
            is_passing: false,
            is_asking: false,
            last_line: u64::MAX,
            last_page: u64::MAX,
            counts: Counts::default(),
        }
    }

    /// Sets whether reads from now on leave the cache as it is, except for page tables.
    pub fn set_passing(&mut self, is_passing: bool) {
        self.is_passing = is_passing;
    }

    /// Reads, or writes, `bytes` bytes from an address on.
    pub fn read(&mut self, kind: Kind, address: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        for line in address >> LINE_BITS..=(address + bytes - 1) >> LINE_BITS {
            self.line(kind, line);
        }
    }

    /// Prefetches `bytes` bytes.
    pub fn ask(&mut self, kind: Kind, address: u64, bytes: u64) {
        self.is_asking = true;
        self.read(kind, address, bytes);
        self.is_asking = false;
    }

    fn line(&mut self, kind: Kind, line: u64) {
        if line == self.last_line {
            return;
        }
        self.last_line = line;
        let page_bits = match self.pages {
            Pages::Small => SMALL_BITS,
            Pages::Huge => HUGE_BITS,
        } - LINE_BITS;
        let page = line >> page_bits;
        if page != self.last_page {
            self.last_page = page;
            if !self.tlb.touch(page, false) {
                self.walk(page);
            }
        }
        let frame = if self.pages == Pages::Small { frame_of(page) } else { page };
        self.count(kind, frame << page_bits | line & ((1 << page_bits) - 1));
    }

    /// Reads the page tables, by addresses of the machine.
    fn walk(&mut self, page: u64) {
        self.count(Kind::Walk, (TABLES_BASE + page * ENTRY_BYTES) >> LINE_BITS);
        if self.pages == Pages::Small {
            let upper = page >> (HUGE_BITS - SMALL_BITS);
            self.count(Kind::Walk, (UPPER_BASE + upper * ENTRY_BYTES) >> LINE_BITS);
        }
    }

    fn count(&mut self, kind: Kind, line: u64) {
        let is_passing = self.is_passing && kind != Kind::Walk;
        let is_missed = u64::from(!self.cache.touch(line, is_passing));
        if self.is_asking {
            self.counts.ahead[kind as usize] += is_missed;
        } else {
            self.counts.fetched[kind as usize] += 1;
            self.counts.missed[kind as usize] += is_missed;
        }
    }
}

/// Returns the frame of a small page: a bijection without any order.
fn frame_of(page: u64) -> u64 {
    const MASK: u64 = (1 << FRAME_BITS) - 1;
    debug_assert!(page <= MASK);
    let mixed = page.wrapping_mul(0x9e37_79b9) & MASK;
    let mixed = (mixed ^ mixed >> 13).wrapping_mul(0x85eb_ca6b) & MASK;
    mixed ^ mixed >> 13
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(pages: Pages) -> Memory {
        Memory::new(&CacheGeometry::new(64, 20, 512, 1).expect("it is a cache"), pages)
    }

    #[test]
    fn every_line_that_is_touched_counts_once_in_a_row() {
        let mut memory = memory(Pages::Huge);
        memory.read(Kind::Value, 100, 0);
        memory.read(Kind::Value, 63, 2);
        memory.read(Kind::Key, 127, 1);
        memory.read(Kind::Value, 127, 2);
        memory.read(Kind::Key, 0, 1);
        let counts = memory.counts;
        assert_eq!((counts.fetched(&Kind::OWN), counts.missed(&Kind::OWN)), (4, 3));
        assert_eq!((counts.fetched(&[Kind::Key]), counts.missed(&[Kind::Key])), (1, 0));
        assert_eq!(counts.fetched(&[Kind::Walk]), 1);
    }

    #[test]
    fn a_prefetched_line_hits_and_counts_as_from_memory() {
        let mut memory = memory(Pages::Huge);
        memory.ask(Kind::Value, 640, 128);
        memory.ask(Kind::Index, 6400, 1);
        memory.read(Kind::Value, 640, 192);
        let counts = memory.counts;
        assert_eq!((counts.fetched(&Kind::OWN), counts.missed(&Kind::OWN)), (3, 1));
        assert_eq!((counts.ahead(&[Kind::Value]), counts.ahead(&[Kind::Index])), (2, 1));
        // The translation came with the first.
        assert_eq!((counts.ahead(&[Kind::Walk]), counts.fetched(&[Kind::Walk])), (1, 0));
    }

    #[test]
    fn small_pages_have_frames_of_their_own() {
        let mut frames: Vec<u64> = (0..200_000).map(frame_of).collect();
        frames.sort_unstable();
        frames.dedup();
        assert_eq!(frames.len(), 200_000);
    }

    #[test]
    fn small_pages_need_more_translations() {
        let walks = |pages| {
            let mut memory = memory(pages);
            (0..10_000_u64).for_each(|at| memory.read(Kind::Value, at * 40_961, 1));
            memory.counts.missed(&[Kind::Walk])
        };
        assert!(walks(Pages::Small) > 8 * walks(Pages::Huge));
    }
}
