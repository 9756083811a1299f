//! Clients at the wrong port, whole pipelines of them: each protocol at each port. They get an
//! error or are disconnected, and a client at the right port does not notice. And a server whose
//! log and output go to a full disk.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Client, PATIENCE, Server};
use crate::packets::Packet;
use crate::pages;

/// Requests of a pipeline: more bytes than any buffer of the server holds.
const REQUESTS: usize = 50_000;

/// A server with all its ports: those of memcached's clients, of Redis' and of the admin page.
fn start() -> (Server, [SocketAddr; 3]) {
    let options = ["-m", "64", "-t", "2", "--admin-port", "0"];
    let (mut server, redis) = Server::start_with_redis(&options);
    let admin = pages::of(&mut server);
    let text = server.address();
    (server, [text, redis, admin])
}

fn packets() -> Vec<u8> {
    let set = Packet {
        opcode: 0x01,
        extras: &[0; 8],
        key: b"wrong",
        value: b"*1\r\n$4\r\nPING\r\nget a\r\n",
        ..Packet::default()
    };
    let noop = Packet { opcode: 0x0a, ..Packet::default() };
    [set.bytes(), noop.bytes()].concat().repeat(REQUESTS / 2)
}

/// Sends all of it and reads the answers, both as far as the server goes along. Returns the first
/// bytes of the answer, and its length.
fn throw(address: SocketAddr, bytes: &[u8]) -> (Vec<u8>, usize) {
    let mut stream = TcpStream::connect(address).expect("it accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket option");
    let mut reading = stream.try_clone().expect("a second handle");
    std::thread::scope(|scope| {
        let answers = scope.spawn(move || {
            let (mut first, mut count, mut chunk) = (Vec::new(), 0, vec![0; 1 << 16]);
            loop {
                match reading.read(&mut chunk) {
                    Ok(read) if read > 0 => {
                        first.extend_from_slice(&chunk[..read.min(256 - first.len().min(256))]);
                        count += read;
                    }
                    Ok(_) => break,
                    // It closed with bytes unread, which is an end too.
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => panic!("neither an answer nor an end: {error}"),
                }
            }
            (first, count)
        });
        // Where it hangs up in the middle the rest is lost.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        answers.join().expect("no panic")
    })
}

#[test]
fn pipelines_of_another_protocol_are_ended_without_effect_on_others() {
    let (server, [text, redis, admin]) = start();
    let mut good = server.connect();
    good.ask("set a 0 0 4\r\ngood\r\n", "STORED\r\n");
    let resp = "*3\r\n$3\r\nSET\r\n$5\r\nwrong\r\n$1\r\nx\r\n".repeat(REQUESTS);
    let http = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(REQUESTS);
    let post = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\n\
                set wrong 0 0 1\r\nx\r\nflush_all\r\n"
        .repeat(REQUESTS);
    let lines = "set wrong 0 0 1\r\nx\r\nget wrong\r\n".repeat(REQUESTS);
    let packets = packets();
    let no_http = b"HTTP/1.1 400 Bad Request";
    for (address, bytes, answer) in [
        // Each line is one that memcached does not know; the words behind `GET` and `POST` end it.
        (text, http.as_bytes(), &b""[..]),
        (text, post.as_bytes(), b""),
        (redis, http.as_bytes(), b"-ERR wrong number of arguments for 'get' command"),
        (redis, post.as_bytes(), b""),
        (admin, lines.as_bytes(), no_http),
        (admin, resp.as_bytes(), no_http),
        (admin, &packets, no_http),
    ] {
        let (first, count) = throw(address, bytes);
        let what = bytes[..20].escape_ascii();
        assert!(first.starts_with(answer), "{what}: {}", first.escape_ascii());
        assert!(count <= 1 << 16, "{what}: {count} bytes of answers to what is no request");
        good.ask("get a wrong\r\n", "VALUE a 0 4\r\ngood\r\nEND\r\n");
    }
    // Redis' arrays are lines that memcached does not know, and each is answered with an error.
    let (first, _) = throw(text, resp.as_bytes());
    assert!(first.starts_with(b"ERROR\r\nERROR\r\n"), "{}", first.escape_ascii());
    // In packets the opcode of `noop` ends a line of Redis', in which a quote is open.
    let (first, _) = throw(redis, &packets);
    let unbalanced = b"-ERR Protocol error: unbalanced quotes in request\r\n";
    assert_eq!(first.escape_ascii().to_string(), unbalanced.escape_ascii().to_string());
    // And memcached's lines are commands that Redis has, or has not.
    let (first, _) = throw(redis, lines.as_bytes());
    assert!(first.starts_with(b"-ERR "), "{}", first.escape_ascii());
    let mut fresh = Client::connect(redis);
    fresh.ask("get a\r\n", "$4\r\ngood\r\n");
    good.ask("get a wrong\r\n", "VALUE a 0 4\r\ngood\r\nEND\r\n");
}

/// Regression: a web page could have its reader's browser try passwords, until the address of all
/// local clients was throttled.
#[test]
fn a_page_cannot_have_a_browser_guess_at_passwords() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let users = folder.path().join("users");
    std::fs::write(&users, "bob:secret\n").expect("a file");
    let server = Server::start(&["-Y", users.to_str().expect("text")]);
    let login = "set x 0 0 9\r\nbob guess\r\n";
    let post = format!("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n{login}{login}");
    let (first, count) = throw(server.address(), post.as_bytes());
    assert_eq!((first.as_slice(), count), (&b""[..], 0));
    let mut client = server.connect();
    client.ask("set x 0 0 10\r\nbob secret\r\n", "STORED\r\n");
    assert_eq!((client.stat("auth_cmds"), client.stat("auth_errors")), (1, 0));
}

/// A process that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn full_disk() -> Stdio {
    Stdio::from(OpenOptions::new().write(true).open("/dev/full").expect("Linux has it"))
}

/// Regression: a server ended with a panic when a line of its log could not be written.
#[test]
fn a_server_whose_log_is_full_goes_on() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let users = folder.path().join("users");
    std::fs::write(&users, "bob:secret\n").expect("a file");
    // A socket that no other server of these tests can have; the server could not report a port.
    let socket = folder.path().join("socket");
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["-vvv", "-D", ":", "-Y"]).arg(&users).arg("-s").arg(&socket);
    let child = command.stdout(full_disk()).stderr(full_disk()).spawn();
    let mut server = Ended(child.expect("the server starts"));
    let id = server.0.id().to_string();
    let began = Instant::now();
    let mut connect = || loop {
        assert!(server.0.try_wait().expect("a state").is_none(), "the server ended");
        assert!(began.elapsed() < Duration::from_secs(60), "nobody is served");
        if let Ok(stream) = UnixStream::connect(&socket) {
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
            return Client { stream };
        }
    };
    let mut client = connect();
    client.ask("set a 0 0 10\r\nbob secret\r\n", "STORED\r\n");
    // A line for each of these.
    for round in 0..5 {
        std::fs::write(&users, format!("bob:secret\neve{round}:x\n")).expect("a file");
        let sent = Command::new("kill").args(["-s", "HUP", &id]).status();
        assert!(sent.expect("kill runs").success());
        let who = format!("eve{round} x");
        let login = format!("set a 0 0 {}\r\n{who}\r\n", who.len());
        loop {
            let mut unauthenticated = connect();
            unauthenticated.send(login.as_bytes());
            if unauthenticated.read_to("\r\n") == "STORED\r\n" {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "the file is not read again");
        }
    }
    client.ask("mn\r\n", "MN\r\n");
    let sent = Command::new("kill").args(["-s", "TERM", &id]).status();
    assert!(sent.expect("kill runs").success());
    assert!(server.0.wait().expect("its end").success(), "and ends in order");
}

#[test]
fn output_that_cannot_be_printed_is_an_error_and_no_panic() {
    let run = |out: Stdio, option: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.arg(option).stdout(out).stderr(Stdio::piped()).output().expect("it runs")
    };
    let output = run(full_disk(), "--help");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.starts_with("larder: cannot write the output: "), "{said}");
    // A reader of the help through `head` has read enough.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = run(Stdio::from(writer), "--help");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
