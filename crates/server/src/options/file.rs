//! Options in a file of TOML: `memory-limit = 64`.
//!
//! A key is the option's long name, at the top level. A number may be written as one, or as the
//! text that an argument would be (`"2m"`); a switch is true or false; a list is an array. All
//! errors are reported at once, with line and column; if the file is not TOML, only the first place
//! where it stops being that.
//!
//! Only a regular file of at most [`FILE_BYTES_MAX`] is read, so that a wrong name, such as a
//! device's, cannot hang or fill the process.

use std::fs;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::declare::DECLARATIONS;
use super::kind::{Declaration, Kind};
use super::nearest::suggestion;
use super::print::each;
use super::settings::{Layer, find};
use crate::bounded_file;

/// Longest file, in bytes. A complete one with all comments takes a fiftieth of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The options of a file, and its errors.
#[derive(Default)]
pub struct File {
    /// The options.
    pub layer: Layer,
    /// Errors, by place.
    pub errors: Vec<String>,
}

/// Reads the file.
pub fn read(path: &Path) -> File {
    let shown = path.display();
    match bytes(path) {
        Ok(bytes) => parse(&bytes, &shown.to_string()),
        Err(text) => File { errors: vec![format!("{shown}: {text}")], ..File::default() },
    }
}

/// Reads the bytes of the file.
fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read for --config: {error}");
    let kind = fs::metadata(path).map_err(unreadable)?;
    if kind.is_dir() {
        return Err("is a directory; --config takes a file".to_owned());
    }
    if !kind.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let bytes = bounded_file::read(path, FILE_BYTES_MAX).map_err(unreadable)?;
    bytes.ok_or_else(|| {
        format!("is longer than {FILE_BYTES_MAX} bytes, too long for a file of options")
    })
}

/// Parses the bytes of a file that messages call `shown`.
pub fn parse(bytes: &[u8], shown: &str) -> File {
    let mut file = File::default();
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let text = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            file.errors
                .push(format!("{shown}:{}: the file is not UTF-8", place(&text, text.len())));
            return file;
        }
    };
    let mut errors = Vec::new();
    match DeTable::parse(text) {
        Ok(table) => {
            for (key, value) in table.get_ref() {
                take(&mut file.layer, key, value, &mut errors);
            }
        }
        Err(error) => {
            let at = error.span().map_or(text.len(), |span| span.start);
            errors.push((at, error.message().to_owned()));
        }
    }
    // The table is in alphabetical order; report in the order of the file.
    errors.sort();
    let lines = errors.iter().map(|(at, error)| format!("{shown}:{}: {error}", place(text, *at)));
    file.errors = lines.collect();
    file
}

/// Adds one key with its value.
fn take(
    layer: &mut Layer,
    key: &Spanned<DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
    errors: &mut Vec<(usize, String)>,
) {
    let name: &str = key.get_ref();
    let at_key = key.span().start;
    let Some(declaration) = find(name).filter(|known| known.is_setting()) else {
        errors.push((at_key, unknown(name, value.get_ref())));
        return;
    };
    if declaration.long == "config" {
        errors.push((at_key, "a file cannot name another one".to_owned()));
        return;
    }
    // Two names of one option; the same name twice is a TOML error.
    if layer.speaks_of(declaration) {
        errors.push((at_key, format!("{name}: this option is already set under another name")));
        return;
    }
    let values = match (declaration.kind, value.get_ref()) {
        (Kind::List { .. }, DeValue::Array(entries)) => {
            layer.begin_list(declaration);
            entries.iter().collect()
        }
        _ => vec![value],
    };
    for value in values {
        let added = as_argument(declaration, value.get_ref())
            .ok_or_else(|| format!("{name} takes {}", wanted(declaration)))
            .and_then(|text| layer.add(declaration, &text, name));
        if let Err(error) = added {
            errors.push((value.span().start, error));
        }
    }
}

/// Returns the error of an unknown key, with the key that may be meant.
fn unknown(name: &str, value: &DeValue<'_>) -> String {
    if find(name).is_some() {
        return format!("{name} is for the command line only");
    }
    if matches!(value, DeValue::Table(_)) {
        return format!("there is no table {name}; options are top-level keys");
    }
    let known = DECLARATIONS.iter().filter(|known| known.is_setting()).map(|known| known.long);
    format!("there is no option {name}{}", suggestion(name, known, ""))
}

/// Returns the text that an argument would be; `None` for a wrong type.
fn as_argument(declaration: &Declaration, value: &DeValue<'_>) -> Option<String> {
    let is_switch = matches!(declaration.kind, Kind::Switch(_) | Kind::Missing { unit: None });
    match value {
        DeValue::Boolean(is_on) if is_switch => Some(is_on.to_string()),
        _ if is_switch => None,
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Integer(_) => None,
        _ if matches!(declaration.kind, Kind::Count(_)) => None,
        DeValue::Float(number) if !matches!(declaration.kind, Kind::Number { .. }) => {
            Some(number.as_str().to_owned())
        }
        DeValue::String(text) => Some(text.to_string()),
        _ => None,
    }
}

/// Describes the allowed values.
fn wanted(declaration: &Declaration) -> String {
    match declaration.kind {
        Kind::Switch(_) => "true or false".to_owned(),
        Kind::Count(_) => "a decimal number".to_owned(),
        Kind::Number { unit, min, max, .. } => {
            format!("{unit} from {min} to {max}, as a decimal number or a string such as \"2m\"")
        }
        Kind::List { unit, .. } => format!("strings in an array, each {}", each(unit)),
        Kind::Text { unit, .. } => format!("one string, {unit}"),
        _ => "one value".to_owned(),
    }
}

/// Returns line and column of a byte, both from 1; columns are characters.
fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
    format!("{line}:{column}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> String {
        parse(text.as_bytes(), "f").errors.join("\n")
    }

    #[test]
    fn every_kind_of_value_is_understood() {
        let text = "memory-limit = 1_024 # megabytes\nmax-item-size = \"2m\"\nverbose = 2\n\
                    disable-cas = true\nenable-shutdown = false\nhot-target = 0.9\n\
                    unix-mask = 770\nlisten = [\"127.0.0.1\", \"[::1]:7\"]\npolicy = 'lru'\n";
        let file = parse(text.as_bytes(), "f");
        assert_eq!(file.errors, [""; 0]);
        for (long, last) in [
            ("memory-limit", Some("1024")),
            ("max-item-size", Some("2m")),
            ("disable-cas", Some("")),
            ("enable-shutdown", None),
            ("hot-target", Some("0.9")),
            ("unix-mask", Some("770")),
            ("listen", Some("[::1]:7")),
            ("policy", Some("lru")),
        ] {
            assert_eq!(file.layer.last(long), last, "{long}");
        }
        for text in ["", "\n\n", "# nothing\n", "\u{feff}port = 1\n"] {
            assert_eq!(errors(text), "", "{text:?}");
        }
    }

    #[test]
    fn a_wrong_key_or_value_is_said_with_its_place() {
        for (text, error) in [
            (
                "memory_limit = 64",
                "1:1: there is no option memory_limit; did you mean memory-limit?",
            ),
            ("\n  banana = 1", "2:3: there is no option banana"),
            ("port = 70000", "1:8: port takes a port from 0 to 65535, not 70000"),
            ("disable-cas = 1", "1:15: disable-cas takes true or false"),
            ("disable-cas = \"true\"", "1:15: disable-cas takes true or false"),
            ("verbose = 10", "1:11: verbose takes a number from 0 to 9, not 10"),
            ("verbose = -1", "1:11: verbose takes a number from 0 to 9, not -1"),
            ("verbose = true", "1:11: verbose takes a decimal number"),
            ("user = [\"a\"]", "1:8: user takes one string, USER"),
            (
                "listen = [\"a\", 2.5, true]",
                "1:21: listen takes strings in an array, each ADDRESS[:PORT]",
            ),
            ("hot-target = 2", "1:14: hot-target: 2 is not a share from 0 to 1"),
            ("[memory]\na = 1", "1:2: there is no table memory; options are top-level keys"),
            ("config = \"x\"", "1:1: a file cannot name another one"),
            ("help = true", "1:1: help is for the command line only"),
            ("napi-ids = 1", "1:12: napi-ids is not implemented yet"),
            (
                "flash-save-seconds = 1\nsave-seconds = 2",
                "2:1: save-seconds: this option is already set under another name",
            ),
            ("extended = [\"a=1\"]", "1:13: extended: there is no extended option a"),
            (
                "extended = \"idle_timeout=x\"",
                "1:12: extended: idle-timeout takes seconds from 0 to 31536000, not x",
            ),
        ] {
            assert_eq!(errors(text), format!("f:{error}"), "{text}");
        }
        for text in ["port = true", "port = 0x1F", "port = 1.5", "port = [1]"] {
            let wanted =
                "f:1:8: port takes a port from 0 to 65535, as a decimal number or a string";
            assert!(errors(text).starts_with(wanted), "{text}: {}", errors(text));
        }
        // All errors are reported at once, in the order of the file.
        let lines = errors("port = 70000\nbanana = 1\nMEMORY = 2\n");
        let places: Vec<&str> = lines.lines().map(|line| &line[..6]).collect();
        assert_eq!(places, ["f:1:8:", "f:2:1:", "f:3:1:"]);
    }

    #[test]
    fn invalid_toml_is_reported_with_its_place() {
        for (text, place) in [
            ("port = 1\nport = 2\n", "f:2:1: "),
            ("port 1", "f:1:6: "),
            ("# \u{e4}\u{e4}\nuser = \"\u{e4}", "f:2:"),
            ("user = \"a\nport = 1", "f:1:"),
        ] {
            let found = errors(text);
            assert!(found.starts_with(place) && found.len() > place.len() + 6, "{text}: {found}");
        }
        let file = parse(b"port = 1\nuser = \"\xc3\xa4\xff\"", "f");
        assert_eq!(file.errors, ["f:2:10: the file is not UTF-8"]);
        let deep = format!("user = {}", "[".repeat(100_000));
        assert!(errors(&deep).starts_with("f:1:"));
    }

    #[test]
    fn a_file_that_is_not_regular_or_too_long_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("larder.toml");
        assert!(read(&path).errors[0].contains("cannot be read"));
        assert!(read(folder.path()).errors[0].contains("is a directory"));
        assert!(read(Path::new("/dev/zero")).errors[0].contains("is not a regular file"));
        let bytes = "#".repeat(usize::try_from(FILE_BYTES_MAX).expect("64 bits"));
        fs::write(&path, &bytes).expect("a file");
        assert_eq!(read(&path).errors, [""; 0]);
        // A sparse file may have any length without using disk space.
        let long = fs::File::create(&path).expect("a file");
        for length in [FILE_BYTES_MAX + 1, 100 << 20] {
            long.set_len(length).expect("a length");
            assert!(read(&path).errors[0].contains("longer than 1048576 bytes"));
        }
    }

    /// No content of a file may make the program panic.
    #[test]
    fn any_bytes_are_options_or_errors() {
        const WORDS: [&str; 21] = [
            "port", "listen", " = ", "\n", "[", "]", "\"", "1", "true", "#", ".", "{", "}", ",",
            "-", "\u{e4}", "\u{0}", "\\u", "extended", "1e9", "\r",
        ];
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        println!("seed {seed}");
        let mut state = seed;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
            usize::try_from(state >> 33).expect("64 bits") % below
        };
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            for _ in 0..next(12) {
                bytes.extend_from_slice(WORDS[next(WORDS.len())].as_bytes());
            }
            if next(4) == 0 && !bytes.is_empty() {
                let place = next(bytes.len());
                bytes[place] = u8::try_from(next(256)).expect("a byte");
            }
            let file = parse(&bytes, "f");
            assert!(file.errors.iter().all(|error| error.starts_with("f:")), "{bytes:?}");
        }
    }
}
