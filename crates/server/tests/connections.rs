//! Connections: how bytes arrive and leave, limits, and the end.

use std::io::{BufRead, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::common::{self, Client, Server};

#[test]
fn requests_may_be_split_at_every_byte() {
    let server = Server::start(&[]);
    let requests = b"set key 1 0 5\r\nhello\r\nget key none key\r\nms m 3 T0\r\nabc\r\nmg m v\r\n\
        set bad -1 0 5\r\nhello\r\nincr none 1\r\nmn\r\n";
    let answers = b"STORED\r\nVALUE key 1 5\r\nhello\r\nVALUE key 1 5\r\nhello\r\nEND\r\nHD\r\n\
        VA 3\r\nabc\r\nCLIENT_ERROR bad command line format\r\nNOT_FOUND\r\nMN\r\n";
    for place in 1..requests.len() {
        let mut client = server.connect();
        client.send(&requests[..place]);
        // An answer from another connection shows that the server has had time for the first part.
        server.connect().ask("mn\r\n", "MN\r\n");
        client.send(&requests[place..]);
        client.expect(answers);
    }
}

#[test]
fn requests_may_come_byte_by_byte() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for byte in b"set a 0 0 3\r\nabc\r\nget a\r\n" {
        client.send(&[*byte]);
    }
    client.expect(b"STORED\r\nVALUE a 0 3\r\nabc\r\nEND\r\n");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let mut requests = Vec::new();
    let mut answers = Vec::new();
    for number in 0..20_000 {
        let value = format!("value{number}");
        let bytes = value.len();
        write!(requests, "set k{number} 0 0 {bytes}\r\n{value}\r\nget k{number}\r\n").expect("vec");
        write!(answers, "STORED\r\nVALUE k{number} 0 {bytes}\r\n{value}\r\nEND\r\n").expect("vec");
    }
    let mut sender = client.stream.try_clone().expect("a second handle");
    let writer = std::thread::spawn(move || sender.write_all(&requests).expect("it reads"));
    client.expect(&answers);
    writer.join().expect("the writer ended");
}

#[test]
fn a_multiget_of_ten_thousand_keys_on_one_line() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let mut sets = Vec::new();
    let mut line = b"get".to_vec();
    let mut answers = Vec::new();
    for number in 0..10_000 {
        write!(line, " key{number:05}").expect("vec");
        if number % 2 == 0 {
            write!(sets, "set key{number:05} 0 0 5 noreply\r\n{number:05}\r\n").expect("vec");
            write!(answers, "VALUE key{number:05} 0 5\r\n{number:05}\r\n").expect("vec");
        }
    }
    line.extend_from_slice(b"\r\nmn\r\n");
    answers.extend_from_slice(b"END\r\nMN\r\n");
    client.send(&sets);
    client.send(&line);
    client.expect(&answers);
}

#[test]
fn large_values_come_and_go_whole() {
    let server = Server::start(&["-m", "256", "-I", "16m"]);
    let mut client = server.connect();
    for bytes in [1, 2047, 16 << 10, 65_536, 1 << 20, 9 << 20] {
        let value: Vec<u8> = (0..bytes).map(|place| (place * 31 % 251) as u8).collect();
        client.send(format!("set big 3 0 {bytes}\r\n").as_bytes());
        client.send(&value);
        client.send(b"\r\nget big\r\nmn\r\n");
        client.expect(format!("STORED\r\nVALUE big 3 {bytes}\r\n").as_bytes());
        client.expect(&value);
        client.expect(b"\r\nEND\r\nMN\r\n");
    }
}

#[test]
fn a_client_that_reads_late_gets_everything() {
    let server = Server::start(&["-m", "256"]);
    let mut client = server.connect();
    let value = vec![b'v'; 500_000];
    client.send(b"set big 0 0 500000\r\n");
    client.send(&value);
    client.ask("\r\n", "STORED\r\n");
    // Far more than the sockets' buffers hold: the server must park, and stop reading.
    client.send(&b"get big big\r\n".repeat(40));
    client.send(b"mn\r\n");
    // Other clients are served meanwhile.
    server.connect().ask("mn\r\n", "MN\r\n");
    for _ in 0..40 {
        for _ in 0..2 {
            client.expect(b"VALUE big 0 500000\r\n");
            client.expect(&value);
            client.expect(b"\r\n");
        }
        client.expect(b"END\r\n");
    }
    client.expect(b"MN\r\n");
    server.connect().wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
}

#[test]
fn clients_that_never_read_are_cut_off_at_the_output_limit() {
    let (server, log) = Server::start_logged(&["-v", "-m", "64", "-I", "8m", "-c", "100"]);
    let mut client = server.connect();
    let value = vec![b'v'; 7 << 20];
    client.send(format!("set big 0 0 {}\r\n", value.len()).as_bytes());
    client.send(&value);
    client.ask("\r\n", "STORED\r\n");
    let mut silent = Vec::new();
    for _ in 0..20 {
        let mut other = server.connect();
        other.send(b"get big\r\n");
        silent.push(other);
    }
    server.connect().wait_for_stat("output_kicks", |kicks| kicks > 0);
    // The log tells the operator why.
    let mut said = log.lines().map(|line| line.expect("it says why"));
    let line = said.find(|line| line.contains(" is closed: ")).expect("a line");
    assert!(line.contains("more than") && line.contains("-m allows more"), "{line}");
    assert!(server.stat("output_parked_bytes") <= (16 << 20) + (64 << 20) / 100 * 3);
}

#[test]
fn a_half_closed_connection_is_answered_and_ends() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.send(b"set a 0 0 1\r\n1\r\nget a\r\nget ");
    client.stream.shutdown(Shutdown::Write).expect("half closed");
    client.expect(b"STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
    client.expect_end();
}

#[test]
fn the_connection_limit_refuses_with_a_line() {
    let server = Server::start(&["-c", "2"]);
    let mut first = server.connect();
    first.ask("mn\r\n", "MN\r\n");
    let mut second = server.connect();
    second.ask("mn\r\n", "MN\r\n");
    let mut third = server.connect();
    third.expect(b"ERROR Too many open connections\r\n");
    third.expect_end();
    drop(second);
    let mut is_in = false;
    for _ in 0..1000 {
        let mut next = server.connect();
        let mut byte = [0];
        let sent = next.stream.write_all(b"mn\r\n");
        is_in = sent.is_ok() && next.stream.read(&mut byte).is_ok_and(|_| byte == *b"M");
        if is_in {
            break;
        }
    }
    assert!(is_in, "a place that was left is given to the next");
}

#[test]
fn at_the_limit_accepting_may_wait_instead() {
    let server = Server::start(&["-c", "1", "-o", "no_maxconns_fast"]);
    let mut first = server.connect();
    first.ask("mn\r\n", "MN\r\n");
    let mut second = server.connect();
    second.send(b"mn\r\n");
    first.ask("mn\r\n", "MN\r\n");
    first.wait_for_stat("listen_disabled_num", |pauses| pauses > 0);
    first.wait_for_stat("time_in_listen_disabled_us", |paused_us| paused_us > 1000);
    drop(first);
    second.expect(b"MN\r\n");
    // Once for each of the two at the most, and the second may be counted a moment later.
    let is_reset = (0..3).any(|_| {
        second.ask("stats reset\r\n", "RESET\r\n");
        second.stat("listen_disabled_num") == 0
    });
    assert!(is_reset);
}

#[test]
fn a_silent_connection_is_closed_after_the_idle_timeout() {
    let server = Server::start(&["-o", "idle_timeout=1"]);
    let mut client = server.connect();
    client.ask("mn\r\n", "MN\r\n");
    client.expect_end();
    assert_eq!(server.stat("idle_kicks"), 1);
}

#[test]
fn a_full_cache_evicts_and_never_answers_wrongly() {
    // A compressed zone would hold all of these values, and none would have to go.
    let server = Server::start(&["-m", "8", "-t", "2", "--compressed", "off"]);
    let mut client = server.connect();
    let mut found = 0;
    for round in 0..40 {
        let mut requests = Vec::new();
        for number in 0..400 {
            write!(requests, "set k{number} 0 0 2000 noreply\r\n").expect("vec");
            requests.extend_from_slice(&[b'a' + (number + round) as u8 % 26; 2000]);
            requests.extend_from_slice(b"\r\n");
        }
        let mut sender = client.stream.try_clone().expect("a second handle");
        sender.write_all(&requests).expect("it reads");
        client.send(b"get k7 k399\r\n");
        let text = client.read_to("END\r\n");
        let lines: Vec<&str> = text.lines().collect();
        for (name, number) in [("k7", 7), ("k399", 399)] {
            let header = format!("VALUE {name} 0 2000");
            if let Some(place) = lines.iter().position(|line| *line == header) {
                let letter = char::from(b'a' + (number + round) as u8 % 26);
                assert_eq!(lines[place + 1].len(), 2000);
                assert!(lines[place + 1].chars().all(|byte| byte == letter));
                found += 1;
            }
        }
    }
    // The last of each round was stored just before.
    assert!(found >= 40, "{found}");
    for number in 0..10_000 {
        client.send(format!("set filler{number} 0 0 2000 noreply\r\n").as_bytes());
        client.send(&[b'x'; 2000]);
        client.send(b"\r\n");
    }
    client.ask("mn\r\n", "MN\r\n");
    assert!(server.stat("evictions") > 0);
    assert_eq!(server.stat("store_no_memory"), 0);
}

#[test]
fn a_connection_outside_the_protocol_is_closed() {
    let server = Server::start(&[]);
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], &[0x81; 3000], &[b'x'; 3000]] {
        let mut client = server.connect();
        client.send(bytes);
        client.expect_end();
    }
}

#[test]
fn a_unix_socket_serves_and_is_removed() {
    let folder = std::env::temp_dir().join(format!("larder-unix-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("socket");
    let mut child = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["-a", "0600", "-s"])
        .arg(&path)
        .spawn()
        .expect("the server starts");
    let mut stream = None;
    while stream.is_none() {
        assert!(child.try_wait().expect("a state").is_none(), "the server ended");
        std::thread::yield_now();
        stream = UnixStream::connect(&path).ok();
    }
    let mut client = Client { stream: stream.expect("connected above") };
    client.ask("set a 0 0 1\r\n1\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().expect("kill").success());
    assert!(child.wait().expect("its end").success());
    assert!(!path.exists());
    std::fs::remove_dir_all(&folder).expect("clean up");
}

/// Regression: a server that ended after the next one had begun removed the next one's socket.
#[test]
fn a_unix_socket_that_another_server_has_by_then_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let mut server = Server::start(&["-v", "-s", path.to_str().expect("a path in UTF-8")]);
    std::fs::remove_file(&path).expect("it is there");
    let _newer = std::os::unix::net::UnixListener::bind(&path).expect("the name is free");
    server.signal("TERM");
    assert!(server.wait().success());
    UnixStream::connect(&path).expect("the newer one listens there");
}

#[test]
fn a_signal_ends_the_server_in_order() {
    for signal in ["INT", "TERM", "USR1"] {
        let path = std::env::temp_dir().join(format!("larder-{}-{signal}", std::process::id()));
        let mut server = Server::start(&["-P", path.to_str().expect("a path in UTF-8")]);
        let mut client = server.connect();
        client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
        assert!(path.exists());
        server.signal(signal);
        client.expect_end();
        assert!(server.wait().success());
        assert!(!path.exists());
    }
}

#[test]
fn a_pidfile_that_cannot_be_written_is_heard_of_before_the_background() {
    // Regression: the process that was started ended well, and the server in the background failed
    // at the pidfile, unnoticed.
    let output = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["-d", "-p", "0", "-P", "/nowhere/at/all"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("cannot write /nowhere/at/all for --pidfile: No such file"), "{text}");
}

#[test]
fn a_pidfile_that_another_server_has_written_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pid");
    let mut server = Server::start(&["-P", path.to_str().expect("a path in UTF-8")]);
    // The first answer comes when the file is written.
    server.connect().ask("mn\r\n", "MN\r\n");
    let text = std::fs::read_to_string(&path).expect("a pidfile");
    assert_eq!(text, format!("{}\n", server.id()));
    std::fs::write(&path, "1\n").expect("a file");
    server.signal("TERM");
    assert!(server.wait().success());
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), "1\n");
}

/// Regression: a signal to the process of a pidfile was meant for the first server, and met the
/// second one.
#[test]
fn a_second_server_with_the_same_pidfile_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pid");
    let path_text = path.to_str().expect("a path in UTF-8");
    let mut first = Server::start(&["-P", path_text]);
    first.connect().ask("mn\r\n", "MN\r\n");
    let second = || {
        // One that is not refused would serve for ever.
        let mut command = Command::new("timeout");
        command.args(["20", env!("CARGO_BIN_EXE_larder"), "-p", "0", "-P", path_text]);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        // Regression: it listened first, and said so.
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let why = format!("another server uses {path_text} for --pidfile: process {}\n", first.id());
    assert!(second().ends_with(&why));
    assert_eq!(
        std::fs::read_to_string(&path).expect("it stays"),
        format!("{}\n", first.id()),
        "and the first one's number with it"
    );
    first.signal("TERM");
    assert!(first.wait().success());
    assert!(!path.exists());
    // A process that is not a server has no lock, and a number may have become another's.
    std::fs::write(&path, format!("{}\n", std::process::id())).expect("a file");
    let (server, mut log) = Server::start_logged(&["-P", path_text]);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut log, &mut line).expect("it says something");
    assert!(
        line.contains(&format!("names process {}, which is running;", std::process::id())),
        "{line}"
    );
    server.connect().ask("mn\r\n", "MN\r\n");
    let text = std::fs::read_to_string(&path).expect("it is written");
    assert_eq!(text, format!("{}\n", server.id()));
}

/// Regression: it served as root without a word; memcached refuses to.
#[test]
fn a_server_that_stays_root_says_so() {
    let says = |user: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        // A start that ends by itself.
        command.args(["-p", "0", "-P", "/nowhere/at/all"]).args(user);
        let output = command.output().expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).contains("running as root; use -u to switch")
    };
    assert_eq!(says(&[]), common::is_root());
    assert!(!says(&["-u", "nobody"]) && !says(&["-u", "root"]));
}

#[test]
fn a_unix_socket_belongs_to_the_user_of_u() {
    // Regression: it was root's, so that with -a 0660 the group of -u could not connect.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let path_text = path.to_str().expect("a path in UTF-8");
    // A server that is not started as root keeps its user, whatever -u says.
    let _server = Server::start(&["-u", "nobody", "-a", "0660", "-s", path_text, "-v"]);
    let found = std::fs::metadata(&path).expect("a socket");
    assert_eq!(found.mode() & 0o777, 0o660);
    let nobody = Command::new("id").args(["-u", "nobody"]).output().expect("id runs");
    let nobody = String::from_utf8_lossy(&nobody.stdout).trim().parse().expect("a number");
    let own = std::fs::metadata(folder.path()).expect("it is there").uid();
    assert_eq!(found.uid(), if common::is_root() { nobody } else { own });
}

#[test]
fn shutdown_ends_the_server_where_it_is_allowed() {
    for request in ["shutdown\r\n", "shutdown graceful\r\n"] {
        let mut server = Server::start(&["-A"]);
        let mut client = server.connect();
        client.ask("shutdown now\r\n", "CLIENT_ERROR invalid shutdown mode\r\n");
        client.send(request.as_bytes());
        client.expect_end();
        assert!(server.wait().success());
    }
}

#[test]
fn usage_errors_exit_with_64() {
    for line in [&["-p", "x"][..], &["--nothing"], &["-Z"], &["-U", "11211"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_larder")).args(line).output().expect("runs");
        assert_eq!(output.status.code(), Some(64), "{line:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn many_clients_at_once() {
    let server = Server::start(&["-t", "2"]);
    let address = server.address();
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            std::thread::spawn(move || {
                let stream = TcpStream::connect(address).expect("it accepts");
                let mut client = Client { stream };
                for round in 0..500 {
                    let value = format!("{thread}-{round}");
                    let bytes = value.len();
                    client.ask(
                        &format!("set own{thread} 0 0 {bytes}\r\n{value}\r\nget own{thread}\r\n"),
                        &format!("STORED\r\nVALUE own{thread} 0 {bytes}\r\n{value}\r\nEND\r\n"),
                    );
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a client that was answered");
    }
}

/// Lets a server have this many files open.
fn allow_files(server: &Server, files: u64) {
    let (id, files) = (server.id().to_string(), format!("--nofile={files}:"));
    let status = Command::new("prlimit").args(["--pid", &id, &files]).status();
    assert!(status.expect("prlimit runs").success());
}

#[test]
fn a_client_that_finds_no_free_file_is_accepted_later_and_logged_once() {
    let (mut server, mut log) = Server::start_logged(&["-v"]);
    server.connect().ask("mn\r\n", "MN\r\n");
    allow_files(&server, 1);
    let mut client = server.connect();
    client.send(b"mn\r\n");
    let (mut line, mut text) = (String::new(), String::new());
    while !line.contains("cannot accept: ") {
        line.clear();
        log.read_line(&mut line).expect("it says so");
        text.push_str(&line);
    }
    // A connected client keeps its connection; accepting is tried again and again for one that
    // waits.
    allow_files(&server, 1000);
    client.expect(b"MN\r\n");
    server.signal("TERM");
    server.wait();
    log.read_to_string(&mut text).expect("it ends");
    assert_eq!(text.matches("cannot accept").count(), 1, "{text}");
}
