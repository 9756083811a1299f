//! `touch` and `delete`.

use larder::{Remove, Removed};
use protocol::reply;
use protocol::request::{ExpiryTime, Key};

use super::{Context, Flow, KeyRoom, Outcome, Target, answer, expiry};
use crate::namespaces::Act;
use crate::output::Output;
use crate::watch::{self, DELETIONS};

/// `touch`.
pub fn touch<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    key: Key<'_>,
    time: ExpiryTime,
    noreply: bool,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let mut room = KeyRoom::default();
    let expiry = expiry(time, target.session);
    let key = key.bytes(&mut room);
    let touched = target.session.touch(key, target.hash, expiry);
    let is_hit = match touched {
        Ok(is_hit) => is_hit,
        Err(refusal) => {
            context.settle(refusal)?;
            answer(out, noreply, reply::NO_MEMORY);
            return Ok(Flow::Next);
        }
    };
    let counters = context.counters;
    counters.cmd_touch.one();
    if is_hit {
        counters.touch_hits.one();
        answer(out, noreply, reply::TOUCHED);
    } else {
        counters.touch_misses.one();
        answer(out, noreply, reply::NOT_FOUND);
    }
    Ok(Flow::Next)
}

/// `delete`.
pub fn delete<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    key: Key<'_>,
    noreply: bool,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let mut room = KeyRoom::default();
    let key = key.bytes(&mut room);
    let removed = match target.session.remove(key, target.hash, &Remove::default()) {
        Ok(removed) => removed,
        Err(refusal) => {
            context.settle(refusal)?;
            answer(out, noreply, reply::NO_MEMORY);
            return Ok(Flow::Next);
        }
    };
    context.count_namespace(key, Act::Delete);
    if removed == Removed::Removed {
        count_removed(context, key);
        answer(out, noreply, reply::DELETED);
    } else {
        context.counters.delete_misses.one();
        answer(out, noreply, reply::NOT_FOUND);
    }
    Ok(Flow::Next)
}

/// Counts a removal, and tells the watchers of deletions.
pub fn count_removed(context: &Context<'_, '_>, key: &[u8]) {
    context.counters.delete_hits.one();
    if context.is_watched(DELETIONS) {
        let key = watch::key_text(key);
        let text = format!("type=deleted key={key} cmd=delete clsid=0 size=0");
        context.log(DELETIONS, &text);
    }
}
