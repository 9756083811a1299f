//! The members that pages name: each `Type::member` in backticks is one that the sources have, so
//! that a page does not outlive a name.
//!
//! The sources are not parsed. A block that begins with `struct`, `enum`, `trait` or `impl` counts
//! for each type in its head, and has as members what stands behind `fn` or `const`, in front of a
//! colon, or capitalised at the beginning of a part. That takes a few words too many, and misses no
//! member but those that macros make.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use super::source::{Source, find_word};

/// Words that open a block whose members count.
const OPENINGS: &[&str] = &["struct", "enum", "trait", "impl"];
/// Members of other people's types that pages name.
const FOREIGN: &[&str] = &["Cache::add()"];
/// Lines that a head may have.
const HEAD_LINES_MAX: usize = 12;

/// The members of each type.
#[derive(Default)]
pub struct Members {
    of: BTreeMap<String, BTreeSet<String>>,
    /// Other names of types, and what they stand for.
    aliases: BTreeMap<String, BTreeSet<String>>,
}

impl Members {
    /// Adds the types of a source file.
    pub fn collect(&mut self, source: &Source) {
        for (first, line) in source.lines.iter().enumerate() {
            let code = without_visibility(&line.code);
            for (target, alias) in aliases(&code) {
                self.aliases.entry(alias.to_string()).or_default().insert(target.to_string());
            }
            if !OPENINGS.iter().any(|word| begins_with(&code, word)) {
                continue;
            }
            let last = source.block_end(first);
            let lines = &source.lines[first..=last];
            let head: Vec<&str> =
                lines.iter().take(HEAD_LINES_MAX).map(|line| line.code.as_str()).collect();
            let head = head.join(" ");
            let head = head.split(['{', ';']).next().unwrap_or_default();
            let members: BTreeSet<String> =
                lines.iter().flat_map(|line| members_of(&line.code)).collect();
            for name in words(head).filter(|name| name.starts_with(char::is_uppercase)) {
                self.of.entry(name.to_string()).or_default().extend(members.iter().cloned());
            }
        }
    }

    fn has(&self, name: &str, member: &str) -> bool {
        let targets = self.aliases.get(name).into_iter().flatten().map(String::as_str);
        let mut types = targets.chain([name]).filter_map(|name| self.of.get(name));
        types.any(|members| members.contains(member))
    }

    /// Checks the members that a page names.
    pub fn check(&self, page: &str, text: &str, findings: &mut Findings) {
        for (index, line) in text.lines().enumerate() {
            for named in line.split('`').skip(1).step_by(2) {
                if FOREIGN.contains(&named) {
                    continue;
                }
                let Some((name, member)) = member_named(named) else {
                    continue;
                };
                if !self.has(name, member) {
                    let message = format!("no `{name}` has a `{member}`; name what the code has");
                    findings.error(page, index + 1, &message);
                }
            }
        }
    }
}

/// `Type::member`, with whatever may follow a member, and nothing else.
fn member_named(named: &str) -> Option<(&str, &str)> {
    let (name, rest) = named.split_once("::")?;
    let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
    let (member, behind) = rest.split_at(end);
    let is_type = name.starts_with(char::is_uppercase) && name.chars().all(is_word);
    let is_alone = behind.is_empty() || behind.starts_with(['(', '[']);
    (is_type && is_alone && !member.is_empty()).then_some((name, member))
}

/// Types that a line gives another name, as in `use path::Target as Alias`. A cast is none, since
/// the types that there are casts to begin with a small letter.
fn aliases(code: &str) -> Vec<(&str, &str)> {
    let is_type = |word: &str| word.starts_with(char::is_uppercase);
    let words: Vec<&str> = words(code).collect();
    let pairs = words.windows(3).filter(|it| is_type(it[0]) && it[1] == "as" && is_type(it[2]));
    pairs.map(|it| (it[0], it[2])).collect()
}

fn members_of(code: &str) -> Vec<String> {
    let code = without_visibility(code);
    let mut found = Vec::new();
    for part in code.split(['{', '}', ',', ';', '(']).map(str::trim) {
        let behind = ["fn", "const"].iter().find_map(|word| {
            let at = find_word(part, word)?;
            part[at + word.len()..].trim_start().split(|letter| !is_word(letter)).next()
        });
        let end = part.find(|letter| !is_word(letter)).unwrap_or(part.len());
        let (first, rest) = part.split_at(end);
        let is_field = rest.starts_with(':') && !rest.starts_with("::");
        let is_variant = first.starts_with(char::is_uppercase) && !rest.starts_with("::");
        found.extend(behind.filter(|name| !name.is_empty()).map(str::to_string));
        if !first.is_empty() && (is_field || is_variant) {
            found.push(first.to_string());
        }
    }
    found
}

fn without_visibility(code: &str) -> String {
    code.trim_start().replace("pub(crate) ", "").replace("pub(super) ", "").replace("pub ", "")
}

fn begins_with(code: &str, word: &str) -> bool {
    let code = code.strip_prefix("unsafe ").unwrap_or(code);
    code.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '<']))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter| !is_word(letter)).filter(|word| !word.is_empty())
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! A.
pub struct Door {
    pub(crate) handle: u8,
}
impl<T: Opens> Door {
    pub const fn open(&self) {
        other::shut()
    }
}
impl Drop
    for Door
{
    fn drop(&mut self) {}
}
enum Way {
    In,
    Out { wide: bool },
}
pub use door::{Frame, Door as Gate};
";

    fn errors(page: &str) -> Vec<String> {
        let mut members = Members::default();
        members.collect(&Source::new("crates/x/src/door.rs", SOURCE));
        let mut findings = Findings::default();
        members.check("docs/a.md", page, &mut findings);
        findings.errors
    }

    #[test]
    fn members_that_the_sources_have_pass() {
        let page = "`Door::handle`, `Door::open()`, `Door::drop`, `Way::In`, `Way::Out`,\n\
                    `Gate::open`, `Door::handle[i]`, `door::Door`, `Door::open().and()`\n";
        assert_eq!(errors(page), Vec::<String>::new());
    }

    #[test]
    fn a_member_that_no_source_has_is_found() {
        for named in ["`Door::shut`", "`Window::open`", "`Way::open`"] {
            let found = errors(&format!("a {named} b\n"));
            assert_eq!(found.len(), 1, "{named}: {found:?}");
        }
    }
}
