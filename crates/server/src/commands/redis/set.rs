//! Stores of values: SET with all its options, and the older commands.

use larder::{Attributes, Condition, Draft, Expiry, Hash, Item, Store, Stored, Successor};
use protocol::resp::number::integer;
use protocol::resp::reply;

use super::expiry::{Deadline, Span};
use super::strings::needs_room_for;
use super::{Done, Ended, NOT_AN_INTEGER, SYNTAX, Stop, Task, deadline};
use crate::namespaces::Act;
use crate::output::Output;
use crate::watch::{self, MUTATIONS};

/// The options of a store.
#[derive(Debug, Clone, Copy, Default)]
struct How<'b> {
    /// `NX`: only if the key is not there.
    is_absent: bool,
    /// `XX`: only if it is.
    is_present: bool,
    /// `GET`: the value before is the answer.
    returns_old: bool,
    /// `KEEPTTL`: the expiry before stays.
    keeps_expiry: bool,
    /// `EX`, `PX`, `EXAT`, `PXAT`.
    deadline: Option<Deadline<'b>>,
    /// `COST`: microseconds that it took to make the value. An option of Larder's own.
    cost_us: Option<u32>,
}

impl<'b> How<'b> {
    /// Reads the options behind the value.
    fn of(task: &mut Task<'_, '_, 'b, '_, '_>) -> Result<Self, Stop> {
        let mut how = Self::default();
        let mut cost = None;
        while let Some(word) = task.words.next() {
            let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
            if is(b"nx") && !how.is_present {
                how.is_absent = true;
            } else if is(b"xx") && !how.is_absent {
                how.is_present = true;
            } else if is(b"get") {
                how.returns_old = true;
            } else if is(b"keepttl") && how.deadline.is_none() {
                how.keeps_expiry = true;
            } else if is(b"cost") && cost.is_none() {
                cost = Some(task.words.next().ok_or(SYNTAX)?);
            } else {
                let span = Span::of_option(word).ok_or(SYNTAX)?;
                // Of two in the same unit, the last one counts.
                let is_other = how.deadline.is_some_and(|before| before.span != span);
                if is_other || how.keeps_expiry {
                    return Err(SYNTAX.into());
                }
                how.deadline = Some(Deadline { span, amount: task.words.next().ok_or(SYNTAX)? });
            }
        }
        how.cost_us = cost.map(cost_us).transpose()?;
        Ok(how)
    }

    /// Whether the present item has to be looked at first.
    fn observes(&self) -> bool {
        self.returns_old || self.keeps_expiry
    }
}

/// A cost in microseconds; a cost beyond 32 bits counts as their maximum.
fn cost_us(word: &[u8]) -> Result<u32, Stop> {
    let cost = integer(word).filter(|&cost| cost >= 0).ok_or(NOT_AN_INTEGER)?;
    Ok(u32::try_from(cost).unwrap_or(u32::MAX))
}

/// The outcome of a store.
struct Set<'s> {
    is_stored: bool,
    /// The item's expiry, if it was stored.
    expiry: Expiry,
    /// The item before, if it was looked at.
    old: Option<Item<'s>>,
}

impl<'s> Task<'_, '_, '_, 's, '_> {
    /// Stores a value. Its client flags are 0.
    fn store(
        &mut self,
        (key, hash): (&[u8], Hash),
        value: &[u8],
        how: &How<'_>,
        out: &mut Output<'_, '_>,
    ) -> Result<Set<'s>, Stop> {
        let expiry = match how.deadline {
            None => Expiry::NEVER,
            Some(end) => deadline::expiry_at(end.unix_ms(self)?),
        };
        let set = if how.observes() {
            self.store_observed((key, hash), value, expiry, how, out)?
        } else {
            let condition = match (how.is_absent, how.is_present) {
                (true, _) => Condition::Absent,
                (_, true) => Condition::Present,
                _ => Condition::Always,
            };
            let is_stored = self.store_if((key, hash), value, expiry, how.cost_us, condition)?;
            Set { is_stored, expiry, old: None }
        };
        self.context.counters.cmd_set.one();
        self.context.count_namespace(key, Act::Set);
        self.log_store((key, hash), set.is_stored, value.len(), set.expiry);
        Ok(set)
    }

    /// Stores a value under a condition; returns whether that held.
    fn store_if(
        &self,
        (key, hash): (&[u8], Hash),
        value: &[u8],
        expiry: Expiry,
        cost_us: Option<u32>,
        condition: Condition,
    ) -> Result<bool, Stop> {
        let attributes =
            Attributes { expiry, cost_us: cost_us.unwrap_or(0), ..Attributes::default() };
        let reserved = self.session.reserve(key, hash, attributes, value.len());
        let mut draft = reserved.map_err(|refusal| self.refused(refusal))?;
        fill(&mut draft, value);
        self.enter(draft, condition)
    }

    /// Enters a filled draft under a condition; returns whether that held.
    pub(super) fn enter(&self, draft: Draft<'_>, condition: Condition) -> Result<bool, Stop> {
        let stored = self.session.store_costed(draft, Store::when(condition));
        let (stored, cost_us) = stored.map_err(|(_, refusal)| self.refused(refusal))?;
        self.context.counters.cost_stored_us.add(u64::from(cost_us));
        Ok(matches!(stored, Stored::Stored { .. }))
    }

    /// Stores a value after looking at the present item. If another thread is faster, it looks
    /// again.
    fn store_observed(
        &self,
        (key, hash): (&[u8], Hash),
        value: &[u8],
        expiry: Expiry,
        how: &How<'_>,
        out: &mut Output<'_, '_>,
    ) -> Result<Set<'s>, Stop> {
        loop {
            let observed = self.session.observe(key, hash);
            let observed = observed.map_err(|refusal| self.refused(refusal))?;
            let old = observed.as_ref().map(|observed| *observed.item());
            if how.returns_old
                && let Some(old) = &old
            {
                needs_room_for(old, out)?;
            }
            let is_refused = if old.is_some() { how.is_absent } else { how.is_present };
            if is_refused {
                return Ok(Set { is_stored: false, expiry, old });
            }
            let kept = old.filter(|_| how.keeps_expiry).map(|old| old.expiry());
            let expiry = kept.unwrap_or(expiry);
            let is_stored = match &observed {
                None => {
                    self.store_if((key, hash), value, expiry, how.cost_us, Condition::Absent)?
                }
                Some(observed) => {
                    let successor = Successor { flags: Some(0), expiry, cost_us: how.cost_us };
                    let draft = self.session.draft_over(observed, successor, value.len());
                    let mut draft = draft.map_err(|refusal| self.refused(refusal))?;
                    fill(&mut draft, value);
                    let cost_us = draft.cost_us();
                    let is_stored = self.session.replace(observed, draft);
                    let cost_us = if is_stored { u64::from(cost_us) } else { 0 };
                    self.context.counters.cost_stored_us.add(cost_us);
                    is_stored
                }
            };
            if is_stored {
                return Ok(Set { is_stored, expiry, old });
            }
        }
    }

    /// Counts a value of which a part was sent, and tells the watchers.
    pub(super) fn count_amended(&self, (key, hash): (&[u8], Hash), is_stored: bool, bytes: usize) {
        self.context.counters.cmd_set.one();
        self.context.count_namespace(key, Act::Set);
        if self.context.is_watched(MUTATIONS) {
            let end = self.session.peek(key, hash).map_or(Expiry::NEVER, |item| item.expiry());
            self.log_store((key, hash), is_stored, bytes, end);
        }
    }

    /// Tells the watchers of mutations.
    fn log_store(&self, (key, hash): (&[u8], Hash), is_stored: bool, bytes: usize, end: Expiry) {
        if !self.context.is_watched(MUTATIONS) {
            return;
        }
        let left_ms = deadline::unix_ms(end).map_or(0, |at| at - deadline::now_ms(self.session));
        let ttl_s = u64::try_from(left_ms / deadline::SECOND_MS).unwrap_or(0);
        let (status, shape) = match is_stored {
            true => ("stored", watch::shape(self.session, key, hash)),
            false => ("not_stored", (0, bytes)),
        };
        let text = watch::item_store(key, status, self.name, ttl_s, self.context.fd, shape);
        self.context.log(MUTATIONS, &text);
    }
}

/// Writes a value into a draft that has room for it.
pub(super) fn fill(draft: &mut Draft<'_>, value: &[u8]) {
    let written = draft.write(value);
    debug_assert_eq!(written, value.len());
}

/// `SET key value [NX | XX] [GET] [EX | PX | EXAT | PXAT time | KEEPTTL] [COST microseconds]`.
pub(super) fn set<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let key = task.bare_key();
    let value = task.word();
    let how = How::of(task)?;
    let Set { is_stored, old, .. } = task.store(key, value, &how, out)?;
    if how.returns_old {
        task.count_get(key.0, old.as_ref());
        task.answer_item(old.as_ref(), out);
    } else if is_stored {
        reply::simple(out.bytes, "OK");
    } else {
        reply::null(out.bytes, task.version());
    }
    Ok(Done::Next)
}

/// `GETSET key value`.
pub(super) fn getset<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let key = task.bare_key();
    let value = task.word();
    let how = How { returns_old: true, ..How::default() };
    let Set { old, .. } = task.store(key, value, &how, out)?;
    task.count_get(key.0, old.as_ref());
    task.answer_item(old.as_ref(), out);
    Ok(Done::Next)
}

/// `SETNX key value`.
pub(super) fn setnx(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let key = task.bare_key();
    let value = task.word();
    let how = How { is_absent: true, ..How::default() };
    let Set { is_stored, .. } = task.store(key, value, &how, out)?;
    reply::integer(out.bytes, i64::from(is_stored));
    Ok(Done::Next)
}

/// `SETEX key seconds value`.
pub(super) fn setex(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    store_for(task, Span::SECONDS, out)
}

/// `PSETEX key milliseconds value`.
pub(super) fn psetex(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    store_for(task, Span::MILLISECONDS, out)
}

fn store_for(task: &mut Task<'_, '_, '_, '_, '_>, span: Span, out: &mut Output<'_, '_>) -> Ended {
    let key = task.bare_key();
    let deadline = Some(Deadline { span, amount: task.word() });
    let value = task.word();
    task.store(key, value, &How { deadline, ..How::default() }, out)?;
    reply::simple(out.bytes, "OK");
    Ok(Done::Next)
}

/// `MSET key value ...`: its progress is the number of values stored.
pub(super) fn mset<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    pairs(task)?;
    task.go_on();
    if !store_pairs(task, out)? {
        return Ok(Done::Flush);
    }
    reply::simple(out.bytes, "OK");
    Ok(Done::Next)
}

/// `MSETNX key value ...`: looks at every key first. Its progress is the number of keys looked at,
/// and then of those beyond them that have been stored.
pub(super) fn msetnx<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let pairs = pairs(task)?;
    let words = task.words;
    task.go_on();
    while task.client.progress.keys < pairs {
        if task.must_pause(out) {
            return Ok(Done::Flush);
        }
        let (key, hash) = task.bare_key();
        task.word();
        if task.peek(key, hash)?.is_some() {
            reply::integer(out.bytes, 0);
            return Ok(Done::Next);
        }
        task.advance(out);
    }
    if task.client.progress.keys == pairs {
        (task.words, task.keys) = (words, 0);
    }
    if !store_pairs(task, out)? {
        return Ok(Done::Flush);
    }
    reply::integer(out.bytes, 1);
    Ok(Done::Next)
}

/// The number of pairs of keys and values, if no value is missing.
fn pairs(task: &Task<'_, '_, '_, '_, '_>) -> Result<usize, Stop> {
    let words = task.words.len();
    if words.is_multiple_of(2) { Ok(words / 2) } else { Err(task.wrong_number()) }
}

/// Stores the remaining values, until all are stored or the command has to yield to others; returns
/// whether all are.
fn store_pairs<'s>(
    task: &mut Task<'_, '_, '_, 's, '_>,
    out: &mut Output<'_, 's>,
) -> Result<bool, Stop> {
    while task.words.len() > 0 {
        if task.must_pause(out) {
            return Ok(false);
        }
        let key = task.bare_key();
        let value = task.word();
        // If one is refused, those before it stay, as for a client that sends them one by one.
        task.store(key, value, &How::default(), out)?;
        task.advance(out);
    }
    Ok(true)
}
