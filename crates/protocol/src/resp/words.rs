//! A command's words, in place.

use super::inline;
use super::number::integer;
use super::reply;

/// A command that is here in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command<'b> {
    /// The words: bulks behind one another, or the line of an inline command without its end.
    bytes: &'b [u8],
    count: usize,
    is_inline: bool,
}

impl<'b> Command<'b> {
    /// A command of `count` bulks, each of which has been scanned.
    pub(super) fn of_bulks(bytes: &'b [u8], count: usize) -> Self {
        Self { bytes, count, is_inline: false }
    }

    /// A line of `count` words.
    pub(super) fn of_line(bytes: &'b [u8], count: usize) -> Self {
        Self { bytes, count, is_inline: true }
    }

    /// The bytes of its words and of their headers.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The number of its words, its name included: at least one.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether its words need no unquoting. An inline command has to be
    /// [unquoted](Command::unquoted) first.
    pub fn is_plain(&self) -> bool {
        !self.is_inline
    }

    /// The command with its words unquoted: those of an inline command are written into `room`.
    pub fn unquoted<'r>(&self, room: &'r mut Vec<u8>) -> Command<'r>
    where
        'b: 'r,
    {
        if !self.is_inline {
            return *self;
        }
        room.clear();
        let count = inline::split(self.bytes, |word| reply::bulk(room, word));
        debug_assert_eq!(count, Some(self.count), "the line was split before");
        Command::of_bulks(room, self.count)
    }

    /// The words of a plain command.
    #[inline]
    pub fn words(&self) -> Words<'b> {
        debug_assert!(self.is_plain(), "an inline command is unquoted first");
        Words { bytes: self.bytes, left: self.count }
    }
}

/// Iterates over a command's words.
#[derive(Debug, Clone, Copy)]
pub struct Words<'b> {
    bytes: &'b [u8],
    left: usize,
}

/// The remaining words of a command, wherever the command lies by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    bytes: usize,
    left: usize,
}

impl Words<'_> {
    /// The remaining words.
    pub fn rest(&self) -> Rest {
        Rest { bytes: self.bytes.len(), left: self.left }
    }

    /// Continues with the remaining words of the same command, without a look at those before.
    pub fn go_on(&mut self, rest: Rest) {
        debug_assert!(rest.left <= self.left, "they are words of the same command");
        self.bytes = &self.bytes[self.bytes.len() - rest.bytes..];
        self.left = rest.left;
    }
}

impl<'b> Iterator for Words<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        self.left = self.left.checked_sub(1)?;
        let end = memchr::memchr(b'\r', self.bytes)?;
        let length = usize::try_from(integer(&self.bytes[1..end])?).ok()?;
        let word = &self.bytes[end + 2..end + 2 + length];
        self.bytes = &self.bytes[end + 2 + length + 2..];
        Some(word)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Words<'_> {}
