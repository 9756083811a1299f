//! A device written by a flash tier, with any changes: it is refused and left unchanged, or
//! recovered and used, without a read beyond its end, and later stores are found.
//!
//! `cargo +nightly fuzz run flash_device`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| larder_flash::fuzzing::device(input));
