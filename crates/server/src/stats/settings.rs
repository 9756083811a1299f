//! `stats settings`.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use ::io::device::ReadMethod;
use ::io::tls::SEALED_BYTES_MAX;

use larder::FrameCounts;
use protocol::Wire;

use super::Stats;
use crate::live_options::{Live, is_allowed};
use crate::options::{TlsOptions, index_name, layout_name, policy_name};
use crate::server::Server;
use crate::watch::DETAIL;

/// How items are found and placed, whether they move to their columns, and for which processor
/// cache.
fn placement(server: &Server, cache: &larder::Stats, stats: &mut Stats<'_>) {
    stats.line("index", index_name(server.options.index));
    stats.line("hot_layout", layout_name(server.options.layout));
    let found = cache.repartition;
    stats.line("repartition", if found.is_some() { "on" } else { "off" });
    if let Some(found) = found {
        stats.line("cache_geometry", found.geometry);
        stats.line("cache_geometry_from", found.source.name());
        let frames = found.frames;
        stats.line("repartition_frames", if frames.are_told { "told" } else { "refused" });
        stats.line("repartition_pages", column_pages(cache.huge_pages, frames));
        if let Some(share) = frames.right_share() {
            stats.line("repartition_right_share", format!("{share:.3}"));
        }
    }
}

/// The kind of pages of columns. An address in a small page does not tell which sets of the cache
/// it meets: the page's frame does.
pub fn column_pages(huge: bool, frames: FrameCounts) -> &'static str {
    match (huge, frames.are_told) {
        (true, true) if frames.coloured_slabs > frames.in_order_slabs => "coloured",
        (true, _) => "huge",
        (false, true) => "coloured",
        (false, false) => "small",
    }
}

fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

/// Which parts of the cache there are.
fn parts(cache: &larder::Stats, stats: &mut Stats<'_>) {
    stats.line("compressed", yes_no(cache.compressed.is_some()));
    let flash_reads = cache.flash.and_then(|flash| flash.reads_by);
    stats.line("flash_reads_by", flash_reads.map_or("none", ReadMethod::name));
    stats.line("measure_costs", yes_no(cache.costs.is_some()));
}

/// Which commands are allowed, of those that an option can refuse.
fn allowed(live: &Live, stats: &mut Stats<'_>) {
    stats.line("flush_enabled", yes_no(is_allowed(&live.flush_allowed)));
    stats.line("dump_enabled", yes_no(is_allowed(&live.dump_allowed)));
    stats.line("watch_enabled", yes_no(is_allowed(&live.watch_allowed)));
    stats.line("memlimit_enabled", yes_no(is_allowed(&live.memlimit_allowed)));
}

/// Writes the options of the start and their changes since; booleans are yes and no, and no value
/// is empty.
pub fn write(server: &Server, stats: &mut Stats<'_>) {
    let (options, live) = (&server.options, &server.live);
    // Once: it walks the tables of the index.
    let cache = server.cache.stats();
    stats.line("maxbytes", server.memory_bytes());
    stats.line("maxconns", live.connections_max());
    stats.line("tcpport", server.tcp_port().unwrap_or(0));
    stats.line("udpport", 0);
    let interfaces = options.listen.join(",");
    stats.line("inter", if interfaces.is_empty() { "127.0.0.1" } else { &interfaces });
    stats.line("verbosity", server.verbosity.load(Ordering::Relaxed));
    stats.line("oldest", 0);
    stats.line("evictions", if options.evict { "on" } else { "off" });
    stats.line("policy", policy_name(options.policy));
    placement(server, &cache, stats);
    stats.line("cost_unit_us", options.cost_unit_us);
    stats.line("text_cost", yes_no(options.text_cost));
    parts(&cache, stats);
    match &options.unix_path {
        Some(path) => stats.line("domain_socket", path.display()),
        None => stats.line("domain_socket", "NULL"),
    }
    stats.line("umask", format_args!("{:o}", options.unix_mode));
    stats.line("shutdown_command", yes_no(is_allowed(&live.shutdown_allowed)));
    match options.growth_factor {
        Some(factor) => stats.line("growth_factor", format_args!("{factor:.2}")),
        None => stats.line("growth_factor", "auto"),
    }
    stats.line("chunk_size", options.item_bytes_min.unwrap_or(0));
    stats.line("num_threads", options.threads);
    stats.line("num_threads_per_udp", 0);
    stats.line("stat_key_prefix", char::from(server.namespaces.delimiter()));
    stats.line("detail_enabled", yes_no(server.watchers.want(DETAIL)));
    stats.line("reqs_per_event", options.requests_per_event);
    stats.line("cas_enabled", yes_no(options.cas));
    stats.line("tcp_backlog", options.backlog);
    stats.line("binding_protocol", protocol(server));
    stats.line("auth_enabled_sasl", yes_no(options.sasl));
    let users = options.auth_file.as_deref().unwrap_or(Path::new("no"));
    stats.line("auth_enabled_ascii", users.display());
    stats.line("item_size_max", options.item_bytes_max);
    stats.line("maxconns_fast", yes_no(options.connections_fast));
    stats.line("hashpower_init", 0);
    stats.line("slab_reassign", "yes");
    stats.line("slab_automove", 1);
    stats.line("lru_crawler", "yes");
    stats.line("lru_crawler_sleep", 0);
    stats.line("lru_crawler_tocrawl", 0);
    stats.line("tail_repair_time", 0);
    allowed(live, stats);
    stats.line("hash_algorithm", "foldhash");
    stats.line("lru_maintainer_thread", "yes");
    stats.line("lru_segmented", "no");
    stats.line("temp_lru", "no");
    stats.line("idle_timeout", live.idle_timeout_s());
    stats.line("watcher_logbuf_size", live.watcher_bytes_max.load(Ordering::Relaxed));
    stats.line("worker_logbuf_size", 0);
    stats.line("read_buf_mem_limit", 0);
    stats.line("track_sizes", "no");
    stats.line("inline_ascii_response", "no");
    stats.line("drop_privileges", "no");
    tls(&options.tls, stats);
    stats.line("proxy_enabled", "no");
    places(server, stats);
    stats.line("num_napi_ids", 0);
    stats.line("client_flags_size", 4);
}

/// Other places that it listens at, and the files that it reads and writes.
fn places(server: &Server, stats: &mut Stats<'_>) {
    let options = &server.options;
    stats.line("redis_port", options.redis_port);
    match options.admin_port {
        Some(port) => stats.line("admin_port", port),
        None => stats.line("admin_port", "NULL"),
    }
    match &options.flash {
        Some((path, bytes)) => stats.line("flash", format_args!("{}:{bytes}", path.display())),
        None => stats.line("flash", "NULL"),
    }
    for (name, path) in [("config", &server.config), ("memory_file", &options.memory_file)] {
        stats.line(name, path.as_deref().unwrap_or(Path::new("NULL")).display());
    }
}

/// TLS, in memcached's words and numbers.
fn tls(options: &TlsOptions, stats: &mut Stats<'_>) {
    stats.line("ssl_enabled", yes_no(options.is_on));
    if !options.is_on {
        return;
    }
    let file =
        |path: &Option<PathBuf>| path.as_deref().unwrap_or(Path::new("NULL")).display().to_string();
    stats.line("ssl_chain_cert", file(&options.chain_cert));
    stats.line("ssl_key", file(&options.key));
    stats.line("ssl_verify_mode", options.verify_bits());
    stats.line("ssl_keyformat", if options.key_is_der { 2 } else { 1 });
    let ciphers = options.ciphers.join(":");
    stats.line("ssl_ciphers", if ciphers.is_empty() { "NULL" } else { &ciphers });
    stats.line("ssl_ca_cert", file(&options.ca_cert));
    stats.line("ssl_wbuf_size", SEALED_BYTES_MAX);
    stats.line("ssl_session_cache", yes_no(options.resumption));
    stats.line("ssl_kernel_tls", "no");
    stats.line("ssl_min_version", if options.is_13_only { "tlsv1.3" } else { "tlsv1.2" });
}

/// The protocols that clients may speak.
fn protocol(server: &Server) -> &'static str {
    match server.options.protocol {
        Some(Wire::Text) => "ascii",
        Some(Wire::Binary) => "binary",
        // Redis' protocol has its own port, and is no choice here.
        None | Some(Wire::Redis) => "auto-negotiate",
    }
}
