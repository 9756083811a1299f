//! Errors of lines that are no request, and their answers.

/// An error that the parser finds. [`Refusal::line`] is the answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No such command.
    UnknownCommand,
    /// A token is missing, or a number or a key is bad.
    BadCommandLineFormat,
    /// An expiry is not a number.
    InvalidExptime,
    /// `incr`, `decr`: the delta is not an unsigned number.
    InvalidDelta,
    /// A meta flag that does not exist.
    InvalidFlag,
    /// A meta flag that stands there twice.
    DuplicateFlag,
    /// Too many meta flags.
    OptionsTooLong,
    /// `ma`: any bad flag.
    InvalidOrDuplicateFlag,
    /// `T`, `N`, `R`, `C` or `E` with a bad number.
    BadToken,
    /// `O` longer than 31 bytes.
    OpaqueTooLong,
    /// `b` with a key that is not base64.
    KeyDecode,
    /// `ms M` with an unknown mode.
    InvalidSetMode,
    /// `ma M` with an unknown mode.
    InvalidArithmeticMode,
    /// `J` with a bad number.
    InvalidInitialValue,
    /// `D` with a bad number.
    InvalidDeltaValue,
}

impl Refusal {
    /// The answer, with its line end.
    pub fn line(self) -> &'static str {
        match self {
            Refusal::UnknownCommand => "ERROR\r\n",
            Refusal::BadCommandLineFormat => "CLIENT_ERROR bad command line format\r\n",
            Refusal::InvalidExptime => "CLIENT_ERROR invalid exptime argument\r\n",
            Refusal::InvalidDelta => "CLIENT_ERROR invalid numeric delta argument\r\n",
            Refusal::InvalidFlag => "CLIENT_ERROR invalid flag\r\n",
            Refusal::DuplicateFlag => "CLIENT_ERROR duplicate flag\r\n",
            Refusal::OptionsTooLong => "CLIENT_ERROR options flags are too long\r\n",
            Refusal::InvalidOrDuplicateFlag => "CLIENT_ERROR invalid or duplicate flag\r\n",
            Refusal::BadToken => "CLIENT_ERROR bad token in command line format\r\n",
            Refusal::OpaqueTooLong => "CLIENT_ERROR opaque token too long\r\n",
            Refusal::KeyDecode => "CLIENT_ERROR error decoding key\r\n",
            Refusal::InvalidSetMode => "CLIENT_ERROR invalid mode for ms M token\r\n",
            Refusal::InvalidArithmeticMode => "CLIENT_ERROR invalid mode for ma M token\r\n",
            Refusal::InvalidInitialValue => "CLIENT_ERROR invalid numeric initial value\r\n",
            Refusal::InvalidDeltaValue => "CLIENT_ERROR invalid numeric delta value\r\n",
        }
    }
}
