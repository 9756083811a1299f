//! Clients that read slowly, or not at all: the room that they hold goes to those that read.

use std::io::{ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use crate::common::{Client, PATIENCE, Server};

/// More bytes of a reply than sockets take without a reader.
const VALUE_BYTES: usize = 7 << 20;

/// The longest wait. Awaited events happen after a second or two, or some ten; waiting any longer
/// is in vain.
const LONG: Duration = Duration::from_secs(120);

/// A connection whose socket takes little.
fn connect(server: &Server) -> Client {
    connect_to(server.address())
}

fn connect_to(address: SocketAddr) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a socket option");
    socket.connect(&address.into()).expect("it accepts");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    Client { stream }
}

/// A server with a value that is too large for sockets, and a client that reads.
fn start(options: &[&str]) -> (Server, Client) {
    let server = Server::start(&[&["-m", "64", "-I", "8m"], options].concat());
    let mut client = server.connect();
    store_large(&mut client, "big");
    (server, client)
}

/// Whether a connected client has output parked; `None` if the server has closed it.
fn has_parked(client: &Client, watcher: &mut Client) -> Option<bool> {
    let address = client.stream.local_addr().expect("it is connected");
    watcher.send(b"stats conns\r\n");
    let text = watcher.read_to("END\r\n");
    let its = format!(":addr tcp:{address}");
    let line = text.lines().find(|line| line.ends_with(&its))?;
    let state = line.replace(&its, ":state conn_mwrite");
    Some(text.lines().any(|line| line == state))
}

/// A client that has asked for more than its socket takes, and has output parked or was refused it.
fn ask_and_wait(server: &Server, watcher: &mut Client) -> Client {
    let mut client = connect(server);
    client.ask("mn\r\n", "MN\r\n");
    client.send(b"get big\r\n");
    let began = Instant::now();
    while has_parked(&client, watcher) == Some(false) {
        assert!(began.elapsed() < LONG, "it is not answered");
    }
    client
}

/// Whether a client gets all of a large reply.
fn is_served(client: Client) -> bool {
    is_sent(client, &format!("VALUE big 0 {VALUE_BYTES}\r\n"), "\r\nEND\r\n")
}

/// Whether a client gets all of a reply, given the bytes before and behind its value.
fn is_sent(mut client: Client, before: &str, behind: &str) -> bool {
    let wanted = before.len() + VALUE_BYTES + behind.len();
    let (mut read, mut chunk, mut begin) = (0, vec![0; 64 << 10], Vec::new());
    while read < wanted {
        match client.stream.read(&mut chunk) {
            Ok(0) => return false,
            Ok(more) => {
                begin.extend(chunk[..more].iter().take(before.len().saturating_sub(read)));
                read += more;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return false,
            Err(error) => panic!("{error} after {read} bytes"),
        }
    }
    assert_eq!(begin.escape_ascii().to_string(), before.escape_default().to_string());
    true
}

/// Has a client ask each of these for a value, all before the first reads, and checks that they get
/// it. Each stands with the bytes before and behind the value.
fn all_are_served(requests: &[(SocketAddr, String, String, &str)], watcher: &mut Client) {
    let clients = requests.iter().map(|(address, request, before, behind)| {
        let mut client = connect_to(*address);
        client.send(request.as_bytes());
        (client, before, behind, request)
    });
    let clients: Vec<_> = clients.collect();
    watcher.wait_for_stat("output_waits", |waits| waits > 0);
    std::thread::scope(|scope| {
        for (client, before, behind, request) in clients {
            scope.spawn(move || assert!(is_sent(client, before, behind), "{request}"));
        }
    });
    assert_eq!(watcher.stat("output_kicks"), 0);
}

fn store_large(client: &mut Client, key: &str) {
    client.send(format!("set {key} 0 0 {VALUE_BYTES}\r\n").as_bytes());
    client.send(&vec![b'v'; VALUE_BYTES]);
    client.ask("\r\n", "STORED\r\n");
}

/// Regression: together they have far more to get than may be kept. Those whose reply was the one
/// too many were cut off in the middle of it, however fast they read.
#[test]
fn a_client_that_reads_is_not_closed_because_others_read() {
    let (server, redis) = Server::start_with_redis(&["-m", "64", "-I", "8m", "-t", "2"]);
    let (mut watcher, text) = (server.connect(), server.address());
    store_large(&mut watcher, "big");
    let value = format!("VALUE big 0 {VALUE_BYTES}\r\n");
    let (meta, bulk) = (format!("VA {VALUE_BYTES}\r\n"), format!("${VALUE_BYTES}\r\n"));
    let requests = [
        (text, "get big\r\n", value.clone(), "\r\nEND\r\n"),
        (text, "gat 0 big\r\n", value, "\r\nEND\r\n"),
        (text, "mg big v\r\n", meta, "\r\n"),
        (redis, "GET big\r\n", bulk.clone(), "\r\n"),
        (redis, "MGET big\r\n", format!("*1\r\n{bulk}"), "\r\n"),
    ];
    let requests = requests.map(|(to, asks, before, behind)| (to, asks.to_owned(), before, behind));
    all_are_served(&[&requests[..]; 3].concat(), &mut watcher);
    assert_eq!(watcher.stat("get_hits") + watcher.stat("touch_hits"), 15, "each is counted once");
}

/// Regression: a request that changes an item, or returns its state before, did not wait for room:
/// it cannot be executed once more when it has read.
#[test]
fn a_client_that_changes_what_it_reads_is_not_closed_either() {
    let (server, redis) = Server::start_with_redis(&["-m", "256", "-I", "8m", "-t", "2"]);
    let (mut watcher, text) = (server.connect(), server.address());
    store_large(&mut watcher, "big");
    (0..12).for_each(|number| store_large(&mut watcher, &format!("big{number}")));
    let mut unique = |key: &str| {
        watcher.send(format!("mg {key} c\r\n").as_bytes());
        watcher.read_to("\r\n").trim_end().replace("HD ", "")
    };
    let uniques = ["big", "big9", "big10", "big11"].map(&mut unique);
    let (meta, bulk) = (format!("VA {VALUE_BYTES} "), format!("${VALUE_BYTES}\r\n"));
    let mut requests = Vec::new();
    for number in 0..3 {
        requests.extend([
            (text, "mg big v c\r\n".to_owned(), format!("{meta}{}\r\n", uniques[0])),
            (text, "mg big v h\r\n".to_owned(), format!("{meta}h1\r\n")),
            (
                text,
                format!("mg big{} v c t T100\r\n", number + 9),
                format!("{meta}{} t-1\r\n", uniques[number + 1]),
            ),
            (redis, "GETEX big\r\n".to_owned(), bulk.clone()),
            (redis, "GETEX big EX 1000\r\n".to_owned(), bulk.clone()),
            (redis, format!("GETDEL big{number}\r\n"), bulk.clone()),
            (redis, format!("GETSET big{} x\r\n", number + 3), bulk.clone()),
            (redis, format!("SET big{} x GET\r\n", number + 6), bulk.clone()),
        ]);
    }
    let requests = requests.into_iter().map(|(to, asks, before)| (to, asks, before, "\r\n"));
    all_are_served(&requests.collect::<Vec<_>>(), &mut watcher);
    let mut client = connect_to(redis);
    client.ask("MGET big1 big4 big7\r\n", "*3\r\n$-1\r\n$1\r\nx\r\n$1\r\nx\r\n");
}

/// Regression: a client that sent a dump as its second and last request got only its first line.
#[test]
fn a_dump_goes_to_its_end_for_a_client_that_sends_no_more() {
    let server = Server::start(&["-t", "1"]);
    let mut client = server.connect();
    for number in 0..5000 {
        client.send(format!("set {number} 0 0 1 noreply\r\nx\r\n").as_bytes());
    }
    // The first takes a turn of its own, or the dump would be refused.
    client.send(b"stats\r\nlru_crawler metadump all\r\nversion\r\n");
    client.stream.shutdown(Shutdown::Write).expect("it is connected");
    let mut said = String::new();
    client.stream.read_to_string(&mut said).expect("text");
    assert_eq!(said.lines().filter(|line| line.starts_with("key=")).count(), 5000);
    let last: Vec<_> = said.lines().rev().take(2).collect();
    assert!(matches!(last[..], [version, "END"] if version.starts_with("VERSION ")), "{last:?}");
}

/// Regression: they held all the room for as long as they liked, and later clients were cut off in
/// the middle of a reply, however fast they read.
#[test]
fn a_client_that_reads_is_not_closed_for_one_that_does_not() {
    let (server, mut watcher) = start(&["-t", "3"]);
    let mut silent = Vec::new();
    while watcher.stat("output_kicks") == 0 {
        silent.push(ask_and_wait(&server, &mut watcher));
        assert!(silent.len() < 1000, "there is room for all");
    }
    // The first may come before it is known which clients do not read.
    let began = Instant::now();
    while !is_served(ask_and_wait(&server, &mut watcher)) {
        assert!(began.elapsed() < LONG, "nobody makes room");
    }
    // There is room for one, and then for the next.
    for _ in 0..5 {
        assert!(is_served(ask_and_wait(&server, &mut watcher)));
    }
    assert!(watcher.stat("output_parked_bytes") <= (16 << 20) + (64 << 20) / 100 * 3);
}

/// A reset is all that the server hears of it.
#[test]
fn a_client_that_goes_without_its_replies_leaves_nothing() {
    let (server, mut watcher) = start(&["-t", "2"]);
    // There is room for two, and for a third only where sockets take much.
    let silent: Vec<_> = (0..2).map(|_| ask_and_wait(&server, &mut watcher)).collect();
    assert!(watcher.stat("output_parked_bytes") > 0);
    for client in silent {
        SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).expect("a socket option");
    }
    watcher.wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
    // The one that asks.
    watcher.wait_for_stat("curr_connections", |count| count == 1);
    assert_eq!(watcher.stat("output_kicks"), 0);
}

/// Regression: the limit stayed that of the start, so that a larger -m, as the log advised, did not
/// help before a restart.
#[test]
fn a_larger_memory_limit_lets_more_wait_at_once() {
    let (server, mut watcher) = start(&["-t", "2"]);
    watcher.ask("cache_memlimit 1024\r\n", "OK\r\n");
    let silent: Vec<_> = (0..6).map(|_| ask_and_wait(&server, &mut watcher)).collect();
    assert!(silent.iter().all(|client| has_parked(client, &mut watcher) == Some(true)));
    let parked = watcher.stat("output_parked_bytes");
    assert!(parked > (16 << 20) + (64 << 20) / 100 * 3, "{parked}");
    assert_eq!(watcher.stat("output_kicks"), 0);
}

/// Regression: a client that was sent output counted as served, whether it took any or not.
#[test]
fn a_client_that_takes_no_replies_is_closed_after_the_idle_timeout() {
    let (server, _) = start(&["-o", "idle_timeout=1"]);
    let mut silent = connect(&server);
    silent.send(b"get big\r\n");
    let mut watcher = server.connect();
    watcher.wait_for_stat("output_parked_bytes", |bytes| bytes > 0);
    let began = Instant::now();
    while watcher.stat("output_parked_bytes") > 0 {
        assert!(began.elapsed() < LONG, "it is kept");
    }
    // The one that stored it may have been silent for long enough, too.
    assert!((1..=2).contains(&watcher.stat("idle_kicks")));
    assert_eq!(watcher.stat("output_kicks"), 0);
}

/// Regression: four clients that did not read kept all others from dumping.
#[test]
fn a_dump_that_nobody_reads_gives_its_place_to_another() {
    const DUMPS_MAX: usize = 4;
    const BUSY: &str = "BUSY currently processing crawler request\r\n";
    let server = Server::start(&["-t", "2"]);
    let mut client = server.connect();
    // Lines: more than sockets take without a reader.
    let tail = "x".repeat(240);
    for number in 0..40_000 {
        client.send(format!("set {number}-{tail} 0 0 1 noreply\r\nx\r\n").as_bytes());
    }
    client.ask("mn\r\n", "MN\r\n");
    let begin = || {
        let mut silent = connect(&server);
        silent.ask("lru_crawler mgdump all\r\n", "OK\r\n");
        silent
    };
    let _silent: Vec<_> = (0..DUMPS_MAX).map(|_| begin()).collect();
    let began = Instant::now();
    let mut answer = String::from(BUSY);
    while answer == BUSY {
        assert!(began.elapsed() < LONG, "it stays busy");
        client.send(b"lru_crawler mgdump all\r\n");
        answer = client.read_to("\n");
    }
    assert!(answer.starts_with("OK\r\n"), "{answer}");
    client.read_to("EN\r\n");
    assert!(client.stat("output_kicks") < DUMPS_MAX as u64, "one place is enough");
}
