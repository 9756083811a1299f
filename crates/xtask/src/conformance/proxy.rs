//! twemproxy in front of three servers: many keys through it; one server is stopped under load and
//! started again.

use std::fs::OpenOptions;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::server::{FOLDER, Server, free_port};
use super::wire::Wire;
use super::{Bench, Ended};
use crate::command::{Run, find};
use crate::{Failure, Result, fail};

const KEYS: usize = 600;

/// The name of the log.
const NAME: &str = "twemproxy";

/// Time for a neighbour to start listening; after that it never will.
const START_LIMIT: Duration = Duration::from_secs(20);

/// The bytes of a log shown with a failure.
const LOG_SHOWN: usize = 4000;

/// A program that runs beside servers, such as a proxy; dropping it kills it.
pub struct Neighbour(Child);

impl Neighbour {
    /// Starts a program that is to listen on this port, and waits until it does. Its output is
    /// appended to the log of its name.
    pub fn start(name: &str, command: &mut Command, port: u16) -> Result<Self> {
        std::fs::create_dir_all(FOLDER)?;
        let log = OpenOptions::new().create(true).append(true).open(log_path(name))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut neighbour = Self(child);
        let started = Instant::now();
        while Wire::connect(port).is_err() {
            let has_ended = neighbour.0.try_wait()?.is_some();
            if has_ended || started.elapsed() > START_LIMIT {
                return fail(format!("{name} does not listen"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(neighbour)
    }

    /// Makes it read its configuration again.
    pub fn reload(&self) -> Result {
        let kill = Run::new("kill -HUP").arg(self.0.id().to_string());
        kill.capture(Duration::from_secs(5)).map(drop)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process id is in the name: simultaneous runs have logs of their own.
fn log_path(name: &str) -> String {
    format!("{FOLDER}/{name}-{}.log", std::process::id())
}

/// Adds to a failure the end of this run's log of this name.
pub fn with_log<T>(name: &str, outcome: Result<T>) -> Result<T> {
    outcome.map_err(|failure| {
        let log = std::fs::read(log_path(name)).unwrap_or_default();
        let end = &log[log.len().saturating_sub(LOG_SHOWN)..];
        Failure(format!("{}\n{name} printed:\n{}", failure.0, String::from_utf8_lossy(end)))
    })
}

fn start(servers: &[Server]) -> Result<Option<(Neighbour, u16)>> {
    start_with(NAME, |port| {
        let mut text = format!(
            "pool:\n  listen: 127.0.0.1:{port}\n  hash: murmur\n  distribution: ketama\n  \
             auto_eject_hosts: false\n  timeout: 2000\n  server_retry_timeout: 200\n  servers:\n"
        );
        for server in servers {
            text.push_str(&format!("   - {}:1\n", server.address()));
        }
        text
    })
}

/// Starts twemproxy with the configuration that `text` returns for its port; returns it with this
/// port, or `None` where it is not installed.
pub fn start_with(name: &str, text: impl Fn(u16) -> String) -> Result<Option<(Neighbour, u16)>> {
    let Some(program) = find("nutcracker") else {
        return Ok(None);
    };
    let (port, stats) = (free_port()?, free_port()?);
    let path = format!("{FOLDER}/{name}.yml");
    std::fs::write(&path, text(port))?;
    let mut command = Command::new(program);
    command.args(["-c", &path, "-a", "127.0.0.1", "-s", &stats.to_string()]);
    Ok(Some((Neighbour::start(name, &mut command, port)?, port)))
}

fn value(key: usize) -> String {
    format!("value-{key}-").repeat(1 + key % 40)
}

fn set(wire: &mut Wire, key: usize) -> Result {
    let value = value(key);
    let command = format!("set proxied:{key} 0 0 {}\r\n{value}\r\n", value.len());
    wire.expect(&command, "STORED\r\n")
}

fn found(key: usize) -> String {
    format!("VALUE proxied:{key} 0 {}\r\n{}\r\n", value(key).len(), value(key))
}

/// Returns whether a server holds a key, asked without the proxy.
fn holds(wire: &mut Wire, key: usize) -> Result<bool> {
    let reply = wire.ask(&format!("get proxied:{key}\r\n"), "END\r\n")?;
    Ok(reply == found(key) + "END\r\n")
}

/// Reads a hundred keys at a time; the proxy gathers their replies from all servers.
fn multiget(wire: &mut Wire, keys: &[usize]) -> Result {
    for chunk in keys.chunks(100) {
        let names: Vec<String> = chunk.iter().map(|key| format!("proxied:{key}")).collect();
        let reply = wire.ask(&format!("get {} \r\n", names.join(" ")), "END\r\n")?;
        let missing = chunk.iter().find(|key| !reply.contains(&found(**key)));
        if let Some(key) = missing {
            return fail(format!("a multiget through the proxy lacks proxied:{key}"));
        }
    }
    Ok(())
}

/// Runs the scenario.
pub fn check(bench: &Bench) -> Result<Ended> {
    with_log(NAME, scenario(bench))
}

fn scenario(bench: &Bench) -> Result<Ended> {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(bench.options.server.start("-m 64")?);
    }
    let Some((proxy, port)) = start(&servers)? else {
        return Ok(Ended::NotRun("nutcracker is not installed".to_string()));
    };
    let mut wire = Wire::connect(port)?;
    let all: Vec<usize> = (0..KEYS).collect();
    all.iter().try_for_each(|key| set(&mut wire, *key))?;
    multiget(&mut wire, &all)?;
    let mut direct = Wire::connect(servers[1].port)?;
    let mut lost = Vec::new();
    for key in &all {
        if holds(&mut direct, *key)? {
            lost.push(*key);
        }
    }
    drop(direct);
    let kept: Vec<usize> = all.iter().copied().filter(|key| !lost.contains(key)).collect();
    if lost.is_empty() || kept.is_empty() {
        return fail(format!("the proxy spread no keys: {} and {}", lost.len(), kept.len()));
    }
    let stopped = servers.remove(1);
    let stopped_port = stopped.port;
    let load = std::thread::spawn(move || load(port));
    std::thread::sleep(Duration::from_millis(200));
    drop(stopped);
    for _ in 0..5 {
        kept.iter().try_for_each(|key| set(&mut wire, *key))?;
        multiget(&mut wire, &kept)?;
    }
    servers.push(bench.options.server.start_at(stopped_port, "-m 64")?);
    let mut back = Wire::connect(port)?;
    let started = Instant::now();
    while let Err(failure) = lost.iter().try_for_each(|key| set(&mut back, *key)) {
        if started.elapsed() > Duration::from_secs(10) {
            return fail(format!("the server came back, but not for the proxy: {failure}"));
        }
        std::thread::sleep(Duration::from_millis(100));
        back = Wire::connect(port)?;
    }
    multiget(&mut back, &all)?;
    let requests = match load.join() {
        Ok(outcome) => outcome?,
        Err(_) => return fail("the load's thread panicked"),
    };
    drop(proxy);
    let (lost, kept) = (lost.len(), kept.len());
    Ok(Ended::Passed(format!("{lost} keys stopped, {kept} stayed, {requests} requests of load")))
}

/// Sets and gets for two seconds; answers for the stopped server's keys may be errors, never wrong.
fn load(port: u16) -> Result<usize> {
    let (started, mut requests) = (Instant::now(), 0);
    let mut wire = Wire::connect(port)?;
    while started.elapsed() < Duration::from_secs(2) {
        let key = requests % 1000;
        let reply = wire.ask(&format!("set load:{key} 0 0 3\r\nabc\r\n"), "\n")?;
        if reply != "STORED\r\n" && !reply.starts_with("SERVER_ERROR") {
            return fail(format!("a set under load answered {reply:?}"));
        }
        let reply = wire.ask(&format!("get load:{key}\r\n"), "\n")?;
        let known = ["VALUE", "END", "SERVER_ERROR"].iter().any(|word| reply.starts_with(word));
        if reply.starts_with("VALUE") && !reply.ends_with("END\r\n") {
            wire.read_until(0, b"END\r\n")?;
        }
        if !known {
            return fail(format!("a get under load answered {reply:?}"));
        }
        requests += 2;
    }
    Ok(requests)
}
