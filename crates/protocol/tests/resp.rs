//! The ends of Redis commands: whole, cut at every place, damaged, and beyond every limit.

mod resp_bodies;

use larder_protocol::resp::{Command, Refusal, Scan, Scanned, reply, scan, scan_of_stranger};
use proptest::collection::vec;
use proptest::prelude::*;
use resp_bodies::{BYTES_MAX, Event, commands};

fn words(command: Command<'_>) -> Vec<String> {
    let mut room = Vec::new();
    let plain = command.unquoted(&mut room);
    plain.words().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn first(input: &[u8]) -> Scanned<'_> {
    scan(input, &mut Scan::default(), 1 << 20)
}

#[test]
fn commands_are_arrays_of_bulks_or_lines() {
    for (input, wanted) in [
        ("*2\r\n$3\r\nGET\r\n$1\r\na\r\nrest", &["GET", "a"][..]),
        ("*1\r\n$4\r\nPING\r\n", &["PING"]),
        ("*2\r\n$0\r\n\r\n$2\r\n\r\n\r\n", &["", "\r\n"]),
        ("PING\r\nrest", &["PING"]),
        ("PING\n", &["PING"]),
        ("set a \"b c\"\r\n", &["set", "a", "b c"]),
        ("$3\r\n", &["$3"]),
    ] {
        let Scanned::Command(command, consumed) = first(input.as_bytes()) else {
            panic!("{input:?}: {:?}", first(input.as_bytes()));
        };
        assert_eq!(words(command), wanted, "{input:?}");
        assert_eq!(&input[consumed..], if input.ends_with("rest") { "rest" } else { "" });
    }
    for (input, consumed) in [("\r\n", 2), ("\n", 1), ("  \r\n", 4), ("*0\r\n", 4), ("*-1\r\n", 5)]
    {
        assert_eq!(first(input.as_bytes()), Scanned::Nothing(consumed), "{input:?}");
    }
}

/// The limit may be lowered before a command is done.
#[test]
fn a_command_that_was_short_enough_stays_so() {
    let input = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
    let Scanned::Command(command, consumed) = first(input) else { panic!("it is one") };
    let mut progress = Scan::of_whole(command, input);
    assert_eq!(scan(input, &mut progress, 5), Scanned::Command(command, consumed));
    assert_eq!(scan(input, &mut progress, 5), Scanned::TooLarge(consumed), "it may come once more");
}

/// The limit may be raised while a command comes: its remaining bytes are then not the command.
#[test]
fn a_command_that_was_too_large_stays_so() {
    let mut progress = Scan::default();
    let (first, rest) = ("*2\r\n$3\r\nGET\r\n$100\r\n", "a".repeat(100) + "\r\n");
    assert_eq!(scan(first.as_bytes(), &mut progress, 50), Scanned::Incomplete);
    assert!(progress.is_beyond(50));
    assert_eq!(progress.forget(first.len()), first.len());
    let consumed = rest.len();
    assert_eq!(scan(rest.as_bytes(), &mut progress, 1000), Scanned::TooLarge(consumed));
}

#[test]
fn input_outside_the_protocol_is_refused_in_redis_words() {
    let long = "1".repeat(64 << 10);
    let (long_line, long_count) = (format!("GET {long}"), format!("*{long}"));
    let long_length = format!("*1\r\n${long}");
    for (input, text) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*2147483648\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ("*1\r\n$01\r\nx\r\n", "invalid bulk length"),
        ("*1\r\nGET\r\n", "expected '$', got 'G'"),
        ("*1\r\n\r\n", "expected '$', got ' '"),
        ("set \"a\r\n", "unbalanced quotes in request"),
        (&long_line, "too big inline request"),
        (&long_count, "too big mbulk count string"),
        (&long_length, "too big bulk count string"),
    ] {
        let Scanned::Refused(refusal) = first(input.as_bytes()) else {
            panic!("{:?}: {:?}", &input[..input.len().min(50)], first(input.as_bytes()));
        };
        let mut out = Vec::new();
        reply::refusal(&mut out, refusal);
        assert_eq!(String::from_utf8_lossy(&out), format!("-ERR Protocol error: {text}\r\n"));
    }
    assert_eq!(first(b"*1\rx$4\r\nPI"), Scanned::Incomplete, "as Redis, which looks at one of two");
    assert_ne!(first(b"*1\r\n$536870912\r\n"), Scanned::Refused(Refusal::BadLength));
}

#[test]
fn an_unauthenticated_client_may_send_little() {
    let texts =
        |input: &str| match scan_of_stranger(input.as_bytes(), &mut Scan::default(), 1 << 20) {
            Scanned::Refused(refusal) => {
                let mut out = Vec::new();
                reply::refusal(&mut out, refusal);
                String::from_utf8(out).expect("text")
            }
            Scanned::Command(..) => "a command".to_owned(),
            other => format!("{other:?}"),
        };
    let count = "-ERR Protocol error: unauthenticated multibulk length\r\n";
    let length = "-ERR Protocol error: unauthenticated bulk length\r\n";
    let bulk = |bytes: usize| format!("${bytes}\r\n{}\r\n", "x".repeat(bytes));
    for (input, text) in [
        ("*10\r\n".to_owned() + &bulk(1).repeat(10), "a command"),
        ("*11\r\n".to_owned(), count),
        ("*2147483648\r\n".to_owned(), "-ERR Protocol error: invalid multibulk length\r\n"),
        ("*2\r\n".to_owned() + &bulk(4) + &bulk(16384), "a command"),
        ("*2\r\n".to_owned() + &bulk(4) + "$16385\r\n", length),
        ("*1\r\n$-1\r\n".to_owned(), "-ERR Protocol error: invalid bulk length\r\n"),
        ("*1\r\n$536870913\r\n".to_owned(), "-ERR Protocol error: invalid bulk length\r\n"),
        ("ping ".to_owned() + &"a ".repeat(30_000) + "\r\n", "a command"),
    ] {
        assert_eq!(texts(&input), text, "{}", &input[..input.len().min(50)]);
    }
    // A command whose header is here already is bound by the same limits.
    let mut progress = Scan::default();
    let input = b"*2\r\n$4\r\nAUTH\r\n$16385\r\n";
    assert_eq!(scan_of_stranger(&input[..10], &mut progress, 1 << 20), Scanned::Incomplete);
    let scanned = scan_of_stranger(input, &mut progress, 1 << 20);
    assert_eq!(scanned, Scanned::Refused(Refusal::StrangerLength));
}

#[test]
fn a_command_beyond_the_limit_is_passed_over_and_the_next_is_found() {
    let value = "v".repeat(BYTES_MAX);
    let large = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len());
    // Its header alone is beyond it.
    let many = format!("*{}\r\n", BYTES_MAX) + &"$0\r\n\r\n".repeat(BYTES_MAX);
    let stream = [large, "PING\r\n".to_owned(), many, "PING\r\n".to_owned()].concat();
    let ping = || Event::Command(vec![b"PING".to_vec()]);
    for piece in 1..stream.len() {
        let wanted = [Event::TooLarge, ping(), Event::TooLarge, ping()];
        assert_eq!(commands(stream.as_bytes(), &[piece]), wanted, "{piece}");
    }
}

#[test]
fn a_command_of_exactly_the_limit_is_taken() {
    let frame = "*2\r\n$3\r\nGET\r\n$100\r\n\r\n".len();
    for (bytes, is_taken) in [(BYTES_MAX - frame, true), (BYTES_MAX - frame + 1, false)] {
        let key = "k".repeat(bytes);
        let input = format!("*2\r\n$3\r\nGET\r\n${bytes}\r\n{key}\r\n");
        assert_eq!(input.len() <= BYTES_MAX, is_taken);
        let events = commands(input.as_bytes(), &[usize::MAX]);
        assert_eq!(matches!(events[..], [Event::Command(_)]), is_taken);
    }
}

#[test]
fn the_bytes_wanted_of_a_command_are_no_more_than_it_has() {
    let whole = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9\r\n123456789\r\n";
    let mut progress = Scan::default();
    let mut arrived = 1;
    while let Scanned::Incomplete = scan(&whole[..arrived], &mut progress, 1 << 20) {
        assert!(progress.wanted_bytes() <= whole.len(), "{progress:?}");
        arrived = progress.wanted_bytes().max(arrived + 1);
    }
    assert_eq!(arrived, whole.len());
}

/// Streams that clients send, and that they do not.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let array = vec(vec(any::<u8>(), 0..40), 1..6).prop_map(|words| {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            reply::bulk(&mut bytes, &word);
        }
        bytes
    });
    let line = "[a-z\"'\\\\ x0-9]{0,30}\r?\n".prop_map(String::into_bytes);
    let odd =
        vec(prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), any::<u8>()], 0..20);
    let piece = prop_oneof![4 => array, 1 => line, 1 => odd];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_cut_gives_the_same_commands(stream in stream(), pieces in vec(1..60_usize, 1..5)) {
        let whole = commands(&stream, &[usize::MAX]);
        prop_assert_eq!(commands(&stream, &pieces), whole);
    }

    #[test]
    fn bulks_come_out_as_they_went_in(commands in vec(vec(vec(any::<u8>(), 0..20), 1..5), 1..5)) {
        let mut stream = Vec::new();
        for words in &commands {
            reply::array(&mut stream, words.len());
            words.iter().for_each(|word| reply::bulk(&mut stream, word));
        }
        let wanted: Vec<Event> = commands.into_iter().map(Event::Command).collect();
        prop_assert_eq!(resp_bodies::commands(&stream, &[7]), wanted);
    }
}

#[test]
fn a_scanned_command_is_found_without_another_scan() {
    let input = b"*4\r\n$4\r\nMGET\r\n$1\r\na\r\n$0\r\n\r\n$3\r\nb\r\n\r\nPING\r\n";
    let Scanned::Command(command, consumed) = first(input) else {
        panic!("it is whole");
    };
    let known = Scan::of_whole(command, input);
    assert!(known.is_whole(consumed) && !known.is_whole(consumed - 1));
    assert!(!Scan::default().is_whole(consumed));
    // If bytes within it are damaged, only another scan would notice.
    let mut damaged = input.to_vec();
    damaged[4..consumed].fill(b'x');
    let mut scan_of_damaged = known;
    let found = scan(&damaged, &mut scan_of_damaged, 1 << 20);
    assert!(matches!(found, Scanned::Command(command, bytes)
        if command.count() == 4 && bytes == consumed));
    assert_eq!(scan_of_damaged, Scan::default());
    // A line is scanned anew.
    let Scanned::Command(line, _) = first(b"get a\r\n") else {
        panic!("it is whole");
    };
    assert_eq!(Scan::of_whole(line, b"get a\r\n"), Scan::default());
}

#[test]
fn words_go_on_without_a_look_at_those_before() {
    let input = b"*4\r\n$4\r\nMGET\r\n$1\r\na\r\n$0\r\n\r\n$3\r\nb\r\n\r\n";
    let wanted: [&[u8]; 4] = [b"MGET", b"a", b"", b"b\r\n"];
    for taken in 0..=4 {
        let Scanned::Command(command, consumed) = first(input) else {
            panic!("it is whole");
        };
        let mut words = command.words();
        words.by_ref().take(taken).for_each(drop);
        let (rest, known) = (words.rest(), Scan::of_whole(command, input));
        let left: usize = wanted[taken..].iter().map(|word| word.len() + 6).sum();
        let mut damaged = input.to_vec();
        damaged[4..consumed - left].fill(b'x');
        let found = scan(&damaged, &mut { known }, 1 << 20);
        let Scanned::Command(command, _) = found else {
            panic!("{found:?}");
        };
        let mut words = command.words();
        words.go_on(rest);
        assert_eq!(words.len(), 4 - taken);
        assert_eq!(words.collect::<Vec<_>>(), wanted[taken..]);
    }
}
