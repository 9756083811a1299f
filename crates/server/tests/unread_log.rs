//! A log without a reader: a collector hangs, a terminal is held, and the server goes on.

use std::io::BufRead;

use crate::common::Server;

/// Regression: each worker hung at its next line, and so did the end, before anything was saved.
#[test]
fn a_log_that_nobody_reads_keeps_neither_requests_nor_the_end() {
    // With slabs this large a cache keeps more than that, and says so at each change.
    let (mut server, mut log) = Server::start_logged(&["-m", "4096", "-t", "1"]);
    let mut client = server.connect();
    let request = "cache_memlimit 8\r\ncache_memlimit 9\r\n".repeat(50);
    let answer = "OK\r\n".repeat(100);
    (0..50).for_each(|_| client.ask(&request, &answer));
    let mut line = String::new();
    let mut next = || {
        line.clear();
        log.read_line(&mut line).expect("it says something");
        line.clone()
    };
    // Then there is room again.
    for _ in 0..30 {
        assert!(next().contains("is too small"));
    }
    server.signal("TERM");
    assert!(server.wait().success());
    let rest: Vec<String> =
        std::iter::from_fn(|| Some(next()).filter(|it| !it.is_empty())).collect();
    let lost =
        rest.iter().position(|line| line.ends_with(" lines were lost, as nobody read them\n"));
    let stopping = rest.iter().position(|line| line == "larder: signal 15: stopping\n");
    assert!(lost.is_some() && lost < stopping, "{:?}", rest.iter().rev().take(5));
}
