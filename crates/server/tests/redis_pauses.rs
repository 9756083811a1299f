//! Long Redis commands, and long answers: what the server keeps of them, and where it goes on.

use crate::common::{Client, Server, array};

/// The kernel's number of this name about the server's memory.
fn memory_bytes(server: &Server, name: &str) -> u64 {
    let path = format!("/proc/{}/status", server.id());
    let text = std::fs::read_to_string(path).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("Linux has it");
    let kib = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    kib.parse::<u64>().expect("a number") << 10
}

/// Regression: each had up to a megabyte behind the bytes that had come, zeroed and not counted.
#[test]
fn a_command_that_has_not_arrived_takes_the_memory_that_is_counted() {
    const CLIENTS: usize = 100;
    let (server, address) = Server::start_with_redis(&["-m", "64", "-I", "1m"]);
    let mut text = server.connect();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        client.ask("ping\r\n", "+PONG\r\n");
    }
    let before = memory_bytes(&server, "VmRSS");
    let (mut sent, value) = (0, [b'x'; 5_000]);
    // The second part is read behind the first, which is too long for the worker's buffer.
    for part in
        [[&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n"[..], &value].concat(), value.into()]
    {
        clients.iter_mut().for_each(|client| client.send(&part));
        sent += CLIENTS * part.len();
        text.wait_for_stat("output_parked_bytes", |bytes| bytes >= sent as u64);
    }
    let counted = text.stat("output_parked_bytes");
    let taken = memory_bytes(&server, "VmRSS").saturating_sub(before);
    assert!(taken <= counted + (8 << 20), "{taken} bytes, of which {counted} are counted");
    assert!(counted <= 2 * sent as u64, "{counted} bytes for {sent}");
    for client in &mut clients {
        client.send(&[b'x'; 990_000]);
        client.ask("\r\nping\r\n", "+OK\r\n+PONG\r\n");
    }
    text.wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
}

#[test]
fn a_command_of_many_keys_goes_on_behind_what_it_has_answered() {
    const KEYS: usize = 30_000;
    let (_server, address) = Server::start_with_redis(&["-I", "1m"]);
    let mut client = Client::connect(address);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("k{}", number % 1000)).collect();
    // The first is not there, and each has its own value.
    for key in &keys[1..1000] {
        client.ask(&format!("set {key} {key}{}\r\n", "v".repeat(1000)), "+OK\r\n");
    }
    let mut words: Vec<&[u8]> = vec![b"mget"];
    words.extend(keys.iter().map(String::as_bytes));
    let mget = array(&words);
    let mut answer = format!("*{KEYS}\r\n");
    for key in &keys {
        match key.as_str() {
            "k0" => answer.push_str("$-1\r\n"),
            _ => {
                let value = format!("{key}{}", "v".repeat(1000));
                answer.push_str(&format!("${}\r\n{value}\r\n", value.len()));
            }
        }
    }
    // Nothing is read before all is sent: the answers have to wait, and so have the commands behind
    // them.
    client.send(&[&mget[..], b"ping\r\n", &mget, b"ping\r\n"].concat());
    client.expect(format!("{answer}+PONG\r\n{answer}+PONG\r\n").as_bytes());
    client.send(&[b"multi\r\n", &mget[..], b"incr n\r\nexec\r\nping\r\n"].concat());
    client.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    client.expect(format!("*2\r\n{answer}:1\r\n+PONG\r\n").as_bytes());
    for (name, answer) in [(&b"exists"[..], 29_970), (b"touch", 29_970), (b"del", 999)] {
        words[0] = name;
        client.send(&array(&words));
        client.expect(format!(":{answer}\r\n").as_bytes());
    }
    // A key that is too long is found behind any number of others.
    let long = [b'x'; 251];
    words.push(&long);
    client.send(&array(&words));
    client.expect(b"-ERR a key is 1 to 250 bytes here\r\n");
}

/// Regression: others of the same worker waited for tens of milliseconds, for patterns most of a
/// second.
#[test]
fn commands_of_many_keys_yield_to_others() {
    const KEYS: usize = 30_000;
    // The bytes of a turn, and the bytes charged for a key.
    const TURNS: u64 = (KEYS * 128 / (1 << 20)) as u64;
    // A pattern is charged much more. No client comes before the requests behind the last turn.
    const PATTERNS: usize = 4000;
    const PATTERN_TURNS: u64 = (PATTERNS * (64 << 10) / (1 << 20)) as u64 - 1;
    let (server, address) = Server::start_with_redis(&["-t", "1", "-I", "1m"]);
    let mut client = Client::connect(address);
    let mut text = server.connect();
    let keys: Vec<String> = (0..KEYS).map(|number| format!("k{number}")).collect();
    let each: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let pairs: Vec<&[u8]> = each.iter().flat_map(|key| [*key, b"v"]).collect();
    let patterns = [vec![&b"get"[..]], vec![&[b'?'; 250]; PATTERNS]].concat();
    let unknown: Vec<&[u8]> = vec![b"x"; KEYS];
    let docs = [&[&b"docs"[..]], &unknown[..]].concat();
    for (name, words, answer, least) in [
        ("msetnx", &pairs, ":1\r\n", TURNS),
        ("mset", &pairs, "+OK\r\n", TURNS),
        ("exists", &each, ":30000\r\n", TURNS),
        ("touch", &each, ":30000\r\n", TURNS),
        ("del", &each, ":30000\r\n", TURNS),
        ("config", &patterns, "*0\r\n", PATTERN_TURNS),
        ("info", &unknown, "$0\r\n\r\n", TURNS),
        // All names are looked up before the first is answered.
        ("command", &docs, "*0\r\n", 2 * TURNS),
    ] {
        let command = array(&[&[name.as_bytes()], &words[..]].concat());
        let (most, last) = command.split_at(command.len() - 1);
        client.send(most);
        // To read it takes turns as well.
        text.wait_for_stat("output_parked_bytes", |bytes| bytes >= most.len() as u64);
        let before = text.stat("conn_yields");
        client.send(last);
        // The answer may be there before the command is done.
        client.ask("ping\r\n", &format!("{answer}+PONG\r\n"));
        let turns = text.stat("conn_yields") - before;
        assert!(turns >= least, "{name}: {turns} turns");
    }
    client.ask("multi\r\n", "+OK\r\n");
    client.send(&b"ping\r\n".repeat(KEYS));
    client.expect(&b"+QUEUED\r\n".repeat(KEYS));
    let before = text.stat("conn_yields");
    client.ask("exec\r\n", &format!("*{KEYS}\r\n{}", "+PONG\r\n".repeat(KEYS)));
    let turns = text.stat("conn_yields") - before;
    assert!(turns >= TURNS, "exec: {turns} turns");
}

/// Regression: where all keys were expired or flushed they were gone through in one go, however
/// many.
#[test]
fn a_random_key_is_looked_for_in_many_turns() {
    const KEYS: usize = 100_000;
    let (server, address) = Server::start_with_redis(&["-t", "1"]);
    let mut client = Client::connect(address);
    let sets: String = (0..KEYS).map(|number| format!("set k{number} v\r\n")).collect();
    client.send(sets.as_bytes());
    client.expect("+OK\r\n".repeat(KEYS).as_bytes());
    let before = server.stat("conn_yields");
    client.ask("flushall\r\nrandomkey\r\nping\r\n", "+OK\r\n$-1\r\n+PONG\r\n");
    let turns = server.stat("conn_yields") - before;
    assert!(turns >= 3, "{turns} turns");
    client.ask("set a 1\r\nrandomkey\r\n", "+OK\r\n$1\r\na\r\n");
}

/// While memory makes room, a command ends its session and goes on in another.
#[test]
fn commands_that_store_many_values_go_on_where_they_were() {
    const KEYS: usize = 200;
    let options = ["-m", "16", "-I", "1m", "--compressed", "off"];
    let (_server, address) = Server::start_with_redis(&options);
    let mut client = Client::connect(address);
    let filler = "v".repeat(4_000);
    for round in 0..60 {
        let keys: Vec<String> = (0..KEYS).map(|number| format!("k{round}:{number}")).collect();
        let values: Vec<String> = keys.iter().map(|key| format!("{key}{filler}")).collect();
        let pairs = keys.iter().zip(&values).flat_map(|(key, value)| [key, value]);
        let mut words: Vec<&[u8]> = vec![b"msetnx"];
        words.extend(pairs.map(|word| word.as_bytes()));
        client.send(&array(&words));
        client.expect(b":1\r\n");
        words[0] = b"mset";
        client.send(&array(&words));
        client.expect(b"+OK\r\n");
        // The last of them have not been evicted.
        let (key, value) = (&keys[KEYS - 1], &values[KEYS - 1]);
        client.ask(&format!("get {key}\r\n"), &format!("${}\r\n{value}\r\n", value.len()));
        words.truncate(2 * KEYS - 1);
        words[0] = b"msetnx";
        words.extend([key.as_bytes(), b"other"]);
        client.send(&array(&words));
        client.expect(b":0\r\n");
    }
}

/// Regression: their answers, many times as long as the requests, were made in one piece.
#[test]
fn descriptions_of_many_commands_are_made_in_parts() {
    const NAMES: usize = 100_000;
    let (server, address) = Server::start_with_redis(&["-I", "1m"]);
    let mut client = Client::connect(address);
    let info = "*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n\
        *3\r\n+@read\r\n+@string\r\n+@fast\r\n*0\r\n*0\r\n*0\r\n";
    let docs = "$3\r\nget\r\n*6\r\n$7\r\nsummary\r\n$27\r\nReturns the value of a key.\r\n\
        $5\r\nsince\r\n$5\r\n1.0.0\r\n$5\r\ngroup\r\n$6\r\nstring\r\n";
    let mut words: Vec<&[u8]> = vec![b"get"; NAMES];
    (words[0], words[NAMES - 1]) = (b"command", b"nonsense");
    let known = NAMES - 3;
    let before = memory_bytes(&server, "VmHWM");
    for (subcommand, answer) in [
        (&b"info"[..], format!("*{}\r\n{}$-1\r\n", known + 1, info.repeat(known))),
        (b"docs", format!("*{}\r\n{}", 2 * known, docs.repeat(known))),
    ] {
        words[1] = subcommand;
        client.send(&array(&words));
        client.expect(answer.as_bytes());
    }
    let grown = memory_bytes(&server, "VmHWM") - before;
    assert!(grown < 6 << 20, "{grown} bytes");
    client.ask("command docs get nonsense\r\n", &format!("*2\r\n{docs}"));
    client.ask("command docs nonsense\r\nping\r\n", "*0\r\n+PONG\r\n");
}

/// Regression: a part of a value was first copied in one piece. The bytes of it, or of any long
/// answer, that a client did not take were parked beside the copy or closed its connection; and
/// then the worker kept the copy.
#[test]
fn long_answers_are_neither_copied_nor_kept() {
    // Beyond what the heap keeps when it is freed.
    const BYTES: usize = 40 << 20;
    const LITTLE_BYTES: u64 = 8 << 20;
    let (server, address) = Server::start_with_redis(&["-m", "128", "-I", "48m", "-t", "2"]);
    let (mut text, mut client) = (server.connect(), Client::connect(address));
    let value: Vec<u8> = (0..BYTES).map(|number| (number / 1000 % 251) as u8).collect();
    // Sent so that it comes straight to its place.
    text.send(&[format!("set big 0 0 {BYTES}\r\n").as_bytes(), &value, b"\r\n"].concat());
    text.expect(b"STORED\r\n");
    let (rss, peak) = (memory_bytes(&server, "VmRSS"), memory_bytes(&server, "VmHWM"));
    // The kernel takes some of an unread answer, and the rest is parked, for one client.
    let mut others: Vec<Client> = (0..5).map(|_| Client::connect(address)).collect();
    others.iter_mut().for_each(|other| other.send(b"getrange big 0 -1\r\n"));
    text.wait_for_stat("output_kicks", |count| count >= 4);
    let grown = memory_bytes(&server, "VmHWM") - peak;
    assert!(grown < BYTES as u64 + LITTLE_BYTES, "{grown} bytes for what is parked");
    drop(others);
    text.wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
    // A client's input is copied, and is too long to be kept and parked. Its worker has nothing
    // else to do: connections are dealt out in turn.
    let mut other = Client::connect(address);
    other.send(&array(&[b"echo", &value]));
    text.wait_for_stat("output_kicks", |count| count >= 5);
    text.wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
    let kept = memory_bytes(&server, "VmRSS").saturating_sub(rss);
    assert!(kept < LITTLE_BYTES, "{kept} bytes are kept");
    for (start, end) in [(0, BYTES - 1), (70_001, 80_000), (70_001, 90_000), (5, BYTES - 70_001)] {
        client.send(format!("getrange big {start} {end}\r\nping\r\n").as_bytes());
        client.expect(format!("${}\r\n", end + 1 - start).as_bytes());
        client.expect(&value[start..=end]);
        client.expect(b"\r\n+PONG\r\n");
    }
}
