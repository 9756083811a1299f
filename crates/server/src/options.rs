//! Options: memcached's by their short and long names, and Larder's own, from the command line,
//! the environment and a file.
//!
//! ```text
//! arguments, environment, file     each splits its own form into names and texts
//!    -> settings                   one layer for each; which one overrides which
//!       -> kind                    checks and applies a text, the same for all three
//!          -> declare              every option, once
//! help, print, reference           the same table for users, in the order of groups
//! ```

mod arguments;
mod declare;
mod environment;
mod extended;
mod file;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod groups;
mod help;
mod idle;
mod kind;
mod nearest;
mod print;
mod reference;
mod settings;
mod tls;

use std::path::{Path, PathBuf};

use ::io::device::ReadMethod;
use declare::DECLARATIONS;
pub use declare::{index_name, layout_name, policy_name};
pub use environment::is_variable;
use kind::Act;
pub use kind::COUNT_MAX;
use larder::{
    BuildError, CacheGeometry, ChunkLayout, FLASH_BYTES_MAX, FLASH_MEMORY_BYTES_MIN, FlashFit,
    FlashMisfit, IndexKind, Policy, Quota,
};
pub use print::current;
use protocol::{Dialect, Wire};
pub use settings::Settings;
use settings::Source;
pub use tls::TlsOptions;

use crate::listen;
use crate::machine;
use crate::top::{self, TopOptions};

/// All options of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// TCP port for addresses of `listen` without one; 0 lets the kernel choose.
    pub port: u16,
    /// TCP port for Redis clients; 0 for none.
    pub redis_port: u16,
    /// Addresses to listen on, each with an optional port; empty means 127.0.0.1.
    pub listen: Vec<String>,
    /// Unix socket to listen on instead of TCP.
    pub unix_path: Option<PathBuf>,
    /// Permission bits of the Unix socket.
    pub unix_mode: u32,
    /// Length of the kernel's queue of connections to accept.
    pub backlog: u32,
    /// `-m`, in megabytes.
    pub memory_megabytes: usize,
    /// Evict when memory is full, instead of refusing stores.
    pub evict: bool,
    /// Maximum size of an item with its key and header, in bytes.
    pub item_bytes_max: usize,
    /// Ratio between neighbouring size classes; `None` leaves it to the engine.
    pub growth_factor: Option<f64>,
    /// Minimum bytes for key, value and flags; `None` leaves it to the engine.
    pub item_bytes_min: Option<usize>,
    /// Eviction policy.
    pub policy: Policy,
    /// Kind of index.
    pub index: IndexKind,
    /// `--repartition`: items that are hit often move to the first column of their slab.
    pub repartition: bool,
    /// `--cache-geometry`: the processor's cache, which determines columns; `None` asks the system.
    pub cache_geometry: Option<CacheGeometry>,
    /// Layout of items in the hot zone.
    pub layout: ChunkLayout,
    /// `set`, `add` and `replace` may have a cost after the length.
    pub text_cost: bool,
    /// Microseconds in a unit of cost, for policies that count costs in units.
    pub cost_unit_us: u32,
    /// Measure costs, from a miss to the next store; `None` leaves it to the policy.
    pub measure_costs: Option<bool>,
    /// `--compressed`: whether there may be a compressed zone.
    pub compressed: bool,
    /// `--hot-target`: the share of hits to serve from the hot zone, if memory is divided by that.
    pub hot_target: Option<f64>,
    /// `--quota`: maximum memory of keys with certain prefixes.
    pub quotas: Vec<Quota>,
    /// `--flash`: the file or block device, and its size in bytes.
    pub flash: Option<(PathBuf, u64)>,
    /// `--flash-write-limit`, in bytes per second.
    pub flash_write_limit: Option<f64>,
    /// `--flash-reads`: how flash is read; `None` leaves it to what the kernel allows.
    pub flash_reads: Option<ReadMethod>,
    /// `-e`: the file that memory is saved to by a clean stop.
    pub memory_file: Option<PathBuf>,
    /// `--save-seconds`: how long a clean stop may save memory, to flash or a file; 0 not at all.
    pub save_seconds: u64,
    /// `-B`: the clients' protocol; `None` detects it from the first byte of each connection.
    pub protocol: Option<Wire>,
    /// `-Y`: the file of users.
    pub auth_file: Option<PathBuf>,
    /// `-S`: clients of the binary protocol log in, too.
    pub sasl: bool,
    /// Options of TLS.
    pub tls: TlsOptions,
    /// TLS at the port of Redis clients; `None` leaves it to the address.
    pub redis_tls: Option<bool>,
    /// Give CAS uniques to clients.
    pub cas: bool,
    /// Worker threads.
    pub threads: usize,
    /// Port of the admin page; `None` for none, 0 lets the kernel choose.
    pub admin_port: Option<u16>,
    /// Address of the admin page.
    pub admin_listen: String,
    /// Maximum number of simultaneous connections.
    pub connections_max: usize,
    /// Maximum number of connections from one address; 0 for no such limit.
    pub connections_per_address_max: usize,
    /// Refuse connections at the limit with an error line, instead of leaving them in the kernel.
    pub connections_fast: bool,
    /// Seconds of silence after which a connection is closed; 0 for never.
    pub idle_timeout_s: u64,
    /// memcached's fairness number; shown in `stats settings`.
    pub requests_per_event: u32,
    /// Bytes of log lines buffered for a slow watcher.
    pub watcher_bytes_max: usize,
    /// `shutdown` is allowed.
    pub shutdown_allowed: bool,
    /// `flush_all` is allowed.
    pub flush_allowed: bool,
    /// `-D`: the character that ends namespaces, which are then counted from the start on.
    pub delimiter: Option<u8>,
    /// Dumps are allowed.
    pub dump_allowed: bool,
    /// `watch` is allowed.
    pub watch_allowed: bool,
    /// `cache_memlimit` is allowed.
    pub memlimit_allowed: bool,
    /// Verbosity of the log on standard error.
    pub verbosity: u32,
    /// Run in the background.
    pub daemon: bool,
    /// User to switch to.
    pub user: Option<String>,
    /// File for the process id.
    pub pidfile: Option<PathBuf>,
    /// Lock memory, so that it is not swapped out.
    pub lock_memory: bool,
    /// Raise the limit on the size of core files.
    pub core_dumps: bool,
    /// Warnings of options without effect, logged at the start.
    pub warnings: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        let mut options = Self {
            port: 0,
            redis_port: 0,
            listen: Vec::new(),
            unix_path: None,
            unix_mode: 0,
            backlog: 0,
            memory_megabytes: 0,
            evict: true,
            item_bytes_max: 0,
            growth_factor: None,
            item_bytes_min: None,
            policy: Policy::default(),
            index: IndexKind::default(),
            repartition: false,
            cache_geometry: None,
            layout: ChunkLayout::default(),
            text_cost: false,
            cost_unit_us: 0,
            measure_costs: None,
            compressed: true,
            hot_target: None,
            quotas: Vec::new(),
            flash: None,
            flash_write_limit: None,
            flash_reads: None,
            memory_file: None,
            save_seconds: 0,
            protocol: None,
            auth_file: None,
            sasl: false,
            tls: TlsOptions::default(),
            redis_tls: None,
            cas: true,
            threads: 0,
            admin_port: None,
            admin_listen: String::new(),
            connections_max: 0,
            connections_per_address_max: 0,
            connections_fast: true,
            idle_timeout_s: 0,
            requests_per_event: 0,
            watcher_bytes_max: 0,
            shutdown_allowed: false,
            flush_allowed: true,
            delimiter: None,
            dump_allowed: true,
            watch_allowed: true,
            memlimit_allowed: true,
            verbosity: 0,
            daemon: false,
            user: None,
            pidfile: None,
            lock_memory: false,
            core_dumps: false,
            warnings: Vec::new(),
        };
        // The defaults come from the table, so that the help text cannot disagree with them.
        for declaration in DECLARATIONS {
            if let Some(default) = declaration.default {
                declaration
                    .apply(&mut options, default)
                    .expect("a default lies within its own range");
            }
        }
        options
    }
}

impl Options {
    /// Returns the dialect in which requests are parsed.
    pub fn dialect(&self) -> Dialect {
        Dialect { text_cost: self.text_cost }
    }

    /// Returns the first line of the log: the version, and the options that decide how much is kept
    /// and where.
    pub fn summary(&self) -> String {
        let (version, memory) = (env!("CARGO_PKG_VERSION"), self.memory_megabytes);
        let (threads, policy) = (self.threads, policy_name(self.policy));
        let compressed = if self.compressed { "auto" } else { "off" };
        let flash = self
            .flash
            .as_ref()
            .map(|(path, bytes)| format!(", flash {} of {bytes} bytes", path.display()));
        let flash = flash.unwrap_or_default();
        format!(
            "version {version}, -m {memory}, -t {threads}, policy {policy}, compressed \
             {compressed}{flash}"
        )
    }

    /// Refuses conflicting options, and derives those that follow from the others.
    fn settle(&mut self) -> Result<(), UsageError> {
        if self.memory_file.is_some() && self.flash.is_some() {
            let text = "--memory-file cannot be used with --flash: a clean stop saves memory to \
                        flash";
            return Err(UsageError(text.to_owned()));
        }
        if let Some(path) = &self.memory_file
            && path.as_os_str().as_encoded_bytes().ends_with(b".tmp")
        {
            let text = format!(
                "--memory-file {}: the name must not end in .tmp, which is how memory files are \
                 named while they are written",
                path.display()
            );
            return Err(UsageError(text));
        }
        if self.admin_port.is_none() && self.admin_listen != Self::default().admin_listen {
            return Err(UsageError("--admin-listen needs --admin-port".to_owned()));
        }
        Quota::check_all(&self.quotas, (self.memory_megabytes as u64) << 20)
            .map_err(|refused| UsageError(format!("--quota: {refused}")))?;
        self.check_item_size()?;
        self.check_flash().map_err(UsageError)?;
        self.check_repartition().map_err(UsageError)?;
        tls::settle(self)?;
        self.check_plain_addresses().map_err(UsageError)?;
        listen::check_places(self).map_err(UsageError)?;
        self.settle_protocol()
    }

    /// Refuses an item limit above half of the memory: such an item evicts all others and itself.
    /// The default limit is allowed with any memory.
    fn check_item_size(&self) -> Result<(), UsageError> {
        let (item, memory) = (self.item_bytes_max, self.memory_megabytes);
        if item <= Self::default().item_bytes_max || item <= (memory << 20) / 2 {
            return Ok(());
        }
        let text = format!(
            "--max-item-size {item} is more than half of --memory-limit {memory}, the memory in \
             megabytes: such an item could not be kept"
        );
        Err(UsageError(text))
    }

    /// Returns how many items on flash the index can hold, or why the flash is too large; none
    /// without flash.
    pub fn flash_fit(&self) -> Option<Result<FlashFit, FlashMisfit>> {
        self.flash_fit_beside((self.memory_megabytes as u64) << 20)
    }

    /// As [`Self::flash_fit`], beside another memory limit.
    pub fn flash_fit_beside(&self, memory_bytes: u64) -> Option<Result<FlashFit, FlashMisfit>> {
        let (_, bytes) = self.flash.as_ref()?;
        Some(FlashFit::new(memory_bytes, *bytes, self.index))
    }

    /// Returns [`Self::flash_fit`] as a text. An unfit size was refused when the options were read.
    pub fn flash_fit_text(&self) -> Option<String> {
        let FlashFit { items_max, item_bytes_min } = self.flash_fit()?.ok()?;
        Some(format!(
            "the index can hold {items_max} items on flash, enough to use all of it if they take \
             {item_bytes_min} bytes or more there on average"
        ))
    }

    /// Refuses a flash tier that the cache would refuse, before its file is created.
    fn check_flash(&self) -> Result<(), String> {
        if let Some((path, bytes)) = &self.flash
            && let Some(least) = larder::flash_shortage(*bytes)
        {
            return Err(format!(
                "--flash asks for {bytes} bytes of {}, and a flash tier needs at least {least}",
                path.display()
            ));
        }
        if let Some((path, bytes)) = &self.flash
            && *bytes > FLASH_BYTES_MAX
        {
            return Err(format!(
                "--flash asks for {bytes} bytes of {}, and a flash tier uses {FLASH_BYTES_MAX} at \
                 most",
                path.display()
            ));
        }
        let fit = self.flash_fit().transpose();
        let fit = fit.map_err(|misfit| format!("--flash is too large for -m: {misfit}"))?;
        let has_memory = self.memory_megabytes << 20 >= FLASH_MEMORY_BYTES_MIN;
        match fit {
            Some(_) if !self.evict => Err("--flash gets what is evicted, and --disable-evictions \
                                           (-M) evicts nothing: leave one of the two out"
                .to_owned()),
            Some(_) if !has_memory => Err(format!(
                "--flash needs a --memory-limit (-m) of {} megabytes at least, not {}",
                FLASH_MEMORY_BYTES_MIN >> 20,
                self.memory_megabytes
            )),
            _ => Ok(()),
        }
    }

    /// Refuses `--repartition` where the cache would refuse it.
    fn check_repartition(&self) -> Result<(), String> {
        let refused = match self.repartition {
            true if self.evict && self.policy.keeps_order() => BuildError::RepartitionOrder,
            true if !self.quotas.is_empty() => BuildError::RepartitionQuotas,
            _ => return Ok(()),
        };
        Err(format!("--repartition: {refused}"))
    }

    /// Refuses `notls:` without TLS.
    fn check_plain_addresses(&self) -> Result<(), String> {
        let mut names = self.listen.iter().chain([&self.admin_listen]);
        match names.find(|name| listen::plain(name).1).filter(|_| !self.tls.is_on) {
            Some(name) => Err(format!("{name} begins with notls:, which needs --enable-ssl")),
            None => Ok(()),
        }
    }

    /// With users, allows only protocols in which clients can log in.
    fn settle_protocol(&mut self) -> Result<(), UsageError> {
        let text = match (&self.auth_file, self.sasl, self.protocol) {
            (None, true, _) => "--enable-sasl needs --auth-file, the file of users",
            (Some(_), true, Some(Wire::Text)) => "--enable-sasl is for the binary protocol",
            (Some(_), false, Some(Wire::Binary)) => {
                "--auth-file needs --enable-sasl for the binary protocol"
            }
            (Some(_), false, None) => {
                self.protocol = Some(Wire::Text);
                return Ok(());
            }
            _ => return Ok(()),
        };
        Err(UsageError(text.to_owned()))
    }
}

/// The command that the options ask for.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// Serves.
    Serve(Box<Settings>),
    /// Monitors a running server in a terminal.
    Top(TopOptions),
    /// Prints a text and exits.
    Print(String),
}

/// Errors of options, in sentences for the user, one a line.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

/// The arguments and environment of the process. The file that they name can be read again.
#[derive(Debug, Default)]
pub struct Given {
    /// The command line, without the program's name.
    pub arguments: Vec<String>,
    /// The environment.
    pub variables: Vec<(String, String)>,
}

impl Given {
    /// Reads arguments, environment and file.
    pub fn read(&self) -> Result<Command, UsageError> {
        if let Some((_, arguments)) = self.arguments.split_first().filter(|(it, _)| *it == "top") {
            let options = TopOptions::parse(arguments.iter().cloned()).map_err(UsageError)?;
            let printed = || Command::Print(top::HELP.to_owned());
            return Ok(options.map_or_else(printed, Command::Top));
        }
        let arguments = arguments::read(&self.arguments)?;
        if let Some(text) = arguments.printed {
            return Ok(Command::Print(text));
        }
        let environment = environment::read(&self.variables);
        let mut errors = environment.errors;
        let named = arguments.layer.last("config").or_else(|| environment.layer.last("config"));
        let path = named.map(Path::new).map(Path::to_owned);
        let file = path.as_deref().map(file::read).unwrap_or_default();
        errors.extend(file.errors);
        if !errors.is_empty() {
            return Err(UsageError(errors.join("\n")));
        }
        let mut settings = Settings::new(
            [
                (Source::File, file.layer),
                (Source::Environment, environment.layer),
                (Source::Arguments, arguments.layer),
            ],
            path.as_deref(),
        )?;
        settings.options.warnings.extend(environment.warnings);
        Ok(match arguments.act {
            Some(Act::Check) => Command::Print(checked(&settings.options)),
            Some(Act::PrintConfig) => Command::Print(print::config(&settings)),
            None => Command::Serve(Box::new(settings)),
        })
    }
}

/// Returns the output of `--check` for valid options: options without effect, how much of flash can
/// be used, whether there is less memory than `-m`, and that the options are valid.
fn checked(options: &Options) -> String {
    let mut text = String::new();
    let fit = [options.flash_fit_text(), machine::beyond(options)];
    for line in options.warnings.iter().chain(fit.iter().flatten()) {
        text.push_str(line);
        text.push('\n');
    }
    text + "the options are valid\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder::{QUOTAS_MAX, QuotaSize};

    fn parse(line: &str) -> Result<Command, UsageError> {
        let arguments = line.split_whitespace().map(str::to_owned).collect();
        Given { arguments, ..Given::default() }.read()
    }

    fn serve(line: &str) -> Options {
        match parse(line) {
            Ok(Command::Serve(settings)) => settings.options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn refused(line: &str) -> String {
        match parse(line) {
            Err(UsageError(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_defaults_are_memcacheds() {
        let options = serve("");
        assert_eq!(options.port, 11_211);
        assert_eq!(options.memory_megabytes, 64);
        assert_eq!(options.threads, 4);
        assert_eq!(options.connections_max, 1024);
        assert_eq!(options.requests_per_event, 20);
        assert_eq!(options.backlog, 1024);
        assert_eq!(options.item_bytes_max, 1 << 20);
        assert_eq!(options.unix_mode, 0o700);
        assert!(options.evict && options.cas && options.connections_fast);
    }

    #[test]
    fn every_way_to_write_an_option_is_understood() {
        for line in ["-m64", "-m 64", "--memory-limit=64", "--memory-limit 64", "--memory-l 64"] {
            assert_eq!(serve(line).memory_megabytes, 64, "{line}");
        }
        let options =
            serve("-vvA -p 11212 -l 127.0.0.1,[::1]:7 -l 10.0.0.1;10.0.0.2 -U 0 -I 2m -C -M");
        assert_eq!(options.verbosity, 2);
        assert!(options.shutdown_allowed && !options.cas && !options.evict);
        assert_eq!(options.listen, ["127.0.0.1", "[::1]:7", "10.0.0.1", "10.0.0.2"]);
        assert_eq!(options.item_bytes_max, 2 << 20);
        assert_eq!(serve("-s /tmp/x -a 0666").unix_mode, 0o666);
        assert_eq!(serve("-o no_maxconns_fast,idle_timeout=5").idle_timeout_s, 5);
        assert!(!serve("-o no_maxconns_fast").connections_fast);
        assert_eq!(serve("-o hot_lru_pct=10,slab_reassign").warnings.len(), 2);
        assert_eq!(serve("-vvvvvvvvvvvv").verbosity, 9, "as much as a file can say");
        let options = serve("-o no_maxconns_fast -o idle_timeout=5 -o maxconns_fast -vv -v");
        assert!(options.connections_fast && options.idle_timeout_s == 5);
        assert_eq!((options.verbosity, serve("-v --verbose=0").verbosity), (3, 0));
        assert!(serve("-C --disable-cas=false").cas && !serve("--disable-cas=true").cas);
        refused("--disable-cas=no");
        assert_eq!(serve("--flash-save-seconds 7").save_seconds, 7);
    }

    /// Regression: `--check` accepted these, and no start with them succeeded; it ended with the
    /// status after which systemd starts again.
    #[test]
    fn options_that_can_never_start_are_refused_while_they_are_read() {
        for (line, words) in [
            ("-m 64 --flash /f:100g", "--flash is too large for -m: 102400 MiB of flash"),
            (
                "--flash /f:4k",
                "--flash asks for 4096 bytes of /f, and a flash tier needs at least 1093632",
            ),
            ("--flash /f:1093631", "asks for 1089536 bytes of /f, and"),
            // Half of it was reserved, said to be of use, and never written.
            (
                "-m 65536 --flash /f:8193g",
                "--flash asks for 8797166764032 bytes of /f, and a flash tier uses 8796093022208 \
                 at most",
            ),
            // It did not name the option that is to be left out.
            ("--flash /f:64m -M", "and --disable-evictions (-M) evicts nothing: leave one"),
            ("-m 7 --flash /f:16m", "--flash needs a --memory-limit (-m) of 8 megabytes"),
            ("--repartition --policy lru", "--repartition: items cannot move"),
            ("--repartition --quota a=1m", "beside quotas"),
            ("-l 999.1.1.1", "--listen: 999.1.1.1: it is not an address"),
            ("-l 127.0.0.1:", "--listen: 127.0.0.1:: the port is not a number from 0 to 65535"),
            ("--admin-port 1 --admin-listen ::x", "--admin-listen: ::x: it is not an address"),
            ("-l notls:127.0.0.1", "notls:, which needs --enable-ssl"),
            ("--admin-port 1 --admin-listen notls:::1", "notls:, which needs --enable-ssl"),
            ("-p 7 --admin-port 7", "--port and --admin-port both ask for 127.0.0.1:7"),
        ] {
            let text = refused(line);
            assert!(text.contains(words), "{line}: {text}");
        }
        serve("-m 8 --flash /f:16m");
        serve("--flash /f:1093632");
        serve("--repartition --policy lru -M");
        serve("-Z --ssl-chain-cert c -l notls:127.0.0.1,::1");
        serve("-s /s -p 7 --admin-port 7");
    }

    #[test]
    fn extended_ranges_hold_at_their_edges() {
        let options = serve("-o idle_timeout=0,watcher_logbuf_size=1");
        assert_eq!(options.watcher_bytes_max, 1024);
        assert_eq!(serve("-o idle_timeout=31536000").idle_timeout_s, 31_536_000);
        assert_eq!(serve("-o ext_path=/f:2m").flash, Some(("/f".into(), 2 << 20)));
        for bad in ["idle_timeout=31536001", "idle_timeout", "watcher_logbuf_size=0", "ext_path=a"]
        {
            refused(&format!("-o {bad}"));
        }
    }

    /// `5m` was 5,242,880 seconds, which is 60 days.
    #[test]
    fn only_what_there_may_be_thousands_of_has_suffixes() {
        for line in ["-o idle_timeout=5m", "--idle-timeout 30m", "--save-seconds 1k", "-p 11k"] {
            let text = refused(line);
            assert!(text.contains("without a suffix, not "), "{line}: {text}");
        }
        assert_eq!((serve("-c 4k").connections_max, serve("-b 1K").backlog), (4096, 1024));
        assert_eq!(
            (serve("-I 2m").item_bytes_max, serve("-m 64m").memory_megabytes),
            (2 << 20, 64)
        );
        // It is what a file of options has first, and -m 64m starts memcached.
        assert_eq!((serve("-m 1g"), serve("-m 2048k")), (serve("-m 1024"), serve("-m 2")));
        assert!(refused("-m 1k").ends_with("from 1 to 2097152, not 1k (0)"));
        assert_eq!(serve("-o watcher_logbuf_size=1k").watcher_bytes_max, 1 << 20);
    }

    #[test]
    fn numbers_are_refused_just_outside_their_range() {
        for declaration in DECLARATIONS {
            let Some((min, max)) = declaration.range() else {
                continue;
            };
            let mut options = Options::default();
            for inside in [min, max] {
                let applied = declaration.apply(&mut options, &inside.to_string());
                assert_eq!(applied, Ok(()), "--{} {inside}", declaration.long);
            }
            let below = min.checked_sub(1).map(|below| below.to_string());
            let above = max.checked_add(1).map(|above| above.to_string());
            for outside in [below, above].into_iter().flatten() {
                let applied = declaration.apply(&mut options, &outside);
                assert!(applied.is_err(), "--{} {outside}", declaration.long);
            }
        }
    }

    #[test]
    fn unsupported_options_are_refused() {
        for line in ["-N 1", "-U 1"] {
            assert!(refused(line).contains("not"), "{line}");
        }
        assert_eq!((serve("").redis_port, serve("--redis-port 6379").redis_port), (0, 6379));
        serve("--policy clock --compressed off -B auto");
        for (line, protocol) in [
            ("", None),
            ("-B auto", None),
            ("-B ascii", Some(Wire::Text)),
            ("-B binary", Some(Wire::Binary)),
            ("-Y x", Some(Wire::Text)),
            ("-Y x -B ascii", Some(Wire::Text)),
            ("-Y x -S", None),
            ("-S --auth-file=x -B binary", Some(Wire::Binary)),
        ] {
            assert_eq!(serve(line).protocol, protocol, "{line}");
        }
        for line in ["-B redis", "-S", "-S -B binary", "-S -Y x -B ascii", "-Y x -B binary"] {
            refused(line);
        }
        assert!(serve("").compressed && serve("--compressed auto").compressed);
        assert!(!serve("--compressed off").compressed);
        refused("--compressed on");
        assert_eq!((serve("").hot_target, serve("--hot-target 0.9").hot_target), (None, Some(0.9)));
        for (value, bytes) in [("7", 7.0), ("2k/s", 2048.0), ("9k/h", 2.56), ("675k/d", 8.0)] {
            let options = serve(&format!("--flash-write-limit {value}"));
            assert_eq!(options.flash_write_limit, Some(bytes), "{value}");
            assert_eq!(options.warnings, ["--flash-write-limit has no effect without --flash"]);
            let with = serve(&format!("--flash /f:1g --flash-write-limit {value}"));
            assert_eq!(with.warnings, [""; 0]);
        }
        for value in ["0", "x", "-1", "1/x", "1/", "/s"] {
            refused(&format!("--flash-write-limit {value}"));
        }
        for line in ["--hot-target 1.1", "--hot-target -0.1", "--hot-target x", "--hot-target NaN"]
        {
            refused(line);
        }
    }

    #[test]
    fn the_policy_and_where_costs_come_from_are_chosen() {
        assert_eq!(serve("").measure_costs, None);
        assert_eq!(serve("--measure-costs auto").measure_costs, None);
        assert_eq!(serve("--measure-costs on").measure_costs, Some(true));
        assert_eq!(serve("--measure-costs off").measure_costs, Some(false));
        refused("--measure-costs yes");
        assert_eq!((serve("").policy, serve("").text_cost), (Policy::CostClock, false));
        assert_eq!(serve("--policy clock").policy, Policy::Clock);
        assert_eq!(serve("--policy=cost-clock").policy, Policy::CostClock);
        assert_eq!(serve("--text-cost").dialect(), Dialect { text_cost: true });
        for policy in ["clock", "cost-clock", "gd-wheel", "lru"] {
            let options = serve(&format!("--policy {policy}"));
            assert_eq!(declare::policy_name(options.policy), policy);
        }
        for line in ["--policy", "--policy CLOCK", "--policy cost", "--policy clock,cost-clock"] {
            refused(line);
        }
    }

    #[test]
    fn quotas_are_bytes_or_shares_of_prefixes() {
        let quota = |prefix: &str, size| Quota { prefix: prefix.as_bytes().into(), size };
        let (bytes, share) = (QuotaSize::Bytes, QuotaSize::Share);
        assert_eq!(serve("").quotas, []);
        let options = serve("--quota a:=20%,b=1m --quota a:=b=7 --quota ab:=12.5%");
        let expected = [
            quota("a:", share(0.2)),
            quota("b", bytes(1 << 20)),
            quota("a:=b", bytes(7)),
            quota("ab:", share(0.125)),
        ];
        assert_eq!(options.quotas, expected);
        serve("-m 1 --quota a=1m,b=100%");
        let many: Vec<String> = (0..QUOTAS_MAX).map(|number| format!("{number}=1")).collect();
        assert_eq!(serve(&format!("--quota {}", many.join(","))).quotas.len(), QUOTAS_MAX);
        let long = format!("--quota {}=1", "k".repeat(251));
        for line in [
            "--quota a",
            "--quota a=",
            "--quota a=x",
            "--quota a=%",
            "--quota a=x%",
            "--quota a=1t",
            "--quota a=NaN%",
            "--quota a=-1%",
            &long,
        ] {
            refused(line);
        }
        for (line, why) in [
            ("--quota =1", "1 to 250 bytes"),
            ("--quota a=0", "of a lets nothing be stored"),
            ("--quota a=0%", "of a lets nothing be stored"),
            ("--quota a=1m,a=2m", "of a is said twice"),
            ("--quota a=101%", "of a is more than the memory limit"),
            ("-m 2 --quota a=3m", "of a is more than the memory limit"),
            (&format!("--quota {},x=1", many.join(",")), "more than 64 quotas"),
        ] {
            let text = refused(line);
            assert!(text.contains("--quota: ") && text.contains(why), "{line}: {text}");
        }
    }

    #[test]
    fn how_items_are_found_is_chosen() {
        assert_eq!(serve("").index, IndexKind::Cuckoo);
        for (name, kind) in [("cuckoo", IndexKind::Cuckoo), ("tree", IndexKind::Tree)] {
            assert_eq!(serve(&format!("--index {name}")).index, kind);
            assert_eq!(declare::index_name(kind), name);
        }
        for line in ["--index", "--index list", "--index TREE", "--index cuckoo,tree"] {
            refused(line);
        }
    }

    #[test]
    fn where_keys_and_values_lie_is_chosen() {
        assert_eq!(serve("").layout, ChunkLayout::Inline);
        for (name, layout) in [("inline", ChunkLayout::Inline), ("split", ChunkLayout::Split)] {
            assert_eq!(serve(&format!("--layout {name}")).layout, layout);
            assert_eq!(declare::layout_name(layout), name);
        }
        for line in ["--layout", "--layout separate", "--layout SPLIT", "--layout inline,split"] {
            refused(line);
        }
    }

    #[test]
    fn how_flash_is_read_is_chosen() {
        assert_eq!((serve("").flash_reads, serve("--flash-reads auto").flash_reads), (None, None));
        for method in ReadMethod::ALL {
            let options = serve(&format!("--flash-reads {}", method.name()));
            assert_eq!(options.flash_reads, Some(method));
        }
        assert!(refused("--flash-reads uring").contains("auto, io_uring or threads"));
    }

    #[test]
    fn the_admin_page_is_off_until_its_port_is_named() {
        assert_eq!((serve("").admin_port, &*serve("").admin_listen), (None, "127.0.0.1"));
        let options = serve("--admin-port 9150 --admin-listen ::1");
        assert_eq!((options.admin_port, &*options.admin_listen), (Some(9150), "::1"));
        assert_eq!(serve("--admin-port 0").admin_port, Some(0));
        refused("--admin-listen ::1");
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["-p", "-p x", "-p 70000", "-q", "--nothing", "--li", "stray", "-o nothing=1"] {
            refused(line);
        }
    }

    #[test]
    fn the_help_names_every_option() {
        let Ok(Command::Print(text)) = parse("-h") else {
            panic!("no help");
        };
        for declaration in DECLARATIONS {
            assert!(text.contains(&format!("--{}", declaration.long)));
        }
        assert!(text.lines().all(|line| line.len() <= 100 && line.trim_end() == line));
        for words in [
            "larder top https://ADDRESS --ca-file FILE",
            "--flash-save-seconds N",
            "Takes a port from 0 to 65535.",
            "Takes only 0.",
        ] {
            assert!(text.contains(words), "no {words} in {text}");
        }
    }
}
