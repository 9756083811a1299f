//! A zstd frame without the frame: only one block's content is kept.
//!
//! ```text
//!   frame   magic  descriptor  window  dictionary id  content size  header  block
//!   bytes     4        1        0, 1    0, 1, 2, 4    0, 1, 2, 4, 8    3     ...
//!                                                                           ^ all that is kept
//! ```
//!
//! The rest follows from the lengths, which the owner of the block knows. It is 10 bytes (14 with a
//! dictionary), where a block of 2 KiB becomes 700. zstd's own format without magic number leaves 5
//! of them, and is available only through calls that tie a dictionary to a context for longer than
//! one call. The price is a copy on each side, within the CPU's cache.
//!
//! That holds where there is one block, of the compressed type: for inputs up to [`BARE_BYTES_MAX`]
//! at the levels that the encoder allows ([`LEVEL_MAX`](crate::LEVEL_MAX)). Longer inputs keep
//! their frame. The input's length, not the bytes, decides which of the two it is.

/// The longest input that zstd makes one block of.
pub const BARE_BYTES_MAX: usize = 128 << 10;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A frame of one segment, with a content size of 4 bytes, and no checksum or dictionary id.
const DESCRIPTOR: u8 = 0b1010_0000;
const BLOCK_HEADER_BYTES: usize = 3;
/// Bytes in front of the block in a frame that is made here.
const FRONT_BYTES: usize = MAGIC.len() + 1 + 4 + BLOCK_HEADER_BYTES;

const LAST: u32 = 1;
const COMPRESSED: u32 = 2;
/// The header of a frame's last block, if that is compressed, holds this and the block's length.
const HEADER_TAG: u32 = LAST | COMPRESSED << 1;
const HEADER_TAG_BITS: u32 = 3;

/// Takes the frame off; returns `false` if it holds anything but one compressed block.
pub fn take_off(frame: &mut Vec<u8>) -> bool {
    let Some(start) = block_start(frame) else {
        return false;
    };
    frame.drain(..start);
    true
}

fn block_start(frame: &[u8]) -> Option<usize> {
    let descriptor = *frame.get(MAGIC.len())?;
    let single_segment = usize::from(descriptor >> 5 & 1);
    let dictionary_id = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size = [single_segment, 2, 4, 8][usize::from(descriptor >> 6)];
    let header = MAGIC.len() + 1 + (1 - single_segment) + dictionary_id + content_size;
    let start = header + BLOCK_HEADER_BYTES;
    let &[low, middle, high] = frame.get(header..start)? else {
        return None;
    };
    let expected = (frame.len() - start) as u32;
    let found = u32::from_le_bytes([low, middle, high, 0]);
    (found == expected << HEADER_TAG_BITS | HEADER_TAG).then_some(start)
}

/// Puts a block into a frame again, which replaces the content of `frame`.
pub fn put_on(block: &[u8], content_bytes: usize, frame: &mut Vec<u8>) {
    debug_assert!(content_bytes <= BARE_BYTES_MAX && block.len() <= BARE_BYTES_MAX);
    let header = (block.len() as u32) << HEADER_TAG_BITS | HEADER_TAG;
    frame.clear();
    frame.reserve(FRONT_BYTES + block.len());
    frame.extend_from_slice(&MAGIC);
    frame.push(DESCRIPTOR);
    frame.extend_from_slice(&(content_bytes as u32).to_le_bytes());
    frame.extend_from_slice(&header.to_le_bytes()[..BLOCK_HEADER_BYTES]);
    frame.extend_from_slice(block);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_off_again() {
        let (block, mut frame) = ([7; 300], vec![1, 2, 3]);
        put_on(&block, 1000, &mut frame);
        assert_eq!(frame.len(), FRONT_BYTES + block.len());
        assert!(take_off(&mut frame));
        assert_eq!(frame, block);
    }

    #[test]
    fn a_frame_of_more_than_one_compressed_block_stays() {
        let mut frame = Vec::new();
        put_on(&[7; 300], 1000, &mut frame);
        for bytes in 0..frame.len() {
            assert!(!take_off(&mut frame[..bytes].to_vec()), "{bytes}");
        }
        // Another block follows, or it is not compressed, or there are more bytes.
        frame[9] ^= 1;
        assert!(!take_off(&mut frame.clone()));
        frame[9] ^= 1 | 4;
        assert!(!take_off(&mut frame.clone()));
        frame[9] ^= 4;
        frame.push(0);
        assert!(!take_off(&mut frame));
    }
}
