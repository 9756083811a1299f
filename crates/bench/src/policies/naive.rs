//! The policies once more, for objects of weight 1, with nothing but vectors that are searched from
//! end to end: written from the papers' figures, as references for the real ones.

use proptest::prelude::*;

use super::check::{hits, reads, setting};
use super::kind::Kind;

/// Removes a value from a vector, if it is there.
fn take(list: &mut Vec<u32>, object: u32) -> bool {
    let place = list.iter().position(|other| *other == object);
    place.map(|place| list.remove(place)).is_some()
}

trait Naive {
    fn access(&mut self, object: u32) -> bool;
}

/// Objects with a mark, the oldest first.
struct Marked {
    capacity: usize,
    list: Vec<(u32, u8)>,
    hand: usize,
    is_sieve: bool,
}

impl Naive for Marked {
    fn access(&mut self, object: u32) -> bool {
        if let Some(entry) = self.list.iter_mut().find(|(other, _)| *other == object) {
            entry.1 = 1;
            return true;
        }
        while self.list.len() == self.capacity {
            self.hand %= self.list.len();
            let (_, mark) = &mut self.list[self.hand];
            if *mark == 0 {
                self.list.remove(self.hand);
            } else {
                *mark = 0;
                self.hand += 1;
            }
        }
        if self.is_sieve {
            // The hand wraps to the oldest object, not to one stored after it passed the end.
            if self.hand == self.list.len() {
                self.hand = 0;
            }
            self.list.push((object, 0));
        } else {
            self.list.insert(self.hand, (object, 0));
            self.hand += 1;
        }
        false
    }
}

/// The times of each object's uses; `lru_2` looks at the last but one.
struct Lru2 {
    capacity: usize,
    now: u64,
    resident: Vec<(u32, u64, u64)>,
    ghosts: Vec<(u32, u64, u64)>,
}

impl Naive for Lru2 {
    fn access(&mut self, object: u32) -> bool {
        self.now += 1;
        let now = self.now;
        if let Some(found) = self.resident.iter_mut().find(|(other, ..)| *other == object) {
            (found.1, found.2) = (found.2, now);
            return true;
        }
        if self.resident.len() == self.capacity {
            let order = |place: &usize| (self.resident[*place].1, self.resident[*place].2);
            let oldest = (0..self.resident.len()).min_by_key(order).expect("it is full");
            self.ghosts.push(self.resident.remove(oldest));
            if self.ghosts.len() > self.capacity {
                self.ghosts.remove(0);
            }
        }
        let ghost = self.ghosts.iter().position(|(other, ..)| *other == object);
        let last = ghost.map_or(0, |place| self.ghosts.remove(place).2);
        self.resident.push((object, last, now));
        false
    }
}

/// Figure 4 of the ARC paper; the newest of each list is its last.
#[derive(Default)]
struct Arc {
    c: usize,
    p: f64,
    t1: Vec<u32>,
    t2: Vec<u32>,
    b1: Vec<u32>,
    b2: Vec<u32>,
}

impl Arc {
    fn replace(&mut self, is_in_b2: bool) {
        let t1 = self.t1.len() as f64;
        if t1 >= 1.0 && ((is_in_b2 && t1 == self.p) || t1 > self.p) {
            self.b1.push(self.t1.remove(0));
        } else {
            self.b2.push(self.t2.remove(0));
        }
    }
}

impl Naive for Arc {
    fn access(&mut self, object: u32) -> bool {
        let c = self.c;
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if take(&mut self.t1, object) || take(&mut self.t2, object) {
            self.t2.push(object);
            return true;
        }
        if self.b1.contains(&object) {
            self.p = (self.p + (b2 / b1).max(1.0)).min(c as f64);
            self.replace(false);
            take(&mut self.b1, object);
            self.t2.push(object);
        } else if self.b2.contains(&object) {
            self.p = (self.p - (b1 / b2).max(1.0)).max(0.0);
            self.replace(true);
            take(&mut self.b2, object);
            self.t2.push(object);
        } else {
            let (l1, l2) = (self.t1.len() + self.b1.len(), self.t2.len() + self.b2.len());
            if l1 == c && self.t1.len() < c {
                self.b1.remove(0);
                self.replace(false);
            } else if l1 == c {
                self.t1.remove(0);
            } else if l1 + l2 >= c {
                if l1 + l2 == 2 * c {
                    self.b2.remove(0);
                }
                self.replace(false);
            }
            self.t1.push(object);
        }
        false
    }
}

/// The LIRS paper's rules; the newest of each list is its last.
struct Lirs {
    capacity: usize,
    stack: Vec<u32>,
    lir: Vec<u32>,
    queue: Vec<u32>,
    ghosts: Vec<u32>,
}

impl Lirs {
    fn prune(&mut self) {
        while let Some(object) = self.stack.first().copied() {
            if self.lir.contains(&object) {
                return;
            }
            self.stack.remove(0);
            take(&mut self.ghosts, object);
        }
    }

    fn become_lir(&mut self, object: u32) {
        take(&mut self.stack, object);
        self.stack.push(object);
        self.lir.push(object);
        self.prune();
        while self.lir.len() > self.capacity - 1 {
            let oldest = self.stack.remove(0);
            take(&mut self.lir, oldest);
            self.queue.push(oldest);
            self.prune();
        }
    }
}

impl Naive for Lirs {
    fn access(&mut self, object: u32) -> bool {
        if self.lir.contains(&object) {
            take(&mut self.stack, object);
            self.stack.push(object);
            self.prune();
            return true;
        }
        let hit = take(&mut self.queue, object);
        if !hit && self.lir.len() + self.queue.len() == self.capacity {
            let evicted = self.queue.remove(0);
            if self.stack.contains(&evicted) {
                self.ghosts.push(evicted);
            }
            if self.ghosts.len() > 2 * self.capacity {
                let forgotten = self.ghosts.remove(0);
                take(&mut self.stack, forgotten);
            }
        }
        let was_known = take(&mut self.stack, object);
        take(&mut self.ghosts, object);
        if was_known || (!hit && self.lir.len() < self.capacity - 1) {
            self.become_lir(object);
        } else {
            self.stack.push(object);
            self.queue.push(object);
        }
        hit
    }
}

/// Algorithm 1 of the S3-FIFO paper; the newest of each queue is its last.
struct S3Fifo {
    capacity: usize,
    small: Vec<(u32, u8)>,
    main: Vec<(u32, u8)>,
    ghosts: Vec<u32>,
}

impl S3Fifo {
    fn small_capacity(&self) -> usize {
        (self.capacity / 10).max(1)
    }

    fn evict_small(&mut self) {
        while !self.small.is_empty() {
            let (object, uses) = self.small.remove(0);
            if uses <= 1 {
                self.ghosts.push(object);
                let excess =
                    self.ghosts.len().saturating_sub(self.capacity - self.small_capacity());
                self.ghosts.drain(..excess);
                return;
            }
            self.main.push((object, 0));
            if self.main.len() > self.capacity - self.small_capacity() {
                self.evict_main();
            }
        }
    }

    fn evict_main(&mut self) {
        while !self.main.is_empty() {
            let (object, uses) = self.main.remove(0);
            if uses == 0 {
                return;
            }
            self.main.push((object, uses - 1));
        }
    }
}

impl Naive for S3Fifo {
    fn access(&mut self, object: u32) -> bool {
        let mut entries = self.small.iter_mut().chain(&mut self.main);
        if let Some(entry) = entries.find(|(other, _)| *other == object) {
            entry.1 = (entry.1 + 1).min(3);
            return true;
        }
        let is_ghost = take(&mut self.ghosts, object);
        while self.small.len() + self.main.len() >= self.capacity {
            if self.small.len() >= self.small_capacity() || self.main.is_empty() {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }
        if is_ghost {
            self.main.push((object, 0))
        } else {
            self.small.push((object, 0))
        }
        false
    }
}

fn naive(kind: Kind, capacity: usize) -> Box<dyn Naive> {
    let none = Vec::new;
    match kind {
        Kind::Clock | Kind::Sieve => {
            let is_sieve = kind == Kind::Sieve;
            Box::new(Marked { capacity, list: Vec::new(), hand: 0, is_sieve })
        }
        Kind::Lru2 => Box::new(Lru2 { capacity, now: 0, resident: Vec::new(), ghosts: Vec::new() }),
        Kind::Arc => Box::new(Arc { c: capacity, ..Arc::default() }),
        Kind::Lirs => {
            Box::new(Lirs { capacity, stack: none(), lir: none(), queue: none(), ghosts: none() })
        }
        _ => {
            let (small, main) = (Vec::new(), Vec::new());
            Box::new(S3Fifo { capacity, small, main, ghosts: none() })
        }
    }
}

proptest! {
    #[test]
    fn policies_decide_as_their_naive_twins(
        objects in prop::collection::vec(0u32..24, 1..400), capacity in 1usize..24,
    ) {
        let setting = setting(capacity as u64, 24, &reads(&objects));
        for kind in [Kind::Clock, Kind::Sieve, Kind::Lru2, Kind::Arc, Kind::Lirs, Kind::S3Fifo] {
            let found = hits(kind.build(&setting).as_mut(), &objects);
            let mut naive = naive(kind, capacity);
            let expected: String =
                objects.iter().map(|o| if naive.access(*o) { 'h' } else { '.' }).collect();
            prop_assert_eq!(found, expected, "{}", kind);
        }
    }

    #[test]
    fn lru_and_fifo_decide_as_vectors(
        objects in prop::collection::vec(0u32..24, 1..400), capacity in 1usize..24,
    ) {
        let setting = setting(capacity as u64, 24, &reads(&objects));
        for kind in [Kind::Lru, Kind::Fifo] {
            let mut list = Vec::new();
            let access = |object: &u32| {
                let hit = list.contains(object);
                if kind == Kind::Lru || !hit {
                    take(&mut list, *object);
                    list.insert(0, *object);
                    list.truncate(capacity);
                }
                if hit { 'h' } else { '.' }
            };
            let expected: String = objects.iter().map(access).collect();
            prop_assert_eq!(hits(kind.build(&setting).as_mut(), &objects), expected, "{}", kind);
        }
    }
}
