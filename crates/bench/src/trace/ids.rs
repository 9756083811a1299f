//! Streams of object numbers: each request is one little-endian `u32` and nothing else.

use super::output::Output;
use super::source::Source;
use super::{Builder, Request, Trace};
use crate::failure::Outcome;

const RECORD_BYTES: usize = 4;

/// Reads up to `requests_max` requests.
pub fn read(source: &mut Source, requests_max: u64) -> Outcome<Trace> {
    let mut builder: Builder<u32> = Builder::new(requests_max);
    let mut record = [0; RECORD_BYTES];
    while !builder.is_full() && source.read_record(&mut record)? {
        builder
            .push(&u32::from_le_bytes(record), 0, Request::default())
            .map_err(|what| source.fault(what))?;
    }
    Ok(builder.finish(source.name().to_owned()))
}

/// Writes the objects of all requests.
pub fn write(trace: &Trace, output: &mut Output) -> Outcome<()> {
    trace.requests.iter().try_for_each(|request| output.put(&request.object.to_le_bytes()))
}

/// Returns whether a file with this beginning numbers its objects in order of appearance, as this
/// tool writes them: each number is at most one more than all before it.
pub fn looks_like(prefix: &[u8]) -> bool {
    let mut next = 0;
    let numbers = prefix
        .chunks_exact(RECORD_BYTES)
        .map(|bytes| u32::from_le_bytes(bytes.try_into().expect("chunks have their length")));
    prefix.len() >= RECORD_BYTES
        && numbers.into_iter().all(|number| {
            let is_known = number <= next;
            next += u32::from(number == next);
            is_known
        })
}

#[cfg(test)]
mod tests {
    use super::looks_like;
    use crate::trace::format::Format;
    use crate::trace::testing::{packed, unpacked};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_numbers_become_dense_and_come_back(
            ids in prop::collection::vec(any::<u32>(), 1..99),
        ) {
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            let trace = unpacked(&bytes, Format::Ids, None).expect("any words are objects");
            for (request, id) in trace.requests.iter().zip(&ids) {
                let first = ids.iter().position(|other| other == id).expect("it is there");
                prop_assert_eq!(request.object, trace.requests[first].object);
                prop_assert!(request.object < trace.objects);
            }
            let written = packed(&trace, Format::Ids);
            prop_assert!(looks_like(&written));
            prop_assert_eq!(unpacked(&written, Format::Ids, None).expect("just written"), trace);
        }
    }
}
