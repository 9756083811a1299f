//! `get`, `getk`, `gat`, `gatk` and `touch` with their quiet forms.

use protocol::binary::{Get, Request, Status, reply};

use super::{Context, Flow, Outcome, Target};
use crate::commands::get::{Tally, find};
use crate::output::Output;

/// Answers a hit, and a miss unless the request is quiet. Every hit shows the CAS unique, as that
/// of `gets` in text does, unless the server gives none.
pub fn get<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    request: &Request<'_>,
    get: &Get<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let with_cas = context.server.options.cas;
    let how = (with_cas, get.touch, get.with_value);
    let item = find(context, target.session, how, get.key, target.hash, out)?;
    let mut tally = Tally::default();
    match item {
        Some(item) => {
            let value_bytes = if get.with_value { item.value_bytes() } else { 0 };
            let (cas, flags) = (context.shown_cas(item.cas()), item.flags());
            let key = if get.with_key { get.key } else { b"" };
            reply::hit(out.bytes, request.echo, cas, flags, key, value_bytes);
            if get.with_value {
                out.value(&item);
            }
            tally.hit(item.cost_us());
        }
        None => {
            tally.miss();
            match (request.quiet, get.with_key) {
                (true, _) => {}
                (false, true) => reply::miss(out.bytes, request.echo, get.key),
                (false, false) => reply::error(out.bytes, request.echo, Status::NotFound),
            }
        }
    }
    tally.count(context, get.touch.is_some());
    Ok(Flow::Next)
}
