//! Users that may only read: their answers in each protocol, and that nothing changes.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;

use tempfile::TempDir;

use crate::common::{Client, Server};
use crate::packets::Packet;

const REFUSED: &str = "CLIENT_ERROR not allowed for a read-only user\r\n";
const AUTH_FAILURE: u16 = 0x20;

/// A server with a user who may do anything and one who may read, and its address for Redis'
/// clients.
fn start(options: &[&str]) -> (Server, SocketAddr, TempDir) {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("users");
    fs::write(&file, "bob:secret\n[read-only]\nann:reads\n").expect("a file");
    let file = file.to_str().expect("a path in UTF-8");
    let (server, redis) = Server::start_with_redis(&[&["-Y", file, "-S", "-A"], options].concat());
    (server, redis, folder)
}

fn text(server: &Server, who: &str) -> Client {
    let mut client = server.connect();
    client.ask(&format!("set any 0 0 {}\r\n{who}\r\n", who.len()), "STORED\r\n");
    client
}

fn redis(address: SocketAddr, auth: &str) -> Client {
    let mut client = Client::connect(address);
    client.ask(auth, "+OK\r\n");
    client
}

#[test]
fn a_text_client_reads_and_changes_nothing() {
    let (server, _, _folder) = start(&[]);
    let (mut writer, mut reader) = (text(&server, "bob secret"), text(&server, "ann reads"));
    writer.ask("set a 5 0 3\r\none\r\nset n 0 0 1\r\n7\r\n", "STORED\r\nSTORED\r\n");
    reader.ask("get a b\r\n", "VALUE a 5 3\r\none\r\nEND\r\n");
    reader.ask("mg a v t\r\nmn\r\n", "VA 3 t-1\r\none\r\nMN\r\n");
    for change in [
        "set a 0 0 3\r\ntwo\r\n",
        "add b 0 0 3\r\ntwo\r\n",
        "replace a 0 0 3\r\ntwo\r\n",
        "append a 0 0 1\r\n!\r\n",
        "prepend a 0 0 1\r\n!\r\n",
        "cas a 0 0 3 1\r\ntwo\r\n",
        "ms a 3\r\ntwo\r\n",
        "ms b 3 q\r\ntwo\r\n",
        "delete a\r\n",
        "md a\r\n",
        "md a q I\r\n",
        "incr n 1\r\n",
        "decr n 1\r\n",
        "ma n\r\n",
        "ma m N0 J1\r\n",
        "touch a 1\r\n",
        "gat 1 a\r\n",
        "gats 1 a b c\r\n",
        "mg a T1 v\r\n",
        "mg b N0 v\r\n",
        "mg a R30\r\n",
        "flush_all\r\n",
        "flush_all 1\r\n",
        "verbosity 2\r\n",
        "cache_memlimit 100\r\n",
        "shutdown\r\n",
        "watch fetchers\r\n",
        "stats reset\r\n",
        "lru_crawler crawl all\r\n",
        "lru mode flat\r\n",
        "slabs automove 1\r\n",
    ] {
        // Alone, among others, and in two writes.
        reader.ask(change, REFUSED);
        let more = format!("get n\r\n{change}mn\r\n");
        reader.ask(&more, &format!("VALUE n 0 1\r\n7\r\nEND\r\n{REFUSED}MN\r\n"));
        for cut in 1..change.len() {
            reader.send(&change.as_bytes()[..cut]);
            // By the answer to another client the first part has most likely been read.
            writer.ask("mn\r\n", "MN\r\n");
            reader.ask(&format!("{}mn\r\n", &change[cut..]), &format!("{REFUSED}MN\r\n"));
        }
    }
    // A request that wants no answer gets none.
    reader.ask("set a 0 0 3 noreply\r\ntwo\r\ndelete n noreply\r\nmn\r\n", "MN\r\n");
    writer.ask("get a n b m\r\n", "VALUE a 5 3\r\none\r\nVALUE n 0 1\r\n7\r\nEND\r\n");
    reader.send(b"lru_crawler metadump all\r\n");
    let dump = reader.read_to("END\r\n");
    assert!(dump.contains("key=a ") && dump.contains("key=n "), "{dump}");
    assert_eq!((writer.stat("cmd_set"), writer.stat("cmd_touch")), (2, 0));
}

#[test]
fn a_touch_of_more_keys_than_a_batch_holds_is_refused_once() {
    let (server, _, _folder) = start(&[]);
    let mut reader = text(&server, "ann reads");
    for keys in [1, 127, 128, 129, 1000, 20_000] {
        let line: String = (0..keys).map(|key| format!(" key{key}")).collect();
        reader.ask(&format!("gat 1{line}\r\nmn\r\n"), &format!("{REFUSED}MN\r\n"));
        reader.ask(&format!("get{line}\r\nmn\r\n"), "END\r\nMN\r\n");
    }
}

#[test]
fn a_large_value_that_is_refused_is_skipped() {
    let (server, _, _folder) = start(&[]);
    let (mut writer, mut reader) = (text(&server, "bob secret"), text(&server, "ann reads"));
    for bytes in [2000, 100_000, 900_000] {
        let value = "x".repeat(bytes);
        let answer = format!("{REFUSED}MN\r\n");
        reader.ask(&format!("set a 0 0 {bytes}\r\n{value}\r\nmn\r\n"), &answer);
        reader.ask(&format!("ms a {bytes}\r\n{value}\r\nmn\r\n"), &answer);
    }
    writer.ask("get a\r\n", "END\r\n");
}

#[test]
fn a_binary_client_reads_and_changes_nothing() {
    let (server, _, _folder) = start(&[]);
    let login = |who: &'static [u8]| {
        let mut client = server.connect();
        let plain = Packet { opcode: 0x21, key: b"PLAIN", value: who, ..Packet::default() };
        assert_eq!(client.call(&plain).value, b"Authenticated");
        client
    };
    let (mut writer, mut reader) = (login(b"\0bob\0secret"), login(b"\0ann\0reads"));
    let set =
        |value| Packet { opcode: 0x01, extras: &[0; 8], key: b"a", value, ..Packet::default() };
    writer.expect_status(&set(b"7"), 0);
    let long = vec![b'x'; 200_000];
    let number: &[u8] = &[0; 20];
    let bare = |opcode, extras, key| Packet { opcode, extras, key, ..Packet::default() };
    for change in [
        set(b"8"),
        set(&long),
        Packet { opcode: 0x11, ..set(b"8") },
        Packet { opcode: 0x0e, extras: b"", ..set(b"8") },
        bare(0x04, b"", b"a"),
        bare(0x14, b"", b"a"),
        bare(0x05, number, b"a"),
        bare(0x06, number, b"b"),
        bare(0x1c, &[0; 4], b"a"),
        bare(0x1d, &[0; 4], b"a"),
        bare(0x08, b"", b""),
        bare(0x18, b"", b""),
        bare(0x1b, &[0; 4], b""),
        bare(0x10, b"", b"reset"),
    ] {
        let answer = reader.call(&change);
        assert_eq!((answer.status, answer.value), (AUTH_FAILURE, b"Auth failure.".to_vec()));
        // The connection is kept, and requests behind the change are understood.
        assert_eq!(reader.call(&bare(0x00, b"", b"a")).value, b"7");
    }
    assert_eq!(writer.call(&bare(0x00, b"", b"a")).value, b"7");
    // A client that logs in anew has its new rights.
    let plain =
        Packet { opcode: 0x21, key: b"PLAIN", value: b"\0bob\0secret", ..Packet::default() };
    assert_eq!(reader.call(&plain).value, b"Authenticated");
    reader.expect_status(&set(b"9"), 0);
}

/// The first line of the one reply to a line of a command.
fn first_line(client: &mut Client) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n") {
        client.stream.read_exact(&mut byte).expect("the line comes");
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("text")
}

/// Every command of the server: its name, its least number of words, and its flags.
fn commands(client: &mut Client) -> Vec<(String, usize, Vec<String>)> {
    client.send(b"command\r\n");
    let length = |line: String| line.trim()[1..].parse::<i64>().expect("a number");
    let count = length(first_line(client));
    let word = |client: &mut Client| {
        let header = first_line(client);
        match header.as_bytes()[0] {
            b'$' => first_line(client).trim().to_owned(),
            _ => header.trim()[1..].to_owned(),
        }
    };
    let list = |client: &mut Client| {
        let count = length(first_line(client));
        (0..count).map(|_| word(client)).collect::<Vec<_>>()
    };
    let mut commands = Vec::new();
    for _ in 0..count {
        assert_eq!(first_line(client), "*10\r\n");
        let (name, arity) = (word(client), length(first_line(client)));
        let flags = list(client);
        (0..3).for_each(|_| drop(first_line(client)));
        (0..4).for_each(|_| drop(list(client)));
        commands.push((name, arity.unsigned_abs() as usize, flags));
    }
    commands
}

#[test]
fn a_redis_client_is_refused_commands_with_the_write_flag() {
    let (server, address, _folder) = start(&[]);
    let mut writer = redis(address, "auth bob secret\r\n");
    writer.ask("set a one\r\nset n 7\r\n", "+OK\r\n+OK\r\n");
    let commands = commands(&mut writer);
    assert!(commands.len() > 40);
    let has = |flags: &[String], flag: &str| flags.iter().any(|known| known == flag);
    for (name, words, flags) in &commands {
        let mut reader = redis(address, "auth ann reads\r\n");
        let line = format!("{name}{}\r\n", " a".repeat(words - 1));
        reader.send(line.as_bytes());
        let refusal = format!("-NOPERM this user has no permissions to run the '{name}' command");
        if has(flags, "write") {
            assert_eq!(first_line(&mut reader).trim(), refusal);
            // Among others, and with too few words, as in Redis.
            let mut expected = format!("+PONG\r\n{refusal}\r\n+PONG\r\n");
            let bare = if *words > 1 { format!("{name}\r\n") } else { String::new() };
            if *words > 1 {
                let text = format!("-ERR wrong number of arguments for '{name}' command\r\n");
                expected.push_str(&text);
            }
            reader.ask(&format!("ping\r\n{line}ping\r\n{bare}"), &expected);
        } else if !matches!(name.as_str(), "post" | "host:") {
            let answer = first_line(&mut reader);
            assert!(!answer.starts_with("-NO"), "{name}: {answer}");
        }
    }
    let mut reader = redis(address, "auth ann reads\r\n");
    reader.ask("get a\r\nmget a n\r\n", "$3\r\none\r\n*2\r\n$3\r\none\r\n$1\r\n7\r\n");
    let refusal = "-NOPERM this user has no permissions to run the 'config|resetstat' command\r\n";
    reader.ask("config resetstat\r\n", refusal);
    let port = address.port().to_string();
    let answer = format!("*2\r\n$4\r\nport\r\n${}\r\n{port}\r\n", port.len());
    reader.ask("config get port\r\n", &answer);
    reader
        .ask("set a two\r\n", "-NOPERM this user has no permissions to run the 'set' command\r\n");
    // Its user may change, in both directions.
    reader.ask("auth bob secret\r\nset a two\r\n", "+OK\r\n+OK\r\n");
    reader.ask("auth ann reads\r\nget a\r\n", "+OK\r\n$3\r\ntwo\r\n");
    reader.send(b"del a\r\n");
    assert!(first_line(&mut reader).starts_with("-NOPERM"));
    writer.ask("mget a n\r\n", "*2\r\n$3\r\ntwo\r\n$1\r\n7\r\n");
    drop(server);
}
