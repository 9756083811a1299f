//! The protocol of a connection.

/// A protocol. Every request of a connection is in the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// memcached's text protocol, meta commands included.
    Text,
    /// memcached's binary protocol.
    Binary,
    /// Redis' protocol, in either version, which has a port of its own.
    Redis,
}

/// The first byte of a request in the binary protocol. No command of text begins with it.
pub(crate) const BINARY_MAGIC: u8 = 0x80;

impl Wire {
    /// The protocol of a client whose first byte this is, at a port for memcached's clients.
    pub fn of_first_byte(byte: u8) -> Wire {
        if byte == BINARY_MAGIC { Wire::Binary } else { Wire::Text }
    }

    /// Bytes behind a value.
    pub fn tail_bytes(self) -> usize {
        match self {
            Wire::Text | Wire::Redis => 2,
            Wire::Binary => 0,
        }
    }
}
