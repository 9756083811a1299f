//! Finding the end of a command.
//!
//! ```text
//! *3\r\n $3\r\nSET\r\n $1\r\nk\r\n $9\r\nval
//!                                       ^    ^ scanned: where the next bulk would begin
//!                                       input ends here
//! ```
//!
//! A bulk's header gives its length, so the scan of a command that has not arrived in full
//! continues where its next header will stand. If a client sends a byte at a time each byte is
//! scanned once, except those of a header, which are few.
//!
//! A command beyond the limit is read to its end and forgotten on the way, so that its client gets
//! an answer and the commands behind it stay whole. An unauthenticated client may send little, by
//! Redis' own bounds, and is not read any further when it sends more.

use super::inline;
use super::number::integer;
use super::words::Command;

/// The longest line of an inline command and of a header.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The longest bulk that is read at all; beyond it the client is taken for confused.
pub const BULK_BYTES_MAX: i64 = 512 << 20;

/// The most bulks of a command from an unauthenticated client.
const STRANGER_BULKS_MAX: i64 = 10;

/// The longest bulk of such a command.
const STRANGER_BULK_BYTES_MAX: i64 = 16 << 10;

/// How far a command has been scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scan {
    /// Bytes from the command's beginning to the next header, which may be beyond the bytes that
    /// have arrived.
    scanned: usize,
    /// Bytes of the command that are not kept any more.
    forgotten: usize,
    /// The number of its bulks, and of those yet to be scanned, once that is known.
    bulks: Option<(usize, usize)>,
    /// It was whole before, and short enough: a limit lowered since does not apply to it.
    is_accepted: bool,
}

/// The findings at the front of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scanned<'b> {
    /// A command that has not arrived in full.
    Incomplete,
    /// This many bytes without a request.
    Nothing(usize),
    /// A command, and the bytes it took.
    Command(Command<'b>, usize),
    /// The end of a command that was beyond the limit, and the bytes that took.
    TooLarge(usize),
    /// Input that is not Redis' protocol: it is answered, and the connection closed.
    Refused(Refusal),
}

/// The error in an input.
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
    /// More bulks than an unauthenticated client may send.
    StrangerCount,
    /// A longer bulk than such a client may send.
    StrangerLength,
    /// The line of an inline command does not end.
    LongLine,
    /// It has a quote that is not closed.
    Quotes,
}

impl Scan {
    /// The scan of an `input` that begins with the whole of this command: from it another scan
    /// finds the command at once. A line is scanned anew, for it is short.
    pub fn of_whole(command: Command<'_>, input: &[u8]) -> Self {
        match memchr::memchr(b'\r', input) {
            Some(end) if command.is_plain() => {
                let (scanned, count) = (end + 2 + command.bytes(), command.count());
                Self { scanned, forgotten: 0, bulks: Some((count, 0)), is_accepted: true }
            }
            _ => Self::default(),
        }
    }

    /// Whether all of the command is within this many bytes of input.
    pub fn is_whole(&self, bytes: usize) -> bool {
        matches!(self.bulks, Some((_, 0))) && self.scanned <= bytes
    }

    /// The length of input from which another scan makes sense.
    pub fn wanted_bytes(&self) -> usize {
        // Behind the last bulk there is no header.
        let is_last = matches!(self.bulks, Some((_, 0)));
        self.scanned + usize::from(!is_last)
    }

    /// Whether the command is longer than `bytes_max`, as far as that is known. One that is
    /// forgotten in part was longer, though more may be allowed by now.
    pub fn is_beyond(&self, bytes_max: usize) -> bool {
        !self.is_accepted && (self.forgotten > 0 || self.scanned > bytes_max)
    }

    /// Forgets the scanned bytes of the command that are within `bytes` of input; returns their
    /// number.
    pub fn forget(&mut self, bytes: usize) -> usize {
        let forgotten = bytes.min(self.scanned);
        self.scanned -= forgotten;
        self.forgotten += forgotten;
        forgotten
    }
}

/// Scans the command at the front of `input`. `progress` is left by an earlier scan of a shorter
/// part of the same input, or the default; behind everything except an incomplete command it is the
/// default again. A command of more than `bytes_max` is too large.
pub fn scan<'b>(input: &'b [u8], progress: &mut Scan, bytes_max: usize) -> Scanned<'b> {
    scan_bounded(input, progress, Bounds { bytes_max, is_stranger: false })
}

/// [`scan`] of an unauthenticated client's input.
pub fn scan_of_stranger<'b>(input: &'b [u8], progress: &mut Scan, bytes_max: usize) -> Scanned<'b> {
    scan_bounded(input, progress, Bounds { bytes_max, is_stranger: true })
}

/// The limits of a client's input.
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
            // As for every header, the byte behind the carriage return is not checked.
            let end = memchr::memchr(b'\r', whole).expect("the header was found before");
            Scanned::Command(Command::of_bulks(&whole[end + 2..], count), consumed)
        }
    }
}

/// A header, from its first byte: its number, if it is one, and the bytes up to behind its end.
/// `None` if it is not all there.
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
