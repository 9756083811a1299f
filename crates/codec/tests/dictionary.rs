//! Training, and a dictionary's properties from outside.

mod common;

use common::{dictionary, noise, records};
use larder_codec::{
    DICTIONARY_BYTES_MAX, Damaged, Decoder, Dictionary, Encoder, LEVEL_HURRIED, Method, SAMPLES_MIN,
};

fn samples(count: u64, bytes: usize) -> Vec<Vec<u8>> {
    (0..count).map(|seed| records(seed, bytes)).collect()
}

#[test]
fn training_from_too_little_makes_no_dictionary() {
    let train = |samples: &[Vec<u8>]| Dictionary::train(samples, 64 << 10, 3);
    assert!(train(&[]).is_none());
    assert!(train(&[vec![], vec![]]).is_none());
    assert!(train(&samples(1, 1 << 20)).is_none(), "one sample, however long");
    assert!(train(&samples(SAMPLES_MIN as u64 - 1, 4000)).is_none());
    assert!(train(&samples(SAMPLES_MIN as u64, 100)).is_none(), "enough samples, too short");
    assert!(train(&samples(SAMPLES_MIN as u64, 4000)).is_some());
    assert!(train(&vec![vec![]; 1000]).is_none());
}

#[test]
fn training_without_room_makes_no_dictionary() {
    for bytes_max in [0, 1, 255, 1000] {
        assert!(Dictionary::train(&samples(100, 1000), bytes_max, 3).is_none(), "{bytes_max}");
    }
}

#[test]
fn samples_of_noise_train_no_dictionary() {
    let noise: Vec<Vec<u8>> = (0..200).map(|seed| noise(seed, 2000)).collect();
    assert!(Dictionary::train(&noise, 64 << 10, 3).is_none());
}

#[test]
fn a_dictionary_is_within_its_limits() {
    let samples = samples(100, 4000);
    let trained = Dictionary::train(&samples, 8 << 10, 3).expect("there are samples enough");
    assert!((1 << 10..=8 << 10).contains(&trained.bytes().len()));
    // However much is asked for, it is an eighth of what it was trained from.
    let trained = Dictionary::train(&samples, usize::MAX, 3).expect("there are samples enough");
    assert!(trained.bytes().len() <= 400_000 / 8);

    let longest = vec![b'x'; DICTIONARY_BYTES_MAX + 1];
    assert!(Dictionary::from_bytes(&longest[1..], 3).is_ok());
    assert_eq!(Dictionary::from_bytes(&longest, 3).err(), Some(Damaged));
}

#[test]
fn a_dictionary_is_made_again_from_its_bytes() {
    let again = Dictionary::from_bytes(dictionary().bytes(), 3).expect("they were taken from one");
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for method in [Method::Lz4, Method::Zstd] {
        let input = records(31, 2000);
        Encoder::new(3).encode(method, Some(dictionary()), &input, &mut one);
        Encoder::new(3).encode(method, Some(&again), &input, &mut other);
        assert_eq!(one, other);
    }
}

#[test]
fn a_decoding_dictionary_reads_all_output_in_a_third_of_the_memory() {
    let dictionary = dictionary();
    let only_decodes = Dictionary::for_decoding(dictionary.bytes()).expect("its own bytes");
    assert!(only_decodes.memory_bytes() * 3 < dictionary.memory_bytes());
    let input = &samples(1, 3000)[0];
    for method in [Method::Lz4, Method::Zstd] {
        let (mut target, mut again) = (Vec::new(), vec![0; input.len()]);
        Encoder::new(3).encode(method, Some(dictionary), input, &mut target);
        let decoded = Decoder::new().decode(method, Some(&only_decodes), &target, &mut again);
        assert_eq!(decoded, Ok(()));
        assert_eq!(&again, input);
    }
    assert!(Dictionary::for_decoding(&vec![0; DICTIONARY_BYTES_MAX + 1]).is_err());
}

#[test]
fn a_hurried_encoder_uses_a_lower_level_with_a_dictionary_made_for_it() {
    let at = |level| Dictionary::from_bytes(dictionary().bytes(), level).expect("its own bytes");
    let input = records(77, 8000);
    let encoded = |level, is_hurried, dictionary: Option<&Dictionary>| {
        let (mut encoder, mut target) = (Encoder::new(level), Vec::new());
        encoder.hurry(is_hurried);
        assert_eq!(encoder.encode(Method::Zstd, dictionary, &input, &mut target), Method::Zstd);
        target
    };
    let (usual, hurried) = (encoded(9, false, Some(&at(9))), encoded(3, false, Some(&at(3))));
    assert!(usual.len() < hurried.len());
    let made_for_it = at(9).with_hurried();
    assert!(made_for_it.memory_bytes() > at(9).memory_bytes());
    assert_eq!(encoded(9, true, Some(&made_for_it)), hurried);
    assert_eq!(encoded(9, false, Some(&made_for_it)), usual);
    assert_eq!(encoded(9, true, Some(&at(9))), usual);
    assert_eq!(encoded(9, true, None), encoded(LEVEL_HURRIED, false, None));
    // A level that is fast already stays as it is.
    assert_eq!(at(1).with_hurried().memory_bytes(), at(1).memory_bytes());
    assert_eq!(encoded(1, true, None), encoded(1, false, None));
}

#[test]
fn damaged_bytes_make_no_dictionary() {
    let mut bytes = dictionary().bytes().to_vec();
    // Behind the magic number and the id are the entropy tables.
    bytes[8..40].fill(0xff);
    assert_eq!(Dictionary::from_bytes(&bytes, 3).err(), Some(Damaged));
}

#[test]
fn a_dictionarys_memory_is_its_bytes_and_digests() {
    for (bytes, level) in [(0, 1), (1000, 1), (16 << 10, 1), (110 << 10, 3), (110 << 10, 10)] {
        let dictionary = Dictionary::from_bytes(&noise(3, bytes), level).expect("it is short");
        let memory_bytes = dictionary.memory_bytes();
        assert!(memory_bytes > 3 * bytes, "{bytes} bytes: {memory_bytes}");
        assert!(memory_bytes < 3 * bytes + (2 << 20), "{bytes} bytes: {memory_bytes}");
    }
}

#[test]
fn contexts_say_what_they_have_grown_to() {
    let mut encoder = Encoder::new(3);
    let before = encoder.memory_bytes();
    encoder.encode(Method::Zstd, None, &records(1, 4000), &mut Vec::new());
    let after = encoder.memory_bytes();
    assert!(before < after && after < 4 << 20, "{before} and then {after} bytes");
}
