//! How a server reads from flash: as it was asked to or as the kernel allows, also in the
//! background, and it says which.

mod common;

use std::path::Path;

use common::{Client, Server};
use io::device::{FileDevice, PAGE_BYTES, ReadMethod, ReadPool};
use tempfile::TempDir;

/// Several times what the memory holds.
const ITEMS: usize = 60_000;

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
    let word = |part: usize| format!("{:x}", (number * 64 + part).wrapping_mul(0x9e37_79b9_7f4a));
    (0..40).map(word).collect()
}

/// Stores items, and reads them all; returns how many were found. Each has its value.
fn store_and_find(client: &mut Client) -> usize {
    for number in 0..ITEMS {
        let (value, length) = (value(number), value(number).len());
        client.send(format!("ms k{number} {length} q\r\n{value}\r\n").as_bytes());
        client.send(format!("mg k{number} q\r\n").as_bytes());
        if number.is_multiple_of(100) {
            client.send(b"mn\r\n");
            client.read_to("MN\r\n");
        }
    }
    client.send(b"mn\r\n");
    client.read_to("MN\r\n");
    let find = |number: &usize| {
        client.send(format!("mg k{number} v\r\n").as_bytes());
        let text = client.read_to("\r\n");
        if text == "EN\r\n" {
            return false;
        }
        let value = value(*number);
        let rest = text.strip_prefix(&format!("VA {}\r\n", value.len())).expect("a value");
        let rest = if rest.is_empty() { client.read_to("\r\n") } else { rest.to_owned() };
        assert_eq!(rest.trim_end(), value, "k{number}");
        true
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
        let found = store_and_find(&mut client);
        let hits = server.stat("get_extstore");
        assert!(hits > 1000 && found > 10_000, "{found} found, {hits} on flash");
        assert_eq!(server.stat("miss_from_extstore"), 0);
    }
}

#[test]
fn left_to_itself_it_takes_what_the_kernel_allows_also_in_the_background() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = refuses_io_uring(folder.path());
    let method = if refused { ReadMethod::Threads } else { ReadMethod::IoUring };
    let server = start(&folder, &["-d", "-A"]);
    let mut client = server.connect();
    assert_eq!(flash_reads_by(&mut client), method.name());
    assert!(store_and_find(&mut client) > 10_000);
    assert!(server.stat("get_extstore") > 1000);
    client.send(b"shutdown\r\n");
    client.expect_end();
}

#[test]
fn without_flash_nothing_reads_it() {
    let server = Server::start(&[]);
    assert_eq!(flash_reads_by(&mut server.connect()), "none");
}
