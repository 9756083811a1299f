//! The ring of a thread that waits for other events too, such as a worker for its sockets.
//!
//! ```text
//!   submit_all --> waiting --room?--> ring --+
//!                     ^                      | the kernel reads
//!                     |                      v
//!   answer <----------+-- take_ended <-- descriptor is readable
//! ```
//!
//! The thread hands reads over and goes on with its work; when the ring's descriptor becomes
//! readable, or whenever it passes by, it answers the reads that have ended. So a read wakes no
//! other thread, and its end only this one. The pool of the device stands by for reads of other
//! threads, and for the case that the kernel fails the ring.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::Arc;

use super::queue::Read;
use super::ring::{Make, Ring, make_own};
use super::{Done, descriptor};
use crate::device::Device;

/// Reads of a device by the thread that made this. Dropping it waits for the reads that the kernel
/// has under way, whose `done` is dropped without being called.
#[derive(Debug)]
pub struct ReadRing {
    device: Arc<dyn Device>,
    /// `None` once the kernel has failed it.
    ring: Option<Ring<'static, Source>>,
    /// Reads for which the ring has no room yet. Their number is up to the submitter.
    waiting: VecDeque<Read>,
}

/// A device that has a descriptor.
#[derive(Debug)]
struct Source(Arc<dyn Device>);

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.descriptor().expect("a device keeps the descriptor that it had at first")
    }
}

impl ReadRing {
    /// Fails if the device has no descriptor, or the kernel does not give such a ring. Whether the
    /// kernel reads through one at all is for [`super::ReadPool::new`] to find out first.
    pub fn new(device: Arc<dyn Device>) -> io::Result<Self> {
        Self::start(device, make_own)
    }

    pub(super) fn start(device: Arc<dyn Device>, make: Make) -> io::Result<Self> {
        descriptor(&*device)?;
        let ring = Ring::without_bell(Source(Arc::clone(&device)), make)?.watched(&*device);
        Ok(Self { device, ring: Some(ring), waiting: VecDeque::new() })
    }

    /// Becomes readable when a read has ended. `None` once the kernel has failed the ring: then all
    /// reads have been answered, and later ones are given back.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.ring.as_ref().map(Ring::descriptor)
    }

    /// Has `count` pages read from `page` on for each, and its `done` called with them or with the
    /// error, in most cases by [`ReadRing::answer`]. Returns the reads that another reader has to
    /// do.
    pub fn submit_all(
        &mut self,
        reads: impl IntoIterator<Item = (u64, usize, Done)>,
    ) -> Vec<(u64, usize, Done)> {
        if self.ring.is_none() {
            return reads.into_iter().collect();
        }
        let read = |(page, count, done)| Read { page, count, done };
        self.waiting.extend(reads.into_iter().map(read));
        self.begin();
        Vec::new()
    }

    /// Answers the reads that have ended, and begins those for which there is room then. Finding
    /// out whether any has ended takes no system call.
    pub fn answer(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        ring.look();
        while let Some((done, result)) = ring.take_ended() {
            done(result);
        }
        self.begin();
    }

    /// Whether [`ReadRing::answer`] has to be called again soon, although no event may announce it:
    /// the kernel had no memory for all reads that it was handed.
    pub fn is_behind(&mut self) -> bool {
        self.ring.as_mut().is_some_and(Ring::has_new)
    }

    /// Hands over as many waiting reads as there is room for, and those that have to be continued.
    fn begin(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        while ring.room() > 0
            && let Some(read) = self.waiting.pop_front()
        {
            if let Some((done, result)) = ring.begin(&*self.device, read) {
                done(result);
            }
        }
        if ring.has_new() && ring.hand_over().is_err() {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        let lost = self.ring.take().map_or_else(Vec::new, Ring::abandon);
        let waiting = self.waiting.drain(..).map(|read| read.done);
        for done in lost.into_iter().chain(waiting) {
            done(Err(io::Error::other("io_uring failed")));
        }
    }
}
