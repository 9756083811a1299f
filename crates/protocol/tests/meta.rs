//! The meta commands, line by line.

use larder_protocol::request::{
    Direction, ExpiryTime, KEY_BYTES_MAX, Key, KeyRoom, MetaArithmetic, MetaDelete, MetaFlags,
    MetaGet, MetaSet, Request, StoreMode,
};
use larder_protocol::{Parsed, Refusal, parse};

fn request(line: &str) -> Request<'_> {
    match parse(line.as_bytes(), None) {
        Parsed::Request { request, consumed } if consumed == line.len() => request,
        other => panic!("{line:?}: {other:?}"),
    }
}

/// The error of a bad line and the bytes it swallows. Errors of meta commands are never silent.
fn refusal(line: &str) -> (Refusal, u64) {
    let input = format!("{line}\r\n");
    match parse(input.as_bytes(), None) {
        Parsed::Refused { error, consumed, swallow_bytes, quiet: false }
            if consumed == input.len() =>
        {
            (error, swallow_bytes)
        }
        other => panic!("{line:?}: {other:?}"),
    }
}

fn flags(line: &str, tokens_before: usize) -> MetaFlags<'_> {
    let mut line = line.trim_end_matches(['\r', '\n']);
    for _ in 0..tokens_before {
        line = line.trim_start_matches(' ');
        line = &line[line.find(' ').unwrap_or(line.len())..];
    }
    MetaFlags(line.as_bytes())
}

const GET: MetaGet<'_> = MetaGet {
    key: Key { wire: b"k", base64: false },
    flags: MetaFlags(b""),
    value: false,
    quiet: false,
    touch: None,
    vivify: None,
    recache: None,
    new_cas: None,
    known_cas: None,
};

#[test]
fn gets() {
    let base64 = Key { wire: b"Zm9v", base64: true };
    for (line, get) in [
        ("mg k\r\n", GET),
        ("mg k\n", GET),
        ("mg  k  \r\n", GET),
        ("mg k v\r\n", MetaGet { value: true, ..GET }),
        ("mg k  v  q \r\n", MetaGet { value: true, quiet: true, ..GET }),
        ("mg k c f h k l O123 s t u L Px\r\n", GET),
        ("mg k T30\r\n", MetaGet { touch: Some(ExpiryTime(30)), ..GET }),
        ("mg k T-1\r\n", MetaGet { touch: Some(ExpiryTime(-1)), ..GET }),
        ("mg k N0 v\r\n", MetaGet { vivify: Some(ExpiryTime(0)), value: true, ..GET }),
        (
            "mg k R30 E7 C8\r\n",
            MetaGet { recache: Some(ExpiryTime(30)), new_cas: Some(7), known_cas: Some(8), ..GET },
        ),
        ("mg Zm9v b k\r\n", MetaGet { key: base64, ..GET }),
        // Flags of other commands mean nothing, but they are no error.
        ("mg k I x F1 M J1 D1\r\n", GET),
    ] {
        let expected = MetaGet { flags: flags(line, 2), ..get };
        assert_eq!(request(line), Request::MetaGet(expected), "{line:?}");
    }
}

#[test]
fn flags_are_handed_on_in_order() {
    let Request::MetaGet(get) = request("mg k  O12  v  k T5 \r\n") else { panic!() };
    let tokens: Vec<_> = get.flags.iter().collect();
    assert_eq!(tokens, [(b'O', &b"12"[..]), (b'v', b""), (b'k', b""), (b'T', b"5")]);
}

#[test]
fn sets() {
    let set = MetaSet {
        key: Key::plain(b"k"),
        flags: MetaFlags(b""),
        value_bytes: 2,
        mode: StoreMode::Set,
        client_flags: 0,
        expiry: ExpiryTime(0),
        compare_cas: None,
        new_cas: None,
        invalidate: false,
        vivify: None,
        quiet: false,
        cost_us: 0,
    };
    let mode = |mode| MetaSet { mode, ..set };
    for (line, set) in [
        ("ms k 2\r\n", set),
        ("ms  k  2  \n", set),
        ("ms k 0\r\n", MetaSet { value_bytes: 0, ..set }),
        ("ms k 2147483645\r\n", MetaSet { value_bytes: 2_147_483_645, ..set }),
        ("ms k 2 c k O1 s L\r\n", set),
        ("ms k 2 q\r\n", MetaSet { quiet: true, ..set }),
        (
            "ms k 2 F4294967295 T-5\r\n",
            MetaSet { client_flags: u32::MAX, expiry: ExpiryTime(-5), ..set },
        ),
        (
            "ms k 2 C1 E18446744073709551615 I\r\n",
            MetaSet { compare_cas: Some(1), new_cas: Some(u64::MAX), invalidate: true, ..set },
        ),
        ("ms k 2 C0\r\n", MetaSet { compare_cas: Some(0), ..set }),
        ("ms k 2 MS\r\n", set),
        ("ms k 2 ME\r\n", mode(StoreMode::Add)),
        ("ms k 2 MR\r\n", mode(StoreMode::Replace)),
        ("ms k 2 MA\r\n", mode(StoreMode::Append)),
        ("ms k 2 MP N9\r\n", MetaSet { vivify: Some(ExpiryTime(9)), ..mode(StoreMode::Prepend) }),
        ("ms k 2 MAppend\r\n", mode(StoreMode::Append)),
        ("ms k 2 Pproxy Lanything\r\n", set),
        ("ms Zm9v 2 b\r\n", MetaSet { key: Key { wire: b"Zm9v", base64: true }, ..set }),
    ] {
        let expected = MetaSet { flags: flags(line, 3), ..set };
        assert_eq!(request(line), Request::MetaSet(expected), "{line:?}");
    }
}

#[test]
fn a_cost_is_pc_and_digits_and_every_other_p_is_ignored() {
    for (flag, cost_us) in [
        ("Pc1500", 1500),
        ("Pc0", 0),
        ("Pc007", 7),
        ("Pc4294967295", u32::MAX),
        ("Pc4294967296", u32::MAX),
        ("Pc99999999999999999999999999", u32::MAX),
        ("P", 0),
        ("Pc", 0),
        ("Pc-1", 0),
        ("Pc+1", 0),
        ("Pc1.5", 0),
        ("Pc12x", 0),
        ("Pcat", 0),
        ("PC1500", 0),
        ("P1500", 0),
        ("Pproxy", 0),
    ] {
        for mode in ["MS", "ME", "MR", "MA", "MP N0"] {
            let line = format!("ms k 2 q {flag} {mode}\r\n");
            let Request::MetaSet(set) = request(&line) else { panic!("{line:?}") };
            assert_eq!((set.cost_us, set.quiet), (cost_us, true), "{line:?}");
        }
        for line in [format!("mg k {flag} v\r\n"), format!("md k {flag}\r\n")] {
            request(&line);
        }
        request(&format!("ma k {flag} N0\r\n"));
        request(&format!("me k {flag}\r\n"));
    }
    assert_eq!(refusal("ms k 2 Pc1 Pc2"), (Refusal::DuplicateFlag, 4));
    assert_eq!(refusal("ms k 2 Pproxy Pc2"), (Refusal::DuplicateFlag, 4));
}

#[test]
fn a_set_without_a_length_swallows_nothing() {
    for line in [
        "ms",
        "ms  ",
        "ms k",
        "ms k -1",
        "ms k x",
        "ms k S2",
        "ms k 2147483646",
        "ms k c 2",
        "ms k 2 !",
        "ms k 2 c {",
    ] {
        assert_eq!(refusal(line), (Refusal::BadCommandLineFormat, 0), "{line}");
    }
}

#[test]
fn a_bad_set_with_a_length_swallows_its_value() {
    let long = "k".repeat(251);
    let opaque = "o".repeat(32);
    for (line, error) in [
        (format!("ms {long} 2"), Refusal::BadCommandLineFormat),
        ("ms k 2 Fx".to_string(), Refusal::BadCommandLineFormat),
        ("ms k 2 F4294967296".to_string(), Refusal::BadCommandLineFormat),
        ("ms k 2 F-1".to_string(), Refusal::BadCommandLineFormat),
        ("ms k 2 S2".to_string(), Refusal::InvalidFlag),
        ("ms k 2 c c".to_string(), Refusal::DuplicateFlag),
        ("ms k 2 Tx".to_string(), Refusal::BadToken),
        ("ms k 2 MX".to_string(), Refusal::InvalidSetMode),
        ("ms k 2 Me".to_string(), Refusal::InvalidSetMode),
        ("ms k 2 M".to_string(), Refusal::InvalidSetMode),
        ("ms k! 2 b".to_string(), Refusal::KeyDecode),
        (format!("ms k 2 O{opaque}"), Refusal::OpaqueTooLong),
        (format!("ms k 2 MX O{opaque}"), Refusal::InvalidSetMode),
        (format!("ms k 2{}", " v".repeat(18)), Refusal::OptionsTooLong),
    ] {
        assert_eq!(refusal(&line), (error, 4), "{line}");
    }
}

#[test]
fn deletes() {
    let delete = MetaDelete {
        key: Key::plain(b"k"),
        flags: MetaFlags(b""),
        compare_cas: None,
        new_cas: None,
        invalidate: false,
        touch: None,
        drop_value: false,
        client_flags: 0,
        quiet: false,
    };
    for (line, delete) in [
        ("md k\r\n", delete),
        ("md k q k O1\r\n", MetaDelete { quiet: true, ..delete }),
        ("md k I T30\r\n", MetaDelete { invalidate: true, touch: Some(ExpiryTime(30)), ..delete }),
        (
            "md k x C1 E2\r\n",
            MetaDelete { drop_value: true, compare_cas: Some(1), new_cas: Some(2), ..delete },
        ),
        ("md k F7 x\r\n", MetaDelete { drop_value: true, client_flags: 7, ..delete }),
        // Here 0 is a unique, to compare and to give.
        ("md k C0 E0\r\n", MetaDelete { compare_cas: Some(0), new_cas: Some(0), ..delete }),
    ] {
        let expected = MetaDelete { flags: flags(line, 2), ..delete };
        assert_eq!(request(line), Request::MetaDelete(expected), "{line:?}");
    }
}

#[test]
fn arithmetic() {
    let one = MetaArithmetic {
        key: Key::plain(b"k"),
        flags: MetaFlags(b""),
        direction: Direction::Increment,
        delta: 1,
        initial: 0,
        vivify: None,
        touch: None,
        compare_cas: None,
        new_cas: None,
        value: false,
        quiet: false,
    };
    let down = MetaArithmetic { direction: Direction::Decrement, ..one };
    for (line, arithmetic) in [
        ("ma k\r\n", one),
        ("ma k MI\r\n", one),
        ("ma k M+\r\n", one),
        ("ma k MD\r\n", down),
        ("ma k M-\r\n", down),
        ("ma k D0 v\r\n", MetaArithmetic { delta: 0, value: true, ..one }),
        (
            "ma k N30 J13 D7 T9 q\r\n",
            MetaArithmetic {
                vivify: Some(ExpiryTime(30)),
                initial: 13,
                delta: 7,
                touch: Some(ExpiryTime(9)),
                quiet: true,
                ..one
            },
        ),
        (
            "ma k C5 E6 O1 t c k\r\n",
            MetaArithmetic { compare_cas: Some(5), new_cas: Some(6), ..one },
        ),
        ("ma k C0\r\n", one),
    ] {
        let expected = MetaArithmetic { flags: flags(line, 2), ..arithmetic };
        assert_eq!(request(line), Request::MetaArithmetic(expected), "{line:?}");
    }
}

#[test]
fn all_early_errors_of_ma_are_one() {
    let long = format!("ma {}", "k".repeat(251));
    for line in [
        "ma k v v",
        "ma k Z",
        "ma k Dx",
        "ma k D-1",
        "ma k Jx",
        "ma k Tx",
        "ma k Fx",
        "ma k! b",
        "ma k MX MX",
        &long[..],
    ] {
        assert_eq!(refusal(line), (Refusal::InvalidOrDuplicateFlag, 0), "{line}");
    }
    for line in ["ma k MX", "ma k M", "ma k Mi"] {
        assert_eq!(refusal(line), (Refusal::InvalidArithmeticMode, 0), "{line}");
    }
    let opaque = format!("ma k O{}", "o".repeat(32));
    assert_eq!(refusal(&opaque), (Refusal::OpaqueTooLong, 0));
    assert_eq!(refusal("ma"), (Refusal::BadCommandLineFormat, 0));
}

#[test]
fn bad_flags() {
    let opaque = "o".repeat(32);
    for (line, error) in [
        ("mg", Refusal::BadCommandLineFormat),
        ("mg  ", Refusal::BadCommandLineFormat),
        ("md", Refusal::BadCommandLineFormat),
        ("mg k !", Refusal::BadCommandLineFormat),
        ("mg k v \u{e9}", Refusal::BadCommandLineFormat),
        ("mg k 1", Refusal::InvalidFlag),
        ("mg k Z", Refusal::InvalidFlag),
        ("mg k S2", Refusal::InvalidFlag),
        ("mg k v q v", Refusal::DuplicateFlag),
        ("mg k O1 O2", Refusal::DuplicateFlag),
        ("mg k Tx", Refusal::BadToken),
        ("mg k T", Refusal::BadToken),
        ("mg k N2147483648", Refusal::BadToken),
        ("mg k R", Refusal::BadToken),
        ("mg k C-1", Refusal::BadToken),
        ("md k E18446744073709551616", Refusal::BadToken),
        ("mg k Jx", Refusal::InvalidInitialValue),
        ("mg k Dx", Refusal::InvalidDeltaValue),
        ("mg k Fx", Refusal::BadCommandLineFormat),
        ("mg k Tx Fx", Refusal::BadToken),
        ("mg k Tx Z", Refusal::InvalidFlag),
        ("mg k Tx Dx", Refusal::InvalidDeltaValue),
        ("mg k Z v v", Refusal::InvalidFlag),
        ("mg Zm9 b", Refusal::KeyDecode),
        ("md k b", Refusal::KeyDecode),
        (&format!("mg k O{opaque}"), Refusal::OpaqueTooLong),
        (&format!("md k O{opaque} v v"), Refusal::DuplicateFlag),
    ] {
        assert_eq!(refusal(line), (error, 0), "{line}");
    }
    let opaque = format!("mg k O{}\r\n", "o".repeat(31));
    assert!(matches!(request(&opaque), Request::MetaGet(_)));
}

#[test]
fn a_line_has_twenty_tokens_at_most() {
    let letters = "v k s t c f l h u q x I L P O T1 N1 R1 C1";
    let at_most = letters.rsplit_once(' ').expect("there are several").0;
    assert!(matches!(request(&format!("mg k {at_most}\r\n")), Request::MetaGet(_)));
    assert_eq!(refusal(&format!("mg k {letters}")), (Refusal::OptionsTooLong, 0));
    assert_eq!(refusal(&format!("mg k {}", "v ".repeat(19))), (Refusal::OptionsTooLong, 0));
}

#[test]
fn long_keys() {
    let wire = "k".repeat(KEY_BYTES_MAX);
    for verb in ["mg", "md", "ma", "me"] {
        request(&format!("{verb} {wire}\r\n"));
    }
    assert_eq!(refusal(&format!("mg {wire}k")), (Refusal::BadCommandLineFormat, 0));
    // The encoded form counts, although its decoded form would be short enough.
    assert_eq!(refusal(&format!("mg {} b", "AAAA".repeat(63))), (Refusal::BadCommandLineFormat, 0));
    let line = format!("mg {} b\r\n", "AAAA".repeat(62));
    let Request::MetaGet(get) = request(&line) else { panic!() };
    assert_eq!(get.key.bytes(&mut KeyRoom::default()), [0; 186]);
}

#[test]
fn debug_and_noop() {
    let base64 = |base64| Request::MetaDebug {
        key: Key { wire: if base64 { b"Zm9v" } else { b"k" }, base64 },
    };
    assert_eq!(request("me k\r\n"), base64(false));
    assert_eq!(request("me k v O1\r\n"), base64(false));
    assert_eq!(request("me Zm9v b\r\n"), base64(true));
    assert_eq!(request("me Zm9v k b\r\n"), base64(true));
    assert_eq!(request("mn\r\n"), Request::MetaNoop);
    assert_eq!(request("mn x y\r\n"), Request::MetaNoop);
    let long = format!("me {}", "k".repeat(251));
    for line in ["me", "me k b", "me k !", &long[..]] {
        assert_eq!(refusal(line), (Refusal::BadCommandLineFormat, 0), "{line}");
    }
}

#[test]
fn a_decoded_key_may_hold_anything() {
    let Request::MetaGet(get) = request("mg ICAA/w== b\r\n") else { panic!() };
    assert_eq!(get.key.bytes(&mut KeyRoom::default()), b"  \0\xff");
}
