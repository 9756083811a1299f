//! Servers to measure: started on loopback, pinned, watched, and never left behind.
//!
//! `recipe` knows how each kind is started, `children` makes sure that each is ended, `usage`
//! reads what the kernel counted for it, `query` asks the server itself, and `held` puts both
//! together. `identity` starts servers that speak TLS. `flash_file` is what a flash tier is put on.

pub mod children;
pub mod flash_file;
pub mod held;
pub mod identity;
pub mod query;
pub mod recipe;
pub mod usage;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::drive::encode::Dialect;
use crate::failure::{Failure, Outcome};
use crate::machine;
use children::Guard;
use recipe::{Kind, Recipe};

/// The ports servers are started on.
const PORTS: std::ops::RangeInclusive<u16> = 21_200..=21_249;
/// How long a server may take to listen.
const START_MAX: Duration = Duration::from_secs(20);
/// How long a server whose connection failed may take to be gone.
const END_MAX: Duration = Duration::from_secs(2);
/// How long it may take to end when it is asked to: it saves for a minute at most.
const STOP_MAX: Duration = Duration::from_secs(90);
/// How often either is tried.
const START_STEP: Duration = Duration::from_millis(5);
/// What is shown of the log of a server that does not start.
const LOG_BYTES_SHOWN: usize = 2000;

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct Server {
    /// What it is.
    pub kind: Kind,
    /// What reports call it.
    pub name: String,
    /// The protocol that it is measured with.
    pub dialect: Dialect,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it speaks TLS, if it does.
    pub tls_address: Option<SocketAddr>,
    /// Program and arguments, as they could be typed.
    pub command_line: String,
    /// How long after its start it took connections.
    pub listened_after: Duration,
    child: Guard,
    log: Log,
}

impl Server {
    /// Starts a server on a free port, pinned to all of these cores together, and waits until it
    /// listens.
    pub fn start(recipe: &Recipe, memory_mb: u64, cores: &[usize]) -> Outcome<Server> {
        let _starting = lock_starts()?;
        Server::start_on(free_port()?, recipe, memory_mb, cores)
    }

    /// The same on a port that is known to be free, such as that of a server that has ended.
    pub fn start_on(
        port: u16,
        recipe: &Recipe,
        memory_mb: u64,
        cores: &[usize],
    ) -> Outcome<Server> {
        machine::check_memory(memory_mb.saturating_mul(1 << 20))?;
        let mut command = recipe.command(port, memory_mb);
        let log = Log::new(port)?;
        command.stdin(Stdio::null()).stdout(log.writer()?).stderr(log.writer()?);
        // A child inherits its parent's cores, with all its threads: pin, start, pin back.
        let before = machine::pin_to(cores)?;
        let child = Guard::spawn(&mut command);
        machine::restore(&before)?;
        let mut server = Server {
            kind: recipe.kind,
            name: recipe.name.clone(),
            dialect: recipe.dialect,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            tls_address: None,
            command_line: recipe.command_line(port, memory_mb),
            listened_after: Duration::ZERO,
            child: child.map_err(Failure::io(format!("starting {}", recipe.program.display())))?,
            log,
        };
        server.await_listening()?;
        Ok(server)
    }

    /// The process.
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

    /// Waits until the server has ended; returns how, if the system tells.
    pub fn await_end(&self) -> Outcome<Option<ExitStatus>> {
        let asked = Instant::now();
        while !self.child.has_ended() {
            if asked.elapsed() > STOP_MAX {
                let line = &self.command_line;
                return Err(Failure::Reply(format!("`{line}` does not end when asked to")));
            }
            std::thread::sleep(START_STEP);
        }
        Ok(self.child.status())
    }

    /// What went wrong with a measurement of this server: if it has ended by itself, that, with the
    /// end of what it said.
    pub fn explain(&self, failure: Failure) -> Failure {
        // A connection is closed before the process that had it is gone, on a busy machine long
        // before.
        let failed = Instant::now();
        while !self.child.has_ended() {
            if failed.elapsed() > END_MAX {
                return failure;
            }
            std::thread::sleep(START_STEP);
        }
        let (line, log) = (&self.command_line, self.log.end());
        Failure::Reply(format!("{} ended while it was measured\n`{line}`\n{log}", self.name))
    }

    fn await_listening(&mut self) -> Outcome<()> {
        let started = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let ended = self.child.has_ended();
            if ended || started.elapsed() > START_MAX {
                let why = if ended { "ended at once" } else { "does not listen" };
                let (line, log) = (&self.command_line, self.log.end());
                return Err(Failure::Reply(format!("`{line}` {why}\n{log}")));
            }
        }
        self.listened_after = started.elapsed();
        std::thread::sleep(START_STEP);
        Ok(())
    }
}

/// What a server says on its standard output and error: a file without a name, so that nothing is
/// left of it however this process ends.
#[derive(Debug)]
struct Log(fs::File);

impl Log {
    fn new(port: u16) -> Outcome<Log> {
        let path = std::env::temp_dir().join(format!("larder-bench-{port}.log"));
        let doing = || Failure::io(format!("making {}", path.display()));
        let mut options = fs::OpenOptions::new();
        options.read(true).append(true).create(true);
        let file = options.open(&path).map_err(doing())?;
        fs::remove_file(&path).map_err(doing())?;
        Ok(Log(file))
    }

    fn writer(&self) -> Outcome<fs::File> {
        self.0.try_clone().map_err(Failure::io("sharing a log"))
    }

    /// The end of it, as far as it can be read.
    fn end(&self) -> String {
        let bytes = self.0.metadata().map_or(0, |data| data.len());
        let mut shown = vec![0; LOG_BYTES_SHOWN];
        let read = self.0.read_at(&mut shown, bytes.saturating_sub(LOG_BYTES_SHOWN as u64));
        shown.truncate(read.unwrap_or(0));
        String::from_utf8_lossy(&shown).into_owned()
    }
}

/// Lets one process at a time look for a free port and start a server on it, so that two runs on
/// one machine do not end up asking the same server. Held until the file is closed.
fn lock_starts() -> Outcome<fs::File> {
    let path = std::env::temp_dir().join("larder-bench.starting");
    let doing = || Failure::io(format!("locking {}", path.display()));
    let file = fs::File::create(&path).map_err(doing())?;
    file.lock().map_err(doing())?;
    Ok(file)
}

fn free_port() -> Outcome<u16> {
    PORTS
        .into_iter()
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| Failure::Reply("all ports from 21200 to 21249 are taken".into()))
}
