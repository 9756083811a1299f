//! The same numbers as JSON, for the page and for `larder top`.
//!
//! A metric without labels is a number, and one with labels an object from their values, joined by
//! commas, to numbers: `{"memcached_commands_total": {"get,hit": 5}}`.

use serde_json::{Map, Number, Value as Json, json};

use super::collect::{Collector, Snapshot};
use super::history::{POINT_NAMES, Point, SECONDS_PER_MINUTE};
use super::metrics::{self, Now, Value};
use crate::options::policy_name;
use crate::server::Server;

/// Prefixes beyond the dearest are left out.
const PREFIXES_SHOWN: usize = 12;

/// `/api/stats`: everything but the past.
pub fn stats(server: &Server, snapshot: &Snapshot, collector: &Collector) -> Json {
    let metrics: Map<String, Json> = metrics::read(&Now { snapshot, collector })
        .map(|(metric, values)| (metric.name.to_owned(), of_values(&values)))
        .collect();
    json!({
        "time_s": real(snapshot.time.as_secs_f64()),
        "version": env!("CARGO_PKG_VERSION"),
        "phase": snapshot.phase.name(),
        "policy": policy_name(server.options.policy),
        "listening": server.listening,
        "names": POINT_NAMES,
        "point": collector.history.seconds.back().map(of_point),
        "latency": latency(collector),
        "prefixes": prefixes(server),
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

/// When it was, and then its values.
fn of_point(point: &Point) -> Json {
    let values = point.values.iter().map(|&value| real(f64::from(value)));
    std::iter::once(Json::from(point.unix_s)).chain(values).collect()
}

/// A number with three digits behind the dot; 0 if it is none.
fn real(value: f64) -> Json {
    let rounded = (value * 1e3).round() / 1e3;
    Number::from_f64(rounded).map_or(Json::from(0), Json::Number)
}

fn of_values(values: &[(Vec<String>, Value)]) -> Json {
    let number = |value: &Value| match value {
        Value::Whole(whole) => Json::from(*whole),
        Value::Real(value) => real(*value),
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
