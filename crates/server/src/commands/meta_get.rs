//! `mg` and `me`.

use larder::{Fetch, Item, Tokens};
use protocol::reply;
use protocol::reply::dump::{ItemFacts, debug as debug_line};
use protocol::reply::meta::{MetaCode, MetaCommand, MetaFacts, meta};
use protocol::request::{Key, MetaGet};

use super::{Context, Flow, Outcome, Scratch, Target, expires_in_s, expiry};
use crate::output::Output;
use crate::watch::{self, FETCHERS};

/// `mg`.
pub fn get<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    get: &MetaGet<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let session = target.session;
    let fetch = Fetch {
        touch: get.touch.map(|time| expiry(time, session)),
        vivify: get.vivify.map(|time| expiry(time, session)),
        recache_below_seconds: get.recache,
        new_cas: get.new_cas,
        quiet: get.flags.iter().any(|(letter, _)| letter == b'u'),
        base64_key: get.key.base64,
    };
    let mut scratch: Scratch = [0; _];
    let key = get.key.bytes(&mut scratch);
    let (item, tokens) = match session.fetch(key, target.hash, &fetch) {
        Ok(found) => found,
        Err(refusal) => {
            context.settle(refusal)?;
            reply::line(out.bytes, reply::NO_MEMORY_ITEM);
            return Ok(Flow::Next);
        }
    };
    let is_hit = item.is_some() && !tokens.created;
    count(context, get, is_hit);
    if context.is_watched(FETCHERS) {
        let (class, bytes) =
            item.as_ref().map_or((0, 0), |item| (item.class(), item.value_bytes()));
        let line = watch::item_get(key, is_hit, class, context.fd, bytes);
        context.log(FETCHERS, &line);
    }
    match item {
        Some(item) => hit(context, target, get, &item, tokens, out),
        None if get.quiet => {}
        None => {
            let facts = MetaFacts::absent(get.key);
            meta(out.bytes, MetaCommand::Get, MetaCode::Miss, get.flags, &facts);
        }
    }
    Ok(Flow::Next)
}

/// Answers with the item.
fn hit<'s>(
    context: &Context<'_, '_>,
    target: Target<'s, '_>,
    get: &MetaGet<'_>,
    item: &Item<'s>,
    tokens: Tokens,
    out: &mut Output<'_, 's>,
) {
    let facts = MetaFacts {
        key: get.key,
        cas: context.shown_cas(item.cas()),
        client_flags: item.flags(),
        value_bytes: item.value_bytes(),
        expires_in_s: expires_in_s(item.expiry(), target.session),
        fetched: item.fetched(),
        idle_s: u64::from(item.idle_seconds()),
        token_sent: tokens.sent,
        stale: tokens.stale,
        won: tokens.won,
    };
    let has_value = get.value && get.known_cas != Some(item.cas());
    let code = if has_value { MetaCode::Value(item.value_bytes()) } else { MetaCode::Done };
    meta(out.bytes, MetaCommand::Get, code, get.flags, &facts);
    if has_value {
        out.value(item);
    }
}

fn count(context: &Context<'_, '_>, get: &MetaGet<'_>, is_hit: bool) {
    let counters = context.counters;
    counters.cmd_meta.one();
    counters.cmd_get.one();
    if is_hit {
        counters.get_hits.one();
    } else {
        counters.get_misses.one();
    }
    if get.touch.is_some() {
        counters.cmd_touch.one();
        if is_hit {
            counters.touch_hits.one();
        } else {
            counters.touch_misses.one();
        }
    }
}

/// `me`.
pub fn debug<'c>(
    context: &Context<'_, 'c>,
    target: Target<'_, 'c>,
    key: Key<'_>,
    out: &mut Output<'_, '_>,
) -> Flow<'c> {
    context.counters.cmd_meta.one();
    let mut scratch: Scratch = [0; _];
    let Some(item) = target.session.peek(key.bytes(&mut scratch), target.hash) else {
        reply::line(out.bytes, reply::META_MISS);
        return Flow::Next;
    };
    let facts = ItemFacts {
        expiry: expires_in_s(item.expiry(), target.session),
        accessed: u64::from(item.idle_seconds()),
        cas: context.shown_cas(item.cas()),
        fetched: item.fetched(),
        size_class: item.class(),
        item_bytes: item.chunk_bytes() as u64,
        client_flags: item.flags(),
    };
    debug_line(out.bytes, key, &facts);
    Flow::Next
}
