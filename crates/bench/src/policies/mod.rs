//! Replacement policies to compare with: small, readable models that keep no values, one a file.
//!
//! ```text
//!   request --Scale--> Visit (object, weight) --> Policy: read, and insert on a miss
//! ```
//!
//! A policy is told of objects by number and of what they weigh; whether a weight is 1 or an item's
//! bytes (`weight`) it does not know. `kind` names the policies, `simulate` runs one over a trace
//! as an application would: a get that misses is followed by a set. `bound` is no policy but what
//! none can pass, and `stack` the misses of LRU at every size at once.
//!
//! These are baselines for judging Larder, so they follow their papers where speed or memory might
//! suggest something else; each file says where it does not.

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
    /// Which request of the trace it is.
    pub position: u32,
    /// The object.
    pub object: u32,
    /// What it weighs: at least 1, and no more than the cache's capacity.
    pub weight: u32,
    /// Microseconds that it takes to make the value again; 0 unknown.
    pub cost_us: u32,
}

/// A cache without values. Whatever was done, what is in it never weighs more than its capacity.
pub trait Policy: Send {
    /// Whether the object is there. If it is, this is a use of it.
    fn read(&mut self, visit: Visit) -> bool;

    /// Stores an object that is not there. It need not stay.
    fn insert(&mut self, visit: Visit);

    /// Takes an object out, if it is there, and forgets its past.
    fn remove(&mut self, object: u32);

    /// What all that is there weighs.
    fn used(&self) -> u64;

    /// How many objects are there.
    fn items(&self) -> u64;

    /// Entries that it has looked at, compared or moved so far, to know who leaves next; nothing
    /// where a policy does not count them.
    fn steps(&self) -> Option<u64> {
        None
    }

    /// Reads, and stores what is not there. Returns whether it was.
    fn access(&mut self, visit: Visit) -> bool {
        let hit = self.read(visit);
        if !hit {
            self.insert(visit);
        }
        hit
    }
}
