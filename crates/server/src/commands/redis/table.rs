//! The table of commands: dispatch, arity, the places of keys, the answers of COMMAND, and the
//! table in `docs/redis.md` come from it.
//!
//! The names that make up most requests come first: a name is looked for from the top.

use protocol::resp::{Command, Words};

use super::{
    BAD_KEY, Ended, KEY_BYTES_MAX, Stop, Task, config, connection, counters, expiry, info,
    introspection, keys, ranges, scan, set, strings, subcommand, transaction, unknown,
    wrong_number,
};
use crate::output::Output;

/// The function that executes a command.
type Run =
    for<'a, 'h, 'b, 's, 'c, 'o> fn(&mut Task<'a, 'h, 'b, 's, 'c>, &mut Output<'o, 's>) -> Ended;

/// A command.
pub struct Entry {
    /// Its name, in lower case.
    pub name: &'static str,
    /// Its number of words, the name included; if negative, the least number.
    pub arity: i64,
    /// Its flags, in Redis' words.
    pub flags: &'static [&'static str],
    /// The places of its keys.
    pub keys: Keys,
    /// Its group in Redis' documentation.
    pub group: &'static str,
    /// The version of Redis that first had it.
    pub since: &'static str,
    /// A summary of it.
    pub summary: &'static str,
    /// Executes it.
    pub(super) run: Run,
}

/// The places of a command's keys among its words, its name being word 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    /// The first; 0 if there is none.
    pub first: usize,
    /// The last; negative, counted from the last word, which is -1.
    pub last: i64,
    /// The distance from one to the next.
    pub step: usize,
}

impl Entry {
    /// Whether an unauthenticated client may use it.
    pub(super) fn is_for_anybody(&self) -> bool {
        self.flags.contains(&"no_auth")
    }

    /// Whether clients are told of it: words that browsers send are no Redis commands.
    pub(super) fn is_listed(&self) -> bool {
        !self.since.is_empty()
    }

    /// Checks that a command of this entry names one of its subcommands, with a number of words
    /// that it may have.
    pub(super) fn check_subcommand(&self, command: Command<'_>) -> Result<(), Stop> {
        let known = match self.name {
            "client" => connection::CLIENT,
            "config" => config::CONFIG,
            "command" => introspection::COMMAND,
            _ => return Ok(()),
        };
        let mut words = command.words().skip(1);
        let Some(word) = words.next() else { return Ok(()) };
        subcommand(self.name, word, words.count(), known).map(|_| ())
    }

    /// Whether it is queued until EXEC when its client has said MULTI.
    pub(super) fn waits_for_exec(&self) -> bool {
        self.group != "transactions" && !["quit", "reset", "post", "host:"].contains(&self.name)
    }
}

impl Keys {
    const NONE: Self = Self { first: 0, last: 0, step: 0 };
    const ONE: Self = Self { first: 1, last: 1, step: 1 };
    const ALL: Self = Self { first: 1, last: -1, step: 1 };
    const PAIRS: Self = Self { first: 1, last: -1, step: 2 };

    /// Whether their number is unbounded.
    pub fn are_many(self) -> bool {
        self.last < 0
    }

    /// The keys among a plain command's words.
    pub fn of(self, command: Command<'_>) -> impl Iterator<Item = &[u8]> {
        let end = match self.last {
            0.. => self.last as usize + 1,
            before => (command.count() + 1).saturating_sub(before.unsigned_abs() as usize),
        };
        let words = if self.first == 0 { None } else { Some(command.words()) };
        let count = end.saturating_sub(self.first);
        let words = words.into_iter().flat_map(|words: Words<'_>| words);
        words.skip(self.first).take(count).step_by(self.step.max(1))
    }
}

/// The command that a client means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lookup {
    /// Its place in the table.
    number: Option<usize>,
    /// The number of its keys that were hashed ahead.
    pub hashed: usize,
}

impl Lookup {
    /// Looks up the name of a plain command. The words of others are not known yet.
    pub fn of(command: Command<'_>) -> Self {
        let number = if command.is_plain() { number_of(command) } else { None };
        // A command that will be refused needs no hashes.
        let number = number.filter(|&number| has_arity(&TABLE[number], command));
        Self { number, hashed: 0 }
    }

    /// The command's name, as far as it is known.
    pub fn name(&self) -> Option<&'static str> {
        self.number.map(|number| TABLE[number].name)
    }

    /// The places of the keys that can be hashed ahead.
    pub fn keys(&self) -> Keys {
        self.number.map_or(Keys::NONE, |number| TABLE[number].keys)
    }

    /// Whether the client may lose rights by it. True of a command whose words are not known yet.
    pub fn may_reset(&self, command: Command<'_>) -> bool {
        self.number.map_or(!command.is_plain(), |number| number == RESET)
    }

    /// The command, if it can be executed. The keys of one that was begun before have been checked
    /// then.
    pub(super) fn entry(
        &self,
        command: Command<'_>,
        is_begun: bool,
    ) -> Result<&'static Entry, Stop> {
        let number = self.number.or_else(|| number_of(command));
        let entry = number.map(|number| &TABLE[number]).ok_or_else(|| unknown(command))?;
        if !has_arity(entry, command) {
            return Err(wrong_number(entry.name));
        }
        let is_key = |key: &[u8]| (1..=KEY_BYTES_MAX).contains(&key.len());
        if !is_begun && !entry.keys.of(command).all(is_key) {
            return Err(BAD_KEY.into());
        }
        Ok(entry)
    }
}

fn has_arity(entry: &Entry, command: Command<'_>) -> bool {
    let count = command.count() as i64;
    if entry.arity < 0 { count >= -entry.arity } else { count == entry.arity }
}

fn number_of(command: Command<'_>) -> Option<usize> {
    let name = command.words().next()?;
    find(name)
}

/// The place of a name in the table.
pub(super) fn find(name: &[u8]) -> Option<usize> {
    TABLE.iter().position(|entry| entry.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The place of RESET in the table.
const RESET: usize = place_of("reset");

/// The place of a name in the table, for the compiler.
const fn place_of(name: &str) -> usize {
    let mut number = 0;
    while !is_same(TABLE[number].name.as_bytes(), name.as_bytes()) {
        number += 1;
    }
    number
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut place = 0;
    while place < one.len() && place < other.len() && one[place] == other[place] {
        place += 1;
    }
    place == one.len() && place == other.len()
}

const READ: &[&str] = &["readonly", "fast"];
const READ_SLOW: &[&str] = &["readonly"];
const WRITE: &[&str] = &["write", "denyoom", "fast"];
const WRITE_SLOW: &[&str] = &["write", "denyoom"];
const CHANGE: &[&str] = &["write", "fast"];
const CHANGE_SLOW: &[&str] = &["write"];
const LINK: &[&str] = &["noscript", "loading", "stale", "fast"];
const LOGIN: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth"];
const EXEC: &[&str] = &["noscript", "loading", "stale", "skip_slowlog"];
const ADMIN: &[&str] = &["admin", "noscript", "loading", "stale"];
const SERVER: &[&str] = &["loading", "stale"];

/// Declares a command in one line.
macro_rules! entries {
    ($($name:literal $arity:literal $flags:ident $keys:ident $group:literal $since:literal
        $run:path, $summary:literal;)*) => {
        &[$(Entry {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: Keys::$keys,
            group: $group,
            since: $since,
            summary: $summary,
            run: $run,
        },)*]
    };
}

/// The commands.
#[rustfmt::skip]
pub const TABLE: &[Entry] = entries! {
    "get" 2 READ ONE "string" "1.0.0" strings::get,
        "Returns the value of a key.";
    "set" -3 WRITE_SLOW ONE "string" "1.0.0" set::set,
        "Stores a value, with conditions and an expiry if asked for.";
    "mget" -2 READ ALL "string" "1.0.0" strings::mget,
        "Returns the values of several keys.";
    "del" -2 CHANGE_SLOW ALL "generic" "1.0.0" keys::del,
        "Removes keys.";
    "incr" 2 WRITE ONE "string" "1.0.0" counters::incr,
        "Adds one to a whole number.";
    "expire" -3 CHANGE ONE "generic" "1.0.0" expiry::expire,
        "Lets a key end after seconds.";
    "ttl" 2 READ ONE "generic" "1.0.0" expiry::ttl,
        "Returns the seconds that a key still has.";
    "exists" -2 READ ALL "generic" "1.0.0" keys::exists,
        "Counts how many of the keys are there.";
    "setex" 4 WRITE_SLOW ONE "string" "2.0.0" set::setex,
        "Stores a value that ends after seconds.";
    "ping" -1 LINK NONE "connection" "1.0.0" connection::ping,
        "Returns PONG, or what it is given.";
    "append" 3 WRITE ONE "string" "2.0.0" ranges::append,
        "Adds to the end of a value.";
    "decr" 2 WRITE ONE "string" "1.0.0" counters::decr,
        "Subtracts one from a whole number.";
    "decrby" 3 WRITE ONE "string" "1.0.0" counters::decrby,
        "Subtracts from a whole number.";
    "expireat" -3 CHANGE ONE "generic" "1.2.0" expiry::expireat,
        "Lets a key end at a second of Unix time.";
    "expiretime" 2 READ ONE "generic" "7.0.0" expiry::expiretime,
        "Returns the second of Unix time at which a key ends.";
    "getdel" 2 CHANGE ONE "string" "6.2.0" strings::getdel,
        "Returns the value of a key and removes it.";
    "getex" -2 CHANGE ONE "string" "6.2.0" strings::getex,
        "Returns the value of a key and changes its expiry.";
    "getrange" 4 READ_SLOW ONE "string" "2.4.0" ranges::getrange,
        "Returns a part of a value.";
    "getset" 3 WRITE ONE "string" "1.0.0" set::getset,
        "Stores a value and returns the one before.";
    "incrby" 3 WRITE ONE "string" "1.0.0" counters::incrby,
        "Adds to a whole number.";
    "incrbyfloat" 3 WRITE ONE "string" "2.6.0" counters::incrbyfloat,
        "Adds to a decimal number.";
    "mset" -3 WRITE_SLOW PAIRS "string" "1.0.1" set::mset,
        "Stores several values.";
    "msetnx" -3 WRITE_SLOW PAIRS "string" "1.0.1" set::msetnx,
        "Stores several values if none of the keys is there.";
    "persist" 2 CHANGE ONE "generic" "2.2.0" expiry::persist,
        "Takes a key's expiry away.";
    "pexpire" -3 CHANGE ONE "generic" "2.6.0" expiry::pexpire,
        "Lets a key end after milliseconds.";
    "pexpireat" -3 CHANGE ONE "generic" "2.6.0" expiry::pexpireat,
        "Lets a key end at a millisecond of Unix time.";
    "pexpiretime" 2 READ ONE "generic" "7.0.0" expiry::pexpiretime,
        "Returns the millisecond of Unix time at which a key ends.";
    "psetex" 4 WRITE_SLOW ONE "string" "2.6.0" set::psetex,
        "Stores a value that ends after milliseconds.";
    "pttl" 2 READ ONE "generic" "2.6.0" expiry::pttl,
        "Returns the milliseconds that a key still has.";
    "setnx" 3 WRITE ONE "string" "1.0.0" set::setnx,
        "Stores a value if the key is not there.";
    "setrange" 4 WRITE_SLOW ONE "string" "2.2.0" ranges::setrange,
        "Writes over a part of a value.";
    "strlen" 2 READ ONE "string" "2.2.0" strings::strlen,
        "Returns the length of a value.";
    "substr" 4 READ_SLOW ONE "string" "1.0.0" ranges::getrange,
        "Returns a part of a value.";
    "touch" -2 READ ALL "generic" "3.2.1" keys::touch,
        "Counts as an access to keys.";
    "type" 2 READ ONE "generic" "1.0.0" keys::kind,
        "Returns string, or none.";
    "unlink" -2 CHANGE ALL "generic" "4.0.0" keys::del,
        "Removes keys.";
    "dbsize" 1 READ NONE "server" "1.0.0" keys::dbsize,
        "Counts the keys.";
    "flushall" -1 CHANGE_SLOW NONE "server" "1.0.0" keys::flush,
        "Removes everything, of memcached's clients too.";
    "flushdb" -1 CHANGE_SLOW NONE "server" "1.0.0" keys::flush,
        "Removes everything, of memcached's clients too.";
    "flushprefix" 2 CHANGE_SLOW NONE "server" "-" keys::flush_prefix,
        "Removes all keys with a prefix; Larder's own.";
    "keys" 2 READ_SLOW NONE "generic" "1.0.0" scan::keys,
        "Lists the keys that fit a pattern.";
    "randomkey" 1 READ_SLOW NONE "generic" "1.0.0" scan::randomkey,
        "Returns some key.";
    "scan" -2 READ_SLOW NONE "generic" "2.8.0" scan::scan,
        "Lists keys, a part at a time.";
    "auth" -2 LOGIN NONE "connection" "1.0.0" connection::auth,
        "Says who the client is.";
    "client" -2 SERVER NONE "connection" "2.4.0" connection::client,
        "ID, INFO, GETNAME, SETNAME, SETINFO, NO-EVICT.";
    "echo" 2 LINK NONE "connection" "1.0.0" connection::echo,
        "Returns what it is given.";
    "hello" -1 LOGIN NONE "connection" "6.0.0" connection::hello,
        "Chooses the version of the protocol.";
    "quit" -1 LOGIN NONE "connection" "1.0.0" connection::quit,
        "Closes the connection.";
    "reset" 1 LOGIN NONE "connection" "6.2.0" connection::reset,
        "Forgets what the client has said of itself.";
    "select" 2 LINK NONE "connection" "1.0.0" connection::select,
        "Accepts database 0.";
    "multi" 1 LINK NONE "transactions" "1.2.0" transaction::multi,
        "Keeps the commands that follow until EXEC.";
    "exec" 1 EXEC NONE "transactions" "1.2.0" transaction::exec,
        "Executes what came since MULTI.";
    "discard" 1 LINK NONE "transactions" "2.0.0" transaction::discard,
        "Forgets what came since MULTI.";
    "command" -1 SERVER NONE "server" "2.8.13" introspection::command,
        "Describes the commands.";
    "config" -2 ADMIN NONE "server" "2.0.0" config::config,
        "GET, RESETSTAT.";
    "info" -1 SERVER NONE "server" "1.0.0" info::info,
        "Statistics under Redis' names.";
    "time" 1 LINK NONE "server" "2.6.0" keys::time,
        "Returns the server's Unix time.";
    "post" -1 LOGIN NONE "server" "" connection::quit_silently,
        "Closes the connection: the client speaks HTTP.";
    "host:" -1 LOGIN NONE "server" "" connection::quit_silently,
        "Closes the connection: the client speaks HTTP.";
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of `docs/redis.md`.
    fn documented() -> String {
        let mut text = String::from("| command | group | since | |\n| --- | --- | --- | --- |\n");
        for entry in TABLE.iter().filter(|entry| entry.is_listed()) {
            let Entry { group, since, summary, .. } = entry;
            let name = entry.name.to_uppercase();
            text.push_str(&format!("| `{name}` | {group} | {since} | {summary} |\n"));
        }
        text
    }

    #[test]
    fn the_page_about_redis_has_this_table() {
        let page = include_str!("../../../../../docs/redis.md");
        let table = documented();
        assert!(page.contains(&table), "docs/redis.md should have this table:\n{table}");
    }

    #[test]
    fn names_are_small_and_stand_once() {
        for (number, entry) in TABLE.iter().enumerate() {
            assert_eq!(find(entry.name.to_uppercase().as_bytes()), Some(number), "{}", entry.name);
            assert_eq!(entry.name, entry.name.to_lowercase());
            let Keys { first, last, step } = entry.keys;
            assert!((first == 0) == (step == 0) && (first == 0) == (last == 0), "{}", entry.name);
            // A command with the fewest words allowed has its first key.
            assert!(entry.arity.unsigned_abs() as usize > first, "{}", entry.name);
        }
    }
}
