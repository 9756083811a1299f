//! Writing the items in memory as an image, for a later process: what a clean stop does where there
//! is no flash tier to move them to ([`codec::image`] has the format, [`crate::restore`] the way
//! back).
//!
//! ```text
//!   hot zone   read since the hand came by | read at all | the rest ---> blocks
//!   compressed zone                leaf by leaf --------------------------^
//! ```
//!
//! The most valuable items come first, as far as the hot zone's policy tells: a time limit cuts off
//! the least that can be lost. For that the hot zone is walked three times, which costs a look at
//! each mark. Nothing moves and nothing is changed: a process that saves needs this memory for
//! nothing else.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use ::io::Clock;
use codec::Method;
use codec::image::{Head, Tier, Totals, Writer};
use hot::mark::FETCHED;
use hot::walk::Cursor;
use hot::{CacheHooks, ItemRef};
use index::Hash;
use memory::Place;
use policy::clock::RECENT;
use stdx::sync::lock;

use crate::cache::Cache;
use crate::compressed_tier::CompressedTier;
use crate::snapshot::row_fields;

/// The method and level of compression of blocks.
const METHOD: (Method, i32) = (Method::Zstd, 1);
/// Chunks of the hot zone, and leaves of the compressed one, that are written under one guard.
const CHUNKS_A_STEP: usize = 4096;
const LEAVES_A_STEP: usize = 16;
/// Bytes after which `goes_on` is asked, as with each step.
const LOOK_BYTES: u64 = 256 << 10;

/// The outcome of saving.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageSaved {
    /// Items that were written.
    pub items: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Bytes that were written.
    pub image_bytes: u64,
    /// Whether the caller stopped it before all was written.
    pub is_interrupted: bool,
}

/// Saving under way.
struct Saving<'c, W: Write, F> {
    cache: &'c Cache,
    writer: Writer<W>,
    goes_on: F,
    /// Bytes when `goes_on` was last asked.
    looked_bytes: u64,
}

/// Whether to go on: not if the caller stops it, or the target fails.
type Flow = ControlFlow<io::Result<()>>;

impl Cache {
    /// Writes all items in memory as an image, the most valuable first, as long as `goes_on` says
    /// so. The image is whole wherever it ends: `target` has to be flushed, and then it can be
    /// read. For a clean stop: no thread stores anything meanwhile.
    ///
    /// # Errors
    ///
    /// The target could not be written.
    pub fn save_image<W: Write>(
        &self,
        target: W,
        goes_on: impl FnMut() -> bool,
    ) -> io::Result<(W, ImageSaved)> {
        let chores = lock(&self.chores);
        self.tick();
        self.flush_if_due();
        let saved_at = self.now();
        let head = Head {
            nonce: RandomState::new().hash_one(0_u8),
            saved_at,
            wall_at: Some(wall_at(&*self.clock, saved_at)),
            flush_at: self.moment.flush.planned(),
            sequence: self.sequence.load(Ordering::Relaxed),
            share_ppm: Head::ppm_of(chores.mover.adaptation.share()),
            hot_items: self.hot_items(),
            limit_bytes: self.limit_bytes() as u64,
        };
        let writer = Writer::new(target, &head, METHOD.0, METHOD.1)?;
        let mut saving = Saving { cache: self, writer, goes_on, looked_bytes: 0 };
        let is_interrupted = match saving.run() {
            ControlFlow::Continue(()) => false,
            ControlFlow::Break(Ok(())) => true,
            ControlFlow::Break(Err(error)) => return Err(error),
        };
        let dictionary =
            self.compressed.as_deref().and_then(|compressed| compressed.zone.dictionary());
        let finished = saving.writer.finish(dictionary.as_deref())?;
        let (target, Totals { items, bytes, image_bytes }) = finished;
        Ok((target, ImageSaved { items, bytes, image_bytes, is_interrupted }))
    }
}

impl<W: Write, F: FnMut() -> bool> Saving<'_, W, F> {
    fn run(&mut self) -> Flow {
        for rank in 0..RANKS {
            self.save_hot(rank)?;
        }
        match self.cache.compressed.as_deref() {
            Some(compressed) => self.save_compressed(compressed),
            None => Flow::Continue(()),
        }
    }

    fn save_hot(&mut self, rank: usize) -> Flow {
        let (cache, mut cursor, mut more) = (self.cache, Cursor::default(), true);
        while more {
            // Of this rank there may be nothing to be written for long.
            self.ask()?;
            let guard = cache.epochs.pin();
            let mut met: Vec<(Hash, Place)> = Vec::new();
            // A class's lock is held there, which others may want before the disk is done.
            more = cache.hot.walk(&guard, &mut cursor, CHUNKS_A_STEP, |item, place| {
                if rank_of(item.mark().load(Ordering::Relaxed)) == rank {
                    met.push((cache.hash(item.key()), place));
                }
            });
            // An item that the index does not lead to may be overwritten by now.
            let found = met.into_iter().filter_map(|(hash, at)| cache.find_at(&guard, hash, at));
            for found in found {
                self.look()?;
                written(self.save_item(found.item))?;
            }
        }
        Flow::Continue(())
    }

    fn save_item(&mut self, item: ItemRef<'_>) -> io::Result<()> {
        let cache = self.cache;
        if CacheHooks::is_gone(cache, item) {
            return Ok(());
        }
        let mark = item.mark().load(Ordering::Relaxed);
        let fields = row_fields(&item.fields(), mark);
        let (key, note) = (item.key(), item.sequence());
        match item.contiguous() {
            Some(value) => {
                self.writer.push(Tier::Hot, note, &compressed::Record { key, value, fields })
            }
            None => {
                let pieces = 0..item.layout().pieces();
                let pieces = pieces.map(|number| cache.hot.piece_value(item, number));
                let bytes = item.value_bytes();
                self.writer.push_long(Tier::Hot, note, (key, &fields), bytes, pieces)
            }
        }
    }

    fn save_compressed(&mut self, compressed: &CompressedTier) -> Flow {
        let cache = self.cache;
        let (mut cursor, mut reader) = (compressed::Cursor::default(), compressed::Reader::new());
        let mut more = true;
        while more {
            // Flushed items are not written.
            self.ask()?;
            let guard = cache.epochs.pin();
            let mut result = Ok(());
            more = compressed.zone.walk(
                &guard,
                &mut cursor,
                LEAVES_A_STEP,
                cache.now(),
                &mut reader,
                {
                    |record, accesses| {
                        if result.is_ok() && !cache.is_compressed_flushed(record.key) {
                            result = self.writer.push(Tier::Compressed, accesses.into(), record);
                        }
                    }
                },
            );
            written(result)?;
        }
        Flow::Continue(())
    }

    /// Asks now and then whether to go on.
    fn look(&mut self) -> Flow {
        let bytes = self.writer.totals().bytes;
        if bytes >= self.looked_bytes + LOOK_BYTES {
            self.looked_bytes = bytes;
            self.ask()?;
        }
        Flow::Continue(())
    }

    fn ask(&mut self) -> Flow {
        if (self.goes_on)() { Flow::Continue(()) } else { Flow::Break(Ok(())) }
    }
}

/// Returns what the wall clock says when it is `now` by the clock that expiries go by. Where it is
/// ahead by less than a second, it is not taken to be ahead; the other way round it is taken to be
/// a second behind, so that no item is served too long.
fn wall_at(clock: &dyn Clock, now: u32) -> u32 {
    // In this order, in which a clock that was never set is not behind itself by a moment.
    let (unix_ms, wall_ms) = (clock.unix_ms(), clock.wall_ms());
    let ahead_s = (wall_ms as i64 - unix_ms as i64).div_euclid(1000);
    (i64::from(now) + ahead_s).clamp(0, u32::MAX.into()) as u32
}

/// The number of ranks, from the most valuable.
const RANKS: usize = 3;

/// Returns the rank of an item of the hot zone with this mark.
fn rank_of(mark: u8) -> usize {
    match mark {
        _ if mark & RECENT != 0 => 0,
        _ if mark & FETCHED != 0 => 1,
        _ => 2,
    }
}

fn written(result: io::Result<()>) -> Flow {
    match result {
        Ok(()) => Flow::Continue(()),
        Err(error) => Flow::Break(Err(error)),
    }
}
