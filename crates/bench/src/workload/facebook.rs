//! Sizes of keys and values in Facebook's memcached pools (Atikoglu et al., "Workload Analysis of a
//! Large-Scale Key-Value Store", SIGMETRICS 2012).
//!
//! The paper gives a model of ETC alone, and describes the figures of the other pools in its text.
//! The rest is this tool's, so that there is a distribution to draw from:
//!
//! | pool | the paper | filled in here |
//! | --- | --- | --- |
//! | ETC keys | Generalized Extreme Value, 30.7984, 8.20449, 0.078688 | cut to 1 to 250 bytes |
//! | ETC values, 0 to 14 bytes | a table of shares | |
//! | ETC values from 15 bytes | Generalized Pareto, 0, 214.476, 0.348238 | cut at 1,000,000 bytes |
//! | APP keys | 90 % have 31 bytes | 5 % have 16 to 30 bytes, 5 % 32 to 45, evenly |
//! | APP values | around 270 bytes | a roof from 216 to 324 |
//! | SYS keys | most are below 30 bytes | 80 % have 15 to 29 bytes, 20 % 30 to 50, evenly |
//! | SYS values | 70 % are around 500 bytes | a roof from 450 to 550 |
//! | other SYS values | | 15 % have 10 to 450 bytes, 15 % 550 to 10,000, log-uniformly |
//! | USR keys | 16 or 21 bytes | half each |
//! | USR values | 2 bytes | |
//!
//! The reach of the tails of APP and SYS could not be looked up. The table of small ETC values was
//! checked against two published programs that use the paper's model (mutilate and a generator for
//! memcached clients), which agree; from "starting from 15 bytes" they make, as here, a Pareto
//! distribution that begins at 15. Sizes are rounded down to whole bytes.

use super::distribution::{Mixture, Piece, Shape};

/// The longest key of memcached's protocols.
pub const KEY_BYTES_MAX: f64 = 250.0;
/// The paper's largest values are around a megabyte.
pub const VALUE_BYTES_MAX: f64 = 1_000_000.0;

/// The shares of ETC's values of 0 to 14 bytes, from the paper's table 5.
const ETC_SMALL: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
    0.00837, 0.08989, 0.00092, 0.00326, 0.01980,
];

/// Bytes of keys and of values.
pub fn etc() -> (Mixture, Mixture) {
    let keys = Shape::ExtremeValue { location: 30.7984, scale: 8.20449, shape: 0.078688 };
    let small = ETC_SMALL.iter().zip(0u8..);
    let small = small.map(|(share, bytes)| Piece::new(*share, Shape::Exact(f64::from(bytes))));
    let tail = Shape::Pareto { location: 15.0, scale: 214.476, shape: 0.348238 };
    let rest = 1.0 - ETC_SMALL.iter().sum::<f64>();
    (one(keys), Mixture::new(small.chain([Piece::new(rest, tail)])))
}

/// Bytes of keys and of values.
pub fn app() -> (Mixture, Mixture) {
    let keys = [
        Piece::new(0.05, Shape::Uniform(16.0, 31.0)),
        Piece::new(0.90, Shape::Exact(31.0)),
        Piece::new(0.05, Shape::Uniform(32.0, 46.0)),
    ];
    (Mixture::new(keys), one(Shape::Roof(216.0, 324.0)))
}

/// Bytes of keys and of values.
pub fn sys() -> (Mixture, Mixture) {
    let keys = [
        Piece::new(0.80, Shape::Uniform(15.0, 30.0)),
        Piece::new(0.20, Shape::Uniform(30.0, 51.0)),
    ];
    let values = [
        Piece::new(0.15, Shape::LogUniform(10.0, 450.0)),
        Piece::new(0.70, Shape::Roof(450.0, 550.0)),
        Piece::new(0.15, Shape::LogUniform(550.0, 10_000.0)),
    ];
    (Mixture::new(keys), Mixture::new(values))
}

/// Bytes of keys and of values.
pub fn usr() -> (Mixture, Mixture) {
    let keys = [Piece::new(0.5, Shape::Exact(16.0)), Piece::new(0.5, Shape::Exact(21.0))];
    (Mixture::new(keys), one(Shape::Exact(2.0)))
}

fn one(shape: Shape) -> Mixture {
    Mixture::new([Piece::new(1.0, shape)])
}

#[cfg(test)]
mod tests {
    use super::{ETC_SMALL, app, etc, sys, usr};
    use crate::random::Random;
    use crate::workload::distribution::Mixture;

    const DRAWS: usize = 200_000;

    fn draws(mixture: &Mixture) -> Vec<u32> {
        let mut random = Random::new(5);
        let mut sizes: Vec<u32> = (0..DRAWS).map(|_| mixture.at(random.unit()) as u32).collect();
        sizes.sort_unstable();
        sizes
    }

    fn share(sizes: &[u32], test: impl Fn(u32) -> bool) -> f64 {
        sizes.iter().filter(|size| test(**size)).count() as f64 / sizes.len() as f64
    }

    #[test]
    fn small_etc_values_have_the_shares_of_the_table() {
        let sizes = draws(&etc().1);
        for (bytes, wanted) in (0..).zip(ETC_SMALL) {
            let found = share(&sizes, |size| size == bytes);
            let deviation = (wanted / DRAWS as f64).sqrt();
            assert!((found - wanted).abs() < 5.0 * deviation, "{bytes}: {found} for {wanted}");
        }
    }

    #[test]
    fn large_etc_values_have_the_percentiles_of_the_closed_form() {
        let sizes = draws(&etc().1);
        let large: Vec<u32> = sizes.into_iter().filter(|size| *size >= 15).collect();
        // By hand: 15 + 214.476 ((1 - q)^-0.348238 - 1) / 0.348238.
        for (quantile, wanted) in [(0.1, 38.0), (0.5, 183.2), (0.9, 772.2), (0.99, 2461.0)] {
            let found = f64::from(large[(large.len() as f64 * quantile) as usize]);
            assert!((found / wanted - 1.0).abs() < 0.05, "{quantile}: {found} for {wanted}");
        }
    }

    #[test]
    fn etc_keys_have_the_percentiles_of_the_closed_form() {
        let sizes = draws(&etc().0);
        // By hand, rounded down: 30.7984 + 8.20449 ((-ln q)^-0.078688 - 1) / 0.078688.
        for (quantile, wanted) in [(0.01, 18u32), (0.1, 24), (0.5, 33), (0.9, 51), (0.99, 76)] {
            let found = sizes[(DRAWS as f64 * quantile) as usize];
            assert!(found.abs_diff(wanted) <= 1, "{quantile}: {found} for {wanted}");
        }
        assert!(sizes[0] >= 10 && sizes[DRAWS - 1] <= 250, "{} {}", sizes[0], sizes[DRAWS - 1]);
    }

    #[test]
    fn app_sys_and_usr_are_as_the_text_says() {
        let (keys, values) = app();
        let found = share(&draws(&keys), |size| size == 31);
        assert!((found - 0.9).abs() < 0.005, "{found}");
        let app = draws(&values);
        assert!(app[DRAWS / 2].abs_diff(270) <= 2 && app[0] >= 216 && app[DRAWS - 1] < 324);
        let (keys, values) = sys();
        assert!(share(&draws(&keys), |size| size < 30) > 0.75);
        let near = share(&draws(&values), |size| (450..550).contains(&size));
        assert!((near - 0.7).abs() < 0.006, "{near}");
        let (keys, values) = usr();
        let keys = draws(&keys);
        assert!((share(&keys, |size| size == 16) - 0.5).abs() < 0.006);
        assert!(share(&keys, |size| size == 21 || size == 16) == 1.0);
        assert!(draws(&values).iter().all(|size| *size == 2));
    }
}
