//! Random conversations: sequences of commands over four keys, one command at a time with CAS
//! uniques that the server handed out, or pipelined, or pipelined with damaged commands (`Kind`).
//! What answers differently is shrunk by leaving commands out for as long as it stays different.

use std::collections::BTreeSet;

use super::Tally;
use super::case::{Case, Part, Step, base64, escape, parts, prefix};
use super::differential::Pair;
use super::exchange::{Replies, length, play, render};
use super::normal::{Uniques, same};
use super::wire::{Wire, parting, shorten};
use crate::Result;
use crate::random::Random;

const COMMANDS_MAX: usize = 24;
/// The longest key.
const KEY_BYTES_MAX: usize = 250;
/// After this many differences the rest of the sequences tells nothing new.
const DIFFERENCES_MAX: usize = 10;

/// A command: its parts, sent as one.
type Command = Vec<Part>;

/// What is done with a sequence.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Every reply is read before the next command is sent.
    OneByOne,
    /// Commands go out together up to the next arithmetic; then all together, to the server alone,
    /// which must answer the same.
    Pipelined,
    /// Some commands are damaged. The server answers the same to one write and to two. Debian's
    /// memcached is no reference here: damaged commands are where its version differs most from
    /// the one that Larder follows. A newer one is.
    Damaged,
}

/// One way to play a sequence twice.
struct Trial<'a> {
    pair: &'a Pair<'a>,
    kind: Kind,
    /// Where a damaged sequence is cut, of a million.
    cut_millionths: usize,
}

/// Two streams of replies that should be the same, with the names of who sent them.
struct Difference {
    names: [&'static str; 2],
    replies: Replies,
}

/// Plays the sequences and counts each as one.
pub fn sequences(pair: &Pair, tally: &mut Tally) -> Result {
    let mut random = Random::new(pair.options.seed);
    for number in 0..pair.options.sequences {
        let kind = match number % 4 {
            0 => Kind::Damaged,
            2 => Kind::Pipelined,
            _ => Kind::OneByOne,
        };
        let (trial, mut commands) = sequence(pair, kind, &mut random);
        let Some(mut difference) = trial.difference(&commands)? else {
            tally.done(None);
            continue;
        };
        while let Some((fewer, still)) = trial.shrunk(&commands)? {
            (commands, difference) = (fewer, still);
        }
        tally.done(Some(describe(number, &commands, &difference)));
        if tally.failures.len() >= DIFFERENCES_MAX {
            break;
        }
    }
    Ok(())
}

/// A sequence of this kind.
fn sequence<'a>(pair: &'a Pair, kind: Kind, random: &mut Random) -> (Trial<'a>, Vec<Command>) {
    let count = 1 + random.below(COMMANDS_MAX);
    let choice = Choice { captured: kind == Kind::OneByOne, reforms: random.once_in(2) };
    let mut commands: Vec<Command> = (0..count).map(|_| command(random, choice)).collect();
    let counts = random.once_in(2);
    if kind == Kind::Damaged {
        // Those that a newer memcached sees hold no arithmetic: see `is_arithmetic`.
        commands.retain(|command| counts || !is_arithmetic(command));
        for command in &mut commands {
            if random.once_in(4) {
                *command = damage(random, std::mem::take(command));
            }
        }
    }
    (Trial { pair, kind, cut_millionths: random.below(1_000_000) }, commands)
}

impl Trial<'_> {
    /// Where the sequence is answered in two ways.
    fn difference(&self, commands: &[Command]) -> Result<Option<Difference>> {
        let pair = self.pair;
        let steps = commands.iter().cloned().map(Step::Send).collect();
        let one_write = Case::new("random".to_string(), steps);
        if self.kind == Kind::Damaged {
            if pair.larder {
                let place = 1 + length(&one_write) * self.cut_millionths / 1_000_000;
                let whole = alone(pair.subject, &one_write, commands, None)?;
                let cut = alone(pair.subject, &one_write, commands, Some(place))?;
                if !same(&whole, &cut) {
                    let names = ["in one write", "in two"];
                    return Ok(Some(Difference { names, replies: (whole, cut) }));
                }
            }
            if !pair.newer || commands.iter().any(is_arithmetic) {
                return Ok(None);
            }
            let reference = alone(pair.reference, &one_write, commands, None)?;
            let subject = alone(pair.subject, &one_write, commands, None)?;
            return Ok(unlike(["memcached", "server"], reference, subject));
        }
        let synced = Case::new("random".to_string(), self.synced(commands));
        let (reference, subject) = pair.replies(&synced)?;
        if self.kind == Kind::Pipelined && pair.larder && same(&reference, &subject) {
            let whole = play(pair.subject, &one_write, &prefix(), None)?;
            return Ok(unlike(["read between", "in one write"], subject, whole));
        }
        Ok(unlike(["memcached", "server"], reference, subject))
    }

    /// The steps of a conversation whose replies are read where it needs them.
    fn synced(&self, commands: &[Command]) -> Vec<Step> {
        let mut steps = Vec::new();
        for command in commands {
            if self.kind == Kind::Pipelined && is_arithmetic(command) {
                steps.push(Step::Sync);
            }
            steps.push(Step::Send(command.clone()));
            if self.kind == Kind::OneByOne {
                steps.push(Step::Sync);
            }
        }
        steps
    }

    /// The sequence without one of its commands, where a difference stays.
    fn shrunk(&self, commands: &[Command]) -> Result<Option<(Vec<Command>, Difference)>> {
        for index in 0..commands.len() {
            let mut fewer = commands.to_vec();
            fewer.remove(index);
            if let Some(difference) = self.difference(&fewer)? {
                return Ok(Some((fewer, difference)));
            }
        }
        Ok(None)
    }
}

fn unlike(names: [&'static str; 2], left: Vec<u8>, right: Vec<u8>) -> Option<Difference> {
    (!same(&left, &right)).then_some(Difference { names, replies: (left, right) })
}

/// Plays damaged commands on a server that holds none of their keys. A damaged key may lack the
/// conversation's prefix: a byte and a space put before it make that byte the key. Such a key is
/// the same in every conversation, and what one stores there the next would find.
fn alone(port: u16, case: &Case, commands: &[Command], cut: Option<usize>) -> Result<Vec<u8>> {
    let prefix = prefix();
    let mut bytes = Vec::new();
    for command in commands {
        bytes.extend_from_slice(&render(command, &prefix, &Uniques::default()));
    }
    Wire::connect(port)?.ask_bytes(&forget_strays(&bytes, &prefix), b"MN\r\n")?;
    play(port, case, &prefix, cut)
}

/// Commands that delete every word without the prefix, as a key and as a key in base64.
fn forget_strays(bytes: &[u8], prefix: &str) -> Vec<u8> {
    let own = |word: &[u8]| {
        let holds = |part: &[u8]| word.windows(part.len()).any(|window| window == part);
        holds(prefix.as_bytes()) || holds(base64(prefix.as_bytes()).as_bytes())
    };
    let mut words = BTreeSet::new();
    for word in bytes.split(|byte| matches!(byte, b' ' | b'\n')) {
        words.insert(word);
        // The end of a line may belong to the word, and a zero byte ends a line for Debian's.
        words.insert(word.strip_suffix(b"\r").unwrap_or(word));
        words.extend(word.split(|byte| *byte == 0).next());
    }
    let mut text = Vec::new();
    for word in words {
        if (1..=KEY_BYTES_MAX).contains(&word.len()) && !own(word) {
            text.extend([b"delete ", word, b" \r\nmd ", word, b" b\r\n"].concat());
        }
    }
    text.extend_from_slice(b"mn\r\n");
    text
}

fn describe(number: usize, commands: &[Command], difference: &Difference) -> String {
    let mut text = format!("sequence {number}, shrunk to {} commands:", commands.len());
    for command in commands {
        let bytes = render(command, "$k", &Uniques::default());
        text.push_str(&format!("\n    send {}", shorten(&escape(&bytes))));
    }
    let Difference { names: [one, other], replies: (left, right) } = difference;
    let (at, left, right) = parting(left, right);
    text.push_str(&format!("\n    from byte {at} on"));
    for (name, bytes) in [(one, left), (other, right)] {
        text.push_str(&format!("\n    {name:12} {}", shorten(&escape(bytes))));
    }
    text
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

const KEYS: &[&str] = &["$ka", "$kb", "$kc", "$kd"];
/// The key that is sent in base64, too.
const BINARY_KEY: &str = "${b:d}";
/// The others.
const TEXT_KEYS: &[&str] = &["$ka", "$kb", "$kc"];

/// What the commands of a sequence may do.
#[derive(Clone, Copy)]
struct Choice {
    /// Name CAS uniques that the server handed out.
    captured: bool,
    /// Append to the key that is sent in base64, count there, and make its item by `mg ... N`.
    /// Then memcached forgets that the key was base64, 1.6.18 and 1.6.45 alike: after
    /// `ms <base64> 1 b` with `9` and `ma <base64> b`, `mg <base64> b k` shows the bare key, which
    /// may hold any byte. Larder keeps the form (`meta/an append to a binary key` and its
    /// neighbours in the list of deviations). So in these sequences no `mg` asks for the key; in
    /// the others it does, and memcached has no occasion to forget.
    reforms: bool,
}

impl Choice {
    /// The keys that may be appended to and counted at.
    fn growing_keys(self) -> &'static [&'static str] {
        if self.reforms { KEYS } else { TEXT_KEYS }
    }
}
const EXPIRIES: &[&str] = &["0", "0", "0", "100", "-1", "2592000"];
const NUMBERS: &[&str] =
    &["0", "1", "5", "10", "99", "18446744073709551615", "18446744073709551616", "-1", "x", "7x"];
const VALUES: &[&str] =
    &["", "5", "10", "abc", "99999999999999999999", "12 ", "a\\r\\nb", "${x:600}"];

fn command(random: &mut Random, choice: Choice) -> Command {
    let text = match random.below(14) {
        0..=3 => storage(random, choice),
        4 => format!("{} {}\\r\\n", random.pick(&["get", "gets"]), keys(random)),
        5 => {
            let expiry = random.pick(EXPIRIES);
            format!("{} {expiry} {}\\r\\n", random.pick(&["gat", "gats"]), keys(random))
        }
        6 => format!("delete {}{}\\r\\n", random.pick(KEYS), noreply(random)),
        7 | 8 => {
            let (verb, number) = (random.pick(&["incr", "decr"]), random.pick(NUMBERS));
            format!(
                "{verb} {} {number}{}\\r\\n",
                random.pick(choice.growing_keys()),
                noreply(random)
            )
        }
        9 => format!("touch {} {}\\r\\n", random.pick(KEYS), random.pick(EXPIRIES)),
        10 => meta_get(random, choice),
        11 => meta_set(random, choice),
        12 => meta(random, "md", &["I T40", "k", "Oab", "q", "b"], KEYS),
        _ => {
            let flags =
                ["N60 J12", "D3", "MD", "MI", "M+", "M-", "Oxy", "t", "c", "v", "k", "T70", "b"];
            let known = flags.len() - usize::from(!choice.reforms);
            meta(random, "ma", &flags[..known], choice.growing_keys())
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

fn storage(random: &mut Random, choice: Choice) -> String {
    let verb = random.pick(&["set", "set", "set", "add", "replace", "append", "prepend", "cas"]);
    let grows = matches!(verb, "append" | "prepend");
    let keys = if grows { choice.growing_keys() } else { KEYS };
    let (key, expiry) = (random.pick(keys), random.pick(EXPIRIES));
    let flags = random.pick(&["0", "0", "7", "4294967295"]);
    let (bytes, value) = value(random);
    let unique = match verb {
        "cas" => format!(" {}", unique(random, choice.captured)),
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

fn meta_key(random: &mut Random, flags: &str, keys: &[&'static str]) -> &'static str {
    if flags.split(' ').any(|flag| flag == "b") { BINARY_KEY } else { random.pick(keys) }
}

fn meta(random: &mut Random, verb: &str, choices: &[&str], keys: &[&'static str]) -> String {
    let flags = flags(random, choices);
    format!("{verb} {}{flags}\\r\\n", meta_key(random, &flags, keys))
}

fn meta_get(random: &mut Random, choice: Choice) -> String {
    let choices = ["c", "f", "h", "b", "O12", "q", "s", "t", "v", "T50", "N40", "R90", "k"];
    let shown = choices.len() - usize::from(choice.reforms);
    let mut flags = flags(random, &choices[..shown]);
    if !choice.reforms && flags.contains(" b") {
        flags = flags.replace(" N40", "");
    }
    format!("mg {}{flags}\\r\\n", meta_key(random, &flags, KEYS))
}

fn meta_set(random: &mut Random, choice: Choice) -> String {
    let unique = format!("C{}", unique(random, choice.captured));
    let choices =
        ["c", "F9", "I", "k", "Opq", "q", "T80", "T0", "ME", "MA", "MP", "MR", "MS", "b", &unique];
    let mut flags = flags(random, &choices);
    let grows = flags.contains("MA") || flags.contains("MP");
    if grows && !choice.reforms {
        flags = flags.replace(" b", "");
    }
    let keys = if grows { choice.growing_keys() } else { KEYS };
    let (bytes, value) = value(random);
    let key = meta_key(random, &flags, keys);
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

    /// A damaged sequence used to store under the key `\\x00`, which it found again when it was
    /// played cut in two.
    #[test]
    fn words_that_other_conversations_may_send_are_forgotten() {
        let sent = b"ma \0 k00000001b N60\r\nset azAwMDAwMDAxZA== \xffx\0y\r\r\n";
        let text = forget_strays(sent, "k00000001");
        let holds = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
        for key in [&b"\0"[..], b"ma", b"N60", b"\xffx", b"\xffx\0y\r"] {
            assert!(holds(&[b"delete ", key, b" \r\n"].concat()), "{key:?}");
            assert!(holds(&[b"md ", key, b" b\r\n"].concat()), "{key:?}");
        }
        assert!(!holds(b"k00000001") && !holds(b"azAwMDAwMDAx"));
        assert!(text.ends_with(b"mn\r\n"));
    }

    #[test]
    fn every_generated_command_has_parts() {
        let mut random = Random::new(1);
        for captured in [false, true] {
            for _ in 0..2000 {
                let choice = Choice { captured, reforms: random.once_in(2) };
                assert!(!command(&mut random, choice).is_empty());
            }
        }
    }
}
