//! The formats of trace files: how they are recognised, read and written.
//!
//! | format | one request is | what it lacks |
//! | --- | --- | --- |
//! | `ids` | a 4-byte little-endian object number | time, operation, sizes |
//! | `twitter` | a line `time,key,key size,value size,client,operation,TTL` | costs |
//! | `oracle-general` | 24 bytes: time, object, size, next access | operation, key size, TTL |
//! | `cachebench` | a line below a header that names its columns | costs; read only |
//! | `keys` | a line with a key | time, operation, value size |
//!
//! Each may be compressed by zstd. A field that a format lacks is 0 in the trace, and operations
//! are gets; `larder-bench trace convert --sizes` fills sizes in.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use clap::ValueEnum;

use super::output::Output;
use super::source::Source;
use super::{Operation, Trace, cachebench, ids, keys, oracle, twitter};
use crate::failure::{Failure, Outcome};

/// The most requests of a trace: 28 GiB of memory, more than any machine here gives to a client.
pub const REQUESTS_MAX: u64 = 1 << 30;

/// The form of requests in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Object numbers of 4 bytes, little-endian.
    Ids,
    /// Twitter's cache traces: time, key, key size, value size, client, operation, TTL.
    Twitter,
    /// libCacheSim's oracleGeneral: time, object, size, next access in 24 bytes.
    OracleGeneral,
    /// CacheBench's key-value traces: columns named by a header.
    Cachebench,
    /// One key per line.
    Keys,
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no format is hidden");
        out.pad(value.get_name())
    }
}

/// Reads the first `requests_max` requests of a file, or all. Without a format it is detected.
pub fn read(path: &Path, format: Option<Format>, requests_max: Option<u64>) -> Outcome<Trace> {
    let mut source = Source::open(path)?;
    if source.prefix().is_empty() {
        return Err(source.fault_of_file("holds no requests"));
    }
    let Some(format) = format.or_else(|| detect(path, source.prefix())) else {
        let what = "neither its name nor its beginning tells its format: name it with --format";
        return Err(source.fault_of_file(what));
    };
    read_as(&mut source, format, requests_max)
}

/// Reads from an open source.
pub fn read_as(source: &mut Source, format: Format, requests_max: Option<u64>) -> Outcome<Trace> {
    let most = requests_max.unwrap_or(REQUESTS_MAX).min(REQUESTS_MAX);
    let trace = match format {
        Format::Ids => ids::read(source, most),
        Format::Twitter => twitter::read(source, most),
        Format::OracleGeneral => oracle::read(source, most),
        Format::Cachebench => cachebench::read(source, most),
        Format::Keys => keys::read(source, most),
    }?;
    if trace.requests.is_empty() {
        return Err(source.fault_of_file("holds no requests"));
    }
    if requests_max.is_none() && trace.requests.len() as u64 == REQUESTS_MAX {
        let what = format!("reaches {REQUESTS_MAX} requests: take fewer with --limit");
        return Err(source.fault_of_file(what));
    }
    Ok(trace)
}

/// Writes a trace to a file. Without a format, the name decides.
pub fn write(trace: &Trace, path: &Path, format: Option<Format>) -> Outcome<Format> {
    let Some(format) = format.or_else(|| by_name(path)) else {
        let what = format!("{}: the name tells no format: name it with --to", path.display());
        return Err(Failure::Input(what));
    };
    let mut output = Output::create(path)?;
    match format {
        Format::Ids => ids::write(trace, &mut output),
        Format::Twitter => twitter::write(trace, &mut output),
        Format::OracleGeneral => oracle::write(trace, &mut output),
        Format::Cachebench => Err(Failure::Input("the cachebench format is only read".into())),
        Format::Keys => keys::write(trace, &mut output),
    }?;
    output.finish()?;
    Ok(format)
}

/// Returns the trace's fields that this format cannot hold.
pub fn lost(trace: &Trace, format: Format) -> Vec<&'static str> {
    let any = |test: fn(&super::Request) -> bool| trace.requests.iter().any(test);
    let tells_operations = matches!(format, Format::Twitter | Format::Cachebench);
    let tells_times = tells_operations || format == Format::OracleGeneral;
    let mut lost = Vec::new();
    if !tells_operations && any(|request| request.operation != Operation::Get) {
        lost.push("operations");
    }
    if !tells_operations && any(|request| request.ttl_s > 0) {
        lost.push("times to live");
    }
    if !tells_times && any(|request| request.time_s > 0) {
        lost.push("times");
    }
    if !tells_times && any(|request| request.value_bytes > 0) {
        lost.push("value sizes");
    }
    if !matches!(format, Format::Twitter | Format::Keys) && any(|request| request.key_bytes > 0) {
        lost.push("key sizes");
    }
    if any(|request| request.cost_us > 0) {
        lost.push("costs");
    }
    lost
}

/// Returns the format of a name ending in `.u32`, `.oracleGeneral`, `.csv`, `.keys` or `.txt`,
/// perhaps followed by `.zst`.
pub fn by_name(path: &Path) -> Option<Format> {
    let name = path.file_name().and_then(OsStr::to_str)?.to_lowercase();
    let name = name.strip_suffix(".zst").unwrap_or(&name);
    match name.rsplit_once('.')?.1 {
        _ if name.contains("oraclegeneral") => Some(Format::OracleGeneral),
        "u32" => Some(Format::Ids),
        "csv" => Some(Format::Twitter),
        "keys" | "txt" => Some(Format::Keys),
        _ => None,
    }
}

/// Returns the format of a file with this beginning. Text shows its format better than the name
/// does; binary formats have no mark, so the name counts first, then the look of the numbers.
fn detect(path: &Path, prefix: &[u8]) -> Option<Format> {
    if prefix.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')) {
        let line = prefix.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        return if cachebench::is_header(line) {
            Some(Format::Cachebench)
        } else if twitter::is_line(line) {
            Some(Format::Twitter)
        } else {
            keys::is_line(line).then_some(Format::Keys)
        };
    }
    match by_name(path) {
        binary @ Some(Format::Ids | Format::OracleGeneral) => binary,
        _ if oracle::looks_like(prefix) => Some(Format::OracleGeneral),
        _ if ids::looks_like(prefix) => Some(Format::Ids),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, by_name, detect, lost};
    use crate::trace::testing::{example, packed, unpacked};
    use std::path::Path;

    #[test]
    fn names_promise_formats() {
        for (name, format) in [
            ("a/orm.u32.zst", Some(Format::Ids)),
            ("cluster52.csv", Some(Format::Twitter)),
            ("w1.oracleGeneral.bin.zst", Some(Format::OracleGeneral)),
            ("w1.oracleGeneral", Some(Format::OracleGeneral)),
            ("w1.keys", Some(Format::Keys)),
            ("w1.zst", None),
            ("csv", None),
        ] {
            assert_eq!(by_name(Path::new(name)), format, "{name}");
        }
    }

    #[test]
    fn a_written_file_is_recognised_without_its_name() {
        for format in [Format::Ids, Format::Twitter, Format::OracleGeneral, Format::Keys] {
            let bytes = packed(&example(), format);
            assert_eq!(detect(Path::new("x"), &bytes), Some(format));
        }
        let header = b"key,op,size,op_count,key_size\n1,GET,2,1,3\n";
        assert_eq!(detect(Path::new("x.csv"), header), Some(Format::Cachebench));
        assert_eq!(detect(Path::new("x"), &[0xee; 100]), None);
        assert_eq!(detect(Path::new("x.csv"), b"a,b,c\n"), None);
    }

    #[test]
    fn every_format_returns_what_it_can_tell() {
        let trace = example();
        assert_eq!(lost(&trace, Format::Twitter), Vec::<&str>::new());
        assert_eq!(lost(&trace, Format::Ids).len(), 5);
        for format in [Format::Ids, Format::Twitter, Format::OracleGeneral, Format::Keys] {
            let read = unpacked(&packed(&trace, format), format, None).expect("it is whole");
            let told = lost(&trace, format);
            assert_eq!((read.objects, read.requests.len()), (trace.objects, trace.requests.len()));
            for (read, wrote) in read.requests.iter().zip(&trace.requests) {
                assert_eq!(read.object, wrote.object);
                let same = |what: &str| !told.contains(&what);
                assert!(!same("operations") || read.operation == wrote.operation);
                assert!(!same("times") || read.time_s == wrote.time_s);
                assert!(!same("times to live") || read.ttl_s == wrote.ttl_s);
                assert!(!same("key sizes") || read.key_bytes == wrote.key_bytes);
            }
        }
    }

    #[test]
    fn a_limit_takes_the_beginning() {
        for format in [Format::Ids, Format::Twitter, Format::OracleGeneral, Format::Keys] {
            let trace = unpacked(&packed(&example(), format), format, Some(3)).expect("whole");
            assert_eq!(trace.requests.len(), 3);
            assert_eq!(trace.objects, 2);
        }
    }

    #[test]
    fn every_cut_is_an_error_or_a_whole_beginning() {
        let trace = example();
        for format in [Format::Ids, Format::Twitter, Format::OracleGeneral, Format::Keys] {
            let plain = packed(&trace, format);
            let mut whole = 0;
            for cut in 0..plain.len() {
                let Ok(read) = unpacked(&plain[..cut], format, None) else { continue };
                let all = unpacked(&plain, format, None).expect("it is whole");
                assert_eq!(read.requests, all.requests[..read.requests.len()], "{format} {cut}");
                whole += 1;
            }
            assert_eq!(whole, trace.requests.len() - 1, "{format}: cuts between records");
            let small = zstd::encode_all(plain.as_slice(), 1).expect("encoding in memory");
            for cut in 0..small.len() {
                assert!(unpacked(&small[..cut], format, None).is_err(), "{format} {cut}");
            }
            assert!(unpacked(&small, format, None).is_ok());
        }
    }

    #[test]
    fn a_wrong_format_is_refused() {
        let trace = example();
        for (wrote, read) in [
            (Format::Ids, Format::Twitter),
            (Format::Ids, Format::Keys),
            (Format::Ids, Format::Cachebench),
            (Format::Twitter, Format::OracleGeneral),
            (Format::Twitter, Format::Cachebench),
            (Format::Keys, Format::Twitter),
            (Format::Keys, Format::OracleGeneral),
            (Format::OracleGeneral, Format::Twitter),
            (Format::OracleGeneral, Format::Keys),
        ] {
            let failure = unpacked(&packed(&trace, wrote), read, None);
            let failure = failure.expect_err("another format");
            assert_eq!(failure.exit_code(), 5, "{wrote} as {read}: {failure}");
        }
    }
}
