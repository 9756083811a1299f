//! [`Plan::fill`] of a text connection whose client is unauthenticated.
//!
//! As in memcached, the only request is a `set` of any key, flags and expiry, whose value is a name
//! and a password with a space between them. It may come in pieces, but is short enough to be kept
//! until it is whole. The line of a web request ends the connection, as it does for an
//! authenticated client: a web page could otherwise have a browser guess passwords.

use protocol::parse::tokens::Tokens;
use protocol::parse::{LINE_BYTES_MAX, is_of_the_web};
use protocol::reply::{AUTH_TOKEN_TOO_LONG, BAD_TERMINATION, UNAUTHENTICATED};

use super::{Action, BATCH_KEYS_MAX, End, Plan, Step};
use crate::turn::UNREAD_BYTES_MAX;

impl<'b> Plan<'b> {
    /// Fills a batch with the next login. The meaning of input behind it depends on whether it is
    /// admitted.
    #[inline(never)]
    pub(super) fn fill_login(&mut self, steps: &mut Vec<Step<'b>>) -> End {
        while steps.len() < BATCH_KEYS_MAX {
            let place = self.place;
            let rest = self.rest();
            let Some(newline) = memchr::memchr(b'\n', rest) else {
                if rest.len() > LINE_BYTES_MAX {
                    steps.push(Step::close(place));
                    return End::Batch;
                }
                return End::Input;
            };
            let (line, behind) = rest.split_at(newline + 1);
            let Some(token_bytes) = token_bytes(line) else {
                if is_of_the_web(line.trim_ascii_end()) {
                    steps.push(Step::close(place));
                    return End::Batch;
                }
                self.skip(line.len());
                steps.push(Step::answer(UNAUTHENTICATED, place));
                continue;
            };
            if line.len() + token_bytes + 2 > UNREAD_BYTES_MAX {
                self.skip(line.len());
                steps.push(Step::answer(AUTH_TOKEN_TOO_LONG, place));
                if self.swallow(token_bytes as u64 + 2) {
                    return End::Batch;
                }
                continue;
            }
            let Some(payload) = behind.get(..token_bytes + 2) else {
                return End::Input;
            };
            self.skip(line.len() + payload.len());
            let Some(token) = payload.strip_suffix(b"\r\n") else {
                steps.push(Step::answer(BAD_TERMINATION, place));
                continue;
            };
            steps.push(Step::bare(Action::Login(token), place));
            return End::Batch;
        }
        End::Batch
    }
}

/// The length of the value behind a `set`; `None` if the line is anything else.
fn token_bytes(line: &[u8]) -> Option<usize> {
    let line = line.trim_ascii_end();
    let mut tokens = Tokens::new(line);
    let is_set = tokens.next() == Some(b"set");
    let bytes = tokens.nth(3).filter(|_| is_set)?;
    let bytes: u32 = str::from_utf8(bytes).ok()?.parse().ok()?;
    usize::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use larder::Cache;
    use protocol::{Dialect, Wire};

    use super::*;
    use crate::rights::Rights;

    fn plan(input: &[u8]) -> (End, Vec<Action<'_>>, usize) {
        let cache = Cache::builder().memory_bytes(64 << 20).build().expect("a small cache");
        let (mut steps, mut hashes) = (Vec::new(), Vec::new());
        let mut plan = Plan::new(input, None, Dialect::default(), Wire::Text);
        plan.rights = Rights::None;
        let end = plan.fill(&cache, &mut steps, &mut hashes);
        (end, steps.iter().map(|step| step.action).collect(), plan.rest().len())
    }

    #[test]
    fn nothing_is_planned_behind_a_name() {
        let (end, actions, rest) = plan(b"get a\r\nset x y z 5\r\nbob x\r\nget a\r\n");
        assert_eq!(end, End::Batch);
        assert_eq!(actions, [Action::Answer(UNAUTHENTICATED), Action::Login(b"bob x")]);
        assert_eq!(rest, 7);
    }

    #[test]
    fn a_name_is_waited_for() {
        let whole = b"set a 0 0 5 noreply\r\nbob x\r\n";
        for cut in 0..whole.len() {
            assert_eq!(plan(&whole[..cut]), (End::Input, Vec::new(), cut));
        }
        assert_eq!(plan(whole), (End::Batch, vec![Action::Login(b"bob x")], 0));
    }

    /// Regression: the headers were answered one by one, and the body was a login.
    #[test]
    fn a_request_of_the_web_ends_the_connection() {
        let (end, actions, _) = plan(b"POST / HTTP/1.1\r\nset x 0 0 5\r\nbob x\r\n");
        assert_eq!((end, &actions[..]), (End::Batch, &[Action::Close][..]));
        let (_, actions, _) = plan(b"HTTP/1.1\r\n");
        assert_eq!(actions, [Action::Answer(UNAUTHENTICATED)]);
    }

    #[test]
    fn limits_hold_at_their_edges() {
        let set = |bytes: usize| format!("set a 0 0 {bytes}\r\n{}\r\n", "x".repeat(bytes));
        let bytes_max = UNREAD_BYTES_MAX - "set a 0 0 4000\r\n\r\n".len();
        let longest = set(bytes_max);
        assert!(matches!(plan(longest.as_bytes()).1[..], [Action::Login(_)]));
        let longer = set(bytes_max + 1);
        let answer = Action::Answer(AUTH_TOKEN_TOO_LONG);
        assert_eq!(plan(longer.as_bytes()), (End::Input, vec![answer], 0));
        let line = vec![b'x'; LINE_BYTES_MAX + 1];
        assert_eq!(plan(&line[1..]), (End::Input, Vec::new(), LINE_BYTES_MAX));
        assert_eq!(plan(&line), (End::Batch, vec![Action::Close], LINE_BYTES_MAX + 1));
        for bad in [
            &b"settle a 0 0 5"[..],
            b"set a 0 0",
            b"set a 0 0 -1",
            b"set a 0 0 x",
            b"ms a 5",
            b"",
            b"mn",
            b"\x80",
        ] {
            let line = [bad, b"\r\n"].concat();
            let (_, actions, _) = plan(&line);
            assert_eq!(actions, [Action::Answer(UNAUTHENTICATED)], "{}", bad.escape_ascii());
        }
    }
}
