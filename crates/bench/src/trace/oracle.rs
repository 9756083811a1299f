//! libCacheSim's oracleGeneral: 24 bytes a request, little-endian and without gaps.
//!
//! ```text
//!   0       4                12      16                      24
//!   | time  | object         | size  | next access           |
//!     u32, s  u64              u32, B   i64
//! ```
//!
//! The next access is the number of the next request for the same object, counted from 1, and -1 if
//! there is none; readers of offline policies need it. It is not kept, but it must lie ahead: that
//! reveals files that are damaged or of another format. The size is that of the whole object, and a
//! size of 0 makes libCacheSim skip the request, so unknown sizes are written as 1.

use super::output::Output;
use super::source::Source;
use super::{Builder, Request, Trace};
use crate::failure::Outcome;

const RECORD_BYTES: usize = 24;
/// No next access: -1 in most files, -2 in some.
const NEVER: std::ops::RangeInclusive<i64> = -2..=-1;

struct Record {
    time_s: u32,
    object: u64,
    object_bytes: u32,
    next_access: i64,
}

impl Record {
    fn decode(bytes: &[u8; RECORD_BYTES]) -> Record {
        let (time_s, rest) = bytes.split_first_chunk().expect("24 bytes");
        let (object, rest) = rest.split_first_chunk().expect("20 bytes");
        let (object_bytes, rest) = rest.split_first_chunk().expect("12 bytes");
        let (next_access, _) = rest.split_first_chunk().expect("8 bytes");
        Record {
            time_s: u32::from_le_bytes(*time_s),
            object: u64::from_le_bytes(*object),
            object_bytes: u32::from_le_bytes(*object_bytes),
            next_access: i64::from_le_bytes(*next_access),
        }
    }

    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&self.time_s.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.object.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.object_bytes.to_le_bytes());
        bytes[16..].copy_from_slice(&self.next_access.to_le_bytes());
        bytes
    }

    /// Returns whether the next access comes after request `number`, counted from 1. Some writers
    /// count from 0.
    fn looks_ahead(&self, number: u64) -> bool {
        NEVER.contains(&self.next_access) || self.next_access >= number as i64
    }
}

/// Reads up to `requests_max` requests.
pub fn read(source: &mut Source, requests_max: u64) -> Outcome<Trace> {
    let mut builder: Builder<u64> = Builder::new(requests_max);
    let mut bytes = [0; RECORD_BYTES];
    while !builder.is_full() && source.read_record(&mut bytes)? {
        let record = Record::decode(&bytes);
        if !record.looks_ahead(source.done()) {
            let next = record.next_access;
            return Err(source.fault(format!(
                "the next access is {next}, which lies behind: not oracleGeneral, or damaged"
            )));
        }
        let request = Request { value_bytes: record.object_bytes, ..Request::default() };
        builder
            .push(&record.object, u64::from(record.time_s), request)
            .map_err(|what| source.fault(what))?;
    }
    Ok(builder.finish(source.name().to_owned()))
}

/// Writes all requests, whatever their operation, as accesses.
pub fn write(trace: &Trace, output: &mut Output) -> Outcome<()> {
    let mut upcoming = vec![-1i64; trace.objects as usize];
    let mut next_accesses = vec![-1i64; trace.requests.len()];
    for (index, request) in trace.requests.iter().enumerate().rev() {
        let upcoming = &mut upcoming[request.object as usize];
        next_accesses[index] = std::mem::replace(upcoming, index as i64 + 1);
    }
    for (request, next_access) in trace.requests.iter().zip(next_accesses) {
        let object_bytes = request.value_bytes.saturating_add(u32::from(request.key_bytes)).max(1);
        let (time_s, object) = (request.time_s, u64::from(request.object));
        output.put(&Record { time_s, object, object_bytes, next_access }.encode())?;
    }
    Ok(())
}

/// Returns whether a file with this beginning looks ahead everywhere, and its times do not run
/// backwards.
pub fn looks_like(prefix: &[u8]) -> bool {
    let mut time_s = 0;
    prefix.len() >= RECORD_BYTES
        && prefix.chunks_exact(RECORD_BYTES).zip(1..).all(|(bytes, number)| {
            let record = Record::decode(bytes.try_into().expect("chunks have their length"));
            let is_later = record.time_s >= time_s;
            time_s = record.time_s;
            is_later && record.object_bytes > 0 && record.looks_ahead(number)
        })
}

#[cfg(test)]
mod tests {
    use super::Record;
    use crate::trace::format::Format;
    use crate::trace::testing::{example, packed, unpacked};

    #[test]
    fn the_layout_is_the_published_one() {
        let record = Record { time_s: 1, object: 2, object_bytes: 3, next_access: -1 };
        let mut bytes = [0u8; 24];
        (bytes[0], bytes[4], bytes[12]) = (1, 2, 3);
        bytes[16..].fill(0xff);
        assert_eq!(record.encode(), bytes);
    }

    #[test]
    fn next_accesses_point_to_the_same_object() {
        let bytes = packed(&example(), Format::OracleGeneral);
        let next = |index: usize| {
            Record::decode(bytes[index * 24..][..24].try_into().expect("24 bytes")).next_access
        };
        assert_eq!((0..6).map(next).collect::<Vec<_>>(), [2, 4, 6, -1, -1, -1]);
    }

    #[test]
    fn sizes_are_those_of_whole_objects() {
        let bytes = packed(&example(), Format::OracleGeneral);
        let trace = unpacked(&bytes, Format::OracleGeneral, None).expect("whole");
        for (read, wrote) in trace.requests.iter().zip(&example().requests) {
            assert_eq!(read.value_bytes, wrote.value_bytes + u32::from(wrote.key_bytes));
            assert_eq!((read.object, read.time_s), (wrote.object, wrote.time_s));
        }
    }

    #[test]
    fn a_next_access_that_lies_behind_is_damage() {
        let mut bytes = packed(&example(), Format::OracleGeneral);
        bytes[2 * 24 + 16] = 2;
        let failure = unpacked(&bytes, Format::OracleGeneral, None).expect_err("damaged");
        assert!(failure.to_string().contains("file: record 3: the next access is 2"), "{failure}");
    }
}
