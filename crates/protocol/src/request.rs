//! Requests of clients: every request of the text and meta protocols as borrowed data.
//!
//! A request borrows from the connection's read buffer. The payload of a storage request is not
//! part of it: `value_bytes` is the number of bytes that follow the line (and then `\r\n`), so that
//! the connection can stream a value of any size to its place in memory.

use crate::base64_key;
use crate::parse::tokens::Tokens;
use crate::refusal::Refusal;

/// The longest key, decoded or not.
pub const KEY_BYTES_MAX: usize = 250;

/// A key as the client sent it: 1 to 250 bytes without spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'b> {
    /// The bytes on the wire: the key, or its base64 form.
    pub wire: &'b [u8],
    /// The key is base64 (meta flag `b`); the parser has checked that it decodes.
    pub base64: bool,
}

impl<'b> Key<'b> {
    /// A key that is not encoded.
    pub fn plain(wire: &'b [u8]) -> Key<'b> {
        Key { wire, base64: false }
    }

    /// The key itself: the bytes on the wire, or the bytes that their base64 form decodes to (in
    /// `room`).
    #[inline]
    pub fn bytes<'k>(&self, room: &'k mut KeyRoom) -> &'k [u8]
    where
        'b: 'k,
    {
        if self.base64 { self.decoded(room) } else { self.wire }
    }

    #[inline(never)]
    fn decoded<'k>(&self, room: &'k mut KeyRoom) -> &'k [u8] {
        let bytes = room.0.insert([0; KEY_BYTES_MAX]);
        let length = base64_key::decode(self.wire, bytes).expect("the parser checked the key");
        &bytes[..length]
    }
}

/// Room for a key that has to be decoded; made ready only then.
#[derive(Debug, Default)]
pub struct KeyRoom(Option<[u8; KEY_BYTES_MAX]>);

/// An expiry time as the client wrote it: 0 never, negative already past, up to 30 days relative
/// seconds, beyond that Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpiryTime(pub i64);

/// The values that a store may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreMode {
    /// Any value, or none.
    Set,
    /// Stored only where there is none.
    Add,
    /// Stored only where there is one.
    Replace,
    /// Appended to the one that is there.
    Append,
    /// Prepended to the one that is there.
    Prepend,
    /// Stored only over the one with this CAS unique.
    Cas(u64),
}

/// Up or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// `incr`, wrapping at 2^64.
    Increment,
    /// `decr`, stopping at 0.
    Decrement,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Request<'b> {
    /// `get`, `gets`, `gat`, `gats`.
    Get(Get<'b>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`; a payload follows.
    Store(Store<'b>),
    /// `delete`.
    Delete {
        /// The key.
        key: Key<'b>,
        /// Sends no answer.
        noreply: bool,
    },
    /// `incr`, `decr`.
    Arithmetic {
        /// The key.
        key: Key<'b>,
        /// The amount.
        delta: u64,
        /// Up or down.
        direction: Direction,
        /// Sends no answer.
        noreply: bool,
    },
    /// `touch`.
    Touch {
        /// The key.
        key: Key<'b>,
        /// The new expiry.
        expiry: ExpiryTime,
        /// Sends no answer.
        noreply: bool,
    },
    /// `mg`.
    MetaGet(MetaGet<'b>),
    /// `ms`; a payload follows.
    MetaSet(MetaSet<'b>),
    /// `md`.
    MetaDelete(MetaDelete<'b>),
    /// `ma`.
    MetaArithmetic(MetaArithmetic<'b>),
    /// `me`.
    MetaDebug {
        /// The key.
        key: Key<'b>,
    },
    /// `mn`.
    MetaNoop,
    /// `flush_all [delay] [noreply]`.
    FlushAll {
        /// Seconds from now, or Unix time; 0 is now.
        delay: ExpiryTime,
        /// Sends no answer.
        noreply: bool,
    },
    /// `flush_prefix prefix [b] [noreply]`.
    FlushPrefix {
        /// The beginning of the keys.
        prefix: Key<'b>,
        /// Sends no answer.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `verbosity n [noreply]`.
    Verbosity {
        /// Sends no answer.
        noreply: bool,
    },
    /// `quit`.
    Quit,
    /// `stats [args]`; the rest of the line, trimmed.
    Stats {
        /// The words behind `stats`.
        arguments: &'b [u8],
    },
    /// `watch [args]`; the rest of the line, trimmed.
    Watch {
        /// The words behind `watch`.
        arguments: &'b [u8],
    },
    /// `lru_crawler [args]`, `lru [args]`, `slabs [args]`, `extstore [args]`: whole line, trimmed.
    Administration {
        /// The line.
        line: &'b [u8],
    },
    /// `cache_memlimit <MB> [noreply]`.
    CacheMemlimit {
        /// The new limit.
        megabytes: u64,
        /// Sends no answer.
        noreply: bool,
    },
    /// `shutdown [graceful]`.
    Shutdown {
        /// Whether the connections may finish; `None` if the way to stop is unknown, which matters
        /// only where stopping is allowed.
        graceful: Option<bool>,
    },
    /// `refresh_certs`.
    RefreshCerts,
}

/// `get`, `gets`, `gat`, `gats`: any number of keys, some of which may not have arrived yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Get<'b> {
    /// One or more keys with single or multiple spaces between them; each is 1 to 250 bytes, which
    /// the parser has checked. See `keys()`.
    pub keys: &'b [u8],
    /// `gets`, `gats`: return CAS uniques.
    pub with_cas: bool,
    /// `gat`, `gats`: the new expiry.
    pub touch: Option<ExpiryTime>,
    /// The line goes on: more keys of this request follow, and no `END` yet. The connection keeps
    /// the [`GetContinuation`] and hands it to the parser with the next bytes.
    pub more: bool,
    /// The line is known to be bad: the rest of it is skipped (`keys` is empty and `more` is set),
    /// and the parser answers its end with this refusal.
    pub refused: Option<Refusal>,
}

impl<'b> Get<'b> {
    /// The keys, one after the other.
    pub fn keys(&self) -> Tokens<'b> {
        Tokens::new(self.keys)
    }

    /// The continuation that the connection keeps for the next call of the parser; `None` once the
    /// line has ended.
    pub fn continuation(&self) -> Option<GetContinuation> {
        self.more.then_some(GetContinuation {
            with_cas: self.with_cas,
            touch: self.touch,
            refused: self.refused,
        })
    }
}

/// A multiget whose line has not ended yet, kept by the connection between reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetContinuation {
    /// As in [`Get`].
    pub with_cas: bool,
    /// As in [`Get`].
    pub touch: Option<ExpiryTime>,
    /// As in [`Get`].
    pub refused: Option<Refusal>,
}

/// A classic storage request. `value_bytes + 2` bytes follow the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Store<'b> {
    /// The key.
    pub key: Key<'b>,
    /// The values that may be replaced.
    pub mode: StoreMode,
    /// Client flags.
    pub flags: u32,
    /// The expiry.
    pub expiry: ExpiryTime,
    /// Length of the value, without the `\r\n` behind it.
    pub value_bytes: usize,
    /// Microseconds that it took to make the value; 0 if the client does not say.
    pub cost_us: u32,
    /// Sends no answer.
    pub noreply: bool,
}

/// The flag tokens of a meta request, in the order in which they were sent. Iterate with `iter()`:
/// each token is a flag letter and its argument (empty if none).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MetaFlags<'b>(pub &'b [u8]);

impl<'b> MetaFlags<'b> {
    /// Each flag letter with its argument (empty if none), in request order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'b [u8])> + use<'b> {
        Tokens::new(self.0).map(|token| (token[0], &token[1..]))
    }
}

/// `mg`. The options that its flags set beyond the fields to return.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetaGet<'b> {
    /// The key.
    pub key: Key<'b>,
    /// All flag tokens, for the reply.
    pub flags: MetaFlags<'b>,
    /// `v`: return the value.
    pub value: bool,
    /// `q`: no answer to a miss.
    pub quiet: bool,
    /// `T`: the new expiry.
    pub touch: Option<ExpiryTime>,
    /// `N`: create an empty item with this expiry on a miss.
    pub vivify: Option<ExpiryTime>,
    /// `R`: hand out a win token if the item expires before this.
    pub recache: Option<ExpiryTime>,
    /// `E`: the CAS unique that a vivified item gets.
    pub new_cas: Option<u64>,
    /// `C`: the client has the value with this CAS unique and wants no other copy of it; such a
    /// hit is answered without the value.
    pub known_cas: Option<u64>,
}

/// `ms`. `value_bytes + 2` bytes follow the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetaSet<'b> {
    /// The key.
    pub key: Key<'b>,
    /// All flag tokens, for the reply.
    pub flags: MetaFlags<'b>,
    /// Length of the value, without the `\r\n` behind it.
    pub value_bytes: usize,
    /// `M`: never `Cas`; see `compare_cas`.
    pub mode: StoreMode,
    /// `F`: client flags.
    pub client_flags: u32,
    /// `T`: the expiry.
    pub expiry: ExpiryTime,
    /// `C`: only over an item with this CAS unique.
    pub compare_cas: Option<u64>,
    /// `E`: the CAS unique the item gets.
    pub new_cas: Option<u64>,
    /// `I`: with `C` older than the item's: store and mark stale.
    pub invalidate: bool,
    /// `N`: append and prepend create a missing item with this expiry.
    pub vivify: Option<ExpiryTime>,
    /// `q`: no answer to success.
    pub quiet: bool,
    /// `Pc<microseconds>`: the cost of making the value; 0 if the client does not say.
    pub cost_us: u32,
}

/// `md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetaDelete<'b> {
    /// The key.
    pub key: Key<'b>,
    /// All flag tokens, for the reply.
    pub flags: MetaFlags<'b>,
    /// `C`: only the item with this CAS unique.
    pub compare_cas: Option<u64>,
    /// `E`: the CAS unique of an item that stays (`I`, `x`).
    pub new_cas: Option<u64>,
    /// `I`: mark stale instead of deleting.
    pub invalidate: bool,
    /// `T`: with `I` or `x`, the new expiry.
    pub touch: Option<ExpiryTime>,
    /// `x`: drop the value and client flags, keep the item.
    pub drop_value: bool,
    /// `F`: with `x`, the new client flags.
    pub client_flags: u32,
    /// `q`: no answer to success.
    pub quiet: bool,
}

/// `ma`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetaArithmetic<'b> {
    /// The key.
    pub key: Key<'b>,
    /// All flag tokens, for the reply.
    pub flags: MetaFlags<'b>,
    /// `M`.
    pub direction: Direction,
    /// `D`: the amount; 1 if absent.
    pub delta: u64,
    /// `J`: the value of an item that `N` creates.
    pub initial: u64,
    /// `N`: create a missing item with this expiry.
    pub vivify: Option<ExpiryTime>,
    /// `T`: the new expiry.
    pub touch: Option<ExpiryTime>,
    /// `C`: only the item with this CAS unique.
    pub compare_cas: Option<u64>,
    /// `E`: the CAS unique the item gets.
    pub new_cas: Option<u64>,
    /// `v`: return the value.
    pub value: bool,
    /// `q`: no answer to success.
    pub quiet: bool,
}
