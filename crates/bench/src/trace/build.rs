//! Builds a trace: numbers objects densely in order of first appearance, makes time begin at 0, and
//! keeps the limits.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use super::{Request, Trace};

/// The most objects of a trace; the highest number stays free.
pub const OBJECTS_MAX: u32 = u32::MAX - 1;

/// A growing trace.
#[derive(Debug)]
pub struct Builder<K> {
    numbers: HashMap<K, u32>,
    requests: Vec<Request>,
    requests_max: u64,
    first_time_s: Option<u64>,
}

impl<K: Hash + Eq> Builder<K> {
    /// Returns an empty trace for up to `requests_max` requests.
    pub fn new(requests_max: u64) -> Builder<K> {
        Builder { numbers: HashMap::new(), requests: Vec::new(), requests_max, first_time_s: None }
    }

    /// Returns whether no more requests are wanted.
    pub fn is_full(&self) -> bool {
        self.requests.len() as u64 >= self.requests_max
    }

    /// Adds a request for `key` at `time_s` of any clock; its own object and time are ignored. A
    /// request with an earlier time than its predecessor, as in lines of several machines, counts
    /// as simultaneous with it. Fails with a description of an invalid request.
    pub fn push<Q>(&mut self, key: &Q, time_s: u64, request: Request) -> Result<(), String>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let since = time_s.saturating_sub(*self.first_time_s.get_or_insert(time_s));
        let time_s =
            u32::try_from(since).map_err(|_| format!("{since} seconds after the first"))?;
        let time_s = time_s.max(self.requests.last().map_or(0, |last| last.time_s));
        let object = match self.numbers.get(key) {
            Some(object) => *object,
            None => {
                let next = self.numbers.len() as u32;
                if next > OBJECTS_MAX {
                    return Err(format!("more than {OBJECTS_MAX} objects"));
                }
                self.numbers.insert(key.to_owned(), next);
                next
            }
        };
        self.requests.push(Request { object, time_s, ..request });
        Ok(())
    }

    /// Returns the trace.
    pub fn finish(self, name: String) -> Trace {
        Trace { name, requests: self.requests, objects: self.numbers.len() as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::Builder;
    use crate::trace::Request;

    #[test]
    fn objects_are_numbered_by_appearance_and_time_never_runs_backwards() {
        let mut builder: Builder<Vec<u8>> = Builder::new(5);
        for (key, time_s) in [("b", 100), ("a", 101), ("b", 99), ("c", 105)] {
            builder.push(key.as_bytes(), time_s, Request::default()).expect("within the limits");
        }
        assert!(!builder.is_full());
        let far = builder.push(b"d".as_slice(), u64::MAX, Request::default());
        assert!(far.is_err_and(|what| what.contains("seconds after the first")));
        builder.push(b"a".as_slice(), 105, Request::default()).expect("within the limits");
        assert!(builder.is_full());
        let trace = builder.finish("t".into());
        let seen: Vec<_> = trace.requests.iter().map(|it| (it.object, it.time_s)).collect();
        assert_eq!(seen, [(0, 0), (1, 1), (0, 1), (2, 5), (1, 5)]);
    }
}
