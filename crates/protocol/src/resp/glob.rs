//! Patterns of keys, as SCAN's MATCH and CONFIG GET take them: `*`, `?`, `[a-z]`, `[^a]`, `\`.
//!
//! A pattern is read once, into atoms that take one byte each, and matched by Shift-And
//! (Baeza-Yates and Gonnet, "A new approach to text searching", 1992), all its atoms at a time:
//!
//! ```text
//! user:*[ab]    atoms    u  s  e  r  :  [ab]
//!               bits   0  1  2  3  4  5     6    this many atoms have matched the text so far
//!                                     *          bit 5 stays whatever comes
//! ```
//!
//! So a byte of a text costs the same whatever the pattern is. Trying again behind every `*` would
//! cost the product of both lengths, times that of a class, and the client that sends the pattern
//! may choose all three. It takes 8 KiB for each pattern.

use crate::request::KEY_BYTES_MAX;

/// A set of atoms, and of the position behind the last; or a set of bytes.
type Bits = [u128; 2];

const HALF_BITS: usize = u128::BITS as usize;

const _: () = assert!(KEY_BYTES_MAX < 2 * HALF_BITS);

/// A pattern that has been read.
pub struct Pattern {
    /// The atoms that take each byte.
    takers: Box<[Bits; 256]>,
    /// The numbers of atoms behind which there is a `*`.
    stars: Bits,
    /// The number of atoms; `None` if there are more than a key has bytes.
    atoms: Option<usize>,
}

impl Pattern {
    /// Reads a pattern. Anything behind more atoms than a key has bytes no longer matters.
    pub fn new(pattern: &[u8]) -> Self {
        let mut read = Self { takers: Box::new([[0; 2]; 256]), stars: [0; 2], atoms: None };
        let (mut rest, mut atoms) = (pattern, 0);
        while let [first, behind @ ..] = rest {
            rest = behind;
            if *first == b'*' {
                set(&mut read.stars, atoms);
                continue;
            }
            if atoms == KEY_BYTES_MAX {
                return read;
            }
            match (first, behind) {
                (b'?', _) => read.take_all_of([u128::MAX; 2], atoms),
                (b'[', _) => {
                    let class;
                    (class, rest) = read_class(behind);
                    read.take_all_of(class, atoms);
                }
                (b'\\', [wanted, behind @ ..]) => {
                    set(&mut read.takers[usize::from(*wanted)], atoms);
                    rest = behind;
                }
                _ => set(&mut read.takers[usize::from(*first)], atoms),
            }
            atoms += 1;
        }
        read.atoms = Some(atoms);
        read
    }

    /// An atom takes these bytes.
    fn take_all_of(&mut self, bytes: Bits, atom: usize) {
        for (byte, takers) in self.takers.iter_mut().enumerate() {
            if has(&bytes, byte) {
                set(takers, atom);
            }
        }
    }

    /// Whether `text`, which is no longer than a key, matches the pattern.
    pub fn matches(&self, text: &[u8]) -> bool {
        debug_assert!(text.len() <= KEY_BYTES_MAX);
        let Some(atoms) = self.atoms else {
            return false;
        };
        let mut reached: Bits = [1, 0];
        for &byte in text {
            let takers = &self.takers[usize::from(byte)];
            let [low, high] = [reached[0] & takers[0], reached[1] & takers[1]];
            let shifted = [low << 1, high << 1 | low >> (HALF_BITS - 1)];
            reached =
                [shifted[0] | reached[0] & self.stars[0], shifted[1] | reached[1] & self.stars[1]];
            if reached == [0; 2] {
                return false;
            }
        }
        has(&reached, atoms)
    }
}

/// The bytes of the class behind a `[`, and the pattern behind it. A class that is not closed ends
/// with the pattern.
fn read_class(pattern: &[u8]) -> (Bits, &[u8]) {
    let (mut rest, is_inverted) = match pattern {
        [b'^', rest @ ..] => (rest, true),
        _ => (pattern, false),
    };
    let mut bytes: Bits = [0; 2];
    loop {
        rest = match rest {
            [] => break,
            [b']', behind @ ..] => {
                rest = behind;
                break;
            }
            [b'\\', wanted, behind @ ..] => {
                set(&mut bytes, usize::from(*wanted));
                behind
            }
            [first, b'-', last, behind @ ..] => {
                // In Redis bytes are signed: those from 0x80 on come before all others.
                let is_ordered = first.cast_signed() <= last.cast_signed();
                let (first, last) = if is_ordered { (*first, *last) } else { (*last, *first) };
                let upto = below(usize::from(last) + 1);
                let before = below(usize::from(first));
                for half in 0..2 {
                    bytes[half] |= match first <= last {
                        true => upto[half] & !before[half],
                        false => upto[half] | !before[half],
                    };
                }
                behind
            }
            [wanted, behind @ ..] => {
                set(&mut bytes, usize::from(*wanted));
                behind
            }
        };
    }
    let bytes = if is_inverted { [!bytes[0], !bytes[1]] } else { bytes };
    (bytes, rest)
}

fn set(bits: &mut Bits, number: usize) {
    bits[number / HALF_BITS] |= 1 << (number % HALF_BITS);
}

fn has(bits: &Bits, number: usize) -> bool {
    bits[number / HALF_BITS] >> (number % HALF_BITS) & 1 != 0
}

/// All numbers below this one, which is 256 at the most.
fn below(number: usize) -> Bits {
    let half = |count: usize| match count {
        HALF_BITS.. => u128::MAX,
        _ => (1 << count) - 1,
    };
    [half(number), half(number.saturating_sub(HALF_BITS))]
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        Pattern::new(pattern).matches(text)
    }

    /// Matching too simple to be wrong: every `*` tries everything that it could take.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        if let [b'*', behind @ ..] = pattern {
            return (0..=text.len()).any(|taken| naive(behind, &text[taken..]));
        }
        let Some((&byte, rest)) = text.split_first() else {
            return pattern.is_empty();
        };
        let (fits, behind) = match pattern {
            [] => return false,
            [b'?', behind @ ..] => (true, behind),
            [b'[', behind @ ..] => naive_class(behind, byte),
            [b'\\', wanted, behind @ ..] => (*wanted == byte, behind),
            [wanted, behind @ ..] => (*wanted == byte, behind),
        };
        fits && naive(behind, rest)
    }

    fn naive_class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
        if let [b'^', rest @ ..] = pattern {
            let (fits, behind) = naive_members(rest, byte);
            return (!fits, behind);
        }
        naive_members(pattern, byte)
    }

    fn naive_members(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
        let (fits, rest) = match pattern {
            [] => return (false, pattern),
            [b']', behind @ ..] => return (false, behind),
            [b'\\', wanted, rest @ ..] => (*wanted == byte, rest),
            [first, b'-', last, rest @ ..] => {
                let [first, last, byte] = [*first, *last, byte].map(u8::cast_signed);
                (first <= byte && byte <= last || last <= byte && byte <= first, rest)
            }
            [wanted, rest @ ..] => (*wanted == byte, rest),
        };
        let (others, behind) = naive_members(rest, byte);
        (fits || others, behind)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn patterns_describe_what_the_naive_way_says(
            pattern in vec(select(&b"**??[[]]^^--\\\\aabbcdz\x00\x80\xff"[..]), 0..14),
            text in vec(select(&b"aabbcdz[]^-\\*?\x00\x80\xff"[..]), 0..10),
        ) {
            prop_assert_eq!(matches(&pattern, &text), naive(&pattern, &text));
        }

        /// Atoms on both sides of where one number ends and the next begins.
        #[test]
        fn long_patterns_describe_what_the_naive_way_says(
            before in 110_usize..130,
            pattern in vec(select(&b"*?[a]b"[..]), 0..14),
            text in vec(select(&b"ab"[..]), 0..10),
        ) {
            let long = vec![b'a'; before];
            let (pattern, text) = ([&long, &pattern[..]].concat(), [&long, &text[..]].concat());
            prop_assert_eq!(matches(&pattern, &text), naive(&pattern, &text));
        }
    }

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
            ("[a-]", "]", true),
            ("[", "[", false),
            ("[^", "a", true),
            ("key:*:end", "key:1:2:end", true),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_are_as_long_as_keys() {
        let key = [b'a'; KEY_BYTES_MAX];
        for atom in ["a", "?", "[ab]", "\\a", "*a"] {
            let pattern = atom.repeat(KEY_BYTES_MAX);
            assert!(matches(pattern.as_bytes(), &key), "{atom}");
            assert!(matches(format!("{pattern}***").as_bytes(), &key), "{atom}");
            assert!(!matches(pattern.as_bytes(), &key[1..]), "{atom}");
            // One more describes no key, and no part of one either.
            assert!(!matches(format!("{pattern}*a").as_bytes(), &key), "{atom}");
        }
    }

    /// Regression: a class was gone over for every byte of every key, and again behind a `*`: one
    /// SCAN stopped a worker for a minute. This took longer than any test may.
    #[test]
    fn a_long_class_is_gone_over_once() {
        for pattern in [
            format!("*[{}]", "a".repeat(1 << 20)),
            format!("*[{}]", "a-b".repeat(1 << 19)),
            format!("{}a", "*a".repeat(1 << 19)),
            format!("*{}b", "a".repeat(120)),
        ] {
            let (pattern, key) = (Pattern::new(pattern.as_bytes()), [b'c'; KEY_BYTES_MAX]);
            assert!((0..20_000).all(|_| !pattern.matches(&key)));
        }
    }
}
