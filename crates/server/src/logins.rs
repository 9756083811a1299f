//! Logins, checked by a thread of their own: hashes of passwords are made to take long, and a
//! worker has other clients.
//!
//! ```text
//! worker   a name and a password -> the queue           mailbox -> the reply, and on
//!                                       |                   ^
//! logins                          pause? hash, compare -----+
//! ```
//!
//! A connection waits for its answer as it waits for flash: nothing behind its name is executed
//! before. One thread checks one password at a time, so that hashing takes one core and the memory
//! of one hash, however many clients guess. The queue has a limit: an attempt that finds it full is
//! answered as if during a pause of [`Throttle`].

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use stdx::sync::lock;

use crate::address::Address;
use crate::connection_id::ConnectionId;
use crate::rights::Rights;
use crate::server::Server;
use crate::throttle::Throttle;
use crate::worker::{Delivery, Message};

/// Attempts that wait for their answer: at 30 ms for each hash the last of them waits eight
/// seconds, about as long as clients wait.
const WAITING_MAX: usize = 256;

/// The longest name, and password: text allows as much for both. No name of the file is as long;
/// the password behind a hash may be of any length.
const CLAIM_BYTES_MAX: usize = 4 << 10;

/// An attempt to log in.
pub struct Attempt {
    /// The connection that the answer goes to.
    pub from: ConnectionId,
    /// The address of its client.
    pub address: Address,
    /// The name and the password.
    pub claim: Claim,
}

/// The claim to be a user.
#[derive(Debug, Clone, Default)]
pub struct Claim {
    /// The name.
    name: Box<[u8]>,
    /// The password; `None` if it or the name is too long.
    password: Option<Box<[u8]>>,
}

impl Claim {
    /// Names and passwords that are too long are not kept until they are found wrong.
    pub fn new(name: &[u8], password: &[u8]) -> Self {
        let may_be = name.len().max(password.len()) <= CLAIM_BYTES_MAX;
        let name = if may_be { name.into() } else { Box::default() };
        Self { name, password: may_be.then(|| password.into()) }
    }
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is a user with these rights.
    Right(Rights),
    /// It is not.
    Wrong,
    /// Its address has to wait, so it was not checked.
    Unchecked,
}

impl Verdict {
    /// The rights of the client; `None` if the claim is wrong.
    pub fn rights(self) -> Option<Rights> {
        match self {
            Self::Right(rights) => Some(rights),
            Self::Wrong | Self::Unchecked => None,
        }
    }
}

/// The queue of attempts.
#[derive(Default)]
pub struct Logins {
    queue: Mutex<Queue>,
    /// Signalled when an attempt has come or the queue is closed.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    attempts: VecDeque<Attempt>,
    is_closed: bool,
}

impl Logins {
    /// Has an attempt checked. Its connection gets a verdict in any case, except when the server
    /// ends.
    pub fn submit(&self, server: &Server, attempt: Attempt) {
        if let Err(refused) = self.push(attempt) {
            deliver(server, &refused, Verdict::Unchecked);
        }
    }

    /// Adds an attempt; gives it back where there is no room.
    fn push(&self, attempt: Attempt) -> Result<(), Attempt> {
        let mut queue = lock(&self.queue);
        if queue.attempts.len() >= WAITING_MAX {
            return Err(attempt);
        }
        queue.attempts.push_back(attempt);
        self.changed.notify_one();
        Ok(())
    }

    /// The next attempt; `None` when the server ends.
    fn next(&self) -> Option<Attempt> {
        let queue = lock(&self.queue);
        let is_idle = |queue: &mut Queue| queue.attempts.is_empty() && !queue.is_closed;
        let waited = self.changed.wait_while(queue, is_idle);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        if queue.is_closed { None } else { queue.attempts.pop_front() }
    }

    /// Closes the queue: no attempt is answered from here on.
    pub fn close(&self) {
        lock(&self.queue).is_closed = true;
        self.changed.notify_all();
    }
}

/// The thread's body: checks until the server ends.
pub fn check_all(server: &Server) {
    let mut throttle = Throttle::default();
    while let Some(attempt) = server.logins.next() {
        let verdict = check(server, &mut throttle, &attempt);
        deliver(server, &attempt, verdict);
    }
}

fn check(server: &Server, throttle: &mut Throttle, attempt: &Attempt) -> Verdict {
    if !throttle.is_open(attempt.address, server.started.elapsed()) {
        return Verdict::Unchecked;
    }
    let users = server.users.as_ref();
    let Claim { name, password } = &attempt.claim;
    let rights = users.zip(password.as_deref());
    let rights = rights.and_then(|(users, password)| users.admit(name, password));
    throttle.note(attempt.address, name, rights.is_some(), server.started.elapsed());
    rights.map_or(Verdict::Wrong, Verdict::Right)
}

fn deliver(server: &Server, attempt: &Attempt, verdict: Verdict) {
    let to = attempt.from;
    let message = Message::Login(verdict);
    server.mailboxes[to.worker].deliver(Delivery { to, message });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(slot: usize) -> Attempt {
        let (address, claim) = (Address::Unix, Claim::default());
        Attempt { from: ConnectionId { slot, ..ConnectionId::default() }, address, claim }
    }

    /// Regression: 150 clients that claimed passwords of a megabyte took 90 MiB beside `-m`.
    #[test]
    fn a_name_or_password_that_is_too_long_is_not_kept() {
        let longest = vec![b'x'; CLAIM_BYTES_MAX];
        let claim = Claim::new(&longest, &longest);
        assert_eq!((&*claim.name, claim.password.as_deref()), (&*longest, Some(&*longest)));
        let longer = vec![b'x'; CLAIM_BYTES_MAX + 1];
        for (name, password) in [(&*longer, &b"secret"[..]), (b"user", &longer)] {
            let claim = Claim::new(name, password);
            assert_eq!((&*claim.name, claim.password.as_deref()), (&b""[..], None));
        }
    }

    #[test]
    fn a_full_queue_takes_no_more_and_a_closed_one_gives_none() {
        let logins = Logins::default();
        for slot in 0..WAITING_MAX {
            assert!(logins.push(attempt(slot)).is_ok());
        }
        assert_eq!(logins.push(attempt(999)).map_err(|back| back.from.slot), Err(999));
        assert_eq!(logins.next().map(|first| first.from.slot), Some(0));
        assert!(logins.push(attempt(999)).is_ok());
        logins.close();
        assert!(logins.next().is_none());
    }

    #[test]
    fn a_waiting_thread_gets_an_attempt_or_the_end() {
        let logins = Logins::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| [(); 3].map(|()| logins.next().map(|it| it.from.slot)));
            assert!(logins.push(attempt(1)).is_ok() && logins.push(attempt(2)).is_ok());
            while !lock(&logins.queue).attempts.is_empty() {
                std::thread::yield_now();
            }
            logins.close();
            assert_eq!(waiting.join().expect("it ends"), [Some(1), Some(2), None]);
        });
    }
}
