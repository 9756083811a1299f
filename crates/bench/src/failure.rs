//! Failures of a measurement, and the exit codes that distinguish them.
//!
//! | code | meaning |
//! | --- | --- |
//! | 1 | a check failed: a wrong value, a limit passed, a share that could not be read back |
//! | 2 | the command line is wrong |
//! | 3 | a server's binary is missing |
//! | 4 | the measurement itself failed: a socket, a file, a server that died |
//! | 5 | an input file is damaged, cut off, or not what it is taken for |

use std::fmt;
use std::io;

/// Why a measurement gave no figures.
#[derive(Debug)]
pub enum Failure {
    /// Contradictory options, which the parser of the command line cannot see.
    Usage(String),
    /// A server to measure is not installed or not built.
    Missing(String),
    /// The operating system refused a call.
    Io {
        /// The attempted action.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// A server's answer violates its protocol, or it refused, or was silent.
    Reply(String),
    /// A server closed a connection on which it owed an answer; the rest of the sentence.
    Closed(String),
    /// The measurement cannot begin or go on: a server that does not start or has ended, no port.
    Ended(String),
    /// A file to read from is damaged, cut off, or not what it is taken for.
    Input(String),
    /// The measurement worked, and its result breaks a promise.
    Check(String),
}

/// The result of everything that measures.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// Turns the system's error into a failure that names the attempted action.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Failure {
        let doing = doing.into();
        move |source| Failure::Io { doing, source }
    }

    /// A failure for invalid data or an invalid request.
    pub fn invalid(doing: impl Into<String>, what: impl Into<String>) -> Failure {
        Failure::io(doing)(io::Error::new(io::ErrorKind::InvalidData, what.into()))
    }

    /// Returns whether a connection broke: the server's process may be ending.
    pub fn is_of_connection(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset};
        match self {
            Failure::Closed(_) => true,
            Failure::Io { source, .. } => matches!(
                source.kind(),
                BrokenPipe
                    | ConnectionAborted
                    | ConnectionRefused
                    | ConnectionReset
                    | io::ErrorKind::UnexpectedEof
            ),
            _ => false,
        }
    }

    /// Returns the exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Check(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Missing(_) => 3,
            Failure::Io { .. } | Failure::Reply(_) | Failure::Closed(_) | Failure::Ended(_) => 4,
            Failure::Input(_) => 5,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(what) | Failure::Ended(what) => write!(out, "{what}"),
            Failure::Missing(what) => write!(out, "missing: {what}"),
            Failure::Io { doing, source } => write!(out, "{doing}: {source}"),
            Failure::Reply(what) => write!(out, "bad reply: {what}"),
            Failure::Closed(what) => write!(out, "the server closed the connection{what}"),
            Failure::Input(what) => write!(out, "bad input: {what}"),
            Failure::Check(what) => write!(out, "check failed: {what}"),
        }
    }
}

impl std::error::Error for Failure {}
