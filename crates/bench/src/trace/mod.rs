//! Clients' requests, in one form for every part of this tool: traces read from files and generated
//! workloads are the same list of requests.
//!
//! ```text
//!   file  --reader-->  Trace  --> replayed in process, sent over the network,
//!   workload --generator-->       simulated (miss-ratio curves), converted to another format
//! ```
//!
//! A trace is held in memory and made before anything is measured, so that neither reading nor
//! generating ever limits a run.
//!
//! `format` distinguishes the file formats, each of which has a file of its own: `ids`, `twitter`,
//! `oracle`, `cachebench`, `keys`. They read from a `source`, put together with `build`, and write
//! to an `output`. `sample` makes a trace smaller, `copies` larger; `statistics` describes it;
//! `record` captures one from a running server; and `command` is `larder-bench trace`.

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

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Reads one object; where misses are filled, a miss is followed by a store.
    #[default]
    Get,
    /// Stores an object.
    Set,
    /// Stores an object that must be absent.
    Add,
    /// Stores an object that must be present.
    Replace,
    /// Stores an object if it is unchanged.
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

/// One request. Sizes are 0 where a format does not give them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request {
    /// Seconds since the first request.
    pub time_s: u32,
    /// The object: numbered from 0 in order of first appearance.
    pub object: u32,
    /// Bytes of the value that this request stores or finds.
    pub value_bytes: u32,
    /// Seconds that a stored object stays valid; 0: for ever.
    pub ttl_s: u32,
    /// Microseconds to make the value again; 0: unknown.
    pub cost_us: u32,
    /// Bytes of the key.
    pub key_bytes: u16,
    /// The operation.
    pub operation: Operation,
}

/// A list of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Its name in reports.
    pub name: String,
    /// In order of time.
    pub requests: Vec<Request>,
    /// The number of different objects: one more than the highest number.
    pub objects: u32,
}
