//! Results of the sample of keys: the miss-ratio curve, the benefit of more memory, and the reasons
//! of misses.

use ::insight::Reason;

use super::{Metric, Now, Value, Values, counter, gauge};
use crate::admin::keys::{More, Outlook, SIZES, TIERS};

/// The sample.
pub const METRICS: &[Metric] = &[
    gauge(
        "larder_predicted_miss_ratio",
        &["size"],
        "Share of all reads that would miss with this multiple of the memory, from a sample; \
         absent while there were hardly any reads.",
        |now, out| {
            let Some(outlook) = outlook(now) else { return };
            for (name, size) in SIZES {
                let point = now.collector.keys.at(&outlook, size);
                out.any(&[name], Value::Real(point.miss_ratio));
            }
        },
    ),
    gauge(
        "larder_predicted_miss_ratio_error",
        &["of"],
        "Difference of the prediction at the present size from the measured miss ratio (`policy`), \
         and its standard error from sampling (`sample`).",
        |now, out| {
            let Some(outlook) = outlook(now) else { return };
            let Outlook { present, measured, .. } = outlook;
            out.any(&["policy"], Value::Real(present.miss_ratio - measured));
            out.any(&["sample"], Value::Real(present.error));
        },
    ),
    gauge(
        "larder_more_memory_hits_per_second",
        &["tier"],
        "Additional hits per second with one GiB more of a tier, by the predicted miss ratio.",
        |now, out| more(now, out, |more| more.hits),
    ),
    gauge(
        "larder_more_memory_saved_seconds_per_second",
        &["tier"],
        "Backend time saved per second with one GiB more of a tier, as far as costs are known.",
        |now, out| more(now, out, |more| more.saved_s),
    ),
    counter(
        "larder_misses_by_reason_total",
        &["reason"],
        "Keys not found, by what last happened to them; scaled up from a sample. `never`: no store \
         is known, because there was none or it was forgotten.",
        |now, out| {
            let whole = now.collector.keys.watcher.reasons().whole();
            for (name, misses) in Reason::NAMES.into_iter().zip(whole) {
                out.any(&[name], Value::Real(misses.round()));
            }
        },
    ),
    gauge(
        "larder_insight_keys",
        &[],
        "Keys in the sample, of which all events are known.",
        |now, out| {
            out.one(now.collector.keys.watcher.keys() as u64);
        },
    ),
    gauge(
        "larder_insight_sampled_ratio",
        &[],
        "Share of all keys that are in the sample.",
        |now, out| out.real(now.collector.keys.watcher.rate()),
    ),
    gauge("larder_insight_memory_bytes", &[], "Memory of the sample, outside -m.", |now, out| {
        out.one(now.collector.keys.watcher.memory_bytes() as u64);
    }),
    counter(
        "larder_insight_forgotten_keys_total",
        &[],
        "Keys forgotten because they were not requested for longer than a cache of 16 times the \
         size would keep them; scaled up.",
        |now, out| out.real(now.collector.keys.watcher.forgotten().round()),
    ),
    counter(
        "larder_insight_lost_total",
        &["what"],
        "Events of sampled keys (`events`), and keys of requests (`requests`), that were lost: a \
         worker's list was full, or was being collected at that moment.",
        |now, out| {
            let [events, requests] = now.collector.keys.lost;
            out.put(&["events"], events);
            out.put(&["requests"], requests);
        },
    ),
];

fn outlook(now: &Now<'_>) -> Option<Outlook> {
    now.collector.keys.outlook(now.snapshot)
}

fn more(now: &Now<'_>, out: &mut Values, value: fn(More) -> f64) {
    let Some(outlook) = outlook(now) else { return };
    for (tier, more) in TIERS.into_iter().zip(now.collector.keys.more(&outlook)) {
        if let Some(more) = more {
            out.any(&[tier], Value::Real(value(more)));
        }
    }
}
