//! The reference of all options, `docs/options.md`, as Markdown.

use std::fmt::Write;

use super::environment::variable;
use super::extended::FOLLOWED;
use super::groups::GROUPS;
use super::kind::{COUNT_MAX, Declaration, Kind};
use super::print;
use super::settings::find;
use crate::reload;

const OPENING: &str = r#"# Options

Every option can be given as an argument, an environment variable, or a key of a file. This page is
generated from the table that the program itself uses: `larder --print-options-reference`.

Arguments override variables, and variables override the file. A value replaces, and never extends,
the one it overrides: an argument `-l` replaces the whole list of the file.
`--disable-cas=false` turns a switch off again.

- **Arguments** follow getopt: `-m64`, `-m 64`, `--memory-limit=64`, or any unambiguous beginning of
  a long name. Numbers of bytes, connections and requests may end in k, m or g, for 1024, its square
  and its cube, and `-m`, which is in megabytes, is then in bytes; numbers of seconds, ports and
  threads may not.
- **Variables** begin with `LARDER_`. A switch is `true` or `false`, a list is separated by commas.
  A variable that names no option is reported at the start and ignored. Variables that Kubernetes
  sets for a service called larder are not taken for options.
- **The file** is TOML, given by `--config FILE` or `LARDER_CONFIG`; by default none is read. Keys
  are the long names, at the top level. Numbers are numbers or the string that an argument would be
  (`"2m"`), switches are booleans, lists are arrays. An unknown key, a wrong type or a value out of
  range is an error with line and column. `larder --check --config FILE` reports all errors and
  exits with 0, or with 64 if there are any, without opening or binding anything.
  `larder --print-config` prints a complete file with the values in effect.

SIGHUP reads the file again. Options that can change at run time are applied, with one line in the
log for each; the line for any other change says that it needs a restart. Values that a client has
changed with `cache_memlimit` or `verbosity` are reset to the options. A file with an error changes
no option.
"#;

/// Returns the page.
pub fn page() -> String {
    let mut text = OPENING.to_owned();
    for group in GROUPS {
        let _ = write!(text, "\n## {}\n", group.title);
        for declaration in group.longs.iter().filter_map(|long| find(long)) {
            describe(&mut text, declaration);
        }
    }
    text
}

/// Writes one option.
fn describe(text: &mut String, declaration: &Declaration) {
    let long = declaration.long;
    let _ = write!(text, "\n### `--{long}`\n\n");
    print::wrap(text, "", declaration.reason);
    text.push_str("\n| | |\n| --- | --- |\n");
    let mut row = |name: &str, value: String| {
        // A bar would end the cell.
        let _ = writeln!(text, "| {name} | {} |", value.replace('|', "\\|"));
    };
    row("takes", takes(declaration));
    if let Some(default) = declaration.default {
        row("default", format!("`{default}`"));
    }
    if matches!(declaration.kind, Kind::Missing { .. }) {
        row("state", "not implemented yet".to_owned());
    } else if declaration.is_setting() {
        if long != "config" && !matches!(declaration.kind, Kind::Alias(_)) {
            row("file", format!("`{long} = {}`", print::default(declaration)));
        }
        row("environment", format!("`{}`", variable(declaration)));
    }
    if reload::is_live(long) {
        row("at run time", "SIGHUP applies the value in the file".to_owned());
    }
    if let Some(theirs) = memcacheds(declaration) {
        row("memcached", theirs);
    }
}

/// Returns what the option takes, in words.
fn takes(declaration: &Declaration) -> String {
    match declaration.kind {
        Kind::Switch(_) | Kind::Print(_) | Kind::Act(_) | Kind::Missing { unit: None } => {
            "nothing".to_owned()
        }
        Kind::Count(_) => format!("nothing, repeatable; a number up to {COUNT_MAX} elsewhere"),
        Kind::Number { min, max, .. } if min == max => format!("only {min}"),
        Kind::Number { unit, min, max, .. } => format!("{unit}, {min} to {max}"),
        Kind::Text { unit, .. } | Kind::Missing { unit: Some(unit) } => format!("`{unit}`"),
        Kind::List { unit, .. } => format!("`{unit}`, repeatable"),
        Kind::Alias(other) => format!("the same as [`--{other}`](#--{other})"),
    }
}

/// Returns the names of the same option in memcached.
fn memcacheds(declaration: &Declaration) -> Option<String> {
    if let Some(letter) = declaration.short {
        return Some(format!("`-{letter}`, `--{}`", declaration.long));
    }
    let mut names = FOLLOWED.iter().filter(|(_, long)| *long == declaration.long);
    let first = names.next().map(|(name, _)| format!("`-o {name}`"))?;
    Some(names.fold(first, |all, (name, _)| format!("{all}, `-o {name}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "make it: larder --print-options-reference > docs/options.md");
    }

    /// Regression: quotas were missing on that page.
    #[test]
    fn the_page_about_compatibility_names_each_option_of_larders_own() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        let is_row = |line: &&str| line.starts_with("| Larder's own | `--");
        let row = written.lines().find(is_row);
        let row = row.expect("the table of options has a row for these");
        for declaration in GROUPS.iter().flat_map(|group| group.longs).filter_map(|it| find(it)) {
            let name = format!("`--{}`", declaration.long);
            assert!(row.contains(&name) || memcacheds(declaration).is_some(), "{name}");
        }
    }

    #[test]
    fn followed_options_of_memcached_are_declared() {
        for (name, long) in FOLLOWED {
            assert!(find(long).is_some(), "{name}");
        }
    }
}
