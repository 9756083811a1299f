//! The memory of blocks: slabs of the arena, filled as a log.
//!
//! ```text
//!   closed   | block | block | ...                     | tail |   live bytes: of referenced blocks
//!   open     | block | block | free ...                       |   blocks are appended here
//!   limbo    | nothing live; pinned readers may still look    |
//!   free     | ready to be opened                             |
//! ```
//!
//! Blocks are of any length, rounded to a unit (`raw::Ground`). A block that is replaced only
//! lowers the live bytes of its slab. Of the slabs whose cleaning gains something, cleaning
//! ([`crate::clean`]) moves the live blocks out of the one with the fewest live bytes, and the slab
//! waits in limbo until no pinned thread can see it.
//!
//! Limits: the zone never owns more slabs than its budget; open, limbo and free ones count. The
//! last free slab is a reserve that only cleaning may open; without it a full zone could no longer
//! be cleaned.
//!
//! `docs/decisions/0009-the-compressed-zone-is-a-log.md` compares it with size classes, in numbers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use memory::{Epochs, SlabId, Tag};
use stdx::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use stdx::sync::lock;

use crate::block::Head;
use crate::raw::{Ground, Idle, Lease, Reference};

/// Free slabs that only cleaning may open.
const RESERVE_SLABS: usize = 1;
/// Cleaning moves a slab only if that frees at least one part in this many of it.
const DEAD_SHARE_MIN: usize = 64;
/// Slabs left in the arena for others, as the hot zone's classes leave one for the index.
const SPARE_SLABS: usize = 1;

/// The purpose of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A store or a sweep.
    Store,
    /// Cleaning: may use the reserve.
    Move,
}

/// The error of an append that finds no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// The zone's slabs.
pub(crate) struct Space {
    pub(crate) ground: Ground,
    epochs: Arc<Epochs>,
    /// Bytes of the blocks in each slab of the arena that are not replaced.
    live: Box<[AtomicU32]>,
    live_bytes: AtomicUsize,
    budget_slabs: AtomicUsize,
    /// The number of slabs in `state`, to be read without its lock.
    owned_slabs: AtomicUsize,
    /// Of those, slabs that a damaged header keeps from being emptied; likewise read without the
    /// lock.
    damaged_slabs: AtomicUsize,
    appended_bytes: AtomicUsize,
    moved_bytes: AtomicUsize,
    /// Whether a closed slab may have lost its last live bytes since the last `reclaim`.
    emptied: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: Option<Log>,
    /// Sorted by number.
    closed: Vec<Log>,
    limbo: VecDeque<(Lease, Tag)>,
    free: Vec<Idle>,
    /// The number of slabs opened so far.
    opened: u64,
    /// The slab that is being cleaned.
    victim: Option<SlabId>,
}

impl State {
    fn owned_slabs(&self) -> usize {
        usize::from(self.open.is_some()) + self.closed.len() + self.limbo.len() + self.free.len()
    }
}

/// A slab with blocks up to `end`.
struct Log {
    lease: Lease,
    end: usize,
    /// Distinguishes this use of the slab from earlier ones.
    number: u64,
    /// A damaged header keeps it from being walked, or the walk from emptying it.
    damaged: bool,
}

/// A slab that is to be cleaned, and where its blocks end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Victim {
    pub(crate) slab: SlabId,
    pub(crate) number: u64,
    pub(crate) end: usize,
}

/// The slabs and bytes at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// Slabs that the zone owns.
    pub slabs: usize,
    /// Of those, slabs with nothing in them: free, or in limbo.
    pub idle_slabs: usize,
    /// Bytes of a slab.
    pub slab_bytes: usize,
    /// Bytes of blocks that slots refer to.
    pub live_bytes: usize,
    /// Bytes behind the last block of the open slab.
    pub open_bytes: usize,
    /// Bytes appended by stores and sweeps since the zone began.
    pub appended_bytes: usize,
    /// Bytes moved by cleaning since the zone began.
    pub moved_bytes: usize,
}

impl Space {
    /// Makes a space without slabs.
    pub(crate) fn new(ground: Ground, epochs: Arc<Epochs>, budget_slabs: usize) -> Self {
        let live = (0..ground.arena().reserved_slabs()).map(|_| AtomicU32::new(0)).collect();
        Self {
            ground,
            epochs,
            live,
            live_bytes: AtomicUsize::new(0),
            budget_slabs: AtomicUsize::new(budget_slabs),
            owned_slabs: AtomicUsize::new(0),
            damaged_slabs: AtomicUsize::new(0),
            appended_bytes: AtomicUsize::new(0),
            moved_bytes: AtomicUsize::new(0),
            emptied: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    pub(crate) fn slab_bytes(&self) -> usize {
        self.ground.arena().slab_bytes()
    }

    pub(crate) fn budget_slabs(&self) -> usize {
        self.budget_slabs.load(Ordering::Relaxed)
    }

    pub(crate) fn set_budget_slabs(&self, slabs: usize) {
        self.budget_slabs.store(slabs, Ordering::Relaxed);
    }

    pub(crate) fn owned_slabs(&self) -> usize {
        self.owned_slabs.load(Ordering::Relaxed)
    }

    pub(crate) fn live_bytes(&self) -> usize {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// The bytes that a block takes up.
    pub(crate) fn placed_bytes(&self, block_bytes: usize) -> usize {
        block_bytes.next_multiple_of(self.ground.unit_bytes())
    }

    /// Appends a block's image. The caller holds the lock of its shard, and publishes the reference
    /// or retires it before releasing the lock.
    pub(crate) fn append(&self, purpose: Purpose, image: &[u8]) -> Result<Reference, NoRoom> {
        let bytes = self.placed_bytes(image.len());
        let mut state = lock(&self.state);
        let open_bytes = self.open_bytes(&state);
        if purpose == Purpose::Store && open_bytes < bytes + self.owed_bytes(&state) {
            // Cleaning has opened the reserve; what is left of it is for what it still has to move.
            self.reclaim(&mut state);
            if open_bytes < bytes + self.owed_bytes(&state) && open_bytes >= bytes {
                return Err(NoRoom);
            }
        }
        if open_bytes < bytes {
            self.open_another(&mut state, purpose)?;
        }
        let log = state.open.as_mut().expect("one was just opened, or is open");
        let at = log.end;
        let reference = self.ground.write(&mut log.lease, at, image);
        log.end += bytes;
        self.live[log.lease.slab().0 as usize].fetch_add(bytes as u32, Ordering::Relaxed);
        self.live_bytes.fetch_add(bytes, Ordering::Relaxed);
        match purpose {
            Purpose::Store => &self.appended_bytes,
            Purpose::Move => &self.moved_bytes,
        }
        .fetch_add(bytes, Ordering::Relaxed);
        Ok(reference)
    }

    /// Notes that nothing refers to a block any more.
    pub(crate) fn retire(&self, reference: Reference, head: &Head) {
        let bytes = self.placed_bytes(head.block_bytes());
        let (slab, _) = self.ground.locate(reference);
        // Release: partner is the acquire in `live_of`; the unlinking came before.
        let before = self.live[slab.0 as usize].fetch_sub(bytes as u32, Ordering::Release);
        debug_assert!(before as usize >= bytes, "a block is retired once");
        self.live_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before as usize == bytes {
            // Release: partner is the acquire in `reclaim`, which then sees that nothing is live.
            // It exchanges, because a plain store would hide what another slab's retirer released.
            self.emptied.swap(true, Ordering::Release);
        }
    }

    /// Whether slots refer to anything in a slab.
    pub(crate) fn has_live(&self, slab: SlabId) -> bool {
        self.live_of(slab) != 0
    }

    fn live_of(&self, slab: SlabId) -> u32 {
        // Acquire: partner is the release in `retire`.
        self.live[slab.0 as usize].load(Ordering::Acquire)
    }

    fn open_another(&self, state: &mut State, purpose: Purpose) -> Result<(), NoRoom> {
        self.reclaim(state);
        let wanted = if purpose == Purpose::Store { RESERVE_SLABS + 1 } else { 1 };
        while state.free.len() < wanted {
            if state.owned_slabs() >= self.budget_slabs() {
                return Err(NoRoom);
            }
            state.free.push(self.ground.lease(SPARE_SLABS).ok_or(NoRoom)?);
            self.owned_slabs.store(state.owned_slabs(), Ordering::Relaxed);
        }
        let idle = state.free.pop().ok_or(NoRoom)?;
        self.close(state);
        state.opened += 1;
        state.open = Some(Log { lease: idle.open(), end: 0, number: state.opened, damaged: false });
        Ok(())
    }

    /// Closes the open slab. It may have emptied while it was open.
    fn close(&self, state: &mut State) {
        state.closed.extend(state.open.take());
        // Relaxed: `reclaim` comes under the same lock.
        self.emptied.swap(true, Ordering::Relaxed);
    }

    /// Moves slabs on that are ready: from closed to limbo when nothing in them is live, from limbo
    /// to free when no thread can see them, and from free to the arena when there are too many.
    fn reclaim(&self, state: &mut State) {
        // Acquire: partner is the release in `retire`. A zone may have thousands of slabs, and this
        // is done for each insertion.
        if self.emptied.swap(false, Ordering::Acquire) {
            let is_dead = |log: &mut Log| self.live_of(log.lease.slab()) == 0;
            for log in state.closed.extract_if(.., is_dead) {
                state.victim = state.victim.filter(|victim| *victim != log.lease.slab());
                self.damaged_slabs.fetch_sub(log.damaged.into(), Ordering::Relaxed);
                state.limbo.push_back((log.lease, self.epochs.tag()));
            }
        }
        while let Some((lease, tag)) = state.limbo.pop_front() {
            match lease.idle(&self.epochs, tag) {
                Ok(idle) => state.free.push(idle),
                Err(lease) => {
                    state.limbo.push_front((lease, tag));
                    break;
                }
            }
        }
        let reserve = if self.budget_slabs() == 0 { 0 } else { RESERVE_SLABS };
        while state.free.len() > reserve && state.owned_slabs() > self.budget_slabs() {
            let Some(idle) = state.free.pop() else { break };
            self.ground.give(idle);
        }
        self.owned_slabs.store(state.owned_slabs(), Ordering::Relaxed);
    }

    /// Does everything that needs no block to be moved: see `reclaim`. Returns the number of bytes
    /// that stores can still append, as far as the arena has the slabs.
    pub(crate) fn tidy(&self) -> usize {
        let mut state = lock(&self.state);
        if self.budget_slabs() == 0 {
            self.close(&mut state);
        }
        self.reclaim(&mut state);
        self.room_in(&state)
    }

    /// The number of bytes that stores can still append, as far as the arena has the slabs.
    pub(crate) fn room(&self) -> usize {
        self.room_in(&lock(&self.state))
    }

    /// The number of slabs that the zone has or can still get, without those that are lost to
    /// damage: the live blocks in the others have to fit there.
    pub(crate) fn slabs_attainable(&self) -> usize {
        let more = self.ground.arena().free_slabs().saturating_sub(SPARE_SLABS);
        let slabs = self.budget_slabs().min(self.owned_slabs() + more);
        slabs.saturating_sub(self.damaged_slabs.load(Ordering::Relaxed))
    }

    fn room_in(&self, state: &State) -> usize {
        let more = self.budget_slabs().saturating_sub(state.owned_slabs());
        let more = more.min(self.ground.arena().free_slabs().saturating_sub(SPARE_SLABS));
        let slabs = (state.free.len() + more).saturating_sub(RESERVE_SLABS);
        let open_bytes = self.open_bytes(state).saturating_sub(self.owed_bytes(state));
        slabs * self.slab_bytes() + open_bytes
    }

    /// Bytes of the open slab that are not for stores: as long as there is no reserve, and none
    /// comes back by itself, the bytes that cleaning still has to move. So cleaning can always go
    /// on, and then there is a reserve again.
    fn owed_bytes(&self, state: &State) -> usize {
        let can_lease = state.owned_slabs() < self.budget_slabs()
            && self.ground.arena().free_slabs() > SPARE_SLABS;
        if can_lease || !state.free.is_empty() || !state.limbo.is_empty() {
            return 0;
        }
        state.victim.map_or(self.slab_bytes(), |victim| self.live_of(victim) as usize)
    }

    fn open_bytes(&self, state: &State) -> usize {
        state.open.as_ref().map_or(0, |log| self.slab_bytes() - log.end)
    }

    /// Chooses the slab to be cleaned next, if there is room for its live bytes: of the closed
    /// slabs whose cleaning gains something, the one with the fewest.
    pub(crate) fn choose_victim(&self) -> Option<Victim> {
        let mut state = lock(&self.state);
        self.reclaim(&mut state);
        let victim = self.movable_victim(&state)?;
        state.victim = Some(victim.slab);
        Some(victim)
    }

    /// Whether only dropping blocks makes room: there is nothing worth cleaning, or no room to
    /// clean, and no slab that only waits for readers.
    pub(crate) fn is_stuck(&self) -> bool {
        let state = lock(&self.state);
        state.limbo.is_empty() && state.victim.is_none() && self.movable_victim(&state).is_none()
    }

    fn movable_victim(&self, state: &State) -> Option<Victim> {
        let live_of = |log: &Log| self.live_of(log.lease.slab()) as usize;
        let dead_min = self.slab_bytes() / DEAD_SHARE_MIN;
        // A slab that was closed early has few live bytes and may have no dead ones.
        let gains = |log: &&Log| !log.damaged && log.end.saturating_sub(live_of(log)) >= dead_min;
        let log = state.closed.iter().filter(gains).min_by_key(|log| live_of(log))?;
        let room = state.free.len() * self.slab_bytes() + self.open_bytes(state);
        let victim = Victim { slab: log.lease.slab(), number: log.number, end: log.end };
        (live_of(log) <= room).then_some(victim)
    }

    /// Whether a slab is still to be cleaned: it may have emptied meanwhile, and even have been
    /// filled anew.
    pub(crate) fn is_closed(&self, number: u64) -> bool {
        lock(&self.state).closed.binary_search_by_key(&number, |log| log.number).is_ok()
    }

    /// Notes that a slab cannot be walked to its end, or that something in it cannot be moved.
    pub(crate) fn give_up(&self, number: u64) {
        let mut state = lock(&self.state);
        let log = state.closed.iter_mut().find(|log| log.number == number);
        if let Some(log) = log {
            self.damaged_slabs.fetch_add((!log.damaged).into(), Ordering::Relaxed);
            log.damaged = true;
            state.victim = None;
        }
    }

    /// Whether slabs wait for pinned readers.
    pub(crate) fn waits_for_readers(&self) -> bool {
        !lock(&self.state).limbo.is_empty()
    }

    /// The slabs and bytes at this moment.
    pub(crate) fn stats(&self) -> SpaceStats {
        let state = lock(&self.state);
        SpaceStats {
            slabs: state.owned_slabs(),
            idle_slabs: state.free.len() + state.limbo.len(),
            slab_bytes: self.slab_bytes(),
            live_bytes: self.live_bytes(),
            open_bytes: self.open_bytes(&state),
            appended_bytes: self.appended_bytes.load(Ordering::Relaxed),
            moved_bytes: self.moved_bytes.load(Ordering::Relaxed),
        }
    }

    /// Live bytes of each slab, to check them against the trie's references.
    #[cfg(test)]
    pub(crate) fn live_by_slab(&self) -> Vec<usize> {
        self.live.iter().map(|live| live.load(Ordering::Relaxed) as usize).collect()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // The zone is dropped, and with it everything that could lead to a block: no guard is left
        // that borrows from it.
        let mut state = std::mem::take(&mut *lock(&self.state));
        let logs = state.open.take().into_iter().chain(state.closed.drain(..));
        let leases: Vec<_> = logs.map(|log| log.lease).collect();
        let tag = self.epochs.tag();
        let rest = leases.into_iter().map(|lease| (lease, tag)).chain(state.limbo.drain(..));
        for (lease, tag) in rest {
            // A slab that a pinned guard keeps from being idle stays taken.
            if let Ok(idle) = lease.idle(&self.epochs, tag) {
                self.ground.give(idle);
            }
        }
        state.free.drain(..).for_each(|idle| self.ground.give(idle));
    }
}
