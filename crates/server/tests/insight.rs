//! The admin port's findings about keys, by whichever protocol clients ask: why reads miss, which
//! keys are requested most, and what more memory would gain.

use std::net::SocketAddr;

use crate::common::{Client, Server};
use crate::pages::{self, get, start, stats};

/// Keys of each test: with this many, the share in a sample is within a half of a sixteenth, except
/// for one sample in a million.
const KEYS: usize = 4000;

/// The binary protocol's answer to a `get` that misses.
const NOT_FOUND: [u8; 33] = *b"\x81\0\0\0\0\0\0\x01\0\0\0\x09\0\0\0\0\0\0\0\0\0\0\0\0Not found";

/// Misses so far by reason: never, expired, deleted, flushed, evicted.
fn reasons(address: SocketAddr) -> [f64; 5] {
    let seen = stats(address);
    let found = &seen["metrics"]["larder_misses_by_reason_total"];
    ["never", "expired", "deleted", "flushed", "evicted"]
        .map(|name| found[name].as_f64().unwrap_or_else(|| panic!("no {name} in {found}")))
}

/// The most misses that may be counted for another reason. An event that a worker reports at the
/// moment when the admin thread takes its list is lost, and counted as that: the key's next miss is
/// taken for the earlier reason, and stands for those of all keys that the sample leaves out for
/// it.
fn misplaced_max(address: SocketAddr) -> f64 {
    let metrics = &stats(address)["metrics"];
    let lost = metrics["larder_insight_lost_total"]["events"].as_f64().expect("a number");
    lost / metrics["larder_insight_sampled_ratio"].as_f64().expect("a number")
}

/// Sends a request for every key, and reads to the end of all answers. Looks at the page in
/// between, so that no list of a worker fills up.
fn each(server: &Server, address: SocketAddr, request: impl Fn(usize) -> String) {
    let mut client = server.connect();
    for first in (0..KEYS).step_by(500) {
        let requests: String = (first..first + 500).map(&request).collect();
        client.send((requests + "mn\r\n").as_bytes());
        client.read_to("MN\r\n");
        stats(address);
    }
}

/// Checks that this one reason has grown by about the misses of all keys, and no other by more than
/// `misplaced_max`.
fn grown(before: [f64; 5], after: [f64; 5], reason: usize, misplaced_max: f64) {
    let others: f64 = (0..5).filter(|&at| at != reason).map(|at| after[at] - before[at]).sum();
    let grown = after[reason] - before[reason];
    let keys = KEYS as f64;
    let is_right = (keys * 0.5..keys * 1.5).contains(&grown) && others <= misplaced_max;
    assert!(is_right, "reason {reason}: {before:?} {after:?}, {misplaced_max}");
}

#[test]
fn every_reason_of_a_miss_is_told_apart() {
    let (server, address) = start(&[]);
    let get = |number: usize| format!("get key{number}\r\n");
    let set = |number: usize| format!("set key{number} 0 0 5\r\nvalue\r\n");
    let mut before = [0.0; 5];
    let mut expect = |reason: usize| {
        each(&server, address, get);
        let after = reasons(address);
        grown(before, after, reason, misplaced_max(address));
        before = after;
    };
    expect(0);
    each(&server, address, set);
    each(&server, address, get);
    each(&server, address, |number| format!("delete key{number}\r\n"));
    expect(2);
    each(&server, address, set);
    server.connect().ask("flush_all\r\n", "OK\r\n");
    expect(3);
    // Expired at once.
    each(&server, address, set);
    each(&server, address, |number| format!("touch key{number} -1\r\n"));
    expect(1);
    each(&server, address, |number| format!("set key{number} 0 -1 5\r\nvalue\r\n"));
    expect(1);
    // Larger than one read, so that it comes in pieces.
    let value = "x".repeat(100_000);
    each(&server, address, |number| match number % 500 {
        0 => format!("set key{number} 0 0 100000\r\n{value}\r\ndelete key{number}\r\n"),
        _ => format!("delete key{number}\r\n"),
    });
    expect(2);
}

/// Regression: a request for a key that was reported a moment before was taken for one that finds
/// it again, whatever it did: its deadline, or its deletion, was never known.
#[test]
fn a_request_right_behind_another_for_its_key_is_reported() {
    let (mut server, redis) = Server::start_with_redis(&["--admin-port", "0"]);
    let address = pages::of(&mut server);
    let mut before = reasons(address);
    let mut expect = |reason: usize| {
        each(&server, address, |number| format!("get key{number}\r\n"));
        let after = reasons(address);
        grown(before, after, reason, misplaced_max(address));
        before = after;
    };
    let set = |number: usize| format!("set key{number} 0 0 5\r\nvalue\r\n");
    each(&server, address, |number| set(number) + &format!("touch key{number} -1\r\n"));
    expect(1);
    each(&server, address, |number| set(number) + &format!("gat -1 key{number}\r\n"));
    expect(1);
    let mut client = Client::connect(redis);
    let mut behind = |command: &[&str]| {
        for first in (0..KEYS).step_by(500) {
            let requests: String = (first..first + 500)
                .flat_map(|number| {
                    let key = format!("key{number}");
                    let set = words(&["SET", &key, "value"]);
                    let rest: Vec<&str> = command
                        .iter()
                        .map(|&word| if word == "KEY" { &key } else { word })
                        .collect();
                    [set, words(&rest)]
                })
                .collect();
            client.send((requests + &words(&["ECHO", "done"])).as_bytes());
            client.read_to("done\r\n");
            stats(address);
        }
    };
    behind(&["EXPIREAT", "KEY", "1"]);
    expect(1);
    behind(&["GETEX", "KEY", "EXAT", "1"]);
    expect(1);
    behind(&["GETDEL", "KEY"]);
    expect(2);
}

/// A command in Redis' protocol.
fn words(words: &[&str]) -> String {
    let each = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), each.collect::<String>())
}

/// A replacement of an evicted key's value finds nothing, and stores nothing that could have
/// expired.
#[test]
fn a_store_that_found_nothing_to_replace_does_not_make_its_key_expired() {
    // A compressed zone would hold all of these values, and none would have to go.
    let options = ["--admin-port", "0", "-m", "8", "--compressed", "off"];
    let (mut server, redis) = Server::start_with_redis(&options);
    let address = pages::of(&mut server);
    let value = "x".repeat(4000);
    each(&server, address, |number| format!("set key{number} 0 0 4000\r\n{value}\r\n"));
    let before = reasons(address);
    each(&server, address, |number| match number % 4 {
        0 => format!("replace key{number} 0 0 1\r\nx\r\n"),
        1 => format!("append key{number} 0 0 1\r\nx\r\n"),
        2 => format!("cas key{number} 0 0 1 77\r\nx\r\n"),
        _ => format!("ms key{number} 1 C77\r\nx\r\n"),
    });
    let mut client = Client::connect(redis);
    for first in (0..KEYS).step_by(500) {
        let sets = (first..first + 500)
            .map(|number| words(&["SET", &format!("key{number}"), "x", "XX", "EX", "900"]));
        let requests = sets.collect::<String>() + &words(&["ECHO", "done"]);
        client.send(requests.as_bytes());
        client.read_to("done\r\n");
        stats(address);
    }
    each(&server, address, |number| format!("get key{number}\r\n"));
    let after = reasons(address);
    let grown: Vec<f64> = std::iter::zip(after, before).map(|(now, then)| now - then).collect();
    let misplaced: f64 = grown[..4].iter().sum();
    assert!(misplaced <= misplaced_max(address) && grown[4] > 1000.0, "{grown:?}");
}

/// Values that are only touched are not sent.
#[test]
fn the_keys_with_the_most_bytes_are_those_that_were_sent() {
    let (server, address) = start(&[]);
    let mut client = server.connect();
    for (key, bytes) in [("large", 100_000), ("small", 1000)] {
        let value = "x".repeat(bytes);
        client.ask(&format!("set {key} 0 0 {bytes}\r\n{value}\r\n"), "STORED\r\n");
    }
    for _ in 0..1000 {
        let requests = "touch large 0\r\nmg large t\r\n".repeat(20) + &"get small\r\n".repeat(20);
        client.send((requests + "mn\r\n").as_bytes());
        client.read_to("MN\r\n");
    }
    let seen = stats(address);
    let first = &seen["insight"]["by_bytes"][0];
    assert!(first["key"] == "small" && first["share"].as_f64() > Some(0.5), "{}", seen["insight"]);
    assert_eq!(seen["insight"]["by_requests"][0]["key"], "large");
}

#[test]
fn items_that_made_room_are_shown_as_evicted_with_their_age() {
    // A compressed zone would hold all of these values, and none would have to go.
    let (server, address) = start(&["-m", "8", "--compressed", "off"]);
    let value = "x".repeat(4000);
    each(&server, address, |number| format!("set key{number} 0 0 4000\r\n{value}\r\n"));
    let before = reasons(address);
    each(&server, address, |number| format!("get key{number}\r\n"));
    let missed: f64 = std::iter::zip(reasons(address), before).map(|(now, then)| now - then).sum();
    let real = server.stat("get_misses") as f64;
    assert!(real > 1000.0 && (real * 0.5..real * 1.5).contains(&missed), "{missed} of {real}");
    let misplaced = missed - reasons(address)[4];
    assert!(misplaced <= misplaced_max(address), "all were evicted, but for {misplaced}");
    let seen = stats(address);
    let ages: f64 = seen["insight"]["ages"]
        .as_array()
        .expect("ages")
        .iter()
        .map(|misses| misses.as_f64().expect("a number"))
        .sum();
    assert!((ages / missed - 1.0).abs() < 0.1, "{ages} of {missed}");
}

/// Multigets, meta, binary and Redis: the misses of each are counted, and none twice.
#[test]
fn all_protocols_are_seen() {
    let (mut server, redis) = Server::start_with_redis(&["--admin-port", "0"]);
    let address = pages::of(&mut server);
    let mut before = [0.0; 5];
    let mut expect = |protocol: &str| {
        let after = reasons(address);
        let grown = after[0] - before[0];
        let keys = KEYS as f64;
        assert!((keys * 0.5..keys * 1.5).contains(&grown), "{protocol}: {before:?} {after:?}");
        before = after;
    };
    each(&server, address, |number| format!("get key{number}\r\n"));
    expect("text");
    each(&server, address, |number| match number % 10 {
        0 => (number..number + 10).fold("get".to_owned(), |all, it| all + &format!(" key{it}")),
        9 => "\r\n".to_owned(),
        _ => String::new(),
    });
    expect("multiget");
    each(&server, address, |number| format!("mg key{number} v\r\n"));
    expect("meta");
    let mut client = server.connect();
    for number in 0..KEYS {
        let key = format!("key{number}");
        let mut packet = vec![0x80, 0x00, 0, key.len() as u8, 0, 0, 0, 0, 0, 0, 0, key.len() as u8];
        packet.resize(24, 0);
        packet.extend_from_slice(key.as_bytes());
        client.send(&packet);
        client.expect(&NOT_FOUND);
        if number % 500 == 0 {
            stats(address);
        }
    }
    expect("binary");
    let mut client = Client::connect(redis);
    for number in 0..KEYS {
        let key = format!("key{number}");
        client.ask(&format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()), "$-1\r\n");
        if number % 500 == 0 {
            stats(address);
        }
    }
    expect("Redis");
    let misses = server.stat("get_misses");
    assert_eq!(misses, 5 * KEYS as u64);
}

#[test]
fn the_keys_asked_for_most_are_told_as_text() {
    let (server, address) = start(&[]);
    let mut client = server.connect();
    let hot = "<script>alert(1)</script>";
    let binary = "AAECAwT/"; // 00 01 02 03 04 ff
    client.ask(&format!("set {hot} 0 0 4\r\nbody\r\n"), "STORED\r\n");
    client.ask(&format!("ms {binary} 2000 b\r\n{}\r\n", "y".repeat(2000)), "HD\r\n");
    for _ in 0..2000 {
        let requests =
            format!("get {hot}\r\n").repeat(60) + &format!("mg {binary} b v\r\n").repeat(20);
        client.send((requests + "mn\r\n").as_bytes());
        client.read_to("MN\r\n");
    }
    let seen = stats(address);
    let insight = &seen["insight"];
    let first = &insight["by_requests"][0];
    assert_eq!(first["key"], hot, "{insight}");
    assert!(first["share"].as_f64() > Some(0.5) && first["share"].as_f64() < Some(1.0), "{first}");
    let largest = &insight["by_bytes"][0];
    assert_eq!(largest["key"], "%00%01%02%03%04%FF", "{insight}");
    assert!(largest["share"].as_f64() > Some(0.6), "{largest}");
    let text = get(address, "/metrics").2;
    assert!(!text.contains("script"), "keys are no labels");
}

/// Regression: one key is counted for all that were requested with it, and was shown with a fifth
/// of all.
#[test]
fn a_key_that_was_requested_once_is_not_shown() {
    let (server, address) = start(&[]);
    let mut client = server.connect();
    let key = |number: u32| format!("once{number}");
    for round in 0..1000 {
        let keys: Vec<String> = (round * 99..(round + 1) * 99).map(key).collect();
        client.send(format!("get {}\r\nmn\r\n", keys.join(" ")).as_bytes());
        client.read_to("MN\r\n");
    }
    let seen = stats(address);
    assert_eq!(seen["insight"]["by_requests"], serde_json::json!([]), "{}", seen["insight"]);
}

/// The curve of a cache for half of the keys, which are requested at random.
fn curve_of_a_full_cache() -> serde_json::Value {
    // A compressed zone would hold all of these values many times.
    let (server, address) = start(&["-m", "8", "--compressed", "off"]);
    let value = "x".repeat(4000);
    let mut client = server.connect();
    let mut random = 1_u64;
    for round in 0..400 {
        let keys: Vec<u64> = (0..200)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) % KEYS as u64
            })
            .collect();
        let gets: String = keys.iter().map(|key| format!("mg key{key} k\r\n")).collect();
        client.send((gets + "mn\r\n").as_bytes());
        let answers = client.read_to("MN\r\n");
        let mut sets = String::new();
        for (key, line) in keys.iter().zip(answers.lines()) {
            if line.starts_with("EN") {
                sets += &format!("ms key{key} 4000 q\r\n{value}\r\n");
            }
        }
        client.send((sets + "mn\r\n").as_bytes());
        client.read_to("MN\r\n");
        if round % 2 == 0 {
            stats(address);
        }
    }
    // Reads count from the next tick on. Each look takes a connection of its own.
    let curve = (0..100_000).find_map(|_| {
        let curve = stats(address)["insight"]["curve"].clone();
        (!curve.is_null()).then_some(curve)
    });
    curve.expect("there is a tick within so many looks")
}

/// The prediction for such a cache: the miss ratio is about the real one, and with room for all
/// only the first read of a key misses. It goes by a sample of keys, another one in each server,
/// which in one of thirty is off by more.
#[test]
fn a_curve_foretells_what_a_full_cache_misses() {
    let mut foretold = Vec::new();
    for _ in 0..5 {
        let curve = curve_of_a_full_cache();
        let numbers = ["measured", "predicted"].map(|name| curve[name].as_f64());
        let [measured, predicted] = numbers.map(|number| number.expect("a number"));
        assert!(measured > 0.3, "{curve}");
        let points = curve["points"].as_array().expect("points");
        let at = |size: f64| {
            let point = points.iter().find(|it| it[0].as_f64() == Some(size)).expect("the size");
            point[1].as_f64().expect("a ratio")
        };
        assert_eq!(at(1.0), predicted);
        assert!(at(4.0) < predicted / 2.0 && at(0.25) > predicted, "{curve}");
        foretold.push((predicted - measured, curve));
    }
    foretold.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let (off, curve) = &foretold[foretold.len() / 2];
    assert!(off.abs() < 0.15, "{curve}");
}

#[test]
fn a_curve_is_shown_when_enough_was_read() {
    let (server, address) = start(&[]);
    assert!(stats(address)["insight"]["curve"].is_null());
    each(&server, address, |number| format!("set key{number} 0 0 5\r\nvalue\r\n"));
    each(&server, address, |number| format!("get key{number}\r\n"));
    // Reads count from the next tick on. Each look takes a connection of its own.
    let curve = (0..100_000).find_map(|_| {
        let curve = stats(address)["insight"]["curve"].clone();
        (!curve.is_null()).then_some(curve)
    });
    let curve = curve.expect("there is a tick within so many looks");
    let points = curve["points"].as_array().expect("points");
    let misses: Vec<f64> = points.iter().map(|it| it[1].as_f64().expect("a ratio")).collect();
    assert!(misses.is_sorted_by(|a, b| a >= b), "more memory never misses more: {misses:?}");
    assert_eq!(curve["measured"], 0.0);
    assert_eq!(curve["predicted"], 0.0);
    assert_eq!(curve["more"][0]["tier"], "hot");
    let text = get(address, "/metrics").2;
    assert!(text.contains("larder_predicted_miss_ratio{size=\"1/8\"} "), "{text}");
    assert!(text.contains("larder_more_memory_hits_per_second{tier=\"hot\"} 0\n"), "{text}");
}
