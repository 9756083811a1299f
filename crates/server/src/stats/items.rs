//! `stats items` and `stats slabs`: the size classes.

use super::Stats;
use crate::server::Server;

/// `stats items`: every class that holds items.
pub fn write_items(server: &Server, stats: &mut Stats<'_>) {
    for class in server.cache.class_stats() {
        if class.used_chunks == 0 {
            continue;
        }
        let number = class.number;
        let used_chunks = class.used_chunks as u64;
        for (name, value) in [
            ("number", used_chunks),
            ("number_hot", 0),
            ("number_warm", 0),
            ("number_cold", used_chunks),
            ("age_hot", 0),
            ("age_warm", 0),
            ("age", u64::from(class.round_seconds)),
            ("mem_requested", used_chunks * class.chunk_bytes as u64),
            ("evicted", class.counters.evicted),
            ("evicted_nonzero", 0),
            ("evicted_time", u64::from(class.round_seconds)),
            ("outofmemory", class.counters.out_of_memory),
            ("tailrepairs", 0),
            ("reclaimed", class.counters.expired.saturating_sub(class.counters.swept)),
            ("expired_unfetched", class.counters.expired_unfetched),
            ("evicted_unfetched", class.counters.evicted_unfetched),
            ("evicted_active", class.counters.evicted_recent),
            ("crawler_reclaimed", class.counters.swept),
            ("crawler_items_checked", class.counters.swept_looks),
            ("lrutail_reflocked", 0),
            ("moves_to_cold", 0),
            ("moves_to_warm", 0),
            ("moves_within_lru", 0),
            ("direct_reclaims", 0),
        ] {
            stats.line(format_args!("items:{number}:{name}"), value);
        }
    }
}

/// memcached's counters by class that Larder does not have. Without them memcached_exporter takes
/// the server to be down.
const REQUESTS: [&str; 8] = [
    "get_hits",
    "cmd_set",
    "delete_hits",
    "incr_hits",
    "decr_hits",
    "cas_hits",
    "cas_badval",
    "touch_hits",
];

/// `stats slabs`: every class that owns memory, and the totals.
pub fn write_slabs(server: &Server, stats: &mut Stats<'_>) {
    let mut active = 0;
    for class in server.cache.class_stats() {
        if class.slabs == 0 {
            continue;
        }
        active += 1;
        let number = class.number;
        for (name, value) in [
            ("chunk_size", class.chunk_bytes),
            ("chunks_per_page", class.chunks_per_slab),
            ("total_pages", class.slabs),
            ("total_chunks", class.slabs * class.chunks_per_slab),
            ("used_chunks", class.used_chunks),
            ("free_chunks", class.free_chunks),
            ("free_chunks_end", 0),
        ] {
            stats.line(format_args!("{number}:{name}"), value);
        }
        for name in REQUESTS {
            stats.line(format_args!("{number}:{name}"), 0);
        }
    }
    stats.line("active_slabs", active);
    stats.line("total_malloced", server.cache.used_bytes());
}
