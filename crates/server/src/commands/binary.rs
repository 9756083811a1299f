//! Execution of the binary protocol: requests for one key use the same calls of the cache and the
//! same counters as in text; requests about the server are executed here.

mod arithmetic;
mod get;

use std::sync::atomic::Ordering;

use larder::{Ahead, Remove, Removed, Session, Stored};
use protocol::binary::{Command, Echo, Request, Status, Store, reply};
use protocol::request::StoreMode;

use super::{Context, Flow, Outcome, Target, VERSION, admin, login, store, touch_delete};
use crate::connection::Close;
use crate::namespaces::Act;
use crate::output::Output;
use crate::plan::Step;
use crate::stats::{self, Detail, Topic};

/// memcached's words where a value finds no memory.
const NO_MEMORY_STORING: &str = "Out of memory allocating item";

/// Executes one request. Kept out of the code path of text.
#[inline(never)]
pub fn execute<'s, 'c>(
    context: &Context<'_, 'c>,
    session: &'s Session<'c>,
    request: &Request<'_>,
    step: &Step<'_>,
    ahead: &mut Ahead<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let Some(&hash) = ahead.hashes().get(step.hash_at) else {
        return Ok(execute_keyless(context, request, out));
    };
    ahead.reach(session, step.hash_at, matches!(request.command, Command::Get(_)));
    let target = Target { session, hash };
    match &request.command {
        Command::Get(get) => get::get(context, target, request, get, out),
        Command::Store(store) => {
            let command = store::Command::binary(context, request, store);
            store::store(context, target, &command, step.payload, out)
        }
        Command::Delete { key, compare_cas } => {
            delete(context, target, request, (key, *compare_cas), out)
        }
        Command::Arithmetic(count) => arithmetic::count(context, target, request, count, out),
        _ => unreachable!("only requests with one key have a hash of their own"),
    }
}

/// Executes a request without a key.
fn execute_keyless<'c>(
    context: &Context<'_, 'c>,
    request: &Request<'_>,
    out: &mut Output<'_, '_>,
) -> Flow<'c> {
    let echo = request.echo;
    match &request.command {
        Command::Noop => reply::success(out.bytes, echo, 0),
        Command::Version => reply::text(out.bytes, echo, VERSION.as_bytes()),
        Command::Verbosity { level } => {
            context.server.verbosity.store(*level, Ordering::Relaxed);
            reply::success(out.bytes, echo, 0);
        }
        Command::Flush { delay } => {
            if !admin::flush_at(context, *delay, out) {
                reply::error(out.bytes, echo, Status::AuthFailure);
            } else {
                succeed(out, request, 0);
            }
        }
        Command::Stat { arguments } => {
            statistics(context, echo, arguments, out);
            out.charge_turn();
        }
        Command::Quit => {
            succeed(out, request, 0);
            return Flow::Close(Close::Normal);
        }
        Command::SaslList => login::mechanisms(context, echo, out),
        &Command::Sasl { mechanism, message, is_first } => {
            return login::sasl(context, echo, (mechanism, message, is_first), out);
        }
        _ => unreachable!("requests with keys are executed elsewhere"),
    }
    Flow::Next
}

/// Answers a success unless the request is quiet.
fn succeed(out: &mut Output<'_, '_>, request: &Request<'_>, cas: u64) {
    if !request.quiet {
        reply::success(out.bytes, request.echo, cas);
    }
}

/// Answers the outcome of a store.
pub fn stored(
    context: &Context<'_, '_>,
    request: &Request<'_>,
    stored: Stored,
    out: &mut Output<'_, '_>,
) {
    let status = match stored {
        Stored::Stored { cas } => return succeed(out, request, context.shown_cas(cas)),
        Stored::Exists => Status::Exists,
        Stored::NotFound => Status::NotFound,
        Stored::NotStored => match &request.command {
            Command::Store(Store { mode: StoreMode::Add, .. }) => Status::Exists,
            Command::Store(Store { mode: StoreMode::Replace, .. }) => Status::NotFound,
            _ => Status::NotStored,
        },
    };
    reply::error(out.bytes, request.echo, status);
}

/// Answers a store that found no room for its value.
pub fn not_stored(request: &Request<'_>, is_too_large: bool, out: &mut Output<'_, '_>) {
    if is_too_large {
        reply::error(out.bytes, request.echo, Status::TooLarge);
    } else {
        reply::error_text(out.bytes, request.echo, Status::NoMemory, NO_MEMORY_STORING);
    }
}

/// `delete`.
fn delete<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    request: &Request<'_>,
    (key, compare_cas): (&[u8], Option<u64>),
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let compare_cas = compare_cas.map(|cas| context.compared_cas(cas));
    let how = Remove { compare_cas, ..Remove::default() };
    let removed = target.session.remove(key, target.hash, &how);
    if removed.is_ok() {
        context.count_namespace(key, Act::Delete);
    }
    let status = match removed {
        Ok(Removed::Removed) => {
            touch_delete::count_removed(context, key);
            succeed(out, request, 0);
            return Ok(Flow::Next);
        }
        Ok(Removed::Exists) => Status::Exists,
        Ok(Removed::NotFound) => {
            context.counters.delete_misses.one();
            Status::NotFound
        }
        Err(refusal) => {
            context.settle(refusal)?;
            Status::NoMemory
        }
    };
    reply::error(out.bytes, request.echo, status);
    Ok(Flow::Next)
}

/// `stat`: each line that text would answer in a packet of its own, and an empty packet at the end.
fn statistics(context: &Context<'_, '_>, echo: Echo, arguments: &[u8], out: &mut Output<'_, '_>) {
    let mut text = Vec::new();
    let topic = Topic::of_packet(arguments);
    stats::write(context.server, topic, &mut text);
    let is_dump = topic == Some(Topic::Detail(Some(Detail::Dump)));
    if is_dump && text.ends_with(b"END\r\n") {
        // As memcached: all of it is one value. Where dumps are forbidden it says something else.
        reply::stat(out.bytes, echo, b"detailed", &text);
        return reply::stat(out.bytes, echo, b"", b"");
    }
    let mut lines = text.split(|&byte| byte == b'\n').map(|line| line.trim_ascii_end());
    let is_known = lines
        .clone()
        .all(|line| line.starts_with(b"STAT ") || matches!(line, b"" | b"END" | b"RESET" | b"OK"));
    if !is_known {
        return reply::error(out.bytes, echo, Status::NotFound);
    }
    for line in lines.by_ref().filter_map(|line| line.strip_prefix(b"STAT ")) {
        let name_bytes = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
        let (name, value) = line.split_at(name_bytes);
        reply::stat(out.bytes, echo, name, value.get(1..).unwrap_or_default());
    }
    reply::stat(out.bytes, echo, b"", b"");
}
