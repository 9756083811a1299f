//! The compressed zone: its content, and the items that move to and from it. Absent without such a
//! zone.

use larder::CompressedStats;

use super::{Metric, Now, Values, counter, gauge, seconds};

/// Adds a value of the zone, if there is one.
fn zone(now: &Now<'_>, out: &mut Values, value: fn(&CompressedStats) -> u64) {
    if let Some(compressed) = &now.snapshot.cache.compressed {
        out.one(value(compressed));
    }
}

/// Adds a time of the zone, in microseconds, if there is one.
fn time(now: &Now<'_>, out: &mut Values, us: fn(&CompressedStats) -> u64) {
    if let Some(compressed) = &now.snapshot.cache.compressed {
        out.real(seconds(us(compressed)));
    }
}

/// The zone.
pub const METRICS: &[Metric] = &[
    gauge("larder_compressed_raw_bytes", &[], "Bytes of rows before compression.", |now, out| {
        zone(now, out, |it| (it.zone.raw_bytes + it.zone.long_bytes) as u64);
    }),
    gauge("larder_compressed_stored_bytes", &[], "Bytes of rows as stored.", |now, out| {
        zone(now, out, |it| it.zone.space.live_bytes as u64);
    }),
    gauge("larder_compressed_budget_bytes", &[], "Memory that the zone may use.", |now, out| {
        zone(now, out, |it| (it.budget_slabs * it.zone.space.slab_bytes) as u64);
    }),
    gauge(
        "larder_compressed_blocks",
        &[],
        "Leaves, each with at most one block of rows.",
        |now, out| {
            zone(now, out, |it| it.zone.leaves as u64);
        },
    ),
    gauge("larder_compressed_dictionaries", &[], "Dictionaries in use.", |now, out| {
        zone(now, out, |it| it.zone.dictionaries.dictionaries as u64);
    }),
    counter(
        "larder_compressed_demoted_items_total",
        &[],
        "Items demoted into the zone.",
        |now, out| zone(now, out, |it| it.demoted),
    ),
    counter(
        "larder_compressed_promoted_items_total",
        &[],
        "Items promoted back to the hot zone.",
        |now, out| zone(now, out, |it| it.promoted),
    ),
    counter(
        "larder_compressed_evicted_items_total",
        &[],
        "Items that left the zone to make room.",
        |now, out| zone(now, out, |it| it.zone.evicted),
    ),
    counter(
        "larder_compressed_spilled_items_total",
        &[],
        "Items that left the zone to make room and moved on to flash.",
        |now, out| zone(now, out, |it| it.spilled),
    ),
    counter(
        "larder_compressed_expired_items_total",
        &[],
        "Expired items removed from the zone.",
        |now, out| zone(now, out, |it| it.zone.expired),
    ),
    counter(
        "larder_compressed_refused_items_total",
        &[],
        "Items that the zone refused.",
        |now, out| zone(now, out, |it| it.refused),
    ),
    counter(
        "larder_compressed_throttled_items_total",
        &[],
        "Items evicted because there was no time to move them.",
        |now, out| zone(now, out, |it| it.throttled),
    ),
    counter(
        "larder_compressed_passed_over_items_total",
        &[],
        "Items evicted because they had never been read and the zone was full.",
        |now, out| zone(now, out, |it| it.passed_over),
    ),
    counter(
        "larder_compressed_ghost_hits_total",
        &[],
        "Misses of items that the zone had evicted shortly before.",
        |now, out| zone(now, out, |it| it.ghost_hits),
    ),
    counter(
        "larder_compressed_demote_seconds_total",
        &[],
        "CPU time spent moving items into the zone.",
        |now, out| time(now, out, |it| it.demote_us),
    ),
    counter(
        "larder_compressed_read_seconds_total",
        &[],
        "CPU time spent reading items in the zone, from a sample.",
        |now, out| time(now, out, |it| it.read_us),
    ),
    counter("larder_compressed_decoded_frames_total", &[], "Frames decoded.", |now, out| {
        zone(now, out, |it| it.decoded);
    }),
    counter(
        "larder_compressed_cleaned_bytes_total",
        &[],
        "Bytes moved to free slabs.",
        |now, out| zone(now, out, |it| it.zone.space.moved_bytes as u64),
    ),
    counter(
        "larder_compressed_budget_steps_total",
        &["direction"],
        "Steps of memory that the zone gained or gave up.",
        |now, out| {
            if let Some(compressed) = &now.snapshot.cache.compressed {
                out.put(&["grown"], compressed.grown);
                out.put(&["shrunk"], compressed.shrunk);
            }
        },
    ),
    counter(
        "larder_compressed_damaged_blocks_total",
        &[],
        "Times that a block was found damaged, including by readers.",
        |now, out| zone(now, out, |it| it.damaged),
    ),
];
