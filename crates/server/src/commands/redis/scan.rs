//! SCAN and RANDOMKEY: keys in the order in which they lie in memory, and then on flash.
//!
//! A cursor says at which chunk of memory, at which leaf of the compressed zone or at which item of
//! a segment of flash to go on. A key that stays where it is from the first call to the last is
//! returned at least once; one that is stored anew or moves between the tiers meanwhile may be
//! missed or come twice.
//!
//! The server keeps nothing of a scan but, of the last few that have come to flash, what they have
//! read of their segment ([`Listings`]): other calls read that again. A call that has keys does not
//! wait for flash, so what it has found is never found a second time.

use std::collections::VecDeque;
use std::sync::Mutex;

use ::io::Clock;
use larder::{DumpCursor, Dumped};
use protocol::resp::glob::Pattern;
use protocol::resp::number::unsigned;
use protocol::resp::reply;
use stdx::random::Xorshift;
use stdx::sync::lock;

use super::{Again, Done, Ended, NOT_AN_INTEGER, SYNTAX, Stop, Task};
use crate::live::is_allowed;
use crate::output::Output;

/// Keys that a call returns about as many of, unless it says how many.
const COUNT_DEFAULT: usize = 10;

/// More are not looked at in one call: some tens of microseconds.
const COUNT_MAX: usize = 1024;

/// Pieces of memory without a key that a call looks at before it returns without one.
const LOOKS_MAX: usize = 256;

/// So often RANDOMKEY goes on where it has found nothing: some milliseconds.
const WALKS_MAX: usize = 16;

/// Scans on flash that something is kept of: for each the items of a segment, some hundred KiB.
const LISTINGS_MAX: usize = 8;

/// The last scans that have come to flash, by the numbers that they go on with.
#[derive(Debug, Default)]
pub struct Listings(Mutex<VecDeque<(u64, DumpCursor)>>);

impl Listings {
    /// The scan that goes on with this number.
    fn take(&self, number: u64) -> Option<DumpCursor> {
        let mut kept = lock(&self.0);
        let place = kept.iter().position(|(known, _)| *known == number)?;
        kept.remove(place).map(|(_, cursor)| cursor)
    }

    /// Keeps one until it goes on, or too many others have come.
    fn keep(&self, cursor: DumpCursor) {
        let mut kept = lock(&self.0);
        if kept.len() == LISTINGS_MAX {
            kept.pop_front();
        }
        kept.push_back((cursor.number(), cursor));
    }
}

/// What SCAN is asked for.
struct Filter {
    count: usize,
    pattern: Option<Pattern>,
    /// There are strings only.
    is_string: bool,
}

impl Filter {
    fn of(task: &mut Task<'_, '_, '_, '_, '_>) -> Result<Self, Stop> {
        let mut filter = Self { count: COUNT_DEFAULT, pattern: None, is_string: true };
        let mut pattern = None;
        while let Some(word) = task.words.next() {
            let value = task.words.next().ok_or(SYNTAX)?;
            if word.eq_ignore_ascii_case(b"count") {
                let count = protocol::resp::number::integer(value).ok_or(NOT_AN_INTEGER)?;
                let count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(SYNTAX)?;
                filter.count = count.min(COUNT_MAX);
            } else if word.eq_ignore_ascii_case(b"match") {
                pattern = Some(value);
            } else if word.eq_ignore_ascii_case(b"type") {
                filter.is_string = value.eq_ignore_ascii_case(b"string");
            } else {
                return Err(SYNTAX.into());
            }
        }
        filter.pattern = pattern.map(Pattern::new);
        Ok(filter)
    }

    fn fits(&self, key: &[u8]) -> bool {
        self.is_string && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(key))
    }
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`.
pub(super) fn scan(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let number = unsigned(task.word()).ok_or("ERR invalid cursor")?;
    let filter = Filter::of(task)?;
    let server = task.context.server;
    if !is_allowed(&server.live.dump_allowed) {
        return Err("ERR scan is not allowed: disable-dumping is on".into());
    }
    let (mut keys, mut count, mut looked) = (Vec::new(), 0, 0);
    let mut next = 0;
    // One that had to wait for flash, one that an earlier call has left, or one made of the number.
    let kept = task.client.listing.take().or_else(|| server.listings.take(number));
    // A cursor that was never given leads nowhere.
    if let Some(mut cursor) = kept.or_else(|| DumpCursor::from_number(number)) {
        let dumped = walk(task, &mut cursor, filter.count, true, |key| {
            looked += 1;
            if filter.fits(key) {
                reply::bulk(&mut keys, key);
                count += 1;
            }
            looked >= filter.count
        });
        match dumped {
            Dumped::End => {}
            Dumped::Pending => {
                task.client.listing = Some(cursor);
                return Err(Stop::Again(Again::Fetch));
            }
            Dumped::More => {
                next = cursor.number();
                if cursor.is_on_flash() {
                    server.listings.keep(cursor);
                }
            }
        }
    }
    reply::array(out.bytes, 2);
    reply::bulk(out.bytes, next.to_string().as_bytes());
    reply::array(out.bytes, count);
    out.bytes.extend_from_slice(&keys);
    out.charge_turn();
    Ok(Done::Next)
}

/// Visits keys until `visit` says that they are enough, or there was much without any. Of flash it
/// visits something only if it has no key yet and `may_wait`.
fn walk(
    task: &Task<'_, '_, '_, '_, '_>,
    cursor: &mut DumpCursor,
    chunks: usize,
    may_wait: bool,
    mut visit: impl FnMut(&[u8]) -> bool,
) -> Dumped {
    let (mut has_any, mut is_enough) = (false, false);
    for _ in 0..LOOKS_MAX {
        if cursor.is_on_flash() && (has_any || !may_wait) {
            break;
        }
        let dumped = task.session.dump(cursor, chunks, |item| {
            has_any = true;
            is_enough |= visit(item.key());
        });
        if dumped != Dumped::More || is_enough || task.session.is_long() {
            return dumped;
        }
    }
    Dumped::More
}

/// `RANDOMKEY`: some key of the first piece of memory that has any, from some place on. It does not
/// go to flash.
pub(super) fn randomkey(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let seed = task.context.server.clock.monotonic_us() ^ task.client.id << 48;
    let mut random = Xorshift::seeded(seed);
    let somewhere = task.session.cursor_anywhere(random.draw());
    let mut found: Option<Vec<u8>> = None;
    for mut cursor in [somewhere, DumpCursor::default()] {
        for _ in 0..WALKS_MAX {
            let mut seen = 0;
            let dumped = walk(task, &mut cursor, COUNT_MAX, false, |key| {
                seen += 1;
                // Of so many each is the one with the same probability.
                if random.draw().is_multiple_of(seen) {
                    found = Some(key.to_vec());
                }
                true
            });
            let is_over = dumped != Dumped::More || cursor.is_on_flash();
            if found.is_some() || is_over || task.session.is_long() {
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
    out.charge_turn();
    Ok(Done::Next)
}
