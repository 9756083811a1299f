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
//! cache whose items move to their columns at every occasion, or whose keys are under quotas. The
//! run is seeded: set `LARDER_SEED` to repeat one, `LARDER_OPERATIONS` for a longer one.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use io::ManualClock;
use io::device::{FakeDevice, Faults, PAGE_BYTES};
use larder::{
    Arithmetic, Attributes, Cache, CacheGeometry, ChunkLayout, Condition, Counted, Expiry, Fetch,
    FlashSettings, IndexKind, Limits, PARKED_SHARE, Policy, Quota, QuotaSize, Refusal, Remove,
    Removed, Repartition, Session, Side, Store, Stored,
};
use stdx::random::split_mix;

const THREADS: u64 = 4;
const OPERATIONS: u64 = 63_000_000;
/// The policies, which tiers there are below the hot zone, and what is asked for besides.
const RUNS: [(Policy, Tiers, Extra); 16] = [
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
];
/// The kinds of index and the layouts of chunks, each of which gets every run. They know nothing of
/// each other.
const FORMS: [(IndexKind, ChunkLayout); 3] = [
    (IndexKind::Cuckoo, ChunkLayout::Inline),
    (IndexKind::Cuckoo, ChunkLayout::Split),
    (IndexKind::Tree, ChunkLayout::Inline),
];
/// After so many operations a client does a turn of the background's work.
const MAINTAIN_OPERATIONS: u64 = 32;
/// Bytes of the flash tier: little, so that it is collected all the time.
const FLASH_BYTES: usize = 5 << 18;
/// After so many operations a client flushes everything, or what has a prefix.
const FLUSH_OPERATIONS: u64 = 40_009;
const PREFIX_OPERATIONS: u64 = 3001;
const KEYS: u64 = 4000;
const NOW: u32 = 1_800_000_000;
/// A counter's value is the number of the op that set it times this, plus the increments since.
const COUNTER_SCALE: u64 = 1_000_000;
/// Bytes of the record that an op writes: key, op, expiry and filler length.
const RECORD_BYTES: usize = 24;
/// The part of its last word that is the filler's length; above is the expiry in milliseconds.
const FILLER_BITS: u32 = 20;
const FILLER_MASK: u64 = (1 << FILLER_BITS) - 1;
const NOT_ENDED: u64 = u64::MAX;

/// Which tiers a cache has.
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

/// What a cache has besides.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Extra {
    None,
    /// Items that are hit move to the columns for hot ones.
    Columns,
    /// Most keys are under quotas.
    Quotas,
}

/// Quotas of keys that begin with so many zeros, of so many KiB: together less than these want, and
/// each more than the largest item.
const QUOTAS: [(usize, u64); 3] = [(1, 1100), (4, 1200), (20, 1500)];

/// Every hit counts, and whatever may move does.
fn to_columns(tiers: Tiers) -> Repartition {
    // A span of 8 KiB, a sixteenth of a slab.
    let geometry = CacheGeometry::new(64, 16, 128, 1).unwrap();
    let mut repartition = Repartition::given(geometry);
    repartition.settings.sampling = 1;
    repartition.settings.pass_hits = 1;
    repartition.settings.pass_chunks = 0;
    repartition.settings.limits = Limits { margin: 1, swaps_max: 64 };
    // The clock that tells how much time it took jumps by a second. Beside flash, the background
    // has more to do.
    repartition.share_max = if tiers.has_flash() { 0.3 } else { 100.0 };
    repartition
}

/// A small, seeded generator (splitmix64): the run must be repeatable from a printed number.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        split_mix(&mut self.0)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

struct Model {
    time: AtomicU64,
    ops: AtomicU64,
    /// By op: when it ended, and the floor of its key when it began.
    ended: Vec<AtomicU64>,
    floor_at_begin: Vec<AtomicU64>,
    /// By op: a swap that compared the unique of its value has replaced it.
    swapped: Vec<AtomicBool>,
    /// By key: the latest begin of a mutation that has ended.
    floors: Vec<AtomicU64>,
    /// By key: the highest value that an increment has returned.
    counts: Vec<AtomicU64>,
    /// By key.
    names: Vec<Vec<u8>>,
}

/// A mutation under way.
struct Op {
    number: u64,
    began: u64,
}

impl Model {
    fn new(ops_max: u64) -> Self {
        let zeros = |count: u64, value: u64| (0..count).map(|_| AtomicU64::new(value)).collect();
        Self {
            time: AtomicU64::new(1),
            ops: AtomicU64::new(1),
            ended: zeros(ops_max + 1, NOT_ENDED),
            floor_at_begin: zeros(ops_max + 1, 0),
            swapped: (0..=ops_max).map(|_| AtomicBool::new(false)).collect(),
            floors: zeros(KEYS, 0),
            counts: zeros(KEYS, 0),
            names: (0..KEYS).map(name).collect(),
        }
    }

    fn tick(&self) -> u64 {
        self.time.fetch_add(1, SeqCst)
    }

    fn begin(&self, key: u64) -> Op {
        let number = self.ops.fetch_add(1, SeqCst);
        let floor = self.floors[key as usize].load(SeqCst);
        self.floor_at_begin[number as usize].store(floor, SeqCst);
        Op { number, began: self.tick() }
    }

    fn end(&self, key: u64, op: &Op) {
        self.ended[op.number as usize].store(self.tick(), SeqCst);
        self.floors[key as usize].fetch_max(op.began, SeqCst);
    }

    /// The op changed nothing, for certain: nobody may ever read its number.
    fn end_without_effect(&self, op: &Op) {
        self.ended[op.number as usize].store(0, SeqCst);
    }

    /// Panics if the value was certainly overwritten when the floor stood at `floor`.
    fn check(&self, key: u64, op: u64, floor: u64, what: &str) {
        let ended = self.ended[op as usize].load(SeqCst);
        assert!(ended >= floor, "key {key}: {what} op {op}, which ended at {ended}; floor {floor}");
    }

    /// Returns the op that wrote the last record, if there is any.
    fn check_records(&self, key: u64, value: &[u8], floor: u64, clock_ms: u64) -> Option<u64> {
        let mut rest = value;
        let mut last = None;
        while !rest.is_empty() {
            let word = |at: usize| u64::from_le_bytes(rest[at..at + 8].try_into().unwrap());
            let (found_key, op, tail) = (word(0), word(8), word(16));
            let (expiry_ms, filler) = (tail >> FILLER_BITS, (tail & FILLER_MASK) as usize);
            assert_eq!(found_key, key, "the value of another key");
            assert!(is_filler(op, &rest[RECORD_BYTES..RECORD_BYTES + filler]));
            let is_over = expiry_ms != 0 && expiry_ms <= clock_ms;
            assert!(!is_over, "key {key}: op {op} was over at {expiry_ms}, read at {clock_ms}");
            if let Some(before) = last {
                let floor = self.floor_at_begin[op as usize].load(SeqCst);
                self.check(key, before, floor, "an append behind");
            }
            last = Some(op);
            rest = &rest[RECORD_BYTES + filler..];
        }
        if let Some(op) = last {
            self.check(key, op, floor, "a read of");
        }
        last
    }
}

struct Client<'t> {
    cache: &'t Cache,
    model: &'t Model,
    clock: &'t ManualClock,
    random: Random,
    hits: u64,
    /// What increments returned.
    counted: Vec<u64>,
    /// Prefixes that were not flushed.
    refused: u64,
}

impl<'t> Client<'t> {
    fn name(&self, key: u64) -> &'t [u8] {
        &self.model.names[key as usize]
    }

    fn step(&mut self, number: u64) {
        let key = self.random.below(KEYS);
        // A third of the keys each: records, records that expire, counters.
        match key % 3 {
            0 => self.record_step(key),
            1 => self.expiring_step(key),
            _ => self.counter_step(key),
        }
        if number.is_multiple_of(MAINTAIN_OPERATIONS) {
            // One background among so many clients would come to little.
            self.cache.maintain();
        }
        if number.is_multiple_of(FLUSH_OPERATIONS) {
            self.flush();
        }
        if number.is_multiple_of(PREFIX_OPERATIONS) {
            self.flush_prefix(key);
        }
        if number.is_multiple_of(2503) {
            self.clock.advance_us(250_300);
        }
    }

    fn record_step(&mut self, key: u64) {
        match self.random.below(20) {
            0..=8 => self.read(key),
            9..=12 => self.write(key, Expiry::NEVER),
            13 => self.compare_and_swap(key),
            14..=15 => self.append(key),
            16 => self.remove(key),
            17 => self.touch(key),
            18 => self.invalidate(key),
            _ => self.vivify(key),
        }
    }

    fn expiring_step(&mut self, key: u64) {
        match self.random.below(10) {
            0..=5 => self.read(key),
            6..=8 => {
                let ms = self.random.below(4000);
                let expiry = match self.random.below(2) {
                    0 => Expiry::at(io::Clock::unix_seconds(self.clock) + ms as u32 / 1000),
                    _ => Expiry::at_ms(io::Clock::unix_ms(self.clock) + ms),
                };
                self.write(key, expiry);
            }
            _ => self.remove(key),
        }
    }

    fn counter_step(&mut self, key: u64) {
        match self.random.below(10) {
            0..=3 => self.read_counter(key),
            4..=7 => self.increment(key),
            8 => self.write_counter(key),
            _ => self.remove(key),
        }
    }

    fn read(&mut self, key: u64) {
        let floor = self.model.floors[key as usize].load(SeqCst);
        let clock = io::Clock::unix_ms(self.clock);
        let name = self.name(key);
        let Some(value) = self.cache.get(name) else {
            return;
        };
        self.hits += 1;
        self.model.check_records(key, &value, floor, clock);
    }

    fn write(&mut self, key: u64, expiry: Expiry) {
        let condition = match self.random.below(4) {
            0 => Condition::Absent,
            1 => Condition::Present,
            _ => Condition::Always,
        };
        let op = self.model.begin(key);
        let value = self.record(key, &op, expiry);
        // A third of unknown cost, the others from next to nothing to beyond what is counted.
        let cost_us = [0, 1 << (op.number % 24), 1000][op.number as usize % 3];
        let attributes = Attributes { expiry, cost_us, ..Attributes::default() };
        let outcome = self.cache.put(self.name(key), &value, attributes, condition);
        self.ended(key, &op, outcome);
    }

    fn ended(&self, key: u64, op: &Op, outcome: Result<Stored, Refusal>) {
        match outcome {
            Ok(Stored::Stored { .. }) => self.model.end(key, op),
            Ok(_) | Err(Refusal::NoMemory) => self.model.end_without_effect(op),
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    fn record(&mut self, key: u64, op: &Op, expiry: Expiry) -> Vec<u8> {
        // Mostly small, now and then so large that it is chained.
        let filler = match self.random.below(200) {
            0 => self.random.below(300_000),
            1..=80 => self.random.below(20_000),
            _ => self.random.below(500),
        };
        let mut value = Vec::with_capacity(RECORD_BYTES + filler as usize);
        value.extend(key.to_le_bytes());
        value.extend(op.number.to_le_bytes());
        let expiry_ms = expiry.unix_ms().unwrap_or(0);
        value.extend((expiry_ms << FILLER_BITS | filler).to_le_bytes());
        value.resize(RECORD_BYTES + filler as usize, 0);
        fill(op.number, &mut value[RECORD_BYTES..]);
        value
    }

    fn compare_and_swap(&mut self, key: u64) {
        let name = self.name(key);
        let hash = self.cache.hash(name);
        let floor = self.model.floors[key as usize].load(SeqCst);
        let clock = io::Clock::unix_ms(self.clock);
        let seen = self.cache.with_memory(|session| {
            let item = session.get_with_cas(name, hash)?;
            Ok(item.map(|item| (item.cas(), item.to_vec())))
        });
        let Ok(Some((cas, value))) = seen else { return };
        self.hits += 1;
        let last = self.model.check_records(key, &value, floor, clock);
        let op = self.model.begin(key);
        let value = self.record(key, &op, Expiry::NEVER);
        let condition = Condition::Unique(cas);
        let outcome = self.cache.put(name, &value, Attributes::default(), condition);
        self.ended(key, &op, outcome);
        if let (Ok(Stored::Stored { .. }), Some(last)) = (outcome, last) {
            let is_second = self.model.swapped[last as usize].swap(true, SeqCst);
            assert!(!is_second, "key {key}: op {last} was replaced by two swaps");
        }
    }

    fn append(&mut self, key: u64) {
        let op = self.model.begin(key);
        let value = self.record(key, &op, Expiry::NEVER);
        let name = self.name(key);
        let outcome = self.with_draft(name, &value, |session, draft| {
            let store = Store::when(Condition::Present);
            session.concat(draft, Side::Back, store, None).map_err(|(_, refusal)| refusal)
        });
        match outcome {
            // Appended to until it is too large, as clients do: then it goes.
            Err(Refusal::TooLarge) => {
                self.model.end_without_effect(&op);
                self.remove(key);
            }
            outcome => self.ended(key, &op, outcome),
        }
    }

    fn with_draft<'c>(
        &'c self,
        key: &[u8],
        value: &[u8],
        finish: impl Fn(&Session<'c>, larder::Draft<'c>) -> Result<Stored, Refusal>,
    ) -> Result<Stored, Refusal> {
        self.cache.with_memory(|session| {
            let mut draft = self.cache.reserve(key, Attributes::default(), value.len())?;
            draft.write(value);
            finish(session, draft)
        })
    }

    fn remove(&mut self, key: u64) {
        let op = self.model.begin(key);
        self.cache.remove(self.name(key));
        self.model.end(key, &op);
    }

    fn touch(&mut self, key: u64) {
        let name = self.name(key);
        let hash = self.cache.hash(name);
        // Into the past is a removal; otherwise the value stays what it is.
        if self.random.below(3) == 0 {
            let op = self.model.begin(key);
            let touched = self.cache.with_memory(|session| session.touch(name, hash, Expiry::PAST));
            if touched.is_ok() {
                self.model.end(key, &op);
            } else {
                self.model.end_without_effect(&op);
            }
        } else {
            let expiry = match self.random.below(2) {
                0 => Expiry::at(NOW + (1 << 30)),
                _ => Expiry::at_ms(u64::from(NOW) * 2000 + self.random.below(3000)),
            };
            let touched = self.cache.with_memory(|session| session.touch(name, hash, expiry));
            assert!(matches!(touched, Ok(_) | Err(Refusal::NoMemory)));
        }
    }

    fn invalidate(&mut self, key: u64) {
        let name = self.name(key);
        let hash = self.cache.hash(name);
        let remove = Remove { invalidate: true, ..Remove::default() };
        let removed = self.cache.with_memory(|session| session.remove(name, hash, &remove));
        let allowed = [Ok(Removed::Removed), Ok(Removed::NotFound), Err(Refusal::NoMemory)];
        assert!(allowed.contains(&removed));
    }

    fn vivify(&mut self, key: u64) {
        let name = self.name(key);
        let hash = self.cache.hash(name);
        let fetch = Fetch { vivify: Some(Expiry::NEVER), ..Fetch::default() };
        let floor = self.model.floors[key as usize].load(SeqCst);
        let clock = io::Clock::unix_ms(self.clock);
        let value = self.cache.with_memory(|session| {
            let (item, _) = session.fetch(name, hash, &fetch)?;
            Ok(item.map(|item| item.to_vec()))
        });
        match value {
            Ok(value) => {
                self.model.check_records(key, &value.unwrap_or_default(), floor, clock);
            }
            Err(refusal) => assert_eq!(refusal, Refusal::NoMemory),
        }
    }

    fn flush(&mut self) {
        let ops: Vec<_> = (0..KEYS).map(|key| self.model.begin(key)).collect();
        self.cache.flush(None);
        for (key, op) in ops.iter().enumerate() {
            self.model.end(key as u64, op);
        }
    }

    /// Of a key's name the first bytes: those of a few others too, now and then of most of them.
    fn flush_prefix(&mut self, key: u64) {
        let name = self.name(key);
        let dropped = match self.random.below(40) {
            0 => self.random.below(name.len() as u64),
            _ => self.random.below(3).min(name.len() as u64 - 1),
        };
        let bytes = name.len() - dropped as usize;
        let prefix = &name[..bytes];
        let has_prefix = |key: &u64| self.model.names[*key as usize].starts_with(prefix);
        let ops: Vec<_> =
            (0..KEYS).filter(has_prefix).map(|key| (key, self.model.begin(key))).collect();
        let flushed = self.cache.flush_prefix(prefix);
        for (key, op) in ops {
            if flushed.is_ok() {
                self.model.end(key, &op);
            } else {
                self.model.end_without_effect(&op);
            }
        }
        self.refused += u64::from(flushed.is_err());
    }

    fn write_counter(&mut self, key: u64) {
        let op = self.model.begin(key);
        let value = (op.number * COUNTER_SCALE).to_string();
        let outcome = self.cache.put(
            self.name(key),
            value.as_bytes(),
            Attributes::default(),
            Condition::Always,
        );
        self.ended(key, &op, outcome);
    }

    fn read_counter(&mut self, key: u64) {
        let floor = self.model.floors[key as usize].load(SeqCst);
        let count = self.model.counts[key as usize].load(SeqCst);
        if let Some(value) = self.cache.get(self.name(key)) {
            let value = String::from_utf8(value).unwrap().trim().parse().unwrap();
            self.check_count(key, value, floor, count);
        }
    }

    fn increment(&mut self, key: u64) {
        let floor = self.model.floors[key as usize].load(SeqCst);
        let count = self.model.counts[key as usize].load(SeqCst);
        let name = self.name(key);
        let hash = self.cache.hash(name);
        let counted = self
            .cache
            .with_memory(|session| session.arithmetic(name, hash, &Arithmetic::INCREMENT));
        match counted {
            Ok(Counted::Value { value, .. }) => {
                assert!(value > count || value / COUNTER_SCALE != count / COUNTER_SCALE);
                self.check_count(key, value, floor, count);
                self.counted.push(value);
                self.model.counts[key as usize].fetch_max(value, SeqCst);
            }
            Ok(Counted::NotFound) | Err(Refusal::NoMemory) => {}
            other => panic!("{other:?}"),
        }
    }

    fn check_count(&mut self, key: u64, value: u64, floor: u64, count: u64) {
        self.hits += 1;
        self.model.check(key, value / COUNTER_SCALE, floor, "a count from");
        if value / COUNTER_SCALE == count / COUNTER_SCALE {
            assert!(value >= count, "key {key}: {value} after {count}");
        }
    }
}

/// What stands behind a record: of every other op noise, which does not compress, so that blocks
/// and segments fill up. It goes by whole words, or a quarter of the run would be spent on this.
fn fill(op: u64, target: &mut [u8]) {
    if op.is_multiple_of(2) {
        return target.fill(op as u8);
    }
    let mut noise = Random(op);
    let (words, rest) = target.as_chunks_mut();
    words.fill_with(|| noise.next().to_le_bytes());
    rest.copy_from_slice(&noise.next().to_le_bytes()[..rest.len()]);
}

fn is_filler(op: u64, found: &[u8]) -> bool {
    let (words, rest) = found.as_chunks::<8>();
    if op.is_multiple_of(2) {
        let byte = op as u8;
        return words.iter().all(|word| *word == [byte; 8]) && rest.iter().all(|it| *it == byte);
    }
    let mut noise = Random(op);
    words.iter().all(|word| *word == noise.next().to_le_bytes())
        && *rest == noise.next().to_le_bytes()[..rest.len()]
}

fn name(key: u64) -> Vec<u8> {
    format!("{key:0width$}", width = 1 + (key as usize * 7) % 60).into_bytes()
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
    // A tier on flash gets little of what happens above it.
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

fn run(
    (policy, tiers, extra): (Policy, Tiers, Extra),
    (index, layout): (IndexKind, ChunkLayout),
    seed: u64,
    operations: u64,
) {
    let clock = Arc::new(ManualClock::new(NOW));
    // So little memory that threads have chunks for themselves only if many may wait there.
    let parked_share = if (index, layout) == FORMS[0] { PARKED_SHARE } else { 4 };
    let builder = Cache::builder().memory_bytes(8 << 20).policy(policy);
    let builder = builder.threads(THREADS as usize).parked_share(parked_share);
    let mut builder = builder.index(index).layout(layout).clock(clock.clone());
    match extra {
        Extra::None => {}
        Extra::Columns => builder = builder.repartition(to_columns(tiers)),
        Extra::Quotas => builder = builder.quotas(QUOTAS.map(quota).into()),
    }
    if tiers.has_flash() {
        let pages = (FLASH_BYTES / PAGE_BYTES) as u64;
        // A compressed zone that wants to be small lets go of what it gets.
        let device = Arc::new(FakeDevice::new(pages, seed, Faults::default()));
        let flash =
            FlashSettings { is_new: true, threads: 2, ..FlashSettings::new(device, [1; 16]) };
        builder = builder.hot_target(1.0).flash(flash);
    }
    let cache =
        builder.compress(matches!(tiers, Tiers::Compressed | Tiers::Flash)).build().unwrap();
    // Each flush is an op of every key that it takes.
    let flushes = operations / FLUSH_OPERATIONS + operations / PREFIX_OPERATIONS;
    let model = Model::new(operations + (flushes + 2 * THREADS + 2) * KEYS);
    let done = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        // Also when a client panics: or the scope would wait for the background for ever.
        let _end = EndOnDrop(&done);
        scope.spawn(|| {
            while !done.load(SeqCst) {
                for quota in cache.quota_stats() {
                    assert!(quota.bytes <= quota.limit_bytes, "{quota:?}");
                }
                if !cache.maintain() {
                    cache.wait_for_work(std::time::Duration::from_millis(1));
                }
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
    check_stats(&cache, tiers, operations);
    check_end(&cache, operations);
}

/// That no two increments returned the same: a counter's value has the number of the op that set
/// it, so one of them would have been lost.
fn check_counts<'t>(counted: impl Iterator<Item = &'t u64>) {
    let mut counted: Vec<_> = counted.collect();
    counted.sort_unstable();
    let twice = counted.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "of {} increments, two returned the same", counted.len());
}

/// That the quotas were full, and nothing is left of what was charged, nor on flash.
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

/// That enough has happened to mean anything.
fn check_stats(cache: &Cache, tiers: Tiers, operations: u64) {
    let stats = cache.stats();
    println!("{stats:?}");
    if tiers.has_flash() {
        let flash = stats.flash.unwrap();
        assert!(flash.hits > operations / 2000, "too few hits on flash; {flash:?}");
        assert!(flash.tier.collected > 10 && flash.promoted > operations / 2000, "{flash:?}");
        assert!(flash.rested > operations / 20_000, "too little rests on its row: {flash:?}");
    }
    if let Some(columns) = stats.repartition {
        let counts = columns.counts;
        assert!(counts.swaps > operations / 5000, "too few swaps to mean anything: {counts:?}");
    }
    let moved = stats.evicted + stats.compressed.map_or(0, |zone| zone.demoted);
    assert!(moved > operations / 1000, "too little eviction to mean anything");
    assert!(stats.used_bytes <= stats.limit_bytes);
}
