//! Metrics named as in memcached_exporter. Those of features that Larder lacks (LRU queues, the
//! proxy) are left out rather than reported as 0.
//!
//! Kinds are the exporter's as well, which calls three gauges counters: the uptime, the bytes of
//! each class and those on flash. `cargo xtask conformance --only memcached-exporter` compares.

use larder::{ClassStats, FlashTierStats};

use super::{Metric, Now, Values, counter, gauge};
use crate::commands::VERSION;

/// The server as a whole.
pub const METRICS: &[Metric] = &[
    gauge("memcached_up", &[], "1: the server answers.", |_, out| out.one(1)),
    gauge("memcached_version", &["version"], "Version reported to clients.", |_, out| {
        out.put(&[VERSION], 1);
    }),
    counter("memcached_uptime_seconds", &[], "Seconds since the start.", |now, out| {
        out.one(now.snapshot.uptime.as_secs());
    }),
    gauge("memcached_time_seconds", &[], "The server's clock, in Unix seconds.", |now, out| {
        out.one(now.snapshot.clock_s);
    }),
    counter(
        "memcached_process_user_cpu_seconds_total",
        &[],
        "User CPU time of the process.",
        |now, out| out.real(now.snapshot.cpu.0.as_secs_f64()),
    ),
    counter(
        "memcached_process_system_cpu_seconds_total",
        &[],
        "System CPU time of the process.",
        |now, out| out.real(now.snapshot.cpu.1.as_secs_f64()),
    ),
    counter("memcached_read_bytes_total", &[], "Bytes received from clients.", |now, out| {
        out.one(now.snapshot.sums.bytes_read);
    }),
    counter("memcached_written_bytes_total", &[], "Bytes sent to clients.", |now, out| {
        out.one(now.snapshot.sums.bytes_written);
    }),
    gauge("memcached_current_connections", &[], "Open connections.", |now, out| {
        out.one(now.snapshot.connections[0]);
    }),
    gauge("memcached_max_connections", &[], "Maximum number of connections (-c).", |now, out| {
        out.one(now.snapshot.connections_max);
    }),
    counter("memcached_connections_total", &[], "Connections accepted.", |now, out| {
        out.one(now.snapshot.connections[1]);
    }),
    counter(
        "memcached_connections_rejected_total",
        &[],
        "Connections refused at the limit.",
        |now, out| out.one(now.snapshot.connections[2]),
    ),
    counter(
        "memcached_connections_yielded_total",
        &[],
        "Turns of a connection that ended with input left, so that others come first.",
        |now, out| out.one(now.snapshot.sums.conn_yields),
    ),
    counter(
        "memcached_connections_listener_disabled_total",
        &[],
        "Times that accepting paused at the connection limit.",
        |now, out| out.one(now.snapshot.connections[3]),
    ),
    gauge(
        "memcached_accepting_connections",
        &[],
        "Whether connections are accepted.",
        |now, out| {
            out.one(u64::from(now.snapshot.is_accepting));
        },
    ),
    gauge(
        "memcached_current_bytes",
        &[],
        "Bytes of chunks that hold items and of the compressed zone, without index and flash.",
        |now, out| out.one(now.snapshot.cache.held_bytes()),
    ),
    gauge("memcached_limit_bytes", &[], "Memory limit (-m).", |now, out| {
        out.one(now.snapshot.limit_bytes);
    }),
    gauge("memcached_malloced_bytes", &[], "Bytes of slabs in use.", |now, out| {
        out.one(now.snapshot.cache.used_bytes);
    }),
    gauge("memcached_current_items", &[], "Items, in all tiers.", |now, out| {
        out.one(now.snapshot.cache.items);
    }),
    counter("memcached_items_total", &[], "Stores and other changes.", |now, out| {
        out.one(now.snapshot.cache.mutations);
    }),
    counter(
        "memcached_items_evicted_total",
        &[],
        "Items that left the cache to make room.",
        |now, out| out.one(now.snapshot.cache.evicted),
    ),
    counter(
        "memcached_items_reclaimed_total",
        &[],
        "Expired items whose memory was reclaimed by stores.",
        |now, out| out.one(now.snapshot.cache.reclaimed()),
    ),
    counter(
        "memcached_item_too_large_total",
        &[],
        "Values larger than the item limit.",
        |now, out| {
            out.one(now.snapshot.sums.store_too_large);
        },
    ),
    counter(
        "memcached_item_no_memory_total",
        &[],
        "Values refused for lack of memory.",
        |now, out| out.one(now.snapshot.sums.store_no_memory),
    ),
    counter(
        "memcached_lru_crawler_reclaimed_total",
        &[],
        "Expired items found by the sweeps.",
        |now, out| out.one(now.snapshot.cache.swept),
    ),
    counter(
        "memcached_lru_crawler_items_checked_total",
        &[],
        "Chunks examined by the sweep of the hot zone.",
        |now, out| out.one(now.snapshot.cache.swept_looks),
    ),
    counter(
        "memcached_commands_total",
        &["command", "status"],
        "Requests by command and outcome; a multiget counts each key.",
        commands,
    ),
];

fn commands(now: &Now<'_>, out: &mut Values) {
    let sums = &now.snapshot.sums;
    for (command, status, value) in [
        ("get", "hit", sums.get_hits),
        ("get", "miss", sums.get_misses),
        ("set", "hit", now.snapshot.differences.sets),
        ("delete", "hit", sums.delete_hits),
        ("delete", "miss", sums.delete_misses),
        ("incr", "hit", sums.incr_hits),
        ("incr", "miss", sums.incr_misses),
        ("decr", "hit", sums.decr_hits),
        ("decr", "miss", sums.decr_misses),
        ("cas", "hit", sums.cas_hits),
        ("cas", "miss", sums.cas_misses),
        ("cas", "badval", sums.cas_badval),
        ("touch", "hit", sums.touch_hits),
        ("touch", "miss", sums.touch_misses),
        ("flush", "hit", sums.cmd_flush),
        ("flush_prefix", "hit", sums.cmd_flush_prefix),
    ] {
        out.put(&[command, status], value);
    }
}

/// Adds one value for each size class that owns memory.
fn slabs(now: &Now<'_>, out: &mut Values, value: fn(&ClassStats) -> u64) {
    for class in now.snapshot.classes.iter().filter(|class| class.slabs > 0) {
        out.put(&[&class.number.to_string()], value(class));
    }
}

/// Adds one value for each size class that holds items, as in `stats items`: a class that only owns
/// memory has no lines there.
fn items(now: &Now<'_>, out: &mut Values, value: fn(&ClassStats) -> u64) {
    for class in now.snapshot.classes.iter().filter(|class| class.used_chunks > 0) {
        out.put(&[&class.number.to_string()], value(class));
    }
}

/// The size classes of the hot zone.
pub const SLAB_METRICS: &[Metric] = &[
    gauge("memcached_slab_chunk_size_bytes", &["slab"], "Bytes of a chunk.", |now, out| {
        slabs(now, out, |class| class.chunk_bytes as u64);
    }),
    gauge("memcached_slab_chunks_per_page", &["slab"], "Chunks in a slab.", |now, out| {
        slabs(now, out, |class| class.chunks_per_slab as u64);
    }),
    gauge("memcached_slab_current_pages", &["slab"], "Slabs of the class.", |now, out| {
        slabs(now, out, |class| class.slabs as u64);
    }),
    gauge("memcached_slab_current_chunks", &["slab"], "Chunks of the class.", |now, out| {
        slabs(now, out, |class| (class.slabs * class.chunks_per_slab) as u64);
    }),
    gauge("memcached_slab_chunks_used", &["slab"], "Chunks that hold items.", |now, out| {
        slabs(now, out, |class| class.used_chunks as u64);
    }),
    gauge("memcached_slab_chunks_free", &["slab"], "Chunks that hold none.", |now, out| {
        slabs(now, out, |class| class.free_chunks as u64);
    }),
    counter(
        "memcached_slab_mem_requested_bytes",
        &["slab"],
        "Bytes of used chunks.",
        |now, out| {
            items(now, out, |class| (class.used_chunks * class.chunk_bytes) as u64);
        },
    ),
    gauge("memcached_slab_current_items", &["slab"], "Used chunks of the class.", |now, out| {
        items(now, out, |class| class.used_chunks as u64);
    }),
    gauge(
        "memcached_slab_items_age_seconds",
        &["slab"],
        "Duration of the hand's last round, in seconds.",
        |now, out| items(now, out, |class| u64::from(class.round_seconds)),
    ),
    counter(
        "memcached_slab_items_evicted_total",
        &["slab"],
        "Items evicted from the class.",
        |now, out| items(now, out, |class| class.counters.evicted),
    ),
    counter(
        "memcached_slab_items_evicted_unfetched_total",
        &["slab"],
        "Items evicted from the class that were never read.",
        |now, out| items(now, out, |class| class.counters.evicted_unfetched),
    ),
    counter(
        "memcached_slab_items_expired_unfetched_total",
        &["slab"],
        "Expired items of the class that were never read.",
        |now, out| items(now, out, |class| class.counters.expired_unfetched),
    ),
    counter(
        "memcached_slab_items_outofmemory_total",
        &["slab"],
        "Requests for a chunk of the class that failed.",
        |now, out| items(now, out, |class| class.counters.out_of_memory),
    ),
    counter(
        "memcached_slab_items_reclaimed_total",
        &["slab"],
        "Expired items of the class whose memory was reclaimed by stores.",
        |now, out| {
            items(now, out, |class| class.counters.expired.saturating_sub(class.counters.swept));
        },
    ),
    counter(
        "memcached_slab_items_crawler_reclaimed_total",
        &["slab"],
        "Expired items of the class found by the sweep.",
        |now, out| items(now, out, |class| class.counters.swept),
    ),
];

/// Adds a value of the flash tier, if there is one.
fn flash(now: &Now<'_>, out: &mut Values, value: fn(&FlashTierStats) -> u64) {
    if let Some(flash) = &now.snapshot.cache.flash {
        out.one(value(flash));
    }
}

/// The flash tier; what extstore calls a page is a segment.
pub const EXTSTORE_METRICS: &[Metric] = &[
    counter("memcached_extstore_pages_allocated_total", &[], "Segments opened.", |now, out| {
        flash(now, out, |flash| flash.tier.opened);
    }),
    counter("memcached_extstore_pages_evicted_total", &[], "Segments collected.", |now, out| {
        flash(now, out, |flash| flash.tier.collected);
    }),
    gauge(
        "memcached_extstore_pages_free",
        &[],
        "Empty segments that can be written.",
        |now, out| {
            flash(now, out, |flash| flash.tier.segments_free);
        },
    ),
    gauge("memcached_extstore_pages_used", &[], "Segments with items.", |now, out| {
        flash(now, out, |flash| flash.tier.segments_used());
    }),
    counter(
        "memcached_extstore_objects_evicted_total",
        &[],
        "Items that left flash to make room.",
        |now, out| flash(now, out, |flash| flash.tier.dropped),
    ),
    counter("memcached_extstore_objects_read_total", &[], "Reads for requests.", |now, out| {
        flash(now, out, |flash| flash.reads);
    }),
    counter(
        "memcached_extstore_objects_written_total",
        &[],
        "Items moved to flash.",
        |now, out| {
            flash(now, out, |flash| flash.spilled);
        },
    ),
    gauge("memcached_extstore_objects_used", &[], "Items on flash.", |now, out| {
        flash(now, out, |flash| flash.items);
    }),
    counter("memcached_extstore_bytes_written_total", &[], "Bytes written.", |now, out| {
        flash(now, out, |flash| flash.tier.bytes_written);
    }),
    counter("memcached_extstore_bytes_used", &[], "Bytes of segments with items.", |now, out| {
        flash(now, out, |flash| flash.tier.segments_used() * flash.tier.segment_bytes);
    }),
    gauge("memcached_extstore_bytes_limit", &[], "Bytes of the device.", |now, out| {
        flash(now, out, |flash| flash.tier.segments * flash.tier.segment_bytes);
    }),
    gauge("memcached_extstore_io_queue_depth", &[], "Reads that wait for memory.", |now, out| {
        flash(now, out, |flash| flash.fetches_waiting);
    }),
];
