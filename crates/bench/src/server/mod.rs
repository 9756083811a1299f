//! Servers to measure: started on loopback, pinned, watched, and never left behind.
//!
//! `recipe` knows how each kind is started; `children` makes sure that each is ended; `usage` reads
//! the kernel's counts for it; `query` asks the server itself; `held` puts both together.
//! `identity` starts servers that speak TLS. `flash_file` is the file under a flash tier, and
//! `scratch` holds everything that must be removed with this process.

pub mod children;
pub mod flash_file;
pub mod held;
pub mod identity;
pub mod query;
pub mod recipe;
pub mod scratch;
pub mod usage;

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::drive::encode::Dialect;
use crate::failure::{Failure, Outcome};
use crate::machine;
use children::Guard;
use recipe::{Kind, Recipe};

/// The ports servers are started on.
const PORTS: std::ops::RangeInclusive<u16> = 21_200..=21_249;
/// Time for a server to start listening.
const START_MAX: Duration = Duration::from_secs(20);
/// Time for a server whose connection failed to have ended: a process may end after its connections
/// are closed, on a busy machine long after.
const END_MAX: Duration = Duration::from_secs(60);
/// Time for a server to have ended after a failure that says nothing of its connection.
const END_SOON_MAX: Duration = Duration::from_secs(1);
/// Time for a server to end when asked: it saves for a minute at most.
const STOP_MAX: Duration = Duration::from_secs(90);
/// The pause between two looks at a server that starts or ends.
const LOOK_STEP: Duration = Duration::from_millis(5);
/// The pause between two tries to connect to a server that starts.
const CONNECT_STEP: Duration = Duration::from_micros(200);
/// The bytes shown of the log of a server that does not start.
const LOG_BYTES_SHOWN: usize = 2000;

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct Server {
    /// Its kind.
    pub kind: Kind,
    /// Its name in reports.
    pub name: String,
    /// The protocol used to measure it.
    pub dialect: Dialect,
    /// Whether it knows memcached's meta commands.
    pub has_meta: bool,
    /// The address it listens on.
    pub address: SocketAddr,
    /// Its address for TLS, if it has one.
    pub tls_address: Option<SocketAddr>,
    /// Program and arguments, as they could be typed, followed by the version.
    pub command_line: String,
    /// The time from its start until it took connections.
    pub listened_after: Duration,
    child: Guard,
    log: Log,
    port: Port,
}

impl Server {
    /// Starts a server on a free port, pinned to all of these cores together, and waits until it
    /// listens.
    pub fn start(recipe: &Recipe, memory_mb: u64, cores: &[usize]) -> Outcome<Server> {
        let mut server = Server::start_silent(recipe, memory_mb, cores)?;
        server.tell_version();
        Ok(server)
    }

    /// Starts a server without asking it anything, such as one that does not yet listen at this
    /// address for the client.
    fn start_silent(recipe: &Recipe, memory_mb: u64, cores: &[usize]) -> Outcome<Server> {
        Server::start_on(Port::free()?, recipe, memory_mb, cores)
    }

    /// Appends the version to the command line, so that reports state it. A server need not tell
    /// its version.
    fn tell_version(&mut self) {
        if self.kind == Kind::Null {
            return;
        }
        let version = query::version(self.address, self.dialect);
        let version = version.map_or("does not tell its version".to_owned(), |it| it);
        self.command_line += &format!("  # {version}");
    }

    /// Starts a server on the port of this one, which has ended, and takes its place.
    pub fn start_again(&mut self, recipe: &Recipe, memory_mb: u64, cores: &[usize]) -> Outcome<()> {
        *self = Server::start_on(self.port.clone(), recipe, memory_mb, cores)?;
        Ok(())
    }

    fn start_on(port: Port, recipe: &Recipe, memory_mb: u64, cores: &[usize]) -> Outcome<Server> {
        machine::check_memory(memory_mb.saturating_mul(1 << 20))?;
        let mut command = recipe.command(port.number, memory_mb);
        let log = Log::new(port.number)?;
        command.stdin(Stdio::null()).stdout(log.writer()?).stderr(log.writer()?);
        // A child inherits its parent's cores, with all its threads: pin, start, pin back.
        let before = machine::pin_to(cores)?;
        let child = Guard::spawn(&mut command);
        machine::restore(&before)?;
        let mut server = Server {
            kind: recipe.kind,
            name: recipe.name.clone(),
            dialect: recipe.dialect,
            has_meta: recipe.has_meta,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port.number)),
            tls_address: None,
            command_line: recipe.command_line(port.number, memory_mb),
            listened_after: Duration::ZERO,
            child: child.map_err(Failure::io(format!("starting {}", recipe.program.display())))?,
            log,
            port,
        };
        server.await_listening()?;
        Ok(server)
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Asks the server to end, and waits until it has.
    pub fn stop(self) -> Outcome<()> {
        self.ask_to_end()?;
        self.await_end().map(|_| ())
    }

    /// Asks the server to end, in its own time.
    pub fn ask_to_end(&self) -> Outcome<()> {
        self.child.ask_to_end().map_err(Failure::io("asking a server to end"))
    }

    /// Ends the server at once, whatever it is doing.
    pub fn kill(&self) -> Outcome<()> {
        self.child.kill().map_err(Failure::io("killing a server"))
    }

    /// Waits until the server has ended; returns its status, if the system tells.
    pub fn await_end(&self) -> Outcome<Option<ExitStatus>> {
        let asked = Instant::now();
        while !self.child.has_ended() {
            if asked.elapsed() > STOP_MAX {
                let line = &self.command_line;
                return Err(Failure::Ended(format!("`{line}` does not end when asked to")));
            }
            std::thread::sleep(LOOK_STEP);
        }
        Ok(self.child.status())
    }

    /// Explains a failed measurement of this server: if the server has ended by itself, by that,
    /// with the end of its log.
    pub fn explain(&self, failure: Failure) -> Failure {
        let failed = Instant::now();
        while !self.child.has_ended() {
            if failed.elapsed() >= end_max(&failure) {
                return failure;
            }
            std::thread::sleep(LOOK_STEP);
        }
        let (line, log) = (&self.command_line, self.log.end());
        Failure::Ended(format!("{} ended while it was measured\n`{line}`\n{log}", self.name))
    }

    fn await_listening(&mut self) -> Outcome<()> {
        let started = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            if self.child.has_ended() {
                return Err(self.not_started("ended at once"));
            }
            if started.elapsed() > START_MAX {
                return Err(self.not_started("does not listen"));
            }
            // `listened_after` is a figure of reports: the pause is short beside it.
            std::thread::sleep(CONNECT_STEP);
        }
        self.listened_after = started.elapsed();
        std::thread::sleep(LOOK_STEP);
        // The listener may be another server that kept this one from its port.
        if self.child.has_ended() { Err(self.not_started("ended at once")) } else { Ok(()) }
    }

    fn not_started(&self, why: &str) -> Failure {
        let (line, log) = (&self.command_line, self.log.end());
        Failure::Ended(format!("`{line}` {why}\n{log}"))
    }
}

/// Returns how long after this failure a server is given to end.
fn end_max(failure: &Failure) -> Duration {
    match failure {
        // A wrong value is the server's own, whatever becomes of it.
        Failure::Check(_) | Failure::Usage(_) => Duration::ZERO,
        _ if failure.is_of_connection() => END_MAX,
        _ => END_SOON_MAX,
    }
}

/// A server's standard output and error: a file without a name, so that nothing is left of it
/// however this process ends.
#[derive(Debug)]
struct Log(fs::File);

impl Log {
    fn new(port: u16) -> Outcome<Log> {
        let name = format!("larder-bench-{}-{port}.log", std::process::id());
        let path = std::env::temp_dir().join(name);
        let doing = || Failure::io(format!("making {}", path.display()));
        let mut options = fs::OpenOptions::new();
        options.read(true).append(true).create_new(true);
        let file = options.open(&path).map_err(doing())?;
        fs::remove_file(&path).map_err(doing())?;
        Ok(Log(file))
    }

    fn writer(&self) -> Outcome<fs::File> {
        self.0.try_clone().map_err(Failure::io("sharing a log"))
    }

    /// Returns the end of it, as far as it can be read.
    fn end(&self) -> String {
        let bytes = self.0.metadata().map_or(0, |data| data.len());
        let mut shown = vec![0; LOG_BYTES_SHOWN];
        let read = self.0.read_at(&mut shown, bytes.saturating_sub(LOG_BYTES_SHOWN as u64));
        shown.truncate(read.unwrap_or(0));
        String::from_utf8_lossy(&shown).into_owned()
    }
}

/// A port that no other run on this machine takes while this is held, not even between the end of a
/// server and the start of its successor: two runs would end up asking the same server.
#[derive(Debug, Clone)]
struct Port {
    number: u16,
    /// Bound until the last clone is dropped, or the process ends.
    _claim: Arc<UnixListener>,
}

impl Port {
    fn free() -> Outcome<Port> {
        for number in PORTS {
            if let Some(port) = Port::claim(number)?
                && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok()
            {
                return Ok(port);
            }
        }
        Err(Failure::Ended("all ports from 21200 to 21249 are taken".into()))
    }

    /// Claims a port; `None` if another run has it. The claim is the name of an abstract socket,
    /// which ends with its process and is nobody's file: a file of another user would keep all
    /// others out for good.
    fn claim(number: u16) -> Outcome<Option<Port>> {
        let name = format!("larder-bench-{number}");
        let doing = || Failure::io(format!("claiming port {number}"));
        let address = UnixAddr::from_abstract_name(name).map_err(doing())?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(Some(Port { number, _claim: Arc::new(listener) })),
            Err(error) if error.kind() == ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(doing()(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a wrong value and a refused request of a server that lived on were told a minute
    /// after they were found.
    #[test]
    fn only_a_broken_connection_waits_long_for_the_end_of_its_server() {
        let broken = |kind| Failure::io("asking")(std::io::Error::from(kind));
        assert_eq!(end_max(&Failure::Check("another value".into())), Duration::ZERO);
        assert_eq!(end_max(&Failure::Reply("no reply".into())), END_SOON_MAX);
        assert_eq!(end_max(&broken(ErrorKind::NotFound)), END_SOON_MAX);
        assert_eq!(end_max(&Failure::Closed(String::new())), END_MAX);
        assert_eq!(end_max(&broken(ErrorKind::ConnectionReset)), END_MAX);
    }

    /// Regression: a run of restarts asked the server of another run, which had found its port free
    /// between two of its servers, and took that server's values for stale ones of its own.
    #[test]
    fn a_port_is_taken_until_the_last_server_on_it_is_gone() {
        let port = Port::free().expect("a free port");
        let number = port.number;
        let successor = port.clone();
        drop(port);
        assert!(Port::claim(number).expect("a lock").is_none());
        assert_ne!(Port::free().expect("another one").number, number);
        drop(successor);
    }
}
