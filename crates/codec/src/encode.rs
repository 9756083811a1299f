//! The side that compresses: the contexts of one thread, reused for every block.

use zstd_safe::CCtx;

use crate::frame::{self, BARE_BYTES_MAX};
use crate::lz4::Lz4;
use crate::{Dictionary, Method, pays};

/// The fastest level of zstd that may be requested.
pub const LEVEL_MIN: i32 = -7;
/// The highest level of zstd that may be requested. From level 13 on, zstd may make several blocks
/// of an input that is one here.
pub const LEVEL_MAX: i32 = 12;
/// The level of an encoder in a hurry. With a dictionary it takes a quarter of the time of level 6,
/// for one byte in sixteen more (`examples/codec_speed.rs`); lower levels are hardly faster.
pub const LEVEL_HURRIED: i32 = 3;

/// Compresses blocks, one after the other.
pub struct Encoder {
    level: i32,
    is_hurried: bool,
    lz4: Lz4,
    zstd: CCtx<'static>,
}

impl Encoder {
    /// Makes an encoder that uses zstd at `level`, brought into its range, where there is no
    /// dictionary; a dictionary has its own.
    pub fn new(level: i32) -> Self {
        let level = level.clamp(LEVEL_MIN, LEVEL_MAX);
        Self { level, is_hurried: false, lz4: Lz4::new(), zstd: CCtx::create() }
    }

    /// Turns [`LEVEL_HURRIED`] on or off for zstd; with a dictionary only if that was made for it
    /// ([`Dictionary::with_hurried`]). It is never a higher level than the usual one.
    pub fn hurry(&mut self, is_hurried: bool) {
        self.is_hurried = is_hurried;
    }

    /// Replaces the content of `target` by the output for `input`. The method is `wanted` if that
    /// pays, and raw otherwise.
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
            Method::Lz4 => {
                self.lz4.encode(dictionary.map(Dictionary::lz4), input, target);
                true
            }
            Method::Zstd => self.zstd(dictionary, input, target),
        };
        if is_done && pays(input.len(), target.len()) {
            return wanted;
        }
        target.clear();
        target.extend_from_slice(input);
        Method::Raw
    }

    /// Bytes of heap that the context and the table take.
    pub fn memory_bytes(&self) -> usize {
        self.zstd.sizeof() + self.lz4.memory_bytes()
    }

    fn zstd(
        &mut self,
        dictionary: Option<&Dictionary>,
        input: &[u8],
        target: &mut Vec<u8>,
    ) -> bool {
        target.reserve(zstd_safe::compress_bound(input.len()));
        let level = if self.is_hurried { self.level.min(LEVEL_HURRIED) } else { self.level };
        let done = match dictionary.map(|it| it.zstd(self.is_hurried)) {
            Some(digest) => self.zstd.compress_using_cdict(target, input, digest),
            None => self.zstd.compress(target, input, level),
        };
        // The target is long enough, so a failure is want of memory, and raw output needs none.
        done.is_ok() && (input.len() > BARE_BYTES_MAX || frame::take_off(target))
    }
}
