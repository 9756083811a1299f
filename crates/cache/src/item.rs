//! An item as a reader sees it.

use hot::mark::{FETCHED, STALE, idle_seconds};

use crate::cache::Cache;
use crate::places::Found;
use crate::types::Expiry;

/// An item that was found. Readable, without a copy, while its session lives.
#[derive(Clone, Copy)]
pub struct Item<'s> {
    cache: &'s Cache,
    found: Found<'s>,
    /// The mark before this access.
    mark: u8,
}

impl<'s> Item<'s> {
    pub(crate) fn new(cache: &'s Cache, found: Found<'s>, mark: u8) -> Self {
        Self { cache, found, mark }
    }

    /// The key.
    pub fn key(&self) -> &'s [u8] {
        self.found.item.key()
    }

    /// Client flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.found.item.flags()
    }

    /// When the item stops being there.
    pub fn expiry(&self) -> Expiry {
        Expiry(self.found.item.expiry())
    }

    /// Microseconds that it takes to make the value again, as it was stored; 0 if nobody knows.
    pub fn cost_us(&self) -> u32 {
        self.found.item.cost().us()
    }

    /// The CAS unique: differs from that of every other item the key had or will have.
    pub fn cas(&self) -> u64 {
        self.cache.cas_of(self.found.item)
    }

    /// Bytes of the value.
    #[inline]
    pub fn value_bytes(&self) -> usize {
        self.found.item.value_bytes()
    }

    /// The value, unless it is so large that it lies in pieces: see [`Item::pieces`].
    #[inline]
    pub fn contiguous(&self) -> Option<&'s [u8]> {
        self.found.item.contiguous()
    }

    /// The value, piece by piece: one piece, except for values beyond 16 to
    /// 128 KiB, a sixteenth of a slab.
    pub fn pieces(&self) -> impl Iterator<Item = &'s [u8]> + use<'s> {
        let (hot, item) = (&self.cache.hot, self.found.item);
        let chained = item.layout().pieces();
        let pieces = (0..chained).map(move |number| hot.piece_value(item, number));
        item.contiguous().into_iter().chain(pieces)
    }

    /// A copy of the value.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.value_bytes());
        self.pieces().for_each(|piece| value.extend_from_slice(piece));
        value
    }

    /// Whether anybody had read it before this access.
    pub fn fetched(&self) -> bool {
        self.mark & FETCHED != 0
    }

    /// Seconds since the access before this one: to a minute for the last quarter of an hour, and
    /// at least so many beyond.
    pub fn idle_seconds(&self) -> u32 {
        idle_seconds(self.mark, self.cache.now())
    }

    /// Whether it was invalidated and not yet recomputed.
    pub fn stale(&self) -> bool {
        self.mark & STALE != 0
    }

    /// Whether the client that stored it sent the key in base64.
    pub fn base64_key(&self) -> bool {
        self.found.item.base64_key()
    }

    /// The number of its size class, from 1.
    pub fn class(&self) -> u32 {
        u32::from(self.cache.hot.class_at(self.found.place()).0) + 1
    }

    /// Bytes of memory it takes: of its chunk, or of all its chunks' content.
    pub fn chunk_bytes(&self) -> usize {
        let layout = self.found.item.layout();
        if layout.is_chained() {
            return layout.total_bytes();
        }
        let class = self.cache.hot.class_at(self.found.place());
        self.cache.hot.sizes().chunk_bytes(class)
    }
}

impl std::fmt::Debug for Item<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Item")
            .field("key", &String::from_utf8_lossy(self.key()))
            .field("value_bytes", &self.value_bytes())
            .field("expiry", &self.expiry())
            .finish_non_exhaustive()
    }
}
