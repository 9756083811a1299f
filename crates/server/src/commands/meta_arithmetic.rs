//! `ma`.

use larder::{Arithmetic, Counted};
use protocol::reply;
use protocol::reply::meta::{MetaCode, MetaCommand, MetaFacts, meta};
use protocol::request::{Direction, MetaArithmetic};

use super::{Context, Expiries, Flow, KeyRoom, Outcome, Target, arithmetic, expires_in_s, expiry};
use crate::output::Output;

/// `ma`.
pub fn count<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    request: &MetaArithmetic<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let session = target.session;
    let expiries = Expiries {
        touch: request.touch.map(|time| expiry(time, session)),
        vivify: request.vivify.map(|time| expiry(time, session)),
    };
    let how = Arithmetic {
        delta: request.delta,
        increment: request.direction == Direction::Increment,
        create: expiries.of_created(request.flags).map(|expiry| (request.initial, expiry)),
        touch: expiries.touch,
        compare_cas: request.compare_cas.map(|cas| context.compared_cas(cas)),
        new_cas: context.chosen_cas(request.new_cas),
        base64_key: request.key.base64,
    };
    let mut room = KeyRoom::default();
    let counted = session.arithmetic(request.key.bytes(&mut room), target.hash, &how);
    let counted = match counted {
        Ok(counted) => counted,
        Err(refusal) => {
            context.settle(refusal)?;
            reply::line(out.bytes, reply::NO_MEMORY_ITEM);
            return Ok(Flow::Next);
        }
    };
    context.counters.cmd_meta.one();
    arithmetic::tally(context, request.direction, counted);
    let mut facts = MetaFacts::absent(request.key);
    let code = match counted {
        Counted::Value { value, cas, expiry_before, flags, created } => {
            facts.cas = context.shown_cas(cas);
            let shown = expiries.shown(request.flags, expiry_before, created);
            facts.expires_in_s = expires_in_s(shown, session);
            facts.client_flags = flags;
            return Ok(hit(request, value, &facts, out));
        }
        Counted::NotFound => MetaCode::NotFound,
        Counted::Exists => MetaCode::Exists,
        Counted::NotANumber => {
            reply::line(out.bytes, reply::NON_NUMERIC);
            return Ok(Flow::Next);
        }
    };
    meta(out.bytes, MetaCommand::Arithmetic, code, request.flags, &facts);
    Ok(Flow::Next)
}

/// Answers, with the number if it is asked for; `q` keeps success silent.
fn hit<'c>(
    request: &MetaArithmetic<'_>,
    value: u64,
    facts: &MetaFacts<'_>,
    out: &mut Output<'_, '_>,
) -> Flow<'c> {
    if request.quiet {
        return Flow::Next;
    }
    if request.value {
        let mut scratch = [0; 20];
        let digits = reply::decimal_digits(value, &mut scratch);
        let code = MetaCode::Value(digits.len());
        meta(out.bytes, MetaCommand::Arithmetic, code, request.flags, facts);
        out.bytes.extend_from_slice(digits);
        out.bytes.extend_from_slice(b"\r\n");
    } else {
        meta(out.bytes, MetaCommand::Arithmetic, MetaCode::Done, request.flags, facts);
    }
    Flow::Next
}
