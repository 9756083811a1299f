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

Every option can be an argument, a variable of the environment, or a key of a file. This page is
made from the table that the program reads them by: `larder --print-options-reference`.

An argument goes before a variable, and a variable before the file. What goes before replaces: an
argument `-l` takes the place of the file's whole list. `--disable-cas=false` takes back a switch.

- **Arguments** follow getopt: `-m64`, `-m 64`, `--memory-limit=64`, or any beginning of a long name
  that only one option has. Numbers of bytes, connections and requests may end in k, m or g, for
  1024, its square and its cube, and `-m`, which is in megabytes, may then be in bytes; those of
  seconds, ports and threads may not.
- **Variables** begin with `LARDER_`. A switch is `true` or `false`, a list has commas. A variable
  that names no option is reported at the start and passed over. Those that Kubernetes sets for a
  service called larder are not taken for options.
- **The file** is TOML, given by `--config FILE` or `LARDER_CONFIG`; without it none is read. Keys
  are the long names, in no table. Numbers are numbers or the text that an argument would be
  (`"2m"`), switches are booleans, lists are arrays. An unknown key, a wrong type or a value out of
  range is an error with line and column. `larder --check --config FILE` says all of them and ends
  with 0, or with 64 if there are any, without opening or binding anything.
  `larder --print-config` prints a whole file with the values that hold.

SIGHUP reads the file again. What can be changed while it serves is changed, and one line in the
log says so; the line for any other change says that it needs a restart. What a client has changed
with `cache_memlimit` or `verbosity` is then again as the options say. A file with an error changes
no option.
"#;

/// The page.
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

/// One option.
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
        row("state", "not there yet".to_owned());
    } else if declaration.is_setting() {
        if long != "config" && !matches!(declaration.kind, Kind::Alias(_)) {
            row("file", format!("`{long} = {}`", print::default(declaration)));
        }
        row("environment", format!("`{}`", variable(declaration)));
    }
    if reload::is_live(long) {
        row("while it serves", "SIGHUP applies what the file says now".to_owned());
    }
    if let Some(theirs) = memcacheds(declaration) {
        row("memcached", theirs);
    }
}

/// What it takes, in words.
fn takes(declaration: &Declaration) -> String {
    match declaration.kind {
        Kind::Switch(_) | Kind::Print(_) | Kind::Act(_) | Kind::Missing { unit: None } => {
            "nothing".to_owned()
        }
        Kind::Count(_) => format!("nothing, several times; a number up to {COUNT_MAX} elsewhere"),
        Kind::Number { min, max, .. } if min == max => format!("{min} alone"),
        Kind::Number { unit, min, max, .. } => format!("{unit}, {min} to {max}"),
        Kind::Text { unit, .. } | Kind::Missing { unit: Some(unit) } => format!("`{unit}`"),
        Kind::List { unit, .. } => format!("`{unit}`, several times"),
        Kind::Alias(other) => format!("what [`--{other}`](#--{other}) takes"),
    }
}

/// How memcached calls the same.
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

    /// Quotas were missing there for as long as they had been.
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
    fn what_of_memcacheds_is_followed_is_declared() {
        for (name, long) in FOLLOWED {
            assert!(find(long).is_some(), "{name}");
        }
    }
}
