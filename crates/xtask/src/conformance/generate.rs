//! Random conversations: sequences of commands over four keys. Half of them are one command at a
//! time with CAS uniques that the server handed out, a quarter pipelined up to the next arithmetic,
//! and a quarter such writes of damaged commands. Both servers get the same; a difference is shrunk
//! by leaving commands out for as long as it stays.

use super::Tally;
use super::case::{Case, Part, Step, escape, parts, prefix};
use super::differential::Pair;
use super::exchange::{Replies, length, play, render};
use super::normal::{Uniques, same};
use super::wire::shorten;
use crate::Result;
use crate::random::Random;

const COMMANDS_MAX: usize = 24;
/// After this many differences the rest of the sequences tells nothing new.
const DIFFERENCES_MAX: usize = 10;

/// A command: its parts, sent as one.
type Command = Vec<Part>;

/// Plays the sequences and counts each as one.
pub fn sequences(pair: &Pair, tally: &mut Tally) -> Result {
    let mut random = Random::new(pair.options.seed);
    for number in 0..pair.options.sequences {
        let pipelined = number % 2 == 0;
        let count = 1 + random.below(COMMANDS_MAX);
        let mut commands: Vec<Command> =
            (0..count).map(|_| command(&mut random, !pipelined)).collect();
        let damaged = number % 4 == 0;
        if damaged {
            for command in &mut commands {
                if random.once_in(4) {
                    *command = damage(&mut random, std::mem::take(command));
                }
            }
        }
        if damaged && !pair.newer {
            tally.done(damaged_alike(pair, &mut random, number, commands)?);
            continue;
        }
        if differ(pair, &commands, pipelined)?.is_none() {
            tally.done(None);
            continue;
        }
        while let Some(fewer) = shrunk(pair, &commands, pipelined)? {
            commands = fewer;
        }
        let replies = differ(pair, &commands, pipelined)?.unwrap_or_default();
        tally.done(Some(describe(number, &commands, &replies)));
        if tally.failures.len() >= DIFFERENCES_MAX {
            break;
        }
    }
    Ok(())
}

/// Damaged commands are where memcached's versions differ most, so Debian's is no reference for
/// them. The server is compared with itself instead: the same bytes in one write, and cut in two.
fn damaged_alike(
    pair: &Pair,
    random: &mut Random,
    number: usize,
    commands: Vec<Command>,
) -> Result<Option<String>> {
    if !pair.larder {
        // memcached forgets the replies before some errors when they come in one write.
        return Ok(None);
    }
    let steps = commands.iter().cloned().map(Step::Send).collect();
    let case = Case::new("damaged".to_string(), steps);
    let place = 1 + random.below(length(&case).max(2) - 1);
    let whole = play(pair.subject, &case, &prefix(), None)?;
    let cut = play(pair.subject, &case, &prefix(), Some(place))?;
    if same(&whole, &cut) {
        return Ok(None);
    }
    let text = describe(number, &commands, &(whole, cut));
    Ok(Some(format!("cut at byte {place} (first row: in one write), {text}")))
}

fn describe(number: usize, commands: &[Command], replies: &Replies) -> String {
    let mut text = format!("sequence {number}, shrunk to {} commands:", commands.len());
    for command in commands {
        let bytes = render(command, "$k", &Uniques::default());
        text.push_str(&format!("\n    send {}", shorten(&escape(&bytes))));
    }
    let (left, right) = (escape(&replies.0), escape(&replies.1));
    text.push_str(&format!("\n    memcached {}", shorten(&left)));
    text.push_str(&format!("\n    server    {}", shorten(&right)));
    text
}

fn differ(pair: &Pair, commands: &[Command], pipelined: bool) -> Result<Option<Replies>> {
    let mut steps = Vec::new();
    for command in commands {
        if pipelined && is_arithmetic(command) {
            steps.push(Step::Sync);
        }
        steps.push(Step::Send(command.clone()));
        if !pipelined {
            steps.push(Step::Sync);
        }
    }
    let replies = pair.replies(&Case::new("random".to_string(), steps))?;
    Ok((!same(&replies.0, &replies.1)).then_some(replies))
}

/// memcached rewrites a number in place, padded with spaces, except while a reply that it has not
/// written yet holds the item: then the number gets an item of its own. So the replies are read
/// before arithmetic.
fn is_arithmetic(command: &Command) -> bool {
    let Some(Part::Bytes(bytes)) = command.first() else {
        return false;
    };
    [&b"incr "[..], b"decr ", b"ma "].iter().any(|verb| bytes.starts_with(verb))
}

/// The sequence without one of its commands, where the difference stays.
fn shrunk(pair: &Pair, commands: &[Command], pipelined: bool) -> Result<Option<Vec<Command>>> {
    for index in 0..commands.len() {
        let mut fewer = commands.to_vec();
        fewer.remove(index);
        if differ(pair, &fewer, pipelined)?.is_some() {
            return Ok(Some(fewer));
        }
    }
    Ok(None)
}

const KEYS: &[&str] = &["$ka", "$kb", "$kc", "$kd"];
/// The key that is sent in base64, too. memcached forgets the form when it appends or counts, and
/// then sends the bare bytes of a binary key; Larder keeps it, so this key is left alone there.
const BINARY_KEY: &str = "$kd";
/// The others.
const TEXT_KEYS: &[&str] = &["$ka", "$kb", "$kc"];
const EXPIRIES: &[&str] = &["0", "0", "0", "100", "-1", "2592000"];
const NUMBERS: &[&str] =
    &["0", "1", "5", "10", "99", "18446744073709551615", "18446744073709551616", "-1", "x", "7x"];
const VALUES: &[&str] =
    &["", "5", "10", "abc", "99999999999999999999", "12 ", "a\\r\\nb", "${x:600}"];

fn command(random: &mut Random, captured: bool) -> Command {
    let text = match random.below(14) {
        0..=3 => storage(random, captured),
        4 => format!("{} {}\\r\\n", random.pick(&["get", "gets"]), keys(random)),
        5 => {
            let expiry = random.pick(EXPIRIES);
            format!("{} {expiry} {}\\r\\n", random.pick(&["gat", "gats"]), keys(random))
        }
        6 => format!("delete {}{}\\r\\n", random.pick(KEYS), noreply(random)),
        7 | 8 => {
            let (verb, number) = (random.pick(&["incr", "decr"]), random.pick(NUMBERS));
            format!("{verb} {} {number}{}\\r\\n", random.pick(TEXT_KEYS), noreply(random))
        }
        9 => format!("touch {} {}\\r\\n", random.pick(KEYS), random.pick(EXPIRIES)),
        10 => meta(
            random,
            "mg",
            &["c", "f", "h", "k", "O12", "q", "s", "t", "v", "T50", "N40", "R90"],
        ),
        11 => meta_set(random, captured),
        12 => meta(random, "md", &["I T40", "k", "Oab", "q", "b"]),
        _ => {
            let flags = ["N60 J12", "D3", "MD", "MI", "M+", "M-", "Oxy", "t", "c", "v", "k", "T70"];
            meta(random, "ma", &flags)
        }
    };
    // The tables above hold no unknown escape or placeholder.
    parts(&text).unwrap_or_default()
}

fn noreply(random: &mut Random) -> &'static str {
    if random.once_in(5) { " noreply" } else { "" }
}

fn keys(random: &mut Random) -> String {
    let count = 1 + random.below(3);
    let keys: Vec<&str> = (0..count).map(|_| random.pick(KEYS)).collect();
    keys.join(" ")
}

fn value(random: &mut Random) -> (usize, &'static str) {
    let value = random.pick(VALUES);
    let bytes = parts(value).map(|parts| render(&parts, "", &Uniques::default()).len());
    (bytes.unwrap_or(0), value)
}

fn unique(random: &mut Random, captured: bool) -> String {
    if captured { format!("${{cas:{}}}", 1 + random.below(6)) } else { "4000000000".to_string() }
}

fn storage(random: &mut Random, captured: bool) -> String {
    let verb = random.pick(&["set", "set", "set", "add", "replace", "append", "prepend", "cas"]);
    let keys = if matches!(verb, "append" | "prepend") { TEXT_KEYS } else { KEYS };
    let (key, expiry) = (random.pick(keys), random.pick(EXPIRIES));
    let flags = random.pick(&["0", "0", "7", "4294967295"]);
    let (bytes, value) = value(random);
    let unique = match verb {
        "cas" => format!(" {}", unique(random, captured)),
        _ => String::new(),
    };
    let noreply = noreply(random);
    format!("{verb} {key} {flags} {expiry} {bytes}{unique}{noreply}\\r\\n{value}\\r\\n")
}

/// Some of these flags, in random order.
fn flags(random: &mut Random, choices: &[&str]) -> String {
    let mut left = choices.to_vec();
    let mut text = String::new();
    for _ in 0..random.below(5) {
        if left.is_empty() {
            break;
        }
        let flag = left.swap_remove(random.below(left.len()));
        let letter = flag.chars().next();
        left.retain(|other| other.chars().next() != letter);
        text.push(' ');
        text.push_str(flag);
    }
    text
}

fn meta_key(random: &mut Random, flags: &str, keys: &[&'static str]) -> String {
    if flags.split(' ').any(|flag| flag == "b") {
        return BINARY_KEY.replace("$k", "${b:") + "}";
    }
    random.pick(keys).to_string()
}

fn meta(random: &mut Random, verb: &str, choices: &[&str]) -> String {
    let flags = flags(random, choices);
    let keys = if verb == "ma" { TEXT_KEYS } else { KEYS };
    format!("{verb} {}{flags}\\r\\n", meta_key(random, &flags, keys))
}

fn meta_set(random: &mut Random, captured: bool) -> String {
    let unique = format!("C{}", unique(random, captured));
    let choices =
        ["c", "F9", "I", "k", "Opq", "q", "T80", "T0", "ME", "MA", "MP", "MR", "MS", "b", &unique];
    let mut flags = flags(random, &choices);
    if flags.contains("MA") || flags.contains("MP") {
        flags = flags.replace(" b", "");
    }
    let (bytes, value) = value(random);
    let key = meta_key(random, &flags, TEXT_KEYS);
    format!("ms {key} {bytes}{flags}\\r\\n{value}\\r\\n")
}

/// The command with a byte or two changed, added or lost. The conversation's own part of a key
/// stays: without it, conversations would share a key.
fn damage(random: &mut Random, command: Command) -> Command {
    const BYTES: &[u8] = b" \r\n0019azA-+\0\x7f\xff$,";
    let mut units: Vec<Part> = Vec::new();
    for part in command {
        match part {
            Part::Bytes(bytes) => units.extend(bytes.iter().map(|byte| Part::Bytes(vec![*byte]))),
            other => units.push(other),
        }
    }
    for _ in 0..1 + random.below(2) {
        let at = random.below(units.len().max(1));
        let byte = Part::Bytes(vec![random.pick(BYTES)]);
        let may_go = matches!(units.get(at), Some(Part::Bytes(_)));
        match random.below(3) {
            0 if may_go => drop(units.remove(at)),
            1 if may_go => units[at] = byte,
            _ => units.insert(at.min(units.len()), byte),
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generated_command_has_parts() {
        let mut random = Random::new(1);
        for captured in [false, true] {
            for _ in 0..2000 {
                assert!(!command(&mut random, captured).is_empty());
            }
        }
    }
}
