//! `stats quotas`: the limits of keys with certain prefixes, and their use. Larder's own.

use super::Stats;
use crate::server::Server;
use crate::watch::word_text;

/// A line of each kind for each quota, in the order in which they were given.
pub fn write(server: &Server, stats: &mut Stats<'_>) {
    for quota in server.cache.quota_stats() {
        let prefix = word_text(&quota.prefix);
        stats.line(format_args!("limit_bytes:{prefix}"), quota.limit_bytes);
        stats.line(format_args!("bytes:{prefix}"), quota.bytes);
        stats.line(format_args!("items:{prefix}"), quota.items);
        stats.line(format_args!("evicted:{prefix}"), quota.evicted);
    }
}
