//! A request in a client's writing is read back as the same request.

use larder_protocol::request::{
    Direction, ExpiryTime, Get, Key, MetaArithmetic, MetaDelete, MetaFlags, MetaGet, MetaSet,
    Request, Store, StoreMode,
};
use larder_protocol::{Parsed, parse};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Keys of any bytes that a line can hold.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let bytes = any::<u8>().prop_filter("separates", |byte| !b" \r\n".contains(byte));
    vec(bytes, 1..=250)
}

fn check(line: &[u8], expected: Request<'_>) -> Result<(), TestCaseError> {
    for end in [&b"\r\n"[..], b"\n", b"  \r\n"] {
        let mut input = [line, end].concat();
        let consumed = input.len();
        input.extend_from_slice(b"what follows\r\n");
        match parse(&input, None) {
            Parsed::Request { request, consumed: read } => {
                prop_assert_eq!(trimmed(request), expected);
                prop_assert_eq!(read, consumed);
            }
            other => prop_assert!(false, "{:?}: {:?}", String::from_utf8_lossy(line), other),
        }
    }
    Ok(())
}

/// The request without the spaces around its lists.
fn trimmed(mut request: Request<'_>) -> Request<'_> {
    match &mut request {
        Request::Get(get) => get.keys = get.keys.trim_ascii(),
        Request::MetaGet(get) => get.flags.0 = get.flags.0.trim_ascii(),
        Request::MetaSet(set) => set.flags.0 = set.flags.0.trim_ascii(),
        Request::MetaDelete(delete) => delete.flags.0 = delete.flags.0.trim_ascii(),
        Request::MetaArithmetic(arithmetic) => {
            arithmetic.flags.0 = arithmetic.flags.0.trim_ascii();
        }
        _ => {}
    }
    request
}

/// A line of text tokens and one key.
fn line(verb: &str, key: &[u8], rest: &str) -> Vec<u8> {
    [verb.as_bytes(), b" ", key, rest.as_bytes()].concat()
}

fn noreply_token(noreply: bool) -> &'static str {
    if noreply { " noreply" } else { "" }
}

/// A meta flag that may be there, with the number behind it.
fn numbered(letter: char, number: &Option<impl ToString>) -> Option<String> {
    number.as_ref().map(|number| format!("{letter}{}", number.to_string()))
}

fn lettered(letter: &str, there: bool) -> Option<String> {
    there.then(|| letter.to_string())
}

/// The tokens in an order that depends on `seed`.
fn shuffled(tokens: Vec<Option<String>>, seed: usize) -> String {
    let mut tokens: Vec<String> = tokens.into_iter().flatten().collect();
    let mut order = seed;
    for last in (1..tokens.len()).rev() {
        tokens.swap(last, order % (last + 1));
        order = order / (last + 1) + seed.rotate_left(last as u32) % 1009;
    }
    tokens.join(" ")
}

fn expiry(seconds: Option<i32>) -> Option<ExpiryTime> {
    seconds.map(|seconds| ExpiryTime(i64::from(seconds)))
}

proptest! {
    #[test]
    fn gets(keys in vec(keys(), 1..20), with_cas: bool, touch in option::of(any::<i32>())) {
        let keys = keys.join(&b' ');
        let keys = keys.trim_ascii();
        prop_assume!(!keys.is_empty());
        let verb = match (with_cas, touch) {
            (false, None) => "get".to_string(),
            (true, None) => "gets".to_string(),
            (false, Some(seconds)) => format!("gat {seconds}"),
            (true, Some(seconds)) => format!("gats {seconds}"),
        };
        let get = Get { keys, with_cas, touch: expiry(touch), more: false, refused: None };
        check(&line(&verb, keys, ""), Request::Get(get))?;
    }

    #[test]
    fn stores(
        key in keys(), flags: u32, seconds: i64, value_bytes in 0..=i32::MAX as usize - 2,
        cas in option::of(any::<u64>()), noreply: bool,
        plain in select(vec![
            ("set", StoreMode::Set), ("add", StoreMode::Add), ("replace", StoreMode::Replace),
            ("append", StoreMode::Append), ("prepend", StoreMode::Prepend),
        ]),
    ) {
        let (verb, mode, unique) = match cas {
            Some(unique) => ("cas", StoreMode::Cas(unique), format!(" {unique}")),
            None => (plain.0, plain.1, String::new()),
        };
        let rest = format!(
            " {flags} {seconds} {value_bytes}{unique}{}", noreply_token(noreply)
        );
        let expiry = ExpiryTime(seconds);
        let key_read = Key::plain(&key);
        let store =
            Store { key: key_read, mode, flags, expiry, value_bytes, cost_us: 0, noreply };
        check(&line(verb, &key, &rest), Request::Store(store))?;
    }

    #[test]
    fn commands_with_one_key(wire in keys(), delta: u64, seconds: i32, noreply: bool) {
        prop_assume!(wire != b"noreply");
        let key = Key::plain(&wire);
        let last = noreply_token(noreply);
        check(&line("delete", &wire, last), Request::Delete { key, noreply })?;
        for (verb, direction) in
            [("incr", Direction::Increment), ("decr", Direction::Decrement)]
        {
            let expected = Request::Arithmetic { key, delta, direction, noreply };
            check(&line(verb, &wire, &format!(" {delta}{last}")), expected)?;
        }
        let expiry = ExpiryTime(i64::from(seconds));
        let touch = Request::Touch { key, expiry, noreply };
        check(&line("touch", &wire, &format!(" {seconds}{last}")), touch)?;
    }

    #[test]
    fn meta_gets(
        wire in keys(), value: bool, quiet: bool, touch in option::of(any::<i32>()),
        vivify in option::of(any::<i32>()), recache in option::of(any::<i32>()),
        new_cas in option::of(any::<u64>()), known_cas in option::of(any::<u64>()),
        opaque in option::of("[!-~]{0,31}"), seed: usize,
    ) {
        let tokens = vec![
            lettered("v", value), lettered("q", quiet), numbered('T', &touch),
            numbered('N', &vivify), numbered('R', &recache), numbered('E', &new_cas),
            numbered('C', &known_cas), numbered('O', &opaque), lettered("k", true),
        ];
        let flags = shuffled(tokens, seed);
        let get = MetaGet {
            key: Key::plain(&wire), flags: MetaFlags(flags.as_bytes()), value, quiet,
            touch: expiry(touch), vivify: expiry(vivify), recache: expiry(recache),
            new_cas, known_cas,
        };
        check(&line("mg", &wire, &format!(" {flags}")), Request::MetaGet(get))?;
    }

    #[test]
    fn meta_sets(
        wire in keys(), value_bytes in 0..=i32::MAX as usize - 2, client_flags: u32,
        seconds in option::of(any::<i32>()), compare_cas in option::of(any::<u64>()),
        new_cas in option::of(1..=u64::MAX), invalidate: bool,
        vivify in option::of(any::<i32>()), quiet: bool, cost_us: u32,
        (letter, mode) in select(vec![
            ("MS", StoreMode::Set), ("ME", StoreMode::Add), ("MR", StoreMode::Replace),
            ("MA", StoreMode::Append), ("MP", StoreMode::Prepend),
        ]),
        seed: usize,
    ) {
        let tokens = vec![
            lettered("I", invalidate), lettered("q", quiet), numbered('T', &seconds),
            numbered('N', &vivify), numbered('E', &new_cas), numbered('C', &compare_cas),
            numbered('F', &Some(client_flags)), lettered(letter, true),
            (cost_us > 0).then(|| format!("Pc{cost_us}")),
        ];
        let flags = shuffled(tokens, seed);
        let set = MetaSet {
            key: Key::plain(&wire), flags: MetaFlags(flags.as_bytes()), value_bytes, mode,
            client_flags, expiry: expiry(seconds).unwrap_or_default(), compare_cas, new_cas,
            invalidate, vivify: expiry(vivify), quiet, cost_us,
        };
        check(&line("ms", &wire, &format!(" {value_bytes} {flags}")), Request::MetaSet(set))?;
    }

    #[test]
    fn meta_deletes(
        wire in keys(), compare_cas in option::of(any::<u64>()),
        new_cas in option::of(any::<u64>()), invalidate: bool,
        touch in option::of(any::<i32>()), drop_value: bool, client_flags: u32, quiet: bool,
        seed: usize,
    ) {
        let tokens = vec![
            lettered("I", invalidate), lettered("q", quiet), lettered("x", drop_value),
            numbered('T', &touch), numbered('E', &new_cas), numbered('C', &compare_cas),
            numbered('F', &Some(client_flags)),
        ];
        let flags = shuffled(tokens, seed);
        let delete = MetaDelete {
            key: Key::plain(&wire), flags: MetaFlags(flags.as_bytes()), compare_cas, new_cas,
            invalidate, touch: expiry(touch), drop_value, client_flags, quiet,
        };
        check(&line("md", &wire, &format!(" {flags}")), Request::MetaDelete(delete))?;
    }

    #[test]
    fn meta_arithmetic(
        wire in keys(), down: bool, delta: u64, initial: u64, vivify in option::of(any::<i32>()),
        touch in option::of(any::<i32>()), compare_cas in option::of(1..=u64::MAX),
        new_cas in option::of(any::<u64>()), value: bool, quiet: bool, seed: usize,
    ) {
        let tokens = vec![
            lettered("MD", down), numbered('D', &Some(delta)), numbered('J', &Some(initial)),
            numbered('N', &vivify), numbered('T', &touch), numbered('C', &compare_cas),
            numbered('E', &new_cas), lettered("v", value), lettered("q", quiet),
        ];
        let flags = shuffled(tokens, seed);
        let direction = if down { Direction::Decrement } else { Direction::Increment };
        let arithmetic = MetaArithmetic {
            key: Key::plain(&wire), flags: MetaFlags(flags.as_bytes()), direction, delta, initial,
            vivify: expiry(vivify), touch: expiry(touch), compare_cas, new_cas, value, quiet,
        };
        let expected = Request::MetaArithmetic(arithmetic);
        check(&line("ma", &wire, &format!(" {flags}")), expected)?;
    }
}
