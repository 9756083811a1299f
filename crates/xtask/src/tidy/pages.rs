//! The pages: prose has at most as many columns as code. Tables and blocks of code are excused, and
//! a line whose last word, such as an address, is too long by itself.

use super::Findings;
use super::rules::LINE_COLUMNS_MAX;

/// Checks the lengths of a page's lines.
pub fn lengths(path: &str, text: &str, findings: &mut Findings) {
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let columns = line.chars().count();
        let excused = is_code || line.trim_start().starts_with('|') || is_one_word(line);
        if columns > LINE_COLUMNS_MAX && !excused {
            let message = format!("{columns} columns; break the line at {LINE_COLUMNS_MAX}");
            findings.error(path, index + 1, &message);
        }
    }
}

/// Whether a line holds a single word, perhaps behind the sign of a list.
fn is_one_word(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words.as_slice(), [_] | ["-" | "*" | ">", _])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> usize {
        let mut findings = Findings::default();
        lengths("docs/a.md", text, &mut findings);
        findings.errors.len()
    }

    #[test]
    fn long_prose_is_found_just_above_the_limit() {
        let line = |columns: usize| format!("a {}\n", "x".repeat(columns - 2));
        assert_eq!(errors(&line(100)), 0);
        assert_eq!(errors(&line(101)), 1);
    }

    #[test]
    fn tables_code_and_single_words_may_be_longer() {
        let long = "x".repeat(101);
        assert_eq!(errors(&format!("| {long} | a |\n```\na {long}\n```\n- {long}\n{long}\n")), 0);
        assert_eq!(errors(&format!("```\n```\na {long}\n")), 1);
    }
}
