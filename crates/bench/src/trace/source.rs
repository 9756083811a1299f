//! A trace file to read: plain or compressed by zstd, as lines or as records of one length.
//!
//! A compressed file is recognised by its first bytes, not by its name. Errors name the file and
//! the number of the line or record. A file that ends inside a line or record is cut off: a reader
//! never takes such a rest for the whole.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use crate::failure::{Failure, Outcome};

/// The longest line that any reader takes: keys have at most 250 bytes, so this is generous.
pub const LINE_BYTES_MAX: u64 = 64 << 10;
/// The bytes looked at to recognise the format.
const PREFIX_BYTES: u64 = 4 << 10;
/// The first bytes of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// An open file.
pub struct Source {
    name: String,
    input: Box<dyn BufRead>,
    prefix: Vec<u8>,
    done: u64,
    unit: &'static str,
}

impl Source {
    /// Opens a file and looks at its beginning.
    pub fn open(path: &Path) -> Outcome<Source> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(Failure::io(format!("opening {name}")))?;
        Source::new(name, file)
    }

    /// Reads from anything.
    pub fn new(name: String, input: impl Read + 'static) -> Outcome<Source> {
        let mut input = BufReader::with_capacity(64 << 10, input);
        let mut magic = Vec::new();
        let reading = || Failure::io(format!("reading {name}"));
        input.by_ref().take(4).read_to_end(&mut magic).map_err(reading())?;
        let is_compressed = magic == ZSTD_MAGIC;
        let whole = Cursor::new(magic).chain(input);
        let mut input: Box<dyn BufRead> = if is_compressed {
            let decoder = zstd::Decoder::with_buffer(whole).map_err(reading())?;
            Box::new(BufReader::with_capacity(64 << 10, decoder))
        } else {
            Box::new(whole)
        };
        let mut prefix = Vec::new();
        input
            .by_ref()
            .take(PREFIX_BYTES)
            .read_to_end(&mut prefix)
            .map_err(|error| Failure::Input(format!("{name}: damaged or cut off: {error}")))?;
        let input = Box::new(Cursor::new(prefix.clone()).chain(input));
        Ok(Source { name, input, prefix, done: 0, unit: "record" })
    }

    /// Returns the file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the first bytes, decompressed.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Returns how many lines or records have been read.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Returns a failure about the line or record that was read last.
    pub fn fault(&self, what: impl Display) -> Failure {
        Failure::Input(format!("{}: {} {}: {what}", self.name, self.unit, self.done))
    }

    /// Returns a failure about the file as a whole.
    pub fn fault_of_file(&self, what: impl Display) -> Failure {
        Failure::Input(format!("{}: {what}", self.name))
    }

    /// Fills `record`; false if the file ends before it.
    pub fn read_record(&mut self, record: &mut [u8]) -> Outcome<bool> {
        self.unit = "record";
        self.done += 1;
        let mut filled = 0;
        while filled < record.len() {
            match self.input.read(&mut record[filled..]) {
                Ok(0) if filled == 0 => {
                    self.done -= 1;
                    return Ok(false);
                }
                Ok(0) => {
                    let wanted = record.len();
                    return Err(self.fault(format!("cut off: {filled} of {wanted} bytes")));
                }
                Ok(more) => filled += more,
                Err(error) => return Err(self.fault(format!("damaged or cut off: {error}"))),
            }
        }
        Ok(true)
    }

    /// Reads a line into `line`, without its end; false if the file ends before it.
    pub fn read_line(&mut self, line: &mut Vec<u8>) -> Outcome<bool> {
        self.unit = "line";
        self.done += 1;
        line.clear();
        let read = self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', line);
        match read {
            Err(error) => return Err(self.fault(format!("damaged or cut off: {error}"))),
            Ok(0) => {
                self.done -= 1;
                return Ok(false);
            }
            Ok(_) => {}
        }
        if line.pop_if(|last| *last == b'\n').is_none() {
            return Err(self.fault(if line.len() as u64 + 1 >= LINE_BYTES_MAX {
                "the line is too long: this is no trace in lines"
            } else {
                "cut off: the line has no end"
            }));
        }
        line.pop_if(|last| *last == b'\r');
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, Source};
    use std::io::Cursor;

    fn source(bytes: &[u8]) -> Source {
        Source::new("a".into(), Cursor::new(bytes.to_vec())).expect("the beginning is fine")
    }

    #[test]
    fn compression_is_seen_and_undone() {
        let plain = b"one\ntwo\r\n".to_vec();
        let packed = zstd::encode_all(plain.as_slice(), 1).expect("encoding in memory");
        for bytes in [plain, packed] {
            let mut source = source(&bytes);
            let mut line = Vec::new();
            assert_eq!(source.prefix(), b"one\ntwo\r\n");
            assert!(source.read_line(&mut line).expect("a line") && line == b"one");
            assert!(source.read_line(&mut line).expect("a line") && line == b"two");
            assert!(!source.read_line(&mut line).expect("the end"));
            assert_eq!(source.done(), 2);
        }
    }

    #[test]
    fn a_cut_off_file_is_reported() {
        let mut lines = source(b"one\ntw");
        let mut line = Vec::new();
        assert!(lines.read_line(&mut line).expect("a line"));
        let failure = lines.read_line(&mut line).expect_err("no end").to_string();
        assert_eq!(failure, "bad input: a: line 2: cut off: the line has no end");
        let mut records = source(b"12345");
        let mut record = [0; 4];
        assert!(records.read_record(&mut record).expect("a record"));
        let failure = records.read_record(&mut record).expect_err("a rest").to_string();
        assert_eq!(failure, "bad input: a: record 2: cut off: 1 of 4 bytes");
    }

    #[test]
    fn lines_have_a_limit() {
        let mut longest = vec![b'x'; LINE_BYTES_MAX as usize - 1];
        longest.push(b'\n');
        let mut line = Vec::new();
        assert!(source(&longest).read_line(&mut line).expect("just short enough"));
        longest.insert(0, b'x');
        let failure = source(&longest).read_line(&mut line).expect_err("too long").to_string();
        assert!(failure.contains("too long"), "{failure}");
    }
}
