//! Threads that read, because a worker never waits for a device.
//!
//! A read is queued in the order of submission, until one of the threads takes it, fills pages of
//! its own and calls what is to happen then. The queue is bounded: whoever finds it full hears so
//! at once and decides what a read that late would be worth. Dropping the pool waits for all reads
//! that were submitted, so each of them is answered exactly once.
//!
//! What is called runs on a thread of the pool and holds up its reads, so it should hand the pages
//! on and return. If it panics, the thread goes on with the next read, and the panic goes on in
//! whoever drops the pool.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use super::{Device, Pages};

/// What happens when a read has ended.
pub type Done = Box<dyn FnOnce(io::Result<Pages>) + Send>;

/// The queue is full; what was to happen is given back, and nothing will be read.
pub struct Busy(pub Done);

impl Debug for Busy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Busy")
    }
}

/// Threads that read from one device.
#[derive(Debug)]
pub struct ReadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    device: Arc<dyn Device>,
    waiting_max: usize,
    state: Mutex<State>,
    /// Signalled when a read was queued or the pool ends.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Read>,
    is_ending: bool,
    /// The first panic of what was called, until the pool is dropped.
    panic: Option<Box<dyn Any + Send>>,
}

struct Read {
    page: u64,
    count: usize,
    done: Done,
}

impl Debug for Read {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { page, count, .. } = self;
        f.debug_struct("Read").field("page", page).field("count", count).finish_non_exhaustive()
    }
}

impl ReadPool {
    /// Starts so many `threads`, for which up to `waiting_max` reads wait. Fails if the system
    /// does not give the threads.
    pub fn new(device: Arc<dyn Device>, threads: usize, waiting_max: usize) -> io::Result<Self> {
        assert!(threads > 0 && waiting_max > 0);
        let (state, changed) = (Mutex::new(State::default()), Condvar::new());
        let shared = Arc::new(Shared { device, waiting_max, state, changed });
        // If a thread cannot be started, dropping the pool ends those that were.
        let mut pool = Self { shared, threads: Vec::with_capacity(threads) };
        for number in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let named = thread::Builder::new().name(format!("read-{number}"));
            pool.threads.push(named.spawn(move || shared.serve())?);
        }
        Ok(pool)
    }

    /// Has `count` pages read from `page` on, and `done` called with them or with the error.
    pub fn submit(&self, page: u64, count: usize, done: Done) -> Result<(), Busy> {
        let mut state = self.shared.state();
        if state.waiting.len() >= self.shared.waiting_max {
            return Err(Busy(done));
        }
        state.waiting.push_back(Read { page, count, done });
        drop(state);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// How many reads wait: those that no thread has taken yet.
    pub fn waiting(&self) -> usize {
        self.shared.state().waiting.len()
    }
}

impl Drop for ReadPool {
    fn drop(&mut self) {
        self.shared.state().is_ending = true;
        self.shared.changed.notify_all();
        let this = thread::current().id();
        // What is called may hold the last reference to the pool. Its own thread cannot be waited
        // for; it ends by itself once nothing waits.
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != this) {
            let joined = thread.join();
            debug_assert!(joined.is_ok(), "panics are caught");
        }
        let panic = self.shared.state().panic.take();
        if let Some(panic) = panic
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the queue")
    }

    /// Reads until the pool ends and nothing waits.
    fn serve(&self) {
        while let Some(read) = self.next() {
            let answered = catch_unwind(AssertUnwindSafe(|| self.answer(read)));
            if let Err(panic) = answered {
                self.state().panic.get_or_insert(panic);
            }
        }
    }

    fn next(&self) -> Option<Read> {
        let is_idle = |state: &mut State| state.waiting.is_empty() && !state.is_ending;
        let mut state = self
            .changed
            .wait_while(self.state(), is_idle)
            .expect("nothing panics while it holds the queue");
        state.waiting.pop_front()
    }

    fn answer(&self, read: Read) {
        let mut pages = Pages::zeroed(read.count);
        let result = self.device.read(read.page, pages.as_pages_mut());
        (read.done)(result.map(|()| pages));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::device::{FakeDevice, Faults, Page};

    /// A device whose reads wait for permission. Page n begins with the byte n.
    #[derive(Debug)]
    struct Gate {
        device: FakeDevice,
        state: Mutex<GateState>,
        changed: Condvar,
    }

    #[derive(Debug, Default)]
    struct GateState {
        /// How many reads came so far.
        reads: usize,
        is_open: bool,
    }

    impl Gate {
        fn new() -> Arc<Self> {
            let device = FakeDevice::new(64, 1, Faults::default());
            for page in 0..64_u8 {
                device.flip(u64::from(page), 0, page);
            }
            let (state, changed) = (Mutex::default(), Condvar::new());
            Arc::new(Self { device, state, changed })
        }

        fn open(&self) {
            self.state.lock().unwrap().is_open = true;
            self.changed.notify_all();
        }

        /// Waits until so many reads have come.
        fn wait(&self, reads: usize) {
            let state = self.state.lock().unwrap();
            drop(self.changed.wait_while(state, |state| state.reads < reads).unwrap());
        }
    }

    impl Device for Gate {
        fn pages(&self) -> u64 {
            self.device.pages()
        }

        fn read(&self, page: u64, target: &mut [Page]) -> io::Result<()> {
            let mut state = self.state.lock().unwrap();
            state.reads += 1;
            self.changed.notify_all();
            drop(self.changed.wait_while(state, |state| !state.is_open).unwrap());
            self.device.read(page, target)
        }

        fn write(&self, page: u64, source: &[Page]) -> io::Result<()> {
            self.device.write(page, source)
        }

        fn read_note(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
            self.device.read_note(at, target)
        }

        fn write_note(&self, at: u64, source: &[u8]) -> io::Result<()> {
            self.device.write_note(at, source)
        }

        fn sync(&self) -> io::Result<()> {
            self.device.sync()
        }
    }

    fn pool(gate: &Arc<Gate>, threads: usize, waiting_max: usize) -> ReadPool {
        let device: Arc<dyn Device> = Arc::<Gate>::clone(gate);
        ReadPool::new(device, threads, waiting_max).unwrap()
    }

    /// A call that sends the first byte of each page on, or nothing after an error.
    fn sending() -> (Done, Receiver<Vec<u8>>) {
        let (sender, receiver) = channel();
        let done = move |result: io::Result<Pages>| {
            let pages = result.unwrap_or_default();
            sender.send(pages.as_pages().iter().map(|page| page.0[0]).collect()).unwrap();
        };
        (Box::new(done), receiver)
    }

    fn submit(pool: &ReadPool, page: u64) -> Receiver<Vec<u8>> {
        let (done, receiver) = sending();
        pool.submit(page, 2, done).unwrap();
        receiver
    }

    #[test]
    fn more_reads_than_threads_are_served() {
        let gate = Gate::new();
        let pool = pool(&gate, 2, 40);
        let answers: Vec<_> = (0..40).map(|page| submit(&pool, page)).collect();
        gate.wait(2);
        assert_eq!(pool.waiting(), 38);
        gate.open();
        for (page, answer) in (0..).zip(answers) {
            assert_eq!(answer.recv().unwrap(), [page, page + 1]);
        }
        assert_eq!(pool.waiting(), 0);
    }

    #[test]
    fn a_full_queue_refuses_and_gives_the_call_back() {
        let gate = Gate::new();
        let pool = pool(&gate, 2, 3);
        let mut answers: Vec<_> = (0..2).map(|page| submit(&pool, page)).collect();
        gate.wait(2);
        answers.extend((2..5).map(|page| submit(&pool, page)));
        let (done, answer) = sending();
        let Err(Busy(done)) = pool.submit(5, 1, done) else { panic!("it was taken") };
        assert_eq!(pool.waiting(), 3);
        gate.open();
        for (page, answer) in (0..).zip(answers) {
            assert_eq!(answer.recv().unwrap(), [page, page + 1]);
        }
        done(Err(io::ErrorKind::WouldBlock.into()));
        assert!(answer.recv().unwrap().is_empty());
    }

    #[test]
    fn what_waits_is_finished_when_the_pool_is_dropped() {
        let gate = Gate::new();
        let pool = pool(&gate, 1, 10);
        let answers: Vec<_> = (0..10).map(|page| submit(&pool, page)).collect();
        gate.wait(1);
        let dropping = thread::spawn(move || drop(pool));
        gate.open();
        dropping.join().unwrap();
        for (page, answer) in (0..).zip(answers) {
            assert_eq!(answer.try_recv().unwrap(), [page, page + 1]);
        }
    }

    #[test]
    fn an_error_is_handed_on() {
        let gate = Gate::new();
        gate.open();
        let pool = pool(&gate, 1, 10);
        assert!(submit(&pool, 63).recv().unwrap().is_empty());
    }

    #[test]
    fn a_call_that_panics_costs_no_thread_and_is_heard_of_at_the_end() {
        let gate = Gate::new();
        gate.open();
        let pool = pool(&gate, 1, 10);
        pool.submit(0, 1, Box::new(|_| panic!("on purpose"))).unwrap();
        assert_eq!(submit(&pool, 7).recv().unwrap(), [7, 8]);
        let panic = catch_unwind(AssertUnwindSafe(|| drop(pool))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    }

    #[test]
    fn a_call_may_hold_the_last_reference_to_the_pool() {
        let gate = Gate::new();
        let pool = Arc::new(pool(&gate, 2, 10));
        let (sender, receiver) = channel();
        let held = Arc::clone(&pool);
        let last = Box::new(move |_| {
            drop(held);
            sender.send(()).unwrap();
        });
        pool.submit(0, 1, last).unwrap();
        let answer = submit(&pool, 7);
        drop(pool);
        gate.open();
        receiver.recv().unwrap();
        assert_eq!(answer.recv().unwrap(), [7, 8]);
    }
}
