//! Inputs for the tests, each from a seed: noise, and records that have much in common.

use std::sync::OnceLock;

use larder_codec::Dictionary;

/// A generator that is good enough for noise that does not compress.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

pub fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random(seed);
    (0..bytes).map(|_| random.next() as u8).collect()
}

/// Records of a few fields, cut off at the end.
pub fn records(seed: u64, bytes: usize) -> Vec<u8> {
    const PLACES: [&str; 6] = ["Lisbon", "Oslo", "Montevideo", "Nairobi", "Hanoi", "Quebec"];
    let mut random = Random(seed);
    let mut records = Vec::with_capacity(bytes + 200);
    while records.len() < bytes {
        let [number, place, amount] = [0; 3].map(|_| random.next());
        let place = PLACES[place as usize % PLACES.len()];
        let record = format!(
            "{{\"identifier\":{},\"delivery\":{{\"place\":\"{place}\",\"express\":{}}},\
             \"amount_cents\":{},\"currency\":\"EUR\",\"status\":\"{}\"}}\n",
            number % 1_000_000,
            number % 3 == 0,
            amount % 100_000,
            ["open", "paid", "returned"][amount as usize % 3],
        );
        records.extend_from_slice(record.as_bytes());
    }
    records.truncate(bytes);
    records
}

/// A dictionary trained from records.
pub fn dictionary() -> &'static Dictionary {
    static DICTIONARY: OnceLock<Dictionary> = OnceLock::new();
    DICTIONARY.get_or_init(|| {
        let samples: Vec<Vec<u8>> = (0..400).map(|seed| records(1000 + seed, 1000)).collect();
        Dictionary::train(&samples, 16 << 10, 3).expect("there are samples enough")
    })
}
