//! CacheBench's key-value traces: lines of comma-separated fields below a header that names them.
//!
//! The published traces differ in their columns (`key,op,size,op_count,key_size` in the older ones,
//! `op_time,key,key_size,op,op_count,size,cache_hits,ttl,...` in the newer), so columns are found
//! by name and unknown ones are ignored. A line stands for `op_count` requests, and is read as that
//! many. A get's size is 0 where it missed.

use super::source::Source;
use super::twitter::number;
use super::{Builder, Operation, Request, Trace};
use crate::failure::Outcome;

/// The places of the columns.
struct Columns {
    key: usize,
    operation: usize,
    value_bytes: usize,
    repeats: usize,
    key_bytes: usize,
    ttl_s: Option<usize>,
    time_s: Option<usize>,
    count: usize,
}

impl Columns {
    fn of(header: &[u8]) -> Result<Columns, String> {
        let names: Vec<&[u8]> = header.split(|byte| *byte == b',').collect();
        let find = |name: &str| names.iter().position(|known| *known == name.as_bytes());
        let need = |name| find(name).ok_or_else(|| format!("the header has no column `{name}`"));
        Ok(Columns {
            key: need("key")?,
            operation: need("op")?,
            value_bytes: need("size")?,
            repeats: need("op_count")?,
            key_bytes: need("key_size")?,
            ttl_s: find("ttl"),
            time_s: find("op_time"),
            count: names.len(),
        })
    }
}

/// Returns whether this could be the first line of such a trace.
pub fn is_header(line: &[u8]) -> bool {
    Columns::of(line).is_ok()
}

/// Reads up to `requests_max` requests.
pub fn read(source: &mut Source, requests_max: u64) -> Outcome<Trace> {
    let mut builder: Builder<Vec<u8>> = Builder::new(requests_max);
    let mut line = Vec::new();
    if !source.read_line(&mut line)? {
        return Err(source.fault_of_file("there is no header"));
    }
    let columns = Columns::of(&line).map_err(|what| source.fault(what))?;
    while !builder.is_full() && source.read_line(&mut line)? {
        let (key, time_s, repeats, request) =
            parse(&columns, &line).map_err(|what| source.fault(what))?;
        for _ in 0..repeats {
            if !builder.is_full() {
                builder.push(key, time_s, request).map_err(|what| source.fault(what))?;
            }
        }
    }
    Ok(builder.finish(source.name().to_owned()))
}

fn parse<'l>(columns: &Columns, line: &'l [u8]) -> Result<(&'l [u8], u64, u32, Request), String> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b',').collect();
    let has_comma_behind = fields.len() == columns.count + 1 && line.ends_with(b",");
    if fields.len() != columns.count && !has_comma_behind {
        return Err(format!("{} fields below a header of {}", fields.len(), columns.count));
    }
    let key = fields[columns.key];
    if key.is_empty() {
        return Err("the key is empty".into());
    }
    // These two may be left empty.
    let optional = |name, column: Option<usize>| match column.map(|column| fields[column]) {
        None | Some(b"") => Ok(0u64),
        Some(field) => number(name, field),
    };
    let repeats = number("op_count", fields[columns.repeats])?;
    if repeats == 0 {
        return Err("the op_count is 0".into());
    }
    let ttl_s = optional("ttl", columns.ttl_s)?;
    let request = Request {
        value_bytes: number("size", fields[columns.value_bytes])?,
        ttl_s: u32::try_from(ttl_s).map_err(|_| format!("the ttl {ttl_s} is too large"))?,
        key_bytes: number("key_size", fields[columns.key_bytes])?,
        operation: operation(fields[columns.operation])?,
        ..Request::default()
    };
    Ok((key, optional("op_time", columns.time_s)?, repeats, request))
}

/// Parses an operation. Leases are Facebook's way to let one client fill a miss; the requests are
/// the same.
fn operation(word: &[u8]) -> Result<Operation, String> {
    match word {
        b"GET" | b"GET_LEASE" => Ok(Operation::Get),
        b"SET" | b"SET_LEASE" => Ok(Operation::Set),
        b"DELETE" => Ok(Operation::Delete),
        _ => Err(format!("`{}` is no operation", String::from_utf8_lossy(word))),
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::Operation;
    use crate::trace::format::Format;
    use crate::trace::testing::unpacked;

    const OLD: &str =
        "key,op,size,op_count,key_size\n7,SET,82,1,40\n7,GET,0,3,40\n9,DELETE,0,1,8\n";
    const NEW: &str = "op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase\n\
        100,ab,48,GET_LEASE,1,87,1,,3\n102,cd,24,SET_LEASE,2,50,0,7200,6\n";

    #[test]
    fn columns_go_by_name_and_counts_are_requests() {
        let old = unpacked(OLD.as_bytes(), Format::Cachebench, None).expect("whole");
        let operations: Vec<_> = old.requests.iter().map(|request| request.operation).collect();
        let (get, set) = (Operation::Get, Operation::Set);
        assert_eq!(operations, [set, get, get, get, Operation::Delete]);
        assert_eq!(
            (old.objects, old.requests[0].value_bytes, old.requests[4].key_bytes),
            (2, 82, 8)
        );

        let new = unpacked(NEW.as_bytes(), Format::Cachebench, None).expect("whole");
        let seen: Vec<_> = new
            .requests
            .iter()
            .map(|it| (it.object, it.time_s, it.operation, it.value_bytes, it.ttl_s))
            .collect();
        assert_eq!(seen, [(0, 0, get, 87, 0), (1, 2, set, 50, 7200), (1, 2, set, 50, 7200)]);
        let limited = unpacked(OLD.as_bytes(), Format::Cachebench, Some(2)).expect("whole");
        assert_eq!(limited.requests, old.requests[..2]);
    }

    #[test]
    fn errors_name_the_fault() {
        for (text, what) in [
            ("key,op,size,op_count\n", "line 1: the header has no column `key_size`"),
            ("key,op,size,op_count,key_size\n7,GET,0,1\n", "line 2: 4 fields below a header of 5"),
            ("key,op,size,op_count,key_size\n7,SAT,0,1,2\n", "line 2: `SAT` is no operation"),
            ("key,op,size,op_count,key_size\n7,GET,0,0,2\n", "line 2: the op_count is 0"),
            ("key,op,size,op_count,key_size\n,GET,0,1,2\n", "line 2: the key is empty"),
            ("key,op,size,op_count,key_size\n", "holds no requests"),
            ("", "there is no header"),
        ] {
            let failure = unpacked(text.as_bytes(), Format::Cachebench, None).expect_err(what);
            assert!(failure.to_string().ends_with(what), "{failure}");
        }
    }

    #[test]
    fn every_cut_is_an_error_or_a_whole_beginning() {
        for text in [OLD, NEW] {
            let all = unpacked(text.as_bytes(), Format::Cachebench, None).expect("whole");
            for cut in 0..text.len() {
                if let Ok(read) = unpacked(&text.as_bytes()[..cut], Format::Cachebench, None) {
                    assert!(text[..cut].ends_with('\n'));
                    assert_eq!(read.requests, all.requests[..read.requests.len()]);
                }
            }
        }
    }
}
