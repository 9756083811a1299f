//! The cache server.
//!
//! ```text
//! main -> options            the command line
//!      -> start              sockets, process, threads, signals
//!         -> memory_file     what is saved at the end, and read at the start
//!         -> acceptor        connections come in and are dealt out
//!         -> admin           a page, metrics and health over HTTP, on one thread
//!         -> worker          one loop per thread
//!            -> turn         one connection: read, plan, execute, write
//!               -> plan      bytes to a batch of requests, memory fetched ahead
//!               -> commands  requests to the cache, replies to the output
//!               -> output    replies to the socket, or parked
//!               -> sampling  what requests took, where the admin page asks for it
//!      -> top                `larder top`: the page's numbers in a terminal
//! ```
//!
//! What the threads share is in `server`; what one client is in the middle of, in `connection`.

#![forbid(unsafe_code)]

mod acceptor;
mod admin;
mod ahead;
mod commands;
mod connection;
mod counters;
mod dump;
mod listen;
mod memory_file;
mod options;
mod output;
mod plan;
mod sampling;
mod server;
mod start;
mod stats;
mod top;
mod turn;
mod watch;
mod worker;

use std::process::ExitCode;

use options::{Command, UsageError};

/// How a command line that cannot be followed ends; `EX_USAGE` of sysexits.h.
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    match options::parse(std::env::args().skip(1)) {
        Ok(Command::Print(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Command::Serve(options)) => match start::serve(*options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(text) => {
                eprintln!("larder: {text}");
                ExitCode::FAILURE
            }
        },
        Ok(Command::Top(options)) => match top::run(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(text) => {
                eprintln!("larder top: {text}");
                ExitCode::FAILURE
            }
        },
        Err(UsageError(text)) => {
            eprintln!("larder: {text}\nlarder --help lists the options");
            ExitCode::from(EXIT_USAGE)
        }
    }
}
