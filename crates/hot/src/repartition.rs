//! Re-partitioning: hot items change places with cold ones, so that they lie beside each other in
//! the first column of their slab, as Cavast has it. `policy::columns` decides, [`heat`] has the
//! temperatures. A choice that is off unless asked for.
//!
//! An item never changes once readers may see it, so it moves as a copy. Hot W and cold X of one
//! slab change places by way of a free chunk F of their class:
//!
//! ```text
//!            hot column   cold column   any slab
//!   before       X             W          (F)
//!   clear       (X)            W           X      X is in F; its old chunk is kept aside until no
//!   fill         W            (W)          X      reader can see it, then W goes there, and W's
//!                                                 old chunk to limbo, as any other
//! ```
//!
//! Each move confirms under the lock of the item's index table that the index still leads to
//! exactly the old place, takes over what may have changed (mark, expiry, number), and leads to the
//! copy: [`Links::relocate`]. So a move is no change of the key: whoever stores, touches or deletes
//! it does so before the move, which then finds another place and is given up, or behind it, with
//! the copy. Readers that found the old place read it for as long as they are pinned.
//!
//! *What is kept aside is so within one step.* It counts as used, so its slab stays in the class,
//! and who drains the slab waits for it as for a draft. When the step ends it holds an item again,
//! or it is free, or it went to limbo because some reader stays pinned. Nothing is left between
//! steps but numbers of chunks that might change places, which are looked at anew.
//!
//! Nobody waits for it: a class's lock is held for a look at two items, or at the temperatures of
//! [`WORDS_STEP`] words. It gives way where the class has few chunks to spare. A free chunk of a
//! hot column cannot be a partner: it could only be taken from the middle of its slab's list. But
//! if the free chunk that comes next is one, W goes there at once, and X stays. Items in pieces,
//! and those for which a client holds a win token or is to get one, stay where they are.
//!
//! [`heat`]: crate::heat

use std::sync::Arc;
use std::sync::atomic::Ordering;

use io::frames::FrameSource;
use memory::{Guard, Place, SlabId, Tag};
use policy::columns::{Chooser, Seen, Swap};
use policy::pages::PageSet;
use policy::temperatures::{Sixteen, TEMPERATURE_MAX};
use stdx::random::Xorshift;
use stdx::sync::{Backoff, lock};

use crate::class::{Class, Taken};
use crate::heat::{Heat, Repartition, RepartitionCounts, words};
use crate::hot_pages::FrameCounts;
use crate::item::ItemRef;
use crate::{Hot, Links, slab};

/// Words of temperatures that are read under one lock of a class: 2 KiB.
const WORDS_STEP: usize = 256;
/// Chunks whose marks are read under one lock of a class.
const MARKS_STEP: usize = 256;
/// Slabs that one step passes by at the most.
const PASSED_MAX: usize = 4096;
/// Swaps of one step. Readers have to leave once for each step.
const BATCH: usize = 8;
/// How often a step looks whether they have.
const WAIT_LOOKS: usize = 64;

/// How far re-partitioning has come.
#[derive(Debug, Default)]
pub struct Passes {
    /// The slab that is looked at next, or whose items move.
    slab: u32,
    /// Slabs that were passed by since one was due.
    passed: usize,
    /// What is still to change places there, the most worthwhile last.
    swaps: Vec<Swap>,
    /// Some reader stayed pinned; nothing moves until this is safe.
    awaits: Option<Tag>,
    words: Vec<Sixteen>,
    chooser: Chooser,
    random: Xorshift,
}

/// What became of the cold item of a swap.
enum Cleared {
    /// It moved, and its chunk waits for the hot one.
    Kept(Kept),
    /// It stays: the hot one has found another place.
    Moved,
    /// Nothing moves.
    GivenUp,
}

/// A chunk of a hot column that readers may still see, and what is to go there.
struct Kept {
    place: Place,
    tag: Tag,
    warm: Place,
    /// Of the item that was there.
    sequence: u32,
}

impl Hot {
    /// The zone with items that move to their columns. Its sizes leave a slab
    /// [`HEAT_BITS`](crate::heat::HEAT_BITS) beside each chunk, and no class keeps an order.
    pub fn with_repartition(mut self, settings: Repartition, frames: Arc<dyn FrameSource>) -> Self {
        assert_eq!(self.sizes.side_bits(), crate::heat::HEAT_BITS);
        self.heat = Some(Box::new(Heat::new(settings, frames, &self.arena)));
        self
    }

    /// How items move to their columns, if they do.
    pub fn repartition_settings(&self) -> Option<&Repartition> {
        self.heat.as_deref().map(|heat| &heat.settings)
    }

    /// What that came to.
    pub fn repartition_counts(&self) -> Option<RepartitionCounts> {
        self.heat.as_deref().map(Heat::counts)
    }

    /// What it saw of the frames that slabs lie in.
    pub fn frame_counts(&self) -> Option<FrameCounts> {
        self.heat.as_deref().map(|heat| heat.hot_pages.counts())
    }

    /// Whether the chunk at a place lies in a column for hot items.
    pub fn is_in_hot_column(&self, place: Place) -> bool {
        self.heat.as_deref().is_some_and(|heat| self.is_hot(heat, place))
    }

    fn is_hot(&self, heat: &Heat, place: Place) -> bool {
        let (id, offset) = self.arena.locate(place);
        heat.hot_pages.of(id, &self.slabs[id.0 as usize]).has_byte(offset)
    }

    /// Takes note of a hit that was sampled.
    ///
    /// # Safety
    /// As for [`Hot::item`].
    pub unsafe fn heat(&self, guard: &Guard<'_>, place: Place) {
        let _ = guard;
        if let Some(heat) = &self.heat {
            // The item that was there keeps the slab in its class while the guard is pinned.
            heat.hit(&self.arena, self.slab_at(place), place);
        }
    }

    /// The next step: looks for a slab that was hit often enough and decides what in it changes
    /// places, or moves some of that. For one thread at a time, which is not pinned. Returns
    /// whether there is more to do.
    pub fn repartition(&self, passes: &mut Passes, links: &dyn Links) -> bool {
        let Some(heat) = self.heat.as_deref() else {
            return false;
        };
        if passes.awaits.is_some_and(|tag| !self.epochs.try_reach(tag)) {
            return false;
        }
        passes.awaits = None;
        if !passes.swaps.is_empty() {
            self.swap_some(heat, passes, links);
            return true;
        }
        for _ in 0..PASSED_MAX {
            if passes.passed > self.slabs.len() {
                passes.passed = 0;
                return false;
            }
            passes.slab = (passes.slab + 1) % self.slabs.len() as u32;
            passes.passed += 1;
            let id = SlabId(passes.slab);
            if heat.is_due(id, &self.slabs[passes.slab as usize]) {
                passes.passed = 0;
                self.choose(heat, passes, id);
                break;
            }
        }
        true
    }

    /// A pass over a slab: its temperatures are taken, and those that differ enough are paired.
    fn choose(&self, heat: &Heat, passes: &mut Passes, id: SlabId) {
        let slab = &self.slabs[id.0 as usize];
        let Some(touched) = self.take_temperatures(heat, passes, id) else {
            return;
        };
        let Repartition { limits, .. } = heat.settings;
        let place = |number| slab.place(&self.arena, id, number);
        let hot = heat.hot_pages.look(&self.arena, id, slab);
        let is_hot = |number| hot.has_byte(self.arena.locate(place(number)).1);
        let temperature = |number: u32| passes.words[number as usize / Sixteen::COUNT];
        let is_warm = |&number: &u32| {
            let at = number as usize % Sixteen::COUNT;
            temperature(number).get(at) >= limits.margin && !is_hot(number)
        };
        let warm_words = (0..touched)
            .step_by(Sixteen::COUNT)
            .filter(|&first| temperature(first).may_reach(limits.margin));
        let mut near = warm_words.flat_map(|first| first..touched.min(first + 16));
        if !near.any(|number| is_warm(&number)) {
            return;
        }
        let Some(empty) = self.empty_in_hot_pages(&hot, id, touched) else {
            return;
        };
        let seen = |number: u32| {
            let found = temperature(number).get(number as usize % Sixteen::COUNT);
            // What has no item has none that could make room.
            let is_hot_zone = is_hot(number);
            let is_empty = is_hot_zone && empty.binary_search(&number).is_ok();
            let temperature = if is_empty { TEMPERATURE_MAX } else { found };
            Seen { is_hot_zone, temperature: Some(temperature) }
        };
        let start = passes.random.draw() as u32;
        passes.swaps.extend(passes.chooser.swaps((0..touched).map(seen), limits, start));
        passes.swaps.reverse();
    }

    /// Reads the temperatures of a slab. Returns how many of its chunks were ever used; nothing if
    /// it is not, or does not stay, in the hot zone.
    fn take_temperatures(&self, heat: &Heat, passes: &mut Passes, id: SlabId) -> Option<u32> {
        let slab = &self.slabs[id.0 as usize];
        passes.words.clear();
        let (chunks, touched) = (slab.chunks(), slab.touched());
        for begin in (0..words(chunks)).step_by(WORDS_STEP) {
            let class = lock(self.class(slab.class()));
            if !class.stays(self.zone(), id) || slab.chunks() != chunks {
                return None;
            }
            if begin == 0 {
                heat.begin_pass(id);
            }
            let end = words(chunks).min(begin + WORDS_STEP);
            heat.take(&self.arena, id, chunks, begin..end, &mut passes.words);
        }
        Some(touched)
    }

    /// The chunks of a slab's hot columns that hold nothing; nothing if the slab leaves.
    fn empty_in_hot_pages(&self, hot: &PageSet, id: SlabId, touched: u32) -> Option<Vec<u32>> {
        let slab = &self.slabs[id.0 as usize];
        let place = |number| slab.place(&self.arena, id, number);
        let is_hot = |number: &u32| hot.has_byte(self.arena.locate(place(*number)).1);
        let mut empty = Vec::new();
        for begin in (0..touched).step_by(MARKS_STEP) {
            let mut numbers = (begin..touched.min(begin + MARKS_STEP as u32)).filter(is_hot);
            let Some(first) = numbers.next() else {
                continue;
            };
            let class = lock(self.class(slab.class()));
            if !class.stays(self.zone(), id) {
                return None;
            }
            let is_empty =
                |&number: &u32| slab::mark(&self.arena, place(number)).load(Ordering::Relaxed) == 0;
            empty.extend(std::iter::once(first).chain(numbers).filter(is_empty));
        }
        Some(empty)
    }

    /// Moves some of what is to change places.
    fn swap_some(&self, heat: &Heat, passes: &mut Passes, links: &dyn Links) {
        let id = SlabId(passes.slab);
        let mut kept = Vec::with_capacity(BATCH);
        let mut given_up = 0;
        for swap in (0..BATCH).map_while(|_| passes.swaps.pop()) {
            match self.clear(heat, id, swap, links) {
                Cleared::Kept(chunk) => kept.push(chunk),
                Cleared::Moved => {}
                Cleared::GivenUp => given_up += 1,
            }
        }
        if let Some(last) = kept.last()
            && !self.wait_a_moment(last.tag)
        {
            // Whoever reads for so long would keep aside all that is moved.
            passes.awaits = Some(last.tag);
            passes.swaps.clear();
        }
        given_up += kept.iter().filter(|kept| !self.fill(heat, kept, links)).count();
        heat.counters.given_up.fetch_add(given_up as u64, Ordering::Relaxed);
    }

    /// Waits until nobody sees what was tagged so, or for a moment. Returns whether nobody does.
    fn wait_a_moment(&self, tag: Tag) -> bool {
        let mut backoff = Backoff::default();
        (0..WAIT_LOOKS).any(|_| {
            let is_reached = self.epochs.try_reach(tag);
            if !is_reached {
                backoff.wait();
            }
            is_reached
        })
    }

    /// Moves the cold item of a swap elsewhere, and keeps its chunk aside. If the chunk that is
    /// free lies in a hot column itself, the hot item goes there instead.
    fn clear(&self, heat: &Heat, id: SlabId, swap: Swap, links: &dyn Links) -> Cleared {
        let guard = self.epochs.pin();
        let slab = &self.slabs[id.0 as usize];
        let [warm, cold] = [swap.warm, swap.cold].map(|number| slab.place(&self.arena, id, number));
        let Some((items, free)) = self.movable_pair(heat, &guard, (warm, cold), links) else {
            return Cleared::GivenUp;
        };
        if self.is_hot(heat, free.0) {
            let moved = self.move_hot(heat, &guard, items.0, warm, free, links);
            return if moved { Cleared::Moved } else { Cleared::GivenUp };
        }
        let to = free.0;
        // On failure the chunk goes back with the draft.
        if !links.relocate(&guard, items.1, cold, self.copy_to(free, items.1)) {
            return Cleared::GivenUp;
        }
        self.count_moved(heat, items.1);
        heat.carry(&self.arena, &self.slabs, cold, to);
        let (tag, sequence) = (guard.tag(), items.0.sequence());
        Cleared::Kept(Kept { place: cold, tag, warm, sequence })
    }

    /// The items of two places of a slab, if both may move, and a free chunk of their class.
    fn movable_pair<'g>(
        &self,
        heat: &Heat,
        guard: &'g Guard<'_>,
        (warm, cold): (Place, Place),
        links: &dyn Links,
    ) -> Option<((ItemRef<'g>, ItemRef<'g>), Taken)> {
        let id = self.arena.locate(cold).0;
        let mut class = lock(self.class(self.slabs[id.0 as usize].class()));
        if !class.stays(self.zone(), id) {
            return None;
        }
        let warm = self.movable(heat, guard, &mut class, warm, links)?;
        let cold = self.movable(heat, guard, &mut class, cold, links)?;
        let free = class.take_spare(self.zone(), cold.cost())?;
        Some(((warm, cold), free))
    }

    /// Moves the hot item of a swap to the chunk that was kept aside for it. Returns whether it
    /// did; if not, the chunk is as any other.
    fn fill(&self, heat: &Heat, kept: &Kept, links: &dyn Links) -> bool {
        let (guard, zone) = (self.epochs.pin(), self.zone());
        let (item, free) = {
            // A chunk that was kept aside keeps its slab in the class.
            let mut class = lock(self.class(self.class_at(kept.place)));
            let Some(free) = class.take_back(zone, kept.tag, kept.place) else {
                return false;
            };
            match self.movable(heat, &guard, &mut class, kept.warm, links) {
                Some(item) if item.sequence() == kept.sequence => (item, free),
                _ => {
                    class.release(zone, free.0);
                    return false;
                }
            }
        };
        self.move_hot(heat, &guard, item, kept.warm, free, links)
    }

    /// Moves a hot item to a chunk of a hot column, and retires its old one. Returns whether it
    /// did.
    fn move_hot(
        &self,
        heat: &Heat,
        guard: &Guard<'_>,
        item: ItemRef<'_>,
        from: Place,
        free: Taken,
        links: &dyn Links,
    ) -> bool {
        let to = free.0;
        if !links.relocate(guard, item, from, self.copy_to(free, item)) {
            return false;
        }
        self.count_moved(heat, item);
        heat.carry(&self.arena, &self.slabs, from, to);
        heat.counters.swaps.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the item was published there, and `relocate` has just taken the place out of the
        // index, under this guard.
        unsafe { self.retire_at_once(guard, from) };
        true
    }

    fn count_moved(&self, heat: &Heat, item: ItemRef<'_>) {
        let bytes = item.layout().total_bytes() as u64;
        heat.counters.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The item at a place of a class, whose lock the caller holds, if it may move. What is gone is
    /// removed.
    fn movable<'g>(
        &self,
        heat: &Heat,
        guard: &'g Guard<'_>,
        class: &mut Class,
        place: Place,
        links: &dyn Links,
    ) -> Option<ItemRef<'g>> {
        let (item, owner) = self.published(guard, place)?;
        let is_whole = owner == place && !item.layout().is_chained();
        // What is in limbo looks published, and may be reused as soon as the lock is let go. What
        // the index leads to while this guard is pinned stays until it is dropped.
        if !is_whole || !links.is_linked(guard, item, place) {
            return None;
        }
        if links.is_gone(item) {
            let taken = self.unlink(guard, class, links, place, &mut Vec::new());
            heat.counters.expired.fetch_add(taken as u64, Ordering::Relaxed);
            return None;
        }
        item.may_move().then_some(item)
    }
}
