//! Promise 1 under fire: several threads run every operation over few keys in hardly any memory,
//! while items are evicted, expired and flushed and slabs move; a read may miss, but it never
//! returns a value that was certainly overwritten before the read began.
//!
//! The model needs no copy of the cache. A logical clock ticks at every begin and end. Each
//! mutation is an *op* with a number, and a value says which op wrote it. For each key the model
//! keeps its *floor*: the latest begin of a mutation that has ended. A value whose op ended before
//! the floor that stood when the read began has certainly been overwritten by then: it began after
//! that op had ended, and ended before the read. An append writes the number of its op behind the
//! ones that are there, and the same must hold between neighbours, as of the append's begin. No two
//! increments of a counter return the same, and no value is replaced by two swaps that compared its
//! unique: `tests/lost_updates.rs` has the rest of what must not be lost.
//!
//! Every policy, with and without further tiers, over both kinds of index and both layouts of
//! chunks, gets a share of the operations; with the policies and tiers that allow for it, so does a
//! cache whose items move to their columns at every occasion, or whose keys are under quotas, or
//! whose memory limit rises and falls, or whose device fails. Never is more memory used than the
//! limit allows. The run is seeded: set `LARDER_SEED` to repeat one, `LARDER_OPERATIONS` for a
//! longer one.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

mod client;
mod model;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use client::{Client, FLUSH_OPERATIONS, PREFIX_OPERATIONS};
use io::ManualClock;
use io::device::{FakeDevice, Faults, PAGE_BYTES};
use larder::{
    Cache, CacheGeometry, ChunkLayout, FlashSettings, IndexKind, Limits, MAGAZINE_SHARE, Policy,
    Quota, QuotaSize, Repartition,
};
use model::{KEYS, Model, Random};

const THREADS: u64 = 4;
const OPERATIONS: u64 = 63_000_000;
/// The policies, the lower tiers, and extra settings.
const RUNS: [(Policy, Tiers, Extra); 20] = [
    (Policy::Clock, Tiers::Hot, Extra::None),
    (Policy::Clock, Tiers::Hot, Extra::Columns),
    (Policy::Clock, Tiers::Compressed, Extra::None),
    (Policy::Clock, Tiers::Flash, Extra::None),
    (Policy::CostClock, Tiers::Hot, Extra::None),
    (Policy::CostClock, Tiers::Compressed, Extra::None),
    (Policy::CostClock, Tiers::Compressed, Extra::Columns),
    (Policy::CostClock, Tiers::Flash, Extra::None),
    (Policy::CostClock, Tiers::FlashAlone, Extra::None),
    (Policy::CostClock, Tiers::FlashAlone, Extra::Columns),
    (Policy::GdWheel, Tiers::Hot, Extra::None),
    (Policy::Lru, Tiers::Hot, Extra::None),
    (Policy::Clock, Tiers::Hot, Extra::Quotas),
    (Policy::CostClock, Tiers::Compressed, Extra::Quotas),
    (Policy::CostClock, Tiers::FlashAlone, Extra::Quotas),
    (Policy::Lru, Tiers::Hot, Extra::Quotas),
    (Policy::GdWheel, Tiers::Hot, Extra::Limits),
    (Policy::CostClock, Tiers::Flash, Extra::Limits),
    (Policy::CostClock, Tiers::Flash, Extra::Faults),
    (Policy::CostClock, Tiers::FlashAlone, Extra::Faults),
];
/// The kinds of index and the layouts of chunks, each of which gets every run. They know nothing of
/// each other.
const FORMS: [(IndexKind, ChunkLayout); 3] = [
    (IndexKind::Cuckoo, ChunkLayout::Inline),
    (IndexKind::Cuckoo, ChunkLayout::Split),
    (IndexKind::Tree, ChunkLayout::Inline),
];
/// Bytes of the flash tier: little, so that it is collected all the time.
const FLASH_BYTES: usize = 5 << 18;
const NOW: u32 = 1_800_000_000;

/// The tiers of a cache.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tiers {
    Hot,
    Compressed,
    Flash,
    /// Without a compressed zone.
    FlashAlone,
}

impl Tiers {
    fn has_flash(self) -> bool {
        matches!(self, Self::Flash | Self::FlashAlone)
    }
}

/// An extra setting of a cache.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Extra {
    None,
    /// Items that are hit move to the columns for hot ones.
    Columns,
    /// Most keys are under quotas.
    Quotas,
    /// The memory limit rises and falls.
    Limits,
    /// The device of the flash tier fails now and then.
    Faults,
}

/// A device that is about to go.
const FAULTS: Faults = Faults {
    read_error: 0.01,
    short_read: 0.01,
    bit_flip: 0.01,
    write_error: 0.01,
    torn_write: 0.01,
    full: 0.01,
};

/// The memory limits of a cache for which they change, in bytes.
const LIMITS: [usize; 4] = [8 << 20, 6 << 20, 7 << 20, 5 << 20];
/// Turns of the background after which it is the next one.
const LIMIT_TURNS: usize = 64;

/// Quotas of keys that begin with this many zeros, in KiB: together less than the keys want, and
/// each more than the largest item.
const QUOTAS: [(usize, u64); 3] = [(1, 1100), (4, 1200), (20, 1500)];

/// Returns settings with which every hit counts, and everything moves that may.
fn to_columns(tiers: Tiers) -> Repartition {
    // A span of 8 KiB, a sixteenth of a slab.
    let geometry = CacheGeometry::new(64, 16, 128, 1).unwrap();
    let mut repartition = Repartition::given(geometry);
    repartition.settings.sampling = 1;
    repartition.settings.pass_hits = 1;
    repartition.settings.pass_chunks = 0;
    repartition.settings.limits = Limits { margin: 1, swaps_max: 64 };
    // The clock by which its time is measured jumps by a second. Beside flash, the background has
    // more to do.
    repartition.share_max = if tiers.has_flash() { 0.3 } else { 100.0 };
    repartition
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Tells the background to end.
struct EndOnDrop<'t>(&'t AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn no_read_ever_returns_a_value_that_was_overwritten_before_it_began() {
    let entropy = std::collections::hash_map::RandomState::new();
    let seed = setting("LARDER_SEED", std::hash::BuildHasher::hash_one(&entropy, 0) >> 1);
    let operations = setting("LARDER_OPERATIONS", OPERATIONS);
    println!("LARDER_SEED={seed} LARDER_OPERATIONS={operations}");
    // A tier on flash sees little of what happens above it.
    let shares = |tiers: Tiers| if tiers.has_flash() { 2 } else { 1 };
    let all: u64 = RUNS.iter().map(|&(_, tiers, _)| shares(tiers)).sum();
    let share = operations / (all * FORMS.len() as u64);
    for (policy, tiers, extra) in RUNS {
        for form in FORMS {
            run((policy, tiers, extra), form, seed, share * shares(tiers));
        }
    }
}

fn quota((zeros, kib): (usize, u64)) -> Quota {
    Quota { prefix: vec![b'0'; zeros].into(), size: QuotaSize::Bytes(kib << 10) }
}

fn device(seed: u64) -> Arc<FakeDevice> {
    Arc::new(FakeDevice::new((FLASH_BYTES / PAGE_BYTES) as u64, seed, Faults::default()))
}

fn run(
    (policy, tiers, extra): (Policy, Tiers, Extra),
    (index, layout): (IndexKind, ChunkLayout),
    seed: u64,
    operations: u64,
) {
    let clock = Arc::new(ManualClock::new(NOW));
    // So little memory that threads have chunks for themselves only if many may wait there.
    let magazine_share = if (index, layout) == FORMS[0] { MAGAZINE_SHARE } else { 4 };
    let builder = Cache::builder().memory_bytes(8 << 20).policy(policy);
    let builder = builder.threads(THREADS as usize).magazine_share(magazine_share);
    let mut builder = builder.index(index).layout(layout).clock(clock.clone());
    match extra {
        Extra::None | Extra::Limits | Extra::Faults => {}
        Extra::Columns => builder = builder.repartition(to_columns(tiers)),
        Extra::Quotas => builder = builder.quotas(QUOTAS.map(quota).into()),
    }
    let device = device(seed);
    if tiers.has_flash() {
        let flash = FlashSettings::new(device.clone(), [1; 16]);
        let flash = FlashSettings { is_new: true, threads: 2, ..flash };
        // A compressed zone that wants to be small lets go of most items.
        builder = builder.hot_target(1.0).flash(flash);
    }
    let cache =
        builder.compress(matches!(tiers, Tiers::Compressed | Tiers::Flash)).build().unwrap();
    if extra == Extra::Faults {
        // Not before: a device that fails at the start is refused.
        device.set_faults(FAULTS);
    }
    // Each flush is an op of every key that it takes.
    let flushes = operations / FLUSH_OPERATIONS + operations / PREFIX_OPERATIONS;
    // A read of many may remove one, more than once if it waits for flash.
    let model = Model::new(operations * 2 + (flushes + 2 * THREADS + 2) * KEYS);
    let done = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        // Also when a client panics: otherwise the scope would wait for the background for ever.
        let _end = EndOnDrop(&done);
        scope.spawn(|| {
            for turn in 0.. {
                if done.load(SeqCst) {
                    break;
                }
                in_background(&cache, extra, turn);
            }
        });
        let clients: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (cache, model, clock) = (&cache, &model, &*clock);
                scope.spawn(move || {
                    let random = Random(seed.wrapping_add(thread));
                    let (hits, counted, refused) = (0, Vec::new(), 0);
                    let mut client = Client { cache, model, clock, random, hits, counted, refused };
                    (0..operations / THREADS).for_each(|number| client.step(number + 1));
                    (client.hits, client.counted, client.refused)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let hits: u64 = ended.iter().map(|(hits, ..)| hits).sum();
    let refused: u64 = ended.iter().map(|(.., refused)| refused).sum();
    check_counts(ended.iter().flat_map(|(_, counted, _)| counted));
    println!("{policy:?}, {tiers:?}, {extra:?}, {index:?}, {layout:?}: {hits} checked");
    assert!(hits > operations / 10, "too few hits to mean anything");
    let prefixes = operations / PREFIX_OPERATIONS;
    assert!(refused <= prefixes / 2, "{refused} of {prefixes} prefixes were not flushed");
    check_stats(&cache, (tiers, extra), operations);
    check_end(&cache, operations);
}

/// Does a turn of the background, and checks what holds at any time.
fn in_background(cache: &Cache, extra: Extra, turn: usize) {
    for quota in cache.quota_stats() {
        assert!(quota.bytes <= quota.limit_bytes, "{quota:?}");
    }
    if extra == Extra::Limits && turn.is_multiple_of(LIMIT_TURNS) {
        cache.set_memory_bytes(LIMITS[turn / LIMIT_TURNS % LIMITS.len()]).unwrap();
    }
    let (used, limit) = (cache.stats().used_bytes, cache.limit_bytes() as u64);
    // A lower limit takes effect over the next turns.
    let limit = if extra == Extra::Limits { limit.max(LIMITS[0] as u64) } else { limit };
    assert!(used <= limit, "{used} of {limit}");
    if !cache.maintain() {
        cache.wait_for_work(std::time::Duration::from_millis(1));
    }
}

/// Checks that no two increments returned the same: a counter's value has the number of the op that
/// set it, so one of them would have been lost.
fn check_counts<'t>(counted: impl Iterator<Item = &'t u64>) {
    let mut counted: Vec<_> = counted.collect();
    counted.sort_unstable();
    let twice = counted.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "of {} increments, two returned the same", counted.len());
}

/// Checks that the quotas were full, and that nothing is left of what was charged, nor on flash.
fn check_end(cache: &Cache, operations: u64) {
    cache.flush(None);
    let is_empty = || cache.quota_stats().iter().all(|quota| quota.bytes == 0);
    // A turn may also end because a step of a walk waits for the epoch, which the next one moves.
    for _ in 0..100_000 {
        if !cache.maintain() && is_empty() {
            break;
        }
    }
    let quotas = cache.quota_stats();
    let evicted: u64 = quotas.iter().map(|quota| quota.evicted).sum();
    assert!(quotas.is_empty() || evicted > operations / 1000, "no quota was full: {quotas:?}");
    for quota in quotas {
        assert_eq!((quota.bytes, quota.items), (0, 0), "nothing is left, and nobody at it");
    }
    let flash = cache.stats().flash.map_or((0, 0), |flash| (flash.items, flash.spare));
    assert_eq!(flash, (0, 0), "nothing is left on flash");
}

/// Checks that enough has happened to mean anything, and that a lower limit is reached.
fn check_stats(cache: &Cache, (tiers, extra): (Tiers, Extra), operations: u64) {
    if extra == Extra::Limits {
        cache.set_memory_bytes(LIMITS[3]).unwrap();
        while cache.maintain() {}
    }
    let stats = cache.stats();
    println!("{stats:?}");
    if tiers.has_flash() {
        let flash = stats.flash.unwrap();
        assert!(flash.hits > operations / 2000, "too few hits on flash; {flash:?}");
        assert!(flash.tier.collected > 10 && flash.promoted > operations / 2000, "{flash:?}");
        assert!(flash.rested > operations / 20_000, "too little rests on its row: {flash:?}");
    }
    if extra == Extra::Faults {
        let tier = stats.flash.unwrap().tier;
        assert!(tier.io_errors >= operations / 10_000, "too few faults: {tier:?}");
        assert!(tier.damaged >= operations / 100_000, "too little damage: {tier:?}");
    }
    if extra == Extra::Limits {
        assert!(stats.slabs_moved > operations / 5000, "too few slabs went: {stats:?}");
    }
    if let Some(columns) = stats.repartition {
        let counts = columns.counts;
        assert!(counts.swaps > operations / 5000, "too few swaps to mean anything: {counts:?}");
    }
    let moved = stats.evicted + stats.compressed.map_or(0, |zone| zone.demoted);
    assert!(moved > operations / 1000, "too little eviction to mean anything");
    assert!(stats.used_bytes <= stats.limit_bytes);
}
