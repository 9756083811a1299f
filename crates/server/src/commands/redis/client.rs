//! What is known of a client that speaks Redis' protocol, beside its connection.

use std::sync::Arc;

use protocol::resp::{Rest, Scan, Version};

use super::{Found, Listing, Queue};
use crate::connection::Info;
use crate::logins::{Claim, Verdict};
use crate::rights::Rights;

/// How far a command of many keys has come that is executed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Keys, or other words, that are done with.
    pub keys: usize,
    /// How many of them count, or what they have asked for, a bit each.
    pub count: i64,
    /// The words behind them, and how many keys stand before these, once one is done with: who goes
    /// on after each part of a long answer would pass over half of its words in all every time.
    pub behind: Option<(Rest, usize)>,
}

impl Progress {
    /// Whether something of the command is done with, so that its words have been looked at.
    pub fn is_begun(&self) -> bool {
        self.behind.is_some()
    }
}

/// What becomes of what a client says of who it is. To check that may take long
/// ([`crate::logins`]): its command is executed again when it is known.
#[derive(Debug, Default)]
enum Login {
    /// It says nothing.
    #[default]
    None,
    /// A user and a password, to be checked.
    Claimed(Claim),
    /// Whether they were right.
    Checked(bool),
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
    /// How far its SCAN or KEYS has come that waits for flash, or its RANDOMKEY that makes way for
    /// others.
    pub listing: Option<Listing>,
    /// What its KEYS has found until now.
    pub found: Option<Found>,
    /// What is kept for it, as it was last counted.
    pub kept_bytes: usize,
    /// What it has asked for since MULTI, if it has said that.
    pub queue: Option<Queue>,
    /// What was done with when it was last asked whether there is progress.
    done_before: usize,
    /// What it may do.
    pub rights: Rights,
    /// How often it gave a wrong password.
    pub failures: u8,
    /// What its command, which is executed next, says of who it is.
    login: Login,
    /// What others know of its connection.
    pub info: Arc<Info>,
}

impl Client {
    /// A client that has not said anything.
    pub fn new(info: Arc<Info>, rights: Rights) -> Self {
        Self {
            id: 0,
            version: Version::Two,
            name: Vec::new(),
            library: Default::default(),
            scan: Scan::default(),
            progress: Progress::default(),
            listing: None,
            found: None,
            kept_bytes: 0,
            queue: None,
            done_before: 0,
            rights,
            failures: 0,
            login: Login::None,
            info,
        }
    }

    /// Whether this is who it is, if that was checked; if not it will be, before its command is
    /// executed again.
    pub fn log_in(&mut self, user: &[u8], password: &[u8]) -> Option<bool> {
        if let Login::Checked(is_true) = self.login {
            return Some(is_true);
        }
        self.login = Login::Claimed(Claim::new(user, password));
        None
    }

    /// Its command has come to its end.
    pub fn end_command(&mut self) {
        self.progress = Progress::default();
        self.listing = None;
        self.found = None;
        self.login = Login::None;
    }

    /// The user and the password that its command says, if they are yet to be checked.
    pub fn claimed(&mut self) -> Option<Claim> {
        match std::mem::take(&mut self.login) {
            Login::Claimed(claim) => Some(claim),
            other => {
                self.login = other;
                None
            }
        }
    }

    /// Takes what came of that.
    pub fn judge(&mut self, verdict: Verdict) {
        let rights = verdict.rights();
        self.rights = rights.unwrap_or(self.rights);
        self.failures += u8::from(rights.is_none());
        self.login = Login::Checked(rights.is_some());
    }

    /// Nothing of what it has asked for since MULTI will be executed.
    pub fn spoil_queue(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.spoil();
        }
    }

    /// The bytes of its input that has not been executed, of what it has asked for since MULTI and
    /// of what its KEYS has found, all of which are counted from now on.
    pub fn count_kept_bytes(&mut self, input_bytes: usize) -> usize {
        let queue_bytes = self.queue.as_mut().map_or(0, |queue| queue.kept.count());
        let found_bytes = self.found.as_mut().map_or(0, |found| found.kept.count());
        self.kept_bytes = input_bytes + queue_bytes + found_bytes;
        self.kept_bytes
    }

    /// Whether its command has done with nothing further since this was last asked.
    pub fn is_stuck(&mut self) -> bool {
        let done = self.progress.keys + self.queue.as_ref().map_or(0, Queue::bytes_done);
        std::mem::replace(&mut self.done_before, done) == done
    }
}
