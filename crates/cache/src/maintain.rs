//! The background's work: reserves, slabs from class to class, the index's tables, the walk after
//! a flush, a memory limit that was lowered. None of it is needed for correctness; it keeps the
//! work off the path of stores.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hot::shift::Cursor;
use index::Hash;
use memory::{Epochs, Tag};
use stdx::sync::{Backoff, lock};

use crate::builder::{MemoryLimitError, SLABS_MIN};
use crate::cache::Cache;
use crate::flush::WALK_DUE_MUTATIONS;

/// Chunks that the walk after a flush looks at in one turn.
const WALK_CHUNKS: usize = 16 << 10;
/// Slabs taken from the hot zone in one turn, for the index or for a lowered limit.
const SLABS_PER_TURN_MAX: usize = 8;
/// How often a thread that needs memory looks whether pinned readers have left before it goes on
/// regardless.
const WAIT_LOOKS: usize = 1000;

/// Where the background's work stands.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    walk: Option<Walk>,
}

/// The walk after a flush.
#[derive(Debug, Clone, Copy)]
struct Walk {
    /// The flush that it is for.
    flushed: u64,
    /// Sessions that were open at this moment have to be over before it goes on.
    tag: Tag,
    /// How far it has come.
    cursor: Cursor,
    /// It has come to the end.
    is_done: bool,
}

impl Cache {
    /// One turn of the background's work. Returns whether there is more to do at once. Call it
    /// from one thread in a loop with [`Cache::wait_for_work`]; a second thread's call returns at
    /// once.
    pub fn maintain(&self) -> bool {
        let Ok(mut chores) = self.chores.try_lock() else {
            return false;
        };
        self.tick();
        self.flush_if_due();
        let mut more = self.walk_after_flush(&mut chores);
        if self.may_evict {
            more |= self.give_up_slabs();
        }
        more |= self.hot.maintain(self);
        self.index.maintain();
        self.arena.prepare();
        // Without readers the epoch moves on only when somebody asks.
        self.hot.sweep();
        more
    }

    /// Blocks until a request calls for the background, or the time is over.
    pub fn wait_for_work(&self, timeout: Duration) {
        let (called, condition) = &self.work;
        let waiting = lock(called);
        let (mut called, _) = condition
            .wait_timeout_while(waiting, timeout, |called| !*called)
            .expect("nothing panics while it holds this lock");
        *called = false;
    }

    /// Wakes whoever waits in [`Cache::wait_for_work`].
    pub fn call_for_work(&self) {
        let (called, condition) = &self.work;
        let mut called = lock(called);
        if !*called {
            *called = true;
            condition.notify_one();
        }
    }

    /// Changes the memory limit, in bytes. A lower one takes effect over the next turns of
    /// [`Cache::maintain`].
    pub fn set_memory_bytes(&self, bytes: usize) -> Result<(), MemoryLimitError> {
        let slab_bytes = self.arena.slab_bytes();
        let slabs = (bytes / slab_bytes).max(SLABS_MIN);
        if slabs > self.arena.reserved_slabs() {
            let bytes_max = self.arena.reserved_slabs() * slab_bytes;
            return Err(MemoryLimitError { bytes_max });
        }
        self.arena.set_limit_slabs(slabs);
        self.call_for_work();
        Ok(())
    }

    /// Waits a moment for pinned readers to leave memory that was freed. The caller must have no
    /// session open.
    pub fn wait_for_memory(&self) {
        // Whatever was unlinked before has a tag no later than this one.
        let tag = self.epochs.tag();
        let mut backoff = Backoff::default();
        for _ in 0..WAIT_LOOKS {
            if self.epochs.try_reach(tag) {
                break;
            }
            backoff.wait();
        }
    }

    /// Makes room for an index that cannot grow: a slab from the hot zone.
    pub(crate) fn make_room_for_index(&self) {
        if self.may_evict {
            self.hot.give_up_slabs(1, self);
        }
        self.call_for_work();
    }

    /// Takes slabs from the hot zone when the limit was lowered or the index has none to grow
    /// into.
    fn give_up_slabs(&self) -> bool {
        let excess = self.arena.excess_slabs();
        let wanted = excess.max(usize::from(self.tables.take_starved()));
        self.hot.give_up_slabs(wanted.min(SLABS_PER_TURN_MAX), self);
        self.hot.sweep();
        excess > SLABS_PER_TURN_MAX
    }

    /// Removes what was flushed, a part in each turn. Returns whether there is more to do at once.
    ///
    /// The walk waits twice for every open session to be over. Before it begins, for those that had
    /// not noticed the flush: one of them may be about to publish what it prepared from a flushed
    /// item, under a number below the flush's, in a chunk that the walk would have passed by then.
    /// And before the flush is over, for those that found an item while it was still in the index:
    /// they have yet to ask whether it is flushed.
    fn walk_after_flush(&self, chores: &mut Chores) -> bool {
        let flushed = self.moment.flush.sequence();
        if flushed == 0 {
            return false;
        }
        let walk = chores.walk.get_or_insert_with(|| self.begin_walk(flushed));
        if walk.flushed != flushed {
            *walk = self.begin_walk(flushed);
        }
        if !self.epochs.try_reach(walk.tag) {
            return false;
        }
        if walk.is_done {
            chores.walk = None;
            self.moment.flush.end(flushed);
            return false;
        }
        if !self.remove_gone(&mut walk.cursor) {
            walk.is_done = true;
            walk.tag = self.epochs.tag();
        }
        true
    }

    fn begin_walk(&self, flushed: u64) -> Walk {
        Walk { flushed, tag: self.epochs.tag(), cursor: Cursor::default(), is_done: false }
    }

    /// Removes what is expired or flushed in the next part of the zone.
    fn remove_gone(&self, cursor: &mut Cursor) -> bool {
        let guard = Epochs::pin(&self.epochs);
        let mut gone: Vec<(Hash, _)> = Vec::new();
        let more = self.hot.walk(&guard, cursor, WALK_CHUNKS, |item, place| {
            if self.is_gone(item) {
                let hash = self.hash(item.key());
                gone.extend(self.confirm(&guard, hash, item, place).map(|found| (hash, found)));
            }
        });
        for (hash, found) in gone {
            self.remove_found(&guard, hash, &found);
        }
        more
    }

    /// Finishes the walk after a flush before the sequence has run too far ahead of it.
    pub(crate) fn finish_walk_if_due(&self) {
        let flushed = self.moment.flush.sequence();
        if flushed != 0 && self.sequence.load(Ordering::Relaxed) - flushed > WALK_DUE_MUTATIONS {
            let mut chores = lock(&self.chores);
            while self.walk_after_flush(&mut chores) {}
        }
    }
}
