//! The side that decompresses: into a target of exactly the right length, or not at all.
//!
//! The input may be anything. It is decoded by libraries that check every length and offset, LZ4's
//! in safe code, and what they read and write stays within the slices that they are given.

use std::fmt;

use zstd_safe::DCtx;

use crate::frame::{self, BARE_BYTES_MAX};
use crate::{Dictionary, Method, lz4, pays};

/// The input is not an output of an encoder for a target of this length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the compressed bytes are damaged")
    }
}

impl std::error::Error for Damaged {}

/// Decompresses blocks, one after the other.
pub struct Decoder {
    zstd: DCtx<'static>,
    /// A block in its frame.
    frame: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Makes a decoder for outputs of any level.
    pub fn new() -> Self {
        Self { zstd: DCtx::create(), frame: Vec::new() }
    }

    /// Fills `target`, which has the length of the encoded input, from an output and its method and
    /// dictionary. If the input is damaged, the target may hold anything.
    pub fn decode(
        &mut self,
        method: Method,
        dictionary: Option<&Dictionary>,
        input: &[u8],
        target: &mut [u8],
    ) -> Result<(), Damaged> {
        if method == Method::Raw {
            return if input.len() == target.len() {
                target.copy_from_slice(input);
                Ok(())
            } else {
                Err(Damaged)
            };
        }
        // A block that did not pay would be raw.
        if !pays(target.len(), input.len()) {
            return Err(Damaged);
        }
        let bytes = match method {
            Method::Zstd => self.zstd(dictionary, input, target),
            _ => lz4::decode(dictionary.map(Dictionary::lz4_bytes), input, target),
        };
        if bytes == Some(target.len()) { Ok(()) } else { Err(Damaged) }
    }

    /// Bytes of heap that the context and the buffer take.
    pub fn memory_bytes(&self) -> usize {
        self.zstd.sizeof() + self.frame.capacity()
    }

    fn zstd(
        &mut self,
        dictionary: Option<&Dictionary>,
        input: &[u8],
        target: &mut [u8],
    ) -> Option<usize> {
        let frame = if target.len() > BARE_BYTES_MAX {
            input
        } else {
            frame::put_on(input, target.len(), &mut self.frame);
            &self.frame
        };
        let done = match dictionary {
            Some(dictionary) => {
                self.zstd.decompress_using_ddict(target, frame, &dictionary.decoding)
            }
            None => self.zstd.decompress(target, frame),
        };
        done.ok()
    }
}
