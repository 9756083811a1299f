//! The flash tier: its content, and the items that move to and from it. Absent without such a tier.

use larder::FlashTierStats;

use super::{Metric, Now, Values, counter, gauge, seconds};

/// Adds a value of the tier, if there is one.
fn tier(now: &Now<'_>, out: &mut Values, value: fn(&FlashTierStats) -> u64) {
    if let Some(flash) = &now.snapshot.cache.flash {
        out.one(value(flash));
    }
}

/// Adds a value of each of its areas.
fn areas(now: &Now<'_>, out: &mut Values, values: fn(&FlashTierStats) -> [u64; 2]) {
    if let Some(flash) = &now.snapshot.cache.flash {
        let [raw, compressed] = values(flash);
        out.put(&["uncompressed"], raw);
        out.put(&["compressed"], compressed);
    }
}

/// The tier.
pub const METRICS: &[Metric] = &[
    gauge("larder_flash_size_bytes", &[], "Bytes of the device.", |now, out| {
        tier(now, out, |it| it.tier.segments * it.tier.segment_bytes);
    }),
    gauge("larder_flash_free_bytes", &[], "Bytes of empty segments.", |now, out| {
        tier(now, out, |it| it.tier.segments_free * it.tier.segment_bytes);
    }),
    gauge("larder_flash_area_bytes", &["area"], "Bytes of each area's segments.", |now, out| {
        areas(now, out, |it| {
            [it.tier.hot.segments, it.tier.cold.segments].map(|count| count * it.tier.segment_bytes)
        });
    }),
    counter(
        "larder_flash_area_hits_total",
        &["area"],
        "Lookups that found an item.",
        |now, out| {
            areas(now, out, |it| [it.tier.hot.hits, it.tier.cold.hits]);
        },
    ),
    gauge("larder_flash_spare_items", &[], "Items both on flash and in memory.", |now, out| {
        tier(now, out, |it| it.spare);
    }),
    gauge(
        "larder_flash_memory_bytes",
        &[],
        "Memory that the tier takes: its part of -m, and outside -m the reads that requests wait \
         for.",
        |now, out| tier(now, out, |it| it.memory_bytes),
    ),
    gauge(
        "larder_flash_recovering",
        &[],
        "1 while items of an earlier process are still being recovered.",
        |now, out| tier(now, out, |it| u64::from(it.recovering)),
    ),
    gauge("larder_flash_recovered_items", &[], "Items recovered at the start.", |now, out| {
        tier(now, out, |it| it.tier.recovered);
    }),
    gauge(
        "larder_flash_recovery_passed_by_items",
        &[],
        "Items present at the start that are not found: their keys have changed since, or may \
         have, or the index had no word for them.",
        |now, out| tier(now, out, |it| it.tier.passed_by),
    ),
    gauge(
        "larder_flash_recovery_forgone_segments",
        &[],
        "Segments present at the start whose items were not looked at, for lack of room.",
        |now, out| tier(now, out, |it| it.tier.forgone),
    ),
    counter("larder_flash_written_bytes_total", &[], "Bytes written.", |now, out| {
        tier(now, out, |it| it.tier.bytes_written);
    }),
    counter(
        "larder_flash_moved_bytes_total",
        &[],
        "Bytes written for items that were on flash already.",
        |now, out| tier(now, out, |it| it.tier.bytes_moved),
    ),
    counter("larder_flash_raw_bytes_total", &[], "Bytes before compression.", |now, out| {
        tier(now, out, |it| it.tier.raw_bytes);
    }),
    counter("larder_flash_stored_bytes_total", &[], "Bytes as stored.", |now, out| {
        tier(now, out, |it| it.tier.stored_bytes);
    }),
    counter("larder_flash_spilled_items_total", &[], "Items moved to flash.", |now, out| {
        tier(now, out, |it| it.spilled);
    }),
    counter(
        "larder_flash_handed_items_total",
        &[],
        "Items moved to flash by stores because the background was behind.",
        |now, out| tier(now, out, |it| it.handed),
    ),
    counter(
        "larder_flash_promoted_items_total",
        &[],
        "Items promoted to the hot zone.",
        |now, out| tier(now, out, |it| it.promoted),
    ),
    counter(
        "larder_flash_rested_items_total",
        &[],
        "Items that left memory for their spare row on flash, without a write.",
        |now, out| tier(now, out, |it| it.rested),
    ),
    counter(
        "larder_flash_refused_items_total",
        &[],
        "Items refused for lack of room, or while the tier was being emptied.",
        |now, out| {
            tier(now, out, |it| it.refused);
        },
    ),
    counter(
        "larder_flash_over_budget_items_total",
        &[],
        "Items refused because of the write limit.",
        |now, out| tier(now, out, |it| it.over_budget),
    ),
    counter(
        "larder_flash_expiring_items_total",
        &[],
        "Items refused because they would have expired soon.",
        |now, out| tier(now, out, |it| it.expiring),
    ),
    counter(
        "larder_flash_dropped_items_total",
        &[],
        "Items that left flash to make room, or because they could not be written.",
        |now, out| tier(now, out, |it| it.tier.dropped),
    ),
    counter(
        "larder_flash_spill_seconds_total",
        &[],
        "CPU time spent moving items from the hot zone.",
        |now, out| {
            if let Some(flash) = &now.snapshot.cache.flash {
                out.real(seconds(flash.spill_us));
            }
        },
    ),
    counter("larder_flash_reads_total", &[], "Reads of the device for requests.", |now, out| {
        tier(now, out, |it| it.reads);
    }),
    counter(
        "larder_flash_read_failures_total",
        &[],
        "Reads of the device for requests that failed.",
        |now, out| {
            tier(now, out, |it| it.reads_failed);
        },
    ),
    gauge("larder_flash_fetch_bytes", &[], "Bytes being read.", |now, out| {
        tier(now, out, |it| it.fetch_bytes);
    }),
    gauge(
        "larder_flash_waiting_reads",
        &[],
        "Batches of reads that wait for memory.",
        |now, out| {
            tier(now, out, |it| it.fetches_waiting);
        },
    ),
    counter(
        "larder_flash_damaged_total",
        &[],
        "Units, notes and dictionaries found damaged.",
        |now, out| {
            tier(now, out, |it| it.tier.damaged);
        },
    ),
    counter("larder_flash_io_errors_total", &[], "Reads and writes that failed.", |now, out| {
        tier(now, out, |it| it.io_errors());
    }),
    gauge(
        "larder_flash_unanswered_seconds",
        &[],
        "Seconds since the earliest operation began that the device has not answered, or 0.",
        |now, out| {
            tier(now, out, |it| it.unanswered_s);
        },
    ),
    gauge(
        "larder_flash_unsound",
        &[],
        "1 while the device cannot be told what was deleted.",
        |now, out| {
            tier(now, out, |it| it.tier.unsound.into());
        },
    ),
];
