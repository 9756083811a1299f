//! Numbers that are counted up and down: signed, of 64 bits, and never past their ends; and decimal
//! ones.

use larder::{Condition, Expiry, Hash, Item, Observed, Successor};
use protocol::resp::number::integer;
use protocol::resp::{decimal, reply};

use super::set::fill;
use super::{Done, Ended, NOT_AN_INTEGER, Stop, Task};
use crate::output::Output;

/// The most characters of a whole number.
const CHARACTERS_MAX: usize = 20;

/// `INCR key`.
pub(super) fn incr(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let key = task.key();
    count(task, key, 1, out)
}

/// `DECR key`.
pub(super) fn decr(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let key = task.key();
    count(task, key, -1, out)
}

/// `INCRBY key number`.
pub(super) fn incrby(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let key = task.key();
    let by = task.integer()?;
    count(task, key, by, out)
}

/// `DECRBY key number`.
pub(super) fn decrby(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let key = task.key();
    let by = task.integer()?.checked_neg().ok_or("ERR decrement would overflow")?;
    count(task, key, by, out)
}

fn count(
    task: &mut Task<'_, '_, '_, '_, '_>,
    key: (&[u8], Hash),
    by: i64,
    out: &mut Output<'_, '_>,
) -> Ended {
    let mut sum = 0;
    let found = task.amend(key, |old, room| {
        let before = match old {
            None => 0,
            Some(item) => number_of(item).ok_or(NOT_AN_INTEGER)?,
        };
        sum = before.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
        room.extend_from_slice(sum.to_string().as_bytes());
        Ok(true)
    })?;
    let counters = task.context.counters;
    match (by < 0, found) {
        (false, true) => counters.incr_hits.one(),
        (false, false) => counters.incr_misses.one(),
        (true, true) => counters.decr_hits.one(),
        (true, false) => counters.decr_misses.one(),
    }
    reply::integer(out.bytes, sum);
    Ok(Done::Next)
}

/// The whole number that an item is.
fn number_of(item: &Item<'_>) -> Option<i64> {
    if item.value_bytes() > CHARACTERS_MAX {
        return None;
    }
    integer(item.contiguous()?)
}

/// `INCRBYFLOAT key number`.
pub(super) fn incrbyfloat(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    const NOT_A_NUMBER: &str = "ERR value is not a valid float";
    let key = task.key();
    let by = task.word();
    let mut sum = String::new();
    let found = task.amend(key, |old, room| {
        let before = old.map_or(Some(&b"0"[..]), Item::contiguous);
        let before = before.and_then(decimal::read).ok_or(NOT_A_NUMBER)?;
        let by = decimal::read(by).ok_or(NOT_A_NUMBER)?;
        sum = decimal::sum(before, by).ok_or("ERR increment would produce NaN or Infinity")?;
        room.extend_from_slice(sum.as_bytes());
        Ok(true)
    })?;
    let counters = task.context.counters;
    if found {
        counters.incr_hits.one()
    } else {
        counters.incr_misses.one()
    }
    reply::bulk(out.bytes, sum.as_bytes());
    Ok(Done::Next)
}

impl<'s> Task<'_, '_, '_, 's, '_> {
    /// Makes a value up from the one that is there, and stores it with the expiry, the client flags
    /// and the cost of that. `make` writes it into an empty room, or says that nothing is to be
    /// stored; it is asked again if somebody else was faster. Returns whether the key was there.
    pub(super) fn amend(
        &self,
        (key, hash): (&[u8], Hash),
        mut make: impl FnMut(Option<&Item<'s>>, &mut Vec<u8>) -> Result<bool, Stop>,
    ) -> Result<bool, Stop> {
        let mut value = Vec::new();
        loop {
            let observed = self.session.observe(key, hash);
            let observed = observed.map_err(|refusal| self.refused(refusal))?;
            value.clear();
            let old = observed.as_ref().map(Observed::item);
            if !make(old, &mut value)? {
                return Ok(observed.is_some());
            }
            let is_done = match &observed {
                None => {
                    let condition = Condition::Absent;
                    self.store_if((key, hash), &value, Expiry::NEVER, None, condition)?
                }
                Some(observed) => {
                    let expiry = observed.item().expiry();
                    let successor = Successor { flags: None, expiry, cost_us: None };
                    let draft = self.session.draft_over(observed, successor, value.len());
                    let mut draft = draft.map_err(|refusal| self.refused(refusal))?;
                    fill(&mut draft, &value);
                    self.session.replace(observed, draft)
                }
            };
            if is_done {
                return Ok(observed.is_some());
            }
        }
    }
}
