//! The command line: memcached's options by their short and long names, and Larder's own.
//!
//! Every option is declared once, in [`declare`]; this file only knows how a command line is
//! cut into options and arguments. It follows getopt: `-m64`, `-m 64`, `-vvA`, `--memory-limit=64`,
//! `--memory-limit 64`, and an unambiguous beginning of a long name.

mod declare;
mod extended;
mod help;

use std::path::PathBuf;

use ::io::device::ReadMethod;
use declare::{DECLARATIONS, Declaration, Kind};
pub use declare::{index_name, layout_name, policy_name};
use larder::{CacheGeometry, ChunkLayout, IndexKind, Policy};
use protocol::Dialect;

/// Everything that can be chosen at the start.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// TCP port where `listen` names none; 0 lets the kernel choose.
    pub port: u16,
    /// TCP port for Redis' clients; 0 for none.
    pub redis_port: u16,
    /// Addresses to listen on, each perhaps with a port; empty means 127.0.0.1.
    pub listen: Vec<String>,
    /// Listen here instead of on TCP.
    pub unix_path: Option<PathBuf>,
    /// Permission bits of the Unix socket.
    pub unix_mode: u32,
    /// Connections the kernel keeps until they are accepted.
    pub backlog: u32,
    /// `-m`, in megabytes.
    pub memory_megabytes: usize,
    /// Full memory makes room by eviction; otherwise it refuses.
    pub evict: bool,
    /// An item with its key and header is at most this long.
    pub item_bytes_max: usize,
    /// Ratio between neighbouring size classes; `None` leaves it to the engine.
    pub growth_factor: Option<f64>,
    /// Least space for key, value and flags; `None` leaves it to the engine.
    pub item_bytes_min: Option<usize>,
    /// Who stays when memory is full.
    pub policy: Policy,
    /// How items are found.
    pub index: IndexKind,
    /// `--repartition`: items that are hit often move to the first column of their slab.
    pub repartition: bool,
    /// `--cache-geometry`: the processor's cache that columns follow from; `None` asks the system.
    pub cache_geometry: Option<CacheGeometry>,
    /// How items lie in the hot zone.
    pub layout: ChunkLayout,
    /// `set`, `add` and `replace` may have a cost behind the length.
    pub text_cost: bool,
    /// Microseconds of a unit of cost, where costs are counted in units.
    pub cost_unit_us: u32,
    /// Costs are measured, from a miss to the next store; `None` leaves it to the policy.
    pub measure_costs: Option<bool>,
    /// `--compressed`: whether there may be a compressed zone.
    pub compressed: bool,
    /// `--hot-target`: the share of hits that the hot zone shall serve, if memory is divided by
    /// that.
    pub hot_target: Option<f64>,
    /// `--flash`: the file or block device, and how many bytes of it are used.
    pub flash: Option<(PathBuf, u64)>,
    /// `--flash-write-limit`, in bytes a second.
    pub flash_write_limit: Option<f64>,
    /// `--flash-reads`: how flash is read; `None` leaves it to what the kernel allows.
    pub flash_reads: Option<ReadMethod>,
    /// `-e`: the file that memory is saved to by a clean stop.
    pub memory_file: Option<PathBuf>,
    /// `--save-seconds`: how long a clean stop may save memory, to flash or a file; 0 not at all.
    pub save_seconds: u64,
    /// CAS uniques are given to clients.
    pub cas: bool,
    /// Worker threads.
    pub threads: usize,
    /// Most connections at one time.
    pub connections_max: usize,
    /// At the limit new connections are refused with a line; otherwise they wait in the kernel.
    pub connections_fast: bool,
    /// Connections that are silent for so long are closed; 0 never.
    pub idle_timeout_s: u64,
    /// memcached's fairness number; shown in `stats settings`.
    pub requests_per_event: u32,
    /// Bytes kept for a watcher that reads slowly.
    pub watcher_bytes_max: usize,
    /// `shutdown` is allowed.
    pub shutdown_allowed: bool,
    /// `flush_all` is allowed.
    pub flush_allowed: bool,
    /// Dumps are allowed.
    pub dump_allowed: bool,
    /// `watch` is allowed.
    pub watch_allowed: bool,
    /// How much is logged to standard error.
    pub verbosity: u32,
    /// Go on in the background.
    pub daemon: bool,
    /// Become this user.
    pub user: Option<String>,
    /// Write the process id here.
    pub pidfile: Option<PathBuf>,
    /// Keep memory out of swap.
    pub lock_memory: bool,
    /// Raise the limit for core files.
    pub core_dumps: bool,
    /// Accepted without effect; one line each at the start.
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
            flash: None,
            flash_write_limit: None,
            flash_reads: None,
            memory_file: None,
            save_seconds: 0,
            cas: true,
            threads: 0,
            connections_max: 0,
            connections_fast: true,
            idle_timeout_s: 0,
            requests_per_event: 0,
            watcher_bytes_max: 256 << 10,
            shutdown_allowed: false,
            flush_allowed: true,
            dump_allowed: true,
            watch_allowed: true,
            verbosity: 0,
            daemon: false,
            user: None,
            pidfile: None,
            lock_memory: false,
            core_dumps: false,
            warnings: Vec::new(),
        };
        // The defaults stand in the table, so that the help text cannot disagree with them.
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
    /// What requests are understood as.
    pub fn dialect(&self) -> Dialect {
        Dialect { text_cost: self.text_cost }
    }

    /// Refuses what does not go together.
    fn check(&self) -> Result<(), UsageError> {
        if self.memory_file.is_some() && self.flash.is_some() {
            let text = "--memory-file is not for a server with --flash: a clean stop saves memory \
                        to flash";
            return Err(UsageError(text.to_owned()));
        }
        Ok(())
    }
}

/// What a command line asks for.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// Serve.
    Serve(Box<Options>),
    /// Print this and exit.
    Print(String),
}

/// A command line that cannot be followed, in a sentence for the user.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

/// Reads a command line, without the program's name.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, UsageError> {
    let mut options = Options::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let printed = if let Some(long) = argument.strip_prefix("--") {
            parse_long(&mut options, long, &mut arguments)?
        } else if let Some(cluster) = argument.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            parse_cluster(&mut options, cluster, &mut arguments)?
        } else {
            return Err(UsageError(format!("unexpected argument: {argument}")));
        };
        if let Some(text) = printed {
            return Ok(Command::Print(text));
        }
    }
    options.check()?;
    Ok(Command::Serve(Box::new(options)))
}

/// `--name`, `--name=value` or `--name value`.
fn parse_long(
    options: &mut Options,
    long: &str,
    arguments: &mut impl Iterator<Item = String>,
) -> Result<Option<String>, UsageError> {
    let (name, inline) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (long, None),
    };
    let declaration = find_long(name)?;
    if !declaration.takes_value() {
        // memcached gives --verbose an optional value: its count.
        let value = inline.unwrap_or_default();
        return apply(declaration, options, &value);
    }
    let value = inline.or_else(|| arguments.next());
    let value = value.ok_or_else(|| UsageError(format!("--{name} needs a value")))?;
    apply(declaration, options, &value)
}

/// `-v`, `-vvA`, `-m64`, `-m 64`.
fn parse_cluster(
    options: &mut Options,
    cluster: &str,
    arguments: &mut impl Iterator<Item = String>,
) -> Result<Option<String>, UsageError> {
    for (place, letter) in cluster.char_indices() {
        let declaration = DECLARATIONS
            .iter()
            .find(|declaration| declaration.short == Some(letter))
            .ok_or_else(|| UsageError(format!("there is no option -{letter}")))?;
        if !declaration.takes_value() {
            if let Some(text) = apply(declaration, options, "")? {
                return Ok(Some(text));
            }
            continue;
        }
        let rest = &cluster[place + letter.len_utf8()..];
        let value = if rest.is_empty() {
            arguments.next().ok_or_else(|| UsageError(format!("-{letter} needs a value")))?
        } else {
            rest.to_owned()
        };
        return apply(declaration, options, &value);
    }
    Ok(None)
}

/// The option with this long name, or the only one that begins so.
fn find_long(name: &str) -> Result<&'static Declaration, UsageError> {
    if let Some(exact) = DECLARATIONS.iter().find(|known| known.long == name) {
        return Ok(exact);
    }
    let mut beginning = DECLARATIONS.iter().filter(|known| known.long.starts_with(name));
    match (beginning.next(), beginning.next()) {
        (Some(only), None) if !name.is_empty() => Ok(only),
        (Some(_), Some(_)) if !name.is_empty() => {
            Err(UsageError(format!("--{name} could be more than one option")))
        }
        _ => Err(UsageError(format!("there is no option --{name}"))),
    }
}

/// Applies one option; some only print something.
fn apply(
    declaration: &'static Declaration,
    options: &mut Options,
    value: &str,
) -> Result<Option<String>, UsageError> {
    if let Kind::Print(print) = declaration.kind {
        return Ok(Some(print()));
    }
    declaration.apply(options, value)?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(line: &str) -> Options {
        match parse(line.split_whitespace().map(str::to_owned)) {
            Ok(Command::Serve(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn refused(line: &str) -> String {
        match parse(line.split_whitespace().map(str::to_owned)) {
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
        let options = serve("-vvA -p 11212 -l 127.0.0.1,[::1]:7 -l 10.0.0.1 -U 0 -I 2m -C -M");
        assert_eq!(options.verbosity, 2);
        assert!(options.shutdown_allowed && !options.cas && !options.evict);
        assert_eq!(options.listen, ["127.0.0.1", "[::1]:7", "10.0.0.1"]);
        assert_eq!(options.item_bytes_max, 2 << 20);
        assert_eq!(serve("-s /tmp/x -a 0666").unix_mode, 0o666);
        assert_eq!(serve("-o no_maxconns_fast,idle_timeout=5").idle_timeout_s, 5);
        assert!(!serve("-o no_maxconns_fast").connections_fast);
        assert_eq!(serve("-o hot_lru_pct=10,slab_reassign").warnings.len(), 2);
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
    fn what_is_not_there_says_so() {
        for line in ["-Z", "-S", "-Y x", "-B binary", "-U 1"] {
            assert!(refused(line).contains("not"), "{line}");
        }
        assert!(refused("--admin-port 1").contains("not there yet"));
        assert_eq!((serve("").redis_port, serve("--redis-port 6379").redis_port), (0, 6379));
        serve("--policy clock --compressed off -B auto");
        assert!(serve("").compressed && serve("--compressed auto").compressed);
        assert!(!serve("--compressed off").compressed);
        refused("--compressed on");
        assert_eq!((serve("").hot_target, serve("--hot-target 0.9").hot_target), (None, Some(0.9)));
        for (value, bytes) in [("7", 7.0), ("2k/s", 2048.0), ("9k/h", 2.56), ("675k/d", 8.0)] {
            let options = serve(&format!("--flash-write-limit {value}"));
            assert_eq!(options.flash_write_limit, Some(bytes), "{value}");
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
        assert!(refused("--flash-reads uring").contains("auto, io_uring and threads"));
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["-p", "-p x", "-p 70000", "-q", "--nothing", "--li", "stray", "-o nothing=1"] {
            refused(line);
        }
    }

    #[test]
    fn the_help_names_every_option() {
        let Ok(Command::Print(text)) = parse(["-h".to_owned()]) else {
            panic!("no help");
        };
        for declaration in DECLARATIONS {
            assert!(text.contains(&format!("--{}", declaration.long)));
        }
        assert!(text.lines().all(|line| line.len() <= 100));
    }
}
