//! Numbers that are counted up and down: signed 64-bit ones that never overflow, and decimal ones.

use larder::{Hash, Item};
use protocol::resp::number::integer;
use protocol::resp::{decimal, reply};

use super::amend::Amended;
use super::{Done, Ended, NOT_AN_INTEGER, Task};
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
    let found = task.amend(key, out, |old| {
        let before = match old {
            None => 0,
            Some(item) => number_of(item).ok_or(NOT_AN_INTEGER)?,
        };
        sum = before.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
        let new = sum.to_string().into_bytes().into();
        Ok(Some(Amended { new, ..Amended::default() }))
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

/// An item's value as a whole number.
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
    let found = task.amend(key, out, |old| {
        let before = old.map_or(Some(&b"0"[..]), Item::contiguous);
        let before = before.and_then(decimal::read).ok_or(NOT_A_NUMBER)?;
        let by = decimal::read(by).ok_or(NOT_A_NUMBER)?;
        sum = decimal::sum(before, by).ok_or("ERR increment would produce NaN or Infinity")?;
        let new = sum.clone().into_bytes().into();
        Ok(Some(Amended { new, ..Amended::default() }))
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
