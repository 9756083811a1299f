//! Ten thousand connections at once, held by separate processes: this program, started again with
//! `hold-connections`, so that no single process needs that many files.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

use super::server::{files_max, with_many_files};
use super::wire::Wire;
use super::witness::Witness;
use super::{Bench, Ended};
use crate::{Result, fail};

const CONNECTIONS: usize = 10_000;
const HOLDERS: usize = 4;

/// The server's limit, above the number of connections opened.
const CONNECTIONS_MAX: usize = 12_000;

/// A server has some files of its own besides its connections.
const FILES_MIN: usize = CONNECTIONS_MAX + 200;

/// A process that holds connections; dropping it ends it.
struct Holder {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Holder {
    fn start(port: u16, count: usize) -> Result<Holder> {
        let mut command = with_many_files();
        command.arg(std::env::current_exe()?).arg("hold-connections");
        command.args([port.to_string(), count.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        match child.stdout.take() {
            Some(output) => Ok(Holder { child, output: BufReader::new(output) }),
            None => fail("a holder has no output"),
        }
    }

    fn wait_for(&mut self, word: &str) -> Result {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.trim() == word { Ok(()) } else { fail(format!("a holder said {line:?}")) }
    }
}

/// The main function of a holding process: connects, sends a request on every connection, prints
/// `ready`, waits until its input ends, and sends a request on every connection again.
pub fn hold(arguments: &[String]) -> Result {
    let numbers: Vec<usize> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    let [port, count] = numbers[..] else {
        return fail("hold-connections PORT COUNT");
    };
    let mut wires = Vec::new();
    for _ in 0..count {
        let mut wire = Wire::connect(port as u16)?;
        wire.expect("mn\r\n", "MN\r\n")?;
        wires.push(wire);
    }
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    for wire in &mut wires {
        wire.expect("mn\r\n", "MN\r\n")?;
    }
    println!("done");
    Ok(())
}

/// Opens ten thousand connections while a well-behaved client works.
pub fn check(bench: &Bench) -> Result<Ended> {
    if let Some(files) = files_max()?.filter(|&files| files < FILES_MIN) {
        let words = format!("a process may open {files} files, and {FILES_MIN} are needed");
        return Ok(Ended::NotRun(words));
    }
    let mut server = bench.options.server.start(&format!("-m 64 -c {CONNECTIONS_MAX}"))?;
    let mut holders = Vec::new();
    for _ in 0..HOLDERS {
        holders.push(Holder::start(server.port, CONNECTIONS / HOLDERS)?);
    }
    for holder in &mut holders {
        holder.wait_for("ready")?;
    }
    let witness = Witness::start(server.port);
    let stats = Wire::connect(server.port)?.ask("stats\r\n", "END\r\n")?;
    let open = stats.lines().find_map(|line| line.strip_prefix("STAT curr_connections "));
    let open: usize = open.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
    if open < CONNECTIONS {
        return fail(format!("curr_connections is {open} while {CONNECTIONS} are open"));
    }
    let used = server.resident_bytes()? >> 20;
    for holder in &mut holders {
        drop(holder.child.stdin.take());
        holder.wait_for("done")?;
    }
    let answered = witness.verify()?;
    if !server.is_alive() {
        return fail("the server has ended");
    }
    let words = format!("{open} connections, {used} MiB resident, {answered} good requests");
    Ok(Ended::Passed(words))
}

/// Opens more connections than `-c` allows: the surplus ones are told so, the others work, and a
/// place that becomes free can be taken.
pub fn too_many(bench: &Bench) -> Result<Ended> {
    const LIMIT: usize = 40;
    let server = bench.options.server.start(&format!("-m 64 -c {LIMIT}"))?;
    let (mut taken, mut refused) = (Vec::new(), 0);
    for _ in 0..LIMIT + 20 {
        let mut wire = Wire::connect(server.port)?;
        let reply = wire.ask("mn\r\n", "\n")?;
        match reply.as_str() {
            "MN\r\n" => taken.push(wire),
            "ERROR Too many open connections\r\n" => {
                wire.read_to_end()?;
                refused += 1;
            }
            other => return fail(format!("a connection too many was told {other:?}")),
        }
    }
    // memcached counts files of its own among its connections.
    let least = if bench.larder { LIMIT - 5 } else { 5 };
    if refused == 0 || taken.len() > LIMIT || taken.len() < least {
        return fail(format!("{} connections with -c {LIMIT}, {refused} refused", taken.len()));
    }
    for wire in &mut taken {
        wire.expect("mn\r\n", "MN\r\n")?;
    }
    let kept = taken.len();
    taken.truncate(kept / 2);
    let started = std::time::Instant::now();
    while Wire::connect(server.port)?.ask("mn\r\n", "\n")? != "MN\r\n" {
        if started.elapsed() > std::time::Duration::from_secs(5) {
            return fail("closed connections leave no place");
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(Ended::Passed(format!("-c {LIMIT}: {kept} served, {refused} refused")))
}
