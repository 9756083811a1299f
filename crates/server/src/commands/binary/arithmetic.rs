//! `increment` and `decrement`.

use larder::{Arithmetic as How, Counted};
use protocol::binary::{Arithmetic, Request, Status, reply};
use protocol::request::Direction;

use super::{Context, Flow, Outcome, Target};
use crate::commands::{arithmetic, expiry, is_text_key};
use crate::output::Output;

/// Counts, and creates a missing item if the request gives an initial value.
pub fn count<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    request: &Request<'_>,
    count: &Arithmetic<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let session = target.session;
    let how = How {
        delta: count.delta,
        increment: count.direction == Direction::Increment,
        create: count.create.map(|(initial, time)| (initial, expiry(time, session))),
        touch: None,
        compare_cas: count.compare_cas.map(|cas| context.compared_cas(cas)),
        new_cas: None,
        base64_key: !is_text_key(count.key),
    };
    let status = match session.arithmetic(count.key, target.hash, &how) {
        Ok(counted) => {
            arithmetic::tally(context, count.direction, counted);
            match counted {
                Counted::Value { value, cas, .. } => {
                    if !request.quiet {
                        let cas = context.shown_cas(cas);
                        reply::number(out.bytes, request.echo, cas, value);
                    }
                    return Ok(Flow::Next);
                }
                Counted::NotFound => Status::NotFound,
                Counted::Exists => Status::Exists,
                Counted::NotANumber => Status::NonNumeric,
            }
        }
        Err(refusal) => {
            context.settle(refusal)?;
            Status::NoMemory
        }
    };
    reply::error(out.bytes, request.echo, status);
    Ok(Flow::Next)
}
