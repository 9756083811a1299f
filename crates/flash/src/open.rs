//! Opening a device, and formatting one.

use std::fmt;
use std::io;
use std::sync::Arc;

use ::io::device::Device;

use crate::{Flash, Settings};

/// Why a device cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// It has no room for as many segments as the tier needs.
    TooSmall {
        /// How many bytes it would need.
        bytes_min: u64,
    },
    /// Another version of the tier has written it.
    OtherVersion(u32),
    /// It was formatted with other sizes than are asked for.
    OtherShape {
        /// Bytes of its segments.
        segment_bytes: u64,
        /// How many it has.
        segments: u64,
    },
    /// Its first page is neither blank nor what the tier writes.
    Damaged,
    /// It cannot be read or written.
    Io(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Flash {
    /// Opens a device, and formats it if its first page is blank. What was stored on it is found
    /// by [`Flash::recover`].
    pub fn open(device: Arc<dyn Device>, settings: &Settings) -> Result<Self, OpenError> {
        todo!()
    }

    /// Begins anew on a device, whatever is there.
    pub fn format(device: Arc<dyn Device>, settings: &Settings) -> Result<Self, OpenError> {
        todo!()
    }
}
