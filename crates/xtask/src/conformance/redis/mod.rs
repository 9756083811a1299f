//! Redis' protocol against Debian's redis-server: random sequences of commands, in both versions,
//! from the suite's seed. Intended differences are in `differs`, with their reasons.

pub mod clients;
mod generate;
mod replies;
pub mod users;

use std::path::Path;

use super::server::{Server, free_port};
use super::wire::Wire;
use super::{Bench, Ended};
use crate::random::{Random, ticket};
use crate::{Result, fail};

use generate::{Command, command, command_of_transactions};
use replies::split;

/// The server to compare with.
const REFERENCE: &str = "/usr/bin/redis-server";

/// The most commands of one sequence.
const COMMANDS_MAX: usize = 30;

/// One sequence is played here per this many of the text protocol.
const SEQUENCES_SHARE: usize = 4;

/// After this many differences the remaining sequences tell nothing new.
const DIFFERENCES_MAX: usize = 5;

/// Starts a server that speaks Redis' protocol besides memcached's.
pub fn start(bench: &Bench, options: &str) -> Result<(Server, u16)> {
    let port = free_port()?;
    let server = bench.options.server.start(&format!("{options} --redis-port {port}"))?;
    Ok((server, port))
}

/// Encodes a command as clients send it.
pub fn packed(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Plays the sequences.
pub fn random(bench: &Bench) -> Result<Ended> {
    if !Path::new(REFERENCE).is_file() {
        return Ok(Ended::NotRun(format!("there is no {REFERENCE}")));
    }
    let reference = Server::start_redis(REFERENCE)?;
    let (_server, subject) = start(bench, "-m 64")?;
    let mut random = Random::new(bench.options.seed);
    let sequences = bench.options.sequences / SEQUENCES_SHARE;
    let (mut compared, mut differences) = (0, Vec::new());
    for number in 0..sequences {
        let version = 2 + number % 2;
        let count = 1 + random.below(COMMANDS_MAX);
        let command = if random.once_in(3) { command_of_transactions } else { command };
        let commands: Vec<Command> = (0..count).map(|_| command(&mut random)).collect();
        compared += commands.len();
        if let Some(words) = difference(reference.port, subject, version, &commands)? {
            differences.push(format!("sequence {number}, RESP{version}: {words}"));
            if differences.len() >= DIFFERENCES_MAX {
                break;
            }
        }
    }
    if differences.is_empty() {
        return Ok(Ended::Passed(format!("{compared} commands in {sequences} sequences")));
    }
    fail(format!("{} differ\n  {}", differences.len(), differences.join("\n  ")))
}

/// Returns the first command of a sequence that is answered differently, if there is one.
fn difference(
    reference: u16,
    subject: u16,
    version: usize,
    commands: &[Command],
) -> Result<Option<String>> {
    let [wanted, got] = [reference, subject].map(|port| play(port, version, commands));
    let (wanted, got) = (wanted?, got?);
    let (wanted, got) = (split(&wanted)?, split(&got)?);
    if wanted.len() != got.len() {
        return Ok(Some(format!("{} replies, not {}", got.len(), wanted.len())));
    }
    // The replies to the commands around the sequence come first and last.
    let pairs = wanted.iter().zip(&got).skip(2);
    let mut queued = Vec::new();
    for (place, (command, (wanted, got))) in commands.iter().zip(pairs).enumerate() {
        if command.is("multi") && wanted.starts_with(b"+") {
            queued.clear();
        }
        if *wanted == b"+QUEUED\r\n" {
            queued.push(command);
        }
        let is_different = match command.is("exec") && wanted.starts_with(b"*") {
            true => differ(&queued, wanted, got)?,
            false => differs(command, wanted, got),
        };
        if !is_different {
            continue;
        }
        let before: Vec<String> = commands[..=place].iter().map(Command::show).collect();
        let text = |reply: &[u8]| reply[..reply.len().min(200)].escape_ascii().to_string();
        return Ok(Some(format!(
            "{}\n    wanted {}\n    got    {}",
            before.join(" ; "),
            text(wanted),
            text(got)
        )));
    }
    Ok(None)
}

/// Returns whether EXEC's reply to these commands differs more than it may.
fn differ(queued: &[&Command], wanted: &[u8], got: &[u8]) -> Result<bool> {
    let count = format!("*{}\r\n", queued.len());
    let (Some(wanted), Some(got)) =
        (wanted.strip_prefix(count.as_bytes()), got.strip_prefix(count.as_bytes()))
    else {
        return Ok(true);
    };
    let (wanted, got) = (split(wanted)?, split(got)?);
    let mut pairs = wanted.iter().zip(&got);
    let is_other =
        |command: &&Command| pairs.next().is_none_or(|(wanted, got)| differs(command, wanted, got));
    Ok(wanted.len() != got.len() || queued.iter().any(is_other))
}

/// Returns whether a reply differs more than it may. Times may be two seconds apart, since the two
/// servers do not read the clock at the same time.
fn differs(command: &Command, wanted: &[u8], got: &[u8]) -> bool {
    if wanted == got {
        return false;
    }
    let Some(apart_max) = command.times_apart_max() else {
        return true;
    };
    let number = |reply: &[u8]| -> Option<i64> {
        str::from_utf8(reply.strip_prefix(b":")?).ok()?.trim_end().parse().ok()
    };
    match (number(wanted), number(got)) {
        (Some(wanted), Some(got)) if wanted >= 0 && got >= 0 => wanted.abs_diff(got) > apart_max,
        _ => true,
    }
}

/// Sends a sequence after a reset, and reads up to the reply of a last command.
fn play(port: u16, version: usize, commands: &[Command]) -> Result<Vec<u8>> {
    let mut wire = Wire::connect(port)?;
    let last = format!("end{}", ticket());
    // The order of a map has no meaning: the reply to HELLO is not compared.
    let hello = format!("HELLO {version}\r\nFLUSHALL\r\n");
    let mut bytes = hello.into_bytes();
    for command in commands {
        command.write(&mut bytes);
    }
    // Within a transaction the last command would be queued as well.
    bytes.extend_from_slice(format!("DISCARD\r\nPING {last}\r\n").as_bytes());
    wire.send(&bytes)?;
    let end = format!("${}\r\n{last}\r\n", last.len());
    if !wire.read_until(0, end.as_bytes())? {
        let said = wire.received.escape_ascii().to_string();
        let sent: Vec<String> = commands.iter().map(Command::show).collect();
        let sent = sent.join(" ; ");
        return fail(format!("port {port} closed the connection behind {said} for {sent}"));
    }
    Ok(wire.received)
}
