//! Moving slabs: from a class that has more than it needs to one that starves, to the index, or
//! back to the system when the memory limit was lowered. And the background's round.
//!
//! A slab that shall leave is *drained*: nothing is allocated from it any more, its items are
//! evicted, and when the last of its chunks is out of limbo it goes back to the arena. A draft in
//! it (a client that is half-way through a value) may hold it for a while; another slab is drained
//! then.

use std::ops::Range;
use std::sync::atomic::Ordering;

use memory::{ClassId, Guard, Place, SlabId};
use policy::rebalance::{self, Pressure};
use stdx::sync::lock;

use crate::class::Class;
use crate::evict::GROUP;
use crate::{Hot, INDEX_SPARE_SLABS, Links, Shortage, slab};

/// Chunks that are emptied before the class's lock is let go for a moment.
const DRAIN_STEP: u32 = 512;
/// Slabs moved in one turn of the background.
const MOVES_PER_TURN_MAX: usize = 8;
/// Of all slabs, how many may have been evicted before older evictions weigh less.
const EVIDENCE_SHARE_MAX: f64 = 0.5;
/// Items that the background evicts from one class before it looks at the others.
const REFILL_BATCH: usize = 512;

impl Hot {
    /// A chunk for a class that owns nothing it could evict: by way of another class's slab.
    pub(crate) fn allocate_from_another_class(
        &self,
        own: ClassId,
        links: &dyn Links,
    ) -> Result<Place, Shortage> {
        if !links.may_evict() {
            return Err(Shortage::Nothing);
        }
        // Each turn either finds a chunk or drains one more slab, so it ends.
        for _ in 0..=self.arena.limit_slabs() {
            self.sweep();
            let zone = self.zone();
            {
                let mut class = lock(self.class(own));
                if let Some(place) = class.allocate(zone) {
                    return Ok(place);
                }
                if let Some(slab) = self.arena.take(0) {
                    class.adopt(zone, slab);
                    continue;
                }
            }
            if self.waits_for_readers() {
                return Err(Shortage::Pinned);
            }
            let pressures = self.pressures();
            let Some(from) = rebalance::donor(&pressures, usize::from(own.0)) else {
                break;
            };
            if !self.drain_slab(ClassId(from as u8), links) {
                break;
            }
        }
        Err(Shortage::Nothing)
    }

    /// Frees what readers have left behind in every class.
    pub fn sweep(&self) {
        for class in &self.classes {
            lock(class).sweep_limbo(self.zone());
        }
    }

    /// One turn of the background's work: reserves, and slabs from class to class. Returns whether
    /// there is more to do at once.
    pub fn maintain(&self, links: &dyn Links) -> bool {
        self.pressed.store(false, Ordering::Relaxed);
        let mut more = false;
        let full = self.arena.free_slabs() <= INDEX_SPARE_SLABS;
        for (number, class) in self.classes.iter().enumerate() {
            self.finish_draining(ClassId(number as u8), links);
            let missing = {
                let mut class = lock(class);
                class.sweep_limbo(self.zone());
                let target = class.reserve_target();
                let have = class.free + class.in_limbo();
                if full && have <= target / 2 { target - have } else { 0 }
            };
            if missing > 0 && links.may_evict() {
                let wanted = missing.min(REFILL_BATCH);
                let evicted = self.evict(ClassId(number as u8), wanted, links);
                more |= evicted == REFILL_BATCH;
            }
        }
        if full && links.may_evict() {
            more |= self.rebalance(links);
        }
        more
    }

    /// Moves slabs towards the classes that evict most. Returns whether it may have more to move.
    fn rebalance(&self, links: &dyn Links) -> bool {
        let more = self.move_slabs(links);
        // Whether a class needs anything is asked anew each time: what it evicted before says how
        // much it would need if it did.
        for class in &self.classes {
            lock(class).evicts = false;
        }
        more
    }

    fn move_slabs(&self, links: &dyn Links) -> bool {
        for _ in 0..MOVES_PER_TURN_MAX {
            let mut pressures = self.pressures();
            self.age_pressures(&mut pressures);
            let Some(found) = rebalance::judge(&pressures) else {
                return false;
            };
            let (from, to) = (ClassId(found.from as u8), ClassId(found.to as u8));
            if !self.drain_slab(from, links) {
                return false;
            }
            lock(self.class(from)).sweep_limbo(self.zone());
            let mut class = lock(self.class(to));
            class.starved = false;
            if let Some(slab) = self.arena.take(INDEX_SPARE_SLABS) {
                class.adopt(self.zone(), slab);
            }
        }
        true
    }

    /// Frees `slabs` slabs for the index or the system, as far as that is possible at once.
    pub fn give_up_slabs(&self, slabs: usize, links: &dyn Links) {
        for _ in 0..slabs {
            let Some(from) = rebalance::donor(&self.pressures(), usize::MAX) else {
                break;
            };
            let from = ClassId(from as u8);
            if !self.drain_slab(from, links) {
                break;
            }
            lock(self.class(from)).sweep_limbo(self.zone());
        }
    }

    /// Lets what was evicted before weigh less than what was evicted since: half as much whenever
    /// the classes together have lost a good part of the memory. Measured in evictions rather than
    /// seconds, it follows a shift as fast as the shift goes.
    fn age_pressures(&self, pressures: &mut [Pressure]) {
        let lost_slabs = |class: &Class| {
            (class.evicted_lately + class.drained_lately) / class.chunks_per_slab as f64
        };
        let lost: f64 = self.classes.iter().map(|class| lost_slabs(&lock(class))).sum();
        let slabs: usize = pressures.iter().map(|pressure| pressure.slabs).sum();
        if lost > slabs as f64 * EVIDENCE_SHARE_MAX {
            for (class, pressure) in self.classes.iter().zip(pressures) {
                let mut class = lock(class);
                class.evicted_lately *= 0.5;
                class.drained_lately *= 0.5;
                class.ages_left = class.ages_left.saturating_sub(1);
                pressure.evicted_slabs *= 0.5;
            }
        }
    }

    fn pressures(&self) -> Vec<Pressure> {
        let pressure = |class: &Class| Pressure {
            // A slab that is leaving can not be given twice.
            slabs: class.slabs.len() - class.draining,
            free_slabs: class.free as f64 / class.chunks_per_slab as f64,
            evicted_slabs: class.evicted_lately / class.chunks_per_slab as f64,
            starved: class.starved,
            evicts: class.evicts,
            stores: class.ages_left > 0,
        };
        self.classes.iter().map(|class| pressure(&lock(class))).collect()
    }

    /// Evicts everything in one slab of a class, after which the slab leaves the class. Returns
    /// whether there was a slab to drain.
    fn drain_slab(&self, id: ClassId, links: &dyn Links) -> bool {
        let Some(slab_id) = self.choose_slab(id) else {
            return false;
        };
        self.empty_slab(id, slab_id, links);
        true
    }

    /// Empties draining slabs once more: of drafts that were published after the first time.
    fn finish_draining(&self, id: ClassId, links: &dyn Links) {
        let draining: Vec<_> = {
            let class = lock(self.class(id));
            if class.draining == 0 {
                return;
            }
            let is_draining = |slab_id: &&SlabId| self.zone().slab(**slab_id).is_draining();
            class.slabs.iter().filter(is_draining).copied().collect()
        };
        for slab_id in draining {
            self.empty_slab(id, slab_id, links);
        }
    }

    /// Evicts what is published in a draining slab of a class.
    fn empty_slab(&self, id: ClassId, slab_id: SlabId, links: &dyn Links) {
        let slab = self.zone().slab(slab_id);
        let mut begin = 0;
        loop {
            let guard = self.epochs.pin();
            let mut chained = Vec::new();
            let end = {
                let mut class = lock(self.class(id));
                // While the lock was let go the slab may have left, and may even have come back.
                if !class.slabs.contains(&slab_id) || !slab.is_draining() {
                    return;
                }
                let touched = slab.touched();
                let end = touched.min(begin + DRAIN_STEP);
                for group in (begin..end).step_by(GROUP) {
                    let numbers = group..end.min(group + GROUP as u32);
                    self.empty_chunks(&guard, &mut class, slab_id, numbers, links, &mut chained);
                }
                (end < touched).then_some(end)
            };
            for place in chained {
                // SAFETY: unlinked just now, under this guard.
                unsafe { self.retire(&guard, place) };
            }
            match end {
                Some(end) => begin = end,
                None => return,
            }
        }
    }

    /// Evicts what is published in some chunks of a slab: few, so that the index lines that all of
    /// them need can be asked for before the first is unlinked.
    fn empty_chunks(
        &self,
        guard: &Guard<'_>,
        class: &mut Class,
        slab_id: SlabId,
        numbers: Range<u32>,
        links: &dyn Links,
        chained: &mut Vec<Place>,
    ) {
        let slab = self.zone().slab(slab_id);
        let victim = |number| self.published(guard, slab.place(&self.arena, slab_id, number));
        for (item, _) in numbers.clone().filter_map(victim) {
            links.prefetch(guard, item);
        }
        for (_, place) in numbers.filter_map(victim) {
            let unlinked = self.unlink(guard, class, links, place, chained);
            let chunks = unlinked.chunks as f64;
            // What nobody read for a round is no argument for keeping the next slab.
            if unlinked.is_recent && !unlinked.is_gone {
                class.evicted_lately += chunks;
            } else {
                class.drained_lately += chunks;
            }
        }
    }

    /// The slab that a class misses least, marked as draining: one that is mostly free, or else the
    /// one that the hand has left alone for longest, whose items are the oldest. A slab that is
    /// being filled has the newest, and is asked last.
    fn choose_slab(&self, id: ClassId) -> Option<SlabId> {
        let zone = self.zone();
        let mut class = lock(self.class(id));
        let (count, chunks) = (class.slabs.len(), class.chunks_per_slab);
        // Behind the hand lies what was stored in place of what it evicted.
        let oldest = class.hand.slab + usize::from(class.hand.chunk > 0);
        let loss = |slab_id: &SlabId| {
            let slab = zone.slab(*slab_id);
            match slab.used() {
                0 => 0,
                _ if (slab.touched() as usize) < chunks => chunks + 1,
                used if used < chunks / 2 => used,
                _ => chunks,
            }
        };
        let slab_id = (0..count)
            .map(|at| class.slabs[(oldest + at) % count])
            .filter(|&slab_id| !zone.slab(slab_id).is_draining())
            .min_by_key(loss)?;
        class.start_draining(zone, slab_id);
        Some(slab_id)
    }

    /// Looks at every published item of the zone, slab by slab: `visit` gets each item once, with
    /// its place. `cursor` says where to go on; returns `false` at the end. Items stored or
    /// removed meanwhile may or may not be seen.
    pub fn walk<'g>(
        &self,
        guard: &'g memory::Guard<'_>,
        cursor: &mut Cursor,
        chunks_max: usize,
        mut visit: impl FnMut(crate::ItemRef<'g>, Place),
    ) -> bool {
        let mut left = chunks_max;
        while left > 0 {
            let slab_id = SlabId(cursor.slab);
            let Some(slab) = self.slabs.get(cursor.slab as usize) else {
                return false;
            };
            if !slab.was_owned() {
                cursor.slab += 1;
                continue;
            }
            // The class's lock keeps the slab from changing hands under the walk.
            let class = lock(self.class(slab.class()));
            let owned = class.slabs.contains(&slab_id);
            let touched = if owned { slab.touched() } else { 0 };
            while left > 0 && cursor.chunk < touched {
                let place = slab.place(&self.arena, slab_id, cursor.chunk);
                cursor.chunk += 1;
                left -= 1;
                // Acquire: partner is the release in `Draft::publish`.
                if slab::mark(&self.arena, place).load(Ordering::Acquire) == 0 {
                    continue;
                }
                if let Some((item, found)) = self.published(guard, place)
                    && found == place
                {
                    visit(item, place);
                }
            }
            if cursor.chunk >= touched {
                cursor.slab += 1;
                cursor.chunk = 0;
                left = left.saturating_sub(1);
            }
        }
        true
    }
}

/// How far a walk over the zone has come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    slab: u32,
    chunk: u32,
}
