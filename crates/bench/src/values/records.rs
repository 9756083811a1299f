//! Record files: values of a real data set, each as a little-endian `u32` length and its bytes,
//! usually compressed by zstd as a whole. Object `i` of a trace has record `i` modulo their number.

use std::path::Path;

use super::VALUE_BYTES_MAX;
use crate::failure::Outcome;
use crate::trace::source::Source;

/// The most bytes of all records of a file, which stay in memory.
const FILE_BYTES_MAX: usize = 4 << 30;

/// The records of a file, stored consecutively, and the end of each.
#[derive(Debug)]
pub struct Records {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Records {
    /// Reads a file.
    pub fn read(path: &Path) -> Outcome<Records> {
        let mut source = Source::open(path)?;
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let mut length = [0; 4];
        while source.read_record(&mut length)? {
            let record_bytes = u32::from_le_bytes(length);
            let start = bytes.len();
            let end = start + record_bytes as usize;
            if record_bytes > VALUE_BYTES_MAX || end > FILE_BYTES_MAX {
                let what = format!("a record of {record_bytes} bytes, {end} with those before it");
                return Err(source.fault(format!("{what}: damaged, or no record file")));
            }
            bytes.resize(end, 0);
            if record_bytes > 0 && !source.read_record(&mut bytes[start..])? {
                return Err(source.fault("cut off: the length is there, its bytes are not"));
            }
            ends.push(end);
        }
        if ends.is_empty() {
            return Err(source.fault_of_file("holds no records"));
        }
        Ok(Records { bytes, ends })
    }

    /// Returns the record of an object.
    pub fn of(&self, object: u32) -> &[u8] {
        let number = object as usize % self.ends.len();
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }

    /// Returns the length of each record.
    pub fn lengths(&self) -> impl Iterator<Item = u32> {
        let starts = std::iter::once(&0).chain(&self.ends);
        self.ends.iter().zip(starts).map(|(end, start)| (end - start) as u32)
    }

    /// Appends an object's record, cut or repeated to this length.
    pub fn append(&self, object: u32, value_bytes: u32, out: &mut Vec<u8>) {
        let record = self.of(object);
        let end = out.len() + value_bytes as usize;
        // An empty record stays empty when repeated: zeros take its place.
        while out.len() < end && !record.is_empty() {
            out.extend_from_slice(&record[..record.len().min(end - out.len())]);
        }
        out.resize(end, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Records;
    use crate::failure::Outcome;
    use crate::trace::testing::Folder;
    use crate::values::VALUE_BYTES_MAX;

    fn packed(records: &[&[u8]]) -> Vec<u8> {
        let with_length = |record: &&[u8]| [&(record.len() as u32).to_le_bytes(), *record].concat();
        records.iter().flat_map(with_length).collect()
    }

    fn read(bytes: &[u8]) -> Outcome<Records> {
        Records::read(&Folder::new().write("values", bytes))
    }

    #[test]
    fn records_come_back_compressed_or_not_by_number() {
        let plain = packed(&[b"one", b"", b"three"]);
        let small = zstd::encode_all(plain.as_slice(), 1).expect("encoding in memory");
        for bytes in [plain, small] {
            let records = read(&bytes).expect("whole");
            let expected = [(0, "one"), (1, ""), (2, "three"), (3, "one"), (5, "three")];
            for (object, expected) in expected {
                assert_eq!(records.of(object), expected.as_bytes());
            }
            assert_eq!(records.lengths().collect::<Vec<_>>(), [3, 0, 5]);
        }
    }

    #[test]
    fn records_are_brought_to_length() {
        let records = read(&packed(&[b"one", b"three", b""])).expect("whole");
        let cases: [(u32, u32, &[u8]); 5] =
            [(0, 3, b"one"), (4, 5, b"three"), (3, 2, b"on"), (3, 7, b"oneoneo"), (2, 2, b"\0\0")];
        for (object, value_bytes, expected) in cases {
            let mut out = b"before".to_vec();
            records.append(object, value_bytes, &mut out);
            assert_eq!(out.split_off(6), expected);
        }
    }

    #[test]
    fn every_cut_is_an_error_or_a_whole_beginning() {
        let plain = packed(&[b"one", b"two", b"three"]);
        let mut whole = 0;
        for cut in 0..plain.len() {
            if let Ok(records) = read(&plain[..cut]) {
                let count = records.lengths().count();
                let found: Vec<&[u8]> = (0..count as u32).map(|it| records.of(it)).collect();
                assert_eq!(found, [b"one", b"two"][..count]);
                whole += 1;
            }
        }
        assert_eq!(whole, 2);
    }

    #[test]
    fn an_invalid_record_file_is_refused_with_a_reason() {
        let reason = |bytes: &[u8]| read(bytes).expect_err("bad records").to_string();
        assert!(reason(b"this is text\n").contains("record 1"));
        assert!(reason(b"").contains("no records"));
        assert!(reason(b"\x02\0\0").contains("cut off"));
        assert!(reason(b"\x02\0\0\0a").contains("cut off"));
        assert!(reason(b"\0\0\0\x01").contains("16777216 bytes"));
        let longest = vec![b'x'; VALUE_BYTES_MAX as usize];
        assert!(read(&packed(&[&longest])).is_ok());
        assert!(reason(&packed(&[&[&longest[..], b"x"].concat()])).contains("1048065 bytes"));
    }
}
