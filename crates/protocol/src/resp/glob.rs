//! Patterns of keys, as SCAN's MATCH and CONFIG GET take them: `*`, `?`, `[a-z]`, `[^a]`, `\`.
//!
//! A `*` takes as little as it can; when what comes behind it does not fit, it takes one byte more.
//! Only the last `*` can be asked to, so the time is bounded by the product of both lengths.

/// Whether `text` is what `pattern` describes.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // The pattern behind the last `*`, and the text from where that has been tried.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', behind @ ..] = pattern {
            star = Some((behind, text));
            pattern = behind;
            continue;
        }
        if text.is_empty() && pattern.is_empty() {
            return true;
        }
        if let Some((behind, rest)) = one(pattern, text) {
            (pattern, text) = (behind, rest);
            continue;
        }
        match star {
            Some((behind, [_, rest @ ..])) => {
                star = Some((behind, rest));
                (pattern, text) = (behind, rest);
            }
            _ => return false,
        }
    }
}

/// Takes one byte of the text by what describes it; what is left of both.
fn one<'p, 't>(pattern: &'p [u8], text: &'t [u8]) -> Option<(&'p [u8], &'t [u8])> {
    let (&byte, rest) = text.split_first()?;
    let (fits, behind) = match pattern {
        [] => return None,
        [b'?', behind @ ..] => (true, behind),
        [b'[', behind @ ..] => class(behind, byte),
        [b'\\', wanted, behind @ ..] => (*wanted == byte, behind),
        [wanted, behind @ ..] => (*wanted == byte, behind),
    };
    fits.then_some((behind, rest))
}

/// Whether a byte is in the class behind a `[`, and what comes behind it. A class that is not
/// closed ends with the pattern.
fn class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (mut rest, is_inverted) = match pattern {
        [b'^', rest @ ..] => (rest, true),
        _ => (pattern, false),
    };
    let mut fits = false;
    loop {
        let (low, high);
        (low, high, rest) = match rest {
            [] => break,
            [b']', behind @ ..] => {
                rest = behind;
                break;
            }
            [b'\\', wanted, behind @ ..] => (*wanted, *wanted, behind),
            [low, b'-', high, behind @ ..] => (*low.min(high), *low.max(high), behind),
            [wanted, behind @ ..] => (*wanted, *wanted, behind),
        };
        fits |= (low..=high).contains(&byte);
    }
    (fits != is_inverted, rest)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_describe_keys() {
        for (pattern, text, wanted) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abcb", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hello", false),
            ("[\\]]", "]", true),
            ("[abc", "b", true),
            ("key:*:end", "key:1:2:end", true),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = "a*".repeat(50) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(250).as_bytes()));
    }
}
