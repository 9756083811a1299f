//! The table of options: each one's name, unit, range, default and reason, once.
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

/// Narrows a number whose range has been checked.
fn usize_of(number: u64) -> usize {
    usize::try_from(number).expect("the range of every option fits 64 bits")
}

/// Narrows a number whose range has been checked.
fn u32_of(number: u64) -> u32 {
    u32::try_from(number).expect("the range was checked to fit 32 bits")
}

/// `-B`.
fn set_protocol(options: &mut Options, value: &str) -> Result<(), String> {
    options.protocol = match value {
        "auto" => None,
        "ascii" => Some(Wire::Text),
        "binary" => Some(Wire::Binary),
        _ => return Err(format!("no protocol is called {value}; auto, ascii, binary are known")),
    };
    Ok(())
}

/// The policies that there are, by name.
const POLICIES: [(&str, Policy); 4] = [
    ("clock", Policy::Clock),
    ("cost-clock", Policy::CostClock),
    ("gd-wheel", Policy::GdWheel),
    ("lru", Policy::Lru),
];

/// The name of a policy, as `--policy` takes it.
pub fn policy_name(policy: Policy) -> &'static str {
    let named = POLICIES.iter().find(|(_, known)| *known == policy);
    named.expect("every policy has a name").0
}

/// `-D`: a character that keys can have.
fn set_delimiter(options: &mut Options, value: &str) -> Result<(), String> {
    match *value.as_bytes() {
        [delimiter] if delimiter.is_ascii_graphic() => {
            options.delimiter = Some(delimiter);
            Ok(())
        }
        _ => Err(format!("{value:?} is not one visible character")),
    }
}

/// `--policy`: one of those that there are.
fn set_policy(options: &mut Options, value: &str) -> Result<(), String> {
    options.policy = chosen(&POLICIES, "policy", value)?;
    Ok(())
}

/// The kinds of index that there are, by name. A list is there to compare with, and not here.
const INDEXES: [(&str, IndexKind); 2] = [("cuckoo", IndexKind::Cuckoo), ("tree", IndexKind::Tree)];

/// The name of a kind of index, as `--index` takes it.
pub fn index_name(kind: IndexKind) -> &'static str {
    let named = INDEXES.iter().find(|(_, known)| *known == kind);
    named.expect("every kind that can be chosen has a name").0
}

/// `--index`: one of those that there are.
fn set_index(options: &mut Options, value: &str) -> Result<(), String> {
    options.index = chosen(&INDEXES, "index", value)?;
    Ok(())
}

/// The layouts of chunks that there are, by name.
const LAYOUTS: [(&str, ChunkLayout); 2] =
    [("inline", ChunkLayout::Inline), ("split", ChunkLayout::Split)];

/// The name of a layout, as `--layout` takes it.
pub fn layout_name(layout: ChunkLayout) -> &'static str {
    let named = LAYOUTS.iter().find(|(_, known)| *known == layout);
    named.expect("every layout has a name").0
}

/// `--layout`: one of those that there are.
fn set_layout(options: &mut Options, value: &str) -> Result<(), String> {
    options.layout = chosen(&LAYOUTS, "layout", value)?;
    Ok(())
}

/// What is called `value`; or that no `what` is.
fn chosen<T: Copy>(known: &[(&str, T)], what: &str, value: &str) -> Result<T, String> {
    match known.iter().find(|(name, _)| *name == value) {
        Some((_, chosen)) => Ok(*chosen),
        None => {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            Err(format!("no {what} is called {value}; {} are known", names.join(", ")))
        }
    }
}

/// `--measure-costs`: whether, or as the policy has it.
fn set_measure_costs(options: &mut Options, value: &str) -> Result<(), String> {
    options.measure_costs = match value {
        "auto" => None,
        "on" => Some(true),
        "off" => Some(false),
        _ => return Err(format!("{value} is none of auto, on and off")),
    };
    Ok(())
}

/// `--cache-geometry`.
fn set_cache_geometry(options: &mut Options, value: &str) -> Result<(), String> {
    let geometry = value.parse().map_err(|error| format!("{value} is {error}"))?;
    options.cache_geometry = Some(geometry);
    Ok(())
}

/// `--compressed`.
fn set_compressed(options: &mut Options, value: &str) -> Result<(), String> {
    options.compressed = match value {
        "auto" => true,
        "off" => false,
        _ => return Err(format!("{value} is neither auto nor off")),
    };
    Ok(())
}

/// `--quota`: prefixes and sizes with commas between them; may be repeated.
fn set_quota(options: &mut Options, value: &str) -> Result<(), String> {
    for entry in value.split(',').filter(|entry| !entry.is_empty()) {
        let quota = quota(entry).ok_or_else(|| {
            format!("{entry} is no prefix and size, as in session:=20% or cart:=512m")
        })?;
        // Whether it is one beside the others is seen when all of them are there.
        Quota::check_all(std::slice::from_ref(&quota), u64::MAX).map_err(|it| it.to_string())?;
        options.quotas.push(quota);
    }
    Ok(())
}

/// A prefix, and what it may take.
fn quota(text: &str) -> Option<Quota> {
    let (prefix, size) = text.rsplit_once('=')?;
    let size = match size.strip_suffix('%') {
        Some(percent) => QuotaSize::Share(percent.parse::<f64>().ok()? / 100.0),
        None => QuotaSize::Bytes(number(size)?),
    };
    Some(Quota { prefix: prefix.as_bytes().into(), size })
}

/// `--hot-target`.
fn set_hot_target(options: &mut Options, value: &str) -> Result<(), String> {
    match value.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => {
            options.hot_target = Some(share);
            Ok(())
        }
        _ => Err(format!("{value} is no share from 0 to 1")),
    }
}

/// `--flash`.
pub(super) fn set_flash(options: &mut Options, value: &str) -> Result<(), String> {
    let (path, size) = value.rsplit_once(':').unwrap_or(("", ""));
    let page_bytes = PAGE_BYTES as u64;
    match number(size).filter(|_| !path.is_empty()) {
        Some(bytes) if bytes < page_bytes => {
            Err(format!("{value} has a size of {bytes} bytes, and a page alone {page_bytes}"))
        }
        Some(bytes) => {
            options.flash = Some((path.into(), bytes & !(page_bytes - 1)));
            Ok(())
        }
        _ => Err(format!("{value} is no path and size, as in /var/lib/larder/flash:100g")),
    }
}

/// `--flash-write-limit`: a size, and what time it is for.
fn set_flash_write_limit(options: &mut Options, value: &str) -> Result<(), String> {
    let (size, unit) = value.split_once('/').unwrap_or((value, "s"));
    let seconds = match unit {
        "s" | "second" => 1.0,
        "h" | "hour" => 3600.0,
        "d" | "day" => 86_400.0,
        _ => return Err(format!("{unit} is none of s, h and d, as in 40g/d")),
    };
    match number(size) {
        Some(bytes) if bytes > 0 => {
            options.flash_write_limit = Some(bytes as f64 / seconds);
            Ok(())
        }
        _ => Err(format!("{value} is no size and time, as in 2m/s or 40g/d")),
    }
}

/// `--flash-reads`.
fn set_flash_reads(options: &mut Options, value: &str) -> Result<(), String> {
    let method = ReadMethod::ALL.into_iter().find(|method| method.name() == value);
    if method.is_none() && value != "auto" {
        return Err(format!("{value} is none of auto, io_uring and threads"));
    }
    options.flash_reads = method;
    Ok(())
}

/// What the kernel takes of a Unix socket's name.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// `-s`.
fn set_unix_path(options: &mut Options, value: &str) -> Result<(), String> {
    if value.len() > UNIX_PATH_BYTES_MAX {
        let bytes = value.len();
        return Err(format!("{value} has {bytes} bytes, and at most {UNIX_PATH_BYTES_MAX} may"));
    }
    options.unix_path = Some(value.into());
    Ok(())
}

/// `-a`: octal digits.
fn set_unix_mode(options: &mut Options, value: &str) -> Result<(), String> {
    match u32::from_str_radix(value, 8) {
        Ok(mode) if mode <= 0o777 => {
            options.unix_mode = mode;
            Ok(())
        }
        _ => Err(format!("takes octal digits from 0 to 777, not {value}")),
    }
}

/// `-f`: larger than 1.
fn set_growth_factor(options: &mut Options, value: &str) -> Result<(), String> {
    match value.parse::<f64>() {
        Ok(factor) if factor > 1.0 && factor <= 16.0 => {
            options.growth_factor = Some(factor);
            Ok(())
        }
        _ => Err(format!("takes a factor larger than 1 and up to 16, not {value}")),
    }
}

/// `-l`: addresses with commas between them; may be repeated.
fn set_listen(options: &mut Options, value: &str) -> Result<(), String> {
    // memcached takes either.
    for address in value.split([',', ';']).filter(|address| !address.is_empty()) {
        listen::check(address).map_err(|why| format!("{address}: {why}"))?;
        options.listen.push(address.to_owned());
    }
    Ok(())
}

/// `--admin-listen`: one address.
fn set_admin_listen(options: &mut Options, value: &str) -> Result<(), String> {
    listen::check(value).map_err(|why| format!("{value}: {why}"))?;
    options.admin_listen = value.to_owned();
    Ok(())
}

/// A switch.
const fn switch(
    short: Option<char>,
    long: &'static str,
    set: fn(&mut Options),
    reason: &'static str,
) -> Declaration {
    let kind = Kind::Switch(set);
    Declaration { short, long, kind, default: None, reason }
}

/// Something that is known and not there yet.
const fn missing(
    short: Option<char>,
    long: &'static str,
    unit: Option<&'static str>,
    reason: &'static str,
) -> Declaration {
    let kind = Kind::Missing { unit };
    Declaration { short, long, kind, default: None, reason }
}

/// Something with a value.
const fn valued(
    short: Option<char>,
    long: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    reason: &'static str,
) -> Declaration {
    Declaration { short, long, kind, default, reason }
}

/// A number.
const fn numbered(unit: &'static str, min: u64, max: u64, set: fn(&mut Options, u64)) -> Kind {
    Kind::Number { unit, min, max, set }
}

/// Text.
const fn text(unit: &'static str, set: fn(&mut Options, &str) -> Result<(), String>) -> Kind {
    Kind::Text { unit, set }
}

/// Text that may be given more than once.
const fn list(unit: &'static str, set: fn(&mut Options, &str) -> Result<(), String>) -> Kind {
    Kind::List { unit, set }
}

/// Every option.
#[rustfmt::skip]
pub const DECLARATIONS: &[Declaration] = &[
    valued(Some('m'), "memory-limit",
        numbered("megabytes", 1, 1 << 21, |o, n| o.memory_megabytes = usize_of(n)), Some("64"),
        "Memory for items and index. Buffers, connections and the training of dictionaries come on \
         top: 5 % and 32 MiB, where connections are few and -I is at most 16m. With a suffix it is \
         bytes: 64m, 1g. While the server serves it can rise to 64 times what it was at the start, \
         if the machine has so much."),
    switch(Some('M'), "disable-evictions", |o| o.evict = false,
        "Answer stores with an error when memory is full instead of evicting. Nothing is \
         compressed then, and --policy says nothing."),
    valued(Some('I'), "max-item-size",
        numbered("bytes", 1 << 10, 1 << 30, |o, n| o.item_bytes_max = usize_of(n)), Some("1m"),
        "The largest item with its key and header, beyond 1m at most half of -m. A larger limit \
         lets one item evict many."),
    valued(Some('p'), "port", numbered("a port", 0, 65_535, |o, n| o.port = n as u16),
        Some("11211"), "TCP port to listen on; 0 takes a free one. What it listens on is printed."),
    valued(Some('l'), "listen", list("ADDRESS[:PORT],...", set_listen), None,
        "Addresses to listen on, an address of IPv6 with a port as [::1]:11212. Behind notls: one \
         is without TLS beside -Z. Without the option only this machine can connect \
         (127.0.0.1)."),
    valued(Some('s'), "unix-socket",
        text("FILE", set_unix_path), None,
        "Unix socket to listen on instead of TCP: -p has no effect then. --redis-port and \
         --admin-port stay on TCP, that of Redis at the addresses of -l."),
    valued(Some('a'), "unix-mask", text("OCTAL", set_unix_mode), Some("700"),
        "Access mask of the Unix socket."),
    valued(Some('U'), "udp-port", numbered("a port", 0, 0, |_, _| {}), Some("0"),
        "UDP is not offered; 0 is accepted because start scripts write it."),
    valued(Some('b'), "listen-backlog",
        numbered("connections", 1, 65_535, |o, n| o.backlog = u32_of(n)), Some("1024"),
        "Connections that the kernel keeps until they are accepted."),
    valued(Some('c'), "conn-limit",
        numbered("connections", 1, 1_000_000, |o, n| o.connections_max = usize_of(n)),
        Some("1024"), "Most connections at one time."),
    valued(None, "max-connections-per-address",
        numbered("connections", 0, 1_000_000, |o, n| o.connections_per_address_max = usize_of(n)),
        Some("0"),
        "Most connections from one address at one time, or from one network of IPv6 (/64); 0 has \
         no limit but -c. Who comes beyond it is refused with a line, also with \
         --disable-maxconns-fast. A proxy has one address for all its clients. Those of a Unix \
         socket are not counted."),
    valued(Some('t'), "threads", numbered("threads", 1, 1024, |o, n| o.threads = usize_of(n)),
        Some("4"),
        "Worker threads. 4 whatever the machine has, as memcached; more than there are CPU cores \
         gain nothing. Beside them one thread packs and evicts in the background."),
    valued(Some('R'), "max-reqs-per-event",
        numbered("requests", 1, 1 << 30, |o, n| o.requests_per_event = u32_of(n)), Some("20"),
        "Accepted for memcached's sake: fairness goes by bytes read, replies made and work done, \
         not by requests."),
    switch(Some('C'), "disable-cas", |o| o.cas = false,
        "Give no CAS uniques: gets returns 0 and cas finds no match."),
    valued(Some('f'), "slab-growth-factor", text("FACTOR", set_growth_factor), None,
        "How many times as large each size class of chunks is as the one before it, above 1 and up \
         to 16. Less leaves fewer bytes free in chunks and divides the memory among more classes. \
         Without it 1.08, and up to 1.25 where a small -m has too few slabs for so many classes."),
    valued(Some('n'), "slab-min-size",
        numbered("bytes", 1, 1 << 20, |o, n| o.item_bytes_min = Some(usize_of(n))), None,
        "Least space for key, value and flags. Without it 24 bytes with the header; more \
         makes fewer size classes for short items."),
    switch(Some('L'), "enable-largepages", |_| {},
        "Large pages are asked for in any case."),
    switch(Some('k'), "lock-memory", |o| o.lock_memory = true,
        "Keep memory out of swap. Without the right to (ulimit -l) it says so and goes on."),
    switch(Some('F'), "disable-flush-all", |o| o.flush_allowed = false, "Refuse flush_all."),
    switch(Some('X'), "disable-dumping", |o| o.dump_allowed = false,
        "Refuse lru_crawler metadump and mgdump, stats cachedump and stats detail."),
    switch(Some('W'), "disable-watch", |o| o.watch_allowed = false, "Refuse watch."),
    switch(None, "disable-memlimit", |o| o.memlimit_allowed = false,
        "Refuse cache_memlimit, with which a client can lower --memory-limit to 8 megabytes, or \
         raise it to 64 times what it was at the start, if the machine has so much."),
    switch(Some('A'), "enable-shutdown", |o| o.shutdown_allowed = true,
        "Let clients end the server by the command shutdown."),
    switch(Some('d'), "daemon", |o| o.daemon = true,
        "Go on in the background. Under systemd leave it out."),
    valued(Some('u'), "user", text("USER", |o, v| { o.user = Some(v.to_owned()); Ok(()) }), None,
        "Become this user when started as root."),
    valued(Some('P'), "pidfile",
        text("FILE", |o, v| { o.pidfile = Some(v.into()); Ok(()) }), None,
        "Write the process id here, and remove the file at the end. A second server with the same \
         file is refused."),
    switch(Some('r'), "enable-coredumps", |o| o.core_dumps = true,
        "Raise the limit for core files."),
    valued(Some('v'), "verbose", Kind::Count(|o| o.verbosity += 1), None,
        "Say more on standard error: why TLS fails, which client is closed for what it would \
         have kept or because it did not say who it is, and how flash is read. More than one is \
         accepted and says no more. Connections that are closed for idling or refused are counted \
         in stats; watch shows requests."),
    valued(Some('B'), "protocol", text("auto|ascii|binary", set_protocol), Some("auto"),
        "The protocol that clients speak. auto: the first byte of a connection says which."),
    valued(Some('o'), "extended", list("NAME[=VALUE],...", extended::apply), None,
        "memcached's extended options; those that tune its slabs or LRU only get a warning."),
    valued(None, "idle-timeout",
        numbered("seconds", 0, IDLE_TIMEOUT_S_MAX, |o, n| o.idle_timeout_s = n), Some("0"),
        "Close connections that were silent, or took nothing of their replies, for so long; 0 \
         never does."),
    switch(None, "disable-maxconns-fast", |o| o.connections_fast = false,
        "At --conn-limit let new connections wait in the kernel rather than refuse them with a \
         line."),
    valued(None, "watcher-logbuf-size",
        numbered("kilobytes", 1, WATCHER_KILOBYTES_MAX,
            |o, n| o.watcher_bytes_max = usize_of(n << 10)), Some("256"),
        "Lines kept for a watcher that reads slowly; what does not fit is skipped."),
    valued(Some('D'), "stat-prefix-delimiter", text("CHARACTER", set_delimiter), None,
        "Count gets, hits, sets and deletes by what stands before this character in keys, from the \
         start on; stats detail shows it. Without it, stats detail on begins to, at a colon."),
    valued(None, "policy", text("clock|cost-clock|gd-wheel|lru", set_policy), Some("cost-clock"),
        "Who stays when memory is full. clock goes by recency alone. cost-clock spares longer what \
         costs more to make again, as far as clients say (Pc of ms, --text-cost) or as it is \
         measured, and so misses more often what is cheap: an item that is costly is passed over a \
         few times more. gd-wheel does the same in proportion to the cost, for 12 more bytes an \
         item. lru is a list with a second chance, to compare with, for as many bytes."),
    valued(None, "cost-unit-us",
        numbered("microseconds", 1, 65_536, |o, n| o.cost_unit_us = n as u32), Some("50"),
        "Microseconds of one step of gd-wheel's costs. What costs 65535 times this and more counts \
         the same, and what costs less as one."),
    valued(None, "measure-costs", text("auto|on|off", set_measure_costs), Some("auto"),
        "Take the time from a key's miss to its next store for what it costs to make, where the \
         client does not say. A known cost takes three bytes of an item. auto: where the policy \
         goes by costs."),
    switch(None, "text-cost", |o| o.text_cost = true,
        "Take microseconds behind the length in set, add and replace, before noreply: what the \
         value cost to make, 0 (unknown) to 4294967295, and more counts as that. Another word \
         there, which memcached ignores, is then refused. Off by default."),
    valued(None, "index", text("cuckoo|tree", set_index), Some("cuckoo"),
        "How items are found. cuckoo: 9 bytes of memory for each in its tables, up to 13.5 with \
         what is free in their slabs. tree: ten more, but a lookup, above all one that finds \
         nothing, reads fewer cache lines. Keep cuckoo unless lookups are what the server spends \
         time on."),
    valued(None, "layout", text("inline|split", set_layout), Some("inline"),
        "Where keys and values lie in the hot zone. inline: side by side. split: items of more \
         than 128 bytes have header and key in one row of the slab and the value in another. \
         Eviction then reads fewer cache lines, each hit reads one more, and an item takes some 30 \
         bytes more. Keep inline unless you compare the two."),
    switch(None, "repartition", |o| o.repartition = true,
        "Move items that are hit often to the first column of their slab, beside each other, in \
         the background. Takes half a byte for each item and up to 3 % of a processor. Where the \
         kernel gives no huge pages, the column is one of pages whose frames meet all sets of the \
         cache, if the server has CAP_SYS_ADMIN, without which frames are not told. Not with \
         gd-wheel and lru. Off by default: nothing was measured that it pays for."),
    valued(None, "cache-geometry", text("[SLICESx]SETSxWAYSxLINE", set_cache_geometry), None,
        "The processor's last-level cache, for --repartition, as in 6x2048x20x64: slices, sets of \
         a slice, ways and bytes of a line, as lscpu -C tells them. Without it as the system tells \
         it, in as few slices as leave a power of two of sets in each. Only a virtual machine that \
         hides its cache needs it."),
    valued(None, "compressed", text("auto|off", set_compressed), Some("auto"),
        "Keep what leaves the hot zone compressed, in a part of the same memory that sizes itself. \
         auto: where -m leaves room for both, 8 MiB and more, and without -M, where nothing leaves \
         it. off: evict it."),
    valued(None, "hot-target", text("SHARE", set_hot_target), None,
        "Divide the memory so that this share of hits, 0 to 1, is served uncompressed, rather than \
         by what hits and misses cost. Says nothing with --compressed off."),
    valued(None, "quota", list("PREFIX=SIZE,...", set_quota), None,
        "The most that items may take whose keys begin with the prefix: bytes (k, m, g), or a \
         share of -m, as in session:=20%. What is too much there goes, and nothing else for it. \
         Each item is under the longest prefix that fits; 64 prefixes, none with a comma. What is \
         under a quota stays uncompressed; flash does not count. Not with --repartition."),
    valued(None, "flash", text("PATH:SIZE", set_flash), None,
        "A third tier on a file, or a block device, of so many bytes (k, m, g): what leaves memory \
         is kept there, compressed, and found again after a restart. What clients change while no \
         server runs, or one without it, does not reach it: those keys come back as they were. \
         Name it at every start, or remove it after a run without it or with another. A file is \
         made with all of its room. Its size, 8192g at most, stays: for another one remove the \
         file, with what it holds. Needs -m 8 or more, and not -M. The index takes memory for \
         each item there, up to half of -m: --check says how many items that is enough for."),
    valued(None, "flash-reads", text("auto|io_uring|threads", set_flash_reads), Some("auto"),
        "How flash is read. io_uring: by each worker, many reads with one system call; a kernel \
         that refuses it is an error. threads: four for each worker. auto: io_uring where the \
         kernel allows it, which containers often do not; stats settings says what it came to."),
    valued(None, "flash-write-limit", text("BYTES[/s|/h|/d]", set_flash_write_limit), None,
        "Write no more than this to flash in the long run (k, m, g), for its life's sake; what was \
         read goes first. Ten minutes' worth may be saved up. Without it there is no limit."),
    valued(Some('e'), "memory-file",
        text("FILE", |o, v| { o.memory_file = Some(v.into()); Ok(()) }), None,
        "Keep what is in memory over a restart, in this file. A stop by SIGTERM, SIGINT or SIGUSR1 \
         writes it, and the next start reads and removes it before it listens. What clients change \
         while no server runs does not reach it: those keys come back as they were. Name it at \
         every start, for after a run without it the next one would bring back older items. A file \
         of somebody else's is refused. While the server runs there is FILE.tmp. If a stop is \
         killed, the start reads what was written, the most valuable items first. A start waits \
         two seconds for another server that has the file to end. Its name must not end in .tmp. \
         Not with --flash, which keeps memory as well."),
    valued(None, "save-seconds",
        numbered("seconds", 0, 3600, |o, n| o.save_seconds = n), Some("60"),
        "How long a stop by SIGTERM, SIGINT or SIGUSR1 may take to save what is in memory, to \
         flash or the memory file, so that it is there after the start; what is left by then is \
         given up. systemd is asked for that time where it listens (Type=notify), and kills after \
         90 seconds where it does not. 0 saves nothing."),
    valued(None, "flash-save-seconds", Kind::Alias("save-seconds"), None,
        "Another name of --save-seconds."),
    valued(None, "redis-port",
        numbered("a port", 0, 65_535, |o, n| o.redis_port = n as u16), Some("0"),
        "Speak Redis' protocol at this port, at the addresses of -l; the items are the same. \
         0: not at all."),
    valued(None, "admin-port",
        numbered("a port", 0, 65_535, |o, n| o.admin_port = Some(n as u16)), None,
        "Answer HTTP here: a page for people, /metrics for Prometheus, /healthz and /readyz, and \
         what larder top reads. Nothing there changes anything. 0 takes a free port and prints it. \
         Without it there is none, and no latencies are sampled."),
    valued(None, "admin-listen",
        text("ADDRESS", set_admin_listen), Some("127.0.0.1"),
        "The address of --admin-port. It asks for no password: whoever can connect can read how \
         the cache is doing, the keys that are asked for most, and with measured costs the \
         beginnings of others."),
    valued(Some('Y'), "auth-file",
        text("FILE", |o, v| { o.auth_file = Some(v.into()); Ok(()) }), None,
        "Only who is named in this file may use the server: a line name:password for each, the \
         password as it is or as a hash, $argon2id$... or $pbkdf2-sha256$.... Those behind a line \
         [read-only] may read and change nothing. Clients say who they are in text and on \
         --redis-port, and with -S in the binary protocol. SIGHUP reads it again."),
    switch(Some('S'), "enable-sasl", |o| o.sasl = true,
        "Clients may speak the binary protocol and say by SASL's PLAIN which of the users of -Y \
         they are."),
    switch(Some('Z'), "enable-ssl", |o| o.tls.is_on = true,
        "Speak TLS, and nothing else, at every TCP address whose -l, or --admin-listen, does not \
         begin with notls:. A Unix socket stays as it is. Needs --ssl-chain-cert."),
    valued(None, "ssl-chain-cert",
        text("FILE", |o, v| { o.tls.chain_cert = Some(v.into()); Ok(()) }), None,
        "The server's certificate and those it follows from, as PEM. refresh_certs and SIGHUP \
         read it, the key and the authorities again, for connections that come from then on."),
    valued(None, "ssl-key", text("FILE", |o, v| { o.tls.key = Some(v.into()); Ok(()) }), None,
        "The certificate's private key, if that is not in the same file."),
    valued(None, "ssl-keyformat", text("PEM|DER", tls::set_key_format), Some("PEM"),
        "How the private key is written."),
    valued(None, "ssl-verify-mode",
        numbered("a mode", 0, 3, |o, n| o.tls.verify_mode = n as u8), Some("0"),
        "Whether clients have to show a certificate that follows from --ssl-ca-cert. 0: they are \
         not asked. 1: only a wrong one is refused. 2: they have to; 3 is the same, for there is \
         no second time to ask."),
    valued(None, "ssl-ca-cert",
        text("FILE", |o, v| { o.tls.ca_cert = Some(v.into()); Ok(()) }), None,
        "Certificates of those who sign clients' certificates, as PEM."),
    valued(None, "ssl-min-version", text("2|3", tls::set_min_version), Some("2"),
        "The oldest TLS that is spoken: 2 is TLS 1.2, and 3 is 1.3. There is nothing older here."),
    valued(None, "ssl-ciphers", text("NAME[:NAME...]", tls::set_ciphers), None,
        "The cipher suites of TLS 1.2, by OpenSSL's names. Those of TLS 1.3 are always all there. \
         Words for many of them, as HIGH, are not known. Without it all are there."),
    switch(None, "ssl-session-cache", |o| o.tls.resumption = true,
        "Let clients take up a session again, which spares both most of the next handshake. What \
         is needed for it the client keeps."),
    valued(None, "redis-tls", text("auto|on|off", tls::set_redis_tls), Some("auto"),
        "TLS at --redis-port, with -Z. auto: as for memcached's clients at the same address."),
    missing(Some('N'), "napi-ids", Some("COUNT"), "Workers by network queue."),
    valued(None, "config", text("FILE", |_, _| Ok(())), None,
        "Read options from this file too. Arguments go before the environment, and that before \
         the file. SIGHUP reads it again. Without it no file is read."),
    valued(None, "check", Kind::Act(Act::Check), None,
        "Read all options, say what is wrong with them, and serve nothing. Ends with 0, or 64 if \
         something is wrong."),
    valued(None, "print-config", Kind::Act(Act::PrintConfig), None,
        "Print a whole file for --config, with the values that hold, and serve nothing."),
    valued(None, "print-options-reference", Kind::Print(reference::page), None,
        "Print the reference of all options, as Markdown."),
    valued(Some('h'), "help", Kind::Print(help::help), None, "Print this."),
    valued(Some('V'), "version", Kind::Print(help::version), None, "Print the version."),
    valued(Some('i'), "license", Kind::Print(help::license), None, "Print the licence."),
];
