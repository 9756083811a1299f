//! What the program writes to standard output and standard error.
//!
//! `println!` and `eprintln!` panic where the write fails, which would end a server because the
//! disk under its log is full, or because whoever read its output has gone. A line that cannot be
//! written is lost instead. Each is one write, so that lines of several threads do not mix.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Writes a line to standard error.
pub fn aside(line: impl Display) {
    let line = format!("{line}\n");
    // There is nobody else to tell.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Writes what was asked for to standard output. Who has stopped reading it has had enough.
pub fn out(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write the output: {error}"))
        }
        _ => Ok(()),
    }
}
