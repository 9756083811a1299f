//! Namespaces: flushing a prefix over every protocol that can.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use larder::FLUSHED_PREFIXES_MAX;

use crate::common::{Client, Server};

fn store(client: &mut Client, keys: &[&str]) {
    for key in keys {
        client.ask(&format!("set {key} 0 0 1\r\nx\r\n"), "STORED\r\n");
    }
}

/// The keys that are there.
fn there(client: &mut Client, keys: &[&str]) -> Vec<String> {
    client.send(format!("get {}\r\n", keys.join(" ")).as_bytes());
    let reply = client.read_to("END\r\n");
    let values = reply.lines().filter_map(|line| line.strip_prefix("VALUE "));
    values.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn a_prefix_is_flushed_and_nothing_else() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let keys = ["user:1", "user:2", "user", "users:1", "b:1"];
    store(&mut client, &keys);
    client.ask("flush_prefix user:\r\n", "OK\r\n");
    assert_eq!(there(&mut client, &keys), ["user", "users:1", "b:1"]);
    store(&mut client, &["user:1"]);
    assert_eq!(there(&mut client, &keys), ["user:1", "user", "users:1", "b:1"]);
    // "user" in base64, and without an answer.
    client.ask("flush_prefix dXNlcg== b\r\n", "OK\r\n");
    client.send(b"flush_prefix b noreply\r\n");
    assert!(there(&mut client, &keys).is_empty());
    client.send(b"stats\r\n");
    let stats = client.read_to("END\r\n");
    assert!(stats.contains("STAT cmd_flush_prefix 3\r\n"), "{stats}");
    assert!(stats.contains("STAT cmd_flush 0\r\n"), "{stats}");
}

#[test]
fn bad_prefixes_are_refused_and_nothing_is_flushed() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    store(&mut client, &["a:1"]);
    let long = format!("flush_prefix {}\r\n", "a".repeat(251));
    for request in ["flush_prefix\r\n", "flush_prefix a: a:\r\n", &long] {
        client.ask(request, "CLIENT_ERROR bad command line format\r\n");
    }
    client.ask("flush_prefix a: b\r\n", "CLIENT_ERROR error decoding key\r\n");
    client.send(b"flush_prefix a: a: noreply\r\n");
    assert_eq!(there(&mut client, &["a:1"]), ["a:1"]);
    let longest = "a".repeat(250);
    client.ask(&format!("flush_prefix {longest}\r\n"), "OK\r\n");
}

#[test]
fn where_flushing_is_forbidden_so_is_a_prefix() {
    let server = Server::start(&["-F"]);
    let mut client = server.connect();
    store(&mut client, &["a:1"]);
    client.ask("flush_prefix a:\r\n", "CLIENT_ERROR flush_prefix not allowed\r\n");
    assert_eq!(there(&mut client, &["a:1"]), ["a:1"]);
}

/// The background is fast, so the table is rarely full: either way the answer says what happened.
#[test]
fn many_prefixes_at_once_are_flushed_or_refused_as_answered() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let names: Vec<String> = (0..4 * FLUSHED_PREFIXES_MAX).map(|n| format!("p{n}:")).collect();
    for name in &names {
        store(&mut client, &[name]);
    }
    let lines: String = names.iter().map(|name| format!("flush_prefix {name}\r\n")).collect();
    client.send(format!("{lines}mn\r\n").as_bytes());
    let replies = client.read_to("MN\r\n");
    assert_eq!(replies.lines().count(), names.len() + 1);
    for reply in replies.lines().take(names.len()) {
        let refused = "SERVER_ERROR too many prefixes are being flushed, try again later";
        assert!(reply == "OK" || reply == refused, "{reply}");
    }
    let flushed = replies.lines().filter(|reply| *reply == "OK").count() as u64;
    assert_eq!(server.stat("cmd_flush_prefix"), flushed, "what was refused does not count");
    for name in &names {
        let mut flushed = false;
        for _ in 0..100_000 {
            client.send(format!("flush_prefix {name}\r\n").as_bytes());
            flushed = client.read_to("\r\n") == "OK\r\n";
            if flushed {
                break;
            }
        }
        assert!(flushed, "the background makes room");
        assert!(there(&mut client, &[name]).is_empty(), "{name}");
    }
}

/// The lines of `stats detail dump`.
fn detail(client: &mut Client) -> Vec<String> {
    client.send(b"stats detail dump\r\n");
    let dump = client.read_to("END\r\n");
    let lines = dump.lines().filter_map(|line| line.strip_prefix("PREFIX "));
    lines.map(str::to_owned).collect()
}

#[test]
fn requests_are_counted_by_namespace_while_that_is_on() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    store(&mut client, &["user:0"]);
    assert!(detail(&mut client).is_empty(), "it is off");
    client.ask("stats detail on\r\n", "OK\r\n");
    store(&mut client, &["user:1", "none", "user:1:2"]);
    there(&mut client, &["user:1", "user:2", "none", ":"]);
    client.ask("gat 0 user:1\r\n", "VALUE user:1 0 1\r\nx\r\nEND\r\n");
    client.ask("delete user:1\r\ndelete user:1\r\n", "DELETED\r\nNOT_FOUND\r\n");
    client.ask("incr user:1 1\r\ntouch user:1 0\r\n", "NOT_FOUND\r\nNOT_FOUND\r\n");
    // Meta commands count too, which memcached leaves out, in base64 as well.
    client.ask("ms meta:1 1\r\nx\r\nmg meta:1\r\nmg meta:2\r\n", "HD\r\nHD\r\nEN\r\n");
    client.ask("md meta:1\r\nmg bWV0YTox b\r\n", "HD\r\nEN\r\n");
    let expected = [
        " get 1 hit 0 set 0 del 0",
        "meta get 3 hit 1 set 1 del 1",
        "user get 3 hit 2 set 2 del 2",
    ];
    assert_eq!(detail(&mut client), expected);
    client.send(b"stats settings\r\n");
    let settings = client.read_to("END\r\n");
    assert!(settings.contains("STAT detail_enabled yes\r\n"), "{settings}");
    assert!(settings.contains("STAT stat_key_prefix :\r\n"), "{settings}");
    client.ask("stats detail off\r\n", "OK\r\n");
    store(&mut client, &["user:1"]);
    assert_eq!(detail(&mut client), expected, "what was counted stays");
    client.ask("stats reset\r\n", "RESET\r\n");
    assert!(detail(&mut client).is_empty());
    client.ask("stats detail\r\n", "CLIENT_ERROR usage: stats detail on|off|dump\r\n");
}

#[test]
fn a_watcher_that_leaves_does_not_turn_counting_off() {
    let server = Server::start(&["-D", "/"]);
    let mut client = server.connect();
    let mut watcher = server.connect();
    watcher.ask("watch fetchers\r\n", "OK\r\n");
    store(&mut client, &["a/1"]);
    there(&mut client, &["a/1"]);
    watcher.read_to("\n");
    drop(watcher);
    client.wait_for_stat("log_watchers", |watchers| watchers == 0);
    there(&mut client, &["a/1"]);
    assert_eq!(detail(&mut client), ["a get 2 hit 2 set 1 del 0"]);
    client.send(b"stats settings\r\n");
    assert!(client.read_to("END\r\n").contains("STAT stat_key_prefix /\r\n"));
}

#[test]
fn a_delimiter_is_one_visible_character() {
    for (value, is_good) in
        [("/", true), ("", false), ("::", false), (" ", false), ("\u{e9}", false)]
    {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_larder"));
        let output = command.args(["--check", "-D", value]).output().expect("it runs");
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.success(), is_good, "{value:?}: {text}");
        assert!(is_good || text.contains("is not one visible character"), "{text}");
    }
}
