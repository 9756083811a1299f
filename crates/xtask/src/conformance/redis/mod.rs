//! Redis' protocol against Debian's redis-server: random sequences of commands, in both versions,
//! from the suite's seed. What is meant to differ stands in `differs`, with its reason.

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

/// Commands of one sequence.
const COMMANDS_MAX: usize = 30;

/// Of so many sequences that the suite plays of text, one is played here.
const SEQUENCES_SHARE: usize = 4;

/// After this many differences the rest of the sequences tells nothing new.
const DIFFERENCES_MAX: usize = 5;

/// A server that speaks Redis' protocol beside memcached's.
pub fn start(bench: &Bench, options: &str) -> Result<(Server, u16)> {
    let port = free_port()?;
    let server = bench.options.server.start(&format!("{options} --redis-port {port}"))?;
    Ok((server, port))
}

/// A command as clients send it.
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

/// The first command of a sequence that is answered differently, if there is one.
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
    // The replies to what surrounds the sequence come first and last.
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

/// Whether what EXEC returns of these commands is other than it may be.
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

/// Whether a reply is other than it may be. Times are two seconds apart at the most, since the two
/// servers do not look at the clock at the same time.
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

/// Sends a sequence behind a fresh start, and reads up to the reply of a last command.
fn play(port: u16, version: usize, commands: &[Command]) -> Result<Vec<u8>> {
    let mut wire = Wire::connect(port)?;
    let last = format!("end{}", ticket());
    // Maps have an order that says nothing: what HELLO answers is not looked at.
    let hello = format!("HELLO {version}\r\nFLUSHALL\r\n");
    let mut bytes = hello.into_bytes();
    for command in commands {
        command.write(&mut bytes);
    }
    // Within a transaction the last command would wait as well.
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
