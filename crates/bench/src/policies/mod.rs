//! Replacement policies to compare with: small, readable models that keep no values, one a file.
//!
//! ```text
//!   request --Scale--> Visit (object, weight) --> Policy: read, and insert on a miss
//! ```
//!
//! A policy knows objects by number and by weight; whether a weight is 1 or an item's bytes
//! (`weight`) it does not know. `kind` names the policies; `simulate` runs one over a trace as an
//! application would: a get that misses is followed by a set. `bound` is no policy but a bound on
//! all of them, and `stack` computes the misses of LRU at every size at once.
//!
//! These are baselines for judging Larder, so they follow their papers even where speed or memory
//! would suggest otherwise; each file states its deviations.

mod arc;
pub mod belady;
pub mod bound;
#[cfg(test)]
pub mod check;
mod clock;
#[cfg(test)]
mod cost_check;
mod cost_clock;
pub mod gd_pq;
mod gd_wheel;
pub mod kind;
mod lirs;
mod lists;
mod lru_2;
#[cfg(test)]
mod naive;
mod queue;
mod s3_fifo;
mod segments;
mod sieve;
pub mod simulate;
mod sketch;
pub mod stack;
mod w_tiny_lfu;
pub mod weight;

/// A request as a policy sees it.
#[derive(Debug, Clone, Copy)]
pub struct Visit {
    /// Its place in the trace.
    pub position: u32,
    /// The object.
    pub object: u32,
    /// Its weight: at least 1, and at most the cache's capacity.
    pub weight: u32,
    /// Microseconds to make the value again; 0: unknown.
    pub cost_us: u32,
}

/// A cache without values. The weight of its objects never exceeds its capacity.
pub trait Policy: Send {
    /// Returns whether the object is there. If it is, this is a use of it.
    fn read(&mut self, visit: Visit) -> bool;

    /// Stores an object that is not there. The policy need not keep it.
    fn insert(&mut self, visit: Visit);

    /// Removes an object, if it is there, and its history.
    fn remove(&mut self, object: u32);

    /// Returns the weight of all objects in it.
    fn used(&self) -> u64;

    /// Returns the number of objects in it.
    fn items(&self) -> u64;

    /// Returns the entries looked at, compared or moved so far to choose victims; `None` where a
    /// policy does not count them.
    fn steps(&self) -> Option<u64> {
        None
    }

    /// Reads an object, and stores it if it is not there. Returns whether it was.
    fn access(&mut self, visit: Visit) -> bool {
        let hit = self.read(visit);
        if !hit {
            self.insert(visit);
        }
        hit
    }
}
