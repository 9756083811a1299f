//! The flash tier: in `stats` under the names of memcached's extstore, and in `stats flash`
//! Larder's own numbers.

use larder::FlashTierStats;

use super::Stats;
use crate::server::Server;

/// Writes the numbers that extstore's users look for. Its pages are segments here.
pub fn extstore(flash: &FlashTierStats, stats: &mut Stats<'_>) {
    let tier = &flash.tier;
    let used = tier.segments_used();
    stats.lines(&[
        ("get_extstore", flash.hits),
        ("get_aborted_extstore", 0),
        ("get_oom_extstore", 0),
        ("recache_from_extstore", flash.promoted),
        ("miss_from_extstore", flash.reads_failed),
        ("badcrc_from_extstore", tier.damaged),
        ("extstore_compact_lost", tier.dropped),
        ("extstore_compact_rescues", tier.restaged),
        ("extstore_compact_skipped", 0),
        ("extstore_page_allocs", tier.opened),
        ("extstore_page_evictions", tier.collected),
        ("extstore_page_reclaims", tier.collected),
        ("extstore_pages_free", tier.segments_free),
        ("extstore_pages_used", used),
        ("extstore_objects_evicted", tier.dropped),
        ("extstore_objects_read", flash.reads),
        ("extstore_objects_written", flash.spilled),
        ("extstore_objects_used", flash.items),
        ("extstore_bytes_evicted", tier.collected * tier.segment_bytes),
        ("extstore_bytes_written", tier.bytes_written),
        ("extstore_bytes_read", flash.bytes_read),
        ("extstore_bytes_used", used * tier.segment_bytes),
        ("extstore_bytes_fragmented", 0),
        ("extstore_limit_maxbytes", tier.segments * tier.segment_bytes),
        ("extstore_io_queue", flash.fetches_waiting),
    ]);
}

/// Writes all of it; nothing if there is no such tier.
pub fn write(server: &Server, stats: &mut Stats<'_>) {
    if let Some(flash) = server.cache.flash_stats() {
        stats.lines(&lines(&flash));
    }
}

/// The names, which docs/compatibility.md explains, with their numbers.
fn lines(flash: &FlashTierStats) -> Vec<(&'static str, u64)> {
    let tier = &flash.tier;
    vec![
        ("items", flash.items),
        ("spare", flash.spare),
        ("memory_bytes", flash.memory_bytes),
        ("hits", flash.hits),
        ("spilled", flash.spilled),
        ("handed", flash.handed),
        ("refused", flash.refused),
        ("over_budget", flash.over_budget),
        ("expiring", flash.expiring),
        ("spill_us", flash.spill_us),
        ("promoted", flash.promoted),
        ("rested", flash.rested),
        ("reads", flash.reads),
        ("reads_failed", flash.reads_failed),
        ("fetch_bytes", flash.fetch_bytes),
        ("fetch_bytes_peak", flash.fetch_bytes_peak),
        ("fetch_bytes_max", flash.fetch_bytes_max),
        ("fetches_waiting", flash.fetches_waiting),
        ("recovering", u64::from(flash.recovering)),
        ("recovered", tier.recovered),
        ("recovery_passed_by", tier.passed_by),
        ("recovery_segments_forgone", tier.forgone),
        ("segment_bytes", tier.segment_bytes),
        ("segments", tier.segments),
        ("segments_free", tier.segments_free),
        ("segments_refused", tier.segments_refused),
        ("segments_written", tier.segments_written),
        ("units", tier.units),
        ("raw_bytes", tier.raw_bytes),
        ("stored_bytes", tier.stored_bytes),
        ("bytes_written", tier.bytes_written),
        ("bytes_moved", tier.bytes_moved),
        ("bytes_staged", tier.bytes_staged),
        ("bytes_skipped", tier.bytes_skipped),
        ("dictionaries", tier.dictionaries),
        ("trained", tier.trained),
        ("collected", tier.collected),
        ("evicted", tier.evicted),
        ("restaged", tier.restaged),
        ("moved_at_once", tier.promoted),
        ("dropped", tier.dropped),
        ("damaged", tier.damaged),
        ("io_errors", flash.io_errors()),
        ("journalled", tier.journalled),
        ("distrusted", tier.distrusted),
        ("unanswered_s", flash.unanswered_s),
        ("unsound", u64::from(tier.unsound)),
        ("flash_hot_segments_target", tier.hot_segments_target),
        ("flash_hot_read_us", tier.costs.hot_read_ns / 1000),
        ("flash_cold_read_us", tier.costs.cold_read_ns / 1000),
        ("flash_miss_us", tier.costs.miss_ns / 1000),
        ("flash_hot_segments", tier.hot.segments),
        ("flash_hot_hits", tier.hot.hits),
        ("flash_hot_raw_bytes", tier.hot.raw_bytes),
        ("flash_hot_stored_bytes", tier.hot.stored_bytes),
        ("flash_hot_moved_in", tier.hot.moved_in),
        ("flash_cold_segments", tier.cold.segments),
        ("flash_cold_hits", tier.cold.hits),
        ("flash_cold_raw_bytes", tier.cold.raw_bytes),
        ("flash_cold_stored_bytes", tier.cold.stored_bytes),
        ("flash_cold_moved_in", tier.cold.moved_in),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Regression: none of them was explained, and a table kept by hand would go stale.
    #[test]
    fn the_page_explains_every_number_of_flash_and_no_other() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
        let page = std::fs::read_to_string(path).expect("the page is there");
        let (_, section) = page.split_once("\n## Flash\n").expect("a section about flash");
        let section = section.split("\n## ").next().unwrap_or_default();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
        let names = rows.flat_map(|names| names.trim_end_matches('`').split("`, `"));
        let mut explained = BTreeSet::new();
        for name in names {
            assert!(explained.insert(name), "{name} is there twice");
        }
        let printed: BTreeSet<_> =
            lines(&FlashTierStats::default()).into_iter().map(|(name, _)| name).collect();
        let missing: Vec<_> = printed.symmetric_difference(&explained).collect();
        assert!(missing.is_empty(), "printed or explained alone: {missing:?}");
    }
}
