//! A sample of the keys, and what it tells of a cache: how many requests would miss at any other
//! size ([`Watcher::curve`]), why those that miss do ([`Watcher::reasons`]), and which keys are
//! requested most ([`Top`]). Nothing here knows clocks, threads or the cache: events and their
//! times come as arguments.
//!
//! ```text
//! event of a sampled key --> known: the keys, in the order of their last use
//!                              |-- how much was used since: curve
//!                              `-- what happened to the key last: reasons
//! ```
//!
//! Keys are sampled by their hash (SHARDS: Waldspurger, Park, Garthwaite and Ahmad, FAST 2015): a
//! key whose [`position`] lies below a threshold is sampled, with all of its requests. So the
//! knowledge of these keys is complete, and it is scaled up by the share of the positions below the
//! threshold. The number of known keys is bounded: when there is no room for another, the threshold
//! falls.
//!
//! The rooms, in reading order: `watcher` (the whole), `known` and `order` (the keys), `curve` and
//! `reasons` (what they tell), and `top`.

#![forbid(unsafe_code)]

mod curve;
mod known;
mod order;
mod reasons;
mod top;
mod watcher;

pub use curve::{Curve, Point};
pub use known::KEY_BYTES;
pub use reasons::{AGE_BOUNDS_S, Reason, Reasons};
pub use top::{Entry, Top};
pub use watcher::{After, DEPTH, Event, HALF_LIFE_S, KEYS_MAX, MEMORY_SHARE, RATE_MAX, Watcher};

/// The position of a key with this hash; positions are spread evenly. Not the hash itself: tiers of
/// a cache go by its ends, and neighbours there are treated alike.
#[inline]
pub fn position(hash: u64) -> u64 {
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
