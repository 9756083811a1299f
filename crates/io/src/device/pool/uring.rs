//! The thread of a ring: it hands reads over to the kernel, many at a time, and answers those that
//! have ended.
//!
//! ```text
//!   queue --take--> ring, pages --+
//!     ^                           | one system call: hands over, and waits
//!     +--bell, if it sleeps       v
//!   submitter         answers <-- ended
//! ```
//!
//! If the kernel fails the ring itself, its reads are answered with an error, and from then on the
//! thread reads by itself: slower, but every caller is answered.

use std::io;
use std::os::fd::AsFd;

use super::queue::{Next, Queue};
use super::ring::Ring;
use super::threads;
use crate::device::Device;

/// Reads until the pool ends, nothing waits and nothing is under way.
pub fn serve(queue: &Queue, device: &dyn Device, mut ring: Ring<'_, impl AsFd>) {
    let mut batch = Vec::new();
    loop {
        while let Some((done, result)) = ring.take_ended() {
            queue.answer(done, result);
        }
        let room = ring.room();
        let next = queue.take(room, &mut batch);
        if next == Next::Ends && ring.is_idle() {
            return;
        }
        let may_be_more = batch.len() == room;
        for read in batch.drain(..) {
            if let Some((done, result)) = ring.begin(device, read) {
                queue.answer(done, result);
            }
        }
        // There was nothing to do for any of these, and a thread that did not take all is not woken
        // for the rest.
        if may_be_more && ring.is_idle() {
            continue;
        }
        let waited = ring.wait();
        queue.wake();
        if let Err(error) = waited {
            for done in ring.abandon() {
                queue.answer(done, Err(io::Error::new(error.kind(), "io_uring failed")));
            }
            queue.pass_to_threads();
            return threads::serve(queue, device);
        }
    }
}
