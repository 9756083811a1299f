//! Costs of items: how they come in, their effect on eviction, and where they are shown.

use crate::common::{Client, Server};

/// Only clients' statements count as costs.
const UNMEASURED: [&str; 2] = ["--measure-costs", "off"];

/// The item's cost according to `me`; 0 if it shows none.
#[track_caller]
fn cost_of(client: &mut Client, key: &str) -> u64 {
    client.send(format!("me {key}\r\n").as_bytes());
    let text = client.read_to("\r\n");
    assert!(text.starts_with(&format!("ME {key} exp=")), "{text}");
    match text.trim_end().split_once(" cost=") {
        Some((_, cost)) => cost.parse().expect("the cost is a number, and the last field"),
        None => {
            assert!(!text.contains("cost"), "{text}");
            0
        }
    }
}

/// Sends a request, expects its answer, and then this cost of `a`.
#[track_caller]
fn costs(client: &mut Client, request: &str, answer: &str, cost_us: u64) {
    client.ask(request, answer);
    assert_eq!(cost_of(client, "a"), cost_us, "{request:?}");
}

#[test]
fn a_cost_by_meta_set_is_shown_by_me() {
    let server = Server::start(&UNMEASURED);
    let mut client = server.connect();
    for (flag, cost_us) in [
        ("Pc1500", 1500),
        ("Pc1", 1),
        ("Pc4095", 4095),
        ("Pc4294967295", 4_294_967_295),
        ("Pc99999999999999999999999", 4_294_967_295),
        ("Pc0", 0),
        ("Pc", 0),
        ("Pc-1", 0),
        ("Pc12x", 0),
        ("Pcat", 0),
        ("P", 0),
        ("q", 0),
    ] {
        client.send(format!("ms a 1 {flag}\r\n1\r\nmn\r\n").as_bytes());
        client.read_to("MN\r\n");
        assert_eq!(cost_of(&mut client, "a"), cost_us, "{flag}");
    }
    client.ask("ms a 1 Pc1000000\r\n1\r\n", "HD\r\n");
    let cost_us = cost_of(&mut client, "a");
    assert!(cost_us.abs_diff(1_000_000) <= 1_000_000 / 4000, "{cost_us}");
}

#[test]
fn every_mode_of_meta_set_takes_a_cost_for_what_it_makes() {
    let server = Server::start(&UNMEASURED);
    let mut client = server.connect();
    let client = &mut client;
    costs(client, "ms a 1 ME Pc10\r\n1\r\n", "HD\r\n", 10);
    costs(client, "ms a 1 ME Pc11\r\n1\r\n", "NS\r\n", 10);
    costs(client, "ms a 1 MR Pc12\r\n1\r\n", "HD\r\n", 12);
    // An item that is appended to keeps its cost.
    costs(client, "ms a 1 MA Pc13\r\n1\r\n", "HD\r\n", 12);
    costs(client, "ms a 1 MP N0 Pc14\r\n1\r\n", "HD\r\n", 12);
    client.ask("md a\r\n", "HD\r\n");
    costs(client, "ms a 1 MA N0 Pc15\r\n1\r\n", "HD\r\n", 15);
    costs(client, "ms a 1 E100 Pc16\r\n1\r\n", "HD\r\n", 16);
    costs(client, "ms a 1 C100 Pc17\r\n1\r\n", "HD\r\n", 17);
    costs(client, "ms a 1 C1 I Pc18\r\n1\r\n", "HD\r\n", 18);
    costs(client, "ms a 1\r\n1\r\n", "HD\r\n", 0);
}

#[test]
fn an_item_keeps_its_cost_until_another_value_takes_its_place() {
    let server = Server::start(&UNMEASURED);
    let mut client = server.connect();
    let client = &mut client;
    costs(client, "ms a 1 Pc1500\r\n9\r\n", "HD\r\n", 1500);
    for (request, answer) in [
        ("get a\r\n", "VALUE a 0 1\r\n9\r\nEND\r\n"),
        ("touch a 1000\r\n", "TOUCHED\r\n"),
        ("gat 2000 a\r\n", "VALUE a 0 1\r\n9\r\nEND\r\n"),
        ("mg a T3000\r\n", "HD\r\n"),
        ("incr a 1\r\n", "10\r\n"),
        ("decr a 1\r\n", "9\r\n"),
        ("ma a D100 Pc7\r\n", "HD\r\n"),
        ("append a 0 0 1\r\n0\r\n", "STORED\r\n"),
        ("prepend a 0 0 1\r\n1\r\n", "STORED\r\n"),
        ("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("md a I\r\n", "HD\r\n"),
        ("md a x\r\n", "HD\r\n"),
    ] {
        costs(client, request, answer, 1500);
    }
    costs(client, "set a 0 0 1\r\n1\r\n", "STORED\r\n", 0);
    costs(client, "ms a 1 E50 Pc20\r\n1\r\n", "HD\r\n", 20);
    costs(client, "cas a 0 0 1 50\r\n1\r\n", "STORED\r\n", 0);
    costs(client, "ms a 1 Pc20\r\n1\r\n", "HD\r\n", 20);
    costs(client, "replace a 0 0 1\r\n1\r\n", "STORED\r\n", 0);
}

#[test]
fn items_made_by_other_commands_have_no_cost() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    costs(&mut client, "ma a N0 J5 Pc7 v\r\n", "VA 1\r\n5\r\n", 0);
    client.ask("md a\r\n", "HD\r\n");
    costs(&mut client, "mg a N30 Pc7 v\r\n", "VA 0 W\r\n\r\n", 0);
}

#[test]
fn metadump_shows_a_cost_before_the_lines_last_space() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("ms a 1 F3 Pc1500\r\n1\r\nms b 1 F4\r\n1\r\n", "HD\r\nHD\r\n");
    client.send(b"lru_crawler metadump all\r\n");
    let text = client.read_to("END\r\n");
    let ends_of = |start: &str, end: &str| {
        text.split('\n').any(|line| line.contains(start) && line.ends_with(end))
    };
    assert!(ends_of("key=a exp=-1 ", " flags=3 cost=1500 "), "{text}");
    assert!(ends_of("key=b exp=-1 ", " flags=4 "), "{text}");
}

#[test]
fn text_commands_take_a_cost_where_they_are_told_to() {
    for policy in ["clock", "cost-clock"] {
        let measure = ["--measure-costs", "off"];
        let server = Server::start(&[&["--text-cost", "--policy", policy], &measure[..]].concat());
        let mut client = server.connect();
        let client = &mut client;
        costs(client, "add a 0 0 1 10\r\n1\r\n", "STORED\r\n", 10);
        costs(client, "set a 0 0 1 20\r\n1\r\n", "STORED\r\n", 20);
        costs(client, "replace a 0 0 1 30\r\n1\r\n", "STORED\r\n", 30);
        costs(client, "set a 0 0 1 40 noreply\r\n1\r\n", "", 40);
        costs(client, "append a 0 0 1 50\r\n1\r\n", "STORED\r\n", 40);
        costs(client, "incr a 1\r\n", "12\r\n", 40);
        costs(client, "set a 0 0 1 noreply\r\n1\r\n", "", 0);
        costs(client, "set a 0 0 1 99999999999999\r\n1\r\n", "STORED\r\n", 4_294_967_295);
        costs(client, "set a 0 0 1\r\n1\r\n", "STORED\r\n", 0);
        costs(client, "ms a 1 Pc60\r\n1\r\n", "HD\r\n", 60);
        client.send(b"stats settings\r\n");
        let text = client.read_to("END\r\n");
        for line in [&format!("STAT policy {policy}\r\n")[..], "STAT text_cost yes\r\n"] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}

#[test]
fn a_bad_cost_is_refused_with_its_value_and_the_old_one_stays() {
    let server = Server::start(&["--text-cost"]);
    let mut client = server.connect();
    let bad = "CLIENT_ERROR bad command line format\r\n";
    costs(&mut client, "set a 0 0 1 7\r\n1\r\n", "STORED\r\n", 7);
    for cost in ["-1", "+1", "junk", "1.5", "12us", "noreply 12"] {
        let set = format!("set a 0 0 9 {cost}\r\nversion\r\n\r\n");
        costs(&mut client, &set, bad, 7);
    }
    // With `noreply` the value is skipped all the same, here and where it is on its way.
    costs(&mut client, "set a 0 0 9 -1 noreply\r\nversion\r\n\r\n", "", 7);
    client.send(b"set a 0 0 200000 junk noreply\r\n");
    client.send(&[b'x'; 200_000]);
    costs(&mut client, "\r\nget a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n", 7);
}

#[test]
fn a_value_in_pieces_has_its_cost_too() {
    let server = Server::start(&["--text-cost"]);
    let mut client = server.connect();
    let value = "v".repeat(300_000);
    client.send(b"set a 0 0 300000 1234 noreply\r\n");
    client.send(value.as_bytes());
    costs(&mut client, "\r\n", "", 1234);
    client.send(b"ms a 300000 Pc3210\r\n");
    client.send(value.as_bytes());
    costs(&mut client, "\r\n", "HD\r\n", 3210);
}

/// Stores three times what the memory holds; one in forty of the first 20,000 items is costly.
/// Returns the number of those that are left.
fn costly_items_left(policy: &str) -> usize {
    let server = Server::start(&["-m", "8", "--compressed", "off", "--policy", policy]);
    let mut client = server.connect();
    let value = "v".repeat(1000);
    for number in 0..28_000 {
        let is_costly = number < 20_000 && number % 40 == 39;
        let cost_us = if is_costly { 1_000_000 } else { 10 };
        client.send(format!("ms {number} 1000 q Pc{cost_us}\r\n{value}\r\n").as_bytes());
    }
    client.ask("mn\r\n", "MN\r\n");
    for number in (39..20_000).step_by(40) {
        client.send(format!("mg {number} q s\r\n").as_bytes());
    }
    client.send(b"mn\r\n");
    client.read_to("MN\r\n").matches("HD s1000\r\n").count()
}

#[test]
fn the_chosen_policy_decides_which_items_stay() {
    assert_eq!(costly_items_left("clock"), 0, "all of them are older than what is there");
    let left = costly_items_left("cost-clock");
    assert!(left > 400, "{left} of 500");
}

#[test]
fn without_the_option_a_word_behind_the_length_says_nothing() {
    let server = Server::start(&UNMEASURED);
    let mut client = server.connect();
    for word in ["1500", "-1", "junk", "1500 noreply"] {
        let answer = if word.ends_with("noreply") { "" } else { "STORED\r\n" };
        costs(&mut client, &format!("set a 0 0 1 {word}\r\n1\r\n"), answer, 0);
    }
    client.send(b"stats settings\r\n");
    let text = client.read_to("END\r\n");
    for line in ["policy cost-clock", "cost_unit_us 50", "text_cost no", "measure_costs no"] {
        assert!(text.contains(&format!("STAT {line}\r\n")), "{text}");
    }
}

/// The value of a line of `stats costs`; `None` if there is no such line.
fn stat(client: &mut Client, name: &str) -> Option<f64> {
    client.send(b"stats costs\r\n");
    let text = client.read_to("END\r\n");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    line.map(|value| value.parse().expect("a number"))
}

#[test]
fn saved_costs_are_added_up() {
    let server = Server::start(&["--policy", "clock"]);
    let mut client = server.connect();
    client.ask("ms a 1 Pc2000000\r\n1\r\nms b 1\r\n2\r\n", "HD\r\nHD\r\n");
    client.ask("get a b c\r\n", "VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n");
    client.ask("mg a v\r\nmg c v\r\n", "VA 1\r\n1\r\nEN\r\n");
    let near = |found: Option<f64>, wanted: f64| (found.unwrap_or(-1.0) - wanted).abs() < 0.01;
    assert!(near(stat(&mut client, "saved_seconds"), 4.0));
    assert!(near(stat(&mut client, "stored_seconds"), 2.0));
    // Under CLOCK costs are measured only if that is asked for.
    assert_eq!(stat(&mut client, "misses_noted"), None);
    client.ask("stats reset\r\n", "RESET\r\n");
    assert!(near(stat(&mut client, "saved_seconds"), 0.0));
}

#[test]
fn costs_are_measured_where_the_policy_or_the_operator_wants_them() {
    for (options, measures) in [
        (&[][..], true),
        (&["--policy", "cost-clock"], true),
        (&["--policy", "clock"], false),
        (&["--policy", "clock", "--measure-costs", "on"], true),
        (&["--policy", "cost-clock", "--measure-costs", "off"], false),
    ] {
        let server = Server::start(options);
        let mut client = server.connect();
        client.ask("get user:1\r\nset user:1 0 0 1\r\nx\r\n", "END\r\nSTORED\r\n");
        client.ask("set user:2 0 0 1\r\nx\r\n", "STORED\r\n");
        assert_eq!(cost_of(&mut client, "user:1") > 0, measures, "{options:?}");
        assert_eq!(cost_of(&mut client, "user:2"), 0);
        let wanted = measures.then_some(1.0);
        assert_eq!(stat(&mut client, "stores_measured"), wanted);
        assert_eq!(stat(&mut client, "prefix_misses:user:"), wanted);
    }
}

#[test]
fn evicted_costs_are_added_up_by_class() {
    let server = Server::start(&["-m", "4"]);
    let mut client = server.connect();
    for number in 0..6000 {
        let value = "x".repeat(1000);
        client.send(format!("ms k{number} 1000 q Pc1000\r\n{value}\r\n").as_bytes());
    }
    client.ask("mn\r\n", "MN\r\n");
    // The background may evict between two looks, until it has its reserve.
    let look = |_| {
        let evicted = client.stat("evictions");
        let seconds = stat(&mut client, "evicted_seconds").expect("it is shown");
        (client.stat("evictions") == evicted).then_some((evicted as f64, seconds))
    };
    let (evicted, seconds) = (0..10_000).find_map(look).expect("evictions come to an end");
    assert!(evicted > 1000.0, "{evicted}");
    assert!((seconds - evicted / 1000.0).abs() < 0.01, "{seconds} s of {evicted} items");
    client.send(b"stats costs\r\n");
    let text = client.read_to("END\r\n");
    let classes = text.lines().filter(|line| line.contains("class_evicted_seconds:")).count();
    assert_eq!(classes, 1, "{text}");
}
