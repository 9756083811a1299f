//! `incr` and `decr`, and the parts they share with `ma`.

use larder::{Arithmetic, Counted};
use protocol::reply;
use protocol::request::{Direction, Key};

use super::{Context, Flow, KeyRoom, Outcome, Target, answer};
use crate::output::Output;

/// `incr`, `decr`.
pub fn count<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    key: Key<'_>,
    (delta, direction): (u64, Direction),
    noreply: bool,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let how = Arithmetic {
        delta,
        increment: direction == Direction::Increment,
        create: None,
        touch: None,
        compare_cas: None,
        new_cas: None,
        base64_key: key.base64,
    };
    let mut room = KeyRoom::default();
    let counted = target.session.arithmetic(key.bytes(&mut room), target.hash, &how);
    let counted = match counted {
        Ok(counted) => counted,
        Err(refusal) => {
            context.settle(refusal)?;
            answer(out, noreply, reply::NO_MEMORY);
            return Ok(Flow::Next);
        }
    };
    tally(context, direction, counted);
    match counted {
        Counted::Value { value, .. } if !noreply => reply::number(out.bytes, value),
        Counted::Value { .. } => {}
        Counted::NotFound | Counted::Exists => answer(out, noreply, reply::NOT_FOUND),
        Counted::NotANumber => answer(out, noreply, reply::NON_NUMERIC),
    }
    Ok(Flow::Next)
}

/// Counts hits and misses.
pub fn tally(context: &Context<'_, '_>, direction: Direction, counted: Counted) {
    let counters = context.counters;
    let (hits, misses) = match direction {
        Direction::Increment => (&counters.incr_hits, &counters.incr_misses),
        Direction::Decrement => (&counters.decr_hits, &counters.decr_misses),
    };
    match counted {
        Counted::Value { created: false, .. } => hits.one(),
        Counted::NotFound => misses.one(),
        // As in memcached, which counts neither for a number created by the command.
        Counted::Value { created: true, .. } | Counted::Exists | Counted::NotANumber => {}
    }
}
