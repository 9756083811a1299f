//! A thread that reads by itself: one read after the other, waiting for each.

use super::queue::{Queue, Read};
use crate::device::{Device, Pages};

/// Reads until the pool ends and nothing waits.
pub fn serve(queue: &Queue, device: &dyn Device) {
    while let Some(Read { page, count, done }) = queue.wait() {
        let mut pages = Pages::zeroed(count);
        let result = device.read(page, pages.as_pages_mut());
        queue.answer(done, result.map(|()| pages));
    }
}
