//! The state of a client that speaks Redis' protocol, beside its connection.

use std::sync::Arc;

use protocol::resp::{Rest, Scan, Version};

use super::{Found, Listing, Queue};
use crate::connection::Info;
use crate::logins::{Claim, Verdict};
use crate::rights::Rights;

/// The progress of a command of many keys that is executed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Keys, or other words, that are done.
    pub keys: usize,
    /// The number of them that count, or the set that they have asked for, a bit each.
    pub count: i64,
    /// The words behind them, and the number of keys before these, once one is done: passing over
    /// the words from the start after each part of a long answer would pass over half of them all
    /// every time.
    pub behind: Option<(Rest, usize)>,
}

impl Progress {
    /// Whether a part of the command is done, so that its words have been checked.
    pub fn is_begun(&self) -> bool {
        self.behind.is_some()
    }
}

/// The state of a login. Its check may take long ([`crate::logins`]): the command is executed again
/// when the outcome is known.
#[derive(Debug, Default)]
enum Login {
    /// There is none.
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
    /// Its number, unique among all clients.
    pub id: u64,
    /// The protocol version of its answers.
    pub version: Version,
    /// The name it has given itself.
    pub name: Vec<u8>,
    /// The library it uses, and the library's version.
    pub library: [Vec<u8>; 2],
    /// How far the command has been scanned that has not arrived in full.
    pub scan: Scan,
    /// The progress of the command that is executed next, if it was begun.
    pub progress: Progress,
    /// The progress of its SCAN or KEYS that waits for flash, or of its RANDOMKEY that yields to
    /// others.
    pub listing: Option<Listing>,
    /// The keys that its KEYS has found until now.
    pub found: Option<Found>,
    /// Bytes kept for it, as last counted.
    pub kept_bytes: usize,
    /// Its commands since MULTI, if it has said that.
    pub queue: Option<Queue>,
    /// The progress as of the last call of [`Self::is_stuck`].
    done_before: usize,
    /// Its rights.
    pub rights: Rights,
    /// Number of wrong passwords it gave.
    pub failures: u8,
    /// The login by its command, which is executed next.
    login: Login,
    /// Facts about its connection that other threads may read.
    pub info: Arc<Info>,
}

impl Client {
    /// A client that has not sent anything.
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

    /// The outcome of the login, if it was checked; if not it will be, before its command is
    /// executed again.
    pub fn log_in(&mut self, user: &[u8], password: &[u8]) -> Option<bool> {
        if let Login::Checked(is_true) = self.login {
            return Some(is_true);
        }
        self.login = Login::Claimed(Claim::new(user, password));
        None
    }

    /// Ends its command.
    pub fn end_command(&mut self) {
        self.progress = Progress::default();
        self.listing = None;
        self.found = None;
        self.login = Login::None;
    }

    /// The user and the password in its command, if they are yet to be checked.
    pub fn claimed(&mut self) -> Option<Claim> {
        match std::mem::take(&mut self.login) {
            Login::Claimed(claim) => Some(claim),
            other => {
                self.login = other;
                None
            }
        }
    }

    /// Takes the outcome of the check.
    pub fn judge(&mut self, verdict: Verdict) {
        let rights = verdict.rights();
        self.rights = rights.unwrap_or(self.rights);
        self.failures += u8::from(rights.is_none());
        self.login = Login::Checked(rights.is_some());
    }

    /// Spoils the queue: none of its commands since MULTI will be executed.
    pub fn spoil_queue(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.spoil();
        }
    }

    /// The bytes of its unexecuted input, of its queue since MULTI and of the keys that its KEYS
    /// has found, all of which are counted from now on.
    pub fn count_kept_bytes(&mut self, input_bytes: usize) -> usize {
        let queue_bytes = self.queue.as_mut().map_or(0, |queue| queue.kept.count());
        let found_bytes = self.found.as_mut().map_or(0, |found| found.kept.count());
        self.kept_bytes = input_bytes + queue_bytes + found_bytes;
        self.kept_bytes
    }

    /// Whether its command has made no progress since the last call.
    pub fn is_stuck(&mut self) -> bool {
        let done = self.progress.keys + self.queue.as_ref().map_or(0, Queue::bytes_done);
        std::mem::replace(&mut self.done_before, done) == done
    }
}
