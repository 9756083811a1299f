//! Replies, parsed only as far as counting needs.
//!
//! A scanner walks over the received bytes and takes whole pieces off the front; an incomplete
//! piece stays for the next read, and nothing else is remembered between calls:
//!
//! ```text
//!   text   VALUE <key> <flags> <bytes>\r\n<value>\r\n     a hit
//!          END\r\n                                        ends the reply to one get
//!          STORED\r\n                                     the reply to one set
//!   RESP   *<count>\r\n                                   before the elements of an MGET
//!          $<bytes>\r\n<value>\r\n                        a hit
//!          $-1\r\n                                        a miss
//!          +OK\r\n                                        the reply to one set
//!   both   any other line                                 a refusal
//! ```
//!
//! When all keys and values have one length, a hit has one length too and is recognised by its
//! fixed parts, so that the client does not slow down a fast server. A checker, used for a sample
//! of the batches, compares keys and values byte by byte.

use memchr::memchr;

use crate::drive::encode::Dialect;
use crate::drive::items::{Shape, Size};
use crate::failure::{Failure, Outcome};

/// The longest header of a hit: key, flags and length of the longest item.
const LINE_BYTES_MAX: usize = 512;

/// Counts of replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Replies that ended: one a get or set in text, one an element in RESP.
    pub replies: u64,
    /// Values received.
    pub hits: u64,
    /// Items stored.
    pub stored: u64,
    /// Requests that the server answered with an error.
    pub refused: u64,
    /// Hits whose key and value were compared byte by byte.
    pub checked: u64,
}

impl Tally {
    /// Adds the counts of another part of the run.
    pub fn add(&mut self, other: Tally) {
        self.replies += other.replies;
        self.hits += other.hits;
        self.stored += other.stored;
        self.refused += other.refused;
        self.checked += other.checked;
    }
}

/// Recognises the replies of one dialect for items of one shape.
#[derive(Debug)]
pub struct Scanner {
    dialect: Dialect,
    shape: Shape,
    /// The bytes before the value of every hit, as far as they are the same for all keys.
    head: Vec<u8>,
    /// Where `head` starts in a hit: after the key in text, at the front in RESP.
    head_at: usize,
    /// The length of every hit, or 0 when it varies.
    hit_bytes: usize,
}

/// Compares hits with the requested items, in the order of the requests.
#[derive(Debug)]
pub struct Checker<'a> {
    asked: &'a [u32],
    shape: Shape,
    scratch: Vec<u8>,
}

/// One piece of a reply.
enum Piece<'b> {
    Hit {
        key: Option<&'b [u8]>,
        value: &'b [u8],
        bytes: usize,
    },
    Miss {
        bytes: usize,
    },
    Stored {
        bytes: usize,
    },
    /// A line that ends or frames others; `replies` is the number of replies it counts for.
    Frame {
        bytes: usize,
        replies: u64,
    },
    Refused {
        bytes: usize,
    },
}

impl Scanner {
    /// A scanner for replies with items of `shape`.
    pub fn new(dialect: Dialect, shape: Shape) -> Scanner {
        let (head, head_at, hit_bytes) = match (dialect, shape.size) {
            (_, Size::LogUniform { .. }) => (Vec::new(), 0, 0),
            (Dialect::Text, Size::Fixed(bytes)) => {
                let head = format!(" 0 {bytes}\r\n").into_bytes();
                let head_at = b"VALUE ".len() + shape.key_bytes;
                let hit_bytes = head_at + head.len() + bytes + 2;
                (head, head_at, hit_bytes)
            }
            (Dialect::Resp, Size::Fixed(bytes)) => {
                let head = format!("${bytes}\r\n").into_bytes();
                let hit_bytes = head.len() + bytes + 2;
                (head, 0, hit_bytes)
            }
        };
        Scanner { dialect, shape, head, head_at, hit_bytes }
    }

    /// Takes whole pieces off the front of `received` and counts them; returns their bytes.
    pub fn scan(
        &self,
        received: &[u8],
        tally: &mut Tally,
        mut checker: Option<&mut Checker<'_>>,
    ) -> Outcome<usize> {
        let mut at = 0;
        while let Some(piece) = self.piece(&received[at..])? {
            at += match piece {
                Piece::Hit { key, value, bytes } => {
                    tally.hits += 1;
                    tally.replies += u64::from(self.dialect == Dialect::Resp);
                    if let Some(checker) = checker.as_deref_mut() {
                        checker.hit(key, value)?;
                        tally.checked += 1;
                    }
                    bytes
                }
                Piece::Miss { bytes } => {
                    tally.replies += 1;
                    if let Some(checker) = checker.as_deref_mut() {
                        checker.skip();
                    }
                    bytes
                }
                Piece::Stored { bytes } => {
                    tally.replies += 1;
                    tally.stored += 1;
                    bytes
                }
                Piece::Frame { bytes, replies } => {
                    tally.replies += replies;
                    bytes
                }
                Piece::Refused { bytes } => {
                    tally.replies += 1;
                    tally.refused += 1;
                    bytes
                }
            };
        }
        Ok(at)
    }

    #[inline]
    fn piece<'b>(&self, rest: &'b [u8]) -> Outcome<Option<Piece<'b>>> {
        if self.is_usual_hit(rest) {
            let value_at = self.head_at + self.head.len();
            let key = (self.dialect == Dialect::Text).then(|| &rest[6..self.head_at]);
            let value = &rest[value_at..self.hit_bytes - 2];
            return Ok(Some(Piece::Hit { key, value, bytes: self.hit_bytes }));
        }
        match self.dialect {
            Dialect::Text => text_piece(rest),
            Dialect::Resp => resp_piece(rest),
        }
    }

    /// Returns whether `rest` starts with a whole hit of the one length that hits have.
    #[inline]
    fn is_usual_hit(&self, rest: &[u8]) -> bool {
        self.hit_bytes != 0
            && rest.len() >= self.hit_bytes
            && rest[self.head_at..].starts_with(&self.head)
            && (self.head_at == 0 || rest.starts_with(b"VALUE "))
            && rest[..self.hit_bytes].ends_with(b"\r\n")
    }

    /// Returns a checker for hits on the items `asked`.
    pub fn checker<'a>(&self, asked: &'a [u32]) -> Checker<'a> {
        Checker { asked, shape: self.shape, scratch: Vec::new() }
    }
}

impl Checker<'_> {
    /// Compares a hit. A key that does not match is searched among the later requested ones, since
    /// memcached leaves misses out.
    fn hit(&mut self, key: Option<&[u8]>, value: &[u8]) -> Outcome<()> {
        while let Some((index, later)) = self.asked.split_first() {
            self.asked = later;
            let index = u64::from(*index);
            self.scratch.clear();
            self.shape.key(index, &mut self.scratch);
            if key.is_some_and(|key| key != self.scratch) {
                continue;
            }
            self.scratch.clear();
            self.shape.value(index, &mut self.scratch);
            if value == self.scratch {
                return Ok(());
            }
            return Err(Failure::Check(format!("a wrong value for item {index}")));
        }
        let key = key.map(String::from_utf8_lossy).unwrap_or_default();
        Err(Failure::Check(format!("a hit on a key that was not asked for: {key:?}")))
    }

    fn skip(&mut self) {
        self.asked = self.asked.get(1..).unwrap_or_default();
    }
}

fn text_piece(rest: &[u8]) -> Outcome<Option<Piece<'_>>> {
    let Some(line) = line_of(rest)? else {
        return Ok(None);
    };
    let bytes = line.len() + 2;
    match line {
        b"END" => return Ok(Some(Piece::Frame { bytes, replies: 1 })),
        b"STORED" => return Ok(Some(Piece::Stored { bytes })),
        _ => {}
    }
    let Some(header) = line.strip_prefix(b"VALUE ") else {
        return Ok(Some(Piece::Refused { bytes }));
    };
    let mut words = header.split(|byte| *byte == b' ');
    let key = words.next();
    let value_bytes = words.nth(1).and_then(number).ok_or_else(|| unexpected(line))?;
    Ok(body(rest, bytes, value_bytes)?.map(|value| Piece::Hit {
        key,
        value,
        bytes: bytes + value_bytes + 2,
    }))
}

fn resp_piece(rest: &[u8]) -> Outcome<Option<Piece<'_>>> {
    let Some(line) = line_of(rest)? else {
        return Ok(None);
    };
    let bytes = line.len() + 2;
    match line.split_first() {
        Some((b'*', _)) => Ok(Some(Piece::Frame { bytes, replies: 0 })),
        Some((b'+', _)) => Ok(Some(Piece::Stored { bytes })),
        Some((b'-', _)) => Ok(Some(Piece::Refused { bytes })),
        Some((b'$', b"-1")) => Ok(Some(Piece::Miss { bytes })),
        Some((b'$', digits)) => {
            let value_bytes = number(digits).ok_or_else(|| unexpected(line))?;
            Ok(body(rest, bytes, value_bytes)?.map(|value| Piece::Hit {
                key: None,
                value,
                bytes: bytes + value_bytes + 2,
            }))
        }
        _ => Err(unexpected(line)),
    }
}

/// Returns the first line without its end, once it is complete.
fn line_of(rest: &[u8]) -> Outcome<Option<&[u8]>> {
    let line = &rest[..rest.len().min(LINE_BYTES_MAX)];
    match memchr(b'\n', line) {
        Some(end) if end > 0 && line[end - 1] == b'\r' => Ok(Some(&line[..end - 1])),
        Some(end) => Err(unexpected(&line[..end])),
        None if line.len() == LINE_BYTES_MAX => Err(unexpected(&line[..40])),
        None => Ok(None),
    }
}

/// Returns the value after a header of `header_bytes`, once it is complete.
fn body(rest: &[u8], header_bytes: usize, value_bytes: usize) -> Outcome<Option<&[u8]>> {
    let Some(framed) = rest.get(header_bytes..header_bytes + value_bytes + 2) else {
        return Ok(None);
    };
    match framed.strip_suffix(b"\r\n") {
        Some(value) => Ok(Some(value)),
        None => Err(Failure::Reply("a value does not end where its length says".into())),
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|number| *number < usize::MAX / 4)
}

fn unexpected(line: &[u8]) -> Failure {
    Failure::Reply(format!("{:?}", String::from_utf8_lossy(line)))
}

#[cfg(test)]
mod tests {
    use super::{Scanner, Tally};
    use crate::drive::encode::Dialect;
    use crate::drive::items::{Shape, Size};

    const SHAPE: Shape = Shape { key_bytes: 12, size: Size::Fixed(5) };
    const MIXED: Shape =
        Shape { key_bytes: 12, size: Size::LogUniform { bytes_min: 5, bytes_max: 5 } };

    fn hit(dialect: Dialect, index: u64) -> Vec<u8> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        SHAPE.key(index, &mut key);
        SHAPE.value(index, &mut value);
        let (key, value) = (String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
        match dialect {
            Dialect::Text => format!("VALUE {key} 0 5\r\n{value}\r\n").into_bytes(),
            Dialect::Resp => format!("$5\r\n{value}\r\n").into_bytes(),
        }
    }

    /// Feeds a stream cut at every place, with the fast path and without, and expects the same
    /// counts.
    fn scan_cut_everywhere(dialect: Dialect, stream: &[u8], asked: &[u32], wanted: Tally) {
        for shape in [SHAPE, MIXED] {
            let scanner = Scanner::new(dialect, shape);
            for cut in 0..=stream.len() {
                let mut tally = Tally::default();
                let mut checker = scanner.checker(asked);
                let taken =
                    scanner.scan(&stream[..cut], &mut tally, Some(&mut checker)).expect("valid");
                assert!(taken <= cut);
                let rest =
                    scanner.scan(&stream[taken..], &mut tally, Some(&mut checker)).expect("valid");
                assert_eq!(taken + rest, stream.len());
                assert_eq!(tally, wanted, "cut at {cut}");
            }
        }
    }

    #[test]
    fn text_replies_are_counted_wherever_they_are_cut() {
        let mut stream = hit(Dialect::Text, 1);
        stream.extend(hit(Dialect::Text, 3));
        stream.extend_from_slice(b"END\r\nEND\r\nSTORED\r\nSERVER_ERROR out of memory\r\n");
        let wanted = Tally { replies: 4, hits: 2, stored: 1, refused: 1, checked: 2 };
        scan_cut_everywhere(Dialect::Text, &stream, &[1, 2, 3], wanted);
    }

    #[test]
    fn resp_replies_are_counted_wherever_they_are_cut() {
        let mut stream = b"*3\r\n".to_vec();
        stream.extend(hit(Dialect::Resp, 1));
        stream.extend_from_slice(b"$-1\r\n");
        stream.extend(hit(Dialect::Resp, 3));
        stream.extend_from_slice(b"+OK\r\n-OOM command not allowed\r\n");
        let wanted = Tally { replies: 5, hits: 2, stored: 1, refused: 1, checked: 2 };
        scan_cut_everywhere(Dialect::Resp, &stream, &[1, 2, 3], wanted);
    }

    #[test]
    fn a_wrong_value_and_a_wrong_key_are_found() {
        for shape in [SHAPE, MIXED] {
            let scanner = Scanner::new(Dialect::Text, shape);
            let mut damaged = hit(Dialect::Text, 1);
            let last = damaged.len() - 3;
            damaged[last] ^= 1;
            for (stream, asked) in [(damaged, [1]), (hit(Dialect::Text, 2), [1])] {
                let mut checker = scanner.checker(&asked);
                let result = scanner.scan(&stream, &mut Tally::default(), Some(&mut checker));
                assert!(result.is_err());
            }
        }
    }

    #[test]
    fn a_reply_outside_the_protocol_is_an_error() {
        let resp = Scanner::new(Dialect::Resp, SHAPE);
        let text = Scanner::new(Dialect::Text, SHAPE);
        let mut tally = Tally::default();
        assert!(resp.scan(b"END\r\n", &mut tally, None).is_err());
        assert!(resp.scan(b"$x\r\n", &mut tally, None).is_err());
        assert!(resp.scan(b"$2\r\nabcd", &mut tally, None).is_err());
        assert!(text.scan(b"VALUE k 0\r\n", &mut tally, None).is_err());
        assert!(text.scan(b"END\n", &mut tally, None).is_err());
        assert!(text.scan(&[b'x'; 600], &mut tally, None).is_err());
        assert_eq!(tally, Tally::default());
    }
}
