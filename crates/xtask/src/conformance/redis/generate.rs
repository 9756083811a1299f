//! Random Redis commands: mostly as clients send them, sometimes with a word too many, too few, or
//! of another kind.
//!
//! Left out is everything that the two servers answer differently on purpose: COST, which Redis
//! does not know; keys of more than 250 bytes and empty ones; values beyond the item limit; decimal
//! numbers that are not sums of eighths or very large, which Redis shows as the binary numbers that
//! it adds; replies that depend on where keys lie (SCAN, RANDOMKEY), on when memory was cleaned
//! (DBSIZE), and on the configuration (CONFIG, INFO, COMMAND, CLIENT, SELECT of other databases);
//! and commands that one of them does not know.

use crate::random::Random;

/// A command as words.
pub struct Command {
    words: Vec<Vec<u8>>,
    is_inline: bool,
}

const KEYS: [&str; 4] = ["a", "b", "key:3", "a longer key with spaces"];

/// A placeholder for one word of a pattern.
#[derive(Clone, Copy)]
enum Word {
    Key,
    /// A key of decimal numbers.
    DecimalKey,
    Value,
    /// A value that is seldom valid.
    Odd,
    Integer,
    Offset,
    Decimal,
    Seconds,
    Milliseconds,
    UnixSeconds,
    UnixMilliseconds,
    /// Options of SET, any of them.
    SetOptions,
    /// An option of GETEX.
    GetexOption,
    /// An option of EXPIRE.
    ExpireOption,
    /// A few more keys.
    Keys,
    /// A few more keys with values.
    Pairs,
}

use Word::{
    Decimal, DecimalKey, ExpireOption, GetexOption, Integer, Key, Keys, Milliseconds, Odd, Offset,
    Pairs, Seconds, SetOptions, UnixMilliseconds, UnixSeconds, Value,
};

const COMMANDS: &[(&str, &[Word])] = &[
    ("get", &[Key]),
    ("get", &[Key]),
    ("set", &[Key, Value]),
    ("set", &[Key, Value, SetOptions]),
    ("set", &[Key, Integer]),
    ("set", &[DecimalKey, Decimal]),
    ("set", &[DecimalKey, Odd]),
    ("get", &[DecimalKey]),
    ("setnx", &[Key, Value]),
    ("setex", &[Key, Seconds, Value]),
    ("psetex", &[Key, Milliseconds, Value]),
    ("getset", &[Key, Value]),
    ("getdel", &[Key]),
    ("getex", &[Key, GetexOption]),
    ("mget", &[Key, Keys]),
    ("mset", &[Key, Value, Pairs]),
    ("msetnx", &[Key, Value, Pairs]),
    ("strlen", &[Key]),
    ("append", &[Key, Value]),
    ("getrange", &[Key, Offset, Offset]),
    ("substr", &[Key, Offset, Offset]),
    ("setrange", &[Key, Offset, Value]),
    ("incr", &[Key]),
    ("decr", &[Key]),
    ("incrby", &[Key, Integer]),
    ("decrby", &[Key, Integer]),
    ("incrbyfloat", &[DecimalKey, Decimal]),
    ("incrbyfloat", &[DecimalKey, Decimal]),
    ("incrby", &[DecimalKey, Offset]),
    ("del", &[Key, Keys]),
    ("unlink", &[Key, Keys]),
    ("exists", &[Key, Keys]),
    ("touch", &[Key, Keys]),
    ("type", &[Key]),
    ("expire", &[Key, Seconds, ExpireOption]),
    ("pexpire", &[Key, Milliseconds, ExpireOption]),
    ("expireat", &[Key, UnixSeconds, ExpireOption]),
    ("pexpireat", &[Key, UnixMilliseconds, ExpireOption]),
    ("persist", &[Key]),
    ("ttl", &[Key]),
    ("pttl", &[Key]),
    ("expiretime", &[Key]),
    ("pexpiretime", &[Key]),
    ("echo", &[Value]),
    ("ping", &[Value]),
    ("auth", &[Value]),
    ("flushall", &[]),
    ("nonsense", &[Value, Value]),
];

/// Draws a command for a client that also sends MULTI. Redis lets it authenticate before EXEC;
/// Larder does not.
pub fn command_of_transactions(random: &mut Random) -> Command {
    if random.once_in(5) {
        let name = random.pick(&["multi", "MULTI", "exec", "EXEC", "discard"]);
        return Command { words: vec![name.into()], is_inline: random.once_in(5) };
    }
    loop {
        let command = command(random);
        if !command.is("auth") {
            return command;
        }
    }
}

/// Draws a command.
pub fn command(random: &mut Random) -> Command {
    let (name, pattern) = random.pick(COMMANDS);
    let name = if random.once_in(3) { name.to_uppercase() } else { name.to_string() };
    let mut words = vec![name.into_bytes()];
    pattern.iter().for_each(|&word| append(random, word, &mut words));
    if random.once_in(20) && words.len() > 1 {
        words.pop();
    }
    if random.once_in(30) {
        words.push(b"more".to_vec());
    }
    let is_decimal = words.get(1).is_some_and(|key| matches!(key.as_slice(), b"f" | b"g"));
    if random.once_in(40) && words.len() > 2 && !is_decimal {
        // The first word behind the name stays, because it is a key.
        let place = 2 + random.below(words.len() - 2);
        words[place] = odd(random);
    }
    let is_plain = |word: &Vec<u8>| {
        !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b':')
    };
    // A line that is too long is refused at a point that depends on how it arrives.
    let is_short = words.iter().map(Vec::len).sum::<usize>() < 1000;
    let is_inline = random.once_in(5) && is_short && words.iter().all(is_plain);
    Command { words, is_inline }
}

/// Draws a word that is seldom valid.
fn odd(random: &mut Random) -> Vec<u8> {
    random.pick(&["x", "-0", "01", "+1", " 1", "9223372036854775808", "1.5", "inf"]).into()
}

fn append(random: &mut Random, word: Word, words: &mut Vec<Vec<u8>>) {
    let text = match word {
        Key => random.pick(&KEYS).to_string(),
        DecimalKey => random.pick(&["f", "g"]).to_string(),
        Odd => random.pick(&["x", "inf", "-inf", "nan", "1e2", " 1", "1 ", "1.5e1"]).to_string(),
        Value => return words.push(value(random)),
        Integer => integer(random).to_string(),
        Offset => (random.below(24) as i64 - 8).to_string(),
        Decimal => format!("{}", (random.below(4000) as f64 - 2000.0) / 8.0),
        Seconds => seconds(random).to_string(),
        Milliseconds => milliseconds(random).to_string(),
        UnixSeconds => random.pick(&[1, 4_000_000_000_i64, 4_000_000_100]).to_string(),
        UnixMilliseconds => random.pick(&[1, 4_000_000_000_000_i64, 4_000_000_000_123]).to_string(),
        SetOptions => return set_options(random, words),
        GetexOption => return getex_option(random, words),
        ExpireOption => {
            for _ in 0..random.below(3) {
                words.push(random.pick(&["NX", "xx", "GT", "lt", "?"]).into());
            }
            return;
        }
        Keys => {
            (0..random.below(4)).for_each(|_| append(random, Key, words));
            return;
        }
        Pairs => {
            for _ in 0..random.below(3) {
                append(random, Key, words);
                append(random, Value, words);
            }
            return;
        }
    };
    words.push(text.into_bytes());
}

fn value(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => Vec::new(),
        1 => b"\r\n$1\r\n".to_vec(),
        2 => vec![b'v'; random.below(300)],
        3 => vec![b'w'; random.below(60_000)],
        4 => integer(random).to_string().into_bytes(),
        _ => (0..random.below(10)).map(|_| random.next() as u8).collect(),
    }
}

fn integer(random: &mut Random) -> i64 {
    match random.below(6) {
        0 => random.pick(&[i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1, 0]),
        _ => random.below(40) as i64 - 20,
    }
}

/// Draws seconds so far in the future, or past, that none expires while a sequence is played.
fn seconds(random: &mut Random) -> i64 {
    match random.below(8) {
        0 => random.pick(&[0, -1, i64::MAX, i64::MIN]),
        _ => random.pick(&[1000, 2000, 5000]),
    }
}

/// Draws milliseconds by the same rule, mostly between two whole seconds.
fn milliseconds(random: &mut Random) -> i64 {
    match seconds(random) {
        seconds @ 1..1_000_000 => seconds * 1000 + random.below(1000) as i64,
        seconds => seconds.saturating_mul(1000),
    }
}

fn set_options(random: &mut Random, words: &mut Vec<Vec<u8>>) {
    for _ in 0..random.below(4) {
        let option = random.pick(&["NX", "xx", "GET", "KEEPTTL", "EX", "px", "EXAT", "PXAT"]);
        words.push(option.into());
        append_time(random, option, words);
    }
}

fn getex_option(random: &mut Random, words: &mut Vec<Vec<u8>>) {
    for _ in 0..random.below(3) {
        let option = random.pick(&["PERSIST", "EX", "px", "EXAT", "PXAT"]);
        words.push(option.into());
        append_time(random, option, words);
    }
}

fn append_time(random: &mut Random, option: &str, words: &mut Vec<Vec<u8>>) {
    let word = match option.to_lowercase().as_str() {
        "ex" => Seconds,
        "px" => Milliseconds,
        "exat" => UnixSeconds,
        "pxat" => UnixMilliseconds,
        _ => return,
    };
    append(random, word, words);
}

impl Command {
    /// Appends the command in its wire form.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        if self.is_inline {
            bytes.extend_from_slice(&self.words.join(&b' '));
            bytes.extend_from_slice(b"\r\n");
            return;
        }
        bytes.extend_from_slice(&super::packed(&self.words));
    }

    /// Returns the command in readable form.
    pub fn show(&self) -> String {
        let word = |word: &Vec<u8>| word[..word.len().min(40)].escape_ascii().to_string();
        self.words.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    /// Returns whether this is its name.
    pub fn is(&self, name: &str) -> bool {
        self.words[0].eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns by how much its reply may differ, if it is a time.
    pub fn times_apart_max(&self) -> Option<u64> {
        match self.words[0].to_ascii_lowercase().as_slice() {
            b"ttl" | b"expiretime" => Some(2),
            b"pttl" | b"pexpiretime" => Some(2000),
            _ => None,
        }
    }
}
