//! Quotas by namespace: items whose keys begin with a prefix take a limited part of the memory.
//!
//! The hot zone keeps them (`hot::quota`): each draft is charged before it gets a chunk, and the
//! items evicted for it are under the same quota. Here they are checked, shares of the memory
//! become bytes, and the lower tiers are treated apart:
//!
//! - The compressed zone takes no item under a quota. The bytes that a row takes there are not
//!   known: it shares a frame with others, and it can be gone by a mark, or with its block, without
//!   its key being decoded. So all of a quota's items in memory are in the hot zone, where every
//!   byte is accounted for. An item that leaves it goes to flash, if there is one, or leaves the
//!   cache.
//! - Flash does not count. An item that is promoted from there is charged as a stored one.

use std::fmt;

use hot::quota::QUOTAS_MAX;
use stdx::sync::lock;

use crate::cache::Cache;
use crate::flushed_prefixes::PREFIX_BYTES_MAX;

pub use hot::quota::QuotaStats;

/// A limit of the memory that keys with a prefix may take.
#[derive(Debug, Clone, PartialEq)]
pub struct Quota {
    /// The prefix of the keys: 1 to [`PREFIX_BYTES_MAX`] bytes.
    pub prefix: Box<[u8]>,
    /// The limit.
    pub size: QuotaSize,
}

/// The size of a quota.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QuotaSize {
    /// Bytes.
    Bytes(u64),
    /// A share of the memory limit, as it is at each moment: above 0 and up to 1.
    Share(f64),
}

/// Why quotas are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaRefused {
    /// There are more than [`QUOTAS_MAX`].
    TooMany,
    /// A prefix is empty, or longer than [`PREFIX_BYTES_MAX`].
    Length,
    /// This prefix has two quotas.
    Twice(Box<[u8]>),
    /// This prefix has a quota of no bytes.
    Nothing(Box<[u8]>),
    /// This prefix has a quota of more than the memory limit.
    BeyondMemory(Box<[u8]>),
    /// The prefixes are not those that the cache was built with.
    Prefixes,
}

impl fmt::Display for QuotaRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |prefix: &[u8]| format!("the quota of {}", prefix.escape_ascii());
        match self {
            Self::TooMany => write!(f, "there are more than {QUOTAS_MAX} quotas"),
            Self::Length => write!(f, "the prefix of a quota has 1 to {PREFIX_BYTES_MAX} bytes"),
            Self::Twice(prefix) => write!(f, "{} is said twice", of(prefix)),
            Self::Nothing(prefix) => write!(f, "{} lets nothing be stored", of(prefix)),
            Self::BeyondMemory(prefix) => {
                write!(f, "{} is more than the memory limit", of(prefix))
            }
            Self::Prefixes => f.write_str("which prefixes have a quota is said at the start"),
        }
    }
}

impl std::error::Error for QuotaRefused {}

impl QuotaSize {
    /// Returns the bytes of this size within a memory limit.
    fn bytes(self, limit_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => (limit_bytes as f64 * share) as u64,
        }
    }
}

/// Returns the quotas for the hot zone of a cache with this memory limit.
pub(crate) fn check(
    quotas: &[Quota],
    limit_bytes: u64,
) -> Result<Vec<hot::quota::Quota>, QuotaRefused> {
    if quotas.len() > QUOTAS_MAX {
        return Err(QuotaRefused::TooMany);
    }
    let checked = |(at, quota): (usize, &Quota)| {
        let prefix = &quota.prefix;
        if !(1..=PREFIX_BYTES_MAX).contains(&prefix.len()) {
            return Err(QuotaRefused::Length);
        }
        if quotas[..at].iter().any(|other| other.prefix == *prefix) {
            return Err(QuotaRefused::Twice(prefix.clone()));
        }
        let bytes = quota.size.bytes(limit_bytes);
        if bytes == 0 {
            return Err(QuotaRefused::Nothing(prefix.clone()));
        }
        if bytes > limit_bytes {
            return Err(QuotaRefused::BeyondMemory(prefix.clone()));
        }
        Ok(hot::quota::Quota { prefix: prefix.clone(), limit_bytes: bytes as usize })
    };
    quotas.iter().enumerate().map(checked).collect()
}

impl Quota {
    /// Checks that a cache with this memory limit can have these quotas.
    ///
    /// # Errors
    ///
    /// The first reason why it cannot.
    pub fn check_all(quotas: &[Self], limit_bytes: u64) -> Result<(), QuotaRefused> {
        check(quotas, limit_bytes).map(drop)
    }
}

impl Cache {
    /// Returns the statistics of every quota, in the order in which they were given.
    pub fn quota_stats(&self) -> Vec<QuotaStats> {
        self.hot.quota_stats()
    }

    /// Returns the quota of a key's item, if it is under one, by its place among those that were
    /// given, and its limit in bytes.
    pub fn quota_of(&self, key: &[u8]) -> Option<(usize, usize)> {
        self.hot.quota_of(key)
    }

    /// Gives the quotas other sizes: the prefixes are those that the cache was built with, in the
    /// same order. Items beyond a lower one leave over the next turns of [`Cache::maintain`], or
    /// with the next store under it.
    ///
    /// # Errors
    ///
    /// The sizes are refused, or the prefixes are others.
    pub fn set_quotas(&self, quotas: &[Quota]) -> Result<(), QuotaRefused> {
        check(quotas, self.limit_bytes() as u64)?;
        let mut present = lock(&self.quotas);
        if !quotas.iter().map(|quota| &quota.prefix).eq(present.iter().map(|it| &it.prefix)) {
            return Err(QuotaRefused::Prefixes);
        }
        present.clone_from_slice(quotas);
        self.limit_quotas(&present);
        drop(present);
        self.call_for_work();
        Ok(())
    }

    /// Adapts quotas that are shares of the memory limit to a changed one.
    pub(crate) fn resize_quotas(&self) {
        self.limit_quotas(&lock(&self.quotas));
    }

    fn limit_quotas(&self, quotas: &[Quota]) {
        let limit_bytes = self.limit_bytes() as u64;
        self.hot.set_quota_limits(quotas.iter().map(|it| it.size.bytes(limit_bytes) as usize));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(prefix: &[u8], size: QuotaSize) -> Quota {
        Quota { prefix: prefix.into(), size }
    }

    fn refused(quotas: &[Quota]) -> QuotaRefused {
        check(quotas, 1000).expect_err("no quotas of any cache")
    }

    #[test]
    fn quotas_are_checked_at_their_edges() {
        let bytes = |bytes| quota(b"a", QuotaSize::Bytes(bytes));
        let share = |share| quota(b"b", QuotaSize::Share(share));
        for (quota, expected) in
            [(bytes(1), 1), (bytes(1000), 1000), (share(0.001), 1), (share(1.0), 1000)]
        {
            assert_eq!(check(&[quota], 1000).expect("a quota")[0].limit_bytes, expected);
        }
        assert_eq!(refused(&[bytes(0)]), QuotaRefused::Nothing((*b"a").into()));
        assert_eq!(refused(&[share(0.0009)]), QuotaRefused::Nothing((*b"b").into()));
        assert_eq!(refused(&[bytes(1001)]), QuotaRefused::BeyondMemory((*b"a").into()));
        assert_eq!(refused(&[share(1.01)]), QuotaRefused::BeyondMemory((*b"b").into()));
        assert_eq!(refused(&[bytes(1), bytes(2)]), QuotaRefused::Twice((*b"a").into()));
        let of_length = |length| quota(&vec![b'k'; length], QuotaSize::Bytes(1));
        assert_eq!(refused(&[of_length(0)]), QuotaRefused::Length);
        assert_eq!(refused(&[of_length(PREFIX_BYTES_MAX + 1)]), QuotaRefused::Length);
        assert!(check(&[of_length(1), of_length(PREFIX_BYTES_MAX)], 1000).is_ok());
        let many = |count| (1..=count).map(of_length).collect::<Vec<_>>();
        assert!(check(&many(QUOTAS_MAX), 1000).is_ok());
        assert_eq!(refused(&many(QUOTAS_MAX + 1)), QuotaRefused::TooMany);
    }
}
