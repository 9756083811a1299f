//! `-o name[=value],...`: memcached's extended options.
//!
//! What concerns connections is followed. What tunes memcached's slabs, LRU and hash table has no
//! counterpart and is accepted with a warning, so that start scripts keep working. What asks for
//! something that does not exist (TLS) is refused, because silence would be a lie.

use super::Options;
use super::declare::{number, set_flash};

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
];

/// The longest idle timeout: a year.
const IDLE_TIMEOUT_S_MAX: u64 = 365 * 24 * 3600;

/// The largest log buffer of a watcher, in kilobytes.
const WATCHER_KILOBYTES_MAX: u64 = 64 << 10;

/// Applies a comma-separated list.
pub fn apply(options: &mut Options, list: &str) -> Result<(), String> {
    for entry in list.split(',').filter(|entry| !entry.is_empty()) {
        let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
        apply_one(options, name, value)?;
    }
    Ok(())
}

/// Applies one name and value.
fn apply_one(options: &mut Options, name: &str, value: &str) -> Result<(), String> {
    match name {
        "maxconns_fast" => options.connections_fast = true,
        "no_maxconns_fast" => options.connections_fast = false,
        "idle_timeout" => {
            options.idle_timeout_s = within(name, value, 0, IDLE_TIMEOUT_S_MAX)?;
        }
        "watcher_logbuf_size" => {
            let kilobytes = within(name, value, 1, WATCHER_KILOBYTES_MAX)?;
            options.watcher_bytes_max = usize::try_from(kilobytes << 10).unwrap_or(usize::MAX);
        }
        "ext_path" => set_flash(options, value)?,
        _ if name.starts_with("ext_") => {
            options.warnings.push(format!("-o {name} has no effect: flash tunes itself"));
        }
        _ if name.starts_with("ssl_") || name.starts_with("proxy_") => {
            return Err(format!("{name} is not there yet"));
        }
        _ if WITHOUT_EFFECT.contains(&name.strip_prefix("no_").unwrap_or(name)) => {
            options.warnings.push(format!("-o {name} has no effect"));
        }
        _ => return Err(format!("there is no extended option {name}")),
    }
    Ok(())
}

/// A number within a range.
fn within(name: &str, value: &str, min: u64, max: u64) -> Result<u64, String> {
    number(value)
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| format!("{name} takes a number from {min} to {max}, not {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_at_their_edges() {
        let mut options = Options::default();
        assert_eq!(apply(&mut options, "idle_timeout=0,watcher_logbuf_size=1"), Ok(()));
        assert_eq!(options.watcher_bytes_max, 1024);
        assert_eq!(apply(&mut options, "idle_timeout=31536000"), Ok(()));
        for bad in ["idle_timeout=31536001", "idle_timeout", "watcher_logbuf_size=0", "ext_path=a"]
        {
            assert!(apply(&mut options, bad).is_err(), "{bad}");
        }
    }
}
