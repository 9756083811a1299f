//! The size of an image of a record file, and the time to write and read it, by method.
//!
//! ```sh
//! cargo run --release -p larder-codec --example image_speed -- records.rec.zst
//! ```
//!
//! The file is as for `codec_speed`. Each record is the value of an item, with a key of its number;
//! writing goes to memory. A time is the shortest of five rounds.

use std::error::Error;
use std::io::Read;
use std::time::{Duration, Instant};

use larder_codec::Method;
use larder_codec::image::{Head, Reader, Table, Tier, Totals, Writer, open};
use larder_codec::record::{Fields, Record};

const METHODS: [(&str, Method, i32); 4] = [
    ("raw", Method::Raw, 1),
    ("lz4", Method::Lz4, 1),
    ("zstd 1", Method::Zstd, 1),
    ("zstd 3", Method::Zstd, 3),
];
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which record file?")?;
    let mut records = Vec::new();
    zstd::Decoder::new(std::fs::File::open(&path)?)?.read_to_end(&mut records)?;
    for (name, method, level) in METHODS {
        let (mut write, mut read) = (Duration::MAX, Duration::MAX);
        let (mut bytes, mut image_bytes) = (0, 0);
        for _ in 0..ROUNDS {
            let started = Instant::now();
            let (image, totals) = written(&records, method, level)?;
            write = write.min(started.elapsed());
            (bytes, image_bytes) = (totals.bytes, totals.image_bytes);
            let started = Instant::now();
            assert_eq!(items(&image)?, totals.items);
            read = read.min(started.elapsed());
        }
        let speed = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
        println!(
            "{name:6}  ratio {:5.2}  write {:5.0} MB/s  read {:5.0} MB/s",
            bytes as f64 / image_bytes as f64,
            speed(write),
            speed(read)
        );
    }
    Ok(())
}

/// An image of the records, and its totals.
fn written(
    mut records: &[u8],
    method: Method,
    level: i32,
) -> Result<(Vec<u8>, Totals), Box<dyn Error>> {
    let head = Head {
        nonce: 1,
        saved_at: 0,
        wall_at: Some(0),
        flush_at: 0,
        sequence: 0,
        share_ppm: 0,
        hot_items: 0,
        limit_bytes: 0,
    };
    let mut writer = Writer::new(Vec::new(), &head, method, level)?;
    let mut number = 0_u32;
    while let Some((length, rest)) = records.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        let (value, rest) = rest.split_at_checked(length).ok_or("a record is cut")?;
        let key = format!("key-{number:012}").into_bytes();
        let record = Record { key: &key, value, fields: Fields::default() };
        writer.push(Tier::Hot, number, &record)?;
        (records, number) = (rest, number + 1);
    }
    let (image, totals) = writer.finish(None)?;
    Ok((image, totals))
}

/// Reads all items of an image, and counts them.
fn items(image: &Vec<u8>) -> Result<u64, Box<dyn Error>> {
    let table = Table::new(image, &open(image)?)?;
    let mut reader = Reader::new();
    let mut items = 0;
    for group in 0..table.groups() {
        let block = table.group(group).0;
        let found = reader.items(image, block).map_err(|_| "a block is damaged")?;
        items += found.count() as u64;
    }
    Ok(items)
}
