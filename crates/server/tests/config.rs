//! The program and its options: its input, its output, and how it ends.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::common::{PATIENCE, Server};

/// Runs the program to its end with these arguments and variables.
fn larder(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(arguments).envs(variables.iter().copied()).output().expect("it runs")
}

/// A file of options, and its path as an argument.
fn file(folder: &Path, text: &str) -> String {
    let path = folder.join("larder.toml");
    fs::write(&path, text).expect("a file");
    path.to_str().expect("UTF-8").to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn a_check_says_all_that_is_wrong_and_where() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), "port = 70000\nthreadz = 2\n");
    let output = larder(&["--check", "--config", &path], &[("LARDER_CONN_LIMIT", "none")]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(64), String::new()));
    let said = text(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "larder: LARDER_CONN_LIMIT takes connections from 1 to 1000000, not none",
            &format!("larder: {path}:1:8: port takes a port from 0 to 65535, not 70000"),
            &format!("larder: {path}:2:1: there is no option threadz; did you mean threads?"),
            "larder --help lists the options",
        ]
    );
    // The same without --check, which is how a service finds out.
    let output = larder(&["--config", &path], &[]);
    assert_eq!((output.status.code(), text(&output.stderr).lines().count()), (Some(64), 3));
}

#[test]
fn a_check_says_what_has_no_effect() {
    let arguments = ["--check", "-m", "1024", "-o", "hash_algorithm=murmur3,idle_timeout=60"];
    let output = larder(&arguments, &[("LARDER_MEMORYLIMIT", "7"), ("LARDER_PORT", "tcp://x:1")]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output.stdout),
        "-o hash_algorithm has no effect\nthe variable LARDER_MEMORYLIMIT is not an option; did \
         you mean LARDER_MEMORY_LIMIT?\nthe options are valid\n"
    );
}

/// Regression: a start said that it was more than the machine has, and a check that all was in
/// order.
#[test]
fn a_check_says_that_memory_exceeds_the_machine() {
    let said = text(&larder(&["--check", "-m", "2097152"], &[]).stdout);
    let begins = said.starts_with("-m 2097152 is more than the ");
    assert!(begins && said.ends_with("\nthe options are valid\n"), "{said}");
}

/// Regression: a log did not say what had started there, and nothing said how.
#[test]
fn a_server_says_at_its_start_and_when_asked_how_it_was_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let flash = format!("{}:64m", folder.path().join("flash").display());
    let path = file(folder.path(), "threads = 2\nadmin-port = 0\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    let (mut log, its_log) = UnixStream::pair().expect("a pair of sockets");
    command.args(["-p", "0", "--config", &path, "--flash", &flash]);
    let mut server = Server::start_by(command.stderr(OwnedFd::from(its_log)));
    drop(command);
    let mut client = server.connect();
    client.send(b"stats settings\r\n");
    let settings = client.read_to("END\r\n");
    let flash = flash.replace("64m", "67108864");
    for line in
        ["redis_port 0", "admin_port 0", &format!("flash {flash}"), &format!("config {path}")]
    {
        assert!(settings.contains(&format!("STAT {line}\r\n")), "{line}: {settings}");
    }
    server.signal("TERM");
    assert!(server.wait().success());
    let mut said = String::new();
    log.read_to_string(&mut said).expect("it has ended");
    let (place, _) = flash.rsplit_once(':').expect("a size");
    let first = format!(
        "larder: version {}, -m 64, -t 2, policy cost-clock, compressed auto, flash {place} of \
         67108864 bytes\n",
        env!("CARGO_PKG_VERSION")
    );
    assert!(said.starts_with(&first) && said.contains("larder: signal 15: stopping\n"), "{said}");
}

#[test]
fn refusals_name_the_option_and_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let flash = folder.path().join("flash");
    let place = |size: &str| format!("{}:{size}", flash.display());
    let ends = |arguments: &[&str]| {
        let output = larder(&[&["-p", "0"], arguments].concat(), &[]);
        assert!(!output.status.success(), "{arguments:?}");
        text(&output.stderr)
    };
    for (arguments, words) in [
        (&["-U", "11211"][..], "--udp-port takes only 0, not 11211. UDP is not supported"),
        (&["-m", "4096g"], "takes megabytes from 1 to 2097152, not 4096g (4194304)"),
        (&["-o", "idle_timeout"], "idle-timeout needs a value"),
        (&["-l", "127.0.0.1:abc"], "127.0.0.1:abc: the port is not a number from 0 to 65535"),
        (&["-l", "[::1"], "[::1: ] is missing"),
        (&["-s", &"s".repeat(108)], "--unix-socket: ssss"),
        (&["-s", &"s".repeat(108)], " has 108 bytes, more than the 107 allowed"),
        (&["--max", "1"], "--max could be --max-item-size, --max-connections-per-address or"),
        (&["--flash", "/f:0"], "/f:0 has a size of 0 bytes, less than a page of 4096"),
        (&["--config", "/nowhere"], "/nowhere: cannot be read for --config: No such file"),
        // Regression: a value of 63 MB was stored, and not there afterwards. memcached refuses it.
        (&["-m", "64", "-I", "33m"], "--max-item-size 34603008 is more than half of"),
        (&["-m", "1", "-I", "2m"], "--memory-limit 1, the memory in megabytes"),
    ] {
        let said = ends(arguments);
        assert!(said.contains(words), "{said}");
    }
    // So that the systemd unit does not retry a start that cannot succeed.
    let output = larder(&["-m", "64", "--flash", &place("100g")], &[]);
    assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
    assert!(!flash.exists());
    let output = larder(&["top", "foo", "--bar"], &[]);
    assert!(text(&output.stderr).ends_with("\nlarder top --help lists its options\n"));
    // A port that is taken is named.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let said = ends(&["--admin-port", &port]);
    assert!(said.contains(&format!("for --admin-port {port}: ")), "{said}");
    let said = ends(&["--redis-port", &port]);
    assert!(said.contains(&format!("127.0.0.1:{port} for --redis-port: ")), "{said}");
    // A size that is too small leaves no file whose length prevents a valid one.
    let small = place("1m");
    let said = ends(&["--flash", &small]);
    assert!(said.contains("asks for 1048576 bytes of") && !flash.exists(), "{said}");
    // Regression: --check said that it was in order.
    assert_eq!(larder(&["--check", "--flash", &small], &[]).status.code(), Some(64));
    drop(Server::start(&["--flash", &place("64m")]));
    let said = ends(&["--flash", &place("128m")]);
    assert!(said.contains("give its size, or remove it"), "{said}");
    // A file that is not Larder's.
    let other = vec![b'x'; 64 << 20];
    fs::write(&flash, &other).expect("writable");
    let said = ends(&["--flash", &place("64m")]);
    assert!(said.contains("is left unchanged: name another file, or remove this one"), "{said}");
    assert!(fs::read(&flash).expect("readable") == other);
}

/// Regression: the systemd unit tried a hundred times, and the message was lost among these.
#[test]
fn a_file_of_another_version_ends_the_start_for_good() {
    const OTHER: u32 = 99;
    let folder = tempfile::tempdir().expect("a folder");
    let ends = |arguments: &[&str], words: &str| {
        let output = larder(&[&["-p", "0"], arguments].concat(), &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(65), "{arguments:?}: {said}");
        assert!(said.contains(words), "{said}");
    };
    let flash = folder.path().join("flash");
    let place = |size: &str| format!("{}:{size}", flash.display());
    drop(Server::start(&["--flash", &place("64m")]));
    ends(&["--flash", &place("128m")], "give its size, or remove it");
    let mut bytes = fs::read(&flash).expect("readable");
    assert_eq!(&bytes[..8], b"LarderFL");
    bytes[8..12].copy_from_slice(&OTHER.to_le_bytes());
    fs::write(&flash, bytes).expect("writable");
    ends(&["--flash", &place("64m")], "another version (99); --flash ");

    let image = folder.path().join("memory");
    let name = image.to_str().expect("UTF-8");
    let mut bytes = b"LARDERIM".to_vec();
    bytes.extend_from_slice(&OTHER.to_le_bytes());
    bytes.resize(4096, 0);
    fs::write(&image, bytes).expect("writable");
    ends(&["-e", name], "its format is 99");
    fs::write(&image, "somebody else's").expect("writable");
    ends(&["-e", name], "is left unchanged");
}

/// Regression: a server that was started by hand said nothing, and looked as if it hung.
#[test]
fn the_listeners_are_logged_without_an_option() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let name = path.to_str().expect("UTF-8");
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    let child = command.args(["-A", "-s", name]).stdout(Stdio::piped()).spawn();
    let child = child.expect("it runs");
    let began = Instant::now();
    let mut client = loop {
        match UnixStream::connect(&path) {
            Ok(client) => break client,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::yield_now();
    };
    client.write_all(b"shutdown\r\n").expect("it listens");
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output.stdout);
    assert!(said.starts_with("listening on ") && said.ends_with(&format!("{name}\n")), "{said}");
}

#[test]
fn a_check_opens_and_binds_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let flash = folder.path().join("flash");
    let options =
        format!("port = {port}\nflash = \"{}:64m\"\npidfile = \"/nowhere/x\"\n", flash.display());
    let path = file(folder.path(), &options);
    let output = larder(&["--check"], &[("LARDER_CONFIG", &path)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // Regression: the number of items that memory suffices for was not shown: most of a flash could
    // stay empty.
    assert_eq!(
        text(&output.stdout),
        "the index can hold 3728270 items on flash, enough to use all of it if they take 18 bytes \
         or more there on average\nthe options are valid\n"
    );
    assert!(!flash.exists());
    assert_eq!(larder(&["--config", &path], &[]).status.code(), Some(1));
}

/// Regression: the first command of the page about TLS did not start: it asked for one port at
/// every address and, without TLS, at one of them.
#[test]
fn the_commands_of_the_pages_are_in_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = fs::read_dir(root.join("docs")).expect("there are pages");
    let mut pages: Vec<_> = folder.map(|entry| entry.expect("readable").path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    let mut commands = 0;
    for page in pages {
        // A line of a command may go on behind a backslash.
        let text = fs::read_to_string(&page).expect("a page").replace("\\\n", " ");
        let mut is_code = false;
        for line in text.lines().map(str::trim) {
            is_code ^= line.starts_with("```");
            let line = line.strip_prefix("$ ").unwrap_or(line);
            let line = line.strip_prefix("target/release/").unwrap_or(line);
            let command = line.split(" #").next().and_then(|line| line.strip_prefix("larder "));
            let Some(command) = command.filter(|command| is_code && command.starts_with('-'))
            else {
                continue;
            };
            let arguments: Vec<&str> = command.split_whitespace().collect();
            let output = larder(&[&["--check"], &arguments[..]].concat(), &[]);
            let said = text_of(&output);
            assert_eq!(output.status.code(), Some(0), "{}: {line}: {said}", page.display());
            commands += 1;
        }
    }
    assert!(commands >= 5, "the pages show {commands} commands");
}

/// All output of a program.
fn text_of(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn printed_options_are_read_back_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let given = ["-m", "100", "-vv", "-l", "127.0.0.1,[::1]:7", "-o", "idle_timeout=9", "-C"];
    let mut arguments = given.to_vec();
    arguments.push("--print-config");
    let printed = text(&larder(&arguments, &[("LARDER_THREADS", "3")]).stdout);
    assert!(printed.contains("\n# Set by: environment.\nthreads = 3\n"), "{printed}");
    let path = file(folder.path(), &printed);
    let again = text(&larder(&["--config", &path, "--print-config"], &[]).stdout);
    let values = |text: &str| {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(values(&again), values(&printed));
    assert_eq!(values(&again).len(), 6);
}

#[test]
fn a_server_follows_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), "memory-limit = 100\nidle-timeout = 77\nport = 1\n");
    let server = Server::start(&["--config", &path]);
    let mut client = server.connect();
    client.send(b"stats settings\r\n");
    let settings = client.read_to("END\r\n");
    for line in ["STAT maxbytes 104857600\r\n", "STAT idle_timeout 77\r\n"] {
        assert!(settings.contains(line), "{line}{settings}");
    }
}
