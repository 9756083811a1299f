//! Envoy before several servers, by Redis' protocol, with the configuration in `deploy/`.

use std::path::Path;
use std::process::Command;

use super::Bench;
use super::proxy::Neighbour;
use super::redis;
use super::scale_out::{Front, KEYS, fill};
use super::server::{FOLDER, Server, free_port};
use super::wire::{Wire, shorten};
use crate::install::VENV;
use crate::{Result, fail};

/// The configuration for operators.
const TEMPLATE: &str = "deploy/scale-out/envoy.yaml";

/// Its line with Envoy's address.
const LISTEN: &str = "    address: { socket_address: { address: 127.0.0.1, port_value: 6379 } }\n";

/// The line before the list of servers, which has two lines each.
const LIST: &str = "      - lb_endpoints:\n";

/// Sections that would move the keys of a lost server to others, but not within this test.
const SLOW: [&str; 2] = ["health_checks:", "outlier_detection:"];

/// Envoy's answer for a server that is down.
const DOWN: &str = "-upstream failure\r\n";

/// Envoy's answer to a command that it could not run on all servers.
const REFUSED: &str = "-Fault Injected: Error\r\n";

/// A running Envoy.
pub struct Envoy {
    _neighbour: Neighbour,
    port: u16,
}

impl Front for Envoy {
    const NAME: &'static str = "envoy";

    fn server(bench: &Bench, options: &str) -> Result<(Server, u16)> {
        redis::start(bench, options)
    }

    fn start(servers: &[u16]) -> Result<Option<Self>> {
        let program = Path::new(VENV).join("bin/envoy");
        if !program.is_file() {
            return Ok(None);
        }
        let port = free_port()?;
        let path = format!("{FOLDER}/envoy-{port}.yaml");
        std::fs::write(&path, configuration(port, servers)?)?;
        let mut command = Command::new(program);
        // Two of them with the same base, which is shared memory, cannot run at a time.
        command.args(["--concurrency", "1", "--use-dynamic-base-id", "-l", "warning", "-c", &path]);
        let neighbour = Neighbour::start(Self::NAME, &mut command, port)?;
        Ok(Some(Self { _neighbour: neighbour, port }))
    }

    fn change(self, servers: &[u16]) -> Result<Self> {
        drop(self);
        match Self::start(servers)? {
            Some(envoy) => Ok(envoy),
            None => fail("Envoy was there a moment ago"),
        }
    }

    fn found(&self) -> Result<Vec<usize>> {
        let mut wire = Wire::connect(self.port)?;
        let mut found = Vec::new();
        for key in 0..KEYS {
            let reply = ask(&mut wire, &["GET", &format!("scaled:{key}")])?;
            if reply == format!("${}\r\n{key}\r\n", key.to_string().len()) {
                found.push(key);
            } else if reply != "$-1\r\n" && reply != DOWN {
                return fail(format!("scaled:{key} is {:?}", shorten(&reply)));
            }
        }
        Ok(found)
    }

    fn store(&self, keys: &[usize]) -> Result<Vec<usize>> {
        let mut wire = Wire::connect(self.port)?;
        let mut stored = Vec::new();
        for &key in keys {
            match ask(&mut wire, &["SET", &format!("scaled:{key}"), &key.to_string()])?.as_str() {
                "+OK\r\n" => stored.push(key),
                DOWN => {}
                other => return fail(format!("SET of scaled:{key} is answered {other:?}")),
            }
        }
        Ok(stored)
    }

    /// Checks commands of ordinary users, with keys on all servers.
    fn check(&self, shares: &[Vec<usize>]) -> Result {
        let firsts = Firsts::of(shares);
        let [a, b, c] = firsts.names();
        let unknown = format!("-ERR unknown command 'NONSENSE', with args beginning with: {a}\r\n");
        self.expect(&[
            (&["PING"], "+PONG\r\n"),
            // A client that asks for RESP3 is told to go on in RESP2.
            (&["HELLO", "3"], "-NOPROTO unsupported protocol version\r\n"),
            (&["MSET", a, "1", b, "22", c, "333"], "+OK\r\n"),
            (&["MGET", c, "none", b, a], "*4\r\n$3\r\n333\r\n$-1\r\n$2\r\n22\r\n$1\r\n1\r\n"),
            (&["EXISTS", a, "none", b, c], ":3\r\n"),
            (&["SET", a, "41", "EX", "100"], "+OK\r\n"),
            (&["INCR", a], ":42\r\n"),
            (&["PERSIST", a], ":1\r\n"),
            (&["TTL", a], ":-1\r\n"),
            (&["EXPIRE", a, "1000"], ":1\r\n"),
            (&["PERSIST", a], ":1\r\n"),
            (&["EXPIREAT", b, "4000000000"], ":1\r\n"),
            (&["EXPIRETIME", b], ":4000000000\r\n"),
            (&["PEXPIRETIME", b], ":4000000000000\r\n"),
            (&["NONSENSE", a], &unknown),
            (&["FLUSHALL"], REFUSED),
            (&["FLUSHDB"], REFUSED),
            (&["SCAN", "0"], REFUSED),
            (&["RANDOMKEY"], REFUSED),
            (&["MSETNX", "none", "1"], REFUSED),
            (&["DEL", a, b, "none", c], ":3\r\n"),
            (&["MGET", a, b, c], "*3\r\n$-1\r\n$-1\r\n$-1\r\n"),
        ])?;
        fill(self, &firsts.0)
    }

    /// Checks that each key of the lost server is one error, and that the others are served.
    fn check_lost(&self, shares: &[Vec<usize>]) -> Result {
        let firsts = Firsts::of(shares);
        let [a, b, c] = firsts.names();
        let failed = "-finished with 1 error(s)\r\n";
        self.expect(&[
            (&["MSET", a, "1", b, "22", c, "333"], failed),
            (&["MGET", a, b, c], &format!("*3\r\n$1\r\n1\r\n{DOWN}$3\r\n333\r\n")),
            (&["DEL", a, b, c], failed),
            (&["MGET", a, c], "*2\r\n$-1\r\n$-1\r\n"),
        ])?;
        fill(self, &[firsts.0[0], firsts.0[2]])
    }
}

impl Envoy {
    /// Sends commands, one after the other, and expects these replies.
    fn expect(&self, commands: &[(&[&str], &str)]) -> Result {
        let mut wire = Wire::connect(self.port)?;
        commands.iter().try_for_each(|(words, wanted)| wire.expect(&packed(words), wanted))
    }
}

/// The first key on each of the three servers.
struct Firsts([usize; 3], [String; 3]);

impl Firsts {
    fn of(shares: &[Vec<usize>]) -> Self {
        let keys = [0, 1, 2].map(|place| shares[place][0]);
        Self(keys, keys.map(|key| format!("scaled:{key}")))
    }

    fn names(&self) -> [&str; 3] {
        self.1.each_ref().map(String::as_str)
    }
}

/// Returns the configuration with another port, and with these servers.
fn configuration(port: u16, servers: &[u16]) -> Result<String> {
    let template = std::fs::read_to_string(TEMPLATE)?;
    let (head, list) = template.split_once(LIST).unwrap_or_default();
    let mut lines = list.lines();
    let (Some(address), Some(name)) = (lines.next(), lines.next()) else {
        return fail(format!("{TEMPLATE} has no list of servers"));
    };
    let has_form = head.contains(LISTEN)
        && lines.count() == 4
        && address.contains("10.0.0.1, port_value: 6379")
        && name.contains("larder-1");
    if !has_form {
        return fail(format!("{TEMPLATE} has another form than this part expects"));
    }
    let is_slow = |line: &str| SLOW.iter().any(|word| line.trim_start().starts_with(word));
    if let Some(line) = template.lines().find(|line| is_slow(line)) {
        return fail(format!("{TEMPLATE} has {:?}, which makes keys go elsewhere", line.trim()));
    }
    let mut text = head.replace(LISTEN, &LISTEN.replace("6379", &port.to_string())) + LIST;
    for (place, server) in servers.iter().enumerate() {
        let address = address.replace("10.0.0.1", "127.0.0.1");
        let address = address.replace("6379", &server.to_string());
        let name = name.replace("larder-1", &format!("larder-{}", place + 1));
        text.push_str(&format!("{address}\n{name}\n"));
    }
    Ok(text)
}

/// Encodes a command as clients send it.
fn packed(words: &[&str]) -> String {
    String::from_utf8_lossy(&redis::packed(words)).into_owned()
}

/// Asks for a status or one value.
fn ask(wire: &mut Wire, words: &[&str]) -> Result<String> {
    let reply = wire.ask(&packed(words), "\n")?;
    let bytes = reply.strip_prefix('$').and_then(|rest| rest.split("\r\n").next()?.parse().ok());
    let Some(bytes): Option<usize> = bytes else { return Ok(reply) };
    let line = reply.find('\n').map_or(0, |end| end + 1);
    if !wire.read_bytes(line + bytes + 2)? {
        return fail(format!("closed within the answer to {words:?}"));
    }
    Ok(String::from_utf8_lossy(&wire.received).into_owned())
}
