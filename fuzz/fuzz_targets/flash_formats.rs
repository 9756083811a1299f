//! Any bytes as one of the structures on a flash device: its first page, entries and item tables of
//! segments, journals, dictionaries, units; and any place of the index. They are refused, or are
//! written the same again.
//!
//! The first byte chooses the structure, and whether checksums are corrected before.
//!
//! `cargo +nightly fuzz run flash_formats`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| larder_flash::fuzzing::formats(input));
