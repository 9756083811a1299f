//! Any bytes as a file of users: they are refused in words, or each user is known by his name and
//! password alone.
//!
//! `cargo +nightly fuzz run users`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| larder_server::fuzzing::users(input));
