//! Damaged input, and anything else that no encoder wrote: an error or some bytes of the right
//! length, but never a panic, and an error wherever the format can tell.

mod common;

use common::{dictionary, noise, records};
use larder_codec::{Damaged, Decoder, Dictionary, Encoder, Method, checksum};
use proptest::prelude::*;

const METHODS: [Method; 3] = [Method::Raw, Method::Lz4, Method::Zstd];
const COMPRESSING: [Method; 2] = [Method::Lz4, Method::Zstd];

fn encoded(method: Method, dictionary: Option<&Dictionary>, input: &[u8]) -> Vec<u8> {
    let (used, output) = encoded_or_raw(method, dictionary, input);
    assert_eq!(used, method);
    output
}

/// The method of an output, since an input that does not become shorter stays raw.
fn encoded_or_raw(
    method: Method,
    dictionary: Option<&Dictionary>,
    input: &[u8],
) -> (Method, Vec<u8>) {
    let mut output = Vec::new();
    (Encoder::new(3).encode(method, dictionary, input, &mut output), output)
}

/// An output and what it was made from.
struct Sample {
    method: Method,
    dictionary: Option<&'static Dictionary>,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// Every way to encode an input of this length.
fn samples(bytes: usize) -> Vec<Sample> {
    let mut samples = Vec::new();
    for method in METHODS {
        for dictionary in [None, Some(dictionary())] {
            let input = records(9, bytes);
            let output = encoded(method, dictionary, &input);
            samples.push(Sample { method, dictionary, input, output });
        }
    }
    samples
}

#[test]
fn a_target_of_another_length_is_damage() {
    let mut decoder = Decoder::new();
    for bytes in [300, 2000, 140 << 10] {
        for Sample { method, dictionary, input, output } in samples(bytes) {
            let near = (bytes - 40..bytes + 40).chain([0, 1, 7, bytes / 2, bytes * 2, 200 << 10]);
            for length in near.filter(|&length| length != bytes) {
                let result = decoder.decode(method, dictionary, &output, &mut vec![0; length]);
                assert_eq!(result, Err(Damaged), "{method:?}: {length} for {bytes}");
            }
            let mut target = vec![0; bytes];
            assert_eq!(decoder.decode(method, dictionary, &output, &mut target), Ok(()));
            assert!(target == input, "damage before does not matter");
        }
    }
}

#[test]
fn a_truncated_input_is_damage() {
    let mut decoder = Decoder::new();
    for Sample { method, dictionary, input, output } in samples(2000) {
        let mut target = vec![0; input.len()];
        for length in 0..output.len() {
            let result = decoder.decode(method, dictionary, &output[..length], &mut target);
            assert_eq!(result, Err(Damaged), "{method:?}: {length} of {}", output.len());
        }
    }
}

/// Neither format has a checksum: in most places another byte gives another text. The test expects
/// that nothing panics, that the checksum of the output tells, and that the decoder is as good as
/// before.
#[test]
fn no_flipped_byte_does_harm() {
    let mut decoder = Decoder::new();
    for bytes in [300, 700, 3000] {
        for Sample { method, dictionary, input, mut output } in samples(bytes) {
            let sum = checksum(&output);
            let mut target = vec![0; input.len()];
            for at in 0..output.len() {
                for flip in [1, 0x80, 0xff] {
                    output[at] ^= flip;
                    let _ = decoder.decode(method, dictionary, &output, &mut target);
                    assert_ne!(checksum(&output), sum);
                    output[at] ^= flip;
                }
            }
            assert_eq!(decoder.decode(method, dictionary, &output, &mut target), Ok(()));
            assert!(target == input);
        }
    }
}

/// A long block has a frame of its own: headers that lie are found.
#[test]
fn a_long_block_with_another_header_is_damage() {
    let input = records(3, 150 << 10);
    let mut output = encoded(Method::Zstd, None, &input);
    let mut target = vec![0; input.len()];
    for at in 0..9 {
        output[at] ^= 0x55;
        let result = Decoder::new().decode(Method::Zstd, None, &output, &mut target);
        assert_eq!(result, Err(Damaged), "byte {at}");
        output[at] ^= 0x55;
    }
    // Two frames that together have the right length were not made by the encoder.
    let half = encoded(Method::Zstd, None, &input[..140 << 10]);
    let result = Decoder::new().decode(Method::Zstd, None, &half, &mut target);
    assert_eq!(result, Err(Damaged));
}

/// A wrong dictionary is an error or other bytes.
#[test]
fn a_wrong_dictionary_does_no_harm() {
    let input = records(9, 2000);
    let other = Dictionary::from_bytes(&noise(1, 20_000), 3).expect("any bytes will do");
    let short = Dictionary::from_bytes(&noise(1, 10), 3).expect("any bytes will do");
    let mut decoder = Decoder::new();
    for method in COMPRESSING {
        let output = encoded(method, Some(dictionary()), &input);
        for wrong in [None, Some(&other), Some(&short)] {
            let mut target = vec![0; input.len()];
            let result = decoder.decode(method, wrong, &output, &mut target);
            assert!(result == Err(Damaged) || target != input);
        }
        // A block that refers further back than there are bytes can be recognised.
        let mut target = vec![0; input.len()];
        assert_eq!(decoder.decode(method, None, &output, &mut target), Err(Damaged));
    }
}

#[test]
fn nothing_is_an_output_for_nothing_but_raw() {
    let mut decoder = Decoder::new();
    assert_eq!(decoder.decode(Method::Raw, None, &[], &mut []), Ok(()));
    for method in COMPRESSING {
        for input in [&[][..], &[0], &[0, 0]] {
            assert_eq!(decoder.decode(method, None, input, &mut []), Err(Damaged));
            assert_eq!(decoder.decode(method, None, input, &mut [0]), Err(Damaged));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn garbage_does_no_harm(
        input in prop::collection::vec(any::<u8>(), 0..600),
        bytes in 0..5000_usize,
        is_with: bool,
    ) {
        let mut target = vec![0; bytes];
        for method in METHODS {
            let (mut decoder, dictionary) = (Decoder::new(), is_with.then(dictionary));
            let _ = decoder.decode(method, dictionary, &input, &mut target);
            let sound = records(9, bytes);
            let output = encoded_or_raw(method, dictionary, &sound);
            prop_assert_eq!(decoder.decode(output.0, dictionary, &output.1, &mut target), Ok(()));
            prop_assert!(target == sound, "it is as good as before");
        }
    }

    /// Several bytes changed, lost or added, which reaches further than garbage.
    #[test]
    fn mutations_do_no_harm(
        seed: u64,
        bytes in 20..4000_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 1..6),
    ) {
        let mut decoder = Decoder::new();
        for method in METHODS {
            for dictionary in [None, Some(dictionary())] {
                let input = records(seed, bytes);
                let (method, sound) = encoded_or_raw(method, dictionary, &input);
                let mut output = sound.clone();
                for (at, byte, kind) in &changes {
                    let at = at.index(output.len());
                    match kind {
                        0 => output[at] = *byte,
                        1 => output.insert(at, *byte),
                        _ if output.len() > 1 => _ = output.remove(at),
                        _ => {}
                    }
                }
                let mut target = vec![0; bytes];
                let _ = decoder.decode(method, dictionary, &output, &mut target);
                prop_assert_eq!(decoder.decode(method, dictionary, &sound, &mut target), Ok(()));
                prop_assert!(target == input, "it is as good as before");
            }
        }
    }
}
