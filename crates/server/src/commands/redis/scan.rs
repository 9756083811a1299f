//! SCAN and RANDOMKEY: keys in the order in which they lie in memory.
//!
//! A cursor says at which chunk of memory, or at which leaf of the compressed zone, to go on, and
//! the server keeps nothing of it. A key that stays where it is from the first call to the last is
//! returned at least once; one that is stored anew or moves between the zones meanwhile may be
//! missed or come twice, and what is on flash is not listed.

use ::io::Clock;
use larder::{DumpCursor, Dumped};
use protocol::resp::number::unsigned;
use protocol::resp::{glob, reply};
use stdx::random::Xorshift;

use super::{Done, Ended, NOT_AN_INTEGER, SYNTAX, Stop, Task};
use crate::output::Output;

/// Keys that a call returns about as many of, unless it says how many.
const COUNT_DEFAULT: usize = 10;

/// More are not looked at in one call: some tens of microseconds.
const COUNT_MAX: usize = 1024;

/// Pieces of memory without a key that a call looks at before it returns without one.
const LOOKS_MAX: usize = 256;

/// So often RANDOMKEY goes on where it has found nothing: some milliseconds.
const WALKS_MAX: usize = 16;

/// What SCAN is asked for.
struct Filter<'b> {
    count: usize,
    pattern: Option<&'b [u8]>,
    /// There are strings only.
    is_string: bool,
}

impl<'b> Filter<'b> {
    fn of(task: &mut Task<'_, '_, 'b, '_, '_>) -> Result<Self, Stop> {
        let mut filter = Self { count: COUNT_DEFAULT, pattern: None, is_string: true };
        while let Some(word) = task.words.next() {
            let value = task.words.next().ok_or(SYNTAX)?;
            if word.eq_ignore_ascii_case(b"count") {
                let count = protocol::resp::number::integer(value).ok_or(NOT_AN_INTEGER)?;
                let count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(SYNTAX)?;
                filter.count = count.min(COUNT_MAX);
            } else if word.eq_ignore_ascii_case(b"match") {
                filter.pattern = Some(value);
            } else if word.eq_ignore_ascii_case(b"type") {
                filter.is_string = value.eq_ignore_ascii_case(b"string");
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(filter)
    }

    fn fits(&self, key: &[u8]) -> bool {
        self.is_string && self.pattern.is_none_or(|pattern| glob::matches(pattern, key))
    }
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`.
pub(super) fn scan(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let cursor = unsigned(task.word()).ok_or("ERR invalid cursor")?;
    let filter = Filter::of(task)?;
    if !task.context.server.options.dump_allowed {
        return Err("ERR scan is not allowed: the server was started with -X".into());
    }
    let mut keys = Vec::new();
    let mut count = 0;
    // A cursor that was never given leads nowhere.
    let mut next = None;
    if let Some(mut cursor) = DumpCursor::from_number(cursor) {
        let mut looked = 0;
        next = walk(task, &mut cursor, filter.count, |key| {
            looked += 1;
            if filter.fits(key) {
                reply::bulk(&mut keys, key);
                count += 1;
            }
            looked >= filter.count
        });
    }
    reply::array(out.bytes, 2);
    reply::bulk(out.bytes, next.unwrap_or(0).to_string().as_bytes());
    reply::array(out.bytes, count);
    out.bytes.extend_from_slice(&keys);
    Ok(Done::Next)
}

/// Visits keys until `visit` says that they are enough, or there was much without any. Returns the
/// number of the cursor behind them; none at the end.
fn walk(
    task: &Task<'_, '_, '_, '_, '_>,
    cursor: &mut DumpCursor,
    chunks: usize,
    mut visit: impl FnMut(&[u8]) -> bool,
) -> Option<u64> {
    for _ in 0..LOOKS_MAX {
        let mut is_enough = false;
        let dumped = task.session.dump(cursor, chunks, |item| is_enough |= visit(item.key()));
        let next = cursor.number();
        if dumped != Dumped::More || next.is_none() || is_enough || task.session.is_long() {
            return next.filter(|_| dumped == Dumped::More);
        }
    }
    cursor.number()
}

/// `RANDOMKEY`: some key of the first piece of memory that has any, from some place on.
pub(super) fn randomkey(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let seed = task.context.server.clock.monotonic_us() ^ task.client.id << 48;
    let mut random = Xorshift::seeded(seed);
    let somewhere = task.session.cursor_anywhere(random.draw());
    let mut found: Option<Vec<u8>> = None;
    for mut cursor in [somewhere, DumpCursor::default()] {
        for _ in 0..WALKS_MAX {
            let mut seen = 0;
            let next = walk(task, &mut cursor, COUNT_MAX, |key| {
                seen += 1;
                // Of so many each is the one with the same probability.
                if random.draw().is_multiple_of(seen) {
                    found = Some(key.to_vec());
                }
                true
            });
            if found.is_some() || next.is_none() || task.session.is_long() {
                break;
            }
        }
        if found.is_some() {
            break;
        }
    }
    match found {
        Some(key) => reply::bulk(out.bytes, &key),
        None => reply::null(out.bytes, task.version()),
    }
    Ok(Done::Next)
}
