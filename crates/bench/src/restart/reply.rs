//! Replies of the text protocol, one at a time.

use memchr::memchr;

use crate::failure::{Failure, Outcome};

/// The longest line of a reply, in bytes: a key of 250 bytes with its numbers, or an error.
const LINE_BYTES_MAX: usize = 1024;

/// A reply, or a part of the reply to a get.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<'b> {
    /// A hit.
    Value {
        /// Its key.
        key: &'b [u8],
        /// The client flags stored with it.
        flags: u32,
        /// Its value.
        value: &'b [u8],
    },
    /// The end of the reply to a get.
    End,
    /// A set was done.
    Stored,
    /// A delete was done, and there was something to delete.
    Deleted,
    /// A touch was done.
    Touched,
    /// There was nothing to delete or touch.
    NotFound,
    /// The item looked at is there.
    There,
    /// The item looked at is not there.
    NotThere,
    /// The server refused.
    Refused,
}

/// Parses the first reply of the received bytes and its length; `None` if it is incomplete.
pub fn first(received: &[u8]) -> Outcome<Option<(Reply<'_>, usize)>> {
    let Some(end) = memchr(b'\n', received) else {
        let is_endless = received.len() > LINE_BYTES_MAX;
        return if is_endless { Err(unexpected(&received[..LINE_BYTES_MAX])) } else { Ok(None) };
    };
    let line = received[..end].strip_suffix(b"\r").ok_or_else(|| unexpected(&received[..end]))?;
    let reply = match line {
        b"END" => Reply::End,
        b"STORED" => Reply::Stored,
        b"DELETED" => Reply::Deleted,
        b"TOUCHED" => Reply::Touched,
        b"NOT_FOUND" => Reply::NotFound,
        b"EN" => Reply::NotThere,
        b"NOT_STORED" => Reply::Refused,
        _ if line.starts_with(b"ME ") => Reply::There,
        _ if line.starts_with(b"SERVER_ERROR") => Reply::Refused,
        _ if line.starts_with(b"VALUE ") => return value(line, received, end + 1),
        _ => return Err(unexpected(line)),
    };
    Ok(Some((reply, end + 1)))
}

/// Parses a hit, whose value begins at `at`.
fn value<'b>(line: &[u8], received: &'b [u8], at: usize) -> Outcome<Option<(Reply<'b>, usize)>> {
    let mut words = line.split(|byte| *byte == b' ').skip(1);
    let key_bytes = words.next().map_or(0, <[u8]>::len);
    let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u32>().ok();
    let (Some(flags), Some(bytes)) = (number(), number()) else {
        return Err(unexpected(line));
    };
    let value_end = at + bytes as usize;
    let Some(ending) = received.get(value_end..value_end + 2) else {
        return Ok(None);
    };
    if ending != b"\r\n" {
        return Err(Failure::Reply("a value does not end where its length says".into()));
    }
    let key = &received["VALUE ".len()..][..key_bytes];
    let value = &received[at..value_end];
    Ok(Some((Reply::Value { key, flags, value }, value_end + 2)))
}

fn unexpected(line: &[u8]) -> Failure {
    Failure::Reply(format!("{:?}", String::from_utf8_lossy(line)))
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, Reply, first};

    #[test]
    fn replies_are_found_wherever_they_are_cut() {
        let stream = b"VALUE ab 7 3\r\nx\ny\r\nEND\r\n";
        let (reply, bytes) = first(stream).expect("valid").expect("whole");
        assert_eq!(reply, Reply::Value { key: b"ab", flags: 7, value: b"x\ny" });
        assert_eq!(first(&stream[bytes..]).expect("valid"), Some((Reply::End, 5)));
        (0..bytes).for_each(|cut| assert_eq!(first(&stream[..cut]).expect("valid"), None));
    }

    #[test]
    fn every_line_has_its_meaning() {
        for (line, reply) in [
            ("STORED", Reply::Stored),
            ("DELETED", Reply::Deleted),
            ("TOUCHED", Reply::Touched),
            ("NOT_FOUND", Reply::NotFound),
            ("ME k exp=-1 la=1 cas=3 fetch=yes cls=1 size=62", Reply::There),
            ("EN", Reply::NotThere),
            ("NOT_STORED", Reply::Refused),
            ("SERVER_ERROR out of memory storing object", Reply::Refused),
        ] {
            let found =
                first(format!("{line}\r\n").as_bytes()).expect("valid").map(|it| it.0 == reply);
            assert_eq!(found, Some(true), "{line}");
        }
    }

    #[test]
    fn a_reply_outside_the_protocol_is_an_error() {
        let endless = vec![b'x'; LINE_BYTES_MAX + 1];
        for line in
            [&b"ERROR\r\n"[..], b"VALUE k 0\r\n", b"VALUE k 0 1\r\nabcd", b"END\n", &endless]
        {
            assert!(first(line).is_err());
        }
    }
}
