//! The order in which options are documented: grouped by subject, the common ones first.
//!
//! The help text, the reference page and the text of `--print-config` follow it. Every option is in
//! exactly one group; a test fails if a new one is in none.

/// Options about one subject.
pub struct Group {
    /// The subject, as a heading.
    pub title: &'static str,
    /// Long names of the options.
    pub longs: &'static [&'static str],
}

/// All groups.
pub const GROUPS: &[Group] = &[
    Group {
        title: "Configuration",
        longs: &["config", "check", "print-config", "print-options-reference"],
    },
    Group {
        title: "Memory and items",
        longs: &["memory-limit", "max-item-size", "disable-evictions", "disable-cas"],
    },
    Group {
        title: "Listening",
        longs: &[
            "port",
            "listen",
            "unix-socket",
            "unix-mask",
            "udp-port",
            "redis-port",
            "admin-port",
            "admin-listen",
            "protocol",
        ],
    },
    Group {
        title: "Connections and threads",
        longs: &[
            "threads",
            "conn-limit",
            "max-connections-per-address",
            "disable-maxconns-fast",
            "idle-timeout",
            "listen-backlog",
            "max-reqs-per-event",
            "napi-ids",
        ],
    },
    Group {
        title: "Access control",
        longs: &[
            "enable-sasl",
            "auth-file",
            "enable-shutdown",
            "disable-flush-all",
            "disable-dumping",
            "disable-watch",
            "disable-memlimit",
        ],
    },
    Group {
        title: "TLS",
        longs: &[
            "enable-ssl",
            "ssl-chain-cert",
            "ssl-key",
            "ssl-keyformat",
            "ssl-verify-mode",
            "ssl-ca-cert",
            "ssl-min-version",
            "ssl-ciphers",
            "ssl-session-cache",
            "redis-tls",
        ],
    },
    Group {
        title: "Eviction, compression and quotas",
        longs: &[
            "policy",
            "measure-costs",
            "text-cost",
            "cost-unit-us",
            "compressed",
            "hot-target",
            "quota",
        ],
    },
    Group {
        title: "Flash and restarts",
        longs: &[
            "flash",
            "flash-reads",
            "flash-write-limit",
            "memory-file",
            "save-seconds",
            "flash-save-seconds",
        ],
    },
    Group {
        title: "Process",
        longs: &["user", "daemon", "pidfile", "lock-memory", "enable-coredumps"],
    },
    Group {
        title: "Logging and statistics",
        longs: &["verbose", "watcher-logbuf-size", "stat-prefix-delimiter"],
    },
    Group {
        title: "Index and item layout",
        longs: &[
            "index",
            "layout",
            "repartition",
            "cache-geometry",
            "slab-growth-factor",
            "slab-min-size",
        ],
    },
    Group {
        title: "Accepted for compatibility with memcached",
        longs: &["extended", "enable-largepages"],
    },
    Group { title: "About the program", longs: &["help", "version", "license"] },
];

#[cfg(test)]
mod tests {
    use super::super::declare::DECLARATIONS;
    use super::*;

    #[test]
    fn every_option_stands_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.longs).copied().collect();
        let mut declared: Vec<&str> = DECLARATIONS.iter().map(|known| known.long).collect();
        grouped.sort_unstable();
        declared.sort_unstable();
        assert_eq!(grouped, declared);
    }
}
