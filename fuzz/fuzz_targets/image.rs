//! Any bytes after the head of a memory file: the table of blocks, the items, the pieces and the
//! dictionary are read or refused, and no more memory is requested than the format allows.
//!
//! Checksums are corrected before, in each place where a block would begin, because otherwise
//! hardly anything after them would be reached.
//!
//! `cargo +nightly fuzz run image`

#![no_main]

use larder_codec::checksum;
use larder_codec::image::{HEAD_BYTES, Head, PAYLOAD_BYTES_MAX, Reader, Table, open};

/// Bytes of a block before its payload.
const BLOCK_HEAD_BYTES: usize = 36;
const MARKER: [u8; 4] = [0xb1, b'l', b'i', 0x0c];

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let head = Head { nonce: 7, saved_at: 1, flush_at: 0, sequence: 9, share_ppm: 500_000 };
    let mut bytes = head.to_bytes().to_vec();
    bytes.extend_from_slice(input);
    put_right(head.nonce, &mut bytes);
    let head = open(&bytes).expect("this head is right");
    let table = Table::new(&bytes, &head).expect("memory can be read");
    let (_, _) = (table.is_whole(), table.items());
    let dictionary = table.dictionary(&bytes).unwrap_or_default();
    assert!(dictionary.len() <= PAYLOAD_BYTES_MAX);
    let mut reader = Reader::new();
    for number in 0..table.groups() {
        let (block, behind) = table.group(number);
        if let Ok(items) = reader.items(&bytes, block) {
            let read: usize = items.map(|(_, row)| row.bytes.len()).sum();
            assert!(read <= PAYLOAD_BYTES_MAX);
        }
        for piece in behind {
            if let Ok(piece) = reader.piece(&bytes, piece) {
                assert!(piece.len() <= PAYLOAD_BYTES_MAX);
            }
        }
    }
});

/// Corrects the checksums of consecutive blocks, as long as they fit.
fn put_right(nonce: u64, bytes: &mut [u8]) {
    let mut rest = &mut bytes[HEAD_BYTES..];
    while rest.len() >= BLOCK_HEAD_BYTES {
        let (head, behind) = rest.split_at_mut(BLOCK_HEAD_BYTES);
        head[..4].copy_from_slice(&MARKER);
        let stored = u32::from_le_bytes(*head[24..].first_chunk().expect("within the head"));
        let stored = (stored as usize).min(behind.len());
        let (payload, next) = behind.split_at_mut(stored);
        head[28..32].copy_from_slice(&checksum(payload).to_le_bytes());
        let known = [&nonce.to_le_bytes(), &head[..32]].concat();
        head[32..].copy_from_slice(&checksum(&known).to_le_bytes());
        rest = next;
    }
}
