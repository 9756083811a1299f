//! The promises of every pool, tried with each method on a file; then what only one of the methods
//! can do or meet.
//!
//! A `done` that waits for a gate holds up the only thread of a pool, so that reads submitted
//! meanwhile certainly wait.

use std::collections::HashSet;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use io_uring::IoUring;
use stdx::random::Xorshift;
use tempfile::TempDir;

use super::*;
use crate::ManualClock;
use crate::device::{FakeDevice, Faults, FileDevice, PAGE_BYTES, Page, WatchedDevice};
use crate::poll::{Events, Interest, Poll, SourceFd, Token};

/// Pages of the file.
const PAGES: u64 = 512;
/// How long to wait for an event that happens if all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// A file whose pages repeat their number, and the method that reads it.
struct Fixture {
    folder: TempDir,
    device: Arc<FileDevice>,
    method: ReadMethod,
}

impl Fixture {
    fn new(method: ReadMethod) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bytes = PAGES * PAGE_BYTES as u64;
        let (device, _) = FileDevice::open(&folder.path().join("device"), bytes).unwrap();
        let mut pages = Pages::zeroed(PAGES as usize);
        for (number, word) in pages.bytes_mut().chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&((number * 8 / PAGE_BYTES) as u64).to_ne_bytes());
        }
        device.write(0, pages.as_pages()).unwrap();
        Self { folder, device: Arc::new(device), method }
    }

    /// A pool with one thread.
    fn pool(&self, waiting_max: usize) -> ReadPool {
        let device: Arc<dyn Device> = Arc::<FileDevice>::clone(&self.device);
        let pool = ReadPool::new(device, Some(self.method), 1, waiting_max).unwrap();
        assert_eq!(pool.method(), self.method);
        pool
    }
}

/// Runs a test with each method that the kernel allows.
fn each_method(test: impl Fn(&Fixture)) {
    for method in ReadMethod::ALL {
        let fixture = Fixture::new(method);
        match (method, ReadPool::try_io_uring(&*fixture.device)) {
            (ReadMethod::IoUring, Err(error)) => println!("not run by io_uring: {error}"),
            _ => test(&fixture),
        }
    }
}

/// The variable that says that io_uring has to be tested, rather than only where the kernel allows
/// it. It must not begin with the name of a program that tests start, which would take it for its
/// own.
const INSISTS: &str = "TEST_IO_URING";

/// Where the kernel refuses io_uring, all tests of it pass without it, here and in other crates,
/// and cargo hides their output. `cargo xtask test` insists on it where the kernel has it.
#[test]
fn the_kernel_allows_io_uring_where_that_is_insisted_on() {
    if std::env::var_os(INSISTS).is_none_or(|value| value != "required") {
        return;
    }
    let fixture = Fixture::new(ReadMethod::IoUring);
    let tried = ReadPool::try_io_uring(&*fixture.device);
    let tried = tried.and_then(|()| ReadRing::new(fixture.device).map(drop));
    assert!(
        tried.is_ok(),
        "the tests of io_uring would pass without it ({tried:?}), which {INSISTS}=optional allows"
    );
}

/// A `done` that sends its result on.
pub(super) fn sending() -> (Done, Receiver<io::Result<Pages>>) {
    let (sender, receiver) = channel();
    (Box::new(move |result| sender.send(result).unwrap()), receiver)
}

fn submit(pool: &ReadPool, page: u64, count: usize) -> Receiver<io::Result<Pages>> {
    let (done, receiver) = sending();
    pool.submit(page, count, done).unwrap();
    receiver
}

/// Makes the pool read something and wait, with its only thread, until the returned sender sends or
/// is dropped. By the return it waits.
fn hold(pool: &ReadPool) -> SyncSender<()> {
    let (gate, opened) = sync_channel(1);
    let (arrived, arrival) = channel();
    let done = move |_| {
        arrived.send(()).unwrap();
        let _ = opened.recv();
    };
    pool.submit(0, 1, Box::new(done)).unwrap();
    arrival.recv_timeout(PATIENCE).unwrap();
    gate
}

fn next<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(PATIENCE).unwrap()
}

/// Whether these are `count` pages of the file from `page` on.
fn check(pages: &Pages, page: u64, count: usize) {
    assert_eq!(pages.as_pages().len(), count);
    for (number, word) in pages.bytes().chunks_exact(8).enumerate() {
        let wanted = page + (number * 8 / PAGE_BYTES) as u64;
        assert_eq!(word, wanted.to_ne_bytes(), "read from {page}, word {number}");
    }
}

/// Submits `reads` reads of random places and lengths, as fast as they are taken, and checks them.
fn read_at_random(pool: &ReadPool, seed: u64, reads: usize) {
    let mut random = Xorshift::seeded(seed);
    let (sender, receiver) = channel();
    let mut answered = HashSet::new();
    let mut take = |(number, page, count, result): (usize, u64, usize, io::Result<Pages>)| {
        check(&result.unwrap(), page, count);
        assert!(answered.insert(number), "read {number} was answered twice");
    };
    for number in 0..reads {
        let count = 1 + random.draw() as usize % 4;
        let page = random.draw() % (PAGES - count as u64 + 1);
        let sender = sender.clone();
        let done = move |result| sender.send((number, page, count, result)).unwrap();
        let mut done: Done = Box::new(done);
        while let Err(Busy(back)) = pool.submit(page, count, done) {
            // The queue may be full of other threads' reads.
            receiver.try_iter().for_each(&mut take);
            thread::yield_now();
            done = back;
        }
    }
    drop(sender);
    receiver.into_iter().for_each(&mut take);
    assert_eq!(answered.len(), reads);
}

#[test]
fn every_read_gets_its_pages_while_other_threads_read() {
    each_method(|fixture| {
        let pool = fixture.pool(64);
        thread::scope(|scope| {
            for seed in 1..=4 {
                let pool = &pool;
                scope.spawn(move || read_at_random(pool, seed, 2500));
            }
        });
        assert_eq!(pool.waiting(), 0);
    });
}

/// The ring of kernels before 6.1.
#[test]
fn a_plain_ring_reads_as_well() {
    let fixture = Fixture::new(ReadMethod::IoUring);
    let method = Some(ReadMethod::IoUring);
    match ReadPool::start(fixture.device, method, 1, 64, ring::make_plain) {
        Ok(pool) => read_at_random(&pool, 5, 2500),
        Err(error) => println!("not run by io_uring: {error}"),
    }
}

#[test]
fn each_of_several_single_reads_wakes_the_sleeping_reader() {
    each_method(|fixture| {
        let pool = fixture.pool(1);
        for number in 0..2000 {
            let page = number * 7 % PAGES;
            check(&next(&submit(&pool, page, 1)).unwrap(), page, 1);
        }
    });
}

#[test]
fn a_full_queue_refuses_and_gives_the_call_back() {
    each_method(|fixture| {
        let pool = fixture.pool(3);
        let gate = hold(&pool);
        let answers: Vec<_> = (0..3).map(|page| submit(&pool, page, 2)).collect();
        let (done, answer) = sending();
        let Err(Busy(done)) = pool.submit(5, 1, done) else { panic!("it was taken") };
        assert_eq!(pool.waiting(), 3);
        drop(gate);
        for (page, answer) in (0..).zip(&answers) {
            check(&next(answer).unwrap(), page, 2);
        }
        done(Err(io::ErrorKind::WouldBlock.into()));
        assert_eq!(next(&answer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        check(&next(&submit(&pool, 9, 1)).unwrap(), 9, 1);
    });
}

#[test]
fn dropping_the_pool_finishes_the_submitted_reads() {
    each_method(|fixture| {
        let pool = fixture.pool(400);
        let gate = hold(&pool);
        // More than can be under way at a time, by either method.
        let answers: Vec<_> = (0..400).map(|page| submit(&pool, page, 1)).collect();
        let dropping = thread::spawn(move || drop(pool));
        drop(gate);
        dropping.join().unwrap();
        for (page, answer) in (0..).zip(answers) {
            check(&answer.try_recv().unwrap().unwrap(), page, 1);
        }
    });
}

#[test]
fn a_pool_that_was_never_used_ends() {
    each_method(|fixture| drop(fixture.pool(1)));
}

#[test]
fn a_read_beyond_the_device_is_an_error_and_one_of_no_pages_is_empty() {
    each_method(|fixture| {
        let pool = fixture.pool(10);
        for (page, count) in [(PAGES, 1), (PAGES - 1, 2), (u64::MAX, 1)] {
            let error = next(&submit(&pool, page, count)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        check(&next(&submit(&pool, PAGES - 1, 1)).unwrap(), PAGES - 1, 1);
        assert_eq!(next(&submit(&pool, PAGES, 0)).unwrap(), Pages::default());
    });
}

/// Regression: when there were as many of them as can be under way at a time, the thread slept
/// though more were waiting, and nothing would wake it.
#[test]
fn reads_beyond_the_device_alone_keep_no_caller_waiting() {
    each_method(|fixture| {
        let count = 2 * ring::FLIGHTS_MAX + 1;
        let pool = fixture.pool(count);
        let gate = hold(&pool);
        let answers: Vec<_> = (0..count).map(|_| submit(&pool, PAGES, 1)).collect();
        drop(gate);
        for answer in &answers {
            assert_eq!(next(answer).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        check(&next(&submit(&pool, 7, 2)).unwrap(), 7, 2);
    });
}

#[test]
fn a_file_that_was_cut_short_is_an_error_where_it_is_missing() {
    each_method(|fixture| {
        let file = File::options().write(true).open(fixture.folder.path().join("device")).unwrap();
        file.set_len(3 * PAGE_BYTES as u64 + 100).unwrap();
        let pool = fixture.pool(10);
        check(&next(&submit(&pool, 0, 3)).unwrap(), 0, 3);
        // Whether the rest of a page can be read past the page cache is up to the file system.
        next(&submit(&pool, 2, 2)).unwrap_err();
        let error = next(&submit(&pool, 4, 1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn a_call_that_panics_costs_no_thread_and_is_heard_of_at_the_end() {
    each_method(|fixture| {
        let pool = fixture.pool(10);
        pool.submit(0, 1, Box::new(|_| panic!("on purpose"))).unwrap();
        check(&next(&submit(&pool, 7, 2)).unwrap(), 7, 2);
        let panic = catch_unwind(AssertUnwindSafe(|| drop(pool))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    });
}

#[test]
fn a_call_may_hold_the_last_reference_to_the_pool() {
    each_method(|fixture| {
        let pool = Arc::new(fixture.pool(10));
        let gate = hold(&pool);
        let (sender, receiver) = channel();
        let held = Arc::clone(&pool);
        let last = Box::new(move |_| {
            drop(held);
            sender.send(()).unwrap();
        });
        pool.submit(0, 1, last).unwrap();
        let answer = submit(&pool, 7, 2);
        drop(pool);
        drop(gate);
        next(&receiver);
        check(&next(&answer).unwrap(), 7, 2);
    });
}

#[test]
fn threads_read_at_the_same_time() {
    let fixture = Fixture::new(ReadMethod::Threads);
    let pool = ReadPool::new(fixture.device, Some(ReadMethod::Threads), 2, 10).unwrap();
    let gates = [hold(&pool), hold(&pool)];
    let answer = submit(&pool, 7, 2);
    assert_eq!(pool.waiting(), 1);
    drop(gates);
    check(&next(&answer).unwrap(), 7, 2);
}

#[test]
fn a_device_without_a_descriptor_is_read_by_threads() {
    let device = || Arc::new(FakeDevice::new(PAGES, 1, Faults::default()));
    let pool = ReadPool::new(device(), None, 1, 10).unwrap();
    assert_eq!(pool.method(), ReadMethod::Threads);
    assert_eq!(next(&submit(&pool, 1, 1)).unwrap(), Pages::zeroed(1));
    let forced = ReadPool::new(device(), Some(ReadMethod::IoUring), 1, 10);
    assert_eq!(forced.unwrap_err().kind(), io::ErrorKind::Unsupported);
    ReadPool::try_io_uring(&*device()).unwrap_err();
}

#[test]
fn a_refusing_kernel_leaves_reads_to_threads_unless_a_ring_is_required() {
    const REFUSALS: [(Make, i32); 3] = [
        (|| Err(io::Error::from_raw_os_error(libc::ENOSYS)), libc::ENOSYS),
        (|| Err(io::Error::from_raw_os_error(libc::EPERM)), libc::EPERM),
        (|| Err(io::Error::from_raw_os_error(libc::ENOMEM)), libc::ENOMEM),
    ];
    let fixture = Fixture::new(ReadMethod::Threads);
    let start = |method, make| {
        let device: Arc<dyn Device> = Arc::<FileDevice>::clone(&fixture.device);
        ReadPool::start(device, method, 1, 10, make)
    };
    for (make, code) in REFUSALS {
        let pool = start(None, make).unwrap();
        assert_eq!(pool.method(), ReadMethod::Threads);
        check(&next(&submit(&pool, 3, 2)).unwrap(), 3, 2);
        let error = start(Some(ReadMethod::IoUring), make).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(code));
    }
}

/// A device that is a pipe: the bytes come in parts, and when the test wants.
#[derive(Debug)]
struct Pipe(PipeReader);

impl Pipe {
    fn pool(waiting_max: usize) -> Option<(ReadPool, PipeWriter)> {
        let (reader, writer) = pipe().unwrap();
        match ReadPool::new(Arc::new(Self(reader)), Some(ReadMethod::IoUring), 1, waiting_max) {
            Ok(pool) => Some((pool, writer)),
            Err(error) => {
                println!("not run by io_uring: {error}");
                None
            }
        }
    }
}

impl Device for Pipe {
    fn pages(&self) -> u64 {
        PAGES
    }

    fn read(&self, _: u64, _: &mut [Page]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write(&self, _: u64, _: &[Page]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn read_note(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_note(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

#[test]
fn the_ring_takes_as_much_as_fits_and_drop_waits_for_reads_under_way() {
    let Some((pool, mut writer)) = Pipe::pool(300) else { return };
    let answers: Vec<_> = (0..300).map(|page| submit(&pool, page, 1)).collect();
    while pool.waiting() > 300 - ring::FLIGHTS_MAX {
        thread::yield_now();
    }
    let dropping = thread::spawn(move || drop(pool));
    for number in 0..300_u64 {
        writer.write_all(&number.to_ne_bytes().repeat(PAGE_BYTES / 8)).unwrap();
    }
    dropping.join().unwrap();
    let first = |answer: Receiver<io::Result<Pages>>| {
        let pages = answer.try_recv().unwrap().unwrap();
        u64::from_ne_bytes(pages.bytes()[..8].try_into().unwrap())
    };
    let found: HashSet<u64> = answers.into_iter().map(first).collect();
    assert_eq!(found, (0..300).collect());
}

/// The descriptor of the ring that `remembered` made.
static REMEMBERED: OnceLock<RawFd> = OnceLock::new();

fn remembered() -> io::Result<IoUring> {
    let made = ring::make()?;
    REMEMBERED.set(made.as_raw_fd()).unwrap();
    Ok(made)
}

/// Makes every call with the ring fail from now on.
fn fail(ring: RawFd) {
    let nothing = File::open("/dev/null").unwrap();
    // SAFETY: the number is the ring's, which stays open by its mappings, and whose owner now
    // closes the file that was put in its place.
    let copied = unsafe { libc::dup2(nothing.as_raw_fd(), ring) };
    assert_ne!(copied, -1);
}

#[test]
fn when_the_ring_fails_all_are_answered_and_the_thread_reads_by_itself() {
    let fixture = Fixture::new(ReadMethod::IoUring);
    let device: Arc<dyn Device> = Arc::<FileDevice>::clone(&fixture.device);
    let pool = match ReadPool::start(device, Some(ReadMethod::IoUring), 1, 10, remembered) {
        Ok(pool) => pool,
        Err(error) => return println!("not run by io_uring: {error}"),
    };
    let gate = hold(&pool);
    fail(*REMEMBERED.get().unwrap());
    let answers = [1, 2].map(|page| submit(&pool, page, 1));
    drop(gate);
    for answer in &answers {
        next(answer).unwrap_err();
    }
    for page in 3..100 {
        check(&next(&submit(&pool, page, 2)).unwrap(), page, 2);
    }
}

/// A ring of the calling thread's own and the poll that waits for it, if the kernel gives one.
fn own_ring(device: Arc<dyn Device>) -> Option<(ReadRing, Poll)> {
    match ReadRing::new(device) {
        Ok(ring) => {
            let poll = Poll::new().unwrap();
            let descriptor = ring.descriptor().unwrap();
            let mut source = SourceFd(&descriptor);
            poll.registry().register(&mut source, Token(0), Interest::READABLE).unwrap();
            Some((ring, poll))
        }
        Err(error) => {
            println!("not run: {error}");
            None
        }
    }
}

/// Waits for the descriptor and answers, until the receiver has `count` results.
fn answers<T>(
    ring: &mut ReadRing,
    poll: &mut Poll,
    receiver: &Receiver<T>,
    count: usize,
) -> Vec<T> {
    let mut events = Events::with_capacity(4);
    let mut answered = Vec::new();
    loop {
        answered.extend(receiver.try_iter());
        if answered.len() >= count {
            return answered;
        }
        match poll.poll(&mut events, Some(PATIENCE)) {
            Ok(()) => assert!(!events.is_empty(), "{} of {count} have come", answered.len()),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Interrupted),
        }
        // Only here: reads that ended earlier have to be announced, too.
        ring.answer();
    }
}

#[test]
fn an_own_ring_answers_every_read_also_those_beyond_its_room() {
    let fixture = Fixture::new(ReadMethod::IoUring);
    let Some((mut ring, mut poll)) = own_ring(fixture.device) else { return };
    let this = thread::current().id();
    let mut random = Xorshift::seeded(7);
    for round in 0..200 {
        let (sender, receiver) = channel();
        let count = 1 + random.draw() as usize % (3 * ring::FLIGHTS_MAX);
        let reads = (0..count).map(|number| {
            let pages = random.draw() as usize % 4;
            let page = random.draw() % (PAGES - pages as u64 + 1);
            let sender = sender.clone();
            let done = move |result: io::Result<Pages>| {
                assert_eq!(thread::current().id(), this);
                check(&result.unwrap(), page, pages);
                sender.send(number).unwrap();
            };
            (page, pages, Box::new(done) as Done)
        });
        let back = ring.submit_all(reads);
        assert!(back.is_empty(), "round {round}");
        let answered = answers(&mut ring, &mut poll, &receiver, count);
        assert_eq!(answered.iter().collect::<HashSet<_>>().len(), count, "round {round}");
        assert_eq!(answered.len(), count, "round {round}");
    }
}

#[test]
fn an_own_ring_reads_what_comes_in_parts_and_nothing_beyond_the_device() {
    let (reader, mut writer) = pipe().unwrap();
    let pipe = Arc::new(Pipe(reader));
    let Some((mut ring, mut poll)) = own_ring(pipe) else { return };
    let (done, beyond) = sending();
    let (whole, answer) = sending();
    assert!(ring.submit_all([(PAGES, 1, done), (0, 1, whole)]).is_empty());
    assert_eq!(beyond.try_recv().unwrap().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    let writing = thread::spawn(move || {
        for part in [[7; PAGE_BYTES / 2], [8; PAGE_BYTES / 2]] {
            writer.write_all(&part).unwrap();
            thread::yield_now();
        }
        writer
    });
    let read = answers(&mut ring, &mut poll, &answer, 1).pop().unwrap().unwrap();
    assert_eq!((read.bytes()[0], read.bytes()[PAGE_BYTES - 1]), (7, 8));
    drop(writing.join().unwrap());
}

/// Its end is there as soon as the kernel has the read, and is announced all the same.
#[test]
fn a_read_that_ends_while_it_is_handed_over_is_announced() {
    let (reader, mut writer) = pipe().unwrap();
    let Some((mut ring, mut poll)) = own_ring(Arc::new(Pipe(reader))) else {
        return;
    };
    for round in 0..20 {
        writer.write_all(&[round; PAGE_BYTES]).unwrap();
        let (done, answer) = sending();
        assert!(ring.submit_all([(0, 1, done)]).is_empty());
        let read = answers(&mut ring, &mut poll, &answer, 1).pop().unwrap().unwrap();
        assert_eq!(read.bytes()[PAGE_BYTES - 1], round);
    }
}

#[test]
fn when_an_own_ring_fails_all_are_answered_and_later_reads_given_back() {
    let (reader, _writer) = pipe().unwrap();
    let Some((mut ring, _poll)) = own_ring(Arc::new(Pipe(reader))) else { return };
    let (under_way, first) = sending();
    assert!(ring.submit_all([(0, 1, under_way)]).is_empty());
    fail(ring.descriptor().unwrap());
    let (done, second) = sending();
    assert!(ring.submit_all([(1, 1, done)]).is_empty());
    for answer in [first, second] {
        answer.try_recv().unwrap().unwrap_err();
    }
    assert_eq!(ring.descriptor(), None);
    let (done, third) = sending();
    let back = ring.submit_all([(2, 3, done)]);
    assert_eq!(back.iter().map(|(page, pages, _)| (*page, *pages)).collect::<Vec<_>>(), [(2, 3)]);
    ring.answer();
    assert!(third.try_recv().is_err());
}

/// Makes the kernel refuse three entries at a time from rings of this thread, as it refuses any
/// when it has no memory for more at the moment. It lasts as long as the thread.
fn refuse_three() {
    const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
    const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32;
    let load = |offset| (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, offset);
    let unless = |value, skipped| (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, skipped, value);
    let end = |value| (libc::BPF_RET | libc::BPF_K, 0, value);
    let call = libc::SYS_io_uring_enter as u32;
    let arguments = std::mem::offset_of!(libc::seccomp_data, args);
    let second = (arguments + 8 + 4 * usize::from(cfg!(target_endian = "big"))) as u32;
    let steps = [load(0), unless(call, 3), load(second), unless(3, 1), end(REFUSED), end(ALLOWED)];
    let filter = steps.map(|(code, jf, k): (u32, u8, u32)| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    });
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the filter, which it does not change, and this thread may not gain
    // rights any more.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
}

/// Regression: a worker's ring was given up for good then, all reads under way failed, and their
/// pages were lost.
#[test]
fn reads_refused_for_want_of_kernel_memory_are_handed_over_later() {
    let fixture = Fixture::new(ReadMethod::IoUring);
    // The filter goes with the thread.
    thread::scope(|scope| {
        scope.spawn(|| {
            let Some((mut ring, mut poll)) = own_ring(fixture.device.clone()) else { return };
            refuse_three();
            let (sender, receiver) = channel();
            let read = |page| {
                let sender = sender.clone();
                let done: Done = Box::new(move |result| sender.send((page, result)).unwrap());
                (page, 1, done)
            };
            assert!(ring.submit_all((0..3).map(read)).is_empty());
            assert!(ring.is_behind());
            ring.answer();
            assert!(ring.is_behind() && receiver.try_recv().is_err());
            assert!(ring.submit_all([read(3)]).is_empty());
            assert!(!ring.is_behind());
            for (page, result) in answers(&mut ring, &mut poll, &receiver, 4) {
                check(&result.unwrap(), page, 1);
            }
        });
    });
}

#[test]
fn without_a_descriptor_or_the_kernel_there_is_no_own_ring() {
    let fake = Arc::new(FakeDevice::new(PAGES, 1, Faults::default()));
    assert_eq!(ReadRing::new(fake).unwrap_err().kind(), io::ErrorKind::Unsupported);
    let fixture = Fixture::new(ReadMethod::IoUring);
    let refuses: Make = || Err(io::Error::from_raw_os_error(libc::EINVAL));
    let refused = ReadRing::start(fixture.device, refuses).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
}

/// Reads of a ring wait in the kernel, where no call of the device can be watched.
#[test]
fn a_read_that_a_ring_has_under_way_is_seen_to_be_unanswered() {
    let clock = Arc::new(ManualClock::new(100));
    let watched = || {
        let (reader, writer) = pipe().unwrap();
        let device: Arc<dyn Device> = Arc::new(Pipe(reader));
        (Arc::new(WatchedDevice::new(device, clock.clone())), writer)
    };
    let age_s = |device: &WatchedDevice| device.unanswered().unwrap().age_s();
    let (device, mut writer) = watched();
    if let Ok(pool) = ReadPool::new(device.clone(), Some(ReadMethod::IoUring), 1, 9) {
        let receiver = submit(&pool, 0, 1);
        // It begins when its thread comes to it.
        let submitted = Instant::now();
        while age_s(&device) == 0 && submitted.elapsed() < PATIENCE {
            clock.advance(1);
            thread::yield_now();
        }
        let seen_s = age_s(&device);
        writer.write_all(&[7; PAGE_BYTES]).unwrap();
        next(&receiver).unwrap();
        assert!(seen_s > 0 && age_s(&device) == 0, "{seen_s}");
    }
    let (device, mut writer) = watched();
    if let Some((mut ring, mut poll)) = own_ring(device.clone()) {
        let (done, receiver) = sending();
        assert!(ring.submit_all([(0, 1, done)]).is_empty());
        clock.advance(6);
        let seen_s = age_s(&device);
        writer.write_all(&[7; PAGE_BYTES]).unwrap();
        answers(&mut ring, &mut poll, &receiver, 1);
        clock.advance(6);
        assert_eq!((seen_s, age_s(&device)), (6, 0));
    }
}
