//! `get`, `gets`, `gat`, `gats`.

use larder::{Ahead, Hash, Item, Lookup, Session};
use protocol::reply;
use protocol::request::{ExpiryTime, Get};

use super::{Again, Context, Flow, Outcome, expiry};
use crate::output::Output;
use crate::watch::{DETAIL, FETCHERS};

/// Answers every key found. When the output is full or the session has to end, `get` and `hash_at`
/// say where to go on.
pub fn get<'s, 'c>(
    context: &Context<'_, 'c>,
    session: &'s Session<'c>,
    get: &mut Get<'_>,
    hash_at: &mut usize,
    ahead: &mut Ahead<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let mut tally = Tally::default();
    let mut keys = get.keys();
    let mut next = *hash_at;
    let stopped = loop {
        let before = keys.rest();
        let Some(key) = keys.next() else {
            break None;
        };
        ahead.reach(session, next, true);
        let found = if out.is_full() || session.is_long() {
            Err(Ok(Flow::Flush))
        } else {
            let hash = ahead.hashes()[next];
            let how = (get.with_cas, get.touch, true);
            find(context, session, how, key, hash, out).map_err(Err)
        };
        match found {
            Ok(Some(item)) => {
                let cas = get.with_cas.then(|| context.shown_cas(item.cas()));
                reply::value_header(out.bytes, key, item.flags(), item.value_bytes(), cas);
                out.value_line(&item);
                tally.hit(item.cost_us());
            }
            Ok(None) => tally.miss(),
            Err(stopped) => {
                get.keys = before;
                if matches!(stopped, Err(Again::Fetch)) {
                    want(session, keys, &ahead.hashes()[next + 1..]);
                }
                break Some(stopped);
            }
        }
        next += 1;
    };
    *hash_at = next;
    tally.count(context, get.touch.is_some());
    if let Some(stopped) = stopped {
        return stopped;
    }
    if !get.more {
        reply::line(out.bytes, reply::END);
    }
    Ok(Flow::Next)
}

/// Has items on flash that the remaining keys will wait for read meanwhile.
#[cold]
#[inline(never)]
fn want<'b>(session: &Session<'_>, keys: impl Iterator<Item = &'b [u8]>, hashes: &[Hash]) {
    keys.zip(hashes).for_each(|(key, &hash)| session.want(key, hash));
}

/// Finds one key, perhaps with a CAS unique to compare later, perhaps setting a new expiry, perhaps
/// appending its value to the output. Inlined into each of its two callers: text's `get` must not
/// pay for a call.
#[inline(always)]
pub fn find<'s>(
    context: &Context<'_, '_>,
    session: &'s Session<'_>,
    (with_cas, touch, with_value): (bool, Option<ExpiryTime>, bool),
    key: &[u8],
    hash: Hash,
    out: &mut Output<'_, 's>,
) -> Result<Option<Item<'s>>, Again> {
    let item = match touch {
        None if with_cas => match session.get_with_cas(key, hash) {
            Ok(item) => item,
            // As for a touch.
            Err(refusal) => context.settle(refusal).map(|_| None)?,
        },
        None => match session.look_up(key, hash) {
            Lookup::Hit(item) => Some(item),
            Lookup::Miss => None,
            Lookup::Pending => return Err(Again::Fetch),
        },
        Some(time) => {
            match session.get_and_touch(key, hash, expiry(time, session)) {
                Ok(item) => item,
                // A touch that finds no memory is answered as a miss, and changes nothing.
                Err(refusal) => context.settle(refusal).map(|_| None)?,
            }
        }
    };
    if with_value && item.is_some_and(|item| !out.has_room_for(item.value_bytes())) {
        return Err(Again::Room);
    }
    if context.is_watched(FETCHERS | DETAIL) {
        context.note_get(key, item.is_some(), item.as_ref());
    }
    Ok(item)
}

/// Hits and misses of one command, counted once at its end: as a get, or else as a touch.
#[derive(Default)]
pub struct Tally {
    hits: u64,
    misses: u64,
    /// Microseconds that remaking the hits' values would cost.
    cost_us: u64,
}

impl Tally {
    /// Counts a key that was found, and what remaking its value costs.
    #[inline]
    pub fn hit(&mut self, cost_us: u32) {
        self.hits += 1;
        self.cost_us += u64::from(cost_us);
    }

    /// Counts a key that was not found.
    #[inline]
    pub fn miss(&mut self) {
        self.misses += 1;
    }

    /// Adds them to the worker's counters.
    pub fn count(&self, context: &Context<'_, '_>, touched: bool) {
        let counters = context.counters;
        let (commands, hits, misses) = if touched {
            (&counters.cmd_touch, &counters.touch_hits, &counters.touch_misses)
        } else {
            (&counters.cmd_get, &counters.get_hits, &counters.get_misses)
        };
        commands.add(self.hits + self.misses);
        hits.add(self.hits);
        misses.add(self.misses);
        counters.cost_saved_us.add(self.cost_us);
    }
}
