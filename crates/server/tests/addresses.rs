//! Limits for each address: connections from it, and wrong passwords; and that the check of a
//! password keeps no other client waiting.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use crate::common::{Client, PATIENCE, Server};

const FULL: &str = "ERROR Too many open connections\r\n";
const FAILURE: &str = "CLIENT_ERROR authentication failure\r\n";

/// A connection from one of this machine's many addresses.
fn connect_from(number: u8, target: SocketAddr) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let source = SocketAddr::from(([127, 0, 0, number], 0));
    socket.bind(&source.into()).expect("it is this machine's");
    socket.connect(&target.into()).expect("it accepts");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    Client { stream }
}

fn token(who: &str) -> String {
    format!("set any 0 0 {}\r\n{who}\r\n", who.len())
}

#[test]
fn an_address_has_as_many_connections_as_it_may() {
    for fast in [&[][..], &["--disable-maxconns-fast"]] {
        let server = Server::start(&[&["--max-connections-per-address", "3"], fast].concat());
        let mut open: Vec<Client> = (0..3).map(|_| connect_from(2, server.address())).collect();
        open.iter_mut().for_each(|client| client.ask("mn\r\n", "MN\r\n"));
        let mut refused = connect_from(2, server.address());
        refused.expect(FULL.as_bytes());
        refused.expect_end();
        // Other addresses are as free as before.
        let mut other = connect_from(3, server.address());
        other.ask("mn\r\n", "MN\r\n");
        assert_eq!(server.stat("rejected_by_address"), 1);
        assert_eq!(server.stat("rejected_connections"), 0);
        // A client that leaves makes room, as soon as the server has noticed.
        drop(open.pop());
        let is_in = (0..1000).any(|_| {
            let mut client = connect_from(2, server.address());
            let mut first = [0];
            // A refused connection may be reset before the line was read.
            let sent = client.stream.write_all(b"mn\r\n");
            sent.is_ok() && client.stream.read(&mut first).is_ok_and(|_| first == *b"M")
        });
        assert!(is_in, "a place that was left is given to the next");
        open.iter_mut().for_each(|client| client.ask("mn\r\n", "MN\r\n"));
    }
}

#[test]
fn a_client_of_redis_is_told_in_its_words() {
    let options = ["--max-connections-per-address", "1"];
    let (_server, address) = Server::start_with_redis(&options);
    let mut first = connect_from(2, address);
    first.ask("ping\r\n", "+PONG\r\n");
    let mut second = connect_from(2, address);
    second.expect(b"-ERR max number of clients reached\r\n");
    second.expect_end();
}

#[test]
fn a_unix_socket_has_no_address() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("socket");
    let path = path.to_str().expect("UTF-8");
    let _server = Server::start(&["-s", path, "--max-connections-per-address", "1", "-v"]);
    let mut clients: Vec<Client<UnixStream>> =
        (0..5).map(|_| Client { stream: UnixStream::connect(path).expect("it accepts") }).collect();
    clients.iter_mut().for_each(|client| client.ask("mn\r\n", "MN\r\n"));
}

#[test]
fn after_many_wrong_passwords_an_address_waits_and_others_do_not() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("users");
    fs::write(&file, "bob:secret\n").expect("a file");
    let server = Server::start(&["-Y", file.to_str().expect("UTF-8")]);
    let mut known = connect_from(3, server.address());
    known.ask(&token("bob secret"), "STORED\r\n");
    let throttled = |known: &mut Client| known.stat("auth_throttled");
    // However slow this machine is, pauses become so long that a guess falls into one.
    let mut guesses = 0;
    while throttled(&mut known) == 0 {
        connect_from(2, server.address()).ask(&token("bob wrong"), FAILURE);
        guesses += 1;
        assert!(guesses < 1000, "nobody has to wait");
    }
    assert!(guesses > 10, "the first ten are looked at");
    connect_from(4, server.address()).ask(&token("bob secret"), "STORED\r\n");
    // The pause ends, and the right password ends all of it.
    let mut tries = 0;
    loop {
        let mut client = connect_from(2, server.address());
        client.send(token("bob secret").as_bytes());
        if client.read_to("\r\n") == "STORED\r\n" {
            break;
        }
        tries += 1;
        assert!(tries < 1_000_000, "the pause does not end");
    }
    for _ in 0..9 {
        let before = throttled(&mut known);
        connect_from(2, server.address()).ask(&token("bob wrong"), FAILURE);
        assert_eq!(throttled(&mut known), before);
    }
}

/// A server with one worker, whose only user's password takes as long to check as a hash may: many
/// seconds. With its log, and a client that has logged in before.
fn start_slow() -> (Server, BufReader<UnixStream>, Client, TempDir) {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("users");
    fs::write(&file, "bob:secret\n").expect("a file");
    let options = ["-t", "1", "-Y", file.to_str().expect("UTF-8")];
    let (server, mut said) = Server::start_logged(&options);
    let mut known = server.connect();
    known.ask(&token("bob secret"), "STORED\r\n");
    let slow = "$argon2id$v=19$m=262144,t=64,p=1$c2FsdHNhbHRzYWx0$\
                Sm3MnLdCFk0Af+croKgebRoqqmhbKd88iiW3yUOXn78";
    fs::write(&file, format!("ava:{slow}\n")).expect("a file");
    server.signal("HUP");
    let mut line = String::new();
    said.read_line(&mut line).expect("it says what came of it");
    assert_eq!(line, "larder: SIGHUP: 1 user from now on\n");
    (server, said, known, folder)
}

/// Regression: a worker hashed passwords itself while its other clients waited.
#[test]
fn while_a_password_is_checked_other_clients_are_served() {
    let (server, mut said, mut known, _folder) = start_slow();
    for round in 0..3 {
        let mut waiting = server.connect();
        waiting.send(format!("{}get a\r\n", token("ava secret")).as_bytes());
        known.ask(&format!("set a 0 0 1\r\n{round}\r\n"), "STORED\r\n");
        known.ask("get a\r\n", &format!("VALUE a 0 1\r\n{round}\r\nEND\r\n"));
        // A worker that hashes would have answered this one first.
        waiting.stream.set_nonblocking(true).expect("a socket option");
        let answer = waiting.stream.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(answer, Err(ErrorKind::WouldBlock), "it was answered before others");
        // One that hangs up takes nothing with it.
        drop(waiting);
    }
    let mut line = String::new();
    said.get_ref().set_nonblocking(true).expect("a socket option");
    assert!(said.read_line(&mut line).is_err(), "it says nothing more: {line}");
}

/// Regression: input behind a password was kept for as long as the check took, for clients that may
/// be anyone, and counted nowhere.
#[test]
fn input_behind_a_password_counts_until_it_is_checked() {
    const BEHIND_BYTES: u64 = 60_000;
    let (server, _said, mut known, _folder) = start_slow();
    let mut waiting = server.connect();
    let behind = "x".repeat(BEHIND_BYTES as usize);
    waiting.send(format!("{}{behind}", token("ava secret")).as_bytes());
    known.wait_for_stat("output_parked_bytes", |bytes| bytes >= BEHIND_BYTES / 2);
    // They may have a quarter of the room for all.
    let others: Vec<Client> = (0..100)
        .map(|_| {
            let mut other = server.connect();
            // Some are closed while they send.
            let _ = other.stream.write_all(format!("{}{behind}", token("ava secret")).as_bytes());
            other
        })
        .collect();
    known.wait_for_stat("output_kicks", |kicks| kicks > 0);
    assert!(known.stat("output_parked_bytes") <= ((16 << 20) + (64 << 20) / 100 * 3) / 4);
    drop(others);
}
