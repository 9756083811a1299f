//! The program `larder`: all of it is in the library beside it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    larder_server::main()
}
