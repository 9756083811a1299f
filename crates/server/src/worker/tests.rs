//! A worker and one connection, on the test's own thread: it goes round when the test says so.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use protocol::Wire;

use super::*;
use crate::address::Address;
use crate::connection::Info;
use crate::listen::Door;
use crate::options::Options;
use crate::sampling::Unsampled;
use crate::start::tests::Parts;

/// Longer than what is certain to come takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Scene<'c> {
    worker: Worker<'c, Unsampled>,
    events: Events,
    client: TcpStream,
}

impl<'c> Scene<'c> {
    fn new(server: &'c Server, doors: &[Door], poll: Poll, wire: Option<Wire>) -> Self {
        let listener = &doors[0].listener;
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

    /// Brings what the connection waits for.
    fn deliver(&mut self) {
        let Connection { place, serial, .. } = *self.connection();
        let brought = Brought::Verdict(Verdict::Unchecked);
        self.worker.server.mailboxes[0].deliver(Delivery { place, serial, brought });
    }

    /// Ends the worker; what the client gets then, and whether it was closed behind that at once.
    fn end(mut self) -> (String, bool) {
        self.worker.give_last_turns(&mut self.events, &Stopwatch::start());
        let is_closed = self.worker.connections[0].is_none();
        drop(self.worker);
        let mut text = String::new();
        match self.client.read_to_string(&mut text) {
            // What was not read goes with the connection.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            read => drop(read.expect("it ends")),
        }
        (text, is_closed)
    }
}

/// Requests that waited for flash when the server was asked to stop were forgotten.
#[test]
fn what_was_read_is_answered_at_the_end_though_it_waits_for_flash() {
    let Parts { server, doors, poll, .. } = Parts::new(Options::default());
    let mut scene = Scene::new(&server, &doors, poll, None);
    let connection = scene.connection();
    (connection.fetching, connection.unread) = (1, b"mn\r\nmn\r\nm".to_vec());
    scene.deliver();
    assert_eq!(scene.end(), ("MN\r\nMN\r\n".to_owned(), true));
}

#[test]
fn what_stands_behind_parked_output_is_answered_at_the_end() {
    let Parts { server, doors, poll, .. } = Parts::new(Options::default());
    let mut scene = Scene::new(&server, &doors, poll, None);
    let connection = scene.connection();
    connection.parked.park(&[b"parked "], &server.parked).expect("there is room");
    connection.unread = b"mn\r\n".to_vec();
    assert_eq!(scene.end(), ("parked MN\r\n".to_owned(), true));
}

#[test]
fn at_the_end_nothing_more_is_read_and_no_password_is_waited_for() {
    let Parts { server, doors, poll, .. } = Parts::new(Options::default());
    let mut scene = Scene::new(&server, &doors, poll, None);
    let connection = scene.connection();
    (connection.fetching, connection.is_claiming) = (1, true);
    (connection.is_readable, connection.is_hung_up) = (true, true);
    scene.client.write_all(b"mn\r\n").expect("there is room");
    assert_eq!(scene.end(), (String::new(), true));
}
