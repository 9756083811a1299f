//! The engine's background, where it is a thread as in the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use larder::Cache;

/// How long the background waits for work, as in the server.
const MAINTAIN_PAUSE: Duration = Duration::from_millis(100);

/// Ends the background's thread when it goes out of scope.
struct End<'e> {
    is_over: &'e AtomicBool,
    cache: &'e Cache,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.cache.call_for_work();
    }
}

/// Does some work while a thread maintains the cache. `around` runs on that thread, and calls its
/// argument, which returns when the work is done; its result is returned with the work's.
pub fn beside<R, B: Send>(
    cache: &Cache,
    around: impl FnOnce(&dyn Fn()) -> B + Send,
    work: impl FnOnce() -> R,
) -> (R, B) {
    let is_over = AtomicBool::new(false);
    let maintain = || {
        // As in the server, too. If the kernel refuses, the background only runs late.
        let _ = io::thread::ask_for_short_turns();
        while !is_over.load(Ordering::Relaxed) {
            if !cache.maintain() {
                cache.wait_for_work(MAINTAIN_PAUSE);
            }
        }
    };
    thread::scope(|scope| {
        // Also when the work panics: otherwise the scope would wait for the thread for ever.
        let end = End { is_over: &is_over, cache };
        let background = scope.spawn(|| around(&maintain));
        let done = work();
        drop(end);
        (done, background.join().expect("the background does not panic"))
    })
}

#[cfg(test)]
mod tests {
    use super::beside;
    use larder::Cache;

    #[test]
    fn a_background_ends_with_its_work_and_when_that_panics() {
        let cache = Cache::builder().memory_bytes(10 << 20).build().expect("it is enough");
        assert_eq!(beside(&cache, |maintain| maintain(), || 7), (7, ()));
        let panics = || beside(&cache, |maintain| maintain(), || panic!("as it has to"));
        let panics = std::panic::AssertUnwindSafe(panics);
        assert!(std::panic::catch_unwind(panics).is_err());
    }
}
