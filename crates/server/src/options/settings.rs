//! What is said of the options, by whom, and what holds of it.
//!
//! A [`Layer`] holds what one place says: for each option the texts to apply, one for most, as
//! many as there are for a list, as often as it counts for `verbose`, and none for a switch that is
//! off. Of the layers the last that speaks of an option is followed, for this option alone; its
//! texts replace those below, they never add to them. So an empty list and a switch that is off
//! mean something in every place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::declare::DECLARATIONS;
use super::kind::{COUNT_MAX, Declaration, Kind};
use super::{Options, UsageError, extended, idle};

/// Where a value comes from. Those further down go before those above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The file of `--config`.
    File,
    /// A variable.
    Environment,
    /// The command line.
    Arguments,
    /// A command while the server serves.
    Client,
}

impl Source {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Environment => "environment",
            Self::Arguments => "arguments",
            Self::Client => "client",
        }
    }
}

/// What one place says: the texts for each option, by its long name.
#[derive(Debug, Default)]
pub struct Layer {
    texts: BTreeMap<&'static str, Vec<String>>,
    /// What [`extended::ALONE`] has said.
    alone: Option<String>,
}

impl Layer {
    /// Adds what is said of one option, or tells what is wrong with it. `name` is the option as
    /// the user has written it.
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
                // More than the most is the most, or what is printed would be refused as a file.
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

    /// `-o`: one entry after the other; some are options of our own.
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

    /// Refuses another device for flash: less than half of what is asked for would be there.
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

    /// Says that a list is there, even if nothing is in it.
    pub fn begin_list(&mut self, declaration: &'static Declaration) {
        self.texts.entry(declaration.long).or_default();
    }

    /// Whether something is said of this option.
    pub fn speaks_of(&self, declaration: &'static Declaration) -> bool {
        self.texts.contains_key(declared(declaration).long)
    }

    /// The last text that is said of this option.
    pub fn last(&self, long: &str) -> Option<&str> {
        self.texts.get(long)?.last().map(String::as_str)
    }
}

/// What holds.
#[derive(Debug, PartialEq)]
pub struct Settings {
    /// As the server takes it.
    pub options: Options,
    /// The file that was read.
    pub file: Option<PathBuf>,
    chosen: BTreeMap<&'static str, (Source, Vec<String>)>,
}

impl Settings {
    /// Lays one layer over the other.
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

    /// What is said of an option, and where; `None` where the default holds.
    pub fn chosen(&self, declaration: &Declaration) -> Option<(Source, &[String])> {
        let (source, texts) = self.chosen.get(declaration.long)?;
        Some((*source, texts))
    }

    /// Takes over what `newer` ones say of one option. What the options are together stays as it
    /// was at the start.
    pub fn take_over(&mut self, declaration: &'static Declaration, newer: &Self) {
        match newer.chosen.get(declaration.long) {
            Some(chosen) => drop(self.chosen.insert(declaration.long, chosen.clone())),
            None => drop(self.chosen.remove(declaration.long)),
        }
    }

    /// The options in which these settings and `newer` ones differ by what they mean.
    pub fn changes(&self, newer: &Self) -> Vec<&'static Declaration> {
        let differs = |known: &&'static Declaration| self.alone(known) != newer.alone(known);
        DECLARATIONS.iter().filter(differs).collect()
    }

    /// Takes over what holds of one option because a client has said so.
    pub fn hold(&mut self, long: &'static str, texts: Vec<String>) {
        let declaration = find(long).expect("what a client changes is declared");
        let mut held = Options::default();
        apply(declaration, &mut held, &texts);
        // What means the same stays as it was written.
        if held != self.alone(declaration) {
            self.chosen.insert(long, (Source::Client, texts));
        }
    }

    /// Options of which nothing is said but this one.
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

/// Says which addresses of TCP were asked for and are not listened on. memcached's way to say that
/// there shall be none, port 0, is heard; and those of `-l` are still those of Redis' clients.
fn warn_beside_unix(options: &mut Options, is_said: impl Fn(&str) -> bool) {
    let is_port_idle = is_said("port") && options.port != 0;
    let is_listen_idle = !options.listen.is_empty() && options.redis_port == 0;
    for (long, is_idle) in [("port", is_port_idle), ("listen", is_listen_idle)] {
        if is_idle {
            options.warnings.push(format!("--{long} has no effect beside --unix-socket"));
        }
    }
}

/// The option with this long name.
pub fn find(long: &str) -> Option<&'static Declaration> {
    DECLARATIONS.iter().find(|known| known.long == long)
}

/// The option itself, for another name of it.
fn declared(declaration: &'static Declaration) -> &'static Declaration {
    match declaration.kind {
        Kind::Alias(long) => find(long).expect("an alias names an option"),
        _ => declaration,
    }
}

/// Whether a switch is on. Given without a value it is.
fn switch(value: &str) -> Result<bool, String> {
    match value {
        "" | "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!(" takes true or false, not {value}")),
    }
}

/// How often something counts.
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
        // One that says nothing of an option leaves it as it is.
        assert_eq!(options(&[one], &[("threads", "2")], &[]).port, 1);
    }

    #[test]
    fn what_goes_before_replaces_and_does_not_add() {
        let said = options(&[("listen", "a,b"), ("listen", "c")], &[], &[("listen", "d")]);
        assert_eq!(said.listen, ["d"]);
        assert_eq!(options(&[("listen", "a,b"), ("listen", "c")], &[], &[]).listen.len(), 3);
        assert_eq!(options(&[("verbose", "3")], &[], &[("verbose", "")]).verbosity, 1);
        assert!(options(&[("disable-cas", "true")], &[], &[("disable-cas", "false")]).cas);
        // An extended option is the option of our own that it stands for.
        let waits = [("disable-maxconns-fast", "true")];
        assert!(!options(&waits, &[], &[]).connections_fast);
        assert!(options(&waits, &[], &[("extended", "maxconns_fast")]).connections_fast);
    }

    /// Only the last was used, and nobody said so.
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
        // One place goes before another, as ever.
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

    /// A server that listens on less than it was asked to did not say so.
    #[test]
    fn addresses_beside_a_unix_socket_are_said_to_have_no_effect() {
        let socket = ("unix-socket", "/s");
        let warnings = |said: Said<'_>| options(&[socket], &[], said).warnings;
        let idle = |long: &str| format!("--{long} has no effect beside --unix-socket");
        assert_eq!(warnings(&[]), [""; 0]);
        assert_eq!(warnings(&[("port", "11211")]), [idle("port")]);
        let both = [("listen", "0.0.0.0"), ("port", "7")];
        assert_eq!(warnings(&both), [idle("port"), idle("listen")]);
        // Redis' clients come there.
        let redis = [("listen", "0.0.0.0"), ("redis-port", "6379")];
        assert_eq!(warnings(&redis), [""; 0]);
        assert_eq!(warnings(&[("port", "0")]), [""; 0], "as in memcached, no port is what it says");
        assert_eq!(options(&[], &[], &both).warnings, [""; 0]);
    }

    #[test]
    fn what_does_not_go_together_is_refused_wherever_it_stands() {
        assert!(laid(&[("flash", "/f:2m")], &[], &[("memory-file", "/m")]).is_err());
    }
}
