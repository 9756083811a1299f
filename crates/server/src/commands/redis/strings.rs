//! Reads of values: GET, MGET, STRLEN, and GETDEL and GETEX, which also change the key.

use larder::{Expiry, Item, Lookup};
use protocol::resp::reply;

use super::expiry::{Deadline, Span};
use super::{Again, Done, Ended, SYNTAX, Stop, Task, deadline};
use crate::output::Output;
use crate::watch::{DETAIL, FETCHERS};

/// Keys of MGET that are read from flash together. A session ends with a megabyte of values, and
/// values it has not been asked for are read again: that is little if they have a kilobyte each.
const WANTED_KEYS_MAX: usize = 1024;

impl<'s> Task<'_, '_, '_, 's, '_> {
    /// The key's item, counted as a get.
    pub(super) fn look_up(&self, key: &[u8], hash: larder::Hash) -> Result<Option<Item<'s>>, Stop> {
        self.look_up_if(key, hash, |_| true)
    }

    /// The key's item, counted as a get, once there is room for its value.
    pub(super) fn look_up_for(
        &self,
        key: &[u8],
        hash: larder::Hash,
        out: &mut Output<'_, 's>,
    ) -> Result<Option<Item<'s>>, Stop> {
        self.look_up_if(key, hash, |item| out.has_room_for(item.value_bytes()))
    }

    fn look_up_if(
        &self,
        key: &[u8],
        hash: larder::Hash,
        has_room_for: impl FnOnce(&Item<'s>) -> bool,
    ) -> Result<Option<Item<'s>>, Stop> {
        let item = match self.session.look_up(key, hash) {
            Lookup::Hit(item) if !has_room_for(&item) => return Err(Stop::Again(Again::Room)),
            Lookup::Hit(item) => Some(item),
            Lookup::Miss => None,
            Lookup::Pending => return Err(Stop::Again(Again::Fetch)),
        };
        self.count_get(key, item.as_ref());
        Ok(item)
    }

    /// The key's item, without a trace.
    pub(super) fn peek(&self, key: &[u8], hash: larder::Hash) -> Result<Option<Item<'s>>, Stop> {
        match self.session.peek_anywhere(key, hash) {
            Lookup::Hit(item) => Ok(Some(item)),
            Lookup::Miss => Ok(None),
            Lookup::Pending => Err(Stop::Again(Again::Fetch)),
        }
    }

    /// Counts a get like text's, and tells the watchers.
    pub(super) fn count_get(&self, key: &[u8], item: Option<&Item<'_>>) {
        let counters = self.context.counters;
        counters.cmd_get.one();
        match item {
            Some(item) => {
                counters.get_hits.one();
                counters.cost_saved_us.add(u64::from(item.cost_us()));
            }
            None => counters.get_misses.one(),
        }
        if self.context.is_watched(FETCHERS | DETAIL) {
            self.context.note_get(key, item.is_some(), item);
        }
    }

    /// Answers with an item's value, or that there is none.
    pub(super) fn answer_item(&self, item: Option<&Item<'s>>, out: &mut Output<'_, 's>) {
        match item {
            None => reply::null(out.bytes, self.version()),
            Some(item) => {
                reply::bulk_header(out.bytes, item.value_bytes());
                out.value_line(item);
            }
        }
    }
}

/// `GET key`.
pub(super) fn get<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let (key, hash) = task.key();
    let item = task.look_up_for(key, hash, out)?;
    task.answer_item(item.as_ref(), out);
    Ok(Done::Next)
}

/// `STRLEN key`.
pub(super) fn strlen<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let (key, hash) = task.bare_key();
    let bytes = task.look_up(key, hash)?.map_or(0, |item| item.value_bytes());
    reply::integer(out.bytes, bytes as i64);
    Ok(Done::Next)
}

/// `MGET key ...`: its progress is how many answers have been written.
pub(super) fn mget<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let count = task.words.len();
    task.go_on();
    while task.words.len() > 0 {
        if task.must_pause(out) {
            return Ok(Done::Flush);
        }
        let (key, hash) = task.key();
        let item = match task.look_up_for(key, hash, out) {
            Ok(item) => item,
            Err(stop) => {
                if matches!(stop, Stop::Again(Again::Fetch)) {
                    want_rest(task);
                }
                return Err(stop);
            }
        };
        if !task.client.progress.is_begun() {
            reply::array(out.bytes, count);
        }
        task.answer_item(item.as_ref(), out);
        task.advance(out);
    }
    Ok(Done::Next)
}

/// Has items on flash that the next keys will wait for read meanwhile.
#[cold]
fn want_rest(task: &mut Task<'_, '_, '_, '_, '_>) {
    for _ in 0..task.words.len().min(WANTED_KEYS_MAX) {
        let (key, hash) = task.bare_key();
        task.session.want(key, hash);
    }
}

/// Makes a command that answers with this item wait until there is room for the part that its
/// client may not take: before it changes anything, since it is executed anew.
pub(super) fn needs_room_for(item: &Item<'_>, out: &mut Output<'_, '_>) -> Result<(), Stop> {
    match out.has_room_for(item.value_bytes()) {
        true => Ok(()),
        false => Err(Stop::Again(Again::Room)),
    }
}

/// `GETDEL key`.
pub(super) fn getdel<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let (key, hash) = task.key();
    loop {
        let observed = task.session.observe(key, hash).map_err(|refusal| task.refused(refusal))?;
        let Some(observed) = observed else {
            task.count_get(key, None);
            task.answer_item(None, out);
            return Ok(Done::Next);
        };
        needs_room_for(observed.item(), out)?;
        if task.session.remove_observed(&observed) {
            task.count_get(key, Some(observed.item()));
            task.count_delete(key, true);
            task.answer_item(Some(observed.item()), out);
            return Ok(Done::Next);
        }
    }
}

/// `GETEX key [EX seconds | PX milliseconds | EXAT second | PXAT millisecond | PERSIST]`.
pub(super) fn getex<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let (key, hash) = task.key();
    let change = getex_change(task)?;
    let count = |item: Option<&Item<'_>>| {
        task.count_get(key, item);
        if change.is_some() {
            task.count_touch(item.is_some());
        }
    };
    loop {
        let observed = task.session.observe(key, hash).map_err(|refusal| task.refused(refusal))?;
        let Some(observed) = observed else {
            count(None);
            task.answer_item(None, out);
            return Ok(Done::Next);
        };
        needs_room_for(observed.item(), out)?;
        let expiry = match change {
            None => None,
            Some(None) => Some(Expiry::NEVER),
            Some(Some(at)) => Some(deadline::expiry_at(at.unix_ms(task)?)),
        };
        let is_done = match expiry.filter(|&expiry| expiry != observed.item().expiry()) {
            None => true,
            Some(expiry) => {
                let touched = task.session.touch_observed(&observed, expiry);
                touched.map_err(|refusal| task.refused(refusal))?
            }
        };
        if is_done {
            count(Some(observed.item()));
            task.answer_item(Some(observed.item()), out);
            return Ok(Done::Next);
        }
    }
}

/// The change of GETEX to the expiry: none, removal, or a new one.
fn getex_change<'b>(
    task: &mut Task<'_, '_, 'b, '_, '_>,
) -> Result<Option<Option<Deadline<'b>>>, Stop> {
    let mut change: Option<Option<Deadline<'b>>> = None;
    while let Some(word) = task.words.next() {
        let next = if word.eq_ignore_ascii_case(b"persist") {
            None
        } else {
            let span = Span::of_option(word).ok_or(SYNTAX)?;
            Some(Deadline { span, amount: task.words.next().ok_or(SYNTAX)? })
        };
        let span = |deadline: Option<Deadline<'b>>| deadline.map(|deadline| deadline.span);
        // Of two in the same unit, the last one counts.
        if change.is_some_and(|before| span(before) != span(next)) {
            return Err(SYNTAX.into());
        }
        change = Some(next);
    }
    Ok(change)
}
