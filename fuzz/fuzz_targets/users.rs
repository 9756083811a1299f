//! Any bytes as a file of users: they are refused with a message, or each user is known only by the
//! right name and password.
//!
//! `cargo +nightly fuzz run users`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| larder_server::fuzzing::users(input));
