//! The cost of making the values of one prefix's keys: a running mean and spread of the logarithms
//! of their costs, in one word, so that it changes at once or not at all.
//!
//! ```text
//!   63       48 47            24 23             0
//!   +----------+----------------+----------------+      mean and spread: log2 of microseconds,
//!   | samples  |  mean          |  spread        |      5 bits before the point and 19 behind it
//!   +----------+----------------+----------------+
//! ```
//!
//! Costs differ by factors, and an outlier is one by a factor: among logarithms a value that took a
//! thousand times as long is ten away, and moves a mean of 64 by a sixth. The spread is the mean
//! distance from the mean, which takes no squares and is moved less by outliers.
//!
//! [`Model::bound`] draws an outlier to the edge of what is usual, and the model then learns that
//! edge. If everything takes longer from now on, each bounded sample widens the spread, and the
//! model follows in some tens of samples.
//!
//! How far out is usual, and how much a new measurement counts beside a key's earlier cost, comes
//! from a simulation (`docs/decisions/0008-measured-cost.md`).

/// The fewest samples that say anything: costs are neither bounded nor guessed by fewer.
pub(crate) const SAMPLES_MIN: u32 = 8;
/// The most samples that are counted; more are as many.
pub(crate) const SAMPLES_MAX: u32 = 256;
/// The samples that the mean is over, about: some seconds of a busy prefix.
const WINDOW: u32 = 64;
/// The spread that a first sample suggests: a factor of two.
const SPREAD_FIRST: f32 = 1.0;
/// The least spread: no prefix is so even that a factor of two is no longer usual, at five spreads.
const SPREAD_MIN: f32 = 0.2;
/// Spreads from the mean from which on a cost is an outlier. With five, outliers of keys without a
/// known cost are bounded in most prefixes, and the costs of a prefix of which one key in ten is 32
/// times as costly as the others are left alone; with four, these suffer.
const SPREADS: f32 = 5.0;
/// The weight of a measurement beside the key's earlier cost: at a quarter, an outlier of 16 times
/// doubles a cost, and a cost that has changed is followed within four stores.
const NEW_WEIGHT: f32 = 0.25;

const FIELD_BITS: u32 = 24;
const FIELD_MASK: u64 = (1 << FIELD_BITS) - 1;
const FRACTION: f32 = (1 << 19) as f32;
/// Logarithms of all costs fit into their field.
const _: () = assert!(u32::BITS as u64 * (1 << 19) <= FIELD_MASK + 1);

/// Mean and spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Model {
    samples: u32,
    mean: f32,
    spread: f32,
}

impl Model {
    /// Unpacks a model from a word.
    pub(crate) fn unpack(word: u64) -> Self {
        let field = |bits: u64| (bits & FIELD_MASK) as f32 / FRACTION;
        Self {
            samples: (word >> (2 * FIELD_BITS)) as u32,
            mean: field(word >> FIELD_BITS),
            spread: field(word),
        }
    }

    /// Packs the model into one word; 0 is a model without samples.
    pub(crate) fn pack(self) -> u64 {
        let field = |value: f32| ((value * FRACTION).round() as u64).min(FIELD_MASK);
        u64::from(self.samples) << (2 * FIELD_BITS)
            | field(self.mean) << FIELD_BITS
            | field(self.spread)
    }

    /// Returns the samples it has seen, up to [`SAMPLES_MAX`].
    pub(crate) fn samples(self) -> u32 {
        self.samples
    }

    /// Whether it has enough samples to say anything.
    pub(crate) fn is_settled(self) -> bool {
        self.samples >= SAMPLES_MIN
    }

    /// Returns the usual cost, a geometric mean; 0 if there is none yet.
    pub(crate) fn typical_us(self) -> u32 {
        if self.is_settled() { us_of(self.mean) } else { 0 }
    }

    /// Returns the factor by which costs usually differ from the typical one.
    pub(crate) fn spread_factor(self) -> f32 {
        self.spread.exp2()
    }

    /// Returns the model with one sample more.
    pub(crate) fn with(self, us: u32) -> Self {
        let log = log_of(us);
        if self.samples == 0 {
            return Self { samples: 1, mean: log, spread: SPREAD_FIRST };
        }
        let weight = 1.0 / (self.samples + 1).min(WINDOW) as f32;
        let distance = (log - self.mean).abs();
        Self {
            samples: (self.samples + 1).min(SAMPLES_MAX),
            mean: self.mean + weight * (log - self.mean),
            spread: self.spread + weight * (distance - self.spread),
        }
    }

    /// Returns the model as if one sample fewer had been seen.
    pub(crate) fn weakened(self) -> Self {
        Self { samples: self.samples.saturating_sub(1), ..self }
    }

    /// Returns `us`, or the nearest cost to it that is usual: for the prefix, or around `key_us`,
    /// the key's own earlier cost (0 if unknown). A key that is costly every time gets there in
    /// steps, however cheap its neighbours.
    pub(crate) fn bound(self, us: u32, key_us: u32) -> u32 {
        if !self.is_settled() {
            return us;
        }
        let reach = SPREADS * self.spread.max(SPREAD_MIN);
        let key = if key_us == 0 { self.mean } else { log_of(key_us) };
        let (lowest, highest) = (self.mean.min(key) - reach, self.mean.max(key) + reach);
        let log = log_of(us);
        if log < lowest {
            us_of(lowest)
        } else if log > highest {
            us_of(highest)
        } else {
            us
        }
    }
}

/// Mixes a measurement with the key's earlier cost: in between, among logarithms.
pub(crate) fn mix(key_us: u32, us: u32) -> u32 {
    if key_us == 0 {
        return us;
    }
    let (before, now) = (log_of(key_us), log_of(us));
    us_of(before + NEW_WEIGHT * (now - before))
}

fn log_of(us: u32) -> f32 {
    (us.max(1) as f32).log2()
}

fn us_of(log: f32) -> u32 {
    (log.exp2().round() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::{Model, SAMPLES_MAX, SAMPLES_MIN, log_of, mix};

    fn taught(costs: impl IntoIterator<Item = u32>) -> Model {
        costs.into_iter().fold(Model::unpack(0), |model, us| Model::unpack(model.with(us).pack()))
    }

    #[test]
    fn a_model_is_silent_until_it_has_samples_and_then_finds_mean_and_spread() {
        let early = taught([1000; SAMPLES_MIN as usize - 1]);
        assert_eq!((early.typical_us(), early.bound(1 << 31, 0)), (0, 1 << 31));
        let even = taught([1000; 300]);
        assert_eq!(even.samples(), SAMPLES_MAX);
        assert!(even.typical_us().abs_diff(1000) <= 1, "{even:?}");
        assert!(even.spread_factor() < 1.05, "{even:?}");
        let wide = taught((0..300).map(|number| if number % 2 == 0 { 100 } else { 10_000 }));
        assert!((800..1250).contains(&wide.typical_us()), "{wide:?}");
        assert!((8.0..12.0).contains(&wide.spread_factor()), "{wide:?}");
    }

    #[test]
    fn an_outlier_is_drawn_to_the_edge_and_what_is_usual_is_left_alone() {
        let model = taught([1000; 100]);
        for usual in [600, 1000, 1900] {
            assert_eq!(model.bound(usual, 0), usual);
        }
        assert!((1900..2600).contains(&model.bound(1_000_000, 0)));
        assert!((400..600).contains(&model.bound(1, 0)));
        // Around the key's own earlier cost, too.
        assert_eq!(model.bound(100_000, 100_000), 100_000);
        assert_eq!(model.bound(1000, 100_000), 1000);
        assert!((100_000..260_000).contains(&model.bound(1_000_000, 100_000)));
    }

    #[test]
    fn a_change_of_everything_is_followed() {
        let mut model = taught([1000; 300]);
        let mut samples = 0;
        while model.typical_us() < 25_000 {
            model = model.with(model.bound(50_000, 0));
            samples += 1;
            assert!(samples < 200, "{model:?}");
        }
    }

    #[test]
    fn a_costly_key_of_a_cheap_prefix_climbs_to_its_cost() {
        let model = taught([1000; 300]);
        let mut key_us = 0;
        let mut stores = 0;
        while key_us < 25_000 {
            key_us = mix(key_us, model.bound(50_000, key_us));
            stores += 1;
            assert!(stores < 30, "{key_us}");
        }
    }

    #[test]
    fn a_quarter_of_the_way_is_gone_among_logarithms() {
        assert_eq!(mix(0, 777), 777);
        assert_eq!(mix(1000, 1000), 1000);
        assert_eq!(mix(1000, 16_000), 2000);
        assert_eq!(mix(16_000, 1000), 8000);
        assert_eq!(mix(1, 1), 1);
    }

    #[test]
    fn every_cost_is_packed_and_comes_back() {
        for us in [0, 1, 2, 1000, 10_000_000, u32::MAX] {
            let model = taught([us]);
            assert!((model.mean - log_of(us)).abs() < 1e-4, "{us} {model:?}");
        }
        assert_eq!(Model::unpack(0).weakened().samples(), 0);
    }
}
