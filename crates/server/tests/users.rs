//! The users of the server: `-Y` in text, `-S` in the binary protocol.

use std::fs;
use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::common::Server;
use crate::packets::Packet;

const GET: u8 = 0x00;
const QUIT: u8 = 0x07;
const NOOP: u8 = 0x0a;
const VERSION: u8 = 0x0b;
const SASL_LIST: u8 = 0x20;
const SASL_AUTH: u8 = 0x21;
const SASL_STEP: u8 = 0x22;

const AUTH_FAILURE: u16 = 0x20;
const AUTH_CONTINUE: u16 = 0x21;
const INVALID: u16 = 0x04;

const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated\r\n";
const FAILURE: &str = "CLIENT_ERROR authentication failure\r\n";

/// `secret`, by PBKDF2.
const PBKDF2: &str = "$pbkdf2-sha256$i=1000,l=32$c2FsdHNhbHRzYWx0$\
                      sVaWem31qy3rw+Ldi3plA/XzhMSNi9/XHnnD1Ytj05o";

/// A server for these users.
fn start(users: &str, options: &[&str]) -> (Server, TempDir) {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("users");
    fs::write(&file, users).expect("a file");
    let file = file.to_str().expect("a path in UTF-8").to_owned();
    (Server::start(&[&["-Y", &file], options].concat()), folder)
}

/// How a server with this file ends at once: its code, and its message.
fn start_failing(options: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    let output = command.args(["-p", "0"]).args(options).stdout(Stdio::null()).output();
    let output = output.expect("it runs");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

/// A text client's name and password.
fn token(name_and_password: &str) -> String {
    format!("set any 0 0 {}\r\n{name_and_password}\r\n", name_and_password.len())
}

/// A binary client's.
fn plain(message: &[u8]) -> Packet<'_> {
    Packet { opcode: SASL_AUTH, key: b"PLAIN", value: message, ..Packet::default() }
}

fn bare(opcode: u8) -> Packet<'static> {
    Packet { opcode, ..Packet::default() }
}

#[test]
fn a_text_client_has_to_log_in_before_anything_else() {
    let (server, _folder) = start(&format!("bob:secret\nann:{PBKDF2}\n"), &[]);
    for who in ["bob secret", "ann secret"] {
        let mut client = server.connect();
        for refused in ["get a\r\n", "version\r\n", "quit\r\n", "set any 0 0\r\n", "\r\n"] {
            client.ask(refused, UNAUTHENTICATED);
        }
        client.ask("set any 0 0 3\r\nbob\r\n", "CLIENT_ERROR bad authentication token format\r\n");
        client.ask("set any 0 0 3\r\nbob \n", "CLIENT_ERROR bad command line termination\r\n");
        client.ask(&token("bob wrong"), FAILURE);
        // Requests behind the token are executed, and an ordinary set is one.
        let more = format!("{}{}get any\r\n", token(who), token("x y"));
        client.ask(&more, "STORED\r\nSTORED\r\nVALUE any 0 3\r\nx y\r\nEND\r\n");
    }
    let mut client = server.connect();
    client.ask(&token("bob secret"), "STORED\r\n");
    client.send(b"stats\r\n");
    let text = client.read_to("END\r\n");
    for line in ["STAT auth_cmds 5\r\n", "STAT auth_errors 2\r\n"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    client.send(b"stats settings\r\n");
    let text = client.read_to("END\r\n");
    for line in ["auth_enabled_sasl no\r\n", "/users\r\n", "binding_protocol ascii\r\n"] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn a_token_may_come_in_pieces() {
    let (server, _folder) = start("bob:secret\n", &[]);
    let whole = token("bob secret");
    for cut in 1..whole.len() {
        let mut client = server.connect();
        client.send(&whole.as_bytes()[..cut]);
        // Another client's reply: by then the server has most likely read the first part.
        server.connect().ask("mn\r\n", UNAUTHENTICATED);
        client.ask(&whole[cut..], "STORED\r\n");
        client.ask("mn\r\n", "MN\r\n");
    }
}

#[test]
fn three_wrong_passwords_end_a_connection() {
    let (server, _folder) = start("bob:secret\n", &["-S"]);
    let mut client = server.connect();
    client.ask(&token("bob x").repeat(4), &FAILURE.repeat(3));
    client.expect_end();
    let mut client = server.connect();
    for _ in 0..3 {
        client.expect_status(&plain(b"\0bob\0x"), AUTH_FAILURE);
    }
    client.expect_end();
}

#[test]
fn a_binary_client_logs_in_by_sasl() {
    let (server, _folder) = start("bob:secret\n", &["-S"]);
    let mut client = server.connect();
    assert_eq!(client.call(&bare(SASL_LIST)).value, b"PLAIN");
    assert_eq!(client.call(&bare(VERSION)).status, 0);
    let other = Packet { key: b"CRAM-MD5", ..plain(b"\0bob\0secret") };
    client.expect_status(&other, AUTH_FAILURE);
    client.expect_status(&plain(b"bob"), AUTH_FAILURE);
    assert_eq!(client.call(&plain(b"\0bob\0secret")).value, b"Authenticated");
    client.expect_status(&bare(NOOP), 0);
    // A client that logs in anew, and wrongly, is unauthenticated.
    client.expect_status(&plain(b"\0bob\0wrong"), AUTH_FAILURE);
    client.expect_end();

    let mut client = server.connect();
    client.expect_status(&plain(b""), AUTH_CONTINUE);
    let step = Packet { opcode: SASL_STEP, ..plain(b"bob\0bob\0secret") };
    assert_eq!(client.call(&step).value, b"Authenticated");
    client.expect_status(&Packet { key: b"", ..bare(QUIT) }, 0);

    let mut text = server.connect();
    text.ask("get a\r\n", UNAUTHENTICATED);
    text.ask(&token("bob secret"), "STORED\r\n");
    text.send(b"stats settings\r\n");
    let settings = text.read_to("END\r\n");
    assert!(settings.contains("auth_enabled_sasl yes\r\n"), "{settings}");
}

#[test]
fn an_unauthenticated_binary_client_is_disconnected() {
    let (server, _folder) = start("bob:secret\n", &["-S"]);
    let get = Packet { opcode: GET, key: b"a", ..Packet::default() };
    let unknown = Packet { opcode: 0x77, value: b"x", ..Packet::default() };
    let misshapen = Packet { extras: b"1234", ..get.clone() };
    for packet in [get, unknown, misshapen, bare(NOOP), bare(QUIT)] {
        let mut client = server.connect();
        client.send(&[packet.bytes(), bare(VERSION).bytes()].concat());
        assert_eq!(client.answer().status, AUTH_FAILURE, "{packet:?}");
        client.expect_end();
    }
    // Without -S it is not served at all.
    let (server, _folder) = start("bob:secret\n", &[]);
    let mut client = server.connect();
    client.send(&plain(b"\0bob\0secret").bytes());
    client.expect_end();
    // Without users there is no login.
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.expect_status(&plain(b"\0bob\0secret"), 0x81);
    client.expect_status(&Packet { value: b"", key: b"", ..plain(b"") }, INVALID);
}

#[test]
fn the_file_is_read_again_at_sighup() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("users");
    fs::write(&file, "bob:secret\n").expect("a file");
    let (server, mut said) = Server::start_logged(&["-Y", file.to_str().expect("UTF-8")]);
    let mut reread = |users: &str| {
        fs::write(&file, users).expect("a file");
        server.signal("HUP");
        let mut line = String::new();
        said.read_line(&mut line).expect("the server says what came of it");
        line
    };
    let admits = |who: &str| {
        let mut client = server.connect();
        client.send(token(who).as_bytes());
        client.read_to("\r\n") == "STORED\r\n"
    };
    let mut known = server.connect();
    known.ask(&token("bob secret"), "STORED\r\n");
    assert_eq!(reread("ann:new\neve:other\n"), "larder: SIGHUP: 2 users from now on\n");
    assert!(admits("ann new") && !admits("bob secret"));
    known.ask("mn\r\n", "MN\r\n");
    // A wrong file changes nothing.
    let line = reread("eve\n");
    let why = "line 1: not name:password; comments are not allowed";
    assert!(line.ends_with(&format!("{why}; the users are unchanged\n")), "{line}");
    assert!(admits("ann new") && admits("eve other"));
}

#[test]
fn errors_in_the_users_are_reported_at_the_start() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let write = |name: &str, text: &str| {
        fs::write(Path::new(&path(name)), text).expect("a file");
        path(name)
    };
    let many: String = (0..257).map(|user| format!("u{user}:x\n")).collect();
    for (file, what) in [
        (path("missing"), "cannot read the users in"),
        (write("empty", ""), "there are none"),
        (write("colon", "bob:x\nhunter2\n"), "line 2: not name:password"),
        (write("many", &many), "more than 256"),
        (write("long", &"x".repeat(600_000)), "more bytes than the maximum of 525312"),
    ] {
        let (code, text) = start_failing(&["-Y", &file]);
        // Regression: the systemd unit restarted every few seconds, for an error that stays.
        let expected = if what.starts_with("cannot read") { 1 } else { 65 };
        assert!(code == Some(expected) && text.contains(what), "{code:?}: {text}");
        assert!(!text.contains("hunter2"), "no line of the file is told: {text}");
    }
    let file = write("good", "bob:x\n");
    for options in
        [&["-S"][..], &["-S", "-Y", &file, "-B", "ascii"], &["-Y", &file, "-B", "binary"]]
    {
        assert_eq!(start_failing(options).0, Some(64), "{options:?}");
    }
}
