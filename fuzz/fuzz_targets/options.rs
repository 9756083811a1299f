//! Any bytes as a file of options, arguments and variables: they are refused with a message, or
//! `--print-config` prints them so that they mean the same when they are read as a file.
//!
//! A byte 0x1e ends the file, and another one the arguments, one per line.
//!
//! `cargo +nightly fuzz run options`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| larder_server::fuzzing::options(input));
