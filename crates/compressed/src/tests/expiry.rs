//! The summaries of blocks and the sweep that uses them.

use super::{World, hash};
use crate::Refused;
use crate::summary::Summary;
use codec::record::{Fields, Record};

impl World {
    fn insert_until(&mut self, key: &[u8], value: &[u8], expiry: u32) -> Result<(), Refused> {
        let fields = Fields { expiry, ..Fields::default() };
        self.insert_record(&Record { key, value, fields }, true)
    }

    fn summary(&self, key: &[u8]) -> Option<Summary> {
        let mut summary = None;
        self.with_block(key, |block| summary = block.summary());
        summary
    }
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A value that hardly compresses, so that blocks fill several slabs.
fn value(number: u32) -> Vec<u8> {
    let mut random = stdx::random::Xorshift::seeded(number.into());
    (0..15).flat_map(|_| random.draw().to_ne_bytes()).collect()
}

/// Whether an item is one of the short-lived ones, one in `share`.
fn is_short(number: u32, share: u32) -> bool {
    number % share == share - 1
}

/// A zone with this many items, of which one in `share` lives for 100 seconds.
fn filled(items: u32, share: u32) -> World {
    let mut world = World::small(16);
    for number in 0..items {
        let soon = world.now + 100;
        let expiry = if is_short(number, share) { soon } else { 0 };
        world.insert_until(&key(number), &value(number), expiry).expect("room");
    }
    world
}

#[test]
fn where_nothing_expires_there_is_no_summary_and_nothing_is_looked_at() {
    let mut world = filled(2000, u32::MAX);
    assert!(world.remove(&key(0)));
    let before = world.zone.stats().space;
    assert_eq!(world.summary(&key(1)), None);
    world.now += 1_000_000;
    world.sweep_expired();
    world.evict(100_000);
    let stats = world.zone.stats();
    assert!(stats.evicted > 0 && stats.space.live_bytes < before.live_bytes);
    assert_eq!((stats.expiry_looks, stats.expiry_rewrites, stats.expired), (0, 0, 0));
    world.check();
}

#[test]
fn expired_leaves_go_undecoded_and_the_others_stay() {
    // The later half of the hashes expires later.
    let mut world = World::small(16);
    let (soon, late) = (world.now + 100, world.now + 10_000);
    let is_soon = |number: u32| hash(&key(number)) >> 63 == 0;
    for number in 0..4000 {
        let expiry = if is_soon(number) { soon } else { late };
        world.insert_until(&key(number), &value(number), expiry).expect("room");
    }
    world.check();
    let (leaves, items) = (world.zone.stats().leaves as u64, world.zone.stats().items);
    world.now = soon - 1;
    world.sweep_expired();
    assert_eq!(world.zone.stats().expiry_looks, 0, "nothing is due");
    world.now = soon;
    world.sweep_expired();
    let stats = world.zone.stats();
    assert_eq!(stats.expiry_rewrites, 0);
    assert!(stats.expiry_drops > 0 && stats.expiry_looks < leaves * 2 / 3, "{stats:?}");
    assert_eq!(stats.expired_swept, (items - stats.items) as u64);
    assert_eq!(stats.items, (0..4000).filter(|&number| !is_soon(number)).count());
    assert!((0..4000).all(|number| world.find(&key(number)).is_some() != is_soon(number)));
    world.check();
}

#[test]
fn a_leaf_is_rewritten_once_when_enough_has_expired_and_not_for_less() {
    for (share, is_worth) in [(2, true), (20, false)] {
        let mut world = filled(4000, share);
        world.check();
        world.now += 100;
        world.sweep_expired();
        let stats = world.zone.stats();
        let over = 4000 / u64::from(share);
        if is_worth {
            // Except for leaves of which an appended live row was sampled too often.
            assert!(stats.expired_swept > over * 9 / 10, "{stats:?}");
            assert!(stats.expired_swept > 5 * stats.expiry_rewrites, "{stats:?}");
            assert!(stats.rows < 4000 - over as usize * 9 / 10 && stats.merges > 0);
        } else {
            assert!(stats.expired_swept < over / 3, "{stats:?}");
        }
        assert!(
            (0..4000)
                .all(|number| { world.find(&key(number)).is_some() != is_short(number, share) })
        );
        world.check();
        let before = world.zone.stats();
        world.now += 50;
        world.sweep_expired();
        let stats = world.zone.stats();
        assert_eq!(stats.expiry_rewrites, before.expiry_rewrites, "nothing more is due");
        assert_eq!(stats.expiry_drops, before.expiry_drops);
    }
}

#[test]
fn expired_items_leave_before_live_ones_when_room_is_made() {
    let mut world = filled(4000, 3);
    world.now += 100;
    let before = world.zone.stats();
    assert!(world.evict(before.space.live_bytes / 5) > 0);
    let stats = world.zone.stats();
    assert_eq!(stats.evicted, 0, "{stats:?}");
    assert!(stats.expired > 600, "{stats:?}");
    world.check();
    // And then the others.
    assert!(world.evict(before.space.live_bytes / 2) > 0);
    assert!(world.zone.stats().evicted > 0);
    world.check();
}

#[test]
fn long_values_count_with_their_bytes() {
    let mut world = World::small(16);
    let soon = world.now + 100;
    world.insert_until(b"long", &[7; 60_000], soon).expect("room");
    let near = (0..).filter(|&number: &u32| hash(&key(number)) >> 58 == hash(b"long") >> 58);
    let others: Vec<u32> = near.take(30).collect();
    for &number in &others[..29] {
        world.insert_until(&key(number), b"short", 0).expect("room");
    }
    assert_eq!(world.summary(b"long").map(|summary| summary.due()), Some(soon), "appended to");
    for &number in &others[..9] {
        assert!(world.remove(&key(number)));
    }
    let appended = world.zone.stats().inserted_short;
    world.insert_until(&key(others[29]), b"short", 0).expect("room");
    assert_eq!(world.zone.stats().inserted_short, appended);
    assert_eq!(world.summary(b"long").map(|summary| summary.due()), Some(soon), "built anew");
    world.check();
    world.now = soon;
    world.sweep_expired();
    let stats = world.zone.stats();
    assert_eq!((stats.expired_swept, stats.items, stats.long_bytes), (1, 21, 0));
    assert_eq!(world.summary(&key(others[29])), None);
    world.check();
}

#[test]
fn cleaning_moves_summaries_as_they_are() {
    let world = filled(4000, 2);
    let look = || {
        let block = |number| {
            let mut found = None;
            world.with_block(&key(number), |block| {
                found = Some((block.reference(), block.summary()));
            });
            found.expect("there is a block")
        };
        (0..4000).map(block).collect::<Vec<_>>()
    };
    let before = look();
    let mut writer = crate::Writer::new(&world.zone);
    while world.zone.clean(0, &mut writer) {}
    let after = look();
    let has_moved = |&at: &usize| after[at].0 != before[at].0;
    assert!((0..4000).filter(has_moved).count() > 400);
    assert!(before.iter().zip(&after).all(|(before, after)| before.1 == after.1));
    assert!(before.iter().all(|(_, summary)| summary.is_some()));
    world.check();
}

#[test]
fn the_sweep_waits_and_loses_nothing_without_room_to_rewrite_a_leaf() {
    // With this many slabs fewer bytes are left in the end than the rest of a leaf takes.
    let mut world = World::small(8);
    let soon = world.now + 100;
    let epochs = std::sync::Arc::clone(&world.epochs);
    // Memory that was replaced while a thread is pinned is no room.
    let guard = epochs.pin();
    let expiry = |number: u32| if is_short(number, 2) { soon } else { 0 };
    let mut refused = (0..).filter(|&number| {
        world.insert_until(&key(number), &value(number), expiry(number)).is_err()
    });
    let items = refused.next().expect("room has an end");
    let alive = |world: &mut World| -> Vec<u32> {
        let mut has = |number: u32| world.find(&key(number)).is_some();
        (0..items).filter(|&number| has(number) && !is_short(number, 2)).collect()
    };
    let alive_before = alive(&mut world);
    assert!(alive_before.len() > 100);
    world.now = soon;
    world.sweep_expired();
    let waiting = world.zone.stats();
    assert!(waiting.expiry_looks > 0 && waiting.expired == 0, "{waiting:?}");
    world.sweep_expired();
    assert_eq!(world.zone.stats().expiry_looks, waiting.expiry_looks, "not in the same second");
    drop(guard);
    while world.maintain() {}
    world.now += 1;
    world.sweep_expired();
    let stats = world.zone.stats();
    let over = waiting.items - alive_before.len();
    assert!(stats.expired as usize > over / 2, "{stats:?}");
    assert_eq!(alive(&mut world), alive_before);
    world.check();
}
