//! `mg` and `me`.

use larder::{Fetch, Item, Lookup, Tokens};
use protocol::reply::dump::{ItemFacts, debug as debug_line};
use protocol::reply::meta::{MetaCode, MetaCommand, MetaFacts, meta};
use protocol::request::{Key, MetaGet};
use protocol::{base64_key, reply};

use super::{
    Again, Context, Expiries, Flow, KeyRoom, Outcome, Target, expires_in_s, expiry, is_text_key,
};
use crate::output::Output;
use crate::watch::{DETAIL, FETCHERS};

/// `mg`.
pub fn get<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    get: &MetaGet<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let session = target.session;
    let expiries = Expiries {
        touch: get.touch.map(|time| expiry(time, session)),
        vivify: get.vivify.map(|time| expiry(time, session)),
    };
    let fetch = Fetch {
        touch: expiries.touch,
        vivify: expiries.of_created(get.flags),
        recache_before: get.recache.map(|time| expiry(time, session)),
        touch_first: get
            .flags
            .iter()
            .find(|(letter, _)| matches!(letter, b'T' | b'R'))
            .is_some_and(|(letter, _)| letter == b'T'),
        new_cas: context.chosen_cas(get.new_cas),
        quiet: get.flags.iter().any(|(letter, _)| letter == b'u'),
        base64_key: get.key.base64,
        with_history: get.known_cas.is_some()
            || get.flags.iter().any(|(letter, _)| matches!(letter, b'c' | b'h' | b'l')),
    };
    let mut room = KeyRoom::default();
    let key = get.key.bytes(&mut room);
    // Executed again, it could not tell the client the state before the request.
    let tells_before = tells_before(get);
    if tells_before && lacks_room(context, target, get, key, out) {
        return Err(Again::Room);
    }
    let (item, tokens) = match session.fetch(key, target.hash, &fetch) {
        Ok(found) => found,
        Err(refusal) => {
            context.settle(refusal)?;
            reply::line(out.bytes, reply::NO_MEMORY_ITEM);
            return Ok(Flow::Next);
        }
    };
    // Nor could it tell that the client has won.
    let may_repeat = !tokens.created && !tokens.won && !tells_before;
    if item.is_some_and(|item| !has_room(context, get, &item, out)) && may_repeat {
        return Err(Again::Room);
    }
    let is_hit = item.is_some() && !tokens.created;
    // As in memcached: an item created by the request is a hit to the counters, though not to
    // watchers.
    count(context, get, item.is_some());
    if context.is_watched(FETCHERS | DETAIL) {
        context.note_get(key, is_hit, item.as_ref());
    }
    match item {
        Some(item) => {
            context.counters.cost_saved_us.add(u64::from(item.cost_us()));
            let shown = expiries.shown(get.flags, tokens.expiry_before, tokens.created);
            hit(context, get, &item, tokens, expires_in_s(shown, session), out);
        }
        None if get.quiet => {}
        None => {
            let facts = MetaFacts::absent(get.key);
            meta(out.bytes, MetaCommand::Get, MetaCode::Miss, get.flags, &facts);
        }
    }
    Ok(Flow::Next)
}

/// Whether a client is told something that its own request changes: whether and when the item was
/// read before, and its expiry before the touch.
fn tells_before(get: &MetaGet<'_>) -> bool {
    let mut letters = get.flags.iter().map(|(letter, _)| letter);
    letters.any(|letter| matches!(letter, b'h' | b'l') || (letter == b't' && get.touch.is_some()))
}

/// Whether the client is sent the value of an item with this unique.
fn sends_value(get: &MetaGet<'_>, cas: u64) -> bool {
    get.value && get.known_cas != Some(cas)
}

/// Whether there is no room for the part of the value that the client may not take. The item is
/// looked up for that only if there is no room for the largest value.
fn lacks_room<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    get: &MetaGet<'_>,
    key: &[u8],
    out: &mut Output<'_, 's>,
) -> bool {
    if !get.value || out.has_room_at_once(context.server.cache.item_bytes_max()) {
        return false;
    }
    let found = target.session.peek_anywhere(key, target.hash);
    matches!(found, Lookup::Hit(item) if !has_room(context, get, &item, out))
}

/// Whether there is room for the part of the item's value that the client may not take.
fn has_room(
    context: &Context<'_, '_>,
    get: &MetaGet<'_>,
    item: &Item<'_>,
    out: &mut Output<'_, '_>,
) -> bool {
    !sends_value(get, context.shown_cas(item.cas())) || out.has_room_for(item.value_bytes())
}

/// Answers with the item.
fn hit<'s>(
    context: &Context<'_, '_>,
    get: &MetaGet<'_>,
    item: &Item<'s>,
    tokens: Tokens,
    expires_in_s: Option<u64>,
    out: &mut Output<'_, 's>,
) {
    let mut encoded = Vec::new();
    let facts = MetaFacts {
        key: key_of(item, get.key, &mut encoded),
        cas: context.shown_cas(item.cas()),
        client_flags: item.flags(),
        value_bytes: item.value_bytes(),
        expires_in_s,
        fetched: item.fetched(),
        idle_s: u64::from(item.idle_seconds()),
        token_sent: tokens.sent,
        stale: tokens.stale,
        won: tokens.won,
    };
    let has_value = sends_value(get, facts.cas);
    let code = if has_value { MetaCode::Value(item.value_bytes()) } else { MetaCode::Done };
    meta(out.bytes, MetaCommand::Get, code, get.flags, &facts);
    if has_value {
        out.value_line(item);
    }
}

/// The key as `k` and `me` show it: in the form in which the item was stored, whatever the
/// request's; always in base64 if no line of text can hold it. Redis clients may store such keys,
/// and do not say how they are to be shown.
fn key_of<'k>(item: &Item<'k>, requested: Key<'k>, encoded: &'k mut Vec<u8>) -> Key<'k> {
    if item.base64_key() == requested.base64 {
        return requested;
    }
    match requested.base64 {
        // It has one form in base64.
        true if !is_text_key(item.key()) => requested,
        true => Key::plain(item.key()),
        false => {
            base64_key::encode(encoded, item.key());
            Key { wire: encoded, base64: true }
        }
    }
}

/// Counts a get, or a touch where the item got another expiry.
fn count(context: &Context<'_, '_>, get: &MetaGet<'_>, is_hit: bool) {
    let counters = context.counters;
    counters.cmd_meta.one();
    match (is_hit, get.touch.is_some()) {
        (true, true) => {
            counters.cmd_touch.one();
            counters.touch_hits.one();
        }
        (true, false) => {
            counters.cmd_get.one();
            counters.get_hits.one();
        }
        (false, _) => {
            counters.cmd_get.one();
            counters.get_misses.one();
        }
    }
}

/// `me`.
pub fn debug<'c>(
    context: &Context<'_, 'c>,
    target: Target<'_, 'c>,
    key: Key<'_>,
    out: &mut Output<'_, '_>,
) -> Outcome<'c> {
    let mut room = KeyRoom::default();
    let lookup = target.session.peek_anywhere(key.bytes(&mut room), target.hash);
    if matches!(lookup, Lookup::Pending) {
        return Err(Again::Fetch);
    }
    context.counters.cmd_meta.one();
    let Lookup::Hit(item) = lookup else {
        reply::line(out.bytes, reply::META_MISS);
        return Ok(Flow::Next);
    };
    let facts = ItemFacts {
        expiry: expires_in_s(item.expiry(), target.session),
        accessed: u64::from(item.idle_seconds()),
        cas: context.shown_cas(item.cas()),
        fetched: item.fetched(),
        size_class: item.class(),
        item_bytes: item.chunk_bytes() as u64,
        client_flags: item.flags(),
        cost_us: item.cost_us(),
    };
    let mut encoded = Vec::new();
    debug_line(out.bytes, key_of(&item, key, &mut encoded), &facts);
    Ok(Flow::Next)
}
