//! Tests of the tier as a whole.
