//! Deadlines of items: Redis' signed milliseconds of Unix time, converted to the engine's expiry
//! and back.

use larder::{Expiry, Session};

/// Milliseconds in a second.
pub const SECOND_MS: i64 = 1000;

/// The moment that relative times are counted from, in milliseconds of Unix time.
pub fn now_ms(session: &Session<'_>) -> i64 {
    i64::try_from(session.now_ms()).unwrap_or(i64::MAX)
}

/// The deadline `ms` milliseconds from now; `None` if there is no such number.
pub fn from_now(ms: i64, session: &Session<'_>) -> Option<i64> {
    ms.checked_add(now_ms(session))
}

/// The engine's expiry for a deadline in milliseconds of Unix time.
pub fn expiry_at(unix_ms: i64) -> Expiry {
    Expiry::at_ms(u64::try_from(unix_ms).unwrap_or(0))
}

/// The deadline of an item in milliseconds of Unix time; `None` if it has none.
pub fn unix_ms(expiry: Expiry) -> Option<i64> {
    Some(i64::try_from(expiry.unix_ms()?).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use larder::Cache;

    use super::*;

    #[test]
    fn a_deadline_is_kept_to_the_millisecond() {
        let cache = Cache::builder().memory_bytes(64 << 20).build().expect("a small cache");
        let session = cache.session();
        for ms in [1, 999, 1000, 1_800_000_000_001, i64::from(u32::MAX) * SECOND_MS] {
            assert_eq!(unix_ms(expiry_at(ms)), Some(ms));
        }
        for past in [i64::MIN, -1, 0, 1, now_ms(&session)] {
            assert!(expiry_at(past).is_expired(session.now_ms()), "{past}");
        }
        let now = now_ms(&session);
        let at = from_now(60_000, &session).expect("there is such a number");
        assert!(at >= now + 60_000 && !expiry_at(at).is_expired(now as u64));
        assert_eq!(from_now(i64::MAX, &session), None);
        assert_eq!(expiry_at(i64::MAX), Expiry::at(u32::MAX));
        assert_eq!(unix_ms(Expiry::NEVER), None);
    }
}
