//! Where a command ends.
//!
//! ```text
//! *3\r\n $3\r\nSET\r\n $1\r\nk\r\n $9\r\nval
//!                                       ^    ^ scanned: where the next bulk would begin
//!                                       input ends here
//! ```
//!
//! A bulk's header says how long it is, so a command that has not arrived in full is gone on with
//! where its next header will stand. Who sends a byte at a time has each byte looked at once, but
//! for those of a header, which are few.
//!
//! A command beyond the limit is read to its end and forgotten on the way, so that its client gets
//! an answer and the commands behind it stay whole. A client that is yet to say who it is may send
//! little, by Redis' own bounds, and is not read any further when it sends more.

use super::inline;
use super::number::integer;
use super::words::Command;

/// The longest line of an inline command and of a header.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The longest bulk that is read at all; beyond it the client is taken for confused.
pub const BULK_BYTES_MAX: i64 = 512 << 20;

/// The most bulks of a command from a client that is yet to say who it is.
const STRANGER_BULKS_MAX: i64 = 10;

/// The longest bulk of such a command.
const STRANGER_BULK_BYTES_MAX: i64 = 16 << 10;

/// How far a command has been looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scan {
    /// Bytes from the command's beginning to the next thing to look at, which may be beyond what
    /// has arrived.
    scanned: usize,
    /// Bytes of the command that are not kept any more.
    forgotten: usize,
    /// How many bulks it has, and how many of them are still to be looked at, once that is known.
    bulks: Option<(usize, usize)>,
    /// It was whole before, and short enough: a limit that is lower by now is none for it.
    is_accepted: bool,
}

/// What stands at the front of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scanned<'b> {
    /// A command that has not arrived in full.
    Incomplete,
    /// So many bytes that ask for nothing.
    Nothing(usize),
    /// A command, and how many bytes it took.
    Command(Command<'b>, usize),
    /// The end of a command that was beyond the limit, and how many bytes that took.
    TooLarge(usize),
    /// Something that is not Redis' protocol: it is said, and the connection closed.
    Refused(Refusal),
}

/// What is wrong with an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The header of an array does not end.
    LongCount,
    /// It is no number that an array can have.
    BadCount,
    /// The header of a bulk does not end.
    LongLength,
    /// It is no length that a bulk can have.
    BadLength,
    /// It begins with this instead of `$`.
    NoBulk(u8),
    /// More bulks than a client may send that is yet to say who it is.
    StrangerCount,
    /// A longer bulk than such a client may send.
    StrangerLength,
    /// The line of an inline command does not end.
    LongLine,
    /// It has a quote that is not closed.
    Quotes,
}

impl Scan {
    /// What a look at `input` comes to that begins with the whole of this command: with it another
    /// look finds the command at once. A line is looked at anew, for it is short.
    pub fn of_whole(command: Command<'_>, input: &[u8]) -> Self {
        match memchr::memchr(b'\r', input) {
            Some(end) if command.is_plain() => {
                let (scanned, count) = (end + 2 + command.bytes(), command.count());
                Self { scanned, forgotten: 0, bulks: Some((count, 0)), is_accepted: true }
            }
            _ => Self::default(),
        }
    }

    /// Whether all of the command is among so many bytes of input.
    pub fn is_whole(&self, bytes: usize) -> bool {
        matches!(self.bulks, Some((_, 0))) && self.scanned <= bytes
    }

    /// How many bytes of input there must be before it makes sense to look again.
    pub fn wanted_bytes(&self) -> usize {
        // Behind the last bulk there is no header.
        let is_last = matches!(self.bulks, Some((_, 0)));
        self.scanned + usize::from(!is_last)
    }

    /// Whether the command is longer than `bytes_max`, as far as that is known. One of which
    /// something is forgotten was, and more may be allowed by now.
    pub fn is_beyond(&self, bytes_max: usize) -> bool {
        !self.is_accepted && (self.forgotten > 0 || self.scanned > bytes_max)
    }

    /// Forgets what of the command has been looked at and is among `bytes` of input; returns how
    /// much that was.
    pub fn forget(&mut self, bytes: usize) -> usize {
        let forgotten = bytes.min(self.scanned);
        self.scanned -= forgotten;
        self.forgotten += forgotten;
        forgotten
    }
}

/// Looks at the command at the front of `input`. `progress` is what an earlier look at a shorter
/// part of the same input left, or the default; behind everything but an incomplete command it is
/// the default again. A command of more than `bytes_max` is too large.
pub fn scan<'b>(input: &'b [u8], progress: &mut Scan, bytes_max: usize) -> Scanned<'b> {
    scan_bounded(input, progress, Bounds { bytes_max, is_stranger: false })
}

/// [`scan`] of what a client sends that is yet to say who it is.
pub fn scan_of_stranger<'b>(input: &'b [u8], progress: &mut Scan, bytes_max: usize) -> Scanned<'b> {
    scan_bounded(input, progress, Bounds { bytes_max, is_stranger: true })
}

/// What a client may send.
#[derive(Clone, Copy)]
struct Bounds {
    bytes_max: usize,
    is_stranger: bool,
}

fn scan_bounded<'b>(input: &'b [u8], progress: &mut Scan, bounds: Bounds) -> Scanned<'b> {
    let scanned = match (progress.bulks, input.first()) {
        (None, None) => Scanned::Incomplete,
        (None, Some(b'*')) | (Some(_), _) => scan_array(input, progress, bounds),
        (None, Some(_)) => scan_line(input),
    };
    if scanned != Scanned::Incomplete {
        *progress = Scan::default();
    }
    scanned
}

fn scan_array<'b>(input: &'b [u8], progress: &mut Scan, bounds: Bounds) -> Scanned<'b> {
    let (count, mut left) = match progress.bulks {
        Some(bulks) => bulks,
        None => {
            let (count, end) = match header(input, Refusal::LongCount) {
                Ok(None) => return Scanned::Incomplete,
                Ok(Some((number, end))) => (number, end),
                Err(refusal) => return Scanned::Refused(refusal),
            };
            let Some(count) = count.filter(|&count| count <= i64::from(i32::MAX)) else {
                return Scanned::Refused(Refusal::BadCount);
            };
            if bounds.is_stranger && count > STRANGER_BULKS_MAX {
                return Scanned::Refused(Refusal::StrangerCount);
            }
            let Some(count) = usize::try_from(count).ok().filter(|&count| count > 0) else {
                return Scanned::Nothing(end);
            };
            progress.scanned = end;
            (count, count)
        }
    };
    while left > 0 {
        progress.bulks = Some((count, left));
        let Some(rest) = input.get(progress.scanned..).filter(|rest| !rest.is_empty()) else {
            return Scanned::Incomplete;
        };
        let (length, end) = match header(rest, Refusal::LongLength) {
            Ok(None) => return Scanned::Incomplete,
            Err(refusal) => return Scanned::Refused(refusal),
            Ok(Some(_)) if rest[0] != b'$' => return Scanned::Refused(Refusal::NoBulk(rest[0])),
            Ok(Some(found)) => found,
        };
        let length = length.filter(|length| (0..=BULK_BYTES_MAX).contains(length));
        if bounds.is_stranger && length.is_some_and(|length| length > STRANGER_BULK_BYTES_MAX) {
            return Scanned::Refused(Refusal::StrangerLength);
        }
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else {
            return Scanned::Refused(Refusal::BadLength);
        };
        progress.scanned += end + length + 2;
        left -= 1;
    }
    progress.bulks = Some((count, 0));
    let consumed = progress.scanned;
    match input.get(..consumed) {
        None => Scanned::Incomplete,
        Some(_) if progress.is_beyond(bounds.bytes_max) => Scanned::TooLarge(consumed),
        Some(whole) => {
            // As for every header, what stands behind the carriage return is not looked at.
            let end = memchr::memchr(b'\r', whole).expect("the header was found before");
            Scanned::Command(Command::of_bulks(&whole[end + 2..], count), consumed)
        }
    }
}

/// A header, from its first byte: its number, if it is one, and the bytes up to behind its end.
/// None if it is not all there.
fn header(input: &[u8], too_long: Refusal) -> Result<Option<(Option<i64>, usize)>, Refusal> {
    let line = &input[..input.len().min(LINE_BYTES_MAX)];
    match memchr::memchr(b'\r', line) {
        Some(end) if end + 2 <= input.len() => {
            Ok(Some((input.get(1..end).and_then(integer), end + 2)))
        }
        None if line.len() == LINE_BYTES_MAX => Err(too_long),
        _ => Ok(None),
    }
}

fn scan_line(input: &[u8]) -> Scanned<'_> {
    let line = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', line) else {
        let is_long = line.len() == LINE_BYTES_MAX;
        return if is_long { Scanned::Refused(Refusal::LongLine) } else { Scanned::Incomplete };
    };
    let line = &line[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match inline::split(line, |_| {}) {
        None => Scanned::Refused(Refusal::Quotes),
        Some(0) => Scanned::Nothing(end + 1),
        Some(count) => Scanned::Command(Command::of_line(line, count), end + 1),
    }
}
