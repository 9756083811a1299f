//! The binary protocol: the meaning of each kind of packet, the refusals, and that no bytes and no
//! cut through them derail the parser.

mod packets;

use larder_protocol::Wire;
use larder_protocol::binary::parse::{Parsed, parse};
use larder_protocol::binary::{
    Arithmetic, BODY_BYTES_MAX, Command, Echo, Get, HEADER_BYTES, SASL_BYTES_MAX, Status, Store,
    reply,
};
use larder_protocol::request::{Direction, ExpiryTime, KEY_BYTES_MAX, StoreMode};
use proptest::prelude::*;

const OPAQUE: u32 = 0xdead_beef;

/// A request.
fn packet(opcode: u8, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80, opcode];
    packet.extend_from_slice(&(key.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    let body_bytes = (extras.len() + key.len() + value.len()) as u32;
    packet.extend_from_slice(&body_bytes.to_be_bytes());
    packet.extend_from_slice(&OPAQUE.to_be_bytes());
    packet.extend_from_slice(&cas.to_be_bytes());
    [&packet, extras, key, value].concat()
}

/// The command of a valid packet, and whether it is quiet.
#[track_caller]
fn command(packet: &[u8]) -> (Command<'_>, bool) {
    match parse(packet) {
        Parsed::Request { request, .. } => {
            assert_eq!(request.echo, Echo { opcode: packet[1], opaque: OPAQUE });
            (request.command, request.quiet)
        }
        other => panic!("{other:?}"),
    }
}

/// Why a packet is refused, and the number of bytes skipped.
#[track_caller]
fn refused(packet: &[u8]) -> (Status, Option<u64>) {
    match parse(packet) {
        Parsed::Refused { status, swallow_bytes, .. } => (status, swallow_bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn gets_and_touches_by_their_opcodes() {
    let second = [0, 0, 0, 9];
    for (opcode, quiet, with_key, with_value, touches) in [
        (0x00, false, false, true, false),
        (0x09, true, false, true, false),
        (0x0c, false, true, true, false),
        (0x0d, true, true, true, false),
        (0x1c, false, false, false, true),
        (0x1d, false, false, true, true),
        (0x1e, true, false, true, true),
        (0x23, false, true, true, true),
        (0x24, true, true, true, true),
    ] {
        let touch = touches.then_some(ExpiryTime(9));
        let extras = if touches { &second[..] } else { b"" };
        let get = Get { key: b"k", with_key, with_value, touch };
        let packet = packet(opcode, 0, extras, b"k", b"");
        assert_eq!(command(&packet), (Command::Get(get), quiet), "{opcode:#x}");
    }
}

#[test]
fn stores_by_their_opcodes() {
    let extras = [0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff];
    for (opcode, mode, quiet) in [
        (0x01, StoreMode::Set, false),
        (0x02, StoreMode::Add, false),
        (0x03, StoreMode::Replace, false),
        (0x0e, StoreMode::Append, false),
        (0x0f, StoreMode::Prepend, false),
        (0x11, StoreMode::Set, true),
        (0x12, StoreMode::Add, true),
        (0x13, StoreMode::Replace, true),
        (0x19, StoreMode::Append, true),
        (0x1a, StoreMode::Prepend, true),
    ] {
        let concatenates = matches!(mode, StoreMode::Append | StoreMode::Prepend);
        let (extras, flags, seconds) =
            if concatenates { (&[][..], 0, 0) } else { (&extras[..], 5, i64::from(u32::MAX)) };
        let packet = packet(opcode, 7, extras, b"key", b"value");
        let store = Store {
            key: b"key",
            mode,
            flags,
            expiry: ExpiryTime(seconds),
            value_bytes: 5,
            compare_cas: Some(7),
        };
        assert_eq!(command(&packet), (Command::Store(store), quiet), "{opcode:#x}");
        // The value need not be there.
        assert_eq!(command(&packet[..packet.len() - 5]).0, Command::Store(store));
    }
}

#[test]
fn arithmetic_creates_unless_its_expiry_is_all_ones() {
    let numbers = [&7_u64.to_be_bytes()[..], &40_u64.to_be_bytes()].concat();
    for (expiry, create) in [
        (u32::MAX, None),
        (u32::MAX - 1, Some((40, ExpiryTime(i64::from(u32::MAX - 1))))),
        (0, Some((40, ExpiryTime(0)))),
    ] {
        let extras = [&numbers[..], &expiry.to_be_bytes()].concat();
        for (opcode, direction, quiet) in [
            (0x05, Direction::Increment, false),
            (0x06, Direction::Decrement, false),
            (0x15, Direction::Increment, true),
            (0x16, Direction::Decrement, true),
        ] {
            let expected = Arithmetic { key: b"k", direction, delta: 7, create, compare_cas: None };
            let packet = packet(opcode, 0, &extras, b"k", b"");
            assert_eq!(command(&packet), (Command::Arithmetic(expected), quiet));
        }
    }
}

#[test]
fn requests_about_the_server() {
    for (packet, expected) in [
        (packet(0x07, 0, b"", b"", b""), Command::Quit),
        (packet(0x08, 0, b"", b"", b""), Command::Flush { delay: ExpiryTime(0) }),
        (packet(0x08, 0, &[0, 0, 1, 0], b"", b""), Command::Flush { delay: ExpiryTime(256) }),
        (packet(0x0a, 0, b"", b"", b""), Command::Noop),
        (packet(0x0b, 0, b"", b"", b""), Command::Version),
        (packet(0x10, 0, b"", b"items", b""), Command::Stat { arguments: b"items" }),
        (packet(0x1b, 0, &[0, 0, 0, 2], b"", b""), Command::Verbosity { level: 2 }),
        (packet(0x20, 0, b"", b"", b""), Command::SaslList),
        (
            packet(0x21, 0, b"", b"PLAIN", b"\0u\0p"),
            Command::Sasl { mechanism: b"PLAIN", message: b"\0u\0p", is_first: true },
        ),
    ] {
        assert_eq!(command(&packet), (expected, false));
    }
    assert!(
        command(&packet(0x17, 0, b"", b"", b"")).1 && command(&packet(0x18, 0, b"", b"", b"")).1
    );
}

#[test]
fn limits_hold_at_their_edges() {
    let key = vec![b'k'; KEY_BYTES_MAX + 1];
    command(&packet(0x00, 0, b"", &key[1..], b""));
    assert_eq!(refused(&packet(0x00, 0, b"", &key, b"")), (Status::InvalidArguments, None));

    let mut set = packet(0x01, 0, &[0; 8], b"k", b"");
    for (body_bytes, fits) in [(BODY_BYTES_MAX, true), (BODY_BYTES_MAX + 1, false)] {
        set[8..12].copy_from_slice(&(body_bytes as u32).to_be_bytes());
        assert_eq!(matches!(parse(&set), Parsed::Request { .. }), fits, "{body_bytes}");
    }

    let secret = vec![b'x'; SASL_BYTES_MAX + 1];
    command(&packet(0x21, 0, b"", &[b'M'; 32], &secret[1..]));
    let longer = packet(0x21, 0, b"", b"PLAIN", &secret);
    assert_eq!(refused(&longer), (Status::InvalidArguments, Some(SASL_BYTES_MAX as u64 + 6)));
    let longer = packet(0x21, 0, b"", &[b'M'; 33], b"x");
    assert_eq!(refused(&longer), (Status::InvalidArguments, Some(34)));
}

#[test]
fn lengths_that_do_not_fit_the_opcode_end_the_connection() {
    for bad in [
        packet(0x00, 0, b"", b"", b""),
        packet(0x00, 0, b"", b"k", b"value"),
        packet(0x00, 0, b"1234", b"k", b""),
        packet(0x01, 0, b"1234", b"k", b"v"),
        packet(0x01, 0, &[0; 8], b"", b"v"),
        packet(0x04, 0, b"", b"k", b"v"),
        packet(0x05, 0, &[0; 19], b"k", b""),
        packet(0x07, 0, b"", b"k", b""),
        packet(0x08, 0, b"12", b"", b""),
        packet(0x0a, 0, b"", b"", b"v"),
        packet(0x0e, 0, &[0; 8], b"k", b"v"),
        packet(0x1c, 0, b"", b"k", b""),
        packet(0x21, 0, b"", b"", b"v"),
    ] {
        // The header alone decides.
        assert_eq!(refused(&bad[..HEADER_BYTES]), (Status::InvalidArguments, None), "{bad:?}");
        assert_eq!(parse(&bad[..HEADER_BYTES - 1]), Parsed::Incomplete);
    }
    let mut short = packet(0x00, 0, b"", b"key", b"");
    short[11] = 2;
    assert_eq!(refused(&short), (Status::UnknownCommand, None));
}

#[test]
fn a_command_that_does_not_exist_is_passed_over() {
    for opcode in [0x1f, 0x25, 0x77, 0xff] {
        let packet = packet(opcode, 0, b"12", b"key", b"value");
        assert_eq!(refused(&packet), (Status::UnknownCommand, Some(10)));
    }
}

#[test]
fn another_first_byte_is_another_protocol() {
    assert_eq!(parse(b""), Parsed::Incomplete);
    assert_eq!(parse(b"\x80"), Parsed::Incomplete);
    for byte in (0..=u8::MAX).filter(|&byte| byte != 0x80) {
        assert_eq!(parse(&[byte]), Parsed::Close);
        assert_eq!(Wire::of_first_byte(byte), Wire::Text);
    }
    assert_eq!(Wire::of_first_byte(0x80), Wire::Binary);
}

#[test]
fn replies_are_laid_out_as_clients_read_them() {
    let echo = Echo { opcode: 0x0c, opaque: OPAQUE };
    let mut out = Vec::new();
    reply::hit(&mut out, echo, 0x0102, 7, b"key", 5);
    out.extend_from_slice(b"value");
    let header = b"\x81\x0c\0\x03\x04\0\0\0\0\0\0\x0c\xde\xad\xbe\xef\0\0\0\0\0\0\x01\x02";
    assert_eq!(out, [&header[..], b"\0\0\0\x07keyvalue"].concat());

    out.clear();
    reply::error(&mut out, echo, Status::NotFound);
    let header = b"\x81\x0c\0\0\0\0\0\x01\0\0\0\x09\xde\xad\xbe\xef\0\0\0\0\0\0\0\0";
    assert_eq!(out, [&header[..], b"Not found"].concat());

    out.clear();
    reply::miss(&mut out, echo, b"key");
    let header = b"\x81\x0c\0\x03\0\0\0\x01\0\0\0\x03\xde\xad\xbe\xef\0\0\0\0\0\0\0\0";
    assert_eq!(out, [&header[..], b"key"].concat());

    out.clear();
    reply::number(&mut out, echo, 9, 258);
    let header = b"\x81\x0c\0\0\0\0\0\0\0\0\0\x08\xde\xad\xbe\xef\0\0\0\0\0\0\0\x09";
    assert_eq!(out, [&header[..], b"\0\0\0\0\0\0\x01\x02"].concat());
}

/// A packet with lengths that mostly fit, or some bytes.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let extras = prop::sample::select(vec![0_usize, 4, 8, 20, 3]);
    let shaped = (0..0x28_u8, any::<u64>(), extras, 0..260_usize, 0..60_usize).prop_map(
        |(opcode, cas, extras, key, value)| {
            packet(opcode, cas, &vec![1; extras], &vec![b'k'; key], &vec![b'v'; value])
        },
    );
    let short = (0..0x28_u8, any::<bool>(), 0..20_usize).prop_map(|(opcode, has_extras, value)| {
        let extras: &[u8] = match opcode {
            0x01..=0x03 | 0x11..=0x13 if has_extras => &[2; 8],
            0x05 | 0x06 | 0x15 | 0x16 if has_extras => &[2; 20],
            0x1c..=0x1e | 0x23 | 0x24 if has_extras => &[2; 4],
            _ => b"",
        };
        let value = if matches!(opcode, 0x01..=0x03 | 0x0e | 0x0f | 0x21) { value } else { 0 };
        let key: &[u8] =
            if matches!(opcode, 0x07 | 0x08 | 0x0a | 0x0b | 0x20) { b"" } else { b"key" };
        packet(opcode, 0, extras, key, &vec![b'v'; value])
    });
    prop_oneof![8 => short, 2 => shaped, 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    #[test]
    fn every_cut_of_an_input_gives_the_same_requests(
        packets in prop::collection::vec(any_packet(), 0..12),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        piece_bytes in prop::collection::vec(1..50_usize, 1..6),
    ) {
        let mut stream = packets.concat();
        for (place, byte) in damage {
            if !stream.is_empty() {
                let place = place.index(stream.len());
                stream[place] = byte;
            }
        }
        packets::check(&stream, &piece_bytes);
    }
}
