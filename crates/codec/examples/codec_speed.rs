//! The size of blocks of a record file, and the time to make them: by method and level, by
//! dictionary size and by block size.
//!
//! ```sh
//! cargo run --release -p larder-codec --example codec_speed -- records.rec.zst
//! ```
//!
//! The file is a zstd stream of records, each a little-endian length of 4 bytes and that many
//! bytes. Records are packed to blocks of at least N bytes in the order of the file. Dictionaries
//! are trained from every second block, at most 16 MiB of them; the others are measured and
//! printed. A time is the median over all of these blocks, of the shortest of three rounds for
//! each. The ratio counts raw blocks.

use std::error::Error;
use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

use larder_codec::{Decoder, Dictionary, Encoder, Method};

const BLOCK_BYTES: [usize; 4] = [1 << 10, 2 << 10, 3 << 10, 4 << 10];
const DICTIONARY_BYTES: [usize; 4] = [0, 16 << 10, 64 << 10, 110 << 10];
const METHODS: [(&str, Method, i32); 3] =
    [("lz4", Method::Lz4, 1), ("zstd 1", Method::Zstd, 1), ("zstd 3", Method::Zstd, 3)];
/// The most blocks that are measured.
const MEASURED_MAX: usize = 4000;
const TRAINED_BYTES_MAX: usize = 16 << 20;
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which record file?")?;
    let mut records = Vec::new();
    zstd::Decoder::new(std::fs::File::open(&path)?)?.read_to_end(&mut records)?;
    for block_bytes in BLOCK_BYTES {
        let blocks = blocks(&records, block_bytes)?;
        let (mut trained, mut measured) = (Vec::new(), Vec::new());
        for pair in blocks.chunks_exact(2) {
            trained.push(&pair[0]);
            measured.push(&pair[1]);
        }
        let mut bytes = 0;
        let fits = |block: &&Vec<u8>| {
            bytes += block.len();
            bytes <= TRAINED_BYTES_MAX
        };
        let count = trained.iter().copied().take_while(fits).count();
        trained.truncate(count);
        measured.truncate(MEASURED_MAX);
        println!("blocks of {block_bytes} bytes, {} measured", measured.len());
        for dictionary_bytes in DICTIONARY_BYTES {
            for (name, method, level) in METHODS {
                let started = Instant::now();
                let dictionary = (dictionary_bytes > 0)
                    .then(|| Dictionary::train(&trained, dictionary_bytes, level))
                    .flatten();
                let training_ms = started.elapsed().as_millis();
                let row = measure(method, level, dictionary.as_ref(), &measured);
                print!("  {name:6} dictionary {:6}  ", dictionary_bytes);
                print!("ratio {:5.2}  encode {:6.2} us  ", row.ratio, row.encode_us);
                print!("decode {:5.2} us", row.decode_us);
                match &dictionary {
                    Some(it) => println!("  ({} KiB, {training_ms} ms)", it.memory_bytes() >> 10),
                    None => println!(),
                }
            }
        }
    }
    Ok(())
}

/// Whole records, packed to blocks of at least this many bytes.
fn blocks(records: &[u8], block_bytes: usize) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let (mut blocks, mut block, mut rest) = (Vec::new(), Vec::new(), records);
    while let Some((length, tail)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        let (record, tail) = tail.split_at_checked(length).ok_or("the file is cut off")?;
        block.extend_from_slice(record);
        if block.len() >= block_bytes {
            blocks.push(std::mem::take(&mut block));
        }
        rest = tail;
    }
    Ok(blocks)
}

struct Row {
    ratio: f64,
    encode_us: f64,
    decode_us: f64,
}

fn measure(
    method: Method,
    level: i32,
    dictionary: Option<&Dictionary>,
    blocks: &[&Vec<u8>],
) -> Row {
    let (mut encoder, mut decoder) = (Encoder::new(level), Decoder::new());
    let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
    let (mut bytes_before, mut bytes_after) = (0, 0);
    let mut times = [vec![f64::MAX; blocks.len()], vec![f64::MAX; blocks.len()]];
    for round in 0..ROUNDS {
        for (index, block) in blocks.iter().enumerate() {
            let started = Instant::now();
            let method = encoder.encode(method, dictionary, black_box(block), &mut encoded);
            let between = Instant::now();
            decoded.resize(block.len(), 0);
            let started_decoding = Instant::now();
            let result = decoder.decode(method, dictionary, black_box(&encoded), &mut decoded);
            let encode_us = (between - started).as_secs_f64() * 1e6;
            let decode_us = started_decoding.elapsed().as_secs_f64() * 1e6;
            assert!(result.is_ok() && decoded == **block, "a block came back otherwise");
            times[0][index] = times[0][index].min(encode_us);
            times[1][index] = times[1][index].min(decode_us);
            if round == 0 {
                bytes_before += block.len();
                bytes_after += encoded.len();
            }
        }
    }
    let ratio = bytes_before as f64 / bytes_after as f64;
    let [encode_us, decode_us] = times.map(median);
    Row { ratio, encode_us, decode_us }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
