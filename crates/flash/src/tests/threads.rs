//! Several threads at once: a reader finds nothing older than the value that was acknowledged
//! before it began.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::world::value;
use super::{Random, World, settings_hot, settings_immediate};
use crate::stage::Intake;
use crate::{FlashStats, Promotion, Reader, Refused};

const KEYS: u64 = 900;
const WRITERS: u64 = 2;
const STEPS: usize = 25_000;
/// How far each thread gets is the scheduler's choice: the test is tried this many times to see
/// everything.
const TORTURES_MAX: usize = 8;

/// The version that a value names.
fn version(value: &[u8]) -> u64 {
    let text = std::str::from_utf8(value).expect("it is text");
    let (_, rest) = text.split_once(" at ").expect("it names its version");
    let (version, _) = rest.split_once(',').expect("it ends");
    version.parse().expect("a number")
}

fn write(world: &World, acknowledged: &[AtomicU64], writer: u64) {
    let mut random = Random(writer);
    for step in 0..STEPS as u64 {
        // Each writer has keys of its own, so that it knows their versions.
        let number = random.below(KEYS / WRITERS) * WRITERS + writer;
        let version = step * 4 + 2;
        if random.below(10) == 0 {
            world.delete(number);
        } else {
            world.set(number, value(number, version, random.below(1500) as usize));
        }
        // Sequentially consistent, for a test that is not about orders.
        acknowledged[number as usize].store(version, Ordering::SeqCst);
        if random.below(4) != 0 {
            let intakes = [Intake::Usual, Intake::Hurried, Intake::AtOnce];
            match world.demote_by(number, intakes[random.below(3) as usize]) {
                Ok(_) => {}
                Err(Refused::Busy) => _ = world.flash.maintain(&world.index, world.now),
                Err(refused) => panic!("{refused:?}"),
            }
        }
        if random.below(8000) == 0 {
            world.flush();
        }
    }
}

#[test]
fn readers_find_nothing_older_than_an_earlier_acknowledged_value() {
    for settings in [settings_hot(), settings_immediate()] {
        let is_immediate = settings.promotion == Promotion::Immediate;
        let has_moved = (0..TORTURES_MAX).any(|_| {
            let stats = torture(World::with(200, settings.clone()));
            // A place from before a flush may lead into the middle of a unit that is there by now.
            assert!(stats.io_errors == 0 && stats.damaged < 10, "{stats:?}");
            assert!(is_immediate || stats.promoted == 0);
            let promoted = !is_immediate || stats.promoted > 0;
            stats.hot.moved_in > 0 && stats.collected > 0 && promoted
        });
        assert!(has_moved, "nothing was collected between two flushes, ever");
    }
}

fn torture(world: World) -> FlashStats {
    let acknowledged: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let found = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn({
                    let (world, known) = (&world, &acknowledged);
                    move || write(world, known, writer)
                })
            })
            .collect();
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                world.flash.train();
                world.flash.maintain(&world.index, world.now);
                std::thread::yield_now();
            }
        });
        scope.spawn(|| {
            let (mut random, mut reader) = (Random(99), Reader::new());
            while !is_over.load(Ordering::Relaxed) {
                let number = random.below(KEYS);
                let before = acknowledged[number as usize].load(Ordering::SeqCst);
                if let Some(value) = world.get(number, &mut reader) {
                    assert!(version(&value) >= before, "key {number}");
                    found.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        // Also when a writer panicked: otherwise the scope would wait for the others for ever.
        is_over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.expect("it did not panic"));
    });
    let stats = world.flash.stats();
    assert!(found.load(Ordering::Relaxed) > 0);
    let world = world.killed().recovered();
    let mut reader = Reader::new();
    for number in 0..KEYS {
        if let Some(value) = world.get(number, &mut reader) {
            let latest = acknowledged[number as usize].load(Ordering::SeqCst);
            assert_eq!(version(&value), latest, "key {number}");
        }
    }
    stats
}
