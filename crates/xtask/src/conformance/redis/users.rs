//! Users, against Debian's redis-server: which commands are writes, how they are refused to a
//! read-only user, and how little a client may send before it authenticates.

use std::path::Path;

use super::replies::split;
use super::{REFERENCE, start};
use crate::conformance::server::{FOLDER, Server};
use crate::conformance::wire::Wire;
use crate::conformance::{Bench, Ended};
use crate::{Result, fail};

/// The file of users for Larder; Redis gets the same ones.
const LARDER_USERS: &str = "default:secret\n[read-only]\nann:reads\n";
const REDIS_USERS: &str = "ACL SETUSER ann on >reads ~* +@all -@write -@admin -@dangerous\r\n\
                           CONFIG SET requirepass secret\r\n";

/// Commands missing from Redis' table: the names of HTTP, which no client sends, and Larder's own.
const NO_COMMANDS: [&str; 3] = ["post", "host:", "flushprefix"];

/// A command of the server under test.
struct Command {
    name: String,
    /// The least number of words, its name included.
    words: usize,
    is_write: bool,
}

/// Runs the comparison.
pub fn check(bench: &Bench) -> Result<Ended> {
    if !Path::new(REFERENCE).is_file() {
        return Ok(Ended::NotRun(format!("there is no {REFERENCE}")));
    }
    let reference = Server::start_redis(REFERENCE)?;
    Wire::connect(reference.port)?.ask(REDIS_USERS, "+OK\r\n+OK\r\n")?;
    std::fs::create_dir_all(FOLDER)?;
    let file = format!("{FOLDER}/redis-users.txt");
    std::fs::write(&file, LARDER_USERS)?;
    let (_server, subject) = start(bench, &format!("-m 64 -Y {file}"))?;
    let ports = [reference.port, subject];
    let commands = commands(ports)?;
    let mut sequences = strangers();
    sequences.extend(commands.iter().filter(|command| command.is_write).map(|command| {
        let line = format!("{}{}\r\n", command.name, " a".repeat(command.words - 1));
        format!("AUTH ann reads\r\n{line}GET a\r\nQUIT\r\n").into_bytes()
    }));
    for sequence in &sequences {
        let [wanted, got] = ports.map(|port| play(port, sequence));
        let (wanted, got) = (wanted?, got?);
        if wanted != got {
            let show = |bytes: &[u8]| bytes[..bytes.len().min(200)].escape_ascii().to_string();
            let (wanted, got) = (show(&wanted), show(&got));
            return fail(format!("{}\n  wanted {wanted}\n  got    {got}", show(sequence)));
        }
    }
    let (commands, sequences) = (commands.len(), sequences.len());
    Ok(Ended::Passed(format!("flags of {commands} commands, {sequences} sequences")))
}

/// Sends a sequence after which the server closes the connection, and returns the replies.
fn play(port: u16, sequence: &[u8]) -> Result<Vec<u8>> {
    let mut wire = Wire::connect(port)?;
    wire.send(sequence)?;
    wire.read_to_end()?;
    Ok(wire.received)
}

/// Returns the commands of the server under test; fails unless the other one has the same flags.
fn commands(ports: [u16; 2]) -> Result<Vec<Command>> {
    let list = play(ports[1], b"AUTH secret\r\nCOMMAND LIST\r\nQUIT\r\n")?;
    let text = String::from_utf8_lossy(&list).into_owned();
    let names = text.split("\r\n").filter(|line| !line.starts_with(['+', '*', '$']));
    let mut commands = Vec::new();
    for name in names.filter(|name| !name.is_empty() && !NO_COMMANDS.contains(name)) {
        let ask = format!("AUTH secret\r\nCOMMAND INFO {name}\r\nQUIT\r\n");
        let [wanted, got] = ports.map(|port| play(port, ask.as_bytes()).map(|said| facts(&said)));
        let (wanted, got) = (wanted??, got??);
        if wanted != got {
            return fail(format!("{name}: wanted {wanted:?}, got {got:?}"));
        }
        let (words, is_write, _) = got;
        commands.push(Command { name: name.to_owned(), words, is_write });
    }
    if commands.is_empty() {
        return fail(format!("no command in {text:?}"));
    }
    Ok(commands)
}

/// Returns a command's least number of words, and whether it has the flag of a write, and that of a
/// read.
fn facts(said: &[u8]) -> Result<(usize, bool, bool)> {
    let replies = split(said)?;
    let Some(info) = replies.get(1) else { return fail("COMMAND INFO is not answered") };
    let text = String::from_utf8_lossy(info);
    let mut lines = text.split("\r\n");
    let number = lines.find_map(|line| line.strip_prefix(':')?.parse::<i64>().ok());
    let Some(number) = number else { return fail(format!("no number of words in {text:?}")) };
    let has = |flag: &str| text.split("\r\n").any(|line| line == flag);
    Ok((number.unsigned_abs() as usize, has("+write"), has("+readonly")))
}

/// Returns sequences of an unauthenticated client, up to the limits and beyond.
fn strangers() -> Vec<Vec<u8>> {
    let bulk = |bytes: usize| format!("${bytes}\r\n{}\r\n", "x".repeat(bytes));
    let auth = "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n";
    let many = "*12\r\n$6\r\nEXISTS\r\n".to_owned() + &bulk(1).repeat(11);
    let long = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n".to_owned() + &bulk(20_000);
    let texts = [
        "GET a\r\nPING\r\nSET a 1\r\nQUIT\r\n".to_owned(),
        "*11\r\n".to_owned(),
        "*2147483648\r\n".to_owned(),
        "*2\r\n$3\r\nGET\r\n$16385\r\n".to_owned(),
        "*2\r\n$3\r\nGET\r\n$-1\r\n".to_owned(),
        "*2\r\n$4\r\nAUTH\r\n".to_owned() + &bulk(16_384) + "QUIT\r\n",
        "*10\r\n$6\r\nEXISTS\r\n".to_owned() + &bulk(1).repeat(9) + "QUIT\r\n",
        "EXISTS ".to_owned() + &"a ".repeat(1000) + "\r\nQUIT\r\n",
        // An authenticated client has no such limits, in the same write.
        auth.to_owned() + &many + &long + "DEL a\r\nQUIT\r\n",
        // After RESET they apply again.
        auth.to_owned() + "RESET\r\nGET a\r\n*11\r\n",
        "AUTH ann wrong\r\nAUTH ann reads\r\nGET a\r\nQUIT\r\n".to_owned(),
    ];
    texts.map(String::into_bytes).into()
}
