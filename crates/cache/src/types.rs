//! The words of the cache's API: the requests, and their outcomes.

pub use hot::Policy;
use hot::{Fields, ItemRef};

use crate::item::Item;

/// When an item expires: a millisecond of Unix time, or never.
///
/// memcached's protocols speak of whole seconds, and most items have one. An item that expires
/// between two takes four bytes more, and is stored anew when it gets another expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expiry {
    /// The Unix second by which the item has expired; 0 is never.
    pub(crate) second: u32,
    /// Milliseconds before that second at which it expires, 999 at most.
    pub(crate) early_ms: u16,
}

/// Milliseconds in a second.
pub(crate) const MILLISECONDS: u64 = 1000;

impl Expiry {
    /// The item stays until it is evicted or removed.
    pub const NEVER: Self = Self { second: 0, early_ms: 0 };
    /// The item is gone the moment it is stored.
    pub const PAST: Self = Self::at(1);

    /// Puts the expiry into an item's fields.
    pub(crate) fn put_in(self, fields: Fields) -> Fields {
        Fields { expiry: self.second, early_ms: self.early_ms, ..fields }
    }

    /// Returns the expiry at this Unix second; 0 is never.
    pub const fn at(second: u32) -> Self {
        Self { second, early_ms: 0 }
    }

    /// Returns the expiry at this Unix millisecond. 0 is in the past like any other; a time beyond
    /// the last second in 32 bits (in 2106) becomes that second.
    pub fn at_ms(unix_ms: u64) -> Self {
        let Ok(second @ 1..) = u32::try_from(unix_ms.div_ceil(MILLISECONDS)) else {
            return if unix_ms == 0 { Self::PAST } else { Self::at(u32::MAX) };
        };
        let early_ms = u64::from(second) * MILLISECONDS - unix_ms;
        Self { second, early_ms: early_ms as u16 }
    }

    /// Returns the Unix second by which the item has expired; 0 is never.
    pub fn second(self) -> u32 {
        self.second
    }

    /// Returns the Unix millisecond at which the item expires; none if never.
    pub fn unix_ms(self) -> Option<u64> {
        let ms = u64::from(self.second) * MILLISECONDS;
        (self != Self::NEVER).then(|| ms - u64::from(self.early_ms))
    }

    /// Whether an item with this expiry has expired at `unix_ms`.
    pub fn is_expired(self, unix_ms: u64) -> bool {
        self.unix_ms().is_some_and(|over_ms| over_ms <= unix_ms)
    }
}

/// Returns the expiry of an item in the hot zone.
#[inline]
pub(crate) fn expiry_of(item: ItemRef<'_>) -> Expiry {
    Expiry { second: item.expiry(), early_ms: item.early_ms() }
}

/// Returns the expiry in an item's fields.
pub(crate) fn expiry_in(fields: &Fields) -> Expiry {
    Expiry { second: fields.expiry, early_ms: fields.early_ms }
}

/// Returns the expiry of a row of the compressed zone or of flash.
pub(crate) fn row_expiry(fields: &compressed::Fields) -> Expiry {
    Expiry { second: fields.expiry, early_ms: fields.early_ms }
}

/// The attributes stored with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Client flags, returned as they were stored.
    pub flags: u32,
    /// When the item expires.
    pub expiry: Expiry,
    /// The client sent the key in base64; dumps show it so.
    pub base64_key: bool,
    /// Microseconds that it takes to make the value again; 0 if unknown. Kept to a quarter of a
    /// thousandth.
    pub cost_us: u32,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Larger than the item limit.
    TooLarge,
    /// There is no memory, and nothing that may be evicted for it.
    NoMemory,
    /// The memory there is waits for the caller's own session to end. Drop the session, open
    /// another and ask again: memory that was evicted meanwhile is then free.
    SessionTooLong,
    /// The key's item is on flash and has to be read first: [`Session::take_wanted`] returns the
    /// reads. Do them, drop the session, open another, deliver the results, and ask again.
    ///
    /// [`Session::take_wanted`]: crate::Session::take_wanted
    Pending,
}

/// The outcome of looking a key up.
#[derive(Clone, Copy)]
pub enum Lookup<'s> {
    /// The item.
    Hit(Item<'s>),
    /// It is not there.
    Miss,
    /// It may be on flash, which has to be read first: see [`Refusal::Pending`].
    Pending,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the item is larger than the item limit",
            Self::NoMemory => "no memory, and nothing that may be evicted for it",
            Self::SessionTooLong => "the memory there is waits for this session to end",
            Self::Pending => "the item is on flash and has to be read first",
        })
    }
}

impl std::error::Error for Refusal {}

/// Which item a draft may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Any item, or none.
    Always,
    /// No item may be there.
    Absent,
    /// An item must be there.
    Present,
    /// Only the item with this CAS unique.
    Unique(u64),
    /// Only an item with a CAS unique that none has: nothing is stored.
    Never,
    /// meta `ms` with `C` and `I`: the item with this CAS unique; over one with a higher unique
    /// the draft is stored and marked stale; over one with a lower unique nothing is stored.
    UniqueOrStale(u64),
}

/// How a draft is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// Which item it may replace.
    pub condition: Condition,
    /// A CAS unique of the client's choice instead of the sequence's next (meta `E`).
    pub new_cas: Option<u64>,
}

impl Store {
    /// Returns a store under `condition`, with the sequence's next CAS unique.
    pub fn when(condition: Condition) -> Self {
        Self { condition, new_cas: None }
    }
}

/// Where `concat` puts the draft's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Behind the present value.
    Back,
    /// Before it.
    Front,
}

/// The outcome of a store or concat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// The item is stored, with this CAS unique.
    Stored {
        /// The item's CAS unique.
        cas: u64,
    },
    /// The condition did not hold: an item was there, or none was.
    NotStored,
    /// The item there has another CAS unique.
    Exists,
    /// `store` asked for a CAS unique and no item was there.
    NotFound,
}

/// A get with meta's additions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fetch {
    /// Give the item this expiry.
    pub touch: Option<Expiry>,
    /// On a miss, create an empty item with this expiry and hand out its win token.
    pub vivify: Option<Expiry>,
    /// Hand out a win token if the item expires before this.
    pub recache_before: Option<Expiry>,
    /// `recache_before` is compared with the expiry that `touch` gives, not with the one before it.
    pub touch_first: bool,
    /// The CAS unique of an item that `vivify` creates.
    pub new_cas: Option<u64>,
    /// Leave no trace: neither recency nor the fetched mark.
    pub quiet: bool,
    /// The client sent the key in base64.
    pub base64_key: bool,
    /// The caller will ask for the item's CAS unique, whether it was fetched, or how long it was
    /// idle. Only the hot zone knows these, so the item is promoted.
    pub with_history: bool,
}

/// The tokens that a fetch returns beside the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// `W`: this caller is to recompute the value.
    pub won: bool,
    /// `X`: the item is stale.
    pub stale: bool,
    /// `Z`: another caller has the win token already.
    pub sent: bool,
    /// The item was created by this fetch.
    pub created: bool,
    /// The item's expiry before this fetch; never, if it was created.
    pub expiry_before: Expiry,
}

/// The options of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Remove {
    /// Only the item with this CAS unique.
    pub compare_cas: Option<u64>,
    /// Mark the item stale instead, so that one reader recomputes it.
    pub invalidate: bool,
    /// With `invalidate` or `drop_value`: the item's new expiry.
    pub touch: Option<Expiry>,
    /// Drop the value, client flags and expiry, keep the item.
    pub drop_value: bool,
    /// With `drop_value`: the item's new client flags.
    pub flags: u32,
    /// The CAS unique of an item that stays.
    pub new_cas: Option<u64>,
}

/// The outcome of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// Removed, or changed as asked.
    Removed,
    /// No item was there.
    NotFound,
    /// The item there has another CAS unique.
    Exists,
}

/// A change of a decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arithmetic {
    /// The amount.
    pub delta: u64,
    /// Up (wrapping at 2^64) or down (stopping at 0).
    pub increment: bool,
    /// On a miss, create the item with this value and expiry.
    pub create: Option<(u64, Expiry)>,
    /// Give the item this expiry.
    pub touch: Option<Expiry>,
    /// Only the item with this CAS unique.
    pub compare_cas: Option<u64>,
    /// A CAS unique of the client's choice for the item.
    pub new_cas: Option<u64>,
    /// The client sent the key in base64 (for an item that is created).
    pub base64_key: bool,
}

impl Arithmetic {
    /// Adds 1 to a number that is there.
    pub const INCREMENT: Self = Self {
        delta: 1,
        increment: true,
        create: None,
        touch: None,
        compare_cas: None,
        new_cas: None,
        base64_key: false,
    };
}

/// The outcome of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// The number after the change, and what the reply may show of the item.
    Value {
        /// The number.
        value: u64,
        /// The item's CAS unique.
        cas: u64,
        /// The item's expiry before this request; never, if it was created.
        expiry_before: Expiry,
        /// The item's client flags.
        flags: u32,
        /// The item was created by this request.
        created: bool,
    },
    /// No item was there.
    NotFound,
    /// The item there has another CAS unique.
    Exists,
    /// The value does not begin with a decimal number of 64 bits.
    NotANumber,
}

/// An item that leaves the cache to make room for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted<'k> {
    /// Its key.
    pub key: &'k [u8],
    /// Bytes of its value.
    pub value_bytes: usize,
    /// When it would have expired.
    pub expiry: Expiry,
    /// Whether it was ever read.
    pub fetched: bool,
    /// Seconds since it was last read or stored, as [`crate::Item::idle_seconds`] counts.
    pub idle_seconds: u32,
    /// The number of its size class, from 1; 0 if it left the compressed zone.
    pub class: u32,
}

/// A receiver of evictions.
pub trait Observer: Send + Sync {
    /// Whether it wants to be told at this moment. Asked for every eviction, so it should be no
    /// more than the load of a flag.
    fn is_watching(&self) -> bool;

    /// Tells of an item that is about to leave. Must return quickly, and must not call the cache,
    /// which holds locks meanwhile.
    fn evicted(&self, evicted: &Evicted<'_>);
}
