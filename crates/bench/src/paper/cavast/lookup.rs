//! The lines read to find an item's place, by the kind of index.
//!
//! | index | bucket | reads of a search |
//! | --- | --- | --- |
//! | chaining | 8 bytes | the head, then items: header, and key if it is as long |
//! | list | six words, six tags, a link | lines until the tag matches |
//! | tree | six words, six tags, four links | as there; two bits of the hash choose a link |
//! | cuckoo | eight words with tags | both lines of the key |
//!
//! All buckets but heads are lines. Chaining is memcached's: the chain goes through the items'
//! headers, and a new item comes first. List and tree are the paper's, as far as is known: a full
//! bucket sends further items to one that it links to, taken from the same array. A tag has eight
//! bits; a false match reads another item's key. Cuckoo is Larder's: tags of 23 bits have no false
//! matches here.

use super::memory::INDEX_BASE;
use super::population::Population;
use crate::random::Random;

/// Words of a bucket with links.
const SLOTS: usize = 6;
/// Slots of a cuckoo bucket, and the load of its table.
const CUCKOO_SLOTS: f64 = 8.0;
const CUCKOO_LOAD: f64 = 0.95;
const LINE_BYTES: u64 = 64;
const HEAD_BYTES: u64 = 8;
const NONE: u32 = u32::MAX;

/// The kind of index and its load: items per head, or per first bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IndexKind {
    Chaining { load: f64 },
    List { load: f64 },
    Tree { load: f64 },
    Cuckoo,
}

impl IndexKind {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Chaining { .. } => "chaining",
            IndexKind::List { .. } => "list",
            IndexKind::Tree { .. } => "tree",
            IndexKind::Cuckoo => "cuckoo",
        }
    }
}

/// One read of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Address and bytes of a part of the index.
    Index(u64, u64),
    /// Another item's header, and its key if `has_key`.
    Other { item: u32, has_key: bool },
}

/// An index with all items in it.
pub enum Lookup {
    Chaining { heads: Vec<u32>, next: Vec<u32> },
    Linked { buckets: Vec<Bucket>, roots: usize, is_tree: bool },
    Cuckoo { buckets: u64 },
}

/// A line with links; lists use the first one.
pub struct Bucket {
    items: [u32; SLOTS],
    links: [u32; 4],
}

const EMPTY: Bucket = Bucket { items: [NONE; SLOTS], links: [NONE; 4] };

impl Lookup {
    /// Enters the items in the order of their numbers.
    pub fn new(kind: IndexKind, count: u32) -> Lookup {
        let roots = |load: f64| ((f64::from(count) / load) as usize).max(1);
        match kind {
            IndexKind::Chaining { load } => {
                let mut heads = vec![NONE; roots(load)];
                let mut next = vec![NONE; count as usize];
                for item in 0..count {
                    let bucket = bucket_of(item, heads.len());
                    next[item as usize] = std::mem::replace(&mut heads[bucket], item);
                }
                Lookup::Chaining { heads, next }
            }
            IndexKind::List { load } => Lookup::linked(roots(load), count, false),
            IndexKind::Tree { load } => Lookup::linked(roots(load), count, true),
            IndexKind::Cuckoo => {
                let buckets = f64::from(count) / CUCKOO_SLOTS / CUCKOO_LOAD;
                Lookup::Cuckoo { buckets: buckets.ceil() as u64 }
            }
        }
    }

    fn linked(roots: usize, count: u32, is_tree: bool) -> Lookup {
        let mut buckets: Vec<Bucket> = (0..roots).map(|_| EMPTY).collect();
        for item in 0..count {
            let (mut at, mut depth) = (bucket_of(item, roots), 0);
            loop {
                if let Some(slot) = buckets[at].items.iter_mut().find(|slot| **slot == NONE) {
                    *slot = item;
                    break;
                }
                let link = if is_tree { branch(item, depth) } else { 0 };
                if buckets[at].links[link] == NONE {
                    buckets[at].links[link] = buckets.len() as u32;
                    buckets.push(EMPTY);
                }
                (at, depth) = (buckets[at].links[link] as usize, depth + 1);
            }
        }
        Lookup::Linked { buckets, roots, is_tree }
    }

    /// Returns the bytes of the index; for chaining including the links in the items.
    pub fn bytes(&self) -> u64 {
        match self {
            Lookup::Chaining { heads, next } => (heads.len() + next.len()) as u64 * HEAD_BYTES,
            Lookup::Linked { buckets, .. } => buckets.len() as u64 * LINE_BYTES,
            Lookup::Cuckoo { buckets } => buckets * LINE_BYTES,
        }
    }

    /// Collects the reads of a search before the item's own, which are not included.
    pub fn find(&self, item: u32, population: &Population, steps: &mut Vec<Step>) {
        steps.clear();
        match self {
            Lookup::Chaining { heads, next } => {
                let bucket = bucket_of(item, heads.len());
                steps.push(Step::Index(INDEX_BASE + bucket as u64 * HEAD_BYTES, HEAD_BYTES));
                let bytes = |item: u32| population.key_bytes[item as usize];
                let mut other = heads[bucket];
                while other != item {
                    let has_key = bytes(other) == bytes(item);
                    steps.push(Step::Other { item: other, has_key });
                    other = next[other as usize];
                }
            }
            Lookup::Linked { buckets, roots, is_tree } => {
                let (mut at, mut depth) = (bucket_of(item, *roots), 0);
                while !look(&buckets[at], at, item, steps) {
                    let link = if *is_tree { branch(item, depth) } else { 0 };
                    (at, depth) = (buckets[at].links[link] as usize, depth + 1);
                }
            }
            Lookup::Cuckoo { buckets } => {
                let mut random = Random::new(hash(item));
                for _ in 0..2 {
                    let line = random.below(*buckets);
                    steps.push(Step::Index(INDEX_BASE + line * LINE_BYTES, LINE_BYTES));
                }
            }
        }
    }
}

/// Reads one bucket; returns whether the item is in it.
fn look(bucket: &Bucket, at: usize, item: u32, steps: &mut Vec<Step>) -> bool {
    steps.push(Step::Index(INDEX_BASE + at as u64 * LINE_BYTES, LINE_BYTES));
    for other in bucket.items {
        if other == item {
            return true;
        }
        if other != NONE && tag(other) == tag(item) {
            steps.push(Step::Other { item: other, has_key: true });
        }
    }
    false
}

fn hash(item: u32) -> u64 {
    Random::new(0x6c61_7264_6572 ^ u64::from(item) << 20).word()
}

fn bucket_of(item: u32, buckets: usize) -> usize {
    // The upper bits choose; tags and branches use others.
    ((u128::from(hash(item)) * buckets as u128) >> 64) as usize
}

fn tag(item: u32) -> u8 {
    hash(item) as u8
}

/// Returns two bits of the hash for each level, from the ninth on; deeper than ten levels they
/// repeat.
fn branch(item: u32, depth: u32) -> usize {
    (hash(item) >> (8 + depth % 10 * 2)) as usize & 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::sizes::SizeChoice;

    /// Returns the mean lines of the index, and items met on the way, per search.
    fn mean(kind: IndexKind) -> (f64, f64) {
        let population = Population::new(SizeChoice::App, 6 << 20, 1 << 16, 1).expect("no file");
        let lookup = Lookup::new(kind, population.count());
        let (mut lines, mut others, mut steps) = (0, 0, Vec::new());
        for item in 0..population.count() {
            lookup.find(item, &population, &mut steps);
            let is_index = |step: &&Step| matches!(step, Step::Index(..));
            lines += steps.iter().filter(is_index).count();
            others += steps.len() - steps.iter().filter(is_index).count();
        }
        let count = f64::from(population.count());
        (lines as f64 / count, others as f64 / count)
    }

    #[test]
    fn chains_are_as_long_as_the_load_makes_them() {
        // On average half of the others in the bucket are before an item.
        for load in [0.75, 1.5, 6.0] {
            let (heads, others) = mean(IndexKind::Chaining { load });
            assert_eq!(heads, 1.0);
            assert!((others - load / 2.0).abs() < 0.05 * load, "{others} at {load}");
        }
    }

    #[test]
    fn trees_are_shallower_than_lists_and_tags_seldom_deceive() {
        let (list, deceived) = mean(IndexKind::List { load: 24.0 });
        let (tree, _) = mean(IndexKind::Tree { load: 24.0 });
        assert!(tree < list && tree > 1.5, "{tree} {list}");
        // About half of the 24 are met, each with one chance in 256.
        assert!(deceived < 0.1, "{deceived}");
        assert_eq!(mean(IndexKind::Cuckoo), (2.0, 0.0));
    }
}
