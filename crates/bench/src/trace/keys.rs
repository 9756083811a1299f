//! Lists of keys: each request is one line that holds its key.
//!
//! Written keys are the object's number, padded with zeros to the length in the trace.

use std::io::Write;

use super::output::Output;
use super::source::Source;
use super::{Builder, Request, Trace};
use crate::failure::Outcome;

/// The longest key of memcached's protocols; a file with longer lines is no list of keys.
const KEY_BYTES_MAX: usize = 250;

/// Reads up to `requests_max` requests.
pub fn read(source: &mut Source, requests_max: u64) -> Outcome<Trace> {
    let mut builder: Builder<Vec<u8>> = Builder::new(requests_max);
    let mut line = Vec::new();
    while !builder.is_full() && source.read_line(&mut line)? {
        if !is_key(&line) {
            let what = format!("a key has 1 to {KEY_BYTES_MAX} bytes, none of them a space");
            return Err(source.fault(what));
        }
        let request = Request { key_bytes: line.len() as u16, ..Request::default() };
        builder.push(line.as_slice(), 0, request).map_err(|what| source.fault(what))?;
    }
    Ok(builder.finish(source.name().to_owned()))
}

/// Writes the keys of all requests.
pub fn write(trace: &Trace, output: &mut Output) -> Outcome<()> {
    let mut line = Vec::new();
    for request in &trace.requests {
        line.clear();
        key(request, &mut line);
        line.push(b'\n');
        output.put(&line)?;
    }
    Ok(())
}

/// Appends the key of a request's object.
pub fn key(request: &Request, out: &mut Vec<u8>) {
    let (number, digits) = (request.object, usize::from(request.key_bytes).min(KEY_BYTES_MAX));
    write!(out, "{number:0digits$}").expect("a vector takes every write");
}

/// Returns whether this could be a line of such a list. Keys with commas are read, but do not
/// distinguish a list of keys from a table.
pub fn is_line(line: &[u8]) -> bool {
    is_key(line) && !line.contains(&b',')
}

fn is_key(line: &[u8]) -> bool {
    let is_whole = (1..=KEY_BYTES_MAX).contains(&line.len());
    is_whole && line.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use crate::trace::format::Format;
    use crate::trace::testing::unpacked;
    use proptest::prelude::*;

    #[test]
    fn an_invalid_key_is_reported() {
        let long = [vec![b'k'; 251], b"\n".to_vec()].concat();
        for bytes in [b"a\n\nb\n".to_vec(), b"a\nb c\n".to_vec(), [b"a\n".to_vec(), long].concat()]
        {
            let failure = unpacked(&bytes, Format::Keys, None).expect_err("no key").to_string();
            assert!(failure.starts_with("bad input: file: line 2: a key has"), "{failure}");
        }
        assert!(unpacked(&[vec![b'k'; 250], b"\n".to_vec()].concat(), Format::Keys, None).is_ok());
    }

    proptest! {
        #[test]
        fn equal_keys_are_one_object(keys in prop::collection::vec("[a-c]{1,3}", 1..50)) {
            let trace = unpacked((keys.join("\n") + "\n").as_bytes(), Format::Keys, None);
            let trace = trace.expect("all are keys");
            for (one, a) in trace.requests.iter().zip(&keys) {
                prop_assert_eq!(usize::from(one.key_bytes), a.len());
                for (other, b) in trace.requests.iter().zip(&keys) {
                    prop_assert_eq!(one.object == other.object, a == b);
                }
            }
        }
    }
}
