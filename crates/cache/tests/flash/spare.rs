//! Rows on flash that outlast the promotion of their items: an item that leaves memory unchanged is
//! not written again, and one that has changed is never found as it was.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use io::device::Faults;
use larder::{
    Arithmetic, Attributes, Cache, Condition, DumpCursor, Dumped, Evicted, Expiry, FlashSettings,
    Lookup, Observer, Remove, Side, Store,
};

use crate::fixture::{BOOT, Fixture, NOW, SHAPES, TREE_SHAPES, key, long, value};

const FILLERS: u32 = 120_000;

/// Reads an item on flash twice.
fn bring_up(cache: &Cache, key: &[u8], value: &[u8]) {
    for _ in 0..2 {
        assert_eq!(cache.get(key).as_deref(), Some(value));
    }
}

/// [`bring_up`] for many, for which the background makes room in time.
fn bring_all_up(fixture: &Fixture, numbers: &[u32]) {
    for some in numbers.chunks(16) {
        some.iter().for_each(|number| bring_up(&fixture.cache, &key(*number), &value(*number)));
        fixture.maintain();
    }
}

/// An observer that keeps the keys of evicted items.
#[derive(Debug, Default)]
struct Listening(Mutex<Vec<Vec<u8>>>);

impl Observer for Listening {
    fn is_watching(&self) -> bool {
        true
    }

    fn evicted(&self, evicted: &Evicted<'_>) {
        self.0.lock().unwrap().push(evicted.key.to_vec());
    }
}

/// Returns the first fillers that are on flash, `count` of them.
fn on_flash(fixture: &Fixture, count: usize) -> Vec<u32> {
    let cache = &fixture.cache;
    let is_pending = |number: &u32| {
        let hash = cache.hash(&key(*number));
        matches!(cache.session().look_up(&key(*number), hash), Lookup::Pending)
    };
    let found: Vec<u32> = (1..=fixture.fillers).filter(is_pending).take(count).collect();
    assert_eq!(found.len(), count);
    found
}

/// How much fits depends on whether the compressed zone has trained a dictionary, which it does
/// when the background happens to be calm.
fn store_three_times_what_fits(fixture: &mut Fixture) {
    let (mut stored, mut most_in_memory) = (0, 0);
    while stored < 150_000.max(3 * most_in_memory) {
        fixture.fill(10_000);
        stored += 10_000;
        let stats = fixture.cache.stats();
        most_in_memory = most_in_memory.max(stats.items - stats.flash.unwrap().items);
    }
}

#[test]
fn an_unchanged_promoted_item_leaves_memory_without_a_write() {
    for shape in SHAPES.into_iter().chain(TREE_SHAPES) {
        let mut fixture = Fixture::shaped(shape, 64 << 20);
        fixture.fill(120_000);
        let numbers = on_flash(&fixture, 2000);
        let before = fixture.cache.stats();
        bring_all_up(&fixture, &numbers);
        let up = fixture.cache.stats();
        let flash = up.flash.unwrap();
        assert!(flash.promoted > 1900, "{flash:?}");
        assert_eq!(flash.spare + flash.rested, flash.promoted, "{flash:?}");
        // Some few may leave for want of time, and none is counted twice.
        assert!(up.items <= before.items && up.items * 1000 > before.items * 995, "{up:?}");
        // Hardly any of them is in memory any more when much more than fits was stored.
        store_three_times_what_fits(&mut fixture);
        let left = fixture.cache.stats().flash.unwrap();
        assert!(left.spare < 200 && left.rested > 1700, "{left:?}");
        for number in numbers {
            let there = fixture.cache.get(&key(number));
            assert!(there.is_none_or(|there| there == value(number)), "{number}");
        }
    }
}

#[test]
fn an_unchanged_promoted_item_is_found_after_a_kill() {
    for shape in SHAPES {
        let mut fixture = Fixture::shaped(shape, 64 << 20);
        fixture.fill(120_000);
        let numbers = on_flash(&fixture, 1000);
        bring_all_up(&fixture, &numbers);
        let spare = fixture.cache.stats().flash.unwrap().spare;
        assert!(spare > 900, "{spare}");
        let after = fixture.killed();
        let is_found = |number: &&u32| {
            let found = after.cache.get(&key(**number));
            assert!(found.as_ref().is_none_or(|found| *found == value(**number)), "{number}");
            found.is_some()
        };
        let found = numbers.iter().filter(is_found).count();
        assert!(found > 990, "{found}");
    }
}

/// Whatever is done to a promoted item, the row that it came from is dead before the reply: a
/// process that is killed a moment later is followed by one that does not find it.
#[test]
fn a_change_of_a_promoted_item_kills_its_row() {
    const CHANGES: [&str; 9] = [
        "set", "replaced", "appended", "compared", "counted", "touched", "gat", "stale", "removed",
    ];
    for shape in SHAPES {
        let mut fixture = Fixture::shaped(shape, 64 << 20);
        let expiring = Attributes { expiry: Expiry::at(NOW + 5000), ..Attributes::default() };
        for name in CHANGES.into_iter().chain(["unchanged"]) {
            fixture.put_on_flash(&long(name), b"41", expiring);
        }
        fixture.fill(30_000);
        for name in CHANGES.into_iter().chain(["unchanged"]) {
            fixture.maintain();
            bring_up(&fixture.cache, &long(name), b"41");
        }
        assert_eq!(fixture.cache.stats().flash.unwrap().spare, 10);
        for (changed, name) in CHANGES.into_iter().enumerate() {
            change(&fixture.cache, name);
            let spare = fixture.cache.stats().flash.unwrap().spare;
            assert_eq!(spare, 9 - changed as u64, "{name}");
        }
        assert_eq!(fixture.cache.get(&long("appended")).unwrap(), b"41!");
        assert_eq!(fixture.cache.get(&long("counted")).unwrap(), b"42");
        assert!(fixture.cache.get(&long("removed")).is_none());
        let after = fixture.killed();
        for name in CHANGES {
            assert!(after.cache.get(&long(name)).is_none(), "{name}");
        }
        assert_eq!(after.cache.get(&long("unchanged")).unwrap(), b"41");
    }
}

/// Regression: a touch that changed nothing had the row noted as dead, and written again when it
/// left memory.
#[test]
fn a_touch_with_the_same_expiry_leaves_the_row_spare() {
    for shape in SHAPES {
        let mut fixture = Fixture::shaped(shape, 64 << 20);
        let times = [("never", Expiry::NEVER), ("once", Expiry::at(NOW + 5000))];
        for (name, expiry) in times {
            let attributes = Attributes { expiry, ..Attributes::default() };
            fixture.put_on_flash(&long(name), b"41", attributes);
        }
        fixture.fill(30_000);
        fixture.maintain();
        times.iter().for_each(|(name, _)| bring_up(&fixture.cache, &long(name), b"41"));
        let cache = &fixture.cache;
        let counts = || {
            let flash = cache.stats().flash.unwrap();
            (flash.spare, flash.tier.journalled)
        };
        let before = counts();
        assert_eq!(before.0, 2);
        for (name, expiry) in times {
            let (key, hash) = (long(name), cache.hash(&long(name)));
            let touched = cache.with_memory(|session| session.touch(&key, hash, expiry));
            assert_eq!(touched, Ok(true));
            let got = cache
                .with_memory(|session| Ok(session.get_and_touch(&key, hash, expiry)?.is_some()));
            assert_eq!(got, Ok(true));
        }
        assert_eq!(counts(), before);
        let after = fixture.killed();
        times.iter().for_each(|(name, _)| bring_up(&after.cache, &long(name), b"41"));
    }
}

/// Makes the change with this name to the key.
fn change(cache: &Cache, name: &str) {
    let key = long(name);
    let hash = cache.hash(&key);
    let later = Expiry::at(NOW + 9000);
    let put = |condition| cache.put(&key, b"after", Attributes::default(), condition).unwrap();
    match name {
        "set" => _ = put(Condition::Always),
        "replaced" => _ = put(Condition::Present),
        "appended" => {
            let appended = cache.with_memory(|session| {
                let mut draft = cache.reserve(&key, Attributes::default(), 1)?;
                draft.write(b"!");
                let store = Store::when(Condition::Present);
                session.concat(draft, Side::Back, store, None).map_err(|(_, refusal)| refusal)
            });
            appended.unwrap();
        }
        "compared" => {
            let cas = cache.with_memory(|session| {
                Ok(session.get_with_cas(&key, hash)?.map(|item| item.cas()))
            });
            _ = put(Condition::Unique(cas.unwrap().unwrap()));
        }
        "counted" => {
            let arithmetic = Arithmetic::INCREMENT;
            cache.with_memory(|session| session.arithmetic(&key, hash, &arithmetic)).unwrap();
        }
        "touched" => {
            assert!(cache.with_memory(|session| session.touch(&key, hash, later)).unwrap());
        }
        "gat" => {
            let got = cache
                .with_memory(|session| Ok(session.get_and_touch(&key, hash, later)?.is_some()));
            assert!(got.unwrap());
        }
        "stale" => {
            let remove = Remove { invalidate: true, ..Remove::default() };
            cache.with_memory(|session| session.remove(&key, hash, &remove)).unwrap();
        }
        "removed" => assert!(cache.remove(&key)),
        _ => unreachable!("{name} is no change"),
    }
}

/// How often each key is listed.
fn listed(cache: &Cache) -> BTreeMap<Vec<u8>, u32> {
    let (mut cursor, mut seen) = (DumpCursor::default(), BTreeMap::new());
    let mut arrived = Vec::new();
    loop {
        let session = cache.session();
        session.deliver(arrived.drain(..));
        let dumped = session.dump(&mut cursor, 256, |item| {
            *seen.entry(item.key().to_vec()).or_default() += 1;
        });
        let wanted = session.take_wanted();
        drop(session);
        match dumped {
            Dumped::More => {}
            Dumped::Pending => arrived = cache.read_wanted_now(wanted),
            Dumped::End => return seen,
        }
    }
}

#[test]
fn an_item_in_memory_and_on_flash_is_listed_and_counted_once() {
    for shape in SHAPES {
        let mut fixture = Fixture::shaped(shape, 64 << 20);
        fixture.fill(120_000);
        let before = listed(&fixture.cache);
        bring_all_up(&fixture, &on_flash(&fixture, 1000));
        assert!(fixture.cache.stats().flash.unwrap().spare > 900);
        let after = listed(&fixture.cache);
        assert!(after.values().all(|count| *count == 1));
        assert_eq!(fixture.cache.stats().items, after.len() as u64);
        let is_left = |key: &&Vec<u8>| after.contains_key(*key);
        let left = before.keys().filter(is_left).count();
        assert!(left == after.len() && left * 1000 > before.len() * 995, "{left}");
    }
}

/// Regression: an item that a store pushed out of memory for want of time, though flash had it too,
/// was counted and reported as evicted, and the next read found it.
#[test]
fn an_item_that_rests_on_flash_is_not_reported_as_evicted() {
    let mut fixture = Fixture::new(64 << 20);
    fixture.fill(FILLERS);
    fixture.cache.close_flash().unwrap();
    let device = Arc::new(fixture.device.reopened(2, Faults::default()));
    let observer = Arc::new(Listening::default());
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(device, BOOT) };
    let builder = Cache::builder().memory_bytes(8 << 20).flash(flash).observer(observer.clone());
    fixture.cache = builder.clock(fixture.clock.clone()).build().unwrap();
    fixture.maintain();
    let numbers = on_flash(&fixture, 2000);
    // Full segments are not written, so that stores evict before long.
    let cache = &fixture.cache;
    let store = |number: u32| {
        cache.put(&key(number), &value(number), Attributes::default(), Condition::Always).unwrap()
    };
    (FILLERS..2 * FILLERS).for_each(|number| _ = store(number));
    for number in numbers {
        let (key, hash) = (key(number), cache.hash(&key(number)));
        let up = cache.with_memory(|session| Ok(session.get_with_cas(&key, hash)?.is_some()));
        assert_eq!(up, Ok(true));
    }
    let up = cache.stats().flash.unwrap();
    (2 * FILLERS..3 * FILLERS).for_each(|number| _ = store(number));
    let flash = cache.stats().flash.unwrap();
    assert!(flash.rested > up.rested + 1000 && flash.handed == up.handed, "{up:?}; {flash:?}");
    let evicted = observer.0.lock().unwrap().clone();
    assert_eq!(evicted.len() as u64, fixture.cache.stats().evicted);
    assert!(evicted.len() > 1000, "{} were evicted", evicted.len());
    for key in evicted {
        assert_eq!(fixture.cache.get(&key), None, "{}", String::from_utf8_lossy(&key));
    }
}
