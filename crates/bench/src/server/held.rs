//! A server's contents after some work: its own count of items beside the kernel's count of
//! resident memory, which leaves nothing out.

use super::recipe::Kind;
use super::{Server, query, usage};
use crate::failure::Outcome;

/// Items and memory of a server.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// Items and evictions; `None` for a server that does not report them.
    pub counts: Option<query::Counts>,
    /// Resident memory.
    pub resident_bytes: u64,
}

impl Held {
    /// Asks the server and the kernel.
    pub fn of(server: &Server) -> Outcome<Held> {
        let counts = match server.kind {
            Kind::Null => None,
            // A peer's command need not report its counts.
            Kind::Peer => query::counts(server.address, server.dialect).ok(),
            _ => Some(query::counts(server.address, server.dialect)?),
        };
        Ok(Held { counts, resident_bytes: usage::resident(server.pid())?.bytes })
    }

    /// Returns resident bytes per item.
    pub fn item_bytes(&self) -> Option<f64> {
        let items = self.counts.filter(|counts| counts.items > 0)?.items;
        Some(self.resident_bytes as f64 / items as f64)
    }
}
