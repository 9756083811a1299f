//! The side that compresses: the context of one thread, used again for every block.

use zstd_safe::CCtx;

use crate::frame::{self, BARE_BYTES_MAX};
use crate::{Dictionary, Method, pays};

/// The fastest level of zstd that may be asked for.
pub const LEVEL_MIN: i32 = -7;
/// The highest level of zstd that may be asked for. From level 13 on, encoding a block takes
/// hundreds of microseconds, and zstd may split it, which [`frame`] does not provide for.
pub const LEVEL_MAX: i32 = 12;

/// Compresses blocks, one after the other.
pub struct Encoder {
    level: i32,
    zstd: CCtx<'static>,
}

impl Encoder {
    /// An encoder that uses zstd at `level`, brought into its range, where there is no dictionary;
    /// a dictionary has its own.
    pub fn new(level: i32) -> Self {
        Self { level: level.clamp(LEVEL_MIN, LEVEL_MAX), zstd: CCtx::create() }
    }

    /// Replaces what is in `target` by the output for `input`. The method is `wanted` if that pays,
    /// and raw otherwise.
    pub fn encode(
        &mut self,
        wanted: Method,
        dictionary: Option<&Dictionary>,
        input: &[u8],
        target: &mut Vec<u8>,
    ) -> Method {
        target.clear();
        let is_done = match wanted {
            Method::Raw => false,
            Method::Lz4 => lz4(dictionary, input, target),
            Method::Zstd => self.zstd(dictionary, input, target),
        };
        if is_done && pays(input.len(), target.len()) {
            return wanted;
        }
        target.clear();
        target.extend_from_slice(input);
        Method::Raw
    }

    /// Bytes that the context has grown to, outside of this struct.
    pub fn memory_bytes(&self) -> usize {
        self.zstd.sizeof()
    }

    fn zstd(
        &mut self,
        dictionary: Option<&Dictionary>,
        input: &[u8],
        target: &mut Vec<u8>,
    ) -> bool {
        target.reserve(zstd_safe::compress_bound(input.len()));
        let done = match dictionary {
            Some(dictionary) => self.zstd.compress_using_cdict(target, input, &dictionary.encoding),
            None => self.zstd.compress(target, input, self.level),
        };
        // The target is long enough, so what fails has found no memory, and can go on without.
        done.is_ok() && (input.len() > BARE_BYTES_MAX || frame::take_off(target))
    }
}

fn lz4(dictionary: Option<&Dictionary>, input: &[u8], target: &mut Vec<u8>) -> bool {
    target.resize(lz4_flex::block::get_maximum_output_size(input.len()), 0);
    let done = match dictionary {
        Some(dictionary) => {
            lz4_flex::block::compress_into_with_dict(input, target, dictionary.lz4())
        }
        None => lz4_flex::block::compress_into(input, target),
    };
    let bytes = done.expect("the target has the length that the library asks for");
    target.truncate(bytes);
    true
}
