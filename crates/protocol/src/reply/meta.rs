//! Answers to the meta commands: a code, then a token for each flag that asks for one.
//!
//! ```text
//! mg k t s v O7 c   ->   VA 5 t-1 s5 O7 c93 W\r\n
//!                        ---- ------------- -
//!                        code request order what the server adds: Z or not, X or not, W or not
//! ```

use super::{decimal, decimal_or_minus_one};
use crate::request::{Key, MetaFlags};

/// The command that is answered: each returns other flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaCommand {
    /// `mg`
    Get,
    /// `ms`
    Set,
    /// `md`
    Delete,
    /// `ma`
    Arithmetic,
}

/// The outcome of a meta command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaCode {
    /// `HD`: done, or a hit without its value.
    Done,
    /// `VA n`: a value of this many bytes follows the line, and then `\r\n`.
    Value(usize),
    /// `EN`: `mg` found nothing.
    Miss,
    /// `NF`: another command found nothing.
    NotFound,
    /// `NS`: the mode forbade storing.
    NotStored,
    /// `EX`: another CAS unique.
    Exists,
}

/// The facts that the flags of an answer show. A command that found nothing shows only the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaFacts<'b> {
    /// `k`: the key of the request.
    pub key: Key<'b>,
    /// `c`: the CAS unique; 0 where an `ms` has stored nothing.
    pub cas: u64,
    /// `f`: client flags.
    pub client_flags: u32,
    /// `s`: the length of the value; of the sent one where an `ms` has stored nothing.
    pub value_bytes: usize,
    /// `t`: seconds until the item expires; `None` if it does not.
    pub expires_in_s: Option<u64>,
    /// `h`: it has been fetched before.
    pub fetched: bool,
    /// `l`: seconds since it was last accessed.
    pub idle_s: u64,
    /// `Z`: another client has the win token already.
    pub token_sent: bool,
    /// `X`: marked stale.
    pub stale: bool,
    /// `W`: this client has the win token.
    pub won: bool,
}

impl<'b> MetaFacts<'b> {
    /// The facts of an absent item.
    pub fn absent(key: Key<'b>) -> MetaFacts<'b> {
        MetaFacts {
            key,
            cas: 0,
            client_flags: 0,
            value_bytes: 0,
            expires_in_s: None,
            fetched: false,
            idle_s: 0,
            token_sent: false,
            stale: false,
            won: false,
        }
    }
}

/// Appends the line that answers a meta command. A value, if the code promises one, comes next.
pub fn meta(
    out: &mut Vec<u8>,
    command: MetaCommand,
    code: MetaCode,
    flags: MetaFlags<'_>,
    facts: &MetaFacts<'_>,
) {
    match code {
        MetaCode::Done => out.extend_from_slice(b"HD"),
        MetaCode::Value(bytes) => {
            out.extend_from_slice(b"VA ");
            decimal(out, bytes as u64);
        }
        MetaCode::Miss => out.extend_from_slice(b"EN"),
        MetaCode::NotFound => out.extend_from_slice(b"NF"),
        MetaCode::NotStored => out.extend_from_slice(b"NS"),
        MetaCode::Exists => out.extend_from_slice(b"EX"),
    }
    let found = matches!(code, MetaCode::Done | MetaCode::Value(_));
    for (letter, argument) in flags.iter() {
        match (letter, command) {
            (b'O', _) => {
                out.extend_from_slice(b" O");
                out.extend_from_slice(argument);
            }
            (b'k', _) => key_token(out, facts.key),
            (_, MetaCommand::Set) => set_token(out, letter, facts),
            (b't' | b'c', MetaCommand::Arithmetic) if found => item_token(out, letter, facts),
            (_, MetaCommand::Get) if found => item_token(out, letter, facts),
            _ => {}
        }
    }
    if found && command == MetaCommand::Get {
        for (shown, token) in [(facts.token_sent, b" Z"), (facts.stale, b" X"), (facts.won, b" W")]
        {
            if shown {
                out.extend_from_slice(token);
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn key_token(out: &mut Vec<u8>, key: Key<'_>) {
    out.extend_from_slice(b" k");
    out.extend_from_slice(key.wire);
    if key.base64 {
        out.extend_from_slice(b" b");
    }
}

/// `ms` shows these whatever its outcome.
fn set_token(out: &mut Vec<u8>, letter: u8, facts: &MetaFacts<'_>) {
    if matches!(letter, b'c' | b's') {
        item_token(out, letter, facts);
    }
}

fn item_token(out: &mut Vec<u8>, letter: u8, facts: &MetaFacts<'_>) {
    if !matches!(letter, b's' | b't' | b'c' | b'f' | b'l' | b'h') {
        return;
    }
    out.extend_from_slice(&[b' ', letter]);
    match letter {
        b's' => decimal(out, facts.value_bytes as u64),
        b't' => decimal_or_minus_one(out, facts.expires_in_s),
        b'c' => decimal(out, facts.cas),
        b'f' => decimal(out, u64::from(facts.client_flags)),
        b'l' => decimal(out, facts.idle_s),
        _ => out.push(b'0' + u8::from(facts.fetched)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> MetaFacts<'static> {
        MetaFacts {
            key: Key::plain(b"key"),
            cas: 93,
            client_flags: 7,
            value_bytes: 5,
            expires_in_s: Some(30),
            fetched: true,
            idle_s: 2,
            token_sent: false,
            stale: false,
            won: false,
        }
    }

    fn written(command: MetaCommand, code: MetaCode, flags: &str, facts: &MetaFacts<'_>) -> String {
        let mut out = Vec::new();
        meta(&mut out, command, code, MetaFlags(flags.as_bytes()), facts);
        String::from_utf8(out).expect("all of it is ASCII")
    }

    #[test]
    fn flags_come_in_request_order() {
        use MetaCommand::Get;
        let facts = facts();
        for (code, flags, line) in [
            (MetaCode::Value(5), "s v f t c l h k q u", "VA 5 s5 f7 t30 c93 l2 h1 kkey\r\n"),
            (MetaCode::Done, "k O1 t Pc9 Lx", "HD kkey O1 t30\r\n"),
            (MetaCode::Done, "", "HD\r\n"),
            (MetaCode::Done, "O", "HD O\r\n"),
            (MetaCode::Miss, "O1 k s t c f l h v", "EN O1 kkey\r\n"),
        ] {
            assert_eq!(written(Get, code, flags, &facts), line);
        }
        let unread = MetaFacts { expires_in_s: None, fetched: false, ..facts };
        assert_eq!(written(Get, MetaCode::Done, "h t", &unread), "HD h0 t-1\r\n");
    }

    #[test]
    fn the_server_adds_z_x_w() {
        use MetaCommand::Get;
        for (token_sent, stale, won, line) in [
            (false, false, true, "VA 0 W\r\n"),
            (true, false, false, "VA 0 Z\r\n"),
            (false, true, true, "VA 0 X W\r\n"),
            (true, true, false, "VA 0 Z X\r\n"),
        ] {
            let facts = MetaFacts { token_sent, stale, won, ..facts() };
            assert_eq!(written(Get, MetaCode::Value(0), "v", &facts), line);
        }
    }

    #[test]
    fn each_command_returns_its_own_flags() {
        let flags = "b c f h k l O9 s t v";
        let facts = MetaFacts { key: Key { wire: b"Zm9v", base64: true }, ..facts() };
        let key = "kZm9v b";
        for (command, code, line) in [
            (MetaCommand::Get, MetaCode::Done, format!("HD c93 f7 h1 {key} l2 O9 s5 t30\r\n")),
            (MetaCommand::Set, MetaCode::Done, format!("HD c93 {key} O9 s5\r\n")),
            (MetaCommand::Set, MetaCode::Exists, format!("EX c93 {key} O9 s5\r\n")),
            (MetaCommand::Set, MetaCode::NotStored, format!("NS c93 {key} O9 s5\r\n")),
            (MetaCommand::Delete, MetaCode::Done, format!("HD {key} O9\r\n")),
            (MetaCommand::Delete, MetaCode::NotFound, format!("NF {key} O9\r\n")),
            (MetaCommand::Arithmetic, MetaCode::Value(2), format!("VA 2 c93 {key} O9 t30\r\n")),
            (MetaCommand::Arithmetic, MetaCode::NotFound, format!("NF {key} O9\r\n")),
        ] {
            assert_eq!(written(command, code, flags, &facts), line);
        }
    }

    #[test]
    fn an_absent_item_has_no_facts() {
        let facts = MetaFacts::absent(Key::plain(b"k"));
        assert_eq!(written(MetaCommand::Set, MetaCode::NotFound, "c k", &facts), "NF c0 kk\r\n");
    }
}
