//! Any bytes, at once and in pieces: the parser finds the same requests. The first four bytes give
//! the lengths of the pieces.
//!
//! `cargo +nightly fuzz run parse_incremental`

#![no_main]

#[path = "../../crates/protocol/tests/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some((pieces, stream)) = input.split_first_chunk::<4>() {
        let piece_bytes = pieces.map(|piece| 1 + usize::from(piece) * 16);
        for dialect in bodies::DIALECTS {
            bodies::incremental(stream, &piece_bytes, dialect);
        }
    }
});
