//! Finds where one reply ends and the next begins, in both versions of Redis' protocol.

use crate::{Result, fail};

/// Splits a stream into replies.
pub fn split(stream: &[u8]) -> Result<Vec<&[u8]>> {
    let mut replies = Vec::new();
    let mut rest = stream;
    while !rest.is_empty() {
        let end = length(rest)?;
        replies.push(&rest[..end]);
        rest = &rest[end..];
    }
    Ok(replies)
}

/// Returns the length of the first reply.
fn length(stream: &[u8]) -> Result<usize> {
    let Some(line_end) = stream.windows(2).position(|two| two == b"\r\n") else {
        return fail(format!("no end of a line in {:?}", stream.escape_ascii().to_string()));
    };
    let behind = line_end + 2;
    let text = String::from_utf8_lossy(&stream[1..line_end]);
    let count = text.parse::<i64>().unwrap_or(-1);
    let parts = match stream[0] {
        b'$' | b'=' if count >= 0 => return Ok(behind + count as usize + 2),
        b'*' | b'~' | b'>' => count.max(0),
        b'%' => 2 * count.max(0),
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' | b'$' => 0,
        kind => return fail(format!("no reply begins with {:?}", kind as char)),
    };
    let mut end = behind;
    for _ in 0..parts {
        end += match stream.get(end..) {
            Some(rest) if !rest.is_empty() => length(rest)?,
            _ => return fail("a reply is cut off"),
        };
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn replies_lie_behind_one_another() {
        let replies: [&[u8]; 9] = [
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":-5\r\n",
            b"$3\r\n\r\n1\r\n",
            b"$-1\r\n",
            b"_\r\n",
            b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
            b"%1\r\n+a\r\n~1\r\n:1\r\n",
            b"=5\r\ntxt:a\r\n",
        ];
        assert_eq!(split(&replies.concat()).ok(), Some(replies.to_vec()));
        assert!(split(b"*2\r\n:1\r\n").is_err());
    }
}
