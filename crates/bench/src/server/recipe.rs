//! How each kind of server is found and started, with a memory limit and one thread, or with the
//! number that a measurement asks for (`Recipe::with_threads`).
//!
//! Redis keeps its default of refusing stores when memory is full only where a measurement asks for
//! it (`Recipe::refusing`); otherwise it evicts by LRU, as the others do.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::drive::encode::Dialect;
use crate::failure::{Failure, Outcome};

/// Placeholders in a peer's command for values that differ from run to run.
const PORT: &str = "{port}";
const MEMORY_MB: &str = "{memory-mb}";
const THREADS: &str = "{threads}";

/// Larder's binary, if it is not beside this program.
const LARDER_BELOW: &str = "target/release/larder";

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
    /// A command given with `--peer`.
    #[value(skip)]
    Peer,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Kind::Larder => "larder",
            Kind::Memcached => "memcached",
            Kind::Redis => "redis",
            Kind::Null => "null",
            Kind::Peer => "peer",
        })
    }
}

/// The servers' binaries, their additional arguments, and their cores: of all servers, or, with
/// `LarderOptions`, of a command that starts Larder alone.
#[derive(Debug, Clone, Args)]
pub struct ServerOptions<P: Args = ProgramOptions> {
    #[command(flatten)]
    programs: P,
    /// The cores that servers are pinned to, with one worker thread and the background's: on one
    /// core they share it.
    #[arg(
        long,
        alias = "server-core",
        value_name = "CORES",
        value_delimiter = ',',
        default_value = "0"
    )]
    pub server_cores: Vec<usize>,
    /// The core that the client is pinned to.
    #[arg(long, default_value_t = 1)]
    pub client_core: usize,
}

/// Larder's binary, and its additional arguments.
#[derive(Debug, Clone, Args)]
pub struct LarderOptions {
    /// Larder's binary [default: the one beside this program, or else the release build of the
    /// working folder].
    #[arg(long, default_value_os_t = larder_beside(std::env::current_exe().ok()))]
    pub larder: PathBuf,
    /// Further arguments for Larder, separated by spaces.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub larder_args: String,
}

/// The servers' binaries, and their additional arguments.
#[derive(Debug, Clone, Args)]
pub struct ProgramOptions {
    #[command(flatten)]
    own: LarderOptions,
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
    /// Another server to compare with, as NAME=COMMAND, NAME:resp=COMMAND if it speaks Redis's
    /// protocol, or NAME:text=COMMAND if it has none of memcached's meta commands; {port},
    /// {memory-mb} and {threads} in the command are filled in. Can be given several times.
    #[arg(long = "peer", value_name = "NAME=COMMAND")]
    pub peers: Vec<Peer>,
}

/// Returns the path of Larder's binary built with `program`.
fn larder_beside(program: Option<PathBuf>) -> PathBuf {
    let beside = program.map(|program| program.with_file_name("larder"));
    beside.filter(|beside| beside.is_file()).unwrap_or_else(|| LARDER_BELOW.into())
}

/// A server that this program does not know, given as a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name in reports.
    name: String,
    dialect: Dialect,
    has_meta: bool,
    /// Program and arguments, with placeholders for port and memory.
    words: Vec<String>,
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        let (name, command) = text.split_once('=').ok_or("a peer is NAME=COMMAND")?;
        let (name, dialect, has_meta) = match name.rsplit_once(':') {
            None => (name, Dialect::Text, true),
            Some((name, "text")) => (name, Dialect::Text, false),
            Some((name, "resp")) => (name, Dialect::Resp, false),
            Some((_, other)) => return Err(format!("`{other}` is neither text nor resp")),
        };
        let known = Kind::value_variants().iter().any(|kind| kind.to_string() == name);
        if name.is_empty() || known {
            return Err(format!("`{name}` is no name for a peer"));
        }
        if !command.contains(PORT) {
            return Err(format!("the command has no {PORT}"));
        }
        let words = command.split_whitespace().map(str::to_owned).collect();
        Ok(Peer { name: name.to_owned(), dialect, has_meta, words })
    }
}

/// How one server is started.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Its kind.
    pub kind: Kind,
    /// Its name in reports.
    pub name: String,
    /// The protocol used to measure it.
    pub dialect: Dialect,
    /// Whether it knows memcached's meta commands.
    pub has_meta: bool,
    /// The path of the binary.
    pub program: PathBuf,
    extra: Vec<String>,
    threads: u32,
    /// The program under which the server is started, with its arguments, if any.
    wrapper: Vec<String>,
}

impl ServerOptions<LarderOptions> {
    /// Finds Larder's binary, or reports how to get it.
    pub fn recipe(&self) -> Outcome<Recipe> {
        self.programs.recipe()
    }
}

impl ServerOptions {
    /// Finds the binary of a command's only server, or reports how to get it.
    pub fn recipe(&self, kind: Kind) -> Outcome<Recipe> {
        self.without_peers()?.recipe(kind)
    }

    /// Returns the recipes of these kinds, for a command that cannot start unknown servers.
    pub fn recipes_of_known(&self, kinds: &[Kind]) -> Outcome<Vec<Recipe>> {
        self.without_peers()?.recipes(kinds)
    }

    /// Returns whether Larder is started without further arguments.
    pub fn is_larder_as_it_comes(&self) -> bool {
        self.programs.own.larder_args.trim().is_empty()
    }

    /// Refuses peers, rather than ignore them silently.
    fn without_peers(&self) -> Outcome<&ProgramOptions> {
        match self.programs.peers.first() {
            None => Ok(&self.programs),
            Some(Peer { name, .. }) => {
                Err(Failure::Usage(format!("--peer {name}: this command cannot start it")))
            }
        }
    }

    /// Returns the recipes of these kinds and of all given peers.
    pub fn recipes(&self, kinds: &[Kind]) -> Outcome<Vec<Recipe>> {
        self.programs.recipes(kinds)
    }
}

impl LarderOptions {
    fn recipe(&self) -> Outcome<Recipe> {
        let remedy = "build it with `cargo build --release` or name it with --larder PATH";
        found(Kind::Larder, &self.larder, &self.larder_args, remedy)
    }
}

/// Returns the recipe of a binary that is there, or reports how to get it.
fn found(kind: Kind, wanted: &Path, extra: &str, remedy: &str) -> Outcome<Recipe> {
    let program = find(wanted)
        .ok_or_else(|| Failure::Missing(format!("{kind} ({}): {remedy}", wanted.display())))?;
    let extra = extra.split_whitespace().map(str::to_owned).collect();
    Ok(Recipe::new(kind, program, extra))
}

impl ProgramOptions {
    /// Finds the binary of `kind`, or reports how to get it.
    pub fn recipe(&self, kind: Kind) -> Outcome<Recipe> {
        let (wanted, extra, remedy) = match kind {
            Kind::Larder => return self.own.recipe(),
            Kind::Memcached => (
                &self.memcached,
                &self.memcached_args,
                "install Debian's memcached or name it with --memcached PATH",
            ),
            Kind::Redis => (
                &self.redis,
                &self.redis_args,
                "install Debian's redis-server or name it with --redis PATH",
            ),
            Kind::Null => {
                let this = std::env::current_exe().map_err(Failure::io("finding this program"))?;
                return Ok(Recipe::new(kind, this, Vec::new()));
            }
            Kind::Peer => {
                return Err(Failure::Usage("a peer is named with --peer NAME=COMMAND".into()));
            }
        };
        found(kind, wanted, extra, remedy)
    }

    /// Returns the recipes of these kinds and of all given peers.
    pub fn recipes(&self, kinds: &[Kind]) -> Outcome<Vec<Recipe>> {
        let again = kinds.iter().enumerate().find(|(place, kind)| kinds[..*place].contains(kind));
        if let Some((_, kind)) = again {
            return Err(Failure::Usage(format!("there are two servers named {kind}")));
        }
        let mut recipes: Vec<Recipe> =
            kinds.iter().map(|kind| self.recipe(*kind)).collect::<Outcome<_>>()?;
        for peer in &self.peers {
            let Peer { name, dialect, has_meta, words } = peer;
            if recipes.iter().any(|recipe| recipe.name == *name) {
                return Err(Failure::Usage(format!("there are two servers named {name}")));
            }
            let wanted = Path::new(words.first().map_or("", String::as_str));
            let program = find(wanted)
                .ok_or_else(|| Failure::Missing(format!("{name} ({})", wanted.display())))?;
            let (name, extra) = (name.clone(), words[1..].to_vec());
            let (dialect, has_meta) = (*dialect, *has_meta);
            let known = Recipe::new(Kind::Peer, program, extra);
            recipes.push(Recipe { name, dialect, has_meta, ..known });
        }
        Ok(recipes)
    }
}

impl Recipe {
    fn new(kind: Kind, program: PathBuf, extra: Vec<String>) -> Recipe {
        let dialect = if kind == Kind::Redis { Dialect::Resp } else { Dialect::Text };
        let (name, wrapper) = (kind.to_string(), Vec::new());
        let has_meta = dialect == Dialect::Text;
        Recipe { kind, name, dialect, has_meta, program, extra, threads: 1, wrapper }
    }

    /// Returns whether the number of the server's worker threads can be set.
    pub fn takes_threads(&self) -> bool {
        match self.kind {
            Kind::Larder | Kind::Memcached => true,
            Kind::Peer => self.extra.iter().any(|word| word.contains(THREADS)),
            Kind::Redis | Kind::Null => false,
        }
    }

    /// Returns the same server with this many worker threads.
    pub fn with_threads(self, threads: u32) -> Recipe {
        Recipe { threads, ..self }
    }

    /// Makes the server refuse stores when memory is full, if it has an option for it.
    pub fn refusing(self) -> Recipe {
        if self.kind != Kind::Redis {
            return self;
        }
        // Of two contradictory arguments, Redis heeds the later.
        self.with(["--maxmemory-policy noeviction".to_owned()])
    }

    /// Adds arguments.
    pub fn with(mut self, extra: impl IntoIterator<Item = String>) -> Recipe {
        self.extra.extend(extra);
        self
    }

    /// Adds arguments before those added so far.
    pub fn with_first(mut self, first: impl IntoIterator<Item = String>) -> Recipe {
        self.extra.splice(0..0, first);
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

    /// Returns the process to start for a port and a memory limit in MiB.
    pub fn command(&self, port: u16, memory_mb: u64) -> Command {
        let program = self.program.display().to_string();
        let mut words = self.wrapper.iter().cloned().chain([program]);
        let first = words.next().expect("the chain holds at least the server's program");
        let mut command = Command::new(first);
        command.args(words).args(self.arguments(port, memory_mb));
        command
    }

    /// Returns the arguments for a port and a memory limit in MiB.
    pub fn arguments(&self, port: u16, memory_mb: u64) -> Vec<String> {
        let threads = self.threads;
        let mut line = match self.kind {
            Kind::Larder => format!("-p {port} -m {memory_mb} -t {threads}"),
            Kind::Memcached => {
                // memcached refuses to run as root unless it is given a user.
                let root = rustix::process::geteuid().is_root();
                let user = if root { " -u root" } else { "" };
                format!("-p {port} -m {memory_mb} -t {threads} -U 0 -l 127.0.0.1{user}")
            }
            Kind::Redis => format!(
                "--port {port} --bind 127.0.0.1 --save '' --appendonly no --maxmemory \
                 {memory_mb}mb --maxmemory-policy allkeys-lru"
            ),
            Kind::Null => format!("null-server --port {port}"),
            Kind::Peer => {
                let places = [
                    (PORT, port.to_string()),
                    (MEMORY_MB, memory_mb.to_string()),
                    (THREADS, threads.to_string()),
                ];
                let fill = |word: &String| {
                    let word = word.clone();
                    places.iter().fold(word, |word, (place, figure)| word.replace(place, figure))
                };
                return self.extra.iter().map(fill).collect();
            }
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

    /// Returns program and arguments as they could be typed.
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

/// Returns a path as given, or a bare name looked up in `PATH`.
pub fn find(wanted: &Path) -> Option<PathBuf> {
    if wanted.components().count() > 1 {
        return wanted.is_file().then(|| wanted.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(wanted)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::{
        Kind, LARDER_BELOW, LarderOptions, Peer, Recipe, ServerOptions, find, larder_beside,
    };
    use crate::drive::encode::Dialect;
    use clap::{Args, Command, FromArgMatches};
    use std::path::Path;

    fn options(arguments: &[&str]) -> Result<ServerOptions, clap::Error> {
        let command = <ServerOptions>::augment_args(Command::new("servers").no_binary_name(true));
        <ServerOptions>::from_arg_matches(&command.try_get_matches_from(arguments)?)
    }

    /// Regression: commands that start Larder alone took the options of other servers, and ignored
    /// them.
    #[test]
    fn a_command_of_larder_alone_has_no_option_of_other_servers() {
        type Options = ServerOptions<LarderOptions>;
        let command = Options::augment_args(Command::new("servers").no_binary_name(true));
        let parsed = |arguments: &[&str]| command.clone().try_get_matches_from(arguments);
        assert!(parsed(&["--larder", "x", "--client-core", "0"]).is_ok());
        for foreign in ["--memcached=x", "--redis-args=-v", "--peer=x=sh {port}"] {
            assert!(parsed(&[foreign]).is_err() && options(&[foreign]).is_ok(), "{foreign}");
        }
    }

    #[test]
    fn redis_gets_an_empty_argument_and_the_line_shows_it() {
        let recipe = Recipe::new(Kind::Redis, "redis".into(), vec![]);
        assert!(recipe.arguments(1, 2).contains(&String::new()));
        assert!(recipe.command_line(1, 2).contains("--save '' --appendonly no"));
        assert!(recipe.command_line(1, 2).ends_with("allkeys-lru"));
        assert!(recipe.refusing().command_line(1, 2).ends_with("--maxmemory-policy noeviction"));
    }

    #[test]
    fn larder_is_looked_for_beside_this_program() {
        let folder = std::env::temp_dir().join(format!("larder-beside-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let (program, beside) = (Some(folder.join("larder-bench")), folder.join("larder"));
        let nowhere = [larder_beside(program.clone()), larder_beside(None)];
        std::fs::write(&beside, "").expect("a file");
        let found = larder_beside(program);
        std::fs::remove_dir_all(&folder).expect("it is there");
        assert_eq!(nowhere, [Path::new(LARDER_BELOW); 2]);
        assert_eq!(found, beside);
    }

    #[test]
    fn larder_gets_what_memcached_gets_and_the_extra() {
        let extra = vec!["-u".to_owned(), "root".to_owned()];
        let recipe = Recipe::new(Kind::Larder, "larder".into(), extra);
        assert_eq!(recipe.command_line(7, 64), "larder -p 7 -m 64 -t 1 -u root");
        let first = recipe.clone().with_first(["-v".to_owned()]);
        assert_eq!(first.command_line(7, 64), "larder -p 7 -m 64 -t 1 -v -u root");
        let wrapped = recipe.under("time".into(), ["-v".to_owned()]);
        assert_eq!(wrapped.command_line(7, 64), "time -v larder -p 7 -m 64 -t 1 -u root");
        assert_eq!(wrapped.command(7, 64).get_program(), "time");
    }

    #[test]
    fn threads_are_told_to_whoever_takes_them() {
        let larder = Recipe::new(Kind::Larder, "larder".into(), vec![]).with_threads(8);
        assert_eq!(larder.command_line(7, 64), "larder -p 7 -m 64 -t 8");
        let memcached = Recipe::new(Kind::Memcached, "memcached".into(), vec![]).with_threads(8);
        assert!(memcached.command_line(7, 64).contains(" -t 8 "));
        let peers = ["--peer", "one=sh {port}", "--peer", "many=sh {port} -x={threads}"];
        let recipes = options(&peers).expect("valid").recipes(&[]).expect("sh is there");
        assert_eq!([false, true], [0, 1].map(|peer: usize| recipes[peer].takes_threads()));
        assert_eq!(recipes[1].arguments(7, 64), ["7", "-x=1"]);
        assert_eq!(recipes[1].clone().with_threads(8).arguments(7, 64), ["7", "-x=8"]);
        assert!(!Recipe::new(Kind::Redis, "redis".into(), vec![]).takes_threads());
    }

    #[test]
    fn a_peer_is_any_command_with_port_and_memory_filled_in() {
        let peer = "other:resp=sh -c {port}:{memory-mb} -x";
        let recipes = options(&["--peer", peer]).expect("valid").recipes(&[]).expect("sh is there");
        assert_eq!((recipes[0].name.as_str(), recipes[0].dialect), ("other", Dialect::Resp));
        assert_eq!(recipes[0].arguments(7, 64), ["-c", "7:64", "-x"]);
        // Regression: commands with one server ignored peers silently.
        let given = options(&["--peer", peer]).expect("valid");
        let refused = given.recipe(Kind::Null).expect_err("there is a peer");
        assert_eq!((refused.exit_code(), given.recipes_of_known(&[]).is_err()), (2, true));
        let missing = options(&["--peer", "x=no-such-program {port}"]).expect("well formed");
        assert!(missing.recipes(&[]).is_err());
        let twice = options(&["--peer", "x=sh {port}", "--peer", "x=sh {port}"]);
        assert!(twice.expect("well formed").recipes(&[]).is_err());
    }

    #[test]
    fn a_peer_says_what_it_speaks() {
        let speaks = |peer| {
            let recipes = options(&["--peer", peer]).expect("valid").recipes(&[]);
            let recipe = recipes.expect("sh is there").remove(0);
            (recipe.name, recipe.dialect, recipe.has_meta)
        };
        let name = || "other".to_owned();
        assert_eq!(speaks("other=sh {port}"), (name(), Dialect::Text, true));
        assert_eq!(speaks("other:text=sh {port}"), (name(), Dialect::Text, false));
        assert_eq!(speaks("other:resp=sh {port}"), (name(), Dialect::Resp, false));
    }

    #[test]
    fn a_peer_without_name_port_or_protocol_is_refused() {
        for text in ["x", "=sh {port}", "larder=sh {port}", "x=sh", "x:http=sh {port}"] {
            assert!(text.parse::<Peer>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_looked_up_and_paths_are_not() {
        assert!(find(Path::new("sh")).is_some());
        assert!(find(Path::new("./sh")).is_none());
        assert!(find(Path::new("no-such-program-here")).is_none());
    }
}
