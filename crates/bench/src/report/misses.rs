//! One cache's misses beside memcached's, in tables.

use super::model::Cell;

/// The column of `beside`.
pub const BESIDE_COLUMN: &str = "misses beside memcached's, percent";
/// The column of a memory limit as a share of the data's bytes.
pub const SHARE_COLUMN: &str = "memory, percent of the data";

/// Returns how many more or fewer misses there are than memcached has, in percent of memcached's:
/// -35 is a third less. Empty without memcached, or where memcached misses nothing.
pub fn beside(misses: f64, memcacheds: Option<f64>) -> Cell {
    match memcacheds {
        Some(memcacheds) if memcacheds > 0.0 => {
            Cell::number(100.0 * (misses / memcacheds - 1.0), 1)
        }
        _ => Cell::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::beside;
    use crate::report::model::Cell;

    #[test]
    fn less_is_below_zero() {
        assert_eq!(beside(0.25, Some(0.5)), Cell::number(-50.0, 1));
        assert_eq!(beside(0.5, Some(0.5)), Cell::number(0.0, 1));
        assert_eq!((beside(0.5, Some(0.0)), beside(0.5, None)), (Cell::Nothing, Cell::Nothing));
    }
}
