//! The metrics as JSON, for the page and for `larder top`.
//!
//! A metric without labels is a number, and one with labels an object from their values, joined by
//! commas, to numbers: `{"memcached_commands_total": {"get,hit": 5}}`.

use serde_json::{Map, Number, Value as Json, json};

use ::insight::{AGE_BOUNDS_S, Entry, Reason, Top};

use super::collect::{Collector, Snapshot};
use super::history::{POINT_NAMES, Point, SECONDS_PER_MINUTE};
use super::keys::{Keys, TIERS, TOP_HALF_LIFE_S};
use super::metrics::{self, Now, Value};
use crate::flash_watch::phase_text;
use crate::options::policy_name;
use crate::server::Server;
use crate::watch;

/// Prefixes shown, the costliest ones.
const PREFIXES_SHOWN: usize = 12;

/// Keys shown, the most requested ones.
const KEYS_SHOWN: usize = 20;

/// The least share of a key that is shown: a key drawn by chance says too little.
const SHARE_SHOWN: f64 = 1e-3;

/// `/api/stats`: everything except the history.
pub fn stats(server: &Server, snapshot: &Snapshot, collector: &Collector) -> Json {
    let metrics: Map<String, Json> = metrics::read(&Now { snapshot, server, collector })
        .map(|(metric, values)| (metric.name.to_owned(), of_values(&values)))
        .collect();
    json!({
        "time_s": real(snapshot.time.as_secs_f64()),
        "version": env!("CARGO_PKG_VERSION"),
        "phase": phase_text(snapshot.phase, snapshot.flash_unanswered_s()),
        "policy": policy_name(server.options.policy),
        "listening": server.listening,
        "names": POINT_NAMES,
        "point": collector.history.seconds.back().map(of_point),
        "latency": latency(collector),
        "prefixes": prefixes(server),
        "insight": insight(&collector.keys, snapshot),
        "metrics": metrics,
    })
}

/// `/api/history`: the past, the oldest first.
pub fn history(collector: &Collector) -> Json {
    let history = &collector.history;
    json!({
        "names": POINT_NAMES,
        "seconds": {
            "step_s": 1,
            "points": history.seconds.iter().map(of_point).collect::<Vec<_>>(),
        },
        "minutes": {
            "step_s": SECONDS_PER_MINUTE,
            "points": history.minutes.iter().map(of_point).collect::<Vec<_>>(),
        },
    })
}

/// The time of a point, and then its values.
fn of_point(point: &Point) -> Json {
    let values = point.values.iter().map(|&value| real(f64::from(value)));
    std::iter::once(Json::from(point.unix_s)).chain(values).collect()
}

/// A number with three digits behind the dot; 0 if it is not finite.
fn real(value: f64) -> Json {
    let rounded = (value * 1e3).round() / 1e3;
    Number::from_f64(rounded).map_or(Json::from(0), Json::Number)
}

fn of_values(values: &[(Vec<String>, Value)]) -> Json {
    let number = |value: &Value| match value {
        Value::Whole(whole) => Json::from(*whole),
        // As in /metrics: small ratios keep all digits, too.
        Value::Real(value) => Number::from_f64(*value).map_or(0.into(), Json::Number),
        Value::Buckets(buckets) => Json::from(buckets.count),
    };
    match values {
        [(labels, value)] if labels.is_empty() => number(value),
        _ => values
            .iter()
            .map(|(labels, value)| (labels.join(","), number(value)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

/// Quantiles of the last minute.
fn latency(collector: &Collector) -> Json {
    let series = collector.latencies.series().filter_map(|(command, tier, series)| {
        let found = series.quantiles()?;
        Some(json!({
            "command": command,
            "tier": tier,
            "samples": found.count,
            "p50_us": real(found.p50_us),
            "p99_us": real(found.p99_us),
            "p999_us": real(found.p999_us),
            "max_us": real(found.max_us),
        }))
    });
    series.collect()
}

/// The prefixes of keys whose misses cost most.
fn prefixes(server: &Server) -> Json {
    let prefixes = server.cache.cost_prefixes();
    let shown = prefixes.iter().take(PREFIXES_SHOWN).map(|prefix| {
        json!({
            "prefix": String::from_utf8_lossy(&prefix.prefix),
            "misses": prefix.misses,
            "miss_s": real(prefix.miss_cost_us as f64 / 1e6),
            "typical_us": prefix.typical_us,
        })
    });
    shown.collect()
}

/// The findings from a sample of the keys. Ratios have six digits behind the dot.
fn insight(keys: &Keys, snapshot: &Snapshot) -> Json {
    let fine =
        |value: f64| Number::from_f64((value * 1e6).round() / 1e6).map_or(0.into(), Json::from);
    let watcher = &keys.watcher;
    let curve = keys.outlook(snapshot).map(|outlook| {
        let points = keys.points(&outlook).into_iter().map(|(size, point)| {
            json!([fine(size), fine(point.miss_ratio), fine(point.error), fine(point.missed_s)])
        });
        let more = TIERS.into_iter().zip(keys.more(&outlook)).filter_map(|(tier, more)| {
            let more = more?;
            Some(json!({ "tier": tier, "hits": real(more.hits), "saved_s": fine(more.saved_s) }))
        });
        json!({
            "points": points.collect::<Vec<_>>(),
            "more": more.collect::<Vec<_>>(),
            "predicted": fine(outlook.present.miss_ratio),
            "error": fine(outlook.present.error),
            "measured": fine(outlook.measured),
            "reads_per_second": real(outlook.reads_per_second),
        })
    });
    let reasons = watcher.reasons();
    let named = Reason::NAMES.into_iter().zip(reasons.recent());
    json!({
        "curve": curve,
        "half_life_s": Keys::half_life_s(),
        "sampled": watcher.rate(),
        "keys": watcher.keys(),
        "events": real(watcher.curve().events()),
        "forgotten": real(watcher.forgotten()),
        "reasons": named.map(|(name, misses)| json!([name, real(misses)])).collect::<Vec<_>>(),
        "age_bounds_s": AGE_BOUNDS_S,
        "ages": reasons.ages().map(real),
        "top_half_life_s": TOP_HALF_LIFE_S,
        "by_requests": top(keys, &keys.by_requests),
        "by_bytes": top(keys, &keys.by_bytes),
    })
}

/// The first keys: their rates in a second, at most and at least, and at least of all. Keys that
/// were drawn too seldom to tell are left out.
fn top(keys: &Keys, top: &Top) -> Json {
    let is_told = |entry: &&Entry| entry.least() >= top.total() * SHARE_SHOWN;
    let shown = top.first(KEYS_SHOWN).into_iter().filter(is_told).map(|entry| {
        json!({
            "key": shown_key(&entry.key),
            "most": real(keys.per_second(entry.most())),
            "least": real(keys.per_second(entry.least())),
            "share": real(entry.least() / top.total().max(1e-9)),
        })
    });
    shown.collect()
}

/// A key as text. Other keys are shown as `watch` does: percent and two digits for each byte that
/// is not plain.
fn shown_key(key: &[u8]) -> String {
    let text = str::from_utf8(key).ok().filter(|text| !text.contains(char::is_control));
    text.map_or_else(|| watch::key_text(key), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: nothing was left of a miss ratio or a sampling rate below a two-thousandth.
    #[test]
    fn metrics_are_the_numbers_of_the_metrics_page() {
        assert_eq!(of_values(&[(Vec::new(), Value::Real(0.00031))]), json!(0.00031));
        let labelled = [(vec!["8".to_owned()], Value::Real(0.00031))];
        assert_eq!(of_values(&labelled), json!({ "8": 0.00031 }));
    }
}
