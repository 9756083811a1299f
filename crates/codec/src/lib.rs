//! Compression and decompression of blocks of items, for the compressed zone and the flash tier.
//! Nothing here knows a cache, an arena, a clock or threads.
//!
//! ```text
//!   input --Encoder--> target, Method        Raw   a copy of the input
//!              |                             Lz4   an LZ4 block, without its length
//!          Dictionary                        Zstd  a zstd block, without the frame around it
//!              |
//!   input --Decoder--> target of the right length, or Damaged
//! ```
//!
//! Blocks are short, so the output holds nothing that its owner knows anyway: with each output the
//! owner keeps the [`Method`], the length of the input and which [`Dictionary`] was used. Neither
//! format has a checksum. Damage is found where it makes an output impossible, which is so for a
//! fifth to two fifths of all single bits; otherwise decoding gives other bytes of the right
//! length, and so does a wrong dictionary. An owner that reads from a medium that may fail keeps a
//! [`checksum`] of the output beside it.
//!
//! Where compression does not pay ([`pays`]) a block is stored raw; [`entropy`] guesses that before
//! trying.
//!
//! The modules: `encode` and `decode`, with `lz4` and `frame`, which takes zstd's frame off a
//! block; `dictionary`, trained from `samples`; [`mod@record`], an item as bytes; and [`image`],
//! the format of a memory file.

#![forbid(unsafe_code)]

mod decode;
mod dictionary;
mod encode;
pub mod entropy;
mod frame;
pub mod image;
mod lz4;
pub mod record;
mod samples;

pub use decode::{Damaged, Decoder};
pub use dictionary::{DICTIONARY_BYTES_MAX, Dictionary, SAMPLES_BYTES_MAX, SAMPLES_MIN};
pub use encode::{Encoder, LEVEL_HURRIED, LEVEL_MAX, LEVEL_MIN};
pub use samples::Samples;

/// How an output is to be decoded. The codes are written to flash: they never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Method {
    /// The input as it is.
    Raw = 0,
    /// An LZ4 block: encoded and decoded several times as fast as zstd, and larger.
    Lz4 = 1,
    /// A zstd block.
    Zstd = 2,
}

impl Method {
    /// The number that stands for this method wherever it is stored.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The method with this number.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Raw),
            1 => Some(Self::Lz4),
            2 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Compression has to save one byte of this many. A raw block is read without decoding, so a
/// smaller saving is not worth the time of its readers.
pub const SAVING_SHARE: usize = 16;

/// Whether an output is so much shorter than its input that it is worth decoding.
pub const fn pays(input_bytes: usize, output_bytes: usize) -> bool {
    output_bytes + input_bytes / SAVING_SHARE < input_bytes
}

/// CRC-32C of `bytes`, to be kept beside an output. The `crc32c` crate computes it with the
/// instructions of x86-64 and arm64, has no dependencies, and is still released; a CRC is preferred
/// to a hash because it finds every burst of up to 32 wrong bits.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_stable() {
        let codes = [Method::Raw, Method::Lz4, Method::Zstd].map(Method::code);
        assert_eq!(codes, [0, 1, 2]);
        for code in 0..=u8::MAX {
            assert!(Method::from_code(code).is_none_or(|method| method.code() == code));
        }
        assert!(Method::from_code(2).is_some() && Method::from_code(3).is_none());
    }

    #[test]
    fn saving_less_than_its_share_does_not_pay() {
        assert!(pays(1600, 1499) && !pays(1600, 1500));
        assert!(pays(2, 1) && !pays(1, 1) && !pays(0, 0));
    }

    /// The example of RFC 3720, section B.4: thirty-two zeros; and the usual nine digits.
    #[test]
    fn the_checksum_is_crc_32c() {
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
    }
}
