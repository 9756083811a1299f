//! TLS: `-Z` and its options, with certificates that are made here.

use std::fs;
use std::io::{BufRead, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustls::StreamOwned;
use testing::{Identity, VERSIONS, session};

use crate::common::{Client, Server};
use crate::identities::{Authority, TlsClient, connect};
use crate::packets::Packet;

fn start(authority: &Authority, others: &[&str]) -> Server {
    let options = authority.options(others);
    Server::start(&options.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A server with a second address, without TLS.
fn start_with_plain(authority: &Authority, others: &[&str]) -> (Server, SocketAddr) {
    let both = [&["-l", "127.0.0.1,notls:127.0.0.1"], others].concat();
    let mut server = start(authority, &both);
    let line = server.next_line();
    let plain = line.trim().strip_prefix("listening on tcp:").expect("the second address");
    let plain = plain.parse().expect("an address");
    (server, plain)
}

/// The value of a line of `stats`, asked for without TLS.
fn stat(plain: SocketAddr, name: &str) -> u64 {
    Client::connect(plain).stat(name)
}

/// The certificate that the server shows.
fn shown(client: &TlsClient) -> Vec<u8> {
    client.stream.conn.peer_certificates().expect("a server shows one")[0].to_vec()
}

#[test]
fn requests_and_replies_are_what_they_are_without_it() {
    let authority = Authority::new("ours");
    let server = start(&authority, &["-m", "256", "-I", "16m"]);
    for version in VERSIONS {
        let mut client = connect(server.address(), authority.client_config(None, &[version]));
        client.ask("set a 0 0 3\r\nabc\r\nget a\r\n", "STORED\r\nVALUE a 0 3\r\nabc\r\nEND\r\n");
        client.ask("ms m 2\r\nxy\r\nmg m v\r\nmn\r\n", "HD\r\nVA 2\r\nxy\r\nMN\r\n");
        client.send(&b"get a\r\n".repeat(10_000));
        client.expect(&b"VALUE a 0 3\r\nabc\r\nEND\r\n".repeat(10_000));
        for bytes in [1, 16 << 10, (16 << 10) + 1, 65_536, 1 << 20, 8 << 20] {
            let value: Vec<u8> = (0..bytes).map(|place| (place * 31 % 251) as u8).collect();
            client.send(format!("set big 3 0 {bytes}\r\n").as_bytes());
            client.send(&value);
            client.send(b"\r\nget big\r\nmn\r\n");
            client.expect(format!("STORED\r\nVALUE big 3 {bytes}\r\n").as_bytes());
            client.expect(&value);
            client.expect(b"\r\nEND\r\nMN\r\n");
        }
        let mut client = connect(server.address(), authority.client_config(None, &[version]));
        client.send(
            &Packet { opcode: 0x01, extras: &[0; 8], key: b"b", value: b"v", ..Packet::default() }
                .bytes(),
        );
        assert_eq!(client.answer().status, 0);
        client.send(&Packet { key: b"b", ..Packet::default() }.bytes());
        assert_eq!(client.answer().value, b"v");
    }
}

#[test]
fn a_late_reader_gets_everything_and_others_are_served_meanwhile() {
    let authority = Authority::new("ours");
    let (server, plain) = start_with_plain(&authority, &["-m", "512", "-I", "16m", "-t", "1"]);
    let mut client = authority.connect(server.address());
    let value: Vec<u8> = (0..8 << 20).map(|place| (place * 7 % 253) as u8).collect();
    client.send(format!("set big 0 0 {}\r\n", value.len()).as_bytes());
    client.send(&value);
    client.ask("\r\n", "STORED\r\n");
    client.send(&b"get big\r\n".repeat(6));
    client.send(b"mn\r\n");
    // The server has no place for so much, and waits.
    Client::connect(plain).wait_for_stat("output_parked_bytes", |bytes| bytes > 0);
    authority.connect(server.address()).ask("mn\r\n", "MN\r\n");
    for _ in 0..6 {
        client.expect(format!("VALUE big 0 {}\r\n", value.len()).as_bytes());
        client.expect(&value);
        client.expect(b"\r\nEND\r\n");
    }
    client.expect(b"MN\r\n");
    assert_eq!(stat(plain, "output_parked_bytes"), 0);
}

#[test]
fn clients_that_never_read_are_cut_off_at_the_output_limit() {
    let authority = Authority::new("ours");
    let (server, plain) = start_with_plain(&authority, &["-m", "64", "-I", "8m", "-c", "100"]);
    let mut client = authority.connect(server.address());
    // Sockets may take 4 MiB of it.
    client.send(b"set big 0 0 7000000\r\n");
    client.send(&vec![b'v'; 7_000_000]);
    client.ask("\r\n", "STORED\r\n");
    let (mut greedy, mut watcher) = (Vec::new(), Client::connect(plain));
    while watcher.stat("output_kicks") == 0 {
        let mut client = authority.connect(server.address());
        let before = watcher.stat("cmd_get");
        client.send(&b"get big\r\n".repeat(4));
        greedy.push(client);
        watcher.wait_for_stat("cmd_get", |gets| gets > before);
        assert!(greedy.len() < 50, "nobody was cut off");
    }
    drop(greedy);
    watcher.wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
    authority.connect(server.address()).ask("mn\r\n", "MN\r\n");
}

/// Sends one byte at a time.
struct Dribble<S>(S);

impl<S: Read> Read for Dribble<S> {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(target)
    }
}

impl<S: Write> Write for Dribble<S> {
    fn write(&mut self, source: &[u8]) -> std::io::Result<usize> {
        self.0.write(&source[..source.len().min(1)])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn everything_may_come_byte_by_byte() {
    let authority = Authority::new("ours");
    let server = start(&authority, &[]);
    for version in VERSIONS {
        let config = authority.client_config(None, &[version]);
        let stream = Dribble(Client::connect(server.address()).stream);
        let mut client = Client { stream: StreamOwned::new(session(config), stream) };
        client.ask("set a 0 0 3\r\nabc\r\n", "STORED\r\n");
        client.ask("get a\r\n", "VALUE a 0 3\r\nabc\r\nEND\r\n");
    }
}

#[test]
fn input_without_tls_gets_an_alert_and_is_counted_and_logged() {
    let authority = Authority::new("ours");
    let (server, plain) = start_with_plain(&authority, &[]);
    let mut watcher = Client::connect(plain);
    watcher.ask("watch connevents\r\n", "OK\r\n");
    for (round, garbage) in [&b"stats\r\n"[..], b"*1\r\n$4\r\nPING\r\n", &[0x80; 24], &[0; 5000]]
        .into_iter()
        .enumerate()
    {
        let mut client = Client::connect(server.address());
        client.send(garbage);
        let mut said = Vec::new();
        client.stream.read_to_end(&mut said).expect("an end");
        assert_eq!((said.len(), &said[..3]), (7, &[21, 3, 3][..]), "{said:?}");
        let mut text = watcher.read_to("\n");
        while !text.contains("type=tls_error") || !text.contains("conn_close") {
            text += &watcher.read_to("\n");
        }
        assert!(text.contains("the%20client%20does%20not%20speak%20TLS"), "{text}");
        assert_eq!(stat(plain, "ssl_handshake_errors"), round as u64 + 1);
    }
    assert_eq!(stat(plain, "ssl_new_sessions"), 0);
    authority.connect(server.address()).ask("mn\r\n", "MN\r\n");
    assert_eq!(stat(plain, "ssl_new_sessions"), 1);
}

#[test]
fn certificates_of_clients_are_required_where_that_is_chosen() {
    let (authority, foreign) = (Authority::new("ours"), Authority::new("theirs"));
    let options = authority.options(&["-v", "-o", "ssl_verify_mode=2"]);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (server, mut log) = Server::start_logged(&options);
    let good = authority.client();
    for (identity, said) in [
        (None, "the client shows no certificate"),
        (Some(authority.client_until(2001)), "the client's certificate is refused: Expired"),
        (Some(foreign.client()), "the client's certificate is refused: UnknownIssuer"),
        (Some(good.clone()), ""),
    ] {
        for version in VERSIONS {
            let config = authority.client_config(identity.as_ref(), &[version]);
            let mut client = connect(server.address(), config);
            if said.is_empty() {
                client.ask("mn\r\n", "MN\r\n");
                continue;
            }
            // With TLS 1.3 the client is told only when it reads.
            let sent = client.stream.write_all(b"mn\r\n");
            let read = client.stream.read(&mut [0; 10]);
            let error = sent.and(read.map(drop)).expect_err("nobody answers");
            assert!(error.to_string().contains("alert"), "{error}");
            let mut line = String::new();
            log.read_line(&mut line).expect("it says something");
            assert!(line.starts_with("larder: TLS with tcp:127.0.0.1:"), "{line}");
            assert!(line.contains(said), "{line}");
        }
    }
    let mut client = connect(server.address(), authority.client_config(Some(&good), &VERSIONS));
    client.send(b"stats settings\r\n");
    let text = client.read_to("END\r\n");
    for line in ["ssl_enabled yes", "ssl_verify_mode 3", "ssl_min_version tlsv1.2"] {
        assert!(text.contains(&format!("STAT {line}\r\n")), "{line} in {text}");
    }
}

#[test]
fn new_certificates_are_for_new_connections_and_bad_ones_for_nobody() {
    let authority = Authority::new("ours");
    let options = authority.options(&["-v"]);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (server, mut log) = Server::start_logged(&options);
    let mut next_line = || {
        let mut line = String::new();
        log.read_line(&mut line).expect("it says something");
        line
    };
    let mut old = authority.connect(server.address());
    old.ask("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    let before = shown(&old);

    authority.write_server(&authority.server());
    server.signal("HUP");
    assert_eq!(next_line(), "larder: SIGHUP: certificates reloaded\n");
    let mut new = authority.connect(server.address());
    new.ask("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    let after = shown(&new);
    assert_ne!(before, after);
    old.ask("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");

    // The key of another certificate.
    let good = authority.server();
    let mixed = Identity { key: authority.server().key, ..good.clone() };
    authority.write_server(&mixed);
    server.signal("HUP");
    let line = next_line();
    assert!(
        line.contains("it is not the key of the certificate; the certificates are unchanged"),
        "{line}"
    );
    old.send(b"refresh_certs\r\nget a\r\n");
    let text = old.read_to("END\r\n");
    assert!(text.starts_with("Error loading certificates: the key "), "{text}");
    assert!(text.ends_with("\r\nVALUE a 0 1\r\nx\r\nEND\r\n"), "{text}");
    next_line();
    let mut client = authority.connect(server.address());
    client.ask("mn\r\n", "MN\r\n");
    assert_eq!(shown(&client), after, "the last good ones hold");
    fs::remove_file(authority.path("chain.pem")).expect("it was there");
    client.send(b"refresh_certs\r\n");
    assert!(client.read_to("\r\n").contains("cannot read"));
    next_line();

    authority.write_server(&good);
    // Replies keep their order around it.
    client.ask("mn\r\nrefresh_certs\r\nrefresh_certs\r\nmn\r\n", "MN\r\nOK\r\nOK\r\nMN\r\n");
    let mut newest = authority.connect(server.address());
    newest.ask("mn\r\n", "MN\r\n");
    assert_ne!(shown(&newest), after);
    for client in [&mut old, &mut new] {
        client.ask("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    }
}

/// Regression: each reads files; as many as one read brings held up all other clients of the
/// worker.
#[test]
fn repeated_certificate_reloads_let_other_clients_in_between() {
    let authority = Authority::new("ours");
    let (server, plain) = start_with_plain(&authority, &["-t", "1"]);
    let (mut client, mut other) = (Client::connect(plain), Client::connect(plain));
    client.ask("mn\r\n", "MN\r\n");
    other.ask("mn\r\n", "MN\r\n");
    server.stop_threads();
    client.send(&[&b"refresh_certs\r\n".repeat(8)[..], b"stats\r\nmn\r\n"].concat());
    other.send(b"get nothing\r\n");
    server.signal("CONT");
    other.expect(b"END\r\n");
    let text = client.read_to("END\r\nMN\r\n");
    assert!(text.starts_with(&"OK\r\n".repeat(8)), "{}", &text[..100]);
    assert!(text.contains("STAT cmd_get 1\r\n"), "the other client was served before the last");
}

/// Requests that a turn leaves for the next one are executed without another event, also when the
/// client has closed its sending side.
#[test]
fn requests_of_many_turns_are_all_answered() {
    let authority = Authority::new("ours");
    let server = start(&authority, &["-t", "1"]);
    for version in VERSIONS {
        let connect = || connect(server.address(), authority.client_config(None, &[version]));
        let requests = [&b"stats\r\n".repeat(40)[..], b"mn\r\n"].concat();
        let mut client = connect();
        client.send(&requests);
        assert_eq!(client.read_to("END\r\nMN\r\n").matches("END\r\n").count(), 40);
        client.stream.write_all(&requests).expect("it reads");
        client.stream.conn.send_close_notify();
        client.stream.flush().expect("it reads");
        assert_eq!(client.read_to("END\r\nMN\r\n").matches("END\r\n").count(), 40);
        assert_eq!(client.stream.read(&mut [0]).expect("a goodbye, not a cut"), 0);
        let mut client = connect();
        client.send(&requests);
        client.stream.sock.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(client.read_to("END\r\nMN\r\n").matches("END\r\n").count(), 40);
    }
}

#[test]
fn without_tls_there_is_nothing_to_refresh() {
    let server = Server::start(&[]);
    server.connect().ask("refresh_certs\r\nmn\r\n", "Error TLS not enabled\r\nMN\r\n");
}

#[test]
fn redis_clients_get_tls_where_their_address_or_option_says_so() {
    let authority = Authority::new("ours");
    for (others, is_tls) in [
        (&[][..], true),
        (&["--redis-tls", "off"], false),
        (&["-l", "notls:127.0.0.1"], false),
        (&["-l", "notls:127.0.0.1", "--redis-tls", "on"], true),
    ] {
        let options = authority.options(others);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let (_server, address) = Server::start_with_redis(&options);
        let request = "*3\r\n$3\r\nSET\r\n$1\r\nr\r\n$1\r\nv\r\n*2\r\n$3\r\nGET\r\n$1\r\nr\r\n";
        let answer = "+OK\r\n$1\r\nv\r\n";
        if is_tls {
            authority.connect(address).ask(request, answer);
        } else {
            Client::connect(address).ask(request, answer);
        }
    }
}

#[test]
fn a_unix_socket_stays_as_it_is() {
    let authority = Authority::new("ours");
    let path = authority.path("socket");
    let path = path.to_str().expect("a path in UTF-8");
    let _server = start(&authority, &["-s", path, "-v"]);
    let mut client = Client { stream: UnixStream::connect(path).expect("it listens") };
    client.ask("mn\r\n", "MN\r\n");
}

#[test]
fn a_handshake_that_does_not_end_is_ended() {
    let authority = Authority::new("ours");
    let (server, plain) = start_with_plain(&authority, &["-t", "1"]);
    let mut silent = Client::connect(server.address());
    let mut slow = Client::connect(server.address());
    slow.send(&[22, 3, 1, 0, 200, 1]);
    let mut good = authority.connect(server.address());
    good.ask("mn\r\n", "MN\r\n");
    silent.expect_end();
    slow.expect_end();
    assert_eq!(stat(plain, "ssl_handshake_errors"), 2);
    good.ask("mn\r\n", "MN\r\n");
}

/// Regression: the bytes before the end were less than a record, so that a read found nothing, and
/// the event that would have announced the end was the one that announced the bytes. No further
/// read was made.
#[test]
fn an_end_right_behind_half_a_record_is_noticed() {
    let authority = Authority::new("ours");
    let (server, plain) = start_with_plain(&authority, &["-t", "1"]);
    let mut watcher = Client::connect(plain);
    watcher.ask("watch connevents\r\n", "OK\r\n");
    let mut text = String::new();
    for version in VERSIONS {
        for is_shaken in [false, true] {
            let config = authority.client_config(None, &[version]);
            let mut client = connect(server.address(), config);
            if is_shaken {
                client.ask("mn\r\n", "MN\r\n");
                client.stream.conn.writer().write_all(b"get a\r\n").expect("it buffers");
            }
            let mut flight = Vec::new();
            while client.stream.conn.wants_write() {
                client.stream.conn.write_tls(&mut flight).expect("a vector takes all");
            }
            // Bytes and end come in one event.
            server.stop_threads();
            client.stream.sock.write_all(&flight[..flight.len() / 2]).expect("room");
            client.stream.sock.shutdown(Shutdown::Write).expect("it is open");
            server.signal("CONT");
            text.clear();
            let port = client.stream.sock.local_addr().expect("bound").port();
            let closed = format!("type=conn_close rip=127.0.0.1 rport={port} ");
            while !text.contains(&closed) {
                text += &watcher.read_to("\n");
            }
            assert!(!text.contains("too%20long"), "{text}");
            assert_eq!(
                text.contains("the%20client%20left%20the%20handshake"),
                !is_shaken,
                "{text}"
            );
        }
    }
}

#[test]
fn the_end_is_said_and_heard() {
    let authority = Authority::new("ours");
    let server = start(&authority, &[]);
    for version in VERSIONS {
        // A client that closes its sending side still gets its replies, and the server's goodbye.
        let mut client = connect(server.address(), authority.client_config(None, &[version]));
        client.send(b"set a 0 0 3\r\nabc\r\n");
        client.expect(b"STORED\r\n");
        client.stream.write_all(b"get a\r\n").expect("it reads");
        client.stream.conn.send_close_notify();
        client.stream.flush().expect("it reads");
        client.expect(b"VALUE a 0 3\r\nabc\r\nEND\r\n");
        assert_eq!(client.stream.read(&mut [0]).expect("a goodbye, not a cut"), 0);
        // So does a client that asks the server to end it.
        let mut client = connect(server.address(), authority.client_config(None, &[version]));
        client.ask("mn\r\n", "MN\r\n");
        client.send(b"quit\r\n");
        assert_eq!(client.stream.read(&mut [0]).expect("a goodbye, not a cut"), 0);
        // And half a connection without a word.
        let mut client = connect(server.address(), authority.client_config(None, &[version]));
        client.send(b"get a\r\n");
        client.stream.sock.shutdown(Shutdown::Write).expect("it is open");
        client.expect(b"VALUE a 0 3\r\nabc\r\nEND\r\n");
    }
}

#[test]
fn sessions_can_be_taken_up_again_where_that_is_chosen() {
    let authority = Authority::new("ours");
    for (others, sessions) in [(&[][..], 4), (&["-o", "ssl_session_cache"], 1)] {
        let (server, plain) = start_with_plain(&authority, others);
        let config = authority.client_config(None, &VERSIONS);
        for _ in 0..4 {
            let mut client = connect(server.address(), config.clone());
            client.ask("mn\r\n", "MN\r\n");
        }
        assert_eq!(stat(plain, "ssl_new_sessions"), sessions);
        assert_eq!(stat(plain, "ssl_handshake_errors"), 0);
    }
}

/// How a server with these options ends at once: its code, and what it says.
fn start_failing(options: &[String]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    let output = command.args(["-p", "0"]).args(options).stdout(Stdio::null()).output();
    let output = output.expect("it runs");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn a_server_without_good_files_does_not_start() {
    let authority = Authority::new("ours");
    let good = authority.options(&[]);
    fs::write(authority.path("key.pem"), authority.server().key).expect("a file");
    let (code, text) = start_failing(&good);
    assert_eq!(code, Some(1));
    assert!(text.contains("key.pem: it is not the key of the certificate"), "{text}");
    fs::write(authority.path("chain.pem"), "no certificate").expect("a file");
    let (code, text) = start_failing(&good);
    assert_eq!(code, Some(65), "started again, it is still none");
    assert!(text.contains("chain.pem: there is no certificate in it"), "{text}");
    fs::remove_file(authority.path("chain.pem")).expect("it was there");
    let (code, text) = start_failing(&good);
    assert_eq!(code, Some(1));
    assert!(text.contains("chain.pem for --ssl-chain-cert: No such file"), "{text}");
    let (code, text) = start_failing(&["-l".to_owned(), "notls:127.0.0.1".to_owned()]);
    assert_eq!(code, Some(64));
    assert!(text.contains("--enable-ssl"), "{text}");
    assert_eq!(start_failing(&["-Z".to_owned()]).0, Some(64));
}

#[test]
fn at_the_limit_a_connection_over_tls_is_closed_without_a_word() {
    let authority = Authority::new("ours");
    let server = start(&authority, &["-c", "1"]);
    let mut first = authority.connect(server.address());
    first.ask("mn\r\n", "MN\r\n");
    let mut second = Client::connect(server.address());
    // A line in plain text would be an error of its own to a client that waits for a handshake.
    let mut said = Vec::new();
    let read = second.stream.read_to_end(&mut said);
    assert!(read.is_ok() || read.is_err_and(|it| it.kind() == ErrorKind::ConnectionReset));
    assert!(said.is_empty(), "{said:?}");
    first.ask("mn\r\n", "MN\r\n");
}

/// Regression: the server did not say why nothing was scraped.
#[test]
fn a_handshake_that_fails_at_the_admin_port_is_logged() {
    let authority = Authority::new("ours");
    let options = authority.options(&["-v", "--admin-port", "0"]);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (mut server, log) = Server::start_logged(&options);
    let line = server.next_line();
    let address = line.trim().strip_prefix("admin page on https://").expect("where the page is");
    let address: SocketAddr = address.trim_end_matches('/').parse().expect("an address");
    let mut client = Client::connect(address);
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let own = client.stream.local_addr().expect("it is connected");
    let text = format!("TLS with {own} at the admin port failed: ");
    assert!(log.lines().map_while(Result::ok).any(|line| line.contains(&text)));
}

/// Regression: a certificate by `openssl req -x509`, which curl accepts, was refused here in the
/// words of a library.
#[test]
fn top_says_that_a_server_shows_the_certificate_of_an_authority() {
    let authority = Authority::new("ours");
    authority.write_server(&authority.itself());
    let mut server = start(&authority, &["--admin-port", "0"]);
    let line = server.next_line();
    let address = line.trim().strip_prefix("admin page on ").expect("where the page is");
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["top", address, "--once", "--ca-file"]).arg(authority.path("ca.pem"));
    let refused = command.output().expect("it runs");
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("the server presents the certificate of an authority, as "), "{said}");
}

#[test]
fn the_admin_port_speaks_it_too_and_top_understands() {
    let authority = Authority::new("ours");
    let ca_file = authority.path("ca.pem");
    let ca_file = ca_file.to_str().expect("a path in UTF-8");
    let top = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.arg("top").args(arguments).arg("--once").output().expect("it runs")
    };
    for (others, scheme) in [(&[][..], "https"), (&["--admin-listen", "notls:127.0.0.1"], "http")] {
        let options = [&["--admin-port", "0"], others].concat();
        let mut server = start(&authority, &options);
        let line = server.next_line();
        let start = format!("admin page on {scheme}://");
        let address = line.trim().strip_prefix(&start).expect("where the page is");
        let address: SocketAddr = address.trim_end_matches('/').parse().expect("an address");
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let mut text = String::new();
        let localhost = format!("localhost:{}", address.port());
        if scheme == "https" {
            let mut client = authority.connect(address);
            client.send(request.as_bytes());
            client.stream.read_to_string(&mut text).expect("a goodbye, not a cut");
            let shown = top(&[&format!("https://{localhost}"), "--ca-file", ca_file]);
            assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
            let foreign = Authority::new("theirs");
            let other_file = foreign.path("ca.pem");
            let other_file = other_file.to_str().expect("a path in UTF-8");
            let refused = top(&[&format!("https://{localhost}"), "--ca-file", other_file]);
            assert!(String::from_utf8_lossy(&refused.stderr).contains("UnknownIssuer"));
            let refused = top(&[&localhost]);
            assert!(!refused.status.success());
            let said = String::from_utf8_lossy(&refused.stderr);
            let advice = format!("larder top https://{localhost} --ca-file FILE");
            assert!(said.contains(&advice), "{said}");
        } else {
            let mut client = Client::connect(address);
            client.send(request.as_bytes());
            client.stream.read_to_string(&mut text).expect("an end");
            assert!(top(&[&localhost]).status.success());
            let refused = top(&[&format!("https://{localhost}"), "--ca-file", ca_file]);
            let said = String::from_utf8_lossy(&refused.stderr);
            assert!(
                said.contains(&format!("does not use TLS; try larder top {localhost}")),
                "{said}"
            );
        }
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("ok\n"), "{text}");
    }
}
