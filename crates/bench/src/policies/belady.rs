//! MIN (Belady, 1966): evicts the object needed furthest in the future, and does not even store an
//! object needed later than all others. It knows the future, so no real cache can do this.
//!
//! With items of equal weight no policy has fewer misses. With weights this is a heuristic: a cache
//! could do it, so the optimum is at least as good, but finding that is NP-hard; `bound` is a bound
//! on all policies.
//!
//! Memory per item: none is counted beyond the item's own.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Policy, Visit};
use crate::trace::{Operation, Request};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 0;

/// Never needed again.
pub const NEVER: u32 = u32::MAX;

/// Returns, for each request, the position of the next read of the same object that would find the
/// item left by this request; `NEVER` if the object is stored anew or deleted before, or not read
/// again.
pub fn next_uses<R>(requests: R, objects: u32) -> Arc<[u32]>
where
    R: IntoIterator<Item: Borrow<Request>, IntoIter: DoubleEndedIterator>,
{
    let mut upcoming = vec![NEVER; objects as usize];
    // From the last request to the first, and counted from the last as long as their number is
    // unknown.
    let mut next = Vec::new();
    for (back, request) in requests.into_iter().rev().enumerate() {
        let Request { object, operation, .. } = *request.borrow();
        let upcoming = &mut upcoming[object as usize];
        next.push(*upcoming);
        *upcoming = if operation == Operation::Get { back as u32 } else { NEVER };
    }
    next.reverse();
    let count = next.len() as u32;
    for back in next.iter_mut().filter(|back| **back != NEVER) {
        *back = count - 1 - *back;
    }
    next.into()
}

/// A cache that knows the future.
pub struct Belady {
    capacity: u64,
    used: u64,
    next_uses: Arc<[u32]>,
    /// Weight and next use of resident objects; a weight of 0 means not resident.
    entries: Vec<(u32, u32)>,
    /// Resident objects, by the next use.
    order: BTreeSet<(u32, u32)>,
}

impl Belady {
    /// An empty cache, for visits at the positions that `next_uses` was made from.
    pub fn new(capacity: u64, objects: u32, next_uses: Arc<[u32]>) -> Belady {
        let entries = vec![(0, 0); objects as usize];
        Belady { capacity, used: 0, next_uses, entries, order: BTreeSet::new() }
    }
}

impl Policy for Belady {
    fn read(&mut self, visit: Visit) -> bool {
        let (weight, next) = self.entries[visit.object as usize];
        if weight == 0 {
            return false;
        }
        self.order.remove(&(next, visit.object));
        let next = self.next_uses[visit.position as usize];
        self.order.insert((next, visit.object));
        self.entries[visit.object as usize].1 = next;
        if next == NEVER {
            self.remove(visit.object);
        }
        true
    }

    fn insert(&mut self, visit: Visit) {
        let next = self.next_uses[visit.position as usize];
        if next == NEVER {
            return;
        }
        self.order.insert((next, visit.object));
        self.entries[visit.object as usize] = (visit.weight, next);
        self.used += u64::from(visit.weight);
        while self.used > self.capacity {
            let (_, object) = *self.order.last().expect("what weighs something is there");
            self.remove(object);
        }
    }

    fn remove(&mut self, object: u32) {
        let (weight, next) = std::mem::take(&mut self.entries[object as usize]);
        self.used -= u64::from(weight);
        self.order.remove(&(next, object));
    }

    fn used(&self) -> u64 {
        self.used
    }

    fn items(&self) -> u64 {
        self.order.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{Belady, NEVER, next_uses};
    use crate::policies::check::{hits, reads};
    use crate::trace::Operation;

    #[test]
    fn the_textbook_string_has_nine_faults() {
        // The reference string of Silberschatz's Operating System Concepts with three frames; it
        // faults nine times. Not storing the object needed latest saves no fault here.
        let objects = [0, 1, 2, 3, 1, 4, 1, 5, 3, 4, 1, 4, 1, 3, 2, 3, 1, 2, 0, 1];
        let mut cache = Belady::new(3, 6, next_uses(reads(&objects), 6));
        assert!(hits(&mut cache, &objects).matches('.').count() <= 9);
    }

    #[test]
    fn a_store_or_a_delete_ends_the_use_of_what_was_there() {
        let mut requests = reads(&[0, 0, 0, 0]);
        requests[2].operation = Operation::Delete;
        assert_eq!(next_uses(&requests, 1)[..], [1, NEVER, 3, NEVER]);
        requests[2].operation = Operation::Set;
        assert_eq!(next_uses(&requests, 1)[..], [1, NEVER, 3, NEVER]);
    }
}
