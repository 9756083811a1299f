//! Magazines: they let the stores of several threads take and retire chunks without the lock of
//! their class. A thread has a magazine for each class, with a few free chunks in it and a few that
//! it retired; it goes to the class for the next few free ones, and with the last few retired ones.
//!
//! ```text
//!   store  <-  free     <-  class: limbo, at hand, slabs' lists   several at once, under its lock
//!   store  ->  retired  ->  class: limbo
//! ```
//!
//! A free chunk in a magazine is in the state of a draft's: its mark is 0, and the class counts it
//! as used. A retired one is as if the thread that unlinked it had not retired it yet. So a thread
//! that holds the lock of a class sees nothing new: a chunk that looks published is not used again
//! before it has gone through limbo, under that lock.
//!
//! Where a class keeps an order, the order is told of a chunk from a magazine once the chunk's item
//! is published: until then its cost is not known for sure, and a draft that comes up in an order
//! is only put off. So a magazine also keeps the chunks to be *entered*, until its thread next goes
//! to the class, or another thread does if there are many. A chunk that has left by then is passed
//! over: its mark is 0, or its slab another class's.
//!
//! This is Bonwick's and Adams's layer of magazines, with the class for their depot. Theirs hands
//! whole magazines back and forth; here it is places, so that a class takes back the chunks it has
//! run out of ([`Hot::collect`]), and a small class has none. At most one in [`MAGAZINE_SHARE`] of
//! a class's chunks is free in all of its magazines, and as many again are retired there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use memory::{ClassId, Guard, Place, Tag};
use policy::cost::Cost;
use stdx::sync::lock;
use stdx::{CachePadded, thread_number};

use crate::class::{AllocatedChunk, Class, Zone};
use crate::class_policy::Credits;
use crate::{CacheHooks, Hot, slab};

/// One in this many chunks of a class may be free in the magazines of all threads.
pub const MAGAZINE_SHARE: usize = 256;
/// The most free chunks in a magazine, and the most retired ones: with fewer, threads meet at the
/// class; more are too many to be passed on under one lock.
const CHUNKS_MAX: usize = 16;
/// The most threads with magazines of their own. Further threads share them.
const THREADS_MAX: usize = 64;

/// The magazines of all threads and classes.
#[derive(Debug)]
pub(crate) struct Magazines {
    /// A power of two.
    threads: usize,
    classes: usize,
    /// See [`MAGAZINE_SHARE`].
    share: usize,
    /// Whether classes keep an order.
    keeps_order: bool,
    /// The magazines of one thread lie side by side.
    all: Box<[CachePadded<Slot>]>,
    /// Unix seconds at which idle magazines were last emptied.
    collected: AtomicU32,
    /// By class: whether a magazine has more chunks to be entered than its thread would leave
    /// there.
    overdue: Box<[AtomicBool]>,
}

/// The magazine of a thread for a class.
#[derive(Debug, Default)]
struct Slot {
    /// Chunks that it may have of either kind, as the class last said.
    room: AtomicU32,
    magazine: Mutex<Magazine>,
}

/// The size that `docs/memory.md` gives for memory outside the limit.
const _: () = assert!(size_of::<CachePadded<Slot>>() <= 256);

#[derive(Debug, Default)]
struct Magazine {
    free: Vec<Place>,
    retired: Vec<(Tag, Place)>,
    /// Chunks with items that the order of the class has yet to be told of.
    unentered: Vec<Place>,
    credits: Credits,
    /// A chunk was put in or taken out since this was last asked.
    is_used: bool,
}

/// The chunks that wait in all magazines of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Parked {
    pub(crate) free: usize,
    pub(crate) retired: usize,
}

impl Magazines {
    /// Empty magazines for this many threads, which hold one in `share` of a class's chunks.
    fn new(threads: usize, classes: usize, share: usize, keeps_order: bool) -> Self {
        let threads = threads.clamp(1, THREADS_MAX).next_power_of_two();
        let all = (0..threads * classes).map(|_| CachePadded::default()).collect();
        let overdue = (0..classes).map(|_| AtomicBool::new(false)).collect();
        Self { threads, classes, share, keeps_order, all, collected: AtomicU32::new(0), overdue }
    }

    /// This thread's magazine for a class.
    #[inline]
    fn own(&self, class: ClassId) -> &Slot {
        let thread = thread_number() & (self.threads - 1);
        &self.all[thread * self.classes + usize::from(class.0)]
    }

    /// The magazines of all threads for a class.
    fn of_class(&self, class: ClassId) -> impl Iterator<Item = &Slot> {
        self.all.iter().skip(usize::from(class.0)).step_by(self.classes).map(|slot| &slot.0)
    }

    /// The chunks of either kind that a magazine may have, in a class with `chunks` chunks.
    fn room(&self, chunks: usize) -> usize {
        (chunks / (self.share * self.threads)).min(CHUNKS_MAX)
    }
}

impl Hot {
    /// The zone with magazines for this many storing threads, which hold one in `share` of the
    /// chunks of a class: [`MAGAZINE_SHARE`], or fewer so that small classes have some, too.
    pub fn with_magazines(mut self, threads: usize, share: usize) -> Self {
        let keeps_order = lock(&self.classes[0]).policy.order().is_some();
        self.magazines = Some(Magazines::new(threads, self.sizes.count(), share, keeps_order));
        self
    }

    /// The chunks that wait in the magazines of a class, whose lock the caller holds: the class
    /// counts all of them as used.
    pub(crate) fn parked(&self, id: ClassId) -> Parked {
        let mut parked = Parked::default();
        for slot in self.magazines.iter().flat_map(|magazines| magazines.of_class(id)) {
            let magazine = lock(&slot.magazine);
            parked.free += magazine.free.len();
            parked.retired += magazine.retired.len();
        }
        parked
    }

    /// A chunk out of this thread's magazine for a class.
    #[inline(always)]
    pub(crate) fn take_cached(&self, id: ClassId, cost: Cost) -> Option<AllocatedChunk> {
        let magazines = self.magazines.as_ref()?;
        let slot = magazines.own(id);
        // A thread that is told late goes to the class.
        if slot.room.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let zone = self.zone();
        loop {
            let mut magazine = lock(&slot.magazine);
            let place = magazine.free.pop()?;
            magazine.is_used = true;
            if let Some(&next) = magazine.free.last() {
                // It is written next.
                self.chunk(next).prefetch_for_writing(self.sizes.chunk_bytes(id));
            }
            if !zone.slab_at(place).is_draining() {
                let credit = magazine.credits.of(cost);
                return Some(AllocatedChunk { place, credit, is_unentered: magazines.keeps_order });
            }
            drop(magazine);
            lock(self.class(id)).release(zone, place);
        }
    }

    /// Fills this thread's magazine for a class from which it has just taken a chunk.
    #[inline]
    pub(crate) fn stock(&self, class: &mut Class) {
        let Some(magazines) = &self.magazines else { return };
        let slot = magazines.own(class.id);
        let room = magazines.room(class.staying() * class.chunks_per_slab);
        if slot.room.load(Ordering::Relaxed) != room as u32 {
            slot.room.store(room as u32, Ordering::Relaxed);
        }
        if room > 0 {
            let (zone, mut magazine) = (self.zone(), lock(&slot.magazine));
            let Magazine { free, credits, .. } = &mut *magazine;
            class.policy.settle(credits);
            class.take_more(zone, room, free);
            // The first chunk taken is used first: items stored one after the other then lie in one
            // slab, which an order that is emptied from its front leaves as a whole.
            free.reverse();
        }
    }

    /// Tells the order of a class, if it has one, of the chunks that this thread has published from
    /// its magazine, before any that come later; and of those that others have too many of: a
    /// thread that publishes this thread's drafts may never come to the class. Each of those chunks
    /// came from a magazine that was filled by a call that begins with this, so their number is
    /// bounded, whether the background runs or not.
    #[inline]
    pub(crate) fn enter_parked(&self, class: &mut Class) {
        if let Some(magazines) = self.magazines.as_ref().filter(|it| it.keeps_order) {
            let mut magazine = lock(&magazines.own(class.id).magazine);
            class.enter_all(self.zone(), magazine.unentered.drain(..));
            drop(magazine);
            if magazines.overdue[usize::from(class.id.0)].load(Ordering::Relaxed) {
                self.enter_overdue(magazines, class);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_overdue(&self, magazines: &Magazines, class: &mut Class) {
        // First: a thread that puts more in after the look says so again.
        magazines.overdue[usize::from(class.id.0)].store(false, Ordering::Relaxed);
        for slot in magazines.of_class(class.id) {
            let mut magazine = lock(&slot.magazine);
            if magazine.unentered.len() > CHUNKS_MAX {
                class.enter_all(self.zone(), magazine.unentered.drain(..));
            }
        }
    }

    /// Notes, for the order of its class, a chunk from a magazine in which an item has just been
    /// published. Takes no lock of a class: the caller holds that of an index table.
    #[inline(never)]
    pub(crate) fn enter_later(&self, place: Place) {
        let magazines = self.magazines.as_ref().expect("the chunk came out of a magazine");
        let id = self.class_at(place);
        let mut magazine = lock(&magazines.own(id).magazine);
        magazine.is_used = true;
        magazine.unentered.push(place);
        if magazine.unentered.len() > CHUNKS_MAX {
            magazines.overdue[usize::from(id.0)].store(true, Ordering::Relaxed);
        }
    }

    /// Takes an item that the index no longer points at, as [`Hot::retire_at_once`]; but its chunk
    /// may wait in this thread's magazine.
    ///
    /// # Safety
    /// As for [`Hot::retire_at_once`].
    #[inline]
    pub unsafe fn retire(&self, guard: &Guard<'_>, place: Place) {
        // SAFETY: the caller was pinned when it unlinked the item.
        let is_chained = unsafe { self.item(guard, place) }.layout().is_chained();
        let id = self.class_at(place);
        let slot = self.magazines.as_ref().map(|magazines| magazines.own(id));
        let room = slot.map_or(0, |slot| slot.room.load(Ordering::Relaxed) as usize);
        let Some(slot) = slot.filter(|_| room > 0 && !is_chained) else {
            // SAFETY: as promised by the caller.
            return unsafe { self.retire_at_once(guard, place) };
        };
        let zone = self.zone();
        zone.leave_quota(place);
        let newest = (guard.tag(), place);
        let mut magazine = lock(&slot.magazine);
        magazine.is_used = true;
        magazine.retired.push(newest);
        if magazine.retired.len() < room {
            return;
        }
        // A thread that holds the lock of a magazine does not wait for a class.
        let (mut all, count) = ([newest; CHUNKS_MAX], magazine.retired.len().min(CHUNKS_MAX));
        all[..count].copy_from_slice(&magazine.retired[..count]);
        magazine.retired.drain(..count);
        drop(magazine);
        lock(self.class(id)).retire_all(zone, all[..count].iter().copied());
    }

    /// Takes back the chunks in the magazines of a class. Returns whether there were any.
    pub(crate) fn collect(&self, id: ClassId) -> bool {
        self.collect_from(id, |_| true)
    }

    /// As [`Hot::collect`], from the magazines that are due.
    fn collect_from(&self, id: ClassId, is_due: impl Fn(&mut Magazine) -> bool) -> bool {
        let Some(magazines) = &self.magazines else { return false };
        let (mut free, mut retired, mut unentered) = (Vec::new(), Vec::new(), Vec::new());
        for slot in magazines.of_class(id) {
            let mut magazine = lock(&slot.magazine);
            if is_due(&mut magazine) {
                free.append(&mut magazine.free);
                retired.append(&mut magazine.retired);
                unentered.append(&mut magazine.unentered);
            }
        }
        if free.is_empty() && retired.is_empty() && unentered.is_empty() {
            return false;
        }
        let (mut class, zone) = (lock(self.class(id)), self.zone());
        class.enter_all(zone, unentered.into_iter());
        free.into_iter().for_each(|place| class.release(zone, place));
        class.retire_all(zone, retired.into_iter());
        true
    }

    /// Takes back the chunks in the magazines of all classes.
    pub(crate) fn collect_all(&self) {
        self.sizes.iter().for_each(|id| _ = self.collect(id));
    }

    /// Takes back the chunks in magazines that were not used for a second or two.
    pub(crate) fn collect_idle(&self, hooks: &dyn CacheHooks) {
        let Some(magazines) = &self.magazines else { return };
        let now = hooks.now();
        if magazines.collected.swap(now, Ordering::Relaxed) != now {
            for id in self.sizes.iter() {
                self.collect_from(id, |magazine| {
                    // A thread that publishes others' drafts never comes to the class.
                    !std::mem::take(&mut magazine.is_used) || magazine.unentered.len() > CHUNKS_MAX
                });
            }
        }
    }
}

impl Class {
    /// Takes chunks from limbo, as far as readers have left them, and free ones beyond the number
    /// at which the background is called, until there are `count`.
    fn take_more(&mut self, zone: Zone<'_>, count: usize, taken: &mut Vec<Place>) {
        while taken.len() < count {
            let is_plenty = self.free > self.low() + 1;
            let place = self.reuse(zone).or_else(|| if is_plenty { self.pop(zone) } else { None });
            let Some(place) = place else { break };
            taken.push(place);
        }
    }

    /// Tells the order of the class of chunks with items in them, as far as these are still there.
    fn enter_all(&mut self, zone: Zone<'_>, places: impl Iterator<Item = Place>) {
        for place in places {
            let slab = zone.slab_at(place);
            let is_there = slab.belongs_to(self.id)
                && slab.has_used(zone.arena, place)
                // Acquire: partner is the release in `Draft::publish`.
                && slab::mark(zone.arena, place).load(Ordering::Acquire) != 0;
            if is_there {
                // The item's cost is known by now.
                self.policy.enter(zone, place, Cost::UNKNOWN);
            }
        }
    }

    /// Takes chunks that were unlinked with these tags, which no quota counts any more.
    fn retire_all(&mut self, zone: Zone<'_>, chunks: impl Iterator<Item = (Tag, Place)>) {
        chunks.for_each(|(tag, place)| self.retire_free_of_quotas(zone, tag, place));
    }
}

#[cfg(test)]
mod tests;
