//! The flash tier: what is on it, and what flows to and from it. Absent where there is none.

use larder::FlashTierStats;

use super::{Metric, Now, Values, counter, gauge, seconds};

/// A value of the tier, if there is one.
fn tier(now: &Now<'_>, out: &mut Values, value: fn(&FlashTierStats) -> u64) {
    if let Some(flash) = &now.snapshot.cache.flash {
        out.one(value(flash));
    }
}

/// A value of each of its areas.
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
    gauge("larder_flash_free_bytes", &[], "Bytes of segments with nothing in them.", |now, out| {
        tier(now, out, |it| it.tier.segments_free * it.tier.segment_bytes);
    }),
    gauge("larder_flash_area_bytes", &["area"], "Bytes of each area's segments.", |now, out| {
        areas(now, out, |it| {
            [it.tier.hot.segments, it.tier.cold.segments].map(|count| count * it.tier.segment_bytes)
        });
    }),
    counter("larder_flash_area_hits_total", &["area"], "Looks that found an item.", |now, out| {
        areas(now, out, |it| [it.tier.hot.hits, it.tier.cold.hits]);
    }),
    gauge("larder_flash_spare_items", &[], "Items on flash and in memory.", |now, out| {
        tier(now, out, |it| it.spare);
    }),
    gauge(
        "larder_flash_memory_bytes",
        &[],
        "Memory that the tier takes: of -m what is set apart for it, and beside it reads for who \
         waits.",
        |now, out| tier(now, out, |it| it.memory_bytes),
    ),
    gauge(
        "larder_flash_recovering",
        &[],
        "1 while items of an earlier process are still being found.",
        |now, out| tier(now, out, |it| u64::from(it.recovering)),
    ),
    gauge("larder_flash_recovered_items", &[], "Items found at the start.", |now, out| {
        tier(now, out, |it| it.tier.recovered);
    }),
    gauge(
        "larder_flash_recovery_passed_by_items",
        &[],
        "Items that were there at the start and are not found: their keys have changed since, or \
         may have, or the index had no word for them.",
        |now, out| tier(now, out, |it| it.tier.passed_by),
    ),
    gauge(
        "larder_flash_recovery_forgone_segments",
        &[],
        "Segments that were there at the start and left without a look at their items, for want \
         of room.",
        |now, out| tier(now, out, |it| it.tier.forgone),
    ),
    counter("larder_flash_written_bytes_total", &[], "Bytes written.", |now, out| {
        tier(now, out, |it| it.tier.bytes_written);
    }),
    counter(
        "larder_flash_moved_bytes_total",
        &[],
        "Of the bytes written, those of items that were on flash already.",
        |now, out| tier(now, out, |it| it.tier.bytes_moved),
    ),
    counter("larder_flash_raw_bytes_total", &[], "Bytes before compression.", |now, out| {
        tier(now, out, |it| it.tier.raw_bytes);
    }),
    counter("larder_flash_stored_bytes_total", &[], "The same as they are stored.", |now, out| {
        tier(now, out, |it| it.tier.stored_bytes);
    }),
    counter("larder_flash_spilled_items_total", &[], "Items that moved to flash.", |now, out| {
        tier(now, out, |it| it.spilled);
    }),
    counter(
        "larder_flash_handed_items_total",
        &[],
        "Of those, moved by stores that the background was too slow for.",
        |now, out| tier(now, out, |it| it.handed),
    ),
    counter(
        "larder_flash_promoted_items_total",
        &[],
        "Items that moved up into the hot zone.",
        |now, out| tier(now, out, |it| it.promoted),
    ),
    counter(
        "larder_flash_rested_items_total",
        &[],
        "Items that left memory for the row on flash that they had come up from, unwritten.",
        |now, out| tier(now, out, |it| it.rested),
    ),
    counter(
        "larder_flash_refused_items_total",
        &[],
        "Items it had no room for, or that came while it was being emptied.",
        |now, out| {
            tier(now, out, |it| it.refused);
        },
    ),
    counter(
        "larder_flash_over_budget_items_total",
        &[],
        "Items that the limit of writes kept out.",
        |now, out| tier(now, out, |it| it.over_budget),
    ),
    counter(
        "larder_flash_expiring_items_total",
        &[],
        "Items that were kept out because they would have expired soon.",
        |now, out| tier(now, out, |it| it.expiring),
    ),
    counter(
        "larder_flash_dropped_items_total",
        &[],
        "Items that left to make room, or because they could not be written.",
        |now, out| tier(now, out, |it| it.tier.dropped),
    ),
    counter(
        "larder_flash_spill_seconds_total",
        &[],
        "Processor time that moving items from the hot zone took.",
        |now, out| {
            if let Some(flash) = &now.snapshot.cache.flash {
                out.real(seconds(flash.spill_us));
            }
        },
    ),
    counter("larder_flash_reads_total", &[], "Reads of the device for requests.", |now, out| {
        tier(now, out, |it| it.reads);
    }),
    counter("larder_flash_read_failures_total", &[], "Of these, failed.", |now, out| {
        tier(now, out, |it| it.reads_failed);
    }),
    gauge("larder_flash_fetch_bytes", &[], "Bytes that are being read.", |now, out| {
        tier(now, out, |it| it.fetch_bytes);
    }),
    gauge("larder_flash_waiting_reads", &[], "Batches of reads that wait for room.", |now, out| {
        tier(now, out, |it| it.fetches_waiting);
    }),
    counter(
        "larder_flash_damaged_total",
        &[],
        "Units, notes and dictionaries found damaged.",
        |now, out| {
            tier(now, out, |it| it.tier.damaged);
        },
    ),
    counter("larder_flash_io_errors_total", &[], "Reads and writes that failed.", |now, out| {
        tier(now, out, |it| it.tier.io_errors);
    }),
    gauge(
        "larder_flash_unsound",
        &[],
        "1 while the device cannot be told what died.",
        |now, out| {
            tier(now, out, |it| it.tier.unsound.into());
        },
    ),
];
