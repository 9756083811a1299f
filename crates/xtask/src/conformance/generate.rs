//! Random conversations: sequences of commands over four keys, sent one at a time with CAS uniques
//! that the server gave out, or pipelined, or pipelined with damaged commands (`Kind`). A sequence
//! that is answered differently is shrunk by leaving out commands while the difference stays.

use std::collections::BTreeSet;

use super::Tally;
use super::case::{Case, Part, Step, base64, escape, prefix};
use super::commands::{Choice, Command, command, damage};
use super::differential::Pair;
use super::exchange::{Replies, length, play, render};
use super::normal::{Uniques, same};
use super::stats::Stats;
use super::wire::{Wire, parting, shorten};
use crate::Result;
use crate::random::Random;

const COMMANDS_MAX: usize = 24;
/// The longest key.
const KEY_BYTES_MAX: usize = 250;
/// After this many differences the remaining sequences tell nothing new.
const DIFFERENCES_MAX: usize = 10;
/// How often a sequence is played again because the clock's second turned while it differed, or
/// because memcached may have read a number as none. Either happens in hardly one sequence of a
/// hundred, so a difference seen this often appears whenever the sequence is played.
const TURNS_MAX: usize = 5;

/// memcached's refusal to count a value that is no number.
const NON_NUMERIC: &[u8] = b"cannot increment or decrement non-numeric value";

/// How a sequence is played.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Every reply is read before the next command is sent.
    OneByOne,
    /// Commands go out together up to the next arithmetic; then all together, to the server alone,
    /// which must answer the same.
    Pipelined,
    /// Some commands are damaged. The server must answer the same to one write and to two. Debian's
    /// memcached is no reference here: it answers more than half of these sequences differently
    /// from the version that Larder follows, mostly because it takes the value of a refused command
    /// for commands. With a newer reference, 1.6.45, it is three in a hundred: the differences that
    /// `docs/compatibility.md` names for base64, for numbers, and for replies held back.
    Damaged,
}

/// One way to play a sequence twice.
struct Trial<'a> {
    pair: &'a Pair<'a>,
    kind: Kind,
    /// Where a damaged sequence is cut, in millionths of its length.
    cut_millionths: usize,
}

/// Two streams of replies that should be the same, with the names of their senders.
struct Difference {
    names: [&'static str; 2],
    replies: Replies,
}

impl Difference {
    /// Returns whether memcached may have read a number as none. Before 1.6.22 it looks for the
    /// sign of a number from 2^63 on beyond the number's end, up to a zero byte in the earlier
    /// content of the item's memory, and a `-` there makes the number negative.
    fn is_stray_sign(&self) -> bool {
        let (left, right) = &self.replies;
        let refusals = |replies: &[u8]| {
            replies.windows(NON_NUMERIC.len()).filter(|words| words == &NON_NUMERIC).count()
        };
        self.names[0] == "memcached" && refusals(left) > refusals(right)
    }
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

/// Draws a sequence of this kind.
fn sequence<'a>(pair: &'a Pair, kind: Kind, random: &mut Random) -> (Trial<'a>, Vec<Command>) {
    let count = 1 + random.below(COMMANDS_MAX);
    let choice = Choice { captured: kind == Kind::OneByOne, reforms: random.once_in(2) };
    let mut commands: Vec<Command> = (0..count).map(|_| command(random, choice)).collect();
    let counts = random.once_in(2);
    if kind == Kind::Damaged {
        // Sequences for a newer memcached hold no arithmetic: see `is_arithmetic`.
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
    /// Returns where the sequence is answered in two ways within one second of both servers. Damage
    /// makes expiries of one second: the item is gone if the second turns before the sequence is
    /// played the other way. Where memcached may have erred, it is asked again.
    fn difference(&self, commands: &[Command]) -> Result<Option<Difference>> {
        for _ in 0..TURNS_MAX {
            let before = self.seconds()?;
            let difference = self.played(commands)?;
            let is_stray = |found: &Difference| !self.pair.newer && found.is_stray_sign();
            let lasts = self.seconds()? == before && !difference.as_ref().is_some_and(is_stray);
            if difference.is_none() || lasts {
                return Ok(difference);
            }
        }
        self.played(commands)
    }

    /// Returns the time of memcached and of the server under test, in seconds.
    fn seconds(&self) -> Result<[u64; 2]> {
        let time = |port| Stats::ask(&mut Wire::connect(port)?, "stats")?.number("time");
        Ok([time(self.pair.reference)?, time(self.pair.subject)?])
    }

    /// Returns where the sequence is answered in two ways, whatever the time.
    fn played(&self, commands: &[Command]) -> Result<Option<Difference>> {
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

    /// Returns the steps of a conversation whose replies are read where it needs them.
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

    /// Returns the sequence without one of its commands, if a difference stays.
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
/// the same in every conversation, and the next one would find the item stored there.
fn alone(port: u16, case: &Case, commands: &[Command], cut: Option<usize>) -> Result<Vec<u8>> {
    let prefix = prefix();
    let mut bytes = Vec::new();
    for command in commands {
        bytes.extend_from_slice(&render(command, &prefix, &Uniques::default()));
    }
    Wire::connect(port)?.ask_bytes(&forget_strays(&bytes, &prefix), b"MN\r\n")?;
    play(port, case, &prefix, cut)
}

/// Returns commands that delete every word without the prefix, as a key and as a key in base64.
fn forget_strays(bytes: &[u8], prefix: &str) -> Vec<u8> {
    let own = |word: &[u8]| {
        let holds = |part: &[u8]| word.windows(part.len()).any(|window| window == part);
        holds(prefix.as_bytes()) || holds(base64(prefix.as_bytes()).as_bytes())
    };
    let mut words = BTreeSet::new();
    for word in bytes.split(|byte| matches!(byte, b' ' | b'\n')) {
        words.insert(word);
        // The end of a line may belong to the word, and a zero byte ends a line for Debian's
        // memcached.
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

/// Returns whether a command counts. memcached rewrites a number in place, padded with spaces,
/// except while an unwritten reply holds the item: then the number gets an item of its own. So the
/// replies are read before arithmetic.
fn is_arithmetic(command: &Command) -> bool {
    let Some(Part::Bytes(bytes)) = command.first() else {
        return false;
    };
    [&b"incr "[..], b"decr ", b"ma "].iter().any(|verb| bytes.starts_with(verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a damaged sequence stored an item under the key `\\x00`, and found it when the
    /// sequence was played again, cut in two.
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
}
