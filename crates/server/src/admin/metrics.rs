//! The server's metrics: each one's name, kind, labels, help and value, stated once.
//!
//! `/metrics`, the JSON and `docs/metrics.md` are made from these tables. Metrics named as in
//! memcached_exporter mean the same as there, so that dashboards made for it keep working;
//! Larder's own begin with `larder_`. A metric that has no value at the moment, such as one of an
//! absent tier, is left out.

mod compressed;
mod flash;
mod insight;
mod memcached;
mod own;

use std::fmt::Write;

use super::collect::{Collector, Snapshot};
use super::latency::{BOUNDS_NS, Buckets};
use crate::server::Server;

/// One metric.
pub struct Metric {
    /// Name in Prometheus.
    pub name: &'static str,
    /// Type in Prometheus.
    pub kind: Kind,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Help, a sentence.
    pub help: &'static str,
    /// Adds the values.
    read: fn(&Now<'_>, &mut Values),
}

/// The type of a metric in Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only increases, until the server exits or a client resets it (`stats reset`).
    Counter,
    /// A present value.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The sources of metrics.
pub struct Now<'n> {
    /// The server at this moment.
    pub snapshot: &'n Snapshot,
    /// The server, for values too costly for a snapshot, which is taken each second.
    pub server: &'n Server,
    /// The collected history and samples.
    pub collector: &'n Collector,
}

/// The values of one metric.
#[derive(Default)]
pub struct Values(Vec<(Vec<String>, Value)>);

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// Any other number.
    Real(f64),
    /// A distribution.
    Buckets(Buckets),
}

impl Values {
    /// Sets the only value.
    fn one(&mut self, value: u64) {
        self.put(&[], value);
    }

    /// Sets the only value, a real number such as seconds.
    fn real(&mut self, value: f64) {
        self.0.push((Vec::new(), Value::Real(value)));
    }

    /// Adds the value for these labels.
    fn put(&mut self, labels: &[&str], value: u64) {
        self.any(labels, Value::Whole(value));
    }

    /// Adds any value for these labels.
    fn any(&mut self, labels: &[&str], value: Value) {
        self.0.push((labels.iter().map(|&label| label.to_owned()).collect(), value));
    }
}

/// Converts microseconds to seconds.
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

const fn metric(
    kind: Kind,
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Now<'_>, &mut Values),
) -> Metric {
    Metric { name, kind, labels, help, read }
}

/// Declares a counter.
const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Now<'_>, &mut Values),
) -> Metric {
    metric(Kind::Counter, name, labels, help, read)
}

/// Declares a gauge.
const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Now<'_>, &mut Values),
) -> Metric {
    metric(Kind::Gauge, name, labels, help, read)
}

/// Returns all metrics, in the order of the output.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let tables = [memcached::METRICS, memcached::SLAB_METRICS, memcached::EXTSTORE_METRICS];
    let own = [own::METRICS, insight::METRICS, compressed::METRICS, flash::METRICS];
    tables.into_iter().chain(own).flatten()
}

/// Returns the metrics that have values now, with their values.
pub fn read(now: &Now<'_>) -> impl Iterator<Item = (&'static Metric, Vec<(Vec<String>, Value)>)> {
    all().filter_map(|metric| {
        let mut values = Values::default();
        (metric.read)(now, &mut values);
        (!values.0.is_empty()).then_some((metric, values.0))
    })
}

/// Returns the text that Prometheus reads.
pub fn text(now: &Now<'_>) -> String {
    let mut text = String::new();
    for (metric, values) in read(now) {
        let Metric { name, kind, help, .. } = metric;
        // Writing to a String cannot fail; nor below.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
        for (labels, value) in values {
            let labels = pairs(metric.labels, &labels);
            match value {
                Value::Whole(whole) => line(&mut text, name, &labels, whole as f64),
                Value::Real(real) => line(&mut text, name, &labels, real),
                Value::Buckets(buckets) => distribution(&mut text, name, &labels, &buckets),
            }
        }
    }
    text
}

/// Formats labels as `a="1",b="2"`, escaped.
fn pairs(names: &[&str], values: &[String]) -> String {
    let escaped =
        |value: &String| value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let pair = |(name, value)| format!("{name}=\"{}\"", escaped(value));
    names.iter().zip(values).map(pair).collect::<Vec<_>>().join(",")
}

fn line(text: &mut String, name: &str, labels: &str, value: f64) {
    let _ = match labels {
        "" => writeln!(text, "{name} {value}"),
        _ => writeln!(text, "{name}{{{labels}}} {value}"),
    };
}

fn distribution(text: &mut String, name: &str, labels: &str, buckets: &Buckets) {
    for (bound_ns, count) in BOUNDS_NS.iter().zip(buckets.counts) {
        let bound_s = *bound_ns as f64 / 1e9;
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound_s}\"}} {count}");
    }
    let Buckets { count, sum_s, .. } = buckets;
    let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "{name}_sum{{{labels}}} {sum_s}\n{name}_count{{{labels}}} {count}");
}

#[cfg(test)]
mod tests;
