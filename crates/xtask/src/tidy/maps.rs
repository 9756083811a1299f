//! The map at the top of a crate: the opening of `lib.rs` or `main.rs` names every module, so that
//! a reader finds each room from there. Modules of tests need no place on it.

use super::Findings;
use super::source::{Source, has_word};

/// Checks that each `mod x;` of a crate's root occurs in its opening.
pub fn modules(source: &Source, findings: &mut Findings) {
    let is_opening = |text: &str| text.starts_with("//!");
    let opening: String = source
        .lines
        .iter()
        .map(|line| line.text.as_str())
        .filter(|text| is_opening(text))
        .flat_map(|text| [text, "\n"])
        .collect();
    for (index, line) in source.lines.iter().enumerate().filter(|(_, line)| !line.test) {
        let Some(name) = declared(&line.code) else {
            continue;
        };
        if !has_word(&opening, name) {
            let message = format!("the opening says nothing of `{name}`: give it a place there");
            findings.error(&source.path, index + 1, &message);
        }
    }
}

/// The module that a line declares, if its content is in another file.
fn declared(code: &str) -> Option<&str> {
    let (before, name) = code.trim().strip_suffix(';')?.split_once("mod ")?;
    let is_visibility = before.is_empty() || before.starts_with("pub");
    is_visibility.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        modules(&Source::new("crates/x/src/lib.rs", text), &mut findings);
        findings.errors
    }

    #[test]
    fn a_module_without_a_place_in_the_opening_is_found() {
        let opening = "//! The rooms: `near` and [`far`].\n\n";
        assert_eq!(errors(&format!("{opening}mod near;\npub(crate) mod far;\n")).len(), 0);
        let missing = errors(&format!("{opening}mod near;\npub mod nearby;\n"));
        assert_eq!(missing.len(), 1, "{missing:?}");
        assert!(missing[0].starts_with("crates/x/src/lib.rs:4:"), "{missing:?}");
        assert!(missing[0].contains("`nearby`"), "{missing:?}");
    }

    #[test]
    fn tests_and_modules_with_a_body_need_no_place() {
        let text = "//! A room.\n#[cfg(test)]\nmod tests;\nmod inner {\n}\n";
        assert_eq!(errors(text), Vec::<String>::new());
    }
}
