//! Actions of Redis clients, as memcached's clients see them.

use crate::common::{Client, Server, array};

/// Regression: `k` and `me` showed it as it is, and the bytes behind its line end were taken for an
/// answer.
#[test]
fn a_key_that_no_line_can_hold_is_shown_in_base64() {
    let (server, address) = Server::start_with_redis(&[]);
    let (mut text, mut redis) = (server.connect(), Client::connect(address));
    let keys: [(&[u8], &str); 4] =
        [(b"x\r\nHD", "eA0KSEQ="), (b"a b", "YSBi"), (b"\x01", "AQ=="), (b"d\x7f", "ZH8=")];
    for (key, wire) in keys {
        // All ways in which an item is created, or replaces another.
        let commands: [(&[&[u8]], &str); 11] = [
            (&[b"set", key, b"1"], "+OK\r\n"),
            (&[b"set", key, b"1", b"get"], "$1\r\n1\r\n"),
            (&[b"getset", key, b"1"], "$1\r\n1\r\n"),
            (&[b"setex", key, b"100", b"1"], "+OK\r\n"),
            (&[b"mset", key, b"1", b"plain", b"1"], "+OK\r\n"),
            (&[b"append", key, b"0"], ":2\r\n"),
            (&[b"incr", key], ":11\r\n"),
            (&[b"getdel", key], "$2\r\n11\r\n"),
            (&[b"incr", key], ":1\r\n"),
            (&[b"del", key], ":1\r\n"),
            (&[b"setrange", key, b"0", b"1"], ":1\r\n"),
        ];
        for (command, answer) in commands {
            redis.send(&array(command));
            redis.expect(answer.as_bytes());
            if matches!(command[0], b"getdel" | b"del") {
                text.ask(&format!("mg {wire} b k\r\n"), &format!("EN k{wire} b\r\n"));
                continue;
            }
            text.ask(&format!("mg {wire} b k\r\nmn\r\n"), &format!("HD k{wire} b\r\nMN\r\n"));
            text.send(format!("me {wire} b\r\n").as_bytes());
            let line = text.read_to("\r\n");
            assert!(line.starts_with(&format!("ME {wire} exp=")), "{line}");
        }
    }
    redis.send(b"set \"x\\r\\nHD\" v\r\n");
    redis.expect(b"+OK\r\n");
    text.ask("mg eA0KSEQ= b k v\r\nmn\r\n", "VA 1 keA0KSEQ= b\r\nv\r\nMN\r\n");
    // A key that a line can hold is shown as it was stored.
    text.ask("mg cGxhaW4= b k\r\nmg plain k\r\n", "HD kplain\r\nHD kplain\r\n");
    text.send(b"lru_crawler mgdump all\r\n");
    let dump = text.read_to("EN\r\n");
    for line in ["mg plain\r\n", "mg eA0KSEQ= b\r\n", "mg YSBi b\r\n", "mg AQ== b\r\n"] {
        assert!(dump.contains(line), "{line} in {dump}");
    }
}

/// Regression: the key was there, and counted as a miss because nothing was to be changed.
#[test]
fn a_key_that_is_there_is_a_hit_though_its_expiry_stays() {
    let (server, address) = Server::start_with_redis(&[]);
    let (mut text, mut redis) = (server.connect(), Client::connect(address));
    redis.ask("set lasting v\r\nset brief v ex 1000\r\n", "+OK\r\n+OK\r\n");
    let unchanged = ["expire lasting 10 xx", "expire lasting 10 gt", "pexpire brief 10 nx"];
    for command in unchanged.into_iter().chain(["expire brief 2000 lt", "persist lasting"]) {
        redis.ask(&format!("{command}\r\n"), ":0\r\n");
    }
    let counts =
        |text: &mut Client| ["cmd_touch", "touch_hits", "touch_misses"].map(|name| text.stat(name));
    assert_eq!(counts(&mut text), [5, 5, 0]);
    redis.ask("expire brief 500 lt\r\npersist brief\r\n", ":1\r\n:1\r\n");
    assert_eq!(counts(&mut text), [7, 7, 0]);
    redis.ask("expire none 10\r\nexpire none 10 nx\r\npersist none\r\n", ":0\r\n:0\r\n:0\r\n");
    assert_eq!(counts(&mut text), [10, 7, 3]);
    // Regression: it counted as a get alone.
    redis.ask("getex brief ex 10\r\ngetex none persist\r\n", "$1\r\nv\r\n$-1\r\n");
    redis.ask("getex brief\r\n", "$1\r\nv\r\n");
    assert_eq!(counts(&mut text), [12, 8, 4]);
}

/// Regression: additions to a value, and to a part of it, were not logged, and a value that kept
/// its expiry looked as if it had none.
#[test]
fn watchers_of_mutations_hear_of_all_stores() {
    let (server, address) = Server::start_with_redis(&[]);
    let (mut watcher, mut redis) = (server.connect(), Client::connect(address));
    watcher.ask("watch mutations\r\n", "OK\r\n");
    redis.ask("set k v ex 100\r\nset k w keepttl\r\n", "+OK\r\n+OK\r\n");
    redis.ask("append k x\r\nsetrange k 3 yz\r\n", ":2\r\n:5\r\n");
    redis.ask("setrange k 3 \"\"\r\nset k v\r\n", ":5\r\n+OK\r\n");
    let mut text = String::new();
    while text.lines().count() < 6 {
        text.push_str(&watcher.read_to("\n"));
    }
    let heard = text.lines().map(|line| {
        let mut facts = line.split(' ').filter_map(|fact| fact.split_once('='));
        let mut fact = |name| facts.find(|(known, _)| *known == name).expect("it is told").1;
        [fact("status"), fact("cmd"), fact("ttl")].join(" ")
    });
    let wanted = [
        "stored set 100",
        "stored set 100",
        "stored append 100",
        "stored setrange 100",
        "not_stored setrange 100",
        "stored set 0",
    ];
    // A second may have passed by now.
    assert_eq!(heard.map(|line| line.replace(" 99", " 100")).collect::<Vec<_>>(), wanted);
}

/// Regression: the name of such a line was two words, and its value the second of them.
#[test]
fn a_prefix_with_a_space_is_one_word_of_its_line() {
    let (server, address) = Server::start_with_redis(&[]);
    let mut redis = Client::connect(address);
    redis.send(b"get \"a b:1\"\r\nset \"a b:1\" v\r\n");
    redis.expect(b"$-1\r\n+OK\r\n");
    let mut text = server.connect();
    text.send(b"stats costs\r\n");
    let stats = text.read_to("END\r\n");
    assert!(stats.contains("STAT prefix_misses:a\\x20b: 1\r\n"), "{stats}");
    assert!(stats.lines().all(|line| line == "END" || line.split(' ').count() == 3), "{stats}");
}
