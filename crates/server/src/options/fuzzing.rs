//! Invariants of any options: the body of the fuzz target.

use super::settings::{Layer, Settings, Source};
use super::{UsageError, arguments, environment, file, print};

/// Separates the file, the arguments and the variables.
const END: char = '\u{1e}';

/// Checks that a file, arguments and variables of any bytes are refused in words, or are options;
/// and that the output of `--print-config`, read as a file, gives the same options.
pub fn options(input: &[u8]) {
    let mut parts = input.splitn(3, |byte| *byte == END as u8);
    let file = file::parse(parts.next().unwrap_or_default(), "f");
    assert!(file.errors.iter().all(|error| error.starts_with("f:") && error.len() > 6));
    let mut lines = || {
        let part = String::from_utf8_lossy(parts.next().unwrap_or_default());
        part.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let arguments = match arguments::read(&lines()) {
        Ok(arguments) => arguments.layer,
        Err(UsageError(text)) => return assert!(!text.is_empty()),
    };
    let lines = lines();
    let named = lines.iter().filter_map(|line| line.split_once('='));
    // As from the environment, whose other variables are ignored.
    let own = named.filter(|(name, _)| environment::is_variable(name));
    let variables: Vec<_> = own.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let environment = environment::read(&variables);
    if !file.errors.is_empty() || !environment.errors.is_empty() {
        return;
    }
    let layers = [
        (Source::File, file.layer),
        (Source::Environment, environment.layer),
        (Source::Arguments, arguments),
    ];
    let settings = match Settings::new(layers, None) {
        Ok(settings) => settings,
        Err(UsageError(text)) => return assert!(!text.is_empty()),
    };
    let printed = print::config(&settings);
    let again = file::parse(printed.as_bytes(), "f");
    assert_eq!(again.errors, [""; 0]);
    let layers = [
        (Source::File, again.layer),
        (Source::Environment, Layer::default()),
        (Source::Arguments, Layer::default()),
    ];
    let again = Settings::new(layers, None).expect("it goes together");
    assert_eq!(again.options, settings.options);
    assert!(settings.changes(&again).is_empty());
}
