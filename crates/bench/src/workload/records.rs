//! Record files: values of a real data set, each as a little-endian `u32` length and its bytes,
//! usually compressed by zstd as a whole. Object `i` of a trace has record `i` modulo their number.

use std::path::Path;

use crate::failure::Outcome;
use crate::trace::source::Source;

/// The longest record: as the largest item of memcached's default.
const RECORD_BYTES_MAX: u32 = 1 << 20;
/// All records of a file together stay in memory.
const FILE_BYTES_MAX: usize = 1 << 30;

/// Reads all records.
pub fn read(path: &Path) -> Outcome<Vec<Vec<u8>>> {
    let mut source = Source::open(path)?;
    let mut records = Vec::new();
    let (mut length, mut total) = ([0; 4], 0);
    while source.read_record(&mut length)? {
        let bytes = u32::from_le_bytes(length);
        total += bytes as usize;
        if bytes > RECORD_BYTES_MAX || total > FILE_BYTES_MAX {
            let what = format!("a record of {bytes} bytes, {total} with those before it");
            return Err(source.fault(format!("{what}: damaged, or no record file")));
        }
        let mut record = vec![0; bytes as usize];
        if bytes > 0 && !source.read_record(&mut record)? {
            return Err(source.fault("cut off: the length is there, its bytes are not"));
        }
        records.push(record);
    }
    if records.is_empty() {
        return Err(source.fault_of_file("holds no records"));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::trace::testing::Folder;

    fn packed(records: &[&[u8]]) -> Vec<u8> {
        let with_length = |record: &&[u8]| [&(record.len() as u32).to_le_bytes(), *record].concat();
        records.iter().flat_map(with_length).collect()
    }

    #[test]
    fn records_come_back_compressed_or_not() {
        let folder = Folder::new();
        let records: [&[u8]; 3] = [b"one", b"", b"three"];
        let plain = packed(&records);
        let small = zstd::encode_all(plain.as_slice(), 1).expect("encoding in memory");
        for bytes in [plain, small] {
            assert_eq!(read(&folder.write("values", &bytes)).expect("whole"), records);
        }
    }

    #[test]
    fn every_cut_is_an_error_or_a_whole_beginning() {
        let folder = Folder::new();
        let plain = packed(&[b"one", b"two", b"three"]);
        let mut whole = 0;
        for cut in 0..plain.len() {
            if let Ok(records) = read(&folder.write("values", &plain[..cut])) {
                assert_eq!(records, [b"one", b"two"][..records.len()]);
                whole += 1;
            }
        }
        assert_eq!(whole, 2);
    }

    #[test]
    fn what_is_no_record_file_is_refused() {
        let folder = Folder::new();
        let failure = read(&folder.write("values", b"this is text\n")).expect_err("text");
        assert!(failure.to_string().contains("record 1"), "{failure}");
        assert!(read(&folder.write("values", b"")).is_err());
    }
}
