//! The source of a command's requests: a trace file, or a workload made on the spot.
//!
//! Every command that takes a trace takes either, in one argument: the name of a file, or the word
//! `make` followed by the options of a workload, `"make --choice zipfian --sizes etc"`. Words end
//! at white space; quotes mean nothing. Errors in the options are reported as for any other command
//! line. A file whose name begins with that word is given with its folder: `./make`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{TypedValueParser, ValueParserFactory};
use clap::{Arg, Command, Parser};

use super::Spec;
use crate::failure::{Failure, Outcome};
use crate::trace::Trace;
use crate::trace::format::{self, Format};

/// The first word of a workload's description.
const MAKE: &str = "make";

/// The seed of the values of a file's objects, the default seed of a workload.
const SEED: u64 = 1;

/// A trace file or a workload.
#[derive(Debug, Clone)]
pub enum Requests {
    /// A file.
    File(PathBuf),
    /// A workload.
    Made(Box<Spec>),
}

/// A workload's options as a command line of their own.
#[derive(Debug, Parser)]
#[command(name = MAKE, about = "A workload in the place of a trace file.")]
struct Words {
    #[command(flatten)]
    spec: Spec,
}

impl FromStr for Requests {
    type Err = clap::Error;

    fn from_str(text: &str) -> Result<Requests, clap::Error> {
        let mut words = text.split_whitespace().peekable();
        if words.peek() != Some(&MAKE) || text.starts_with(char::is_whitespace) {
            return Ok(Requests::File(text.into()));
        }
        Ok(Requests::Made(Box::new(Words::try_parse_from(words)?.spec)))
    }
}

impl Requests {
    /// Reads or makes all requests.
    pub fn read(&self) -> Outcome<Trace> {
        self.read_first(None, None)
    }

    /// Reads or makes the first `requests_max` requests. `format` is for a file whose format cannot
    /// be detected.
    pub fn read_first(&self, requests_max: Option<u64>, format: Option<Format>) -> Outcome<Trace> {
        match self {
            Requests::File(path) => format::read(path, format, requests_max),
            Requests::Made(_) if format.is_some() => {
                Err(Failure::Input("a format is that of a file: a workload has none".into()))
            }
            Requests::Made(spec) => {
                let requests = requests_max.unwrap_or(u64::MAX).min(spec.requests);
                Spec { requests, ..spec.as_ref().clone() }.generate()
            }
        }
    }

    /// Reads or makes all requests, for a command that always fills misses: a workload that does
    /// not is refused.
    pub fn read_filled(&self) -> Outcome<Trace> {
        if self.fills_misses() {
            return self.read();
        }
        let what = "here every miss is filled, and the workload says --fill-misses false";
        Err(Failure::Input(what.into()))
    }

    /// Returns whether an object is stored after a miss: always for a file, which does not say.
    pub fn fills_misses(&self) -> bool {
        match self {
            Requests::File(_) => true,
            Requests::Made(spec) => spec.fill_misses,
        }
    }
}

impl Requests {
    /// Returns the seed of values: a workload's own, and always the same for a file.
    pub fn seed(&self) -> u64 {
        match self {
            Requests::File(_) => SEED,
            Requests::Made(spec) => spec.seed,
        }
    }
}

/// Passes on an error about a workload's options as it is, not wrapped into one about the argument.
#[derive(Debug, Clone)]
pub struct RequestsParser;

impl ValueParserFactory for Requests {
    type Parser = RequestsParser;

    fn value_parser() -> RequestsParser {
        RequestsParser
    }
}

impl TypedValueParser for RequestsParser {
    type Value = Requests;

    fn parse_ref(
        &self,
        _command: &Command,
        _argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Requests, clap::Error> {
        // A name that is no text can only be a file's.
        value.to_str().map_or_else(|| Ok(Requests::File(value.into())), str::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::Requests;
    use crate::trace::format::Format;
    use crate::trace::testing::Folder;

    fn requests(text: &str) -> Requests {
        text.parse().expect("it names requests")
    }

    #[test]
    fn a_name_is_a_file_unless_its_first_word_is_make() {
        for name in ["orm-busy.u32.zst", "./make", "maker", "a make", " make", "make.csv"] {
            let found = requests(name);
            assert!(
                matches!(&found, Requests::File(path) if path.to_str() == Some(name)),
                "{name}"
            );
        }
        for words in ["make", "make --keys 5", "make\t--keys  5 "] {
            assert!(matches!(requests(words), Requests::Made(_)), "{words}");
        }
    }

    #[test]
    fn a_workload_is_made_with_its_options() {
        let found = requests("make --keys 50 --requests 300 --sizes fixed:9 --key-bytes 20");
        let trace = found.read().expect("no file is needed");
        assert_eq!(trace.requests.len(), 300);
        assert!(trace.requests.iter().all(|it| (it.value_bytes, it.key_bytes) == (9, 20)));
        let first = found.read_first(Some(100), None).expect("no file is needed");
        assert_eq!(first.requests, trace.requests[..100]);
        assert_eq!(first.objects, first.requests.iter().map(|it| it.object + 1).max().unwrap_or(0));
        let all = found.read_first(Some(1000), None).expect("no file is needed");
        assert_eq!(all, trace);
        assert!(found.read_first(None, Some(Format::Ids)).is_err(), "a workload has no format");
    }

    #[test]
    fn a_file_is_read_like_any_trace() {
        let folder = Folder::new();
        let path = folder.write("t.keys", b"a\nb\na\n");
        let found = requests(path.to_str().expect("a plain name"));
        assert_eq!(found.read().expect("a trace").objects, 2);
        let first = found.read_first(Some(1), Some(Format::Keys)).expect("a trace");
        assert_eq!((first.requests.len(), found.fills_misses()), (1, true));
    }

    #[test]
    fn bad_options_are_said_as_on_any_command_line() {
        let message = |text: &str| text.parse::<Requests>().expect_err("bad options").to_string();
        assert!(message("make --kes 5").contains("unexpected argument '--kes'"));
        assert!(message("make --keys 0").contains("invalid value '0' for '--keys"));
        assert!(message("make 5").contains("unexpected argument '5'"));
    }

    #[test]
    fn a_workload_that_fills_nothing_is_refused_where_misses_are_filled() {
        let found = requests("make --requests 10 --fill-misses false");
        assert!(!found.fills_misses() && found.read().is_ok());
        assert_eq!(found.read_filled().expect_err("it fills").exit_code(), 5);
        assert!(requests("make --requests 10").read_filled().is_ok());
    }
}
