//! What the server tells of itself: each metric's name, kind, labels, help and value, once.
//!
//! `/metrics`, the JSON and `docs/metrics.md` are made from these tables. Under the names of
//! memcached_exporter stand the same things as there, so that boards made for it go on working;
//! what is Larder's own begins with `larder_`. A metric without a value at the moment, such as
//! those of a tier that there is not, is left out.

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
    /// What Prometheus calls it.
    pub name: &'static str,
    /// What its values mean to Prometheus.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// A sentence for people.
    pub help: &'static str,
    /// Its values.
    read: fn(&Now<'_>, &mut Values),
}

/// What a metric's values mean to Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only rises, until the server ends or a client resets it (`stats reset`).
    Counter,
    /// It is what it is now.
    Gauge,
    /// It counts by size.
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

/// What metrics are read from.
pub struct Now<'n> {
    /// The server at this moment.
    pub snapshot: &'n Snapshot,
    /// The same, for what is too costly to be in a snapshot, of which there is one each second.
    pub server: &'n Server,
    /// What is kept beside it.
    pub collector: &'n Collector,
}

/// The values of one metric.
#[derive(Default)]
pub struct Values(Vec<(Vec<String>, Value)>);

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// Another one.
    Real(f64),
    /// A distribution.
    Buckets(Buckets),
}

impl Values {
    /// The only value.
    fn one(&mut self, value: u64) {
        self.put(&[], value);
    }

    /// The only value, such as seconds.
    fn real(&mut self, value: f64) {
        self.0.push((Vec::new(), Value::Real(value)));
    }

    /// The value for these labels.
    fn put(&mut self, labels: &[&str], value: u64) {
        self.any(labels, Value::Whole(value));
    }

    /// Any value for these labels.
    fn any(&mut self, labels: &[&str], value: Value) {
        self.0.push((labels.iter().map(|&label| label.to_owned()).collect(), value));
    }
}

/// Microseconds as seconds.
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

/// A number that only rises.
const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Now<'_>, &mut Values),
) -> Metric {
    metric(Kind::Counter, name, labels, help, read)
}

/// A number as it is now.
const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Now<'_>, &mut Values),
) -> Metric {
    metric(Kind::Gauge, name, labels, help, read)
}

/// All metrics, in the order in which they are told.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let tables = [memcached::METRICS, memcached::SLAB_METRICS, memcached::EXTSTORE_METRICS];
    let own = [own::METRICS, insight::METRICS, compressed::METRICS, flash::METRICS];
    tables.into_iter().chain(own).flatten()
}

/// The metrics that have values now, with these.
pub fn read(now: &Now<'_>) -> impl Iterator<Item = (&'static Metric, Vec<(Vec<String>, Value)>)> {
    all().filter_map(|metric| {
        let mut values = Values::default();
        (metric.read)(now, &mut values);
        (!values.0.is_empty()).then_some((metric, values.0))
    })
}

/// The text that Prometheus reads.
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

/// `a="1",b="2"`, escaped.
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
