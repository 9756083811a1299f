//! Redis' protocol as clients see it: the parts that cannot be compared with another server at
//! random.

use std::time::{Duration, Instant};

use crate::common::{Client, Server, array};

/// Reads a bulk and returns it.
fn bulk(client: &mut Client) -> String {
    let header = line(client);
    let bytes: usize = header.trim_start_matches('$').trim_end().parse().expect("a length");
    let mut value = vec![0; bytes + 2];
    std::io::Read::read_exact(&mut client.stream, &mut value).expect("the value comes");
    value.truncate(bytes);
    String::from_utf8(value).expect("text")
}

/// Reads a line, with its end.
fn line(client: &mut Client) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n") {
        std::io::Read::read_exact(&mut client.stream, &mut byte).expect("the line comes");
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("text")
}

#[test]
fn the_items_are_those_of_memcacheds_clients() {
    let (server, address) = Server::start_with_redis(&[]);
    let (mut text, mut redis) = (server.connect(), Client::connect(address));
    text.ask("set a 5 0 3\r\none\r\n", "STORED\r\n");
    redis.ask("get a\r\n", "$3\r\none\r\n");
    redis.ask("append a !\r\n", ":4\r\n");
    text.ask("get a\r\n", "VALUE a 5 4\r\none!\r\nEND\r\n");
    redis.ask("set a two\r\n", "+OK\r\n");
    text.ask("get a\r\n", "VALUE a 0 3\r\ntwo\r\nEND\r\n");
    redis.ask("set n 41\r\nincr n\r\n", "+OK\r\n:42\r\n");
    text.ask("incr n 1\r\n", "43\r\n");
    redis.ask("set c v COST 1500\r\n", "+OK\r\n");
    text.send(b"me c\r\n");
    assert!(text.read_to("\r\n").contains("cost=1500"));
    redis.ask("set c v COST -1\r\n", "-ERR value is not an integer or out of range\r\n");
    redis.ask("set c v COST\r\n", "-ERR syntax error\r\n");
    let get_hits = server.stat("get_hits");
    redis.ask("mget a none n\r\n", "*3\r\n$3\r\ntwo\r\n$-1\r\n$2\r\n43\r\n");
    assert_eq!(server.stat("get_hits"), get_hits + 2);
}

#[test]
fn input_outside_the_protocol_ends_the_connection_with_a_reason() {
    let (_server, address) = Server::start_with_redis(&[]);
    for (input, answer) in [
        (&b"*1\r\nGET\r\n"[..], "-ERR Protocol error: expected '$', got 'G'\r\n"),
        (b"*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"PING\r\nget \"a\r\n", "+PONG\r\n-ERR Protocol error: unbalanced quotes in request\r\n"),
        (b"QUIT\r\nPING\r\n", "+OK\r\n"),
        (b"POST / HTTP/1.1\r\nHost: here\r\n\r\n", ""),
        (b"Host: here\r\nPING\r\n", ""),
    ] {
        let mut client = Client::connect(address);
        client.send(input);
        client.expect(answer.as_bytes());
        client.expect_end();
    }
    // A memcached request is an inline command that is unknown, or has the wrong words.
    let mut client = Client::connect(address);
    client.ask("gets a\r\n", "-ERR unknown command 'gets', with args beginning with: 'a' \r\n");
    client.ask("get a b\r\n", "-ERR wrong number of arguments for 'get' command\r\n");
}

#[test]
fn a_client_chooses_its_version() {
    let (_server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    client.ask("get none\r\n", "$-1\r\n");
    client.send(b"hello 3 auth default x setname me\r\n");
    assert!(client.read_to("*0\r\n").starts_with("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"));
    client.ask("get none\r\n", "_\r\n");
    client.ask("client getname\r\n", "$2\r\nme\r\n");
    client.ask(
        "config get save appendonly\r\n",
        "%2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n\
        $4\r\nsave\r\n$0\r\n\r\n",
    );
    // Options before a wrong word take effect.
    client.ask("hello 3 setname you x\r\n", "-ERR Syntax error in HELLO option 'x'\r\n");
    client.ask("client getname\r\n", "$3\r\nyou\r\n");
    client.ask("hello 4\r\n", "-NOPROTO unsupported protocol version\r\n");
    client.ask(
        "hello 2 auth other x\r\n",
        "-WRONGPASS invalid username-password pair or user is \
        disabled.\r\n",
    );
    client.ask("get none\r\n", "_\r\n");
    client.ask("reset\r\n", "+RESET\r\n");
    client.ask("get none\r\nclient getname\r\n", "$-1\r\n$-1\r\n");
    client.ask("select 0\r\n", "+OK\r\n");
    client.ask("select 1\r\n", "-ERR DB index is out of range\r\n");
    let beyond = "-ERR value is out of range, value must between -2147483648 and 2147483647\r\n";
    client.ask("select 2147483648\r\n", beyond);
    client.ask("select x\r\n", "-ERR value is not an integer or out of range\r\n");
    let (name, longer) = ("n".repeat(1024), "n".repeat(1025));
    client.ask(&format!("client setname {name}\r\n"), "+OK\r\n");
    client.ask(
        &format!("client setname {longer}\r\n"),
        "-ERR Client names cannot be longer than 1024 bytes here\r\n",
    );
    let (mut other, mut ids) = (Client::connect(address), Vec::new());
    for client in [&mut client, &mut other] {
        client.send(b"client id\r\n");
        ids.push(line(client));
    }
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn values_up_to_the_item_limit_come_through_in_pieces() {
    let (server, address) = Server::start_with_redis(&["-I", "1m"]);
    let mut client = Client::connect(address);
    for bytes in [1, 5_000, 64 << 10, 200_000, 1_000_000] {
        let value: Vec<u8> = (0..bytes).map(|number| (number % 251) as u8).collect();
        let request = array(&[b"SET", b"key", &value, b"EX", b"1000"]);
        let middle = request.len() / 2;
        // Alone, in two writes, and behind and before other commands.
        client.send(&request);
        client.expect(b"+OK\r\n");
        client.send(&request[..middle]);
        client.send(&request[middle..]);
        client.expect(b"+OK\r\n");
        client.send(&[&array(&[b"PING"])[..], &request, &array(&[b"PING"])].concat());
        client.expect(b"+PONG\r\n+OK\r\n+PONG\r\n");
        client.send(&array(&[b"GET", b"key"]));
        client.expect(&[format!("${bytes}\r\n").as_bytes(), &value, b"\r\n"].concat());
    }
    // A long command goes on wherever it is cut, also within the words behind the long one.
    let request = array(&[b"SET", b"key", &vec![b'v'; 100_000], b"EX", b"1000", b"NX"]);
    for cut in request.len() - 40..request.len() {
        client.send(&request[..cut]);
        client.send(&request[cut..]);
        client.expect(b"$-1\r\n");
    }
    // The turn that sent the last answer is over when another has been answered.
    client.ask("ping\r\n", "+PONG\r\n");
    assert_eq!(server.stat("output_parked_bytes"), 0, "what was kept is given back");
}

#[test]
fn a_command_that_is_too_large_is_refused_and_the_connection_goes_on() {
    let (server, address) = Server::start_with_redis(&["-I", "100k"]);
    let mut client = Client::connect(address);
    client.ask("set key old\r\n", "+OK\r\n");
    for bytes in [150_000, 400_000, 5_000_000] {
        let value = vec![b'v'; bytes];
        client.send(&array(&[b"SET", b"key", &value]));
        let answer = line(&mut client);
        assert!(answer.starts_with("-ERR "), "{answer}");
        client.ask("get key\r\n", "$3\r\nold\r\n");
    }
    // Regression: it named Redis' 512 MiB, whatever the limit was.
    client.ask(
        "config get proto-max-bulk-len\r\n",
        "*2\r\n$18\r\nproto-max-bulk-len\r\n$6\r\n102400\r\n",
    );
    client.ask(
        "setrange key 200000 x\r\n",
        "-ERR string exceeds maximum allowed size \
        (proto-max-bulk-len)\r\n",
    );
    let long = "k".repeat(251);
    client.ask(&format!("get {long}\r\n"), "-ERR a key is 1 to 250 bytes here\r\n");
    client.ask(&format!("set {} v\r\n", &long[1..]), "+OK\r\n");
    server.connect().wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
}

/// Values within a chunk and of several, overwritten in front, in the middle, across their end and
/// behind it, and compared with a vector that is changed alike.
#[test]
fn parts_of_values_change_as_those_of_a_vector() {
    let (_server, address) = Server::start_with_redis(&["-I", "1m"]);
    let mut client = Client::connect(address);
    let mut value: Vec<u8> = Vec::new();
    let mut random = 1_u64;
    let mut below = |end: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % end
    };
    for round in 0..200 {
        let part = vec![b'a' + (round % 26) as u8; 1 + below([10, 3000, 120_000][round % 3])];
        if below(3) == 0 {
            value.extend_from_slice(&part);
            client.send(&array(&[b"APPEND", b"key", &part]));
        } else {
            let offset = below(value.len() + 5000);
            let end = offset + part.len();
            value.resize(value.len().max(end), 0);
            value[offset..end].copy_from_slice(&part);
            client.send(&array(&[b"SETRANGE", b"key", offset.to_string().as_bytes(), &part]));
        }
        assert_eq!(line(&mut client), format!(":{}\r\n", value.len()));
        client.send(&array(&[b"GET", b"key"]));
        client.expect(&[format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat());
        if value.len() > 800_000 {
            value.clear();
            client.ask("del key\r\n", ":1\r\n");
        }
    }
}

#[test]
fn many_clients_that_begin_large_commands_do_not_fill_the_memory() {
    // The most that may be kept in all: one largest item and a little, or 16 MiB and a share of -m.
    let (server, address) = Server::start_with_redis(&["-m", "64", "-I", "1m"]);
    let begun = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n";
    let part = vec![b'x'; 900_000];
    let mut clients: Vec<Client> = (0..40).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        // Those without room are closed while they send.
        let sent = std::io::Write::write_all(&mut client.stream, begun)
            .and_then(|()| std::io::Write::write_all(&mut client.stream, &part));
        drop(sent);
    }
    assert!(server.stat("output_parked_bytes") <= (16 << 20) + (64 << 20) / 100 * 3);
    let mut other = Client::connect(address);
    other.ask("ping\r\n", "+PONG\r\n");
    drop(clients);
}

#[test]
fn a_command_of_many_keys_goes_on_where_it_was_interrupted() {
    let (_server, address) = Server::start_with_redis(&["-I", "1m"]);
    let mut client = Client::connect(address);
    let value = vec![b'v'; 40_000];
    let keys: Vec<String> = (0..300).map(|number| format!("key{number}")).collect();
    let mut request: Vec<&[u8]> = vec![b"MSET"];
    // In pieces that fit the limit of a command.
    for part in keys.chunks(20) {
        request.truncate(1);
        part.iter().for_each(|key| request.extend([key.as_bytes(), &value]));
        client.send(&array(&request));
        client.expect(b"+OK\r\n");
    }
    let mut request: Vec<&[u8]> = vec![b"MGET", b"none"];
    request.extend(keys.iter().map(String::as_bytes));
    client.send(&array(&request));
    client.expect(b"*301\r\n$-1\r\n");
    for _ in &keys {
        client.expect(b"$40000\r\n");
        client.expect(&value);
        client.expect(b"\r\n");
    }
    request[0] = b"EXISTS";
    client.send(&array(&request));
    client.expect(b":300\r\n");
    request[0] = b"DEL";
    client.send(&array(&request));
    client.expect(b":300\r\n");
}

#[test]
fn no_count_of_many_clients_is_lost() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 50;
    let (_server, address) = Server::start_with_redis(&["-t", "4"]);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = Client::connect(address);
                let round = "incr n\r\nincrbyfloat f 0.5\r\nappend s x\r\n".repeat(10);
                for _ in 0..ROUNDS {
                    client.send(round.as_bytes());
                    for _ in 0..10 {
                        assert!(line(&mut client).starts_with(':'));
                        bulk(&mut client);
                        assert!(line(&mut client).starts_with(':'));
                    }
                }
            });
        }
    });
    let mut client = Client::connect(address);
    let total = CLIENTS * ROUNDS * 10;
    client.send(b"get n\r\nget f\r\n");
    assert_eq!(bulk(&mut client), total.to_string());
    assert_eq!(bulk(&mut client), (total / 2).to_string());
    client.ask("strlen s\r\n", &format!(":{total}\r\n"));
}

#[test]
fn a_scan_lists_every_key_and_a_random_key_is_one_of_them() {
    let (_server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    client.ask("randomkey\r\n", "$-1\r\n");
    let count = 2000;
    for number in 0..count {
        client.send(format!("set key:{number} {number}\r\n").as_bytes());
        client.expect(b"+OK\r\n");
    }
    for (options, wanted) in
        [("", count), ("count 100", count), ("match *:1?", 10), ("type x", 0), ("match none", 0)]
    {
        let mut seen = std::collections::BTreeSet::new();
        let mut cursor = "0".to_owned();
        loop {
            client.send(format!("scan {cursor} {options}\r\n").as_bytes());
            assert_eq!(line(&mut client), "*2\r\n");
            cursor = bulk(&mut client);
            let keys: usize = line(&mut client)[1..].trim_end().parse().expect("a number");
            (0..keys).for_each(|_| _ = seen.insert(bulk(&mut client)));
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), wanted, "{options}");
    }
    client.send(b"randomkey\r\n");
    assert!(bulk(&mut client).starts_with("key:"));
    client.ask("scan x\r\n", "-ERR invalid cursor\r\n");
    client.ask("scan 3\r\n", "*2\r\n$1\r\n0\r\n*0\r\n");
}

/// The keys in the reply to KEYS.
fn keys(client: &mut Client, pattern: &str) -> Vec<String> {
    client.send(format!("keys {pattern}\r\n").as_bytes());
    let count: usize = line(client)[1..].trim_end().parse().expect("a number");
    (0..count).map(|_| bulk(client)).collect()
}

/// Caches of several frameworks empty themselves with it.
#[test]
fn keys_lists_the_keys_that_match_its_pattern() {
    let (_server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    let count = 5000;
    for number in 0..count {
        client.send(format!("set key:{number} {number}\r\n").as_bytes());
        client.expect(b"+OK\r\n");
    }
    for (pattern, wanted) in [("*", count), ("key:*", count), ("*:1?", 10), ("none*", 0)] {
        let mut found = keys(&mut client, pattern);
        found.sort();
        found.dedup();
        assert_eq!(found.len(), wanted, "{pattern}");
        assert!(found.iter().all(|key| key.starts_with("key:")), "{pattern}");
    }
    client.ask("multi\r\nset a 1\r\nkeys key:77\r\nset b 2\r\n", &{
        format!("+OK\r\n{}", "+QUEUED\r\n".repeat(3))
    });
    client.ask("exec\r\n", "*3\r\n+OK\r\n*1\r\n$6\r\nkey:77\r\n+OK\r\n");
    let pattern = "x".repeat(20_000);
    client.ask(&format!("keys {pattern}\r\n"), "-ERR the pattern is too long\r\n");
}

/// Stores `count` thousand keys of 246 bytes that begin with their numbers.
fn set_long_keys(client: &mut Client, count: usize) {
    let long = "k".repeat(240);
    for first in (0..count).step_by(1000) {
        let sets: String =
            (first..first + 1000).map(|at| format!("set {at:06}{long} v\r\n")).collect();
        client.ask(&sets, &"+OK\r\n".repeat(1000));
    }
}

/// Regression: an error stood in the middle of a key.
#[test]
fn keys_is_answered_to_its_end_though_listing_is_forbidden_by_then() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let config = folder.path().join("larder.toml");
    std::fs::write(&config, "").expect("a file");
    let path = config.to_str().expect("UTF-8");
    let (server, address) =
        Server::start_with_redis(&["-m", "1024", "--compressed", "off", "--config", path]);
    let mut client = Client::connect(address);
    let count = 45_000;
    set_long_keys(&mut client, count);
    // More than sockets hold, so that the rest waits until it reads.
    client.send(b"keys *\r\n");
    assert_eq!(line(&mut client), format!("*{count}\r\n"));
    std::fs::write(&config, "disable-dumping = true\n").expect("a file");
    server.signal("HUP");
    let mut other = server.connect();
    let mut settings = String::new();
    while !settings.contains("STAT dump_enabled no\r\n") {
        other.send(b"stats settings\r\n");
        settings = other.read_to("END\r\n");
    }
    (0..count).for_each(|number| assert_eq!(bulk(&mut client).len(), 246, "{number}"));
    client.send(b"keys *\r\n");
    assert!(line(&mut client).contains("keys is not allowed"));
}

#[test]
fn keys_that_are_too_many_for_one_answer_are_refused() {
    let (server, address) = Server::start_with_redis(&["--compressed", "off"]);
    let mut client = Client::connect(address);
    set_long_keys(&mut client, 50_000);
    // All of them, in a reply of several parts.
    let some: std::collections::BTreeSet<String> = keys(&mut client, "00*").into_iter().collect();
    assert_eq!(some.len(), 10_000);
    client.ask("keys *\r\nping\r\n", "-ERR too many keys for one answer; use SCAN\r\n+PONG\r\n");
    server.connect().wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
}

/// Regression: each value was small enough, and all of them together too large for the item limit.
#[test]
fn a_command_may_be_longer_than_an_item() {
    let (server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    let value = vec![b'v'; 20_000];
    let names: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
    let pairs = names.iter().flat_map(|name| [name.as_bytes(), &value]);
    let mset: Vec<&[u8]> = std::iter::once(&b"mset"[..]).chain(pairs).collect();
    client.send(&array(&mset));
    client.expect(b"+OK\r\n");
    client.ask("multi\r\n", "+OK\r\n");
    client.send(&array(&mset));
    client.ask("exec\r\n", "+QUEUED\r\n*1\r\n+OK\r\n");
    let padding = "x".repeat(30);
    let many: Vec<String> = (0..40_000).map(|number| format!("{number}{padding}")).collect();
    let words = names.iter().chain(&many).map(String::as_bytes);
    let del: Vec<&[u8]> = std::iter::once(&b"del"[..]).chain(words).collect();
    client.send(&array(&del));
    client.expect(b":100\r\n");
    server.connect().wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
}

/// Regression: a command that had been answered in part was refused, within its own answer, and the
/// next one went on where it had been.
#[test]
fn a_command_goes_on_that_was_begun_before_its_limit_was_lowered() {
    let (server, address) = Server::start_with_redis(&["-m", "1024"]);
    let mut client = Client::connect(address);
    let (name, value) = ("k".repeat(250), "v".repeat(1000));
    client.ask(&format!("set {name} {value}\r\n"), "+OK\r\n");
    let asked = 24_000;
    let mut words = vec![name.as_bytes(); asked + 1];
    words[0] = b"mget";
    client.send(&array(&words));
    // It takes nothing of the answer, of which a part waits by then.
    let mut other = server.connect();
    other.wait_for_stat("cmd_get", |gets| gets > 100);
    other.ask("cache_memlimit 64\r\n", "OK\r\n");
    assert_eq!(line(&mut client), format!("*{asked}\r\n"));
    (0..asked).for_each(|number| assert_eq!(bulk(&mut client), value, "{number}"));
    client.ask("del a b\r\nexists a\r\n", ":0\r\n:0\r\n");
    client.send(&array(&words));
    client.expect(b"-ERR command has more than 4697620 bytes\r\n");
}

/// All others are executed in one turn.
#[test]
fn only_commands_of_many_keys_may_be_longer_than_an_item() {
    let (_server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    let long = vec![b'x'; 2 << 20];
    for command in [&[&b"echo"[..], &long][..], &[b"scan", b"0", b"match", &long]] {
        client.send(&array(command));
        client.expect(b"-ERR command has more than 1114112 bytes\r\n");
    }
    client.send(&array(&[&b"exists"[..], b"a", &long]));
    client.expect(b"-ERR a key is 1 to 250 bytes here\r\n");
}

/// Regression: for every byte of every key the whole class was gone over: a worker stood still for
/// minutes, and held its session meanwhile.
#[test]
fn the_time_of_a_scan_does_not_depend_on_its_pattern() {
    let (_server, address) = Server::start_with_redis(&["-I", "1m"]);
    let mut client = Client::connect(address);
    for number in 0..500 {
        client.ask(&format!("set {}{number:05} v\r\n", "c".repeat(200)), "+OK\r\n");
    }
    let pattern = format!("*[{}]", "a".repeat(900_000));
    client.send(&array(&[b"scan", b"0", b"count", b"1000", b"match", pattern.as_bytes()]));
    client.send(&array(&[b"config", b"get", pattern.as_bytes(), b"*policy"]));
    assert_eq!(line(&mut client), "*2\r\n");
    bulk(&mut client);
    client.expect(b"*0\r\n*2\r\n$16\r\nmaxmemory-policy\r\n");
}

#[test]
fn a_prefix_is_flushed() {
    let (_server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    for key in ["user:1", "user:\u{e9} 2", "other"] {
        client.send(&array(&[b"set", key.as_bytes(), b"x"]));
        client.expect(b"+OK\r\n");
    }
    client.send(&array(&[b"FLUSHPREFIX", b"user:\xc3"]));
    client.expect(b"+OK\r\n");
    client.ask("exists user:1 other\r\n", ":2\r\n");
    client.ask("flushprefix user:\r\nexists user:1 other\r\n", "+OK\r\n:1\r\n");
    client.send(&array(&[b"flushprefix", b""]));
    client.expect(b"-ERR a prefix is 1 to 250 bytes here\r\n");
    client.ask("flushprefix\r\n", "-ERR wrong number of arguments for 'flushprefix' command\r\n");
}

#[test]
fn keys_are_counted_by_their_namespaces() {
    let (server, address) = Server::start_with_redis(&["-D", ":"]);
    let mut client = Client::connect(address);
    client.ask("set r:1 x\r\nget r:1\r\nget r:2\r\n", "+OK\r\n$1\r\nx\r\n$-1\r\n");
    client.ask("append r:1 y\r\ndel r:1 r:2\r\nset none x\r\n", ":2\r\n:1\r\n+OK\r\n");
    let dump = "PREFIX r get 2 hit 1 set 2 del 2\r\nEND\r\n";
    server.connect().ask("stats detail dump\r\n", dump);
}

#[test]
fn commands_that_options_forbid_are_refused() {
    let (_server, address) = Server::start_with_redis(&["-F", "-X"]);
    let mut client = Client::connect(address);
    client.ask("set a b\r\n", "+OK\r\n");
    for command in ["flushall", "flushdb async", "flushprefix a", "scan 0", "keys *"] {
        client.send(format!("{command}\r\n").as_bytes());
        assert!(line(&mut client).contains("is not allowed"), "{command}");
    }
    client.ask("get a\r\n", "$1\r\nb\r\n");
}

#[test]
fn there_is_one_port_for_each_address_and_one_beside_a_unix_socket() {
    let (server, address) = Server::start_with_redis(&["-l", "127.0.0.1,127.0.0.1:0"]);
    Client::connect(address).ask("ping\r\n", "+PONG\r\n");
    server.connect().ask("mn\r\n", "MN\r\n");
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("socket");
    let (_server, address) = Server::start_with_redis(&["-s", path.to_str().expect("text")]);
    Client::connect(address).ask("ping\r\n", "+PONG\r\n");
    let stream = std::os::unix::net::UnixStream::connect(&path).expect("it accepts");
    let mut text = Client { stream };
    text.ask("get a\r\n", "END\r\n");
    text.send(b"stats settings\r\n");
    assert!(text.read_to("END\r\n").contains("STAT tcpport 0\r\n"));
}

#[test]
fn a_client_above_the_connection_limit_gets_an_error() {
    let (_server, address) = Server::start_with_redis(&["-c", "2"]);
    let (mut first, mut second) = (Client::connect(address), Client::connect(address));
    first.ask("ping\r\n", "+PONG\r\n");
    second.ask("ping\r\n", "+PONG\r\n");
    let mut third = Client::connect(address);
    third.expect(b"-ERR max number of clients reached\r\n");
    third.expect_end();
}

#[test]
fn the_first_questions_of_tools_are_answered() {
    let (_server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    client.ask("set a b\r\nget a\r\n", "+OK\r\n$1\r\nb\r\n");
    // Two unknown ones, one with too few words, and one in a transaction.
    let unknown = "-ERR unknown command 'evalsha', with args beginning with: 'x' \r\n";
    let few = "-ERR wrong number of arguments for 'get' command\r\n";
    client.ask("evalsha x\r\nget\r\n", &format!("{unknown}{few}"));
    let no_cluster = "-ERR This instance has cluster support disabled\r\n";
    client.ask("cluster slots\r\n", no_cluster);
    let no_number = "-ERR value is not an integer or out of range\r\n";
    let replies = format!("+OK\r\n+QUEUED\r\n*1\r\n{no_number}");
    client.ask("multi\r\nincr a\r\nexec\r\n", &replies);
    client.send(b"info\r\n");
    let info = bulk(&mut client);
    for line in [
        "redis_version:7.0.15",
        "loading:0",
        "role:master",
        "total_error_replies:4",
        "keyspace_hits:1",
        "db0:keys=1",
    ] {
        assert!(info.contains(&format!("\r\n{line}")), "{line} in {info}");
    }
    let resident = info.lines().find_map(|line| line.strip_prefix("used_memory_rss:"));
    let resident: u64 = resident.expect("the kernel tells").parse().expect("a number");
    assert!(resident > 1 << 20, "{info}");
    client.send(b"time\r\necho end\r\n");
    let time = client.read_to("end\r\n");
    client.send(b"info server clients\r\n");
    let info = bulk(&mut client);
    // Regression: it was in whole seconds, and so before the time that TIME had given.
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let time_of = |place: usize| number(time.lines().nth(place).expect("two words"));
    let shown = info.lines().find_map(|line| line.strip_prefix("server_time_usec:"));
    assert!(number(shown.expect("the time")) >= time_of(2) * 1_000_000 + time_of(4), "{info}");
    assert!(
        info.starts_with("# Server\r\n") && info.contains("# Clients") && !info.contains("db0")
    );
    client.send(b"command info get nonsense\r\n");
    client.expect(
        b"*2\r\n*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*3\r\n\
          +@read\r\n+@string\r\n+@fast\r\n*0\r\n*0\r\n*0\r\n$-1\r\n",
    );
    client.send(b"client info\r\n");
    assert!(bulk(&mut client).contains(" cmd=client|info "));
    client
        .ask("client tracking on\r\n", "-ERR unknown subcommand 'tracking'. Try CLIENT HELP.\r\n");
    for name in ["client", "config", "command"] {
        let unknown = format!("-ERR unknown subcommand 'x'. Try {} HELP.\r\n", name.to_uppercase());
        client.ask(&format!("{name} x\r\n"), &unknown);
        let first = format!("*2\r\n+{} <subcommand> [", name.to_uppercase());
        client.ask(&format!("{name} help\r\n"), &first);
        // The rest of the line, and the line with the known ones.
        assert_eq!(client.read_to(".\r\n").lines().count(), 2, "{name}");
    }
    client.ask("client setinfo lib-name here\r\n", "+OK\r\n");
    client.ask(
        "client setinfo\r\n",
        "-ERR wrong number of arguments for 'client|setinfo' command\r\n",
    );
}

#[test]
fn keys_end_in_their_millisecond() {
    let (_server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    let number = |client: &mut Client, command: &str| -> i64 {
        client.send(format!("{command}\r\n").as_bytes());
        line(client).trim_start_matches(':').trim_end().parse().expect("a number")
    };
    client.ask("set a v pxat 4000000000123\r\n", "+OK\r\n");
    assert_eq!(number(&mut client, "pexpiretime a"), 4_000_000_000_123);
    assert_eq!(number(&mut client, "expiretime a"), 4_000_000_000);
    client.ask("append a w\r\npexpiretime a\r\n", ":2\r\n:4000000000123\r\n");
    client.ask("pexpireat a 4000000000777 gt\r\npexpiretime a\r\n", ":1\r\n:4000000000777\r\n");
    client.ask("expireat a 4000000000\r\npexpiretime a\r\n", ":1\r\n:4000000000000\r\n");
    client.ask("persist a\r\npttl a\r\n", ":1\r\n:-1\r\n");
    // However slow this machine is, no key is gone before its time, except for the part of a
    // millisecond in which it was stored.
    for ms in [2, 40, 250, 1100] {
        let began = Instant::now();
        client.ask(&format!("set b v px {ms}\r\n"), "+OK\r\n");
        assert!(number(&mut client, "pttl b") <= ms);
        while number(&mut client, "exists b") == 1 {
            assert!(began.elapsed() < Duration::from_secs(60), "it stays");
        }
        assert!(began.elapsed() >= Duration::from_millis(ms as u64 - 1), "{ms}");
        assert_eq!(number(&mut client, "pttl b"), -2);
    }
}

#[test]
fn with_users_a_client_has_to_log_in() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("users");
    // The second is `secret` with argon2id, 64 KiB and one pass.
    let hash = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$\
        Sm3MnLdCFk0Af+croKgebRoqqmhbKd88iiW3yUOXn78";
    std::fs::write(&file, format!("bob:secret\nava:{hash}\ndefault:open\n")).expect("a file");
    let (server, address) = Server::start_with_redis(&["-Y", file.to_str().expect("UTF-8")]);
    const NOBODY: &str = "-NOAUTH Authentication required.\r\n";
    const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let mut client = Client::connect(address);
    client.ask("get a\r\n", NOBODY);
    client.ask("mset a 1 b 2\r\n", NOBODY);
    client.ask("ping\r\n", NOBODY);
    client.send(b"hello 2 setname nobody\r\n");
    assert!(line(&mut client).starts_with("-NOAUTH HELLO must be called"));
    client.ask("select 0\r\n", NOBODY);
    client.ask("nonsense\r\n", "-ERR unknown command 'nonsense', with args beginning with: \r\n");
    client.send(b"hello 3\r\n");
    // In the words of 7.0; later ones say `HELLO <proto> AUTH`.
    assert!(line(&mut client).contains(" otherwise the HELLO AUTH <user> <pass> option can be "));
    // Commands behind it in the same write wait for its outcome.
    client.ask("auth bob wrong\r\nset a 1\r\n", &format!("{WRONG}{NOBODY}"));
    client.ask("auth bob secret\r\nset a 1\r\nget a\r\n", "+OK\r\n+OK\r\n$1\r\n1\r\n");
    client.ask("client getname\r\n", "$-1\r\n");
    client.ask("auth eve secret\r\nget a\r\n", &format!("{WRONG}$1\r\n1\r\n"));
    client.ask("reset\r\nget a\r\n", &format!("+RESET\r\n{NOBODY}"));
    client.ask("auth open\r\nping\r\n", "+OK\r\n+PONG\r\n");
    let mut other = Client::connect(address);
    other.send(b"hello 3 auth ava secret setname it\r\nclient getname\r\n");
    assert_eq!(line(&mut other), "%7\r\n");
    other.read_to("$2\r\nit\r\n");
    let longer_than_any = "x".repeat(100_000);
    other.send(&array(&[b"auth", b"bob", longer_than_any.as_bytes()]));
    other.expect(WRONG.as_bytes());
    other.send(b"hello 3 auth bob secret auth ava secret\r\n");
    assert!(line(&mut other).starts_with("-ERR Syntax error in HELLO option"));
    // The small limit of an unauthenticated client is Redis', and holds for no other client.
    let long = "x".repeat(16 << 10);
    let auth = array(&[b"auth", long.as_bytes()]);
    let mut unauthenticated = Client::connect(address);
    unauthenticated.send(&auth);
    unauthenticated.expect(WRONG.as_bytes());
    let mut many: Vec<&[u8]> = vec![b"a"; 21];
    many[0] = b"exists";
    let many = array(&many);
    unauthenticated.send(&[&array(&[b"auth", b"bob", b"secret"])[..], &many].concat());
    unauthenticated.expect(b"+OK\r\n:20\r\n");
    unauthenticated
        .send(&[&array(&[b"set", b"b", &auth]), &b"reset\r\nping\r\n*11\r\n"[..]].concat());
    unauthenticated.expect(format!("+OK\r\n+RESET\r\n{NOBODY}").as_bytes());
    unauthenticated.expect(b"-ERR Protocol error: unauthenticated multibulk length\r\n");
    unauthenticated.expect_end();
    let mut unauthenticated = Client::connect(address);
    let length = "-ERR Protocol error: unauthenticated bulk length\r\n";
    unauthenticated.ask("*2\r\n$4\r\nauth\r\n$16385\r\n", length);
    unauthenticated.expect_end();
    let mut guesser = Client::connect(address);
    guesser.send(b"auth a\r\nauth ava b\r\nhello 2 auth ava c\r\nauth open\r\nping\r\n");
    guesser.expect(WRONG.repeat(3).as_bytes());
    guesser.expect_end();
    let mut text = server.connect();
    text.send(b"set any 0 0 10\r\nbob secret\r\nstats\r\n");
    let stats = text.read_to("END\r\n");
    for counted in ["STAT auth_cmds 13\r\n", "STAT auth_errors 7\r\n"] {
        assert!(stats.contains(counted), "{counted} in {stats}");
    }
}

/// Regression: they filled all the room for commands, and an authenticated client was closed for
/// it.
#[test]
fn unauthenticated_clients_do_not_have_others_closed() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("users");
    std::fs::write(&file, "bob:secret\n").expect("a file");
    let (server, address) = Server::start_with_redis(&["-Y", file.to_str().expect("UTF-8")]);
    let mut text = server.connect();
    text.ask("set any 0 0 10\r\nbob secret\r\n", "STORED\r\n");
    let mut bob = Client::connect(address);
    bob.ask("auth bob secret\r\n", "+OK\r\n");
    let value = "x".repeat(500_000);
    let set = array(&[b"set", b"a", value.as_bytes()]);
    let (begin, end) = set.split_at(300_000);
    // Nearly the longest command of an unauthenticated client: 130 are 3 MB more than there is for
    // all.
    let word = [b'x'; 16 << 10];
    let long = array(&[&word[..]; 10]);
    let part = &long[..long.len() - 10];
    let mut strangers: Vec<_> = (0..130).map(|_| Client::connect(address)).collect();
    strangers[0].send(part);
    text.wait_for_stat("output_parked_bytes", |bytes| bytes >= part.len() as u64);
    for unauthenticated in &mut strangers[1..] {
        // Most of them are closed, perhaps before they have sent all of it.
        let _ = std::io::Write::write_all(&mut unauthenticated.stream, part);
    }
    text.wait_for_stat("curr_connections", |count| count < 50);
    bob.send(begin);
    bob.send(end);
    bob.expect(b"+OK\r\n");
    // The first has had room.
    strangers[0].send(&long[part.len()..]);
    strangers[0].send(&array(&[b"auth", b"bob", b"secret"]));
    strangers[0].expect(b"-ERR unknown command");
}
