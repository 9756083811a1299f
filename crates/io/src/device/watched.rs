//! For how long a device has left an operation unanswered, told to threads that must not ask the
//! device itself: one that is frozen, or whose volume hangs, holds every thread that does.
//!
//! ```text
//!   read, write, note, sync --> a slot gets the second --> the device --> the slot is emptied
//!                                     |
//!   another thread <-- now less the earliest second of all slots
//! ```
//!
//! Each thread begins its search for an empty slot at one of its own, so the two stores hardly ever
//! meet those of another thread. A ring has one slot for all its reads, with the second of the
//! earliest of them ([`super::ReadRing`] and the ring of a pool).

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::{Device, Page};
use crate::clock::Clock;

/// Operations that are watched at a time. Others go unseen, but if the device hangs, so do these.
const SLOTS_MAX: usize = 64;

/// When an operation began, in Unix seconds; 0: none is under way here. Alone in its cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot(AtomicU32);

/// The operations of a device that have begun and not ended.
pub struct Unanswered {
    clock: Arc<dyn Clock>,
    slots: [Slot; SLOTS_MAX],
}

/// A slot that is taken. It has to be given back with [`Unanswered::end`].
#[derive(Debug)]
pub struct Taken(usize);

impl Unanswered {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, slots: std::array::from_fn(|_| Slot::default()) }
    }

    /// The second that [`Unanswered::begin`] takes: never 0, which a clock shows in 1970 only.
    pub fn now_s(&self) -> u32 {
        self.clock.unix_seconds().max(1)
    }

    /// Notes that an operation began in that second. `None` if there is no slot for it.
    pub fn begin(&self, since_s: u32) -> Option<Taken> {
        let home = HOME.with(|home| *home);
        let mut places = (home..SLOTS_MAX).chain(0..home);
        let take = |place: &usize| {
            let slot = &self.slots[*place].0;
            // Relaxed, as all of this: a slot leads to nothing else.
            slot.compare_exchange(0, since_s, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        places.find(take).map(Taken)
    }

    /// Notes that the earliest operation of a slot began in that second.
    pub fn moves(&self, taken: &Taken, since_s: u32) {
        self.slots[taken.0].0.store(since_s, Ordering::Relaxed);
    }

    /// Notes that no operation of a slot is under way any more.
    pub fn end(&self, taken: Taken) {
        self.slots[taken.0].0.store(0, Ordering::Relaxed);
    }

    /// Seconds since the earliest operation began that has not ended; 0 if there is none.
    pub fn age_s(&self) -> u32 {
        let seconds = self.slots.iter().map(|slot| slot.0.load(Ordering::Relaxed));
        let earliest_s = seconds.filter(|second| *second > 0).min();
        earliest_s.map_or(0, |second| self.now_s().saturating_sub(second))
    }

    /// Does an operation, which counts as unanswered until it returns.
    fn of<T>(&self, operation: impl FnOnce() -> T) -> T {
        let taken = self.begin(self.now_s());
        let result = operation();
        if let Some(taken) = taken {
            self.end(taken);
        }
        result
    }
}

impl std::fmt::Debug for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unanswered").field("age_s", &self.age_s()).finish_non_exhaustive()
    }
}

/// The number of threads that have used a slot.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The slot at which the calling thread begins its search.
    static HOME: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SLOTS_MAX;
}

/// A device that is known to answer, or not to.
#[derive(Debug)]
pub struct WatchedDevice {
    device: Arc<dyn Device>,
    unanswered: Arc<Unanswered>,
}

impl WatchedDevice {
    /// Watches `device`, by the seconds of `clock`.
    pub fn new(device: Arc<dyn Device>, clock: Arc<dyn Clock>) -> Self {
        Self { device, unanswered: Arc::new(Unanswered::new(clock)) }
    }
}

impl Device for WatchedDevice {
    fn pages(&self) -> u64 {
        self.device.pages()
    }

    fn read(&self, page: u64, target: &mut [Page]) -> io::Result<()> {
        self.unanswered.of(|| self.device.read(page, target))
    }

    fn write(&self, page: u64, source: &[Page]) -> io::Result<()> {
        self.unanswered.of(|| self.device.write(page, source))
    }

    fn read_note(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
        self.unanswered.of(|| self.device.read_note(at, target))
    }

    fn write_note(&self, at: u64, source: &[u8]) -> io::Result<()> {
        self.unanswered.of(|| self.device.write_note(at, source))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.device.descriptor()
    }

    fn unanswered(&self) -> Option<&Arc<Unanswered>> {
        Some(&self.unanswered)
    }

    fn sync(&self) -> io::Result<()> {
        self.unanswered.of(|| self.device.sync())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use super::*;
    use crate::ManualClock;
    use crate::device::Pages;

    /// A device that says when it was asked, and answers when `frozen` is let go.
    #[derive(Debug)]
    struct Frozen {
        frozen: Mutex<()>,
        asked: Sender<()>,
    }

    impl Frozen {
        fn answer(&self) -> io::Result<()> {
            self.asked.send(()).expect("the test waits for it");
            drop(self.frozen.lock().expect("no test has died"));
            Err(io::ErrorKind::TimedOut.into())
        }
    }

    impl Device for Frozen {
        fn pages(&self) -> u64 {
            9
        }

        fn read(&self, _page: u64, _target: &mut [Page]) -> io::Result<()> {
            self.answer()
        }

        fn write(&self, _page: u64, _source: &[Page]) -> io::Result<()> {
            self.answer()
        }

        fn read_note(&self, _at: u64, _target: &mut [u8]) -> io::Result<()> {
            self.answer()
        }

        fn write_note(&self, _at: u64, _source: &[u8]) -> io::Result<()> {
            self.answer()
        }

        fn sync(&self) -> io::Result<()> {
            self.answer()
        }
    }

    type Operation = fn(&WatchedDevice) -> io::Result<()>;

    const OPERATIONS: [Operation; 5] = [
        |device| device.read(0, Pages::zeroed(1).as_pages_mut()),
        |device| device.write(0, Pages::zeroed(1).as_pages()),
        |device| device.read_note(0, &mut [0]),
        |device| device.write_note(0, &[0]),
        |device| device.sync(),
    ];

    /// Regression: workers that wrote notes to a frozen file system hung, and nothing told so.
    #[test]
    fn a_device_that_does_not_finish_what_it_was_asked_for_is_seen_by_another_thread() {
        for operation in OPERATIONS {
            let (asked, was_asked) = channel();
            let frozen = Arc::new(Frozen { frozen: Mutex::default(), asked });
            let clock = Arc::new(ManualClock::new(1000));
            let device = WatchedDevice::new(frozen.clone(), clock.clone());
            let age_s = || device.unanswered().expect("it is watched").age_s();
            thread::scope(|scope| {
                let held = frozen.frozen.lock().expect("no test has died");
                let first = scope.spawn(|| operation(&device));
                was_asked.recv().expect("it is asked");
                assert_eq!(age_s(), 0);
                clock.advance(7);
                assert_eq!(age_s(), 7);
                let second = scope.spawn(|| device.sync());
                was_asked.recv().expect("it is asked");
                clock.advance(2);
                assert_eq!(age_s(), 9, "the earliest counts");
                drop(held);
                for thread in [first, second] {
                    let result = thread.join().expect("it does not panic");
                    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
                }
            });
            clock.advance(5);
            assert_eq!(age_s(), 0);
        }
    }

    #[test]
    fn operations_beyond_the_slots_go_unseen_and_free_none() {
        let unanswered = Unanswered::new(Arc::new(ManualClock::new(100)));
        let all: Vec<_> = (0..SLOTS_MAX).map(|_| unanswered.begin(90).expect("a slot")).collect();
        assert!(unanswered.begin(1).is_none());
        let mut places: Vec<_> = all.iter().map(|taken| taken.0).collect();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..SLOTS_MAX), "each of its own");
        assert_eq!(unanswered.age_s(), 10);
        for (number, taken) in all.into_iter().enumerate() {
            assert_eq!(unanswered.age_s(), 10, "{number} have ended");
            unanswered.end(taken);
        }
        assert_eq!(unanswered.age_s(), 0);
    }

    #[test]
    fn a_clock_that_was_put_back_makes_nothing_old() {
        let unanswered = Unanswered::new(Arc::new(ManualClock::new(100)));
        let _taken = unanswered.begin(101).expect("a slot");
        assert_eq!(unanswered.age_s(), 0);
    }
}
