//! The mark: the first byte of every chunk, by which hits reach the hand without a lock.
//!
//! ```text
//!   7     4   3       2                1         0
//!   +-------+-------+----------------+---------+--------+
//!   | stamp | stale | win token sent | fetched | recent |
//!   +-------+-------+----------------+---------+--------+
//! ```
//!
//! The stamp, 1 to 15, is the minute of the last access, modulo 15, so a mark of 0 means that there
//! is no item. Any reader may change the mark of a published item.

use policy::clock::RECENT;

/// The mark's bit for an item that was read at least once since it was stored.
pub const FETCHED: u8 = 1 << 1;
/// The mark's bit for an item of which a client holds the win token.
pub const SENT: u8 = 1 << 2;
/// The mark's bit for an item that was invalidated and not yet recomputed.
pub const STALE: u8 = 1 << 3;
/// The mark's bits for win tokens.
pub const TOKENS: u8 = SENT | STALE;
/// The bits that are demoted and promoted with an item. The rest of its mark changes with each hit.
pub const KEPT: u8 = FETCHED | TOKENS;
const STAMP_SHIFT: u32 = 4;
/// Stamps are 1 to this.
const STAMPS: u32 = 15;
/// Seconds of one stamp.
const STAMP_SECONDS: u32 = 64;

/// The mark of an item that is published at `now` (Unix seconds).
pub fn fresh_mark(now: u32) -> u8 {
    stamp(now) << STAMP_SHIFT
}

/// The mark after a hit at `now`.
#[inline]
pub fn hit_mark(mark: u8, now: u32) -> u8 {
    (mark & TOKENS) | stamp(now) << STAMP_SHIFT | FETCHED | RECENT
}

/// Seconds since the last access that left a stamp: exact to a minute for a quarter of an hour,
/// and after that at least this much.
pub fn idle_seconds(mark: u8, now: u32) -> u32 {
    let (then, now_stamp) = (u32::from(mark >> STAMP_SHIFT), u32::from(stamp(now)));
    let minutes = (now_stamp + STAMPS - then) % STAMPS;
    if minutes == 0 { 0 } else { (minutes - 1) * STAMP_SECONDS + now % STAMP_SECONDS }
}

fn stamp(now: u32) -> u8 {
    (now / STAMP_SECONDS % STAMPS + 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_never_zero_and_tells_the_minutes() {
        for now in (0..4000).step_by(7) {
            let mark = fresh_mark(now);
            assert!(mark != 0 && mark & (RECENT | KEPT) == 0);
            assert_eq!(idle_seconds(mark, now), 0);
            assert!(idle_seconds(mark, now + 600) <= 600);
            assert!(idle_seconds(mark, now + 600) >= 600 - STAMP_SECONDS);
        }
        let hit = hit_mark(fresh_mark(100) | SENT, 200);
        assert_eq!(hit & 15, SENT | FETCHED | RECENT);
        assert_eq!(hit_mark(hit, 200), hit);
    }
}
