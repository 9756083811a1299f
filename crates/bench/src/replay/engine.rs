//! The real engine as a target of a replay: crate `larder`, with the background's work done by a
//! thread as in the server, and with the trace's clock instead of the machine's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use larder::{Attributes, Condition, DumpCursor, Dumped, Expiry, Policy};

use super::cache::{Cache, Contents, Found, Item};
use super::compressed::Compressed;
use crate::background;
use crate::failure::{Failure, Outcome};

/// When the trace begins, in Unix seconds: any time but 0, which means never.
const STARTED_S: u32 = 1_000_000_000;

/// Chunks looked at in one session when the contents are counted.
const DUMP_CHUNKS: usize = 16 << 10;

/// The present second of the trace.
#[derive(Debug)]
struct TraceClock(AtomicU32);

impl io::Clock for TraceClock {
    fn unix_seconds(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Larder, without a server.
pub struct Engine {
    cache: larder::Cache,
    clock: Arc<TraceClock>,
    /// Stores so far, if the background works in step with them.
    stores: Option<AtomicU32>,
}

impl Engine {
    /// Returns an empty cache with this memory limit and policy, and the engine's defaults
    /// otherwise.
    pub fn new(memory_bytes: u64, policy: Policy) -> Outcome<Engine> {
        Engine::with(memory_bytes, policy, None)
    }

    /// Returns an empty cache with a wish about the compressed zone, if there is one.
    pub fn with(
        memory_bytes: u64,
        policy: Policy,
        compressed: Option<Compressed>,
    ) -> Outcome<Engine> {
        let clock = Arc::new(TraceClock(AtomicU32::new(STARTED_S)));
        let builder = larder::Cache::builder().memory_bytes(memory_bytes as usize).policy(policy);
        // Costs are those of the trace, in units of its own.
        let builder = builder.cost_unit_us(1).measure_costs(false);
        let builder = match compressed {
            Some(compressed) => compressed.apply(builder),
            None => builder,
        };
        let cache = builder.clock(Arc::clone(&clock) as Arc<dyn io::Clock>).build();
        let doing = || format!("building a cache of {memory_bytes} bytes");
        let cache = cache.map_err(|error| Failure::Usage(format!("{}: {error}", doing())))?;
        // A small limit is rounded up, and memory would then not be equal in the comparison.
        let limit_bytes = cache.stats().limit_bytes;
        if limit_bytes > memory_bytes {
            let least = format!("the engine needs {limit_bytes} at least");
            let remedy = "take more --memory, whose percentages are of all keys and values";
            return Err(Failure::Usage(format!("{}: {least}; {remedy}", doing())));
        }
        let compresses = compressed == Some(Compressed::Auto);
        Ok(Engine { cache, clock, stores: compresses.then(AtomicU32::default) })
    }

    /// Makes the background work after every few stores, rather than in a thread.
    pub fn in_step(self) -> Engine {
        Engine { stores: Some(AtomicU32::default()), ..self }
    }

    /// Returns the engine itself, for use without the checks of replaying.
    pub fn cache(&self) -> &larder::Cache {
        &self.cache
    }

    /// Runs `work` while a thread does the background's work, unless that is done in step.
    pub fn maintained<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.stores.is_some() {
            // A thread would only contend with the work done in step.
            return work();
        }
        background::beside(&self.cache, |maintain| maintain(), work).0
    }

    /// Does the background's work after every few stores. A trace is replayed a thousand times as
    /// fast as it was recorded; by the trace's clock there was time to demote everything that left
    /// the hot zone.
    fn keep_step(&self) {
        let Some(stores) = &self.stores else {
            return;
        };
        if stores.fetch_add(1, Ordering::Relaxed).is_multiple_of(STORES_PER_TURN) {
            while self.cache.maintain() {}
        }
    }

    /// Moves the clock to the item's second of the trace, unless another thread is ahead.
    fn reach(&self, item: Item) {
        let now = STARTED_S.saturating_add(item.request.time_s);
        if self.clock.0.load(Ordering::Relaxed) < now {
            self.clock.0.fetch_max(now, Ordering::Relaxed);
        }
    }
}

/// Stores between two turns of the background, where it works in step.
const STORES_PER_TURN: u32 = 16;

impl Cache for Engine {
    fn get(&self, item: Item) -> Found {
        self.reach(item);
        let session = self.cache.session();
        match session.get(item.key, self.cache.hash(item.key)) {
            None => Found::Miss,
            Some(found) if item.is_answered_by(found.pieces().flatten()) => Found::Hit,
            Some(_) => Found::Wrong,
        }
    }

    fn set(&self, item: Item) -> bool {
        self.reach(item);
        let ttl_s = item.request.ttl_s;
        let ends_s = STARTED_S.saturating_add(item.request.time_s).saturating_add(ttl_s);
        let expiry = if ttl_s == 0 { Expiry::NEVER } else { Expiry::at(ends_s) };
        let cost_us = item.request.cost_us;
        let attributes = Attributes { expiry, cost_us, ..Attributes::default() };
        let is_stored = self.cache.put(item.key, item.value, attributes, Condition::Always).is_ok();
        self.keep_step();
        is_stored
    }

    fn remove(&self, item: Item) {
        self.reach(item);
        self.cache.remove(item.key);
    }

    fn contents(&self) -> Contents {
        // Items and their bytes in one pass: some may leave meanwhile.
        let (mut items, mut data_bytes, mut cursor) = (0, 0, DumpCursor::default());
        let mut count = |item: &larder::Item| {
            items += 1;
            data_bytes += item.key().len() + item.value_bytes();
        };
        while self.cache.session().dump(&mut cursor, DUMP_CHUNKS, &mut count) == Dumped::More {}
        let data_bytes = Some(data_bytes as u64);
        Contents { items, used_bytes: self.cache.stats().used_bytes, data_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::Engine;
    use crate::policies::check::reads;
    use crate::replay::cache::{Cache, Compared, Found, Item};

    #[test]
    fn values_are_compared_and_expire_with_the_trace() {
        let engine = Engine::new(16 << 20, larder::Policy::Clock).expect("a small cache");
        let mut request = reads(&[0])[0];
        (request.time_s, request.ttl_s) = (100, 10);
        let (key, value, compared) = (b"key", b"value", Compared::Whole);
        let item = Item { position: 0, request: &request, key, value, compared };
        assert_eq!(engine.get(item), Found::Miss);
        assert!(engine.set(item));
        assert_eq!(engine.get(item), Found::Hit);
        assert_eq!(engine.get(Item { value: b"other", ..item }), Found::Wrong);
        let contents = engine.contents();
        assert_eq!((contents.items, contents.data_bytes), (1, Some(8)));
        let mut later = request;
        later.time_s = 110;
        assert_eq!(engine.get(Item { request: &later, ..item }), Found::Miss);
        assert!(engine.set(item));
        engine.remove(item);
        assert_eq!(engine.get(item), Found::Miss);
    }

    /// The work of a thread depends on when it ran, and so do evictions where it had not: the
    /// scheduler would determine the counts of such a run.
    #[test]
    fn a_background_in_step_has_no_work_left_after_its_turn() {
        let engine = Engine::new(8 << 20, larder::Policy::CostClock).expect("a small cache");
        let engine = engine.in_step();
        let (request, value) = (reads(&[0])[0], [7; 256]);
        engine.maintained(|| {
            for number in 0..=16 * 4_000_u32 {
                let (key, position) = (number.to_le_bytes(), number);
                let (request, value, compared) = (&request, &value, Compared::Whole);
                assert!(engine.set(Item { position, request, key: &key, value, compared }));
            }
        });
        assert!(engine.cache().stats().evicted > 0, "it is full");
        assert!(!engine.cache().maintain(), "the last store was followed by a turn");
    }

    #[test]
    fn less_memory_than_the_engine_can_use_is_refused() {
        let failure = Engine::new(512 << 10, larder::Policy::Clock).err().expect("too small");
        assert!(failure.to_string().contains("at least"), "{failure}");
        assert_eq!(failure.exit_code(), 2, "the option is wrong, and nothing was measured");
    }
}
