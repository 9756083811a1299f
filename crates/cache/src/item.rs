//! An item as a reader sees it.

use hot::mark::{FETCHED, STALE, TOKENS, fresh_mark, idle_seconds};

use crate::cache::Cache;
use crate::compressed_tier::Row;
use crate::places::Found;
use crate::types::{Expiry, expiry_in, expiry_of};

/// An item that was found. Readable, without a copy, while its session lives.
#[derive(Clone, Copy)]
pub struct Item<'s> {
    cache: &'s Cache,
    body: Body<'s>,
    /// The mark before this access.
    mark: u8,
}

/// Where the item lies.
#[derive(Clone, Copy)]
enum Body<'s> {
    /// In the hot zone.
    Hot(Found<'s>),
    /// In a lower tier; this is the session's copy.
    Row(&'s Row<'s>),
}

impl<'s> Item<'s> {
    pub(crate) fn hot(cache: &'s Cache, found: Found<'s>, mark: u8) -> Self {
        Self { cache, body: Body::Hot(found), mark }
    }

    pub(crate) fn compressed(cache: &'s Cache, row: &'s Row<'s>) -> Self {
        Self { cache, body: Body::Row(row), mark: row.mark | fresh_mark(cache.now()) }
    }

    /// Returns the key.
    pub fn key(&self) -> &'s [u8] {
        match self.body {
            Body::Hot(found) => found.item.key(),
            Body::Row(row) => row.key,
        }
    }

    /// Returns the client flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        match self.body {
            Body::Hot(found) => found.item.flags(),
            Body::Row(row) => row.fields.flags,
        }
    }

    /// Returns when the item expires.
    pub fn expiry(&self) -> Expiry {
        match self.body {
            Body::Hot(found) => expiry_of(found.item),
            Body::Row(row) => expiry_in(&row.fields),
        }
    }

    /// Returns the microseconds that it takes to make the value again, as it was stored; 0 if
    /// unknown.
    pub fn cost_us(&self) -> u32 {
        match self.body {
            Body::Hot(found) => found.item.cost().us(),
            Body::Row(row) => row.fields.cost.us(),
        }
    }

    /// Returns the CAS unique, which differs from that of every other item the key had or will
    /// have. An item in a lower tier has none but a client's own, and this is 0:
    /// [`Session::get_with_cas`](crate::Session::get_with_cas) gives it one.
    pub fn cas(&self) -> u64 {
        match self.body {
            Body::Hot(found) => self.cache.cas_of(found.item),
            Body::Row(row) => row.fields.custom_cas.unwrap_or(0),
        }
    }

    /// Returns the bytes of the value.
    #[inline]
    pub fn value_bytes(&self) -> usize {
        match self.body {
            Body::Hot(found) => found.item.value_bytes(),
            Body::Row(row) => row.value.len(),
        }
    }

    /// Returns the value, unless it is so large that it lies in pieces: see [`Item::pieces`].
    #[inline]
    pub fn contiguous(&self) -> Option<&'s [u8]> {
        match self.body {
            Body::Hot(found) => found.item.contiguous(),
            Body::Row(row) => Some(row.value),
        }
    }

    /// Returns the value, piece by piece: one piece, except for values beyond 16 to 128 KiB, a
    /// sixteenth of a slab.
    pub fn pieces(&self) -> impl Iterator<Item = &'s [u8]> + use<'s> {
        let hot = &self.cache.hot;
        let chained = match self.body {
            Body::Hot(found) => Some(found.item),
            Body::Row(_) => None,
        };
        let pieces = chained.into_iter().flat_map(move |item| {
            (0..item.layout().pieces()).map(move |number| hot.piece_value(item, number))
        });
        self.contiguous().into_iter().chain(pieces)
    }

    /// Returns `take` bytes of the value from behind the first `skip`, or as many as there are, in
    /// order.
    pub fn part(&self, mut skip: usize, mut take: usize) -> impl Iterator<Item = &'s [u8]> {
        self.pieces().filter_map(move |piece| {
            let part = &piece[skip.min(piece.len())..];
            let part = &part[..take.min(part.len())];
            skip = skip.saturating_sub(piece.len());
            take -= part.len();
            (!part.is_empty()).then_some(part)
        })
    }

    /// Returns a copy of the value.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.value_bytes());
        self.pieces().for_each(|piece| value.extend_from_slice(piece));
        value
    }

    /// Whether it had been read before this access.
    pub fn fetched(&self) -> bool {
        self.mark & FETCHED != 0
    }

    /// Returns the seconds since the access before this one: to a minute for the last quarter of an
    /// hour, and a lower bound beyond. Not known of an item in a lower tier: 0.
    pub fn idle_seconds(&self) -> u32 {
        idle_seconds(self.mark, self.cache.now())
    }

    /// Whether it was invalidated and not yet recomputed.
    pub fn stale(&self) -> bool {
        self.mark & STALE != 0
    }

    /// Whether a client is, or is to be, recomputing it.
    pub(crate) fn is_in_recache(&self) -> bool {
        self.mark & TOKENS != 0
    }

    /// Whether the client that stored it sent the key in base64.
    pub fn base64_key(&self) -> bool {
        match self.body {
            Body::Hot(found) => found.item.base64_key(),
            Body::Row(row) => row.fields.base64_key,
        }
    }

    /// Whether it was read from a lower tier, the compressed zone or flash.
    pub fn is_compressed(&self) -> bool {
        matches!(self.body, Body::Row(_))
    }

    /// Returns the number of its size class, from 1; 0 if it is in a lower tier.
    pub fn class(&self) -> u32 {
        match self.body {
            Body::Hot(found) => u32::from(self.cache.hot.class_at(found.place()).0) + 1,
            Body::Row(_) => 0,
        }
    }

    /// Whether it lies in a column of its slab that is for hot items. Never if items do not move to
    /// their columns. For tests and diagnosis.
    pub fn is_in_hot_column(&self) -> bool {
        match self.body {
            Body::Hot(found) => self.cache.hot.is_in_hot_column(found.place()),
            Body::Row(_) => false,
        }
    }

    /// Returns the bytes of memory it takes: of its chunk, or of all its chunks' content; in a
    /// lower tier, of its key and value before compression.
    pub fn chunk_bytes(&self) -> usize {
        let found = match self.body {
            Body::Hot(found) => found,
            Body::Row(row) => return row.key.len() + row.value.len(),
        };
        let layout = found.item.layout();
        if layout.is_chained() {
            return layout.total_bytes();
        }
        let class = self.cache.hot.class_at(found.place());
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
