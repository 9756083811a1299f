//! A client that runs every operation, and checks the answers.

use std::sync::atomic::Ordering::SeqCst;

use io::ManualClock;
use larder::{
    Ahead, Arithmetic, Attributes, Cache, Condition, Counted, Expiry, Fetch, Hash, Lookup, Refusal,
    Remove, Removed, Session, Side, Store, Stored,
};

use crate::NOW;
use crate::model::{FILLER_BITS, KEYS, Model, Op, RECORD_BYTES, Random, fill};

/// Operations after which a client does a turn of the background's work.
const MAINTAIN_OPERATIONS: u64 = 32;
/// Operations after which a client flushes everything, or a prefix.
pub const FLUSH_OPERATIONS: u64 = 40_009;
pub const PREFIX_OPERATIONS: u64 = 3001;
/// A counter's value is the number of the op that set it times this, plus the increments since.
const COUNTER_SCALE: u64 = 1_000_000;

pub struct Client<'t> {
    pub cache: &'t Cache,
    pub model: &'t Model,
    pub clock: &'t ManualClock,
    pub random: Random,
    pub hits: u64,
    /// What increments returned.
    pub counted: Vec<u64>,
    /// Prefixes that were not flushed.
    pub refused: u64,
}

impl<'t> Client<'t> {
    fn name(&self, key: u64) -> &'t [u8] {
        &self.model.names[key as usize]
    }

    pub fn step(&mut self, number: u64) {
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
        match self.random.below(40) {
            0..=16 => self.read(key),
            17 => self.read_many(),
            18..=25 => self.write(key, Expiry::NEVER),
            26..=27 => self.compare_and_swap(key),
            28..=31 => self.append(key),
            32..=33 => self.remove(key),
            34 => self.touch(key),
            35 => self.read_and_touch(key),
            36..=37 => self.invalidate(key),
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

    /// Reads many in one session, as a multiget does, and checks them at its end: a found item
    /// stays as it was, whatever has become of it. Now and then the session changes one of them
    /// itself.
    fn read_many(&mut self) {
        let count = 2 + self.random.below(15);
        // Records, with and without an expiry.
        let keys: Vec<u64> =
            (0..count).map(|_| self.random.below(KEYS / 3) * 3 + self.random.below(2)).collect();
        let hashes: Vec<Hash> = keys.iter().map(|&key| self.cache.hash(self.name(key))).collect();
        let removed = self.random.below(4 * count) as usize;
        let checked = self.cache.with_memory(|session| {
            let (mut ahead, mut held, mut is_complete) = (Ahead::new(&hashes), Vec::new(), true);
            for (number, (&key, &hash)) in keys.iter().zip(&hashes).enumerate() {
                ahead.reach(session, number, true);
                let floor = self.model.floors[key as usize].load(SeqCst);
                let clock = io::Clock::unix_ms(self.clock);
                match session.look_up(self.name(key), hash) {
                    Lookup::Hit(item) => held.push((key, floor, clock, item)),
                    Lookup::Miss => {}
                    Lookup::Pending => is_complete = false,
                }
                if number == removed {
                    self.remove_in(session, keys[number / 2]);
                }
            }
            for (key, floor, clock, item) in &held {
                self.model.check_records(*key, &item.to_vec(), *floor, *clock);
            }
            if is_complete { Ok(held.len()) } else { Err(Refusal::Pending) }
        });
        self.hits += checked.unwrap_or_default() as u64;
    }

    fn remove_in(&self, session: &Session<'_>, key: u64) {
        let (name, op) = (self.name(key), self.model.begin(key));
        let removed = session.remove(name, self.cache.hash(name), &Remove::default());
        assert!(matches!(removed, Ok(Removed::Removed | Removed::NotFound)), "{removed:?}");
        self.model.end(key, &op);
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
        // Over an item that another client has stored meanwhile the second kind is stored as stale.
        let is_strict = self.random.below(4) > 0;
        let condition =
            if is_strict { Condition::Unique(cas) } else { Condition::UniqueOrStale(cas) };
        let outcome = self.cache.put(name, &value, Attributes::default(), condition);
        self.ended(key, &op, outcome);
        if is_strict && let (Ok(Stored::Stored { .. }), Some(last)) = (outcome, last) {
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
            // Appended to until it is too large, as clients do: then it is removed.
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
        // Into the past is a removal; otherwise the value stays as it is.
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

    /// Reads, and touches the item, which keeps its value or is removed.
    fn read_and_touch(&mut self, key: u64) {
        let name = self.name(key);
        let hash = self.cache.hash(name);
        let floor = self.model.floors[key as usize].load(SeqCst);
        let clock = io::Clock::unix_ms(self.clock);
        let op = (self.random.below(3) == 0).then(|| self.model.begin(key));
        let expiry = if op.is_some() { Expiry::PAST } else { Expiry::at(NOW + (1 << 30)) };
        let value = self.cache.with_memory(|session| {
            let item = session.get_and_touch(name, hash, expiry)?;
            Ok(item.map(|item| item.to_vec()))
        });
        match (op, &value) {
            (Some(op), Ok(_)) => self.model.end(key, &op),
            (Some(op), Err(_)) => self.model.end_without_effect(&op),
            (None, _) => {}
        }
        match value {
            Ok(value) => {
                self.hits += u64::from(value.is_some());
                self.model.check_records(key, &value.unwrap_or_default(), floor, clock);
            }
            Err(refusal) => assert_eq!(refusal, Refusal::NoMemory),
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

    /// Flushes by the first bytes of a key's name: those of a few others too, now and then of most
    /// of them.
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
