//! Execution of requests: each family in a file of its own, and their common parts here.
//!
//! A command reads and changes the cache through the batch's session, appends its reply to the
//! output and counts. An action that concerns the connection is returned as a [`Flow`].

mod admin;
mod arithmetic;
mod binary;
mod get;
mod login;
mod meta_arithmetic;
mod meta_delete;
mod meta_get;
mod meta_set;
pub mod redis;
mod store;
mod touch_delete;
mod tuning;

use std::sync::Arc;

use larder::{Ahead, Condition, Draft, Expiry, Hash, Item, Refusal, Session};
use protocol::binary::Command;
use protocol::request::{ExpiryTime, Key, KeyRoom, MetaFlags};
use protocol::{Request, reply};

use crate::connection::Close;
use crate::counters::Counters;
use crate::dump::Dump;
use crate::namespaces::Act;
use crate::output::Output;
use crate::plan::{Action, Payload, Step};
use crate::server::Server;
use crate::watch::{self, DETAIL, FETCHERS, Log};

pub use admin::{VERSION, limit_memory};
pub use login::Login;

/// The context of a command, beside its request.
pub struct Context<'a, 'c> {
    /// The server.
    pub server: &'c Server,
    /// The worker's counters.
    pub counters: &'a Counters,
    /// The worker.
    pub worker: usize,
    /// The connection's file descriptor, for log lines.
    pub fd: i32,
    /// Fresh sessions have met [`Refusal::SessionTooLong`] so often that it is final.
    pub is_patience_over: bool,
}

/// The connection's next step after a command.
pub enum Flow<'c> {
    /// Executes the next one.
    Next,
    /// Writes the output, then executes the same command again.
    Flush,
    /// The connection ends.
    Close(Close),
    /// The value streams into this draft.
    Stream(Draft<'c>),
    /// This many bytes are skipped.
    Swallow(u64),
    /// The client asks to log in, which is yet to be checked.
    Login(Login),
    /// The certificates are to be read again.
    Certificates,
    /// The connection watches.
    Watch(Arc<Log>),
    /// The connection lists every item.
    Dump(Box<Dump<'c>>),
}

/// Why the same command has to be executed again, in another session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// The session must end before there is memory: flush, open another.
    Session,
    /// Something has to be read from flash first: the connection waits for it.
    Fetch,
    /// There is no room for the part of a long value that its client may not take: the connection
    /// waits.
    Room,
}

/// The result of a command.
pub type Outcome<'c> = Result<Flow<'c>, Again>;

impl Context<'_, '_> {
    /// Passes a refusal on unless the cure is another session.
    fn settle(&self, refusal: Refusal) -> Result<Refusal, Again> {
        match refusal {
            Refusal::SessionTooLong if !self.is_patience_over => Err(Again::Session),
            Refusal::Pending => Err(Again::Fetch),
            Refusal::SessionTooLong | Refusal::NoMemory => {
                self.server.unfinished.make_room(self.server.now());
                Ok(Refusal::NoMemory)
            }
            other => Ok(other),
        }
    }

    /// The condition of a store that compares this CAS unique. 0 fits no item, and without uniques
    /// nothing does.
    fn compared(&self, cas: u64) -> Condition {
        if self.server.options.cas && cas != 0 { Condition::Unique(cas) } else { Condition::Never }
    }

    /// The CAS unique that a delete or arithmetic compares, as in [`Context::compared`]: the server
    /// never gives 2^64 - 1, and an item has it only where a client has chosen it.
    fn compared_cas(&self, cas: u64) -> u64 {
        if self.server.options.cas && cas != 0 { cas } else { u64::MAX }
    }

    /// The unique that `C` compares in meta commands that compare with the unique an item shows: 0
    /// fits one that shows 0, which without uniques all do.
    fn compared_as_shown(&self, cas: Option<u64>) -> Option<u64> {
        match cas {
            Some(0) => self.server.options.cas.then_some(0),
            cas => cas.map(|cas| self.compared_cas(cas)),
        }
    }

    /// The CAS unique that a client chooses (`E`). Without uniques, no item has one of its own.
    fn chosen_cas(&self, cas: Option<u64>) -> Option<u64> {
        cas.filter(|_| self.server.options.cas)
    }

    /// The CAS unique that a client sees.
    fn shown_cas(&self, cas: u64) -> u64 {
        self.server.shown_cas(cas)
    }

    /// Whether any client watches any of `mask`.
    #[inline]
    fn is_watched(&self, mask: u32) -> bool {
        self.server.watchers.want(mask)
    }

    /// Counts an act on a key by its namespace, if that is wanted.
    #[inline]
    fn count_namespace(&self, key: &[u8], act: Act) {
        if self.is_watched(DETAIL) {
            self.server.namespaces.count(self.worker, key, act);
        }
    }

    /// Counts a get of a key by its namespace, and tells the watchers of fetches. To be called when
    /// [`Self::is_watched`] has said that either is wanted.
    #[cold]
    #[inline(never)]
    fn note_get(&self, key: &[u8], is_hit: bool, item: Option<&Item<'_>>) {
        self.count_namespace(key, Act::Get { is_hit: item.is_some() });
        if self.is_watched(FETCHERS) {
            let (class, bytes) = item.map_or((0, 0), |item| (item.class(), item.value_bytes()));
            let line = watch::item_get(key, is_hit, class, self.fd, bytes);
            self.log(FETCHERS, &line);
        }
    }

    /// Tells the watchers of `mask`.
    fn log(&self, mask: u32, text: &str) {
        let Server { watchers, mailboxes, evictions, .. } = self.server;
        evictions.log_behind(watchers, mailboxes, mask, text);
    }
}

/// Unix seconds, read from the clock: a second may have begun since the session read it.
fn exact_now(session: &Session<'_>) -> u64 {
    session.now_ms() / 1000
}

/// The expiry that a client means. Counted from a second that is over, a lifetime of a second would
/// have ended as soon as the item is stored.
fn expiry(time: ExpiryTime, session: &Session<'_>) -> Expiry {
    match time.resolve(|| exact_now(session)) {
        protocol::Expiry::Never => Expiry::NEVER,
        protocol::Expiry::Past => Expiry::PAST,
        protocol::Expiry::At(unix_s) => Expiry::at(u32::try_from(unix_s).unwrap_or(u32::MAX)),
    }
}

/// Seconds that an item has left, as meta's `t` shows them.
fn expires_in_s(expiry: Expiry, session: &Session<'_>) -> Option<u64> {
    let left_s = || u64::from(expiry.second()).saturating_sub(exact_now(session));
    (expiry != Expiry::NEVER).then(left_s)
}

/// The times in `T` and `N` of a meta request. Its flags act in their order: `t` shows the effect
/// of those before it, and the last one counts.
#[derive(Clone, Copy)]
struct Expiries {
    touch: Option<Expiry>,
    vivify: Option<Expiry>,
}

impl Expiries {
    /// The expiry of an item that `N` creates; `None` if it creates none.
    fn of_created(self, flags: MetaFlags<'_>) -> Option<Expiry> {
        let vivify = self.vivify?;
        let last = flags.iter().filter(|(letter, _)| matches!(letter, b'T' | b'N')).last();
        Some(match last {
            Some((b'T', _)) => self.touch.unwrap_or(vivify),
            _ => vivify,
        })
    }

    /// The expiry that `t` shows of an item that had `before`.
    fn shown(self, flags: MetaFlags<'_>, before: Expiry, created: bool) -> Expiry {
        let mut expiry = before;
        for (letter, _) in flags.iter() {
            match letter {
                b't' => break,
                b'T' => expiry = self.touch.unwrap_or(expiry),
                b'N' if created => expiry = self.vivify.unwrap_or(expiry),
                _ => {}
            }
        }
        expiry
    }
}

/// Whether a key of the binary or the Redis protocol could stand in a line of text. Dumps and
/// answers show others in base64.
fn is_text_key(key: &[u8]) -> bool {
    key.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}

/// Appends `line` unless the client wants no answer.
fn answer(out: &mut Output<'_, '_>, noreply: bool, line: &str) {
    if !noreply {
        reply::line(out.bytes, line);
    }
}

/// Executes one step. A multiget keeps its progress in the step, so that it can be executed again.
pub fn execute<'s, 'c>(
    context: &Context<'_, 'c>,
    session: &'s Session<'c>,
    step: &mut Step<'_>,
    ahead: &mut Ahead<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let request = match &mut step.action {
        Action::Answer(text) => {
            reply::line(out.bytes, text);
            return Ok(Flow::Next);
        }
        Action::Login(token) => return Ok(login::text(token, out)),
        Action::Close => return Ok(Flow::Close(Close::Error)),
        Action::Redis(_) => unreachable!("a client of Redis' has an executor of its own"),
        Action::Request(Request::Get(get)) => {
            return get::get(context, session, get, &mut step.hash_at, ahead, out);
        }
        Action::Binary(request) => {
            let request = *request;
            return binary::execute(context, session, &request, step, ahead, out);
        }
        Action::Refuse { echo, status, is_fatal } => {
            protocol::binary::reply::error(out.bytes, *echo, *status);
            return Ok(if *is_fatal { Flow::Close(Close::Error) } else { Flow::Next });
        }
        Action::Request(request) => &*request,
    };
    let hash = ahead.hashes().get(step.hash_at).copied();
    match hash {
        Some(hash) => {
            ahead.reach(session, step.hash_at, matches!(request, Request::MetaGet(_)));
            execute_keyed(context, session, request, hash, step.payload, out)
        }
        None => Ok(admin::execute(context, request, step.line, out)),
    }
}

/// Stores a draft that has been filled over several reads. [`Again`] returns the draft.
pub fn complete<'s, 'c>(
    context: &Context<'_, 'c>,
    session: &'s Session<'c>,
    action: &Action<'_>,
    draft: Draft<'c>,
    tail: &[u8],
    out: &mut Output<'_, 's>,
) -> Result<(), (Draft<'c>, Again)> {
    let command = storage_of(context, action);
    store::complete(context, session, &command, draft, tail, out)
}

/// Answers a storage request whose value has come in part and finds no more memory.
pub fn give_up<'s, 'c>(
    context: &Context<'_, 'c>,
    session: &'s Session<'c>,
    action: &Action<'_>,
    hash: Hash,
    refusal: Refusal,
    out: &mut Output<'_, 's>,
) -> Result<(), Again> {
    let command = storage_of(context, action);
    store::give_up(context, Target { session, hash }, &command, refusal, out)
}

/// The storage command of a request that has a draft.
fn storage_of<'a, 'b>(context: &Context<'_, '_>, action: &'a Action<'b>) -> store::Command<'a, 'b> {
    match action {
        Action::Request(request) => store::Command::of(context, request),
        Action::Binary(request) => match &request.command {
            Command::Store(store) => store::Command::binary(context, request, store),
            _ => unreachable!("only storage requests have a draft"),
        },
        _ => unreachable!("only requests have a draft"),
    }
}

/// Executes a request that has exactly one key.
fn execute_keyed<'s, 'c>(
    context: &Context<'_, 'c>,
    session: &'s Session<'c>,
    request: &Request<'_>,
    hash: Hash,
    payload: Payload<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let place = Target { session, hash };
    match request {
        Request::Store(_) | Request::MetaSet(_) => {
            let command = store::Command::of(context, request);
            store::store(context, place, &command, payload, out)
        }
        Request::MetaGet(get) => meta_get::get(context, place, get, out),
        Request::MetaDelete(delete) => meta_delete::delete(context, place, delete, out),
        Request::MetaArithmetic(count) => meta_arithmetic::count(context, place, count, out),
        Request::MetaDebug { key } => meta_get::debug(context, place, *key, out),
        Request::Delete { key, noreply } => {
            touch_delete::delete(context, place, *key, *noreply, out)
        }
        Request::Touch { key, expiry, noreply } => {
            touch_delete::touch(context, place, *key, *expiry, *noreply, out)
        }
        Request::Arithmetic { key, delta, direction, noreply } => {
            arithmetic::count(context, place, *key, (*delta, *direction), *noreply, out)
        }
        _ => unreachable!("only requests with one key have a hash of their own"),
    }
}

/// The session and the hash with which a command with one key works.
#[derive(Clone, Copy)]
struct Target<'s, 'c> {
    session: &'s Session<'c>,
    hash: Hash,
}

impl Target<'_, '_> {
    /// Deletes the value that a refused store would have replaced: it is older than the client's.
    fn remove_old(&self, key: Key<'_>) -> Result<(), Refusal> {
        let mut room = KeyRoom::default();
        let remove = larder::Remove::default();
        self.session.remove(key.bytes(&mut room), self.hash, &remove).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use io::Clock;

    use super::*;

    /// At the first millisecond of a second that the coarse time does not show yet.
    struct Turning;

    const SECOND: u32 = 1_800_000_000;

    impl Clock for Turning {
        fn unix_seconds(&self) -> u32 {
            SECOND - 1
        }

        fn unix_ms(&self) -> u64 {
            u64::from(SECOND) * 1000
        }
    }

    #[test]
    fn a_lifetime_of_a_second_outlasts_the_turn_of_the_second() {
        let builder = larder::Cache::builder().memory_bytes(8 << 20);
        let cache = builder.clock(std::sync::Arc::new(Turning)).build().expect("a small cache");
        let session = cache.session();
        assert_eq!(session.now(), SECOND - 1);
        let end = expiry(ExpiryTime(1), &session);
        assert_eq!(end, Expiry::at(SECOND + 1));
        assert_eq!(expires_in_s(end, &session), Some(1));
        drop(session);
        cache.set(b"brief", b"value", end).expect("it is stored");
        assert!(cache.get(b"brief").is_some());
    }
}
