//! SCAN, KEYS and RANDOMKEY: keys in the order in which they lie in memory, and then on flash.
//!
//! A cursor says at which chunk of memory, at which leaf of the compressed zone or at which item of
//! a segment of flash to go on. A key that stays where it is from the first call to the last is
//! returned at least once; one that is stored anew or moves between the tiers meanwhile may be
//! missed or come twice.
//!
//! The server keeps nothing of a scan but, of the last few that have come to flash and of a few
//! that wait for it, what they have read of their segment ([`Listings`]). Other calls read that
//! again, or return without a key where they would have to wait. A call that has keys does not wait
//! for flash, so what it has found is never found a second time.
//!
//! KEYS is the same from the beginning to the end, many turns long. What it has found is kept until
//! then, for its answer begins with how much that is, and counts as parked output.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use ::io::Clock;
use larder::{DumpCursor, Dumped};
use protocol::resp::glob::Pattern;
use protocol::resp::number::unsigned;
use protocol::resp::reply;
use stdx::random::Xorshift;
use stdx::sync::lock;

use super::{Again, Done, Ended, NOT_AN_INTEGER, SYNTAX, Stop, Task};
use crate::live::is_allowed;
use crate::output::{OUTPUT_BYTES_MAX, Output};

/// Keys that a call returns about as many of, unless it says how many.
const COUNT_DEFAULT: usize = 10;

/// More are not looked at in one call: some tens of microseconds.
const COUNT_MAX: usize = 1024;

/// Chunks of memory, or as much of the tiers below, that a call or a turn looks at without a key:
/// some hundred microseconds, also where all that is there is expired.
const CHUNKS_MAX: usize = 16 << 10;

/// The least that a look counts as, which is one leaf of the compressed zone.
const LOOK_CHUNKS_MIN: usize = 64;

/// So many turns RANDOMKEY goes on where it has found nothing.
const WALKS_MAX: usize = 512;

/// What stands around a key of an answer at most: its type, its length and two ends of a line.
const BULK_BYTES: usize = 1 + 3 + 2 + 2;

/// A pattern is gone over in every turn of KEYS. No key needs a longer one.
const PATTERN_BYTES_MAX: usize = 16 << 10;

const LONG_PATTERN: &str = "ERR the pattern is too long";
const CROWDED: &str = "ERR others list what is on flash; try again, or use SCAN";
const TOO_MANY: &str = "ERR too many keys for one answer; use SCAN";

/// Scans on flash that something is kept of between two calls, and as many that wait for it: for
/// each the items of a segment, some hundred KiB.
const LISTINGS_MAX: usize = 8;

/// A listing whose command is executed again.
#[derive(Debug)]
pub struct Listing {
    cursor: DumpCursor,
    /// Nothing, if it does not wait for flash.
    place: Option<Arc<()>>,
    found: Found,
}

/// What KEYS has found.
#[derive(Debug, Default)]
struct Found {
    /// The keys as bulks, one behind the other.
    bytes: Vec<u8>,
    count: usize,
    /// How much of them has been said, when all are found.
    said: Option<usize>,
    /// The bytes that count as kept.
    counted_bytes: usize,
}

impl Listing {
    fn new(cursor: DumpCursor, place: Option<Arc<()>>) -> Self {
        Self { cursor, place, found: Found::default() }
    }

    /// The bytes that it keeps, all of which count from now on.
    pub fn count_bytes(&mut self) -> usize {
        self.found.counted_bytes = self.found.bytes.capacity();
        self.found.counted_bytes
    }

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
    /// One more than have a place.
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

    /// A place for one that may have to wait, until it is dropped; none if as many have one as may.
    fn place(&self) -> Option<Arc<()>> {
        let places = lock(&self.places);
        (Arc::strong_count(&places) <= LISTINGS_MAX).then(|| Arc::clone(&places))
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
    check_allowed(task)?;
    let (mut keys, mut count, mut looked) = (Vec::new(), 0, 0);
    let mut next = 0;
    // One that had to wait for flash, one that an earlier call has left, or one made of the number.
    let (kept, mut place) = match task.client.listing.take() {
        Some(Listing { cursor, place, .. }) => (Some(cursor), place),
        None => (server.listings.take(number), None),
    };
    let was_kept = kept.is_some();
    // A cursor that was never given leads nowhere.
    if let Some(mut cursor) = kept.or_else(|| DumpCursor::from_number(number)) {
        let mut may_wait = || {
            place = place.take().or_else(|| server.listings.place());
            place.is_some()
        };
        let dumped = walk(task, &mut cursor, filter.count, &mut may_wait, |key| {
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
                task.client.listing = Some(Listing::new(cursor, place));
                return Err(Stop::Again(Again::Fetch));
            }
            Dumped::More => {
                next = cursor.number();
                // Who has not been there knows nothing of it, and shall not drive out who has.
                if cursor.is_on_flash() && (was_kept || place.is_some()) {
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

/// Whether keys may be listed.
fn check_allowed(task: &Task<'_, '_, '_, '_, '_>) -> Result<(), Stop> {
    if is_allowed(&task.context.server.live.dump_allowed) {
        return Ok(());
    }
    Err(format!("ERR {} is not allowed: disable-dumping is on", task.name).into())
}

/// `KEYS pattern`. Its progress is how many turns it took.
pub(super) fn keys(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let pattern = task.word();
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(LONG_PATTERN.into());
    }
    let pattern = Pattern::new(pattern);
    check_allowed(task)?;
    let begun = task.client.listing.take();
    let mut listing = begun.unwrap_or_else(|| Listing::new(DumpCursor::default(), None));
    task.client.progress.keys += 1;
    let ended = match listing.found.said {
        Some(_) => Ok(Done::Next),
        None => find(task, &pattern, &mut listing),
    };
    let ended = ended.map(|found| match found {
        Done::Next => listing.found.say(out),
        more => more,
    });
    out.charge_turn();
    if matches!(ended, Ok(Done::Flush) | Err(Stop::Again(_))) {
        task.client.listing = Some(listing);
    }
    ended
}

/// Goes on with KEYS for a turn, unless it has come to the end.
fn find(
    task: &Task<'_, '_, '_, '_, '_>,
    pattern: &Pattern,
    Listing { cursor, place, found }: &mut Listing,
) -> Ended {
    let server = task.context.server;
    let (mut looked, mut is_crowded) = (0, false);
    let mut may_wait = || {
        *place = place.take().or_else(|| server.listings.place());
        is_crowded = place.is_none();
        !is_crowded
    };
    let dumped = walk(task, cursor, COUNT_MAX, &mut may_wait, |key| {
        looked += 1;
        if pattern.matches(key) {
            found.push(key);
        }
        looked >= COUNT_MAX
    });
    if is_crowded {
        return Err(CROWDED.into());
    }
    let uncounted_bytes = found.bytes.capacity().saturating_sub(found.counted_bytes);
    let is_long = found.bytes.len() > server.parked.bytes_max() / 2;
    if is_long || !server.parked.make_room(uncounted_bytes) {
        return Err(TOO_MANY.into());
    }
    match dumped {
        Dumped::More => Ok(Done::Flush),
        Dumped::Pending => Err(Stop::Again(Again::Fetch)),
        Dumped::End => {
            *place = None;
            Ok(Done::Next)
        }
    }
}

impl Found {
    fn push(&mut self, key: &[u8]) {
        let bytes = &mut self.bytes;
        if bytes.capacity() - bytes.len() < key.len() + BULK_BYTES {
            bytes.reserve_exact((bytes.len() / 4).max(key.len() + BULK_BYTES));
        }
        reply::bulk(bytes, key);
        self.count += 1;
    }

    /// Says how many there are and then all of them, a part at a time.
    fn say(&mut self, out: &mut Output<'_, '_>) -> Done {
        let said = self.said.unwrap_or_else(|| {
            reply::array(out.bytes, self.count);
            0
        });
        let rest = &self.bytes[said..];
        let part = rest.len().min(OUTPUT_BYTES_MAX);
        out.bytes.extend_from_slice(&rest[..part]);
        self.said = Some(said + part);
        if part < rest.len() { Done::Flush } else { Done::Next }
    }
}

/// Visits keys until `visit` says that they are enough, or there was much without any. Of flash it
/// visits something only if it has no key yet and `may_wait`.
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

/// `RANDOMKEY`: some key of the first piece of memory that has any, from some place on, and then
/// from the beginning. It does not go to flash. Its progress is how many turns it took, and whether
/// it has come to the beginning.
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
        // Of so many each is the one with the same probability.
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
        task.client.listing = Some(Listing::new(cursor, None));
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
    fn so_many_may_wait_and_who_has_done_so_makes_room() {
        let listings = Listings::default();
        let mut places: Vec<_> = (0..LISTINGS_MAX).map(|_| listings.place()).collect();
        assert!(places.iter().all(Option::is_some));
        assert!(listings.place().is_none());
        places.pop();
        assert!(listings.place().is_some());
    }
}
