//! Normal forms of replies, without anything that may differ between two correct servers.
//!
//! A reply stream is walked line by line, jumping over values by their length. CAS uniques become
//! the order of their first appearance (`cas#1`), times become `~30`, which compares within two
//! seconds, sizes and classes become `#`, costs are removed, and the key prefix of the run becomes
//! `$k`.

use super::case::base64;

/// The most seconds by which two servers asked one after the other may differ.
const SECONDS_APART: u64 = 2;

/// The uniques seen so far in one conversation.
#[derive(Default)]
pub struct Uniques(Vec<u64>);

impl Uniques {
    /// Returns the unique that appeared as the `number`th, counted from 1.
    pub fn nth(&self, number: usize) -> u64 {
        self.0.get(number.wrapping_sub(1)).copied().unwrap_or(u64::MAX)
    }

    fn name(&mut self, digits: &str) -> String {
        let Ok(unique) = digits.parse::<u64>() else {
            return digits.to_string();
        };
        // Zero is the answer of a server without uniques; it names nothing.
        if unique == 0 {
            return "0".to_string();
        }
        let found = self.0.iter().position(|seen| *seen == unique);
        let index = found.unwrap_or_else(|| {
            self.0.push(unique);
            self.0.len() - 1
        });
        format!("cas#{}", index + 1)
    }
}

/// Returns the normal form of a reply stream and adds its uniques to `uniques`.
pub fn normalise(replies: &[u8], prefix: &str, uniques: &mut Uniques) -> Vec<u8> {
    let mut normal = Vec::with_capacity(replies.len());
    let mut rest = replies;
    while !rest.is_empty() {
        let length = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(length);
        rest = after;
        let (text, value_bytes) = line_normal(line, uniques);
        normal.extend_from_slice(&text);
        if let Some(bytes) = value_bytes {
            let (value, after) = rest.split_at((bytes + 2).min(rest.len()));
            normal.extend_from_slice(value);
            rest = after;
        }
    }
    let named = replace(&normal, prefix.as_bytes(), b"$k");
    replace(&named, base64(prefix.as_bytes()).as_bytes(), b"${b}")
}

/// Replaces a key prefix in replies by a name, in plain and in base64 form.
pub fn name_prefix(replies: &[u8], prefix: &str, name: &str) -> Vec<u8> {
    let named = replace(replies, prefix.as_bytes(), format!("${{{name}}}").as_bytes());
    replace(&named, base64(prefix.as_bytes()).as_bytes(), format!("${{b:{name}}}").as_bytes())
}

/// Returns a line's normal form, and the length of the value that follows it.
fn line_normal(line: &[u8], uniques: &mut Uniques) -> (Vec<u8>, Option<usize>) {
    let mut words: Vec<Vec<u8>> = line.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect();
    let first = words[0].clone();
    let mut value_bytes = None;
    match first.as_slice() {
        b"VALUE" if words.len() >= 4 => {
            value_bytes = number(&words[3]);
            if let Some(word) = words.get_mut(4) {
                rename(word, 0, uniques);
            }
        }
        b"VA" if words.len() >= 2 => {
            value_bytes = number(&words[1]);
            words.iter_mut().skip(2).for_each(|word| flag(word, uniques));
        }
        b"HD" | b"EN" | b"NF" | b"NS" | b"EX" => {
            words.iter_mut().skip(1).for_each(|word| flag(word, uniques));
        }
        b"ME" => {
            drop_cost(&mut words);
            words.iter_mut().skip(2).for_each(|word| field(word, uniques));
        }
        b"VERSION" => words = vec![b"VERSION".to_vec(), b"#\r\n".to_vec()],
        b"STAT" if words.len() >= 3 => {
            words.truncate(2);
            words.push(b"#\r\n".to_vec());
        }
        _ => {}
    }
    (words.join(&b' '), value_bytes)
}

fn number(word: &[u8]) -> Option<usize> {
    let digits: String =
        word.iter().map(|byte| char::from(*byte)).take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Normalises a returned meta flag: `c` is a unique, `t` and `l` are times.
fn flag(word: &mut Vec<u8>, uniques: &mut Uniques) {
    match word.first() {
        Some(b'c') => rename(word, 1, uniques),
        Some(b't' | b'l') => about(word, 1),
        _ => {}
    }
}

/// Removes an item's cost, the last field of `me`: only Larder has it, and it is a measured time
/// that differs in each run.
fn drop_cost(words: &mut Vec<Vec<u8>>) {
    let is_cost = |word: &mut Vec<u8>| word.starts_with(b"cost=") && word.ends_with(b"\r\n");
    if words.pop_if(is_cost).is_some()
        && let Some(last) = words.last_mut()
    {
        last.extend_from_slice(b"\r\n");
    }
}

/// Normalises a field of `me`, such as `exp=30`.
fn field(word: &mut Vec<u8>, uniques: &mut Uniques) {
    let Some(equals) = word.iter().position(|byte| *byte == b'=') else {
        return;
    };
    match &word[..equals] {
        b"exp" | b"la" => about(word, equals + 1),
        b"cas" => rename(word, equals + 1, uniques),
        b"cls" | b"size" => {
            let end = digits_end(word, equals + 1);
            word.splice(equals + 1..end, *b"#");
        }
        _ => {}
    }
}

fn digits_end(word: &[u8], from: usize) -> usize {
    from + word[from..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn rename(word: &mut Vec<u8>, from: usize, uniques: &mut Uniques) {
    let end = digits_end(word, from);
    if end > from {
        let name = uniques.name(&String::from_utf8_lossy(&word[from..end]));
        word.splice(from..end, name.into_bytes());
    }
}

fn about(word: &mut Vec<u8>, from: usize) {
    if digits_end(word, from) > from {
        word.insert(from, b'~');
    }
}

fn replace(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == old[0] && bytes[at..].starts_with(old) {
            out.extend_from_slice(new);
            at += old.len();
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

/// Returns whether two normal forms are the same, with times within two seconds.
pub fn same(left: &[u8], right: &[u8]) -> bool {
    let (mut left, mut right) = (left, right);
    while let (Some(a), Some(b)) = (left.first(), right.first()) {
        if a != b {
            return false;
        }
        (left, right) = (&left[1..], &right[1..]);
        if *a == b'~' {
            let (a, b) = (digits_end(left, 0), digits_end(right, 0));
            let parse = |digits: &[u8]| String::from_utf8_lossy(digits).parse::<u64>();
            if let (Ok(one), Ok(other)) = (parse(&left[..a]), parse(&right[..b])) {
                if one.abs_diff(other) > SECONDS_APART {
                    return false;
                }
                (left, right) = (&left[a..], &right[b..]);
            }
        }
    }
    left.is_empty() && right.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(replies: &str) -> String {
        let bytes = normalise(replies.as_bytes(), "k00000001", &mut Uniques::default());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_normal_form_lacks_everything_that_may_differ() {
        assert_eq!(
            normal("VALUE k00000001 5 2 912\r\nhi\r\nHD c912 c913 kc5 t30 t-1 s2\r\n"),
            "VALUE $k 5 2 cas#1\r\nhi\r\nHD ccas#1 ccas#2 kc5 t~30 t-1 s2\r\n"
        );
        assert_eq!(
            normal("ME a exp=-1 la=2 cas=7 fetch=no cls=1 size=64\r\n"),
            "ME a exp=-1 la=~2 cas=cas#1 fetch=no cls=# size=#\r\n"
        );
        assert_eq!(normal("ME a exp=-1 cls=1 cost=17\r\n"), "ME a exp=-1 cls=#\r\n");
        assert_eq!(
            normal("VA 4 c9\r\nHD 9\r\nVERSION 1.6\r\n"),
            "VA 4 ccas#1\r\nHD 9\r\nVERSION #\r\n"
        );
    }

    #[test]
    fn times_compare_within_two_seconds() {
        assert!(same(b"HD t~30 x\r\n", b"HD t~29 x\r\n"));
        assert!(!same(b"HD t~30\r\n", b"HD t~27\r\n"));
        assert!(!same(b"HD t~30\r\n", b"HD t~30"));
        assert!(!same(b"HD", b"HX"));
    }
}
