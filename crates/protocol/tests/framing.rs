//! Line ends, bytes that come from no client, and multigets that are longer than a buffer.

use larder_protocol::parse::LINE_BYTES_MAX;
use larder_protocol::request::{Get, GetContinuation, Request};
use larder_protocol::{Parsed, Refusal, parse};

fn refused(error: Refusal, consumed: usize) -> Parsed<'static> {
    Parsed::Refused { error, consumed, swallow_bytes: 0, quiet: false }
}

#[test]
fn line_ends() {
    for (input, consumed) in [
        (&b"version\r\n"[..], 9),
        (b"version\n", 8),
        (b"version  \r\n", 11),
        (b"version x y\r\n", 13),
        (b"version\r\nversion\r\n", 9),
    ] {
        assert_eq!(parse(input, None), Parsed::Request { request: Request::Version, consumed });
    }
    assert_eq!(parse(b"version\r\r\n", None), refused(Refusal::UnknownCommand, 10));
    for input in [&b""[..], b"g", b"version", b"version\r"] {
        assert_eq!(parse(input, None), Parsed::Incomplete, "{input:?}");
    }
}

#[test]
fn short_lines() {
    for (input, consumed) in
        [(&b"\n"[..], 1), (b"\r\n", 2), (b"a\r\n", 3), (b"mn\n", 3), (b"get\n", 4)]
    {
        assert_eq!(parse(input, None), refused(Refusal::BadCommandLineFormat, consumed));
    }
    assert_eq!(parse(b"mn\r\n", None), Parsed::Request { request: Request::MetaNoop, consumed: 4 });
}

#[test]
fn lines_without_a_known_verb() {
    for line in [
        "    ",
        " get a",
        "GET a",
        "Get a",
        "get\ta",
        "geta b",
        "mx a",
        "m a",
        "\0\0\0\0",
        "\"get\" a",
        "HTTP/1.1",
        "get_ a",
        "sets a 0 0 1",
    ] {
        let input = format!("{line}\r\n");
        assert_eq!(
            parse(input.as_bytes(), None),
            refused(Refusal::UnknownCommand, input.len()),
            "{line:?}"
        );
    }
}

/// memcached looks for a last word `noreply` before it knows the verb.
#[test]
fn an_unknown_verb_hears_noreply() {
    let error = Refusal::UnknownCommand;
    let quiet = Parsed::Refused { error, consumed: 13, swallow_bytes: 0, quiet: true };
    assert_eq!(parse(b"foo noreply\r\n", None), quiet);
    assert_eq!(parse(b"noreply foo\r\n", None), refused(error, 13));
}

#[test]
fn browsers_are_not_answered() {
    for line in ["GET / HTTP/1.1", "POST /x HTTP/", "foo HTTP/2  ", " GET / HTTP/1.0"] {
        assert_eq!(parse(format!("{line}\r\n").as_bytes(), None), Parsed::Close, "{line}");
    }
    assert!(matches!(parse(b"get / HTTP/1.1\r\n", None), Parsed::Request { .. }));
    assert!(matches!(parse(b"GET / HTTP/1.1 x\r\n", None), Parsed::Refused { .. }));
    assert!(matches!(parse(b"GET / http/1.1\r\n", None), Parsed::Refused { .. }));
}

/// Regression: a line that begins as a binary packet closed a connection of text. Only a
/// connection's first byte decides its protocol.
#[test]
fn a_line_that_begins_as_a_packet_is_an_unknown_command() {
    assert_eq!(parse(b"\x80", None), Parsed::Incomplete);
    assert_eq!(parse(b"\x80\x00\r\n", None), refused(Refusal::UnknownCommand, 4));
    assert_eq!(parse(b"\x81\x00\r\n", None), refused(Refusal::UnknownCommand, 4));
}

#[test]
fn a_line_without_end_closes_unless_it_is_a_multiget() {
    for start in ["", "set ", "get", "getsx ", "mg ", "delete ", "GET ", "stats "] {
        let mut input = start.as_bytes().to_vec();
        input.resize(LINE_BYTES_MAX, b'a');
        assert_eq!(parse(&input, None), Parsed::Incomplete, "{start}");
        input.push(b'a');
        assert_eq!(parse(&input, None), Parsed::Close, "{start}");
    }
    for spaces in [0, 1, 100, 101] {
        for verb in ["get", "gets"] {
            let input = format!("{}{verb} {}", " ".repeat(spaces), "a ".repeat(1100));
            let closes = parse(input.as_bytes(), None) == Parsed::Close;
            assert_eq!(closes, spaces > 100, "{spaces} {verb}");
        }
    }
    assert_eq!(parse(&[b' '; LINE_BYTES_MAX + 1], None), Parsed::Close);
}

#[test]
fn a_long_line_that_has_arrived_is_a_line() {
    let input = format!("stats {}\r\n", "x".repeat(5000));
    assert!(matches!(parse(input.as_bytes(), None), Parsed::Request { .. }));
}

/// Regression: each of 900 connections that sent no value kept 60,000 bytes of a line, uncounted.
#[test]
fn a_line_before_a_value_has_the_same_limit_whole_and_in_pieces() {
    for (begin, byte) in [("set key 0 0 10", " "), ("ms key 10 P", "x"), ("ms key 10 L", "x")] {
        let of_bytes = |bytes: usize| format!("{begin}{}\r\n", byte.repeat(bytes - begin.len()));
        let longest = of_bytes(LINE_BYTES_MAX);
        let parsed = parse(longest.as_bytes(), None);
        let consumed = longest.len();
        assert!(matches!(parsed, Parsed::Request { consumed: c, .. } if c == consumed), "{begin}");
        let too_long = of_bytes(LINE_BYTES_MAX + 1);
        assert_eq!(parse(too_long.as_bytes(), None), Parsed::Close, "{begin}");
    }
}

/// Feeds a line through a buffer that is filled `read_bytes` at a time, and returns its keys and
/// its end.
fn multiget(line: &[u8], read_bytes: usize) -> (Vec<Vec<u8>>, Result<Get<'static>, Refusal>) {
    let mut keys = Vec::new();
    let mut buffer: Vec<u8> = Vec::new();
    let mut continuation: Option<GetContinuation> = None;
    for read in line.chunks(read_bytes) {
        buffer.extend_from_slice(read);
        assert!(buffer.len() <= LINE_BYTES_MAX + 1 + read_bytes, "the buffer stays bounded");
        match parse(&buffer, continuation) {
            Parsed::Incomplete => {}
            Parsed::Request { request: Request::Get(get), consumed } => {
                keys.extend(get.keys().map(<[u8]>::to_vec));
                continuation = get.continuation();
                if !get.more {
                    return (keys, Ok(Get { keys: b"", ..get }));
                }
                buffer.drain(..consumed);
            }
            Parsed::Refused { error, .. } => return (keys, Err(error)),
            other => panic!("{other:?}"),
        }
    }
    panic!("the line has not ended");
}

#[test]
fn a_multiget_has_no_longest_line() {
    let keys: Vec<Vec<u8>> = (0..3000).map(|i| format!("key-{}", i * i).into_bytes()).collect();
    for (verb, with_cas) in [("get", false), ("gets", true), ("gat 5", false), ("gats 5", true)] {
        let line = format!("{verb} {}", String::from_utf8_lossy(&keys.join(&b' ')));
        for end in ["\r\n", "\n", "  \r\n"] {
            for read_bytes in [1, 7, 100, 2048, 2049, 4096, 1 << 20] {
                let (found, get) = multiget(format!("{line}{end}").as_bytes(), read_bytes);
                assert_eq!(found, keys);
                let get = get.expect("the line is good");
                assert_eq!((get.with_cas, get.touch.is_some()), (with_cas, verb.contains('5')));
            }
        }
    }
}

#[test]
fn half_a_line_end_is_no_part_of_a_key() {
    for key_bytes in [250, 251] {
        let key = "k".repeat(key_bytes);
        let spaces = " ".repeat(LINE_BYTES_MAX - "get a".len() - key_bytes);
        let line = format!("get a{spaces}{key}\r\n");
        let (_, end) = multiget(line.as_bytes(), 1);
        assert_eq!(end.is_ok(), key_bytes == 250);
    }
    let line = format!("get{}\r\n", " ".repeat(LINE_BYTES_MAX - 3));
    assert_eq!(multiget(line.as_bytes(), 1).1, Err(Refusal::BadCommandLineFormat));
}

#[test]
fn a_bad_multiget_in_pieces_is_refused_at_its_end() {
    let keys = "key ".repeat(1000);
    let long = "k".repeat(251);
    let very_long = "k".repeat(9000);
    for (line, error) in [
        (format!("get {keys}{long}"), Refusal::BadCommandLineFormat),
        (format!("get {keys}{long} {keys}"), Refusal::BadCommandLineFormat),
        (format!("get {long} {keys}"), Refusal::BadCommandLineFormat),
        (format!("get {very_long}"), Refusal::BadCommandLineFormat),
        (format!("gets {very_long} {keys}"), Refusal::BadCommandLineFormat),
        (format!("gat soon {keys}"), Refusal::InvalidExptime),
        (format!("gat {very_long} {keys}"), Refusal::BadCommandLineFormat),
        (format!("get {}", " ".repeat(9000)), Refusal::BadCommandLineFormat),
        (format!("get {}k", " ".repeat(9000)), Refusal::BadCommandLineFormat),
        (format!(" get {keys}"), Refusal::UnknownCommand),
        (format!("  gets {keys}"), Refusal::UnknownCommand),
    ] {
        for read_bytes in [1, 100, 2049, 1 << 20] {
            let (_, end) = multiget(format!("{line}\r\n").as_bytes(), read_bytes);
            assert_eq!(end, Err(error), "{} by {read_bytes}", &line[..20]);
        }
    }
}
