//! Reads a trace of bare object numbers: a zstd stream of little-endian `u32`, one for each
//! request, in order of time. It says nothing of sizes, times or costs: those stay 0, and whoever
//! replays it attaches values.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use super::{Operation, Request, Trace};
use crate::failure::{Failure, Outcome};

/// More requests than this are refused: a trace is held in memory.
const REQUESTS_MAX: u64 = 1 << 28;

/// Reads a trace from a file.
pub fn read(path: &Path) -> Outcome<Trace> {
    let doing = || format!("reading {}", path.display());
    let file = File::open(path).map_err(Failure::io(doing()))?;
    let stream = zstd::Decoder::new(file).map_err(Failure::io(doing()))?;
    let mut bytes = Vec::new();
    let limit = REQUESTS_MAX * 4 + 1;
    stream.take(limit).read_to_end(&mut bytes).map_err(Failure::io(doing()))?;
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    let name = name.split('.').next().unwrap_or_default().to_owned();
    parse(name, &bytes)
        .map_err(|what| Failure::io(doing())(io::Error::new(ErrorKind::InvalidData, what)))
}

fn parse(name: String, bytes: &[u8]) -> Result<Trace, String> {
    let (words, rest) = bytes.as_chunks::<4>();
    if words.is_empty() {
        return Err("the trace is empty".into());
    }
    if words.len() as u64 > REQUESTS_MAX {
        return Err(format!("more than {REQUESTS_MAX} requests"));
    }
    if !rest.is_empty() {
        return Err("the trace ends within a number: the file is cut off".into());
    }
    let mut objects = 0;
    let mut requests = Vec::with_capacity(words.len());
    for word in words {
        let object = u32::from_le_bytes(*word);
        if object > objects {
            return Err(format!("object {object} comes before object {objects}"));
        }
        objects = objects.max(object + 1);
        requests.push(Request {
            time_s: 0,
            object,
            value_bytes: 0,
            ttl_s: 0,
            cost_us: 0,
            key_bytes: 0,
            operation: Operation::Get,
        });
    }
    Ok(Trace { name, requests, objects })
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn bytes(objects: &[u32]) -> Vec<u8> {
        objects.iter().flat_map(|object| object.to_le_bytes()).collect()
    }

    #[test]
    fn numbers_become_requests() {
        let trace = parse("t".into(), &bytes(&[0, 1, 0, 2])).expect("a good trace");
        assert_eq!(trace.objects, 3);
        let objects: Vec<u32> = trace.requests.iter().map(|request| request.object).collect();
        assert_eq!(objects, [0, 1, 0, 2]);
    }

    #[test]
    fn bad_files_are_refused_with_a_reason() {
        let reason = |bytes: &[u8]| parse("t".into(), bytes).expect_err("a bad trace");
        assert!(reason(&[]).contains("empty"));
        assert!(reason(&bytes(&[0, 1])[..7]).contains("cut off"));
        assert!(reason(&bytes(&[0, 2])).contains("object 2 comes before object 1"));
    }
}
