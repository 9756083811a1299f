//! The options as set in each place, and the settings that result.
//!
//! A [`Layer`] holds the options of one place: for each option the texts to apply, one for most,
//! one per entry for a list, one per count for `verbose`, and none for a switch that is off. For
//! each option the last layer that sets it applies; its texts replace those of the layers before,
//! and are never added to them. So an empty list and a switch that is off mean something in every
//! place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::declare::DECLARATIONS;
use super::kind::{COUNT_MAX, Declaration, Kind};
use super::{Options, UsageError, extended, idle};

/// Where a value comes from. Later variants override earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The file of `--config`.
    File,
    /// An environment variable.
    Environment,
    /// The command line.
    Arguments,
    /// A client command at run time.
    Client,
}

impl Source {
    /// Returns the name for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Environment => "environment",
            Self::Arguments => "arguments",
            Self::Client => "client",
        }
    }
}

/// The options set in one place: the texts for each option, by its long name.
#[derive(Debug, Default)]
pub struct Layer {
    texts: BTreeMap<&'static str, Vec<String>>,
    /// The value of [`extended::ALONE`].
    alone: Option<String>,
}

impl Layer {
    /// Adds the value of one option, or returns what is wrong with it. `name` is the option as the
    /// user wrote it.
    pub fn add(
        &mut self,
        declaration: &'static Declaration,
        value: &str,
        name: &str,
    ) -> Result<(), String> {
        let declaration = declared(declaration);
        if declaration.long == "extended" {
            return self.add_extended(declaration, value, name);
        }
        let texts = match declaration.kind {
            Kind::Switch(_) => switch(value).map(|is_on| vec![String::new(); usize::from(is_on)]),
            Kind::Count(_) if value.is_empty() => {
                let texts = self.texts.entry(declaration.long).or_default();
                // Capped at the maximum, or the printed file would be refused.
                texts.resize((texts.len() + 1).min(COUNT_MAX), String::new());
                return Ok(());
            }
            Kind::Count(_) => count(value).map(|count| vec![String::new(); count]),
            _ => declaration.apply(&mut Options::default(), value).map(|()| vec![value.to_owned()]),
        };
        let texts = texts.map_err(|text| format!("{name}{text}"))?;
        match declaration.kind {
            Kind::List { .. } => self.texts.entry(declaration.long).or_default().extend(texts),
            _ => drop(self.texts.insert(declaration.long, texts)),
        }
        Ok(())
    }

    /// Adds `-o`, one entry after the other; some are options with names of their own.
    fn add_extended(
        &mut self,
        declaration: &'static Declaration,
        list: &str,
        name: &str,
    ) -> Result<(), String> {
        for entry in list.split(',').filter(|entry| !entry.is_empty()) {
            if let Some((long, value)) = extended::followed(entry) {
                self.check_alone(entry, value, name)?;
                let own = find(long).expect("what is followed is declared");
                self.add(own, value, &format!("{name}: {long}"))?;
                continue;
            }
            declaration
                .apply(&mut Options::default(), entry)
                .map_err(|text| format!("{name}{text}"))?;
            self.texts.entry(declaration.long).or_default().push(entry.to_owned());
        }
        Ok(())
    }

    /// Refuses a second device for flash: only one of them would be used.
    fn check_alone(&mut self, entry: &str, value: &str, name: &str) -> Result<(), String> {
        if entry.split('=').next() != Some(extended::ALONE) {
            return Ok(());
        }
        match self.alone.replace(value.to_owned()) {
            Some(before) if before != value => Err(format!(
                "{name}: flash is one file or device, and {} names {before} and {value}",
                extended::ALONE
            )),
            _ => Ok(()),
        }
    }

    /// Notes that a list is set, even if it is empty.
    pub fn begin_list(&mut self, declaration: &'static Declaration) {
        self.texts.entry(declaration.long).or_default();
    }

    /// Whether this option is set.
    pub fn speaks_of(&self, declaration: &'static Declaration) -> bool {
        self.texts.contains_key(declared(declaration).long)
    }

    /// Returns the last text of this option.
    pub fn last(&self, long: &str) -> Option<&str> {
        self.texts.get(long)?.last().map(String::as_str)
    }
}

/// The settings in effect.
#[derive(Debug, PartialEq)]
pub struct Settings {
    /// The options, as the server reads them.
    pub options: Options,
    /// The file that was read.
    pub file: Option<PathBuf>,
    chosen: BTreeMap<&'static str, (Source, Vec<String>)>,
}

impl Settings {
    /// Merges the layers; later ones override earlier ones.
    pub fn new(layers: [(Source, Layer); 3], file: Option<&Path>) -> Result<Self, UsageError> {
        let mut chosen = BTreeMap::new();
        for (source, layer) in layers {
            for (long, texts) in layer.texts {
                chosen.insert(long, (source, texts));
            }
        }
        let mut options = Options::default();
        for (long, (_, texts)) in &chosen {
            let declaration = find(long).expect("a layer holds what is declared");
            apply(declaration, &mut options, texts);
        }
        options.settle()?;
        if options.unix_path.is_some() {
            warn_beside_unix(&mut options, |long| chosen.contains_key(long));
        }
        let mut settings = Self { options, file: file.map(Path::to_owned), chosen };
        let is_said = |long: &str| {
            let declaration = find(long).expect("what needs something is declared");
            settings.alone(declaration) != Options::default()
        };
        let idle = idle::warnings(&settings.options, is_said);
        settings.options.warnings.extend(idle);
        Ok(settings)
    }

    /// Returns the texts of an option and their source; `None` if the default applies.
    pub fn chosen(&self, declaration: &Declaration) -> Option<(Source, &[String])> {
        let (source, texts) = self.chosen.get(declaration.long)?;
        Some((*source, texts))
    }

    /// Takes the value of one option from `newer` settings. `options` stays as it was at the start.
    pub fn take_over(&mut self, declaration: &'static Declaration, newer: &Self) {
        match newer.chosen.get(declaration.long) {
            Some(chosen) => drop(self.chosen.insert(declaration.long, chosen.clone())),
            None => drop(self.chosen.remove(declaration.long)),
        }
    }

    /// Returns the options whose meaning differs between these settings and `newer` ones.
    pub fn changes(&self, newer: &Self) -> Vec<&'static Declaration> {
        let differs = |known: &&'static Declaration| self.alone(known) != newer.alone(known);
        DECLARATIONS.iter().filter(differs).collect()
    }

    /// Records the value of one option that a client has set.
    pub fn hold(&mut self, long: &'static str, texts: Vec<String>) {
        let declaration = find(long).expect("what a client changes is declared");
        let mut held = Options::default();
        apply(declaration, &mut held, &texts);
        // An equal value stays as it was written.
        if held != self.alone(declaration) {
            self.chosen.insert(long, (Source::Client, texts));
        }
    }

    /// Returns default options with only this one set.
    fn alone(&self, declaration: &Declaration) -> Options {
        let mut options = Options::default();
        if let Some((_, texts)) = self.chosen(declaration) {
            apply(declaration, &mut options, texts);
        }
        options
    }
}

/// Applies texts that a layer has checked.
fn apply(declaration: &Declaration, options: &mut Options, texts: &[String]) {
    for text in texts {
        declaration.apply(options, text).expect("a layer holds what was checked");
    }
}

/// Warns of TCP addresses that were set and are not listened on. Port 0, memcached's way to ask for
/// none, gives no warning; and the addresses of `-l` still serve Redis clients.
fn warn_beside_unix(options: &mut Options, is_said: impl Fn(&str) -> bool) {
    let is_port_idle = is_said("port") && options.port != 0;
    let is_listen_idle = !options.listen.is_empty() && options.redis_port == 0;
    for (long, is_idle) in [("port", is_port_idle), ("listen", is_listen_idle)] {
        if is_idle {
            options.warnings.push(format!("--{long} has no effect beside --unix-socket"));
        }
    }
}

/// Returns the option with this long name.
pub fn find(long: &str) -> Option<&'static Declaration> {
    DECLARATIONS.iter().find(|known| known.long == long)
}

/// Resolves an alias to its option.
fn declared(declaration: &'static Declaration) -> &'static Declaration {
    match declaration.kind {
        Kind::Alias(long) => find(long).expect("an alias names an option"),
        _ => declaration,
    }
}

/// Parses a switch. Without a value it is on.
fn switch(value: &str) -> Result<bool, String> {
    match value {
        "" | "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!(" takes true or false, not {value}")),
    }
}

/// Parses a count.
fn count(value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(count) if count <= COUNT_MAX => Ok(count),
        _ => Err(format!(" takes a number from 0 to {COUNT_MAX}, not {value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Said<'a> = &'a [(&'a str, &'a str)];

    fn layer(said: Said<'_>) -> Layer {
        let mut layer = Layer::default();
        for (long, value) in said {
            layer.add(find(long).expect("declared"), value, long).expect("a good value");
        }
        layer
    }

    fn laid(file: Said<'_>, environment: Said<'_>, said: Said<'_>) -> Result<Settings, UsageError> {
        let layers = [
            (Source::File, layer(file)),
            (Source::Environment, layer(environment)),
            (Source::Arguments, layer(said)),
        ];
        Settings::new(layers, None)
    }

    fn options(file: Said<'_>, environment: Said<'_>, said: Said<'_>) -> Options {
        laid(file, environment, said).expect("what goes together").options
    }

    #[test]
    fn an_argument_goes_before_a_variable_and_that_before_the_file() {
        let (one, two, three) = (("port", "1"), ("port", "2"), ("port", "3"));
        assert_eq!(options(&[one], &[two], &[three]).port, 3);
        assert_eq!(options(&[one], &[two], &[]).port, 2);
        assert_eq!(options(&[one], &[], &[]).port, 1);
        assert_eq!(options(&[], &[], &[]).port, 11_211);
        // A layer that does not set an option leaves it unchanged.
        assert_eq!(options(&[one], &[("threads", "2")], &[]).port, 1);
    }

    #[test]
    fn a_later_layer_replaces_and_does_not_add() {
        let said = options(&[("listen", "a,b"), ("listen", "c")], &[], &[("listen", "d")]);
        assert_eq!(said.listen, ["d"]);
        assert_eq!(options(&[("listen", "a,b"), ("listen", "c")], &[], &[]).listen.len(), 3);
        assert_eq!(options(&[("verbose", "3")], &[], &[("verbose", "")]).verbosity, 1);
        assert!(options(&[("disable-cas", "true")], &[], &[("disable-cas", "false")]).cas);
        // An extended option is its counterpart.
        let waits = [("disable-maxconns-fast", "true")];
        assert!(!options(&waits, &[], &[]).connections_fast);
        assert!(options(&waits, &[], &[("extended", "maxconns_fast")]).connections_fast);
    }

    /// Regression: only the last was used, without a message.
    #[test]
    fn a_second_device_of_flash_is_refused() {
        let refusal = |entries: &[&str]| {
            let (mut layer, extended) = (Layer::default(), find("extended").expect("declared"));
            entries.iter().find_map(|entry| layer.add(extended, entry, "-o").err())
        };
        let text = "-o: flash is one file or device, and ext_path names /a:2m and /b:2m";
        for two in [&["ext_path=/a:2m", "ext_path=/b:2m"][..], &["ext_path=/a:2m,ext_path=/b:2m"]] {
            assert_eq!(refusal(two).as_deref(), Some(text));
        }
        assert_eq!(refusal(&["ext_path=/a:2m", "ext_path=/a:2m,ext_threads=2"]), None);
        // One source overrides another, as for any option.
        let flash = |path: &str| format!("ext_path={path}:2m");
        let (file, said) = (flash("/a"), flash("/b"));
        let options = options(&[("extended", &file)], &[], &[("extended", &said)]);
        assert_eq!(options.flash.expect("the last").0, Path::new("/b"));
    }

    #[test]
    fn a_change_is_one_of_what_is_meant() {
        let changed = |one: Said<'_>, two: Said<'_>| {
            let [one, two] =
                [one, two].map(|said| laid(said, &[], &[]).expect("what goes together"));
            one.changes(&two).iter().map(|known| known.long).collect::<Vec<_>>()
        };
        assert_eq!(changed(&[], &[]), [""; 0]);
        assert_eq!(changed(&[("max-item-size", "1m")], &[]), [""; 0]);
        let sizes = [("max-item-size", "1048576"), ("max-item-size", "2m")];
        assert_eq!(changed(&sizes[..1], &sizes[1..]), ["max-item-size"]);
        assert_eq!(changed(&[("verbose", "1")], &[("port", "1")]), ["port", "verbose"]);
    }

    /// Regression: the server listened on fewer addresses than set, without a message.
    #[test]
    fn addresses_beside_a_unix_socket_are_said_to_have_no_effect() {
        let socket = ("unix-socket", "/s");
        let warnings = |said: Said<'_>| options(&[socket], &[], said).warnings;
        let idle = |long: &str| format!("--{long} has no effect beside --unix-socket");
        assert_eq!(warnings(&[]), [""; 0]);
        assert_eq!(warnings(&[("port", "11211")]), [idle("port")]);
        let both = [("listen", "0.0.0.0"), ("port", "7")];
        assert_eq!(warnings(&both), [idle("port"), idle("listen")]);
        // Redis clients connect there.
        let redis = [("listen", "0.0.0.0"), ("redis-port", "6379")];
        assert_eq!(warnings(&redis), [""; 0]);
        assert_eq!(warnings(&[("port", "0")]), [""; 0], "as in memcached, no port is what it says");
        assert_eq!(options(&[], &[], &both).warnings, [""; 0]);
    }

    #[test]
    fn conflicting_options_are_refused_in_any_layer() {
        assert!(laid(&[("flash", "/f:2m")], &[], &[("memory-file", "/m")]).is_err());
    }
}
