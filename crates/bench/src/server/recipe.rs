//! How each kind of server is found and started, with one thread and a memory limit.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::drive::encode::Dialect;
use crate::failure::{Failure, Outcome};

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// This project's server.
    Larder,
    /// memcached.
    Memcached,
    /// Redis.
    Redis,
    /// The fixed replies of `larder-bench null-server`.
    Null,
}

impl Kind {
    /// The protocol that it is measured with.
    pub fn dialect(self) -> Dialect {
        match self {
            Kind::Larder | Kind::Memcached | Kind::Null => Dialect::Text,
            Kind::Redis => Dialect::Resp,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Kind::Larder => "larder",
            Kind::Memcached => "memcached",
            Kind::Redis => "redis",
            Kind::Null => "null",
        })
    }
}

/// Where the servers are, and with what they are started beside the usual.
#[derive(Debug, Clone, Args)]
pub struct ServerOptions {
    /// Larder's binary.
    #[arg(long, default_value = "target/release/larder")]
    pub larder: PathBuf,
    /// Further arguments for Larder, separated by spaces.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub larder_args: String,
    /// memcached's binary.
    #[arg(long, default_value = "memcached")]
    pub memcached: PathBuf,
    /// Further arguments for memcached.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub memcached_args: String,
    /// Redis's binary.
    #[arg(long, default_value = "redis-server")]
    pub redis: PathBuf,
    /// Further arguments for Redis.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub redis_args: String,
    /// The core that servers are pinned to.
    #[arg(long, default_value_t = 0)]
    pub server_core: usize,
    /// The core that the client is pinned to.
    #[arg(long, default_value_t = 1)]
    pub client_core: usize,
}

/// How one server is started.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// What it is.
    pub kind: Kind,
    /// The binary, found.
    pub program: PathBuf,
    extra: Vec<String>,
    /// Program and arguments that the server is started under, if any.
    wrapper: Vec<String>,
}

impl ServerOptions {
    /// Finds the binary of `kind`, or says how to get it.
    pub fn recipe(&self, kind: Kind) -> Outcome<Recipe> {
        let (wanted, extra, remedy) = match kind {
            Kind::Larder => (
                self.larder.clone(),
                &self.larder_args,
                "build it with `cargo build --release` or name it with --larder PATH",
            ),
            Kind::Memcached => (
                self.memcached.clone(),
                &self.memcached_args,
                "install Debian's memcached or name it with --memcached PATH",
            ),
            Kind::Redis => (
                self.redis.clone(),
                &self.redis_args,
                "install Debian's redis-server or name it with --redis PATH",
            ),
            Kind::Null => {
                let this = std::env::current_exe().map_err(Failure::io("finding this program"))?;
                return Ok(Recipe { kind, program: this, extra: Vec::new(), wrapper: Vec::new() });
            }
        };
        let program = find(&wanted)
            .ok_or_else(|| Failure::Missing(format!("{kind} ({}): {remedy}", wanted.display())))?;
        let extra = extra.split_whitespace().map(str::to_owned).collect();
        Ok(Recipe { kind, program, extra, wrapper: Vec::new() })
    }
}

impl Recipe {
    /// Adds arguments.
    pub fn with(mut self, extra: impl IntoIterator<Item = String>) -> Recipe {
        self.extra.extend(extra);
        self
    }

    /// Starts the server under another program, such as a profiler.
    pub fn under(
        mut self,
        program: PathBuf,
        arguments: impl IntoIterator<Item = String>,
    ) -> Recipe {
        self.wrapper.push(program.display().to_string());
        self.wrapper.extend(arguments);
        self
    }

    /// The process to start for a port and a memory limit in MiB.
    pub fn command(&self, port: u16, memory_mb: u64) -> Command {
        let program = self.program.display().to_string();
        let mut words = self.wrapper.iter().cloned().chain([program]);
        let first = words.next().expect("the chain holds at least the server's program");
        let mut command = Command::new(first);
        command.args(words).args(self.arguments(port, memory_mb));
        command
    }

    /// The arguments for a port and a memory limit in MiB.
    pub fn arguments(&self, port: u16, memory_mb: u64) -> Vec<String> {
        let mut line = match self.kind {
            Kind::Larder => format!("-p {port} -m {memory_mb} -t 1"),
            Kind::Memcached => {
                // memcached refuses to run as root unless it is told whom to run as.
                let root = rustix::process::geteuid().is_root();
                let user = if root { " -u root" } else { "" };
                format!("-p {port} -m {memory_mb} -t 1 -U 0 -l 127.0.0.1{user}")
            }
            Kind::Redis => format!(
                "--port {port} --bind 127.0.0.1 --save '' --appendonly no --maxmemory \
                 {memory_mb}mb --maxmemory-policy noeviction"
            ),
            Kind::Null => format!("null-server --port {port}"),
        };
        for argument in &self.extra {
            line.push(' ');
            line.push_str(argument);
        }
        let unquoted = |word: &str| {
            if word == "''" { String::new() } else { word.to_owned() }
        };
        line.split_whitespace().map(unquoted).collect()
    }

    /// Program and arguments as they could be typed.
    pub fn command_line(&self, port: u16, memory_mb: u64) -> String {
        let mut line = self.wrapper.join(" ");
        if !line.is_empty() {
            line.push(' ');
        }
        line += &self.program.display().to_string();
        for argument in self.arguments(port, memory_mb) {
            let quoted = if argument.is_empty() { "''" } else { &argument };
            line.push(' ');
            line.push_str(quoted);
        }
        line
    }
}

/// A path as given, or a bare name looked up in `PATH`.
pub fn find(wanted: &Path) -> Option<PathBuf> {
    if wanted.components().count() > 1 {
        return wanted.is_file().then(|| wanted.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(wanted)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::{Kind, Recipe, find};
    use std::path::Path;

    #[test]
    fn redis_gets_an_empty_argument_and_the_line_shows_it() {
        let recipe =
            Recipe { kind: Kind::Redis, program: "redis".into(), extra: vec![], wrapper: vec![] };
        assert!(recipe.arguments(1, 2).contains(&String::new()));
        assert!(recipe.command_line(1, 2).contains("--save '' --appendonly no"));
    }

    #[test]
    fn larder_gets_what_memcached_gets_and_the_extra() {
        let extra = vec!["-u".to_owned(), "root".to_owned()];
        let recipe =
            Recipe { kind: Kind::Larder, program: "larder".into(), extra, wrapper: vec![] };
        assert_eq!(recipe.command_line(7, 64), "larder -p 7 -m 64 -t 1 -u root");
        let wrapped = recipe.under("time".into(), ["-v".to_owned()]);
        assert_eq!(wrapped.command_line(7, 64), "time -v larder -p 7 -m 64 -t 1 -u root");
        assert_eq!(wrapped.command(7, 64).get_program(), "time");
    }

    #[test]
    fn names_are_looked_up_and_paths_are_not() {
        assert!(find(Path::new("sh")).is_some());
        assert!(find(Path::new("./sh")).is_none());
        assert!(find(Path::new("no-such-program-here")).is_none());
    }
}
