//! The values that a read may return, and their form.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use stdx::random::split_mix;

pub const KEYS: u64 = 4000;
/// Bytes of the record that an op writes: key, op, expiry and filler length.
pub const RECORD_BYTES: usize = 24;
/// The bits of its last word that are the filler's length; above is the expiry in milliseconds.
pub const FILLER_BITS: u32 = 20;
pub const FILLER_MASK: u64 = (1 << FILLER_BITS) - 1;
pub const NOT_ENDED: u64 = u64::MAX;

/// A small, seeded generator (splitmix64): the run must be repeatable from a printed number.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        split_mix(&mut self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

pub struct Model {
    pub time: AtomicU64,
    pub ops: AtomicU64,
    /// By op: when it ended, and the floor of its key when it began.
    pub ended: Vec<AtomicU64>,
    pub floor_at_begin: Vec<AtomicU64>,
    /// By op: a swap that compared the unique of its value has replaced it.
    pub swapped: Vec<AtomicBool>,
    /// By key: the latest begin of a mutation that has ended.
    pub floors: Vec<AtomicU64>,
    /// By key: the highest value that an increment has returned.
    pub counts: Vec<AtomicU64>,
    /// By key.
    pub names: Vec<Vec<u8>>,
}

/// A mutation under way.
pub struct Op {
    pub number: u64,
    pub began: u64,
}

impl Model {
    pub fn new(ops_max: u64) -> Self {
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

    pub fn tick(&self) -> u64 {
        self.time.fetch_add(1, SeqCst)
    }

    pub fn begin(&self, key: u64) -> Op {
        let number = self.ops.fetch_add(1, SeqCst);
        let floor = self.floors[key as usize].load(SeqCst);
        self.floor_at_begin[number as usize].store(floor, SeqCst);
        Op { number, began: self.tick() }
    }

    pub fn end(&self, key: u64, op: &Op) {
        self.ended[op.number as usize].store(self.tick(), SeqCst);
        self.floors[key as usize].fetch_max(op.began, SeqCst);
    }

    /// The op certainly changed nothing: its number may never be read.
    pub fn end_without_effect(&self, op: &Op) {
        self.ended[op.number as usize].store(0, SeqCst);
    }

    /// Panics if the value was certainly overwritten when the floor stood at `floor`.
    pub fn check(&self, key: u64, op: u64, floor: u64, what: &str) {
        let ended = self.ended[op as usize].load(SeqCst);
        assert!(ended >= floor, "key {key}: {what} op {op}, which ended at {ended}; floor {floor}");
    }

    /// Returns the op that wrote the last record, if there is any.
    pub fn check_records(&self, key: u64, value: &[u8], floor: u64, clock_ms: u64) -> Option<u64> {
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

/// Fills the part behind a record: every other op has noise, which does not compress, so that
/// blocks and segments fill up. It goes by whole words, or a quarter of the run would be spent on
/// this.
pub fn fill(op: u64, target: &mut [u8]) {
    if op.is_multiple_of(2) {
        return target.fill(op as u8);
    }
    let mut noise = Random(op);
    let (words, rest) = target.as_chunks_mut();
    words.fill_with(|| noise.next().to_le_bytes());
    rest.copy_from_slice(&noise.next().to_le_bytes()[..rest.len()]);
}

pub fn is_filler(op: u64, found: &[u8]) -> bool {
    let (words, rest) = found.as_chunks::<8>();
    if op.is_multiple_of(2) {
        let byte = op as u8;
        return words.iter().all(|word| *word == [byte; 8]) && rest.iter().all(|it| *it == byte);
    }
    let mut noise = Random(op);
    words.iter().all(|word| *word == noise.next().to_le_bytes())
        && *rest == noise.next().to_le_bytes()[..rest.len()]
}

pub fn name(key: u64) -> Vec<u8> {
    format!("{key:0width$}", width = 1 + (key as usize * 7) % 60).into_bytes()
}
