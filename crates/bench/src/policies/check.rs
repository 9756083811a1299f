//! Helpers for every policy's tests, and the tests that every policy has to pass: capacity, hits
//! only of stored objects, no policy better than Belady's, and known properties on made-up traces.

use std::collections::HashSet;

use clap::ValueEnum;
use proptest::prelude::*;

use super::belady::next_uses;
use super::bound::Bound;
use super::kind::{Kind, Setting};
use super::simulate::Simulation;
use super::weight::Scale;
use super::{Policy, Visit};
use crate::random::Random;
use crate::trace::{Operation, Request};

/// Returns reads of these objects.
pub fn reads(objects: &[u32]) -> Vec<Request> {
    let read = |object: &u32| Request {
        time_s: 0,
        object: *object,
        value_bytes: 0,
        ttl_s: 0,
        cost_us: 0,
        key_bytes: 0,
        operation: Operation::Get,
    };
    objects.iter().map(read).collect()
}

/// Returns a setting for a small test.
pub fn setting(capacity: u64, objects: u32, requests: &[Request]) -> Setting {
    Setting { capacity, objects, items: capacity, next_uses: next_uses(requests, objects) }
}

/// Accesses objects of weight 1: `h` for each hit and `.` for each miss.
pub fn hits(policy: &mut dyn Policy, objects: &[u32]) -> String {
    let visit = |(position, object): (usize, &u32)| {
        let (position, object) = (position as u32, *object);
        let hit = policy.access(Visit { position, object, weight: 1, cost_us: 0 });
        if hit { 'h' } else { '.' }
    };
    objects.iter().enumerate().map(visit).collect()
}

fn misses(kind: Kind, capacity: u64, objects: &[u32]) -> u64 {
    let requests = reads(objects);
    let count = objects.iter().max().map_or(0, |highest| highest + 1);
    let policy = kind.build(&setting(capacity, count, &requests));
    Simulation::new(policy, Scale::Objects, capacity, count).run(&requests, |_| ()).misses
}

proptest! {
    /// Items of different weights are read, stored again and removed.
    #[test]
    fn no_policy_exceeds_its_capacity_or_hits_what_is_not_there(
        steps in prop::collection::vec((0u32..16, 0u8..8), 1..400),
        capacity in 16u64..60,
    ) {
        let objects: Vec<u32> = steps.iter().map(|(object, _)| *object).collect();
        let setting = setting(capacity, 16, &reads(&objects));
        for kind in Kind::value_variants() {
            let mut policy = kind.build(&setting);
            let mut stored = HashSet::new();
            for (position, (object, step)) in steps.iter().enumerate() {
                let (position, object, cost_us) = (position as u32, *object, object % 5);
                if *step == 0 {
                    policy.remove(object);
                    stored.remove(&object);
                } else {
                    let visit = Visit { position, object, weight: object + 1, cost_us };
                    let hit = policy.access(visit);
                    prop_assert!(!hit || stored.contains(&object), "{}: {}", kind, position);
                    stored.insert(object);
                }
                let (items, used) = (policy.items(), policy.used());
                prop_assert!(used <= capacity, "{}: {} weigh {}", kind, items, used);
                prop_assert!(items <= stored.len() as u64 && items <= used, "{}", kind);
                prop_assert_eq!(items == 0, used == 0, "{}", kind);
            }
            // Removing all objects leaves nothing behind.
            (0..16).for_each(|object| policy.remove(object));
            prop_assert_eq!((policy.items(), policy.used()), (0, 0), "{}", kind);
        }
    }

    #[test]
    fn a_cache_that_holds_everything_misses_each_object_once(
        objects in prop::collection::vec(0u32..20, 1..300),
    ) {
        let distinct = objects.iter().collect::<HashSet<_>>().len() as u64;
        for kind in Kind::value_variants() {
            // The window and the queue of HIR items are parts of the capacity.
            prop_assert_eq!(misses(*kind, 200, &objects), distinct, "{}", kind);
        }
    }

    #[test]
    fn nobody_beats_belady_and_belady_does_not_beat_the_bound(
        objects in prop::collection::vec(0u32..20, 1..300), capacity in 1u64..20,
    ) {
        let requests = reads(&objects);
        let best = misses(Kind::Belady, capacity, &objects);
        for kind in Kind::value_variants() {
            prop_assert!(misses(*kind, capacity, &objects) >= best, "{}", kind);
        }
        let bound = Bound::new(&requests, &next_uses(&requests, 20), |_| 1);
        prop_assert!(requests.len() as u64 - bound.hits(capacity) <= best);
    }

    /// Every choice of objects to keep is tried.
    #[test]
    fn belady_is_the_best_of_all_choices(
        objects in prop::collection::vec(0u32..5, 1..14), capacity in 1usize..4,
    ) {
        let mut least = vec![(HashSet::from([std::collections::BTreeSet::new()]), 0u64)];
        for object in &objects {
            let mut next: Vec<(HashSet<_>, u64)> = Vec::new();
            for (contents, misses) in &least {
                for held in contents {
                    let miss = u64::from(!held.contains(object));
                    let mut choices = vec![held.clone()];
                    let mut grown = held.clone();
                    grown.insert(*object);
                    choices.extend(grown.iter().map(|out| {
                        grown.iter().filter(|other| *other != out).copied().collect()
                    }));
                    choices.push(grown);
                    choices.retain(|choice| choice.len() <= capacity);
                    let misses = misses + miss;
                    match next.iter_mut().find(|(_, other)| *other == misses) {
                        Some((contents, _)) => contents.extend(choices),
                        None => next.push((choices.into_iter().collect(), misses)),
                    }
                }
            }
            least = next;
        }
        let best = least.iter().map(|(_, misses)| *misses).min().expect("some choice was made");
        prop_assert_eq!(misses(Kind::Belady, capacity as u64, &objects), best);
    }

    #[test]
    fn equal_costs_make_greedy_dual_lru(
        objects in prop::collection::vec(0u32..20, 1..300), capacity in 1u64..20,
    ) {
        let lru = misses(Kind::Lru, capacity, &objects);
        prop_assert_eq!(misses(Kind::GdPq, capacity, &objects), lru);
        prop_assert_eq!(misses(Kind::GdWheel, capacity, &objects), lru);
        prop_assert_eq!(misses(Kind::Memcached, capacity, &objects), lru);
        let clock = misses(Kind::Clock, capacity, &objects);
        prop_assert_eq!(misses(Kind::GdWheelLazy, capacity, &objects), clock);
        prop_assert_eq!(misses(Kind::CostClock, capacity, &objects), clock);
    }

    /// Reads at the end, which evict nothing, show the contents: other victims would have left
    /// other contents.
    #[test]
    fn cost_wheels_evict_what_a_priority_queue_does(
        steps in prop::collection::vec((0u32..40, 0u8..12, 0u32..70_000), 1..400),
        capacity in 1u64..30, cost_max in prop::sample::select(vec![3u32, 300, 65_535]),
    ) {
        let setting = setting(capacity, 40, &[]);
        let (mut wheel, mut queue) = (Kind::GdWheel.build(&setting), Kind::GdPq.build(&setting));
        for (object, step, cost) in steps {
            let cost_us = cost % (cost_max + 1);
            let visit = Visit { position: 0, object, weight: 1, cost_us };
            match step {
                0 => {
                    wheel.remove(object);
                    queue.remove(object);
                }
                _ => prop_assert_eq!(wheel.access(visit), queue.access(visit)),
            }
        }
        for object in 0..40 {
            let visit = Visit { position: 0, object, weight: 1, cost_us: 0 };
            prop_assert_eq!(wheel.read(visit), queue.read(visit), "{}", object);
        }
    }
}

/// Draws an object; low numbers are more popular: ranks by a power law with exponent near 1.
pub fn skewed(random: &mut Random, objects: u32) -> u32 {
    (f64::from(objects).powf(random.unit()) - 1.0) as u32
}

#[test]
fn a_scan_does_not_flush_what_resists_scans() {
    // 500 objects are in steady use; then 5,000 others come once each, and the 500 come again.
    let mut random = Random::new(11);
    let mut objects: Vec<u32> = (0..50_000).map(|_| skewed(&mut random, 500)).collect();
    objects.extend(500..5_500);
    let before = objects.len();
    objects.extend((0..500).map(|_| skewed(&mut random, 500)));
    let found_again = |kind: Kind| {
        let policy = &mut kind.build(&setting(400, 5_500, &reads(&objects)));
        hits(policy.as_mut(), &objects)[before..].matches('h').count()
    };
    for kind in [Kind::Lirs, Kind::Arc, Kind::Lru2, Kind::S3Fifo, Kind::Sieve, Kind::WTinyLfu] {
        assert!(found_again(kind) > 400, "{kind}: {}", found_again(kind));
    }
    for kind in [Kind::Lru, Kind::Fifo] {
        let lost = 500 - found_again(kind);
        assert!(lost > 150, "{kind}: {lost}");
    }
}

#[test]
fn a_skewed_workload_ranks_the_policies_as_published() {
    let mut random = Random::new(12);
    let objects: Vec<u32> = (0..200_000).map(|_| skewed(&mut random, 20_000)).collect();
    let of = |kind: Kind| misses(kind, 1_000, &objects);
    let better = [Kind::Arc, Kind::Lirs, Kind::Lru2, Kind::S3Fifo, Kind::Sieve, Kind::WTinyLfu];
    for kind in better {
        assert!(of(kind) < of(Kind::Lru), "{kind}: {} of {}", of(kind), of(Kind::Lru));
    }
    assert!(of(Kind::Lru) < of(Kind::Fifo));
    assert!(of(Kind::Clock) < of(Kind::Fifo));
    assert!(of(Kind::SegmentsMerge) < of(Kind::Segments));
}

#[test]
fn costs_count_where_they_are_known() {
    let mut random = Random::new(13);
    let objects: Vec<u32> = (0..100_000).map(|_| skewed(&mut random, 10_000)).collect();
    let mut requests = reads(&objects);
    requests.iter_mut().for_each(|request| {
        request.cost_us = if request.object % 7 == 0 { 1_000 } else { 10 };
    });
    let missed_cost_us = |kind: Kind| {
        let policy = kind.build(&setting(2_000, 10_000, &requests));
        let mut simulation = Simulation::new(policy, Scale::Objects, 2_000, 10_000);
        simulation.run(&requests, |_| ()).missed_cost_us
    };
    let least = missed_cost_us(Kind::GdPq);
    assert!(least * 2 < missed_cost_us(Kind::Lru));
    assert_eq!(missed_cost_us(Kind::GdWheel), least);
    for kind in [Kind::GdWheelLazy, Kind::CostClock] {
        let cost = missed_cost_us(kind);
        assert!(cost < least + least / 20, "{kind}: {cost} beside {least}");
    }
}
