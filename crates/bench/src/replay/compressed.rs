//! Whether the engine may compress seldom used items: the one place that sets its builder.

use clap::ValueEnum;

/// A wish about the compressed zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compressed {
    /// All items uncompressed.
    Off,
    /// A zone of compressed items, as large as the engine finds it should be.
    Auto,
}

impl Compressed {
    /// Returns the addition to the report's name of an engine with this wish.
    pub fn title(self) -> &'static str {
        match self {
            Compressed::Off => ", compressed off",
            Compressed::Auto => ", compressed auto",
        }
    }

    /// Applies the wish to the builder.
    pub fn apply(self, builder: larder::Builder) -> larder::Builder {
        builder.compress(self == Compressed::Auto)
    }
}
