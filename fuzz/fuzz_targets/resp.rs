//! Any bytes in Redis' protocol, at once and in pieces: the same commands are found. The first four
//! bytes give the lengths of the pieces.
//!
//! `cargo +nightly fuzz run resp`

#![no_main]

#[path = "../../crates/protocol/tests/resp_bodies/mod.rs"]
mod resp_bodies;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some((pieces, stream)) = input.split_first_chunk::<4>() {
        let piece_bytes = pieces.map(|piece| 1 + usize::from(piece));
        let whole = resp_bodies::commands(stream, &[usize::MAX]);
        assert_eq!(resp_bodies::commands(stream, &piece_bytes), whole);
    }
});
