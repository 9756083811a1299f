//! `record` against a running memcached, where it is installed: a client's requests come back as a
//! trace that holds none of its keys.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::servers::{Ended, Server};
use larder_bench_tests::program;

fn connect(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).expect("the server listens")
}

/// Asks the server, and returns its answer of this many lines.
fn ask(stream: &mut TcpStream, question: &str, lines: usize) -> Vec<String> {
    stream.write_all(question.as_bytes()).expect("the server listens");
    BufReader::new(stream).lines().take(lines).map(|line| line.expect("it answers")).collect()
}

#[test]
fn clients_requests_become_a_trace() {
    let server = Server::memcached();
    let Some(Server { port, .. }) = &server else { return };
    let mut client = connect(*port);
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorded.csv");
    let recorder = Command::new(program())
        .args(["record", "--seconds", "30", "--limit", "3", "--server"])
        .arg(format!("127.0.0.1:{port}"))
        .arg(&trace)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be run");
    // The start of the watch cannot be observed: send requests until the recorder has enough.
    let mut recorder = Ended(recorder);
    while recorder.0.try_wait().expect("it is a child").is_none() {
        assert_eq!(ask(&mut client, "set secret-key 0 60 5\r\nhello\r\n", 1), ["STORED"]);
        let found = ask(&mut client, "get secret-key\r\n", 3);
        assert_eq!(found[1], "hello");
    }
    let text = std::fs::read_to_string(&trace).expect("the trace was written");
    assert!(!text.contains("secret"), "{text}");
    let fields: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(fields.len(), 3);
    assert!(fields.iter().all(|it| it[1] == fields[0][1] && it[2] == "10"), "one key: {text}");
    assert!(fields.iter().any(|it| it[5] == "set" && it[3] == "5" && it[6] == "60"), "{text}");
    assert!(fields.iter().any(|it| it[5] == "get" && it[3] == "5"), "{text}");
}
