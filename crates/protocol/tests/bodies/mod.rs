//! Properties of any bytes: the bodies of the fuzz targets, which a stable test runs too.
//!
//! [`walk`] reads a stream as a connection would and checks each answer of the parser.
//! [`incremental`] reads the same stream twice, at once and in pieces, and compares the events.

use larder_protocol::parse::{Dialect, LINE_BYTES_MAX, Parsed, parse_as};
use larder_protocol::request::{GetContinuation, KEY_BYTES_MAX, Key, KeyRoom, MetaFlags, Request};

/// An event of a stream. A multiget that came in pieces is one event.
#[derive(Debug, PartialEq)]
pub struct Event {
    what: String,
    /// The length of the line, its end included.
    line_bytes: usize,
    leading_space: bool,
}

/// The parser's side of a connection.
#[derive(Default)]
struct Connection {
    dialect: Dialect,
    buffer: Vec<u8>,
    continuation: Option<GetContinuation>,
    /// Payload bytes still to be skipped.
    skip_bytes: u64,
    events: Vec<Event>,
    /// The keys of a multiget in pieces, and the bytes of it that have been read.
    keys: Vec<Vec<u8>>,
    line_bytes: usize,
    leading_space: bool,
    closed: bool,
}

impl Connection {
    fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        while !self.closed {
            let skipped = self.skip_bytes.min(self.buffer.len() as u64) as usize;
            self.buffer.drain(..skipped);
            self.skip_bytes -= skipped as u64;
            if self.skip_bytes > 0 || !self.step() {
                return;
            }
        }
    }

    /// Reads one request; false if there is none.
    fn step(&mut self) -> bool {
        let buffer = std::mem::take(&mut self.buffer);
        if self.continuation.is_none() {
            self.leading_space = buffer.first() == Some(&b' ');
        }
        let consumed = match parse_as(&buffer, self.continuation, self.dialect) {
            Parsed::Incomplete => {
                assert!(self.continuation.is_some() || buffer.len() <= LINE_BYTES_MAX + 1);
                assert!(!buffer.contains(&b'\n'));
                0
            }
            Parsed::Request { request, consumed } => {
                self.line_bytes += consumed;
                self.request(request);
                consumed
            }
            Parsed::Refused { error, consumed, swallow_bytes, quiet } => {
                assert!(error.line().ends_with("\r\n"));
                self.line_bytes += consumed;
                self.skip_bytes = swallow_bytes;
                self.continuation = None;
                self.event(format!("{error:?} {swallow_bytes} {quiet}"));
                consumed
            }
            Parsed::Close => {
                self.closed = true;
                0
            }
        };
        assert!(consumed <= buffer.len());
        self.buffer = buffer[consumed..].to_vec();
        consumed > 0
    }

    fn request(&mut self, request: Request<'_>) {
        assert!(self.line_bytes > 0, "progress");
        check_request(&request);
        match request {
            Request::Get(get) => {
                self.keys.extend(get.keys().map(<[u8]>::to_vec));
                self.continuation = get.continuation();
                if !get.more {
                    let keys = std::mem::take(&mut self.keys);
                    self.event(format!("get {keys:?} {} {:?}", get.with_cas, get.touch));
                }
                return;
            }
            Request::Store(store) => self.skip_bytes = store.value_bytes as u64 + 2,
            Request::MetaSet(set) => self.skip_bytes = set.value_bytes as u64 + 2,
            _ => {}
        }
        self.event(format!("{request:?}"));
    }

    fn event(&mut self, what: String) {
        let line_bytes = std::mem::take(&mut self.line_bytes);
        self.keys.clear();
        self.events.push(Event { what, line_bytes, leading_space: self.leading_space });
    }
}

/// Checks the guarantees of the request types.
fn check_request(request: &Request<'_>) {
    let key_is_good = |key: Key<'_>| {
        let mut room = KeyRoom::default();
        assert!((1..=KEY_BYTES_MAX).contains(&key.wire.len()));
        assert!((1..=KEY_BYTES_MAX).contains(&key.bytes(&mut room).len()));
        assert!(!key.wire.contains(&b' ') && !key.wire.contains(&b'\n'));
    };
    let flags_are_good = |flags: MetaFlags<'_>| {
        for (letter, argument) in flags.iter() {
            assert!(letter.is_ascii_alphabetic());
            assert!(!argument.contains(&b' ') && (letter != b'O' || argument.len() <= 31));
        }
    };
    match request {
        Request::Get(get) => {
            assert!(!get.more || get.refused.is_none() || get.keys.is_empty());
            get.keys().for_each(|wire| key_is_good(Key::plain(wire)));
        }
        Request::Store(store) => key_is_good(store.key),
        Request::Delete { key, .. }
        | Request::Arithmetic { key, .. }
        | Request::Touch { key, .. }
        | Request::MetaDebug { key } => key_is_good(*key),
        Request::MetaGet(get) => {
            key_is_good(get.key);
            flags_are_good(get.flags);
        }
        Request::MetaSet(set) => {
            key_is_good(set.key);
            flags_are_good(set.flags);
        }
        Request::MetaDelete(delete) => {
            key_is_good(delete.key);
            flags_are_good(delete.flags);
        }
        Request::MetaArithmetic(arithmetic) => {
            key_is_good(arithmetic.key);
            flags_are_good(arithmetic.flags);
        }
        _ => {}
    }
}

/// All dialects.
pub const DIALECTS: [Dialect; 2] = [Dialect { text_cost: false }, Dialect { text_cost: true }];

/// Reads a stream at once and returns its events, and whether it made the parser close.
pub fn walk(stream: &[u8], dialect: Dialect) -> (Vec<Event>, bool) {
    let mut connection = Connection { dialect, ..Connection::default() };
    connection.feed(stream);
    (connection.events, connection.closed)
}

/// Reads a stream at once and in pieces of `piece_bytes`, one after the other and then over again,
/// and checks that both give the same events.
pub fn incremental(stream: &[u8], piece_bytes: &[usize], dialect: Dialect) {
    let (whole, whole_closed) = walk(stream, dialect);
    let mut connection = Connection { dialect, ..Connection::default() };
    let mut rest = stream;
    for piece in piece_bytes.iter().cycle() {
        let (read, after) = rest.split_at((*piece).clamp(1, rest.len().max(1)).min(rest.len()));
        connection.feed(read);
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let pieces = connection.events;
    let same = pieces.iter().zip(&whole).take_while(|(piece, whole)| piece == whole).count();
    if pieces.len() == same && whole.len() == same && connection.closed == whole_closed {
        return;
    }
    // A line that is too long to wait for is read if it is there at once, and closes if it is not.
    let too_long = whole.get(same).is_some_and(|event| event.line_bytes > LINE_BYTES_MAX);
    if connection.closed && pieces.len() == same && too_long {
        return;
    }
    // So does a multiget behind spaces that ends like a browser's request, the other way round.
    let like_browser =
        pieces.get(same).is_some_and(|it| it.leading_space && it.line_bytes > LINE_BYTES_MAX);
    if whole_closed && whole.len() == same && like_browser {
        return;
    }
    panic!("at event {same}: {:?} in pieces, {:?} at once", pieces.get(same), whole.get(same));
}
