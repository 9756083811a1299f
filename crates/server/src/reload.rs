//! SIGHUP: the file of options is read again, and the options that can change while the server
//! serves are applied.
//!
//! The running value is remembered option by option. A change that needs a restart is therefore
//! logged at every SIGHUP until there was one, and one that is refused is tried again. A client's
//! change (`cache_memlimit`, `verbosity`) becomes the running value, and is reset to the options.
//! Arguments and variables are those of the start, and still go before the file. A file with an
//! error changes no option. Users and certificates have files of their own, and are read whatever
//! the file of options holds: a withdrawn right, or a certificate that runs out, does not wait for
//! it.

use std::sync::atomic::Ordering;

use stdx::sync::lock;

use crate::commands::limit_memory;
use crate::options::{COUNT_MAX, Command, Given, Options, Settings, UsageError, current};
use crate::server::Server;
use crate::start::allow_files;
use crate::tls::Tls;
use crate::users::Users;

/// An option that can change while the server serves: its name, and the function that applies it.
type Live = (&'static str, fn(&Server, &Options) -> Result<(), String>);

/// All of these.
const LIVE: &[Live] = &[
    ("verbose", |server, options| {
        server.verbosity.store(options.verbosity, Ordering::Relaxed);
        Ok(())
    }),
    ("memory-limit", |server, options| limit_memory(server, options.memory_megabytes as u64)),
    ("quota", |server, options| {
        server.cache.set_quotas(&options.quotas).map_err(|refused| refused.to_string())
    }),
    ("conn-limit", limit_connections),
    ("idle-timeout", |server, options| {
        server.live.idle_timeout_s.store(options.idle_timeout_s, Ordering::Relaxed);
        // Without a limit on silence, workers sleep until an event.
        server.wake_all();
        Ok(())
    }),
    ("watcher-logbuf-size", |server, options| {
        server.live.watcher_bytes_max.store(options.watcher_bytes_max, Ordering::Relaxed);
        Ok(())
    }),
    ("save-seconds", |server, options| {
        server.live.save_seconds.store(options.save_seconds, Ordering::Relaxed);
        Ok(())
    }),
    ("enable-shutdown", |server, options| {
        server.live.shutdown_allowed.store(options.shutdown_allowed, Ordering::Relaxed);
        Ok(())
    }),
    ("disable-flush-all", |server, options| {
        server.live.flush_allowed.store(options.flush_allowed, Ordering::Relaxed);
        Ok(())
    }),
    ("disable-dumping", |server, options| {
        server.live.dump_allowed.store(options.dump_allowed, Ordering::Relaxed);
        Ok(())
    }),
    ("disable-watch", |server, options| {
        server.live.watch_allowed.store(options.watch_allowed, Ordering::Relaxed);
        Ok(())
    }),
    ("disable-memlimit", |server, options| {
        server.live.memlimit_allowed.store(options.memlimit_allowed, Ordering::Relaxed);
        Ok(())
    }),
];

/// Whether an option can change while the server serves.
pub fn is_live(long: &str) -> bool {
    LIVE.iter().any(|(known, _)| *known == long)
}

/// Reads the users, the certificates and the file of options again. `running` holds the running
/// values, before and after.
pub fn reload(server: &Server, running: &mut Settings, given: &Given) {
    if let Some(users) = &server.users {
        server.log(0, &reload_users(users));
    }
    if let Some(tls) = &server.tls {
        server.log(0, &reload_certificates(tls, server.now()));
    }
    let Some(file) = running.file.clone() else {
        if server.users.is_none() && server.tls.is_none() {
            server.log(0, "SIGHUP: no file to read again; set one with --config");
        }
        return;
    };
    let newer = match given.read() {
        Ok(Command::Serve(newer)) => newer,
        // The arguments asked to serve at the start, and have not changed.
        Ok(Command::Print(_) | Command::Top(_)) => return,
        Err(UsageError(text)) => {
            text.lines().for_each(|line| server.log(0, line));
            return server.log(0, "SIGHUP: no option was changed, because of the errors above");
        }
    };
    let megabytes = *lock(&server.memory_megabytes);
    running.hold("memory-limit", vec![megabytes.to_string()]);
    let verbosity = server.verbosity.load(Ordering::Relaxed) as usize;
    running.hold("verbose", vec![String::new(); verbosity.min(COUNT_MAX)]);
    let changes = running.changes(&newer);
    if changes.is_empty() {
        server.log(0, &format!("SIGHUP: nothing has changed in {}", file.display()));
    }
    for declaration in changes {
        let long = declaration.long;
        let (before, after) = (current(declaration, running), current(declaration, &newer));
        let applied = LIVE.iter().find(|(known, _)| *known == long).map(|(_, apply)| {
            apply(server, &newer.options).map(|()| running.take_over(declaration, &newer))
        });
        let outcome = match applied {
            Some(Ok(())) => format!("is now {after}, was {before}"),
            Some(Err(error)) => format!("stays {before}, cannot be {after}: {error}"),
            None => format!("stays {before} until a restart, which sets {after}"),
        };
        server.log(0, &format!("SIGHUP: {long} {outcome}"));
    }
}

/// Reads the users of `--auth-file` again; returns the log's text about it.
fn reload_users(users: &Users) -> String {
    match users.reload() {
        Ok(1) => "SIGHUP: 1 user from now on".to_owned(),
        Ok(count) => format!("SIGHUP: {count} users from now on"),
        Err(error) => format!("SIGHUP: {error}; the users are unchanged"),
    }
}

/// Reads the certificates of TLS again; returns the log's text about it.
fn reload_certificates(tls: &Tls, now_s: u32) -> String {
    match tls.reload(now_s) {
        Ok(()) => "SIGHUP: certificates reloaded".to_owned(),
        Err(error) => format!("SIGHUP: {error}; the certificates are unchanged"),
    }
}

/// `conn-limit`. Open connections stay when there are more.
fn limit_connections(server: &Server, options: &Options) -> Result<(), String> {
    allow_files(options.connections_max, server.listening.len(), &server.options)?;
    server.live.connections_max.store(options.connections_max, Ordering::Relaxed);
    // The acceptor may have paused at the limit before.
    server.wake_acceptor();
    Ok(())
}
