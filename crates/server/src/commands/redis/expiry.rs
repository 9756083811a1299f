//! Expiry of keys: EXPIRE and its kin, TTL and its kin, PERSIST.

use larder::{Expiry, Hash};
use protocol::resp::number::integer;
use protocol::resp::reply;

use super::deadline::{self, SECOND_MS};
use super::{Done, Ended, NOT_AN_INTEGER, Stop, Task, unknown_word};
use crate::output::Output;

/// The unit and origin of a time that a client names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Milliseconds of one unit.
    unit_ms: i64,
    /// Counted from now, rather than Unix time.
    is_relative: bool,
}

impl Span {
    pub(super) const SECONDS: Self = Self { unit_ms: SECOND_MS, is_relative: true };
    pub(super) const MILLISECONDS: Self = Self { unit_ms: 1, is_relative: true };
    const UNIX_SECONDS: Self = Self { unit_ms: SECOND_MS, is_relative: false };
    const UNIX_MILLISECONDS: Self = Self { unit_ms: 1, is_relative: false };

    /// The span by its option's name in SET and GETEX.
    pub(super) fn of_option(word: &[u8]) -> Option<Self> {
        let spans: [(&[u8], Self); 4] = [
            (b"ex", Self::SECONDS),
            (b"px", Self::MILLISECONDS),
            (b"exat", Self::UNIX_SECONDS),
            (b"pxat", Self::UNIX_MILLISECONDS),
        ];
        spans.into_iter().find_map(|(name, span)| word.eq_ignore_ascii_case(name).then_some(span))
    }

    /// The point in milliseconds of Unix time; `None` if that is no number of 64 bits.
    fn unix_ms(self, amount: i64, task: &Task<'_, '_, '_, '_, '_>) -> Option<i64> {
        let ms = amount.checked_mul(self.unit_ms)?;
        match self.is_relative {
            true => deadline::from_now(ms, task.session),
            false => Some(ms),
        }
    }
}

/// A deadline in the client's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deadline<'b> {
    pub(super) span: Span,
    pub(super) amount: &'b [u8],
}

impl Deadline<'_> {
    /// The point in milliseconds of Unix time. It has to be above 0 here.
    pub(super) fn unix_ms(self, task: &Task<'_, '_, '_, '_, '_>) -> Result<i64, Stop> {
        let amount = integer(self.amount).ok_or(NOT_AN_INTEGER)?;
        let at = if amount > 0 { self.span.unix_ms(amount, task) } else { None };
        at.ok_or_else(|| invalid(task.name))
    }
}

fn invalid(name: &str) -> Stop {
    format!("ERR invalid expire time in '{name}' command").into()
}

/// The conditions under which EXPIRE acts.
#[derive(Debug, Clone, Copy, Default)]
struct Conditions {
    /// `NX`: only where there is no expiry.
    is_absent: bool,
    /// `XX`: only where there is one.
    is_present: bool,
    /// `GT`: only if it becomes later.
    is_later: bool,
    /// `LT`: only if it becomes earlier.
    is_earlier: bool,
}

impl Conditions {
    fn of(task: &mut Task<'_, '_, '_, '_, '_>) -> Result<Self, Stop> {
        let mut conditions = Self::default();
        for word in task.words.by_ref() {
            let flag = match word.to_ascii_lowercase().as_slice() {
                b"nx" => &mut conditions.is_absent,
                b"xx" => &mut conditions.is_present,
                b"gt" => &mut conditions.is_later,
                b"lt" => &mut conditions.is_earlier,
                _ => return Err(unknown_word("ERR Unsupported option ", word, "")),
            };
            *flag = true;
        }
        let Self { is_absent, is_present, is_later, is_earlier } = conditions;
        if is_absent && (is_present || is_later || is_earlier) {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(text.into());
        }
        if is_later && is_earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(conditions)
    }

    /// Whether they hold; no expiry counts as later than any.
    fn hold(self, before: Expiry, after: Expiry) -> bool {
        let before_ms = deadline::unix_ms(before);
        let after_ms = deadline::unix_ms(after).unwrap_or(i64::MAX);
        !(self.is_absent && before_ms.is_some()
            || self.is_present && before_ms.is_none()
            || self.is_later && after_ms <= before_ms.unwrap_or(i64::MAX)
            || self.is_earlier && after_ms >= before_ms.unwrap_or(i64::MAX))
    }
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`.
pub(super) fn expire(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    set_expiry(task, Span::SECONDS, out)
}

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`.
pub(super) fn pexpire(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    set_expiry(task, Span::MILLISECONDS, out)
}

/// `EXPIREAT key second [NX | XX | GT | LT]`.
pub(super) fn expireat(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    set_expiry(task, Span::UNIX_SECONDS, out)
}

/// `PEXPIREAT key millisecond [NX | XX | GT | LT]`.
pub(super) fn pexpireat(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    set_expiry(task, Span::UNIX_MILLISECONDS, out)
}

fn set_expiry(task: &mut Task<'_, '_, '_, '_, '_>, span: Span, out: &mut Output<'_, '_>) -> Ended {
    let (key, hash) = task.bare_key();
    let amount = task.word();
    let conditions = Conditions::of(task)?;
    let amount = integer(amount).ok_or(NOT_AN_INTEGER)?;
    let unix_ms = span.unix_ms(amount, task).ok_or_else(|| invalid(task.name))?;
    let expiry = deadline::expiry_at(unix_ms);
    change_expiry(task, (key, hash), expiry, |before| conditions.hold(before, expiry), out)
}

/// `PERSIST key`.
pub(super) fn persist(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let (key, hash) = task.bare_key();
    change_expiry(task, (key, hash), Expiry::NEVER, |before| before != Expiry::NEVER, out)
}

/// Gives a present key another expiry if `is_wanted` of the one before, and answers whether it did.
/// A key whose expiry stays is a hit all the same.
fn change_expiry(
    task: &mut Task<'_, '_, '_, '_, '_>,
    (key, hash): (&[u8], Hash),
    expiry: Expiry,
    is_wanted: impl Fn(Expiry) -> bool,
    out: &mut Output<'_, '_>,
) -> Ended {
    let (is_there, is_changed) = loop {
        let observed = task.session.observe(key, hash).map_err(|refusal| task.refused(refusal))?;
        let Some(observed) = observed else {
            break (false, false);
        };
        if !is_wanted(observed.item().expiry()) {
            break (true, false);
        }
        let touched = task.session.touch_observed(&observed, expiry);
        if touched.map_err(|refusal| task.refused(refusal))? {
            break (true, true);
        }
    };
    task.count_touch(is_there);
    reply::integer(out.bytes, i64::from(is_changed));
    Ok(Done::Next)
}

impl Task<'_, '_, '_, '_, '_> {
    /// Counts a change of an expiry as text counts a touch.
    pub(super) fn count_touch(&self, is_hit: bool) {
        let counters = self.context.counters;
        counters.cmd_touch.one();
        if is_hit { counters.touch_hits.one() } else { counters.touch_misses.one() }
    }
}

/// `TTL key`: -2 without the key, -1 without an expiry.
pub(super) fn ttl(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    show(task, out, |at, now| seconds((at - now).max(0)))
}

/// `PTTL key`.
pub(super) fn pttl(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    show(task, out, |at, now| (at - now).max(0))
}

/// `EXPIRETIME key`.
pub(super) fn expiretime(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    show(task, out, |at, _| seconds(at))
}

/// `PEXPIRETIME key`.
pub(super) fn pexpiretime(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    show(task, out, |at, _| at)
}

/// Milliseconds as seconds, to the nearest.
fn seconds(ms: i64) -> i64 {
    (ms + SECOND_MS / 2) / SECOND_MS
}

fn show(
    task: &mut Task<'_, '_, '_, '_, '_>,
    out: &mut Output<'_, '_>,
    number: impl FnOnce(i64, i64) -> i64,
) -> Ended {
    let (key, hash) = task.bare_key();
    let shown = match task.peek(key, hash)?.map(|item| deadline::unix_ms(item.expiry())) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => number(at, deadline::now_ms(task.session)),
    };
    reply::integer(out.bytes, shown);
    Ok(Done::Next)
}
