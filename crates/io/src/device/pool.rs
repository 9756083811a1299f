//! Reads in the background, because a worker never waits for a device.
//!
//! Reads are queued in the order of submission. A read fills pages of its own and then calls its
//! `done`. The queue is bounded: a submitter that finds it full is told at once and decides what a
//! read that late would be worth. Dropping the pool waits for all submitted reads, so each of them
//! is answered exactly once.
//!
//! There are two ways to read ([`ReadMethod`]):
//!
//! - `uring`: one thread hands the reads over to the kernel through a `ring`, many with one system
//!   call, and answers them as they end. It needs a device with a descriptor, and a kernel that
//!   allows it: containers often do not.
//! - `threads`: several threads that each read and wait.
//!
//! Both share the `queue`, and with it the promises above. Beside the pool, a thread that waits for
//! other things as well may have a ring of its `own`. A `done` runs on a thread of the pool and
//! holds up its reads, so it should hand the pages on and return. If it panics, the thread goes on
//! with the next read, and the panic is resumed in the thread that drops the pool.

mod own;
mod queue;
mod ring;
#[cfg(test)]
mod tests;
mod threads;
mod uring;

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

pub use own::ReadRing;
use queue::{Bell, Queue, Read};
use ring::{Make, Ring};

use super::{Device, Pages, range};
use crate::thread::ask_for_short_turns;

/// Called when a read has ended.
pub type Done = Box<dyn FnOnce(io::Result<Pages>) + Send>;

/// The queue is full; `done` is given back, and nothing will be read.
pub struct Busy(pub Done);

impl Debug for Busy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Busy")
    }
}

/// How a pool reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMethod {
    /// One thread, and the kernel's ring.
    IoUring,
    /// Threads that wait.
    Threads,
}

impl ReadMethod {
    /// All methods.
    pub const ALL: [Self; 2] = [Self::IoUring, Self::Threads];

    /// Its name, as an option's value and a statistic.
    pub fn name(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Threads => "threads",
        }
    }
}

/// Reads from one device in the background.
#[derive(Debug)]
pub struct ReadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    method: ReadMethod,
}

#[derive(Debug)]
struct Shared {
    device: Arc<dyn Device>,
    queue: Queue,
}

impl ReadPool {
    /// Starts a pool that reads by `method`, or by default by io_uring where device and kernel
    /// allow it and by this many `threads` where not. Up to `waiting_max` reads wait until they are
    /// begun. Fails if the system does not give the threads, or not the ring that `method` asks
    /// for.
    ///
    /// A process must not fork afterwards.
    pub fn new(
        device: Arc<dyn Device>,
        method: Option<ReadMethod>,
        threads: usize,
        waiting_max: usize,
    ) -> io::Result<Self> {
        Self::start(device, method, threads, waiting_max, ring::make)
    }

    /// Tries whether reads by io_uring would start, with a ring that is closed at once: the error
    /// is the one that [`ReadPool::new`] would return. Leaves nothing behind, so the process may
    /// fork.
    pub fn try_io_uring(device: &dyn Device) -> io::Result<()> {
        let (source, bell) = (descriptor(device)?, Bell::new()?);
        // In a thread of its own: when the kernel clears a ring away, a moment later, it interrupts
        // the call in which the ring's thread waits, and not every call continues by itself.
        thread::scope(|scope| {
            let named = thread::Builder::new().name("try-ring".to_owned());
            let tried = named
                .spawn_scoped(scope, || Ring::new(source, &bell, ring::make).map(drop))?
                .join();
            tried.expect("making a ring does not panic")
        })
    }

    fn start(
        device: Arc<dyn Device>,
        method: Option<ReadMethod>,
        threads: usize,
        waiting_max: usize,
        make: Make,
    ) -> io::Result<Self> {
        assert!(threads > 0 && waiting_max > 0);
        if method != Some(ReadMethod::Threads) {
            let by_ring = Self::by_ring(Arc::clone(&device), waiting_max, make);
            if by_ring.is_ok() || method.is_some() {
                return by_ring;
            }
        }
        Self::by_threads(device, threads, waiting_max)
    }

    fn by_ring(device: Arc<dyn Device>, waiting_max: usize, make: Make) -> io::Result<Self> {
        let queue = Queue::new(waiting_max, Some(Bell::new()?));
        let shared = Arc::new(Shared { device, queue });
        // The ring belongs to the thread that makes it, so a refusal shows there.
        let (sender, receiver) = sync_channel(1);
        let served = Arc::clone(&shared);
        let serve = move || {
            // It sleeps most of the time, and threads that wait for it may keep its core busy.
            let _ = ask_for_short_turns();
            let Shared { device, queue } = &*served;
            let bell = queue.bell().expect("it was made with one");
            match descriptor(&**device).and_then(|source| Ring::new(source, bell, make)) {
                Ok(ring) => {
                    // The thread that started this one waits for the message.
                    let _ = sender.send(Ok(()));
                    uring::serve(queue, &**device, ring.watched(&**device));
                }
                Err(error) => _ = sender.send(Err(error)),
            }
        };
        let thread = thread::Builder::new().name("read-ring".to_owned()).spawn(serve)?;
        let started = receiver.recv().expect("the thread sends before it ends");
        let pool = Self { shared, threads: vec![thread], method: ReadMethod::IoUring };
        started.map(|()| pool)
    }

    fn by_threads(device: Arc<dyn Device>, threads: usize, waiting_max: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared { device, queue: Queue::new(waiting_max, None) });
        // If a thread cannot be started, dropping the pool ends those that were started.
        let mut pool =
            Self { shared, threads: Vec::with_capacity(threads), method: ReadMethod::Threads };
        for number in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let named = thread::Builder::new().name(format!("read-{number}"));
            let serve = move || {
                let _ = ask_for_short_turns();
                threads::serve(&shared.queue, &*shared.device);
            };
            pool.threads.push(named.spawn(serve)?);
        }
        Ok(pool)
    }

    /// How it reads.
    pub fn method(&self) -> ReadMethod {
        self.method
    }

    /// Has `count` pages read from `page` on, and `done` called with them or with the error.
    pub fn submit(&self, page: u64, count: usize, done: Done) -> Result<(), Busy> {
        self.shared.queue.push(Read { page, count, done })
    }

    /// Submits several reads at once, with a single wake-up. Returns the `done` of the last ones,
    /// for which the queue has no room.
    pub fn submit_all(&self, reads: impl IntoIterator<Item = (u64, usize, Done)>) -> Vec<Done> {
        let read = |(page, count, done)| Read { page, count, done };
        let refused = self.shared.queue.push_all(reads.into_iter().map(read).collect());
        refused.into_iter().map(|read| read.done).collect()
    }

    /// The number of waiting reads: those that were not begun yet.
    pub fn waiting(&self) -> usize {
        self.shared.queue.waiting()
    }
}

/// The descriptor that a ring reads from.
fn descriptor(device: &dyn Device) -> io::Result<std::os::fd::BorrowedFd<'_>> {
    let missing = || io::Error::new(io::ErrorKind::Unsupported, "the device has no descriptor");
    device.descriptor().ok_or_else(missing)
}

impl Drop for ReadPool {
    fn drop(&mut self) {
        self.shared.queue.end();
        let this = thread::current().id();
        // A `done` may hold the last reference to the pool. Its own thread cannot be waited for; it
        // ends by itself once nothing waits.
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != this) {
            let joined = thread.join();
            debug_assert!(joined.is_ok(), "panics are caught");
        }
        let panic = self.shared.queue.take_panic();
        if let Some(panic) = panic
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}
