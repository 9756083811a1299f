//! Every input comes back as it was: every method, with and without a dictionary, over inputs that
//! compress well, a little, and not at all, at lengths around every limit.

mod common;

use common::{dictionary, noise, records};
use larder_codec::{DICTIONARY_BYTES_MAX, Decoder, Dictionary, Encoder, LEVEL_MAX, Method, pays};
use proptest::prelude::*;

const METHODS: [Method; 3] = [Method::Raw, Method::Lz4, Method::Zstd];

/// Encodes and decodes; returns the method and the length of the output.
fn there_and_back(
    encoder: &mut Encoder,
    wanted: Method,
    dictionary: Option<&Dictionary>,
    input: &[u8],
) -> (Method, usize) {
    let mut output = b"what was there before".to_vec();
    let method = encoder.encode(wanted, dictionary, input, &mut output);
    if method == Method::Raw {
        assert_eq!(output, input);
    } else {
        assert_eq!(method, wanted);
        assert!(pays(input.len(), output.len()));
    }
    let mut back = vec![0xa5; input.len()];
    Decoder::new().decode(method, dictionary, &output, &mut back).expect("it was just encoded");
    assert!(back == input, "{wanted:?}: {} bytes came back otherwise", input.len());
    (method, output.len())
}

fn by_every_way(input: &[u8]) {
    let trained = dictionary();
    let half = &input[..(input.len() / 2).min(DICTIONARY_BYTES_MAX)];
    let untrained = Dictionary::from_bytes(half, 1).expect("it is short and no trained one");
    let mut encoder = Encoder::new(3);
    for method in METHODS {
        for dictionary in [None, Some(trained), Some(&untrained)] {
            there_and_back(&mut encoder, method, dictionary, input);
        }
    }
}

/// An input in pieces: noise, letters, records, repetition of earlier ones.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let piece = (0..4_u8, 0..6000_usize, any::<u64>());
    prop::collection::vec(piece, 0..16).prop_map(|pieces| {
        let mut input = Vec::new();
        for (kind, bytes, seed) in pieces {
            match kind {
                0 => input.extend(noise(seed, bytes)),
                1 => input.extend(noise(seed, bytes).into_iter().map(|byte| b'a' + byte % 16)),
                2 => input.extend(records(seed, bytes)),
                _ => {
                    let from = seed as usize % (input.len() + 1);
                    let repeated: Vec<u8> =
                        input[from..].iter().copied().cycle().take(bytes).collect();
                    input.extend(repeated);
                }
            }
        }
        input.truncate(64 << 10);
        input
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_mixture_comes_back(input in input()) {
        by_every_way(&input);
    }

    #[test]
    fn any_short_input_comes_back(input in prop::collection::vec(0..4_u8, 0..200)) {
        by_every_way(&input);
    }

    #[test]
    fn any_noise_comes_back_raw(seed: u64, bytes in 0..=64_usize << 10) {
        let input = noise(seed, bytes);
        for method in METHODS {
            let (found, _) = there_and_back(&mut Encoder::new(1), method, None, &input);
            prop_assert_eq!(found, Method::Raw);
        }
    }
}

#[test]
fn every_length_around_a_limit_comes_back() {
    let limits = [0, 1 << 10, 4 << 10, (64 << 10) - 1, 64 << 10, 128 << 10];
    for limit in limits {
        for bytes in limit.max(20_usize) - 20..limit + 20 {
            by_every_way(&records(bytes as u64, bytes));
        }
    }
    for bytes in (0..200).chain([255, 256, 257, 127 << 10, 129 << 10, 1 << 20]) {
        by_every_way(&vec![7; bytes]);
    }
}

#[test]
fn every_level_comes_back_and_compresses() {
    for level in [i32::MIN, -7, -1, 0, 1, 2, 3, 5, 7, 9, LEVEL_MAX, i32::MAX] {
        for bytes in [700, 2 << 10, 60 << 10, 128 << 10, 300 << 10] {
            let input = records(1, bytes);
            let with = Dictionary::from_bytes(dictionary().bytes(), level).expect("it was trained");
            let mut encoder = Encoder::new(level);
            for dictionary in [None, Some(&with)] {
                let (method, _) = there_and_back(&mut encoder, Method::Zstd, dictionary, &input);
                assert_eq!(method, Method::Zstd, "level {level}, {bytes} bytes");
            }
        }
    }
}

/// From level 13 on, zstd makes two blocks of such an input.
#[test]
fn an_input_of_unlike_halves_stays_one_block() {
    let mut input = records(1, 60 << 10);
    input.extend(noise(2, 60 << 10).into_iter().map(|byte| b'a' + byte % 16));
    let trained = dictionary().bytes();
    for level in 1..=LEVEL_MAX {
        for bytes in [trained, &trained[12 << 10..], &input[..100 << 10]] {
            let dictionary = Dictionary::from_bytes(bytes, level).expect("it is a dictionary");
            let mut encoder = Encoder::new(level);
            for dictionary in [None, Some(&dictionary)] {
                let (method, _) = there_and_back(&mut encoder, Method::Zstd, dictionary, &input);
                assert_eq!(method, Method::Zstd, "level {level}");
            }
        }
    }
}

#[test]
fn a_dictionary_makes_short_blocks_much_shorter() {
    for method in [Method::Lz4, Method::Zstd] {
        let input = records(77, 1500);
        let mut encoder = Encoder::new(3);
        let (_, without) = there_and_back(&mut encoder, method, None, &input);
        let (_, with) = there_and_back(&mut encoder, method, Some(dictionary()), &input);
        assert!(with * 5 < without * 4, "{method:?}: {with} and {without} bytes");
    }
}

/// The frame that zstd itself puts around a block is not kept.
#[test]
fn a_block_has_no_frame() {
    let input = records(5, 2000);
    let (_, bytes) = there_and_back(&mut Encoder::new(3), Method::Zstd, None, &input);
    let framed = zstd::bulk::compress(&input, 3).expect("the library has a buffer of its own");
    // Magic number, descriptor, content size, block header.
    assert_eq!(bytes + 4 + 1 + 2 + 3, framed.len());
}

/// A dictionary is shared between threads, and contexts go from one to another.
#[test]
fn dictionaries_and_contexts_can_be_shared_and_sent() {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Dictionary>();
    is_send::<Encoder>();
    is_send::<Decoder>();
}
