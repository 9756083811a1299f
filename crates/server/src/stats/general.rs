//! `stats`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use io::Clock;
use larder::RepartitionStats;
use stdx::sync::lock;

use super::Stats;
use crate::commands::VERSION;
use crate::counters::Sums;
use crate::memory_file::Found;
use crate::server::Server;
use crate::tls::Tls;
use crate::watch::Numbers;

/// Writes everything that memcached_exporter, Telegraf, Datadog and memcached-tool look for.
pub fn write(server: &Server, stats: &mut Stats<'_>) {
    let sums = server.sums();
    let cache = server.cache.stats();
    process(server, stats);
    connections(server, stats);
    requests(&sums, &cache, stats);
    let paused = lock(&server.connections.paused).time();
    stats.lines(&[
        ("idle_kicks", sums.idle_kicks),
        ("bytes_read", sums.bytes_read),
        ("bytes_written", sums.bytes_written),
        ("limit_maxbytes", server.memory_bytes() as u64),
        ("accepting_conns", u64::from(!server.connections.is_paused.load(Ordering::Relaxed))),
        ("listen_disabled_num", server.connections.pauses.load(Ordering::Relaxed)),
        ("time_in_listen_disabled_us", paused.as_micros() as u64),
        ("threads", server.options.threads as u64),
        ("conn_yields", sums.conn_yields),
        ("output_kicks", sums.output_kicks),
        ("output_waits", sums.output_waits),
        ("output_parked_bytes", server.parked.bytes() as u64),
        ("unfinished_kicks", sums.unfinished_kicks),
        ("unfinished_bytes", server.unfinished.bytes() as u64),
    ]);
    if let Some(tls) = &server.tls {
        stats.lines(&[
            ("ssl_handshake_errors", sums.ssl_handshake_errors),
            ("ssl_new_sessions", sums.ssl_new_sessions),
            ("time_since_server_cert_refresh", certificates_age_s(tls, server)),
        ]);
    }
    memory(&cache, stats);
    if let Some(flash) = &cache.flash {
        super::flash::extstore(flash, stats);
    }
    if let Some(found) = cache.repartition {
        repartition(found, stats);
    }
    if server.options.memory_file.is_some() {
        memory_file(server.found.get().copied().unwrap_or_default(), stats);
    }
    let Numbers { watchers, written, sent, skipped } = server.watchers.numbers();
    stats.lines(&[
        ("log_worker_dropped", 0),
        ("log_worker_written", written),
        ("log_watcher_skipped", skipped),
        ("log_watcher_sent", sent),
        ("log_watchers", watchers),
        ("cmd_flush_prefix", sums.cmd_flush_prefix),
        ("prefixes_flushing", cache.prefixes_flushing[0]),
        ("prefixes_flushing_on_flash", cache.prefixes_flushing[1]),
        ("unexpected_napi_ids", 0),
        ("round_robin_fallback", 0),
    ]);
}

/// Age of the certificates in seconds.
fn certificates_age_s(tls: &Tls, server: &Server) -> u64 {
    let since_start_s = server.started.elapsed().as_secs();
    tls.read_s().map_or(since_start_s, |read_s| u64::from(server.now().saturating_sub(read_s)))
}

/// Writes the counters of moving items to their columns.
fn repartition(found: RepartitionStats, stats: &mut Stats<'_>) {
    let RepartitionStats { counts, frames, .. } = found;
    stats.lines(&[
        ("repartition_passes", counts.passes),
        ("repartition_swaps", counts.swaps),
        ("repartition_moved_bytes", counts.moved_bytes),
        ("repartition_expired", counts.expired),
        ("repartition_given_up", counts.given_up),
        ("repartition_slabs_in_order", frames.in_order_slabs),
        ("repartition_slabs_coloured", frames.coloured_slabs),
        ("repartition_slabs_unknown", frames.unknown_slabs),
        ("repartition_coloured_pages", frames.coloured_pages),
        ("repartition_right_pages", frames.right_pages),
    ]);
}

/// Writes the items that the start found in the memory file; all 0 if there was none.
fn memory_file(found: Found, stats: &mut Stats<'_>) {
    let Found { restored, evicted, ms, .. } = found;
    stats.lines(&[
        ("restored_items", restored.items),
        ("restored_bytes", restored.bytes),
        ("restored_expired", restored.expired),
        ("restored_refused", restored.refused),
        ("restored_lost", restored.lost),
        ("restored_whole", u64::from(restored.is_whole)),
        ("restored_evicted", evicted),
        ("restored_ms", ms),
    ]);
}

fn process(server: &Server, stats: &mut Stats<'_>) {
    let (user, system) = io::process::cpu_time();
    stats.line("pid", std::process::id());
    stats.line("uptime", server.started.elapsed().as_secs());
    // To the millisecond, as expiry is judged: it is never behind the second in which a key
    // expired.
    stats.line("time", server.clock.unix_ms() / 1000);
    stats.line("version", VERSION);
    stats.line("pointer_size", usize::BITS);
    stats.line("rusage_user", seconds(user));
    stats.line("rusage_system", seconds(system));
}

/// Seconds with six digits behind exactly one dot.
fn seconds(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}

fn connections(server: &Server, stats: &mut Stats<'_>) {
    let connections = &server.connections;
    let current = connections.current.load(Ordering::Relaxed) as u64;
    stats.lines(&[
        ("max_connections", server.live.connections_max() as u64),
        ("curr_connections", current),
        ("total_connections", connections.total.load(Ordering::Relaxed)),
        ("rejected_connections", connections.rejected.load(Ordering::Relaxed)),
        ("rejected_by_address", connections.rejected_by_address.load(Ordering::Relaxed)),
        ("connection_structures", current),
        ("response_obj_oom", 0),
        ("response_obj_count", 0),
        ("response_obj_bytes", 0),
        ("read_buf_count", server.options.threads as u64),
        ("read_buf_bytes", (server.options.threads * crate::turn::READ_BYTES) as u64),
        ("read_buf_bytes_free", 0),
        ("read_buf_oom", 0),
        ("reserved_fds", crate::start::RESERVED_FILES),
    ]);
}

fn requests(sums: &Sums, cache: &larder::Stats, stats: &mut Stats<'_>) {
    stats.lines(&[
        ("cmd_get", sums.cmd_get),
        ("cmd_set", sums.cmd_set),
        ("cmd_flush", sums.cmd_flush),
        ("cmd_touch", sums.cmd_touch),
        ("cmd_meta", sums.cmd_meta),
        ("get_hits", sums.get_hits),
        ("get_misses", sums.get_misses),
        ("get_expired", cache.found_expired),
        ("get_flushed", cache.found_flushed),
        ("delete_misses", sums.delete_misses),
        ("delete_hits", sums.delete_hits),
        ("incr_misses", sums.incr_misses),
        ("incr_hits", sums.incr_hits),
        ("decr_misses", sums.decr_misses),
        ("decr_hits", sums.decr_hits),
        ("cas_misses", sums.cas_misses),
        ("cas_hits", sums.cas_hits),
        ("cas_badval", sums.cas_badval),
        ("touch_hits", sums.touch_hits),
        ("touch_misses", sums.touch_misses),
        ("store_too_large", sums.store_too_large),
        ("store_no_memory", sums.store_no_memory),
        ("auth_cmds", sums.auth_cmds),
        ("auth_errors", sums.auth_errors),
        ("auth_throttled", sums.auth_throttled),
    ]);
}

fn memory(cache: &larder::Stats, stats: &mut Stats<'_>) {
    stats.lines(&[
        ("hash_power_level", u64::from(cache.index_slots.max(1).ilog2())),
        ("hash_bytes", cache.index_bytes),
        ("hash_is_expanding", 0),
        ("slab_reassign_rescues", cache.rescued),
        ("slab_reassign_chunk_rescues", 0),
        ("slab_reassign_inline_reclaim", 0),
        ("slab_reassign_busy_items", 0),
        ("slab_reassign_busy_deletes", 0),
        ("slab_reassign_running", 0),
        ("slabs_moved", cache.slabs_moved),
        ("lru_crawler_running", 0),
        ("lru_crawler_starts", 0),
        ("lru_maintainer_juggles", 0),
        ("malloc_fails", 0),
        ("bytes", cache.held_bytes()),
        ("curr_items", cache.items),
        ("total_items", cache.mutations),
        ("expired_unfetched", cache.expired_unfetched),
        ("evicted_unfetched", cache.evicted_unfetched),
        ("evicted_active", cache.evicted_recent),
        ("evictions", cache.evicted),
        ("reclaimed", cache.reclaimed()),
        ("crawler_reclaimed", cache.swept),
        ("crawler_items_checked", cache.swept_looks),
        ("lrutail_reflocked", 0),
        ("moves_to_cold", 0),
        ("moves_to_warm", 0),
        ("moves_within_lru", 0),
        ("direct_reclaims", 0),
    ]);
}
