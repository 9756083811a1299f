//! Case files: the bytes to send, in a form that people can read.
//!
//! ```text
//! # A comment.
//! server -F -C                     options of the server, for the cases below this line
//! case a name that says what is tested
//! send set $k 0 0 2\r\nhi\r\n      bytes, with escapes; several lines go out as one write
//! sync                             wait until everything so far is answered
//! pause                            end the write here, without waiting for an answer
//! sleep 1.2                        let time pass
//! closes                           the server must close by itself after this
//! alone                            do not pipeline this case with the others of its file
//! whole                            nor cut it in two writes
//! unasked                          send no `mn` at the end, where even that would be refused
//! ```
//!
//! Escapes are `\r \n \t \0 \\ \xNN`. `$k` is a key of nine bytes that no other run of a case
//! uses; `${k:250}` is that key padded to 250 bytes, `${b:abc}` the base64 form of that key with
//! `abc` behind it, `${x:1000}` a thousand times `x`, and `${cas:2}` the second CAS unique that
//! this case has seen. A line `send` without `\r\n` at its end sends none.

use crate::{Failure, Result, fail};

/// The steps of a case, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Bytes for the next write.
    Send(Vec<Part>),
    /// Wait for the answers to all of it.
    Sync,
    /// End the write, and give the server a moment.
    Pause,
    /// Let this many milliseconds pass.
    Sleep(u64),
}

/// A piece of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Bytes as they are.
    Bytes(Vec<u8>),
    /// The key prefix of this run.
    Key,
    /// The base64 form of the prefix with these bytes behind it.
    Base64(Vec<u8>),
    /// A CAS unique seen earlier, counted from 1.
    Cas(usize),
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its file and its name.
    pub name: String,
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// Whether the server has to close by itself at the end.
    pub closes: bool,
    /// Whether it may not be pipelined with its neighbours.
    pub alone: bool,
    /// Whether it may be cut in two writes.
    pub cuts: bool,
    /// Whether `mn` at the end asks if the server still listens.
    pub asks: bool,
    /// Options for the server, besides the usual ones.
    pub server: String,
}

/// The length of a run's key prefix; nine bytes are twelve in base64, without padding.
pub const PREFIX_BYTES: usize = 9;

/// Returns a key prefix that no other run uses.
pub fn prefix() -> String {
    format!("k{:08}", crate::random::ticket() % 100_000_000)
}

impl Case {
    /// Returns a case made in code rather than read from a file.
    pub fn new(name: String, steps: Vec<Step>) -> Case {
        Case {
            name,
            steps,
            closes: false,
            alone: false,
            cuts: true,
            asks: true,
            server: String::new(),
        }
    }

    /// Returns whether its replies depend on one write alone.
    pub fn is_one_write(&self) -> bool {
        let plain = |step: &Step| match step {
            Step::Send(parts) => !parts.iter().any(|part| matches!(part, Part::Cas(_))),
            _ => false,
        };
        !self.closes && !self.alone && self.steps.iter().all(plain)
    }

    /// Returns whether time has to pass in it.
    pub fn sleeps(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Sleep(_)))
    }
}

/// Parses the cases of a file.
pub fn parse(file: &str, text: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    let mut server = String::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end_matches('\r');
        let place = |message: &str| Failure(format!("{file}:{}: {message}", index + 1));
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word.is_empty() || word.starts_with('#') {
            continue;
        }
        if word == "case" {
            let name = format!("{file}/{rest}");
            if cases.iter().any(|case| case.name == name) {
                return Err(place("a second case of this name"));
            }
            let mut case = Case::new(name, Vec::new());
            case.server.clone_from(&server);
            cases.push(case);
            continue;
        }
        if word == "server" {
            server = rest.to_string();
            continue;
        }
        let Some(case) = cases.last_mut() else {
            return Err(place("a step before any case"));
        };
        match word {
            "send" => {
                let parts = parts(rest).map_err(|failure| place(&failure.0))?;
                case.steps.push(Step::Send(parts));
            }
            "sync" => case.steps.push(Step::Sync),
            "pause" => case.steps.push(Step::Pause),
            "sleep" => {
                let seconds: f64 = rest.parse().map_err(|_| place("sleep takes seconds"))?;
                case.steps.push(Step::Sleep((seconds * 1000.0) as u64));
            }
            "closes" => case.closes = true,
            "alone" => case.alone = true,
            "unasked" => (case.alone, case.asks) = (true, false),
            "whole" => (case.alone, case.cuts) = (true, false),
            other => return Err(place(&format!("no step is called {other:?}"))),
        }
    }
    Ok(cases)
}

/// Parses a line into bytes and placeholders.
pub fn parts(text: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        push_bytes(&mut parts, unescape(before)?);
        if let Some(after) = after.strip_prefix('k') {
            parts.push(Part::Key);
            rest = after;
            continue;
        }
        let inner = after.strip_prefix('{').and_then(|after| after.split_once('}'));
        let Some((inner, after)) = inner else {
            return fail("after `$` comes `k` or `{...}`; write \\x24 for the sign");
        };
        rest = after;
        let (kind, argument) = inner.split_once(':').unwrap_or((inner, ""));
        let count = argument.parse::<usize>();
        match (kind, count) {
            ("k", Ok(length)) if length >= PREFIX_BYTES => {
                parts.push(Part::Key);
                push_bytes(&mut parts, vec![b'p'; length - PREFIX_BYTES]);
            }
            ("x", Ok(length)) => push_bytes(&mut parts, vec![b'x'; length]),
            ("cas", Ok(number)) if number > 0 => parts.push(Part::Cas(number)),
            ("b", _) => parts.push(Part::Base64(unescape(argument)?)),
            _ => return fail(format!("no placeholder is called ${{{inner}}}")),
        }
    }
    push_bytes(&mut parts, unescape(rest)?);
    Ok(parts)
}

fn push_bytes(parts: &mut Vec<Part>, bytes: Vec<u8>) {
    if !bytes.is_empty() {
        parts.push(Part::Bytes(bytes));
    }
}

/// Returns the bytes of an escaped text.
pub fn unescape(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        match letters.next() {
            Some('r') => bytes.push(b'\r'),
            Some('n') => bytes.push(b'\n'),
            Some('t') => bytes.push(b'\t'),
            Some('0') => bytes.push(0),
            Some('\\') => bytes.push(b'\\'),
            Some('x') => {
                let digits: String = letters.by_ref().take(2).collect();
                match u8::from_str_radix(&digits, 16) {
                    Ok(byte) => bytes.push(byte),
                    Err(_) => return fail(format!("\\x{digits} is no byte")),
                }
            }
            other => return fail(format!("no escape is called \\{}", other.unwrap_or(' '))),
        }
    }
    Ok(bytes)
}

/// Escapes bytes so that they fit on a line and `unescape` reads them back.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'\\' => text.push_str("\\\\"),
            0x20..=0x7e => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// Returns the base64 form of bytes, with padding.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * index)) as usize & 63];
            text.push(if index <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_cases() {
        let text = "# words\ncase one\nsend set $k 0 0 1\\r\\nx\\r\\n\nsync\nsend ${cas:1}${x:3}\n\
                    case two\nsleep 1.5\ncloses\n";
        let cases = parse("file", text).unwrap();
        assert_eq!(cases[0].name, "file/one");
        let third = Step::Send(vec![Part::Cas(1), Part::Bytes(b"xxx".to_vec())]);
        assert_eq!(cases[0].steps[2], third);
        assert_eq!(cases[1].steps, [Step::Sleep(1500)]);
        assert!(cases[1].closes && !cases[1].is_one_write());
        assert!(parse("file", "send early\n").is_err());
        assert!(parse("file", "case a\ncase a\n").is_err());
    }

    #[test]
    fn escapes_come_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(&escape(&bytes)).unwrap(), bytes);
    }

    #[test]
    fn base64_is_padded() {
        assert_eq!(base64(b"foo"), "Zm9v");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }
}
