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
//! Each move confirms under the lock of the item's index table that the index still points at
//! exactly the old place, takes over the state that may have changed (mark, expiry, number), and
//! points the index at the copy: [`CacheHooks::relocate`]. So a move is no change of the key: a
//! thread that stores, touches or deletes it does so before the move, which then finds another
//! place and is given up, or after it, with the copy. Readers that found the old place read it for
//! as long as they are pinned.
//!
//! *A chunk is kept aside within one step only.* It counts as used, so its slab stays in the class,
//! and a thread that drains the slab waits for it as for a draft. When the step ends it holds an
//! item again, or it is free, or it went to limbo because some reader stays pinned. Between steps
//! only the numbers of chunks that might change places are kept, and these are looked at anew.
//!
//! No thread waits for it: a class's lock is held for a look at two items, or at the temperatures
//! of [`WORDS_STEP`] words. It gives way where the class has few chunks to spare. A free chunk of a
//! hot column cannot be a partner: it could only be taken from the middle of its slab's list. But
//! if the next free chunk is one, W goes there at once, and X stays. Items in pieces, and those for
//! which a client holds a win token or is to get one, stay where they are.
//!
//! [`heat`]: crate::heat

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use io::frames::FrameSource;
use memory::{Arena, ClassId, Guard, Place, SlabId, Tag};
use policy::columns::{Chooser, Seen, Swap};
use policy::pages::PageSet;
use policy::temperatures::{TEMPERATURE_MAX, TemperatureWord};
use stdx::random::Xorshift;
use stdx::sync::{Backoff, lock};

use crate::class::{ClaimedChunk, Class};
use crate::heat::{Heat, Repartition, RepartitionCounts, words};
use crate::hot_pages::FrameCounts;
use crate::item::ItemRef;
use crate::{CacheHooks, Hot, slab};

/// Words of temperatures that are read under one lock of a class: 2 KiB.
const WORDS_STEP: usize = 256;
/// Chunks whose marks are read under one lock of a class.
const MARKS_STEP: usize = 256;
/// Slabs that one step passes by, at most.
const PASSED_MAX: usize = 4096;
/// Swaps of one step. Readers have to leave once for each step.
const BATCH: usize = 8;
/// How often a step checks whether they have left.
const WAIT_LOOKS: usize = 64;

/// The progress of re-partitioning.
#[derive(Debug, Default)]
pub struct Passes {
    /// The next slab to look at.
    slab: u32,
    /// Slabs that were passed by since one was due.
    passed: usize,
    /// The slab whose items move.
    subject: Option<Subject>,
    /// Swaps that are still to be made there, the most worthwhile last.
    swaps: Vec<Swap>,
    /// Some reader stayed pinned; nothing moves until this is safe.
    awaits: Option<Tag>,
    words: Vec<TemperatureWord>,
    chooser: Chooser,
    random: Xorshift,
}

/// A slab while it belongs to a class, and the layout of its chunks there. Between two looks it may
/// come to another class, whose chunks begin elsewhere.
#[derive(Debug, Clone, Copy)]
struct Subject {
    id: SlabId,
    class: ClassId,
    /// See [`Slab::life`](slab::Slab::life).
    life: u32,
    /// Bytes from one place to the next.
    stride: usize,
    /// Chunks that were used at least once by then.
    touched: u32,
}

impl Subject {
    /// The place of a chunk, which is in the slab whatever has become of the slab.
    fn place(&self, arena: &Arena, number: u32) -> Place {
        arena.place(self.id, number as usize * self.stride)
    }
}

/// The outcome for the cold item of a swap.
enum Cleared {
    /// It moved, and its chunk waits for the hot one.
    Kept(Kept),
    /// It stays: the hot one has found another place.
    Moved,
    /// Nothing moves.
    GivenUp,
}

/// A chunk of a hot column that readers may still see, and the item that is to go there.
struct Kept {
    place: Place,
    tag: Tag,
    warm: Place,
    /// The number of the item that was there.
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

    /// The settings by which items move to their columns, if they do.
    pub fn repartition_settings(&self) -> Option<&Repartition> {
        self.heat.as_deref().map(|heat| &heat.settings)
    }

    /// The results of re-partitioning.
    pub fn repartition_counts(&self) -> Option<RepartitionCounts> {
        self.heat.as_deref().map(Heat::counts)
    }

    /// The frames of slabs, as passes saw them.
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

    /// Notes a sampled hit.
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

    /// The next step: looks for a slab that was hit often enough and decides which of its items
    /// change places, or moves some of them. For one thread at a time, which is not pinned. Returns
    /// whether there is more to do.
    pub fn repartition(&self, passes: &mut Passes, hooks: &dyn CacheHooks) -> bool {
        let Some(heat) = self.heat.as_deref() else {
            return false;
        };
        if passes.awaits.is_some_and(|tag| !self.epochs.try_reach(tag)) {
            return false;
        }
        passes.awaits = None;
        if let Some(subject) = passes.subject
            && !passes.swaps.is_empty()
        {
            self.swap_some(heat, passes, &subject, hooks);
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

    /// Makes a pass over a slab: takes its temperatures, and pairs those that differ enough.
    fn choose(&self, heat: &Heat, passes: &mut Passes, id: SlabId) {
        passes.subject = self.take_temperatures(heat, passes, id);
        let Some(subject) = passes.subject else {
            return;
        };
        let Repartition { limits, .. } = heat.settings;
        let touched = subject.touched;
        let place = |number| subject.place(&self.arena, number);
        let hot = heat.hot_pages.look(&self.arena, id, &self.slabs[id.0 as usize]);
        let is_hot = |number| hot.has_byte(self.arena.locate(place(number)).1);
        let temperature = |number: u32| passes.words[number as usize / TemperatureWord::COUNT];
        let is_warm = |&number: &u32| {
            let at = number as usize % TemperatureWord::COUNT;
            temperature(number).get(at) >= limits.margin && !is_hot(number)
        };
        let warm_words = (0..touched)
            .step_by(TemperatureWord::COUNT)
            .filter(|&first| temperature(first).may_reach(limits.margin));
        let mut near = warm_words.flat_map(|first| first..touched.min(first + 16));
        if !near.any(|number| is_warm(&number)) {
            return;
        }
        let Some(empty) = self.empty_in_hot_pages(&hot, &subject) else {
            return;
        };
        let seen = |number: u32| {
            let found = temperature(number).get(number as usize % TemperatureWord::COUNT);
            // A chunk without an item has none that could make room.
            let is_hot_zone = is_hot(number);
            let is_empty = is_hot_zone && empty.binary_search(&number).is_ok();
            let temperature = if is_empty { TEMPERATURE_MAX } else { found };
            Seen { is_hot_zone, temperature: Some(temperature) }
        };
        let start = passes.random.draw() as u32;
        passes.swaps.extend(passes.chooser.swaps((0..touched).map(seen), limits, start));
        passes.swaps.reverse();
    }

    /// Reads the temperatures of a slab. `None` if it is not, or does not stay, in the hot zone.
    fn take_temperatures(&self, heat: &Heat, passes: &mut Passes, id: SlabId) -> Option<Subject> {
        let slab = &self.slabs[id.0 as usize];
        passes.words.clear();
        let subject = {
            let class = lock(self.class(slab.class()));
            if !class.stays(self.zone(), id) {
                return None;
            }
            heat.begin_pass(id);
            let (life, touched) = (slab.life(), slab.touched());
            Subject { id, class: class.id, life, stride: slab.format().stride(), touched }
        };
        let chunks = self.sizes.chunks_per_slab(subject.class) as u32;
        for begin in (0..words(chunks)).step_by(WORDS_STEP) {
            let _class = self.class_of_subject(&subject)?;
            let end = words(chunks).min(begin + WORDS_STEP);
            heat.take(&self.arena, id, chunks, begin..end, &mut passes.words);
        }
        Some(subject)
    }

    /// The class of a slab, locked. `None` if the slab leaves, or has left, even if it came back.
    fn class_of_subject(&self, subject: &Subject) -> Option<MutexGuard<'_, Class>> {
        let class = lock(self.class(subject.class));
        let is_same = self.slabs[subject.id.0 as usize].life() == subject.life;
        (is_same && class.stays(self.zone(), subject.id)).then_some(class)
    }

    /// The chunks of a slab's hot columns that hold nothing; `None` if the slab leaves.
    fn empty_in_hot_pages(&self, hot: &PageSet, subject: &Subject) -> Option<Vec<u32>> {
        let touched = subject.touched;
        let place = |number| subject.place(&self.arena, number);
        let is_hot = |number: &u32| hot.has_byte(self.arena.locate(place(*number)).1);
        let mut empty = Vec::new();
        for begin in (0..touched).step_by(MARKS_STEP) {
            let mut numbers = (begin..touched.min(begin + MARKS_STEP as u32)).filter(is_hot);
            let Some(first) = numbers.next() else {
                continue;
            };
            let _class = self.class_of_subject(subject)?;
            let is_empty =
                |&number: &u32| slab::mark(&self.arena, place(number)).load(Ordering::Relaxed) == 0;
            empty.extend(std::iter::once(first).chain(numbers).filter(is_empty));
        }
        Some(empty)
    }

    /// Makes some of the swaps.
    fn swap_some(
        &self,
        heat: &Heat,
        passes: &mut Passes,
        subject: &Subject,
        hooks: &dyn CacheHooks,
    ) {
        let mut kept = Vec::with_capacity(BATCH);
        let mut given_up = 0;
        for swap in (0..BATCH).map_while(|_| passes.swaps.pop()) {
            match self.clear(heat, subject, swap, hooks) {
                Cleared::Kept(chunk) => kept.push(chunk),
                Cleared::Moved => {}
                Cleared::GivenUp => given_up += 1,
            }
        }
        if let Some(last) = kept.last()
            && !self.wait_a_moment(last.tag)
        {
            // A reader that stays so long would keep aside all that is moved.
            passes.awaits = Some(last.tag);
            passes.swaps.clear();
        }
        given_up += kept.iter().filter(|kept| !self.fill(heat, kept, hooks)).count();
        heat.counters.given_up.fetch_add(given_up as u64, Ordering::Relaxed);
    }

    /// Waits until no reader can see chunks with this tag, or for a moment. Returns whether none
    /// can.
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

    /// Moves the cold item of a swap elsewhere, and keeps its chunk aside. If the free chunk lies
    /// in a hot column itself, the hot item goes there instead.
    fn clear(&self, heat: &Heat, subject: &Subject, swap: Swap, hooks: &dyn CacheHooks) -> Cleared {
        let guard = self.epochs.pin();
        let [warm, cold] = [swap.warm, swap.cold].map(|number| subject.place(&self.arena, number));
        let pair = self.movable_pair(heat, &guard, subject, (warm, cold), hooks);
        let Some((items, free)) = pair else {
            return Cleared::GivenUp;
        };
        if self.is_hot(heat, free.0) {
            let moved = self.move_hot(heat, &guard, items.0, warm, free, hooks);
            return if moved { Cleared::Moved } else { Cleared::GivenUp };
        }
        let to = free.0;
        // On failure the chunk goes back with the draft.
        if !hooks.relocate(&guard, items.1, cold, self.copy_to(free, items.1)) {
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
        subject: &Subject,
        (warm, cold): (Place, Place),
        hooks: &dyn CacheHooks,
    ) -> Option<((ItemRef<'g>, ItemRef<'g>), ClaimedChunk)> {
        let mut class = self.class_of_subject(subject)?;
        let warm = self.movable(heat, guard, &mut class, warm, hooks)?;
        let cold = self.movable(heat, guard, &mut class, cold, hooks)?;
        let free = class.take_beyond_reserve(self.zone(), cold.cost())?;
        Some(((warm, cold), free))
    }

    /// Moves the hot item of a swap to the chunk that was kept aside for it. Returns whether it
    /// did; if not, the chunk is like any other.
    fn fill(&self, heat: &Heat, kept: &Kept, hooks: &dyn CacheHooks) -> bool {
        let (guard, zone) = (self.epochs.pin(), self.zone());
        let (item, free) = {
            // A chunk that was kept aside keeps its slab in the class.
            let mut class = lock(self.class(self.class_at(kept.place)));
            let Some(free) = class.take_back(zone, kept.tag, kept.place) else {
                return false;
            };
            match self.movable(heat, &guard, &mut class, kept.warm, hooks) {
                Some(item) if item.sequence() == kept.sequence => (item, free),
                _ => {
                    class.release(zone, free.0);
                    return false;
                }
            }
        };
        self.move_hot(heat, &guard, item, kept.warm, free, hooks)
    }

    /// Moves a hot item to a chunk of a hot column, and retires its old one. Returns whether it
    /// did.
    fn move_hot(
        &self,
        heat: &Heat,
        guard: &Guard<'_>,
        item: ItemRef<'_>,
        from: Place,
        free: ClaimedChunk,
        hooks: &dyn CacheHooks,
    ) -> bool {
        let to = free.0;
        if !hooks.relocate(guard, item, from, self.copy_to(free, item)) {
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

    /// The item at a place of a class, whose lock the caller holds, if it may move. A dead item is
    /// removed.
    fn movable<'g>(
        &self,
        heat: &Heat,
        guard: &'g Guard<'_>,
        class: &mut Class,
        place: Place,
        hooks: &dyn CacheHooks,
    ) -> Option<ItemRef<'g>> {
        let (item, owner) = self.published(guard, place)?;
        let is_whole = owner == place && !item.layout().is_chained();
        // A chunk in limbo looks published, and may be reused as soon as the lock is released. An
        // item that the index points at while this guard is pinned stays until the guard is
        // dropped.
        if !is_whole || !hooks.is_linked(guard, item, place) {
            return None;
        }
        if hooks.is_gone(item) {
            let taken = self.unlink(guard, class, hooks, place, &mut Vec::new());
            heat.counters.expired.fetch_add(taken as u64, Ordering::Relaxed);
            return None;
        }
        item.may_move().then_some(item)
    }
}

#[cfg(test)]
mod tests {
    use io::frames::Pagemap;
    use memory::{Arena, Epochs, SizeClasses};
    use policy::columns::Limits;
    use policy::geometry::CacheGeometry;

    use super::*;
    use crate::heat::HEAT_BITS;
    use crate::order::hammer::Map;
    use crate::{ChunkLayout, Policy};

    const SMALL_BYTES: usize = 20;
    const LARGE_BYTES: usize = 3000;
    const MEMORY_BYTES: usize = if cfg!(miri) { 1 << 20 } else { 4 << 20 };

    /// A span of 8 KiB, a sixteenth of a slab, and settings that move as much as possible.
    fn zone() -> Hot {
        let geometry: CacheGeometry = "128x16x64".parse().expect("sets, ways, bytes of a line");
        let settings = Repartition {
            sampling: 1,
            pass_hits: 1,
            pass_chunks: 0,
            limits: Limits { margin: 1, swaps_max: 1000 },
            ..Repartition::new(geometry)
        };
        let arena = Arc::new(Arena::new(0, MEMORY_BYTES, 8).expect("addresses are there"));
        let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, HEAT_BITS);
        let (layout, policy) = (ChunkLayout::Inline, Policy::Clock);
        let hot = Hot::new(arena, Arc::new(Epochs::new()), sizes, layout, policy, 0, |_| 1);
        hot.with_repartition(settings, Arc::<Pagemap>::default())
    }

    /// Regression: between two steps, chunks that are to change places are remembered by number.
    /// When the slab had come to another class, whose chunks begin elsewhere, the numbers led to
    /// places where no chunk begins, and beyond the slab.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of items, and the process's pagemap")]
    fn planned_swaps_are_given_up_when_their_slab_leaves() {
        let (hot, map, mut passes) = (zone(), Map::default(), Passes::default());
        let places: Vec<Place> =
            (0..8000).map_while(|number| map.store(&hot, number, SMALL_BYTES).ok()).collect();
        let guard = hot.epochs.pin();
        for &place in places.iter().filter(|place| !hot.is_in_hot_column(**place)) {
            // SAFETY: published above, and nothing was removed since.
            (0..8).for_each(|_| unsafe { hot.heat(&guard, place) });
        }
        drop(guard);
        while passes.swaps.is_empty() {
            assert!(hot.repartition(&mut passes, &map), "there is something to do");
        }
        let (left, id) = (passes.swaps.len() as u64, passes.slab as usize);
        let class = hot.slabs[id].class();
        assert!(left > BATCH as u64 && hot.slabs[id].belongs_to(class));
        for _ in 0..100 {
            hot.give_up_slabs(hot.slabs.len(), &map);
            hot.sweep();
        }
        let large = |number| map.store(&hot, number, LARGE_BYTES).is_ok();
        assert!((10_000..10_000 + (MEMORY_BYTES / LARGE_BYTES / 2) as u32).all(large));
        assert!(hot.slabs[id].class() != class, "it has come to the other class");
        while !passes.swaps.is_empty() {
            hot.repartition(&mut passes, &map);
        }
        let counts = hot.repartition_counts().expect("items move");
        assert_eq!((counts.given_up, counts.swaps), (left, 0));
    }
}
