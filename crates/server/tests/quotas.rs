//! Quotas by namespace, as clients meet them without knowing of them.

use std::process::Command;

use stdx::random::Xorshift;

use crate::common::{Client, Server};

/// The number of this name in `stats quotas`.
fn quota(client: &mut Client, name: &str) -> u64 {
    client.send(b"stats quotas\r\n");
    let stats = client.read_to("END\r\n");
    let mut values = stats.lines().filter_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    values.next().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {stats}"))
}

/// How many of the keys with a prefix and a number below `count` are there.
fn present(client: &mut Client, prefix: &str, count: usize) -> usize {
    let keys: Vec<String> = (0..count).map(|number| format!("{prefix}{number}")).collect();
    client.send(format!("get {}\r\n", keys.join(" ")).as_bytes());
    client.read_to("END\r\n").matches("VALUE ").count()
}

/// Stores items of random letters, which compress little, and reads no answers.
fn flood(client: &mut Client, prefix: &str, count: usize) {
    let mut random = Xorshift::default();
    let mut value =
        || -> String { (0..1000).map(|_| char::from(b'@' + (random.draw() % 64) as u8)).collect() };
    for numbers in (0..count).collect::<Vec<_>>().chunks(100) {
        let store =
            |number: &usize| format!("set {prefix}{number} 0 0 1000 noreply\r\n{}\r\n", value());
        let lines: String = numbers.iter().map(store).collect();
        client.send(format!("{lines}mn\r\n").as_bytes());
        client.expect(b"MN\r\n");
    }
}

/// A tenant stores eight times the memory, and another's items are still there. Without the quota
/// the same takes all of them.
#[test]
fn one_tenant_does_not_push_out_the_others() {
    for compressed in ["auto", "off"] {
        let options = ["-m", "8", "--compressed", compressed];
        for quotas in [&["--quota", "session:=20%,x=1k"][..], &[]] {
            let server = Server::start(&[&options, quotas].concat());
            let mut client = server.connect();
            flood(&mut client, "cart:", 2000);
            flood(&mut client, "session:", 64_000);
            let left = present(&mut client, "cart:", 2000);
            if quotas.is_empty() {
                assert!(left < 1000, "--compressed {compressed}: {left}");
                continue;
            }
            assert_eq!(left, 2000, "--compressed {compressed}");
            client.ask("get session:64000\r\n", "END\r\n");
            client.send(b"get session:63999\r\n");
            assert!(client.read_to("END\r\n").starts_with("VALUE "));
            let (bytes, limit) =
                (quota(&mut client, "bytes:session:"), quota(&mut client, "limit_bytes:session:"));
            assert!(limit == (8 << 20) / 5 && bytes <= limit && bytes > limit / 10 * 9, "{bytes}");
            let (items, evicted) =
                (quota(&mut client, "items:session:"), quota(&mut client, "evicted:session:"));
            assert!((1000..1700).contains(&items), "{items}");
            assert!(evicted > 60_000 && quota(&mut client, "items:x") == 0, "{evicted}");
            client.ask("stats reset\r\n", "RESET\r\n");
            assert_eq!(quota(&mut client, "evicted:session:"), 0);
            client.ask("flush_all\r\n", "OK\r\n");
            client.ask("set session:1 0 0 1\r\nx\r\n", "STORED\r\n");
        }
    }
}

#[test]
fn an_item_above_its_quota_is_too_large_and_the_old_value_is_gone() {
    let server = Server::start(&["--quota", "a:=10k"]);
    let mut client = server.connect();
    client.ask("set a:1 0 0 1\r\nx\r\n", "STORED\r\n");
    let value = "v".repeat(11_000);
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    client.ask(&format!("set a:1 0 0 11000\r\n{value}\r\n"), too_large);
    client.ask("get a:1\r\n", "END\r\n");
    client.ask(&format!("set b:1 0 0 11000\r\n{value}\r\n"), "STORED\r\n");
    client.ask(&format!("set a:2 0 0 8000\r\n{}\r\n", &value[..8000]), "STORED\r\n");
    // The appended bytes need room while the item is there: one of them is evicted.
    client.ask(&format!("append a:2 0 0 4000\r\n{}\r\n", &value[..4000]), "NOT_STORED\r\n");
    assert!(quota(&mut client, "bytes:a:") <= 10 << 10);
}

#[test]
fn other_protocols_are_under_the_same_quotas() {
    let server = Server::start(&["--quota", "a:=100k", "--redis-port", "0"]);
    let mut client = server.connect();
    for number in 0..2000 {
        client.ask(&format!("ms a:{number} 100\r\n{}\r\n", "v".repeat(100)), "HD\r\n");
    }
    client.ask("incr a:n 1\r\n", "NOT_FOUND\r\n");
    client.ask("ma a:n N0\r\n", "HD\r\n");
    assert!((400..1000).contains(&quota(&mut client, "items:a:")));
    assert!(quota(&mut client, "evicted:a:") > 1000);
}

#[test]
fn conflicting_quotas_are_reported_before_anything_starts() {
    let check = |options: &[&str]| {
        let larder = env!("CARGO_BIN_EXE_larder");
        let output = Command::new(larder).arg("--check").args(options).output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(check(&["--quota", "a:=1m,a:b:=10%"]).0);
    for (options, text) in [
        (&["--quota", "a:=1m,a:=2m"][..], "--quota: the quota of a: is said twice"),
        (&["--quota", "a:"], "--quota: a: is not PREFIX=SIZE"),
        (&["-m", "8", "--quota", "a:=9m"], "the quota of a: is more than the memory limit"),
    ] {
        let (is_fine, said) = check(options);
        assert!(!is_fine && said.contains(text), "{said}");
    }
}

/// Regression: they were shown as in Rust's source, on the page of metrics escaped once more. And a
/// word that looks like the text of another name had the same.
#[test]
fn the_name_of_a_quota_is_shown_as_it_is_if_it_is_a_word() {
    let quotas = ["a\"b=1m", "c\\d=1m", "e f=1m", "e%20f=1m"];
    let server = Server::start(&quotas.map(|quota| ["--quota", quota]).concat());
    let mut client = server.connect();
    client.ask("set a\"b1 0 0 1\r\nx\r\n", "STORED\r\n");
    client.ask("set e%20f1 0 0 1\r\nx\r\n", "STORED\r\n");
    let names = ["items:a\"b", "items:c\\d", "items:e%20f", "items:e%2520f"];
    assert_eq!(names.map(|name| quota(&mut client, name)), [1, 0, 0, 1]);
}
