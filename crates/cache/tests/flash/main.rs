//! The flash tier as users of the cache see it: an item that leaves memory is still there, every
//! command works on it, and a restart finds it again, but never an older value.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

mod fixture;
mod notes;
mod spare;
mod wanted;

use std::collections::HashMap;

use fixture::{BOOT, Fixture, KEYS, NOW, SHAPES, Shape, TREE_SHAPES, key, long, value};
use io::device::{FakeDevice, Faults};
use larder::{
    Arithmetic, Attributes, Cache, Condition, Counted, Expiry, Fetch, FlashDoubt, FlashEmpty,
    Lookup, Refusal, Remove, Removed, Session, Side, Store, Stored,
};

#[test]
fn an_item_that_leaves_memory_is_found_on_flash() {
    for shape in SHAPES.into_iter().chain(TREE_SHAPES) {
        let mut fixture = Fixture::shaped(shape, 64 << 20);
        fixture.fill(200_000);
        let stats = fixture.cache.stats();
        let flash = stats.flash.unwrap();
        assert_eq!(stats.compressed.is_some(), shape.compress);
        assert!(stats.used_bytes <= stats.limit_bytes && stats.limit_bytes <= 8 << 20);
        assert!(flash.items > 50_000, "{flash:?}");
        let found = fixture.found(200_000);
        let lost = u64::from(found).abs_diff(stats.items);
        assert!(lost * 1000 < stats.items, "{found} found of {}; {flash:?}", stats.items);
    }
}

#[test]
fn no_more_is_written_than_the_limit_allows() {
    let limit = 1000.0;
    let shape = Shape { write_limit: Some(limit), ..SHAPES[1] };
    let mut fixture = Fixture::shaped(shape, 64 << 20);
    let written = |fixture: &Fixture| fixture.cache.stats().flash.unwrap().tier.bytes_written;
    fixture.fill(200_000);
    // The most that is saved up: ten minutes' worth, or two segments of 256 KiB if that is more. A
    // segment more may be on its way when that is spent.
    let saved = 600_000;
    let at_once = written(&fixture);
    assert!((saved..saved + (1 << 20)).contains(&at_once), "{at_once}");
    let flash = fixture.cache.stats().flash.unwrap();
    assert!(flash.over_budget > 1000, "{flash:?}");
    fixture.clock.advance(1200);
    fixture.maintain();
    fixture.fill(50_000);
    let later = written(&fixture);
    assert!(later > at_once && later < saved + 1_200_000 + (1 << 20), "{at_once} {later}");
    let found = fixture.found(250_000);
    assert!(u64::from(found) >= fixture.cache.stats().items * 99 / 100);
}

/// Regression: small items run out of words of the index before they run out of flash. The tier
/// took no new ones from then on.
#[test]
fn new_items_find_room_when_the_index_is_full_of_flash_items() {
    for shape in [SHAPES[1], TREE_SHAPES[1]] {
        finds_room_when_the_index_is_full(shape);
    }
}

fn finds_room_when_the_index_is_full(shape: Shape) {
    let mut fixture = Fixture::shaped(shape, 64 << 20);
    fixture.fill(700_000);
    let flash = fixture.cache.stats().flash.unwrap();
    let items_max = (8 << 20) / 2 / shape.index.item_bytes() as u64;
    assert!(flash.items < items_max && flash.items * 10 > items_max * 9, "{flash:?}");
    assert!(flash.tier.collected > 0 && flash.tier.segments_free > 100, "{flash:?}");
    assert!(flash.tier.dropped > 100_000, "{flash:?}");
    assert!(flash.refused * 100 < flash.spilled, "{flash:?}");
    let latest = 600_001..=700_000;
    let found = latest.filter(|number| fixture.cache.get(&key(*number)).is_some()).count();
    assert!(found > 90_000, "{found} of the latest; {flash:?}");
}

/// Regression: a tree has half as many words for items on flash. Recovery knew of no limit: the
/// index took the memory of the zones, and the items found last were noted as dead, one after the
/// other.
#[test]
fn a_process_with_fewer_words_finds_only_the_newest_items() {
    let mut fixture = Fixture::shaped(SHAPES[1], 64 << 20);
    fixture.fill(330_000);
    let before = fixture.cache.stats().flash.unwrap();
    let items_max = (8 << 20) / 2 / TREE_SHAPES[1].index.item_bytes() as u64;
    assert!(before.items > items_max + items_max / 4, "{before:?}");
    let device = fixture.device.reopened(2, Faults::default());
    let after = Fixture::at(NOW, TREE_SHAPES[1], device, BOOT);
    for round in 0.. {
        let name = format!("later-{round}");
        assert!(matches!(
            after.put(name.as_bytes(), b"v", Condition::Always),
            Stored::Stored { .. }
        ));
        let more = after.cache.maintain();
        let flash = after.cache.stats().flash.unwrap();
        assert!(flash.items <= items_max, "{flash:?}");
        assert!(after.cache.get(name.as_bytes()).is_some(), "memory is there for what comes");
        if !more {
            break;
        }
    }
    let flash = after.cache.stats().flash.unwrap();
    assert!(!flash.recovering && flash.items * 10 > items_max * 9, "{flash:?}");
    assert!(flash.tier.segments_found == 0 && flash.tier.journalled < 1000, "{flash:?}");
    // The hot zone's were lost with the process.
    let latest = 200_000..=300_000;
    let found = latest.filter(|number| after.cache.get(&key(*number)).is_some()).count();
    assert!(found > 90_000, "{found} of the latest; {flash:?}");
}

/// Regression: an item that was read left the index with the segment that it lay in.
#[test]
fn read_items_stay_when_the_index_is_full_of_flash_items() {
    let mut fixture = Fixture::shaped(SHAPES[1], 64 << 20);
    let evicts = |fixture: &Fixture| {
        let flash = fixture.cache.stats().flash.unwrap();
        flash.tier.collected > 0
    };
    while !evicts(&fixture) {
        fixture.fill(1000);
    }
    // Each segment has some, so that all were used alike.
    let is_there = |number: &u32| fixture.cache.get(&key(*number)).is_some();
    let read: Vec<u32> = (1..=fixture.fillers).step_by(200).filter(is_there).collect();
    let items_max = (8 << 20) / 2 / SHAPES[1].index.item_bytes() as u32;
    fixture.fill(items_max / 2);
    let flash = fixture.cache.stats().flash.unwrap();
    assert!(flash.tier.segments_free * 2 > flash.tier.segments, "{flash:?}");
    let is_there = |number: &&u32| fixture.cache.get(&key(**number)).is_some();
    let found = read.iter().filter(is_there).count();
    let all = read.len();
    assert!(all > 1000 && found * 20 > all * 19, "{found} of {all}; {flash:?}");
}

#[test]
fn the_cost_of_a_miss_divides_the_flash() {
    let mut fixture = Fixture::new(64 << 20);
    fixture.maintain();
    let miss_ns = |fixture: &Fixture| fixture.cache.stats().flash.unwrap().tier.costs.miss_ns;
    assert_eq!(miss_ns(&fixture), 2_000_000, "as long as nothing is known");
    for number in 0..200 {
        let name = long(&format!("missed-{number}"));
        assert!(fixture.cache.get(&name).is_none());
        let attributes = Attributes { cost_us: 7000, ..Attributes::default() };
        fixture.cache.put(&name, b"v", attributes, Condition::Always).unwrap();
    }
    fixture.fill(64);
    fixture.maintain();
    assert_eq!(miss_ns(&fixture), 7_000_000);
}

#[test]
fn the_cost_of_reads_divides_the_flash() {
    let mut fixture = Fixture::shaped(SHAPES[1], 64 << 20);
    fixture.fill(100_000);
    let cache = &fixture.cache;
    let look_up = |number: u32, session: &Session<'_>| {
        matches!(session.look_up(&key(number), cache.hash(&key(number))), Lookup::Pending)
    };
    for number in 1..=fixture.fillers {
        let session = cache.session();
        if !look_up(number, &session) {
            continue;
        }
        let wanted = session.take_wanted();
        drop(session);
        let arrived = cache.read_wanted_now(wanted);
        fixture.clock.advance_us(5000);
        let session = cache.session();
        session.deliver(arrived);
        assert!(!look_up(number, &session));
    }
    fixture.maintain();
    let costs = cache.stats().flash.unwrap().tier.costs;
    // The clock stood still while the item was looked for in its page.
    assert_eq!((costs.cold_read_ns, costs.miss_ns), (5_000_000, 2_000_000));
}

#[test]
fn an_item_expiring_soon_is_not_written() {
    let mut fixture = Fixture::shaped(SHAPES[1], 64 << 20);
    let attributes = Attributes { expiry: Expiry::at(NOW + 59), ..Attributes::default() };
    let names: Vec<_> = (0..2000).map(|number| long(&format!("soon-{number}"))).collect();
    for name in &names {
        fixture.cache.put(name, b"v", attributes, Condition::Always).unwrap();
        assert!(fixture.cache.get(name).is_some());
    }
    fixture.fill(100_000);
    assert!(names.iter().all(|name| !fixture.is_on_flash(name)));
    assert!(fixture.cache.stats().flash.unwrap().expiring > 1000);
}

/// Regression: a meta get promoted at the first read an item that a plain one leaves until the
/// second.
#[test]
fn an_item_on_flash_is_promoted_at_its_second_read() {
    for shape in SHAPES {
        let mut fixture = Fixture::shaped(shape, 64 << 20);
        fixture.fill(150_000);
        let cache = &fixture.cache;
        let is_pending = |number: &u32| {
            let hash = cache.hash(&key(*number));
            matches!(cache.session().look_up(&key(*number), hash), Lookup::Pending)
        };
        let number = (1..=fixture.fillers).find(is_pending);
        let key = key(number.unwrap());
        let hash = cache.hash(&key);
        let fetched = || {
            let fetched = cache.with_memory(|session| {
                let (item, _) = session.fetch(&key, hash, &Fetch::default())?;
                Ok(item.map(|item| item.to_vec()))
            });
            assert_eq!(fetched, Ok(Some(value(number.unwrap()))));
            cache.stats().flash.unwrap().promoted
        };
        let before = cache.stats().flash.unwrap().promoted;
        assert_eq!([fetched(), fetched(), fetched()], [before, before + 1, before + 1]);
    }
}

#[test]
fn every_command_works_on_an_item_on_flash() {
    let mut fixture = Fixture::new(64 << 20);
    let attributes = Attributes { flags: 77, cost_us: 5000, ..Attributes::default() };
    fixture.put_on_flash(&long("read"), b"a value", attributes);
    fixture.put_on_flash(&long("number"), b"41", Attributes::default());
    for name in ["added", "replaced", "appended", "compared", "touched", "removed"] {
        fixture.put_on_flash(&long(name), b"before", Attributes::default());
    }
    let cache = &fixture.cache;
    let arrived = |name: &[u8]| {
        let hash = cache.hash(name);
        cache.with_memory(|session| {
            let fetch = Fetch { with_history: true, ..Fetch::default() };
            let (item, _) = session.fetch(name, hash, &fetch)?;
            Ok(item.map(|item| (item.to_vec(), item.flags(), item.cas())))
        })
    };
    assert_eq!(cache.get(&long("read")).unwrap(), b"a value");
    assert_eq!(arrived(&long("read")).unwrap().map(|it| it.1), Some(77));
    assert_eq!(fixture.put(&long("added"), b"after", Condition::Absent), Stored::NotStored);
    assert_eq!(cache.get(&long("added")).unwrap(), b"before");
    assert!(matches!(
        fixture.put(&long("replaced"), b"after", Condition::Present),
        Stored::Stored { .. }
    ));
    assert_eq!(cache.get(&long("replaced")).unwrap(), b"after");
    let appended = cache.with_memory(|session| {
        let mut draft = cache.reserve(&long("appended"), Attributes::default(), 6)?;
        draft.write(b"-after");
        let store = Store::when(Condition::Present);
        session.concat(draft, Side::Back, store, None).map_err(|(_, refusal)| refusal)
    });
    assert!(matches!(appended, Ok(Stored::Stored { .. })));
    assert_eq!(cache.get(&long("appended")).unwrap(), b"before-after");
    let cas = arrived(&long("compared")).unwrap().unwrap().2;
    assert!(matches!(
        fixture.put(&long("compared"), b"after", Condition::Unique(cas)),
        Stored::Stored { .. }
    ));
    let touch = |expiry| {
        let hash = cache.hash(&long("touched"));
        cache.with_memory(|session| session.touch(&long("touched"), hash, expiry)).unwrap()
    };
    assert!(touch(Expiry::at(NOW + 10)));
    fixture.clock.advance(11);
    assert!(cache.get(&long("touched")).is_none(), "its new time is over");
    assert!(cache.remove(&long("removed")) && cache.get(&long("removed")).is_none());
    assert!(!cache.remove(&long("removed")));
    let hash = cache.hash(&long("number"));
    let counted = cache
        .with_memory(|session| session.arithmetic(&long("number"), hash, &Arithmetic::INCREMENT));
    assert!(matches!(counted, Ok(Counted::Value { value: 42, .. })));
}

#[test]
fn a_request_for_an_item_on_flash_is_pending_until_that_is_delivered() {
    let mut fixture = Fixture::new(64 << 20);
    fixture.put_on_flash(&long("k"), b"v", Attributes::default());
    // Until it is in a segment that is written, it is read at once.
    fixture.fill(60_000);
    let cache = &fixture.cache;
    let hash = cache.hash(&long("k"));
    let session = cache.session();
    assert!(matches!(session.look_up(&long("k"), hash), Lookup::Pending));
    assert_eq!(session.touch(&long("k"), hash, Expiry::NEVER), Err(Refusal::Pending));
    let wanted = session.take_wanted();
    drop(session);
    assert_eq!(wanted.len(), 1, "for both");
    let arrived = cache.read_wanted_now(wanted);
    let session = cache.session();
    session.deliver(arrived);
    assert!(
        matches!(session.look_up(&long("k"), hash), Lookup::Hit(item) if item.to_vec() == b"v")
    );
}

/// Regression: a long unit is read in two steps, and the second one's ticket was unknown to the
/// request that came back with it: it asked for the first again, for ever.
#[test]
fn a_value_of_many_pages_arrives() {
    let mut fixture = Fixture::new(64 << 20);
    let mut random = stdx::random::Xorshift::seeded(9);
    let bytes: Vec<u8> = (0..100_000).map(|_| random.draw() as u8).collect();
    let names: Vec<_> = (0..60).map(|number| long(&format!("many-pages-{number}"))).collect();
    for name in &names {
        fixture.put(name, &bytes, Condition::Always);
        assert!(fixture.cache.get(name).is_some());
        fixture.maintain();
    }
    fixture.fill(30_000);
    let on_flash = names.iter().filter(|name| fixture.is_on_flash(name)).count();
    assert!(on_flash > 10, "{on_flash} of {}; {:?}", names.len(), fixture.cache.stats());
    for name in &names {
        assert!(fixture.cache.get(name).is_none_or(|found| found == bytes));
    }
    assert!(fixture.cache.stats().flash.unwrap().reads > 10);
}

#[test]
fn expired_and_flushed_items_on_flash_are_gone() {
    let mut fixture = Fixture::new(64 << 20);
    let expiry = Expiry::at(NOW + 100);
    let attributes = Attributes { expiry, ..Attributes::default() };
    fixture.put_on_flash(&long("expires"), b"v", attributes);
    fixture.put_on_flash(&long("flushed"), b"v", Attributes::default());
    assert!(fixture.cache.get(&long("expires")).is_some());
    fixture.clock.advance(100);
    assert!(fixture.cache.get(&long("expires")).is_none());
    fixture.cache.flush(None);
    assert!(fixture.cache.get(&long("flushed")).is_none());
    fixture.maintain();
    let stats = fixture.cache.stats();
    assert_eq!((stats.items, stats.flash.unwrap().items), (0, 0), "nothing is left in the index");
    let after = fixture.killed();
    assert!(after.cache.get(&long("flushed")).is_none(), "a flush outlasts the process");
    assert_eq!(after.found(after.fillers), 0);
}

#[test]
fn a_planned_flush_happens_though_the_process_is_killed_before() {
    for restart in [50, 100, 500] {
        let mut fixture = Fixture::shaped(SHAPES[1], 64 << 20);
        fixture.fill(60_000);
        fixture.cache.flush(Some(Expiry::at(NOW + 100)));
        fixture.clock.advance(restart);
        let mut fixture = fixture.killed();
        if restart < 100 {
            assert!(fixture.found(60_000) > 10_000);
            fixture.clock.advance(100 - restart);
            fixture.maintain();
        }
        assert_eq!(fixture.found(60_000), 0, "{restart}");
        // It happens once: items that come later are found by the next process.
        fixture.fill(60_000);
        fixture.clock.advance(1000);
        assert!(fixture.killed().found(60_000) > 10_000, "{restart}");
    }
}

#[test]
fn a_planned_flush_that_another_has_replaced_does_not_happen() {
    for replacement in [None, Some(Expiry::at(NOW + 1_000_000))] {
        let mut fixture = Fixture::shaped(SHAPES[1], 64 << 20);
        fixture.cache.flush(Some(Expiry::at(NOW + 100)));
        fixture.cache.flush(replacement);
        fixture.fill(60_000);
        fixture.clock.advance(500);
        assert!(fixture.killed().found(60_000) > 10_000, "{replacement:?}");
    }
}

#[test]
fn a_killed_process_is_followed_by_one_that_finds_what_was_written() {
    for shape in SHAPES {
        let mut fixture = Fixture::shaped(shape, 64 << 20);
        fixture.fill(150_000);
        let before = fixture.cache.stats().flash.unwrap();
        let after = fixture.killed();
        let flash = after.cache.stats().flash.unwrap();
        assert!(!flash.recovering);
        // Items that were not in a written segment are lost: two segments at most.
        let written = before.tier.segments_written;
        assert!(flash.items * (written + 2) >= before.items * written, "{before:?} {flash:?}");
        let found = u64::from(after.found(150_000));
        assert!(found * 1000 > flash.items * 995, "{found} of {}", flash.items);
    }
}

/// Regression: the index had no room for the items found then, and each of these was noted as dead:
/// a restart under load cost a part of the items on flash.
#[test]
fn items_on_flash_are_recovered_though_memory_is_full_by_then() {
    for shape in [SHAPES[0], SHAPES[1], TREE_SHAPES[1]] {
        let mut fixture = Fixture::shaped(shape, 64 << 20);
        fixture.fill(200_000);
        let device = || fixture.device.reopened(2, Faults::default());
        let at_rest = Fixture::at(NOW, shape, device(), BOOT);
        at_rest.maintain();
        let expected = at_rest.cache.stats().flash.unwrap().tier.recovered;
        drop(at_rest);
        let under_load = Fixture::at(NOW, shape, device(), BOOT);
        for number in 0..100_000 {
            under_load.put(format!("later-{number}").as_bytes(), &value(number), Condition::Always);
        }
        assert!(under_load.cache.stats().evicted > 0, "memory is full");
        under_load.maintain();
        let flash = under_load.cache.stats().flash.unwrap();
        assert!(!flash.recovering && expected > 50_000);
        println!("{} of {expected} were found", flash.tier.recovered);
        // Of keys that have not changed, some have a bit of the changes by chance.
        assert!(
            flash.tier.recovered * 100 >= expected * 85,
            "{} of {expected}",
            flash.tier.recovered
        );
    }
}

/// Regression: numbers began at 0 again, and a unique from before could have been that of a later
/// value.
#[test]
fn a_cas_unique_from_before_a_restart_is_no_items_after_it() {
    let mut fixture = Fixture::new(64 << 20);
    fixture.put_on_flash(&long("k"), b"v", Attributes::default());
    let unique_of = |cache: &Cache, key: &[u8]| {
        let found = cache.with_memory(|session| {
            Ok(session.get_with_cas(key, cache.hash(key))?.map(|item| item.cas()))
        });
        found.unwrap().unwrap()
    };
    let unique = |cache: &Cache| unique_of(cache, &long("k"));
    let before = unique(&fixture.cache);
    fixture.put_on_flash(&long("k"), b"v", Attributes::default());
    fixture.cache.close_flash().unwrap();
    let fillers = fixture.fillers;
    // The clock stands still, and changes from then on are not kept before a kill.
    let mut after = fixture.reopened(BOOT);
    let later = unique(&after.cache);
    assert!(later > before);
    after.fillers = fillers;
    after.put_on_flash(&long("k"), b"v", Attributes::default());
    after.fill(60_000);
    // To ask for that of "k" would promote it, too.
    after.put(b"last", b"v", Condition::Always);
    let later = later.max(unique_of(&after.cache, b"last"));
    let device = after.device.reopened(2, Faults::default());
    drop(after);
    let last = Fixture::at(NOW - 10_000, SHAPES[0], device, BOOT);
    last.maintain();
    assert!(unique(&last.cache) > later, "the clock was put back, too");
}

/// Regression: the wall clock was put back while there was no process, and expired items were there
/// again.
#[test]
fn an_expired_item_stays_so_though_the_clock_is_put_back() {
    for (back, knows_time) in [(30, true), (5000, false)] {
        let mut fixture = Fixture::shaped(SHAPES[1], 64 << 20);
        for (name, expiry) in [("over", Expiry::at(NOW + 100)), ("later", Expiry::at(NOW + 90_000))]
        {
            let attributes = Attributes { expiry, ..Attributes::default() };
            fixture.put_on_flash(&long(name), b"v", attributes);
        }
        fixture.put_on_flash(&long("never"), b"v", Attributes::default());
        fixture.fill(60_000);
        fixture.clock.advance(110);
        fixture.maintain();
        let get = |fixture: &Fixture| {
            ["over", "later", "never"].map(|name| fixture.cache.get(&long(name)).is_some())
        };
        assert_eq!(get(&fixture), [false, true, true]);
        let device = fixture.device.reopened(2, Faults::default());
        drop(fixture);
        let after = Fixture::at(NOW + 110 - back, SHAPES[1], device, BOOT);
        after.maintain();
        assert_eq!(get(&after), [false, knows_time, true], "{back}");
        // An item that is to last a second counts from the time that stands still.
        let soon = Expiry::at_ms(after.cache.session().now_ms() + 1000);
        after.cache.set(b"soon", b"v", soon).unwrap();
        assert!(after.cache.get(b"soon").is_some(), "{back}");
    }
}

#[test]
fn a_planned_flush_takes_all_where_its_time_may_have_come() {
    for (back, is_taken) in [(30, false), (5000, true)] {
        let mut fixture = Fixture::shaped(SHAPES[1], 64 << 20);
        fixture.fill(60_000);
        fixture.cache.flush(Some(Expiry::at(NOW + 90_000)));
        fixture.clock.advance(110);
        fixture.maintain();
        let device = fixture.device.reopened(2, Faults::default());
        drop(fixture);
        let mut after = Fixture::at(NOW + 110 - back, SHAPES[1], device, BOOT);
        after.maintain();
        assert_eq!(after.found(60_000) == 0, is_taken, "{back}");
        let doubt = is_taken.then_some(FlashEmpty::Doubted(FlashDoubt::FlushMissed));
        assert_eq!(after.cache.flash_empty(), doubt, "{back}");
        // It is carried out by that, and otherwise when its time has come.
        after.fill(60_000);
        after.clock.advance(100_000);
        after.maintain();
        assert_eq!(after.found(60_000) > 10_000, is_taken, "{back}");
    }
}

#[test]
fn a_tier_is_empty_after_a_crash_and_full_after_a_clean_stop() {
    let mut fixture = Fixture::new(64 << 20);
    fixture.fill(150_000);
    let crashed = FakeDevice::reopened(&fixture.device, 3, Faults::default());
    let crashed = Fixture::on(SHAPES[0], crashed, [8; 16]);
    crashed.maintain();
    assert_eq!(crashed.cache.stats().flash.unwrap().items, 0);
    let before = fixture.cache.stats().flash.unwrap();
    fixture.cache.close_flash().unwrap();
    let after = fixture.reopened([8; 16]);
    let flash = after.cache.stats().flash.unwrap();
    assert_eq!(flash.items, before.items, "{before:?} {flash:?}");
}

#[test]
fn a_restart_never_brings_an_older_value_back() {
    for shape in [SHAPES[0], TREE_SHAPES[0]] {
        restarts_never_bring_an_older_value_back(shape);
    }
}

fn restarts_never_bring_an_older_value_back(shape: Shape) {
    let mut fixture = Fixture::shaped(shape, 24 << 20);
    let mut versions: HashMap<u32, u32> = HashMap::new();
    let mut random = stdx::random::Xorshift::seeded(5);
    for round in 1..=8_u32 {
        for step in 0..40_000 {
            let number = (random.draw() % KEYS) as u32;
            match random.draw() % 16 {
                0 => {
                    fixture.cache.remove(&key(number));
                    versions.insert(number, 0);
                }
                1..=9 => {
                    let version = round * 100_000 + step;
                    fixture.put(&key(number), &versioned(number, version), Condition::Always);
                    versions.insert(number, version);
                }
                _ => check(&fixture.cache, number, &versions),
            }
            if step % 64 == 0 {
                fixture.maintain();
            }
        }
        let before = fixture.cache.stats().flash;
        fixture = if round % 4 == 0 {
            fixture.cache.close_flash().unwrap();
            fixture.reopened([round as u8; 16])
        } else {
            let boot_id = if round < 4 { BOOT } else { [4; 16] };
            fixture.reopened(boot_id)
        };
        let found =
            (0..KEYS as u32).filter(|&number| check_found(&fixture.cache, number, &versions));
        let found = found.count();
        let stats = fixture.cache.stats().flash;
        assert!(round < 2 || found > 1000, "{found} found in round {round}; {before:?} {stats:?}");
    }
}

/// Returns a kilobyte that no other version of the key has.
fn versioned(number: u32, version: u32) -> Vec<u8> {
    let mut random = stdx::random::Xorshift::seeded(u64::from(number) << 32 | u64::from(version));
    let mut text = format!("{number} {version} ");
    while text.len() < 1000 {
        text.push_str(&format!("{:016x}", random.draw()));
    }
    text.into_bytes()
}

fn check(cache: &Cache, number: u32, versions: &HashMap<u32, u32>) {
    check_found(cache, number, versions);
}

fn check_found(cache: &Cache, number: u32, versions: &HashMap<u32, u32>) -> bool {
    let Some(found) = cache.get(&key(number)) else { return false };
    let version = versions.get(&number).copied().unwrap_or(0);
    assert!(
        version != 0 && found == versioned(number, version),
        "key {number}: {}",
        String::from_utf8_lossy(&found)
    );
    true
}

/// Regression: a get with a unique promotes the item to give it one, and deleted it when the device
/// did not answer once.
#[test]
fn a_failed_read_is_a_miss_for_readers_and_removes_for_changes() {
    let mut fixture = Fixture::new(64 << 20);
    let names = ["read", "fetched", "touched", "removed", "added"].map(long);
    for name in &names {
        fixture.put_on_flash(name, b"before", Attributes::default());
    }
    // Until it is in a segment that is written, it is read at once.
    fixture.fill(60_000);
    let cache = &fixture.cache;
    let [read, fetched, touched, removed, added] = &names;
    let gets = |key: &[u8]| {
        let found = cache.with_memory(|session| {
            Ok(session.get_with_cas(key, cache.hash(key))?.map(|item| item.to_vec()))
        });
        found.unwrap()
    };
    let fetch = |key: &[u8]| {
        let fetch = Fetch { with_history: true, ..Fetch::default() };
        let found = cache.with_memory(|session| {
            let (item, _) = session.fetch(key, cache.hash(key), &fetch)?;
            Ok(item.map(|item| item.to_vec()))
        });
        found.unwrap()
    };
    let touch = |key: &[u8]| {
        cache.with_memory(|session| session.touch(key, cache.hash(key), Expiry::PAST)).unwrap()
    };
    let remove = Remove { compare_cas: Some(1), ..Remove::default() };
    let remove = |key: &[u8]| {
        cache.with_memory(|session| session.remove(key, cache.hash(key), &remove)).unwrap()
    };
    let failed = || cache.stats().flash.unwrap().reads_failed;
    fixture.device.set_faults(Faults { read_error: 1.0, ..Faults::default() });
    assert_eq!((gets(read), fetch(fetched), failed()), (None, None, 2));
    assert_eq!((touch(touched), remove(removed), failed()), (false, Removed::NotFound, 4));
    assert!(matches!(fixture.put(added, b"after", Condition::Absent), Stored::Stored { .. }));
    fixture.device.set_faults(Faults::default());
    let before = Some(b"before".to_vec());
    assert_eq!((gets(read), fetch(fetched)), (before.clone(), before));
    // A client that was told that there is nothing does not find it.
    assert_eq!((gets(touched), gets(removed)), (None, None));
    assert_eq!(gets(added), Some(b"after".to_vec()));
}

#[test]
fn a_device_that_fails_costs_hits_and_nothing_else() {
    let mut fixture = Fixture::new(64 << 20);
    fixture.fill(120_000);
    let faults = Faults {
        read_error: 0.1,
        short_read: 0.1,
        bit_flip: 0.2,
        write_error: 0.2,
        torn_write: 0.1,
        full: 0.1,
    };
    fixture.device.set_faults(faults);
    for _ in 0..5 {
        fixture.fill(20_000);
        fixture.found(fixture.fillers);
    }
    fixture.device.set_faults(Faults::default());
    // A superblock that was torn is written again as soon as that is possible; a process that is
    // killed before leaves a damaged one, with which the next start begins empty.
    fixture.maintain();
    let after = fixture.killed();
    after.found(after.fillers);
}
