//! GreedyDual in amortized constant time: hierarchical cost wheels, after GD-Wheel (Li and Cox,
//! "GD-Wheel: A Cost-Aware Replacement Policy for Key-Value Stores", EuroSys 2015).
//!
//! GreedyDual (Young, 1994) gives an item the priority *inflation + cost* whenever it is stored or
//! hit. The lowest priority is evicted, of equals the one renewed longest ago, and inflation rises
//! to that priority. So an item that is costly to make again stays longer, in proportion to its
//! cost, and with equal costs the order is that of LRU. A priority queue does this at logarithmic
//! cost.
//!
//! Since no cost exceeds a known range, all priorities lie less than a range above the inflation,
//! and a few rings of queues can hold them: a timing wheel whose time is the inflation. With two
//! levels of four queues, priorities of two digits to the base of four, and an inflation of 12:
//!
//! ```text
//!                  inflation = 12 (base 4): the hands
//!                          |
//!   level 1    00    01    02... 03...       a queue holds all priorities with this digit:
//!             [g]   [ ]    |    [e f]        e, f of 30 to 33; g of 100 to 103, a lap further on
//!                          v
//!   level 0             10    11    12    13 a queue holds one priority:
//!                       [ ]   [ ]  [a b]  [c] a, b of 12 exactly, a renewed before b; c of 13
//!
//!   next victims:  a b c, then the queue 3x moves down to level 0 as 30 to 33, then 100 to 103
//! ```
//!
//! An item's level is the highest digit in which its priority differs from the inflation; a
//! priority that is a lap ahead, beyond the carry of the highest digit, is on the highest level.
//! The victim is the front of the first queue that is not empty, from the hand on, on the lowest
//! level that has any. If that is not level 0, the queue is taken apart: its items *migrate* to the
//! levels below.
//!
//! # Why the decisions are exact
//!
//! *Invariant: every item is on the level, and in the queue, that its priority and the present
//! inflation call for.* A hand moves only when all levels below its own are empty, and then to the
//! first queue that is not: to a digit `s` of level `l`, with zeros below. Items above `l` still
//! differ in the digit in which they differed. Items of other queues on `l` still differ from the
//! hand in digit `l`. Those of queue `s` do not any more: they migrate, and nothing else has to. So
//! level 0 has exactly the lowest priorities, and of level 0 the queue under the hand or the first
//! one after it is the lowest of all.
//!
//! *Order among equals.* By the invariant equal priorities are always in one queue. Each item joins
//! at the back, and a queue migrates from front to back into queues that are empty (the levels
//! below were), so equals stay in the order in which they were renewed.
//!
//! *Time.* An item migrates only downwards: at most `levels - 1` times for each time that it is
//! stored or renewed. Finding a queue takes a look at four words for each level.
//!
//! # Items that stay in place
//!
//! Taking a chunk out touches the links of both neighbours, entering it elsewhere one more: that is
//! most of the work of an overwrite. So [`Wheels::enter`] leaves a chunk whose priority rises in
//! place and changes nothing but its link. The invariant then holds for all others; the place of
//! this chunk gives only a lower bound of its priority. When it comes to the front, or its queue
//! migrates, it goes where its priority calls for: every victim still has the lowest priority. Two
//! things differ from GreedyDual: among equals it counts from when it was moved, and where its
//! priority would be unchanged it gets one unit more, or it would be evicted as early as if it had
//! not been stored again. Where a cost is only a few units that matters, so once anything was
//! evicted such chunks are taken out and entered anew.
//!
//! # What differs from the paper
//!
//! The paper itself was not at hand; known are the idea, hierarchical cost wheels, a limited range
//! of costs, and two wheels of 256 queues. Here the level follows from where the priority differs
//! from the inflation, as in a timing wheel, so that a victim is always the one that a priority
//! queue would choose; levels and queues are parameters; and the links are not the wheel's.
//!
//! # Memory
//!
//! Each item takes 12 bytes ([`Link`]): two links of 32 bits, the cost (a renewal needs it), and
//! the lower 16 bits of the priority. Those are needed: a queue of level 1 knows the upper digits
//! of its items and nothing of the lowest, in whose order they have to leave, and that cannot be
//! computed from the cost, since the inflation of an item's last renewal is not kept. Each
//! [`Wheels`] takes 8 bytes a queue and some more, [`Shape::bytes`].

#[cfg(test)]
mod check;
mod link;
mod shape;

pub use link::{CHUNKS_MAX, Link, LinkStore};
pub use shape::Shape;

use link::{NOWHERE, Reference, chunk_of, reference_to};
use shape::{LEVELS_MAX, SLOTS_MAX};

/// Once inflation rises, an item that costs fewer units is entered anew rather than left in place:
/// one unit is more than a sixteenth of its time.
const STAYS_UNITS_MIN: u16 = 16;
/// Words of one bit for each queue of a level.
const WORDS: usize = SLOTS_MAX / u64::BITS as usize;

/// The ends of a queue: the front leaves next. An empty queue refers to itself.
#[derive(Debug, Clone, Copy)]
struct Queue {
    front: Reference,
    back: Reference,
}

/// The order in which the items of one size class leave. Links are not kept here: every call gets
/// the store that has them, which must be the same one each time.
#[derive(Debug)]
pub struct Wheels {
    shape: Shape,
    /// The hands of all levels: its digits.
    inflation: u64,
    items: u32,
    moves: u64,
    /// The queues of each level that are not empty.
    occupied: [[u64; WORDS]; LEVELS_MAX],
    queues: Box<[Queue]>,
}

impl Wheels {
    /// Empty wheels.
    pub fn new(shape: Shape) -> Wheels {
        let empty = |number: usize| {
            let own = link::reference_to_queue(number);
            Queue { front: own, back: own }
        };
        Wheels {
            shape,
            inflation: 0,
            items: 0,
            moves: 0,
            occupied: [[0; WORDS]; LEVELS_MAX],
            queues: (0..shape.queues()).map(empty).collect(),
        }
    }

    /// The number of chunks in the queues.
    pub fn items(&self) -> u32 {
        self.items
    }

    /// The priority of the last victim.
    pub fn inflation(&self) -> u64 {
        self.inflation
    }

    /// The number of times a chunk migrated to a lower level.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Enters a chunk that is in no queue. A cost of 0 is unknown and counts as 1, one beyond
    /// [`Shape::cost_max`] as that.
    pub fn insert(&mut self, store: &mut impl LinkStore, chunk: u32, cost: u32) {
        debug_assert!(chunk < CHUNKS_MAX && !store.link(chunk).is_queued());
        let cost = self.shape.clamp(cost);
        self.append(store, chunk, cost, self.inflation + u64::from(cost));
        self.items += 1;
    }

    /// Enters a chunk that may still be in a queue for its previous item. If its new priority is no
    /// lower, the chunk stays in place, with that priority in its link, and is moved when it comes
    /// up: so this touches one link, and not those of four neighbours. There it gets one unit more
    /// than its cost if its priority would otherwise be unchanged: equals are in the order in which
    /// they joined, and a chunk that stays has not joined anew.
    pub fn enter(&mut self, store: &mut impl LinkStore, chunk: u32, cost: u32) {
        let link = store.link_mut(chunk);
        if !link.is_queued() {
            return self.insert(store, chunk, cost);
        }
        let left = self.left_of(*link);
        let units = self.shape.clamp(cost);
        let above = u32::from(units) + u32::from(left >= u32::from(units));
        let may_stay = self.inflation == 0 || units >= STAYS_UNITS_MIN;
        if may_stay && left <= above && above <= self.shape.cost_max() {
            link.cost = units;
            link.priority = (self.inflation + u64::from(above)) as u16;
        } else {
            self.remove(store, chunk);
            self.insert(store, chunk, cost);
        }
    }

    /// Notes a hit: gives the chunk the priority that it would have if it were stored now. Returns
    /// whether it is in a queue; otherwise nothing happens.
    pub fn renew(&mut self, store: &mut impl LinkStore, chunk: u32) -> bool {
        let cost = u32::from(store.link(chunk).cost);
        self.renew_at(store, chunk, cost)
    }

    /// As [`Wheels::renew`], with another cost.
    pub fn renew_at(&mut self, store: &mut impl LinkStore, chunk: u32, cost: u32) -> bool {
        let queued = self.remove(store, chunk);
        if queued {
            self.insert(store, chunk, cost);
        }
        queued
    }

    /// Takes a chunk out. Returns whether it was in a queue.
    pub fn remove(&mut self, store: &mut impl LinkStore, chunk: u32) -> bool {
        let link = store.link_mut(chunk);
        let (previous, next) = (link.previous, link.next);
        if next == NOWHERE {
            return false;
        }
        (link.previous, link.next) = (NOWHERE, NOWHERE);
        self.set_next(store, previous, next);
        self.set_previous(store, next, previous);
        if previous == next {
            let queue = link::queue_of(next).expect("only a queue is on both sides");
            self.note(queue, false);
        }
        self.items -= 1;
        true
    }

    /// Takes out the victim: the lowest priority, of equals the one renewed longest ago. Inflation
    /// rises to its priority. A caller that finds that it cannot be evicted continues with the
    /// next, and then gives those that have to stay to [`Wheels::put_back`].
    pub fn pop(&mut self, store: &mut impl LinkStore) -> Option<u32> {
        loop {
            let (chunk, left) = self.take_first(store)?;
            if left == 0 {
                return Some(chunk);
            }
            self.put_off(store, chunk, left);
        }
    }

    /// Takes out the first chunk, and returns how far its priority is above the inflation, which
    /// rises as far as the chunk's queue. That is 0 for the victim; a chunk that has stayed in
    /// place ([`Wheels::enter`]) may come up too early, and is for [`Wheels::put_off`].
    pub fn take_first(&mut self, store: &mut impl LinkStore) -> Option<(u32, u32)> {
        let queue = self.settle(store)?;
        let chunk = chunk_of(self.queues[queue].front).expect("an occupied queue has a chunk");
        let link = store.link_mut(chunk);
        let (next, left) = (link.next, self.left_of(*link));
        (link.previous, link.next) = (NOWHERE, NOWHERE);
        self.queues[queue].front = next;
        self.set_previous(store, next, link::reference_to_queue(queue));
        if chunk_of(next).is_none() {
            self.note(queue, false);
        }
        self.items -= 1;
        Some((chunk, left))
    }

    /// Enters a chunk that came up too early, as its link still says.
    pub fn put_off(&mut self, store: &mut impl LinkStore, chunk: u32, left: u32) {
        let cost = store.link(chunk).cost;
        self.append(store, chunk, cost, self.inflation + u64::from(left));
        self.items += 1;
    }

    /// Gives back a chunk that was just popped and cannot be evicted: it is the next victim again,
    /// with its cost. Several are given back in reverse, the one popped last first, so that they
    /// keep their order.
    pub fn put_back(&mut self, store: &mut impl LinkStore, chunk: u32) {
        debug_assert!(!store.link(chunk).is_queued());
        // Whatever was popped since, inflation has its priority, and nothing is below.
        let queue = self.shape.digit(self.inflation, 0);
        let (own, front) = (link::reference_to_queue(queue), self.queues[queue].front);
        let priority = self.inflation as u16;
        let link = store.link_mut(chunk);
        (link.previous, link.next, link.priority) = (own, front, priority);
        self.set_previous(store, front, reference_to(chunk));
        self.queues[queue].front = reference_to(chunk);
        self.note(queue, true);
        self.items += 1;
    }

    /// The rest of a chunk's cost: how far its priority is above the inflation. `None` if it is in
    /// no queue.
    pub fn left(&self, store: &impl LinkStore, chunk: u32) -> Option<u32> {
        let link = store.link(chunk);
        link.is_queued().then_some(self.left_of(link))
    }

    /// The rest of a link's cost. Priorities lie less than 2^16 above the inflation, so their lower
    /// bits suffice.
    fn left_of(&self, link: Link) -> u32 {
        u32::from(link.priority.wrapping_sub(self.inflation as u16))
    }

    /// The chunks that leave next, without changing anything. The order is exact up to the first
    /// queue of a level above 0; within such a queue it is that of renewal and not of priority. A
    /// chunk that stayed in place comes too early.
    pub fn ahead<'a, S: LinkStore>(&'a self, store: &'a S) -> impl Iterator<Item = u32> + 'a {
        self.queued_ahead(store).map(|(_, chunk)| chunk)
    }

    /// As [`Wheels::ahead`], without chunks that come too early; ends after `early_max` of these.
    pub fn due_ahead<'a, S: LinkStore>(
        &'a self,
        store: &'a S,
        early_max: usize,
    ) -> impl Iterator<Item = u32> + 'a {
        let mut early = 0;
        let looked_at = self.queued_ahead(store).map_while(move |(queue, chunk)| {
            let priority = self.inflation + u64::from(self.left_of(store.link(chunk)));
            let is_due = self.shape.place(self.inflation, priority) == queue;
            early += usize::from(!is_due);
            (early <= early_max).then_some(is_due.then_some(chunk))
        });
        looked_at.flatten()
    }

    /// All chunks, queue for queue from the hands on, with the queue.
    fn queued_ahead<'a, S: LinkStore>(
        &'a self,
        store: &'a S,
    ) -> impl Iterator<Item = (usize, u32)> + 'a {
        let queues = (0..self.shape.levels()).flat_map(move |level| {
            let words = (0..=WORDS).map(move |step| self.occupied_word(level, step));
            words.flat_map(move |(word, bits)| {
                let drop_lowest = |bits: &u64| Some(bits & (bits - 1)).filter(|&rest| rest != 0);
                std::iter::successors(Some(bits).filter(|&bits| bits != 0), drop_lowest)
                    .map(move |bits| self.shape.queue(level, slot_of(word, bits)))
            })
        });
        queues.flat_map(move |queue| {
            let first = chunk_of(self.queues[queue].front);
            let chunks = std::iter::successors(first, |&chunk| chunk_of(store.link(chunk).next));
            chunks.map(move |chunk| (queue, chunk))
        })
    }

    /// The victim after the next, if both wait in the queue under the hand. Reads no link but the
    /// next victim's, which the last [`Wheels::pop`] has just written.
    pub fn after_next(&self, store: &impl LinkStore) -> Option<u32> {
        let queue = self.shape.queue(0, self.shape.digit(self.inflation, 0));
        let next = chunk_of(self.queues[queue].front)?;
        chunk_of(store.link(next).next)
    }

    /// Moves the hands to the lowest priority. Returns its queue, on level 0.
    fn settle(&mut self, store: &mut impl LinkStore) -> Option<usize> {
        let under_hand = self.shape.digit(self.inflation, 0);
        if chunk_of(self.queues[under_hand].front).is_some() {
            return Some(under_hand);
        }
        loop {
            let (level, slot) =
                (0..self.shape.levels()).find_map(|level| Some((level, self.first(level)?)))?;
            self.advance(level, slot);
            let queue = self.shape.queue(level, slot);
            if level == 0 {
                return Some(queue);
            }
            self.migrate(store, queue);
        }
    }

    /// Where the queues of a level begin: under the hand on level 0, and after it above, where the
    /// queue under the hand is either empty or a whole lap ahead.
    fn start(&self, level: usize) -> usize {
        let step = usize::from(level > 0);
        (self.shape.digit(self.inflation, level) + step) % self.shape.slots()
    }

    /// The first digit of a level, from the hand on, whose queue is not empty.
    fn first(&self, level: usize) -> Option<usize> {
        (0..=WORDS).find_map(|step| {
            let (word, bits) = self.occupied_word(level, step);
            (bits != 0).then(|| slot_of(word, bits))
        })
    }

    /// The bits of the queues of a level that are not empty, word for word from the hand on, and
    /// which word it is. The hand's word is the first and, for the bits behind the hand, the last.
    fn occupied_word(&self, level: usize, step: usize) -> (usize, u64) {
        let start = self.start(level);
        let word = (start / 64 + step) % WORDS;
        let from_hand = u64::MAX << (start % 64);
        let wanted = match step {
            0 => from_hand,
            WORDS => !from_hand,
            _ => u64::MAX,
        };
        (word, self.occupied[level][word] & wanted)
    }

    /// Moves the hand of a level on to a digit; the hands below go to 0.
    fn advance(&mut self, level: usize, slot: usize) {
        let slots = self.shape.slots();
        let mut steps = (slots + slot - self.shape.digit(self.inflation, level)) % slots;
        if level > 0 && steps == 0 {
            steps = slots;
        }
        let shift = self.shape.shift(level);
        self.inflation = ((self.inflation >> shift) + steps as u64) << shift;
    }

    /// Spreads a queue, to whose first priority the hands have come, over the levels below.
    fn migrate(&mut self, store: &mut impl LinkStore, queue: usize) {
        let own = link::reference_to_queue(queue);
        let ends = std::mem::replace(&mut self.queues[queue], Queue { front: own, back: own });
        self.note(queue, false);
        let mut next = chunk_of(ends.front);
        while let Some(chunk) = next {
            let link = store.link(chunk);
            next = chunk_of(link.next);
            let priority = self.inflation + u64::from(self.left_of(link));
            self.append(store, chunk, link.cost, priority);
            self.moves += 1;
        }
    }

    /// Enters a chunk at the back of its priority's queue.
    fn append(&mut self, store: &mut impl LinkStore, chunk: u32, cost: u16, priority: u64) {
        debug_assert!(priority - self.inflation <= u64::from(self.shape.cost_max()));
        let queue = self.shape.place(self.inflation, priority);
        let (own, back) = (link::reference_to_queue(queue), self.queues[queue].back);
        let priority = priority as u16;
        *store.link_mut(chunk) = Link { previous: back, next: own, cost, priority };
        self.set_next(store, back, reference_to(chunk));
        self.queues[queue].back = reference_to(chunk);
        if back == own {
            self.note(queue, true);
        }
    }

    fn set_next(&mut self, store: &mut impl LinkStore, of: Reference, next: Reference) {
        match (chunk_of(of), link::queue_of(of)) {
            (Some(chunk), _) => store.link_mut(chunk).next = next,
            (None, Some(queue)) => self.queues[queue].front = next,
            (None, None) => unreachable!("what is in a queue has neighbours"),
        }
    }

    fn set_previous(&mut self, store: &mut impl LinkStore, of: Reference, previous: Reference) {
        match (chunk_of(of), link::queue_of(of)) {
            (Some(chunk), _) => store.link_mut(chunk).previous = previous,
            (None, Some(queue)) => self.queues[queue].back = previous,
            (None, None) => unreachable!("what is in a queue has neighbours"),
        }
    }

    fn note(&mut self, queue: usize, occupied: bool) {
        let (level, slot) = self.shape.level_and_slot(queue);
        let bit = 1 << (slot % 64);
        let word = &mut self.occupied[level][slot / 64];
        *word = if occupied { *word | bit } else { *word & !bit };
    }
}

/// The digit of the lowest of these bits, which are not all 0.
fn slot_of(word: usize, bits: u64) -> usize {
    64 * word + bits.trailing_zeros() as usize
}
