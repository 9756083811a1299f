//! A tier on a device in memory, with an index that is a map, and a model of what may be found.

mod areas;
mod bursts;
pub(crate) mod cases;
mod device;
mod dictionaries;
mod faults;
mod index;
mod journals;
mod layout;
mod model;
mod orders;
mod places;
mod prefixes;
mod reads;
mod recovery;
mod threads;
mod walks;
mod words;
mod world;

pub(crate) use device::MemoryDevice;
pub(crate) use index::FakeIndex;
pub(crate) use world::World;

use crate::{Partition, Promotion, Settings};

/// Numbers from a printed seed (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }
}

fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The bits of a hash that an index compares, in a tier as small as these are.
pub(crate) const TOLD_APART: u64 = !(1 << 32 | 1 << 16);

/// From here on a key with an even number and the next one cannot be told apart by an index.
pub(crate) const TWINS: u64 = 1 << 32;

/// The hash of the key with this number.
pub(crate) fn hash(key: u64) -> u64 {
    if key < TWINS {
        return mix(key ^ 0x5555);
    }
    let shared = mix(key / 2) & TOLD_APART;
    if key.is_multiple_of(2) { shared } else { shared | !TOLD_APART }
}

/// Segments of 64 KiB.
pub(crate) fn settings() -> Settings {
    Settings { segment_bytes: 64 << 10, ..Settings::new([7; 16], [1; 16]) }
}

/// With a hot area that takes in often-read items from the start.
pub(crate) fn settings_hot() -> Settings {
    Settings { partition: Partition::Fixed { hot_percent: 5 }, ..settings() }
}

/// With a hot area to which a read item moves at once.
pub(crate) fn settings_immediate() -> Settings {
    Settings { promotion: Promotion::Immediate, ..settings_hot() }
}

/// One of the settings that make a difference for where items lie.
pub(crate) fn settings_of(seed: u64) -> Settings {
    match seed % 4 {
        0 => settings(),
        1 => settings_hot(),
        2 => settings_immediate(),
        _ => Settings { partition: Partition::Fixed { hot_percent: 50 }, ..settings_immediate() },
    }
}
