//! Logins: in text by a token, in the binary protocol by SASL's PLAIN.

use protocol::binary::{Echo, Status, reply as packet};
use protocol::reply;

use super::{Context, Flow};
use crate::logins::{Claim, Verdict};
use crate::output::Output;

/// The one mechanism of SASL.
const PLAIN: &[u8] = b"PLAIN";

/// A login. Its check may take long and is done by [`crate::logins`].
#[derive(Debug)]
pub struct Login {
    claim: Claim,
    /// The fields that a reply in the binary protocol repeats; `None` in text.
    echo: Option<Echo>,
}

impl Login {
    fn new((name, password): (&[u8], &[u8]), echo: Option<Echo>) -> Self {
        Self { claim: Claim::new(name, password), echo }
    }

    /// The name and password to be checked.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Answers it.
    pub fn answer(&self, verdict: Verdict, replies: &mut Vec<u8>) {
        match (self.echo, verdict.rights().is_some()) {
            (None, true) => reply::line(replies, reply::STORED),
            (None, false) => reply::line(replies, reply::AUTHENTICATION_FAILURE),
            (Some(echo), true) => packet::text(replies, echo, b"Authenticated"),
            (Some(echo), false) => packet::error(replies, echo, Status::AuthFailure),
        }
    }
}

/// Reads a name and a password with a space between them.
pub fn text<'c>(token: &[u8], out: &mut Output<'_, '_>) -> Flow<'c> {
    let Some(space) = token.iter().position(|&byte| byte == b' ') else {
        reply::line(out.bytes, reply::AUTH_TOKEN_FORMAT);
        return Flow::Next;
    };
    Flow::Login(Login::new((&token[..space], &token[space + 1..]), None))
}

/// `sasl list mechs`.
pub fn mechanisms(context: &Context<'_, '_>, echo: Echo, out: &mut Output<'_, '_>) {
    if context.server.options.sasl {
        packet::text(out.bytes, echo, PLAIN);
    } else {
        packet::error(out.bytes, echo, Status::UnknownCommand);
    }
}

/// `sasl auth` and `sasl step`: the message may come with the first, or else with a step.
pub fn sasl<'c>(
    context: &Context<'_, 'c>,
    echo: Echo,
    (mechanism, message, is_first): (&[u8], &[u8], bool),
    out: &mut Output<'_, '_>,
) -> Flow<'c> {
    if !context.server.options.sasl {
        packet::error(out.bytes, echo, Status::UnknownCommand);
        return Flow::Next;
    }
    if mechanism == PLAIN && message.is_empty() && is_first {
        packet::error(out.bytes, echo, Status::AuthContinue);
        return Flow::Next;
    }
    // No user has an empty name: a malformed PLAIN message is wrong as a password is.
    let names = plain(message).filter(|_| mechanism == PLAIN).unwrap_or_default();
    Flow::Login(Login::new(names, Some(echo)))
}

/// The name and the password of a PLAIN message (RFC 4616). A user may not act for another.
fn plain(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = message.split(|&byte| byte == 0);
    let (identity, name, password) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = parts.next().is_none() && (identity.is_empty() || identity == name);
    is_whole.then_some((name, password))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_message_of_plain_has_three_parts() {
        assert_eq!(plain(b"\0bob\0secret"), Some((&b"bob"[..], &b"secret"[..])));
        assert_eq!(plain(b"bob\0bob\0"), Some((&b"bob"[..], &b""[..])));
        for bad in [&b""[..], b"bob", b"\0bob", b"ann\0bob\0secret", b"\0bob\0secret\0"] {
            assert_eq!(plain(bad), None);
        }
    }
}
