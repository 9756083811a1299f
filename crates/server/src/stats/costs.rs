//! `stats costs`: the backend's work that hits have saved, and that misses have caused. Larder's
//! own.
//!
//! Saved is the cost of the items that were found, stored the cost of those that were stored, both
//! as far as it is known: stated by clients, or measured. Evicted is the cost of remaking evicted
//! items, as a whole and of each size class. The lines about measuring are there where it is on; a
//! line for a prefix gives the cost of its misses, the costliest first.

use larder::{ClassStats, CostPrefix};

use super::Stats;
use crate::server::Server;

/// Prefixes shown, the costliest ones.
const PREFIXES_SHOWN: usize = 64;

/// Writes all of it.
pub fn write(server: &Server, stats: &mut Stats<'_>) {
    let sums = server.sums();
    stats.line("saved_seconds", seconds(sums.cost_saved_us));
    stats.line("stored_seconds", seconds(sums.cost_stored_us));
    let classes = server.cache.class_stats();
    let evicted_us = |class: &ClassStats| class.counters.evicted_cost_us;
    stats.line("evicted_seconds", seconds(classes.iter().map(evicted_us).sum()));
    for class in classes.iter().filter(|class| evicted_us(class) > 0) {
        let name = format_args!("class_evicted_seconds:{}", class.number);
        stats.line(name, seconds(evicted_us(class)));
    }
    let Some(measured) = server.cache.cost_stats() else {
        return;
    };
    stats.line("miss_seconds", seconds(measured.miss_cost_us));
    stats.lines(&[
        ("misses_noted", measured.misses_noted),
        ("misses_again", measured.misses_again),
        ("notes_lost", measured.notes_lost),
        ("notes_late", measured.notes_late),
        ("stores_measured", measured.measured),
        ("stores_bounded", measured.outliers),
        ("stores_stated", measured.stated),
        ("stores_kept", measured.kept),
        ("stores_presumed", measured.presumed),
    ]);
    for prefix in server.cache.cost_prefixes().iter().take(PREFIXES_SHOWN) {
        one(prefix, stats);
    }
}

fn one(prefix: &CostPrefix, stats: &mut Stats<'_>) {
    // A key may hold bytes that a line may not, and a space, which a name in a line may not.
    let name = prefix.prefix.escape_ascii().to_string().replace(' ', r"\x20");
    let name = if prefix.prefix.is_empty() { "(none)".to_owned() } else { name };
    stats.line(format_args!("prefix_misses:{name}"), prefix.misses);
    stats.line(format_args!("prefix_miss_seconds:{name}"), seconds(prefix.miss_cost_us));
    stats.line(format_args!("prefix_typical_us:{name}"), prefix.typical_us);
    stats.line(format_args!("prefix_bounded:{name}"), prefix.outliers);
    stats.line(format_args!("prefix_presumed:{name}"), prefix.presumed);
}

/// Microseconds as seconds, to the microsecond.
fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}
