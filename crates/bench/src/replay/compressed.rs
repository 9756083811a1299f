//! Whether the engine may compress what is used seldom: the one place that tells its builder.

use clap::ValueEnum;

/// A wish about the compressed zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compressed {
    /// All items as they are.
    Off,
    /// A zone of compressed items, as large as the engine finds it should be.
    Auto,
}

impl Compressed {
    /// What the report adds to the name of an engine with this wish.
    pub fn title(self) -> &'static str {
        match self {
            Compressed::Off => ", compressed off",
            Compressed::Auto => ", compressed auto",
        }
    }

    /// Tells the builder.
    pub fn apply(self, builder: larder::Builder) -> larder::Builder {
        builder.compress(self == Compressed::Auto)
    }
}
