//! Clients about themselves: HELLO, AUTH, CLIENT, SELECT, PING and the like.

use protocol::resp::number::integer;
use protocol::resp::{Version, reply};

use super::{
    Again, Done, Ended, SYNTAX, Stop, Subcommands, Task, help, info, subcommand, unknown_word,
};
use crate::output::Output;
use crate::rights::Rights;

/// The user of a client that names none. Without `--auth-file` there is no other user, and this one
/// needs no password.
const USER: &[u8] = b"default";

/// The longest name of a client that is kept.
const NAME_BYTES_MAX: usize = 1 << 10;

const BEYOND_32_BITS: &str =
    "ERR value is out of range, value must between -2147483648 and 2147483647";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the \
                           default user. Are you sure your configuration is correct?";
const HELLO_UNKNOWN: &str = "NOAUTH HELLO must be called with the client already authenticated, \
                             otherwise the HELLO AUTH <user> <pass> option can be used to \
                             authenticate the client and select the RESP protocol version at the \
                             same time";
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// `PING [message]`.
pub(super) fn ping(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    match (task.words.next(), task.words.len()) {
        (None, _) => reply::simple(out.bytes, "PONG"),
        (Some(message), 0) => reply::bulk(out.bytes, message),
        _ => return Err(task.wrong_number()),
    }
    Ok(Done::Next)
}

/// `ECHO message`.
pub(super) fn echo(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    reply::bulk(out.bytes, task.word());
    Ok(Done::Next)
}

/// `QUIT`.
pub(super) fn quit(_: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    reply::simple(out.bytes, "OK");
    Ok(Done::Close)
}

/// `POST`, `Host:`: a web page has made a browser speak to this port.
pub(super) fn quit_silently(_: &mut Task<'_, '_, '_, '_, '_>, _: &mut Output<'_, '_>) -> Ended {
    Ok(Done::Close)
}

/// `RESET`.
pub(super) fn reset(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    task.client.version = Version::Two;
    task.client.name.clear();
    task.client.queue = None;
    task.client.rights = Rights::of_strangers(task.context.server.users.is_some());
    reply::simple(out.bytes, "RESET");
    Ok(Done::Next)
}

/// `SELECT index`.
pub(super) fn select(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let index = task.integer()?;
    if i32::try_from(index).is_err() {
        return Err(BEYOND_32_BITS.into());
    }
    if index != 0 {
        return Err("ERR DB index is out of range".into());
    }
    reply::simple(out.bytes, "OK");
    Ok(Done::Next)
}

/// `AUTH [user] password`.
pub(super) fn auth(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let has_users = task.context.server.users.is_some();
    match (task.word(), task.words.next(), task.words.len()) {
        (_, None, _) if !has_users => return Err(NO_PASSWORD.into()),
        (password, None, _) => authenticate(task, USER, password)?,
        (user, Some(password), 0) => authenticate(task, user, password)?,
        _ => return Err(SYNTAX.into()),
    }
    reply::simple(out.bytes, "OK");
    Ok(Done::Next)
}

/// Whether a client is authenticated: with users, by its password; else as the one user, with any.
fn authenticate(
    task: &mut Task<'_, '_, '_, '_, '_>,
    user: &[u8],
    password: &[u8],
) -> Result<(), Stop> {
    let is_true = match &task.context.server.users {
        None => Some(user == USER),
        Some(_) => task.client.log_in(user, password),
    };
    match is_true {
        Some(true) => Ok(()),
        Some(false) => Err(WRONG_PASSWORD.into()),
        None => Err(Stop::Again(Again::Session)),
    }
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`.
pub(super) fn hello(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let version = match task.words.next() {
        None => None,
        Some(word) => {
            let version =
                integer(word).ok_or("ERR Protocol version is not an integer or out of range")?;
            Some(match version {
                2 => Version::Two,
                3 => Version::Three,
                _ => return Err("NOPROTO unsupported protocol version".into()),
            })
        }
    };
    let mut has_auth = false;
    while let Some(word) = task.words.next() {
        let left = task.words.len();
        if word.eq_ignore_ascii_case(b"auth") && left >= 2 && !has_auth {
            has_auth = true;
            let (user, password) = (task.word(), task.word());
            authenticate(task, user, password)?;
        } else if word.eq_ignore_ascii_case(b"setname") && left >= 1 {
            let name = checked(task.word(), "Client names")?;
            // As in Redis: though a later word may be wrong. Nothing is kept for unauthenticated
            // clients.
            if task.client.rights != Rights::None {
                task.client.name = name.to_vec();
            }
        } else {
            return Err(unknown_word("ERR Syntax error in HELLO option '", word, "'"));
        }
    }
    if task.client.rights == Rights::None {
        return Err(HELLO_UNKNOWN.into());
    }
    task.client.version = version.unwrap_or(task.client.version);
    greet(task, out);
    Ok(Done::Next)
}

fn greet(task: &Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) {
    let version = task.version();
    let text = |out: &mut Vec<u8>, name: &str, value: &str| {
        reply::bulk(out, name.as_bytes());
        reply::bulk(out, value.as_bytes());
    };
    let number = |out: &mut Vec<u8>, name: &str, value: i64| {
        reply::bulk(out, name.as_bytes());
        reply::integer(out, value);
    };
    reply::map(out.bytes, version, 7);
    text(out.bytes, "server", "redis");
    text(out.bytes, "version", info::REDIS_VERSION);
    number(out.bytes, "proto", if version == Version::Three { 3 } else { 2 });
    number(out.bytes, "id", task.client.id as i64);
    text(out.bytes, "mode", "standalone");
    text(out.bytes, "role", "master");
    reply::bulk(out.bytes, b"modules");
    reply::array(out.bytes, 0);
}

/// Checks a name that a client gives itself: visible characters without spaces, and few enough that
/// names do not fill the memory.
fn checked<'b>(name: &'b [u8], what: &str) -> Result<&'b [u8], Stop> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("ERR {what} cannot be longer than {NAME_BYTES_MAX} bytes here").into());
    }
    if name.iter().all(u8::is_ascii_graphic) {
        return Ok(name);
    }
    Err(format!("ERR {what} cannot contain spaces, newlines or special characters.").into())
}

/// The subcommands of CLIENT.
pub(super) const CLIENT: &Subcommands = &[
    ("id", 0, 0),
    ("getname", 0, 0),
    ("info", 0, 0),
    ("help", 0, 0),
    ("setname", 1, 1),
    ("no-evict", 1, 1),
    ("setinfo", 2, 2),
];

/// `CLIENT subcommand ...`.
pub(super) fn client(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let word = task.word();
    match subcommand(task.name, word, task.words.len(), CLIENT)? {
        "id" => reply::integer(out.bytes, task.client.id as i64),
        "getname" if task.client.name.is_empty() => reply::null(out.bytes, task.version()),
        "getname" => reply::bulk(out.bytes, &task.client.name),
        "info" => reply::verbatim(out.bytes, task.version(), describe(task).as_bytes()),
        "help" => help(
            task.name,
            "GETNAME, ID, INFO, NO-EVICT (ON|OFF), SETINFO (LIB-NAME|LIB-VER) <value>, \
             SETNAME <name>.",
            out,
        ),
        "setname" => {
            task.client.name = checked(task.word(), "Client names")?.to_vec();
            reply::simple(out.bytes, "OK");
        }
        "no-evict" => {
            let word = task.word();
            if !word.eq_ignore_ascii_case(b"on") && !word.eq_ignore_ascii_case(b"off") {
                return Err(SYNTAX.into());
            }
            reply::simple(out.bytes, "OK");
        }
        _ => set_library(task, out)?,
    }
    Ok(Done::Next)
}

/// `CLIENT SETINFO LIB-NAME | LIB-VER value`.
fn set_library(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Result<(), Stop> {
    let (option, value) = (task.word(), task.word());
    let number = [b"lib-name", &b"lib-ver"[..]]
        .iter()
        .position(|name| option.eq_ignore_ascii_case(name))
        .ok_or_else(|| unknown_word("ERR Unrecognized option '", option, "'"))?;
    let name = String::from_utf8_lossy(option).into_owned();
    task.client.library[number] = checked(value, &name)?.to_vec();
    reply::simple(out.bytes, "OK");
    Ok(())
}

/// The line of `CLIENT INFO`.
fn describe(task: &Task<'_, '_, '_, '_, '_>) -> String {
    let client = &*task.client;
    let version = if client.version == Version::Three { 3 } else { 2 };
    let address = |name: &str| name.strip_prefix("tcp:").unwrap_or(name).to_owned();
    let text = String::from_utf8_lossy;
    format!(
        "id={} addr={} laddr={} fd={} name={} age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 \
         multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 \
         tot-mem=0 events=r cmd=client|info user=default redir=-1 resp={version} lib-name={} \
         lib-ver={}\n",
        client.id,
        address(&client.info.address),
        address(&client.info.listen_address),
        client.info.fd,
        text(&client.name),
        text(&client.library[0]),
        text(&client.library[1]),
    )
}
