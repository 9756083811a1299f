//! Who a client says it is: in text by a token, in the binary protocol by SASL's PLAIN.

use protocol::binary::{Echo, Status, reply as packet};
use protocol::reply;

use super::{Context, Flow};
use crate::output::Output;

/// The one mechanism of SASL.
const PLAIN: &[u8] = b"PLAIN";

const BAD_TOKEN: &str = "CLIENT_ERROR bad authentication token format\r\n";
const FAILURE: &str = "CLIENT_ERROR authentication failure\r\n";

/// A name and a password with a space between them.
pub fn text<'c>(context: &Context<'_, 'c>, token: &[u8], out: &mut Output<'_, '_>) -> Flow<'c> {
    let Some(space) = token.iter().position(|&byte| byte == b' ') else {
        reply::line(out.bytes, BAD_TOKEN);
        return Flow::Next;
    };
    let is_admitted = admit(context, &token[..space], &token[space + 1..]);
    reply::line(out.bytes, if is_admitted { reply::STORED } else { FAILURE });
    Flow::Login(is_admitted)
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
    let names = plain(message).filter(|_| mechanism == PLAIN);
    let is_admitted = match names {
        Some((name, password)) => admit(context, name, password),
        None => {
            context.counters.auth_cmds.one();
            context.counters.auth_errors.one();
            false
        }
    };
    if is_admitted {
        packet::text(out.bytes, echo, b"Authenticated");
    } else {
        packet::error(out.bytes, echo, Status::AuthFailure);
    }
    Flow::Login(is_admitted)
}

/// The name and the password of a message of PLAIN (RFC 4616). Nobody may act for somebody else.
fn plain(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = message.split(|&byte| byte == 0);
    let (identity, name, password) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = parts.next().is_none() && (identity.is_empty() || identity == name);
    is_whole.then_some((name, password))
}

/// Checks and counts.
fn admit(context: &Context<'_, '_>, name: &[u8], password: &[u8]) -> bool {
    let users = context.server.users.as_ref();
    let is_admitted = users.is_some_and(|users| users.admit(name, password));
    context.counters.auth_cmds.one();
    if !is_admitted {
        context.counters.auth_errors.one();
        context.server.log(1, &format!("a wrong name or password on connection {}", context.fd));
    }
    is_admitted
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
