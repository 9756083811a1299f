//! The items of a simulation and their popularity: sizes, and nothing that would need memory for
//! values. All stores of an experiment have the same items and get the same requests.

use policy::geometry::CacheGeometry;

use crate::failure::Outcome;
use crate::random::Random;
use crate::workload::popularity::{Choice, SPREAD};
use crate::workload::sizes::SizeChoice;

/// The ratio of the paper's cache to its data.
pub const CACHE_SHARE: f64 = 0.000_23;
/// Ways and line of the paper's cache, and its sets in six slices.
const WAYS: usize = 20;
const LINE_BYTES: usize = 64;
const SETS: usize = 2048;
const SLICES: usize = 6;
/// Below this scale figures mean nothing, and a quarter of the sets makes a quicker smoke test.
const SHARE_MIN: f64 = 0.005;
const SETS_MIN: usize = 8;
/// The exponent of the power law, unless it is the experiment's subject.
pub const SKEW: f64 = 0.99;
/// Added to the seed of the requests that warm up; counted requests use other draws.
const WARMING: u64 = 0x7761_726d;

/// Returns the cache at a scale: the paper's six slices at 1, and otherwise one slice with the
/// power of two of sets that is nearest to that share.
pub fn geometry(share: f64) -> CacheGeometry {
    let share = if share < SHARE_MIN { share / 4.0 } else { share };
    let all = ((SETS * SLICES) as f64 * share).round() as usize;
    let (sets, slices) = if all >= SETS * SLICES {
        (SETS, SLICES)
    } else {
        (1 << (all.max(SETS_MIN) as f64).log2().round() as u32, 1)
    };
    CacheGeometry::new(LINE_BYTES, WAYS, sets, slices).expect("these are in range")
}

/// Returns the bytes of keys and values for a cache that is this share of them.
pub fn data_bytes(geometry: &CacheGeometry, cache_share: f64) -> u64 {
    (geometry.bytes() as f64 / cache_share) as u64
}

/// Items by their number.
pub struct Population {
    pub sizes: SizeChoice,
    pub key_bytes: Vec<u8>,
    pub value_bytes: Vec<u32>,
}

impl Population {
    /// Returns items with `bytes` bytes of keys and values, each of at most `item_bytes_max`.
    pub fn new(
        sizes: SizeChoice,
        data_bytes: u64,
        item_bytes_max: u32,
        seed: u64,
    ) -> Outcome<Population> {
        let drawn = sizes.load(24)?;
        let mut random = Random::new(seed);
        let (mut key_bytes, mut value_bytes, mut sum) = (Vec::new(), Vec::new(), 0);
        while sum < data_bytes {
            let key = drawn.key_bytes(random.unit()).min(250);
            let value = drawn.value_bytes(key_bytes.len() as u32, random.unit());
            let value = value.min(item_bytes_max - u32::from(key));
            sum += u64::from(key) + u64::from(value);
            key_bytes.push(key as u8);
            value_bytes.push(value);
        }
        Ok(Population { sizes, key_bytes, value_bytes })
    }

    /// Returns the number of items.
    pub fn count(&self) -> u32 {
        self.key_bytes.len() as u32
    }

    /// Draws requests by a law of popularity, for ever. `warming` draws others than counted
    /// requests.
    pub fn requests(
        &self,
        (choice, skew): (&Choice, f64),
        seed: u64,
        warming: bool,
    ) -> Outcome<impl Iterator<Item = u32> + use<>> {
        let mut chooser = choice.load(u64::from(self.count()), skew)?;
        let mut random = Random::new(seed ^ if warming { WARMING } else { WARMING + 1 });
        Ok(std::iter::repeat_with(move || chooser.read(&mut random) as u32))
    }

    /// Returns the items, the most popular first.
    pub fn by_rank(&self) -> impl Iterator<Item = u32> + use<> {
        let count = u64::from(self.count());
        (0..count).map(move |rank| (rank * SPREAD % count) as u32)
    }

    /// Returns [`Self::most_hits`] of zipfian requests for items like these in the paper's full
    /// size.
    pub fn most_hits_in_full(&self, beside_bytes: u64) -> f64 {
        let kept = geometry(1.0).bytes() as f64 / (self.item_bytes() + beside_bytes as f64);
        weight(kept, SKEW) / weight(self.count_in_full(), SKEW)
    }

    /// Returns the number of items like these in the paper's full size.
    pub fn count_in_full(&self) -> f64 {
        data_bytes(&geometry(1.0), CACHE_SHARE) as f64 / self.item_bytes()
    }

    /// Returns the mean bytes of a key and its value.
    fn item_bytes(&self) -> f64 {
        let keys: u64 = self.key_bytes.iter().map(|key| u64::from(*key)).sum();
        let values: u64 = self.value_bytes.iter().map(|value| u64::from(*value)).sum();
        (keys + values) as f64 / f64::from(self.count())
    }

    /// Returns the share of the requests served from `bytes` bytes that hold the most popular
    /// items, whole and without a byte besides `beside_bytes`: the most that any replacement can
    /// serve without knowing the future.
    pub fn most_hits(&self, (choice, skew): (&Choice, f64), bytes: u64, beside_bytes: u64) -> f64 {
        let count = self.count() as usize;
        let mut left = bytes;
        let kept = self.by_rank().take_while(|item| {
            let item = *item as usize;
            let item = u64::from(self.key_bytes[item]) + u64::from(self.value_bytes[item]);
            let fits = item + beside_bytes <= left;
            left = left.saturating_sub(item + beside_bytes);
            fits
        });
        let kept = kept.count();
        match choice {
            Choice::Hotspot { requests, keys } => {
                (kept as f64 / (count as f64 * keys / 100.0)).min(1.0) * requests / 100.0
            }
            Choice::Zipfian => weight(kept as f64, skew) / weight(count as f64, skew),
            _ => kept as f64 / count as f64,
        }
    }
}

/// Returns the weight of this many ranks of a power law: a sum of the first ones, and an integral
/// that differs from the sum of the others by less than can be seen.
fn weight(ranks: f64, skew: f64) -> f64 {
    const SUMMED: f64 = 100_000.0;
    let summed: f64 = (1..=ranks.min(SUMMED) as u64).map(|rank| (rank as f64).powf(-skew)).sum();
    if ranks <= SUMMED {
        return summed;
    }
    let power = 1.0 - skew;
    summed + ((ranks + 0.5).powf(power) - (SUMMED + 0.5).powf(power)) / power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_cache_comes_out_at_full_scale() {
        let full = geometry(1.0);
        assert_eq!(full.bytes(), 15 << 20);
        let bytes = [0.05, 0.02, 0.002].map(|share| geometry(share).bytes() >> 10);
        assert_eq!(bytes, [640, 320, 10]);
        let data = data_bytes(&full, CACHE_SHARE);
        assert!((63 << 30..65 << 30).contains(&data));
    }

    #[test]
    fn the_most_popular_comes_first_and_fills_the_bound() {
        let app = Population::new(SizeChoice::App, 3_000_000, 1 << 16, 1).expect("no file");
        assert!((9_000..11_000).contains(&app.count()));
        let mut counts = vec![0_u32; app.count() as usize];
        let requests = app.requests((&Choice::Zipfian, SKEW), 1, false).expect("no file");
        requests.take(100_000).for_each(|item| counts[item as usize] += 1);
        let first = app.by_rank().next().expect("there are items");
        assert_eq!(counts.iter().max(), counts.get(first as usize));
        let [none, some, all] =
            [0, 300_000, 4_000_000].map(|bytes| app.most_hits((&Choice::Zipfian, SKEW), bytes, 0));
        assert!(none == 0.0 && all == 1.0 && (0.6..0.8).contains(&some), "{some}");
        let naive: f64 = (1..=1_000_000).map(|rank| f64::from(rank).powf(-SKEW)).sum();
        assert!((weight(1e6, SKEW) - naive).abs() < 1e-6);
        assert!((0.5..0.6).contains(&app.most_hits_in_full(8)));
        assert!((app.most_hits((&Choice::Uniform, SKEW), 300_000, 0) - 0.1).abs() < 0.01);
    }
}
