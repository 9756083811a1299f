//! The limit on what is kept for clients, and which connections are closed for which.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

use ::io::net::Listener;
use ::io::tls;
use socket2::{Domain, SockRef, Socket, Type};
use testing::{Authority, VERSIONS, session};

use super::*;
use crate::connection_id::ConnectionId;
use crate::turn::READ_BYTES;

fn limit(bytes_max: usize) -> ParkedLimit {
    ParkedLimit { bytes_max: bytes_max.into(), ..ParkedLimit::new(0, 0, &[]) }
}

/// Makes it look as if the client had last taken something this long before its last try.
fn set_stalled(parked: &Parked, ago: Duration) {
    let mut waiting = lock(&parked.slot.as_ref().expect("it has output").waiting);
    waiting.tried = Duration::from_secs(1000);
    waiting.progressed = waiting.tried - ago;
}

fn is_ended(parked: &Parked) -> bool {
    lock(&parked.slot.as_ref().expect("it has output").waiting).is_ended
}

fn park(bytes: usize, limit: &ParkedLimit) -> Parked {
    let mut parked = Parked::default();
    parked.park(&[&vec![0; bytes]], limit).expect("room");
    parked
}

#[test]
fn the_limit_holds_at_its_edge() {
    let limit = limit(10);
    let mut parked = Parked::default();
    parked.park(&[b"12345", b"67890"], &limit).expect("exactly the limit");
    let mut other = Parked::default();
    let error = other.park(&[b"x"], &limit).expect_err("one too many");
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    parked.discard(&limit);
    assert_eq!(limit.bytes(), 0);
    other.park(&[b"x"], &limit).expect("there is room again");
}

/// Regression: the refused bytes were counted for a moment, and the other connection was closed for
/// want of room.
#[test]
fn a_refusal_takes_nothing_from_another_even_for_a_moment() {
    let (limit, has_begun, is_over) = (limit(10), Barrier::new(2), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            has_begun.wait();
            while !is_over.load(Ordering::Relaxed) {
                assert!(!limit.try_take(11, 10));
            }
        });
        has_begun.wait();
        let are_taken = (0..2_000_000).all(|_| {
            let is_taken = limit.try_take(10, 10);
            limit.give_back(if is_taken { 10 } else { 0 });
            is_taken
        });
        is_over.store(true, Ordering::Relaxed);
        assert!(are_taken);
    });
    assert_eq!(limit.bytes(), 0);
}

/// Regression: the limit stayed that of the start when the memory limit changed.
#[test]
fn the_limit_follows_the_memory_limit() {
    let limit = ParkedLimit::new(0, 4 << 20, &[]);
    let base = limit.bytes_max();
    let mut parked = park(base, &limit);
    let mut other = Parked::default();
    assert!(other.park(&[b"x"], &limit).is_err());
    limit.set_memory_bytes(100 << 20);
    other.keep(3 << 20, &limit).expect("3 % more");
    limit.set_memory_bytes(0);
    assert!(other.park(&[b"x"], &limit).is_err() && !is_ended(&parked));
    parked.discard(&limit);
    other.park(&[b"x"], &limit).expect("now there is room");
}

/// Regression: four clients that kept as much as one may, and sent nothing more, had all of it, and
/// others that read were closed.
#[test]
fn input_longer_than_an_item_leaves_half_to_others() {
    let limit = ParkedLimit::new(0, 1 << 20, &[]);
    let command_bytes = limit.command_bytes_max();
    let mut keeping: Vec<Parked> = (0..4).map(|_| Parked::default()).collect();
    let kept = keeping.iter_mut().filter_map(|one| one.keep(command_bytes, &limit).ok());
    assert_eq!(kept.count(), 2);
    let short_bytes = limit.short_command_bytes_max() + (64 << 10);
    assert!(!limit.make_room_for_kept(1, short_bytes + 1));
    assert!(limit.make_room_for_kept(1, short_bytes));
    keeping[3].keep(short_bytes, &limit).expect("that is an item");
    // Bytes that one gives up are available for a long command again.
    keeping[0].keep(0, &limit).expect("less is always allowed");
    keeping[2].keep(short_bytes + 1, &limit).expect("half is free");
    let reading = park(limit.bytes_max() / 4, &limit);
    assert!(!is_ended(&reading));
    // A stalled connection makes room for them as well.
    keeping.iter_mut().for_each(|one| one.keep(0, &limit).expect("less is always allowed"));
    set_stalled(&reading, STALLED_AFTER);
    let other = park(limit.bytes_max() / 4, &limit);
    keeping[0].keep(command_bytes, &limit).expect("one of them goes");
    assert!(is_ended(&reading) && !is_ended(&other));
}

/// Regression: where the item limit is large, a command that was allowed had its connection closed.
#[test]
fn the_longest_command_fits_under_any_item_limit() {
    for item_bytes_max in [1 << 10, 1 << 20, 16 << 20, 1 << 30] {
        let limit = ParkedLimit::new(64 << 20, item_bytes_max, &[]);
        let mut parked = Parked::default();
        let bytes = limit.command_bytes_max() + READ_BYTES;
        parked.keep(bytes, &limit).expect("nobody else keeps anything");
        parked.discard(&limit);
    }
}

/// Regression: the last to come was refused, though it was the one that reads.
#[test]
fn the_longest_stalled_makes_room_for_others() {
    let limit = limit(10);
    let mut hogs: Vec<Parked> = (0..4).map(|_| park(2, &limit)).collect();
    for (number, seconds) in [(0, 2), (1, 4), (2, 3)] {
        set_stalled(&hogs[number], Duration::from_secs(seconds));
    }
    set_stalled(&hogs[3], STALLED_AFTER - Duration::from_nanos(1));
    let mut reader = park(5, &limit);
    let are_ended: Vec<bool> = hogs.iter().map(is_ended).collect();
    assert_eq!(are_ended, [false, true, true, false], "no more than it takes, the longest first");
    assert_eq!(limit.bytes(), 9);
    hogs.iter_mut().for_each(|hog| hog.discard(&limit));
    reader.discard(&limit);
    assert_eq!(limit.bytes(), 0, "what was dropped is given back once");
}

#[test]
fn none_is_closed_in_vain_or_for_an_unauthenticated_client() {
    let limit = limit(8);
    let (hog, _reader) = (park(3, &limit), park(5, &limit));
    set_stalled(&hog, Duration::from_secs(100));
    let mut other = Parked::default();
    assert!(other.park(&[b"1234"], &limit).is_err() && !is_ended(&hog));
    other.set_stranger(true);
    assert!(other.keep(1, &limit).is_err() && !is_ended(&hog));
    other.set_stranger(false);
    other.keep(3, &limit).expect("that is what it had");
    assert!(is_ended(&hog));
}

/// Regression: two values read at a time found room for either, though there was room for one.
#[test]
fn room_is_taken_ahead_except_for_the_last_of_it() {
    let limit = limit(10 + OUTPUT_BYTES_MAX);
    let mut room = Room::new(&limit, None);
    let mut other = Room::new(&limit, None);
    assert!(room.grow(6) && room.grow(4) && room.grow(7));
    assert_eq!(limit.bytes(), 7);
    assert!(!other.grow(4) && other.grow(3) && !other.grow(4));
    let short = park(OUTPUT_BYTES_MAX, &limit);
    // The part of it that the socket has left, and the line behind it.
    let taken_bytes = room.spend(5);
    let mut parked = Parked::default();
    parked.park_with(&[b"12345"], taken_bytes, &limit).expect("it is taken");
    assert_eq!(limit.bytes(), 10 + OUTPUT_BYTES_MAX);
    drop(room);
    assert_eq!(limit.bytes(), 8 + OUTPUT_BYTES_MAX);
    assert!(!other.grow(6), "that is for short replies");
    drop(other);
    let mut more = Parked::default();
    let error = more.park_with(&[b"123456"], 0, &limit).expect_err("one too many");
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    assert_eq!(limit.bytes(), 5 + OUTPUT_BYTES_MAX);
    parked.discard(&limit);
    assert_eq!(limit.bytes(), OUTPUT_BYTES_MAX);
    drop(short);
}

#[test]
fn a_long_wait_for_room_ends() {
    let limit = limit(OUTPUT_BYTES_MAX);
    assert!(!Room::new(&limit, Some(Stopwatch::start())).grow(1));
    let mut room = Room::new_after_all_patience(&limit);
    assert!(room.grow(1));
    assert_eq!((room.spend(1), limit.bytes()), (0, 0), "it has none all the same");
}

/// Regression: bytes that only its worker can give back saved a connection with little besides.
#[test]
fn bytes_that_come_back_later_count_as_on_their_way() {
    let limit = limit(10);
    let mut hogs = [park(1, &limit), park(1, &limit)];
    for hog in &mut hogs {
        hog.keep(4, &limit).expect("room");
        set_stalled(hog, STALLED_AFTER);
    }
    let mut reader = Parked::default();
    assert!(reader.keep(5, &limit).is_err(), "it has not come yet");
    assert!(is_ended(&hogs[0]) && !is_ended(&hogs[1]));
    assert_eq!(limit.bytes(), 9);
    hogs[0].discard(&limit);
    hogs[0].keep(0, &limit).expect("fewer");
    reader.keep(5, &limit).expect("now it has");
}

#[test]
fn a_worker_tries_its_own_output_and_no_input() {
    let limit = limit(10);
    let has_any = || [0, 1].map(|worker| limit.to_be_tried(worker).1);
    let mut parked = Parked::default();
    parked.set_owner(ConnectionId { worker: 1, ..ConnectionId::default() });
    parked.keep(1, &limit).expect("room");
    assert_eq!(has_any(), [false, false]);
    parked.park(&[b"1"], &limit).expect("room");
    assert_eq!(has_any(), [false, true]);
    parked.discard(&limit);
    assert_eq!(has_any(), [false, false]);
}

#[test]
fn the_longest_stalled_dump_ends() {
    let limit = limit(10);
    let mut waiting: Vec<Parked> = (0..4).map(|_| park(1, &limit)).collect();
    waiting[1..].iter().for_each(|dump| dump.set_dump(true));
    set_stalled(&waiting[0], 5 * DUMP_STALLED_AFTER);
    set_stalled(&waiting[1], DUMP_STALLED_AFTER);
    set_stalled(&waiting[2], 2 * DUMP_STALLED_AFTER);
    set_stalled(&waiting[3], DUMP_STALLED_AFTER / 2);
    for _ in 0..2 {
        limit.end_stalled_dump();
        let ended: Vec<bool> = waiting.iter().map(is_ended).collect();
        assert_eq!(ended, [false, false, true, false], "one place is enough for one");
    }
    waiting.remove(2).discard(&limit);
    limit.end_stalled_dump();
    assert!(is_ended(&waiting[1]));
    waiting.remove(1).discard(&limit);
    limit.end_stalled_dump();
    assert!(!is_ended(&waiting[1]), "it has not waited for long");
}

#[test]
fn unauthenticated_clients_leave_most_of_it_to_others() {
    let limit = limit(40);
    let (mut unauthenticated, mut known) = (Parked::default(), Parked::default());
    unauthenticated.set_stranger(true);
    unauthenticated.keep(6, &limit).expect("room");
    unauthenticated.park(&[b"1234"], &limit).expect("exactly their part");
    assert!(unauthenticated.keep(7, &limit).is_err());
    known.keep(30, &limit).expect("all that is left");
    unauthenticated.discard(&limit);
    assert!(unauthenticated.park(&[b"1"], &limit).is_err(), "it is still one");
    unauthenticated.set_stranger(false);
    unauthenticated.park(&[b"1234"], &limit).expect("and now it is none");
}

#[test]
fn kept_commands_count_once() {
    let limit = limit(10);
    let mut parked = Parked::default();
    parked.keep(7, &limit).expect("room");
    parked.keep(10, &limit).expect("exactly the limit");
    assert!(parked.keep(11, &limit).is_err());
    assert_eq!(limit.bytes(), 10);
    parked.keep(4, &limit).expect("fewer");
    parked.park(&[b"123456"], &limit).expect("room again");
    parked.discard(&limit);
    assert_eq!(limit.bytes(), 4, "output has gone, input has not");
    parked.keep(0, &limit).expect("fewer");
    assert_eq!(limit.bytes(), 0);
}

/// A stream over TLS whose socket takes little, with the handshake behind it, and its client.
fn tls_pair() -> (Stream, TcpStream) {
    let authority = Authority::new("somebody");
    let identity = authority.server();
    let config = tls::Config::new(&tls::Settings {
        chain: identity.chain.as_bytes(),
        key: identity.key.as_bytes(),
        key_format: tls::KeyFormat::Pem,
        authorities: None,
        clients: tls::ClientCertificates::None,
        is_13_only: false,
        ciphers: &[],
        resumption: false,
    });
    let listener = Listener::bind_tcp("127.0.0.1:0".parse().expect("an address"));
    let listener = listener.expect("a free port");
    listener.listen(1).expect("nobody else listens there");
    let name = listener.name();
    let address = name.strip_prefix("tcp:").expect("a port").parse::<SocketAddr>();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a socket option");
    socket.connect(&address.expect("an address").into()).expect("it listens");
    let mut wire = TcpStream::from(socket);
    let stream = listener.accept().expect("somebody has connected");
    SockRef::from(&stream).set_send_buffer_size(4096).expect("a socket option");
    let mut stream = stream.into_tls(&config.expect("all is there")).expect("a session");
    let mut client = session(authority.client_config(None, &VERSIONS));
    wire.set_nonblocking(true).expect("a socket option");
    while client.is_handshaking() || stream.tls().is_some_and(|tls| tls.is_shaking_hands()) {
        while client.wants_write() && client.write_tls(&mut wire).is_ok() {}
        if client.read_tls(&mut wire).is_ok() {
            client.process_new_packets().expect("a good server");
        }
        stream.read(&mut [0]).expect_err("nobody sends anything");
    }
    (stream, wire)
}

/// Regression: a slow reader over TLS looked stalled until all that had been sealed for it was
/// gone, some 40 KiB, and was closed for others.
#[test]
fn a_part_taken_of_a_sealed_record_is_progress() {
    const LONG_AGO: Duration = Duration::from_secs(1_000_000);
    let (limit, counters) = (limit(1 << 30), Counters::default());
    let (mut stream, mut wire) = tls_pair();
    let mut parked = park(1 << 20, &limit);
    let mut chunk = [0; 1000];
    let mut progresses = 0;
    while !parked.is_empty() {
        let _ = wire.read(&mut chunk);
        let before = {
            let mut waiting = lock(&parked.slot.as_ref().expect("it has output").waiting);
            waiting.progressed = LONG_AGO;
            waiting.written
        };
        parked.flush(&mut stream, &counters, &limit).expect("the client is there");
        if let Some(slot) = &parked.slot {
            let waiting = lock(&slot.waiting);
            let has_progressed = waiting.progressed != LONG_AGO;
            assert!(has_progressed || waiting.written == before);
            progresses += usize::from(has_progressed && waiting.written == before);
        }
    }
    assert!(progresses > 20, "{progresses}");
}
