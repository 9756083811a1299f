//! `cargo xtask admin`: the admin port as Prometheus and a browser see it.
//!
//! - Debian's Prometheus scrapes a started server and is asked every query of the Grafana board and
//!   every alert's expression: each query must return data, no expression may be an error.
//! - promtool reads the files deployed beside it.
//! - A headless browser opens the page; the text it shows is compared with the data given to the
//!   server, which includes a key that looks like a script.
//!
//! A tool that is not installed is reported and its part left out.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Run, find};
use crate::conformance::server::{Recipe, Server, free_port};
use crate::conformance::wire::{Wire, http_get};
use crate::tally::Count;
use crate::{Result, fail};

/// The folder where Prometheus keeps its samples.
const FOLDER: &str = "target/admin";

/// The server under test.
const SERVER: &str = "target/release/larder";

/// Time for Prometheus to start and scrape twice; after that it never will.
const SCRAPE_LIMIT: Duration = Duration::from_secs(60);

/// Time for a browser to open the page.
const BROWSER_LIMIT: Duration = Duration::from_secs(60);

/// Number of items stored in the server.
const ITEMS: usize = 1234;

/// Reads of each item: enough for the latency sample to meet them.
const READS: usize = 20;

/// Reads of the first item: enough to put it among the keys asked for most.
const HOT_READS: usize = 2000;

/// Runs all checks and counts those that could run. `server` replaces the usual program.
pub fn all(server: Option<&str>) -> Result<Count> {
    std::fs::create_dir_all(FOLDER)?;
    let port = free_port()?;
    let flash = format!("{FOLDER}/flash");
    // A file left by an earlier run would be read again.
    let _ = std::fs::remove_file(&flash);
    let recipe = Recipe::new(server.unwrap_or(SERVER), &[]);
    let server = recipe.start(&format!("-m 64 --admin-port {port} --flash {flash}:64m"))?;
    give_work(&server)?;
    let mut count = Count::default();
    if find("promtool").is_some() && find("prometheus").is_some() {
        deployed()?;
        prometheus(&server, port)?;
        count.passed += 1;
    } else {
        count.not_run("Prometheus is not installed");
    }
    if find("chromium").is_some() {
        browser(port)?;
        count.passed += 1;
    } else {
        count.not_run("Chromium is not installed");
    }
    Ok(count)
}

/// Stores items, and causes hits and misses.
fn give_work(server: &Server) -> Result {
    let mut wire = Wire::connect(server.port)?;
    for number in 0..ITEMS {
        let key = if number == 0 { "<script>:0".to_owned() } else { format!("key:{number}") };
        wire.ask(&format!("get {key}\r\n"), "END\r\n")?;
        wire.ask(&format!("set {key} 0 0 5\r\nvalue\r\n"), "STORED\r\n")?;
        let reads = format!("get {key}\r\n").repeat(if number == 0 { HOT_READS } else { READS });
        wire.ask(&format!("{reads}mn\r\n"), "MN\r\n")?;
    }
    Ok(())
}

/// Checks the files deployed beside Prometheus.
fn deployed() -> Result {
    let limit = Duration::from_secs(30);
    Run::new("promtool check rules deploy/prometheus/alerts.yml").capture(limit)?;
    Run::new("promtool check config deploy/prometheus/scrape.yml").capture(limit)?;
    Ok(())
}

/// A Prometheus process, ended with the check.
struct Scraper(Child);

impl Drop for Scraper {
    fn drop(&mut self) {
        // Killing fails if it has ended already, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has Prometheus scrape, and asks it the queries of the board and the alerts.
fn prometheus(server: &Server, admin: u16) -> Result {
    let port = free_port()?;
    let config = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: larder\n    \
         static_configs:\n      - targets: [\"127.0.0.1:{admin}\"]\n"
    );
    std::fs::write(format!("{FOLDER}/prometheus.yml"), config)?;
    let log = std::fs::File::create(format!("{FOLDER}/prometheus.log"))?;
    let data = format!("{FOLDER}/prometheus-data");
    // The samples of an earlier run are of another server.
    let _ = std::fs::remove_dir_all(&data);
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={FOLDER}/prometheus.yml"))
        .arg(format!("--storage.tsdb.path={data}"))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    let _scraper = Scraper(command.spawn()?);
    let board = std::fs::read_to_string("deploy/grafana/larder.json")?;
    let queries = texts(&board, "\"expr\": \"");
    if queries.len() < 20 {
        return fail(format!("only {} queries were found in the board", queries.len()));
    }
    let started = Instant::now();
    for query in &queries {
        let query = query.replace("$__rate_interval", "30s").replace("$instance", ".*");
        loop {
            let answer = ask(port, &query).unwrap_or_default();
            if answer.contains("\"result\":[{") || answer.contains("\"resultType\":\"scalar\"") {
                break;
            }
            if started.elapsed() > SCRAPE_LIMIT {
                return fail(format!("no data for {query}: {answer}"));
            }
            // Rates need two scrapes between which something happened.
            give_work(server)?;
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    let rules = std::fs::read_to_string("deploy/prometheus/alerts.yml")?;
    let alerts = expressions(&rules);
    for alert in &alerts {
        let answer = ask(port, alert)?;
        if !answer.contains("\"status\":\"success\"") {
            return fail(format!("an alert's expression is refused: {alert}: {answer}"));
        }
    }
    println!("Prometheus has data for {} queries of the board", queries.len());
    println!("and takes the expressions of {} alerts", alerts.len());
    Ok(())
}

/// Returns the quoted text behind each `name`, without escapes.
fn texts(json: &str, name: &str) -> Vec<String> {
    let line = |line: &str| {
        let text = line.trim().strip_prefix(name)?.trim_end_matches(',').strip_suffix('"')?;
        Some(text.replace("\\\"", "\""))
    };
    json.lines().filter_map(line).collect()
}

/// Returns the expressions of a rules file, each on one line or on several indented ones.
fn expressions(rules: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_inside = false;
    for line in rules.lines() {
        let deep = line.starts_with("          ");
        if let Some(text) = line.trim().strip_prefix("expr:") {
            is_inside = text.trim() == "|";
            found.push(if is_inside { String::new() } else { text.trim().to_owned() });
        } else if is_inside && deep {
            let last = found.last_mut().expect("an expression began");
            last.push_str(line.trim());
            last.push(' ');
        } else {
            is_inside = false;
        }
    }
    found
}

/// Sends a query to Prometheus.
fn ask(port: u16, query: &str) -> Result<String> {
    let escaped: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    http_get(port, &format!("/api/v1/query?query={escaped}"))
}

/// Opens the page in a browser and reads the text it shows.
fn browser(admin: u16) -> Result {
    // The log has what the page's console says, such as what its policy refused.
    let run = Run::new("chromium --headless --no-sandbox --disable-gpu --enable-logging=stderr")
        .arg("--virtual-time-budget=5000")
        .arg("--dump-dom")
        .arg(format!("http://127.0.0.1:{admin}/"));
    let shown = run.capture(BROWSER_LIMIT)?;
    for (what, text) in [
        ("that it serves", "class=\"good\">serving<"),
        ("the number of items", "id=\"items\">1.23 k<"),
        ("the limit of memory", "of 64.0 MiB"),
        ("the charts", "aria-label=\"Hit ratio by tier: hot "),
        ("the latency of hits", "<td>get</td><td>hot</td>"),
        ("the map of memory", "index<b>"),
        ("a prefix as text", "<td>&lt;script&gt;:</td>"),
        ("what would miss in other memory", "would miss with the present memory; "),
        ("what a GiB more would bring", "<td>memory, uncompressed</td>"),
        ("what a GiB of flash would bring", "<td>flash</td>"),
        ("why reads missed", "never stored, or forgotten<b>100 %</b>"),
        ("a key that is asked for most, as text", "<code>&lt;script&gt;:0</code>"),
    ] {
        if !shown.contains(text) {
            return fail(format!("the page does not show {what}, {text}:\n{shown}"));
        }
    }
    for (what, text) in [("a script that a key holds", "<script>:"), ("trouble", "CONSOLE")] {
        if shown.contains(text) {
            return fail(format!("the page has {what}:\n{shown}"));
        }
    }
    println!("the page shows what the server was given");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_expressions_are_found() {
        let json = "{\n  \"expr\": \"a{b=\\\"c\\\"}\",\n  \"expr\": \"d\"\n}\n";
        assert_eq!(texts(json, "\"expr\": \""), ["a{b=\"c\"}", "d"]);
        let rules = "- alert: A\n        expr: a > 1\n        for: 1m\n        expr: |\n          \
                     b\n            + c\n        labels:\n          d: e\n";
        assert_eq!(expressions(rules), ["a > 1", "b + c "]);
    }
}
