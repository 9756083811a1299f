//! How many of a tree's buckets should be roots: how full a table is when its pool is empty, and
//! how many cache lines a lookup reads then, by the share of roots.
//!
//! `cargo run --release -p larder-index --example roots`
//!
//! Only the numbers of words in buckets are kept, so that any share can be tried, and six slots as
//! in the paper beside seven. Counts only, no time, so every run prints the same.

use stdx::random::mix;

/// Buckets of a table of 12 units.
const BUCKETS: usize = 12 * 32 - 2;
const TABLES: u64 = 40;
const LINKS: usize = 4;
const LINE_BYTES: f64 = 64.0;

/// The content of a bucket.
#[derive(Clone, Copy, Default)]
struct Bucket {
    words: usize,
    below: [usize; LINKS],
}

/// A table being filled.
struct Table {
    buckets: Vec<Bucket>,
    roots: usize,
    taken: usize,
    slots: usize,
    /// Links in use: four, or one for a list.
    links: usize,
}

impl Table {
    fn new(roots: usize, slots: usize, links: usize) -> Self {
        Self { buckets: vec![Bucket::default(); BUCKETS], roots, taken: roots, slots, links }
    }

    /// The buckets of a key, from its root on, and the link of the last that leads nowhere.
    fn path(&self, hash: u64) -> (Vec<usize>, usize) {
        let mut path = vec![(((hash >> 32) * self.roots as u64) >> 32) as usize];
        let mut bits = hash >> 32;
        loop {
            let link = bits as usize % self.links;
            let below = self.buckets[*path.last().expect("a root")].below[link];
            if below == 0 {
                return (path, link);
            }
            path.push(below);
            bits >>= 2;
        }
    }

    /// The buckets that a lookup of the new key reads; `None` if the pool is empty.
    fn insert(&mut self, hash: u64) -> Option<usize> {
        let (path, link) = self.path(hash);
        let free = path.iter().position(|&bucket| self.buckets[bucket].words < self.slots);
        if let Some(depth) = free {
            self.buckets[path[depth]].words += 1;
            return Some(depth + 1);
        }
        if self.taken == BUCKETS {
            return None;
        }
        self.buckets[*path.last().expect("a root")].below[link] = self.taken;
        self.buckets[self.taken].words = 1;
        self.taken += 1;
        Some(path.len() + 1)
    }
}

fn print(slots: usize, links: usize, percent: usize) {
    let (mut items, mut hit_lines, mut miss_lines) = (0_u64, 0, 0);
    for seed in 0..TABLES {
        let mut table = Table::new(BUCKETS * percent / 100, slots, links);
        for key in 0.. {
            let Some(lines) = table.insert(mix(seed << 32 | key)) else { break };
            items += 1;
            hit_lines += lines;
            miss_lines += table.path(mix(seed << 32 | key | 1 << 31)).0.len();
        }
    }
    let all = TABLES as f64 * (BUCKETS * slots) as f64;
    let occupancy = items as f64 / all;
    println!(
        "{slots:5} | {links:5} | {percent:5} % | {:7.1} % | {:10.2} | {:9.3} | {:10.3}",
        occupancy * 100.0,
        LINE_BYTES / (slots as f64 * occupancy),
        hit_lines as f64 / items as f64,
        miss_lines as f64 / items as f64,
    );
}

fn main() {
    println!(
        "{TABLES} tables of {BUCKETS} buckets, filled until the pool is empty; lines of a hit"
    );
    println!("on the average of all keys then, of a miss on the average while the table fills:");
    println!("slots | links |   roots | full at   | bytes/item | lines/hit | lines/miss");
    for (slots, links) in [(7, 4), (6, 4), (7, 1)] {
        for percent in [5, 10, 15, 20, 30, 40, 50, 60, 65, 70, 75, 80, 85, 90] {
            print(slots, links, percent);
        }
    }
}
