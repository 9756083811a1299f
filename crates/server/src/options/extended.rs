//! `-o name[=value],...`: memcached's extended options.
//!
//! What has a counterpart here is another way to write an option of our own. What tunes
//! memcached's slabs, LRU and hash table has none and is accepted with a warning, so that start
//! scripts keep working. What asks for something that does not exist (a proxy) is refused, because
//! silence would be a lie.

use super::Options;

/// Those that are options of our own, by the long names.
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

/// Of [`FOLLOWED`], what memcached takes several of, and Larder one.
pub const ALONE: &str = "ext_path";

/// Accepted without effect, with or without `no_` before it.
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

/// The option of our own that `entry` stands for, and the value it gives it; `None` for what has
/// none.
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

/// What else memcached's flash tier is told.
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

/// Takes over, or refuses, what is no option of our own.
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
