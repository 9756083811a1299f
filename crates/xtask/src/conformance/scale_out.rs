//! Several servers as one cache: behind twemproxy, memcached's own proxy and Envoy with the
//! configurations from `deploy/`, and with a client that spreads keys itself.
//!
//! The proxies place keys by the names of servers or their positions, not by addresses, so a key's
//! server is the same in every run. The checks are the runbook's promises: keys are spread; a lost
//! server loses its own keys and no others, and no other server takes them meanwhile; a server
//! replaced under its name keeps them; an added one takes about its share.

use std::time::{Duration, Instant};

use super::envoy::Envoy;
use super::memcached_proxy::MemcachedProxy;
use super::proxy::{self, Neighbour};
use super::server::{FOLDER, Server};
use super::wire::{Wire, shorten};
use super::{Bench, Ended};
use crate::command::Run;
use crate::install::VENV;
use crate::{Failure, Result, fail};

/// The number of keys.
pub const KEYS: usize = 3000;

/// Time for a server to save and end.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// Time for a proxy to follow a changed list.
const CHANGE_LIMIT: Duration = Duration::from_secs(10);

/// A proxy with the configuration from `deploy/`, before servers.
pub trait Front: Sized {
    /// The name of its log.
    const NAME: &'static str;

    /// Starts a server that it can ask; returns it and its port.
    fn server(bench: &Bench, options: &str) -> Result<(Server, u16)> {
        let server = bench.options.server.start(options)?;
        let port = server.port;
        Ok((server, port))
    }

    /// Starts it before servers at these ports, `larder-1` and so on; `None` where it is not
    /// installed.
    fn start(servers: &[u16]) -> Result<Option<Self>>;

    /// Gives it another list of servers.
    fn change(self, servers: &[u16]) -> Result<Self>;

    /// Returns the keys that are found through it; errors are misses.
    fn found(&self) -> Result<Vec<usize>>;

    /// Stores keys through it, and returns those that it took; errors are refusals.
    fn store(&self, keys: &[usize]) -> Result<Vec<usize>>;

    /// Checks its other functions while each server holds its share of the keys, which must be the
    /// same afterwards.
    fn check(&self, _shares: &[Vec<usize>]) -> Result {
        Ok(())
    }

    /// Checks its other functions while the second server is away.
    fn check_lost(&self, _shares: &[Vec<usize>]) -> Result {
        Ok(())
    }
}

/// twemproxy, which has to be restarted for another list.
struct Twemproxy {
    _proxy: Neighbour,
    port: u16,
}

impl Twemproxy {
    /// The configuration for operators.
    const TEMPLATE: &str = "deploy/scale-out/twemproxy.yml";

    /// The proxy's address in it.
    const LISTEN: &str = "127.0.0.1:22121";
}

impl Front for Twemproxy {
    const NAME: &'static str = "scale-out";

    fn start(servers: &[u16]) -> Result<Option<Self>> {
        let template = std::fs::read_to_string(Self::TEMPLATE)?;
        let (head, list) = template.split_once("  servers:\n").unwrap_or_default();
        if list.lines().count() != 3 || !head.contains(Self::LISTEN) {
            return fail(format!("{} has another form than this part expects", Self::TEMPLATE));
        }
        let mut text = format!("{head}  servers:\n");
        for (place, port) in servers.iter().enumerate() {
            text.push_str(&format!("    - 127.0.0.1:{port}:1 larder-{}\n", place + 1));
        }
        let started = proxy::start_with(Self::NAME, |port| {
            text.replace(Self::LISTEN, &format!("127.0.0.1:{port}"))
        })?;
        Ok(started.map(|(proxy, port)| Self { _proxy: proxy, port }))
    }

    fn change(self, servers: &[u16]) -> Result<Self> {
        drop(self);
        match Self::start(servers)? {
            Some(proxy) => Ok(proxy),
            None => fail("nutcracker was there a moment ago"),
        }
    }

    fn found(&self) -> Result<Vec<usize>> {
        found(self.port)
    }

    fn store(&self, keys: &[usize]) -> Result<Vec<usize>> {
        store(self.port, keys)
    }
}

impl Front for MemcachedProxy {
    const NAME: &'static str = MemcachedProxy::LOG;

    fn start(servers: &[u16]) -> Result<Option<Self>> {
        MemcachedProxy::start(servers)
    }

    fn change(self, servers: &[u16]) -> Result<Self> {
        let before = found(self.port)?;
        self.reload(servers)?;
        let started = Instant::now();
        // Every new list in this test places keys differently from the one before.
        while found(self.port)? == before {
            if started.elapsed() > CHANGE_LIMIT {
                return fail("memcached's proxy does not go by its changed list");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(self)
    }

    fn found(&self) -> Result<Vec<usize>> {
        found(self.port)
    }

    fn store(&self, keys: &[usize]) -> Result<Vec<usize>> {
        store(self.port, keys)
    }
}

/// Returns the keys that are found through a proxy or by a server; errors are misses.
fn found(port: u16) -> Result<Vec<usize>> {
    let mut wire = Wire::connect(port)?;
    let mut found = Vec::new();
    for key in 0..KEYS {
        let reply = wire.ask(&format!("get scaled:{key}\r\n"), "\n")?;
        if reply.starts_with("VALUE") {
            wire.read_until(0, b"END\r\n")?;
            let length = key.to_string().len();
            let wanted = format!("VALUE scaled:{key} 0 {length}\r\n{key}\r\nEND\r\n");
            if wire.received != wanted.as_bytes() {
                return fail(format!("scaled:{key} is {:?}", shorten(&reply)));
            }
            found.push(key);
        }
    }
    Ok(found)
}

/// Stores keys through a proxy; returns those that it did not refuse.
fn store(port: u16, keys: &[usize]) -> Result<Vec<usize>> {
    let mut wire = Wire::connect(port)?;
    let mut stored = Vec::new();
    for key in keys {
        let value = key.to_string();
        let command = format!("set scaled:{key} 0 0 {}\r\n{value}\r\n", value.len());
        let reply = wire.ask(&command, "\n")?;
        if reply == "STORED\r\n" {
            stored.push(*key);
        } else if !reply.starts_with("SERVER_ERROR") {
            return fail(format!("a set of scaled:{key} is answered {reply:?}"));
        }
    }
    Ok(stored)
}

/// Stores keys through a proxy, which has to take all of them.
pub fn fill(front: &impl Front, keys: &[usize]) -> Result {
    let stored = front.store(keys)?.len();
    if stored == keys.len() {
        return Ok(());
    }
    fail(format!("{stored} keys of {} could be stored", keys.len()))
}

/// Returns a share in percent.
fn percent(part: usize, whole: usize) -> usize {
    100 * part / whole.max(1)
}

fn within(what: &str, percent: usize, from: usize, to: usize) -> Result {
    if (from..=to).contains(&percent) {
        return Ok(());
    }
    fail(format!("{what}: {percent} %, and not {from} to {to} %"))
}

/// twemproxy.
pub fn twemproxy(bench: &Bench) -> Result<Ended> {
    behind::<Twemproxy>(bench, "nutcracker is not installed")
}

/// memcached's own proxy.
pub fn memcached_proxy(bench: &Bench) -> Result<Ended> {
    behind::<MemcachedProxy>(bench, "memcached's source is not there (cargo xtask install)")
}

/// Envoy.
pub fn envoy(bench: &Bench) -> Result<Ended> {
    behind::<Envoy>(bench, "Envoy is not installed (cargo xtask install)")
}

fn behind<F: Front>(bench: &Bench, why_not: &str) -> Result<Ended> {
    let image = format!("{FOLDER}/scale-out-{}.image", std::process::id());
    // An image left by an earlier run would be restored.
    let _ = std::fs::remove_file(&image);
    let outcome = grow_and_shrink::<F>(bench, &image, why_not);
    let _ = std::fs::remove_file(&image);
    proxy::with_log(F::NAME, outcome)
}

/// Checks the runbook's promises about servers that are lost, replaced and added.
fn grow_and_shrink<F: Front>(bench: &Bench, image: &str, why_not: &str) -> Result<Ended> {
    let saved = format!("-m 64 -e {image}");
    let (mut servers, mut ports) = (Vec::new(), Vec::new());
    for options in ["-m 64", saved.as_str(), "-m 64"] {
        let (server, port) = F::server(bench, options)?;
        servers.push(server);
        ports.push(port);
    }
    let Some(front) = F::start(&ports)? else {
        return Ok(Ended::NotRun(why_not.to_string()));
    };
    let all: Vec<usize> = (0..KEYS).collect();
    fill(&front, &all)?;
    let mut shares = Vec::new();
    for server in &servers {
        shares.push(found(server.port)?);
    }
    if shares.iter().map(Vec::len).sum::<usize>() != KEYS {
        return fail("a key lies on two servers, or on none");
    }
    for share in &shares {
        within("the keys of one server of three", percent(share.len(), KEYS), 23, 43)?;
    }
    front.check(&shares)?;
    servers.remove(1).stop(STOP_LIMIT)?;
    lost(&front, &shares)?;
    // Under its name, at another address, with its saved items.
    let (_back, port) = F::server(bench, &saved)?;
    ports[1] = port;
    let front = front.change(&ports)?;
    if front.found()? != all {
        return fail("a server that was replaced under its name has not all its keys");
    }
    let (_fourth, port) = F::server(bench, "-m 64")?;
    ports.push(port);
    let front = front.change(&ports)?;
    let moved = percent(KEYS - front.found()?.len(), KEYS);
    within("what moved to the fourth", moved, 17, 33)?;
    let lost = shares[1].len();
    let shares: Vec<String> =
        shares.iter().map(|share| percent(share.len(), KEYS).to_string()).collect();
    Ok(Ended::Passed(format!(
        "{} % each, {lost} keys lost with one and back with it, {moved} % moved to a fourth",
        shares.join(", ")
    )))
}

/// Checks a lost second server: its keys are lost and no others, and no other server takes them,
/// because they would later return to a server with their old values.
fn lost(front: &impl Front, shares: &[Vec<usize>]) -> Result {
    let mut kept: Vec<usize> = [&shares[0][..], &shares[2]].concat();
    kept.sort_unstable();
    // Several times: some proxies give up a server only after several failures.
    for _ in 0..3 {
        let left = front.found()?;
        if left != kept {
            let (left, kept) = (left.len(), kept.len());
            return fail(format!("a server was lost: {left} keys are left, and should be {kept}"));
        }
        let stored = front.store(&shares[1])?.len();
        if stored > 0 {
            return fail(format!("a server was lost: {stored} of its keys went to others"));
        }
        // Connections to the others are unaffected.
        fill(front, &kept)?;
    }
    front.check_lost(shares)
}

/// pymemcache's client of several servers.
pub fn hash_client(bench: &Bench) -> Result<Ended> {
    let interpreter = format!("{VENV}/bin/python");
    if !std::path::Path::new(&interpreter).exists() {
        let words = "the Python libraries are not installed (cargo xtask install)";
        return Ok(Ended::NotRun(words.to_string()));
    }
    let mut servers = Vec::new();
    for _ in 0..4 {
        servers.push(bench.options.server.start("-m 64")?);
    }
    let fourth = servers.pop();
    let ports: Vec<String> = servers.iter().map(|server| server.port.to_string()).collect();
    let count = |work: &str, more: &[String]| -> Result<usize> {
        let mut run = Run::new(&interpreter).arg("conformance/python/many_servers.py").arg(work);
        for port in ports.iter().chain(more) {
            run = run.arg(port);
        }
        let text = run.arg(KEYS.to_string()).capture(Duration::from_secs(60))?;
        let last = text.trim_end().lines().next_back().unwrap_or_default();
        last.parse().map_err(|_| Failure(format!("no count in {text:?}")))
    };
    count("fill", &[])?;
    let mut shares = Vec::new();
    for server in &servers {
        let share = found(server.port)?.len();
        within("the keys of one server of three", percent(share, KEYS), 23, 43)?;
        shares.push(share);
    }
    let grown: Vec<String> = fourth.iter().map(|server| server.port.to_string()).collect();
    let moved = percent(KEYS - count("find", &grown)?, KEYS);
    within("what moved to the fourth", moved, 17, 33)?;
    drop(servers.remove(1));
    let left = count("find", &[])?;
    if left != shares[0] + shares[2] {
        return fail(format!("a server was lost: {left} keys are left of {shares:?}"));
    }
    Ok(Ended::Passed(format!("{left} of {KEYS} left without one, {moved} % moved to a fourth")))
}
