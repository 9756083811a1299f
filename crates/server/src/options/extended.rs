//! `-o name[=value],...`: memcached's extended options.
//!
//! An extended option with a counterpart here is another spelling of that option. Those that tune
//! memcached's slabs, LRU and hash table have none and are accepted with a warning, so that start
//! scripts keep working. Those that ask for a missing feature (a proxy) are refused, because
//! ignoring them would mislead.

use super::Options;

/// Extended options with a counterpart, and its long name.
pub const FOLLOWED: &[(&str, &str)] = &[
    ("idle_timeout", "idle-timeout"),
    ("watcher_logbuf_size", "watcher-logbuf-size"),
    ("maxconns_fast", "disable-maxconns-fast"),
    ("no_maxconns_fast", "disable-maxconns-fast"),
    ("ext_path", "flash"),
    ("ssl_chain_cert", "ssl-chain-cert"),
    ("ssl_key", "ssl-key"),
    ("ssl_keyformat", "ssl-keyformat"),
    ("ssl_verify_mode", "ssl-verify-mode"),
    ("ssl_ca_cert", "ssl-ca-cert"),
    ("ssl_min_version", "ssl-min-version"),
    ("ssl_ciphers", "ssl-ciphers"),
    ("ssl_session_cache", "ssl-session-cache"),
];

/// The one of [`FOLLOWED`] that memcached takes several times, and Larder once.
pub const ALONE: &str = "ext_path";

/// Options accepted without effect, with or without a leading `no_`.
const WITHOUT_EFFECT: &[&str] = &[
    "hashpower",
    "hashexpand",
    "slab_reassign",
    "slab_automove",
    "slab_automove_ratio",
    "slab_automove_window",
    "slab_automove_freeratio",
    "tail_repair_time",
    "hash_algorithm",
    "lru_crawler",
    "lru_crawler_sleep",
    "lru_crawler_tocrawl",
    "lru_maintainer",
    "hot_lru_pct",
    "warm_lru_pct",
    "hot_max_factor",
    "warm_max_factor",
    "temporary_ttl",
    "worker_logbuf_size",
    "slab_sizes",
    "slab_chunk_max",
    "track_sizes",
    "inline_ascii_resp",
    "modern",
    "chunked_items",
    "drop_privileges",
    "relaxed_privileges",
    "resp_obj_mem_limit",
    "read_buf_mem_limit",
    "sock_cookie_id",
    "ssl_wbuf_size",
    "ssl_kernel_tls",
];

/// Returns the counterpart of `entry` and the value that it sets; `None` if it has no counterpart.
pub fn followed(entry: &str) -> Option<(&'static str, &str)> {
    let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
    let (_, long) = FOLLOWED.iter().find(|(known, _)| *known == name)?;
    let value = match name {
        "maxconns_fast" => "false",
        "no_maxconns_fast" => "true",
        _ => value,
    };
    Some((long, value))
}

/// The other options of memcached's flash tier.
const EXTSTORE: &[&str] = &[
    "ext_page_size",
    "ext_wbuf_size",
    "ext_threads",
    "ext_io_depth",
    "ext_item_size",
    "ext_item_age",
    "ext_low_ttl",
    "ext_recache_rate",
    "ext_compact_under",
    "ext_drop_under",
    "ext_max_sleep",
    "ext_max_frag",
    "ext_drop_unread",
];

/// Applies, or refuses, an extended option without a counterpart.
pub fn apply(options: &mut Options, entry: &str) -> Result<(), String> {
    let (name, _) = entry.split_once('=').unwrap_or((entry, ""));
    match name {
        _ if EXTSTORE.contains(&name) => {
            options.warnings.push(format!("-o {name} has no effect: flash tunes itself"));
        }
        _ if name.starts_with("proxy_") => {
            return Err(format!("{name} is not implemented yet"));
        }
        _ if WITHOUT_EFFECT.contains(&name.strip_prefix("no_").unwrap_or(name)) => {
            options.warnings.push(format!("-o {name} has no effect"));
        }
        _ => return Err(format!("there is no extended option {name}")),
    }
    Ok(())
}
