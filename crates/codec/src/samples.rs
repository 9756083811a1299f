//! Samples of what comes, from which the next dictionary is trained, and what says whether that is
//! better than the current one.
//!
//! Rows are gathered into samples as long as what is going to be encoded. A part of the samples is
//! not trained from, but judges the result.

use crate::{Dictionary, Encoder, Method};

/// Bytes of samples for each byte of dictionary.
const BYTES_PER_BYTE: usize = 32;
/// One sample of so many is not trained from, but judges the result.
const JUDGED_SHARE: usize = 8;
/// A new dictionary has to save one byte in this of what the current one leaves.
const MARGIN_SHARE: usize = 20;

/// Rows of what came, in samples.
#[derive(Debug, Default)]
pub struct Samples {
    samples: Vec<Vec<u8>>,
    bytes: usize,
    rows: u32,
}

impl Samples {
    /// Adds a row to the last sample, or to a new one if that would be longer than `sample_bytes`
    /// then. `false`, and nothing is added, if a new one would be needed and there are enough for
    /// a dictionary of `dictionary_bytes`.
    pub fn add(&mut self, row: &[u8], sample_bytes: usize, dictionary_bytes: usize) -> bool {
        if self.samples.last().is_none_or(|last| last.len() + row.len() > sample_bytes) {
            if self.bytes >= Self::bytes_max(dictionary_bytes) {
                return false;
            }
            // Rows of more than half a sample lie in one each: what they leave of it is given back.
            if let Some(last) = self.samples.last_mut() {
                last.shrink_to_fit();
            }
            self.samples.push(Vec::with_capacity(sample_bytes.max(row.len())));
        }
        if let Some(last) = self.samples.last_mut() {
            last.extend_from_slice(row);
        }
        self.bytes += row.len();
        self.rows += 1;
        true
    }

    /// How many rows there are.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All memory that they take.
    pub fn memory_bytes(&self) -> usize {
        let unused = self.samples.last().map_or(0, |last| last.capacity() - last.len());
        self.bytes + unused + self.samples.capacity() * size_of::<Vec<u8>>()
    }

    /// About what [`Samples::bytes`] grows to for a dictionary of so many bytes.
    pub fn bytes_max(dictionary_bytes: usize) -> usize {
        dictionary_bytes * BYTES_PER_BYTE
    }

    /// A dictionary from these samples, if one helps. Takes about 80 ms for each MiB.
    pub fn train(&self, dictionary_bytes: usize, level: i32) -> Option<Dictionary> {
        let trained: Vec<_> = self.parts(false).collect();
        Dictionary::train(&trained, dictionary_bytes, level)
    }

    /// Whether a dictionary trained from these samples is so much better than the current one, or
    /// than none, that it is worth the change.
    pub fn prefers(&self, fresh: &Dictionary, current: Option<&Dictionary>, level: i32) -> bool {
        let (mut encoder, mut target) = (Encoder::new(level), Vec::new());
        let mut encoded_bytes = |dictionary| -> usize {
            let mut encoded = |sample| {
                encoder.encode(Method::Zstd, dictionary, sample, &mut target);
                target.len()
            };
            self.parts(true).map(&mut encoded).sum()
        };
        let (now, then) = (encoded_bytes(current), encoded_bytes(Some(fresh)));
        then + now / MARGIN_SHARE < now
    }

    /// The samples that judge, or those that are trained from.
    fn parts(&self, judging: bool) -> impl Iterator<Item = &[u8]> {
        let of_part = move |index: usize| index.is_multiple_of(JUDGED_SHARE) == judging;
        let samples = self.samples.iter().enumerate();
        samples.filter(move |(index, _)| of_part(*index)).map(|(_, sample)| sample.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, number: u32) -> Vec<u8> {
        let mixed = number.wrapping_mul(0x9e37_79b9);
        format!("{{\"{kind}\":{mixed},\"colour\":\"of {kind} {}\"}}", mixed % 97).into_bytes()
    }

    fn samples(kind: &str, dictionary_bytes: usize) -> Samples {
        let mut samples = Samples::default();
        let mut number = 0;
        while samples.add(&row(kind, number), 2000, dictionary_bytes) {
            number += 1;
        }
        assert_eq!(samples.rows(), number);
        samples
    }

    #[test]
    fn samples_are_as_long_as_asked_for_and_suffice_for_the_dictionary() {
        let samples = samples("apples", 4096);
        let bytes = samples.bytes();
        assert!((4096 * BYTES_PER_BYTE..4096 * BYTES_PER_BYTE + 2000).contains(&bytes), "{bytes}");
        assert!(samples.samples.iter().all(|sample| (1900..=2000).contains(&sample.len())));
        let all = samples.parts(false).count() + samples.parts(true).count();
        assert_eq!(all, samples.samples.len());
        assert_eq!(samples.parts(true).count(), all.div_ceil(JUDGED_SHARE));
        let mut long = Samples::default();
        assert!(long.add(&[7; 5000], 2000, 4096) && long.add(&[7; 5000], 2000, 4096));
        assert_eq!((long.samples.len(), long.bytes()), (2, 10_000));
    }

    /// Rows of somewhat more than half a sample took a whole one each, and were counted as rows.
    #[test]
    fn samples_take_what_they_are_counted_for() {
        let mut samples = Samples::default();
        while samples.add(&[7; 600], 1024, 4096) {}
        let taken: usize = samples.samples.iter().map(Vec::capacity).sum();
        let lists = samples.samples.capacity() * size_of::<Vec<u8>>();
        assert_eq!(samples.memory_bytes(), taken + lists);
        assert!(taken <= samples.bytes() + 1024, "{taken} bytes for {}", samples.bytes());
    }

    #[test]
    fn a_dictionary_is_changed_for_a_better_one_only() {
        let (apples, pears) = (samples("apples", 4096), samples("pears", 4096));
        let of_apples = apples.train(4096, 3).expect("rows have much in common");
        let of_pears = pears.train(4096, 3).expect("rows have much in common");
        assert!(apples.prefers(&of_apples, None, 3));
        assert!(!apples.prefers(&of_apples, Some(&of_apples), 3));
        assert!(pears.prefers(&of_pears, Some(&of_apples), 3));
        assert!(!apples.prefers(&of_pears, Some(&of_apples), 3));
    }
}
