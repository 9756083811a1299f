//! The binary protocol over a socket. The answers of each command in all cases are compared with
//! memcached's by the conformance suite; these tests cover what must hold without it.

use std::io::Write;
use std::process::Command;

use tempfile::TempDir;

use crate::common::{Client, Server};
use crate::packets::Packet;

const GET: u8 = 0x00;
const SET: u8 = 0x01;
const ADD: u8 = 0x02;
const REPLACE: u8 = 0x03;
const DELETE: u8 = 0x04;
const INCREMENT: u8 = 0x05;
const QUIT: u8 = 0x07;
const FLUSH: u8 = 0x08;
const GETQ: u8 = 0x09;
const NOOP: u8 = 0x0a;
const VERSION: u8 = 0x0b;
const GETK: u8 = 0x0c;
const GETKQ: u8 = 0x0d;
const APPEND: u8 = 0x0e;
const STAT: u8 = 0x10;
const SETQ: u8 = 0x11;
const ADDQ: u8 = 0x12;
const DELETEQ: u8 = 0x14;
const QUITQ: u8 = 0x17;
const VERBOSITY: u8 = 0x1b;
const TOUCH: u8 = 0x1c;
const SASL_LIST: u8 = 0x20;

const NOT_FOUND: u16 = 0x01;
const EXISTS: u16 = 0x02;
const TOO_LARGE: u16 = 0x03;
const INVALID: u16 = 0x04;
const NOT_STORED: u16 = 0x05;
const NON_NUMERIC: u16 = 0x06;
const UNKNOWN: u16 = 0x81;

/// Client flags 7, no expiry.
const SEVEN: &[u8] = &[0, 0, 0, 7, 0, 0, 0, 0];

fn set<'a>(key: &'a [u8], value: &'a [u8]) -> Packet<'a> {
    Packet { opcode: SET, extras: SEVEN, key, value, ..Packet::default() }
}

fn with_key(opcode: u8, key: &[u8]) -> Packet<'_> {
    Packet { opcode, key, ..Packet::default() }
}

fn bare(opcode: u8, opaque: u32) -> Packet<'static> {
    Packet { opcode, opaque, ..Packet::default() }
}

/// Both kinds of client on one port.
fn clients(server: &Server) -> (Client, Client) {
    (server.connect(), server.connect())
}

#[test]
fn items_stored_in_one_protocol_are_found_in_the_other() {
    let server = Server::start(&[]);
    let (mut text, mut binary) = clients(&server);
    let cas = binary.expect_status(&set(b"a", b"one"), 0);
    text.ask("gets a\r\n", &format!("VALUE a 7 3 {cas}\r\none\r\nEND\r\n"));
    text.ask("set b 9 0 3\r\ntwo\r\n", "STORED\r\n");
    let answer = binary.call(&with_key(GETK, b"b"));
    assert_eq!((answer.status, &answer.extras[..]), (0, &[0, 0, 0, 9][..]));
    assert_eq!((&answer.key[..], &answer.value[..]), (&b"b"[..], &b"two"[..]));
    text.ask(&format!("cas b 0 0 1 {}\r\nx\r\n", answer.cas), "STORED\r\n");
    // A key that no line of text can hold is dumped in base64.
    binary.expect_status(&set(b"a key", b"x"), 0);
    text.send(b"lru_crawler mgdump all\r\n");
    let dump = text.read_to("EN\r\n");
    assert!(dump.contains("mg YSBrZXk= b\r\n") && dump.contains("mg a\r\n"), "{dump}");
}

#[test]
fn conditions_and_their_refusals() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let cas = client.expect_status(&set(b"a", b"1"), 0);
    client.expect_status(&Packet { opcode: ADD, ..set(b"a", b"2") }, EXISTS);
    client.expect_status(&Packet { opcode: REPLACE, ..set(b"b", b"2") }, NOT_FOUND);
    client.expect_status(&Packet { opcode: APPEND, extras: b"", ..set(b"b", b"2") }, NOT_STORED);
    client.expect_status(&Packet { cas: cas + 100, ..set(b"a", b"2") }, EXISTS);
    client.expect_status(&Packet { cas, ..set(b"b", b"2") }, NOT_FOUND);
    client.expect_status(&Packet { cas: cas + 100, ..with_key(DELETE, b"a") }, EXISTS);
    let cas = client.expect_status(&Packet { cas, ..set(b"a", b"2") }, 0);
    client.expect_status(&Packet { cas, ..with_key(DELETE, b"a") }, 0);
    client.expect_status(&with_key(DELETE, b"a"), NOT_FOUND);
    assert_eq!(server.stat("cas_badval"), 1);
    assert_eq!(server.stat("delete_hits"), 1);
}

#[test]
fn a_large_value_is_refused_and_takes_the_old_one_with_it() {
    let server = Server::start(&["-I", "1m"]);
    let mut client = server.connect();
    let large = vec![b'x'; 2 << 20];
    client.expect_status(&set(b"a", b"old"), 0);
    client.expect_status(&Packet { opcode: APPEND, extras: b"", ..set(b"a", &large) }, TOO_LARGE);
    assert_eq!(client.call(&with_key(GET, b"a")).value, b"old");
    client.expect_status(&set(b"a", &large), TOO_LARGE);
    assert_eq!(client.call(&with_key(GET, b"a")).value, b"Not found");
}

#[test]
fn a_value_streams_in_however_it_is_cut() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    // The longest is read straight into its place, the others by way of the buffer.
    for bytes in [1, 5, 1000, 70_000, 900_000] {
        let value: Vec<u8> = (0..bytes).map(|place| (place * 7) as u8).collect();
        let packet = set(b"key", &value).bytes();
        for first in [1, 10, 24, 33, 35, packet.len() / 2, packet.len() - 1] {
            let (before, behind) = packet.split_at(first.min(packet.len() - 1));
            client.send(before);
            client.stream.flush().expect("it is written");
            // Another client's reply: by then the server has most likely read the first part.
            server.connect().ask("mn\r\n", "MN\r\n");
            client.send(behind);
            assert_eq!(client.answer().status, 0);
            assert!(client.call(&with_key(GET, b"key")).value == value, "{bytes} bytes, {first}");
        }
    }
}

#[test]
fn quiet_requests_answer_only_hits_and_errors() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let batch = [
        Packet { opcode: SETQ, opaque: 1, ..set(b"a", b"x") },
        Packet { opcode: ADDQ, opaque: 2, ..set(b"a", b"y") },
        Packet { opaque: 3, ..with_key(GETQ, b"missing") },
        Packet { opaque: 4, ..with_key(GETKQ, b"a") },
        Packet { opaque: 5, ..with_key(DELETEQ, b"missing") },
        Packet { opaque: 6, ..with_key(DELETEQ, b"a") },
        Packet { opaque: 7, ..with_key(GETKQ, b"a") },
        bare(NOOP, 8),
    ];
    client.send(&batch.each_ref().map(Packet::bytes).concat());
    let answers: Vec<_> = (0..4).map(|_| client.answer()).collect();
    let told: Vec<_> = answers.iter().map(|it| (it.opaque, it.status)).collect();
    assert_eq!(told, [(2, EXISTS), (4, 0), (5, NOT_FOUND), (8, 0)]);
    assert_eq!((&answers[1].key[..], &answers[1].value[..]), (&b"a"[..], &b"x"[..]));
}

#[test]
fn numbers_are_made_and_counted() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let extras = |delta: u64, initial: u64, expiry: u32| {
        [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &expiry.to_be_bytes()].concat()
    };
    let never = extras(1, 40, u32::MAX);
    let increment = Packet { opcode: INCREMENT, extras: &never, ..with_key(0, b"n") };
    client.expect_status(&increment, NOT_FOUND);
    let created = client.call(&Packet { extras: &extras(1, 40, 0), ..increment.clone() });
    assert_eq!((created.status, created.value), (0, 40_u64.to_be_bytes().to_vec()));
    let counted = client.call(&Packet { cas: created.cas, ..increment.clone() });
    assert_eq!((counted.status, counted.value), (0, 41_u64.to_be_bytes().to_vec()));
    client.expect_status(&Packet { cas: created.cas, ..increment.clone() }, EXISTS);
    client.expect_status(&set(b"n", b"word"), 0);
    client.expect_status(&increment, NON_NUMERIC);
    for (name, count) in [("incr_misses", 1), ("incr_hits", 1)] {
        assert_eq!(server.stat(name), count, "{name}");
    }
}

#[test]
fn an_expiry_is_changed_and_its_item_told() {
    let server = Server::start(&[]);
    let (mut text, mut client) = clients(&server);
    client.expect_status(&set(b"a", b"x"), 0);
    let touch = Packet { opcode: TOUCH, extras: &[0, 0, 4, 0], ..with_key(0, b"a") };
    let answer = client.call(&touch);
    assert_eq!((answer.status, &answer.extras[..]), (0, &[0, 0, 0, 7][..]));
    assert!(answer.value.is_empty());
    text.send(b"mg a t\r\n");
    let line = text.read_to("\r\n");
    assert!(line.starts_with("HD t10"), "of 1024 seconds few have passed: {line}");
    client.expect_status(&Packet { key: b"b", ..touch }, NOT_FOUND);
    assert_eq!((server.stat("cmd_touch"), server.stat("touch_hits")), (2, 1));
}

#[test]
fn requests_about_the_server() {
    let server = Server::start(&[]);
    let (mut text, mut client) = clients(&server);
    text.send(b"version\r\n");
    let version = text.read_to("\r\n");
    let answer = client.call(&bare(VERSION, 1));
    assert_eq!(version, format!("VERSION {}\r\n", String::from_utf8_lossy(&answer.value)));

    client.send(&Packet { opcode: STAT, key: b"settings", ..Packet::default() }.bytes());
    let mut settings = Vec::new();
    loop {
        let answer = client.answer();
        if answer.key.is_empty() {
            assert!(answer.value.is_empty());
            break;
        }
        settings.push(answer);
    }
    let of = |name: &str| {
        let found = settings.iter().find(|setting| setting.key == name.as_bytes());
        String::from_utf8_lossy(&found.expect("it is there").value).into_owned()
    };
    assert_eq!(
        (of("binding_protocol"), of("maxbytes")),
        ("auto-negotiate".into(), "67108864".into())
    );
    // As in memcached: all statistics of prefixes are one value, though there may be none.
    for known in ["", "PREFIX a get 0 hit 0 set 1 del 0\r\n"] {
        client.send(&with_key(STAT, b"detail dump").bytes());
        let dump = client.answer();
        assert_eq!(
            (&*dump.key, &*dump.value),
            (&b"detailed"[..], format!("{known}END\r\n").as_bytes())
        );
        assert!(client.answer().key.is_empty());
        client.expect_status(&with_key(STAT, b"detail on"), 0);
        client.expect_status(&set(b"a:1", b"x"), 0);
    }
    client.expect_status(&with_key(STAT, b"nonsense"), NOT_FOUND);
    client.expect_status(&with_key(STAT, b"items and more"), NOT_FOUND);
    client.expect_status(&with_key(STAT, b"reset and more"), 0);

    client.expect_status(&Packet { extras: &[0, 0, 0, 2], ..bare(VERBOSITY, 2) }, 0);
    text.send(b"stats settings\r\n");
    assert!(text.read_to("END\r\n").contains("STAT verbosity 2\r\n"));

    client.expect_status(&set(b"a", b"x"), 0);
    client.expect_status(&bare(FLUSH, 3), 0);
    client.expect_status(&with_key(GET, b"a"), NOT_FOUND);
    client.expect_status(&bare(SASL_LIST, 4), UNKNOWN);
    client.send(&[bare(QUITQ, 5).bytes(), bare(NOOP, 6).bytes()].concat());
    client.expect_end();
    let mut other = server.connect();
    other.expect_status(&bare(QUIT, 7), 0);
    other.expect_end();
}

#[test]
fn statistics_by_namespaces_are_not_told_where_dumps_are_not() {
    let server = Server::start(&["-X", "-D", ":"]);
    let mut client = server.connect();
    client.expect_status(&set(b"user:secret", b"x"), 0);
    for key in [&b"detail on"[..], b"detail off", b"detail dump"] {
        client.expect_status(&with_key(STAT, key), NOT_FOUND);
    }
}

#[test]
fn invalid_headers_are_answered_and_end_the_connection_or_not() {
    let server = Server::start(&["-F"]);
    let mut client = server.connect();
    let unknown = Packet { opcode: 0x77, value: b"skipped", ..Packet::default() };
    client.expect_status(&unknown, UNKNOWN);
    client.expect_status(&bare(FLUSH, 1), 0x20);
    client.expect_status(&Packet { extras: b"1234", ..with_key(GET, b"a") }, INVALID);
    client.expect_end();
    // A header whose lengths do not fit.
    let mut client = server.connect();
    client.send(&[0x80; 24]);
    assert_eq!(client.answer().status, INVALID);
    client.expect_end();
    // Another protocol in the middle.
    let mut client = server.connect();
    client.expect_status(&bare(NOOP, 2), 0);
    client.send(b"mn\r\n");
    client.expect_end();
}

#[test]
fn without_uniques_none_is_told_and_none_matches() {
    let server = Server::start(&["-C"]);
    let mut client = server.connect();
    assert_eq!(client.expect_status(&set(b"a", b"x"), 0), 0);
    assert_eq!(client.call(&with_key(GET, b"a")).cas, 0);
    client.expect_status(&Packet { cas: 1, ..set(b"a", b"y") }, EXISTS);
}

#[test]
fn the_protocol_can_be_chosen() {
    let server = Server::start(&["-B", "ascii"]);
    let (mut text, mut binary) = clients(&server);
    text.send(b"stats settings\r\n");
    assert!(text.read_to("END\r\n").contains("STAT binding_protocol ascii\r\n"));
    binary.send(&bare(NOOP, 1).bytes());
    binary.expect_end();

    let server = Server::start(&["-B", "binary"]);
    let (mut text, mut binary) = clients(&server);
    binary.expect_status(&bare(NOOP, 1), 0);
    text.send(b"version\r\n");
    text.expect_end();

    let output = Command::new(env!("CARGO_BIN_EXE_larder")).args(["-B", "redis"]).output();
    assert_eq!(output.expect("it runs").status.code(), Some(64));
}

/// Items that a binary client stores and reads, more than fit in memory, until enough were found on
/// flash and promoted, as every hit shows its CAS unique: a request that has to wait for a read is
/// executed again from its start.
#[test]
fn items_on_flash_are_read_in_order() {
    const ITEMS: u32 = 20_000;
    const ROUNDS_MAX: usize = 20;
    let folder = TempDir::new().expect("a folder");
    let flash = format!("{}:64m", folder.path().join("flash").display());
    let server = Server::start(&["-m", "16", "--hot-target", "1", "--flash", &flash]);
    let mut client = server.connect();
    let value = |number: u32| -> Vec<u8> {
        let word =
            |part: u64| format!("{:x}", (u64::from(number) * 256 + part).wrapping_mul(0x9e37_79b9));
        (0..150).flat_map(|part| word(part).into_bytes()).collect()
    };
    let mut found = 0;
    for _ in 0..ROUNDS_MAX {
        for number in 0..ITEMS {
            let (key, value) = (format!("k{number}"), value(number));
            client.send(&Packet { opcode: SETQ, ..set(key.as_bytes(), &value) }.bytes());
            if number % 100 == 99 {
                client.expect_status(&bare(NOOP, number), 0);
            }
        }
        for first in (0..ITEMS).step_by(50) {
            let mut batch = Vec::new();
            for number in first..first + 50 {
                let key = format!("k{number}");
                let opcode = if number % 2 == 0 { GETKQ } else { GETQ };
                let get = Packet { opaque: number, ..with_key(opcode, key.as_bytes()) };
                batch.extend_from_slice(&get.bytes());
            }
            batch.extend_from_slice(&bare(NOOP, ITEMS).bytes());
            client.send(&batch);
            let mut last = None;
            loop {
                let answer = client.answer();
                if answer.opaque == ITEMS {
                    break;
                }
                assert!(answer.value == value(answer.opaque), "k{}", answer.opaque);
                assert!(last < Some(answer.opaque), "replies keep their order");
                (last, found) = (Some(answer.opaque), found + 1);
            }
        }
        if server.stat("recache_from_extstore") >= 100 {
            break;
        }
    }
    assert!(found > 0 && server.stat("recache_from_extstore") >= 100);
    assert_eq!(server.stat("miss_from_extstore"), 0);
}
