//! The requests that a connection's bytes hold, a batch at a time.
//!
//! ```text
//! input   get a b\r\nset c 0 0 3\r\nxyz\r\nget d
//!         |--- step 0 ---||------- step 1 ------||-- not a whole line: stays
//! hashes  a b             c
//! ```
//!
//! [`Plan::fill`] parses requests from the input until the batch is full, and hashes every key on
//! the way, so that the memory of all of them can be asked for before the first is executed.
//! Parsing never depends on the effect of an earlier request of the batch; where it would (a value
//! that is not all there, `watch`, a dump, `quit`), the batch ends.
//!
//! A multiget that does not fit the batch is cut: its head is a step with `more` set, its tail is
//! carried into the next batch.

mod login;
mod packets;
mod readers;
pub mod redis;

use larder::{Cache, Hash};
use protocol::parse::tokens::Tokens;
use protocol::request::{Get, GetContinuation, Key, KeyRoom};
use protocol::resp::Scan;
use protocol::{Dialect, Parsed, Request, Wire, binary, parse_as};

use crate::commands::redis::Call;
use crate::rights::Rights;

/// Keys fetched ahead and executed under one pin of the cache. Enough to overlap the memory latency
/// of a core's outstanding misses several times over, and few enough that the memory the batch
/// touches stays in the first-level cache.
pub const BATCH_KEYS_MAX: usize = 128;

/// The position of the hash for a request without a key.
const NO_HASH: usize = usize::MAX;

/// A place in the input to go on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Bytes before it.
    pub offset: usize,
    /// The multiget that it lies within.
    pub continuation: Option<GetContinuation>,
}

/// The value behind a storage request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'b> {
    /// The request has none.
    None,
    /// The value and its end in this protocol.
    Whole(&'b [u8]),
    /// It has not arrived in full; the connection streams it.
    Part,
}

/// The action of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action<'b> {
    /// Executes a request.
    Request(Request<'b>),
    /// Executes a request of the binary protocol.
    Binary(binary::Request<'b>),
    /// Answers a header of the binary protocol that is no request.
    Refuse {
        /// The fields that the reply repeats.
        echo: binary::Echo,
        /// The reply's status.
        status: binary::Status,
        /// The connection ends behind the reply.
        is_fatal: bool,
    },
    /// Checks a name and a password, with a space between them.
    Login(&'b [u8]),
    /// Executes a command of Redis'.
    Redis(Call<'b>),
    /// Sends this answer to a line that is no request.
    Answer(&'static str),
    /// Closes the connection.
    Close,
}

/// One request of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step<'b> {
    /// Its action.
    pub action: Action<'b>,
    /// The request's line, with its end.
    pub line: &'b [u8],
    /// The value behind it.
    pub payload: Payload<'b>,
    /// The position of its first key's hash.
    pub hash_at: usize,
    /// The position after its last key's hash; without keys, after those of earlier steps.
    pub hash_end: usize,
    /// Where to parse it again.
    pub place: Place,
}

/// Why a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The input holds no further whole request.
    Input,
    /// It is full, or what follows depends on it.
    Batch,
}

/// The way through one read's input.
pub struct Plan<'b> {
    input: &'b [u8],
    wire: Wire,
    dialect: Dialect,
    place: Place,
    carried: Option<Get<'b>>,
    /// The rights of the client.
    pub rights: Rights,
    /// How far the Redis command at the plan's place has been scanned.
    scan: Scan,
    /// The longest command of Redis' protocol.
    command_bytes_max: usize,
    /// Bytes beyond the input that belong to a refused request and must be skipped.
    pub swallow_bytes: u64,
}

/// Reuses a list's memory for steps of another lifetime.
pub fn recycle<'b>(mut steps: Vec<Step<'_>>) -> Vec<Step<'b>> {
    steps.clear();
    steps.into_iter().map(|_| unreachable!("the list was cleared")).collect()
}

impl<'b> Plan<'b> {
    /// Starts at the front of `input`.
    pub fn new(
        input: &'b [u8],
        continuation: Option<GetContinuation>,
        dialect: Dialect,
        wire: Wire,
    ) -> Self {
        let place = Place { offset: 0, continuation };
        Self {
            input,
            wire,
            dialect,
            place,
            carried: None,
            rights: Rights::All,
            scan: Scan::default(),
            command_bytes_max: 0,
            swallow_bytes: 0,
        }
    }

    /// The protocol that the input is in.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Whether there is input that has not been planned yet.
    pub fn has_more(&self) -> bool {
        self.carried.is_some() || !self.rest().is_empty()
    }

    /// The input that has not been planned yet.
    pub fn rest(&self) -> &'b [u8] {
        &self.input[self.place.offset..]
    }

    /// Passes over bytes that belonged to a value.
    pub fn skip(&mut self, bytes: usize) {
        self.place.offset += bytes;
    }

    /// Where `step` goes on, which for a multiget is at its next key.
    pub fn place_of_step(&self, step: &Step<'b>) -> Place {
        match &step.action {
            Action::Request(Request::Get(get)) if !get.keys.is_empty() => {
                self.place_of(get.keys, continuation_of(get))
            }
            _ => step.place,
        }
    }

    /// Where the next request stands.
    pub fn place(&self) -> Place {
        match &self.carried {
            None => self.place,
            Some(get) => self.place_of(get.keys, continuation_of(get)),
        }
    }

    /// The place of the first of `keys`, a part of the input.
    fn place_of(&self, keys: &[u8], continuation: GetContinuation) -> Place {
        Place {
            offset: keys.as_ptr().addr() - self.input.as_ptr().addr(),
            continuation: Some(continuation),
        }
    }

    /// Fills a batch with the next requests.
    #[inline(always)]
    pub fn fill(
        &mut self,
        cache: &Cache,
        steps: &mut Vec<Step<'b>>,
        hashes: &mut Vec<Hash>,
    ) -> End {
        steps.clear();
        hashes.clear();
        match self.wire {
            Wire::Text if self.rights == Rights::All => self.fill_text(cache, steps, hashes),
            Wire::Text if self.rights == Rights::None => self.fill_login(steps),
            Wire::Text => self.fill_for_reader(cache, steps, hashes),
            Wire::Binary => self.fill_binary(cache, steps, hashes),
            Wire::Redis => self.fill_redis(cache, steps, hashes),
        }
    }

    /// [`Plan::fill`] of text.
    fn fill_text(
        &mut self,
        cache: &Cache,
        steps: &mut Vec<Step<'b>>,
        hashes: &mut Vec<Hash>,
    ) -> End {
        if let Some(get) = self.carried.take() {
            let place = self.place_of(get.keys, continuation_of(&get));
            self.push_get(cache, get, b"", place, steps, hashes);
        }
        while hashes.len() < BATCH_KEYS_MAX && steps.len() < BATCH_KEYS_MAX {
            let place = self.place;
            if self.rest().is_empty() {
                return End::Input;
            }
            match parse_as(self.rest(), place.continuation, self.dialect) {
                Parsed::Incomplete => return End::Input,
                Parsed::Request { request, consumed } => {
                    let line = &self.rest()[..consumed];
                    self.place = Place { offset: place.offset + consumed, continuation: None };
                    if self.push(cache, request, line, place, steps, hashes) {
                        return End::Batch;
                    }
                }
                Parsed::Refused { error, consumed, swallow_bytes, quiet } => {
                    self.place = Place { offset: place.offset + consumed, continuation: None };
                    let answer = if quiet { "" } else { error.line() };
                    steps.push(Step::answer(answer, place));
                    if self.swallow(swallow_bytes) {
                        return End::Batch;
                    }
                }
                Parsed::Close => {
                    steps.push(Step::close(place));
                    return End::Batch;
                }
            }
        }
        End::Batch
    }

    /// Adds a request; true if the batch must end behind it.
    fn push(
        &mut self,
        cache: &Cache,
        request: Request<'b>,
        line: &'b [u8],
        place: Place,
        steps: &mut Vec<Step<'b>>,
        hashes: &mut Vec<Hash>,
    ) -> bool {
        if let Request::Get(get) = request {
            self.place.continuation = get.continuation();
            self.push_get(cache, get, line, place, steps, hashes);
            return false;
        }
        let mut hash_at = NO_HASH;
        let mut payload = Payload::None;
        if let Some(key) = key_of(&request) {
            hash_at = hashes.len();
            let mut room = KeyRoom::default();
            let hash = cache.hash(key.bytes(&mut room));
            hashes.push(hash);
        }
        if let Some(value_bytes) = value_bytes_of(&request) {
            payload = match self.rest().get(..value_bytes + 2) {
                Some(whole) => Payload::Whole(whole),
                None => Payload::Part,
            };
            if let Payload::Whole(whole) = payload {
                self.place.offset += whole.len();
            }
        }
        let action = Action::Request(request);
        let hash_end = hashes.len();
        steps.push(Step { action, line, payload, hash_at, hash_end, place });
        payload == Payload::Part || ends_batch(&request)
    }

    /// Adds a multiget, or as much of it as fits.
    fn push_get(
        &mut self,
        cache: &Cache,
        mut get: Get<'b>,
        line: &'b [u8],
        place: Place,
        steps: &mut Vec<Step<'b>>,
        hashes: &mut Vec<Hash>,
    ) {
        let hash_at = hashes.len();
        let mut keys = Tokens::new(get.keys);
        while hashes.len() < BATCH_KEYS_MAX {
            let Some(key) = keys.next() else {
                break;
            };
            let hash = cache.hash(key);
            hashes.push(hash);
        }
        let rest = keys.rest();
        if Tokens::new(rest).next().is_some() {
            self.carried = Some(Get { keys: rest, ..get });
            get.keys = &get.keys[..get.keys.len() - rest.len()];
            get.more = true;
        }
        let action = Action::Request(Request::Get(get));
        let hash_end = hashes.len();
        steps.push(Step { action, line, payload: Payload::None, hash_at, hash_end, place });
    }

    /// Skips the part of a refused value that is here; true if more of it is to come.
    fn swallow(&mut self, bytes: u64) -> bool {
        let here = self.rest().len() as u64;
        let skipped = bytes.min(here);
        self.place.offset += usize::try_from(skipped).expect("no more than the input holds");
        self.swallow_bytes = bytes - skipped;
        self.swallow_bytes > 0
    }
}

impl<'b> Step<'b> {
    fn bare(action: Action<'b>, place: Place) -> Self {
        let payload = Payload::None;
        Self { action, line: b"", payload, hash_at: NO_HASH, hash_end: 0, place }
    }

    fn answer(text: &'static str, place: Place) -> Self {
        Self::bare(Action::Answer(text), place)
    }

    fn close(place: Place) -> Self {
        Self::bare(Action::Close, place)
    }
}

/// The continuation that a connection which stops before `get` hands to the parser later.
fn continuation_of(get: &Get<'_>) -> GetContinuation {
    GetContinuation { with_cas: get.with_cas, touch: get.touch, refused: get.refused }
}

/// The key of a request that has exactly one.
pub fn key_of<'b>(request: &Request<'b>) -> Option<Key<'b>> {
    match request {
        Request::Store(store) => Some(store.key),
        Request::MetaGet(get) => Some(get.key),
        Request::MetaSet(set) => Some(set.key),
        Request::MetaDelete(delete) => Some(delete.key),
        Request::MetaArithmetic(arithmetic) => Some(arithmetic.key),
        Request::Delete { key, .. }
        | Request::Arithmetic { key, .. }
        | Request::Touch { key, .. }
        | Request::MetaDebug { key } => Some(*key),
        _ => None,
    }
}

/// The length of the value that follows a request.
fn value_bytes_of(request: &Request<'_>) -> Option<usize> {
    match request {
        Request::Store(store) => Some(store.value_bytes),
        Request::MetaSet(set) => Some(set.value_bytes),
        _ => None,
    }
}

/// Whether this request may change the meaning of the input behind it.
fn ends_batch(request: &Request<'_>) -> bool {
    matches!(
        request,
        Request::Quit
            | Request::Watch { .. }
            | Request::RefreshCerts
            | Request::Administration { .. }
            | Request::Shutdown { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> Cache {
        Cache::builder().memory_bytes(64 << 20).build().expect("a small cache")
    }

    #[test]
    fn a_batch_ends_where_a_value_is_not_all_there() {
        let cache = cache();
        let (mut steps, mut hashes) = (Vec::new(), Vec::new());
        let input = b"get a b\r\nset c 0 0 3\r\nxyz\r\nset d 0 0 9\r\nxy";
        let mut plan = Plan::new(input, None, Dialect::default(), Wire::Text);
        assert_eq!(plan.fill(&cache, &mut steps, &mut hashes), End::Batch);
        assert_eq!(steps.len(), 3);
        assert_eq!(hashes.len(), 4);
        assert_eq!(steps[1].payload, Payload::Whole(b"xyz\r\n"));
        assert_eq!(steps[2].payload, Payload::Part);
        assert_eq!(plan.rest(), b"xy");
    }

    #[test]
    fn a_long_multiget_is_cut_and_carried() {
        let cache = cache();
        let (mut steps, mut hashes) = (Vec::new(), Vec::new());
        let mut input = b"get".to_vec();
        for number in 0..BATCH_KEYS_MAX + 1 {
            input.extend_from_slice(format!(" key{number}").as_bytes());
        }
        input.extend_from_slice(b"\r\nmn\r\n");
        let mut plan = Plan::new(&input, None, Dialect::default(), Wire::Text);
        plan.fill(&cache, &mut steps, &mut hashes);
        assert_eq!((steps.len(), hashes.len()), (1, BATCH_KEYS_MAX));
        let place = plan.place();
        assert!(input[place.offset..].trim_ascii_start().starts_with(b"key128\r\n"));
        assert!(place.continuation.is_some());
        assert_eq!(plan.fill(&cache, &mut steps, &mut hashes), End::Input);
        assert_eq!((steps.len(), hashes.len()), (2, 1));
        assert!(plan.rest().is_empty());
    }

    #[test]
    fn a_refused_value_is_skipped_as_far_as_it_is_here() {
        let cache = cache();
        let (mut steps, mut hashes) = (Vec::new(), Vec::new());
        let mut plan = Plan::new(b"set a -1 0 9\r\nxyz", None, Dialect::default(), Wire::Text);
        assert_eq!(plan.fill(&cache, &mut steps, &mut hashes), End::Batch);
        assert_eq!(plan.swallow_bytes, 8);
    }
}
