//! The memory file: a clean stop and the start after it bring back the items in memory; after a
//! kill nothing comes back, and nothing old ever does. And the files that are refused.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};

use tempfile::TempDir;

use crate::common::{Client, Server};

const ITEMS: usize = 5000;

struct Place {
    _folder: TempDir,
    file: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("memory");
        Self { _folder: folder, file }
    }

    fn name(&self) -> &str {
        self.file.to_str().expect("text")
    }

    fn temporary(&self) -> PathBuf {
        self.file.with_extension("tmp")
    }

    fn start(&self, options: &[&str]) -> Server {
        Server::start(&[&["-m", "64", "-e", self.name()], options].concat())
    }

    /// A start that ends by itself.
    fn try_start(&self, options: &[&str]) -> Output {
        let arguments = [&["-p", "0", "-m", "64", "-e", self.name()], options].concat();
        let output = Command::new(env!("CARGO_BIN_EXE_larder")).args(arguments).output();
        output.expect("it runs")
    }

    /// The error of such a start.
    fn refusal(&self, options: &[&str]) -> String {
        let output = self.try_start(options);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("text")
    }
}

fn stop(server: Server, signal: &str) {
    assert!(end(server, signal).success());
}

fn end(mut server: Server, signal: &str) -> ExitStatus {
    server.signal(signal);
    server.wait()
}

fn kill(mut server: Server) {
    server.signal("KILL");
    server.wait();
}

/// Values of a few bytes to some kilobytes; every thousandth is in several chunks.
fn value(number: usize, version: usize) -> String {
    let repeats = if number.is_multiple_of(1000) { 20_000 } else { 1 + number % 300 };
    format!("{number}.{version}, ").repeat(repeats)
}

fn store_all(client: &mut Client, version: usize) {
    for number in 0..ITEMS {
        let (value, ttl) = (value(number, version), if number % 2 == 0 { 0 } else { 100_000 });
        let line = format!("set key-{number} {number} {ttl} {}\r\n{value}\r\n", value.len());
        client.ask(&line, "STORED\r\n");
    }
}

fn unique(client: &mut Client, key: &str) -> u64 {
    client.send(format!("mg {key} c\r\n").as_bytes());
    let line = client.read_to("\r\n");
    let unique = line.trim_end().strip_prefix("HD c").expect("it is there");
    unique.parse().expect("a number")
}

#[test]
fn memory_is_back_after_a_clean_stop_and_the_file_is_gone() {
    for signal in ["TERM", "INT", "USR1"] {
        let place = Place::new();
        let server = place.start(&[]);
        assert!(!place.file.exists(), "a first start finds nothing");
        let mut client = server.connect();
        store_all(&mut client, 1);
        client.ask("delete key-17\r\n", "DELETED\r\n");
        let before = unique(&mut client, "key-18");
        stop(server, signal);
        assert!(place.file.exists() && !place.temporary().exists());
        let server = place.start(&[]);
        assert_eq!(server.stat("restored_items"), ITEMS as u64 - 1);
        assert!(!place.file.exists(), "whatever happens from now on, it cannot be read again");
        assert_eq!(server.stat("restored_lost"), 0);
        let mut client = server.connect();
        assert_eq!(unique(&mut client, "key-18"), before);
        for number in (0..ITEMS).filter(|&number| number != 17) {
            let value = value(number, 1);
            client.ask(
                &format!("get key-{number}\r\n"),
                &format!("VALUE key-{number} {number} {}\r\n{value}\r\nEND\r\n", value.len()),
            );
        }
        client.ask("mg key-17 v\r\n", "EN\r\n");
        client.ask("set newer 0 0 1\r\nx\r\n", "STORED\r\n");
        assert!(unique(&mut client, "newer") > before);
        client.send(b"stats settings\r\n");
        let settings = client.read_to("END\r\n");
        assert!(settings.contains(&format!("STAT memory_file {}\r\n", place.name())));
    }
}

/// No client is answered while it restores, and into little memory that takes long.
#[test]
fn a_start_says_that_it_restores_before_it_does() {
    let place = Place::new();
    let server = place.start(&[]);
    store_all(&mut server.connect(), 1);
    stop(server, "TERM");
    let (mut log, its_log) = UnixStream::pair().expect("a pair of sockets");
    let bytes = place.file.metadata().expect("it is there").len();
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["-p", "0", "-m", "64", "-e", place.name()]);
    let server = Server::start_by(command.stderr(OwnedFd::from(its_log)));
    drop(command);
    kill(server);
    let mut said = String::new();
    log.read_to_string(&mut said).expect("it has ended");
    let begins = format!("larder: restoring {bytes} bytes from the memory file before listening\n");
    let (_, behind) = said.split_once(&begins).expect("it says so");
    assert!(behind.starts_with(&format!("larder: restored {ITEMS} items")), "{said}");
}

#[test]
fn after_a_kill_nothing_old_comes_back() {
    let place = Place::new();
    let server = place.start(&[]);
    store_all(&mut server.connect(), 1);
    stop(server, "TERM");
    let server = place.start(&[]);
    // The file's values become old here.
    store_all(&mut server.connect(), 2);
    kill(server);
    let server = place.start(&[]);
    assert_eq!(server.stat("curr_items"), 0);
    store_all(&mut server.connect(), 3);
    stop(server, "TERM");
    let server = place.start(&[]);
    let mut client = server.connect();
    let value = value(4, 3);
    client.ask("get key-4\r\n", &format!("VALUE key-4 4 {}\r\n{value}\r\nEND\r\n", value.len()));
}

#[test]
fn a_start_that_fails_before_it_serves_leaves_the_file_to_the_next() {
    let place = Place::new();
    let server = place.start(&[]);
    store_all(&mut server.connect(), 1);
    stop(server, "TERM");
    let text = place.refusal(&["-P", "/nowhere/at/all"]);
    assert!(text.contains("cannot write /nowhere/at/all"), "{text}");
    let server = place.start(&[]);
    assert_eq!(server.stat("curr_items"), ITEMS as u64);
}

#[test]
fn a_foreign_file_is_refused_and_stays() {
    for content in [&b"#!/bin/sh\n"[..], b"LARDERIM\x03\0\0\0 and more", b"LARDERIM"] {
        let place = Place::new();
        fs::write(&place.file, content).expect("writable");
        let padded = [content, &[0; 100]].concat();
        fs::write(&place.file, &padded).expect("writable");
        let text = place.refusal(&[]);
        assert!(text.contains("cannot use") && text.contains("remove it"), "{text}");
        assert_eq!(fs::read(&place.file).expect("readable"), padded);
    }
    let place = Place::new();
    fs::write(place.temporary(), "precious").expect("writable");
    let text = place.refusal(&[]);
    assert!(text.contains("memory.tmp") && text.contains("another file"), "{text}");
    assert_eq!(fs::read(place.temporary()).expect("readable"), b"precious");
    fs::remove_file(place.temporary()).expect("it is there");
    fs::create_dir(&place.file).expect("writable");
    assert!(place.refusal(&[]).contains("not a regular file"));
}

#[test]
fn a_file_that_was_there_before_is_kept_from_other_users() {
    let place = Place::new();
    let left = fs::File::create(place.temporary()).expect("writable");
    left.set_permissions(PermissionsExt::from_mode(0o644)).expect("ours");
    let server = place.start(&[]);
    store_all(&mut server.connect(), 1);
    stop(server, "TERM");
    assert_eq!(fs::metadata(&place.file).expect("saved").mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_appears_meanwhile_is_not_overwritten() {
    let place = Place::new();
    let server = place.start(&[]);
    store_all(&mut server.connect(), 1);
    fs::write(&place.file, "precious").expect("writable");
    assert!(!end(server, "TERM").success(), "what was in memory is not where it should be");
    assert_eq!(fs::read(&place.file).expect("readable"), b"precious");
    // It stays until there is room for it, whatever starts are tried meanwhile.
    for _ in 0..2 {
        assert!(place.refusal(&[]).contains("is left unchanged"));
    }
    fs::remove_file(&place.file).expect("it is there");
    assert_eq!(place.start(&[]).stat("curr_items"), ITEMS as u64);
}

/// Regression: a server that was killed while saving, as by a container's ten seconds, lost all of
/// it, though the most valuable items had been written, and none had served since.
#[test]
fn an_image_written_before_a_kill_is_read() {
    let place = Place::new();
    let server = place.start(&[]);
    store_all(&mut server.connect(), 1);
    stop(server, "TERM");
    let saved = fs::read(&place.file).expect("it is there");
    fs::remove_file(&place.file).expect("it is there");
    let half = (saved.len() / 2, ITEMS / 5..=ITEMS - 1);
    for (bytes, wanted) in [(saved.len(), ITEMS..=ITEMS), half, (40, 0..=0), (1, 0..=0)] {
        fs::write(place.temporary(), &saved[..bytes]).expect("writable");
        // A start that does not come to serve leaves it to the next.
        assert!(place.refusal(&["-P", "/dev/full"]).contains("--pidfile"));
        let server = place.start(&[]);
        let found = server.stat("curr_items") as usize;
        assert!(wanted.contains(&found), "{found} of {bytes} bytes");
        assert!(!place.file.exists());
        assert_eq!(fs::metadata(place.temporary()).expect("it is there").len(), 0);
        // And once a server has served, nothing of it comes back.
        kill(server);
        assert_eq!(place.start(&[]).stat("curr_items"), 0);
    }
}

/// Regression: a server that saves to the name which another one writes to had its saved items
/// emptied by that; and zeros, as after a crash of the machine, counted as foreign at every later
/// start.
#[test]
fn the_temporary_name_of_another_memory_file_is_refused() {
    let place = Place::new();
    let text = place.refusal(&["-e", place.temporary().to_str().expect("text")]);
    assert!(text.contains("must not end in .tmp"), "{text}");
    fs::write(place.temporary(), [0; 10_000]).expect("writable");
    assert_eq!(place.start(&[]).stat("curr_items"), 0);
}

#[test]
fn a_second_server_with_the_same_file_is_refused() {
    let place = Place::new();
    let server = place.start(&[]);
    store_all(&mut server.connect(), 1);
    let text = place.refusal(&[]);
    assert!(text.contains("another server uses"), "{text}");
    stop(server, "TERM");
    assert_eq!(place.start(&[]).stat("curr_items"), ITEMS as u64);
}

#[test]
fn a_server_started_during_a_save_waits_for_the_image() {
    let place = Place::new();
    let mut old = place.start(&[]);
    store_all(&mut old.connect(), 1);
    old.signal("TERM");
    assert_eq!(place.start(&[]).stat("curr_items"), ITEMS as u64);
    assert!(old.wait().success());
}

/// Regression: a sweep of the folder took everything in memory with it: it was written, and then
/// not found by its name.
#[test]
fn saving_does_not_depend_on_a_name_that_was_removed() {
    let place = Place::new();
    let server = place.start(&[]);
    store_all(&mut server.connect(), 1);
    fs::remove_file(place.temporary()).expect("it is there");
    stop(server, "TERM");
    assert!(place.file.exists() && !place.temporary().exists());
    assert_eq!(place.start(&[]).stat("curr_items"), ITEMS as u64);
}

/// Regression: the first server renamed the file of the second to FILE, empty as it was, and said
/// that all was saved; the second could save nothing then.
#[test]
fn a_file_made_by_another_server_is_not_renamed() {
    let place = Place::new();
    let (first, mut log) = Server::start_logged(&["-m", "64", "-e", place.name()]);
    first.connect().ask("set a 0 0 5\r\nfirst\r\n", "STORED\r\n");
    fs::remove_file(place.temporary()).expect("it is there");
    let second = place.start(&[]);
    second.connect().ask("set a 0 0 6\r\nsecond\r\n", "STORED\r\n");
    assert!(!end(first, "TERM").success(), "it cannot save");
    let mut text = String::new();
    log.read_to_string(&mut text).expect("it has ended");
    assert!(text.contains("now belongs to another server"), "{text}");
    assert!(!place.file.exists() && place.temporary().exists());
    stop(second, "TERM");
    let third = place.start(&[]);
    third.connect().ask("get a\r\n", "VALUE a 0 6\r\nsecond\r\nEND\r\n");
    // The second server's image is not overwritten either, once it has ended.
    fs::remove_file(place.temporary()).expect("it is there");
    let fourth = place.start(&[]);
    fourth.connect().ask("set a 0 0 6\r\nfourth\r\n", "STORED\r\n");
    stop(fourth, "TERM");
    assert!(!end(third, "TERM").success(), "it cannot save");
    let fifth = place.start(&[]);
    fifth.connect().ask("get a\r\n", "VALUE a 0 6\r\nfourth\r\nEND\r\n");
}

/// Regression: SIGHUP ended a server that did not serve yet, as it does a process without a
/// handler; and the first process of a container would not have ended at SIGTERM.
#[test]
fn signals_during_the_start_are_heard() {
    let place = Place::new();
    let server = place.start(&[]);
    store_all(&mut server.connect(), 1);
    stop(server, "TERM");
    for (signal, ends) in [("TERM", true), ("INT", true), ("HUP", false)] {
        // The holder of this lock keeps the start waiting.
        let lock = fs::File::create(place.temporary()).expect("writable");
        lock.lock().expect("nobody has it");
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(["-p", "0", "-m", "64", "-e", place.name()]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let waits = || {
            let open = fs::read_dir(format!("/proc/{}/fd", child.id())).expect("it runs");
            let mut open = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
            open.any(|path| path == place.temporary())
        };
        while !waits() {
            std::thread::yield_now();
        }
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().expect("kill").success());
        if ends {
            assert!(child.wait().expect("its end").success());
            assert!(place.file.exists(), "it is left to the next start");
            continue;
        }
        drop(lock);
        let mut line = String::new();
        output.read_line(&mut line).expect("it says where it listens");
        let address = line.trim().strip_prefix("listening on tcp:").expect("it goes on to serve");
        let address = address.parse().expect("an address");
        assert_eq!(Client::connect(address).stat("curr_items"), ITEMS as u64);
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().expect("kill").success());
        assert!(child.wait().expect("its end").success());
    }
}

#[test]
fn a_folder_that_is_not_there_is_refused_at_the_start_and_flash_too() {
    let mut place = Place::new();
    let text = {
        let flash = format!("{}:64m", place.file.with_extension("flash").display());
        place.refusal(&["--flash", &flash])
    };
    assert!(text.contains("saves memory to flash"), "{text}");
    place.file = place.file.join("nowhere");
    let text = place.refusal(&[]);
    assert!(text.contains("cannot use") && text.contains("No such file"), "{text}");
}

#[test]
fn nothing_is_saved_if_that_is_not_wanted() {
    for name in ["--save-seconds", "--flash-save-seconds"] {
        let place = Place::new();
        let server = place.start(&[name, "0"]);
        store_all(&mut server.connect(), 1);
        stop(server, "TERM");
        assert!(!place.file.exists() && !place.temporary().exists());
    }
}

#[test]
fn a_damaged_file_gives_what_is_left_of_it() {
    let place = Place::new();
    let server = place.start(&[]);
    store_all(&mut server.connect(), 1);
    stop(server, "TERM");
    let mut bytes = fs::read(&place.file).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&place.file, &bytes).expect("writable");
    let server = place.start(&[]);
    let (restored, lost) = (server.stat("restored_items"), server.stat("restored_lost"));
    assert!(lost > 0 && restored > 0 && restored + lost == ITEMS as u64, "{restored}, {lost}");
    assert_eq!(server.stat("curr_items"), restored);
    assert_eq!(server.stat("restored_whole"), 0);
}

/// Regression: items behind the end counted as none: nothing was lost, and a fifth was missing.
#[test]
fn a_file_that_was_cut_off_is_not_whole() {
    let place = Place::new();
    let server = place.start(&[]);
    store_all(&mut server.connect(), 1);
    stop(server, "TERM");
    let server = place.start(&[]);
    assert_eq!(server.stat("restored_whole"), 1);
    stop(server, "TERM");
    let bytes = fs::read(&place.file).expect("readable");
    fs::write(&place.file, &bytes[..bytes.len() / 2]).expect("writable");
    let server = place.start(&[]);
    assert_eq!((server.stat("restored_lost"), server.stat("restored_whole")), (0, 0));
}

/// Regression: they counted as restored, and none as one that did not fit.
#[test]
fn items_evicted_again_in_less_memory_are_counted_and_logged() {
    let place = Place::new();
    let start = |memory: &str| {
        Server::start_logged(&["-m", memory, "-e", place.name(), "--compressed", "off"])
    };
    let (server, _log) = start("16");
    let mut client = server.connect();
    for number in 0..10_000 {
        let line = format!("set key-{number} 0 0 1000 noreply\r\n{number:01000}\r\n");
        client.send(line.as_bytes());
    }
    client.ask("mn\r\n", "MN\r\n");
    assert_eq!(client.stat("evictions"), 0);
    stop(server, "TERM");
    let (server, mut log) = start("8");
    let [restored, evicted, items] =
        ["restored_items", "restored_evicted", "curr_items"].map(|name| server.stat(name));
    assert!(restored == 10_000 && evicted > 1000, "{restored} came, {evicted} went");
    // Afterwards the background makes room for new items.
    assert!(items <= restored - evicted && server.stat("evictions") >= evicted, "{items} stay");
    let mut line = String::new();
    while !line.contains("restored 10000 items") {
        line.clear();
        assert!(log.read_line(&mut line).expect("it says more") > 0);
    }
    assert!(
        line.contains(&format!("0 did not fit, {evicted} were evicted again for others, 0 were"))
    );
}

/// Regression: a file of users, or a folder, named by mistake got an empty neighbour at each try.
#[test]
fn a_start_that_is_refused_leaves_no_file() {
    let place = Place::new();
    let folder = place.file.with_extension("folder");
    fs::create_dir(&folder).expect("a folder");
    fs::write(&place.file, "bob:secret\n").expect("a file");
    let names = || {
        let entries = fs::read_dir(folder.parent().expect("it has one")).expect("readable");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("readable").file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    assert!(place.refusal(&[]).contains("is left unchanged"));
    let folder = ["-e", folder.to_str().expect("text")];
    assert!(place.refusal(&folder).contains("not a regular file"));
    assert_eq!(place.try_start(&folder).status.code(), Some(65), "it does not go away");
    fs::remove_file(&place.file).expect("it is there");
    assert!(place.refusal(&["-P", "/dev/full"]).contains("--pidfile"));
    assert_eq!(names(), before[1..]);
    // A foreign file stays.
    fs::write(place.temporary(), "bob:secret\n").expect("a file");
    assert!(place.refusal(&[]).contains("is left unchanged"));
    assert_eq!(fs::read(place.temporary()).expect("it stays"), b"bob:secret\n");
}

/// Regression: a disk that was too small for all of it lost all of it. A limit on the length of
/// files ended the server by a signal.
#[test]
fn items_that_fit_on_the_disk_are_saved() {
    let place = Place::new();
    // A limit on the length of the file stands for a full disk. `-e` writes nothing else.
    let start = |kib: u32| {
        let mut command = Command::new("sh");
        let limit = format!("ulimit -f {}; exec \"$@\"", kib * 2);
        command.args(["-c", &limit, "sh", env!("CARGO_BIN_EXE_larder"), "-p", "0", "-m", "64"]);
        Server::start_by(command.args(["-e", place.name()]))
    };
    let server = start(4096);
    let mut client = server.connect();
    let mut state = 1_u64;
    for number in 0..8000 {
        // Values that do not get shorter.
        let value: String = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
            char::from(b'!' + (state >> 33) as u8 % 90)
        })
        .take(1000)
        .collect();
        client.ask(&format!("set key-{number} 0 0 1000\r\n{value}\r\n"), "STORED\r\n");
    }
    assert!(!end(server, "TERM").success(), "not all is saved");
    assert!(!place.temporary().exists());
    let server = place.start(&[]);
    let restored = server.stat("restored_items");
    assert!(restored > 3000 && restored < 8000, "{restored}");
    // A file shorter than any image is none, which no start refuses.
    kill(server);
    let server = start(0);
    server.connect().ask("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    assert!(!end(server, "TERM").success());
    assert!(!place.file.exists() && !place.temporary().exists());
}
