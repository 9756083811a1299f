//! Redis commands on items on flash: a command waits for its reads, is executed again, and does
//! nothing twice.

use std::collections::BTreeSet;
use std::io::Read;

use tempfile::TempDir;

use crate::common::{Client, Server};

/// More than the memory holds.
const ITEMS: usize = 24_000;
/// Hits on flash that the test wants.
const HITS_WANTED: u64 = 500;
/// Rounds until these must have come: it depends on when the background demotes items.
const ROUNDS_MAX: usize = 20;
/// Keys of one command.
const KEYS: usize = 300;

fn start(folder: &TempDir) -> (Server, Client) {
    let flash = format!("{}:64m", folder.path().join("flash").display());
    let options = ["-m", "16", "--hot-target", "1", "--flash", &flash];
    let (server, address) = Server::start_with_redis(&options);
    (server, Client::connect(address))
}

/// A value that does not compress, behind a number.
fn value(number: usize) -> String {
    let word = |part: usize| format!("{:x}", (number * 256 + part).wrapping_mul(0x9e37_79b9_7f4a));
    (0..120).map(word).collect()
}

fn line(client: &mut Client) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n") {
        client.stream.read_exact(&mut byte).expect("the line comes");
        text.push(byte[0]);
    }
    text.truncate(text.len() - 2);
    String::from_utf8(text).expect("text")
}

fn integer(client: &mut Client) -> usize {
    let line = line(client);
    line.strip_prefix(':').and_then(|digits| digits.parse().ok()).expect("a number")
}

/// A bulk; `None` for the null bulk.
fn bulk(client: &mut Client) -> Option<String> {
    let bytes: usize = line(client).strip_prefix('$')?.parse().ok()?;
    let mut value = vec![0; bytes + 2];
    client.stream.read_exact(&mut value).expect("the value comes");
    value.truncate(bytes);
    Some(String::from_utf8(value).expect("text"))
}

fn store(client: &mut Client) {
    for first in (0..ITEMS).step_by(100) {
        let text: String =
            (first..first + 100).map(|at| format!("set k{at} {}\r\n", value(at))).collect();
        client.send(text.as_bytes());
        (0..100).for_each(|_| client.expect(b"+OK\r\n"));
    }
}

fn command(name: &str, keys: std::ops::Range<usize>) -> String {
    let keys: Vec<String> = keys.map(|number| format!("k{number}")).collect();
    format!("{name} {}\r\n", keys.join(" "))
}

/// Stores and reads all until flash has its part of them.
fn fill(server: &Server, client: &mut Client) {
    let mut rounds = 0;
    while server.stat("get_extstore") < HITS_WANTED {
        assert!(rounds < ROUNDS_MAX, "only {} hits on flash", server.stat("get_extstore"));
        rounds += 1;
        store(client);
        for first in (0..ITEMS).step_by(KEYS) {
            let keys = first..first + KEYS;
            client.send(command("mget", keys.clone()).as_bytes());
            assert_eq!(line(client), format!("*{KEYS}"));
            for number in keys {
                let found = bulk(client);
                assert!(found.is_none_or(|found| found == value(number)), "{number}");
            }
        }
    }
}

#[test]
fn commands_wait_for_flash_and_do_nothing_twice() {
    let folder = TempDir::new().expect("a folder");
    let (server, mut client) = start(&folder);
    fill(&server, &mut client);
    for first in (0..ITEMS).step_by(ITEMS / 8) {
        let text: String = (first..first + 40).map(|at| format!("append k{at} !\r\n")).collect();
        client.send(text.as_bytes());
        for at in first..first + 40 {
            // Some may have been evicted.
            let now = integer(&mut client);
            assert!(now == 1 || now == value(at).len() + 1, "k{at}: {now}");
        }
        client.send(format!("getdel k{first}\r\nget k{first}\r\n").as_bytes());
        assert!(bulk(&mut client).is_some_and(|value| value.ends_with('!')));
        assert_eq!(bulk(&mut client), None);
        // There is no other client: the items there are those removed, each key once.
        let keys = first..first + KEYS;
        client.send(command("exists", keys.clone()).as_bytes());
        let exists = integer(&mut client);
        client.send(command("touch", keys.clone()).as_bytes());
        assert!((1..=exists).contains(&integer(&mut client)));
        client.send(command("del", keys.clone()).as_bytes());
        let removed = integer(&mut client);
        assert!(removed <= exists && exists < KEYS, "{removed} of {exists}");
        client.send(command("exists", keys).as_bytes());
        assert_eq!(integer(&mut client), 0);
    }
    assert_eq!(server.stat("miss_from_extstore"), 0);
}

#[test]
fn a_transaction_waits_for_flash_and_does_nothing_twice() {
    let folder = TempDir::new().expect("a folder");
    let (server, mut client) = start(&folder);
    fill(&server, &mut client);
    let fetched = server.stat("get_extstore");
    client.ask("set counter 0\r\nmulti\r\n", "+OK\r\n+OK\r\n");
    let keys = (0..ITEMS).step_by(ITEMS / KEYS);
    for number in keys.clone() {
        client.ask(&format!("get k{number}\r\nincr counter\r\n"), "+QUEUED\r\n+QUEUED\r\n");
    }
    client.send(b"exec\r\n");
    assert_eq!(line(&mut client), format!("*{}", 2 * KEYS));
    for (before, number) in keys.enumerate() {
        let found = bulk(&mut client);
        assert!(found.is_none_or(|found| found == value(number)), "{number}");
        assert_eq!(integer(&mut client), before + 1);
    }
    assert!(server.stat("get_extstore") > fetched, "none of them was on flash");
    assert_eq!(server.stat("miss_from_extstore"), 0);
}

/// Regression: each kept the items of its segment, and their decoder, beside the memory limit.
#[test]
fn scans_that_wait_for_flash_take_little_memory() {
    const CLIENTS: usize = 400;
    // Short ones, of which a segment has very many.
    const SHORT_ITEMS: usize = 100_000;
    let folder = TempDir::new().expect("a folder");
    let (server, mut client) = start(&folder);
    let mut stored = 0;
    while server.stat("extstore_objects_used") < SHORT_ITEMS as u64 {
        assert!(
            stored < 40 * SHORT_ITEMS,
            "only {} on flash",
            server.stat("extstore_objects_used")
        );
        let sets: String =
            (stored..stored + 1000).map(|at| format!("set k{at} value\r\n")).collect();
        client.send(sets.as_bytes());
        client.expect("+OK\r\n".repeat(1000).as_bytes());
        stored += 1000;
    }
    let address = client.stream.peer_addr().expect("it is connected");
    let mut others: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(address)).collect();
    others.iter_mut().for_each(|other| other.ask("ping\r\n", "+PONG\r\n"));
    // In the first segment: the number is the segment and one, the item, and that it is on flash.
    let cursor = 1_u64 << 26 | 3;
    // From then on there is as much as one at a time takes.
    for other in &mut others[..16] {
        other.send(format!("scan {cursor}\r\n").as_bytes());
        scanned(other);
    }
    let before = peak_bytes(&server);
    for _ in 0..3 {
        server.stop_threads();
        others.iter_mut().for_each(|other| other.send(format!("scan {cursor}\r\n").as_bytes()));
        server.signal("CONT");
        others.iter_mut().for_each(|other| _ = scanned(other));
    }
    let grown = peak_bytes(&server) - before;
    assert!(grown < 16 << 20, "{grown} bytes");
}

/// The highest memory use of the server so far.
fn peak_bytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id()));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).expect("Linux has it");
    kib.parse::<u64>().expect("a number") << 10
}

/// Keys on a line each, from one call, and the cursor behind them.
fn scan(client: &mut Client, cursor: u64, options: &str) -> (u64, Vec<String>) {
    client.send(format!("scan {cursor} {options}\r\n").as_bytes());
    scanned(client)
}

/// The result of a call.
fn scanned(client: &mut Client) -> (u64, Vec<String>) {
    assert_eq!(line(client), "*2");
    let next = bulk(client).and_then(|digits| digits.parse().ok()).expect("a cursor");
    let count: usize = line(client)[1..].parse().expect("a number");
    (next, (0..count).map(|_| bulk(client).expect("a key")).collect())
}

#[test]
fn a_scan_goes_on_through_flash() {
    let folder = TempDir::new().expect("a folder");
    let (server, mut client) = start(&folder);
    fill(&server, &mut client);
    // More scans at a time than are kept.
    let address = client.stream.peer_addr().expect("it is connected");
    let mut others: Vec<Client> = (0..12).map(|_| Client::connect(address)).collect();
    let mut cursors: Vec<Option<u64>> = vec![Some(0); others.len()];
    let mut listed: Vec<BTreeSet<String>> = vec![BTreeSet::new(); others.len()];
    while cursors.iter().any(Option::is_some) {
        for (number, client) in others.iter_mut().enumerate() {
            let Some(cursor) = cursors[number] else { continue };
            let (next, keys) = scan(client, cursor, "match k* count 100");
            listed[number].extend(keys);
            cursors[number] = Some(next).filter(|&next| next != 0);
        }
    }
    // As many at a time.
    others.iter_mut().for_each(|other| other.send(b"keys k*\r\n"));
    for other in &mut others {
        let count: usize = line(other)[1..].parse().expect("a number");
        listed.push((0..count).map(|_| bulk(other).expect("a key")).collect());
    }
    // Nothing was stored or requested meanwhile, so every present item has been in the same place
    // throughout, unless it was demoted, and the scans follow that way as well.
    for first in (0..ITEMS).step_by(100) {
        let text: String = (first..first + 100).map(|at| format!("exists k{at}\r\n")).collect();
        client.send(text.as_bytes());
        for at in first..first + 100 {
            let exists = integer(&mut client) == 1;
            let key = format!("k{at}");
            assert!(!exists || listed.iter().all(|listed| listed.contains(&key)), "{key}");
        }
    }
    let memory = server.stat("curr_items") - server.stat("extstore_objects_used");
    assert!(listed[0].len() as u64 > memory, "{} keys, {memory} in memory", listed[0].len());
}
