//! Parts of values: GETRANGE, SETRANGE, APPEND.

use larder::Item;
use protocol::resp::{BULK_BYTES_MAX, reply};

use super::amend::Amended;
use super::{Done, Ended, Stop, TOO_LARGE, Task};
use crate::output::Output;
use crate::server::Server;

/// `GETRANGE key start end`: both ends included, negative ones counted from the end.
pub(super) fn getrange<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let (key, hash) = task.key();
    let (start, end) = (task.integer()?, task.integer()?);
    let item = task.look_up_for(key, hash, out)?;
    let length = item.map_or(0, |item| item.value_bytes());
    let (skip, take) = range(start, end, length);
    reply::bulk_header(out.bytes, take);
    if let Some(item) = item {
        out.part(&item, skip, take);
    }
    out.bytes.extend_from_slice(b"\r\n");
    Ok(Done::Next)
}

/// The number of bytes before a range, and in it, of `length` bytes.
fn range(start: i64, end: i64, length: usize) -> (usize, usize) {
    let length = length as i64;
    let from_front = |place: i64| if place < 0 { length.saturating_add(place) } else { place };
    let is_inside_out = start < 0 && end < 0 && start > end;
    let (start, end) = (from_front(start).max(0), from_front(end).max(0).min(length - 1));
    if is_inside_out || start > end || length == 0 {
        return (0, 0);
    }
    (start as usize, (end - start + 1) as usize)
}

/// The longest value that a command can store: one word is no longer, and neither is an item.
pub(super) fn value_bytes_max(server: &Server) -> usize {
    server.cache.item_bytes_max().min(BULK_BYTES_MAX as usize)
}

/// The length of a value that is to be stored, unless no command could store it.
fn checked(task: &Task<'_, '_, '_, '_, '_>, bytes: usize) -> Result<usize, Stop> {
    if bytes > value_bytes_max(task.context.server) {
        task.context.counters.store_too_large.one();
        return Err(TOO_LARGE.into());
    }
    Ok(bytes)
}

/// `SETRANGE key offset value`.
pub(super) fn setrange(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let key = task.bare_key();
    let offset = task.integer()?;
    let value = task.word();
    let offset = usize::try_from(offset).map_err(|_| Stop::from("ERR offset is out of range"))?;
    let mut length = 0;
    task.amend(key, out, |old| {
        let before = old.map_or(0, Item::value_bytes);
        length = before;
        if value.is_empty() {
            return Ok(None);
        }
        let end = checked(task, offset.saturating_add(value.len()))?;
        length = before.max(end);
        let front = before.min(offset);
        let (zeros, tail) = (offset - front, before.saturating_sub(end));
        Ok(Some(Amended { front, zeros, new: value.into(), tail }))
    })?;
    task.count_amended(key, !value.is_empty(), length);
    reply::integer(out.bytes, length as i64);
    Ok(Done::Next)
}

/// `APPEND key value`.
pub(super) fn append(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let key = task.bare_key();
    let value = task.word();
    let mut length = 0;
    task.amend(key, out, |old| {
        let front = old.map_or(0, Item::value_bytes);
        length = checked(task, front + value.len())?;
        Ok(Some(Amended { front, new: value.into(), ..Amended::default() }))
    })?;
    task.count_amended(key, true, length);
    reply::integer(out.bytes, length as i64);
    Ok(Done::Next)
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_include_both_ends_and_are_cut_to_what_is_there() {
        for (start, end, length, wanted) in [
            (0, -1, 5, (0, 5)),
            (1, 2, 5, (1, 2)),
            (-2, -1, 5, (3, 2)),
            (-1, -2, 5, (0, 0)),
            (3, 1, 5, (0, 0)),
            (0, 100, 5, (0, 5)),
            (-100, 1, 5, (0, 2)),
            (-100, -90, 5, (0, 1)),
            (5, 9, 5, (0, 0)),
            (0, -1, 0, (0, 0)),
            (i64::MIN, i64::MAX, 5, (0, 5)),
            (i64::MAX, i64::MIN, 5, (0, 0)),
        ] {
            assert_eq!(range(start, end, length), wanted, "{start} {end} {length}");
        }
    }
}
