//! The cache server, as [`main`] of the program `larder` runs it; nothing else is for others.
//!
//! ```text
//! main -> options            the command line, the environment, a file
//!      -> start              sockets, process, threads, signals
//!         -> reload          what a file of options says now, at SIGHUP
//!         -> memory_file     what is saved at the end, and read at the start
//!         -> tls                certificates, read at the start and again when asked
//!         -> acceptor        connections come in and are dealt out
//!         -> admin           a page, metrics and health over HTTP, on one thread
//!         -> worker          one loop per thread
//!            -> turn         one connection: read, plan, execute, write
//!               -> plan      bytes to a batch of requests, memory fetched ahead
//!               -> commands  requests to the cache, replies to the output
//!               -> output    replies to the socket, or
//!               -> parked    what it has not taken, and the limit for all of it
//!               -> sampling  what requests took, where the admin page asks for it
//!               -> insight   what happens to some keys, likewise
//!      -> top                `larder top`: the page's numbers in a terminal
//! ```
//!
//! The other rooms, by what they are for:
//!
//! ```text
//!   state        server                           what all threads share
//!                connection_id                    which connection of which worker
//!                connection                       what one client is in the middle of
//!   start        address, listen                  where clients come from; listening sockets
//!                machine                          how much memory the process may have
//!                flash_file, locked_file          the flash tier's file; a file for one server
//!                bounded_file                     files of operators, read up to a limit
//!                pidfile, notify                  the file of -P; what systemd is told
//!   end          exit, stdio                      the exit status; stdout and stderr
//!   while live   live_options                     options that SIGHUP or a client may change
//!                flash_watch                      whether the flash tier's device answers
//!   access       users, logins, throttle          passwords: read, checked aside, limited
//!                rights                           which request is a change, for each protocol
//!   input        ahead                            sockets that are ready are read together
//!                unfinished                       memory for values that have come in part
//!   numbers      counters, stats, namespaces      what workers count, and how it is shown
//!                worker_lists                     from each worker to the admin thread
//!                dump, watch                      listings of items; log lines
//!   tests        fuzzing                          the bodies of the fuzz targets
//! ```

#![forbid(unsafe_code)]

mod acceptor;
mod address;
mod admin;
mod ahead;
mod bounded_file;
mod commands;
mod connection;
mod connection_id;
mod counters;
mod dump;
mod exit;
mod flash_file;
mod flash_watch;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod insight;
mod listen;
mod live_options;
mod locked_file;
mod logins;
mod machine;
mod memory_file;
mod namespaces;
mod notify;
mod options;
mod output;
mod parked;
mod pidfile;
mod plan;
mod reload;
mod rights;
mod sampling;
mod server;
mod start;
mod stats;
mod stdio;
mod throttle;
mod tls;
mod top;
mod turn;
mod unfinished;
mod users;
mod watch;
mod worker;
mod worker_lists;

use std::ffi::OsString;
use std::process::ExitCode;

use exit::{EXIT_USAGE, Failed};
use options::{Command, Given, UsageError};

/// Runs the program: serves, shows the state of a server, or prints the requested text.
pub fn main() -> ExitCode {
    match given().and_then(|given| Ok((given.read()?, given))) {
        Ok((Command::Print(text), _)) => {
            exit_code("larder", stdio::out(&text).map_err(Failed::from))
        }
        Ok((Command::Serve(settings), given)) => {
            exit_code("larder", start::serve(*settings, &given))
        }
        Ok((Command::Top(options), _)) => {
            exit_code("larder top", top::run(&options).map_err(Failed::from))
        }
        Err(UsageError(text)) => {
            text.lines().for_each(|line| stdio::err(format_args!("larder: {line}")));
            let is_of_top = std::env::args_os().nth(1).is_some_and(|word| word == "top");
            stdio::err(match is_of_top {
                true => "larder top --help lists its options",
                false => "larder --help lists the options",
            });
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// The program's exit code, after reporting why it failed.
fn exit_code(name: &str, ended: Result<(), Failed>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed { text, status }) => {
            stdio::err(format_args!("{name}: {text}"));
            ExitCode::from(status)
        }
    }
}

/// The arguments and variables that the process was started with.
fn given() -> Result<Given, UsageError> {
    let text = |word: OsString| {
        word.into_string()
            .map_err(|word| UsageError(format!("{} is not UTF-8", word.to_string_lossy())))
    };
    let arguments = std::env::args_os().skip(1).map(text).collect::<Result<_, _>>()?;
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        // A name that is not UTF-8 is not one of Larder's.
        let Ok(name) = name.into_string() else { continue };
        if options::is_variable(&name) {
            variables.push((name, text(value)?));
        }
    }
    Ok(Given { arguments, variables })
}
