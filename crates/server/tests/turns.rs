//! Turns: no client holds a worker for long, whatever it has sent ahead, and none of its input is
//! forgotten.
//!
//! The server has one worker. Input that clients send while its threads are stopped is all there
//! when they go on, in the order of sending. The client that counts has sent many requests that
//! take long, and statistics behind them: these show whether the request that another client sent
//! after them was executed in between.

use std::net::Shutdown;

use crate::common::{Client, Server, array};
use crate::packets::Packet;

const FLUSH: u8 = 0x08;
const STAT: u8 = 0x10;
const NOOP: u8 = 0x0a;
const APPEND: u8 = 0x0e;

/// Requests sent ahead that take long.
const REQUESTS: usize = 40;

/// Has `client` send `input` while the server stands still, and another client of text, on
/// `server`'s first port, ask for a key behind it.
fn send_before_another(server: &Server, client: &mut Client, input: &[u8]) {
    let mut other = server.connect();
    // Both are known to the worker.
    other.ask("mn\r\n", "MN\r\n");
    server.stop_threads();
    client.send(input);
    other.send(b"get nothing\r\n");
    server.signal("CONT");
    other.expect(b"END\r\n");
}

/// A server with one worker, a value of half a megabyte, and a text client.
fn start(options: &[&str]) -> (Server, Client) {
    let server = Server::start(&[&["-t", "1", "-m", "256"], options].concat());
    let client = with_value(&server);
    (server, client)
}

fn with_value(server: &Server) -> Client {
    let mut client = server.connect();
    let value = "v".repeat(500_000);
    client.ask(&format!("set big 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    client
}

/// Regression: 65,533 bytes of `stats items` kept all other clients of a worker waiting for most of
/// a second, and so did appends to a large value, or other changes for which it is copied: a turn
/// ended when its input did.
#[test]
fn others_are_served_between_text_requests_that_take_long() {
    for (request, count) in [
        ("stats\r\n", REQUESTS),
        ("stats items\r\n", REQUESTS),
        ("stats settings\r\n", REQUESTS),
        ("stats nonsense\r\n", REQUESTS),
        ("cache_memlimit 256\r\n", REQUESTS),
        ("flush_all\r\n", REQUESTS),
        ("flush_prefix a:\r\n", REQUESTS),
        ("append big 0 0 1\r\nx\r\n", REQUESTS),
        ("prepend big 0 0 1\r\nx\r\n", REQUESTS),
        ("ms big 1 MA\r\nx\r\n", REQUESTS),
        ("md big I\r\n", REQUESTS),
        // No more than sockets take at once: a client that does not read yields to others anyway.
        ("get big\r\n", 4),
        ("get big big big big\r\n", 1),
    ] {
        let (server, mut client) = start(&[]);
        let input = format!("{}stats\r\nmn\r\n", request.repeat(count));
        send_before_another(&server, &mut client, input.as_bytes());
        let text = client.read_to("END\r\nMN\r\n");
        assert_eq!(last_number(&text, "STAT get_misses "), 1, "{request}");
    }
}

/// The last number in `text` behind `name`.
#[track_caller]
fn last_number(text: &str, name: &str) -> u64 {
    let (_, behind) = text.rsplit_once(name).expect("it is there");
    let digits = behind.split(|letter: char| !letter.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).expect("a number")
}

#[test]
fn others_are_served_between_binary_requests_that_take_long() {
    let bare = |opcode| Packet { opcode, ..Packet::default() }.bytes();
    for request in [
        bare(STAT),
        bare(FLUSH),
        Packet { opcode: STAT, key: b"items", ..Packet::default() }.bytes(),
        Packet { opcode: APPEND, key: b"big", value: b"x", ..Packet::default() }.bytes(),
    ] {
        let (server, _) = start(&[]);
        let mut client = server.connect();
        let input = [&request.repeat(REQUESTS)[..], &bare(STAT), &bare(NOOP)].concat();
        send_before_another(&server, &mut client, &input);
        let mut misses = Vec::new();
        loop {
            let answer = client.answer();
            match answer.opcode {
                NOOP => break,
                _ if answer.key == b"get_misses" => misses = answer.value,
                _ => {}
            }
        }
        assert_eq!(String::from_utf8_lossy(&misses), "1", "{:?}", &request[..2]);
    }
}

#[test]
fn others_are_served_between_redis_commands_that_take_long() {
    let in_one =
        [b"MULTI\r\n".to_vec(), b"INFO\r\n".repeat(REQUESTS), b"EXEC\r\n".to_vec()].concat();
    // A deadline at a whole second would be written into the item that has one.
    let expire = [b"4000000000001", b"4000000000002"]
        .map(|at_ms| array(&[b"PEXPIREAT", b"big", at_ms]))
        .concat()
        .repeat(REQUESTS);
    let expire_in_one = [&b"MULTI\r\n"[..], &expire, b"EXEC\r\n"].concat();
    for commands in [
        b"INFO\r\n".repeat(REQUESTS),
        b"\"INFO\" cpu\r\n".repeat(REQUESTS),
        array(&[b"DBSIZE"]).repeat(REQUESTS),
        array(&[b"FLUSHALL"]).repeat(REQUESTS),
        array(&[b"FLUSHPREFIX", b"a:"]).repeat(REQUESTS),
        array(&[b"CONFIG", b"GET", b"save"]).repeat(REQUESTS),
        array(&[b"RANDOMKEY"]).repeat(REQUESTS),
        array(&[b"SCAN", b"0"]).repeat(REQUESTS),
        array(&[b"APPEND", b"big", b"x"]).repeat(REQUESTS),
        array(&[b"SETRANGE", b"big", b"7", b"x"]).repeat(REQUESTS),
        array(&[b"COMMAND"]).repeat(10 * REQUESTS),
        in_one,
        expire,
        expire_in_one,
    ] {
        let (server, address) = Server::start_with_redis(&["-t", "1", "-m", "256"]);
        with_value(&server);
        let mut client = Client::connect(address);
        let input = [&commands[..], b"INFO stats\r\nECHO over\r\n"].concat();
        send_before_another(&server, &mut client, &input);
        let text = client.read_to("$4\r\nover\r\n");
        let shown = commands[..commands.len().min(20)].escape_ascii();
        assert_eq!(last_number(&text, "keyspace_misses:"), 1, "{shown}");
    }
}

/// The answer to an EXEC is one array, however many turns it takes.
#[test]
fn a_transaction_of_many_turns_is_answered_in_order() {
    let (server, address) = Server::start_with_redis(&["-t", "1", "-m", "256"]);
    let mut client = Client::connect(address);
    with_value(&server);
    let mut input = b"MULTI\r\n".to_vec();
    let mut answers = b"+OK\r\n".to_vec();
    let mut results = format!("*{}\r\n", 3 * REQUESTS).into_bytes();
    for number in 1..=REQUESTS {
        input.extend_from_slice(b"INCR n\r\nAPPEND big x\r\nDBSIZE\r\n");
        answers.extend_from_slice(&b"+QUEUED\r\n".repeat(3));
        results
            .extend_from_slice(format!(":{number}\r\n:{}\r\n:2\r\n", 500_000 + number).as_bytes());
    }
    input.extend_from_slice(b"EXEC\r\nPING\r\n");
    client.send(&input);
    client.expect(&[&answers[..], &results, b"+PONG\r\n"].concat());
}

/// Requests that a turn leaves for the next one are not announced by any event.
#[test]
fn input_of_many_turns_is_all_answered_in_order() {
    let (server, mut client) = start(&[]);
    let mut input = Vec::new();
    let mut answers = Vec::new();
    for number in 0..1000 {
        input.extend_from_slice(format!("set n 0 0 4\r\n{number:04}\r\n").as_bytes());
        input.extend_from_slice(b"stats nonsense\r\nget n m n\r\n");
        let line = format!("VALUE n 0 4\r\n{number:04}\r\n");
        answers.extend_from_slice(format!("STORED\r\nERROR\r\n{line}{line}END\r\n").as_bytes());
    }
    client.send(&input);
    client.expect(&answers);
    // Also from a client that has closed its sending side, whose end is known at once.
    let mut client = server.connect();
    client.ask("mn\r\n", "MN\r\n");
    server.stop_threads();
    client.send(&input);
    client.stream.shutdown(Shutdown::Write).expect("it is open");
    server.signal("CONT");
    client.expect(&answers);
    client.expect_end();
    // And of one that goes on sending in the middle of a request.
    let mut client = server.connect();
    for part in input.chunks(7001) {
        client.send(part);
    }
    client.expect(&answers);
    assert_eq!(server.stat("output_parked_bytes"), 0, "nothing counts as kept any more");
}

/// Regression: a turn that finished earlier work, and executed none of the input read since, was
/// taken for one without progress: the connection was closed.
#[test]
fn a_turn_that_only_finishes_earlier_work_is_progress() {
    let (server, mut client) = start(&[]);
    let value = "v".repeat(200_000);
    client.ask(&format!("set some 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    // The sockets stop at the reply to a pair, so that certificates are read when they take more;
    // behind all of them is more than the beginning of a request.
    client.send("get some\r\nrefresh_certs\r\n".repeat(100).as_bytes());
    client.send("mn\r\n".repeat(3000).as_bytes());
    server.connect().wait_for_stat("output_parked_bytes", |bytes| bytes > 0);
    let pair = format!("VALUE some 0 200000\r\n{value}\r\nEND\r\nError TLS not enabled\r\n");
    for _ in 0..100 {
        client.expect(pair.as_bytes());
    }
    client.expect("MN\r\n".repeat(3000).as_bytes());
}

/// A line of keys is cut where a turn ends, and goes on there.
#[test]
fn a_multiget_of_many_turns_is_one_reply() {
    let (_server, mut client) = start(&[]);
    let keys = 300;
    client.send(format!("get{}\r\nmn\r\n", " big".repeat(keys)).as_bytes());
    let line = [b"VALUE big 0 500000\r\n", &b"v".repeat(500_000)[..], b"\r\n"].concat();
    for _ in 0..keys {
        client.expect(&line);
    }
    client.expect(b"END\r\nMN\r\n");
}

/// Regression: requests that were read before the server was asked to stop were forgotten where
/// their client had yielded to others.
#[test]
fn a_stopping_server_answers_the_requests_it_has_read() {
    let (mut server, mut client) = start(&["-A"]);
    let mut other = server.connect();
    other.ask("mn\r\n", "MN\r\n");
    server.stop_threads();
    client.send(&[&b"stats\r\n".repeat(400)[..], b"mn\r\n"].concat());
    other.send(b"shutdown\r\n");
    server.signal("CONT");
    let text = client.read_to("END\r\nMN\r\n");
    assert_eq!(text.matches("END\r\n").count(), 400);
    client.expect_end();
    assert!(server.wait().success());
}
