//! Images: the items written are read again, in any order; and whatever the bytes are, no other
//! item comes out of them, and no panic.

#[allow(dead_code, reason = "every test binary uses a part of this")]
mod common;

use std::collections::HashMap;

use common::noise;
use larder_codec::Method;
use larder_codec::image::{Head, OpenError, Reader, Table, Tier, Writer, open};
use larder_codec::record::{Fields, Record};
use policy::cost::Cost;
use proptest::prelude::*;

const HEAD: Head = Head {
    nonce: 7,
    saved_at: 1_800_000_000,
    wall_at: Some(1_799_999_990),
    flush_at: 0,
    sequence: 1 << 40,
    share_ppm: 500_000,
    hot_items: 1 << 33,
    limit_bytes: 1 << 40,
};

/// An item with all that belongs to it.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    tier: Tier,
    note: u32,
    value: Vec<u8>,
    fields: Fields,
}

fn item() -> impl Strategy<Value = Item> {
    let tier = prop_oneof![Just(Tier::Hot), Just(Tier::Compressed)];
    let custom_cas = proptest::option::of(any::<u64>());
    let expiry = (any::<u32>(), 0..1000_u16);
    let fields = (any::<u32>(), expiry, custom_cas, any::<bool>(), any::<u16>(), any::<u8>());
    // Some longer than a block, and some than several.
    let bytes = prop_oneof![50 => 0..2000_usize, 2 => 100_000..600_000_usize];
    (tier, any::<u32>(), any::<u64>(), bytes, fields).prop_map(
        |(tier, note, seed, bytes, (flags, expiry, custom_cas, base64_key, cost, mark))| {
            let ((expiry, early_ms), cost) = (expiry, Cost(cost));
            let fields = Fields { flags, expiry, early_ms, custom_cas, base64_key, cost, mark };
            let value = if seed % 2 == 0 { noise(seed, bytes) } else { vec![seed as u8; bytes] };
            Item { tier, note, value, fields }
        },
    )
}

fn key(number: usize) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

fn write(items: &[Item], head: &Head, method: Method) -> Vec<u8> {
    write_with(items, head, method, None)
}

fn write_with(items: &[Item], head: &Head, method: Method, dictionary: Option<&[u8]>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), head, method, 1).expect("a Vec takes all");
    for (number, Item { tier, note, value, fields }) in items.iter().enumerate() {
        let record = Record { key: &key(number), value, fields: *fields };
        writer.push(*tier, *note, &record).expect("a Vec takes all");
    }
    let (bytes, totals) = writer.finish(dictionary).expect("a Vec takes all");
    assert_eq!((totals.items, totals.image_bytes), (items.len() as u64, bytes.len() as u64));
    bytes
}

/// All readable items, and whether the image looks complete.
fn read(source: &Vec<u8>) -> Result<(HashMap<Vec<u8>, Item>, bool), OpenError> {
    let head = open(source)?;
    let table = Table::new(source, &head).map_err(OpenError::Io)?;
    let (mut reader, mut pieces_reader) = (Reader::new(), Reader::new());
    let (mut found, mut is_whole) = (HashMap::new(), table.is_whole());
    for group in (0..table.groups()).rev() {
        let (block, pieces) = table.group(group);
        let tier = block.tier().expect("a group begins with items");
        let Ok(items) = reader.items(source, block) else {
            is_whole = false;
            continue;
        };
        for (note, row) in items {
            let mut value = row.value.to_vec();
            if row.long {
                for piece in pieces {
                    let Ok(bytes) = pieces_reader.piece(source, piece) else { break };
                    value.extend_from_slice(bytes);
                }
                if value.len() != row.value_bytes {
                    is_whole = false;
                    continue;
                }
            }
            let item = Item { tier, note, value, fields: row.fields };
            assert!(found.insert(row.key.to_vec(), item).is_none(), "once each");
        }
    }
    Ok((found, is_whole))
}

fn written(items: &[Item]) -> HashMap<Vec<u8>, Item> {
    items.iter().enumerate().map(|(number, item)| (key(number), item.clone())).collect()
}

/// Damage to an image: flipped bits, bytes removed or added, and the place where it is cut.
#[derive(Debug, Clone)]
enum Damage {
    Flip(usize, u8),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
    Cut(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<usize>(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        1 => (any::<usize>(), 1..5000_usize).prop_map(|(at, bytes)| Damage::Remove(at, bytes)),
        1 => (any::<usize>(), proptest::collection::vec(any::<u8>(), 1..100))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => any::<usize>().prop_map(Damage::Cut),
    ]
}

fn apply(damage: &Damage, bytes: &mut Vec<u8>) {
    let length = bytes.len().max(1);
    if bytes.is_empty() {
        return;
    }
    match damage {
        Damage::Flip(at, bit) => bytes[at % length] ^= 1 << bit,
        Damage::Remove(at, count) => {
            let at = at % length;
            bytes.drain(at..(at + count).min(length));
        }
        Damage::Insert(at, more) => _ = bytes.splice(at % length..at % length, more.clone()),
        Damage::Cut(at) => bytes.truncate(at % length),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn written_items_are_read_again(
        items in proptest::collection::vec(item(), 0..300),
        method in prop_oneof![Just(Method::Raw), Just(Method::Lz4), Just(Method::Zstd)],
    ) {
        let (found, is_whole) = read(&write(&items, &HEAD, method)).expect("it was just written");
        prop_assert!(is_whole && found == written(&items));
    }

    #[test]
    fn a_damaged_item_is_left_out_and_never_another_value(
        items in proptest::collection::vec(item(), 1..200),
        damages in proptest::collection::vec(damage(), 1..4),
    ) {
        let whole = write(&items, &HEAD, Method::Zstd);
        let mut bytes = whole.clone();
        damages.iter().for_each(|damage| apply(damage, &mut bytes));
        let is_damaged = bytes != whole;
        let Ok((found, is_whole)) = read(&bytes) else { return Ok(()) };
        let written = written(&items);
        for (key, item) in &found {
            prop_assert_eq!(Some(item), written.get(key));
        }
        prop_assert!(found.len() == items.len() || !is_whole);
        // Bytes behind the end belong to no item.
        prop_assert!(is_damaged || is_whole);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..5000),
    ) {
        let mut behind_a_head = HEAD.to_bytes().to_vec();
        behind_a_head.extend_from_slice(&bytes);
        let (found, is_whole) = read(&behind_a_head).expect("the head is right");
        prop_assert!(found.is_empty() && !is_whole);
        prop_assert!(read(&bytes).is_err());
    }
}

fn some_items(count: u32) -> Vec<Item> {
    let item = |note: u32| Item {
        tier: Tier::Hot,
        note,
        value: noise(note.into(), 1000),
        fields: Fields::default(),
    };
    (0..count).map(item).collect()
}

/// The dictionary of an image, and whether the image looks complete.
fn dictionary(bytes: &Vec<u8>) -> (Option<Vec<u8>>, bool) {
    let table = Table::new(bytes, &open(bytes).expect("the head is right")).expect("in memory");
    (table.dictionary(bytes), table.is_whole())
}

#[test]
fn a_dictionary_stands_behind_the_end() {
    let (items, known) = (some_items(300), noise(7, 50_000));
    let without = write(&items, &HEAD, Method::Zstd);
    let with = write_with(&items, &HEAD, Method::Zstd, Some(&known));
    // The place where a reader that knows no dictionaries stops.
    assert!(with.starts_with(&without) && with.len() > without.len());
    assert_eq!(dictionary(&without), (None, true));
    assert_eq!(dictionary(&with), (Some(known.clone()), true));
    assert!(read(&with).expect("it was just written").0 == written(&items));
    for at in (without.len()..with.len()).step_by(97) {
        let mut bytes = with.clone();
        bytes[at] ^= 1;
        assert_eq!(dictionary(&bytes), (None, true), "no item is lost with it");
        bytes.truncate(at);
        assert_eq!(dictionary(&bytes), (None, true));
    }
    let mut bytes = with.clone();
    bytes[without.len() - 1] ^= 1;
    assert_eq!(dictionary(&bytes), (Some(known), false), "the end is damaged");
}

#[test]
fn a_damaged_block_costs_its_own_items_only() {
    let items = some_items(2000);
    let whole = write(&items, &HEAD, Method::Zstd);
    // Wherever the damage is, in a head or a payload, it costs one block.
    for at in (64..whole.len()).step_by(100_003) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let (found, is_whole) = read(&bytes).expect("the head is right");
        let lost = items.len() - found.len();
        assert!(!is_whole && (1..300).contains(&lost), "{lost} lost by damage at {at}");
    }
    // The head of the first block.
    let mut bytes = whole.clone();
    bytes[66] ^= 1;
    let (found, is_whole) = read(&bytes).expect("the head is right");
    assert!(!is_whole && items.len() - found.len() < 300);
}

#[test]
fn a_value_that_looks_like_a_block_is_none() {
    // A client that can store values knows another image, but not this one's nonce.
    let other = write(&some_items(3), &Head { nonce: 8, ..HEAD }, Method::Raw);
    let value = other[64..].to_vec();
    let items = [Item { tier: Tier::Hot, note: 0, value, fields: Fields::default() }];
    let mut bytes = write(&items, &HEAD, Method::Raw);
    // Without a valid head before them, the value's bytes are searched.
    bytes[64] ^= 1;
    let (found, is_whole) = read(&bytes).expect("the head is right");
    assert!(found.is_empty() && !is_whole);
}

#[test]
fn foreign_damaged_and_other_versions_are_told_apart() {
    let image = write(&[], &HEAD, Method::Zstd);
    let opened = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = image.clone();
        change(&mut bytes);
        open(&bytes)
    };
    assert_eq!(opened(&|_| {}).expect("as it was written"), HEAD);
    for foreign in [&b""[..], b"LARDERI", b"#!/bin/sh\n"] {
        let opened = opened(&|bytes| *bytes = foreign.to_vec());
        assert!(matches!(opened, Err(OpenError::Foreign)), "{opened:?}");
    }
    assert!(matches!(opened(&|bytes| bytes[8] = 3), Err(OpenError::Version(3))));
    assert!(matches!(opened(&|bytes| bytes.truncate(63)), Err(OpenError::Damaged)));
    for at in (12..64).chain([9]) {
        let opened = opened(&|bytes| bytes[at] ^= 0x10);
        assert!(matches!(opened, Err(OpenError::Damaged | OpenError::Version(_))), "{at}");
    }
}

/// A server that is replaced by a newer one saves an image that the newer one has to read.
#[test]
fn an_image_of_the_version_before_is_read() {
    let head = Head { wall_at: None, ..HEAD };
    let (items, image) = (some_items(300), write(&some_items(300), &head, Method::Zstd));
    assert_eq!((&image[8..12], &image[12..16]), (&[1, 0, 0, 0][..], &[0; 4][..]));
    assert_eq!(open(&image).expect("as it was written"), head);
    let (found, is_whole) = read(&image).expect("as it was written");
    assert!(is_whole && found == written(&items));
}

#[test]
fn an_images_count_of_hot_items_is_no_more_than_an_estimate() {
    let head = Head { hot_items: 900_000, limit_bytes: 1 << 30, ..HEAD };
    assert_eq!(Head::parse(&head.to_bytes()).ok(), Some(head));
    for (limit_bytes, items) in [(1 << 30, 900_000), (1 << 34, 900_000), (1 << 28, 225_000)] {
        assert_eq!(head.expected_hot_items(limit_bytes), items);
    }
    // As in images from before these fields.
    let before = Head { hot_items: 0, limit_bytes: 0, ..HEAD };
    assert_eq!(before.expected_hot_items(1 << 30), 0);
}
