//! A server started for a check, on a free port of the loopback address, and ended with it.
//!
//! The guard kills the process when it is dropped, so neither a failed check nor a panic leaves a
//! server behind. The server's output goes to a file beside the report.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::wire::Wire;
use crate::command::Run;
use crate::{Result, fail};

/// The folder of reports and logs.
pub const FOLDER: &str = "target/conformance";

const START_LIMIT: Duration = Duration::from_secs(10);

/// The shell command that raises the limit of open files.
const RAISE_FILES: &str = "ulimit -n 16384 2>/dev/null || ulimit -n $(ulimit -H -n)";

/// Ports that have been drawn. The system's random choice returns the same port twice now and then
/// before anybody listens there.
static DRAWN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// The most draws of a port: a run uses a few hundred of many thousand.
const DRAWS_MAX: usize = 100;

/// How a kind of server is started; `start` adds the port.
#[derive(Clone)]
pub struct Recipe {
    /// The program.
    pub path: PathBuf,
    /// What the user of the suite adds to every start.
    pub extra: Vec<String>,
}

impl Recipe {
    /// A server by its path alone.
    pub fn new(path: &str, extra: &[String]) -> Recipe {
        Recipe { path: PathBuf::from(path), extra: extra.to_vec() }
    }

    /// Returns whether this is memcached itself, which needs an option to run as root.
    pub fn is_memcached(&self) -> bool {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.contains("memcached"))
    }

    /// Starts it with these options, separated by spaces.
    pub fn start(&self, options: &str) -> Result<Server> {
        self.start_at(free_port()?, options)
    }

    /// Starts it on a given port, for a server that comes back at its old address.
    pub fn start_at(&self, port: u16, options: &str) -> Result<Server> {
        if !Path::new(&self.path).is_file() {
            return fail(format!("no server at {}", self.path.display()));
        }
        let options: Vec<String> = options.split(' ').map(str::to_string).collect();
        let mut command = with_many_files();
        command.arg(&self.path);
        command.args(["-l", "127.0.0.1", "-U", "0", "-p"]).arg(port.to_string());
        if self.is_memcached() {
            command.args(["-u", "root"]);
        }
        command.args(options.iter().filter(|option| !option.is_empty())).args(&self.extra);
        std::fs::create_dir_all(FOLDER)?;
        let log = std::fs::File::create(format!("{FOLDER}/server-{port}.log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let server = Server { child: command.spawn()?, port };
        server.wait_until_up()
    }
}

/// A running server; dropping it kills it.
pub struct Server {
    child: Child,
    /// The port it listens on.
    pub port: u16,
}

impl Server {
    /// Starts a redis-server that keeps nothing on disk.
    pub fn start_redis(path: &str) -> Result<Server> {
        let port = free_port()?;
        std::fs::create_dir_all(FOLDER)?;
        let log = std::fs::File::create(format!("{FOLDER}/server-{port}.log"))?;
        let child = Command::new(path)
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"])
            .arg(port.to_string())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Server { child, port }.wait_until_up()
    }

    fn wait_until_up(mut self) -> Result<Server> {
        let started = Instant::now();
        while started.elapsed() < START_LIMIT {
            if let Some(status) = self.child.try_wait()? {
                let path = format!("{FOLDER}/server-{}.log", self.port);
                let log = std::fs::read_to_string(path).unwrap_or_default();
                return fail(format!("the server ended at once with {status}:\n{log}"));
            }
            if Wire::connect(self.port).is_ok() {
                return Ok(self);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        fail(format!("no connection to port {} after {START_LIMIT:?}", self.port))
    }

    /// Returns its address.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns its resident memory in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        match kib.and_then(|kib| kib.trim().parse::<u64>().ok()) {
            Some(kib) => Ok(kib * 1024),
            None => fail("the server's memory cannot be read; it has ended"),
        }
    }

    /// Stops it as an operator would, and waits for its end; fails if it does not end in time.
    pub fn stop(mut self, limit: Duration) -> Result {
        Run::new("kill -TERM").arg(self.child.id().to_string()).capture(limit)?;
        let started = Instant::now();
        while started.elapsed() < limit {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() {
                    Ok(())
                } else {
                    fail(format!("it ended by {status}"))
                };
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        fail(format!("a server did not stop within {limit:?}"))
    }

    /// Returns whether it is still running.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killing fails if it has ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a command that runs its first argument as a program, with the arguments behind it, with
/// a raised limit of open files: as many as are allowed if that is fewer.
pub fn with_many_files() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{RAISE_FILES}; exec \"$0\" \"$@\"")]);
    command
}

/// Returns how many files such a program may open; `None` if there is no limit.
pub fn files_max() -> Result<Option<usize>> {
    let script = format!("{RAISE_FILES}; ulimit -n");
    let text = Run::new("sh -c").arg(script).capture(Duration::from_secs(5))?;
    Ok(text.trim().parse().ok())
}

/// Returns a port that nobody listens on now, a different one each time.
pub fn free_port() -> Result<u16> {
    for _ in 0..DRAWS_MAX {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let port = listener.local_addr()?.port();
        if DRAWN.lock().unwrap_or_else(PoisonError::into_inner).insert(port) {
            return Ok(port);
        }
    }
    fail("all ports that are free were drawn before")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a server and its admin port got the same port, once in some thousand runs.
    #[test]
    fn no_port_is_drawn_twice() {
        let ports: BTreeSet<u16> = (0..500).map(|_| free_port().expect("a free port")).collect();
        assert_eq!(ports.len(), 500);
    }
}
