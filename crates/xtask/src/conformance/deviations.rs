//! The list of intended differences: `conformance/deviations.txt`.
//!
//! ```text
//! case framing/an over-long key in get
//! memcached CLIENT_ERROR ...\r\n\r\n
//! larder CLIENT_ERROR ...\r\n
//! because why Larder answers that
//! ```
//!
//! An entry is checked from both sides: memcached must still give the listed answer, otherwise the
//! list is out of date, and Larder must give its own.

use super::case::{escape, unescape};
use crate::{Failure, Result};

/// One intended difference; the replies are in normal form.
#[derive(Debug, PartialEq)]
pub struct Deviation {
    /// The case's file and name.
    pub case: String,
    /// What Debian's memcached replies.
    pub memcached: Vec<u8>,
    /// What Larder replies.
    pub larder: Vec<u8>,
    /// The reason.
    pub because: String,
}

/// Reads the list.
pub fn parse(text: &str) -> Result<Vec<Deviation>> {
    let mut list: Vec<Deviation> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let place =
            |message: &str| Failure(format!("conformance/deviations.txt:{}: {message}", index + 1));
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word.is_empty() || word.starts_with('#') {
            continue;
        }
        if word == "case" {
            let (case, because) = (rest.to_string(), String::new());
            list.push(Deviation { case, memcached: Vec::new(), larder: Vec::new(), because });
            continue;
        }
        let Some(last) = list.last_mut() else {
            return Err(place("a line before any case"));
        };
        match word {
            "memcached" => last.memcached = unescape(rest)?,
            "larder" => last.larder = unescape(rest)?,
            "because" => last.because = rest.to_string(),
            other => return Err(place(&format!("no line starts with {other:?}"))),
        }
    }
    match list.iter().find(|deviation| deviation.because.is_empty()) {
        Some(deviation) => Err(Failure(format!("{}: a deviation needs a reason", deviation.case))),
        None => Ok(list),
    }
}

/// Formats an entry for the list.
pub fn format(deviation: &Deviation) -> String {
    format!(
        "case {}\nmemcached {}\nlarder {}\nbecause {}\n\n",
        deviation.case,
        escape(&deviation.memcached),
        escape(&deviation.larder),
        deviation.because
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_is_written() {
        let deviation = Deviation {
            case: "file/a case".to_string(),
            memcached: b"A\r\n\r\n".to_vec(),
            larder: vec![0, 255],
            because: "it is better".to_string(),
        };
        assert_eq!(parse(&format(&deviation)).unwrap(), [deviation]);
        assert!(parse("case a\nmemcached b\n").is_err());
    }
}
