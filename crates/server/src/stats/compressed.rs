//! `stats compressed`: the compressed zone, the movement between it and the hot zone, and the time
//! that took. Larder's own.

use larder::CompressedStats;

use super::Stats;
use crate::server::Server;

/// Writes all of it; nothing if there is no such zone.
pub fn write(server: &Server, stats: &mut Stats<'_>) {
    if let Some(compressed) = server.cache.stats().compressed {
        contents(&compressed, stats);
        moves(&compressed, stats);
    }
}

fn contents(compressed: &CompressedStats, stats: &mut Stats<'_>) {
    let (zone, space) = (&compressed.zone, &compressed.zone.space);
    let raw_bytes = zone.raw_bytes + zone.long_bytes;
    stats.lines(&[
        ("items", zone.items as u64),
        ("rows", zone.rows as u64),
        ("slabs", space.slabs as u64),
        ("slabs_idle", space.idle_slabs as u64),
        ("slabs_budget", compressed.budget_slabs as u64),
        ("bytes", compressed.bytes()),
        ("live_bytes", space.live_bytes as u64),
        ("raw_bytes", raw_bytes as u64),
    ]);
    let ratio = raw_bytes as f64 / (space.live_bytes.max(1)) as f64;
    stats.line("ratio", format_args!("{ratio:.2}"));
    stats.lines(&[
        ("blocks", zone.leaves as u64),
        ("trie_bytes", (zone.trie_bytes + zone.trie_heap_bytes) as u64),
        ("dictionaries", zone.dictionaries.dictionaries as u64),
        ("dictionary_bytes", zone.dictionaries.memory_bytes as u64),
        ("dictionaries_trained", zone.dictionaries.trained as u64),
        ("block_splits", zone.splits),
        ("block_merges", zone.merges),
        ("blocks_damaged", compressed.damaged),
        ("leaves_dropped", zone.dropped_leaves),
        ("appended_bytes", space.appended_bytes as u64),
        ("cleaned_bytes", space.moved_bytes as u64),
    ]);
}

fn moves(compressed: &CompressedStats, stats: &mut Stats<'_>) {
    stats.lines(&[
        ("hits", compressed.hits),
        ("hits_hot", compressed.hot_hits),
        ("ghost_hits", compressed.ghost_hits),
        ("demoted", compressed.demoted),
        ("demoted_short", compressed.zone.inserted_short),
        ("promoted", compressed.promoted),
        ("evicted", compressed.zone.evicted),
        ("expired", compressed.zone.expired),
        ("expired_swept", compressed.zone.expired_swept),
        ("expiry_looks", compressed.zone.expiry_looks),
        ("expiry_rewrites", compressed.zone.expiry_rewrites),
        ("expiry_drops", compressed.zone.expiry_drops),
        ("refused", compressed.refused),
        ("changed", compressed.changed),
        ("throttled", compressed.throttled),
        ("passed_over", compressed.passed_over),
        ("spilled", compressed.spilled),
        ("lookups", compressed.lookups),
        ("lookups_filtered", compressed.filtered),
        ("frames_decoded", compressed.decoded),
        ("frames_decoded_in_vain", compressed.decoded_in_vain),
        ("demote_us", compressed.demote_us),
        ("read_us", compressed.read_us),
        ("budget_grown", compressed.grown),
        ("budget_shrunk", compressed.shrunk),
    ]);
}
