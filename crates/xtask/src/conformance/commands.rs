//! Random commands over four keys, and ways to damage them.

use super::case::{Part, parts};
use super::exchange::render;
use super::normal::Uniques;
use crate::random::Random;

/// A command: its parts, sent as one.
pub type Command = Vec<Part>;

const KEYS: &[&str] = &["$ka", "$kb", "$kc", "$kd"];
/// A key that is also sent in base64.
const BINARY_KEY: &str = "${b:d}";
/// The other keys.
const TEXT_KEYS: &[&str] = &["$ka", "$kb", "$kc"];

/// What the commands of a sequence may do.
#[derive(Clone, Copy)]
pub struct Choice {
    /// Use CAS uniques that the server gave out.
    pub captured: bool,
    /// Use commands at which memcached loses a property when it remakes the item, in 1.6.18 and
    /// 1.6.45 alike: an append, and arithmetic whose result needs more bytes. It loses:
    ///
    /// - That the key was base64. After `ms <base64> 1 b` with `9` and `ma <base64> b`, the reply
    ///   to `mg <base64> b k` shows the bare key, which may hold any byte. The same happens after
    ///   `mg <base64> b N40`.
    /// - The expiry that `ma` itself sets: `set k 0 0 1` with `9`, `ma k T70 t` answers `t70`, and
    ///   `mg k t` then `t-1`.
    ///
    /// Larder keeps both; the cases `meta/... to a binary key` and their neighbours hold the
    /// replies. So these sequences never show the key or the time left. The others show both, and
    /// give memcached no occasion to lose them.
    pub reforms: bool,
}

impl Choice {
    /// Returns the keys that may be appended to and counted.
    fn growing_keys(self) -> &'static [&'static str] {
        if self.reforms { KEYS } else { TEXT_KEYS }
    }
}
const EXPIRIES: &[&str] = &["0", "0", "0", "1", "100", "-1", "2592000"];
const NUMBERS: &[&str] =
    &["0", "1", "5", "10", "99", "18446744073709551615", "18446744073709551616", "-1", "x", "7x"];
const VALUES: &[&str] =
    &["", "5", "10", "abc", "99999999999999999999", "12 ", "a\\r\\nb", "${x:600}"];

/// Draws a command that these choices allow.
pub fn command(random: &mut Random, choice: Choice) -> Command {
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
        _ => meta_arithmetic(random, choice),
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

/// Draws some of these flags, in random order.
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
    const CHOICES: &[&str] =
        &["c", "f", "h", "b", "O12", "q", "s", "v", "T50", "N40", "k", "t", "R90"];
    // The last three show the key or the time left; the third of them is a win token.
    let shown = CHOICES.len() - if choice.reforms { 3 } else { 0 };
    let mut flags = flags(random, &CHOICES[..shown]);
    if !choice.reforms && flags.contains(" b") {
        flags = flags.replace(" N40", "");
    }
    format!("mg {}{flags}\\r\\n", meta_key(random, &flags, KEYS))
}

fn meta_arithmetic(random: &mut Random, choice: Choice) -> String {
    let own: &[&str] = if choice.reforms { &["T70", "b"] } else { &["t"] };
    let all = ["N60 J12", "D3", "MD", "MI", "M+", "M-", "Oxy", "c", "v", "k"];
    meta(random, "ma", &[&all, own].concat(), choice.growing_keys())
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

/// Returns the command with a byte or two changed, added or lost. The conversation's own part of a
/// key stays: without it, conversations would share a key.
pub fn damage(random: &mut Random, command: Command) -> Command {
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
                let choice = Choice { captured, reforms: random.once_in(2) };
                assert!(!command(&mut random, choice).is_empty());
            }
        }
    }
}
