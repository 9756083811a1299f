//! Suggests the name that a user may have meant.

/// Returns the end of the message that there is no `name`: the most similar of the `known` names,
/// with `prefix` before it, or nothing if none is similar.
pub fn suggestion<K: AsRef<str>>(
    name: &str,
    known: impl Iterator<Item = K>,
    prefix: &str,
) -> String {
    // A third of the letters may be wrong: enough for a typo, too little for another word.
    let changes_max = (name.chars().count() / 3).max(1);
    let nearest = known.map(|known| (changes(name, known.as_ref()), known));
    match nearest.min_by_key(|(changes, _)| *changes) {
        Some((changes, known)) if changes <= changes_max => {
            format!("; did you mean {prefix}{}?", known.as_ref())
        }
        _ => String::new(),
    }
}

/// Returns how many letters have to be added, removed or replaced to turn one word into the other
/// (Levenshtein's distance), computed one row of the table at a time.
fn changes(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (column, known) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *known);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        assert_eq!(changes("", "abc"), 3);
        assert_eq!(changes("kitten", "sitting"), 3);
        assert_eq!(changes("same", "same"), 0);
        let known = ["port", "policy", "memory-limit"];
        let meant = |name| suggestion(name, known.iter(), "--");
        assert_eq!(meant("memory_limit"), "; did you mean --memory-limit?");
        assert_eq!(meant("polcy"), "; did you mean --policy?");
        assert_eq!(meant("banana"), "");
        assert_eq!(suggestion("x", std::iter::empty::<&str>(), ""), "");
    }
}
