//! Samples of new rows, from which the next dictionary is trained, and the comparison of that
//! dictionary with the current one.
//!
//! Rows are gathered into samples as long as the inputs that will be encoded. A part of the samples
//! is not trained from, but judges the result.

use crate::{Dictionary, Encoder, Method};

/// Bytes of samples for each byte of dictionary.
const BYTES_PER_BYTE: usize = 32;
/// One sample in this many is not trained from, but judges the result.
const JUDGED_SHARE: usize = 8;
/// A new dictionary has to save one byte in this many of the bytes that the current one leaves.
const MARGIN_SHARE: usize = 20;

/// Rows, gathered into samples.
#[derive(Debug, Default)]
pub struct Samples {
    samples: Vec<Vec<u8>>,
    bytes: usize,
    rows: u32,
}

impl Samples {
    /// Adds a row to the last sample, or to a new one if the last would become longer than
    /// `sample_bytes`. Returns `false`, and adds nothing, if a new one would be needed and there
    /// are enough for a dictionary of `dictionary_bytes`.
    pub fn add(&mut self, row: &[u8], sample_bytes: usize, dictionary_bytes: usize) -> bool {
        if self.samples.last().is_none_or(|last| last.len() + row.len() > sample_bytes) {
            if self.bytes >= Self::bytes_max(dictionary_bytes) {
                return false;
            }
            // Rows of more than half a sample lie in one each: the room that they leave in it is
            // given back.
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

    /// The number of rows.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of all memory that they take.
    pub fn memory_bytes(&self) -> usize {
        let unused = self.samples.last().map_or(0, |last| last.capacity() - last.len());
        self.bytes + unused + self.samples.capacity() * size_of::<Vec<u8>>()
    }

    /// The approximate limit of [`Samples::bytes`] for a dictionary of this many bytes.
    pub fn bytes_max(dictionary_bytes: usize) -> usize {
        dictionary_bytes * BYTES_PER_BYTE
    }

    /// Trains a dictionary from these samples, if one helps. Takes about 80 ms for each MiB.
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

    /// The samples that judge, or those to train from.
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

    /// Regression: rows of somewhat more than half a sample took a whole one each, and were counted
    /// as rows.
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
