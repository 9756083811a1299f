//! The project's chores: test, conformance, tidy.

fn main() {}
