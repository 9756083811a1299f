//! The output of `--print-config`: a complete file with every option explained in place.
//!
//! Options that were set are printed as they were set; the others are commented out with `#`, with
//! their defaults, so that another version's default applies. Read again, the text gives the same
//! options.

use std::fmt::Write;

use super::environment::variable;
use super::groups::GROUPS;
use super::kind::{Declaration, Kind};
use super::settings::{Settings, find};

/// Maximum length of a line, except for values.
const LINE_COLUMNS: usize = 90;

const OPENING: &str = "\
# Options of larder, for --config. Lines with a # are comments: a commented option shows its
# default, or an example if it has none. Environment variables override this file, and arguments
# override both. `larder --check --config FILE` checks a file.
";

/// Returns the file.
pub fn config(settings: &Settings) -> String {
    let mut text = OPENING.to_owned();
    for group in GROUPS {
        let declared = group.longs.iter().filter_map(|long| find(long));
        let mut keys = declared.filter(|known| is_key(known)).peekable();
        if keys.peek().is_some() {
            let _ = write!(text, "\n\n## {}\n", group.title);
        }
        for declaration in keys {
            describe(&mut text, declaration, settings);
        }
    }
    text
}

/// Whether an option may be in a file, and has an effect.
fn is_key(declaration: &Declaration) -> bool {
    let is_idle = matches!(declaration.kind, Kind::Alias(_) | Kind::Missing { .. });
    declaration.is_setting() && !is_idle && declaration.long != "config"
}

/// Writes one option: what it is for, and its line.
fn describe(text: &mut String, declaration: &Declaration, settings: &Settings) {
    text.push('\n');
    wrap(text, "# ", &format!("{}{}", declaration.reason, range(declaration)));
    let _ = writeln!(text, "# Environment variable {}.", variable(declaration));
    let long = declaration.long;
    let _ = match settings.chosen(declaration) {
        Some((source, _)) => {
            let value = current(declaration, settings);
            writeln!(
                text,
                "# Set by: {}.
{long} = {value}",
                source.name()
            )
        }
        None => writeln!(text, "#{long} = {}", default(declaration)),
    };
}

/// Adds `words` in lines that begin with `mark`.
pub fn wrap(text: &mut String, mark: &str, words: &str) {
    let mut column = 0;
    for word in words.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length <= LINE_COLUMNS {
            let _ = write!(text, " {word}");
            column += 1 + length;
            continue;
        }
        let end = if column > 0 { "\n" } else { "" };
        let _ = write!(text, "{end}{mark}{word}");
        column = mark.len() + length;
    }
    text.push('\n');
}

/// Returns the allowed values, as a sentence after the reason.
fn range(declaration: &Declaration) -> String {
    match declaration.kind {
        Kind::Number { min, max, .. } if min == max => format!(" Takes only {min}."),
        Kind::Number { unit, min, max, .. } => format!(" Takes {unit} from {min} to {max}."),
        Kind::Text { unit, .. } => format!(" Takes {unit}."),
        Kind::List { unit, .. } => format!(" Takes an array, each {}.", each(unit)),
        _ => String::new(),
    }
}

/// Returns the default as a value of TOML, or an example for an option without a default.
pub fn default(declaration: &Declaration) -> String {
    match (declaration.default, declaration.kind) {
        (Some(default), _) => value(declaration, &[default]),
        (None, Kind::Text { unit, .. }) => value(declaration, &[unit]),
        (None, Kind::List { unit, .. }) => value(declaration, &[each(unit)]),
        (None, Kind::Number { min, .. }) => min.to_string(),
        (None, _) => value(declaration, &[]),
    }
}

/// Returns the placeholder of one entry of a list, of which an argument has several.
pub fn each(unit: &'static str) -> &'static str {
    unit.trim_end_matches(",...")
}

/// Returns the value in effect, as a value of TOML.
pub fn current(declaration: &Declaration, settings: &Settings) -> String {
    match (settings.chosen(declaration), declaration.default, declaration.kind) {
        (Some((_, texts)), _, _) => {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            value(declaration, &texts)
        }
        (None, Some(_), _) | (None, _, Kind::Switch(_) | Kind::Count(_)) => default(declaration),
        (None, None, _) => "not set".to_owned(),
    }
}

/// Returns the texts of an option as a value of TOML.
fn value(declaration: &Declaration, texts: &[&str]) -> String {
    match declaration.kind {
        Kind::Switch(_) => (!texts.is_empty()).to_string(),
        Kind::Count(_) => texts.len().to_string(),
        Kind::List { .. } => {
            let quoted: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            format!("[{}]", quoted.join(", "))
        }
        Kind::Number { .. } => {
            let text = texts.last().copied().unwrap_or_default();
            // Leading zeros, which an argument may have, are not allowed in TOML.
            text.parse::<u64>().map_or_else(|_| quoted(text), |number| number.to_string())
        }
        _ => quoted(texts.last().copied().unwrap_or_default()),
    }
}

/// Returns a text in quotation marks, escaped for TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            _ if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(letter));
            }
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::declare::DECLARATIONS;
    use super::super::kind::SUFFIXED;
    use super::super::settings::{Layer, Source};
    use super::super::{Options, file};
    use super::*;

    /// Most random combinations of options conflict.
    const ROUNDS: u64 = 1024;

    /// The settings of these layers; none if they conflict.
    fn laid(file: Layer, arguments: Layer) -> Option<Settings> {
        let layers = [
            (Source::File, file),
            (Source::Environment, Layer::default()),
            (Source::Arguments, arguments),
        ];
        Settings::new(layers, None).ok()
    }

    /// The settings of a file with this text.
    fn read(text: &str) -> Settings {
        let file = file::parse(text.as_bytes(), "f");
        assert_eq!(file.errors, [""; 0], "{text}");
        laid(file.layer, Layer::default()).expect("it goes together")
    }

    #[test]
    fn a_printed_file_gives_the_same_options() {
        let default = read("");
        assert_eq!(default.options, Options::default());
        assert_eq!(read(&config(&default)).options, Options::default());
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        println!("seed {seed}");
        let mut rounds = 0;
        for round in 0..ROUNDS {
            // Every option is set in half of the rounds, to an unusual value.
            let drawn = seed.wrapping_add(round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut layer = Layer::default();
            let keys = DECLARATIONS.iter().filter(|known| is_key(known));
            for (number, known) in keys.enumerate() {
                let is_said = drawn.wrapping_mul(number as u64 * 2 + 1) >> 63;
                if is_said == 1 {
                    layer.add(known, unusual(known), known.long).expect("a good value");
                }
            }
            let Some(settings) = laid(Layer::default(), layer) else { continue };
            rounds += 1;
            let text = config(&settings);
            assert_eq!(read(&text).options, settings.options, "{text}");
        }
        assert!(rounds > 3, "hardly anything went together: {rounds}");
    }

    /// A value other than the default, with letters that have to be escaped if any text is allowed.
    fn unusual(declaration: &Declaration) -> &'static str {
        match (declaration.long, declaration.kind) {
            ("udp-port", _) => "0",
            ("port" | "conn-limit", _) => "007",
            ("slab-growth-factor", _) => "1.5",
            ("hot-target", _) => "0.5",
            ("unix-mask", _) => "070",
            ("policy", _) => "lru",
            ("index", _) => "tree",
            ("layout", _) => "split",
            ("measure-costs" | "compressed", _) => "off",
            ("quota", _) => "a \"b:=1k,c=0.5%",
            ("flash", _) => "a \"b\":2m",
            ("flash-reads", _) => "threads",
            ("flash-write-limit", _) => "40g/d",
            ("protocol", _) => "ascii",
            ("stat-prefix-delimiter", _) => "\"",
            ("cache-geometry", _) => "6x2048x20x64",
            ("extended", _) => "slab_reassign,no_lru_crawler,hot_lru_pct=10",
            ("memory-limit" | "max-item-size", _) => "2m",
            ("ssl-verify-mode", _) => "2",
            ("ssl-min-version", _) => "3",
            ("ssl-keyformat", _) => "DER",
            ("ssl-ciphers", _) => "ECDHE-RSA-AES128-GCM-SHA256",
            ("redis-tls", _) => "off",
            (_, Kind::Switch(_)) => "true",
            (_, Kind::Count(_)) => "3",
            (_, Kind::Number { unit, .. }) if SUFFIXED.contains(&unit) => "1k",
            (_, Kind::Number { .. }) => "01024",
            _ => "a \"b\\c\" = #\u{7f}\u{1}\u{e4}\n\t{}",
        }
    }

    #[test]
    fn every_example_stands_behind_its_explanation() {
        let text = config(&read("memory-limit = 7"));
        assert!(text.contains("# Set by: file.\nmemory-limit = 7\n"), "{text}");
        assert!(text.contains("\n#port = 11211\n"));
        for known in DECLARATIONS.iter().filter(|known| is_key(known)) {
            assert!(text.contains(&format!("{} = ", known.long)), "{}", known.long);
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn the_file_of_the_package_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/larder.toml");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == config(&read("")),
            "make it: larder --print-config > deploy/larder.toml"
        );
        let file = file::read(
            std::path::Path::new(path).with_file_name("kubernetes/larder.toml").as_path(),
        );
        assert_eq!(file.errors, [""; 0]);
    }

    /// Uncommenting a line that shows a default changes nothing.
    #[test]
    fn the_defaults_that_are_shown_are_those_that_hold() {
        let text = config(&read(""));
        let line = |known: &Declaration| format!("#{} = ", known.long);
        for known in DECLARATIONS.iter().filter(|known| is_key(known) && known.default.is_some()) {
            let shown = text.lines().find(|shown| shown.starts_with(&line(known)));
            let shown = shown.unwrap_or_else(|| panic!("no {}", known.long));
            let mut options = read(&shown[1..]).options;
            options.warnings.clear();
            assert_eq!(options, Options::default(), "{shown}");
        }
    }
}
