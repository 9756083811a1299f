//! Bytes that encoder and decoder know beforehand, so that a short block can refer to what earlier
//! blocks had in common.
//!
//! A dictionary is kept three times: its bytes, with a table for LZ4 beside them, and zstd's two
//! digests, each with a copy of the bytes. The digest for encoding is the largest: with 64 KiB at
//! level 3, the whole takes about 650 KiB ([`Dictionary::memory_bytes`]). A dictionary that only
//! decodes ([`Dictionary::for_decoding`]) takes a fourth. All of it is only read, so threads share
//! a dictionary.
//!
//! Training extracts what several samples have in common, by zstd's `fastcover`. Whether the result
//! helps is measured on samples that it was not trained from: from few samples it would look better
//! than it is.

use zstd_safe::{CDict, DDict};

use crate::encode::{LEVEL_HURRIED, LEVEL_MAX, LEVEL_MIN};
use crate::lz4::{self, Digest};
use crate::{Damaged, Encoder, Method};

/// The longest dictionary, in bytes.
pub const DICTIONARY_BYTES_MAX: usize = 256 << 10;
/// The shortest dictionary, in bytes: a shorter one is not worth having.
const DICTIONARY_BYTES_MIN: usize = 1 << 10;
/// Samples beyond this many bytes are ignored. That is a hundred times a dictionary of 160 KiB, and
/// training takes about 80 ms for each MiB.
pub const SAMPLES_BYTES_MAX: usize = 16 << 20;
/// The fewest samples: fewer say nothing of the next one.
pub const SAMPLES_MIN: usize = 16;
/// A dictionary has at most one byte for this many that it is trained from. zstd recommends a
/// hundred; with less, a shorter dictionary is better.
const SAMPLES_PER_DICTIONARY: usize = 8;
/// One sample in this many is kept for the judgement.
const JUDGED_SHARE: usize = 8;
/// A dictionary helps if it saves one byte in this many.
const HELP_SHARE: usize = 32;

/// A dictionary, digested for a level of zstd.
pub struct Dictionary {
    bytes: Box<[u8]>,
    encoding: Option<Encoding>,
    pub(crate) decoding: DDict<'static>,
}

/// The parts that only encoding needs.
struct Encoding {
    lz4: Digest,
    level: i32,
    zstd: CDict<'static>,
    /// For [`LEVEL_HURRIED`].
    hurried: Option<CDict<'static>>,
}

impl Dictionary {
    /// Trains a dictionary of at most `bytes_max` for inputs like these samples, each of which is
    /// as long as the inputs that will be encoded. `None` if there is too little to train from, or
    /// if the result would not help.
    pub fn train<S: AsRef<[u8]>>(samples: &[S], bytes_max: usize, level: i32) -> Option<Self> {
        let Samples { trained, lengths, judged } = split(samples, SAMPLES_BYTES_MAX);
        let bytes = bytes_max.min(DICTIONARY_BYTES_MAX).min(trained.len() / SAMPLES_PER_DICTIONARY);
        if bytes < DICTIONARY_BYTES_MIN || lengths.len() + judged.len() < SAMPLES_MIN {
            return None;
        }
        let mut dictionary = Vec::with_capacity(bytes);
        zstd_safe::train_from_buffer(&mut dictionary, &trained, &lengths).ok()?;
        let dictionary = Self::from_bytes(&dictionary, level).ok()?;
        dictionary.helps(&judged, level).then_some(dictionary)
    }

    /// Makes the dictionary that [`Self::bytes`] were taken from, or one of any other bytes;
    /// `Damaged` if they only begin like one, or are too many.
    pub fn from_bytes(bytes: &[u8], level: i32) -> Result<Self, Damaged> {
        if bytes.len() > DICTIONARY_BYTES_MAX {
            return Err(Damaged);
        }
        let level = level.clamp(LEVEL_MIN, LEVEL_MAX);
        let zstd = CDict::try_create(bytes, level).ok_or(Damaged)?;
        let lz4 = Digest::new(lz4::reachable(bytes));
        let encoding = Some(Encoding { lz4, level, zstd, hurried: None });
        Ok(Self { encoding, ..Self::for_decoding(bytes)? })
    }

    /// Adds a digest for encoders in a hurry ([`Encoder::hurry`]), if the dictionary is digested
    /// for a higher level than theirs. Without memory for another digest it stays as it is.
    pub fn with_hurried(mut self) -> Self {
        if let Some(encoding) = self.encoding.as_mut().filter(|it| it.level > LEVEL_HURRIED) {
            encoding.hurried = CDict::try_create(&self.bytes, LEVEL_HURRIED);
        }
        self
    }

    /// Makes one like [`Self::from_bytes`], without the parts for encoding: an encoder panics with
    /// it.
    pub fn for_decoding(bytes: &[u8]) -> Result<Self, Damaged> {
        if bytes.len() > DICTIONARY_BYTES_MAX {
            return Err(Damaged);
        }
        let decoding = DDict::try_create(bytes).ok_or(Damaged)?;
        Ok(Self { bytes: bytes.into(), encoding: None, decoding })
    }

    /// Whether it can encode as well.
    pub fn encodes(&self) -> bool {
        self.encoding.is_some()
    }

    /// The bytes from which this dictionary can be made again, at any level.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of all memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        let digests = |it: &Encoding| {
            let hurried = it.hurried.as_ref().map_or(0, |digest| digest.sizeof());
            it.lz4.memory_bytes() + it.zstd.sizeof() + hurried
        };
        let encoding = self.encoding.as_ref().map_or(0, digests);
        size_of::<Self>() + self.bytes.len() + encoding + self.decoding.sizeof()
    }

    /// [`Self::memory_bytes`] of a dictionary of `bytes` bytes, which encodes at a level and in a
    /// hurry, or only decodes. Makes one to measure it.
    pub fn memory_bytes_of(bytes: usize, level: Option<i32>) -> usize {
        let bytes = vec![0; bytes.min(DICTIONARY_BYTES_MAX)];
        let made = match level {
            Some(level) => Self::from_bytes(&bytes, level).map(Self::with_hurried),
            None => Self::for_decoding(&bytes),
        };
        made.map_or(0, |dictionary| dictionary.memory_bytes())
    }

    /// The parts that LZ4 needs to encode.
    pub(crate) fn lz4(&self) -> (&[u8], &Digest) {
        (self.lz4_bytes(), &self.encoding().lz4)
    }

    /// The bytes that LZ4 needs to decode.
    pub(crate) fn lz4_bytes(&self) -> &[u8] {
        lz4::reachable(&self.bytes)
    }

    /// The digest that zstd needs to encode, the hurried one if asked for and present.
    pub(crate) fn zstd(&self, is_hurried: bool) -> &CDict<'static> {
        let encoding = self.encoding();
        encoding.hurried.as_ref().filter(|_| is_hurried).unwrap_or(&encoding.zstd)
    }

    fn encoding(&self) -> &Encoding {
        self.encoding.as_ref().expect("a dictionary that encodes was made for it")
    }

    fn helps(&self, samples: &[&[u8]], level: i32) -> bool {
        let (mut encoder, mut target) = (Encoder::new(level), Vec::new());
        let (mut with, mut without) = (0, 0);
        for sample in samples {
            encoder.encode(Method::Zstd, Some(self), sample, &mut target);
            with += target.len();
            encoder.encode(Method::Zstd, None, sample, &mut target);
            without += target.len();
        }
        with + without / HELP_SHARE < without
    }
}

/// Samples by purpose.
struct Samples<'a> {
    /// The samples to train from, one behind the other.
    trained: Vec<u8>,
    lengths: Vec<usize>,
    judged: Vec<&'a [u8]>,
}

fn split<S: AsRef<[u8]>>(samples: &[S], bytes_max: usize) -> Samples<'_> {
    let mut split = Samples { trained: Vec::new(), lengths: Vec::new(), judged: Vec::new() };
    let mut bytes = 0;
    for (index, sample) in samples.iter().map(AsRef::as_ref).enumerate() {
        bytes += sample.len();
        if bytes > bytes_max {
            break;
        }
        if index % JUDGED_SHARE == JUDGED_SHARE - 1 {
            split.judged.push(sample);
        } else {
            split.trained.extend_from_slice(sample);
            split.lengths.push(sample.len());
        }
    }
    split
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_beyond_the_limit_are_ignored() {
        let samples = [[7; 100]; 20];
        for (bytes_max, trained, judged) in
            [(2000, 18, 2), (1999, 17, 2), (1599, 14, 1), (799, 7, 0), (99, 0, 0)]
        {
            let split = split(&samples, bytes_max);
            assert_eq!((split.lengths.len(), split.judged.len()), (trained, judged), "{bytes_max}");
            assert_eq!(split.trained.len(), trained * 100);
        }
    }
}
