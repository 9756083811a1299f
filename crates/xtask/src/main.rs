//! The project's chores behind one command. `cargo xtask test` runs everything that a change has to
//! pass; each of its steps can be run alone.
//!
//! This crate builds before everything else and therefore depends on nothing: it has its own few
//! lines of argument parsing, JSON and random numbers.
//!
//! ```text
//!   steps          the order of the chores
//!   -> tally       runs and counts them
//!      tidy        the rules of style, over the sources
//!      install     the tools that the chores need
//!      sources     other people's tests
//!      own_tests   the workspace's own tests
//!      conformance a server against memcached and against the clients people use
//!      admin       the server's admin port
//!      deploy      the files for operators
//!   command        starts other programs; beside: several at a time
//!   random         numbers that a printed seed brings back
//! ```
#![forbid(unsafe_code)]

mod admin;
mod beside;
mod command;
mod conformance;
mod deploy;
mod install;
mod own_tests;
mod random;
mod sources;
mod steps;
mod tally;
mod tidy;

use std::process::ExitCode;

use tally::Ran;

const USAGE: &str = "\
cargo xtask CHORE

  test                 everything below, from quick to slow, stopping at the first failure
      --only STEPS       some of its steps, as its table names them, separated by commas
  tidy                 the rules of style that a program can check
  tests                the workspace's own tests, several programs at a time, but for those that
                       run larder-bench from end to end
  loom                 the models of the lock-free parts, under loom
  miri                 the unit tests of the unsafe rooms, under miri where it is installed
  dependencies         what deny.toml says of the crates in use, where cargo-deny is installed
  conformance          the server against memcached and against real clients
      --only NAME        one part of it, or several, separated by commas
      --server PATH      the server under test (target/release/larder)
      --server-args ARGS what else to start it with, separated by spaces
      --reference PATH   the memcached to compare with (/usr/bin/memcached)
      --seed N           the seed of the random sequences (printed by every run)
      --sequences N      how many random sequences (15000)
      --table write      write the table of clients into docs/compatibility.md
      --record FILE      write the differences as deviations to FILE, to be read and edited
  deploy               the unit of systemd, the static program and its container
  admin                the admin port as Prometheus and a browser see it
      --server PATH      the server under test (target/release/larder)
  install              the packages and libraries that conformance needs
";

/// An error message for the person who reads the terminal.
#[derive(Debug)]
pub struct Failure(pub String);

/// The outcome of a chore.
pub type Result<T = ()> = std::result::Result<T, Failure>;

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

/// A failure with this message.
pub fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(Failure(message.into()))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (chore, rest) = match arguments.split_first() {
        Some((chore, rest)) => (chore.as_str(), rest),
        None => ("help", &[][..]),
    };
    let outcome = run(chore, rest);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask {chore}: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Reports a chore that could not run; the count is dropped.
fn tell(ran: Ran) {
    drop(ran.count());
}

fn run(chore: &str, arguments: &[String]) -> Result {
    std::env::set_current_dir(command::root())?;
    match chore {
        "test" => steps::test(arguments),
        "tidy" => steps::tidy(),
        "tests" => own_tests::run().map(drop),
        "dependencies" => steps::dependencies().map(tell),
        "loom" => steps::loom().map(tell),
        "miri" => steps::miri().map(tell),
        "deploy" => deploy::check().map(drop),
        "admin" => match arguments {
            [] => admin::all(None).map(drop),
            [name, path] if name == "--server" => admin::all(Some(path)).map(drop),
            _ => fail(format!("admin takes --server PATH\n\n{USAGE}")),
        },
        "install" => install::all(),
        "conformance" => conformance::main(arguments),
        // Internal: a separate process that holds connections open for `conformance`.
        "hold-connections" => conformance::crowd::hold(arguments),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => fail(format!("no chore is called {other:?}\n\n{USAGE}")),
    }
}
