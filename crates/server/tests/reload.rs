//! SIGHUP: changes in a file of options are applied, or said to need a restart.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

use crate::common::{Client, PATIENCE, Server};
use crate::pages;

/// A server with a file of options, and its log.
struct Scene {
    server: Server,
    log: BufReader<UnixStream>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("larder.toml");
        fs::write(&path, text).expect("a file");
        let config = path.to_str().expect("UTF-8");
        let (server, log) = Server::start_logged(&["-t", "2", "--config", config]);
        // A server that answers has its signal handlers.
        server.connect().ask("mn\r\n", "MN\r\n");
        Self { server, log, path, _folder: folder }
    }

    /// Writes another text, and returns `lines` lines of the log after the signal.
    fn reload(&mut self, text: &str, lines: usize) -> Vec<String> {
        fs::write(&self.path, text).expect("a file");
        self.server.signal("HUP");
        let mut said = Vec::new();
        for _ in 0..lines {
            let mut line = String::new();
            self.log.read_line(&mut line).expect("it says something");
            said.push(line.trim_end().replace(self.path.to_str().expect("UTF-8"), "F"));
        }
        said
    }

    fn settings(&self) -> String {
        let mut client = self.server.connect();
        client.send(b"stats settings\r\n");
        client.read_to("END\r\n")
    }
}

#[test]
fn the_size_of_a_quota_changes_and_its_prefix_does_not() {
    let mut scene = Scene::new("quota = [\"a:=1m\", \"b:=10%\"]\n");
    let limits = |scene: &Scene| {
        let mut client = scene.server.connect();
        client.send(b"stats quotas\r\n");
        let stats = client.read_to("END\r\n");
        let limits = stats.lines().filter_map(|line| line.strip_prefix("STAT limit_bytes:"));
        limits.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(limits(&scene), ["a: 1048576", "b: 6710886"]);
    let said = scene.reload("quota = [\"a:=2m\", \"b:=20%\"]\n", 1);
    let now = "[\"a:=2m\", \"b:=20%\"]";
    assert_eq!(said, [format!("larder: SIGHUP: quota is now {now}, was [\"a:=1m\", \"b:=10%\"]")]);
    assert_eq!(limits(&scene), ["a: 2097152", "b: 13421772"]);
    let said = scene.reload("quota = [\"a:=2m\", \"c:=20%\"]\n", 1);
    let why = "which prefixes have a quota is said at the start";
    let text =
        format!("larder: SIGHUP: quota stays {now}, cannot be [\"a:=2m\", \"c:=20%\"]: {why}");
    assert_eq!(said, [text]);
    // A share refers to the memory as it is.
    scene.reload("memory-limit = 32\nquota = [\"a:=2m\", \"b:=20%\"]\n", 1);
    assert_eq!(limits(&scene), ["a: 2097152", "b: 6710886"]);
}

#[test]
fn changes_are_applied_or_wait_for_a_restart() {
    let mut scene = Scene::new("memory-limit = 64\n");
    let mut client = scene.server.connect();
    client.ask("shutdown\r\n", "SERVER_ERROR: shutdown not enabled\r\n");
    let text = "memory-limit = 32\nidle-timeout = 9\nconn-limit = 7\ndisable-flush-all = true\n\
                disable-dumping = true\ndisable-watch = true\nwatcher-logbuf-size = 1\n\
                save-seconds = 3\nmax-item-size = \"2m\"\nthreads = 9\npolicy = \"lru\"\n\
                disable-memlimit = true\n";
    let mut said = scene.reload(text, 11);
    said.sort();
    assert_eq!(
        said,
        [
            "larder: SIGHUP: conn-limit is now 7, was 1024",
            "larder: SIGHUP: disable-dumping is now true, was false",
            "larder: SIGHUP: disable-flush-all is now true, was false",
            "larder: SIGHUP: disable-memlimit is now true, was false",
            "larder: SIGHUP: disable-watch is now true, was false",
            "larder: SIGHUP: idle-timeout is now 9, was 0",
            "larder: SIGHUP: max-item-size stays \"1m\" until a restart, which sets \"2m\"",
            "larder: SIGHUP: memory-limit is now 32, was 64",
            "larder: SIGHUP: policy stays \"cost-clock\" until a restart, which sets \"lru\"",
            "larder: SIGHUP: save-seconds is now 3, was 60",
            "larder: SIGHUP: watcher-logbuf-size is now 1, was 256",
        ],
        "the threads are said by an argument, which goes before the file"
    );
    let settings = scene.settings();
    for line in [
        "maxbytes 33554432",
        "maxconns 7",
        "idle_timeout 9",
        "flush_enabled no",
        "dump_enabled no",
        "watch_enabled no",
        "memlimit_enabled no",
        "watcher_logbuf_size 1024",
        "item_size_max 1048576",
        "policy cost-clock",
    ] {
        assert!(settings.contains(&format!("STAT {line}\r\n")), "{line} in {settings}");
    }
    client.ask("flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n");
    client.ask("cache_memlimit 64\r\n", "CLIENT_ERROR cache_memlimit not allowed\r\n");
    assert_eq!(client.stat("limit_maxbytes"), 32 << 20);
    // A waiting change is logged again, an applied one is not.
    let again = scene.reload(text, 2);
    assert!(again.iter().all(|line| line.contains("until a restart")), "{again:?}");
    // Back to the running values: nothing waits any more.
    let back = text.replace("2m", "1m").replace("lru", "cost-clock");
    assert_eq!(scene.reload(&back, 1), ["larder: SIGHUP: nothing has changed in F"]);
    let said = scene.reload(&back.replace("save", "enable-shutdown = true\nsave"), 1);
    assert_eq!(said, ["larder: SIGHUP: enable-shutdown is now true, was false"]);
    client.send(b"shutdown\r\n");
    client.expect_end();
    assert!(scene.server.wait().success());
}

/// Regression: SIGHUP compared with the options it had applied last: an unchanged file left a
/// client's change in place, and a changed one was said to replace a value that was not in force
/// any more.
#[test]
fn a_clients_change_is_reset_to_the_file() {
    let mut scene = Scene::new("memory-limit = 128\n");
    let mut client = scene.server.connect();
    client.ask("cache_memlimit 32\r\nverbosity 1\r\n", "OK\r\nOK\r\n");
    let mut said = scene.reload("memory-limit = 128\n", 2);
    said.sort();
    assert_eq!(
        said,
        [
            "larder: SIGHUP: memory-limit is now 128, was 32",
            "larder: SIGHUP: verbose is now 0, was 1",
        ]
    );
    assert_eq!(client.stat("limit_maxbytes"), 128 << 20);
    client.ask("cache_memlimit 32\r\n", "OK\r\n");
    let said = scene.reload("memory-limit = 48\n", 1);
    assert_eq!(said, ["larder: SIGHUP: memory-limit is now 48, was 32"]);
    client.ask("cache_memlimit 48\r\n", "OK\r\n");
    let said = scene.reload("memory-limit = 48\n", 1);
    assert_eq!(said, ["larder: SIGHUP: nothing has changed in F"]);
    assert_eq!(client.stat("limit_maxbytes"), 48 << 20);
}

/// Regression: the slabs of a large memory are large, and a cache keeps eight of them:
/// `limit_maxbytes` showed 8 MiB where twice as much was used.
#[test]
fn a_memory_limit_that_is_raised_is_shown_as_it_is() {
    let mut scene = Scene::new("memory-limit = 1024\n");
    let mut client = scene.server.connect();
    client.ask("cache_memlimit 8\r\n", "OK\r\n");
    assert_eq!(client.stat("limit_maxbytes"), 16 << 20);
    let mut line = String::new();
    scene.log.read_line(&mut line).expect("it says something");
    assert_eq!(line, "larder: a memory limit of 8 MiB is too small; it is 16384 KiB\n");
}

/// Regression: the page of metrics and Redis commands used the options of the start: a limit that
/// was lowered for the sake of an alert was not the one that the alert compared with, and FLUSHALL
/// and SCAN went on where flush_all and dumps were refused.
#[test]
fn changes_hold_for_the_admin_port_and_for_redis_clients() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("larder.toml");
    fs::write(&path, "").expect("a file");
    let config = path.to_str().expect("UTF-8");
    let (mut server, address) =
        Server::start_with_redis(&["--admin-port", "0", "--config", config]);
    let page = pages::of(&mut server);
    let text = "conn-limit = 70\nidle-timeout = 900\nmemory-limit = 32\n\
                disable-flush-all = true\ndisable-dumping = true\n";
    fs::write(&path, text).expect("a file");
    server.signal("HUP");
    let started = Instant::now();
    let mut client = server.connect();
    // The last that is applied.
    let mut is_applied = || {
        client.send(b"stats settings\r\n");
        client.read_to("END\r\n").contains("STAT idle_timeout 900\r\n")
    };
    while !is_applied() {
        assert!(started.elapsed() < PATIENCE);
    }
    let (_, _, metrics) = pages::get(page, "/metrics");
    for line in ["memcached_max_connections 70", "memcached_limit_bytes 33554432"] {
        assert!(metrics.lines().any(|known| known == line), "{line}: {metrics}");
    }
    let mut redis = Client::connect(address);
    for (name, value) in [("maxclients", "70"), ("timeout", "900"), ("maxmemory", "33554432")] {
        let answer = format!("${}\r\n{name}\r\n${}\r\n{value}\r\n", name.len(), value.len());
        redis.ask(&format!("config get {name}\r\n"), &format!("*2\r\n{answer}"));
    }
    redis.send(b"info clients\r\n");
    assert!(redis.read_to("blocked_clients:0\r\n\r\n").contains("maxclients:70\r\n"));
    for command in ["flushall", "scan 0"] {
        redis.send(format!("{command}\r\n").as_bytes());
        let answer = redis.read_to("\r\n");
        assert!(answer.contains("is not allowed"), "{command}: {answer}");
    }
}

#[test]
fn a_file_with_an_error_changes_nothing() {
    let mut scene = Scene::new("memory-limit = 64\n");
    let before = scene.settings();
    let nothing = "larder: SIGHUP: no option was changed, because of the errors above";
    assert_eq!(
        scene.reload("memory-limit = 32\nthreadz = 1\n", 2),
        ["larder: F:2:1: there is no option threadz; did you mean threads?", nothing]
    );
    assert_eq!(scene.reload("memory-limit = 32\nidle-timeout = \"x\"\nport = true", 3)[2], nothing);
    assert_eq!(scene.settings(), before);
    // One that is refused leaves the others alone, and is tried again.
    let refused = "larder: SIGHUP: memory-limit stays 64, cannot be 7: a server that serves \
                   keeps 8 or more";
    let said = scene.reload("memory-limit = 7\nverbose = 1\n", 2);
    assert_eq!(said, [refused, "larder: SIGHUP: verbose is now 1, was 0"]);
    assert_eq!(scene.reload("memory-limit = 7\nverbose = 1\n", 1), [refused]);
    // Regression: it was given in bytes, and not said that a restart helps.
    let said = scene.reload("memory-limit = \"1025g\"\nverbose = 1\n", 1).remove(0);
    let why = "stays 64, cannot be \"1025g\": it can be at most ";
    assert!(said.contains(why) && said.ends_with("; a restart takes more"), "{said}");
    fs::remove_file(&scene.path).expect("it was there");
    scene.server.signal("HUP");
    let mut line = String::new();
    scene.log.read_line(&mut line).expect("it says something");
    assert!(line.contains("cannot be read"), "{line}");
}

/// Regression: the log said that nothing had changed, and a user could log in who could not before.
#[test]
fn users_are_read_beside_a_file_with_an_error_and_the_log_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let [users, config] = ["users", "larder.toml"].map(|name| folder.path().join(name));
    let [users_path, config_path] = [&users, &config].map(|path| path.to_str().expect("UTF-8"));
    fs::write(&users, "bob:secret\n").expect("a file");
    fs::write(&config, "memory-limit = 64\n").expect("a file");
    let (server, mut log) = Server::start_logged(&["-Y", users_path, "--config", config_path]);
    let mut bob = server.connect();
    bob.ask("set a 0 0 10\r\nbob secret\r\n", "STORED\r\n");
    fs::write(&users, "bob:secret\neve:x\n").expect("a file");
    fs::write(&config, "threadz = 1\n").expect("a file");
    server.signal("HUP");
    let mut next_line = || {
        let mut line = String::new();
        log.read_line(&mut line).expect("it says something");
        line
    };
    assert_eq!(next_line(), "larder: SIGHUP: 2 users from now on\n");
    assert!(next_line().contains("there is no option threadz"));
    assert_eq!(next_line(), "larder: SIGHUP: no option was changed, because of the errors above\n");
    server.connect().ask("set a 0 0 5\r\neve x\r\n", "STORED\r\n");
}

#[test]
fn without_a_file_there_is_nothing_to_read() {
    let (server, mut log) = Server::start_logged(&[]);
    server.connect().ask("mn\r\n", "MN\r\n");
    server.signal("HUP");
    let mut line = String::new();
    log.read_line(&mut line).expect("it says something");
    assert_eq!(line, "larder: SIGHUP: no file to read again; set one with --config\n");
    server.connect().ask("mn\r\n", "MN\r\n");
}

/// Workers without a limit on silence sleep until an event, and must be woken.
#[test]
fn silent_connections_are_closed_once_there_is_a_timeout() {
    let mut scene = Scene::new("");
    let mut silent = scene.server.connect();
    silent.ask("mn\r\n", "MN\r\n");
    assert_eq!(scene.reload("idle-timeout = 1\n", 1).len(), 1);
    silent.expect_end();
    assert!(scene.server.stat("idle_kicks") >= 1);
}

#[test]
fn a_client_waiting_at_the_limit_is_admitted_when_it_rises() {
    let mut scene = Scene::new("conn-limit = 2\ndisable-maxconns-fast = true\n");
    let mut inside: Vec<_> = (0..2).map(|_| scene.server.connect()).collect();
    // The first may come back to a place that is not free yet: it is answered when it is.
    inside.iter_mut().for_each(|client| client.ask("mn\r\n", "MN\r\n"));
    let mut waiting = scene.server.connect();
    waiting.send(b"mn\r\n");
    scene.reload("conn-limit = 3\ndisable-maxconns-fast = true\n", 1);
    waiting.expect(b"MN\r\n");
    // Fewer than there are: those stay.
    scene.reload("conn-limit = 1\ndisable-maxconns-fast = true\n", 1);
    inside.iter_mut().for_each(|client| client.ask("mn\r\n", "MN\r\n"));
}

/// Regression: a limit was taken beside which the start would have refused the flash tier; then
/// each store was out of memory.
#[test]
fn a_limit_too_low_for_the_flash_tier_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let flash = format!("{}:400m", folder.path().join("flash").display());
    let options = |limit: u32| format!("memory-limit = {limit}\nflash = \"{flash}\"\n");
    let mut scene = Scene::new(&options(64));
    let mut client = scene.server.connect();
    let refused = "MEMLIMIT_TOO_SMALL the flash tier needs more memory\r\n";
    client.ask("cache_memlimit 8\r\ncache_memlimit 32\r\n", &format!("{refused}OK\r\n"));
    let said = scene.reload(&options(8), 1);
    assert!(said[0].contains("flash"), "{said:?}");
    assert!(scene.settings().contains("STAT maxbytes 33554432\r\n"));
}
