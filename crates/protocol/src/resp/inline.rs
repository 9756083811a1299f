//! Inline commands: a line of words, for people who type. Words may be quoted as in C, or with
//! single quotes, within which only `\'` is an escape. A zero byte is one like others; Redis waits
//! for the end of such a line for ever.

/// Splits a line; `visit` gets each word unquoted. Returns their number, or `None` if a quote is
/// not closed, or anything stands right behind one.
pub(super) fn split(line: &[u8], mut visit: impl FnMut(&[u8])) -> Option<usize> {
    let mut rest = line;
    let mut word = Vec::new();
    let mut count = 0;
    loop {
        let start = rest.iter().position(|&byte| !is_space(byte));
        let Some(start) = start else {
            return Some(count);
        };
        word.clear();
        rest = take_word(&rest[start..], &mut word)?;
        visit(&word);
        count += 1;
    }
}

/// Takes one word from the front of `line`, which does not begin with a space; returns the rest of
/// the line.
fn take_word<'b>(line: &'b [u8], word: &mut Vec<u8>) -> Option<&'b [u8]> {
    let mut rest = line;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            _ if is_space(byte) => break,
            b'"' | b'\'' => {
                rest = take_quoted(rest, byte, word)?;
                return rest.first().is_none_or(|&byte| is_space(byte)).then_some(rest);
            }
            _ => word.push(byte),
        }
    }
    Some(rest)
}

/// Takes the text between quotes, with the closing one.
fn take_quoted<'b>(text: &'b [u8], quote: u8, word: &mut Vec<u8>) -> Option<&'b [u8]> {
    let mut rest = text;
    loop {
        rest = match (rest, quote) {
            ([b'\\', b'x', high, low, behind @ ..], b'"')
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(*high) << 4 | hex(*low));
                behind
            }
            ([b'\\', byte, behind @ ..], b'"') => {
                word.push(escaped(*byte));
                behind
            }
            ([b'\\', b'\'', behind @ ..], b'\'') => {
                word.push(b'\'');
                behind
            }
            ([byte, behind @ ..], _) if *byte == quote => return Some(behind),
            ([byte, behind @ ..], _) => {
                word.push(*byte);
                behind
            }
            ([], _) => return None,
        };
    }
}

fn escaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// Whether the C library takes the byte for a space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_are_unquoted_as_in_c() {
        type Words<'w> = Option<&'w [&'w [u8]]>;
        let lines: [(&[u8], Words<'_>); 14] = [
            (b"", Some(&[])),
            (b" \t\r ", Some(&[])),
            (b"get a", Some(&[b"get", b"a"])),
            (b"  get\ta  ", Some(&[b"get", b"a"])),
            (br#"set "a b" 'c d'"#, Some(&[b"set", b"a b", b"c d"])),
            (br#"x"y z""#, Some(&[b"xy z"])),
            (br#""\x41\n\"\q\xzz""#, Some(&[b"A\n\"qxzz"])),
            (br"'\'\n'", Some(&[br"'\n"])),
            (br#""""#, Some(&[b""])),
            (br#""a"b"#, None),
            (br#""a"#, None),
            (br"'a", None),
            (br#""a\"#, None),
            (b"get \0a b", Some(&[b"get", b"\0a", b"b"])),
        ];
        for (line, wanted) in lines {
            let mut words: Vec<Vec<u8>> = Vec::new();
            let count = split(line, |word| words.push(word.to_vec()));
            assert_eq!(count, wanted.map(<[_]>::len), "{}", line.escape_ascii());
            if let Some(wanted) = wanted {
                assert_eq!(words, wanted, "{}", line.escape_ascii());
            }
        }
    }
}
