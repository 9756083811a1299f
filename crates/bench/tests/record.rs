//! `record` against a running memcached, where it is installed: what a client did comes back as a
//! trace that holds none of its keys.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn memcached() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("memcached")).find(|file| file.is_file())
}

fn start(program: &Path) -> (Server, u16) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let number = port.to_string();
    let arguments = ["-l", "127.0.0.1", "-p", &number, "-U", "0", "-u", "root"];
    let child = Command::new(program).args(arguments).spawn().expect("memcached starts");
    (Server(child), port)
}

fn connect(port: u16) -> TcpStream {
    let started = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(error) if started.elapsed() > Duration::from_secs(10) => panic!("{error}"),
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// What the server says in this many lines.
fn ask(stream: &mut TcpStream, question: &str, lines: usize) -> Vec<String> {
    stream.write_all(question.as_bytes()).expect("the server listens");
    BufReader::new(stream).lines().take(lines).map(|line| line.expect("it answers")).collect()
}

#[test]
fn what_clients_do_becomes_a_trace() {
    let Some(memcached) = memcached() else {
        eprintln!("memcached is not installed: nothing to record");
        return;
    };
    let (_server, port) = start(&memcached);
    let mut client = connect(port);
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorded.csv");
    let recorder = Command::new(env!("CARGO_BIN_EXE_larder-bench"))
        .args(["record", "--seconds", "30", "--limit", "3", "--server"])
        .arg(format!("127.0.0.1:{port}"))
        .arg(&trace)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    // Nobody knows when the watcher is there: ask until it has what it wants.
    let mut recorder = Server(recorder);
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
