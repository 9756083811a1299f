//! Guesses which items are incompressible, without compressing them.
//!
//! The guess looks at how often each byte value occurs in a sample of the item. The entropy of that
//! distribution, divided by the highest that a sample of this length can have, is the *normalised
//! entropy*, from 0 to 1: about 1 for compressed or encrypted data, 0.75 for base64, 0.5 to 0.7 for
//! text. It sees no repetition, so it may call an incompressible item compressible, and the reverse
//! for an item that is like a dictionary; hence the threshold adapts. A look takes 0.6
//! microseconds.
//!
//! ```text
//!                    threshold
//!   0 -------------------|------------------- 1   normalised entropy
//!      tried             |  taken as incompressible, one of PROBE_SHARE tried anyway
//!      did not pay: <--  |  --> : paid
//!        STEP_DOWN            STEP_UP
//! ```
//!
//! A try that comes out as guessed moves nothing. Any other moves the threshold by a step: upwards
//! no further than to the item that proved it wrong, and always within [`THRESHOLD_MIN`] and
//! [`THRESHOLD_MAX`]. An item that does not pay although it lies below all thresholds, as short
//! ones may, teaches nothing. A probe stands for [`PROBE_SHARE`] items, so its step is that many
//! times as long: the threshold settles where as many items below it do not pay as items above it
//! would.
//!
//! This follows the compressibility recognition of SlimCache (Jia, Shao and Chen, ACM Transactions
//! on Storage 16(2), 2020): normalised entropy, a threshold, and an occasional try to adapt it. The
//! numbers, the balance of the two steps, learning from every try rather than from probes alone,
//! and sampling are ours and may differ from the paper's.

/// The initial threshold: above everything that is not compressed or encrypted already.
pub const THRESHOLD_START: f32 = 0.9;
/// The lowest threshold. Letters and digits at random are at 0.75, and they compress by a quarter.
pub const THRESHOLD_MIN: f32 = 0.6;
/// The highest threshold: nothing is taken as incompressible.
pub const THRESHOLD_MAX: f32 = 1.0;
/// One item in this many above the threshold is tried anyway.
pub const PROBE_SHARE: u32 = 16;
/// How far a try that did not pay moves the threshold.
const STEP_DOWN: f32 = 1.0 / 1024.0;
/// How far a probe that paid moves it.
const STEP_UP: f32 = STEP_DOWN * PROBE_SHARE as f32;

/// The most bytes that are counted.
const SAMPLE_BYTES_MAX: usize = 1024;
/// Longer items are sampled in this many runs, spread evenly.
const SAMPLE_RUNS: usize = 16;
const RUN_BYTES: usize = SAMPLE_BYTES_MAX / SAMPLE_RUNS;

/// Binary places of a logarithm.
const PLACES: u32 = 16;
/// `count * log2(count)` for every count of a sample: with it an entropy takes no logarithm.
static WEIGHTS: [u32; SAMPLE_BYTES_MAX + 1] = weights();

/// The normalised entropy of a sample of `bytes`, from 0 to 1.
pub fn normalised(bytes: &[u8]) -> f32 {
    let mut counts = [0_u16; 256];
    let mut count = |run: &[u8]| run.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
    if bytes.len() <= SAMPLE_BYTES_MAX {
        count(bytes);
    } else {
        let stride = (bytes.len() - RUN_BYTES) / (SAMPLE_RUNS - 1);
        (0..SAMPLE_RUNS).for_each(|run| count(&bytes[run * stride..][..RUN_BYTES]));
    }
    let sample_bytes = bytes.len().min(SAMPLE_BYTES_MAX);
    // No sample of this many bytes has more entropy, nor has any sample of bytes.
    let highest = WEIGHTS[sample_bytes].min(sample_bytes as u32 * (u8::BITS << PLACES));
    if highest == 0 {
        return 0.0;
    }
    let sum: u32 = counts.iter().map(|&count| WEIGHTS[usize::from(count)]).sum();
    WEIGHTS[sample_bytes].saturating_sub(sum) as f32 / highest as f32
}

const fn weights() -> [u32; SAMPLE_BYTES_MAX + 1] {
    let mut weights = [0; SAMPLE_BYTES_MAX + 1];
    let mut count = 2;
    while count < weights.len() {
        weights[count] = ((count as u64 * log2(count as u64)) >> (LOG_PLACES - PLACES)) as u32;
        count += 1;
    }
    weights
}

/// Binary places that a logarithm is computed with.
const LOG_PLACES: u32 = 24;

/// The logarithm to base 2, one place at a time: squaring a number doubles its logarithm.
const fn log2(number: u64) -> u64 {
    let whole = number.ilog2();
    // From 1 to 2, with 31 binary places.
    let mut rest = number << 31 >> whole;
    let mut log = whole as u64;
    let mut place = 0;
    while place < LOG_PLACES {
        rest = (rest * rest) >> 31;
        let carry = rest >> 32;
        rest >>= carry;
        log = log << 1 | carry;
        place += 1;
    }
    log
}

/// The decision for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guess {
    /// It probably compresses: try.
    Compressible,
    /// It probably does not: store it raw.
    Incompressible,
    /// It probably does not: try nevertheless, so that the threshold can learn.
    Probe,
}

/// The normalised entropy above which items are taken as incompressible.
#[derive(Debug, Clone)]
pub struct Threshold {
    entropy: f32,
    /// Items above the threshold until the next probe.
    until_probe: u32,
}

impl Default for Threshold {
    fn default() -> Self {
        Self { entropy: THRESHOLD_START, until_probe: PROBE_SHARE }
    }
}

impl Threshold {
    /// Its present value.
    pub fn entropy(&self) -> f32 {
        self.entropy
    }

    /// What to do with an item of this normalised entropy.
    pub fn guess(&mut self, entropy: f32) -> Guess {
        if entropy <= self.entropy {
            return Guess::Compressible;
        }
        self.until_probe -= 1;
        if self.until_probe > 0 {
            return Guess::Incompressible;
        }
        self.until_probe = PROBE_SHARE;
        Guess::Probe
    }

    /// Learns from the result of a try, probe or not.
    pub fn learn(&mut self, entropy: f32, paid: bool) {
        let moved = match (entropy <= self.entropy, paid) {
            (true, false) if entropy > THRESHOLD_MIN => self.entropy - STEP_DOWN,
            (false, true) => (self.entropy + STEP_UP).min(entropy),
            _ => return,
        };
        self.entropy = moved.clamp(THRESHOLD_MIN, THRESHOLD_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(bytes: usize, mask: u8) -> Vec<u8> {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (random >> 56) as u8 & mask
        };
        (0..bytes).map(|_| next()).collect()
    }

    #[test]
    fn weights_are_as_floats_say() {
        for (count, &weight) in WEIGHTS.iter().enumerate().skip(1) {
            let expected = count as f64 * (count as f64).log2();
            let found = f64::from(weight) / f64::from(1 << PLACES);
            assert!((found - expected).abs() < 1e-3, "{count}: {found}, not {expected}");
        }
    }

    #[test]
    fn entropy_is_normalised_at_every_length() {
        for bytes in [0, 1, 2, 3, 255, 256, 257, 1023, 1024, 1025, 1087, 2000, 65_536] {
            assert_eq!(normalised(&vec![7; bytes]), 0.0, "{bytes}");
            let entropy = normalised(&noise(bytes, u8::MAX));
            assert!((0.0..=1.0).contains(&entropy), "{bytes}: {entropy}");
        }
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!((normalised(&all), normalised(&all.repeat(4))), (1.0, 1.0));
        assert_eq!(normalised(&all[..2]), 1.0);
        assert!((normalised(&[1, 2, 2, 2]) - 0.4056).abs() < 1e-3);
    }

    #[test]
    fn noise_is_told_from_text() {
        assert!(normalised(&noise(1024, u8::MAX)) > 0.97);
        let six_bits = normalised(&noise(1024, 63));
        assert!((0.74..0.75).contains(&six_bits), "{six_bits}");
        assert!(normalised(include_bytes!("entropy.rs")) < 0.7);
    }

    #[test]
    fn a_threshold_goes_down_to_what_does_not_pay() {
        let mut threshold = Threshold::default();
        // Short samples of noise have less entropy than long ones.
        let entropy = 0.8;
        let mut tries = 0;
        while threshold.guess(entropy) == Guess::Compressible {
            threshold.learn(entropy, false);
            tries += 1;
        }
        assert!((90..120).contains(&tries), "{tries}");
        assert!(threshold.entropy() < entropy && threshold.entropy() > entropy - 2.0 * STEP_DOWN);
        // A probe that comes out as guessed, and a try that pays, move nothing.
        let before = threshold.entropy();
        threshold.learn(entropy, false);
        threshold.learn(0.5, true);
        assert_eq!(threshold.entropy(), before);
    }

    #[test]
    fn a_threshold_goes_up_to_what_pays() {
        let mut threshold = Threshold::default();
        let guesses: Vec<Guess> = (0..PROBE_SHARE).map(|_| threshold.guess(0.95)).collect();
        let (probe, others) = guesses.split_last().expect("there are guesses");
        assert_eq!(*probe, Guess::Probe);
        assert!(others.iter().all(|&guess| guess == Guess::Incompressible));
        (0..3).for_each(|_| threshold.learn(0.95, true));
        assert!(threshold.entropy() < 0.95);
        threshold.learn(0.95, true);
        assert_eq!(threshold.entropy(), 0.95, "not past what showed it wrong");
        assert_eq!(threshold.guess(0.95), Guess::Compressible);
    }

    #[test]
    fn a_threshold_stays_within_its_limits() {
        let mut threshold = Threshold::default();
        (0..10_000).for_each(|_| threshold.learn(0.1, false));
        assert_eq!(threshold.entropy(), THRESHOLD_START, "no threshold keeps these out");
        (0..10_000).for_each(|_| threshold.learn(threshold.entropy(), false));
        assert_eq!(threshold.entropy(), THRESHOLD_MIN);
        (0..10_000).for_each(|_| threshold.learn(THRESHOLD_MIN, false));
        assert_eq!(threshold.entropy(), THRESHOLD_MIN);
        (0..10_000).for_each(|_| threshold.learn(1.0, true));
        assert_eq!(threshold.entropy(), THRESHOLD_MAX);
        assert_eq!(threshold.guess(1.0), Guess::Compressible);
    }

    /// Random items, of which those above 0.8 do not pay: the threshold finds that, and few guesses
    /// are wrong from then on.
    #[test]
    fn a_threshold_settles_between_what_pays_and_what_does_not() {
        for limit in [0.65, 0.8, 0.95] {
            let mut threshold = Threshold::default();
            let mut wrong = 0;
            for (index, byte) in noise(60_000, u8::MAX).into_iter().enumerate() {
                let (entropy, pays) = (f32::from(byte) / 255.0, f32::from(byte) / 255.0 < limit);
                let guess = threshold.guess(entropy);
                if index >= 30_000 {
                    wrong += u32::from((guess == Guess::Compressible) != pays);
                }
                if guess != Guess::Incompressible {
                    threshold.learn(entropy, pays);
                }
            }
            assert!((threshold.entropy() - limit).abs() < 0.02, "{limit}: {threshold:?}");
            assert!(wrong < 1000, "{limit}: {wrong} wrong guesses");
        }
    }
}
