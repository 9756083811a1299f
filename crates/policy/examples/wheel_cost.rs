//! The cost of an operation on the wheels and on a priority queue, by the number of items.
//!
//! `cargo run --release -p larder-policy --example wheel_cost`
//!
//! Nine operations in ten renew an item at random, and one evicts the lowest and stores another.
//! Printed are nanoseconds per operation, and how many times an item migrated from one level to a
//! lower one. Memory grows with the items in both, and with it the cost of a cache miss; so the
//! third column has the same renewals in a plain list (wheels of one queue's worth: equal costs),
//! which is what remains when nothing has to be decided.

use std::collections::BTreeSet;
use std::time::Instant;

use larder_policy::gd_wheel::{Link, Shape, Wheels};
use stdx::random::split_mix;

const SIZES: [u32; 5] = [10_000, 30_000, 100_000, 300_000, 1_000_000];
const OPERATIONS: u32 = 3_000_000;
const COST_MAX: u32 = 4_000;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        ((u128::from(split_mix(&mut self.0)) * u128::from(end)) >> 64) as u32
    }
}

/// An order in which items leave.
trait Order {
    fn insert(&mut self, item: u32, cost: u32);
    fn renew(&mut self, item: u32);
    fn pop(&mut self) -> u32;
}

impl Order for (Wheels, Vec<Link>) {
    fn insert(&mut self, item: u32, cost: u32) {
        self.0.insert(&mut self.1, item, cost);
    }

    fn renew(&mut self, item: u32) {
        self.0.renew(&mut self.1, item);
    }

    fn pop(&mut self) -> u32 {
        self.0.pop(&mut self.1).expect("there are items")
    }
}

struct Queue {
    inflation: u64,
    now: u64,
    /// Priority, time of renewal and cost of each item.
    entries: Vec<(u64, u64, u32)>,
    order: BTreeSet<(u64, u64, u32)>,
}

impl Order for Queue {
    fn insert(&mut self, item: u32, cost: u32) {
        self.now += 1;
        let priority = self.inflation + u64::from(cost);
        self.entries[item as usize] = (priority, self.now, cost);
        self.order.insert((priority, self.now, item));
    }

    fn renew(&mut self, item: u32) {
        let (priority, time, cost) = self.entries[item as usize];
        self.order.remove(&(priority, time, item));
        self.insert(item, cost);
    }

    fn pop(&mut self) -> u32 {
        let (priority, _, item) = self.order.pop_first().expect("there are items");
        self.inflation = priority;
        item
    }
}

/// Nanoseconds for each operation.
fn measure(order: &mut impl Order, items: u32, cost_max: u32) -> f64 {
    let mut random = Random(1);
    (0..items).for_each(|item| order.insert(item, 1 + random.below(cost_max)));
    let mut work = |operations: u32| {
        for operation in 0..operations {
            if operation % 10 == 0 {
                let item = order.pop();
                order.insert(item, 1 + random.below(cost_max));
            } else {
                order.renew(random.below(items));
            }
        }
    };
    work(10 * items.min(OPERATIONS / 10));
    let begin = Instant::now();
    work(OPERATIONS);
    begin.elapsed().as_nanos() as f64 / f64::from(OPERATIONS)
}

fn wheels(items: u32) -> (Wheels, Vec<Link>) {
    (Wheels::new(Shape::default()), vec![Link::default(); items as usize])
}

fn main() {
    println!("| items | wheels, ns | moves | one list, ns | priority queue, ns |");
    println!("| --- | --- | --- | --- | --- |");
    for items in SIZES {
        let (mut ours, mut list) = (wheels(items), wheels(items));
        let entries = vec![(0, 0, 0); items as usize];
        let mut queue = Queue { inflation: 0, now: 0, entries, order: BTreeSet::new() };
        let ours_ns = measure(&mut ours, items, COST_MAX);
        let operations = OPERATIONS + 10 * items.min(OPERATIONS / 10);
        let moves = ours.0.moves() as f64 / f64::from(operations);
        let list_ns = measure(&mut list, items, 1);
        let queue_ns = measure(&mut queue, items, COST_MAX);
        println!("| {items} | {ours_ns:.0} | {moves:.2} | {list_ns:.0} | {queue_ns:.0} |");
    }
}
