//! SCAN, KEYS and RANDOMKEY: keys in the order in which they lie in memory, and then on flash.
//!
//! A cursor says at which chunk of memory, at which leaf of the compressed zone or at which item of
//! a segment of flash to go on. A key that stays where it is from the first call to the last is
//! returned at least once; one that is stored anew or moves between the tiers meanwhile may be
//! missed or come twice.
//!
//! The server keeps nothing of a scan except, for the last few that have come to flash and a few
//! that wait for it, the items read of their segment ([`Listings`]). Other calls read that again,
//! or return without a key where they would have to wait. A call that has keys does not wait for
//! flash, so the keys it has found are never found a second time.
//!
//! KEYS is a scan from beginning to end, many turns long. The keys it has found are kept until
//! then, for its answer begins with their number, and count as parked output.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use ::io::Clock;
use larder::{DumpCursor, Dumped};
use protocol::resp::glob::Pattern;
use protocol::resp::number::unsigned;
use protocol::resp::reply;
use stdx::random::Xorshift;
use stdx::sync::lock;

use super::kept::KeptBytes;
use super::{Again, Done, Ended, NOT_AN_INTEGER, SYNTAX, Stop, Task};
use crate::live_options::is_allowed;
use crate::output::{OUTPUT_BYTES_MAX, Output};

/// Number of keys that a call returns about, unless it says how many.
const COUNT_DEFAULT: usize = 10;

/// The most keys that one call looks at: some tens of microseconds.
const COUNT_MAX: usize = 1024;

/// Chunks of memory, or as much of the other tiers, that a call or a turn looks at without a key:
/// some hundred microseconds, also where all items are expired.
const CHUNKS_MAX: usize = 16 << 10;

/// The least that a look counts as, which is one leaf of the compressed zone.
const LOOK_CHUNKS_MIN: usize = 64;

/// Turns that RANDOMKEY goes on without having found a key.
const WALKS_MAX: usize = 512;

/// The most bytes around a key of an answer: its type, its length and two ends of a line.
const BULK_BYTES: usize = 1 + 3 + 2 + 2;

/// The longest pattern. It is gone over in every turn of KEYS, and no key needs a longer one.
const PATTERN_BYTES_MAX: usize = 16 << 10;

const LONG_PATTERN: &str = "ERR the pattern is too long";
const TOO_MANY: &str = "ERR too many keys for one answer; use SCAN";

/// Scans on flash whose state is kept between two calls, and as many that wait for it: for each the
/// items of a segment, some hundred KiB.
const LISTINGS_MAX: usize = 8;

/// A listing whose command is executed again.
#[derive(Debug)]
pub struct Listing {
    cursor: DumpCursor,
    /// Its place; `None` if it does not wait for flash.
    place: Option<Arc<()>>,
}

/// The keys that KEYS has found.
#[derive(Debug, Default)]
pub struct Found {
    /// The keys as bulks, one behind the other.
    pub kept: KeptBytes,
    count: usize,
    /// Where to go on, as for SCAN.
    next: u64,
    /// Bytes of them that have been sent, when all are found.
    said: Option<usize>,
}

impl Listing {
    /// Whether others may wait for its place.
    pub fn has_place(&self) -> bool {
        self.place.is_some()
    }
}

/// The last scans that have come to flash, by the numbers that they go on with, and those that wait
/// for it.
#[derive(Debug, Default)]
pub struct Listings {
    kept: Mutex<VecDeque<(u64, DumpCursor)>>,
    /// Has one more reference than there are places taken.
    places: Mutex<Arc<()>>,
}

impl Listings {
    /// The scan that goes on with this number.
    fn take(&self, number: u64) -> Option<DumpCursor> {
        let mut kept = lock(&self.kept);
        let place = kept.iter().position(|(known, _)| *known == number)?;
        kept.remove(place).map(|(_, cursor)| cursor)
    }

    /// Keeps one until it goes on, or too many others have come.
    fn keep(&self, cursor: DumpCursor) {
        let mut kept = lock(&self.kept);
        if kept.len() == LISTINGS_MAX {
            kept.pop_front();
        }
        kept.push_back((cursor.number(), cursor));
    }

    /// A place for one that may have to wait, until it is dropped; `None` if all are taken.
    fn place(&self) -> Option<Arc<()>> {
        let places = lock(&self.places);
        (Arc::strong_count(&places) <= LISTINGS_MAX).then(|| Arc::clone(&places))
    }
}

/// The arguments of SCAN.
struct Filter {
    count: usize,
    pattern: Option<Pattern>,
    /// The type is string, the only one there is.
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
    check_allowed(task)?;
    let (mut keys, mut count, mut looked) = (Vec::new(), 0, 0);
    let next = list(task, number, filter.count, |key| {
        looked += 1;
        if filter.fits(key) {
            reply::bulk(&mut keys, key);
            count += 1;
        }
        looked >= filter.count
    })?;
    reply::array(out.bytes, 2);
    reply::bulk(out.bytes, next.to_string().as_bytes());
    reply::array(out.bytes, count);
    out.bytes.extend_from_slice(&keys);
    out.charge_turn();
    Ok(Done::Next)
}

/// Visits some keys from the cursor with this number on; returns the number to go on from, 0 at the
/// end.
fn list(
    task: &mut Task<'_, '_, '_, '_, '_>,
    number: u64,
    chunks: usize,
    visit: impl FnMut(&[u8]) -> bool,
) -> Result<u64, Stop> {
    let server = task.context.server;
    // A cursor that waited for flash, one that an earlier call has left, or one made of the number.
    let (kept, mut place) = match task.client.listing.take() {
        Some(Listing { cursor, place }) => (Some(cursor), place),
        None => (server.listings.take(number), None),
    };
    let was_kept = kept.is_some();
    // A cursor that was never given leads nowhere.
    let Some(mut cursor) = kept.or_else(|| DumpCursor::from_number(number)) else { return Ok(0) };
    let mut may_wait = || {
        place = place.take().or_else(|| server.listings.place());
        place.is_some()
    };
    match walk(task, &mut cursor, chunks, &mut may_wait, visit) {
        Dumped::End => Ok(0),
        Dumped::Pending => {
            task.client.listing = Some(Listing { cursor, place });
            Err(Stop::Again(Again::Fetch))
        }
        Dumped::More => {
            let next = cursor.number();
            // A scan that has not read from flash has no state to keep, and must not displace one
            // that has.
            if cursor.is_on_flash() && (was_kept || place.is_some()) {
                server.listings.keep(cursor);
            }
            Ok(next)
        }
    }
}

/// Whether keys may be listed.
fn check_allowed(task: &Task<'_, '_, '_, '_, '_>) -> Result<(), Stop> {
    if is_allowed(&task.context.server.live.dump_allowed) {
        return Ok(());
    }
    Err(format!("ERR {} is not allowed: disable-dumping is on", task.name).into())
}

/// `KEYS pattern`. Its progress is how many turns it took.
pub(super) fn keys(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let mut found = task.client.found.take().unwrap_or_default();
    task.client.progress.keys += 1;
    let ended = match found.said {
        None => find(task, &mut found),
        Some(_) => Ok(Done::Next),
    };
    let ended = match ended {
        Ok(Done::Next) => Ok(found.say(out)),
        not_yet => not_yet,
    };
    out.charge_turn();
    if matches!(ended, Ok(Done::Flush) | Err(Stop::Again(_))) {
        task.client.found = Some(found);
    }
    ended
}

/// Goes on with KEYS for a turn; [`Done::Next`] means that it has found all.
fn find(task: &mut Task<'_, '_, '_, '_, '_>, found: &mut Found) -> Ended {
    check_allowed(task)?;
    let pattern = task.word();
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(LONG_PATTERN.into());
    }
    let pattern = Pattern::new(pattern);
    let mut looked = 0;
    // If it would have to wait for flash, and all places are taken, it stays where it was.
    let next = list(task, found.next, COUNT_MAX, |key| {
        looked += 1;
        if pattern.matches(key) {
            found.push(key);
        }
        looked >= COUNT_MAX
    })?;
    let parked = &task.context.server.parked;
    let more_bytes = found.kept.uncounted();
    // The last of the room is for short replies.
    let kept_bytes = task.client.kept_bytes + more_bytes;
    if more_bytes > 0 && !parked.make_room_for_kept(more_bytes + OUTPUT_BYTES_MAX, kept_bytes) {
        return Err(TOO_MANY.into());
    }
    found.next = next;
    Ok(if next == 0 { Done::Next } else { Done::Flush })
}

impl Found {
    fn push(&mut self, key: &[u8]) {
        self.kept.reserve(key.len() + BULK_BYTES);
        reply::bulk(&mut self.kept.bytes, key);
        self.count += 1;
    }

    /// Sends the number of keys and then all of them, a part at a time.
    fn say(&mut self, out: &mut Output<'_, '_>) -> Done {
        let said = self.said.unwrap_or_else(|| {
            reply::array(out.bytes, self.count);
            0
        });
        let rest = &self.kept.bytes[said..];
        let part = rest.len().min(OUTPUT_BYTES_MAX);
        out.bytes.extend_from_slice(&rest[..part]);
        self.said = Some(said + part);
        if part < rest.len() { Done::Flush } else { Done::Next }
    }
}

/// Visits keys until `visit` says that they are enough, or much was visited without any. It visits
/// flash only if it has no key yet and `may_wait`.
fn walk(
    task: &Task<'_, '_, '_, '_, '_>,
    cursor: &mut DumpCursor,
    chunks: usize,
    may_wait: &mut dyn FnMut() -> bool,
    mut visit: impl FnMut(&[u8]) -> bool,
) -> Dumped {
    let (mut has_any, mut is_enough) = (false, false);
    for _ in 0..CHUNKS_MAX / chunks.max(LOOK_CHUNKS_MIN) {
        if cursor.is_on_flash() && (has_any || !may_wait()) {
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

/// `RANDOMKEY`: some key of the first piece of memory that has any, from a random place on, and
/// then from the beginning. It does not go to flash. Its progress is the number of turns it took,
/// and whether it has come to the beginning.
pub(super) fn randomkey(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let seed = task.context.server.clock.monotonic_us() ^ task.client.id << 48;
    let mut random = Xorshift::seeded(seed);
    let mut cursor = match task.client.listing.take() {
        Some(begun) => begun.cursor,
        None => task.session.cursor_anywhere(random.draw()),
    };
    let mut found: Option<Vec<u8>> = None;
    let mut seen = 0;
    let dumped = walk(task, &mut cursor, COUNT_MAX, &mut || false, |key| {
        seen += 1;
        // Each of the `seen` keys is chosen with the same probability.
        if random.draw().is_multiple_of(seen) {
            found = Some(key.to_vec());
        }
        true
    });
    out.charge_turn();
    let progress = &mut task.client.progress;
    progress.keys += 1;
    let mut goes_on = found.is_none() && progress.keys < WALKS_MAX;
    if goes_on && (dumped != Dumped::More || cursor.is_on_flash()) {
        goes_on = progress.count == 0;
        (progress.count, cursor) = (1, DumpCursor::default());
    }
    if goes_on {
        task.client.listing = Some(Listing { cursor, place: None });
        return Ok(Done::Flush);
    }
    match found {
        Some(key) => reply::bulk(out.bytes, &key),
        None => reply::null(out.bytes, task.version()),
    }
    Ok(Done::Next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_wait_up_to_the_limit_and_a_finished_one_makes_room() {
        let listings = Listings::default();
        let mut places: Vec<_> = (0..LISTINGS_MAX).map(|_| listings.place()).collect();
        assert!(places.iter().all(Option::is_some));
        assert!(listings.place().is_none());
        places.pop();
        assert!(listings.place().is_some());
    }
}
