//! CacheBench's tables: sizes of values and popularity of objects, as JSON.
//!
//! ```text
//!   sizes.json   valSizeRange             31    63    95 ...    bytes
//!                valSizeRangeProbability  118   10  2243 ...    weight of each
//!   pop.json     popularityBuckets         1     1     5 ...    objects in a bucket
//!                popularityWeights       276   170   110 ...    weight of the whole bucket
//! ```
//!
//! With as many sizes as weights, these sizes occur; with one more, they are the limits of ranges,
//! within each of which all sizes are equally likely: both as in CacheBench. The buckets share the
//! key space in proportion to their objects, whatever the number of keys. Other fields, such as
//! `oneHits`, are ignored.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::distribution::{Mixture, Piece, Shape};
use crate::failure::{Failure, Outcome};
use crate::random::Random;

#[derive(Debug, Deserialize)]
struct SizeTable {
    #[serde(rename = "valSizeRange")]
    sizes: Vec<f64>,
    #[serde(rename = "valSizeRangeProbability")]
    weights: Vec<f64>,
}

#[derive(Debug, Deserialize)]
struct PopularityTable {
    #[serde(rename = "popularityBuckets")]
    objects: Vec<f64>,
    #[serde(rename = "popularityWeights")]
    weights: Vec<f64>,
}

/// Buckets of equally popular objects.
#[derive(Debug)]
pub struct Popularity {
    /// For each bucket the weight and the objects up to its end, as shares of all.
    ends: Vec<(f64, f64)>,
}

impl Popularity {
    /// Reads a `pop.json`.
    pub fn load(path: &Path) -> Outcome<Popularity> {
        let table: PopularityTable = read(path)?;
        Popularity::of(&table).map_err(|what| fault(path, &what))
    }

    fn of(table: &PopularityTable) -> Result<Popularity, String> {
        let (objects, weights) = (&table.objects, &table.weights);
        if objects.len() != weights.len() {
            return Err(format!("{} buckets with {} weights", objects.len(), weights.len()));
        }
        let (all_weights, all_objects) = (sum("weights", weights)?, sum("objects", objects)?);
        let mut end = (0.0, 0.0);
        let ends = weights.iter().zip(objects).map(|(weight, objects)| {
            end = (end.0 + weight / all_weights, end.1 + objects / all_objects);
            end
        });
        Ok(Popularity { ends: ends.collect() })
    }

    /// Draws a key less than `keys`.
    pub fn rank(&self, keys: u64, random: &mut Random) -> u64 {
        let place = random.unit();
        let bucket = self.ends.partition_point(|end| end.0 <= place).min(self.ends.len() - 1);
        let first = if bucket == 0 { 0.0 } else { self.ends[bucket - 1].1 };
        let share = first + (self.ends[bucket].1 - first) * random.unit();
        ((keys as f64 * share) as u64).min(keys - 1)
    }
}

/// Reads a `sizes.json`.
pub fn sizes(path: &Path) -> Outcome<Mixture> {
    let table: SizeTable = read(path)?;
    mixture(&table).map_err(|what| fault(path, &what))
}

fn mixture(table: &SizeTable) -> Result<Mixture, String> {
    let SizeTable { sizes, weights } = table;
    let all = sum("weights", weights)?;
    if sizes.iter().any(|size| !(0.0..=f64::from(u32::MAX)).contains(size)) {
        return Err("a size is no number of bytes".into());
    }
    if sizes.len() == weights.len() {
        let piece = |(size, weight): (&f64, &f64)| Piece::new(weight / all, Shape::Exact(*size));
        return Ok(Mixture::new(sizes.iter().zip(weights).map(piece)));
    }
    if sizes.len() != weights.len() + 1 {
        return Err(format!("{} sizes with {} weights", sizes.len(), weights.len()));
    }
    let ranges = sizes.windows(2).map(|ends| Shape::Uniform(ends[0], ends[1]));
    Ok(Mixture::new(ranges.zip(weights).map(|(range, weight)| Piece::new(weight / all, range))))
}

fn sum(name: &str, values: &[f64]) -> Result<f64, String> {
    let sum: f64 = values.iter().sum();
    if values.iter().any(|value| *value < 0.0) || !sum.is_finite() || sum <= 0.0 {
        return Err(format!("the {name} have no sum"));
    }
    Ok(sum)
}

fn read<T: DeserializeOwned>(path: &Path) -> Outcome<T> {
    let text =
        fs::read_to_string(path).map_err(Failure::io(format!("reading {}", path.display())))?;
    serde_json::from_str(&text).map_err(|error| fault(path, &error.to_string()))
}

fn fault(path: &Path, what: &str) -> Failure {
    Failure::Input(format!("{}: no table of CacheBench: {what}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{Popularity, sizes};
    use crate::random::Random;
    use crate::trace::testing::Folder;

    #[test]
    fn sizes_have_the_shares_of_the_table() {
        let folder = Folder::new();
        let json = r#"{"valSizeRange": [31, 63, 1023], "valSizeRangeProbability": [6, 3, 1]}"#;
        let mixture = sizes(&folder.write("sizes.json", json.as_bytes())).expect("a table");
        let mut random = Random::new(1);
        let mut counts = [0u32; 3];
        for _ in 0..100_000 {
            let size = mixture.at(random.unit()) as u32;
            counts[[31, 63, 1023].iter().position(|known| *known == size).expect("a size")] += 1;
        }
        for (count, wanted) in counts.iter().zip([60_000u32, 30_000, 10_000]) {
            assert!(count.abs_diff(wanted) < 800, "{counts:?}");
        }
    }

    #[test]
    fn limits_of_ranges_make_ranges() {
        let folder = Folder::new();
        let json = r#"{"valSizeRange": [10, 20, 100], "valSizeRangeProbability": [0.5, 0.5]}"#;
        let mixture = sizes(&folder.write("sizes.json", json.as_bytes())).expect("a table");
        assert_eq!(mixture.at(0.25), 15.0);
        assert_eq!(mixture.at(0.75), 60.0);
    }

    #[test]
    fn objects_are_as_popular_as_the_table_says_at_any_number_of_keys() {
        let folder = Folder::new();
        let json = r#"{"oneHits": 0.1, "popularityBuckets": [1, 9, 90],
            "popularityWeights": [50, 30, 20]}"#;
        let path = folder.write("pop.json", json.as_bytes());
        let popularity = Popularity::load(&path).expect("a table");
        for keys in [100u64, 10_000] {
            let mut random = Random::new(2);
            let mut counts = vec![0u32; 100];
            for _ in 0..200_000 {
                counts[(popularity.rank(keys, &mut random) * 100 / keys) as usize] += 1;
            }
            // Of 200,000: half to the first, 30 % to the next nine, 20 % to the others.
            assert!(counts[0].abs_diff(100_000) < 1200, "{}", counts[0]);
            assert!(counts[1..10].iter().all(|c| c.abs_diff(6667) < 450), "{:?}", &counts[..10]);
            assert!(counts[10..].iter().all(|c| c.abs_diff(444) < 110), "{:?}", &counts[10..]);
        }
    }

    #[test]
    fn an_invalid_table_is_refused() {
        let folder = Folder::new();
        for json in [
            "",
            "[]",
            r#"{"valSizeRange": [1, 2, 3], "valSizeRangeProbability": [1]}"#,
            r#"{"valSizeRange": [1, -2], "valSizeRangeProbability": [1, 1]}"#,
            r#"{"valSizeRange": [1, 2], "valSizeRangeProbability": [0, 0]}"#,
        ] {
            let path = folder.write("sizes.json", json.as_bytes());
            let failure = sizes(&path).expect_err(json);
            assert_eq!(failure.exit_code(), 5, "{failure}");
        }
        let bad = br#"{"popularityBuckets": [1, 2], "popularityWeights": [1]}"#;
        assert!(Popularity::load(&folder.write("pop.json", bad)).is_err());
        assert!(Popularity::load(&folder.path("none.json")).is_err());
    }
}
