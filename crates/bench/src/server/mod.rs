//! Servers to measure: started on loopback, pinned, watched, and never left behind.
//!
//! `recipe` knows how each kind is started, `children` makes sure that each is ended, `usage`
//! reads what the kernel counted for it, and `query` asks the server itself.

pub mod children;
pub mod query;
pub mod recipe;
pub mod usage;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::machine;
use children::Guard;
use recipe::{Kind, Recipe};

/// The ports servers are started on.
const PORTS: std::ops::RangeInclusive<u16> = 21_200..=21_249;
/// How long a server may take to listen.
const START_MAX: Duration = Duration::from_secs(20);
/// How often it is tried.
const START_STEP: Duration = Duration::from_millis(5);
/// What is shown of the log of a server that does not start.
const LOG_BYTES_SHOWN: usize = 2000;

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct Server {
    /// What it is.
    pub kind: Kind,
    /// Where it listens.
    pub address: SocketAddr,
    /// Program and arguments, as they could be typed.
    pub command_line: String,
    child: Guard,
    log: PathBuf,
}

impl Server {
    /// Starts a server on a free port, pinned to `core`, and waits until it listens.
    pub fn start(recipe: &Recipe, memory_mb: u64, core: usize) -> Outcome<Server> {
        let _starting = lock_starts()?;
        let port = free_port()?;
        let mut command = Command::new(&recipe.program);
        command.args(recipe.arguments(port, memory_mb));
        let log = std::env::temp_dir().join(format!("larder-bench-{port}.log"));
        let file = fs::File::create(&log).map_err(Failure::io("making a log file"))?;
        let errors = file.try_clone().map_err(Failure::io("making a log file"))?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        // A child inherits its parent's core, with all its threads: pin, start, pin back.
        let before = machine::pin(core)?;
        let child = Guard::spawn(&mut command);
        machine::restore(&before)?;
        let mut server = Server {
            kind: recipe.kind,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            command_line: recipe.command_line(port, memory_mb),
            child: child.map_err(Failure::io(format!(
                "starting {}",
                recipe.program.display()
            )))?,
            log,
        };
        server.await_listening()?;
        Ok(server)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    fn await_listening(&mut self) -> Outcome<()> {
        let started = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let ended = self.child.has_ended();
            if ended || started.elapsed() > START_MAX {
                let why = if ended {
                    "ended at once"
                } else {
                    "does not listen"
                };
                let log = fs::read(&self.log).unwrap_or_default();
                let shown = &log[log.len().saturating_sub(LOG_BYTES_SHOWN)..];
                return Err(Failure::Reply(format!(
                    "`{}` {why}\n{}",
                    self.command_line,
                    String::from_utf8_lossy(shown)
                )));
            }
            std::thread::sleep(START_STEP);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Without the log there is nothing to remove.
        let _ = fs::remove_file(&self.log);
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
