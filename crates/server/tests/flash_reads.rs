//! Reads from flash: by the method chosen or the one the kernel allows, also in the background, and
//! the server says which.

use std::fs;
use std::io::Read;
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use io::device::{FileDevice, PAGE_BYTES, ReadMethod, ReadPool, ReadRing};
use tempfile::TempDir;

use crate::common::{Client, Server};

/// More than the memory holds.
const ITEMS: usize = 30_000;
/// Hits on flash that a test wants. Their number in a round depends on when the background comes to
/// demote items.
const HITS_WANTED: u64 = 500;
/// Rounds until these must have come.
const ROUNDS_MAX: usize = 20;

/// Whether the kernel refuses io_uring for a file there.
fn refuses_io_uring(folder: &Path) -> bool {
    let opened = FileDevice::open(&folder.join("probe"), PAGE_BYTES as u64);
    let tried = ReadPool::try_io_uring(&opened.expect("a file can be made").0);
    if let Err(error) = &tried {
        println!("not run by io_uring: {error}");
    }
    tried.is_err()
}

fn start(folder: &TempDir, options: &[&str]) -> Server {
    let flash = format!("{}:64m", folder.path().join("flash").display());
    let all = [&["-m", "16", "--hot-target", "1", "--flash", &flash], options].concat();
    Server::start(&all)
}

fn flash_reads_by(client: &mut Client) -> String {
    client.send(b"stats settings\r\n");
    let text = client.read_to("END\r\n");
    let line = text.lines().find_map(|line| line.strip_prefix("STAT flash_reads_by "));
    line.expect("it is shown").to_owned()
}

fn value(number: usize) -> String {
    let word = |part: usize| format!("{:x}", (number * 256 + part).wrapping_mul(0x9e37_79b9_7f4a));
    (0..120).map(word).collect()
}

/// Stores items and reads them all, until enough were found on flash. Each that is found has its
/// value, and no read fails.
fn use_flash(server: &Server, client: &mut Client) {
    for _ in 0..ROUNDS_MAX {
        store(client);
        let found = find(client);
        assert_eq!(server.stat("miss_from_extstore"), 0);
        if server.stat("get_extstore") >= HITS_WANTED {
            assert!(found > 0);
            return;
        }
    }
    panic!("only {} hits on flash", server.stat("get_extstore"));
}

fn store(client: &mut Client) {
    for number in 0..ITEMS {
        let (value, length) = (value(number), value(number).len());
        client.send(format!("ms k{number} {length} q\r\n{value}\r\n").as_bytes());
        if number.is_multiple_of(100) {
            client.send(b"mn\r\n");
            client.read_to("MN\r\n");
        }
    }
}

/// Reads all items and returns the number found.
fn find(client: &mut Client) -> usize {
    let find = |number: &usize| {
        client.send(format!("get k{number}\r\n").as_bytes());
        let (text, value) = (client.read_to("END\r\n"), value(*number));
        let there = format!("VALUE k{number} 0 {}\r\n{value}\r\nEND\r\n", value.len());
        assert!(text == there || text == "END\r\n", "{text}");
        text == there
    };
    (0..ITEMS).filter(find).count()
}

#[test]
fn the_method_that_was_asked_for_reads_and_is_shown() {
    for method in ReadMethod::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        if method == ReadMethod::IoUring && refuses_io_uring(folder.path()) {
            continue;
        }
        let server = start(&folder, &["--flash-reads", method.name()]);
        let mut client = server.connect();
        assert_eq!(flash_reads_by(&mut client), method.name());
        use_flash(&server, &mut client);
    }
}

#[test]
fn the_default_takes_the_allowed_method_also_in_the_background() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = refuses_io_uring(folder.path());
    let method = if refused { ReadMethod::Threads } else { ReadMethod::IoUring };
    let server = start(&folder, &["-d", "-A"]);
    let mut client = server.connect();
    assert_eq!(flash_reads_by(&mut client), method.name());
    let used = catch_unwind(AssertUnwindSafe(|| use_flash(&server, &mut client)));
    // Its parent has gone: it ends only if it is told to.
    let mut other = server.connect();
    other.send(b"shutdown\r\n");
    other.expect_end();
    used.expect("flash works in the background");
}

/// How often the thread that reads for others has slept and was woken.
fn rests_of_the_pool(server: &Server) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.id())).expect("the server runs");
    let mut tasks = tasks.map(|task| task.expect("a thread").path());
    let is_it = |path: &PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name == "read-ring\n")
    };
    let pool = tasks.find(is_it).expect("it has been started");
    let status = fs::read_to_string(pool.join("status")).expect("it runs");
    let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    switches.expect("the kernel counts").trim().parse().expect("a number")
}

#[test]
fn a_worker_reads_through_its_own_ring_and_wakes_no_thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let opened = FileDevice::open(&folder.path().join("probe"), PAGE_BYTES as u64);
    let probe = opened.expect("a file can be made").0;
    if let Err(error) = ReadPool::try_io_uring(&probe).and_then(|()| ReadRing::new(Arc::new(probe)))
    {
        return println!("not run: {error}");
    }
    let server = start(&folder, &[]);
    let mut client = server.connect();
    use_flash(&server, &mut client);
    let rests = rests_of_the_pool(&server);
    assert!(rests < HITS_WANTED / 10, "{rests}, with {} hits", server.stat("get_extstore"));
}

/// A request that waits for flash has been read from the socket before: no event announces it
/// again, nor the end that came behind it.
#[test]
fn a_pipeline_that_waits_for_flash_is_answered_in_order_and_to_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(&folder, &[]);
    let mut client = server.connect();
    use_flash(&server, &mut client);
    let before = server.stat("get_extstore");
    for first in (0..ITEMS).step_by(ITEMS / 50) {
        let mut client = server.connect();
        let numbers = (0..40).map(|number| (first + 101 * number) % ITEMS);
        let requests: String =
            numbers.clone().map(|number| format!("mg k{number} k v\r\n")).collect();
        client.send(requests.as_bytes());
        client.stream.shutdown(Shutdown::Write).expect("it is open");
        let mut text = String::new();
        client.stream.read_to_string(&mut text).expect("the server answers, and ends");
        let mut rest = text.as_str();
        for number in numbers {
            let (value, missing) = (value(number), format!("EN kk{number}\r\n"));
            let there = format!("VA {} kk{number}\r\n{value}\r\n", value.len());
            let after = rest.strip_prefix(&missing).or_else(|| rest.strip_prefix(&there));
            rest = after.unwrap_or_else(|| panic!("k{number}: {rest:?}"));
        }
        assert_eq!(rest, "");
    }
    assert!(server.stat("get_extstore") > before);
}

/// Regression: requests that waited for flash when the server was asked to stop got no answer.
#[test]
fn a_stopping_server_answers_requests_that_wait_for_flash() {
    /// Enough that some twenty are on flash, and so few that a slow disk has read them within the
    /// two seconds that a worker waits at its end.
    const KEYS: usize = 100;
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["-t", "1", "-A"];
    let mut server = start(&folder, &options);
    use_flash(&server, &mut server.connect());
    let mut found = 0;
    for round in 0..5 {
        let (mut client, mut other) = (server.connect(), server.connect());
        client.ask("mn\r\n", "MN\r\n");
        other.ask("mn\r\n", "MN\r\n");
        let numbers = (0..KEYS).map(|number| (round + ITEMS / KEYS * number) % ITEMS);
        let requests: String = numbers.map(|number| format!("mg k{number} k v\r\n")).collect();
        server.stop_threads();
        client.send(requests.as_bytes());
        other.send(b"shutdown\r\n");
        server.signal("CONT");
        let mut text = String::new();
        client.stream.read_to_string(&mut text).expect("it ends");
        assert_eq!(text.matches(" kk").count(), KEYS, "round {round}: {text}");
        found += text.matches("VA ").count();
        assert!(server.wait().success());
        // Items on flash still are there, and nothing is in memory.
        server = start(&folder, &options);
    }
    assert!(found > 0);
}

#[test]
fn without_flash_nothing_reads_it() {
    let server = Server::start(&[]);
    assert_eq!(flash_reads_by(&mut server.connect()), "none");
}
