//! Twitter's cache traces: lines of `time,key,key size,value size,client,operation,TTL`.
//!
//! Times are seconds, sizes bytes, an empty TTL is 0. Anonymised keys keep the delimiters of the
//! original ones, which may be commas, so fields are counted from both ends.

use std::io::Write;
use std::str::{self, FromStr};

use super::output::Output;
use super::source::Source;
use super::{Builder, Operation, Request, Trace, keys};
use crate::failure::Outcome;

/// The words for operations, in both directions. `gets` reads as `get` and is not written.
const OPERATIONS: [(&str, Operation); 11] = [
    ("get", Operation::Get),
    ("gets", Operation::Get),
    ("set", Operation::Set),
    ("add", Operation::Add),
    ("replace", Operation::Replace),
    ("cas", Operation::Cas),
    ("append", Operation::Append),
    ("prepend", Operation::Prepend),
    ("incr", Operation::Increment),
    ("decr", Operation::Decrement),
    ("delete", Operation::Delete),
];

/// Returns the operation of a word.
pub fn operation(word: &str) -> Option<Operation> {
    OPERATIONS.iter().find(|(known, _)| *known == word).map(|(_, operation)| *operation)
}

fn word(operation: Operation) -> &'static str {
    let known = OPERATIONS.iter().find(|(_, known)| *known == operation);
    known.map(|(word, _)| *word).expect("every operation has a word")
}

/// Reads up to `requests_max` requests.
pub fn read(source: &mut Source, requests_max: u64) -> Outcome<Trace> {
    let mut builder: Builder<Vec<u8>> = Builder::new(requests_max);
    let mut line = Vec::new();
    while !builder.is_full() && source.read_line(&mut line)? {
        let (time_s, key, request) = parse(&line).map_err(|what| source.fault(what))?;
        builder.push(key, time_s, request).map_err(|what| source.fault(what))?;
    }
    Ok(builder.finish(source.name().to_owned()))
}

/// Writes all requests.
pub fn write(trace: &Trace, output: &mut Output) -> Outcome<()> {
    let (mut text, mut name) = (Vec::new(), Vec::new());
    for request in &trace.requests {
        text.clear();
        name.clear();
        keys::key(request, &mut name);
        line(request, &name, &mut text);
        output.put(&text)?;
    }
    Ok(())
}

/// Appends the line of a request for `key`.
pub fn line(request: &Request, key: &[u8], out: &mut Vec<u8>) {
    let Request { time_s, value_bytes, ttl_s, key_bytes, .. } = *request;
    let word = word(request.operation);
    write!(out, "{time_s},")
        .and_then(|()| out.write_all(key))
        .and_then(|()| writeln!(out, ",{key_bytes},{value_bytes},0,{word},{ttl_s}"))
        .expect("a vector takes every write");
}

/// Returns whether this could be a line of such a trace.
pub fn is_line(line: &[u8]) -> bool {
    parse(line).is_ok()
}

fn parse(line: &[u8]) -> Result<(u64, &[u8], Request), String> {
    let mut fields = line.rsplitn(6, |byte| *byte == b',');
    let mut field = |name| fields.next().ok_or_else(|| format!("there is no {name}: 7 fields"));
    let (ttl, operation_word) = (field("TTL")?, field("operation")?);
    let _client = field("client")?;
    let (value_bytes, key_bytes) = (field("value size")?, field("key size")?);
    let front = field("key")?;
    let comma = front.iter().position(|byte| *byte == b',').ok_or("there is no key: 7 fields")?;
    let (time, key) = (&front[..comma], &front[comma + 1..]);
    if key.is_empty() {
        return Err("the key is empty".into());
    }
    let word = str::from_utf8(operation_word).unwrap_or_default();
    let request = Request {
        value_bytes: number("value size", value_bytes)?,
        ttl_s: number("TTL", ttl)?,
        key_bytes: number("key size", key_bytes)?,
        operation: operation(word).ok_or_else(|| {
            let shown = String::from_utf8_lossy(operation_word);
            format!("`{shown}` is no operation")
        })?,
        ..Request::default()
    };
    Ok((number("time", time)?, key, request))
}

/// Parses a decimal field.
pub fn number<N: FromStr>(name: &str, field: &[u8]) -> Result<N, String> {
    str::from_utf8(field).ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
        format!("the {name} `{}` is no number in range", String::from_utf8_lossy(field))
    })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::trace::format::Format;
    use crate::trace::testing::{example, packed, unpacked};
    use crate::trace::{Operation, Request, Trace};
    use proptest::prelude::*;

    #[test]
    fn a_line_of_the_published_traces_is_understood() {
        let (time_s, key, request) = parse(b"17,nz:u:ee,W5,23,456,8,gets,0").expect("whole");
        assert_eq!((time_s, key), (17, b"nz:u:ee,W5".as_slice()));
        let wanted = Request { value_bytes: 456, key_bytes: 23, ..Request::default() };
        assert_eq!(request, wanted);
    }

    #[test]
    fn all_but_costs_comes_back() {
        let bytes = packed(&example(), Format::Twitter);
        let read = unpacked(&bytes, Format::Twitter, None).expect("whole");
        assert_eq!(Trace { name: "example".into(), ..read }, example());
        let first = bytes.split(|byte| *byte == b'\n').next().expect("a line");
        assert_eq!(first, b"0,00000000000000000000,20,100,0,get,0");
    }

    #[test]
    fn errors_name_the_fault_of_a_line() {
        for (line, what) in [
            ("1,k,2,3,4,get", "there is no key"),
            ("get,0", "there is no client"),
            ("x,k,2,3,4,get,0", "the time `x` is no number"),
            ("1,,2,3,4,get,0", "the key is empty"),
            ("1,k,70000,3,4,get,0", "the key size `70000` is no number in range"),
            ("1,k,2,3,4,fetch,0", "`fetch` is no operation"),
            ("1,k,2,-3,4,get,0", "the value size `-3`"),
            ("1,k,2,3,4,get,", "the TTL ``"),
        ] {
            let bytes = format!("0,k,2,3,4,get,0\n{line}\n");
            let failure = unpacked(bytes.as_bytes(), Format::Twitter, None).expect_err(line);
            let wanted = format!("bad input: file: line 2: {what}");
            assert!(failure.to_string().starts_with(&wanted), "{failure}");
        }
    }

    fn operations() -> impl Strategy<Value = Operation> {
        prop::sample::select(super::OPERATIONS.map(|(_, operation)| operation).to_vec())
    }

    proptest! {
        #[test]
        fn any_trace_comes_back(steps in prop::collection::vec(
            (0u32..9, 0u32..5, any::<u32>(), any::<u32>(), 1u16..300, operations()), 1..40,
        )) {
            let mut builder: crate::trace::Builder<u32> = crate::trace::Builder::new(100);
            let mut time_s = 0;
            for (object, step_s, value_bytes, ttl_s, key_bytes, operation) in steps {
                time_s += u64::from(step_s);
                let request =
                    Request { value_bytes, ttl_s, key_bytes, operation, ..Request::default() };
                builder.push(&object, time_s, request).expect("within the limits");
            }
            let trace = builder.finish("file".into());
            // A key padded to different lengths would count as several.
            let mut first = std::collections::HashMap::new();
            let mut trace = trace;
            for request in &mut trace.requests {
                request.key_bytes = *first.entry(request.object).or_insert(request.key_bytes);
            }
            let read = unpacked(&packed(&trace, Format::Twitter), Format::Twitter, None);
            prop_assert_eq!(read.expect("just written"), trace);
        }
    }
}
