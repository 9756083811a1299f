//! SHARDS with a fixed rate (Waldspurger, Park, Garthwaite, Ahmad, FAST 2015): only objects whose
//! hash is below a threshold are simulated, in caches that are smaller in proportion. For policies
//! other than LRU this is miniature simulation (ATC 2017, some of the same authors).
//!
//! The chance choice of objects determines the number of sampled requests, which popular objects
//! distort. SHARDS-adj counts the difference to the expected number as hits; that is, misses are
//! divided by the expected number of requests instead of that of the sample.

use super::document::Curve;
use crate::failure::{Failure, Outcome};
use crate::policies::simulate::Tally;
use crate::random::Random;
use crate::trace::copies::Copies;
use crate::trace::{Operation, Trace};

/// Returns the requests of the sampled objects, which are numbered anew.
pub fn sample(trace: &Copies, rate: f64) -> Outcome<Copies> {
    let threshold = (rate * u64::MAX as f64) as u64;
    let mut numbers = vec![None; trace.objects() as usize];
    let (mut requests, mut objects) = (Vec::new(), 0);
    for mut request in trace.iter() {
        if Random::new(u64::from(request.object)).word() <= threshold {
            let number = *numbers[request.object as usize].get_or_insert_with(|| {
                objects += 1;
                objects - 1
            });
            request.object = number;
            requests.push(request);
        }
    }
    if requests.is_empty() {
        let doing = format!("sampling {rate} of {} objects", trace.objects());
        return Err(Failure::invalid(doing, "none was chosen: take a higher rate"));
    }
    Ok(Trace { name: trace.name(), requests, objects }.into())
}

/// Returns the sizes of caches for the sample.
pub fn scale(sizes: &[u64], rate: f64) -> Vec<u64> {
    sizes.iter().map(|size| ((*size as f64 * rate).round() as u64).max(1)).collect()
}

/// Converts the sample's curves into the counts expected for the whole trace.
pub fn adjust(mut curves: Vec<Curve>, trace: &Copies, rate: f64) -> Vec<Curve> {
    let reads = trace.iter().filter(|request| request.operation == Operation::Get);
    let (mut gets, mut cost_us) = (0, 0);
    for request in reads {
        gets += 1;
        cost_us += u64::from(request.cost_us);
    }
    let whole = |sampled: u64, most: u64| ((sampled as f64 / rate).round() as u64).min(most);
    for tally in curves.iter_mut().flat_map(|curve| &mut curve.tallies) {
        let misses = whole(tally.misses, gets);
        let missed_cost_us = whole(tally.missed_cost_us, cost_us);
        *tally = Tally { gets, misses, cost_us, missed_cost_us };
    }
    curves
}

#[cfg(test)]
mod tests {
    use super::{adjust, sample, scale};
    use crate::mrc::sweep::{Measure, Sweep};
    use crate::policies::check::{reads, skewed};
    use crate::policies::kind::Kind;
    use crate::random::Random;
    use crate::trace::Trace;
    use crate::trace::copies::Copies;

    fn skewed_trace() -> Copies {
        let mut random = Random::new(5);
        let objects: Vec<u32> = (0..300_000).map(|_| skewed(&mut random, 20_000)).collect();
        Trace { name: "skewed".into(), requests: reads(&objects), objects: 20_000 }.into()
    }

    #[test]
    fn a_sample_predicts_the_whole() {
        let trace = skewed_trace();
        let sweep = |trace: &Copies, sizes: &[u64]| {
            let kinds = &[Kind::Lru, Kind::Sieve];
            Sweep { trace, kinds, measure: Measure::Objects, sizes, threads: 2 }.run()
        };
        let sizes = [500, 2_000, 8_000];
        let sampled = sample(&trace, 0.2).expect("some objects are chosen");
        let sampled = adjust(sweep(&sampled, &scale(&sizes, 0.2)), &trace, 0.2);
        for (sampled, full) in sampled.iter().zip(sweep(&trace, &sizes)) {
            for (sampled, full) in sampled.tallies.iter().zip(full.tallies) {
                let error = (sampled.miss_ratio() - full.miss_ratio()).abs();
                assert!(error < 0.03, "{error}");
            }
        }
    }

    #[test]
    fn a_full_rate_changes_nothing_and_a_tiny_one_is_refused() {
        let trace = skewed_trace();
        assert_eq!(sample(&trace, 1.0).expect("all are chosen").len(), 300_000);
        let failure = sample(&trace, 1e-12).expect_err("none is chosen");
        assert!(failure.to_string().contains("higher rate"), "{failure}");
    }
}
