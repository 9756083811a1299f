//! The prefixes of keys, and what is known of each: a model of its costs, and sums.
//!
//! A key's prefix is what is in front of its first digit, up to the last `:` or `/` there, that
//! included; if there is none, the letters and underscores that the key begins with. Only the first
//! [`PREFIX_BYTES_MAX`] bytes are looked at.
//!
//! | key | prefix |
//! | --- | --- |
//! | `user:123:profile` | `user:` |
//! | `app/page/en-7` | `app/page/` |
//! | `key-00012` | `key` |
//! | `8f3a90` | (empty) |
//!
//! Digits number things, so the bytes behind them do not make another kind of value, and a key such
//! as `user:123:profile` does not make a prefix for each user.
//!
//! There are [`PREFIXES`] places, eight to a row that the prefix's hash chooses. When a row is
//! full, a new prefix takes the place of the one with the fewest samples if these are too few to
//! say anything; otherwise that one loses a sample, and the new prefix is turned away. So a prefix
//! that is left alone is worn down, and any number of prefixes that come once take one place of
//! each row, which they take from each other. A cost measured under no prefix is taken as it is.
//!
//! A measuring thread reads and writes single words and waits for no other. The lock is for names:
//! it is held by the thread that gives a place to a prefix, which gives up if another holds it, and
//! by the listing. A sample that meets a change of its place's owner may count for the new one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use stdx::sync::lock;

use crate::measure::model::{Model, SAMPLES_MIN};

/// Prefixes at a time, in 75 KiB.
pub(crate) const PREFIXES: usize = 1024;
/// Bytes of a key that are looked at for its prefix.
pub(crate) const PREFIX_BYTES_MAX: usize = 32;
const ROW_PREFIXES: usize = 8;
const ROWS: usize = PREFIXES / ROW_PREFIXES;
/// Attempts to enter a sample beside other threads' before it is left out.
const TEACH_ATTEMPTS: usize = 4;

/// The costs of one prefix.
#[derive(Debug, Clone, PartialEq)]
pub struct CostPrefix {
    /// The prefix.
    pub prefix: Vec<u8>,
    /// Misses whose cost is known: those that a store followed in time.
    pub misses: u64,
    /// The total cost of `misses`, in microseconds.
    pub miss_cost_us: u64,
    /// Of `misses`, those whose measured time was beyond what is usual here.
    pub outliers: u64,
    /// Stores without a miss that got the typical cost.
    pub presumed: u64,
    /// The typical cost, in microseconds: a geometric mean. 0 until there are eight samples.
    pub typical_us: u32,
    /// The factor by which costs usually differ from `typical_us`.
    pub spread: f32,
}

/// A table of prefixes.
#[derive(Debug)]
pub(crate) struct Prefixes {
    /// Hashes of the prefixes; 0 where there is none.
    hashes: Box<[AtomicU32]>,
    places: Box<[Place]>,
    names: Mutex<Box<[Name]>>,
    /// Some prefix has had a settled model.
    is_any_settled: AtomicBool,
}

#[derive(Debug, Default)]
struct Place {
    model: AtomicU64,
    misses: AtomicU64,
    miss_cost_us: AtomicU64,
    outliers: AtomicU64,
    presumed: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Name {
    bytes: [u8; PREFIX_BYTES_MAX],
    length: u8,
}

/// Returns the prefix of a key.
pub(crate) fn prefix_of(key: &[u8]) -> &[u8] {
    let head = &key[..key.len().min(PREFIX_BYTES_MAX)];
    let (mut after_separator, mut letters) = (0, 0);
    for (at, byte) in head.iter().enumerate() {
        match byte {
            b'0'..=b'9' => break,
            b':' | b'/' => after_separator = at + 1,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => letters += usize::from(letters == at),
            _ => {}
        }
    }
    &head[..if after_separator > 0 { after_separator } else { letters }]
}

impl Prefixes {
    pub(crate) fn new() -> Self {
        Self {
            hashes: (0..PREFIXES).map(|_| AtomicU32::new(0)).collect(),
            places: (0..PREFIXES).map(|_| Place::default()).collect(),
            names: Mutex::new(vec![Name::default(); PREFIXES].into()),
            is_any_settled: AtomicBool::new(false),
        }
    }

    /// Returns the model of the prefix with this hash.
    pub(crate) fn model(&self, hash: u32) -> Model {
        let word = self.find(hash).map_or(0, |place| place.model.load(Ordering::Relaxed));
        Model::unpack(word)
    }

    /// Whether a typical cost was ever known of any prefix.
    pub(crate) fn is_any_settled(&self) -> bool {
        self.is_any_settled.load(Ordering::Relaxed)
    }

    /// Gives the prefix a place, if it can have one. Returns its hash.
    pub(crate) fn admit(&self, prefix: &[u8], hash_of: impl FnOnce(&[u8]) -> u32) -> u32 {
        let hash = hash_of(prefix);
        if self.find(hash).is_none() {
            self.give_place(hash, prefix);
        }
        hash
    }

    #[cold]
    fn give_place(&self, hash: u32, prefix: &[u8]) {
        let Ok(mut names) = self.names.try_lock() else {
            return;
        };
        let samples = |&at: &usize| match self.hashes[at].load(Ordering::Relaxed) {
            0 => 0,
            _ => 1 + Model::unpack(self.places[at].model.load(Ordering::Relaxed)).samples(),
        };
        let Some(weakest) = row(hash).min_by_key(samples) else {
            return;
        };
        let place = &self.places[weakest];
        let word = place.model.load(Ordering::Relaxed);
        if Model::unpack(word).samples() >= SAMPLES_MIN {
            let weakened = Model::unpack(word).weakened().pack();
            let (before, after) = (Ordering::Relaxed, Ordering::Relaxed);
            // Lost to a sample: it is not that weak.
            let _ = place.model.compare_exchange(word, weakened, before, after);
            return;
        }
        // While it has no hash, no thread finds it.
        self.hashes[weakest].store(0, Ordering::Relaxed);
        place.model.store(0, Ordering::Relaxed);
        place.reset();
        names[weakest] = Name::new(prefix);
        self.hashes[weakest].store(hash, Ordering::Relaxed);
    }

    /// Adds a miss of this cost to the sums.
    pub(crate) fn count(&self, hash: u32, us: u32, is_outlier: bool) {
        if let Some(place) = self.find(hash) {
            place.misses.fetch_add(1, Ordering::Relaxed);
            place.miss_cost_us.fetch_add(u64::from(us), Ordering::Relaxed);
            if is_outlier {
                place.outliers.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts a store that got the typical cost.
    pub(crate) fn count_presumed(&self, hash: u32) {
        if let Some(place) = self.find(hash) {
            place.presumed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds a sample to the model.
    pub(crate) fn teach(&self, hash: u32, us: u32) {
        let Some(place) = self.find(hash) else {
            return;
        };
        let mut word = place.model.load(Ordering::Relaxed);
        for _ in 0..TEACH_ATTEMPTS {
            let model = Model::unpack(word).with(us);
            let taught = model.pack();
            let (before, after) = (Ordering::Relaxed, Ordering::Relaxed);
            match place.model.compare_exchange_weak(word, taught, before, after) {
                Ok(_) => {
                    if model.is_settled() && !self.is_any_settled() {
                        self.is_any_settled.store(true, Ordering::Relaxed);
                    }
                    return;
                }
                Err(changed) => word = changed,
            }
        }
    }

    /// Returns all prefixes that have a place, those whose misses cost most first.
    pub(crate) fn list(&self) -> Vec<CostPrefix> {
        let names = lock(&self.names);
        let taken = (0..PREFIXES).filter(|&at| self.hashes[at].load(Ordering::Relaxed) != 0);
        let mut list: Vec<_> = taken.map(|at| self.places[at].facts(&names[at])).collect();
        drop(names);
        list.sort_by(|one, other| {
            let by_cost = other.miss_cost_us.cmp(&one.miss_cost_us);
            by_cost.then_with(|| one.prefix.cmp(&other.prefix))
        });
        list
    }

    /// Resets the sums. The models stay.
    pub(crate) fn reset(&self) {
        self.places.iter().for_each(Place::reset);
    }

    fn find(&self, hash: u32) -> Option<&Place> {
        let place = row(hash).find(|&at| self.hashes[at].load(Ordering::Relaxed) == hash)?;
        Some(&self.places[place])
    }
}

impl Place {
    fn reset(&self) {
        for sum in [&self.misses, &self.miss_cost_us, &self.outliers, &self.presumed] {
            sum.store(0, Ordering::Relaxed);
        }
    }

    fn facts(&self, name: &Name) -> CostPrefix {
        let model = Model::unpack(self.model.load(Ordering::Relaxed));
        CostPrefix {
            prefix: name.bytes[..usize::from(name.length)].to_vec(),
            misses: self.misses.load(Ordering::Relaxed),
            miss_cost_us: self.miss_cost_us.load(Ordering::Relaxed),
            outliers: self.outliers.load(Ordering::Relaxed),
            presumed: self.presumed.load(Ordering::Relaxed),
            typical_us: model.typical_us(),
            spread: model.spread_factor(),
        }
    }
}

impl Name {
    fn new(prefix: &[u8]) -> Self {
        let mut bytes = [0; PREFIX_BYTES_MAX];
        bytes[..prefix.len()].copy_from_slice(prefix);
        Self { bytes, length: prefix.len() as u8 }
    }
}

/// Returns the places that a prefix may have.
fn row(hash: u32) -> std::ops::Range<usize> {
    let first = hash as usize % ROWS * ROW_PREFIXES;
    first..first + ROW_PREFIXES
}

#[cfg(test)]
mod tests {
    use super::{PREFIX_BYTES_MAX, PREFIXES, Prefixes, ROW_PREFIXES, ROWS, prefix_of};
    use crate::measure::model::{SAMPLES_MAX, SAMPLES_MIN};

    #[test]
    fn a_prefix_ends_at_the_last_separator_before_a_digit_or_with_the_letters() {
        let pairs: [(&str, &str); 14] = [
            ("user:123:profile", "user:"),
            ("user:123", "user:"),
            ("app/page/en-7", "app/page/"),
            ("a:b:c", "a:b:"),
            ("key-00012", "key"),
            ("my_table42", "my_table"),
            ("8f3a90", ""),
            ("md5:abc", "md"),
            ("greeting", "greeting"),
            (":x", ":"),
            ("-", ""),
            ("\u{e9}t\u{e9}:1", "\u{e9}t\u{e9}:"),
            ("abcdefghijklmnopqrstuvwxyzabcdefghij:1", "abcdefghijklmnopqrstuvwxyzabcdef"),
            ("", ""),
        ];
        for (key, prefix) in pairs {
            assert_eq!(prefix_of(key.as_bytes()), prefix.as_bytes(), "{key}");
        }
        assert_eq!(prefix_of(&[b'x'; 250]).len(), PREFIX_BYTES_MAX);
    }

    /// Returns a hash in the first row.
    fn hash_of(number: u32) -> u32 {
        (1 + number) * ROWS as u32
    }

    #[test]
    fn prefixes_that_come_once_wear_each_other_out_and_not_one_in_use() {
        let prefixes = Prefixes::new();
        for number in 0..ROW_PREFIXES as u32 {
            prefixes.admit(format!("p{number}:").as_bytes(), |_| hash_of(number));
        }
        for _ in 0..SAMPLES_MAX {
            prefixes.teach(hash_of(0), 1000);
        }
        for number in 100..10_000 {
            prefixes.admit(b"once:", |_| hash_of(number));
            prefixes.teach(hash_of(number), 5);
        }
        assert!(prefixes.model(hash_of(0)).typical_us().abs_diff(1000) <= 1);
        assert_eq!(prefixes.list().len(), ROW_PREFIXES);
    }

    #[test]
    fn a_prefix_that_is_left_alone_gives_way() {
        let prefixes = Prefixes::new();
        for number in 0..ROW_PREFIXES as u32 {
            prefixes.admit(b"old:", |_| hash_of(number));
            (0..SAMPLES_MAX).for_each(|_| prefixes.teach(hash_of(number), 1000));
        }
        let mut attempts = 0;
        while prefixes.find(hash_of(50)).is_none() {
            prefixes.admit(b"new:", |_| hash_of(50));
            attempts += 1;
            assert!(attempts < 8 * SAMPLES_MAX);
        }
        assert!(attempts > SAMPLES_MAX - SAMPLES_MIN);
        assert!(prefixes.list().iter().any(|facts| facts.prefix == b"new:"));
    }

    #[test]
    fn any_number_of_prefixes_stays_within_the_table() {
        let prefixes = Prefixes::new();
        for number in 1..20_000_u64 {
            prefixes.admit(b"p:", |_| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32);
        }
        assert_eq!(prefixes.list().len(), PREFIXES);
    }
}
