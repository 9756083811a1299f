//! twemproxy in front of three servers: many keys through it, one server stopped under load and
//! started again.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::server::{FOLDER, Server, free_port};
use super::wire::Wire;
use super::{Bench, Ended};
use crate::command::{Run, find};
use crate::{Result, fail};

const KEYS: usize = 600;

/// A running proxy; dropping it kills it.
pub struct Proxy(Child);

impl Proxy {
    /// A proxy that was started and shall listen on this port, as soon as it does.
    pub fn listening(name: &str, child: Child, port: u16) -> Result<Self> {
        let proxy = Self(child);
        let started = Instant::now();
        while Wire::connect(port).is_err() {
            if started.elapsed() > Duration::from_secs(5) {
                return fail(format!("{name} does not listen"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(proxy)
    }

    /// Tells it to read its configuration again.
    pub fn reload(&self) -> Result {
        let kill = Run::new("kill -HUP").arg(self.0.id().to_string());
        kill.capture(Duration::from_secs(5)).map(drop)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(servers: &[Server]) -> Result<Option<(Proxy, u16)>> {
    start_with("twemproxy", |port| {
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

/// Starts twemproxy with the configuration that `text` makes of the port that it shall listen on;
/// returns it with this port, or nothing where it is not installed.
pub fn start_with(name: &str, text: impl Fn(u16) -> String) -> Result<Option<(Proxy, u16)>> {
    let Some(program) = find("nutcracker") else {
        return Ok(None);
    };
    let (port, stats) = (free_port()?, free_port()?);
    let path = format!("{FOLDER}/{name}.yml");
    std::fs::write(&path, text(port))?;
    let log = format!("{FOLDER}/{name}.log");
    let child = Command::new(program)
        .args(["-c", &path, "-o", &log, "-a", "127.0.0.1", "-s", &stats.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(Some((Proxy::listening("twemproxy", child, port)?, port)))
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

/// Whether a server holds a key, asked without the proxy.
fn holds(wire: &mut Wire, key: usize) -> Result<bool> {
    let reply = wire.ask(&format!("get proxied:{key}\r\n"), "END\r\n")?;
    Ok(reply == found(key) + "END\r\n")
}

/// Reads keys a hundred at a time; the proxy gathers their replies from all servers.
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

/// The scenario.
pub fn check(bench: &Bench) -> Result<Ended> {
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

/// Sets and gets for two seconds; answers of the stopped server's keys may be errors, never wrong.
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
