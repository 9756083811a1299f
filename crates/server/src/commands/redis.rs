//! Redis' commands: the same items as memcached's, under Redis' names, rules and words.
//!
//! ```text
//! plan: words -> Lookup (the table's entry, hashes of keys)
//! execute: arity, keys -> the entry's function -> a reply, or an error in Redis' words
//!                             |
//!                             +-> again in another session, or when flash was read
//! ```
//!
//! A command may be executed again from its start: the engine asks for another session, an item has
//! to be read from flash first, or the replies so far have to be written. A command of many keys
//! keeps its [`Progress`] in the [`Client`], whose next command it still is then.
//!
//! A change that depends on the present item observes it, prepares its replacement, and enters that
//! if no other thread was faster; otherwise it looks again.

mod amend;
mod client;
mod config;
mod connection;
mod counters;
mod deadline;
mod expiry;
mod info;
mod introspection;
mod kept;
mod keys;
mod ranges;
mod scan;
mod set;
mod strings;
mod table;
mod transaction;

use std::borrow::Cow;

use larder::{Ahead, Hash, Refusal, Session};
use protocol::resp::{self, Command, Words, reply};

use super::{Again, Context, Flow, Outcome};
use crate::connection::Close;
use crate::output::Output;
use crate::plan::{Action, Step};
use crate::rights::{self, Rights};
use crate::users::FAILURES_MAX;

pub use client::Client;
pub use scan::{Found, Listing, Listings};
#[cfg(test)]
pub use table::TABLE;
pub use table::{Entry, Keys, Lookup};
pub use transaction::Queue;

/// The longest key that the engine takes.
const KEY_BYTES_MAX: usize = protocol::request::KEY_BYTES_MAX;

const TOO_LARGE: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const UNKNOWN_CLIENT: &str = "NOAUTH Authentication required.";
const READ_ONLY: &str = "NOPERM this user has no permissions to run the ";
const BAD_KEY: &str = "ERR a key is 1 to 250 bytes here";
/// Bytes charged for each key of a command, and each command of a transaction, beside its reply: a
/// turn has some eight thousand, which take milliseconds.
const ONE_OF_MANY_BYTES: usize = 128;
/// Bytes of an unknown name, and of its words, that an error shows.
const SHOWN_BYTES_MAX: usize = 128;

/// The answer of a Redis that is not part of a cluster: clients of clusters show it.
const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";
const SYNTAX: &str = "ERR syntax error";
const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

/// The action of a step of the plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Call<'b> {
    /// Executes a command.
    Command(Command<'b>, Lookup),
    /// Says that a command was longer than the limit.
    TooLarge { bytes_max: usize },
    /// Says that the input is not Redis' protocol, and closes the connection.
    Refused(resp::Refusal),
}

/// The connection's next step after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    /// Executes the next one.
    Next,
    /// Writes the output, then executes the same again.
    Flush,
    /// The connection ends.
    Close,
}

/// Why a command ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stop {
    /// It has to be executed again.
    Again(Again),
    /// It failed with this error, and nothing else is answered.
    Error(Cow<'static, [u8]>),
}

impl From<&'static str> for Stop {
    fn from(text: &'static str) -> Self {
        Self::Error(Cow::Borrowed(text.as_bytes()))
    }
}

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Error(Cow::Owned(text.into_bytes()))
    }
}

/// The result of a command's function.
type Ended = Result<Done, Stop>;

/// The input of a command's function: its context, and its words behind its name.
struct Task<'a, 'h, 'b, 's, 'c> {
    context: &'a Context<'a, 'c>,
    session: &'s Session<'c>,
    client: &'a mut Client,
    /// The command's name as the table has it.
    name: &'static str,
    /// The words that have not been taken yet.
    words: Words<'b>,
    ahead: &'a mut Ahead<'h>,
    /// The position of its keys' hashes, and their number.
    hash_at: usize,
    hashed: usize,
    /// Number of keys that have been taken.
    keys: usize,
}

impl<'b, 's> Task<'_, '_, 'b, 's, '_> {
    /// Takes the next word, which the arity guarantees.
    fn word(&mut self) -> &'b [u8] {
        self.words.next().expect("the number of words was looked at")
    }

    /// Takes the next word as a key, whose value is to be read.
    fn key(&mut self) -> (&'b [u8], Hash) {
        self.next_key(true)
    }

    /// Takes the next word as a key, whose value does not matter.
    fn bare_key(&mut self) -> (&'b [u8], Hash) {
        self.next_key(false)
    }

    fn next_key(&mut self, reads: bool) -> (&'b [u8], Hash) {
        let key = self.word();
        let number = self.keys;
        self.keys += 1;
        if number >= self.hashed {
            return (key, self.context.server.cache.hash(key));
        }
        self.ahead.reach(self.session, self.hash_at + number, reads);
        (key, self.ahead.hashes()[self.hash_at + number])
    }

    /// Takes the next word as a number.
    fn integer(&mut self) -> Result<i64, Stop> {
        resp::number::integer(self.word()).ok_or_else(|| NOT_AN_INTEGER.into())
    }

    /// The protocol version that the client speaks.
    fn version(&self) -> resp::Version {
        self.client.version
    }

    /// The error that a refusal of the engine is to the client.
    fn refused(&self, refusal: Refusal) -> Stop {
        match self.context.settle(refusal) {
            Err(again) => Stop::Again(again),
            Ok(Refusal::TooLarge) => {
                self.context.counters.store_too_large.one();
                TOO_LARGE.into()
            }
            Ok(_) => {
                self.context.counters.store_no_memory.one();
                OUT_OF_MEMORY.into()
            }
        }
    }

    /// Passes over the words that are done, if the command was begun before.
    fn go_on(&mut self) {
        if let Some((rest, keys)) = self.client.progress.behind {
            self.words.go_on(rest);
            self.keys = keys;
        }
    }

    /// Notes that the key taken last, one of many, is done.
    fn advance(&mut self, out: &mut Output<'_, '_>) {
        out.charge(ONE_OF_MANY_BYTES);
        let progress = &mut self.client.progress;
        progress.keys += 1;
        progress.behind = Some((self.words.rest(), self.keys));
    }

    /// Whether a command of many keys has to yield to others before its next one.
    fn must_pause(&self, out: &Output<'_, 's>) -> bool {
        out.is_full() || self.session.is_long()
    }

    /// The error of a wrong number of words that the arity does not catch.
    fn wrong_number(&self) -> Stop {
        wrong_number(self.name)
    }
}

/// Executes one step.
pub fn execute<'s, 'c>(
    context: &Context<'_, 'c>,
    session: &'s Session<'c>,
    client: &mut Client,
    step: &mut Step<'_>,
    ahead: &mut Ahead<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let Action::Redis(call) = step.action else {
        unreachable!("a client of Redis' protocol sends nothing else");
    };
    let (command, lookup) = match call {
        Call::Command(command, lookup) => (command, lookup),
        Call::TooLarge { bytes_max } => {
            context.counters.store_too_large.one();
            client.spoil_queue();
            client.end_command();
            say_error(context, too_large("command", bytes_max).as_bytes(), out);
            return Ok(Flow::Next);
        }
        Call::Refused(refusal) => {
            context.counters.redis_errors.one();
            reply::refusal(out.bytes, refusal);
            return Ok(Flow::Close(Close::Normal));
        }
    };
    let mut room = Vec::new();
    let command = command.unquoted(&mut room);
    let entry = lookup.entry(command, client.progress.is_begun());
    let entry = entry.and_then(|entry| check_length(context, entry, command).map(|()| entry));
    let permitted = match entry {
        Ok(entry) if client.rights != Rights::All => {
            check_rights(client, entry, command).map(|()| entry)
        }
        found => found,
    };
    let ended = match permitted {
        Ok(entry) if client.queue.is_some() && entry.waits_for_exec() => {
            transaction::enqueue(context, client, entry, command, out)
        }
        Ok(entry) => {
            let mut words = command.words();
            words.next();
            let (hash_at, hashed, keys) = (step.hash_at, lookup.hashed, 0);
            let name = entry.name;
            let mut task =
                Task { context, session, client, name, words, ahead, hash_at, hashed, keys };
            (entry.run)(&mut task, out)
        }
        Err(stop) => {
            client.spoil_queue();
            Err(transaction::refused(client, command, stop))
        }
    };
    end(context, client, ended, out)
}

/// Whether a command is short enough. One of many keys is executed a part at a time, so it may be
/// as long as the limit of kept bytes; all others are executed in one turn.
fn check_length(
    context: &Context<'_, '_>,
    entry: &Entry,
    command: Command<'_>,
) -> Result<(), Stop> {
    let bytes_max = context.server.parked.short_command_bytes_max();
    if command.bytes() <= bytes_max || entry.keys.are_many() {
        return Ok(());
    }
    context.counters.store_too_large.one();
    Err(too_large("command", bytes_max).into())
}

/// The error of a command, or of a transaction, that is too long.
fn too_large(what: &str, bytes_max: usize) -> String {
    format!("ERR {what} has more than {bytes_max} bytes")
}

/// Whether a client with limited rights may execute a command.
#[cold]
fn check_rights(client: &Client, entry: &Entry, command: Command<'_>) -> Result<(), Stop> {
    if client.rights == Rights::None {
        return if entry.is_for_anybody() { Ok(()) } else { Err(UNKNOWN_CLIENT.into()) };
    }
    match rights::redis_change(entry, command) {
        None => Ok(()),
        Some(name) => Err(format!("{READ_ONLY}'{name}' command").into()),
    }
}

/// The flow that a command's end means for its connection.
fn end<'c>(
    context: &Context<'_, 'c>,
    client: &mut Client,
    ended: Ended,
    out: &mut Output<'_, '_>,
) -> Outcome<'c> {
    let flow = match ended {
        Ok(Done::Flush) => return Ok(Flow::Flush),
        Err(Stop::Again(again)) => return Err(again),
        Ok(Done::Next) => Flow::Next,
        Ok(Done::Close) => Flow::Close(Close::Normal),
        Err(Stop::Error(text)) => {
            say_error(context, &text, out);
            if client.failures < FAILURES_MAX { Flow::Next } else { Flow::Close(Close::Normal) }
        }
    };
    client.end_command();
    context.counters.cmd_redis.one();
    Ok(flow)
}

/// Answers with an error.
fn say_error(context: &Context<'_, '_>, text: &[u8], out: &mut Output<'_, '_>) {
    context.counters.redis_errors.one();
    reply::error(out.bytes, text);
}

/// The error of a command with too few or too many words.
fn wrong_number(name: &str) -> Stop {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// The error of a name that is not in the table.
fn unknown(command: Command<'_>) -> Stop {
    let mut words = command.words();
    let name = words.next().unwrap_or_default();
    if name.eq_ignore_ascii_case(b"cluster") {
        return NO_CLUSTER.into();
    }
    let mut text = b"ERR unknown command '".to_vec();
    text.extend(shown(name, SHOWN_BYTES_MAX));
    text.extend_from_slice(b"', with args beginning with: ");
    let begin = text.len();
    for word in words {
        let said = text.len() - begin;
        if said >= SHOWN_BYTES_MAX {
            break;
        }
        text.push(b'\'');
        text.extend(shown(word, SHOWN_BYTES_MAX - said));
        text.extend_from_slice(b"' ");
    }
    Stop::Error(Cow::Owned(text))
}

/// Answers `HELP` of a command with subcommands.
fn help(name: &str, subcommands: &str, out: &mut Output<'_, '_>) {
    let name = name.to_ascii_uppercase();
    reply::array(out.bytes, 2);
    let first = format!("{name} <subcommand> [<arg> [value] ...]. Subcommands are:");
    reply::simple(out.bytes, &first);
    reply::simple(out.bytes, subcommands);
}

/// The subcommands of a command, in lower case, with their minimum and maximum number of words.
type Subcommands = [(&'static str, usize, usize)];

/// The subcommand that a client means, if it may have this many words.
fn subcommand(
    name: &str,
    word: &[u8],
    words: usize,
    known: &Subcommands,
) -> Result<&'static str, Stop> {
    let is_meant =
        |(name, ..): &&(&'static str, usize, usize)| name.as_bytes().eq_ignore_ascii_case(word);
    match known.iter().find(is_meant) {
        None => Err(unknown_subcommand(name, word)),
        Some((found, least, most)) if (*least..=*most).contains(&words) => Ok(found),
        Some((found, ..)) => Err(wrong_number(&format!("{name}|{found}"))),
    }
}

/// The error of an unknown subcommand.
fn unknown_subcommand(name: &str, subcommand: &[u8]) -> Stop {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend(shown(subcommand, SHOWN_BYTES_MAX));
    text.extend_from_slice(format!("'. Try {} HELP.", name.to_ascii_uppercase()).as_bytes());
    Stop::Error(Cow::Owned(text))
}

/// The error of an unknown word, with the text around it.
fn unknown_word(before: &str, word: &[u8], after: &str) -> Stop {
    let mut text = before.as_bytes().to_vec();
    text.extend(shown(word, word.len()));
    text.extend_from_slice(after.as_bytes());
    Stop::Error(Cow::Owned(text))
}

/// A word as an error shows it: like a C string, and without bytes that would end the line.
fn shown(word: &[u8], bytes_max: usize) -> impl Iterator<Item = u8> {
    let text = word.iter().take(bytes_max).take_while(|&&byte| byte != 0);
    text.map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte })
}
