//! Larder's own metrics, except those of the compressed zone, flash and the sample of keys.

use larder::QuotaStats;

use super::{Kind, Metric, Now, Value, Values, counter, gauge, metric, seconds};
use crate::flash_watch::unready;
use crate::watch::word_text;

/// Maximum number of namespaces reported: each takes four lines.
const NAMESPACES_SHOWN: usize = 100;

/// The server, memory, index, costs and latencies.
pub const METRICS: &[Metric] = &[
    gauge(
        "larder_ready",
        &[],
        "1 while the server serves, 0 while it starts or stops, or flash has hung for 5 seconds.",
        |now, out| {
            let unanswered_s = now.snapshot.flash_unanswered_s();
            out.one(u64::from(unready(now.snapshot.phase, unanswered_s).is_none()));
        },
    ),
    gauge("larder_threads", &[], "Worker threads.", |now, out| out.one(now.snapshot.threads)),
    counter(
        "larder_connections_rejected_by_address_total",
        &[],
        "Connections refused because their address was at its limit.",
        |now, out| out.one(now.snapshot.connections[4]),
    ),
    counter(
        "larder_logins_total",
        &["result"],
        "Login attempts: right, wrong, or not checked during a pause.",
        |now, out| {
            out.put(&["right"], now.snapshot.differences.logins_right);
            out.put(&["wrong"], now.snapshot.differences.logins_wrong);
            out.put(&["unchecked"], now.snapshot.sums.auth_throttled);
        },
    ),
    counter("larder_hits_total", &["tier"], "Keys found, by the tier they were read from.", hits),
    counter("larder_misses_total", &[], "Keys not found by gets and touches.", |now, out| {
        out.one(now.snapshot.sums.get_misses + now.snapshot.sums.touch_misses);
    }),
    gauge(
        "larder_items",
        &["tier"],
        "Items by tier; those of larder_flash_spare_items are in two tiers.",
        items,
    ),
    gauge(
        "larder_memory_bytes",
        &["owner"],
        "Memory by use; the parts add up to the limit, with a flash tier in whole slabs.",
        |now, out| {
            for (owner, bytes) in now.snapshot.memory().parts() {
                out.put(&[owner], bytes);
            }
        },
    ),
    gauge(
        "larder_resident_bytes",
        &[],
        "Resident memory of the process: the part of the limit that was ever used, and memory \
         outside of the limit.",
        |now, out| now.snapshot.resident_bytes.into_iter().for_each(|bytes| out.one(bytes)),
    ),
    gauge("larder_index_bytes", &[], "Bytes of the index.", |now, out| {
        out.one(now.snapshot.cache.index_bytes);
    }),
    gauge(
        "larder_table_slab_bytes",
        &[],
        "Bytes of the slabs that hold the tables of the index and of the compressed zone.",
        |now, out| out.one(now.snapshot.cache.table_slab_bytes),
    ),
    counter(
        "larder_index_moves_total",
        &[],
        "Tables of the index moved to free a slab of tables.",
        |now, out| out.one(now.snapshot.cache.index_moves),
    ),
    gauge("larder_index_slots", &[], "Slots of the index.", |now, out| {
        out.one(now.snapshot.cache.index_slots);
    }),
    counter(
        "larder_index_displacements_total",
        &[],
        "Words of the index moved to make room for others.",
        |now, out| out.one(now.snapshot.cache.index_displacements),
    ),
    counter(
        "larder_evicted_unfetched_items_total",
        &[],
        "Items evicted from the hot zone that were never read.",
        |now, out| out.one(now.snapshot.cache.evicted_unfetched),
    ),
    counter(
        "larder_evicted_recent_items_total",
        &[],
        "Items evicted from the hot zone that were read since the hand last passed.",
        |now, out| out.one(now.snapshot.cache.evicted_recent),
    ),
    counter(
        "larder_expired_items_total",
        &[],
        "Expired or flushed items whose memory was reclaimed.",
        |now, out| out.one(now.snapshot.cache.expired),
    ),
    counter(
        "larder_found_expired_total",
        &[],
        "Requests for an item that had expired.",
        |now, out| out.one(now.snapshot.cache.found_expired),
    ),
    counter("larder_memory_refusals_total", &[], "Requests for memory that failed.", |now, out| {
        out.one(now.snapshot.cache.out_of_memory)
    }),
    counter(
        "larder_namespace_requests_total",
        &["namespace", "request"],
        "Requests by the part of the key before the delimiter, of the 100 busiest, counted while \
         stats detail is on and kept until stats reset.",
        namespaces,
    ),
    gauge(
        "larder_quota_limit_bytes",
        &["prefix"],
        "Bytes that items with the prefix of a quota may take.",
        |now, out| quotas(now, out, |quota| quota.limit_bytes as u64),
    ),
    gauge(
        "larder_quota_bytes",
        &["prefix"],
        "Bytes of chunks that items under a quota take.",
        |now, out| quotas(now, out, |quota| quota.bytes as u64),
    ),
    gauge("larder_quota_items", &["prefix"], "Items under a quota in memory.", |now, out| {
        quotas(now, out, |quota| quota.items as u64)
    }),
    counter(
        "larder_quota_evicted_items_total",
        &["prefix"],
        "Items that left memory because their quota was full.",
        |now, out| quotas(now, out, |quota| quota.evicted),
    ),
    counter("larder_slabs_moved_total", &[], "Slabs moved out of a size class.", |now, out| {
        out.one(now.snapshot.cache.slabs_moved);
    }),
    counter(
        "larder_rescued_items_total",
        &[],
        "Items kept when their slab was moved.",
        |now, out| out.one(now.snapshot.cache.rescued),
    ),
    gauge(
        "larder_parked_output_bytes",
        &[],
        "Bytes of replies that clients have not read yet.",
        |now, out| out.one(now.snapshot.parked_bytes),
    ),
    counter(
        "larder_slow_clients_closed_total",
        &[],
        "Connections closed because their replies exceeded the output limit.",
        |now, out| out.one(now.snapshot.sums.output_kicks),
    ),
    counter("larder_redis_commands_total", &[], "Commands in the Redis protocol.", |now, out| {
        out.one(now.snapshot.sums.cmd_redis);
    }),
    counter(
        "larder_redis_errors_total",
        &[],
        "Error replies to commands in the Redis protocol. Some client libraries hide them and \
         continue without the result.",
        |now, out| out.one(now.snapshot.sums.redis_errors),
    ),
    gauge(
        "larder_unfinished_value_bytes",
        &[],
        "Bytes of memory of values that have arrived in part.",
        |now, out| out.one(now.snapshot.unfinished_bytes),
    ),
    counter(
        "larder_unfinished_values_closed_total",
        &[],
        "Connections closed because they sent only a part of a value while others needed the \
         memory.",
        |now, out| out.one(now.snapshot.sums.unfinished_kicks),
    ),
    counter(
        "larder_replies_delayed_total",
        &[],
        "Requests for long values that waited until there was room for their replies.",
        |now, out| out.one(now.snapshot.sums.output_waits),
    ),
    counter(
        "larder_idle_clients_closed_total",
        &[],
        "Connections closed for idling.",
        |now, out| {
            out.one(now.snapshot.sums.idle_kicks);
        },
    ),
    counter(
        "larder_tls_handshake_errors_total",
        &[],
        "Connections that ended before there was a TLS session.",
        |now, out| out.one(now.snapshot.sums.ssl_handshake_errors),
    ),
    counter(
        "larder_cost_saved_seconds_total",
        &[],
        "Time that it would have taken to make the values found again, as far as is known.",
        |now, out| out.real(seconds(now.snapshot.sums.cost_saved_us)),
    ),
    counter(
        "larder_cost_stored_seconds_total",
        &[],
        "Time that it took to make the values stored, as far as is known.",
        |now, out| out.real(seconds(now.snapshot.sums.cost_stored_us)),
    ),
    counter(
        "larder_cost_evicted_seconds_total",
        &[],
        "Time that it will take to make the evicted values again, as far as is known.",
        |now, out| {
            let costs = now.snapshot.classes.iter().map(|class| class.counters.evicted_cost_us);
            out.real(seconds(costs.sum()));
        },
    ),
    counter(
        "larder_cost_missed_seconds_total",
        &[],
        "Backend time spent on misses, as measured or stated.",
        |now, out| {
            if let Some(costs) = now.snapshot.cache.costs {
                out.real(seconds(costs.miss_cost_us));
            }
        },
    ),
    counter(
        "larder_repartition_moved_bytes_total",
        &[],
        "Bytes of items moved to the column of hot items.",
        |now, out| {
            if let Some(found) = now.snapshot.cache.repartition {
                out.one(found.counts.moved_bytes);
            }
        },
    ),
    gauge("larder_restored_items", &[], "Items restored from the memory file.", |now, out| {
        if let Some(found) = now.snapshot.found {
            out.one(found.restored.items);
        }
    }),
    metric(
        Kind::Histogram,
        "larder_sampled_request_duration_seconds",
        &["command", "tier"],
        "Time to serve a request, without network and queue; about one in 256 is timed.",
        durations,
    ),
    counter(
        "larder_latency_samples_lost_total",
        &[],
        "Latency samples lost: a worker's list was full, or was being collected at that moment.",
        |now, out| out.one(now.snapshot.samples_lost),
    ),
];

fn namespaces(now: &Now<'_>, out: &mut Values) {
    for (name, counts) in now.server.namespaces.busiest(NAMESPACES_SHOWN) {
        let requests = [
            ("get_hit", counts.hits),
            ("get_miss", counts.gets - counts.hits),
            ("set", counts.sets),
            ("delete", counts.deletes),
        ];
        requests.iter().for_each(|(request, count)| out.put(&[&name, request], *count));
    }
}

fn quotas(now: &Now<'_>, out: &mut Values, value: impl Fn(&QuotaStats) -> u64) {
    for quota in &now.snapshot.quotas {
        out.put(&[&word_text(&quota.prefix)], value(quota));
    }
}

fn hits(now: &Now<'_>, out: &mut Values) {
    let [hot, compressed, flash] = now.snapshot.hits();
    out.put(&["hot"], hot);
    if now.snapshot.cache.compressed.is_some() {
        out.put(&["compressed"], compressed);
    }
    if now.snapshot.cache.flash.is_some() {
        out.put(&["flash"], flash);
    }
}

fn items(now: &Now<'_>, out: &mut Values) {
    let items = now.snapshot.items();
    out.put(&["hot"], items.hot);
    if now.snapshot.cache.compressed.is_some() {
        out.put(&["compressed"], items.compressed);
    }
    if now.snapshot.cache.flash.is_some() {
        out.put(&["flash"], items.flash);
    }
}

fn durations(now: &Now<'_>, out: &mut Values) {
    for (command, tier, series) in now.collector.latencies.series() {
        if let Some(buckets) = series.buckets() {
            out.any(&[command, tier], Value::Buckets(buckets));
        }
    }
}
