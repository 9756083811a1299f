//! The wheels against GreedyDual as it is defined: a sorted set of priorities, times of renewal and
//! chunks. Every victim must be the same one, for every shape and over many laps of the hands.

use std::collections::BTreeSet;

use stdx::random::split_mix;

use super::{Link, Shape, Wheels};

const CHUNKS: u32 = 300;
const STEPS: usize = if cfg!(miri) { 300 } else { 60_000 };

/// From one level to four, from two queues to 256, with and without spare bits in a word.
const SHAPES: &[(u32, u32)] =
    &[(1, 8), (2, 8), (3, 6), (2, 4), (1, 1), (2, 1), (4, 1), (3, 2), (4, 4), (1, 6), (2, 7)];

/// GreedyDual by its definition.
struct Naive {
    cost_max: u32,
    inflation: u64,
    now: u64,
    /// Priority and time of renewal of each present chunk, and its cost.
    entries: Vec<Option<(u64, u64, u32)>>,
    order: BTreeSet<(u64, u64, u32)>,
}

impl Naive {
    fn new(shape: Shape) -> Naive {
        let entries = vec![None; CHUNKS as usize];
        let cost_max = shape.cost_max();
        Naive { cost_max, inflation: 0, now: 0, entries, order: BTreeSet::new() }
    }

    fn insert(&mut self, chunk: u32, cost: u32) {
        self.now += 1;
        let cost = cost.clamp(1, self.cost_max);
        let priority = self.inflation + u64::from(cost);
        self.entries[chunk as usize] = Some((priority, self.now, cost));
        self.order.insert((priority, self.now, chunk));
    }

    fn remove(&mut self, chunk: u32) -> Option<u32> {
        let (priority, time, cost) = self.entries[chunk as usize].take()?;
        assert!(self.order.remove(&(priority, time, chunk)));
        Some(cost)
    }

    fn renew(&mut self, chunk: u32, cost: Option<u32>) -> bool {
        let Some(old) = self.remove(chunk) else { return false };
        self.insert(chunk, cost.unwrap_or(old));
        true
    }

    fn pop(&mut self) -> Option<u32> {
        let &(priority, _, chunk) = self.order.first()?;
        self.inflation = priority;
        self.remove(chunk);
        Some(chunk)
    }

    /// The promise of [`Wheels::enter`]: a priority that is higher than the one before by itself,
    /// or by the one unit that it may add; otherwise the priority of a new chunk.
    fn enter(&mut self, chunk: u32, cost: u32) {
        let units = u64::from(cost.clamp(1, self.cost_max));
        let before = self.entries[chunk as usize].map(|(priority, ..)| priority);
        self.remove(chunk);
        self.insert(chunk, cost);
        let (priority, time, cost) = self.entries[chunk as usize].expect("it is there");
        let tied = before.is_some_and(|before| before == priority || before == priority + 1);
        let may_stay = self.inflation == 0 || units >= u64::from(super::STAYS_UNITS_MIN);
        if tied && may_stay && units < u64::from(self.cost_max) {
            self.order.remove(&(priority, time, chunk));
            self.entries[chunk as usize] = Some((priority + 1, time, cost));
            self.order.insert((priority + 1, time, chunk));
        }
    }
}

/// The wheels and the naive order, side by side.
struct Pair {
    wheels: Wheels,
    links: Vec<Link>,
    naive: Naive,
    entered: u64,
    /// Shape and seed, printed when they differ.
    name: String,
}

impl Pair {
    fn new(shape: Shape) -> Pair {
        let links = vec![Link::default(); CHUNKS as usize];
        let (wheels, naive, name) = (Wheels::new(shape), Naive::new(shape), format!("{shape:?}"));
        Pair { wheels, links, naive, entered: 0, name }
    }

    fn insert(&mut self, chunk: u32, cost: u32) {
        self.wheels.insert(&mut self.links, chunk, cost);
        self.naive.insert(chunk, cost);
        self.entered += 1;
    }

    fn renew(&mut self, chunk: u32, cost: Option<u32>) -> bool {
        let found = match cost {
            Some(cost) => self.wheels.renew_at(&mut self.links, chunk, cost),
            None => self.wheels.renew(&mut self.links, chunk),
        };
        assert_eq!(found, self.naive.renew(chunk, cost), "{}", self.name);
        self.entered += u64::from(found);
        found
    }

    fn remove(&mut self, chunk: u32) -> bool {
        let found = self.wheels.remove(&mut self.links, chunk);
        assert_eq!(found, self.naive.remove(chunk).is_some(), "{}", self.name);
        found
    }

    fn enter(&mut self, chunk: u32, cost: u32) {
        self.wheels.enter(&mut self.links, chunk, cost);
        self.naive.enter(chunk, cost);
        self.entered += 1;
    }

    /// Pops a victim, which may be another of equals once some stayed in place.
    fn pop_an_equal(&mut self) -> Option<u32> {
        let victim = self.wheels.pop(&mut self.links);
        let entry = victim.and_then(|chunk| self.naive.entries[chunk as usize]);
        let lowest = self.naive.order.first().map(|&(priority, ..)| priority);
        assert_eq!(entry.map(|(priority, ..)| priority), lowest, "{}", self.name);
        self.naive.inflation = lowest.unwrap_or(self.naive.inflation);
        victim.map(|chunk| self.naive.remove(chunk));
        assert_eq!(self.wheels.inflation(), self.naive.inflation, "{}", self.name);
        victim
    }

    fn pop(&mut self) -> Option<u32> {
        let victim = self.wheels.pop(&mut self.links);
        assert_eq!(victim, self.naive.pop(), "{}", self.name);
        assert_eq!(self.wheels.inflation(), self.naive.inflation, "{}", self.name);
        victim
    }

    /// Checks what has to hold at any time.
    fn check(&self, levels: u64) {
        assert_eq!(self.wheels.items() as usize, self.naive.order.len());
        assert!(self.wheels.moves() <= (levels - 1) * self.entered, "{}", self.name);
        let mut ahead: Vec<u32> = self.wheels.ahead(&self.links).collect();
        assert_eq!(ahead.len(), self.naive.order.len());
        ahead.sort_unstable();
        ahead.dedup();
        assert_eq!(ahead.len(), self.naive.order.len(), "a chunk is in one queue only");
        for (chunk, entry) in self.naive.entries.iter().enumerate() {
            let left = entry.map(|(priority, ..)| (priority - self.naive.inflation) as u32);
            assert_eq!(self.wheels.left(&self.links, chunk as u32), left, "{}", self.name);
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        split_mix(&mut self.0) % end
    }

    /// Unknown, least, small, near a digit's edge, near the range's, beyond it, anything.
    fn cost(&mut self, shape: Shape) -> u32 {
        let cost_max = shape.cost_max();
        let near = |edge: u32, by: u64| (edge + by as u32).saturating_sub(2);
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 | 3 => 1 + self.below(20) as u32,
            4 => near(shape.slots() as u32, self.below(5)),
            5 => near(cost_max, self.below(5)),
            6 => [cost_max, u32::MAX][self.below(2) as usize],
            _ => self.below(u64::from(cost_max) + 2) as u32,
        }
    }
}

fn compare(shape: Shape, seed: u64, steps: usize) {
    let (mut pair, mut random) = (Pair::new(shape), Random(seed));
    pair.name = format!("{shape:?}, seed {seed}");
    // The cost of a burst of equals, and how many of it are left.
    let mut burst = (1, 0);
    // Now and then the wheels run nearly empty, or hold as much as they can.
    let mut fill = CHUNKS / 2;
    for step in 0..steps {
        let chunk = random.below(u64::from(CHUNKS)) as u32;
        if burst.1 == 0 && random.below(50) == 0 {
            burst = (random.cost(shape), random.below(80));
            fill = random.below(u64::from(CHUNKS)) as u32;
        }
        let cost = if burst.1 > 0 { burst.0 } else { random.cost(shape) };
        burst.1 = burst.1.saturating_sub(1);
        let is_in = pair.naive.entries[chunk as usize].is_some();
        match random.below(10) {
            0 => _ = pair.remove(chunk),
            1 => _ = pair.renew(chunk, Some(cost)),
            2..=4 => _ = pair.renew(chunk, None),
            5 if random.below(40) == 0 => put_some_back(&mut pair, &mut random),
            _ if !is_in && pair.wheels.items() <= fill => pair.insert(chunk, cost),
            _ => _ = pair.pop(),
        }
        if step % 64 == 0 {
            pair.check(shape.levels() as u64);
        }
    }
    let lap = u64::from(shape.cost_max()) + 1;
    assert!(cfg!(miri) || pair.wheels.inflation() > 3 * lap, "the hands went round");
    while pair.pop().is_some() {}
    pair.check(shape.levels() as u64);
}

/// Pops a few and gives them back: they are next, in order, before others of the same priority.
fn put_some_back(pair: &mut Pair, random: &mut Random) {
    let count = 1 + random.below(5);
    let popped: Vec<u32> = (0..count).filter_map(|_| pair.pop()).collect();
    for &chunk in popped.iter().rev() {
        pair.wheels.put_back(&mut pair.links, chunk);
        pair.entered += 1;
    }
    let next: Vec<u32> = pair.wheels.ahead(&pair.links).take(popped.len()).collect();
    assert_eq!(next, popped, "{}", pair.name);
    for &chunk in &popped {
        assert_eq!(pair.wheels.pop(&mut pair.links), Some(chunk));
    }
    assert_eq!(pair.wheels.inflation(), pair.naive.inflation);
}

#[test]
fn every_victim_is_that_of_a_sorted_set() {
    for &(levels, bits) in SHAPES {
        for seed in 1..=3 {
            compare(Shape::new(levels, bits), seed, STEPS);
        }
    }
}

#[test]
fn a_chunk_left_in_place_is_evicted_by_its_new_priority() {
    for &(levels, bits) in SHAPES {
        let shape = Shape::new(levels, bits);
        let mut pair = Pair::new(shape);
        let mut random = Random(5);
        for step in 0..STEPS / 4 {
            let chunk = random.below(u64::from(CHUNKS)) as u32;
            match random.below(8) {
                0 => _ = pair.remove(chunk),
                1 => _ = pair.renew(chunk, None),
                2..=4 => pair.enter(chunk, random.cost(shape)),
                5 if pair.naive.entries[chunk as usize].is_some() => {
                    let cost = pair.links[chunk as usize].cost();
                    pair.enter(chunk, u32::from(cost));
                }
                _ => _ = pair.pop_an_equal(),
            }
            if step % 64 == 0 {
                pair.check(levels.into());
            }
        }
        while pair.pop_an_equal().is_some() {}
        pair.check(levels.into());
    }
}

#[test]
fn a_chunk_that_comes_too_early_is_put_off_and_not_ahead() {
    let mut pair = Pair::new(Shape::default());
    let ahead = |pair: &Pair, early_max| -> Vec<u32> {
        pair.wheels.due_ahead(&pair.links, early_max).collect()
    };
    (0..6).for_each(|chunk| pair.insert(chunk, 5));
    [(0, 9), (1, 5), (3, 2)].into_iter().for_each(|(chunk, cost)| pair.enter(chunk, cost));
    // 3 got cheaper and was moved at once; 1 would have its previous priority.
    let queued: Vec<u32> = pair.wheels.ahead(&pair.links).collect();
    assert_eq!(queued, [3, 0, 1, 2, 4, 5]);
    assert_eq!((ahead(&pair, 2), ahead(&pair, 1)), (vec![3, 2, 4, 5], vec![3]));
    assert_eq!(pair.wheels.take_first(&mut pair.links), Some((3, 0)));
    assert_eq!(pair.wheels.take_first(&mut pair.links), Some((0, 4)));
    pair.wheels.put_off(&mut pair.links, 0, 4);
    assert_eq!(pair.wheels.left(&pair.links, 0), Some(4));
    let popped: Vec<u32> = std::iter::from_fn(|| pair.wheels.pop(&mut pair.links)).collect();
    assert_eq!(popped, [2, 4, 5, 1, 0]);
}

#[test]
fn without_costs_the_order_is_that_of_lru() {
    for &(levels, bits) in SHAPES {
        let mut wheels = Wheels::new(Shape::new(levels, bits));
        let mut links = vec![Link::default(); CHUNKS as usize];
        let (mut lru, mut random) = (Vec::new(), Random(9));
        for _ in 0..STEPS / 10 {
            let chunk = random.below(u64::from(CHUNKS)) as u32;
            if wheels.renew(&mut links, chunk) {
                lru.retain(|&other| other != chunk);
            } else {
                wheels.insert(&mut links, chunk, 0);
            }
            lru.push(chunk);
            if lru.len() > 100 {
                assert_eq!(wheels.pop(&mut links), Some(lru.remove(0)));
            }
        }
    }
}

#[test]
fn the_order_ahead_is_exact_on_the_lowest_level() {
    let (mut pair, mut random) = (Pair::new(Shape::default()), Random(4));
    (0..200).for_each(|chunk| pair.insert(chunk, 1 + random.below(255) as u32));
    let ahead: Vec<u32> = pair.wheels.ahead(&pair.links).collect();
    let popped: Vec<u32> = std::iter::from_fn(|| pair.pop()).collect();
    assert_eq!(ahead, popped);
}

#[test]
fn equals_that_were_entered_on_different_levels_stay_in_order() {
    let mut pair = Pair::new(Shape::new(2, 4));
    // 0 is on level 1 when 1 raises the inflation to 15; 2 gets the same priority as 0.
    pair.insert(0, 20);
    pair.insert(1, 15);
    assert_eq!(pair.pop(), Some(1));
    pair.insert(2, 5);
    pair.insert(3, 4);
    assert_eq!([pair.pop(), pair.pop(), pair.pop(), pair.pop()], [Some(3), Some(0), Some(2), None]);
}

#[test]
fn fresh_and_removed_chunks_are_in_no_queue() {
    let mut pair = Pair::new(Shape::new(1, 8));
    assert!(!pair.renew(7, None) && !pair.renew(7, Some(3)) && !pair.remove(7));
    assert_eq!(pair.pop(), None);
    pair.insert(7, 300);
    assert_eq!((pair.links[7].cost(), pair.links[7].is_queued()), (255, true));
    assert!(pair.remove(7) && !pair.remove(7) && !pair.renew(7, None));
    assert_eq!((pair.links[7].cost(), pair.wheels.items()), (255, 0));
}
