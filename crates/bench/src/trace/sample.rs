//! A smaller trace with the same behaviour: a share of the objects, with all their requests.
//!
//! The choice of objects follows from a hash of their numbers, so every request of an object stays
//! or goes with it, reuse keeps its shape, and a cache of the same share of the memory has about
//! the same miss ratio (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015).

use super::{Builder, Trace};
use crate::random::Random;

/// Keeps about `share` of the objects.
pub fn sample(trace: &Trace, share: f64) -> Trace {
    let mut builder: Builder<u32> = Builder::new(u64::MAX);
    for request in trace.requests.iter().filter(|request| stays(request.object, share)) {
        builder
            .push(&request.object, u64::from(request.time_s), *request)
            .expect("a part of a trace keeps its limits");
    }
    builder.finish(format!("{} ({share} of the objects)", trace.name))
}

fn stays(object: u32, share: f64) -> bool {
    Random::new(u64::from(object)).unit() < share
}

#[cfg(test)]
mod tests {
    use super::sample;
    use crate::trace::{Builder, Request, Trace};

    fn cycles() -> Trace {
        let mut builder: Builder<u32> = Builder::new(u64::MAX);
        for step in 0..100_000u32 {
            let request = Request { value_bytes: step % 10_000, ..Request::default() };
            builder.push(&(step % 10_000), u64::from(step), request).expect("within the limits");
        }
        builder.finish("cycles".into())
    }

    #[test]
    fn an_object_stays_with_all_its_requests_or_not_at_all() {
        let part = sample(&cycles(), 0.1);
        assert!((900..1100).contains(&part.objects), "{}", part.objects);
        assert_eq!(part.requests.len(), part.objects as usize * 10);
        let mut sizes = vec![None; part.objects as usize];
        for request in &part.requests {
            let size = sizes[request.object as usize].get_or_insert(request.value_bytes);
            assert_eq!(*size, request.value_bytes);
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        let whole = sample(&cycles(), 1.0);
        assert_eq!(whole.requests, cycles().requests);
        assert!(sample(&cycles(), 0.0).requests.is_empty());
    }
}
