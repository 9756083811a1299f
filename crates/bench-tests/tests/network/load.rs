//! `load` against real servers, where they are installed, and against an impostor.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use crate::servers::{Server, free_port};
use larder_bench_tests::program;
use serde_json::Value;

/// Gets and sets of values between some bytes and a few KiB.
const WORKLOAD: &str = "make --keys 2000 --requests 20000 --sizes etc --get-share 0.9 --seed 3";

fn load(port: u16, arguments: &[&str]) -> Output {
    Command::new(program())
        .args(["load", "--connections", "4", "--address", &format!("127.0.0.1:{port}")])
        .args(arguments)
        .output()
        .expect("the program can be run")
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the facts of a successful load.
fn facts(port: u16, protocol: &str, depth: &str) -> impl Fn(&str) -> String + use<> {
    let name = format!("load-{port}-{depth}.json");
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let path = json.to_str().expect("the target folder has a plain name");
    let output = load(port, &[WORKLOAD, "--protocol", protocol, "--depth", depth, "--json", path]);
    assert!(output.status.success(), "{protocol}, {depth}: {}", message(&output));
    let text = std::fs::read_to_string(&json).expect("the report was written");
    let report: Value = serde_json::from_str(&text).expect("the report is JSON");
    move |name| {
        let facts = report["facts"].as_array().expect("facts").iter();
        let found = facts.filter(|fact| fact[0] == name).map(|fact| fact[1].as_str());
        found.flatten().next().unwrap_or_else(|| panic!("no fact {name}")).to_owned()
    }
}

/// Loads a server twice: at first every object is missed once, then all are hits.
fn check(server: Option<Server>, protocol: &str) {
    let Some(server) = server else { return };
    let number = |text: String| text.parse::<u64>().expect("a count");
    let first = facts(server.port, protocol, "1");
    assert!(number(first("misses filled")) > 0);
    assert_eq!(first("refused"), "0");
    let again = facts(server.port, protocol, "100");
    assert_eq!(again("hits, percent of gets"), "100.00");
    assert_eq!((again("misses filled"), again("counted requests")), ("0".into(), "20000".into()));
    // About nine in ten requests are gets: six standard deviations are 255.
    let checked = number(again("hits compared byte by byte"));
    assert!(checked.abs_diff(18_000) < 255, "{checked}");
}

#[test]
fn memcached_returns_every_value_in_both_dialects() {
    check(Server::memcached(), "text");
    check(Server::memcached(), "meta");
}

#[test]
fn redis_returns_every_value() {
    check(Server::redis(), "resp");
}

#[test]
fn larder_returns_every_value_in_both_dialects() {
    check(Server::larder(), "text");
    check(Server::larder(), "meta");
}

#[test]
fn a_server_that_dies_is_named_and_gives_no_figures() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming().take(4).flatten() {
            open.push(stream);
        }
        // Misses everything a hundred times on one connection, and then closes all.
        let mut replies = open[0].try_clone().expect("a socket");
        let lines = BufReader::new(&open[0]).lines().take(100);
        for line in lines.map_while(Result::ok) {
            let _ = replies.write_all(if line.starts_with("get") { b"END\r\n" } else { b"" });
        }
    });
    let output = load(port, &["make --requests 10000"]);
    assert_eq!(output.status.code(), Some(4));
    let message = message(&output);
    assert!(message.contains("closed the connection") || message.contains("reset"), "{message}");
    assert!(output.stdout.is_empty(), "no figures: {}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_port_where_nobody_listens_is_named() {
    let port = free_port();
    let output = load(port, &["make --requests 10"]);
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(4), true));
    assert!(message(&output).contains(&format!("connecting to 127.0.0.1:{port}")));
}

#[test]
fn bad_options_are_named() {
    let cases: [(&[&str], i32, &str); 7] = [
        (&["make --kes 5"], 2, "--kes"),
        (&["make", "--values", "made:99"], 2, "a ratio lies between"),
        (&["make", "--values", "no/such/records"], 4, "no/such/records"),
        (&["no/such/trace"], 4, "no/such/trace"),
        (&["make --requests 10", "--warm-up", "1"], 2, "a warm-up is a share"),
        (&["make --requests 10", "--rate", "0"], 2, "a rate is a number"),
        (&["make --requests 10", "--limit", "0"], 2, "--limit"),
    ];
    for (arguments, code, expected) in cases {
        let output = load(free_port(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", message(&output));
        assert!(message(&output).contains(expected), "{}", message(&output));
    }
}
