//! Runs Prometheus' memcached_exporter before memcached and before the server under test, after the
//! same requests. It has to report the same names for both, with the same kinds and labels, and
//! with the same values where these follow from the requests.
//!
//! The server's own `/metrics` uses the exporter's names, and must mean the same by them: every
//! name is one of the exporter's, with the kind, labels and values that the exporter derives from
//! the server's `stats`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::proxy::{Neighbour, with_log};
use super::server::{FOLDER, Server, free_port};
use super::wire::{Wire, http_get};
use super::{Bench, Ended};
use crate::install::EXPORTER;
use crate::random::Random;
use crate::{Failure, Result, fail};

/// The name of the exporter's log.
const NAME: &str = "memcached-exporter";

/// Metrics that exist for memcached alone: those of its LRU queues, in whose place Larder has a
/// CLOCK hand for each class.
const ABSENT: &[&str] = &[
    "memcached_lru_crawler_hot_max_factor",
    "memcached_lru_crawler_hot_percent",
    "memcached_lru_crawler_warm_max_factor",
    "memcached_lru_crawler_warm_percent",
    "memcached_slab_lru_hits_total",
];

/// Metrics that must have the same value for both servers.
const SAME: &[&str] = &[
    "memcached_accepting_connections",
    "memcached_commands_total",
    "memcached_connections_listener_disabled_total",
    "memcached_connections_rejected_total",
    "memcached_current_items",
    "memcached_item_no_memory_total",
    "memcached_item_too_large_total",
    "memcached_items_evicted_total",
    "memcached_items_reclaimed_total",
    "memcached_limit_bytes",
    "memcached_max_connections",
    "memcached_up",
];

/// Metrics that change while nothing is asked for, or by being asked for.
const MOVING: &[&str] = &[
    "memcached_connections_total",
    "memcached_current_connections",
    "memcached_process_system_cpu_seconds_total",
    "memcached_process_user_cpu_seconds_total",
    "memcached_read_bytes_total",
    "memcached_time_seconds",
    "memcached_uptime_seconds",
    "memcached_written_bytes_total",
];

/// A metric unknown to the exporter: of a command that only Larder has.
const UNKNOWN: &str = "memcached_commands_total{command=\"flush_prefix\",status=\"hit\"}";

/// The count of collected flash segments.
const COLLECTED: &str = "memcached_extstore_pages_evicted_total";

/// Time for flash to fill up.
const FLASH_LIMIT: Duration = Duration::from_secs(60);

/// Time until nothing moves between the tiers any more.
const REST_LIMIT: Duration = Duration::from_secs(20);

/// Number of items stored before each look at the server's metrics.
const FLASH_ITEMS: usize = 1000;
const FLASH_VALUE_BYTES: usize = 8192;

/// What the exporter's users see of a metric besides its values.
#[derive(Debug, PartialEq, Eq)]
struct Metric {
    kind: String,
    labels: Vec<String>,
}

/// A page of metrics.
struct Page {
    metrics: BTreeMap<String, Metric>,
    /// By name and labels, as written on the page.
    values: BTreeMap<String, f64>,
}

impl Page {
    /// Reads the metrics of memcached on this page.
    fn read(port: u16, path: &str) -> Result<Page> {
        let answer = http_get(port, path)?;
        if !answer.starts_with("HTTP/1.0 200") && !answer.starts_with("HTTP/1.1 200") {
            return fail(format!("{path} is answered:\n{answer}"));
        }
        Ok(Page::parse(&answer))
    }

    fn parse(text: &str) -> Page {
        let mut page = Page { metrics: BTreeMap::new(), values: BTreeMap::new() };
        let mut kinds = BTreeMap::new();
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                kinds.extend(kind.split_once(' '));
            }
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse() else { continue };
            if !series.starts_with("memcached_") {
                continue;
            }
            // No label here has a comma in its value.
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let names = labels.split(',').filter_map(|label| label.split_once('='));
            let mut labels: Vec<String> = names.map(|(name, _)| name.to_string()).collect();
            labels.sort_unstable();
            let kind = kinds.get(name).copied().unwrap_or("untyped").to_string();
            page.metrics.insert(name.to_string(), Metric { kind, labels });
            page.values.insert(series.to_string(), value);
        }
        page
    }

    /// Returns the values of a metric.
    fn of<'p>(&'p self, name: &'p str) -> BTreeMap<&'p str, f64> {
        let is_it = |series: &str| series.split('{').next() == Some(name);
        let values = self.values.iter().map(|(series, value)| (series.as_str(), *value));
        values.filter(|(series, _)| is_it(series)).collect()
    }
}

/// Runs the scenario.
pub fn check(bench: &Bench) -> Result<Ended> {
    let memcached = &bench.options.reference;
    if !Path::new(EXPORTER).is_file() {
        return Ok(Ended::NotRun("it is not built (cargo xtask install)".to_string()));
    }
    if !memcached.path.is_file() {
        return Ok(Ended::NotRun(format!("there is no {}", memcached.path.display())));
    }
    if !bench.larder {
        return Ok(Ended::NotRun("only Larder has metrics of its own".to_string()));
    }
    let files = ["memcached", "larder"]
        .map(|name| format!("{FOLDER}/exporter-{name}-{}.flash", std::process::id()));
    let outcome = compare(bench, &files);
    files.iter().for_each(|file| drop(std::fs::remove_file(file)));
    with_log(NAME, outcome)
}

fn compare(bench: &Bench, files: &[String; 2]) -> Result<Ended> {
    let admin = free_port()?;
    let reference = format!("-m 64 -c 500 -o ext_path={}:64m", files[0]);
    let reference = bench.options.reference.start(&reference)?;
    let subject = format!("-m 64 -c 500 --flash {}:16m --admin-port {admin}", files[1]);
    let subject = bench.options.server.start(&subject)?;
    give_work(&reference)?;
    give_work(&subject)?;
    let port = free_port()?;
    let mut command = Command::new(EXPORTER);
    // Without an address of its own it reads the server named in each request.
    command.args(["--memcached.address=", &format!("--web.listen-address=127.0.0.1:{port}")]);
    let exporter = Neighbour::start(NAME, &mut command, port)?;
    let read = |server: &Server| Page::read(port, &format!("/scrape?target={}", server.address()));
    let wanted = read(&reference)?;
    let mut wrong = differences(&wanted, &read(&subject)?);
    let compare_own = || {
        let started = Instant::now();
        loop {
            let (got, own) = (read(&subject)?, Page::read(admin, "/metrics")?);
            let differences = own_differences(&wanted, &got, &own);
            // While items still move between the tiers, the same question gets another number a
            // moment later.
            if differences.is_empty() || started.elapsed() > REST_LIMIT {
                return Ok::<_, Failure>((own, differences));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    // Before flash is filled there is a class without items; afterwards all tiers hold items.
    wait_for_an_empty_class(admin)?;
    wrong.extend(compare_own()?.1);
    fill_flash(&subject, admin, bench.options.seed)?;
    let (own, differences) = compare_own()?;
    wrong.extend(differences);
    drop(exporter);
    if !wrong.is_empty() {
        return fail(format!("{} differ\n  {}", wrong.len(), wrong.join("\n  ")));
    }
    let (told, own) = (wanted.metrics.len() - ABSENT.len(), own.metrics.len());
    Ok(Ended::Passed(format!("{told} metrics as of memcached, {own} on a page of its own")))
}

/// Waits until the class whose only item was deleted has the memory back.
fn wait_for_an_empty_class(admin: u16) -> Result {
    let started = Instant::now();
    while started.elapsed() < REST_LIMIT {
        let page = Page::read(admin, "/metrics")?;
        if page.of("memcached_slab_chunks_used").into_values().any(|used| used == 0.0) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    fail("no class is without items")
}

/// Stores more items than fit, until flash has collected segments.
fn fill_flash(server: &Server, admin: u16, seed: u64) -> Result {
    let mut wire = Wire::connect(server.port)?;
    let mut random = Random::new(seed);
    let started = Instant::now();
    let mut key = 0;
    while Page::read(admin, "/metrics")?.values.get(COLLECTED).is_none_or(|count| *count == 0.0) {
        if started.elapsed() > FLASH_LIMIT {
            return fail(format!("{COLLECTED} stays 0 after {key} items"));
        }
        for _ in 0..FLASH_ITEMS {
            let words = FLASH_VALUE_BYTES / 16;
            let value: String = (0..words).map(|_| format!("{:016x}", random.next())).collect();
            let store = format!("set flash:{key} 0 0 {}\r\n{value}\r\n", value.len());
            wire.expect(&store, "STORED\r\n")?;
            key += 1;
        }
    }
    Ok(())
}

/// Returns the exporter's differences between the server and memcached.
fn differences(wanted: &Page, got: &Page) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, metric) in &wanted.metrics {
        let is_listed = ABSENT.contains(&name.as_str());
        match got.metrics.get(name) {
            None if is_listed => {}
            Some(_) if is_listed => wrong.push(format!("{name} is there, but listed as absent")),
            other if other == Some(metric) => {}
            other => wrong.push(format!("{name}: {metric:?} for memcached, {other:?} here")),
        }
    }
    for name in SAME {
        let (wanted, got) = (wanted.of(name), got.of(name));
        if wanted.is_empty() || wanted != got {
            wrong.push(format!("{name}: {wanted:?} for memcached, {got:?} here"));
        }
    }
    wrong
}

/// Returns the differences between the server's own page and the exporter's.
fn own_differences(wanted: &Page, got: &Page, own: &Page) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, metric) in &own.metrics {
        let exported = got.metrics.get(name).or_else(|| wanted.metrics.get(name));
        if exported != Some(metric) {
            wrong.push(format!("{name}: {metric:?} in /metrics, {exported:?} by the exporter"));
        }
        let (mut here, there) = (own.of(name), got.of(name));
        here.remove(UNKNOWN);
        if !MOVING.contains(&name.as_str()) && here != there {
            wrong.push(format!("{name}: {here:?} in /metrics, {there:?} by the exporter"));
        }
    }
    wrong
}

/// Sends requests of each kind, with each outcome that is counted.
fn give_work(server: &Server) -> Result {
    let mut wire = Wire::connect(server.port)?;
    wire.expect("flush_all\r\n", "OK\r\n")?;
    for key in 0..200 {
        // At least two size classes.
        let value = "v".repeat(if key % 2 == 0 { 40 } else { 4000 });
        let store = format!("set key:{key} 0 0 {}\r\n{value}\r\n", value.len());
        wire.expect(&store, "STORED\r\n")?;
    }
    // A class that is left with memory but no item.
    let alone = format!("set alone 0 0 700\r\n{}\r\n", "v".repeat(700));
    wire.expect(&alone, "STORED\r\n")?;
    wire.expect("delete alone\r\n", "DELETED\r\n")?;
    let unique = wire.ask("gets key:0\r\n", "END\r\n")?;
    let unique = unique.lines().next().and_then(|line| line.split(' ').nth(4)).unwrap_or_default();
    let right = format!("cas key:0 0 0 1 {unique}\r\n1\r\n");
    for (request, answer) in [
        (right.as_str(), "STORED\r\n"),
        (right.as_str(), "EXISTS\r\n"),
        ("cas none 0 0 1 1\r\n1\r\n", "NOT_FOUND\r\n"),
        ("get key:0 none key:0\r\n", "VALUE key:0 0 1\r\n1\r\nVALUE key:0 0 1\r\n1\r\nEND\r\n"),
        ("get none\r\n", "END\r\n"),
        ("add key:0 0 0 1\r\n1\r\n", "NOT_STORED\r\n"),
        ("replace key:0 0 0 2\r\n50\r\n", "STORED\r\n"),
        ("append key:0 0 0 1\r\n0\r\n", "STORED\r\n"),
        ("incr key:0 5\r\n", "505\r\n"),
        ("incr none 5\r\n", "NOT_FOUND\r\n"),
        ("decr key:0 6\r\n", "499\r\n"),
        ("decr none 6\r\n", "NOT_FOUND\r\n"),
        ("decr none 6\r\n", "NOT_FOUND\r\n"),
        ("touch key:0 0\r\n", "TOUCHED\r\n"),
        ("touch none 0\r\n", "NOT_FOUND\r\n"),
        ("gat 0 key:0\r\n", "VALUE key:0 0 3\r\n499\r\nEND\r\n"),
        ("gat 0 none\r\n", "END\r\n"),
        ("mg key:0 v\r\n", "VA 3\r\n499\r\n"),
        ("mg none v\r\n", "EN\r\n"),
        ("ms key:0 1\r\n7\r\n", "HD\r\n"),
        ("ma key:0 v\r\n", "VA 1\r\n8\r\n"),
        ("md none\r\n", "NF\r\n"),
        ("delete key:1\r\n", "DELETED\r\n"),
        ("delete none\r\n", "NOT_FOUND\r\n"),
    ] {
        wire.expect(request, answer)?;
    }
    let body = "x".repeat(2_000_000);
    wire.expect(
        &format!("set key:2 0 0 {}\r\n{body}\r\n", body.len()),
        "SERVER_ERROR object too large for cache\r\n",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "HTTP/1.0 200 OK\r\n\r\n# HELP memcached_a An a.\n\
        # TYPE memcached_a counter\n\
        memcached_a{y=\"1\",x=\"2\"} 3\nmemcached_a{y=\"2\",x=\"2\"} 4\n\
        # TYPE memcached_ab gauge\nmemcached_ab 5.5\n# TYPE go_b gauge\ngo_b 1\n";

    #[test]
    fn a_page_is_read() {
        let page = Page::parse(TEXT);
        let metric = |kind: &str, labels: &[&str]| Metric {
            kind: kind.to_string(),
            labels: labels.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(page.metrics.len(), 2);
        assert_eq!(page.metrics["memcached_a"], metric("counter", &["x", "y"]));
        assert_eq!(page.metrics["memcached_ab"], metric("gauge", &[]));
        let values: Vec<f64> = page.of("memcached_a").into_values().collect();
        assert_eq!(values, [3.0, 4.0]);
    }

    #[test]
    fn another_kind_label_or_value_differs() {
        let page = Page::parse(TEXT);
        assert!(own_differences(&page, &page, &page).is_empty());
        for (from, to) in [("a counter", "a gauge"), ("x=", "z="), ("_ab 5.5", "_ab 5")] {
            let other = Page::parse(&TEXT.replace(from, to));
            assert!(!own_differences(&page, &page, &other).is_empty(), "{to}");
        }
        let fewer = Page::parse(&TEXT.replace("memcached_ab 5.5\n", ""));
        assert!(differences(&page, &fewer).iter().any(|wrong| wrong.starts_with("memcached_ab")));
    }
}
