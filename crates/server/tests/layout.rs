//! Keys and values in two rows: the same answers as side by side, for split items and others, and
//! the option that chooses the layout.

use std::process::Command;

use crate::common::Server;

#[test]
fn the_layout_is_told_and_can_be_chosen() {
    for (options, layout) in [
        (&[][..], "inline"),
        (&["--layout", "inline"], "inline"),
        (&["--layout", "split"], "split"),
    ] {
        let server = Server::start(options);
        let mut client = server.connect();
        client.send(b"stats settings\r\n");
        let text = client.read_to("END\r\n");
        assert!(text.contains(&format!("STAT hot_layout {layout}\r\n")), "{text}");
    }
    for layout in ["separate", "rows", ""] {
        let arguments = ["-p", "0", "--layout", layout];
        let output = Command::new(env!("CARGO_BIN_EXE_larder")).args(arguments).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(64));
        let text = String::from_utf8(output.stderr).expect("text");
        let wanted = format!("unknown layout {layout}; known are inline, split");
        assert!(text.contains(&wanted), "{text}");
    }
}

/// A value of `bytes` bytes, which differ.
fn value(bytes: usize) -> String {
    (0..bytes).map(|at| char::from(b'a' + ((at * 7 + at / 251) % 26) as u8)).collect()
}

#[test]
fn commands_on_split_items() {
    let server = Server::start(&["--layout", "split", "-m", "128"]);
    let mut client = server.connect();
    let long_key = "k".repeat(250);
    for key in ["a", "a-key-of-some-forty-bytes-that-fits-a-head", &long_key] {
        // Whole chunks, split ones, and values in pieces.
        for bytes in [0, 1, 60, 100, 300, 5000, 20_000, 140_000, 1_000_000] {
            let (value, more) = (value(bytes), value(150));
            client.ask(&format!("set {key} 5 0 {bytes}\r\n{value}\r\n"), "STORED\r\n");
            let found = format!("VALUE {key} 5 {bytes}\r\n{value}\r\nEND\r\n");
            client.ask(&format!("get {key}\r\n"), &found);
            client.ask(&format!("touch {key} 100\r\n"), "TOUCHED\r\n");
            client.ask(&format!("gat 0 {key}\r\n"), &found);
            client.ask(&format!("append {key} 0 0 150\r\n{more}\r\n"), "STORED\r\n");
            client.ask(&format!("prepend {key} 0 0 150\r\n{more}\r\n"), "STORED\r\n");
            let (all, length) = (format!("{more}{value}{more}"), bytes + 300);
            let found = format!("VALUE {key} 5 {length}\r\n{all}\r\nEND\r\n");
            client.ask(&format!("get {key}\r\n"), &found);
            client.ask(&format!("delete {key}\r\n"), "DELETED\r\n");
            client.ask(&format!("get {key}\r\n"), "END\r\n");
        }
        // A number is short, and so is its chunk, unless the key is long.
        client.ask(&format!("set {key} 0 0 2\r\n99\r\n"), "STORED\r\n");
        client.ask(&format!("incr {key} 1\r\n"), "100\r\n");
        client.ask(&format!("decr {key} 90\r\n"), "10\r\n");
        client.ask(&format!("get {key}\r\n"), &format!("VALUE {key} 0 3\r\n10 \r\nEND\r\n"));
    }
}

#[test]
fn split_items_are_evicted_and_the_others_are_right() {
    check_full_memory("off");
    // Evicted items go through the compressed zone then, and come back from there.
    check_full_memory("auto");
}

fn check_full_memory(compressed: &str) {
    let server = Server::start(&["--layout", "split", "-m", "16", "--compressed", compressed]);
    let mut client = server.connect();
    let value = |number: usize| format!("{number:0300}");
    for number in 0..60_000 {
        client
            .send(format!("set key-{number} 0 0 300 noreply\r\n{}\r\n", value(number)).as_bytes());
    }
    let mut found = 0;
    for number in 0..60_000 {
        client.send(format!("get key-{number}\r\n").as_bytes());
        let text = client.read_to("END\r\n");
        if text != "END\r\n" {
            let wanted = format!("VALUE key-{number} 0 300\r\n{}\r\nEND\r\n", value(number));
            assert_eq!(text, wanted);
            found += 1;
        }
    }
    assert!(found > 10_000, "{found} are there");
    let evicted = server.stat("evictions");
    let sums = format!("{found} found, {evicted} evicted");
    assert!(found + evicted >= 60_000 && (compressed == "auto" || evicted > 10_000), "{sums}");
}
