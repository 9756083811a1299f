//! A device in memory. It can die after a number of writes, as for a process that is killed, or
//! refuse them.

use std::io;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use ::io::device::{Device, PAGE_BYTES, Page};

/// What a page is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Untouched,
    Notes,
    Pages,
}

#[derive(Debug)]
pub(crate) struct MemoryDevice {
    bytes: Mutex<Vec<u8>>,
    kinds: Mutex<Vec<Kind>>,
    /// Where notes and pages were written, in bytes.
    pub(crate) log: Mutex<Vec<u64>>,
    /// Writes that still reach the device.
    writes_left: AtomicU64,
    pub(crate) refuses_pages: AtomicBool,
    /// Writes of more pages than this are refused.
    pub(crate) pages_max: AtomicUsize,
    /// Writes of pages are accepted, but have no effect.
    pub(crate) loses_pages: AtomicBool,
    pub(crate) refuses_notes: AtomicBool,
    /// This many notes are refused, and those behind them taken.
    refused_notes: AtomicU64,
    /// Notes that pass before these.
    passed_notes: AtomicU64,
    /// This many syncs are refused.
    refused_syncs: AtomicU64,
    pub(crate) refuses_reads: AtomicBool,
    /// This many reads are refused.
    refused_reads: AtomicU64,
    /// Pages in this range, and notes there, cannot be read.
    unreadable: Mutex<Range<u64>>,
    /// A write that touches one of these bytes, as a note or as pages, fails.
    unwritable: Mutex<Range<u64>>,
    /// A bit of each of these bytes is read wrong, once.
    misread: Mutex<Vec<u64>>,
    /// Reads of pages that have begun, and wait while a test holds `holds_reads`.
    pub(crate) reads: AtomicU64,
    pub(crate) holds_reads: Mutex<()>,
    /// Notes whose reads wait while a test holds `holds_reads`, and the number of those reads.
    pub(crate) slow_notes: Mutex<Range<u64>>,
    pub(crate) slow_reads: AtomicU64,
    /// Writes of the superblock that have begun, and wait while a test holds `holds_superblocks`.
    pub(crate) superblocks: AtomicU64,
    pub(crate) holds_superblocks: Mutex<()>,
    /// Whether nothing was written since the last sync.
    pub(crate) is_synced: AtomicBool,
}

impl MemoryDevice {
    pub(crate) fn new(pages: usize) -> Self {
        Self {
            bytes: Mutex::new(vec![0; pages * PAGE_BYTES]),
            kinds: Mutex::new(vec![Kind::Untouched; pages]),
            log: Mutex::default(),
            writes_left: AtomicU64::new(u64::MAX),
            refuses_pages: AtomicBool::new(false),
            pages_max: AtomicUsize::new(usize::MAX),
            loses_pages: AtomicBool::new(false),
            refuses_notes: AtomicBool::new(false),
            refused_notes: AtomicU64::new(0),
            passed_notes: AtomicU64::new(0),
            refused_syncs: AtomicU64::new(0),
            is_synced: AtomicBool::new(true),
            refuses_reads: AtomicBool::new(false),
            refused_reads: AtomicU64::new(0),
            unreadable: Mutex::new(0..0),
            unwritable: Mutex::new(0..0),
            misread: Mutex::default(),
            reads: AtomicU64::new(0),
            holds_reads: Mutex::default(),
            slow_notes: Mutex::new(0..0),
            slow_reads: AtomicU64::new(0),
            superblocks: AtomicU64::new(0),
            holds_superblocks: Mutex::default(),
        }
    }

    /// Lets this many more writes reach the device.
    pub(crate) fn die_after(&self, writes: u64) {
        self.writes_left.store(writes, Ordering::Relaxed);
    }

    /// Refuses this many of the coming notes, and none behind them.
    pub(crate) fn refuse_notes(&self, count: u64) {
        self.refused_notes.store(count, Ordering::Relaxed);
    }

    /// Lets this many notes pass, and refuses the next one.
    pub(crate) fn refuse_a_note_after(&self, passed: u64) {
        self.passed_notes.store(passed, Ordering::Relaxed);
        self.refuse_notes(1);
    }

    /// Refuses this many of the coming reads.
    pub(crate) fn refuse_reads(&self, count: u64) {
        self.refused_reads.store(count, Ordering::Relaxed);
    }

    /// Refuses this many syncs.
    pub(crate) fn refuse_syncs(&self, count: u64) {
        self.refused_syncs.store(count, Ordering::Relaxed);
    }

    /// Reads of any of these pages, and of no others, fail from now on.
    pub(crate) fn make_unreadable(&self, pages: Range<u64>) {
        *self.unreadable.lock().expect("no test has died") = pages;
    }

    /// Writes that touch any of these bytes, and no others, fail from now on.
    pub(crate) fn make_unwritable(&self, bytes: Range<u64>) {
        *self.unwritable.lock().expect("no test has died") = bytes;
    }

    /// Refuses a write of `bytes` bytes at `at`, if one of them cannot be written.
    fn refused_write(&self, at: u64, bytes: usize) -> io::Result<()> {
        let unwritable = self.unwritable.lock().expect("no test has died");
        let is_refused = at < unwritable.end && unwritable.start < at + bytes as u64;
        if is_refused { Err(io::Error::other("unwritable")) } else { Ok(()) }
    }

    /// The next read of this byte has a bit flipped; the one behind it is right.
    pub(crate) fn misread_once(&self, at: u64) {
        self.misread.lock().expect("no test has died").push(at);
    }

    /// Flips the bits to be misread in bytes read from `at` on.
    fn flip_misread(&self, at: u64, target: &mut [u8]) {
        self.misread.lock().expect("no test has died").retain(|misread| {
            let offset = misread.checked_sub(at).map(|offset| offset as usize);
            let byte = offset.and_then(|offset| target.get_mut(offset));
            let is_other = byte.is_none();
            byte.into_iter().for_each(|byte| *byte ^= 1);
            is_other
        });
    }

    /// Refuses a read of `bytes` bytes at `at`, if one of its pages is unreadable.
    fn refused_bytes(&self, at: u64, bytes: usize) -> io::Result<()> {
        let unreadable = self.unreadable.lock().expect("no test has died");
        let page = |at: u64| at / PAGE_BYTES as u64;
        let reads = page(at)..page(at + bytes as u64 - 1) + 1;
        let is_refused = reads.start < unreadable.end && unreadable.start < reads.end;
        if is_refused { Err(io::Error::other("unreadable")) } else { Ok(()) }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.writes_left.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().expect("no test has died").clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut [u8])) {
        change(&mut self.bytes.lock().expect("no test has died"));
    }

    /// Takes a write; `false` if it does not reach the device.
    fn take_write(&self, pages: std::ops::Range<usize>, kind: Kind) -> bool {
        for found in &mut self.kinds.lock().expect("no test has died")[pages] {
            assert!(*found == Kind::Untouched || *found == kind, "pages and notes do not mix");
            *found = kind;
        }
        self.is_synced.store(false, Ordering::Relaxed);
        let left = self.writes_left.load(Ordering::Relaxed);
        let next = if left == u64::MAX { left } else { left.saturating_sub(1) };
        self.writes_left.store(next, Ordering::Relaxed);
        left > 0
    }
}

fn refused(flag: &AtomicBool) -> io::Result<()> {
    if flag.load(Ordering::Relaxed) { Err(io::Error::other("refused")) } else { Ok(()) }
}

/// Refuses if some are still to be refused.
fn refused_now(left: &AtomicU64) -> io::Result<()> {
    let is_any = left.load(Ordering::Relaxed) > 0;
    left.fetch_sub(is_any.into(), Ordering::Relaxed);
    if is_any { Err(io::Error::other("refused")) } else { Ok(()) }
}

impl Device for MemoryDevice {
    fn pages(&self) -> u64 {
        self.kinds.lock().expect("no test has died").len() as u64
    }

    fn read(&self, page: u64, target: &mut [Page]) -> io::Result<()> {
        refused(&self.refuses_reads)?;
        refused_now(&self.refused_reads)?;
        self.refused_bytes(page * PAGE_BYTES as u64, size_of_val(target))?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        drop(self.holds_reads.lock().expect("no test has died"));
        let bytes = self.bytes.lock().expect("no test has died");
        for (index, target) in target.iter_mut().enumerate() {
            let at = (page as usize + index) * PAGE_BYTES;
            target.0.copy_from_slice(&bytes[at..at + PAGE_BYTES]);
            self.flip_misread(at as u64, &mut target.0);
        }
        Ok(())
    }

    fn write(&self, page: u64, source: &[Page]) -> io::Result<()> {
        let page = page as usize;
        refused(&self.refuses_pages)?;
        self.refused_write((page * PAGE_BYTES) as u64, size_of_val(source))?;
        if source.len() > self.pages_max.load(Ordering::Relaxed) {
            return Err(io::Error::other("too many"));
        }
        self.log.lock().expect("no test has died").push((page * PAGE_BYTES) as u64);
        let is_taken = self.take_write(page..page + source.len(), Kind::Pages);
        if !is_taken || self.loses_pages.load(Ordering::Relaxed) {
            return Ok(());
        }
        // The last write before the end is torn.
        let count = if self.is_dead() { source.len() / 2 } else { source.len() };
        let mut bytes = self.bytes.lock().expect("no test has died");
        for (index, source) in source[..count].iter().enumerate() {
            let at = (page + index) * PAGE_BYTES;
            bytes[at..at + PAGE_BYTES].copy_from_slice(&source.0);
        }
        Ok(())
    }

    fn read_note(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
        refused(&self.refuses_reads)?;
        refused_now(&self.refused_reads)?;
        self.refused_bytes(at, target.len())?;
        if self.slow_notes.lock().expect("no test has died").contains(&at) {
            self.slow_reads.fetch_add(1, Ordering::Relaxed);
            drop(self.holds_reads.lock().expect("no test has died"));
        }
        let bytes = self.bytes.lock().expect("no test has died");
        target.copy_from_slice(&bytes[at as usize..at as usize + target.len()]);
        self.flip_misread(at, target);
        Ok(())
    }

    fn write_note(&self, at: u64, source: &[u8]) -> io::Result<()> {
        refused(&self.refuses_notes)?;
        self.refused_write(at, source.len())?;
        if refused_now(&self.passed_notes).is_ok() {
            refused_now(&self.refused_notes)?;
        }
        if at == 0 {
            self.superblocks.fetch_add(1, Ordering::Relaxed);
            drop(self.holds_superblocks.lock().expect("no test has died"));
        }
        self.log.lock().expect("no test has died").push(at);
        let range = at as usize..at as usize + source.len();
        if self.take_write(range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES), Kind::Notes) {
            self.bytes.lock().expect("no test has died")[range].copy_from_slice(source);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        refused(&self.refuses_notes)?;
        refused_now(&self.refused_syncs)?;
        self.is_synced.store(true, Ordering::Relaxed);
        Ok(())
    }
}
