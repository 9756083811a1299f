//! Long values that come slowly, or not at all: their cost to others.

use crate::common::{Client, Server};

const LONG_BYTES: usize = 1_000_000;
/// Bytes that have come of a long value that has yet to come whole.
const SENT_BYTES: usize = LONG_BYTES / 10 * 9;

/// Clients that have sent most of a long value each, under keys with this prefix, and send no more.
fn stalled(server: &Server, count: usize, prefix: &str) -> Vec<Client> {
    let sent = "v".repeat(SENT_BYTES);
    let send = |number| {
        let mut client = server.connect();
        client.send(format!("set {prefix}{number} 0 0 {LONG_BYTES}\r\n{sent}").as_bytes());
        client
    };
    (0..count).map(send).collect()
}

/// Sends a long value in parts, and returns the answer.
fn store_in_parts(client: &mut Client) -> String {
    let value = "v".repeat(LONG_BYTES);
    client.send(format!("set new 0 0 {LONG_BYTES}\r\n").as_bytes());
    client.send(&value.as_bytes()[..SENT_BYTES]);
    client.send(format!("{}\r\n", &value[SENT_BYTES..]).as_bytes());
    client.read_to("\r\n")
}

/// Regression: two kilobytes of announcements took all of the memory: most items of others were
/// evicted, and their stores from then on were refused.
#[test]
fn values_that_are_announced_and_never_sent_take_nothing_from_others() {
    const ITEMS: usize = 20_000;
    let server = Server::start(&["-m", "64", "-I", "1m"]);
    let mut client = server.connect();
    let value = "v".repeat(1000);
    for number in 0..ITEMS {
        client.ask(&format!("set key-{number} 0 0 1000\r\n{value}\r\n"), "STORED\r\n");
    }
    let announce = |number: usize, begun: &str| {
        let mut client = server.connect();
        client.send(format!("set long-{number} 0 0 {LONG_BYTES}\r\n{begun}").as_bytes());
        client
    };
    let mut waiting: Vec<Client> = (0..120).map(|number| announce(number, "")).collect();
    waiting.extend((120..200).map(|number| announce(number, "abc")));
    client.wait_for_stat("curr_connections", |count| count > 200);
    let value = "v".repeat(50_000);
    for number in 0..20 {
        client.ask(&format!("set other-{number} 0 0 50000\r\n{value}\r\n"), "STORED\r\n");
    }
    assert_eq!((client.stat("evictions"), client.stat("curr_items")), (0, ITEMS as u64 + 20));
    // And they are stored all the same when they come.
    let value = "v".repeat(LONG_BYTES);
    for (number, client) in waiting.iter_mut().enumerate().step_by(40) {
        client.send(&value.as_bytes()[if number < 120 { 0 } else { 3 }..]);
        client.ask("\r\n", "STORED\r\n");
    }
}

/// Where memory ends while values come, one of them is refused, and the requests behind it on its
/// connection are served.
#[test]
fn a_value_for_which_memory_ends_half_way_is_refused_and_skipped() {
    let server = Server::start(&["-m", "16", "-I", "2m"]);
    let value = "v".repeat(LONG_BYTES);
    let mut clients: Vec<Client> = (0..40).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.ask(&format!("set key-{number} 0 0 3\r\nold\r\n"), "STORED\r\n");
    }
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("set key-{number} 0 0 {LONG_BYTES}\r\n").as_bytes());
        client.send(&value.as_bytes()[..SENT_BYTES]);
    }
    let (mut stored, mut refused) = (0, 0);
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("{}\r\nmn\r\n", &value[SENT_BYTES..]).as_bytes());
        let answer = client.read_to("MN\r\n");
        match answer.as_str() {
            "STORED\r\nMN\r\n" => stored += 1,
            "SERVER_ERROR out of memory storing object\r\nMN\r\n" => {
                refused += 1;
                // As after any value that there was no room for.
                client.ask(&format!("get key-{number}\r\n"), "END\r\n");
            }
            _ => panic!("{answer}"),
        }
    }
    assert!(stored > 0 && refused > 0, "{stored} stored, {refused} refused");
    let found = clients[0].stat("limit_maxbytes");
    assert!(clients[0].stat("bytes") <= found);
}

/// Regression: a hundred clients that sent nine tenths of a megabyte each, and no more, pushed out
/// everything that others had stored.
#[test]
fn unfinished_values_leave_half_of_the_memory_and_make_room_if_stalled() {
    const ITEMS: usize = 40_000;
    let server = Server::start(&["-m", "64", "-I", "1m", "--compressed", "off"]);
    let mut client = server.connect();
    let value = "v".repeat(1000);
    for number in 0..ITEMS {
        client.ask(&format!("set key-{number} 0 0 1000\r\n{value}\r\n"), "STORED\r\n");
    }
    let mut all = stalled(&server, 100, "long-");
    client.wait_for_stat("bytes_read", |bytes| bytes >= (ITEMS * 1000 + 100 * SENT_BYTES) as u64);
    let held = client.stat("unfinished_bytes");
    assert!(held <= (32 << 20) + (1 << 20), "{held} bytes");
    assert!(client.stat("curr_items") >= ITEMS as u64 / 2, "{}", client.stat("curr_items"));
    // A short value finds room in any case, and so does one that comes whole.
    let mut other = server.connect();
    other.send(b"set short 0 0 10\r\nabc");
    other.ask("defghij\r\n", "STORED\r\n");
    // A store that needs room has it as soon as the others count as stalled, however many more do
    // the same.
    let is_stored = |_| {
        all.extend(stalled(&server, 1, "more-"));
        let mut client = server.connect();
        let answer = store_in_parts(&mut client);
        std::thread::sleep(std::time::Duration::from_millis(500));
        answer == "STORED\r\n" && client.stat("unfinished_kicks") > 0
    };
    assert!((0..60).any(is_stored), "refused for half a minute");
    drop(all);
    client.wait_for_stat("unfinished_bytes", |bytes| bytes == 0);
}

/// Regression: a byte every few seconds kept the room: every long value of others was refused.
#[test]
fn a_client_that_sends_next_to_nothing_makes_room() {
    let server = Server::start(&["-m", "64", "-I", "1m"]);
    let mut trickling = stalled(&server, 45, "long-");
    let mut client = server.connect();
    client.wait_for_stat("bytes_read", |bytes| bytes >= (45 * SENT_BYTES) as u64);
    let short = "v".repeat(16_000);
    let is_stored = |_| {
        trickling.iter_mut().for_each(|client| client.try_send(b"v"));
        let answer = store_in_parts(&mut client);
        // A short value is taken in any case, however its bytes come.
        client.send(b"set short 0 0 16000\r\n");
        client.send(&short.as_bytes()[..10]);
        client.ask(&format!("{}\r\n", &short[10..]), "STORED\r\n");
        std::thread::sleep(std::time::Duration::from_secs(1));
        answer == "STORED\r\n"
    };
    assert!((0..60).any(is_stored), "refused for a minute");
    client.wait_for_stat("unfinished_kicks", |count| count > 0);
}

/// Regression: under a quota they took all of it.
#[test]
fn unfinished_values_leave_half_of_a_quota_to_others_under_it() {
    const ITEMS: usize = 5000;
    let server = Server::start(&["-m", "64", "-I", "1m", "--quota", "q:=8m"]);
    let mut client = server.connect();
    let value = "v".repeat(1000);
    for number in 0..ITEMS {
        client.ask(&format!("set q:{number} 0 0 1000\r\n{value}\r\n"), "STORED\r\n");
    }
    let _stalled = stalled(&server, 20, "q:long-");
    client.wait_for_stat("bytes_read", |bytes| bytes >= (ITEMS * 1000 + 20 * SENT_BYTES) as u64);
    let (held, left) = (client.stat("unfinished_bytes"), client.stat("curr_items"));
    assert!(held <= (4 << 20) + (1 << 20), "{held} bytes");
    assert!(left >= ITEMS as u64 / 2, "{left} items");
    // Keys outside the quota are unaffected.
    assert_eq!(store_in_parts(&mut client), "STORED\r\n");
}

/// Regression: with less memory than they had, nothing could be stored, however short, until they
/// went.
#[test]
fn stalled_unfinished_values_make_room_when_memory_runs_out() {
    let server = Server::start(&["-m", "64", "-I", "1m"]);
    let _stalled = stalled(&server, 30, "long-");
    let mut client = server.connect();
    client.wait_for_stat("bytes_read", |bytes| bytes >= (30 * SENT_BYTES) as u64);
    client.ask("cache_memlimit 8\r\n", "OK\r\n");
    client.send(b"set short 0 0 10\r\nabcdefghij\r\n");
    assert_eq!(client.read_to("\r\n"), "SERVER_ERROR out of memory storing object\r\n");
    let is_stored = |_| {
        client.send(b"set short 0 0 10\r\nabcdefghij\r\n");
        let answer = client.read_to("\r\n");
        std::thread::sleep(std::time::Duration::from_millis(500));
        answer == "STORED\r\n"
    };
    assert!((0..60).any(is_stored), "refused for half a minute");
    assert!(client.stat("unfinished_kicks") > 0);
}

/// Regression: its client was told to try again.
#[test]
fn a_value_that_is_too_large_is_refused_as_that() {
    let server = Server::start(&["-m", "64", "-I", "1m"]);
    let _other = stalled(&server, 5, "long-");
    let mut client = server.connect();
    client.wait_for_stat("bytes_read", |bytes| bytes >= (5 * SENT_BYTES) as u64);
    client.send(b"set huge 0 0 60000000\r\nabc");
    assert_eq!(client.read_to("\r\n"), "SERVER_ERROR object too large for cache\r\n");
}
