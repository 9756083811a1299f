//! A clean stop and the start after it: with a flash tier, what was in memory is there again.

mod common;

use common::{Client, Server};
use tempfile::TempDir;

const ITEMS: usize = 5000;

/// A server with a flash tier in this folder.
fn start(folder: &TempDir, options: &[&str]) -> Server {
    let flash = format!("{}:64m", folder.path().join("flash").display());
    let server = Server::start(&[&["-m", "64", "--flash", &flash], options].concat());
    while flash_stat(&mut server.connect(), "recovering") > 0 {
        std::thread::yield_now();
    }
    server
}

/// Ends a server as its supervisor does.
fn stop(mut server: Server, signal: &str) {
    server.signal(signal);
    assert!(server.wait().success());
}

fn flash_stat(client: &mut Client, name: &str) -> u64 {
    client.send(b"stats flash\r\n");
    let text = client.read_to("END\r\n");
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

/// Values of a few bytes to some kilobytes.
fn value(number: usize) -> String {
    format!("{number}, ").repeat(1 + number % 300)
}

fn store_all(client: &mut Client) {
    for number in 0..ITEMS {
        let (value, ttl) = (value(number), if number % 2 == 0 { 0 } else { 100_000 });
        let line = format!("set key-{number} {number} {ttl} {}\r\n{value}\r\n", value.len());
        client.ask(&line, "STORED\r\n");
    }
}

#[test]
fn what_was_in_memory_is_there_after_a_clean_stop() {
    for signal in ["TERM", "INT"] {
        let folder = tempfile::tempdir().expect("a folder for the device");
        let server = start(&folder, &[]);
        let mut client = server.connect();
        store_all(&mut client);
        client.ask("delete key-17\r\n", "DELETED\r\n");
        stop(server, signal);
        let server = start(&folder, &[]);
        assert_eq!(server.stat("curr_items"), ITEMS as u64 - 1);
        let mut client = server.connect();
        for number in (0..ITEMS).filter(|&number| number != 17) {
            let value = value(number);
            client.ask(
                &format!("get key-{number}\r\n"),
                &format!("VALUE key-{number} {number} {}\r\n{value}\r\nEND\r\n", value.len()),
            );
            client.send(format!("mg key-{number} t\r\n").as_bytes());
            let line = client.read_to("\r\n");
            let expires = line.trim_end().strip_prefix("HD t").expect("it is there");
            let seconds: i64 = expires.parse().expect("a number");
            let is_right = if number % 2 == 0 { -1..=-1 } else { 99_000..=100_000 };
            assert!(is_right.contains(&seconds), "{number}: {line}");
        }
        client.ask("mg key-17 v\r\n", "EN\r\n");
    }
}

#[test]
fn nothing_is_saved_if_that_is_not_wanted() {
    let folder = tempfile::tempdir().expect("a folder for the device");
    let server = start(&folder, &["--flash-save-seconds", "0"]);
    store_all(&mut server.connect());
    stop(server, "TERM");
    let server = start(&folder, &[]);
    assert!(server.stat("curr_items") < ITEMS as u64 / 100);
}
