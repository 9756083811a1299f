//! Connections to a client of rustls over the loopback address, both on one thread: a side that
//! waits for the other lets that one run, so that nothing depends on time.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection};
use stdx::random::Xorshift;
use testing::{Authority, Identity, VERSIONS, session};

use super::stream::RECORD_EXTRA_BYTES;
use super::*;

/// More turns than any exchange here takes.
const TURNS_MAX: usize = 1_000_000;

fn settings<'f>(identity: &'f Identity, authority: &'f Authority) -> Settings<'f> {
    Settings {
        chain: identity.chain.as_bytes(),
        key: identity.key.as_bytes(),
        key_format: KeyFormat::Pem,
        authorities: Some(authority.certificate.as_bytes()),
        clients: ClientCertificates::None,
        is_13_only: false,
        ciphers: &[],
        resumption: false,
    }
}

/// Two sides of a connection.
struct Scene {
    server: TlsStream,
    wire: TcpStream,
    client: ClientConnection,
    /// The error that ended the client's session.
    client_error: Option<rustls::Error>,
}

impl Scene {
    fn new(config: &Config, client: Arc<ClientConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let wire = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (socket, peer) = listener.accept().expect("a client");
        for one in [&wire, &socket] {
            one.set_nonblocking(true).expect("a socket option");
            one.set_nodelay(true).expect("a socket option");
        }
        let socket = mio::net::TcpStream::from_std(socket);
        let server = TlsStream::new(socket, peer, config).expect("a session");
        Self { server, wire, client: session(client), client_error: None }
    }

    /// A pair that speaks `version`, with the handshake done.
    fn shaken(version: &'static rustls::SupportedProtocolVersion) -> Self {
        let authority = Authority::new("somebody");
        let config = Config::new(&settings(&authority.server(), &authority)).expect("all is there");
        let mut scene = Self::new(&config, authority.client_config(None, &[version]));
        scene.shake().expect("a session");
        scene
    }

    /// The client sends and receives as much as it can.
    fn turn_client(&mut self) {
        while self.client.wants_write() {
            match self.client.write_tls(&mut self.wire) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return,
            }
        }
        if self.client.wants_read() && self.client.read_tls(&mut self.wire).is_ok() {
            self.client_error =
                self.client.process_new_packets().err().or(self.client_error.take());
        }
    }

    /// Completes the handshake; returns the server's error, if that fails.
    fn shake(&mut self) -> std::io::Result<()> {
        for _ in 0..TURNS_MAX {
            self.turn_client();
            match self.server.read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
                Ok(bytes) => panic!("{bytes} bytes that nobody has sent"),
            }
            if !self.server.is_shaking_hands() && !self.client.is_handshaking() {
                return Ok(());
            }
        }
        panic!("no end");
    }

    /// Reads on the server until it has `bytes` bytes, with targets of sizes drawn from `size`.
    fn receive(&mut self, bytes: usize, mut size: impl FnMut() -> usize) -> Vec<u8> {
        let mut received = Vec::new();
        for _ in 0..TURNS_MAX {
            if received.len() >= bytes {
                return received;
            }
            self.turn_client();
            let mut target = vec![0; size()];
            loop {
                match self.server.read(&mut target) {
                    Ok(0) => return received,
                    Ok(read) => received.extend_from_slice(&target[..read]),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                // Like a worker: it waits for an event unless it is told not to.
                if !self.server.holds_input() {
                    break;
                }
            }
        }
        panic!("{} of {bytes} bytes", received.len());
    }

    /// Reads on the client until it has `bytes` bytes.
    fn client_receive(&mut self, bytes: usize) -> Vec<u8> {
        let mut received = Vec::new();
        for _ in 0..TURNS_MAX {
            let mut chunk = [0; 40_000];
            match self.client.reader().read(&mut chunk) {
                Ok(0) => return received,
                Ok(read) => received.extend_from_slice(&chunk[..read]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            if received.len() >= bytes {
                return received;
            }
            self.server.send_control().expect("the socket lives");
            self.turn_client();
        }
        panic!("{} of {bytes} bytes", received.len());
    }
}

/// Numbers from a printed seed.
struct Numbers(Xorshift);

impl Numbers {
    fn new() -> Self {
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        println!("seed {seed}");
        Self(Xorshift::seeded(seed))
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.0.draw() >> 11) as usize % limit
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|place| (place * 31 % 251) as u8).collect()
}

#[test]
fn bytes_go_both_ways_and_an_idle_connection_owns_no_buffer() {
    for version in VERSIONS {
        let mut scene = Scene::shaken(version);
        assert_eq!(scene.server.take_new_session(), Some(true));
        assert_eq!(scene.server.take_new_session(), None, "it is told once");
        for bytes in [1, 100, 16 << 10, (16 << 10) + 1, 60_000] {
            let sent = pattern(bytes);
            scene.client.writer().write_all(&sent).expect("it buffers");
            assert!(scene.receive(bytes, || 64 << 10) == sent);
            assert_eq!(scene.server.write(&sent).expect("room"), bytes);
            assert!(scene.client_receive(bytes) == sent);
        }
        let TlsStream { sealed, opened, outgoing, .. } = &scene.server;
        assert_eq!((sealed.capacity(), opened.capacity(), outgoing.capacity()), (0, 0, 0));
        assert!(!scene.server.holds_input());
    }
}

#[test]
fn targets_of_any_size_get_every_byte_and_nothing_waits_unannounced() {
    let mut numbers = Numbers::new();
    for version in VERSIONS {
        let mut scene = Scene::shaken(version);
        for most in [1, 7, 1000, 20_000, 70_000] {
            let sent = pattern(60_000);
            scene.client.writer().write_all(&sent).expect("it buffers");
            let received = scene.receive(sent.len(), || 1 + numbers.below(most));
            assert!(received == sent, "targets up to {most}");
            assert!(!scene.server.holds_input());
        }
    }
}

#[test]
fn a_handshake_may_come_byte_by_byte() {
    for version in VERSIONS {
        let authority = Authority::new("somebody");
        let config = Config::new(&settings(&authority.server(), &authority)).expect("all is there");
        let mut scene = Scene::new(&config, authority.client_config(None, &[version]));
        for _ in 0..TURNS_MAX {
            let mut flight = Vec::new();
            while scene.client.wants_write() {
                scene.client.write_tls(&mut flight).expect("a vector takes all");
            }
            for byte in flight {
                scene.wire.write_all(&[byte]).expect("room");
                let error = scene.server.read(&mut [0]).expect_err("no requests yet");
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
            }
            let _ = scene.server.read(&mut [0]);
            scene.turn_client();
            if !scene.server.is_shaking_hands() && !scene.client.is_handshaking() {
                break;
            }
        }
        assert_eq!(scene.server.write(b"hello").expect("a session"), 5);
        assert_eq!(scene.client_receive(5), b"hello");
    }
}

#[test]
fn a_slow_reader_gets_all_and_little_waits_for_it() {
    for version in VERSIONS {
        let mut scene = Scene::shaken(version);
        let value = pattern(8 << 20);
        let mut written = 0;
        let mut received = Vec::new();
        let mut is_blocked = false;
        while written < value.len() {
            match scene.server.write(&value[written..]) {
                Ok(taken) => written += taken,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    is_blocked = true;
                    received.extend(scene.client_receive(1));
                }
            }
            assert!(scene.server.outgoing.len() <= SEALED_BYTES_MAX);
        }
        assert!(is_blocked, "8 MiB fit no socket");
        received.extend(scene.client_receive(value.len() - received.len()));
        assert!(received == value);
        assert_eq!(scene.server.outgoing.capacity(), 0);
    }
}

/// The last byte that was sealed and not sent counts as not written. Were it sealed twice or
/// forgotten, the stream would be a byte longer or shorter.
#[test]
fn writes_of_any_size_to_a_full_socket_are_neither_lost_nor_doubled() {
    let mut numbers = Numbers::new();
    let mut scene = Scene::shaken(&version::TLS13);
    let value = pattern(12 << 20);
    let (mut written, mut received, mut blocked) = (0, Vec::new(), 0);
    while written < value.len() {
        let rest = &value[written..];
        let most = [1, 10, 100_000, 3_000_000][numbers.below(4)];
        let piece = &rest[..rest.len().min(1 + numbers.below(most))];
        let cut = numbers.below(piece.len() + 1);
        let wrote = if numbers.below(2) == 0 {
            scene.server.write(piece)
        } else {
            let slices = [&piece[..cut], &[], &piece[cut..]].map(IoSlice::new);
            scene.server.write_vectored(&slices)
        };
        match wrote {
            Ok(taken) => {
                assert!(taken > 0 && taken <= piece.len());
                written += taken;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                blocked += 1;
                received.extend(scene.client_receive(1));
            }
        }
    }
    assert!(blocked > 2, "the socket was never full");
    received.extend(scene.client_receive(value.len() - received.len()));
    assert!(received == value);
}

#[test]
fn many_small_pieces_stay_within_what_may_wait() {
    let mut scene = Scene::shaken(&version::TLS12);
    let value = pattern(1000);
    let slices: Vec<IoSlice<'_>> = value.chunks(1).map(IoSlice::new).collect();
    assert_eq!(scene.server.write_vectored(&slices).expect("room"), value.len());
    assert_eq!(scene.client_receive(value.len()), value);
}

#[test]
fn a_client_without_tls_is_told_so_and_dropped() {
    let authority = Authority::new("somebody");
    let config = Config::new(&settings(&authority.server(), &authority)).expect("all is there");
    for garbage in
        [&b"stats\r\n"[..], b"GET / HTTP/1.1\r\n\r\n", b"\x80\x0b\0\0\0\0\0\0", &[0; 600]]
    {
        let mut scene = Scene::new(&config, authority.client_config(None, &VERSIONS));
        scene.wire.write_all(garbage).expect("room");
        let error = scene.server.read(&mut [0; 100]).expect_err("no TLS");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert_eq!(scene.server.failure(), Some("the client does not speak TLS"));
        assert!(scene.server.read(&mut [0; 100]).is_err(), "it does not recover");
        assert!(scene.server.write(b"x").is_err());
        scene.server.say_goodbye();
        drop(scene.server);
        let mut said = Vec::new();
        scene.wire.set_nonblocking(false).expect("a socket option");
        scene.wire.read_to_end(&mut said).expect("an end");
        assert_eq!(said[..3], [21, 3, 3], "an alert: {said:?}");
        assert_eq!(said.len(), 7);
    }
}

#[test]
fn damaged_bytes_never_bring_it_down_and_never_get_through() {
    let mut numbers = Numbers::new();
    let authority = Authority::new("somebody");
    let (server, client) = (authority.server(), authority.client());
    let clients = ClientCertificates::Request;
    let config = Config::new(&Settings { clients, ..settings(&server, &authority) });
    let config = config.expect("all is there");
    let (mut refused, mut passed) = (0, 0);
    for round in 0..500 {
        let version = VERSIONS[round % 2];
        let mut scene = Scene::new(&config, authority.client_config(Some(&client), &[version]));
        let damaged_at = numbers.below(4000);
        let mut sent = 0;
        let (mut bytes, mut is_refused) = (0, false);
        for turn in 0..20 {
            if turn == 10 {
                let _ = scene.client.writer().write_all(&[b'x'; 2000]);
            }
            let mut flight = Vec::new();
            while scene.client.wants_write() {
                scene.client.write_tls(&mut flight).expect("a vector takes all");
            }
            for byte in &mut flight {
                *byte ^= if sent == damaged_at { 1 << numbers.below(8) } else { 0 };
                sent += 1;
            }
            let _ = scene.wire.write_all(&flight);
            let mut target = [0; 5000];
            match scene.server.read(&mut target) {
                Ok(read) => {
                    assert!(target[..read].iter().all(|&byte| byte == b'x'));
                    bytes += read;
                }
                Err(error) => is_refused |= error.kind() != ErrorKind::WouldBlock,
            }
            scene.turn_client();
        }
        // Damage may make the server wait for a record that does not end, and no side minds damage
        // in the version that stands before a record of the handshake.
        assert!(bytes == 0 || bytes == 2000);
        refused += usize::from(is_refused);
        passed += usize::from(bytes == 2000);
    }
    assert!(refused > 20 && passed > 0, "{refused} refused, {passed} passed");
}

#[test]
fn a_message_of_the_handshake_has_a_longest_length() {
    let authority = Authority::new("somebody");
    let config = Config::new(&settings(&authority.server(), &authority)).expect("all is there");
    let mut scene = Scene::new(&config, authority.client_config(None, &VERSIONS));
    // A ClientHello of 60,000 bytes in records of one byte each.
    let message =
        [&[1, 0, 60_000_u16.to_be_bytes()[0], 60_000_u16.to_be_bytes()[1]][..], &[0; 60_000]];
    let records: Vec<u8> =
        message.concat().iter().flat_map(|&byte| [22, 3, 3, 0, 1, byte]).collect();
    let mut refused = None;
    for chunk in records.chunks(1000) {
        scene.wire.write_all(chunk).expect("room");
        match scene.server.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => refused = Some(other),
        }
        assert!(scene.server.sealed.len() <= 64 << 10);
        if refused.is_some() {
            break;
        }
    }
    assert_eq!(scene.server.failure(), Some("a message is too long"));
}

#[test]
fn an_end_is_told_behind_what_came_before_it_and_answered() {
    for version in VERSIONS {
        let mut scene = Scene::shaken(version);
        scene.client.writer().write_all(b"last words").expect("it buffers");
        scene.client.send_close_notify();
        scene.turn_client();
        let mut target = [0; 100];
        assert_eq!(scene.server.read(&mut target).expect("words"), 10);
        assert!(scene.server.holds_input(), "nothing will announce the end");
        for _ in 0..3 {
            assert_eq!(scene.server.read(&mut target).expect("the end"), 0);
            assert!(scene.server.holds_input());
        }
        // Half closed: replies still go out.
        assert_eq!(scene.server.write(b"reply").expect("room"), 5);
        scene.server.say_goodbye();
        assert_eq!(scene.client_receive(100), b"reply");
        assert!(scene.server.failure().is_none());
        drop(scene.server);
    }
}

#[test]
fn a_client_that_closes_without_a_word_has_ended_too() {
    let mut scene = Scene::shaken(&version::TLS13);
    scene.client.writer().write_all(b"x").expect("it buffers");
    scene.turn_client();
    scene.wire.shutdown(std::net::Shutdown::Write).expect("it is open");
    assert_eq!(scene.receive(2, || 10), b"x");
    assert!(scene.server.failure().is_none());
    // In the middle of the handshake it is a failure.
    let authority = Authority::new("somebody");
    let config = Config::new(&settings(&authority.server(), &authority)).expect("all is there");
    let mut scene = Scene::new(&config, authority.client_config(None, &VERSIONS));
    scene.wire.shutdown(std::net::Shutdown::Write).expect("it is open");
    assert_eq!(scene.server.read(&mut [0]).expect("the end"), 0);
    assert_eq!(scene.server.failure(), Some("the client left the handshake"));
}

#[test]
fn keys_may_be_changed_as_often_as_the_client_likes() {
    let mut scene = Scene::shaken(&version::TLS13);
    for round in 0..200_u32 {
        scene.client.refresh_traffic_keys().expect("a session");
        let sent = round.to_be_bytes();
        scene.client.writer().write_all(&sent).expect("it buffers");
        assert_eq!(scene.receive(4, || 100), sent);
        assert_eq!(scene.server.write(&sent).expect("room"), 4);
        assert_eq!(scene.client_receive(4), sent);
        assert!(scene.client_error.is_none());
    }
    // A client that asks for new keys and reads nothing does not fill the memory.
    for _ in 0..1000 {
        scene.client.refresh_traffic_keys().expect("a session");
        scene.turn_client();
        let _ = scene.server.read(&mut [0]);
        assert!(scene.server.outgoing.len() <= SEALED_BYTES_MAX);
    }
}

#[test]
fn certificates_of_clients_are_asked_for_as_it_was_chosen() {
    let (authority, foreign) = (Authority::new("somebody"), Authority::new("stranger"));
    let server = authority.server();
    let [good, expired, stranger] =
        [authority.client(), authority.client_until(2001), foreign.client()];
    use ClientCertificates::{None as Nobody, Request, Require};
    let expired_text = "the client's certificate is refused: Expired";
    let foreign_text = "the client's certificate is refused: UnknownIssuer";
    for (clients, shown, failure) in [
        (Nobody, None, None),
        (Nobody, Some(&stranger), None),
        (Request, None, None),
        (Request, Some(&good), None),
        (Request, Some(&expired), Some(expired_text)),
        (Request, Some(&stranger), Some(foreign_text)),
        (Require, Some(&good), None),
        (Require, None, Some("the client shows no certificate")),
        (Require, Some(&expired), Some(expired_text)),
        (Require, Some(&stranger), Some(foreign_text)),
    ] {
        for version in VERSIONS {
            let config = Config::new(&Settings { clients, ..settings(&server, &authority) });
            let config = config.expect("all is there");
            let mut scene = Scene::new(&config, authority.client_config(shown, &[version]));
            let shaken = scene.shake();
            assert_eq!(shaken.is_ok(), failure.is_none(), "{clients:?} {failure:?}");
            let said = scene.server.failure().unwrap_or_default();
            assert!(said.starts_with(failure.unwrap_or_default()), "{said}");
            for _ in 0..100 {
                scene.turn_client();
            }
            assert_eq!(scene.client_error.is_some(), failure.is_some(), "the client hears of it");
        }
    }
}

#[test]
fn sessions_are_taken_up_again_only_where_that_is_asked_for() {
    let authority = Authority::new("somebody");
    let identity = authority.server();
    for resumption in [false, true] {
        for version in VERSIONS {
            let settings = Settings { resumption, ..settings(&identity, &authority) };
            let config = Config::new(&settings).expect("all is there");
            let client = authority.client_config(None, &[version]);
            for is_first in [true, false] {
                let mut scene = Scene::new(&config, Arc::clone(&client));
                scene.shake().expect("a session");
                assert_eq!(scene.server.write(b"x").expect("room"), 1);
                scene.client_receive(1);
                assert_eq!(scene.server.take_new_session(), Some(is_first || !resumption));
            }
            // Another configuration, as after new certificates, knows nothing of it.
            let config = Config::new(&settings).expect("all is there");
            let mut scene = Scene::new(&config, client);
            scene.shake().expect("a session");
            assert_eq!(scene.server.take_new_session(), Some(true));
        }
    }
}

#[test]
fn the_least_version_and_the_ciphers_are_followed() {
    let authority = Authority::new("somebody");
    let identity = authority.server();
    let only = Settings { is_13_only: true, ..settings(&identity, &authority) };
    let config = Config::new(&only).expect("all is there");
    let mut scene = Scene::new(&config, authority.client_config(None, &[&version::TLS12]));
    scene.shake().expect_err("too old");
    for name in ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"] {
        let names = [name.to_owned()];
        let config = Config::new(&Settings { ciphers: &names, ..settings(&identity, &authority) });
        let config = config.expect("it is known");
        let mut scene = Scene::new(&config, authority.client_config(None, &[&version::TLS12]));
        scene.shake().expect("both know it");
        let suite = scene.client.negotiated_cipher_suite().expect("a session").suite();
        let wanted = SUITES.iter().find(|(known, _)| *known == name).expect("a suite").1;
        assert_eq!(suite, wanted.suite());
    }
}

#[test]
fn an_error_says_what_is_wrong_with_a_file() {
    let authority = Authority::new("somebody");
    let (identity, other) = (authority.server(), authority.server());
    let good = || settings(&identity, &authority);
    let wrong = |settings: Settings<'_>| Config::new(&settings).expect_err("something is wrong");
    let both = format!("{}{}", identity.key, identity.chain);
    let one_file = Settings { chain: both.as_bytes(), key: both.as_bytes(), ..good() };
    Config::new(&one_file).expect("both are in there");
    let none = wrong(Settings { chain: b"nothing", ..good() });
    assert_eq!(none, ConfigError::Chain("there is no certificate in it".to_owned()));
    let none = wrong(Settings { key: identity.chain.as_bytes(), ..good() });
    assert_eq!(none, ConfigError::Key("there is no private key in it".to_owned()));
    // The first lines that openssl writes for a key with a password, in its two forms.
    for head in [
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n",
    ] {
        let end = head.lines().next().expect("a line").replace("BEGIN", "END");
        let key = format!("{head}MAAA\n{end}\n");
        let ConfigError::Key(text) = wrong(Settings { key: key.as_bytes(), ..good() }) else {
            panic!("it is the key that is wrong");
        };
        assert!(text.contains("is encrypted") && text.contains("openssl pkey"), "{text}");
    }
    let foreign = wrong(Settings { key: other.key.as_bytes(), ..good() });
    assert_eq!(foreign, ConfigError::Key("it is not the key of the certificate".to_owned()));
    let clients = ClientCertificates::Require;
    for text in [None, Some(&b""[..])] {
        let none = wrong(Settings { clients, authorities: text, ..good() });
        assert!(matches!(none, ConfigError::Authorities(_)), "{none:?}");
    }
    let cut = &identity.chain[..identity.chain.len() / 2];
    assert!(matches!(wrong(Settings { chain: cut.as_bytes(), ..good() }), ConfigError::Chain(_)));
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    wrong(Settings { chain: broken.as_bytes(), ..good() });
    let names = ["HIGH".to_owned()];
    let unknown = wrong(Settings { ciphers: &names, ..good() });
    assert!(unknown.to_string().contains("ECDHE-RSA-AES128-GCM-SHA256, "), "{unknown}");
    let pem = private_key(identity.key.as_bytes(), KeyFormat::Pem).expect("a key");
    let der = pem.secret_der();
    Config::new(&Settings { key: der, key_format: KeyFormat::Der, ..good() }).expect("a key");
    wrong(Settings { key: b"no DER", key_format: KeyFormat::Der, ..good() });
}

/// Regression: they were opened, and forgotten with the bytes behind them in the same receive.
#[test]
fn bytes_before_a_damaged_record_are_read() {
    for version in VERSIONS {
        let mut scene = Scene::shaken(version);
        scene.client.writer().write_all(b"a request").expect("memory takes it");
        scene.turn_client();
        // A record of application data with an invalid seal.
        let damaged = [&[23, 3, 3, 0, 40][..], &[7; 40]].concat();
        scene.wire.write_all(&damaged).expect("there is room");
        let mut target = [0; 5];
        for part in [&b"a req"[..], b"uest"] {
            let read = scene.server.read(&mut target).expect("what was sent");
            assert_eq!(&target[..read], part);
            assert!(scene.server.holds_input());
        }
        let error = scene.server.read(&mut target).expect_err("it is damaged");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}

/// Regression: the read that met the end of a socket forgot the bytes that it had opened before.
#[test]
fn bytes_before_a_reset_are_read() {
    let mut scene = Scene::shaken(&rustls::version::TLS13);
    // With the bytes that sealing adds, these are as many as the socket is asked for at once, so
    // that it is asked again, by a read that has room for more.
    let target_bytes = 18_400;
    let wanted = target_bytes + RECORD_EXTRA_BYTES - 4 * 22;
    for bytes in [4600, 4600, 4600, wanted - 3 * 4600] {
        scene.client.writer().write_all(&vec![7; bytes]).expect("memory takes it");
    }
    scene.turn_client();
    let linger = rustix::net::sockopt::set_socket_linger(&scene.wire, Some(Duration::ZERO));
    linger.expect("a socket option");
    drop(scene.wire);
    let mut target = vec![0; target_bytes];
    assert_eq!(scene.server.read(&mut target).expect("what was sent"), wanted);
    assert!(scene.server.holds_input());
    // The socket tells of its end once, as an error or as an end.
    assert!(matches!(scene.server.read(&mut target), Ok(0) | Err(_)));
}
