//! The kernel's io_uring, as far as reads of one file need it.
//!
//! Two rings of entries lie in memory shared with the kernel: submissions and completions. One
//! system call hands over everything new and waits until something has ended. Beside the reads, the
//! ring of a pool always has a read of a [`Bell`] under way, so that the same wait ends when
//! another thread rings it.
//!
//! The kernel may write to a read's pages from the moment when the read is pushed until its end was
//! seen. All that while they lie in `flights`, and a ring that is dropped waits for them. If the
//! kernel does not even tell of the end, they are given up, and never freed.

use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};

use super::queue::{Bell, Read};
use super::{Done, range};
use crate::device::watched::Taken;
use crate::device::{Device, Pages, Unanswered};

/// The most reads under way. More than a drive takes at a time gain nothing: NVMe drives are at
/// their best from 32 to 128 on.
pub const FLIGHTS_MAX: usize = 128;
/// Submission entries: all reads and the bell's.
const ENTRIES: u32 = 2 * FLIGHTS_MAX as u32;
/// The number that stands for the bell's read.
const BELL: u64 = u64::MAX;
/// The kernel may ask for a read to be tried again, when it was interrupted or had no memory. It is
/// tried this many times, in a row or not; then it has failed.
const RETRIES_MAX: u32 = 1000;
/// Bytes requested at a time. The kernel reads at most 2 GiB less a page.
const ASKED_BYTES_MAX: usize = 1 << 30;

/// Makes the kernel's part; tests put a refused one in its place.
pub type Make = fn() -> io::Result<IoUring>;

/// A ring that reads from `source` and may hear a bell.
pub struct Ring<'s, S: AsFd> {
    kernel: IoUring,
    source: S,
    bell: Option<&'s Bell>,
    /// Where the kernel writes the result of the bell's read. On the heap, so that it stays in its
    /// place and can be given up.
    rung: Box<[u8; 8]>,
    /// Whether a read of the bell is under way.
    is_listening: bool,
    /// Whether the bell must not be read again.
    is_ending: bool,
    flights: Vec<Option<Flight>>,
    /// Free places of `flights`.
    free: Vec<usize>,
    /// Completions that were seen and not taken yet: the read's number, and its result.
    told: VecDeque<(u64, i32)>,
    watch: Option<Watch>,
}

/// What the device's watch is told of the reads under way.
#[derive(Debug)]
struct Watch {
    unanswered: Arc<Unanswered>,
    /// The slot, and the second in it, while a read is under way.
    taken: Option<(Taken, u32)>,
}

/// A read under way.
struct Flight {
    pages: Pages,
    done: Done,
    /// The byte of the source at which it begins.
    at: u64,
    /// The bytes read so far.
    filled: usize,
    retries: u32,
    /// The second in which it began, if somebody watches.
    since_s: u32,
}

/// Makes the ring of a pool: served without interrupts, by the only thread that waits for it, where
/// the kernel knows that (6.1), and otherwise a plain one.
pub fn make() -> io::Result<IoUring> {
    let wanted =
        IoUring::builder().dontfork().setup_single_issuer().setup_defer_taskrun().build(ENTRIES);
    match wanted {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => make_plain(),
        made => made,
    }
}

/// Makes a ring for any kernel that has io_uring.
pub fn make_plain() -> io::Result<IoUring> {
    IoUring::builder().dontfork().build(ENTRIES)
}

/// Makes the ring of a thread that waits for other events too, and so is in the kernel often:
/// completions are written then, and no processor is interrupted for them. `EINVAL` before Linux
/// 6.0.
pub fn make_own() -> io::Result<IoUring> {
    IoUring::builder().dontfork().setup_single_issuer().setup_coop_taskrun().build(ENTRIES)
}

impl<'s, S: AsFd> Ring<'s, S> {
    /// Makes a ring that was seen to work. An error says what the kernel refuses: io_uring as a
    /// whole (`ENOSYS`, `EPERM`), the memory for it (`ENOMEM`), or its kind of read (`EINVAL`).
    pub fn new(source: S, bell: &'s Bell, make: Make) -> io::Result<Self> {
        let mut ring = Self::without_bell(source, make)?;
        ring.bell = Some(bell);
        // Everything that reads need, in one: an entry, a system call, a read, its end.
        ring.listen();
        bell.ring();
        while ring.told.is_empty() {
            ring.wait()?;
        }
        let told = ring.told.pop_front();
        ring.is_listening = false;
        match told {
            Some((BELL, 8)) => ring.listen(),
            Some((_, error)) if error < 0 => return Err(io::Error::from_raw_os_error(-error)),
            _ => return Err(io::Error::other("io_uring does not read what is there")),
        }
        Ok(ring)
    }

    /// Makes a ring that hears no bell, and was not seen to work. A thread that waits for its reads
    /// waits for its descriptor, among others.
    pub fn without_bell(source: S, make: Make) -> io::Result<Self> {
        Ok(Self {
            kernel: make()?,
            source,
            bell: None,
            rung: Box::default(),
            is_listening: false,
            is_ending: false,
            flights: (0..FLIGHTS_MAX).map(|_| None).collect(),
            free: (0..FLIGHTS_MAX).rev().collect(),
            told: VecDeque::new(),
            watch: None,
        })
    }

    /// Notes what is under way where the device is watched.
    pub fn watched(mut self, device: &dyn Device) -> Self {
        let unanswered = device.unanswered().map(Arc::clone);
        self.watch = unanswered.map(|unanswered| Watch { unanswered, taken: None });
        self
    }

    /// Becomes readable when a read has ended.
    pub fn descriptor(&self) -> RawFd {
        self.kernel.as_raw_fd()
    }

    /// The number of further reads that can be under way.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Whether no read is under way.
    pub fn is_idle(&self) -> bool {
        self.free.len() == FLIGHTS_MAX
    }

    /// Begins a read of a device, which is the source. There must be room. A read for which there
    /// is nothing to do is returned with its result.
    pub fn begin(&mut self, device: &dyn Device, read: Read) -> Option<(Done, io::Result<Pages>)> {
        let Read { page, count, done } = read;
        match range::of_pages(device.pages(), page, count) {
            Ok(_) if count == 0 => return Some((done, Ok(Pages::default()))),
            Ok(at) => self.read(at, Pages::zeroed(count), done),
            Err(error) => return Some((done, Err(error))),
        }
        None
    }

    /// Begins to fill `pages` from the byte `at` of the source on. There must be room, and
    /// something to fill. The kernel hears of it with the next [`Ring::wait`] or
    /// [`Ring::hand_over`].
    pub fn read(&mut self, at: u64, pages: Pages, done: Done) {
        debug_assert!(!pages.bytes().is_empty(), "an end without a byte is the end of the source");
        let number = self.free.pop().expect("the caller has asked for room");
        let since_s = self.watch.as_mut().map_or(0, Watch::begin);
        self.flights[number] = Some(Flight { pages, done, at, filled: 0, retries: 0, since_s });
        self.push_flight(number);
    }

    /// Hands over new entries, and waits until something has ended or the bell was rung. After an
    /// error the ring is of no more use: [`Ring::abandon`] it.
    pub fn wait(&mut self) -> io::Result<()> {
        let entered = self.kernel.submit_and_wait(1);
        let told = self.told.len();
        self.look();
        match entered {
            Err(error) if !is_passing(&error) => Err(error),
            Err(error) if !is_interrupted(&error) && self.told.len() == told => {
                std::thread::yield_now();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Hands over new entries, and neither waits nor looks: the descriptor becomes readable for
    /// those that end at once, too. Entries for which the kernel has no memory at the moment stay,
    /// to be handed over later. Fails as [`Ring::wait`] does.
    pub fn hand_over(&mut self) -> io::Result<()> {
        match self.kernel.submit() {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether there are entries to hand over.
    pub fn has_new(&mut self) -> bool {
        !self.kernel.submission().is_empty()
    }

    /// Takes in completions, by a look at memory. A later one makes the descriptor readable anew.
    pub fn look(&mut self) {
        self.told.extend(self.kernel.completion().map(|entry| (entry.user_data(), entry.result())));
    }

    /// Takes a read that has ended, with its result. A partial one is continued.
    pub fn take_ended(&mut self) -> Option<(Done, io::Result<Pages>)> {
        while let Some((number, result)) = self.told.pop_front() {
            if number == BELL {
                self.is_listening = false;
                if !self.is_ending {
                    self.listen();
                }
                continue;
            }
            let number = usize::try_from(number).expect("it is the number of a flight");
            let flight = self.flights[number].as_mut().expect("a read ends while it is under way");
            let Some(result) = flight.advance(result) else {
                self.push_flight(number);
                continue;
            };
            let Flight { pages, done, .. } = self.flights[number].take().expect("as above");
            self.free.push(number);
            self.note_end();
            return Some((done, result.map(|()| pages)));
        }
        None
    }

    /// Gives up a ring whose wait has failed; returns the reads still to be answered. The pages are
    /// lost, since the kernel may still write to them.
    pub fn abandon(mut self) -> Vec<Done> {
        self.give_up()
    }

    fn give_up(&mut self) -> Vec<Done> {
        mem::forget(mem::take(&mut self.rung));
        self.is_listening = false;
        self.told.clear();
        self.free = (0..FLIGHTS_MAX).rev().collect();
        let flights = self.flights.iter_mut().filter_map(Option::take);
        let lost = flights.map(|Flight { pages, done, .. }| {
            mem::forget(pages);
            done
        });
        let lost = lost.collect();
        self.note_end();
        lost
    }

    /// Tells the watch that a read has ended.
    fn note_end(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        if self.free.len() == FLIGHTS_MAX {
            return watch.end();
        }
        // The earliest is looked for where it may be another one than before.
        if watch.is_behind() {
            let seconds = self.flights.iter().flatten().map(|flight| flight.since_s);
            watch.moves(seconds.min());
        }
    }

    /// Begins a read of the bell.
    fn listen(&mut self) {
        let bell = self.bell.expect("only a ring with a bell listens");
        let bell = types::Fd(bell.as_fd().as_raw_fd());
        let entry = opcode::Read::new(bell, self.rung.as_mut_ptr(), self.rung.len() as u32);
        let entry = entry.build().user_data(BELL);
        self.is_listening = true;
        // SAFETY: the 8 bytes are on the heap and this ring's. They are freed when the ring is
        // dropped, which waits for the end of this read first, or given up. No other read of the
        // bell is under way: this is called for the first, and when the end of the last was seen.
        unsafe { self.push(&entry) };
    }

    /// Begins to read the missing part of a flight.
    fn push_flight(&mut self, number: usize) {
        let flight = self.flights[number].as_mut().expect("the caller has just had it");
        let missing = &mut flight.pages.bytes_mut()[flight.filled..];
        let bytes = missing.len().min(ASKED_BYTES_MAX) as u32;
        let source = types::Fd(self.source.as_fd().as_raw_fd());
        let entry = opcode::Read::new(source, missing.as_mut_ptr(), bytes);
        let entry = entry.offset(flight.at + flight.filled as u64).build();
        // SAFETY: the bytes are on the heap, in pages that the flight owns, and no code touches
        // these until `take_ended` has seen the end of this read. Dropping the ring waits for that
        // or gives the pages up. No other read of the flight is under way: it has just begun, or
        // the end of the last was seen.
        unsafe { self.push(&entry.user_data(number as u64)) };
    }

    /// Puts an entry into the submission ring.
    ///
    /// # Safety
    ///
    /// The memory that the entry points at stays valid for the kernel, and no other code touches
    /// it, until the end of the entry was seen.
    unsafe fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: as the caller promises. The descriptors of the entry are borrowed for longer than
        // the ring lives.
        let pushed = unsafe { self.kernel.submission().push(entry) };
        pushed.expect("there are more entries than reads can be under way");
    }
}

impl Watch {
    /// A read begins; returns the second.
    fn begin(&mut self) -> u32 {
        let now_s = self.unanswered.now_s();
        if self.taken.is_none() {
            self.taken = self.unanswered.begin(now_s).map(|taken| (taken, now_s));
        }
        now_s
    }

    /// Whether a read that is under way may have begun later than the slot says.
    fn is_behind(&self) -> bool {
        self.taken.as_ref().is_some_and(|(_, since_s)| *since_s != self.unanswered.now_s())
    }

    /// The earliest read under way began in this second.
    fn moves(&mut self, earliest_s: Option<u32>) {
        if let Some(((taken, since_s), earliest_s)) = self.taken.as_mut().zip(earliest_s) {
            *since_s = earliest_s;
            self.unanswered.moves(taken, earliest_s);
        }
    }

    /// No read is under way.
    fn end(&mut self) {
        if let Some((taken, _)) = self.taken.take() {
            self.unanswered.end(taken);
        }
    }
}

fn is_interrupted(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINTR)
}

/// Whether a call may work the next time: it was interrupted, or the kernel has no memory for more
/// at the moment.
fn is_passing(error: &io::Error) -> bool {
    is_interrupted(error) || matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY))
}

impl Flight {
    /// Takes in the kernel's result. Returns the result of the read, if it has ended.
    fn advance(&mut self, result: i32) -> Option<io::Result<()>> {
        match result {
            1.. => {
                self.filled += result as usize;
                let bytes = self.pages.bytes().len();
                assert!(self.filled <= bytes, "the kernel has read more than it was asked for");
                (self.filled == bytes).then_some(Ok(()))
            }
            0 => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            error => {
                let error = io::Error::from_raw_os_error(-error);
                let is_passing = matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN));
                self.retries += 1;
                if is_passing && self.retries <= RETRIES_MAX { None } else { Some(Err(error)) }
            }
        }
    }
}

/// Waits until the kernel no longer writes anywhere.
impl<S: AsFd> Drop for Ring<'_, S> {
    fn drop(&mut self) {
        self.is_ending = true;
        if let Some(bell) = self.bell
            && self.is_listening
        {
            bell.ring();
        }
        loop {
            while self.take_ended().is_some() {}
            if !self.is_listening && self.is_idle() {
                return;
            }
            if self.wait().is_err() {
                self.give_up();
            }
        }
    }
}

impl<S: AsFd> Debug for Ring<'_, S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let under_way = FLIGHTS_MAX - self.free.len();
        f.debug_struct("Ring").field("under_way", &under_way).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Write, pipe};
    use std::os::fd::BorrowedFd;
    use std::thread;

    use super::super::tests::sending;
    use super::*;
    use crate::ManualClock;
    use crate::device::{FakeDevice, Faults, PAGE_BYTES, WatchedDevice};

    /// Runs a test with a ring that reads from a pipe, if the kernel allows it.
    fn with_pipe(test: impl FnOnce(Ring<'_, BorrowedFd<'_>>, PipeWriter)) {
        let ((reader, writer), bell) = (pipe().unwrap(), Bell::new().unwrap());
        match Ring::new(reader.as_fd(), &bell, make) {
            Ok(ring) => test(ring, writer),
            Err(error) => println!("not run: {error}"),
        }
    }

    fn flight(count: usize) -> Flight {
        let (done, _) = sending();
        Flight { pages: Pages::zeroed(count), done, at: 0, filled: 0, retries: 0, since_s: 0 }
    }

    #[test]
    fn a_read_in_parts_is_continued_where_it_stopped() {
        with_pipe(|mut ring, mut writer| {
            let wanted: Vec<u8> = (0..2 * PAGE_BYTES).map(|at| (at % 251) as u8).collect();
            let (done, receiver) = sending();
            ring.read(0, Pages::zeroed(2), done);
            for part in wanted.chunks(1000) {
                assert!(receiver.try_recv().is_err());
                writer.write_all(part).unwrap();
                ring.wait().unwrap();
                if let Some((done, result)) = ring.take_ended() {
                    done(result);
                }
            }
            assert_eq!(receiver.try_recv().unwrap().unwrap().bytes(), wanted);
            assert!(ring.is_idle());
        });
    }

    #[test]
    fn the_watch_knows_since_when_the_earliest_read_is_under_way() {
        with_pipe(|ring, mut writer| {
            let clock = Arc::new(ManualClock::new(100));
            let device = Arc::new(FakeDevice::new(1, 1, Faults::default()));
            let device = WatchedDevice::new(device, clock.clone());
            let age_s = || device.unanswered().expect("it is watched").age_s();
            let mut ring = ring.watched(&device);
            let receivers = [3, 4].map(|seconds| {
                let (done, receiver) = sending();
                ring.read(0, Pages::zeroed(1), done);
                clock.advance(seconds);
                receiver
            });
            assert_eq!(age_s(), 7);
            let mut end_one = || {
                writer.write_all(&[7; PAGE_BYTES]).unwrap();
                let (done, result) = loop {
                    ring.wait().unwrap();
                    if let Some(ended) = ring.take_ended() {
                        break ended;
                    }
                };
                done(result);
            };
            end_one();
            // Either may get the page.
            let is_first = receivers[0].try_recv().is_ok();
            assert_eq!(age_s(), if is_first { 4 } else { 7 });
            end_one();
            assert_eq!(age_s(), 0);
        });
    }

    #[test]
    fn a_source_that_ends_early_is_an_error() {
        with_pipe(|mut ring, mut writer| {
            writer.write_all(&[7; 1000]).unwrap();
            drop(writer);
            ring.read(0, Pages::zeroed(1), Box::new(|_| ()));
            let ended = loop {
                ring.wait().unwrap();
                if let Some((_, result)) = ring.take_ended() {
                    break result;
                }
            };
            assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        });
    }

    #[test]
    fn a_read_is_tried_again_as_the_kernel_asks_but_not_for_ever() {
        let mut busy = flight(1);
        for _ in 0..RETRIES_MAX {
            assert!(busy.advance(-libc::EAGAIN).is_none());
        }
        let failed = busy.advance(-libc::EAGAIN).unwrap().unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(libc::EAGAIN));
    }

    #[test]
    fn the_result_of_each_part_decides() {
        let page = PAGE_BYTES as i32;
        let mut parts = flight(2);
        for (result, filled) in [(100, 100), (-libc::EINTR, 100), (page, page + 100)] {
            assert!(parts.advance(result).is_none());
            assert_eq!(parts.filled, filled as usize);
        }
        parts.advance(page - 100).unwrap().unwrap();
        let ended = flight(1).advance(0).unwrap().unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
        let failed = flight(1).advance(-libc::EIO).unwrap().unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(libc::EIO));
    }

    #[test]
    fn the_bell_ends_a_wait_each_time_it_is_rung() {
        with_pipe(|mut ring, _writer| {
            for _ in 0..100 {
                ring.bell.unwrap().ring();
                ring.wait().unwrap();
                assert!(ring.take_ended().is_none());
            }
        });
    }

    #[test]
    fn a_dropped_ring_waits_until_the_kernel_has_stopped_writing() {
        with_pipe(|mut ring, mut writer| {
            let (done, receiver) = sending();
            ring.read(0, Pages::zeroed(1), done);
            let writing = thread::spawn(move || {
                writer.write_all(&[7; PAGE_BYTES - 1]).unwrap();
                // The `done` is dropped with the read: not before its last byte has come.
                assert!(
                    receiver.try_recv().is_err_and(|error| error.to_string().contains("empty"))
                );
                writer.write_all(&[7]).unwrap();
                receiver.recv().unwrap_err();
            });
            drop(ring);
            writing.join().unwrap();
        });
    }
}
