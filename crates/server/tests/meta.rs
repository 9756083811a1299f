//! Meta commands: CAS uniques on a server without any (`-C`), and the answers of stores.

use crate::common::{Client, Server};

/// Each item has a hidden unique, which is never shown but a client could guess.
#[test]
fn without_uniques_none_that_is_hidden_can_be_guessed() {
    let server = Server::start(&["-C"]);
    let mut client = server.connect();
    client.ask("ms h 1\r\n0\r\n", "HD\r\n");
    // More than this server has given.
    for guess in 0..32 {
        client.ask(&format!("ms h 1 C{guess}\r\nx\r\n"), "EX\r\n");
        client.ask(&format!("ms h 1 C{guess} I\r\nx\r\n"), "EX\r\n");
        client.ask(&format!("ma h C{}\r\n", guess + 1), "EX\r\n");
        client.ask(&format!("md h C{}\r\n", guess + 1), "EX\r\n");
        client.ask(&format!("md h C{} x\r\n", guess + 1), "EX\r\n");
        client.ask(&format!("mg h v C{}\r\n", guess + 1), "VA 1\r\n0\r\n");
    }
    client.ask("ms none 1 C1\r\nx\r\n", "NF\r\n");
    client.ask("mg h v\r\n", "VA 1\r\n0\r\n");
}

#[test]
fn without_uniques_each_item_shows_0_and_0_fits_it() {
    let server = Server::start(&["-C"]);
    let mut client = server.connect();
    for (request, answer) in [
        ("ms a 1 E77 c\r\n1\r\n", "HD c0\r\n"),
        ("ms a 1 C77\r\n2\r\n", "EX\r\n"),
        ("ms a 1 E18446744073709551615\r\n1\r\n", "HD\r\n"),
        ("ms a 1 C18446744073709551615\r\n2\r\n", "EX\r\n"),
        ("ma a E78 c v\r\n", "VA 1 c0\r\n2\r\n"),
        ("ma a C78\r\n", "EX\r\n"),
        ("ma a C0 c\r\n", "HD c0\r\n"),
        ("mg a v C0\r\n", "HD\r\n"),
        // Nothing to compare with: they are as without `C`.
        ("ms a 1 C77 MA c\r\n4\r\n", "HD c0\r\n"),
        ("ms a 1 C78 MP c\r\n2\r\n", "HD c0\r\n"),
        ("mg a v c\r\n", "VA 3 c0\r\n234\r\n"),
        ("md a I C0\r\n", "HD\r\n"),
        ("mg a c\r\n", "HD c0 X W\r\n"),
        ("md a C0\r\n", "HD\r\n"),
        ("mg a N0 E79 c\r\n", "HD c0 W\r\n"),
    ] {
        client.ask(request, answer);
    }
    assert!(dump(&mut client).contains(" cas=0 "));
    client.send(b"me a\r\n");
    assert!(client.read_to("\r\n").contains(" cas=0 "));
}

/// Regression: `E0` gave an item the unique 0, which `C0` then fitted: a client without a unique
/// says 0.
#[test]
fn to_a_store_0_is_no_unique() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for store in ["ms a 1 E0 c\r\n1\r\n", "ms a 1 MA E0 c\r\n1\r\n", "ms b 1 MP N0 E0 c\r\n1\r\n"] {
        client.send(store.as_bytes());
        let answer = client.read_to("\r\n");
        assert!(answer.starts_with("HD c") && answer != "HD c0\r\n", "{store}: {answer}");
    }
    // All other commands give it.
    let vivified = ["mg k N0 E0 q\r\n", "ma k N0 E0 q\r\nma k E0 q\r\n"];
    let kept = ["ms k 1 q\r\n1\r\nmd k I E0 q\r\n", "ms k 1 q\r\n1\r\nmd k x E0 q\r\n"];
    for make in vivified.iter().chain(&kept) {
        client.send(format!("md k q\r\n{make}mg k c\r\nmn\r\n").as_bytes());
        let answer = client.read_to("MN\r\n");
        assert!(answer.contains("HD c0"), "{make}: {answer}");
        client.ask("ms k 1 C0\r\n5\r\n", "EX\r\n");
        client.ask("ms k 1 C0 I\r\n5\r\n", "EX\r\n");
        client.ask("ms k 1 C1 I\r\n5\r\n", "EX\r\n");
        client.ask("ms k 1 MR C0\r\n5\r\n", "EX\r\n");
        client.ask("cas k 0 0 1 0\r\n5\r\n", "EXISTS\r\n");
        client.ask("md k C1\r\n", "EX\r\n");
        client.ask("md k C0\r\n", "HD\r\n");
        client.ask("ms k 1 C0\r\n5\r\n", "NF\r\n");
        client.ask("cas k 0 0 1 0\r\n5\r\n", "NOT_FOUND\r\n");
    }
}

/// The item is a new one, with the flags of the request, and was never fetched.
#[test]
fn an_item_without_its_value_has_new_flags_and_was_not_fetched() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (drop, answer) in [
        ("md k x", "HD f0 t-1 s0 h0\r\n"),
        ("md k x F5", "HD f5 t-1 s0 h0\r\n"),
        ("md k x I", "HD f0 t-1 s0 h0 X W\r\n"),
        ("md k x I F4294967295", "HD f4294967295 t-1 s0 h0 X W\r\n"),
        ("md k I F5", "HD f3 t-1 s1 h1 X W\r\n"),
    ] {
        client.ask("ms k 1 F3\r\n1\r\nmg k\r\n", "HD\r\nHD\r\n");
        client.ask(&format!("{drop}\r\nmg k f t s h\r\n"), &format!("HD\r\n{answer}"));
    }
}

/// Regression: an append was answered with the length of the addition.
#[test]
fn an_append_answers_the_length_of_the_whole_value() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let long = "x".repeat(100_000);
    for (request, answer) in [
        ("ms a 2 s MA N0\r\nab\r\n", "HD s2\r\n"),
        ("ms a 3 s MA\r\ncde\r\n", "HD s5\r\n"),
        ("ms a 1 MP s\r\n-\r\n", "HD s6\r\n"),
        ("ms a 1 MP s C1\r\n-\r\n", "EX s1\r\n"),
        ("ms none 4 MP s\r\nabcd\r\n", "NS s4\r\n"),
        (&format!("ms a 100000 MA s\r\n{long}\r\n"), "HD s100006\r\n"),
        ("mg a s\r\n", "HD s100006\r\n"),
    ] {
        client.ask(request, answer);
    }
}

/// The lines of `metadump`.
fn dump(client: &mut Client) -> String {
    client.send(b"lru_crawler metadump all\r\n");
    client.read_to("END\r\n")
}
