//! Any bytes as a compressed block, with any dictionary, and as rows: the decoded output has the
//! requested length, or is refused, and rows are parts of the bytes they were read from.
//!
//! The first byte chooses the method and whether there is a dictionary; four more give the lengths
//! of the target and the dictionary.
//!
//! `cargo +nightly fuzz run decode`

#![no_main]

use larder_codec::record::Rows;
use larder_codec::{Decoder, Dictionary, Method};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&[choice, a, b, c, d], rest)) = input.split_first_chunk::<5>() else {
        return;
    };
    let target_bytes = usize::from(u16::from_le_bytes([a, b]));
    let dictionary_bytes = usize::from(u16::from_le_bytes([c, d])).min(rest.len());
    let (known, block) = rest.split_at(if choice & 4 == 0 { 0 } else { dictionary_bytes });
    let Some(method) = Method::from_code(choice & 3) else {
        return;
    };
    let dictionary = match choice & 4 {
        0 => None,
        _ => match Dictionary::for_decoding(known) {
            Ok(dictionary) => Some(dictionary),
            Err(_) => return,
        },
    };
    let mut target = vec![0; target_bytes];
    let decoded = Decoder::new().decode(method, dictionary.as_ref(), block, &mut target);
    if decoded.is_ok() {
        rows(&target);
    }
    rows(block);
});

/// Reads rows until there are no more.
fn rows(bytes: &[u8]) {
    let mut rows = Rows::new(bytes);
    let mut read = 0;
    while !rows.is_empty() {
        let Ok(row) = rows.next_row() else { return };
        assert!(!row.bytes.is_empty() && row.key.len() < row.bytes.len());
        assert!(row.long || row.value.len() == row.value_bytes);
        read += row.bytes.len();
        assert!(read <= bytes.len());
    }
    assert_eq!(read, bytes.len());
}
