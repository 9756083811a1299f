//! The table of options: the only place that states each one's name, unit, range, default and help.
//!
//! Arguments, environment and file, the defaults, the help text, the reference page, the text of
//! `--print-config` and the tests at the ranges' edges all read it.

use ::io::device::{PAGE_BYTES, ReadMethod};
use larder::{ChunkLayout, IndexKind, Policy, Quota, QuotaSize};
use protocol::Wire;

use super::kind::{Act, Declaration, Kind, number};
use super::{Options, extended, help, reference, tls};
use crate::listen;

/// The longest idle timeout: a year.
const IDLE_TIMEOUT_S_MAX: u64 = 365 * 24 * 3600;

/// The largest log buffer of a watcher, in kilobytes.
const WATCHER_KILOBYTES_MAX: u64 = 64 << 10;

/// Narrows a number whose range was checked.
fn usize_of(number: u64) -> usize {
    usize::try_from(number).expect("the range of every option fits 64 bits")
}

/// Narrows a number whose range was checked.
fn u32_of(number: u64) -> u32 {
    u32::try_from(number).expect("the range was checked to fit 32 bits")
}

/// Sets `-B`.
fn set_protocol(options: &mut Options, value: &str) -> Result<(), String> {
    options.protocol = match value {
        "auto" => None,
        "ascii" => Some(Wire::Text),
        "binary" => Some(Wire::Binary),
        _ => return Err(format!("unknown protocol {value}; expected auto, ascii or binary")),
    };
    Ok(())
}

/// All policies, by name.
const POLICIES: [(&str, Policy); 4] = [
    ("clock", Policy::Clock),
    ("cost-clock", Policy::CostClock),
    ("gd-wheel", Policy::GdWheel),
    ("lru", Policy::Lru),
];

/// Returns the name of a policy, as `--policy` takes it.
pub fn policy_name(policy: Policy) -> &'static str {
    let named = POLICIES.iter().find(|(_, known)| *known == policy);
    named.expect("every policy has a name").0
}

/// Sets `-D`: a character that keys can contain.
fn set_delimiter(options: &mut Options, value: &str) -> Result<(), String> {
    match *value.as_bytes() {
        [delimiter] if delimiter.is_ascii_graphic() => {
            options.delimiter = Some(delimiter);
            Ok(())
        }
        _ => Err(format!("{value:?} is not one visible character")),
    }
}

/// Sets `--policy`.
fn set_policy(options: &mut Options, value: &str) -> Result<(), String> {
    options.policy = chosen(&POLICIES, "policy", value)?;
    Ok(())
}

/// The kinds of index that can be chosen, by name. The list exists for comparisons only.
const INDEXES: [(&str, IndexKind); 2] = [("cuckoo", IndexKind::Cuckoo), ("tree", IndexKind::Tree)];

/// Returns the name of a kind of index, as `--index` takes it.
pub fn index_name(kind: IndexKind) -> &'static str {
    let named = INDEXES.iter().find(|(_, known)| *known == kind);
    named.expect("every kind that can be chosen has a name").0
}

/// Sets `--index`.
fn set_index(options: &mut Options, value: &str) -> Result<(), String> {
    options.index = chosen(&INDEXES, "index", value)?;
    Ok(())
}

/// All layouts of chunks, by name.
const LAYOUTS: [(&str, ChunkLayout); 2] =
    [("inline", ChunkLayout::Inline), ("split", ChunkLayout::Split)];

/// Returns the name of a layout, as `--layout` takes it.
pub fn layout_name(layout: ChunkLayout) -> &'static str {
    let named = LAYOUTS.iter().find(|(_, known)| *known == layout);
    named.expect("every layout has a name").0
}

/// Sets `--layout`.
fn set_layout(options: &mut Options, value: &str) -> Result<(), String> {
    options.layout = chosen(&LAYOUTS, "layout", value)?;
    Ok(())
}

/// Looks up the entry called `value`; the error says that no `what` is called so.
fn chosen<T: Copy>(known: &[(&str, T)], what: &str, value: &str) -> Result<T, String> {
    match known.iter().find(|(name, _)| *name == value) {
        Some((_, chosen)) => Ok(*chosen),
        None => {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            Err(format!("unknown {what} {value}; known are {}", names.join(", ")))
        }
    }
}

/// Sets `--measure-costs`; `auto` leaves it to the policy.
fn set_measure_costs(options: &mut Options, value: &str) -> Result<(), String> {
    options.measure_costs = match value {
        "auto" => None,
        "on" => Some(true),
        "off" => Some(false),
        _ => return Err(format!("{value} is not auto, on or off")),
    };
    Ok(())
}

/// Sets `--cache-geometry`.
fn set_cache_geometry(options: &mut Options, value: &str) -> Result<(), String> {
    let geometry = value.parse().map_err(|error| format!("{value} is {error}"))?;
    options.cache_geometry = Some(geometry);
    Ok(())
}

/// Sets `--compressed`.
fn set_compressed(options: &mut Options, value: &str) -> Result<(), String> {
    options.compressed = match value {
        "auto" => true,
        "off" => false,
        _ => return Err(format!("{value} is neither auto nor off")),
    };
    Ok(())
}

/// Adds to `--quota`: prefixes and sizes separated by commas; may be repeated.
fn set_quota(options: &mut Options, value: &str) -> Result<(), String> {
    for entry in value.split(',').filter(|entry| !entry.is_empty()) {
        let quota = quota(entry).ok_or_else(|| {
            format!("{entry} is not PREFIX=SIZE, as in session:=20% or cart:=512m")
        })?;
        // Conflicts between quotas are found once all of them are known.
        Quota::check_all(std::slice::from_ref(&quota), u64::MAX).map_err(|it| it.to_string())?;
        options.quotas.push(quota);
    }
    Ok(())
}

/// Parses a prefix and its maximum size.
fn quota(text: &str) -> Option<Quota> {
    let (prefix, size) = text.rsplit_once('=')?;
    let size = match size.strip_suffix('%') {
        Some(percent) => QuotaSize::Share(percent.parse::<f64>().ok()? / 100.0),
        None => QuotaSize::Bytes(number(size)?),
    };
    Some(Quota { prefix: prefix.as_bytes().into(), size })
}

/// Sets `--hot-target`.
fn set_hot_target(options: &mut Options, value: &str) -> Result<(), String> {
    match value.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => {
            options.hot_target = Some(share);
            Ok(())
        }
        _ => Err(format!("{value} is not a share from 0 to 1")),
    }
}

/// Sets `--flash`.
pub(super) fn set_flash(options: &mut Options, value: &str) -> Result<(), String> {
    let (path, size) = value.rsplit_once(':').unwrap_or(("", ""));
    let page_bytes = PAGE_BYTES as u64;
    match number(size).filter(|_| !path.is_empty()) {
        Some(bytes) if bytes < page_bytes => {
            Err(format!("{value} has a size of {bytes} bytes, less than a page of {page_bytes}"))
        }
        Some(bytes) => {
            options.flash = Some((path.into(), bytes & !(page_bytes - 1)));
            Ok(())
        }
        _ => Err(format!("{value} is not PATH:SIZE, as in /var/lib/larder/flash:100g")),
    }
}

/// Sets `--flash-write-limit`: a size per unit of time.
fn set_flash_write_limit(options: &mut Options, value: &str) -> Result<(), String> {
    let (size, unit) = value.split_once('/').unwrap_or((value, "s"));
    let seconds = match unit {
        "s" | "second" => 1.0,
        "h" | "hour" => 3600.0,
        "d" | "day" => 86_400.0,
        _ => return Err(format!("{unit} is not s, h or d, as in 40g/d")),
    };
    match number(size) {
        Some(bytes) if bytes > 0 => {
            options.flash_write_limit = Some(bytes as f64 / seconds);
            Ok(())
        }
        _ => Err(format!("{value} is not a size and a time, as in 2m/s or 40g/d")),
    }
}

/// Sets `--flash-reads`.
fn set_flash_reads(options: &mut Options, value: &str) -> Result<(), String> {
    let method = ReadMethod::ALL.into_iter().find(|method| method.name() == value);
    if method.is_none() && value != "auto" {
        return Err(format!("{value} is not auto, io_uring or threads"));
    }
    options.flash_reads = method;
    Ok(())
}

/// Longest name of a Unix socket that the kernel accepts.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// Sets `-s`.
fn set_unix_path(options: &mut Options, value: &str) -> Result<(), String> {
    if value.len() > UNIX_PATH_BYTES_MAX {
        let bytes = value.len();
        return Err(format!(
            "{value} has {bytes} bytes, more than the {UNIX_PATH_BYTES_MAX} allowed"
        ));
    }
    options.unix_path = Some(value.into());
    Ok(())
}

/// Sets `-a`: octal digits.
fn set_unix_mode(options: &mut Options, value: &str) -> Result<(), String> {
    match u32::from_str_radix(value, 8) {
        Ok(mode) if mode <= 0o777 => {
            options.unix_mode = mode;
            Ok(())
        }
        _ => Err(format!("takes octal digits from 0 to 777, not {value}")),
    }
}

/// Sets `-f`: larger than 1.
fn set_growth_factor(options: &mut Options, value: &str) -> Result<(), String> {
    match value.parse::<f64>() {
        Ok(factor) if factor > 1.0 && factor <= 16.0 => {
            options.growth_factor = Some(factor);
            Ok(())
        }
        _ => Err(format!("takes a factor larger than 1 and up to 16, not {value}")),
    }
}

/// Adds to `-l`: addresses separated by commas; may be repeated.
fn set_listen(options: &mut Options, value: &str) -> Result<(), String> {
    // memcached accepts either separator.
    for address in value.split([',', ';']).filter(|address| !address.is_empty()) {
        listen::check(address).map_err(|why| format!("{address}: {why}"))?;
        options.listen.push(address.to_owned());
    }
    Ok(())
}

/// Sets `--admin-listen`: one address.
fn set_admin_listen(options: &mut Options, value: &str) -> Result<(), String> {
    listen::check(value).map_err(|why| format!("{value}: {why}"))?;
    options.admin_listen = value.to_owned();
    Ok(())
}

/// Declares a switch.
const fn switch(
    short: Option<char>,
    long: &'static str,
    set: fn(&mut Options),
    reason: &'static str,
) -> Declaration {
    let kind = Kind::Switch(set);
    Declaration { short, long, kind, default: None, reason }
}

/// Declares an option that is known and not implemented yet.
const fn missing(
    short: Option<char>,
    long: &'static str,
    unit: Option<&'static str>,
    reason: &'static str,
) -> Declaration {
    let kind = Kind::Missing { unit };
    Declaration { short, long, kind, default: None, reason }
}

/// Declares an option with a value.
const fn valued(
    short: Option<char>,
    long: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    reason: &'static str,
) -> Declaration {
    Declaration { short, long, kind, default, reason }
}

/// The kind of a number.
const fn numbered(unit: &'static str, min: u64, max: u64, set: fn(&mut Options, u64)) -> Kind {
    Kind::Number { unit, min, max, set }
}

/// The kind of a text.
const fn text(unit: &'static str, set: fn(&mut Options, &str) -> Result<(), String>) -> Kind {
    Kind::Text { unit, set }
}

/// The kind of a text that may be given more than once.
const fn list(unit: &'static str, set: fn(&mut Options, &str) -> Result<(), String>) -> Kind {
    Kind::List { unit, set }
}

/// Every option.
#[rustfmt::skip]
pub const DECLARATIONS: &[Declaration] = &[
    valued(Some('m'), "memory-limit",
        numbered("megabytes", 1, 1 << 21, |o, n| o.memory_megabytes = usize_of(n)), Some("64"),
        "Memory for items and the index. Buffers, connections and dictionary training need another \
         5 % plus 32 MiB, with few connections and an -I of at most 16m. A number with a suffix is \
         in bytes: 64m, 1g. At run time the limit can be raised to 64 times its value at the \
         start, if the machine has that much memory."),
    switch(Some('M'), "disable-evictions", |o| o.evict = false,
        "When memory is full, answer stores with an error instead of evicting. Nothing is \
         compressed then, and --policy has no effect."),
    valued(Some('I'), "max-item-size",
        numbered("bytes", 1 << 10, 1 << 30, |o, n| o.item_bytes_max = usize_of(n)), Some("1m"),
        "Maximum size of an item with its key and header; above 1m, at most half of -m. With a \
         larger limit one item can evict many."),
    valued(Some('p'), "port", numbered("a port", 0, 65_535, |o, n| o.port = n as u16),
        Some("11211"), "TCP port to listen on; 0 picks a free one. The address is printed."),
    valued(Some('l'), "listen", list("ADDRESS[:PORT],...", set_listen), None,
        "Addresses to listen on; an IPv6 address with a port is written [::1]:11212. The prefix \
         notls: leaves an address without TLS when -Z is given. By default only this machine can \
         connect (127.0.0.1)."),
    valued(Some('s'), "unix-socket",
        text("FILE", set_unix_path), None,
        "Unix socket to listen on instead of TCP; -p then has no effect. --redis-port and \
         --admin-port stay on TCP, --redis-port at the addresses of -l."),
    valued(Some('a'), "unix-mask", text("OCTAL", set_unix_mode), Some("700"),
        "Permission bits of the Unix socket."),
    valued(Some('U'), "udp-port", numbered("a port", 0, 0, |_, _| {}), Some("0"),
        "UDP is not supported; 0 is accepted because start scripts pass it."),
    valued(Some('b'), "listen-backlog",
        numbered("connections", 1, 65_535, |o, n| o.backlog = u32_of(n)), Some("1024"),
        "Length of the kernel's queue of connections that wait to be accepted."),
    valued(Some('c'), "conn-limit",
        numbered("connections", 1, 1_000_000, |o, n| o.connections_max = usize_of(n)),
        Some("1024"), "Maximum number of simultaneous connections."),
    valued(None, "max-connections-per-address",
        numbered("connections", 0, 1_000_000, |o, n| o.connections_per_address_max = usize_of(n)),
        Some("0"),
        "Maximum number of simultaneous connections from one address, or from one IPv6 network \
         (/64); 0 sets no limit other than -c. Further connections are refused with an error line, \
         even with --disable-maxconns-fast. All clients of a proxy share one address. Connections \
         to a Unix socket are not counted."),
    valued(Some('t'), "threads", numbered("threads", 1, 1024, |o, n| o.threads = usize_of(n)),
        Some("4"),
        "Number of worker threads. The default is 4 on every machine, as in memcached; more \
         threads than CPU cores gain nothing. One more thread compresses and evicts in the \
         background."),
    valued(Some('R'), "max-reqs-per-event",
        numbered("requests", 1, 1 << 30, |o, n| o.requests_per_event = u32_of(n)), Some("20"),
        "Accepted for compatibility with memcached: fairness is measured by bytes read, replies \
         made and work done, not by requests."),
    switch(Some('C'), "disable-cas", |o| o.cas = false,
        "Disable CAS uniques: gets returns 0 and cas finds no match."),
    valued(Some('f'), "slab-growth-factor", text("FACTOR", set_growth_factor), None,
        "Ratio of the chunk sizes of neighbouring size classes, above 1 and up to 16. A smaller \
         factor wastes fewer bytes in chunks, but divides the memory among more classes. The \
         default is 1.08, and up to 1.25 where a small -m has too few slabs for that many \
         classes."),
    valued(Some('n'), "slab-min-size",
        numbered("bytes", 1, 1 << 20, |o, n| o.item_bytes_min = Some(usize_of(n))), None,
        "Minimum space for key, value and flags. The default is 24 bytes with the header; a larger \
         value makes fewer size classes for short items."),
    switch(Some('L'), "enable-largepages", |_| {},
        "Accepted without effect: large pages are always requested."),
    switch(Some('k'), "lock-memory", |o| o.lock_memory = true,
        "Lock memory, so that it is not swapped out. Without permission to (ulimit -l) the server \
         warns and continues."),
    switch(Some('F'), "disable-flush-all", |o| o.flush_allowed = false, "Refuse flush_all."),
    switch(Some('X'), "disable-dumping", |o| o.dump_allowed = false,
        "Refuse lru_crawler metadump and mgdump, stats cachedump and stats detail."),
    switch(Some('W'), "disable-watch", |o| o.watch_allowed = false, "Refuse watch."),
    switch(None, "disable-memlimit", |o| o.memlimit_allowed = false,
        "Refuse cache_memlimit, with which a client can lower --memory-limit to 8 megabytes, or \
         raise it to 64 times its value at the start, if the machine has that much memory."),
    switch(Some('A'), "enable-shutdown", |o| o.shutdown_allowed = true,
        "Let clients stop the server with the command shutdown."),
    switch(Some('d'), "daemon", |o| o.daemon = true,
        "Run in the background. Do not use it under systemd."),
    valued(Some('u'), "user", text("USER", |o, v| { o.user = Some(v.to_owned()); Ok(()) }), None,
        "Switch to this user when started as root."),
    valued(Some('P'), "pidfile",
        text("FILE", |o, v| { o.pidfile = Some(v.into()); Ok(()) }), None,
        "Write the process id to this file, and remove it on exit. A second server with the same \
         file is refused."),
    switch(Some('r'), "enable-coredumps", |o| o.core_dumps = true,
        "Raise the limit on the size of core files."),
    valued(Some('v'), "verbose", Kind::Count(|o| o.verbosity += 1), None,
        "Log more to standard error: why TLS fails, which client is closed for the memory it would \
         have taken or because it did not log in, and how flash is read. Repeating the option is \
         accepted and logs no more. Connections closed for idling or refused are counted in stats; \
         watch shows requests."),
    valued(Some('B'), "protocol", text("auto|ascii|binary", set_protocol), Some("auto"),
        "Protocol that clients speak. auto: the first byte of each connection decides."),
    valued(Some('o'), "extended", list("NAME[=VALUE],...", extended::apply), None,
        "memcached's extended options; those that tune its slabs or LRU only cause a warning."),
    valued(None, "idle-timeout",
        numbered("seconds", 0, IDLE_TIMEOUT_S_MAX, |o, n| o.idle_timeout_s = n), Some("0"),
        "Close connections that have sent nothing, or read none of their replies, for this long; 0 \
         disables the timeout."),
    switch(None, "disable-maxconns-fast", |o| o.connections_fast = false,
        "At --conn-limit, let new connections wait in the kernel instead of refusing them with an \
         error line."),
    valued(None, "watcher-logbuf-size",
        numbered("kilobytes", 1, WATCHER_KILOBYTES_MAX,
            |o, n| o.watcher_bytes_max = usize_of(n << 10)), Some("256"),
        "Buffer for the log lines of a watcher that reads slowly; lines that do not fit are \
         skipped."),
    valued(Some('D'), "stat-prefix-delimiter", text("CHARACTER", set_delimiter), None,
        "Count gets, hits, sets and deletes by the part of the key before this character, from the \
         start on; stats detail shows the counts. Without this option, stats detail on starts the \
         counting, with a colon."),
    valued(None, "policy", text("clock|cost-clock|gd-wheel|lru", set_policy), Some("cost-clock"),
        "Which items are evicted when memory is full. clock goes by recency alone. cost-clock also \
         keeps items longer that cost more to make again, as stated by clients (Pc of ms, \
         --text-cost) or as measured, at the price of more misses of cheap ones: a costly item is \
         passed over a few more times. gd-wheel does the same in proportion to the cost, for 12 \
         more bytes an item. lru is a list with a second chance, for comparison, for as many \
         bytes."),
    valued(None, "cost-unit-us",
        numbered("microseconds", 1, 65_536, |o, n| o.cost_unit_us = n as u32), Some("50"),
        "Size of one step of gd-wheel's costs. Costs of 65535 steps and more count the same, and \
         costs below one step as one."),
    valued(None, "measure-costs", text("auto|on|off", set_measure_costs), Some("auto"),
        "Measure the cost of an item as the time from a miss of its key to the next store, where \
         the client does not state it. A known cost takes three bytes of an item. auto: on where \
         the policy uses costs."),
    switch(None, "text-cost", |o| o.text_cost = true,
        "Accept the cost of making the value, in microseconds, after the length in set, add and \
         replace, before noreply: 0 (unknown) to 4294967295; larger numbers count as that. Any \
         other word there, which memcached ignores, is then refused. Off by default."),
    valued(None, "index", text("cuckoo|tree", set_index), Some("cuckoo"),
        "Data structure of the index. cuckoo: 9 bytes of memory an item in its tables, up to 13.5 \
         with the free space in their slabs. tree: ten more, but a lookup, above all a miss, reads \
         fewer cache lines. Keep cuckoo unless the server spends its time on lookups."),
    valued(None, "layout", text("inline|split", set_layout), Some("inline"),
        "Layout of keys and values in the hot zone. inline: side by side. split: items of more \
         than 128 bytes have header and key in one row of the slab and the value in another. \
         Eviction then reads fewer cache lines, each hit reads one more, and an item takes about \
         30 bytes more. Keep inline unless you compare the two."),
    switch(None, "repartition", |o| o.repartition = true,
        "Move items that are hit often together into the first column of their slab, in the \
         background. Takes half a byte an item and up to 3 % of a processor. Where the kernel \
         provides no huge pages, the column consists of pages whose frames cover all sets of the \
         cache, if the server has CAP_SYS_ADMIN, without which it cannot read frame numbers. Not \
         with gd-wheel and lru. Off by default: no benefit was measured."),
    valued(None, "cache-geometry", text("[SLICESx]SETSxWAYSxLINE", set_cache_geometry), None,
        "Geometry of the processor's last-level cache, for --repartition, as in 6x2048x20x64: \
         slices, sets per slice, ways and bytes per line, as lscpu -C shows them. By default what \
         the system reports, in the fewest slices that have a power of two of sets each. Only \
         needed in a virtual machine that hides its cache."),
    valued(None, "compressed", text("auto|off", set_compressed), Some("auto"),
        "Keep items that leave the hot zone compressed, in a part of the same memory that sizes \
         itself. auto: where -m leaves room for both, 8 MiB and more, and without -M, with which \
         none leave. off: evict them."),
    valued(None, "hot-target", text("SHARE", set_hot_target), None,
        "Divide the memory so that this share of hits, 0 to 1, is served uncompressed, instead of \
         by the costs of hits and misses. No effect with --compressed off."),
    valued(None, "quota", list("PREFIX=SIZE,...", set_quota), None,
        "Maximum memory for items whose keys begin with the prefix: bytes (k, m, g), or a share of \
         -m, as in session:=20%. Beyond it items with that prefix are evicted, and no others. The \
         longest matching prefix applies; up to 64 prefixes, none with a comma. Items under a \
         quota stay uncompressed; flash does not count. Not with --repartition."),
    valued(None, "flash", text("PATH:SIZE", set_flash), None,
        "Third tier, on a file or block device, of this many bytes (k, m, g): items that leave \
         memory are kept there, compressed, and found again after a restart. Changes that clients \
         make while no server runs, or one without this tier, do not reach it: those keys come \
         back with their old values. Name it at every start, or remove it after a run without it \
         or with another. A file is allocated in full. Its size, 8192g at most, is fixed: to \
         change it, remove the file with its contents. Needs -m 8 or more, and not -M. The index \
         takes memory for each item on flash, up to half of -m: --check prints for how many items \
         that suffices."),
    valued(None, "flash-reads", text("auto|io_uring|threads", set_flash_reads), Some("auto"),
        "How flash is read. io_uring: each worker starts many reads with one system call; it is an \
         error if the kernel refuses. threads: four for each worker. auto: io_uring where the \
         kernel allows it, which containers often do not; stats settings shows the choice."),
    valued(None, "flash-write-limit", text("BYTES[/s|/h|/d]", set_flash_write_limit), None,
        "Maximum long-term rate of writes to flash (k, m, g), to extend its life; items that were \
         read go first. Up to ten minutes' worth may be saved up. Unlimited by default."),
    valued(Some('e'), "memory-file",
        text("FILE", |o, v| { o.memory_file = Some(v.into()); Ok(()) }), None,
        "File that keeps the contents of memory over a restart. A stop by SIGTERM, SIGINT or \
         SIGUSR1 writes it, and the next start reads and removes it before it listens. Changes \
         that clients make while no server runs do not reach it: those keys come back with their \
         old values. Name it at every start: after a run without it the next one would restore \
         older items. A file that larder did not write is refused. While the server runs there is \
         FILE.tmp. If a stop is killed, the next start reads what was written, the most valuable \
         items first. A start waits two seconds for another server that uses the file to end. The \
         name must not end in .tmp. Not with --flash, which saves memory as well."),
    valued(None, "save-seconds",
        numbered("seconds", 0, 3600, |o, n| o.save_seconds = n), Some("60"),
        "How long a stop by SIGTERM, SIGINT or SIGUSR1 may take to save memory, to flash or the \
         memory file, for the next start; what is not saved by then is lost. systemd is asked for \
         this time with Type=notify, and otherwise kills the server after 90 seconds. 0 saves \
         nothing."),
    valued(None, "flash-save-seconds", Kind::Alias("save-seconds"), None,
        "Alias of --save-seconds."),
    valued(None, "redis-port",
        numbered("a port", 0, 65_535, |o, n| o.redis_port = n as u16), Some("0"),
        "Port for the Redis protocol, at the addresses of -l; it serves the same items. 0 disables \
         it."),
    valued(None, "admin-port",
        numbered("a port", 0, 65_535, |o, n| o.admin_port = Some(n as u16)), None,
        "HTTP port of the admin page, /metrics for Prometheus, /healthz and /readyz, and of larder \
         top. It is read-only. 0 picks a free port and prints it. By default there is none, and no \
         latencies are sampled."),
    valued(None, "admin-listen",
        text("ADDRESS", set_admin_listen), Some("127.0.0.1"),
        "Address of --admin-port. There is no password: anyone who can connect can read the state \
         of the cache, the most requested keys, and with measured costs the beginnings of others."),
    valued(Some('Y'), "auth-file",
        text("FILE", |o, v| { o.auth_file = Some(v.into()); Ok(()) }), None,
        "Only users named in this file may use the server. It has a line name:password for each, \
         the password in plain text or as a hash, $argon2id$... or $pbkdf2-sha256$.... Users after \
         a line [read-only] can read but not change anything. Clients log in over the text \
         protocol and --redis-port, and with -S over the binary protocol. SIGHUP reads it again."),
    switch(Some('S'), "enable-sasl", |o| o.sasl = true,
        "Let clients use the binary protocol, and log in with SASL PLAIN as one of the users of \
         -Y."),
    switch(Some('Z'), "enable-ssl", |o| o.tls.is_on = true,
        "Require TLS at every TCP address whose -l, or --admin-listen, does not begin with notls:. \
         A Unix socket is not affected. Needs --ssl-chain-cert."),
    valued(None, "ssl-chain-cert",
        text("FILE", |o, v| { o.tls.chain_cert = Some(v.into()); Ok(()) }), None,
        "The server's certificate and its chain, as PEM. refresh_certs and SIGHUP reload it, the \
         key and the authorities, for new connections."),
    valued(None, "ssl-key", text("FILE", |o, v| { o.tls.key = Some(v.into()); Ok(()) }), None,
        "Private key of the certificate, if it is not in the same file."),
    valued(None, "ssl-keyformat", text("PEM|DER", tls::set_key_format), Some("PEM"),
        "Format of the private key."),
    valued(None, "ssl-verify-mode",
        numbered("a mode", 0, 3, |o, n| o.tls.verify_mode = n as u8), Some("0"),
        "Whether clients must present a certificate signed by --ssl-ca-cert. 0: none is requested. \
         1: only an invalid one is refused. 2: one is required; 3 is the same, as there is no \
         renegotiation."),
    valued(None, "ssl-ca-cert",
        text("FILE", |o, v| { o.tls.ca_cert = Some(v.into()); Ok(()) }), None,
        "Certificates of the authorities that sign clients' certificates, as PEM."),
    valued(None, "ssl-min-version", text("2|3", tls::set_min_version), Some("2"),
        "Oldest TLS version to accept: 2 is TLS 1.2, and 3 is 1.3. Older ones are not supported."),
    valued(None, "ssl-ciphers", text("NAME[:NAME...]", tls::set_ciphers), None,
        "Cipher suites for TLS 1.2, by OpenSSL's names. Those of TLS 1.3 are always enabled. Names \
         of groups, such as HIGH, are not supported. By default all are enabled."),
    switch(None, "ssl-session-cache", |o| o.tls.resumption = true,
        "Let clients resume sessions, which saves both sides most of the next handshake. The \
         client keeps the session's state."),
    valued(None, "redis-tls", text("auto|on|off", tls::set_redis_tls), Some("auto"),
        "Whether --redis-port uses TLS, with -Z. auto: as for memcached's clients at the same \
         address."),
    missing(Some('N'), "napi-ids", Some("COUNT"), "Assign workers by network queue."),
    valued(None, "config", text("FILE", |_, _| Ok(())), None,
        "Read options from this file, too. Arguments override the environment, and that overrides \
         the file. SIGHUP reads it again. By default no file is read."),
    valued(None, "check", Kind::Act(Act::Check), None,
        "Check all options, print what is wrong with them, and exit without serving: with status \
         0, or 64 if something is wrong."),
    valued(None, "print-config", Kind::Act(Act::PrintConfig), None,
        "Print a complete file for --config, with the values in effect, and exit."),
    valued(None, "print-options-reference", Kind::Print(reference::page), None,
        "Print the reference of all options, as Markdown, and exit."),
    valued(Some('h'), "help", Kind::Print(help::help), None, "Print this help and exit."),
    valued(Some('V'), "version", Kind::Print(help::version), None, "Print the version and exit."),
    valued(Some('i'), "license", Kind::Print(help::license), None, "Print the licence and exit."),
];
