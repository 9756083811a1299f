//! Items are read back from chunks of every kind as they were written, and stay in their chunk.

use memory::{Arena, ClassId, SlabId};

use super::*;
use crate::chunk::{ChunkFormat, ChunkLayout, HEAD_BYTES};
use crate::layout::KEY_BYTES_MAX;
use crate::slab::{self, Slab};

const CHUNK_BYTES_MAX: usize = 128 << 10;
/// The byte where nothing was written: no item here has it.
const UNTOUCHED: u8 = 0xfe;

/// A slab whose chunks have one size.
struct Chunks {
    arena: Arena,
    slab: Slab,
    count: usize,
}

impl Chunks {
    fn new() -> Self {
        Self { arena: Arena::new(0, 2 << 20, 1).unwrap(), slab: Slab::new(), count: 0 }
    }

    /// Cuts the slab anew, into a few chunks.
    fn format(&mut self, format: ChunkFormat) {
        self.count = (self.arena.slab_bytes() / format.bytes).min(3);
        self.slab.adopt(ClassId(0), format, self.count, 0);
        let start = self.arena.slab_start(SlabId(0));
        // SAFETY: the arena is this test's alone, and this many chunks fit its slab.
        unsafe { start.write_bytes(UNTOUCHED, self.count * format.bytes) };
    }

    fn place(&self, number: usize) -> Place {
        self.slab.place(&self.arena, SlabId(0), number as u32)
    }

    fn chunk(&self, number: usize) -> Chunk {
        self.slab.chunk(&self.arena, self.place(number))
    }

    /// The number of bytes that were written in all chunks.
    fn written(&self) -> usize {
        let start = self.arena.slab_start(SlabId(0)).as_ptr();
        let bytes = self.count * self.slab.format().bytes;
        // SAFETY: as above; no reference to written bytes is used after this.
        let all = unsafe { slice::from_raw_parts(start, bytes) };
        all.iter().filter(|&&byte| byte != UNTOUCHED).count()
    }
}

fn fields_of(bits: u32) -> Fields {
    Fields {
        flags: if bits & 1 != 0 { 0xdead_beef } else { 0 },
        expiry: if bits & 2 != 0 { 1_900_000_000 } else { 0 },
        expiry_reserved: bits & 2 != 0,
        custom_cas: (bits & 4 != 0).then_some(u64::MAX - 5),
        base64_key: bits & 8 != 0,
        early_ms: if bits & 32 != 0 { 999 } else { 0 },
        cost: Cost(if bits & 16 != 0 { 0xabcd } else { 0 }),
        cost_reserved: bits & 16 != 0,
    }
}

/// Writes an item and reads it back.
fn check(chunks: &Chunks, number: usize, layout: Layout, bits: u32, key: &[u8]) {
    let fields = fields_of(bits);
    let (arena, place) = (&chunks.arena, chunks.place(number));
    // SAFETY: the chunk is the test's alone and holds what the layout needs.
    let item = unsafe {
        slab::mark(arena, place).store(0, Ordering::Relaxed);
        write_header(chunks.chunk(number), layout, &fields, 9, key);
        value_mut(chunks.chunk(number), layout, 0).fill(7);
        ItemRef::new(arena, place)
    };
    assert_eq!(item.layout(), layout);
    assert_eq!((item.key(), item.flags()), (key, fields.flags));
    assert!(item.has_key(key) && !item.has_key(&key[1..]));
    assert_eq!((item.expiry(), item.sequence()), (fields.expiry, 0));
    assert_eq!(item.custom_cas(), fields.custom_cas);
    assert_eq!(item.base64_key(), fields.base64_key);
    assert_eq!(item.early_ms(), fields.early_ms);
    assert_eq!(item.cost(), fields.cost);
    let credit = item.credit().map(|credit| credit.load(Ordering::Relaxed));
    assert_eq!(credit, (bits & 16 != 0).then_some(9));
    assert_eq!(item.contiguous(), Some(&vec![7; layout.value_bytes()][..]));
    assert!(!item.is_piece());
}

#[test]
fn every_field_is_read_back_as_it_was_written() {
    let chunks = Chunks::new();
    for layout in [ChunkLayout::Inline, ChunkLayout::Split] {
        let format = ChunkFormat::new(CHUNK_BYTES_MAX, layout);
        // One combination of fields in seven, where each takes long.
        for bits in (0..64_u32).step_by(if cfg!(miri) { 7 } else { 1 }) {
            for value_bytes in [0, 1, 1023, 1024, 70_000] {
                chunks.slab.adopt(ClassId(0), format, 1, 0);
                let key = vec![b'k'; 1 + (value_bytes + bits as usize) % KEY_BYTES_MAX];
                let layout = Layout::new(&fields_of(bits), key.len(), value_bytes, format);
                check(&chunks, 0, layout, bits, &key);
            }
        }
    }
}

/// All lengths, and under Miri those about the length that fits a head, the shortest and the
/// longest.
fn key_lengths() -> Vec<usize> {
    if cfg!(miri) { vec![1, 47, 53, KEY_BYTES_MAX] } else { (1..=KEY_BYTES_MAX).collect() }
}

/// Keys of every length, with fields that bring it to the end of the head and beyond, in a chunk
/// that is exactly large enough, between two others: nothing else is written.
#[test]
fn an_item_takes_exactly_the_bytes_of_its_need() {
    let mut chunks = Chunks::new();
    for chunk_layout in [ChunkLayout::Inline, ChunkLayout::Split] {
        let largest = ChunkFormat::new(CHUNK_BYTES_MAX, chunk_layout);
        for key_bytes in key_lengths() {
            for value_bytes in [0, 1, 63, 64, 65, 300] {
                let bits = (key_bytes % 64) as u32;
                let layout = Layout::new(&fields_of(bits), key_bytes, value_bytes, largest);
                let need = largest.bytes_of(layout.need(true)).max(2 * HEAD_BYTES + 1);
                let format = ChunkFormat::new(need.next_multiple_of(8), chunk_layout);
                assert!(format.holds(layout.need(true)));
                chunks.format(format);
                let key: Vec<u8> = (0..key_bytes).map(|at| b'a' + (at % 26) as u8).collect();
                check(&chunks, 1, layout, bits, &key);
                let tail_word = if format.is_split { size_of::<TailWord>() } else { 0 };
                assert_eq!(chunks.written(), layout.item_bytes() + tail_word, "{layout:?}");
            }
        }
    }
}

#[test]
fn a_chained_value_is_read_back_piece_by_piece() {
    let mut chunks = Chunks::new();
    for chunk_layout in [ChunkLayout::Inline, ChunkLayout::Split] {
        for key_bytes in [1, 52, 53, KEY_BYTES_MAX] {
            let format = ChunkFormat::new(1000, chunk_layout);
            chunks.format(format);
            let (fields, key) = (Fields::default(), vec![b'k'; key_bytes]);
            let value: Vec<u8> =
                (0..2 * format.piece_bytes() - 3).map(|at| (at % 251) as u8).collect();
            let layout = Layout::new(&fields, key.len(), value.len(), format);
            assert_eq!(layout.pieces(), 2);
            let [owner, pieces @ ..] = [0, 1, 2].map(|number| chunks.place(number));
            let arena = &chunks.arena;
            // SAFETY: the chunks are the test's alone, and hold what the layout needs.
            let item = unsafe {
                write_header(chunks.chunk(0), layout, &fields, 0, &key);
                for (number, &piece) in pieces.iter().enumerate() {
                    write_piece(chunks.chunk(1 + number), owner, number);
                    list_piece(chunks.chunk(0), layout, number, piece);
                }
                for part in [0, format.piece_bytes()] {
                    let space = chained_value_mut(arena, chunks.chunk(0), layout, part);
                    space.copy_from_slice(&value[part..][..space.len()]);
                }
                ItemRef::new(arena, owner)
            };
            assert_eq!((item.layout(), item.key()), (layout, &key[..]));
            assert_eq!(item.contiguous(), None);
            for (number, part) in value.chunks(format.piece_bytes()).enumerate() {
                assert_eq!(item.piece(number), pieces[number]);
                assert_eq!(item.piece_value(arena, number), part);
                // SAFETY: a piece was laid out there.
                let piece = unsafe { ItemRef::new(arena, pieces[number]) };
                assert!(piece.is_piece());
                assert_eq!((piece.owner(), piece.piece_number()), (owner, number as u32));
            }
        }
    }
}
