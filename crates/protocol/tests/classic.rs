//! The classic text commands, line by line.

use larder_protocol::request::{Direction, ExpiryTime, Get, Key, Request, Store, StoreMode};
use larder_protocol::{Dialect, Parsed, Refusal, parse, parse_as};

/// The request in a line; the line end is added here and taken as a whole.
fn request(line: &str) -> Request<'_> {
    match parse(line.as_bytes(), None) {
        Parsed::Request { request, consumed } if consumed == line.len() => request,
        other => panic!("{line:?}: {other:?}"),
    }
}

/// The refusal of a bad line: the error, the bytes swallowed, whether it is silent.
fn refusal(line: &str) -> (Refusal, u64, bool) {
    let input = format!("{line}\r\n");
    match parse(input.as_bytes(), None) {
        Parsed::Refused { error, consumed, swallow_bytes, quiet } if consumed == input.len() => {
            (error, swallow_bytes, quiet)
        }
        other => panic!("{line:?}: {other:?}"),
    }
}

fn key(wire: &str) -> Key<'_> {
    Key::plain(wire.as_bytes())
}

#[test]
fn gets() {
    let touch = Some(ExpiryTime(-7));
    for (line, keys, with_cas, touch) in [
        ("get a\r\n", vec!["a"], false, None),
        ("gets a\n", vec!["a"], true, None),
        ("get  a   b a  \r\n", vec!["a", "b", "a"], false, None),
        ("get a noreply\r\n", vec!["a", "noreply"], false, None),
        ("gat -7 a b\r\n", vec!["a", "b"], false, touch),
        ("gats  -7  a\r\n", vec!["a"], true, touch),
    ] {
        let Request::Get(get) = request(line) else { panic!("{line:?}") };
        let found: Vec<_> = get.keys().map(|key| String::from_utf8_lossy(key)).collect();
        assert_eq!(found, keys, "{line:?}");
        assert_eq!(get, Get { keys: get.keys, with_cas, touch, more: false, refused: None });
        assert_eq!(get.continuation(), None);
    }
}

#[test]
fn a_key_is_any_250_bytes_but_spaces() {
    let wire = [vec![1, 9, 11, 0, 0x7f, 0x80, 0xff], vec![b'k'; 243]].concat();
    let line = [b"get ", &wire[..], b" ", &wire[..], b"\r\n"].concat();
    let Parsed::Request { request: Request::Get(get), .. } = parse(&line, None) else { panic!() };
    assert_eq!(get.keys().collect::<Vec<_>>(), [&wire[..], &wire[..]]);
}

#[test]
fn bad_gets() {
    let long = "k".repeat(251);
    for line in [
        "get",
        "get ",
        "gets   ",
        "gat",
        "gat 0",
        "gats x",
        &format!("get {long}")[..],
        &format!("get a {long} b"),
        &format!("gat 0 a {long}"),
        &format!("get {long} noreply"),
    ] {
        assert_eq!(refusal(line), (Refusal::BadCommandLineFormat, 0, false), "{line}");
    }
    for line in ["gat x a", "gat 2147483648 a", "gats - a", &format!("gat x {long}")[..]] {
        assert_eq!(refusal(line), (Refusal::InvalidExptime, 0, false), "{line}");
    }
}

#[test]
fn stores() {
    let plain = Store {
        key: key("k"),
        mode: StoreMode::Set,
        flags: 1,
        expiry: ExpiryTime(2),
        value_bytes: 3,
        cost_us: 0,
        noreply: false,
    };
    for (line, store) in [
        ("set k 1 2 3\r\n", plain),
        ("set k 1 2 3\n", plain),
        ("set  k  1  2  3  \r\n", plain),
        ("set k 1 2 3 junk\r\n", plain),
        ("set k 1 2 3 noreply junk\r\n", plain),
        ("set k 1 2 3 noreply\r\n", Store { noreply: true, ..plain }),
        ("set k 1 2 3 junk noreply \r\n", Store { noreply: true, ..plain }),
        ("set k +1 +2 3\r\n", plain),
        ("set k 1 -2 3\r\n", Store { expiry: ExpiryTime(-2), ..plain }),
        ("set k 1 4294967295 3\r\n", Store { expiry: ExpiryTime(-1), ..plain }),
        ("set k 1 4294967296 3\r\n", Store { expiry: ExpiryTime(1 << 32), ..plain }),
        ("set k 4294967295 2 0\r\n", Store { flags: u32::MAX, value_bytes: 0, ..plain }),
        ("set k 1 2 2147483645\r\n", Store { value_bytes: 2_147_483_645, ..plain }),
        ("add k 1 2 3\r\n", Store { mode: StoreMode::Add, ..plain }),
        ("replace k 1 2 3\r\n", Store { mode: StoreMode::Replace, ..plain }),
        ("append k 1 2 3\r\n", Store { mode: StoreMode::Append, ..plain }),
        ("prepend k 1 2 3\r\n", Store { mode: StoreMode::Prepend, ..plain }),
        ("cas k 1 2 3 4\r\n", Store { mode: StoreMode::Cas(4), ..plain }),
        (
            "cas k 1 2 3 18446744073709551615 noreply\r\n",
            Store { mode: StoreMode::Cas(u64::MAX), noreply: true, ..plain },
        ),
    ] {
        assert_eq!(request(line), Request::Store(store), "{line:?}");
    }
}

#[test]
fn a_store_without_a_length_swallows_nothing_and_is_never_silent() {
    for line in [
        "set",
        "set k",
        "set k 0 0",
        "set k 0 0 noreply",
        "set k 0 0 -1",
        "set k 0 0 x",
        "set k 0 0 x noreply",
        "set k 0 0 2147483646",
        "set k 0 0 99999999999",
        "set k 0 0 1.5",
        "cas k 0 0 -1 1",
        "append k 0 0 +1",
        "set k 0 0 000000000001",
    ] {
        assert_eq!(refusal(line), (Refusal::BadCommandLineFormat, 0, false), "{line}");
    }
}

#[test]
fn a_bad_store_with_a_length_swallows_its_value() {
    let long = "k".repeat(251);
    for line in [
        "set k -1 0 5",
        "set k x 0 5",
        "set k 4294967296 0 5",
        "set k 0 x 5",
        "set k 0 - 5",
        "set k 0 9223372036854775808 5",
        "cas k 0 0 5",
        "cas k 0 0 5 x",
        "cas k 0 0 5 -1",
        "cas k 0 0 5 18446744073709551616",
        &format!("set {long} 0 0 5")[..],
    ] {
        assert_eq!(refusal(line), (Refusal::BadCommandLineFormat, 7, false), "{line}");
        let silent = format!("{line} noreply");
        assert_eq!(refusal(&silent), (Refusal::BadCommandLineFormat, 7, true), "{line}");
    }
}

/// A line as a server with costs in its text commands reads it: the cost and `noreply` of a store,
/// or the refusal's bytes to swallow and silence.
fn with_costs(line: &str) -> Result<(u32, bool), (u64, bool)> {
    let input = format!("{line}\r\n");
    match parse_as(input.as_bytes(), None, Dialect { text_cost: true }) {
        Parsed::Request { request: Request::Store(store), consumed } => {
            assert_eq!(consumed, input.len());
            assert_eq!((store.key, store.value_bytes), (key("k"), 3), "{line}");
            Ok((store.cost_us, store.noreply))
        }
        Parsed::Refused { error, consumed, swallow_bytes, quiet } => {
            assert_eq!((error, consumed), (Refusal::BadCommandLineFormat, input.len()));
            Err((swallow_bytes, quiet))
        }
        other => panic!("{line:?}: {other:?}"),
    }
}

#[test]
fn a_cost_stands_behind_the_length() {
    for verb in ["set", "add", "replace"] {
        for (end, found) in [
            ("", Ok((0, false))),
            (" noreply", Ok((0, true))),
            (" 1500", Ok((1500, false))),
            ("  1500  noreply ", Ok((1500, true))),
            (" 0", Ok((0, false))),
            (" 0000000000000000000000000000000007", Ok((7, false))),
            (" 4294967295", Ok((u32::MAX, false))),
            (" 4294967296 noreply", Ok((u32::MAX, true))),
            (" 99999999999999999999999999999999", Ok((u32::MAX, false))),
            // Further words behind it are ignored, as they are without costs.
            (" 1500 junk", Ok((1500, false))),
            (" 1500 junk noreply", Ok((1500, true))),
            (" -1", Err((5, false))),
            (" -1 noreply", Err((5, true))),
            (" -0", Err((5, false))),
            (" +1", Err((5, false))),
            (" 1.5", Err((5, false))),
            (" 12us", Err((5, false))),
            (" junk", Err((5, false))),
            (" junk noreply", Err((5, true))),
            (" noreply junk", Err((5, false))),
            (" noreply noreply", Err((5, true))),
            (" noreply 1500", Err((5, false))),
            (" 1500noreply", Err((5, false))),
        ] {
            let line = format!("{verb} k 1 2 3{end}");
            assert_eq!(with_costs(&line), found, "{line}");
        }
    }
}

#[test]
fn other_stores_take_no_cost_and_a_plain_server_none_at_all() {
    for line in ["append k 1 2 3", "prepend k 1 2 3", "cas k 1 2 3 4"] {
        for (end, noreply) in [("", false), (" 1500", false), (" -1 noreply", true)] {
            assert_eq!(with_costs(&format!("{line}{end}")), Ok((0, noreply)), "{line}{end}");
        }
    }
    assert_eq!(with_costs("cas k 1 2 3 -4"), Err((5, false)));
    for line in ["set k 1 2 3 1500\r\n", "add k 1 2 3 -1\r\n", "replace k 1 2 3 99 junk\r\n"] {
        let Request::Store(store) = request(line) else { panic!("{line:?}") };
        assert_eq!((store.cost_us, store.value_bytes), (0, 3), "{line:?}");
    }
}

#[test]
fn a_store_without_a_length_says_so_with_costs_too() {
    for line in ["set k 0 0", "set k 0 0 -1 5", "set k 0 0 x noreply"] {
        assert_eq!(with_costs(line), Err((0, false)), "{line}");
    }
}

#[test]
fn commands_with_one_key() {
    let (k, noreply) = (key("k"), false);
    let up = Direction::Increment;
    for (line, expected) in [
        ("delete k\r\n", Request::Delete { key: k, noreply }),
        ("delete k 0\r\n", Request::Delete { key: k, noreply }),
        ("delete k 5 x\r\n", Request::Delete { key: k, noreply }),
        ("delete k noreply\r\n", Request::Delete { key: k, noreply: true }),
        ("delete noreply\r\n", Request::Delete { key: key("noreply"), noreply: true }),
        ("touch k 10\r\n", Request::Touch { key: k, expiry: ExpiryTime(10), noreply }),
        ("touch k -1 noreply\n", Request::Touch { key: k, expiry: ExpiryTime(-1), noreply: true }),
        ("incr k 1\r\n", Request::Arithmetic { key: k, delta: 1, direction: up, noreply }),
        (
            "decr k 18446744073709551615 noreply\r\n",
            Request::Arithmetic {
                key: k,
                delta: u64::MAX,
                direction: Direction::Decrement,
                noreply: true,
            },
        ),
    ] {
        assert_eq!(request(line), expected, "{line:?}");
    }
}

#[test]
fn bad_commands_with_one_key() {
    let long = "k".repeat(251);
    let format = Refusal::BadCommandLineFormat;
    for (line, error, quiet) in [
        ("delete", format, false),
        ("delete  ", format, false),
        ("touch k", format, false),
        ("touch noreply", format, false),
        ("incr k", format, false),
        ("incr", format, false),
        (&format!("delete {long}"), format, false),
        (&format!("delete {long} noreply"), format, true),
        (&format!("incr {long} x noreply"), format, true),
        (&format!("touch {long} x"), format, false),
        ("touch k x", Refusal::InvalidExptime, false),
        ("touch k noreply", Refusal::InvalidExptime, true),
        ("touch k 2147483648", Refusal::InvalidExptime, false),
        ("incr k -1", Refusal::InvalidDelta, false),
        ("incr k +1", Refusal::InvalidDelta, false),
        ("decr k 18446744073709551616", Refusal::InvalidDelta, false),
        ("incr k 1x noreply", Refusal::InvalidDelta, true),
        ("decr k noreply", Refusal::InvalidDelta, true),
    ] {
        assert_eq!(refusal(line), (error, 0, quiet), "{line}");
    }
}

#[test]
fn bad_prefixes() {
    let long = format!("flush_prefix {}", "k".repeat(251));
    for (line, error, quiet) in [
        ("flush_prefix", Refusal::BadCommandLineFormat, false),
        ("flush_prefix a b c", Refusal::BadCommandLineFormat, false),
        ("flush_prefix a c", Refusal::BadCommandLineFormat, false),
        ("flush_prefix a c noreply", Refusal::BadCommandLineFormat, true),
        ("flush_prefix a noreply b", Refusal::BadCommandLineFormat, false),
        (&long, Refusal::BadCommandLineFormat, false),
        ("flush_prefix a%3A b", Refusal::KeyDecode, false),
        ("flush_prefix a b noreply", Refusal::KeyDecode, true),
    ] {
        assert_eq!(refusal(line), (error, 0, quiet), "{line}");
    }
}

#[test]
fn administration() {
    let noreply = false;
    for (line, expected) in [
        ("flush_all\r\n", Request::FlushAll { delay: ExpiryTime(0), noreply }),
        ("flush_all 9\r\n", Request::FlushAll { delay: ExpiryTime(9), noreply }),
        ("flush_all -1\r\n", Request::FlushAll { delay: ExpiryTime(-1), noreply }),
        ("flush_all noreply\r\n", Request::FlushAll { delay: ExpiryTime(0), noreply: true }),
        ("flush_all 9 noreply\r\n", Request::FlushAll { delay: ExpiryTime(9), noreply: true }),
        ("flush_prefix user:\r\n", Request::FlushPrefix { prefix: Key::plain(b"user:"), noreply }),
        (
            "flush_prefix user: noreply\r\n",
            Request::FlushPrefix { prefix: Key::plain(b"user:"), noreply: true },
        ),
        (
            "flush_prefix noreply\r\n",
            Request::FlushPrefix { prefix: Key::plain(b"noreply"), noreply: true },
        ),
        (
            "flush_prefix dXNlcjo= b noreply\r\n",
            Request::FlushPrefix { prefix: Key { wire: b"dXNlcjo=", base64: true }, noreply: true },
        ),
        ("version\r\n", Request::Version),
        ("quit\r\n", Request::Quit),
        ("quit now\r\n", Request::Quit),
        ("verbosity 1\r\n", Request::Verbosity { noreply }),
        ("verbosity 0 noreply\r\n", Request::Verbosity { noreply: true }),
        ("stats\r\n", Request::Stats { arguments: b"" }),
        ("stats  items  \r\n", Request::Stats { arguments: b"items" }),
        ("stats cachedump 1 2\r\n", Request::Stats { arguments: b"cachedump 1 2" }),
        ("watch fetchers  deletions\r\n", Request::Watch { arguments: b"fetchers  deletions" }),
        (
            "lru_crawler metadump all \r\n",
            Request::Administration { line: b"lru_crawler metadump all" },
        ),
        ("lru mode flat\r\n", Request::Administration { line: b"lru mode flat" }),
        ("slabs automove 0\r\n", Request::Administration { line: b"slabs automove 0" }),
        ("extstore item_age 1\r\n", Request::Administration { line: b"extstore item_age 1" }),
        ("cache_memlimit 64\r\n", Request::CacheMemlimit { megabytes: 64, noreply }),
        ("cache_memlimit 64 noreply\n", Request::CacheMemlimit { megabytes: 64, noreply: true }),
        ("shutdown\r\n", Request::Shutdown { graceful: Some(false) }),
        ("shutdown graceful\r\n", Request::Shutdown { graceful: Some(true) }),
        ("shutdown now\r\n", Request::Shutdown { graceful: None }),
        ("shutdown graceful x\r\n", Request::Shutdown { graceful: None }),
        ("refresh_certs\r\n", Request::RefreshCerts),
    ] {
        assert_eq!(request(line), expected, "{line:?}");
    }
}

#[test]
fn bad_administration() {
    for (line, error, quiet) in [
        ("flush_all x", Refusal::InvalidExptime, false),
        ("flush_all x noreply", Refusal::InvalidExptime, true),
        ("flush_all noreply 1", Refusal::InvalidExptime, false),
        ("verbosity", Refusal::BadCommandLineFormat, false),
        ("verbosity x", Refusal::BadCommandLineFormat, false),
        ("verbosity noreply", Refusal::BadCommandLineFormat, true),
        ("cache_memlimit", Refusal::UnknownCommand, false),
        ("cache_memlimit x", Refusal::UnknownCommand, false),
    ] {
        assert_eq!(refusal(line), (error, 0, quiet), "{line}");
    }
}

#[test]
fn every_refusal_is_a_line() {
    assert_eq!(Refusal::UnknownCommand.line(), "ERROR\r\n");
    assert_eq!(Refusal::BadCommandLineFormat.line(), "CLIENT_ERROR bad command line format\r\n");
    assert_eq!(Refusal::InvalidExptime.line(), "CLIENT_ERROR invalid exptime argument\r\n");
    assert_eq!(Refusal::InvalidDelta.line(), "CLIENT_ERROR invalid numeric delta argument\r\n");
}
