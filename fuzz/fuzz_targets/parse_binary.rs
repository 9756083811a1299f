//! Any bytes on a binary connection, at once and in pieces: the parser does not panic and finds the
//! same requests. The first four bytes give the lengths of the pieces.
//!
//! `cargo +nightly fuzz run parse_binary`

#![no_main]

#[path = "../../crates/protocol/tests/packets/mod.rs"]
mod packets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some((pieces, stream)) = input.split_first_chunk::<4>() {
        let piece_bytes = pieces.map(|piece| 1 + usize::from(piece));
        packets::check(stream, &piece_bytes);
    }
});
