//! Epoch reclamation: when unlinked memory may be used again.
//!
//! A thread that follows locations into the arena *pins* the current epoch for a batch of requests.
//! A thread that unlinks a chunk, block or table *tags* it with the epoch of that moment. The epoch
//! moves from `e` to `e + 1` only when every pinned thread has pinned `e`; so once it has moved
//! twice past a tag, no thread that could have seen the unlinked memory is still pinned.
//!
//! ```text
//!   epoch      7         8         9
//!   reader     |--- pinned at 7 --|          (holds 8 -> 9 back)
//!   writer         unlink, tag 7             (may be reused when the epoch is 9)
//! ```
//!
//! This is Fraser's scheme with three differences. Threads do not register: a pin claims any free
//! slot, starting from its thread's own, so a pin is one compare-and-swap and a fence, and a cache
//! can be used from any thread. There are no bags of garbage here: the unlinking thread keeps the
//! tagged memory itself, in the size class it will return to. And a thread that blocks must not be
//! pinned, which makes it quiescent by construction.
//!
//! Why the fences suffice: a reader's claim of its slot is followed by a sequentially consistent
//! fence and then its reads; a writer's unlink is followed by such a fence and then the read of the
//! epoch that becomes the tag. If the reader still saw the old location, its fence came first, so
//! the tag is no older than the epoch before the reader's slot was visible to an advancing thread,
//! and that slot holds back the second of the two moves.
//!
//! A writer that is pinned itself needs no fence of its own ([`Guard::tag`]). It read the epoch `e`
//! behind the fence of its pin; until it leaves, only a move to `e + 1` can succeed, which was
//! begun before that fence. So the epoch of the unlink is at most `e + 1`, and that is the tag: at
//! times one move later than necessary, for one full fence less on every replaced item. A thread
//! that sees `e + 2` has seen the writer's slot released, and with it the unlink.

use std::fmt;
use std::sync::atomic::compiler_fence;

use stdx::CachePadded;
use stdx::sync::Backoff;
use stdx::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Pins that may exist at the same time. One more waits until a slot is free: so there are more
/// than twice as many as a server has threads at most, whose sessions may each pin once more to
/// evict. Loom and Miri would take long to go through as many.
pub const PINS_MAX: usize = match (cfg!(loom), cfg!(miri)) {
    (true, _) => 3,
    (_, true) => 64,
    _ => 2304,
};

/// In a slot: no thread is pinned here. Epochs start at 1.
const QUIESCENT: u64 = 0;

/// The epoch at which something was unlinked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(u64);

/// The current epoch and the pinned threads.
pub struct Epochs {
    current: CachePadded<AtomicU64>,
    /// Slots from here on were never claimed, so that `advance` looks at a few lines, not at all.
    slots_used: CachePadded<AtomicUsize>,
    slots: Box<[CachePadded<AtomicU64>]>,
}

/// While it lives, nothing that was reachable when it was made is reused.
///
/// Keep it for one batch of requests, and never while blocked.
#[must_use = "memory is only safe to read while the guard lives"]
pub struct Guard<'e> {
    epochs: &'e Epochs,
    slot: usize,
    /// The epoch behind the fence of the pin.
    epoch: u64,
}

/// Slots of a thread's own: one for its session, and one for a second pin under that.
#[cfg(not(loom))]
const SLOTS_PER_THREAD: usize = 2;

/// The first slot of a thread's own, as long as there are enough. It is always the same: if each
/// pin were to begin where the last one was, a second pin under a first would move its thread on by
/// one slot each time, until all slots were in use and `advance` looked at every one of them.
#[cfg(not(loom))]
#[inline]
fn own_slot() -> usize {
    stdx::thread_number() * SLOTS_PER_THREAD % PINS_MAX
}

/// Under loom all threads of all executions share one thread's locals, so they begin at one slot.
#[cfg(loom)]
fn own_slot() -> usize {
    0
}

impl Default for Epochs {
    fn default() -> Self {
        Self::new()
    }
}

impl Epochs {
    /// Epochs with no thread pinned.
    pub fn new() -> Self {
        let slots = (0..PINS_MAX).map(|_| CachePadded(AtomicU64::new(QUIESCENT))).collect();
        Self {
            current: CachePadded(AtomicU64::new(1)),
            slots_used: CachePadded(AtomicUsize::new(0)),
            slots,
        }
    }

    /// Pins the current epoch until the guard is dropped.
    pub fn pin(&self) -> Guard<'_> {
        let mut slot = own_slot();
        let mut backoff = Backoff::default();
        for attempt in 0_usize.. {
            if attempt > 0 && attempt.is_multiple_of(PINS_MAX) {
                backoff.wait();
            }
            // An epoch that is already behind is only a stricter promise: it holds the epoch back
            // one move earlier.
            let epoch = self.current.load(Ordering::Relaxed);
            let claim = self.slots[slot].compare_exchange(
                QUIESCENT,
                epoch,
                // Its acquire's partner is the release in `Guard::drop`, so that the accesses of
                // the slot's last user are over. For the rest see `fence_behind_claim`.
                Ordering::SeqCst,
                Ordering::Relaxed,
            );
            if claim.is_ok() {
                break;
            }
            slot = (slot + 1) % PINS_MAX;
        }
        // Relaxed, like the claim: the fence makes both visible together.
        if slot >= self.slots_used.load(Ordering::Relaxed) {
            self.slots_used.fetch_max(slot + 1, Ordering::Relaxed);
        }
        fence_behind_claim();
        Guard { epochs: self, slot, epoch: self.current.load(Ordering::Relaxed) }
    }

    /// A tag that is no earlier than any tag given so far.
    pub fn latest_tag(&self) -> Tag {
        // A guard that was pinned at the present epoch tags with the next.
        Tag(self.current.load(Ordering::Relaxed) + 1)
    }

    /// The tag for something that the caller, which is not pinned, has just unlinked.
    pub fn tag(&self) -> Tag {
        // Partner: the fence in `pin`.
        fence(Ordering::SeqCst);
        Tag(self.current.load(Ordering::Relaxed))
    }

    /// Whether no thread can still see memory with this tag.
    pub fn is_safe(&self, tag: Tag) -> bool {
        // Acquire: partner is the release in `advance`, which followed the drop of every guard that
        // mattered.
        self.current.load(Ordering::Acquire) >= tag.0 + 2
    }

    /// Moves the epoch on if every pinned thread has seen the current one. Returns whether it
    /// moved, by this call or by another's.
    pub fn advance(&self) -> bool {
        let current = self.current.load(Ordering::Relaxed);
        // Partner: the fence in `pin`.
        fence(Ordering::SeqCst);
        for slot in &self.slots[..self.slots_used.load(Ordering::Relaxed)] {
            let pinned = slot.load(Ordering::Relaxed);
            if pinned != QUIESCENT && pinned != current {
                return false;
            }
        }
        // Acquire: partner is the release in `Guard::drop`.
        fence(Ordering::Acquire);
        // Failure means that another thread moved it. On success a thread that reads this epoch and
        // then passes the fence in `advance` or `pin` has the unlinks of those that left their
        // slots before, on which `Guard::tag` rests. Release: partners are these fences, and the
        // acquire in `is_safe`.
        let _ = self.current.compare_exchange(
            current,
            current + 1,
            Ordering::Release,
            Ordering::Relaxed,
        );
        true
    }

    /// Whether trying to make `tag` safe may succeed, as far as one pinned thread can say: this
    /// one, if it has a session open. Much cheaper than the attempt.
    pub fn may_reach(&self, tag: Tag) -> bool {
        let pinned = self.slots[own_slot()].load(Ordering::Relaxed);
        // A pin of `e` lets the epoch come to `e + 1`, and no further.
        pinned == QUIESCENT || tag.0 < pinned
    }

    /// Tries for a moment to make `tag` safe: enough when the pinned threads are between batches.
    /// `false` when some thread, perhaps the caller's own, stays pinned.
    pub fn try_reach(&self, tag: Tag) -> bool {
        // A tag may be one ahead of the epoch, and is safe two behind it.
        for _ in 0..3 {
            if self.is_safe(tag) {
                return true;
            }
            if !self.advance() {
                break;
            }
        }
        self.is_safe(tag)
    }

    /// Waits until `tag` is safe. The caller must not be pinned, or it waits for itself.
    pub fn wait_for(&self, tag: Tag) {
        let mut backoff = Backoff::default();
        while !self.try_reach(tag) {
            backoff.wait();
        }
    }
}

impl Guard<'_> {
    /// The epochs this guard belongs to.
    pub fn epochs(&self) -> &Epochs {
        self.epochs
    }

    /// The tag for something that was unlinked under this guard.
    #[inline]
    pub fn tag(&self) -> Tag {
        Tag(self.epoch + 1)
    }
}

/// Makes a pin's claim visible before anything that the pinned thread reads.
#[inline]
fn fence_behind_claim() {
    if cfg!(all(target_arch = "x86_64", not(loom), not(miri))) {
        // The claim is a locked instruction, which is a full fence on this machine: a second one
        // costs some thirty cycles of every batch. The compiler must not move reads before it.
        // Partners: the fences in `tag` and `advance`.
        compiler_fence(Ordering::SeqCst);
    } else {
        // Partners: the fences in `tag` and `advance`.
        fence(Ordering::SeqCst);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // Release: partners are the acquire fence in `advance` and the claim in `pin`; every read
        // made under the guard is over before the slot is seen free.
        self.epochs.slots[self.slot].store(QUIESCENT, Ordering::Release);
    }
}

impl fmt::Debug for Epochs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pinned = self.slots.iter().filter(|s| s.load(Ordering::Relaxed) != QUIESCENT).count();
        f.debug_struct("Epochs")
            .field("current", &self.current.load(Ordering::Relaxed))
            .field("pinned", &pinned)
            .finish()
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("slot", &self.slot).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_reader_holds_back_the_second_move() {
        let epochs = Epochs::new();
        let reader = epochs.pin();
        let tag = epochs.tag();
        assert!(epochs.advance());
        assert!(!epochs.advance());
        assert!(!epochs.is_safe(tag));
        drop(reader);
        assert!(epochs.try_reach(tag));
    }

    #[test]
    fn memory_a_pinned_writer_unlinked_outlives_the_readers_of_its_time() {
        let epochs = Epochs::new();
        let writer = epochs.pin();
        assert!(epochs.advance());
        let reader = epochs.pin();
        let tag = writer.tag();
        assert!(tag <= epochs.latest_tag());
        drop(writer);
        assert!(epochs.advance());
        assert!(!epochs.try_reach(tag), "the reader may have seen it");
        drop(reader);
        assert!(epochs.try_reach(tag));
    }

    #[test]
    fn a_later_reader_does_not_hold_back_what_it_cannot_see() {
        let epochs = Epochs::new();
        let tag = epochs.tag();
        assert!(epochs.advance());
        let reader = epochs.pin();
        assert!(epochs.advance());
        assert!(epochs.is_safe(tag));
        drop(reader);
    }

    #[test]
    fn a_pin_under_another_leaves_no_slot_behind_that_is_looked_at() {
        let epochs = Epochs::new();
        for _ in 0..100 {
            let _outer = epochs.pin();
            let _inner = epochs.pin();
        }
        let used = epochs.slots_used.load(Ordering::Relaxed);
        assert_eq!(used, own_slot() + SLOTS_PER_THREAD);
    }

    #[test]
    fn a_thread_knows_what_its_own_pin_holds_back() {
        let epochs = Epochs::new();
        let before = epochs.tag();
        assert!(epochs.advance());
        let session = epochs.pin();
        let tag = session.tag();
        assert!(epochs.may_reach(before) && epochs.try_reach(before));
        assert!(!epochs.may_reach(tag) && !epochs.try_reach(tag));
        drop(epochs.pin());
        assert!(!epochs.may_reach(tag));
        drop(session);
        assert!(epochs.may_reach(tag) && epochs.try_reach(tag));
    }

    #[test]
    fn every_slot_can_be_claimed_and_is_free_again() {
        let epochs = Epochs::new();
        for _ in 0..2 {
            let guards: Vec<_> = (0..PINS_MAX).map(|_| epochs.pin()).collect();
            assert_eq!(guards.len(), PINS_MAX);
        }
        let tag = epochs.tag();
        assert!(epochs.try_reach(tag));
    }
}
