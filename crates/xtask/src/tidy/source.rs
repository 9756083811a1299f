//! A Rust file as the checks see it: each line split into its code and its comment.
//!
//! The scanner knows just enough of the language not to be fooled: strings (also raw ones) and
//! character literals are blanked out of the code, nested block comments count as comments, and a
//! lifetime is not a character. Braces in what is left can be counted, which gives the extent of
//! functions and of test modules without a parser.

/// One line of a file.
pub struct Line {
    /// The line as it is written.
    pub text: String,
    /// The line without comments, and with blanks for what strings hold.
    pub code: String,
    /// What the line says in comments.
    pub comment: String,
    /// Whether it belongs to a test.
    pub test: bool,
}

/// A scanned file.
pub struct Source {
    /// Its path from the repository's root, with slashes.
    pub path: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A function's place: its name and its first and last line, as indices.
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line with `fn`.
    pub first: usize,
    /// The line with the closing brace.
    pub last: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Code,
    Comment,
    Block(usize),
    Text,
    Raw(usize),
}

impl Source {
    /// Scans a file's text.
    pub fn new(path: &str, text: &str) -> Source {
        let mut lines = Vec::new();
        let mut state = State::Code;
        for line in text.lines() {
            lines.push(scan(line, &mut state));
        }
        let mut source = Source { path: path.to_string(), lines };
        source.mark_tests();
        source
    }

    /// The room (the folder under crates/) that the file belongs to.
    pub fn room(&self) -> &str {
        self.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or("")
    }

    /// Whether the whole file is a test or a bench.
    pub fn is_test_file(&self) -> bool {
        let folders = ["/tests/", "/benches/"];
        folders.iter().any(|folder| self.path.contains(folder)) || self.path.ends_with("/tests.rs")
    }

    /// Whether it is a program beside a library, which shows or measures something.
    pub fn is_example(&self) -> bool {
        self.path.contains("/examples/")
    }

    fn mark_tests(&mut self) {
        if self.is_test_file() {
            self.lines.iter_mut().for_each(|line| line.test = true);
            return;
        }
        let mut index = 0;
        while index < self.lines.len() {
            let code = self.lines[index].code.trim_start();
            let attribute = code.starts_with("#[cfg(") && !code.contains("not(test");
            let guarded = attribute && has_word(code, "test");
            if guarded || code.starts_with("#[test]") {
                let last = self.block_end(index);
                self.lines[index..=last].iter_mut().for_each(|line| line.test = true);
                index = last;
            }
            index += 1;
        }
    }

    /// The line on which the item that starts at `first` ends: at its closing brace, or at a
    /// semicolon before any brace.
    pub fn block_end(&self, first: usize) -> usize {
        let (mut braces, mut others) = (0_i64, 0_i64);
        for (index, line) in self.lines.iter().enumerate().skip(first) {
            for letter in line.code.chars() {
                match letter {
                    '{' => braces += 1,
                    '}' => {
                        braces -= 1;
                        if braces <= 0 && others <= 0 {
                            return index;
                        }
                    }
                    '(' | '[' => others += 1,
                    ')' | ']' => others -= 1,
                    ';' if braces == 0 && others == 0 => return index,
                    _ => {}
                }
            }
        }
        self.lines.len().saturating_sub(1)
    }

    /// Every function with a body.
    pub fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (first, line) in self.lines.iter().enumerate() {
            let mut rest = line.code.as_str();
            while let Some(at) = find_word(rest, "fn") {
                let after = rest[at + 2..].trim_start();
                let name: String = after.chars().take_while(|c| is_word(*c)).collect();
                rest = &rest[at + 2..];
                if !name.is_empty() {
                    found.push(Function { name, first, last: self.block_end(first) });
                }
            }
        }
        found
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Where `word` stands in `code` as a whole word. A word that itself begins or ends with a sign
/// (such as `.unwrap()`) needs no border on that side.
pub fn find_word(code: &str, word: &str) -> Option<usize> {
    let (first, last) = (word.chars().next()?, word.chars().next_back()?);
    code.match_indices(word).map(|(at, _)| at).find(|&at| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let joined_before = is_word(first) && before.is_some_and(is_word);
        let joined_after = is_word(last) && after.is_some_and(is_word);
        !joined_before && !joined_after
    })
}

/// Whether `word` stands in `code` as a whole word.
pub fn has_word(code: &str, word: &str) -> bool {
    find_word(code, word).is_some()
}

fn scan(text: &str, state: &mut State) -> Line {
    let letters: Vec<char> = text.chars().collect();
    let (mut code, mut comment) = (String::new(), String::new());
    let mut at = 0;
    while at < letters.len() {
        let (letter, next) = (letters[at], letters.get(at + 1).copied());
        let mut width = 1;
        match *state {
            State::Comment => comment.push(letter),
            State::Block(depth) => {
                comment.push(letter);
                if letter == '*' && next == Some('/') {
                    width = 2;
                    *state = if depth == 1 { State::Code } else { State::Block(depth - 1) };
                } else if letter == '/' && next == Some('*') {
                    width = 2;
                    *state = State::Block(depth + 1);
                }
            }
            State::Text => match letter {
                '\\' => width = 2,
                '"' => close(&mut code, state),
                _ => {}
            },
            State::Raw(hashes) => {
                let tail = &letters[at + 1..];
                if letter == '"' && tail.iter().take_while(|c| **c == '#').count() >= hashes {
                    width = 1 + hashes;
                    close(&mut code, state);
                }
            }
            State::Code => width = scan_code(&letters, at, &mut code, &mut comment, state),
        }
        at += width;
    }
    if *state == State::Comment {
        *state = State::Code;
    }
    Line { text: text.to_string(), code, comment, test: false }
}

fn close(code: &mut String, state: &mut State) {
    code.push('"');
    *state = State::Code;
}

/// One step in code: how many letters it took.
fn scan_code(
    letters: &[char],
    at: usize,
    code: &mut String,
    comment: &mut String,
    state: &mut State,
) -> usize {
    let (letter, next) = (letters[at], letters.get(at + 1).copied());
    match (letter, next) {
        ('/', Some('/')) => {
            *state = State::Comment;
            comment.push_str("//");
            return 2;
        }
        ('/', Some('*')) => {
            *state = State::Block(1);
            return 2;
        }
        ('"', _) => {
            code.push('"');
            *state = State::Text;
            return 1;
        }
        ('r', _) if !code.chars().next_back().is_some_and(|c| is_word(c) && c != 'b') => {
            let hashes = letters[at + 1..].iter().take_while(|c| **c == '#').count();
            if letters.get(at + 1 + hashes) == Some(&'"') {
                code.push('"');
                *state = State::Raw(hashes);
                return 2 + hashes;
            }
        }
        ('\'', Some('\\')) => {
            // An escaped character ends at the first quote after the letter that is escaped.
            let tail = letters.get(at + 3..).unwrap_or(&[]);
            let width = tail.iter().position(|c| *c == '\'').map_or(1, |end| end + 4);
            code.push_str("' '");
            return width;
        }
        ('\'', Some(_)) if letters.get(at + 2) == Some(&'\'') => {
            code.push_str("' '");
            return 3;
        }
        _ => {}
    }
    code.push(letter);
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_no_code() {
        let text = "let a = \"{ // no\"; // yes {\nlet b = r#\"\"{\"#; let c = '{'; fn f<'a>() {}\n\
                    /* { /* } */ still */ let d = '\\'';";
        let source = Source::new("crates/x/src/a.rs", text);
        let code: Vec<&str> = source.lines.iter().map(|line| line.code.trim()).collect();
        assert_eq!(code[0], "let a = \"\";");
        assert_eq!(code[1], "let b = \"\"; let c = ' '; fn f<'a>() {}");
        assert_eq!(code[2], "let d = ' ';");
        assert!(source.lines[0].comment.contains("yes"));
    }

    #[test]
    fn tests_are_told_from_the_rest() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\nfn c() {}\n";
        let source = Source::new("crates/x/src/a.rs", text);
        let tests: Vec<bool> = source.lines.iter().map(|line| line.test).collect();
        assert_eq!(tests, [false, true, true, true, true, true, false]);
    }

    #[test]
    fn functions_have_their_extent() {
        let text = "fn a(\n    b: [u8; 3],\n) {\n    if b {}\n}\nfn declared();\n";
        let functions = Source::new("crates/x/src/a.rs", text).functions();
        assert_eq!((functions[0].first, functions[0].last), (0, 4));
        assert_eq!((functions[1].first, functions[1].last), (5, 5));
    }
}
