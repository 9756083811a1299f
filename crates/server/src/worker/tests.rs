//! A worker and one connection, on the test's own thread: it goes round when the test says so.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use larder::Expiry;
use protocol::Wire;

use super::*;
use crate::address::Address;
use crate::connection::Info;
use crate::listen::Endpoint;
use crate::options::Options;
use crate::output::OUTPUT_BYTES_MAX;
use crate::parked::Room;
use crate::sampling::Unsampled;
use crate::start::tests::Parts;
use crate::users::Users;

/// A value whose reply needs room.
const BIG_BYTES: usize = 70_000;

/// Longer than any step that is certain to happen takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of the first worker, which has yet to take it.
fn connect(server: &Server, endpoint: &Endpoint, wire: Option<Wire>) -> TcpStream {
    let listener = &endpoint.listener;
    listener.listen(1).expect("nobody else listens there");
    let name = listener.name();
    let address = name.strip_prefix("tcp:").expect("a port");
    let client = TcpStream::connect(address).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    let stream = listener.accept().expect("somebody has connected");
    let (fd, source) = (stream.as_raw_fd(), Address::of(stream.peer()));
    let info = Arc::new(Info::new(fd, (name.clone(), source), name, server.now()));
    server.connections.enter(Arc::clone(&info));
    server.mailboxes[0].send(Arrival { stream, info, wire });
    client
}

struct Scene<'c> {
    worker: Worker<'c, Unsampled>,
    events: Events,
    client: TcpStream,
}

impl<'c> Scene<'c> {
    fn new(server: &'c Server, endpoints: &[Endpoint], poll: Poll, wire: Option<Wire>) -> Self {
        let client = connect(server, &endpoints[0], wire);
        let worker = Worker::new(server, 0, poll, Unsampled);
        let mut scene = Self { worker, events: Events::with_capacity(EVENTS_MAX), client };
        while scene.worker.connections.is_empty() {
            scene.go_round();
        }
        scene
    }

    fn go_round(&mut self) {
        let timeout = if self.worker.can_go_on() { Duration::ZERO } else { PATIENCE };
        self.worker.go_round(&mut self.events, Some(timeout));
    }

    fn connection(&mut self) -> &mut Connection<'c> {
        self.worker.connections[0].as_mut().expect("it is open")
    }

    /// Sends a request, and goes round until `is_so` holds for the connection.
    fn ask(&mut self, request: &[u8], is_so: impl Fn(&Connection<'c>) -> bool) {
        self.client.write_all(request).expect("there is room");
        while !is_so(self.connection()) {
            self.go_round();
        }
    }

    /// Goes round for as long as `is_so` holds, with a client that reads. Returns when the
    /// connection was last active; each round first clears that time.
    fn active_after(&mut self, is_so: impl Fn(&Connection<'c>) -> bool) -> u32 {
        let mut chunk = vec![0; 1 << 20];
        while is_so(self.connection()) {
            self.client.set_nonblocking(true).expect("a socket option");
            while self.client.read(&mut chunk).is_ok() {}
            assert!(self.connection().parked.is_empty(), "its client reads");
            self.connection().info.active_s.store(0, Ordering::Relaxed);
            self.go_round();
        }
        self.connection().info.active_s.load(Ordering::Relaxed)
    }

    /// Delivers what the connection waits for.
    fn deliver(&mut self) {
        let to = self.connection().id;
        let message = Message::Login(Verdict::Unchecked);
        self.worker.server.mailboxes[0].deliver(Delivery { to, message });
    }

    /// Ends the worker; returns what the client gets then, and whether it was closed right behind
    /// that.
    fn end(mut self) -> (String, bool) {
        // The patience begins after this delay, so it lasts longer than the delay takes.
        let stopped = (Instant::now() + PATIENCE).into();
        self.worker.give_last_turns(&mut self.events, &stopped);
        let is_closed = self.worker.connections[0].is_none();
        drop(self.worker);
        let mut text = String::new();
        match self.client.read_to_string(&mut text) {
            // Unread input is lost with the connection.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            read => drop(read.expect("it ends")),
        }
        (text, is_closed)
    }
}

/// Regression: a connection was closed as silent right after a reply it had waited for, however
/// long that took.
#[test]
fn a_client_served_until_now_is_not_silent() {
    let Parts { server, endpoints, poll, .. } = Parts::new(Options::default());
    let mut scene = Scene::new(&server, &endpoints, poll, None);
    // Each takes a turn.
    let gives_way = |connection: &Connection<'_>| connection.gives_way;
    scene.ask(&b"cache_memlimit 64\r\n".repeat(5), gives_way);
    let turns = scene.active_after(gives_way);

    scene.connection().fetching = 1;
    scene.deliver();
    let fetch = scene.active_after(|connection| connection.fetching > 0);

    for number in 0..100_000_u32 {
        server.cache.set(&number.to_le_bytes(), b"v", Expiry::NEVER).expect("there is room");
    }
    let dumps = |connection: &Connection<'_>| matches!(connection.state, State::Dump(_));
    scene.ask(b"lru_crawler mgdump all\r\n", dumps);
    let dump = scene.active_after(dumps);
    assert!(![turns, fetch, dump].contains(&0), "{turns}, {fetch}, {dump}");
}

/// Regression: every worker tried output four times a second while any client had half a command or
/// a transaction, which is input.
#[test]
fn only_parked_output_is_tried_again() {
    let Parts { server, endpoints, poll, .. } = Parts::new(Options::default());
    let mut scene = Scene::new(&server, &endpoints, poll, Some(Wire::Redis));
    scene.ask(b"MULTI\r\nSET a 1\r\n", |connection| {
        connection.redis.as_ref().is_some_and(|client| client.queue.is_some())
    });
    assert!(server.parked.bytes() > 0);
    assert_eq!(scene.worker.timeout(), None);

    let connection = scene.connection();
    connection.parked.park(&[b"+PONG\r\n"], &server.parked).expect("there is room");
    scene.worker.end_turn(0, Ok(After::Wait));
    assert_eq!(scene.worker.timeout(), Some(TRY_AFTER));
}

/// A server's file of users.
fn users() -> Option<Users> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "bob:secret\n").expect("it is there");
    Some(Users::load(file.path()).expect("a user"))
}

#[test]
fn an_unauthenticated_client_is_closed_after_a_minute() {
    let Parts { mut server, endpoints, poll, .. } = Parts::new(Options::default());
    server.users = users();
    let mut scene = Scene::new(&server, &endpoints, poll, None);
    let worker = &mut scene.worker;
    for seconds in [0, LOGIN_PATIENCE_S] {
        worker.now_s += seconds;
        worker.kick_unsettled();
        assert!(worker.connections[0].is_some() && worker.unsettled == 1);
    }
    worker.now_s += 1;
    worker.kick_unsettled();
    assert!(worker.connections[0].is_none() && worker.unsettled == 0);
}

/// Regression: once all had logged in no worker looked any more, so that a client that logged out
/// by `RESET` could stay for ever.
#[test]
fn a_client_that_logs_out_is_closed_after_a_minute() {
    let Parts { mut server, endpoints, poll, .. } = Parts::new(Options::default());
    server.users = users();
    let mut scene = Scene::new(&server, &endpoints, poll, Some(Wire::Redis));
    scene.connection().redis.as_mut().expect("it speaks that").rights = Rights::All;
    scene.worker.kick_unsettled();
    assert_eq!(scene.worker.unsettled, 0);
    scene.ask(b"RESET\r\n", |connection| connection.rights() == Rights::None);
    assert_eq!((scene.worker.unsettled, scene.worker.timeout()), (1, Some(IDLE_LOOK)));
}

/// Regression: requests that waited for flash when the server was asked to stop were forgotten.
#[test]
fn a_request_waiting_for_flash_is_answered_at_the_stop() {
    let Parts { server, endpoints, poll, .. } = Parts::new(Options::default());
    let mut scene = Scene::new(&server, &endpoints, poll, None);
    let connection = scene.connection();
    (connection.fetching, connection.unread) = (1, b"mn\r\nmn\r\nm".to_vec());
    scene.deliver();
    assert_eq!(scene.end(), ("MN\r\nMN\r\n".to_owned(), true));
}

#[test]
fn a_request_behind_parked_output_is_answered_at_the_stop() {
    let Parts { server, endpoints, poll, .. } = Parts::new(Options::default());
    let mut scene = Scene::new(&server, &endpoints, poll, None);
    let connection = scene.connection();
    connection.parked.park(&[b"parked "], &server.parked).expect("there is room");
    connection.unread = b"mn\r\n".to_vec();
    assert_eq!(scene.end(), ("parked MN\r\n".to_owned(), true));
}

/// Takes all the room for parked output.
fn all_room(server: &Server) -> Room<'_> {
    let mut room = Room::new(&server.parked, None);
    assert!(room.grow(server.parked.bytes_max() - OUTPUT_BYTES_MAX), "nobody has any");
    room
}

fn store_big(server: &Server) -> String {
    server.cache.set(b"big", &[b'v'; BIG_BYTES], Expiry::NEVER).expect("there is memory");
    format!("VALUE big 0 {BIG_BYTES}\r\n{}\r\nEND\r\n", "v".repeat(BIG_BYTES))
}

#[test]
fn a_request_waiting_for_room_is_answered_at_the_stop() {
    let Parts { server, endpoints, poll, .. } = Parts::new(Options::default());
    let reply = store_big(&server);
    let mut scene = Scene::new(&server, &endpoints, poll, None);
    let room = all_room(&server);
    scene.ask(b"get big\r\n", |connection| connection.short_of_room.is_some());
    let (text, is_closed) = thread::scope(|scope| {
        // Other connections end and give back their room, perhaps a while later.
        scope.spawn(move || {
            thread::sleep(2 * ROOM_LOOK);
            drop(room);
        });
        scene.end()
    });
    assert!(text == reply && is_closed, "{} bytes, {is_closed}", text.len());
}

/// Regression: the time that one connection had waited was counted for the next one, too.
#[test]
fn each_waits_for_room_for_ten_seconds_of_its_own() {
    let Parts { server, endpoints, poll, .. } = Parts::new(Options::default());
    store_big(&server);
    let mut scene = Scene::new(&server, &endpoints, poll, None);
    let mut second = connect(&server, &endpoints[0], None);
    while scene.worker.connections.len() < 2 {
        scene.go_round();
    }
    let room = all_room(&server);
    scene.ask(b"get big\r\n", |connection| connection.short_of_room.is_some());
    let long_ago = Instant::now().checked_sub(Duration::from_secs(9)).expect("it is up for that");
    scene.connection().short_of_room = Some(long_ago.into());
    scene.worker.tried_room = long_ago.into();
    scene.worker.try_short_of_room();
    assert_eq!(scene.connection().short_of_room, Some(long_ago.into()));
    second.write_all(b"get big\r\n").expect("there is room");
    let waits_since = |scene: &Scene<'_>| {
        let connection = scene.worker.connections[1].as_ref().expect("it is open");
        connection.short_of_room
    };
    while waits_since(&scene).is_none() {
        scene.go_round();
    }
    assert_ne!(waits_since(&scene), Some(long_ago.into()));
    assert_eq!(server.counters.of(0).output_waits.get(), 2);
    drop(room);
}

/// Regression: the request right behind it was answered without room, too: nothing was kept for it,
/// and the connection was closed.
#[test]
fn one_answer_without_room_allows_no_second() {
    let Parts { server, endpoints, poll, .. } = Parts::new(Options::default());
    store_big(&server);
    let mut scene = Scene::new(&server, &endpoints, poll, None);
    let room = all_room(&server);
    scene.ask(b"get big\r\nget big\r\n", |connection| connection.short_of_room.is_some());
    let long_ago = Instant::now().checked_sub(Duration::from_secs(11));
    let long_ago = Some(Stopwatch::from(long_ago.expect("it is up for that")));
    scene.connection().short_of_room = long_ago;
    scene.worker.turn(0);
    let waited = scene.connection().short_of_room;
    assert!(waited.is_some() && waited != long_ago, "{waited:?}");
    drop(room);
}

/// Regression: its next request used up the ten seconds of connections that had come after it.
#[test]
fn a_connection_answered_without_room_queues_behind_others() {
    let Parts { server, endpoints, poll, .. } = Parts::new(Options::default());
    store_big(&server);
    let mut scene = Scene::new(&server, &endpoints, poll, None);
    let room = all_room(&server);
    // More than a batch lies between the two.
    let requests = format!("get big\r\n{}get big\r\n", "mn\r\n".repeat(500));
    scene.ask(requests.as_bytes(), |connection| connection.short_of_room.is_some());
    let long_ago = Instant::now().checked_sub(Duration::from_secs(11)).expect("it is up for that");
    scene.connection().short_of_room = Some(long_ago.into());
    // The slot is empty: it is taken off the list when its turn comes.
    scene.worker.short_of_room.push_back(7);
    scene.worker.tried_room = long_ago.into();
    scene.worker.try_short_of_room();
    assert!(scene.connection().short_of_room.is_some_and(|since| since != long_ago.into()));
    assert_eq!(scene.worker.short_of_room, [0]);
    drop(room);
}

#[test]
fn a_stopping_worker_reads_nothing_and_awaits_no_password() {
    let Parts { server, endpoints, poll, .. } = Parts::new(Options::default());
    let mut scene = Scene::new(&server, &endpoints, poll, None);
    let connection = scene.connection();
    (connection.fetching, connection.is_claiming) = (1, true);
    (connection.is_readable, connection.is_hung_up) = (true, true);
    scene.client.write_all(b"mn\r\n").expect("there is room");
    assert_eq!(scene.end(), (String::new(), true));
}
