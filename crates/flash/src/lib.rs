//! The flash tier: compressed items in log-structured segments of a file or block device.

#![forbid(unsafe_code)]
// The bodies come next; this is the shape that callers write against.
#![allow(unused_variables, clippy::todo)]

mod flash;
mod links;
mod open;
mod place;
mod reader;
mod stats;

pub use codec::record::{Fields, KEY_BYTES_MAX, Record};
pub use {
    flash::{Flash, Refused, Settings},
    links::Links,
    open::OpenError,
    place::{ACCESSES_MAX, PLACE_BITS, Place},
    reader::{Look, Reader, Ticket},
    stats::FlashStats,
};
