//! Clients that behave badly, beside one that does not. The server must stay up, keep its memory
//! within bounds and serve the good client as if nothing happened.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use super::server::Server;
use super::wire::Wire;
use super::witness::Witness;
use super::{Bench, Ended};
use crate::random::Random;
use crate::{Result, fail};

const MIB: u64 = 1 << 20;

/// The memory that a server started with `-m limit` may use, by the design's promise.
fn resident_max(limit_mib: u64) -> u64 {
    limit_mib * MIB * 105 / 100 + 32 * MIB
}

fn check_resident(bench: &Bench, server: &Server, limit_mib: u64) -> Result<String> {
    let (used, allowed) = (server.resident_bytes()?, resident_max(limit_mib));
    // The promise is Larder's; memcached is only measured.
    if bench.larder && used > allowed {
        let (used, allowed) = (used / MIB, allowed / MIB);
        return fail(format!("{used} MiB resident with -m {limit_mib}, at most {allowed} allowed"));
    }
    Ok(format!("{} MiB resident", used / MIB))
}

fn finish(server: &mut Server, witness: Witness, what: &str) -> Result<Ended> {
    let answered = witness.verify()?;
    if !server.is_alive() {
        return fail("the server has ended");
    }
    Ok(Ended::Passed(format!("{what}; {answered} good requests beside them")))
}

/// Sends bytes, reads the replies for a moment, and disconnects.
fn throw(port: u16, bytes: &[u8]) -> Result {
    let wire = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    wire.set_write_timeout(Some(Duration::from_millis(500)))?;
    wire.set_read_timeout(Some(Duration::from_millis(2)))?;
    // The server may accept it, refuse it or hang up.
    let _ = (&wire).write_all(bytes);
    let _ = (&wire).read(&mut [0; 4096]);
    Ok(())
}

/// Draws one kind of invalid input.
fn garbage(random: &mut Random) -> Vec<u8> {
    let long = |length: usize| "x".repeat(length);
    let text = match random.below(12) {
        0 => {
            return (0..1 + random.below(4096)).map(|_| random.next() as u8).collect();
        }
        1 => format!("get {}\r\n", long(251)),
        2 => format!("set {} 0 0 5\r\nhello\r\n", long(251)),
        3 => "set a 0 0 5\r\nhello, world\r\nget a\r\n".to_string(),
        4 => "set a 0 0 50\r\nhello\r\n".to_string(),
        5 => "set a 0 0 -1\r\nhello\r\nset a b c d\r\n".to_string(),
        6 => long(100_000),
        7 => format!("set big 0 0 {}\r\n{}\r\n", 2 * MIB, long(2 << 20)),
        8 => "set huge 0 0 2147483647\r\nx".to_string(),
        9 => format!("get {}\r\n", "k ".repeat(20_000)),
        10 => "mg\r\nms a\r\nms a x\r\nma b N0 N0\r\n \r\n\r\n\0\r\nGET a\r\n".to_string(),
        _ => {
            // A binary request that announces more than it sends: more than is allowed, or a value.
            let mut header = vec![0x80, random.next() as u8, 0xff, 0xff, 0xff, 0, 0, 0];
            header.extend_from_slice(&[0xff; 16]);
            if random.once_in(2) {
                header = vec![0x80, 0x01, 0, 1, 8, 0, 0, 0, 0, 0x0f, 0xff, 0xff];
                header.extend_from_slice(&[0; 20]);
                header.extend_from_slice(b"key");
            }
            return header;
        }
    };
    text.into_bytes()
}

/// Sends wrong syntax, long keys, wrong lengths, missing ends, values over the limit, binary
/// garbage.
pub fn bad_input(bench: &Bench) -> Result<Ended> {
    const CONNECTIONS: usize = 1500;
    let mut server = bench.options.server.start("-m 64")?;
    let witness = Witness::start(server.port);
    let mut random = Random::new(bench.options.seed);
    for _ in 0..CONNECTIONS {
        throw(server.port, &garbage(&mut random))?;
    }
    let used = check_resident(bench, &server, 64)?;
    finish(&mut server, witness, &format!("{CONNECTIONS} bad connections, {used}"))
}

/// Sends half of a request on connections that then stay silent.
pub fn half_requests(bench: &Bench) -> Result<Ended> {
    let mut server = bench.options.server.start("-m 64")?;
    let witness = Witness::start(server.port);
    let halves: &[&[u8]] = &[
        b"se",
        b"get a",
        b"set a 0 0 10\r\nhel",
        b"set a 0 0 5\r\nhello",
        b"mg a v",
        b"\x80\0",
        b"",
    ];
    let mut silent = Vec::new();
    for index in 0..700 {
        let mut wire = Wire::connect(server.port)?;
        wire.send(halves[index % halves.len()])?;
        silent.push(wire);
    }
    std::thread::sleep(Duration::from_millis(500));
    let mut fresh = Wire::connect(server.port)?;
    fresh.expect("get nothing\r\n", "END\r\n")?;
    let ended = finish(&mut server, witness, "700 silent connections");
    drop(silent);
    ended
}

/// Clients ask for a large value again and again and never read.
pub fn deaf_client(bench: &Bench) -> Result<Ended> {
    const CLIENTS: usize = 8;
    const GETS: usize = 5000;
    let limit_mib = 64;
    let mut server = bench.options.server.start(&format!("-m {limit_mib}"))?;
    let mut owner = Wire::connect(server.port)?;
    let length = (MIB - 1024) as usize;
    let value = "v".repeat(length);
    owner.expect(&format!("set large 0 0 {length}\r\n{value}\r\n"), "STORED\r\n")?;
    let witness = Witness::start(server.port);
    let mut deaf = Vec::new();
    for _ in 0..CLIENTS {
        let wire = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port))?;
        wire.set_write_timeout(Some(Duration::from_millis(300)))?;
        // The server stops reading sooner or later; requests that it refuses are left out.
        let _ = (&wire).write_all("get large\r\n".repeat(GETS).as_bytes());
        deaf.push(wire);
    }
    let mut used = String::new();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(100));
        used = check_resident(bench, &server, limit_mib)?;
    }
    finish(&mut server, witness, &format!("{CLIENTS} clients that never read, {used}"))
}

/// Sends a million requests in one go on one connection, and checks every reply in its place.
pub fn long_pipeline(bench: &Bench) -> Result<Ended> {
    const REQUESTS: usize = 1_000_000;
    let mut server = bench.options.server.start("-m 64")?;
    let witness = Witness::start(server.port);
    let wire = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port))?;
    wire.set_read_timeout(Some(Duration::from_secs(20)))?;
    wire.set_write_timeout(Some(Duration::from_secs(20)))?;
    let mut writer = wire.try_clone()?;
    let sender = std::thread::spawn(move || -> std::io::Result<()> {
        let mut bytes = Vec::with_capacity(1 << 20);
        for number in 0..REQUESTS {
            let (key, even) = (number / 2 % 1000, number % 2 == 0);
            if even {
                write!(bytes, "set p{key} 0 0 7\r\n{number:07}\r\n")?;
            } else {
                write!(bytes, "get p{key}\r\n")?;
            }
            if bytes.len() > 1 << 19 {
                writer.write_all(&bytes)?;
                bytes.clear();
            }
        }
        writer.write_all(&bytes)
    });
    let mut reader = std::io::BufReader::with_capacity(1 << 20, wire);
    for number in (0..REQUESTS).step_by(2) {
        let key = number / 2 % 1000;
        let wanted = format!("STORED\r\nVALUE p{key} 0 7\r\n{number:07}\r\nEND\r\n");
        let mut got = vec![0; wanted.len()];
        reader.read_exact(&mut got)?;
        if got != wanted.as_bytes() {
            let got = String::from_utf8_lossy(&got).into_owned();
            return fail(format!("request {number}: wanted {wanted:?}, got {got:?}"));
        }
    }
    match sender.join() {
        Ok(outcome) => outcome?,
        Err(_) => return fail("the sender panicked"),
    }
    let used = check_resident(bench, &server, 64)?;
    finish(&mut server, witness, &format!("{REQUESTS} pipelined requests, {used}"))
}

/// Servers with hardly any memory: they may refuse and evict, but never answer wrongly.
pub fn tiny_memory(bench: &Bench) -> Result<Ended> {
    let rows = [8, 1].map(|megabytes| tiny(bench, megabytes));
    let [eight, one] = rows;
    Ok(Ended::Passed(format!("{}; {}", eight?, one?)))
}

fn tiny(bench: &Bench, megabytes: u64) -> Result<String> {
    const KEYS: usize = 60_000;
    let mut server = bench.options.server.start(&format!("-m {megabytes}"))?;
    let mut wire = Wire::connect(server.port)?;
    let (mut stored, mut hits) = (0, 0);
    let value = |key: usize| format!("{key}-").repeat(1 + key % 150);
    for key in 0..KEYS {
        let value = value(key);
        let reply = wire.ask(&format!("set t{key} 0 0 {}\r\n{value}\r\n", value.len()), "\r\n")?;
        match reply.as_str() {
            "STORED\r\n" => stored += 1,
            refused if refused.starts_with("SERVER_ERROR") => {}
            other => return fail(format!("set t{key} answered {other:?}")),
        }
    }
    for key in 0..KEYS {
        let value = value(key);
        let reply = wire.ask(&format!("get t{key}\r\n"), "END\r\n")?;
        let hit = format!("VALUE t{key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
        if reply == hit {
            hits += 1;
        } else if reply != "END\r\n" {
            return fail(format!("get t{key} answered {reply:?}"));
        }
    }
    let used = check_resident(bench, &server, megabytes)?;
    if !server.is_alive() || stored == 0 || hits == 0 {
        let numbers = format!("{stored} of {KEYS} values stored, {hits} kept");
        return fail(format!("{numbers} with -m {megabytes}"));
    }
    Ok(format!("-m {megabytes}: {stored} of {KEYS} stored, {hits} kept, {used}"))
}
