//! How full the index becomes, how many words an insertion moves, and what an item costs.
//!
//! `cargo run --release -p larder-index --example occupancy`
//!
//! Prints MemC3's table 2 (occupancy and moves by the number of paths) and figure 6 (moves by
//! load) for this index, and the bytes per item while it grows, for a tree and a list too, and with
//! the gaps between tables. Counts only, no time, so every run prints the same.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use larder_index::{Change, Hash, Index, Kind, Location, Options, Stats};
use memory::space::TABLE_UNIT_BYTES;
use memory::{Arena, ArenaTables, Epochs, TableSpace};
use stdx::random::mix;

/// A heap that refuses beyond `limit` units.
struct Heap {
    limit: usize,
    used: AtomicUsize,
}

impl Heap {
    fn layout(units: usize) -> Layout {
        Layout::from_size_align(units * TABLE_UNIT_BYTES, TABLE_UNIT_BYTES)
            .expect("a few units are a valid size")
    }
}

impl TableSpace for Heap {
    fn allocate(&self, units: usize) -> Option<NonNull<u8>> {
        if self.used.load(Ordering::Relaxed) + units > self.limit {
            return None;
        }
        self.used.fetch_add(units, Ordering::Relaxed);
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { alloc(Self::layout(units)) })
    }

    unsafe fn release(&self, start: NonNull<u8>, units: usize) {
        self.used.fetch_sub(units, Ordering::Relaxed);
        // SAFETY: the caller gives back what `allocate` returned for as many units.
        unsafe { dealloc(start.as_ptr(), Self::layout(units)) };
    }
}

struct World {
    index: Index,
    epochs: Arc<Epochs>,
}

impl World {
    fn new(options: Options, units_max: usize) -> Self {
        let epochs = Arc::new(Epochs::new());
        let space = Heap { limit: units_max, used: AtomicUsize::new(0) };
        let index = Index::new(options, epochs.clone(), Arc::new(space));
        let index = index.expect("there is memory to start");
        Self { index, epochs }
    }

    fn remove(&self, key: u64) -> bool {
        let guard = self.epochs.pin();
        self.index.remove_exact(&guard, Hash(mix(key)), Location::new(1, key))
    }

    fn insert(&self, key: u64) -> bool {
        let set = |_| (Change::Set(Location::new(1, key)), ());
        let guard = self.epochs.pin();
        self.index.update(&guard, Hash(mix(key)), |_| false, set).is_ok()
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole as f64
}

/// Fills single tables without memory to grow, and prints how full they were and what moved.
fn print_paths(paths: &[usize]) {
    const TABLES: u64 = 100;
    const LOADS: [u64; 7] = [80, 90, 93, 95, 97, 98, 99];
    println!("One table of 12 units without memory to grow, {TABLES} tables:");
    print!("paths | full at, mean (min) | moves/insert |");
    LOADS.iter().for_each(|load| print!(" at {load} % |"));
    println!();
    for &paths in paths {
        let (mut full, mut full_min, mut moves, mut inserts) = (0.0, f64::MAX, 0, 0);
        let mut by_load = [(0, 0); LOADS.len()];
        for table in 0..TABLES {
            let world = World::new(Options { paths, ..Options::default() }, 12);
            let slots = world.index.stats().slots;
            let mut before = 0;
            let mut items = 0;
            while world.insert(table << 20 | items) {
                items += 1;
                let now = world.index.stats().displacements;
                let load = percent(items, slots);
                // The band of half a percent below each load.
                for (at, band) in LOADS.iter().zip(&mut by_load) {
                    if load <= *at as f64 && load > *at as f64 - 0.5 {
                        *band = (band.0 + now - before, band.1 + 1);
                    }
                }
                before = now;
            }
            let occupancy = percent(items, slots);
            full += occupancy / TABLES as f64;
            full_min = occupancy.min(full_min);
            moves += before;
            inserts += items;
        }
        print!("{paths:5} | {full:8.2} % ({full_min:.2} %) | {:12.4} |", ratio(moves, inserts));
        by_load.iter().for_each(|band| print!(" {:7.3} |", ratio(band.0, band.1)));
        println!();
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Lets an index grow from one table to `items`, and prints the cost of an item on the way.
fn print_growth(options: Options, items: u64) {
    let world = World::new(options, usize::MAX);
    let (mut sum, mut samples, mut worst) = (0.0, 0_u32, 0.0_f64);
    // From twenty times the first table on: before that, one table stands for the average.
    let first = 160_000_u64.max(options.initial_items as u64);
    let mut next_sample = first as f64;
    let mut next_print = first;
    println!("\nGrowth with {options:?}:");
    println!("      items | tables | occupancy | bytes/item | moves/insert");
    for key in 0..items {
        assert!(world.insert(key), "there is memory to grow");
        if key + 1 < next_sample as u64 {
            continue;
        }
        let stats = world.index.stats();
        let per_item = ratio(stats.table_bytes + stats.directory_bytes, stats.items);
        (sum, samples, worst) = (sum + per_item, samples + 1, worst.max(per_item));
        // Evenly spread over the logarithm of the size.
        next_sample *= 1.01;
        if key + 1 >= next_print {
            println!(
                "{:11} | {:6} | {:7.2} % | {per_item:10.3} | {:.4}",
                stats.items,
                stats.tables,
                percent(stats.items, stats.slots),
                ratio(stats.displacements, stats.inserts),
            );
            next_print = next_print * 3 / 2;
        }
    }
    let stats = world.index.stats();
    println!(
        "average {:.3}, worst {worst:.3} bytes/item over {samples} sizes; tables were {:.2} % full \
         when they grew ({} growths, {} splits, {} searches failed)",
        sum / f64::from(samples),
        percent(stats.full_items, stats.full_slots),
        stats.growths,
        stats.splits,
        stats.searches_failed,
    );
}

/// Lets an index grow to many numbers of items, within a doubling and evenly spread over the
/// logarithm, and then replaces each item `rounds` times by another, the oldest first. Prints the
/// cost of an item after that, and the number of copies.
fn print_churn(options: Options, items: u64, rounds: u64) {
    const SIZES: u32 = 24;
    let (mut sum, mut worst, mut copies, mut inserts) = (0.0, 0.0_f64, 0, 0);
    for size in 0..SIZES {
        let items = (items as f64 * (f64::from(size) / f64::from(SIZES)).exp2()) as u64;
        let world = World::new(options, usize::MAX);
        for key in 0..items {
            assert!(world.insert(key), "there is memory to grow");
        }
        let before = world.index.stats();
        for key in items..items * (1 + rounds) {
            assert!(world.remove(key - items) && world.insert(key), "there is memory to grow");
        }
        let stats = world.index.stats();
        let per_item = ratio(stats.table_bytes + stats.directory_bytes, stats.items);
        (sum, worst) = (sum + per_item, worst.max(per_item));
        let built = |stats: &Stats| stats.growths + stats.splits + stats.compactions;
        copies += (built(&stats) - built(&before)) * stats.items / stats.tables;
        inserts += stats.inserts - before.inserts;
    }
    println!(
        "\n{:?}, after each of {items} to {} items was replaced {rounds} times:\n\
         average {:.3}, worst {worst:.3} bytes/item over {SIZES} sizes; {:.2} copies/insert",
        options.kind,
        2 * items,
        sum / f64::from(SIZES),
        ratio(copies, inserts),
    );
}

/// Lets an index grow in the slabs of an arena of `arena_bytes`, and prints the cost of an item
/// there before and after its tables have moved, for memory limits where others use everything that
/// the index does not take.
fn print_slabs(arena_bytes: usize, items: u64) {
    let arena = Arc::new(Arena::new(0, arena_bytes, 0).expect("addresses are there"));
    let tables = Arc::new(ArenaTables::new(Arc::clone(&arena)));
    let epochs = Arc::new(Epochs::new());
    let index = Index::new(Options::default(), epochs.clone(), tables.clone());
    let world = World { index: index.expect("there is memory to start"), epochs };
    println!(
        "\nIn slabs of {} KiB:\n      items | bytes/item | in slabs, while there is memory | and \
         when there is none | tables moved",
        arena.slab_bytes() >> 10
    );
    let (mut key, mut next_print) = (0, items / 8);
    while key < items {
        assert!(world.insert(key), "there is memory to grow");
        key += 1;
        if key < next_print {
            continue;
        }
        let per_item = |bytes: usize| bytes as f64 / key as f64;
        let in_slabs = || per_item(tables.slabs() * arena.slab_bytes());
        world.index.maintain();
        let loose = in_slabs();
        let before = world.index.stats().moves;
        // As many stay in use as have a table, and one for the tables that move.
        loop {
            let moves = world.index.stats().moves;
            let taken = arena.limit_slabs() - arena.free_slabs();
            arena.set_limit_slabs(taken + 1);
            world.index.maintain();
            if world.index.stats().moves == moves {
                break;
            }
        }
        println!(
            "{key:11} | {:10.2} | {loose:31.2} | {:22.2} | {}",
            per_item(tables.taken_bytes()),
            in_slabs(),
            world.index.stats().moves - before,
        );
        arena.set_limit_slabs(arena.reserved_slabs());
        next_print = (next_print as f64 * 1.25) as u64;
    }
}

fn main() {
    print_paths(&[1, 2, 3, 4, 8, Options::PATHS_MAX]);
    let options = Options::default();
    print_growth(options, 8_000_000);
    print_growth(Options { paths: 2, ..options }, 2_000_000);
    print_growth(Options { initial_items: 1_000_000, ..options }, 8_000_000);
    print_growth(Options { kind: Kind::Tree, ..options }, 8_000_000);
    print_growth(Options { kind: Kind::List, ..options }, 8_000_000);
    for kind in [Kind::Cuckoo, Kind::Tree, Kind::List] {
        print_churn(Options { kind, ..options }, 200_000, 4);
    }
    print_slabs(64 << 20, 500_000);
    print_slabs(256 << 20, 2_000_000);
    print_slabs(1 << 30, 8_000_000);
}
