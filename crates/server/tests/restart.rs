//! A clean stop and the start after it: with a flash tier, the items in memory are there again. And
//! the start that is refused because there is too much flash for the memory.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;

use io::device::FileDevice;
use larder::FlashSettings;
use tempfile::TempDir;

use crate::common::{Client, Server};

const ITEMS: usize = 5000;

/// A server with a flash tier in this folder.
fn start(folder: &TempDir, options: &[&str]) -> Server {
    let flash = format!("{}:64m", folder.path().join("flash").display());
    let server = Server::start(&[&["-m", "64", "--flash", &flash], options].concat());
    while flash_stat(&mut server.connect(), "recovering") > 0 {
        std::thread::yield_now();
    }
    server
}

/// Ends a server as its supervisor does.
fn stop(mut server: Server, signal: &str) {
    server.signal(signal);
    assert!(server.wait().success());
}

fn flash_stat(client: &mut Client, name: &str) -> u64 {
    client.send(b"stats flash\r\n");
    let text = client.read_to("END\r\n");
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

/// Values of a few bytes to some kilobytes.
fn value(number: usize) -> String {
    format!("{number}, ").repeat(1 + number % 300)
}

fn store_all(client: &mut Client) {
    for number in 0..ITEMS {
        let (value, ttl) = (value(number), if number % 2 == 0 { 0 } else { 100_000 });
        let line = format!("set key-{number} {number} {ttl} {}\r\n{value}\r\n", value.len());
        client.ask(&line, "STORED\r\n");
    }
}

#[test]
fn items_in_memory_are_there_after_a_clean_stop() {
    for signal in ["TERM", "INT"] {
        let folder = tempfile::tempdir().expect("a folder for the device");
        let server = start(&folder, &[]);
        let mut client = server.connect();
        store_all(&mut client);
        client.ask("delete key-17\r\n", "DELETED\r\n");
        stop(server, signal);
        let server = start(&folder, &[]);
        assert_eq!(server.stat("curr_items"), ITEMS as u64 - 1);
        let mut client = server.connect();
        for number in (0..ITEMS).filter(|&number| number != 17) {
            let value = value(number);
            client.ask(
                &format!("get key-{number}\r\n"),
                &format!("VALUE key-{number} {number} {}\r\n{value}\r\nEND\r\n", value.len()),
            );
            client.send(format!("mg key-{number} t\r\n").as_bytes());
            let line = client.read_to("\r\n");
            let expires = line.trim_end().strip_prefix("HD t").expect("it is there");
            let seconds: i64 = expires.parse().expect("a number");
            let is_right = if number % 2 == 0 { -1..=-1 } else { 99_000..=100_000 };
            assert!(is_right.contains(&seconds), "{number}: {line}");
        }
        client.ask("mg key-17 v\r\n", "EN\r\n");
    }
}

/// Regression: the tier was left open: when the machine restarted after that, it was taken for one
/// that lost power, and was void.
#[test]
fn a_start_that_fails_leaves_the_tier_as_a_clean_stop_does() {
    let folder = tempfile::tempdir().expect("a folder for the device");
    let server = start(&folder, &[]);
    store_all(&mut server.connect());
    stop(server, "TERM");
    let path = folder.path().join("flash");
    let flash = format!("{}:64m", path.display());
    let options = ["-p", "0", "-m", "64", "--flash", &flash, "-P", "/dev/full"];
    let ended = Command::new(env!("CARGO_BIN_EXE_larder")).args(options).output();
    let ended = ended.expect("it runs");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("cannot write /dev/full"), "{ended:?}");
    let (device, _) = FileDevice::open(&path, 64 << 20).expect("nobody has it");
    let settings = FlashSettings::new(Arc::new(device), *b"another boot id.");
    let cache = larder::Cache::builder().memory_bytes(64 << 20).flash(settings).build();
    let cache = cache.expect("it fits");
    assert_eq!(cache.flash_empty(), None);
    while cache.maintain() {}
    assert!(cache.stats().items > ITEMS as u64 / 2, "{}", cache.stats().items);
}

#[test]
fn items_on_flash_are_listed_and_described_and_stay_there() {
    let folder = tempfile::tempdir().expect("a folder for the device");
    let server = start(&folder, &[]);
    store_all(&mut server.connect());
    stop(server, "TERM");
    let server = start(&folder, &[]);
    let mut client = server.connect();
    assert_eq!(flash_stat(&mut client, "items"), ITEMS as u64);
    client.ask("delete key-5\r\n", "DELETED\r\n");
    client.send(b"me key-6\r\nme key-5\r\nmn\r\n");
    let text = client.read_to("MN\r\n");
    let size = "key-6".len() + value(6).len();
    let fetched = "exp=-1 la=0 cas=0 fetch=no cls=0";
    assert_eq!(text, format!("ME key-6 {fetched} size={size}\r\nEN\r\nMN\r\n"));
    for _ in 0..2 {
        client.send(b"lru_crawler metadump all\r\n");
        let text = client.read_to("END\r\n");
        let names = text.lines().filter_map(|line| line.strip_prefix("key=")?.split_once(' '));
        let mut names: Vec<_> = names.map(|(name, _)| name.to_owned()).collect();
        names.sort_unstable();
        let mut wanted: Vec<_> =
            (0..ITEMS).filter(|it| *it != 5).map(|it| format!("key-{it}")).collect();
        wanted.sort_unstable();
        assert!(names == wanted, "{} lines", names.len());
        assert!(text.contains(&format!("key=key-6 {}", fetched.split(" la").next().unwrap_or(""))));
    }
    assert_eq!(flash_stat(&mut client, "hits"), 0, "none of it counts as a read");
    assert_eq!(flash_stat(&mut client, "promoted"), 0);
    assert!(flash_stat(&mut client, "reads") > 3, "it was read from the device");
    assert_eq!(flash_stat(&mut client, "fetch_bytes"), 0);
}

/// A hundred kilobytes that hardly compress: a unit of many pages.
fn long_value(number: u32) -> String {
    let mut random = u64::from(number) + 1;
    let mut draw = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        char::from(b'!' + (random >> 40) as u8 % 90)
    };
    (0..100_000).map(|_| draw()).collect()
}

/// Regression: reads for a client were kept until it took its replies, and all reads together have
/// a limit of memory, so that a client that never reads could block them for all others.
#[test]
fn clients_that_never_read_do_not_keep_others_from_flash() {
    let folder = tempfile::tempdir().expect("a folder for the device");
    let server = start(&folder, &[]);
    let mut client = server.connect();
    for number in 0..80 {
        let value = long_value(number);
        client.ask(&format!("set k{number} 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    }
    stop(server, "TERM");
    let server = start(&folder, &[]);
    let line: String = (0..80).map(|number| format!(" k{number}")).collect();
    let mut silent = Vec::new();
    for _ in 0..20 {
        let mut other = server.connect();
        other.send(format!("get{line}\r\n").repeat(3).as_bytes());
        silent.push(other);
    }
    let mut client = server.connect();
    for number in (0..80).rev() {
        let value = long_value(number);
        let answer = format!("VALUE k{number} 0 {}\r\n{value}\r\nEND\r\n", value.len());
        client.ask(&format!("get k{number}\r\n"), &answer);
    }
    let most = flash_stat(&mut client, "fetch_bytes_max");
    let peak = flash_stat(&mut client, "fetch_bytes_peak");
    assert!(peak > 0 && peak <= most, "{peak} of {most}");
    assert!(flash_stat(&mut client, "reads") > 80);
}

#[test]
fn nothing_is_saved_with_flash_save_seconds_0() {
    let folder = tempfile::tempdir().expect("a folder for the device");
    let server = start(&folder, &["--flash-save-seconds", "0"]);
    store_all(&mut server.connect());
    stop(server, "TERM");
    let server = start(&folder, &[]);
    assert!(server.stat("curr_items") < ITEMS as u64 / 100);
}

#[test]
fn the_log_says_what_was_found_on_flash() {
    let folder = tempfile::tempdir().expect("a folder for the device");
    let server = start(&folder, &[]);
    store_all(&mut server.connect());
    stop(server, "TERM");
    let flash = format!("{}:64m", folder.path().join("flash").display());
    let (_server, mut log) = Server::start_logged(&["-m", "64", "--flash", &flash]);
    let (mut line, mut says_its_age) = (String::new(), false);
    while !line.contains("found") {
        line.clear();
        log.read_line(&mut line).expect("it says what it found");
        says_its_age |= line.contains("flash was in use until ");
    }
    assert!(says_its_age);
    assert!(line.starts_with(&format!("larder: found {ITEMS} items on flash, ")), "{line}");
}

/// Regression: on a file system that has become read-only, deletions cannot be recorded. The server
/// ended as if all were well, and the next start brought the items back.
#[test]
fn a_server_whose_flash_takes_no_writes_says_so_when_it_ends() {
    let folder = tempfile::tempdir().expect("a folder for the device");
    let server = start(&folder, &[]);
    store_all(&mut server.connect());
    stop(server, "TERM");
    let flash = format!("{}:64m", folder.path().join("flash").display());
    let (log, its_log) = UnixStream::pair().expect("a pair of sockets");
    // A file may not be written where the limit of its size is, if the signal is ignored.
    let script = "trap '' XFSZ; exec \"$0\" -p 0 -m 64 --flash \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_larder"), &flash]);
    let mut server = Server::start_by(command.stderr(OwnedFd::from(its_log)));
    drop(command);
    let mut client = server.connect();
    while flash_stat(&mut client, "recovering") > 0 {
        std::thread::yield_now();
    }
    let mut limit = Command::new("prlimit");
    let limited = limit.args(["--fsize=0", "--pid", &server.id().to_string()]).status();
    assert!(limited.expect("prlimit runs").success());
    client.ask("delete key-17\r\n", "DELETED\r\n");
    assert_eq!(flash_stat(&mut client, "unsound"), 1);
    server.signal("TERM");
    assert!(!server.wait().success());
    let mut text = String::new();
    BufReader::new(log).read_to_string(&mut text).expect("it has ended");
    assert!(text.contains("remove the file") && text.contains(&flash[..flash.len() - 4]), "{text}");
}

/// Regression: it logged how many items it had saved, and nothing was there.
#[test]
fn a_server_whose_flash_was_deleted_says_so_when_it_ends() {
    let folder = tempfile::tempdir().expect("a folder for the device");
    let path = folder.path().join("flash");
    let flash = format!("{}:64m", path.display());
    let (mut server, mut log) = Server::start_logged(&["-m", "64", "--flash", &flash]);
    store_all(&mut server.connect());
    fs::remove_file(&path).expect("it is there");
    server.signal("TERM");
    assert!(!server.wait().success());
    let mut text = String::new();
    log.read_to_string(&mut text).expect("it has ended");
    assert!(text.contains("was deleted") && !text.contains("saved"), "{text}");
}

#[test]
fn a_file_for_flash_that_was_there_before_is_kept_from_other_users() {
    let folder = tempfile::tempdir().expect("a folder for the device");
    let path = folder.path().join("flash");
    for is_new in [true, false] {
        let file = fs::File::options().create(true).append(true).open(&path).expect("ours");
        file.set_permissions(PermissionsExt::from_mode(0o644)).expect("ours");
        stop(start(&folder, &[]), "TERM");
        let found = fs::metadata(&path).expect("it is there");
        assert_eq!(found.mode() & 0o777, 0o600, "{is_new}");
    }
}

#[test]
fn flash_that_memory_cannot_index_is_refused_before_its_file_is_made() {
    let folder = tempfile::tempdir().expect("a folder for the device");
    let path = folder.path().join("flash");
    let try_start = |memory: &str, flash_mib: u64, index: &str| {
        let flash = format!("{}:{flash_mib}m", path.display());
        let arguments = ["-p", "0", "-m", memory, "--index", index, "--flash", &flash];
        let output = Command::new(env!("CARGO_BIN_EXE_larder")).args(arguments).output();
        let output = output.expect("it runs");
        assert!(!output.status.success() && !path.exists());
        String::from_utf8(output.stderr).expect("text")
    };
    let text = try_start("64", 2 << 20, "cuckoo");
    for part in ["2097152 MiB of flash hold", "9 bytes for each", "half of the 64 MiB", "at most"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let least = text.trim_end().rsplit_once(" MiB of memory at least").expect("the least").0;
    let least: u64 = least.rsplit(' ').next().and_then(|it| it.parse().ok()).expect("a number");
    assert!((8000..10_000).contains(&least), "{text}");
    let text = try_start("64", 2 << 20, "tree");
    assert!(text.contains("19 bytes for each"), "{text}");
    assert!(try_start("8", 1024, "cuckoo").contains("may take a quarter of the 8 MiB"));
}
