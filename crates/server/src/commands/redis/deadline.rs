//! When items end: Redis' milliseconds of Unix time, made into the engine's expiry and back.
//!
//! The engine counts whole seconds, and what it takes for now is the second that has begun. An item
//! never ends early: every deadline is rounded up to a second, and time that is given from now on
//! begins where the second that has begun ends. That one second is not shown as time that is left.

use larder::{Expiry, Session};

/// Milliseconds in a second.
pub const SECOND_MS: i64 = 1000;

/// From when on a client's time is counted, in milliseconds of Unix time.
pub fn now_ms(session: &Session<'_>) -> i64 {
    (i64::from(session.now()) + 1) * SECOND_MS
}

/// The deadline so many milliseconds from now on; none if there is no such number. What is not
/// ahead is over.
pub fn from_now(ms: i64, session: &Session<'_>) -> Option<i64> {
    let begun_ms = if ms > 0 { 0 } else { SECOND_MS };
    ms.checked_add(now_ms(session) - begun_ms)
}

/// The engine's expiry for a deadline in milliseconds of Unix time.
pub fn expiry_at(unix_ms: i64, session: &Session<'_>) -> Expiry {
    let unix_s = unix_ms.saturating_add(SECOND_MS - 1).div_euclid(SECOND_MS);
    if unix_s <= i64::from(session.now()) {
        return Expiry::PAST;
    }
    Expiry(u32::try_from(unix_s).unwrap_or(u32::MAX))
}

/// The deadline of an item in milliseconds of Unix time; none if it has none.
pub fn unix_ms(expiry: Expiry) -> Option<i64> {
    (expiry != Expiry::NEVER).then(|| i64::from(expiry.0) * SECOND_MS)
}

#[cfg(test)]
mod tests {
    use larder::Cache;

    use super::*;

    #[test]
    fn a_deadline_is_rounded_up_and_never_comes_early() {
        let cache = Cache::builder().memory_bytes(64 << 20).build().expect("a small cache");
        let session = cache.session();
        let now_s = session.now();
        let now = now_ms(&session);
        for (left_ms, seconds) in [(1, 1), (999, 1), (1000, 1), (1001, 2), (10_000, 10)] {
            let expiry = expiry_at(now + left_ms, &session);
            // The second that has begun is not counted.
            assert_eq!(expiry, Expiry(now_s + 1 + seconds), "{left_ms}");
            assert_eq!(unix_ms(expiry).map(|at| at - now), Some(i64::from(seconds) * SECOND_MS));
        }
        for past in [i64::MIN, -1, 0, 1, i64::from(now_s) * SECOND_MS] {
            assert_eq!(expiry_at(past, &session), Expiry::PAST, "{past}");
        }
        for (ms, is_past) in [(i64::MIN, true), (-1, true), (0, true), (1, false)] {
            let at = from_now(ms, &session).expect("there is such a number");
            assert_eq!(expiry_at(at, &session) == Expiry::PAST, is_past, "{ms}");
        }
        assert_eq!(from_now(i64::MAX, &session), None);
        assert_eq!(expiry_at(i64::MAX, &session), Expiry(u32::MAX));
        assert_eq!(unix_ms(Expiry::NEVER), None);
    }
}
