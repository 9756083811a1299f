//! The waiting reads: a bounded queue behind a mutex, and how its server sleeps and is woken.
//!
//! Threads of a pool sleep on a condition variable. The thread of a ring has to learn of new reads
//! and of ended ones at once, so it sleeps in the kernel, and a [`Bell`] wakes it there: an eventfd
//! that the ring reads. Ringing is a system call, so it is rung only for a thread that has said,
//! under the mutex and after it found nothing, that it goes to sleep; and only once, since the
//! ringing thread resets that. No ring is lost: the eventfd keeps the number that was written
//! before the thread has fallen asleep.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard};

use rustix::event::{EventfdFlags, eventfd};

use super::{Busy, Done};
use crate::device::Pages;

/// A read that waits.
pub struct Read {
    /// The first page.
    pub page: u64,
    /// The number of pages.
    pub count: usize,
    /// Called when it has ended.
    pub done: Done,
}

/// Wakes a thread that sleeps in the kernel.
#[derive(Debug)]
pub struct Bell(OwnedFd);

/// The queue, and the state of the threads that sleep beside it.
#[derive(Debug)]
pub struct Queue {
    waiting_max: usize,
    /// For the thread of a ring.
    bell: Option<Bell>,
    state: Mutex<State>,
    /// For threads that read themselves: signalled when a read was queued or the pool ends.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Read>,
    is_ending: bool,
    /// Whether threads that read themselves are to be told of reads.
    has_threads: bool,
    /// Whether the thread of a ring is to be woken by the bell.
    is_asleep: bool,
    /// The first panic of a `done`, until the pool is dropped.
    panic: Option<Box<dyn Any + Send>>,
}

/// The result of a look by the thread of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Reads, or nothing yet: the pool goes on.
    Goes,
    /// Nothing, and no read will come.
    Ends,
}

impl Debug for Read {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { page, count, .. } = self;
        f.debug_struct("Read").field("page", page).field("count", count).finish_non_exhaustive()
    }
}

impl Bell {
    /// Fails if the system gives no descriptor.
    pub fn new() -> io::Result<Self> {
        // A write blocks only when the sum of all is about to overflow, after 2^64 of them.
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC)?))
    }

    /// Wakes the thread that waits for the descriptor, now or when it next waits.
    pub fn ring(&self) {
        while let Err(error) = rustix::io::write(&self.0, &1_u64.to_ne_bytes()) {
            assert_eq!(error, rustix::io::Errno::INTR, "an eventfd takes a number");
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Queue {
    /// Makes a queue in which up to `waiting_max` reads wait. With a bell, it is for the thread of
    /// a ring.
    pub fn new(waiting_max: usize, bell: Option<Bell>) -> Self {
        let state = State { has_threads: bell.is_none(), ..State::default() };
        Self { waiting_max, bell, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The bell, if there is one.
    pub fn bell(&self) -> Option<&Bell> {
        self.bell.as_ref()
    }

    /// The number of waiting reads.
    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// Appends a read, and wakes its reader.
    pub fn push(&self, read: Read) -> Result<(), Busy> {
        self.push_all(vec![read]).pop().map_or(Ok(()), |read| Err(Busy(read.done)))
    }

    /// Appends reads, as many as there is room for, and wakes their readers once for all of them.
    /// Returns the others.
    pub fn push_all(&self, reads: Vec<Read>) -> Vec<Read> {
        let mut reads = reads.into_iter();
        let (pushed, is_asleep, has_threads) = {
            let mut state = self.state();
            let waiting = state.waiting.len();
            let room = self.waiting_max - waiting;
            state.waiting.extend(reads.by_ref().take(room));
            let pushed = state.waiting.len() - waiting;
            let is_asleep = pushed > 0 && mem::take(&mut state.is_asleep);
            (pushed, is_asleep, state.has_threads)
        };
        if has_threads {
            (0..pushed).for_each(|_| self.changed.notify_one());
        }
        if is_asleep && let Some(bell) = &self.bell {
            bell.ring();
        }
        reads.collect()
    }

    /// Says that no more reads will come.
    pub fn end(&self) {
        self.state().is_ending = true;
        self.changed.notify_all();
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Waits for the first read; `None` when the pool has ended and none waits.
    pub fn wait(&self) -> Option<Read> {
        let is_idle = |state: &mut State| state.waiting.is_empty() && !state.is_ending;
        let state = self.changed.wait_while(self.state(), is_idle);
        state.expect("nothing panics while it holds the queue").waiting.pop_front()
    }

    /// Moves the first reads to `target`, up to `count`. If there are fewer, the caller is about to
    /// sleep where the bell wakes it.
    pub fn take(&self, count: usize, target: &mut Vec<Read>) -> Next {
        let mut state = self.state();
        let taken = count.min(state.waiting.len());
        target.extend(state.waiting.drain(..taken));
        state.is_asleep = taken < count;
        if state.is_ending && taken == 0 && state.waiting.is_empty() {
            Next::Ends
        } else {
            Next::Goes
        }
    }

    /// Says that the caller is awake: it will look again before it sleeps.
    pub fn wake(&self) {
        self.state().is_asleep = false;
    }

    /// From now on threads that read themselves are told of reads.
    pub fn pass_to_threads(&self) {
        let mut state = self.state();
        (state.has_threads, state.is_asleep) = (true, false);
    }

    /// Calls `done`. Keeps its panic for the thread that drops the pool.
    pub fn answer(&self, done: Done, result: io::Result<Pages>) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| done(result))) {
            self.state().panic.get_or_insert(panic);
        }
    }

    /// The first panic of a `done`.
    pub fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.state().panic.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the queue")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(page: u64) -> Read {
        Read { page, count: 1, done: Box::new(|_| ()) }
    }

    /// The number of rings since the bell was last read: blocks if there are none.
    fn rung(queue: &Queue) -> u64 {
        let mut sum = [0; 8];
        rustix::io::read(queue.bell().unwrap(), &mut sum).unwrap();
        u64::from_ne_bytes(sum)
    }

    fn pages(reads: &[Read]) -> Vec<u64> {
        reads.iter().map(|read| read.page).collect()
    }

    #[test]
    fn reads_are_taken_in_the_order_of_their_submission() {
        let queue = Queue::new(4, None);
        for page in [5, 2, 9, 1] {
            queue.push(read(page)).unwrap();
        }
        queue.push(read(7)).unwrap_err();
        let mut taken = Vec::new();
        assert_eq!(queue.take(3, &mut taken), Next::Goes);
        assert_eq!((pages(&taken), queue.waiting()), (vec![5, 2, 9], 1));
        assert_eq!(queue.wait().unwrap().page, 1);
        queue.push(read(7)).unwrap();
    }

    #[test]
    fn reads_that_come_together_fill_the_queue_and_the_others_are_given_back() {
        let queue = Queue::new(3, Some(Bell::new().unwrap()));
        let mut taken = Vec::new();
        queue.take(9, &mut taken);
        assert_eq!(pages(&queue.push_all(vec![])), []);
        assert_eq!(pages(&queue.push_all((0..5).map(read).collect())), [3, 4]);
        assert_eq!(rung(&queue), 1);
        assert_eq!(pages(&queue.push_all(vec![read(5)])), [5]);
        queue.take(9, &mut taken);
        assert_eq!(pages(&taken), [0, 1, 2]);
    }

    #[test]
    fn reads_submitted_before_the_end_are_taken_before_the_end_is_told() {
        let queue = Queue::new(4, None);
        let mut taken = Vec::new();
        assert_eq!(queue.take(1, &mut taken), Next::Goes);
        queue.push(read(1)).unwrap();
        queue.push(read(2)).unwrap();
        queue.end();
        assert_eq!(queue.take(1, &mut taken), Next::Goes);
        assert_eq!(queue.take(1, &mut taken), Next::Goes);
        assert_eq!(queue.take(1, &mut taken), Next::Ends);
        assert_eq!(pages(&taken), [1, 2]);
        assert!(queue.wait().is_none());
    }

    #[test]
    fn the_bell_rings_once_for_a_sleeping_thread_and_not_for_one_awake() {
        let queue = Queue::new(9, Some(Bell::new().unwrap()));
        let mut taken = Vec::new();
        queue.push(read(0)).unwrap();
        // It has no more room: a read that comes now does not concern it.
        queue.take(1, &mut taken);
        queue.push(read(1)).unwrap();
        // It slept, but woke for another reason.
        queue.take(9, &mut taken);
        queue.wake();
        queue.push(read(2)).unwrap();
        // It sleeps, and two reads come.
        queue.take(9, &mut taken);
        queue.push(read(3)).unwrap();
        queue.push(read(4)).unwrap();
        assert_eq!(rung(&queue), 1);
        queue.end();
        assert_eq!(rung(&queue), 1);
        assert_eq!(pages(&taken), [0, 1, 2]);
    }
}
