//! Distributions of sizes, given by their quantiles: a place in `[0, 1)` becomes a size, and a
//! higher place never a smaller one. A uniform place makes a size of the distribution, and nearby
//! places make nearby sizes, by which costs can follow sizes.

/// Parts of a distribution, each with its share, from small sizes to large ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    pieces: Vec<Piece>,
    /// The end of each piece: the sum of the shares up to it.
    ends: Vec<f64>,
}

/// A part of a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    share: f64,
    shape: Shape,
}

impl Piece {
    /// Returns a part that this share of all draws falls into.
    pub const fn new(share: f64, shape: Shape) -> Piece {
        Piece { share, shape }
    }
}

/// The form of a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Always this size.
    Exact(f64),
    /// Even from the first to below the second.
    Uniform(f64, f64),
    /// Each doubling is as frequent as the next.
    LogUniform(f64, f64),
    /// A roof over the range from the first to the second, highest in the middle.
    Roof(f64, f64),
    /// Generalized Pareto.
    Pareto {
        /// Its beginning.
        location: f64,
        /// Its width.
        scale: f64,
        /// The weight of its tail; not 0.
        shape: f64,
    },
    /// Generalized Extreme Value.
    ExtremeValue {
        /// Near its peak.
        location: f64,
        /// Its width.
        scale: f64,
        /// The weight of its tail; not 0.
        shape: f64,
    },
}

impl Shape {
    fn at(self, place: f64) -> f64 {
        match self {
            Shape::Exact(value) => value,
            Shape::Uniform(low, high) => low + (high - low) * place,
            Shape::LogUniform(low, high) => low * (high / low).powf(place),
            Shape::Roof(low, high) => {
                let half = (high - low) / 2.0;
                if place < 0.5 {
                    low + half * (2.0 * place).sqrt()
                } else {
                    high - half * (2.0 * (1.0 - place)).sqrt()
                }
            }
            Shape::Pareto { location, scale, shape } => {
                location + scale * ((1.0 - place).powf(-shape) - 1.0) / shape
            }
            Shape::ExtremeValue { location, scale, shape } => {
                location + scale * ((-place.ln()).powf(-shape) - 1.0) / shape
            }
        }
    }
}

impl Mixture {
    /// Returns a mixture of parts whose shares add up to 1, the smaller sizes first.
    pub fn new(pieces: impl IntoIterator<Item = Piece>) -> Mixture {
        let pieces: Vec<Piece> = pieces.into_iter().filter(|piece| piece.share > 0.0).collect();
        let mut end = 0.0;
        let ends: Vec<f64> = pieces
            .iter()
            .map(|piece| {
                end += piece.share;
                end
            })
            .collect();
        assert!((end - 1.0).abs() < 1e-6, "the shares add up to {end}");
        Mixture { pieces, ends }
    }

    /// Returns the size at a place in `[0, 1)`.
    pub fn at(&self, place: f64) -> f64 {
        let index = self.ends.partition_point(|end| *end <= place).min(self.ends.len() - 1);
        let piece = self.pieces[index];
        let start = if index == 0 { 0.0 } else { self.ends[index - 1] };
        piece.shape.at(((place - start) / piece.share).clamp(0.0, 1.0 - f64::EPSILON / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::{Mixture, Piece, Shape};

    /// Returns the greatest difference between the shares up to a size and those of a closed form.
    fn distance(shape: Shape, below: impl Fn(f64) -> f64) -> f64 {
        let one = Mixture::new([Piece::new(1.0, shape)]);
        let places = (1..10_000).map(|place| f64::from(place) / 10_000.0);
        places.map(|place| (below(one.at(place)) - place).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn quantiles_turn_the_published_distribution_functions_round() {
        let (k, sigma, mu) = (0.348238, 214.476, 15.0);
        let pareto = Shape::Pareto { location: mu, scale: sigma, shape: k };
        let below = |size: f64| 1.0 - (1.0 + k * (size - mu) / sigma).powf(-1.0 / k);
        assert!(distance(pareto, below) < 1e-9);
        let (k, sigma, mu) = (0.078688, 8.20449, 30.7984);
        let extreme = Shape::ExtremeValue { location: mu, scale: sigma, shape: k };
        let below = |size: f64| (-(1.0 + k * (size - mu) / sigma).powf(-1.0 / k)).exp();
        assert!(distance(extreme, below) < 1e-9);
        let log = |size: f64| (size / 10.0).ln() / 100f64.ln();
        assert!(distance(Shape::LogUniform(10.0, 1000.0), log) < 1e-9);
        let roof = |size: f64| {
            let (left, right) = (size - 100.0, 200.0 - size);
            if left < right { left * left / 5000.0 } else { 1.0 - right * right / 5000.0 }
        };
        assert!(distance(Shape::Roof(100.0, 200.0), roof) < 1e-9);
    }

    #[test]
    fn pieces_have_their_shares_and_sizes_never_fall() {
        let mixture = Mixture::new([
            Piece::new(0.25, Shape::Exact(3.0)),
            Piece::new(0.0, Shape::Exact(4.0)),
            Piece::new(0.5, Shape::Uniform(10.0, 20.0)),
            Piece::new(0.25, Shape::Roof(20.0, 40.0)),
        ]);
        assert_eq!((mixture.at(0.0), mixture.at(0.2499)), (3.0, 3.0));
        assert_eq!((mixture.at(0.25), mixture.at(0.5), mixture.at(0.875)), (10.0, 15.0, 30.0));
        let sizes: Vec<f64> = (0..1000).map(|place| mixture.at(f64::from(place) / 1e3)).collect();
        assert!(sizes.is_sorted());
    }

    #[test]
    #[should_panic(expected = "add up to 0.5")]
    fn shares_that_do_not_add_up_are_a_mistake() {
        let _ = Mixture::new([Piece::new(0.5, Shape::Exact(1.0))]);
    }
}
