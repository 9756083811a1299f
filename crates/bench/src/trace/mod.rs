//! What clients asked for, as every part of this tool sees it: traces that were read from files
//! and workloads that were generated are the same list of requests.
//!
//! ```text
//!   file  --reader-->  Trace  --> replayed in process, sent over the network,
//!   workload --generator-->       simulated (miss-ratio curves), converted to another format
//! ```
//!
//! A trace is held in memory and made before anything is measured, so that neither reading nor
//! generating ever limits a run.
//!
//! `format` tells the formats of files apart, and each has a file of its own: `ids`, `twitter`,
//! `oracle`, `cachebench`, `keys`. They read from a `source`, put together with `build`, and write
//! to an `output`. `sample` makes a trace smaller, `copies` larger, `statistics` says what is in
//! it, `record` captures one from a running server, and `command` is `larder-bench trace`.

mod build;
mod cachebench;
pub mod command;
pub mod copies;
pub mod format;
mod ids;
mod keys;
mod oracle;
mod output;
pub mod record;
mod sample;
pub mod source;
pub mod statistics;
#[cfg(test)]
pub mod testing;
mod twitter;

use serde::Serialize;

pub use build::Builder;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Reads one object; where a miss is filled, it is stored next.
    #[default]
    Get,
    /// Stores an object.
    Set,
    /// Stores an object that must be absent.
    Add,
    /// Stores an object that must be present.
    Replace,
    /// Stores an object if nobody changed it.
    Cas,
    /// Lengthens an object at its end.
    Append,
    /// Lengthens an object at its front.
    Prepend,
    /// Adds to a number.
    Increment,
    /// Subtracts from a number.
    Decrement,
    /// Removes an object.
    Delete,
}

/// One request. Sizes of 0 are unknown where a format does not tell them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request {
    /// Seconds since the first request.
    pub time_s: u32,
    /// Which object: numbered from 0 in the order in which objects first appear.
    pub object: u32,
    /// Bytes of the value, as this request has or finds it.
    pub value_bytes: u32,
    /// Seconds that a stored object stays valid; 0 for ever.
    pub ttl_s: u32,
    /// Microseconds that it takes to make the value again; 0 unknown.
    pub cost_us: u32,
    /// Bytes of the key.
    pub key_bytes: u16,
    /// What is done.
    pub operation: Operation,
}

/// A list of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// What it is called in reports.
    pub name: String,
    /// In order of time.
    pub requests: Vec<Request>,
    /// How many different objects there are: one more than the highest number.
    pub objects: u32,
}
