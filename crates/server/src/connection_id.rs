//! The name of a connection, for other threads than its worker.

/// A connection: the worker that serves it, its slot in that worker's table, and a serial number
/// that tells it from earlier connections in the same slot.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionId {
    /// The number of its worker.
    pub worker: usize,
    /// Its slot in the worker's table of connections.
    pub slot: usize,
    /// The number of the worker's connections when it came, itself included.
    pub serial: u64,
}
