//! `set`, `add`, `replace`, `append`, `prepend`, `cas`, and the way of `ms` to the cache.
//!
//! ```text
//! line ----> reserve a draft ----> fill it ----> check the \r\n ----> store under its condition
//!               |refused                           |missing
//!               v                                  v
//!            delete the old value, skip         bad data chunk, the old value stays
//! ```
//!
//! A value that is here whole takes all steps at once; one that is not fills its draft over several
//! reads, and [`complete`] takes the last two steps.

use larder::{Attributes, Condition, Draft, Refusal, Side, Store as How, Stored};
use protocol::request::{ExpiryTime, Key, MetaSet, Store, StoreMode};
use protocol::{Request, binary, reply};

use super::{
    Again, Context, Flow, KeyRoom, Outcome, Target, answer, expires_in_s, expiry, is_text_key,
    meta_set,
};
use crate::namespaces::Act;
use crate::output::Output;
use crate::plan::Payload;
use crate::watch::{self, DETAIL, MUTATIONS};

/// The form of the request, which decides the form of the answer.
#[derive(Clone, Copy)]
enum Form<'r, 'b> {
    Classic { noreply: bool },
    Meta(&'r MetaSet<'b>),
    Binary(&'r binary::Request<'b>),
}

/// The common parameters of all storage commands.
pub struct Command<'r, 'b> {
    form: Form<'r, 'b>,
    key: Key<'b>,
    mode: StoreMode,
    flags: u32,
    expiry: ExpiryTime,
    value_bytes: usize,
    cost_us: u32,
    condition: Condition,
    new_cas: Option<u64>,
    vivify: Option<ExpiryTime>,
    /// If refused, it deletes the old value. A refused `add` says nothing about the value that is
    /// there; `ms` makes no difference between its modes.
    deletes_old: bool,
}

impl<'r, 'b> Command<'r, 'b> {
    /// A storage request of text.
    #[inline(always)]
    pub fn of(context: &Context<'_, '_>, request: &'r Request<'b>) -> Self {
        match request {
            Request::Store(store) => Self::classic(context, store),
            Request::MetaSet(set) => Self::meta(context, set),
            _ => unreachable!("only storage requests come here"),
        }
    }

    fn classic(context: &Context<'_, '_>, store: &Store<'b>) -> Self {
        let condition = match store.mode {
            StoreMode::Cas(cas) => context.compared(cas),
            mode => condition_of(mode),
        };
        Self {
            form: Form::Classic { noreply: store.noreply },
            key: store.key,
            mode: store.mode,
            flags: store.flags,
            expiry: store.expiry,
            value_bytes: store.value_bytes,
            cost_us: store.cost_us,
            condition,
            new_cas: None,
            vivify: None,
            deletes_old: store.mode == StoreMode::Set,
        }
    }

    fn meta(context: &Context<'_, '_>, set: &'r MetaSet<'b>) -> Self {
        let has_uniques = context.server.options.cas;
        let condition = match (set.mode, set.compare_cas) {
            // An add finds no item that could have a unique; 0, or any number without uniques, is
            // no unique to concatenate by.
            (StoreMode::Add, _) | (_, None) => condition_of(set.mode),
            (StoreMode::Append | StoreMode::Prepend, Some(cas)) if cas == 0 || !has_uniques => {
                condition_of(set.mode)
            }
            (StoreMode::Append | StoreMode::Prepend, Some(cas)) => Condition::Unique(cas),
            (_, Some(cas)) if set.invalidate && cas != 0 && has_uniques => {
                Condition::UniqueOrStale(cas)
            }
            (_, Some(cas)) => context.compared(cas),
        };
        Self {
            form: Form::Meta(set),
            key: set.key,
            mode: set.mode,
            flags: set.client_flags,
            expiry: set.expiry,
            value_bytes: set.value_bytes,
            cost_us: set.cost_us,
            condition,
            new_cas: context.chosen_cas(set.new_cas),
            vivify: set.vivify,
            deletes_old: true,
        }
    }

    /// A storage request of the binary protocol, where every mode but `add` may compare uniques.
    pub fn binary(
        context: &Context<'_, '_>,
        request: &'r binary::Request<'b>,
        store: &binary::Store<'b>,
    ) -> Self {
        let condition = match store.compare_cas {
            Some(cas) => context.compared(cas),
            None => condition_of(store.mode),
        };
        Self {
            form: Form::Binary(request),
            key: Key { wire: store.key, base64: false },
            mode: store.mode,
            flags: store.flags,
            expiry: store.expiry,
            value_bytes: store.value_bytes,
            cost_us: 0,
            condition,
            new_cas: None,
            vivify: None,
            deletes_old: store.mode == StoreMode::Set,
        }
    }

    /// The client is not told of an error in the value.
    fn is_silent(&self) -> bool {
        matches!(self.form, Form::Classic { noreply: true })
    }

    /// The value has a line end behind it.
    fn has_tail(&self) -> bool {
        !matches!(self.form, Form::Binary(_))
    }

    /// Bytes of the value and its end.
    fn payload_bytes(&self) -> u64 {
        self.value_bytes as u64 + if self.has_tail() { 2 } else { 0 }
    }

    /// The key is shown in base64: it came so, or no line of text can hold it.
    fn shows_base64(&self) -> bool {
        match self.form {
            Form::Binary(_) => !is_text_key(self.key.wire),
            _ => self.key.base64,
        }
    }

    fn concatenates(&self) -> bool {
        matches!(self.mode, StoreMode::Append | StoreMode::Prepend)
    }

    fn word(&self) -> &'static str {
        match self.mode {
            StoreMode::Set => "set",
            StoreMode::Add => "add",
            StoreMode::Replace => "replace",
            StoreMode::Append => "append",
            StoreMode::Prepend => "prepend",
            StoreMode::Cas(_) => "cas",
        }
    }
}

fn condition_of(mode: StoreMode) -> Condition {
    match mode {
        StoreMode::Set => Condition::Always,
        StoreMode::Add => Condition::Absent,
        StoreMode::Replace | StoreMode::Append | StoreMode::Prepend => Condition::Present,
        StoreMode::Cas(cas) => Condition::Unique(cas),
    }
}

/// Stores a value that is whole, or begins one that is not. Inlined into each of its callers, as
/// [`find`](super::get::find) is.
#[inline(always)]
pub fn store<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    command: &Command<'_, '_>,
    payload: Payload<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let mut room = KeyRoom::default();
    let attributes = Attributes {
        flags: command.flags,
        expiry: expiry(command.expiry, target.session),
        base64_key: command.shows_base64(),
        cost_us: command.cost_us,
    };
    let key = command.key.bytes(&mut room);
    let (session, bytes) = (target.session, command.value_bytes);
    let reserved = match payload {
        Payload::Part if !context.server.unfinished.admits(context.server, key, bytes) => {
            Err(Refusal::NoMemory)
        }
        Payload::Part => session.begin(key, target.hash, attributes, bytes),
        _ => session.reserve(key, target.hash, attributes, bytes),
    };
    let mut draft = match reserved {
        Ok(draft) => draft,
        Err(refusal) => {
            let refusal = context.settle(refusal)?;
            refused(context, target, command, refusal, out)?;
            return Ok(match payload {
                Payload::Part => Flow::Swallow(command.payload_bytes()),
                _ => Flow::Next,
            });
        }
    };
    let Payload::Whole(whole) = payload else {
        return Ok(Flow::Stream(draft));
    };
    let (mut value, tail) = whole.split_at(command.value_bytes);
    while !value.is_empty() {
        let written = draft.write(value);
        value = &value[written..];
    }
    match finish(context, target, command, draft, tail, out) {
        Ok(()) => Ok(Flow::Next),
        Err((_, again)) => Err(again),
    }
}

/// Answers a store whose value has come in part and finds no memory for the rest.
pub fn give_up<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    command: &Command<'_, '_>,
    refusal: Refusal,
    out: &mut Output<'_, 's>,
) -> Result<(), Again> {
    let refusal = context.settle(refusal)?;
    refused(context, target, command, refusal, out)
}

/// Stores a draft that has been filled over several reads. [`Again`] returns the draft.
pub fn complete<'s, 'c>(
    context: &Context<'_, 'c>,
    session: &'s larder::Session<'c>,
    command: &Command<'_, '_>,
    draft: Draft<'c>,
    tail: &[u8],
    out: &mut Output<'_, 's>,
) -> Result<(), (Draft<'c>, Again)> {
    let hash = context.server.cache.hash(draft.key());
    let target = Target { session, hash };
    finish(context, target, command, draft, tail, out)
}

/// Checks the value's end, stores, answers and counts.
fn finish<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    command: &Command<'_, '_>,
    draft: Draft<'c>,
    tail: &[u8],
    out: &mut Output<'_, 's>,
) -> Result<(), (Draft<'c>, Again)> {
    debug_assert_eq!(draft.remaining(), 0, "a draft is stored when it is full");
    if tail != b"\r\n" && command.has_tail() {
        context.counters.cmd_set.one();
        context.count_namespace(draft.key(), Act::Set);
        answer(out, command.is_silent(), reply::BAD_DATA_CHUNK);
        return Ok(());
    }
    let session = target.session;
    let how = How { condition: command.condition, new_cas: command.new_cas };
    let vivify = command.vivify.map(|time| expiry(time, session));
    let stored = match command.mode {
        StoreMode::Append => session.concat_sized(draft, Side::Back, how, vivify),
        StoreMode::Prepend => session.concat_sized(draft, Side::Front, how, vivify),
        _ => session.store_costed(draft, how).map(|(stored, cost_us)| {
            context.counters.cost_stored_us.add(u64::from(cost_us));
            (stored, command.value_bytes)
        }),
    };
    match stored {
        Ok(outcome) => {
            stored_or_not(context, session, command, outcome, out);
            Ok(())
        }
        Err((draft, refusal)) => match context.settle(refusal) {
            // The value that is there is good, and stays; only the addition has no room.
            Ok(_) if command.concatenates() => {
                let outcome = (Stored::NotStored, command.value_bytes);
                stored_or_not(context, session, command, outcome, out);
                Ok(())
            }
            Ok(refusal) => {
                refused(context, target, command, refusal, out).map_err(|again| (draft, again))
            }
            Err(again) => Err((draft, again)),
        },
    }
}

/// Counts, logs and answers the outcome of a store, with the value's length.
fn stored_or_not(
    context: &Context<'_, '_>,
    session: &larder::Session<'_>,
    command: &Command<'_, '_>,
    (stored, value_bytes): (Stored, usize),
    out: &mut Output<'_, '_>,
) {
    count(context, command, stored);
    log(context, session, command, word(stored));
    match command.form {
        Form::Classic { noreply } => answer(out, noreply, line(stored)),
        Form::Meta(set) => meta_set::reply(context, set, (stored, value_bytes), out),
        Form::Binary(request) => super::binary::stored(context, request, stored, out),
    }
}

/// Answers a store that found no room, and deletes the value it would have replaced: the client's
/// is newer.
fn refused(
    context: &Context<'_, '_>,
    target: Target<'_, '_>,
    command: &Command<'_, '_>,
    refusal: Refusal,
    out: &mut Output<'_, '_>,
) -> Result<(), Again> {
    if command.deletes_old
        && let Err(refusal) = target.remove_old(command.key)
    {
        context.settle(refusal)?;
    }
    let is_too_large = refusal == Refusal::TooLarge;
    let (line, status) = if is_too_large {
        context.counters.store_too_large.one();
        (reply::TOO_LARGE, "too_large")
    } else {
        context.counters.store_no_memory.one();
        (reply::NO_MEMORY_STORING, "no_memory")
    };
    log(context, target.session, command, status);
    match command.form {
        Form::Binary(request) => super::binary::not_stored(request, is_too_large, out),
        _ => answer(out, command.is_silent(), line),
    }
    Ok(())
}

fn line(stored: Stored) -> &'static str {
    match stored {
        Stored::Stored { .. } => reply::STORED,
        Stored::NotStored => reply::NOT_STORED,
        Stored::Exists => reply::EXISTS,
        Stored::NotFound => reply::NOT_FOUND,
    }
}

fn word(stored: Stored) -> &'static str {
    match stored {
        Stored::Stored { .. } => "stored",
        Stored::NotStored => "not_stored",
        Stored::Exists => "exists",
        Stored::NotFound => "not_found",
    }
}

fn count(context: &Context<'_, '_>, command: &Command<'_, '_>, stored: Stored) {
    let counters = context.counters;
    counters.cmd_set.one();
    let has_unique = matches!(
        command.condition,
        Condition::Unique(_) | Condition::UniqueOrStale(_) | Condition::Never
    );
    if has_unique && !command.concatenates() {
        match stored {
            Stored::Stored { .. } => counters.cas_hits.one(),
            Stored::Exists => counters.cas_badval.one(),
            Stored::NotFound => counters.cas_misses.one(),
            Stored::NotStored => {}
        }
    }
}

/// Counts by namespaces, and tells the watchers of mutations.
fn log(
    context: &Context<'_, '_>,
    session: &larder::Session<'_>,
    command: &Command<'_, '_>,
    status: &str,
) {
    if !context.is_watched(MUTATIONS | DETAIL) {
        return;
    }
    let mut room = KeyRoom::default();
    let key = command.key.bytes(&mut room);
    context.count_namespace(key, Act::Set);
    if !context.is_watched(MUTATIONS) {
        return;
    }
    // A stored item can be looked at, with the value an append added to; an unstored one has no
    // class.
    let hash = context.server.cache.hash(key);
    let stored = (status == "stored").then(|| watch::shape(session, key, hash));
    let shape = stored.unwrap_or((0, command.value_bytes));
    // A value that is appended to keeps its own expiry.
    let keeps = command.concatenates().then(|| session.peek(key, hash)).flatten();
    let end = keeps.map_or_else(|| expiry(command.expiry, session), |item| item.expiry());
    let ttl_s = expires_in_s(end, session).unwrap_or(0);
    let text = watch::item_store(key, status, command.word(), ttl_s, context.fd, shape);
    context.log(MUTATIONS, &text);
}
