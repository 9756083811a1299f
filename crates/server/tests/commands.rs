//! Every command over a socket: its exact answers.

use std::process::Command;

use crate::common::Server;

#[test]
fn classic_commands() {
    check_classic_commands(&[]);
}

#[test]
fn classic_commands_over_a_tree() {
    check_classic_commands(&["--index", "tree"]);
}

#[test]
fn classic_commands_in_split_chunks() {
    check_classic_commands(&["--layout", "split"]);
}

/// Regression: the server reserves addresses for the memory limit to grow, and did not start where
/// there were too few.
#[test]
fn addresses_for_the_memory_limit_are_enough_to_start() {
    let mut command = Command::new("sh");
    let limit = "ulimit -v 1500000; exec \"$@\"";
    command.args(["-c", limit, "sh", env!("CARGO_BIN_EXE_larder"), "-p", "0", "-m", "64"]);
    let server = Server::start_by(&mut command);
    server.connect().ask("set k 0 0 1\r\nx\r\ncache_memlimit 65\r\n", "STORED\r\nOK\r\n");
}

#[test]
fn the_kind_of_index_is_told_and_can_be_chosen() {
    for (options, kind) in [(&[][..], "cuckoo"), (&["--index", "tree"][..], "tree")] {
        let server = Server::start(options);
        let mut client = server.connect();
        client.send(b"stats settings\r\n");
        let text = client.read_to("END\r\n");
        assert!(text.contains(&format!("STAT index {kind}\r\n")), "{text}");
    }
    for kind in ["list", "hash", ""] {
        let arguments = ["-p", "0", "--index", kind];
        let output = Command::new(env!("CARGO_BIN_EXE_larder")).args(arguments).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(64));
        let text = String::from_utf8(output.stderr).expect("text");
        assert!(text.contains(&format!("unknown index {kind}; known are cuckoo, tree")), "{text}");
    }
}

#[test]
fn whether_items_move_to_their_columns_is_told_and_can_be_chosen() {
    let ask = |options: &[&str], request: &[u8]| {
        let server = Server::start(options);
        let mut client = server.connect();
        client.send(request);
        client.read_to("END\r\n")
    };
    let text = ask(&[], b"stats settings\r\n");
    assert!(
        text.contains("STAT repartition off\r\n") && !text.contains("cache_geometry"),
        "{text}"
    );
    assert!(!ask(&[], b"stats\r\n").contains("repartition"));
    let given = ["--repartition", "--cache-geometry", "6x2048x20x64"];
    let text = ask(&given, b"stats settings\r\n");
    for line in ["repartition on", "cache_geometry 6x2048x20x64", "cache_geometry_from given"] {
        assert!(text.contains(&format!("STAT {line}\r\n")), "{line} in {text}");
    }
    let text = ask(&["--repartition"], b"stats settings\r\n");
    let sources = ["system", "assumed"].map(|it| format!("STAT cache_geometry_from {it}\r\n"));
    assert!(sources.iter().any(|source| text.contains(source)), "{text}");
    let pages = ["huge", "coloured", "small"].map(|it| format!("STAT repartition_pages {it}\r\n"));
    assert!(pages.iter().any(|pages| text.contains(pages)), "{text}");
    let frames = ["told", "refused"].map(|it| format!("STAT repartition_frames {it}\r\n"));
    assert!(frames.iter().any(|frames| text.contains(frames)), "{text}");
    for name in ["passes", "swaps", "moved_bytes", "expired", "given_up", "slabs_coloured"] {
        let text = ask(&given, b"stats\r\n");
        assert!(text.contains(&format!("STAT repartition_{name} 0\r\n")), "{name} in {text}");
    }
    for (arguments, code, why) in [
        (["--cache-geometry", "2000x20x64"], 64, "2000x20x64 is not [SLICESx]SETSxWAYSxLINE"),
        (["--policy", "gd-wheel"], 64, "cannot move to their columns under gd-wheel or lru"),
        (["--policy", "lru"], 64, "cannot move to their columns under gd-wheel or lru"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        let output = command.args(["-p", "0", "--repartition"]).args(arguments).output();
        let output = output.expect("it runs");
        let text = String::from_utf8(output.stderr).expect("text");
        assert!(output.status.code() == Some(code) && text.contains(why), "{text}");
    }
}

fn check_classic_commands(options: &[&str]) {
    let server = Server::start(options);
    let mut client = server.connect();
    for (request, answer) in [
        ("get a\r\n", "END\r\n"),
        ("set a 5 0 3\r\nabc\r\n", "STORED\r\n"),
        ("get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n"),
        ("get a b a \r\n", "VALUE a 5 3\r\nabc\r\nVALUE a 5 3\r\nabc\r\nEND\r\n"),
        ("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("replace b 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("append a 9 0 2\r\nde\r\n", "STORED\r\n"),
        ("prepend a 9 0 1\r\n_\r\n", "STORED\r\n"),
        ("get a\r\n", "VALUE a 5 6\r\n_abcde\r\nEND\r\n"),
        ("append none 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("cas none 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n"),
        ("touch a 100\r\n", "TOUCHED\r\n"),
        ("touch none 100\r\n", "NOT_FOUND\r\n"),
        ("gat 0 a none\r\n", "VALUE a 5 6\r\n_abcde\r\nEND\r\n"),
        ("delete a\r\n", "DELETED\r\n"),
        ("delete a\r\n", "NOT_FOUND\r\n"),
        ("set n 0 0 2\r\n10\r\n", "STORED\r\n"),
        ("decr n 1\r\n", "9\r\n"),
        ("get n\r\n", "VALUE n 0 2\r\n9 \r\nEND\r\n"),
        ("incr n 18446744073709551615\r\n", "8\r\n"),
        ("decr n 100\r\n", "0\r\n"),
        ("incr n x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
        ("incr none 1\r\n", "NOT_FOUND\r\n"),
        ("set t 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("incr t 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ("set e 0 -1 1\r\nx\r\n", "STORED\r\n"),
        ("get e\r\n", "END\r\n"),
        ("set empty 0 0 0\r\n\r\n", "STORED\r\n"),
        ("get empty\r\n", "VALUE empty 0 0\r\n\r\nEND\r\n"),
        ("nonsense\r\n", "ERROR\r\n"),
        ("verbosity 1\r\n", "OK\r\n"),
        ("cache_memlimit 64\r\n", "OK\r\n"),
        ("cache_memlimit 1\r\n", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"),
        ("shutdown\r\n", "SERVER_ERROR: shutdown not enabled\r\n"),
        ("shutdown now\r\n", "SERVER_ERROR: shutdown not enabled\r\n"),
        ("flush_all\r\n", "OK\r\n"),
        ("get n t\r\n", "END\r\n"),
    ] {
        client.ask(request, answer);
    }
    client.send(b"version\r\n");
    assert!(client.read_to("\r\n").starts_with("VERSION 1.6."));
    client.send(b"quit\r\n");
    client.expect_end();
}

#[test]
fn a_cas_unique_is_good_once() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    client.send(b"gets a\r\n");
    let text = client.read_to("END\r\n");
    let line = text.lines().next().expect("a VALUE line");
    let unique = line.rsplit(' ').next().expect("a unique");
    client.ask(&format!("cas a 0 0 1 {unique}\r\n2\r\n"), "STORED\r\n");
    client.ask(&format!("cas a 0 0 1 {unique}\r\n3\r\n"), "EXISTS\r\n");
    client.ask("get a\r\n", "VALUE a 0 1\r\n2\r\nEND\r\n");
}

#[test]
fn without_cas_uniques_are_zero() {
    let server = Server::start(&["-C"]);
    let mut client = server.connect();
    client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    client.ask("gets a\r\n", "VALUE a 0 1 0\r\n1\r\nEND\r\n");
    client.ask("cas a 0 0 1 0\r\n2\r\n", "EXISTS\r\n");
}

#[test]
fn meta_commands() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (request, answer) in [
        ("mg a v\r\n", "EN\r\n"),
        ("mg a v q\r\nmn\r\n", "MN\r\n"),
        ("ms a 3 F7 T0\r\nabc\r\n", "HD\r\n"),
        ("ms a 3 q\r\nabc\r\nmn\r\n", "MN\r\n"),
        ("ms a 3 F7 O9 k\r\nabc\r\n", "HD O9 ka\r\n"),
        ("mg a s v f t k O1\r\n", "VA 3 s3 f7 t-1 ka O1\r\nabc\r\n"),
        ("mg a\r\n", "HD\r\n"),
        ("mg a h\r\n", "HD h1\r\n"),
        ("ms a 1 ME\r\nx\r\n", "NS\r\n"),
        ("ms a 1 MA\r\nd\r\n", "HD\r\n"),
        ("ms Zm9v 1 b\r\nx\r\n", "HD\r\n"),
        ("mg Zm9v b k v\r\n", "VA 1 kZm9v b\r\nx\r\n"),
        ("mg foo v\r\n", "VA 1\r\nx\r\n"),
        ("md foo\r\n", "HD\r\n"),
        ("md foo\r\n", "NF\r\n"),
        ("md a C1\r\n", "EX\r\n"),
        ("ms a 1 C1\r\nx\r\n", "EX\r\n"),
        ("ms none 1 C1\r\nx\r\n", "NF\r\n"),
        ("ma n\r\n", "NF\r\n"),
        ("ma n N0 J5 v\r\n", "VA 1\r\n5\r\n"),
        ("ma n D3 v\r\n", "VA 1\r\n8\r\n"),
        ("ma n MD D10 v t\r\n", "VA 1 t-1\r\n0\r\n"),
        ("mg viv N30 v\r\n", "VA 0 W\r\n\r\n"),
        ("mg viv N30 v\r\n", "VA 0 Z\r\n\r\n"),
        ("ms viv 1\r\nx\r\n", "HD\r\n"),
        ("mg viv N30 v\r\n", "VA 1\r\nx\r\n"),
        ("md viv I T30\r\n", "HD\r\n"),
        ("mg viv v\r\n", "VA 1 X W\r\nx\r\n"),
        ("mg viv v\r\n", "VA 1 Z X\r\nx\r\n"),
        ("me none\r\n", "EN\r\n"),
    ] {
        client.ask(request, answer);
    }
    client.send(b"me a\r\n");
    let text = client.read_to("\r\n");
    assert!(text.starts_with("ME a exp=-1 la="), "{text}");
}

#[test]
fn noreply_keeps_success_and_failure_silent() {
    let server = Server::start(&["-I", "1k"]);
    let mut client = server.connect();
    client.send(b"set a 0 0 1 noreply\r\n1\r\nadd a 0 0 1 noreply\r\n2\r\nincr a 1 noreply\r\n");
    client.send(b"incr none 1 noreply\r\ntouch a 0 noreply\r\ndelete none noreply\r\n");
    client.send(b"set big 0 0 2000 noreply\r\n");
    client.send(&[b'x'; 2000]);
    client.send(b"\r\nflush_all 100 noreply\r\nverbosity 0 noreply\r\n");
    client.ask("get a\r\n", "VALUE a 0 1\r\n2\r\nEND\r\n");
}

#[test]
fn a_value_without_its_end_leaves_the_old_one() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("set a 0 0 3\r\nold\r\n", "STORED\r\n");
    client.ask("set a 0 0 3\r\nnewxxget a\r\n", "CLIENT_ERROR bad data chunk\r\n");
    client.expect(b"VALUE a 0 3\r\nold\r\nEND\r\n");
}

#[test]
fn a_value_that_is_too_large_is_skipped_and_deletes_the_old_one() {
    let server = Server::start(&["-I", "1k"]);
    let mut client = server.connect();
    client.ask("set a 0 0 3\r\nold\r\n", "STORED\r\n");
    let value = "get x\r\n".repeat(40_000);
    client.send(format!("set a 0 0 {}\r\n{value}\r\nget a\r\n", value.len()).as_bytes());
    client.expect(b"SERVER_ERROR object too large for cache\r\nEND\r\n");
    assert_eq!(server.stat("store_too_large"), 1);
}

#[test]
fn forbidden_commands_say_so() {
    let server = Server::start(&["-F", "-X", "-W"]);
    let mut client = server.connect();
    client.ask("flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n");
    client.ask("watch\r\n", "CLIENT_ERROR watch commands not allowed\r\n");
    client.ask("lru_crawler metadump all\r\n", "ERROR metadump not allowed\r\n");
    client.ask("lru_crawler mgdump all\r\n", "ERROR key dump not allowed\r\n");
    // Namespaces are parts of keys.
    for line in ["detail", "detail on", "detail off", "detail dump", "detail nonsense"] {
        client.ask(&format!("stats {line}\r\n"), "CLIENT_ERROR stats detail not allowed\r\n");
    }
}

/// Regression: `stats resetx` reset all counters.
#[test]
fn words_behind_stats_are_known_by_their_beginning_and_by_no_more() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("get a\r\n", "END\r\n");
    for line in ["resetx", "settingsfoo", "itemsfoo", "item", "detailed dump", "connsx"] {
        client.ask(&format!("stats {line}\r\n"), "ERROR\r\n");
    }
    assert_eq!(client.stat("cmd_get"), 1);
    client.send(b"stats settings\r\n");
    let settings = client.read_to("END\r\n");
    client.ask("stats set\r\n", &settings);
    client.ask("stats set and more\r\n", &settings);
    client.ask("stats res\r\n", "RESET\r\n");
    assert_eq!(client.stat("cmd_get"), 0);
}

#[test]
fn dumps_list_every_item() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for number in 0..2000 {
        client.send(format!("set key{number} 0 0 1 noreply\r\nx\r\n").as_bytes());
    }
    client.ask("mn\r\n", "MN\r\n");
    client.send(b"lru_crawler mgdump all\r\n");
    let text = client.read_to("EN\r\n");
    let mut keys: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("mg ")).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 2000);
    client.send(b"lru_crawler metadump all\r\nmn\r\n");
    let text = client.read_to("END\r\nMN\r\n");
    assert!(text.starts_with("OK\r\nkey="), "{}", &text[..60]);
    assert_eq!(text.matches("exp=-1 ").count(), 2000);
}

/// Regression: any number of connections could have a dump each under way, and never read it.
#[test]
fn a_few_dumps_go_on_at_one_time_and_each_end_makes_room() {
    const DUMPS_MAX: usize = 4;
    const BUSY: &str = "BUSY currently processing crawler request\r\n";
    let server = Server::start(&["-t", "2"]);
    let mut client = server.connect();
    // Lines: more than sockets take without a reader.
    let tail = "x".repeat(240);
    for number in 0..40_000 {
        client.send(format!("set {number}-{tail} 0 0 1 noreply\r\nx\r\n").as_bytes());
    }
    client.ask("mn\r\n", "MN\r\n");
    let begin = || {
        let mut silent = server.connect();
        silent.ask("lru_crawler mgdump all\r\n", "OK\r\n");
        silent
    };
    let mut silent: Vec<_> = (0..DUMPS_MAX).map(|_| begin()).collect();
    client.ask("lru_crawler metadump all\r\n", BUSY);
    client.ask("lru_crawler mgdump hash\r\n", BUSY);
    // One reads to the end.
    silent[0].read_to("EN\r\n");
    silent[0].ask("mn\r\n", "MN\r\n");
    silent[0] = begin();
    client.ask("lru_crawler mgdump all\r\n", BUSY);
    // One goes, which the server notices after a while.
    drop(silent.pop());
    let mut begun = String::from(BUSY);
    while begun == BUSY {
        client.send(b"lru_crawler mgdump all\r\n");
        begun = client.read_to("\n");
    }
    assert!(begun.starts_with("OK\r\n"), "{begun}");
}

/// A client may choose any unique, and one that compares 0 compares none.
#[test]
fn nothing_is_stored_over_the_unique_0_whatever_a_client_has_chosen() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("ms k 1 E18446744073709551615\r\nx\r\n", "HD\r\n");
    client.ask("ms k 1 C0\r\ny\r\n", "EX\r\n");
    client.ask("cas k 0 0 1 0\r\ny\r\n", "EXISTS\r\n");
    client.ask("get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
    // An item just created has not been idle for a quarter of an hour.
    client.ask("mg new N30 l\r\n", "HD l0 W\r\n");
}

#[test]
fn watchers_hear_what_they_ask_for() {
    let server = Server::start(&[]);
    let mut watcher = server.connect();
    watcher.ask("watch fetchers mutations deletions\r\n", "OK\r\n");
    let mut client = server.connect();
    client.ask("set a 0 0 3\r\nabc\r\n", "STORED\r\n");
    client.ask("get a\r\n", "VALUE a 0 3\r\nabc\r\nEND\r\n");
    client.ask("delete a\r\n", "DELETED\r\n");
    let text = watcher.read_to("type=deleted key=a cmd=delete clsid=0 size=0\n");
    assert!(text.contains("type=item_store key=a status=stored cmd=set ttl=0 clsid=1"), "{text}");
    assert!(text.contains("type=item_get key=a status=found"), "{text}");
    // An item that is appended to keeps its expiry.
    client.ask("set t 0 100 1\r\nx\r\n", "STORED\r\n");
    client.ask("append t 0 0 1\r\ny\r\n", "STORED\r\n");
    client.ask("delete t\r\n", "DELETED\r\n");
    let text = watcher.read_to("type=deleted key=t cmd=delete clsid=0 size=0\n");
    assert!(text.contains("cmd=append ttl=100 ") || text.contains("cmd=append ttl=99 "), "{text}");
    // Regression: both were always 0.
    for name in ["log_worker_written", "log_watcher_sent"] {
        assert_eq!(client.stat(name), 6, "{name}");
    }
    client
        .ask("get x\r\nwatch\r\n", "END\r\nERROR cannot pipeline other commands before watch\r\n");
}

/// memcached's own tests look for it: a client that sends a web request has made an error.
#[test]
fn watchers_hear_why_a_connection_was_closed() {
    let server = Server::start(&[]);
    let mut watcher = server.connect();
    watcher.ask("watch connevents\r\n", "OK\r\n");
    for (bytes, reason) in [
        (&b"GET / HTTP/1.1\r\n"[..], "error"),
        (b"\x80\x01\0\x01\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "error"),
        (b"quit\r\n", "normal"),
    ] {
        server.connect().send(bytes);
        let mut text = String::new();
        while !text.contains("type=conn_close") {
            text = watcher.read_to("\n");
        }
        assert!(text.contains(&format!(" reason={reason} ")), "{text}");
    }
}

/// Regression: any words were taken, as memcached's own tests found.
#[test]
fn the_automover_takes_what_memcached_takes() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let bad = "CLIENT_ERROR bad command line format\r\n";
    let narrow = "CLIENT_ERROR automove window too low or too high\r\n";
    for (wish, answer) in [
        ("0", "OK\r\n"),
        ("2", "OK\r\n"),
        ("3", "ERROR\r\n"),
        ("invalid", bad),
        ("", bad),
        ("ratio 0.8", "OK\r\n"),
        ("freeratio x", "ERROR\r\n"),
        ("window 2", narrow),
        ("window 3", "OK\r\n"),
        ("window 1800", "OK\r\n"),
        ("window 1801", narrow),
        ("window", bad),
    ] {
        client.ask(&format!("slabs automove {wish}\r\n"), answer);
    }
}

#[test]
fn watchers_hear_of_evictions() {
    let server = Server::start(&["-m", "8"]);
    let mut watcher = server.connect();
    watcher.ask("watch evictions\r\n", "OK\r\n");
    let is_heard = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_heard = &is_heard;
        let mut client = server.connect();
        // The engine looks from time to time whether there are watchers: keep evicting until then.
        scope.spawn(move || {
            let value = "x".repeat(1000);
            let mut number = 0_u64;
            while !is_heard.load(std::sync::atomic::Ordering::Relaxed) && number < 10_000_000 {
                let set = format!("set key{number} 0 0 1000\r\n{value}\r\n");
                client.ask(&set, "STORED\r\n");
                number += 1;
            }
        });
        // The lines end where the watcher has caught up with the log.
        let text = watcher.read_to("\n");
        is_heard.store(true, std::sync::atomic::Ordering::Relaxed);
        let line = text.lines().find(|line| line.contains("type=eviction key=key"));
        let line = line.unwrap_or_else(|| panic!("no eviction in {text}"));
        assert!(line.contains(" fetch=no ttl=-1 la=") && line.ends_with(" size=1000"), "{line}");
    });
}

#[test]
fn statistics_count() {
    let server = Server::start(&["-t", "2"]);
    let mut client = server.connect();
    client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    client.ask("get a b\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
    client.ask("cas a 0 0 1 99999\r\n1\r\n", "EXISTS\r\n");
    for (name, value) in [
        ("cmd_get", 2),
        ("cmd_set", 2),
        ("get_hits", 1),
        ("get_misses", 1),
        ("cas_badval", 1),
        ("curr_items", 1),
        ("threads", 2),
    ] {
        assert_eq!(server.stat(name), value, "{name}");
    }
    for what in ["settings", "items", "slabs", "sizes", "conns"] {
        client.send(format!("stats {what}\r\n").as_bytes());
        let text = client.read_to("END\r\n");
        assert!(text.lines().count() > 1, "{what}");
        for line in text.lines().filter(|line| line.starts_with("STAT")) {
            assert!(line.split(' ').count() >= 3, "an empty value: {line}");
        }
    }
    client.ask("stats reset\r\n", "RESET\r\n");
    client.ask("stats nonsense\r\n", "ERROR\r\n");
    assert_eq!((server.stat("cmd_get"), server.stat("total_items")), (0, 0));
}
