//! Keys in base64 (meta flag `b`): the standard alphabet with its padding, and nothing else.
//!
//! Decoding is strict: one key has exactly one wire form, so a reply may echo what the client sent.
//! (memcached skips characters outside the alphabet; no client sends any. The difference is in
//! `conformance/deviations.txt`.)

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::request::KEY_BYTES_MAX;

/// Decodes a key into `target` and returns its length; `None` if it is not base64 or is empty.
pub(crate) fn decode(wire: &[u8], target: &mut [u8; KEY_BYTES_MAX]) -> Option<usize> {
    match STANDARD.decode_slice(wire, target) {
        Ok(0) | Err(_) => None,
        Ok(length) => Some(length),
    }
}

/// Appends the base64 form of a key.
pub fn encode(out: &mut Vec<u8>, key: &[u8]) {
    let start = out.len();
    out.resize(start + key.len().div_ceil(3) * 4, 0);
    STANDARD.encode_slice(key, &mut out[start..]).expect("base64 writes 4 bytes for every 3");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_the_round_trip() {
        for length in 1..=187 {
            let key: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            let mut wire = Vec::new();
            encode(&mut wire, &key);
            assert!(wire.len() <= KEY_BYTES_MAX + 2);
            let mut target = [0; KEY_BYTES_MAX];
            assert_eq!(decode(&wire, &mut target), Some(length));
            assert_eq!(target[..length], key);
        }
    }

    #[test]
    fn anything_but_base64_is_refused() {
        let mut target = [0; KEY_BYTES_MAX];
        for wire in [&b""[..], b"Zm9", b"Zm9v!", b"====", b"Zm9=", b"Zg==Zg==", b"\xff\xff\xff\xff"]
        {
            assert_eq!(decode(wire, &mut target), None, "{wire:?}");
        }
    }
}
