//! The admin port as its users meet it: the answers, the refusals, and that slow and many clients
//! do not keep it from answering.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Client, PATIENCE, Server};
use crate::packets::Packet;
use crate::pages::{self, exchange, get, start, stats};

/// Connections that the port serves at one time.
const CONNECTIONS_MAX: usize = 32;

#[test]
fn namespaces_are_told_while_they_are_counted() {
    let (server, address) = start(&["-D", ":"]);
    let mut client = server.connect();
    client.ask("set a%FF:1 0 0 1\r\nx\r\nget a%FF:1 b:1\r\n", "STORED\r\n");
    client.read_to("END\r\n");
    let (_, _, metrics) = get(address, "/metrics");
    let lines = metrics.lines().filter(|line| line.starts_with("larder_namespace_requests_total{"));
    let b = "larder_namespace_requests_total{namespace=\"b\",request=\"get_miss\"} 1";
    assert!(lines.clone().count() == 8 && lines.clone().any(|line| line == b), "{metrics}");
    let (server, address) = start(&[]);
    server.connect().ask("get b:1\r\n", "END\r\n");
    assert!(!get(address, "/metrics").2.contains("larder_namespace"));
}

#[test]
fn quotas_are_told_by_their_prefixes() {
    let (server, address) = start(&["--quota", "a\":=1k,b:=50%"]);
    server.connect().ask("set a\":1 0 0 1\r\nx\r\n", "STORED\r\n");
    let (_, _, metrics) = get(address, "/metrics");
    for line in [
        "larder_quota_limit_bytes{prefix=\"a\\\":\"} 1024",
        "larder_quota_limit_bytes{prefix=\"b:\"} 33554432",
        "larder_quota_items{prefix=\"a\\\":\"} 1",
        "larder_quota_bytes{prefix=\"b:\"} 0",
        "larder_quota_evicted_items_total{prefix=\"b:\"} 0",
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line}: {metrics}");
    }
    let (_server, address) = start(&[]);
    assert!(!get(address, "/metrics").2.contains("larder_quota"));
}

#[test]
fn a_class_without_items_tells_of_its_memory_alone() {
    let (server, address) = start(&[]);
    let mut client = server.connect();
    let of_classes = || {
        let (_, _, metrics) = get(address, "/metrics");
        ["chunk_size_bytes{", "current_items{", "mem_requested_bytes{"].map(|name| {
            let name = format!("memcached_slab_{name}");
            metrics.lines().filter(|line| line.starts_with(&name)).count()
        })
    };
    client.ask("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    assert_eq!(of_classes(), [1, 1, 1]);
    client.ask("delete a\r\n", "DELETED\r\n");
    // Its memory comes back once no thread can still be reading it.
    let started = Instant::now();
    while of_classes() != [1, 0, 0] {
        assert!(started.elapsed() < PATIENCE, "{:?}", of_classes());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Regression: `bytes` was of the hot zone alone, beside items of all tiers: an alert on memory
/// that is nine tenths full never fired while there was a compressed zone.
#[test]
fn bytes_are_those_of_the_compressed_zone_too() {
    let (server, address) = start(&["-m", "16"]);
    let mut client = server.connect();
    let value = "some words of a value ".repeat(15);
    for number in 0..80_000 {
        let line = format!("set key-{number} 0 0 {} noreply\r\n{value}\r\n", value.len());
        client.send(line.as_bytes());
    }
    client.ask("mn\r\n", "MN\r\n");
    // The background keeps moving items until there is room enough.
    let started = Instant::now();
    loop {
        let metrics = stats(address)["metrics"].take();
        let [items, zone] = ["items", "compressed"]
            .map(|owner| metrics["larder_memory_bytes"][owner].as_u64().expect("bytes"));
        let told = (metrics["memcached_current_bytes"].as_u64(), client.stat("bytes"));
        if zone > 0 && told == (Some(items + zone), items + zone) {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{told:?}, {items} and {zone}");
    }
}

#[test]
fn every_page_is_there_and_nothing_from_elsewhere_is_allowed() {
    let (_server, address) = start(&[]);
    for (path, kind, text) in [
        ("/", "text/html", "<title>Larder</title>"),
        ("/page.css", "text/css", "prefers-color-scheme"),
        ("/page.js", "text/javascript", "/api/stats"),
        ("/charts.js", "text/javascript", "class Chart"),
        ("/insight.js", "text/javascript", "showInsight"),
        ("/icon.svg", "image/svg+xml", "<svg"),
        ("/metrics", "text/plain; version=0.0.4", "memcached_up 1\n"),
        ("/healthz", "text/plain", "ok\n"),
        ("/readyz", "text/plain", "ok\n"),
        ("/api/stats", "application/json", "\"phase\":\"serving\""),
        ("/api/history", "application/json", "\"seconds\""),
    ] {
        let (status, head, body) = get(address, path);
        assert_eq!(status, 200, "{path}");
        assert!(head.contains(&format!("content-type: {kind}")), "{path}: {head}");
        assert!(head.contains("content-security-policy: default-src 'none';"), "{path}: {head}");
        assert!(head.contains("x-content-type-options: nosniff"), "{path}: {head}");
        assert!(body.contains(text), "{path}: {body}");
    }
    for path in ["/nothing", "/metrics/", "/../../etc/passwd", "//", "/%2e%2e/page.js"] {
        assert_eq!(get(address, path).0, 404, "{path}");
    }
}

#[test]
fn only_reading_is_allowed_and_only_by_a_local_name() {
    let (_server, address) = start(&[]);
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"] {
        let path = if method == "CONNECT" { "a:1" } else { "/metrics" };
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = exchange(address, &request);
        assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
        assert!(answer.contains("allow: GET, HEAD\r\n"), "{method}: {answer}");
    }
    let head = exchange(address, "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    for (host, status) in [
        ("Host: localhost\r\n", 200),
        ("Host: localhost:1\r\n", 200),
        ("Host: [::1]:1\r\n", 200),
        ("Host: 127.0.0.2:1\r\n", 200),
        ("Host: example.com\r\n", 403),
        ("Host: localhost.example.com\r\n", 403),
        ("Host: localhost\r\nHost: example.com\r\n", 403),
        ("", 403),
    ] {
        let answer = exchange(address, &format!("GET /metrics HTTP/1.1\r\n{host}\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host:?}: {answer}");
    }
    let old = exchange(address, "GET /healthz HTTP/1.0\r\n\r\n");
    assert!(old.starts_with("HTTP/1.0 200 "), "{old}");
}

#[test]
fn numbers_are_those_of_the_server_and_never_fall() {
    let (server, address) = start(&["-m", "16"]);
    let mut client = server.connect();
    client.ask("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    client.ask("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    client.ask("get b\r\n", "END\r\n");
    client.ask("incr b 1\r\n", "NOT_FOUND\r\n");
    let seen = stats(address);
    let metrics = &seen["metrics"];
    assert_eq!(metrics["memcached_commands_total"]["get,hit"], 1);
    assert_eq!(metrics["memcached_commands_total"]["get,miss"], 1);
    assert_eq!(metrics["memcached_commands_total"]["set,hit"], 1);
    assert_eq!(metrics["memcached_commands_total"]["incr,miss"], 1);
    assert_eq!(metrics["larder_hits_total"]["hot"], 1);
    assert_eq!(metrics["memcached_current_items"], 1);
    assert_eq!(metrics["larder_items"]["hot"], 1);
    assert_eq!(metrics["memcached_connections_total"], 2);
    assert_eq!(metrics["memcached_limit_bytes"], 16 << 20);
    let parts = metrics["larder_memory_bytes"].as_object().expect("memory by owner");
    let whole: u64 = parts.values().map(|bytes| bytes.as_u64().expect("a number")).sum();
    assert_eq!(whole, 16 << 20, "{parts:?}");
    assert!(metrics.get("larder_flash_size_bytes").is_none(), "there is no flash");
    let (_, _, text) = get(address, "/metrics");
    assert!(text.contains("memcached_commands_total{command=\"get\",status=\"hit\"} 1\n"));
    assert!(text.contains("larder_ready 1\n"));
    // Counters that `stats reset` resets in memcached's statistics go on here.
    client.ask("stats reset\r\n", "RESET\r\n");
    assert_eq!(stats(address)["metrics"]["memcached_commands_total"]["get,hit"], 1);
}

#[test]
fn latencies_are_sampled_by_command_and_tier() {
    let (server, address) = start(&[]);
    let mut client = server.connect();
    client.ask("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    // Between two samples lie 383 requests at most, so each kind is met four times and more.
    const REQUESTS: usize = 2000;
    for (request, answer) in [
        ("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("mg b\r\n", "EN\r\n"),
        ("get a a\r\n", "VALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n"),
        ("set a 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("touch a 0\r\n", "TOUCHED\r\n"),
        ("decr c 1\r\n", "NOT_FOUND\r\n"),
        ("delete c\r\n", "NOT_FOUND\r\n"),
    ] {
        client.ask(&request.repeat(REQUESTS), &answer.repeat(REQUESTS));
    }
    let latency = &stats(address)["latency"];
    let kinds = latency.as_array().expect("a list");
    for (command, tier) in [
        ("get", "hot"),
        ("get", "miss"),
        ("multiget", "any"),
        ("store", "any"),
        ("touch", "any"),
        ("arithmetic", "any"),
        ("delete", "any"),
    ] {
        let kind = kinds.iter().find(|kind| kind["command"] == command && kind["tier"] == tier);
        let kind = kind.unwrap_or_else(|| panic!("no {command} {tier} in {latency}"));
        let samples = kind["samples"].as_u64().expect("a number");
        assert!((4..=20).contains(&samples), "{kind}");
        let [p50, p99, max] = ["p50_us", "p99_us", "max_us"].map(|name| kind[name].as_f64());
        assert!(p50 > Some(0.0) && p50 <= p99 && p99 <= max, "{kind}");
    }
    assert_eq!(kinds.len(), 7, "{latency}");
    let (_, _, text) = get(address, "/metrics");
    let name = "larder_sampled_request_duration_seconds_bucket";
    let last = format!("{name}{{command=\"get\",tier=\"hot\",le=\"+Inf\"}} ");
    assert!(text.contains(&last), "{text}");
}

/// The sampled series, by command and tier, when each was requested some thousands of times.
fn sampled(address: std::net::SocketAddr) -> Vec<(String, String)> {
    let latency = &stats(address)["latency"];
    let kinds = latency.as_array().expect("a list").iter().map(|kind| {
        assert!((4..=40).contains(&kind["samples"].as_u64().expect("a number")), "{kind}");
        let name = |of: &str| kind[of].as_str().expect("a name").to_owned();
        (name("command"), name("tier"))
    });
    kinds.collect()
}

/// Regression: only text requests were sampled.
#[test]
fn latencies_are_of_all_protocols() {
    const REQUESTS: usize = 2000;
    let named = |kinds: &[(&str, &str)]| {
        kinds.iter().map(|(one, two)| ((*one).to_owned(), (*two).to_owned())).collect::<Vec<_>>()
    };
    let (mut server, redis) = Server::start_with_redis(&["--admin-port", "0"]);
    let address = pages::of(&mut server);
    let mut client = Client::connect(redis);
    // As a client sends them; an inline command is not looked up ahead.
    let mut ask = |line: &str, answer: &str, times: usize| {
        let words: Vec<_> = line.split(' ').collect();
        let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
        let words_text: String = words.iter().map(bulk).collect();
        let request = format!("*{}\r\n{words_text}", words.len());
        client.ask(&request.repeat(times), &answer.repeat(times));
    };
    // A command queued for EXEC is not executed, and neither is one that is refused.
    ask("multi", "+OK\r\n", 1);
    ask("set a 2", "+QUEUED\r\n", REQUESTS);
    ask("discard", "+OK\r\n", 1);
    ask("set word x", "+OK\r\n", 1);
    ask("incr word", "-ERR value is not an integer or out of range\r\n", REQUESTS);
    assert_eq!(sampled(address), []);
    ask("get word", "$1\r\nx\r\n", REQUESTS);
    ask("mget none", "*1\r\n$-1\r\n", REQUESTS);
    ask("mget none none", "*2\r\n$-1\r\n$-1\r\n", REQUESTS);
    ask("setex b 100 x", "+OK\r\n", REQUESTS);
    ask("del none", ":0\r\n", REQUESTS);
    ask("expire b 100", ":1\r\n", REQUESTS);
    (1..=REQUESTS).for_each(|number| ask("incr c", &format!(":{number}\r\n"), 1));
    let mut all = vec![("get", "hot"), ("get", "miss"), ("multiget", "any"), ("store", "any")];
    all.extend([("delete", "any"), ("touch", "any"), ("arithmetic", "any")]);
    assert_eq!(sampled(address), named(&all));
    drop(server);

    let (server, address) = start(&[]);
    let mut client = server.connect();
    let (key, delta) = (b"a", [&[0; 7], &[1][..], &[0; 12]].concat());
    for packet in [
        Packet { opcode: 0x00, key, ..Packet::default() },
        Packet { opcode: 0x01, key, extras: &[0; 8], value: b"x", ..Packet::default() },
        Packet { opcode: 0x00, key, ..Packet::default() },
        Packet { opcode: 0x1c, key, extras: &[0; 4], ..Packet::default() },
        Packet { opcode: 0x04, key, ..Packet::default() },
        Packet { opcode: 0x05, key: b"c", extras: &delta, ..Packet::default() },
    ] {
        client.send(&packet.bytes().repeat(REQUESTS));
        (0..REQUESTS).for_each(|_| drop(client.answer()));
    }
    all.retain(|(command, _)| *command != "multiget");
    assert_eq!(sampled(address), named(&all));
}

/// Stores items that do not compress until the server has begun `segments` segments.
fn begin_segments(client: &mut Client, segments: u64) -> u64 {
    for first in (0_u64..).step_by(100) {
        let begun = client.stat("extstore_page_allocs");
        if begun >= segments {
            return begun;
        }
        let stores = (first..first + 100).map(|number| {
            let word =
                |part: u64| format!("{:x}", (number * 256 + part).wrapping_mul(0x9e37_79b9_7f4a));
            let value: String = (0..120).map(word).collect();
            format!("ms k{number} {} q\r\n{value}\r\n", value.len())
        });
        client.ask(&(stores.collect::<String>() + "mn\r\n"), "MN\r\n");
    }
    unreachable!("segments are begun as long as items are stored")
}

/// Regression: it was the number of segments being written and collected: with a flush it fell,
/// which Prometheus takes for a restart.
#[test]
fn segments_that_were_begun_stay_counted_when_a_flush_frees_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let flash = format!("{}:64m", folder.path().join("flash").display());
    let (server, _) = start(&["-m", "16", "--compressed", "off", "--flash", &flash]);
    let mut client = server.connect();
    let begun = begin_segments(&mut client, 4);
    client.ask("flush_all\r\n", "OK\r\n");
    assert!(client.stat("extstore_page_allocs") >= begun);
}

/// The number of reads from flash depends on when the background comes to demote items, so items
/// are stored and read until a sample has met one.
#[test]
fn reads_from_flash_are_sampled_apart() {
    const ITEMS: usize = 30_000;
    const ROUNDS_MAX: usize = 100;
    let folder = tempfile::tempdir().expect("a folder");
    let flash = format!("{}:64m", folder.path().join("flash").display());
    let (server, address) = start(&["-m", "16", "--hot-target", "1", "--flash", &flash]);
    let mut client = server.connect();
    let value = |number: usize| {
        let word =
            |part: usize| format!("{:x}", (number * 256 + part).wrapping_mul(0x9e37_79b9_7f4a));
        (0..120).map(word).collect::<String>()
    };
    for _ in 0..ROUNDS_MAX {
        for first in (0..ITEMS).step_by(100) {
            let stores = (first..first + 100).map(|number| {
                let value = value(number);
                format!("ms k{number} {} q\r\n{value}\r\n", value.len())
            });
            client.send((stores.collect::<String>() + "mn\r\n").as_bytes());
            client.read_to("MN\r\n");
        }
        for first in (0..ITEMS).step_by(100) {
            let reads = (first..first + 100).map(|number| format!("get k{number}\r\n"));
            client.send((reads.collect::<String>() + "mn\r\n").as_bytes());
            client.read_to("MN\r\n");
        }
        let seen = stats(address);
        let kinds = seen["latency"].as_array().expect("a list");
        if let Some(kind) = kinds.iter().find(|kind| kind["tier"] == "flash") {
            assert!(kind["command"] == "get" && kind["samples"].as_u64() > Some(0), "{kind}");
            assert!(seen["metrics"]["larder_flash_reads_total"].as_u64() > Some(0), "{seen}");
            // A part of the memory is the tier's.
            let parts = &seen["metrics"]["larder_memory_bytes"];
            assert!(parts["flash"].as_u64() > Some(0), "{parts}");
            return;
        }
    }
    panic!("no sample from flash: {}", stats(address));
}

#[test]
fn the_history_is_there_for_a_later_client() {
    let (_server, address) = start(&[]);
    // Each look takes a connection of its own; the first point comes with the first tick.
    let found = (0..100_000).find_map(|_| {
        let (_, _, body) = get(address, "/api/history");
        let history: Value = serde_json::from_str(&body).expect("it is JSON");
        let point = history["seconds"]["points"].get(0)?.clone();
        let names = history["names"].as_array().expect("names").len();
        assert_eq!(point.as_array().expect("values").len(), names + 1, "and the time");
        Some(point)
    });
    let point = found.expect("there is a tick within so many looks");
    assert!(point[0].as_u64() > Some(1_700_000_000), "{point}");
    assert_eq!(stats(address)["names"].as_array().map(Vec::len), Some(28));
}

#[test]
fn slow_clients_are_cut_off_and_many_wait_their_turn() {
    let (_server, address) = start(&[]);
    let slow: Vec<TcpStream> = (0..CONNECTIONS_MAX)
        .map(|number| {
            let mut stream = TcpStream::connect(address).expect("it accepts");
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
            // Half send nothing, and half a header that does not end.
            if number % 2 == 0 {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: ").expect("it reads");
            }
            stream
        })
        .collect();
    // All places are taken: this one waits until they are given up, which is soon enough for a
    // health check.
    let began = Instant::now();
    assert_eq!(get(address, "/healthz").0, 200);
    // Each has two seconds for its header, and would have ten without that limit.
    assert!(began.elapsed() < Duration::from_secs(9));
    for mut stream in slow {
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = stream.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&rest));
    }
}

#[test]
fn long_headers_are_refused() {
    let (_server, address) = start(&[]);
    let mut stream = TcpStream::connect(address).expect("it accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    let header = format!("GET / HTTP/1.1\r\nHost: localhost\r\nA: {}\r\n", "x".repeat(64 << 10));
    // It may close before all has been sent.
    let _ = stream.write_all(header.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&answer));
    assert_eq!(get(address, "/healthz").0, 200);
}

#[test]
fn a_key_that_is_a_script_is_told_as_text() {
    let (server, address) = start(&[]);
    let mut client = server.connect();
    let key = "<script>:1";
    client.ask(&format!("get {key}\r\n"), "END\r\n");
    client.ask(&format!("set {key} 0 0 1\r\nx\r\n"), "STORED\r\n");
    let seen = stats(address);
    let prefixes = seen["prefixes"].as_array().expect("a list");
    assert!(prefixes.iter().any(|it| it["prefix"] == "<script>:"), "{seen}");
    // It reaches the page as JSON that no browser takes for a page.
    let (_, head, _) = get(address, "/api/stats");
    assert!(head.contains("application/json") && head.contains("nosniff"), "{head}");
}

#[test]
fn top_shows_what_the_page_shows() {
    let (server, address) = start(&["-m", "16"]);
    server.connect().ask("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    let top = |arguments: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_larder")).arg("top").args(arguments).output();
        let run = run.expect("it runs");
        let said = String::from_utf8([run.stdout, run.stderr].concat()).expect("text");
        (run.status.success(), said)
    };
    let (is_shown, text) = top(&["--once", &address.to_string()]);
    assert!(is_shown, "{text}");
    for part in ["Larder ", "serving", "of 16.0 MiB", "hot 1 compressed 0", "memory by owner"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    let other = server.address().to_string();
    for (arguments, part) in [
        (&["--once", "127.0.0.1:1"][..], "127.0.0.1:1: "),
        (&["--once", &other], &other),
        (&["--never"], "unknown argument of top: --never"),
        // There is no terminal here.
        (&[&address.to_string()], "the output is not a terminal"),
    ] {
        let (is_shown, text) = top(arguments);
        assert!(!is_shown && text.contains(part), "{arguments:?}: {text}");
    }
}

#[test]
fn without_the_option_there_is_no_port() {
    let server = Server::start(&["-v"]);
    assert_eq!(server.stat("curr_connections"), 1);
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.id())).expect("its threads");
    let names = threads.map(|task| {
        let path = task.expect("a thread").path().join("comm");
        std::fs::read_to_string(path).unwrap_or_default()
    });
    assert!(!names.into_iter().any(|name| name.trim() == "admin"));
}

/// Counters that memcached_exporter names against Prometheus' rules.
const MISNAMED_COUNTERS: [&str; 3] = [
    "memcached_uptime_seconds",
    "memcached_slab_mem_requested_bytes",
    "memcached_extstore_bytes_used",
];

#[test]
fn prometheus_finds_nothing_to_complain_of() {
    if Command::new("promtool").arg("--version").output().is_err() {
        eprintln!("not run: promtool is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let flash = format!("{}:32m", folder.path().join("flash").display());
    let (server, address) = start(&["-m", "16", "--flash", &flash]);
    let mut client = server.connect();
    client.ask(&"set a 0 0 1\r\nx\r\n".repeat(2000), &"STORED\r\n".repeat(2000));
    let (_, _, text) = get(address, "/metrics");
    assert!(text.contains("larder_flash_size_bytes"), "{text}");
    let path = folder.path().join("metrics");
    std::fs::write(&path, text).expect("it can be written");
    let file = std::fs::File::open(&path).expect("it can be read");
    let check = Command::new("promtool").args(["check", "metrics"]).stdin(file).output();
    let check = check.expect("promtool runs");
    let said = [check.stdout.as_slice(), &check.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // It wants other names for these, or no counters, than memcached_exporter has.
    let of_the_exporter = |line: &&str| {
        let name = line.strip_suffix(" counter metrics should have \"_total\" suffix");
        name.is_some_and(|name| MISNAMED_COUNTERS.contains(&name))
    };
    let mut lines = said.lines().filter(|line| !line.is_empty());
    assert!(lines.all(|line| of_the_exporter(&line)), "{said}");
    // 3 means that there was something to complain of.
    assert!(matches!(check.status.code(), Some(0 | 3)), "{check:?}");
}
