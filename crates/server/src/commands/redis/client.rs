//! What is known of a client that speaks Redis' protocol, beside its connection.

use std::sync::Arc;

use protocol::resp::{Scan, Version};

use crate::connection::Info;

/// How far a command of many keys has come that is executed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Keys that are done with.
    pub keys: usize,
    /// How many of them count.
    pub count: i64,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its number, which no other has.
    pub id: u64,
    /// The version of the protocol that it is answered in.
    pub version: Version,
    /// How it calls itself.
    pub name: Vec<u8>,
    /// The library it uses, and that one's version.
    pub library: [Vec<u8>; 2],
    /// How far the command has been looked at that has not arrived in full.
    pub scan: Scan,
    /// How far the command has come that is executed next, if it was begun.
    pub progress: Progress,
    /// Keys that were done with when it was last asked whether there is progress.
    keys_before: usize,
    /// What others know of its connection.
    pub info: Arc<Info>,
}

impl Client {
    /// A client that has not said anything.
    pub fn new(info: Arc<Info>) -> Self {
        Self {
            id: 0,
            version: Version::Two,
            name: Vec::new(),
            library: Default::default(),
            scan: Scan::default(),
            progress: Progress::default(),
            keys_before: 0,
            info,
        }
    }

    /// Whether its command has done with no further key since this was last asked.
    pub fn is_stuck(&mut self) -> bool {
        let before = std::mem::replace(&mut self.keys_before, self.progress.keys);
        before == self.progress.keys
    }
}
