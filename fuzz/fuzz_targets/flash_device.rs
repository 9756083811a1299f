//! A device that a flash tier has written, with any changes: it is refused and left as it is, or
//! recovered and used, without a read beyond it, and finds what is stored from then on.
//!
//! `cargo +nightly fuzz run flash_device`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| larder_flash::fuzzing::device(input));
