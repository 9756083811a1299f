//! How the program ends: with which status, and why.
//!
//! A supervisor decides by the status whether to restart it. Some failures go away by themselves,
//! such as a port that is taken while another server stops; wrong options do not, and neither does
//! a file that this version cannot read: the systemd unit names these two statuses, and does not
//! restart after them.

/// Something failed that may work another time.
const EXIT_FAILURE: u8 = 1;

/// The options cannot be followed; `EX_USAGE` of sysexits.h.
pub const EXIT_USAGE: u8 = 64;

/// A file or device that an option names holds what this version, with these options, cannot use,
/// or is none that could; `EX_DATAERR` of sysexits.h.
pub const EXIT_DATA: u8 = 65;

/// Why the program fails, and the status it ends with.
#[derive(Debug)]
pub struct Failed {
    /// For people, without the program's name.
    pub text: String,
    /// The status.
    pub status: u8,
}

impl Failed {
    /// A failure that lasts until somebody removes a file or names another one.
    pub fn of_data(text: String) -> Self {
        Self { text, status: EXIT_DATA }
    }
}

impl From<String> for Failed {
    fn from(text: String) -> Self {
        Self { text, status: EXIT_FAILURE }
    }
}

impl From<&str> for Failed {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}
