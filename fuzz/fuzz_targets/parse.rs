//! Any bytes: the parser does not panic, makes progress, and keeps the promises of its types.
//!
//! `cargo +nightly fuzz run parse`

#![no_main]

#[path = "../../crates/protocol/tests/bodies/mod.rs"]
#[allow(dead_code)] // Each target uses one of the bodies.
mod bodies;

libfuzzer_sys::fuzz_target!(|stream: &[u8]| {
    for dialect in bodies::DIALECTS {
        bodies::walk(stream, dialect);
    }
});
