//! What an item of the hot zone was when it was copied, so that it moves down only if it is still
//! that.

use std::sync::atomic::Ordering;

use hot::mark::KEPT;
use hot::{Fields, ItemRef};

use crate::cache::Cache;

/// An item beside its key and value. Made before these are copied: whatever is copied is at least
/// as new.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Snapshot {
    sequence: u32,
    mutable: (u32, u8),
    fields: Fields,
}

impl Snapshot {
    /// What the item is now.
    pub(crate) fn of(item: ItemRef<'_>) -> Self {
        Self { sequence: item.sequence(), mutable: mutable(item), fields: item.fields() }
    }

    /// Whether the item is still that, and there.
    pub(crate) fn is_same(&self, cache: &Cache, item: ItemRef<'_>) -> bool {
        item.sequence() == self.sequence && mutable(item) == self.mutable && !cache.is_gone(item)
    }

    /// What goes down beside key and value.
    pub(crate) fn fields(&self) -> compressed::Fields {
        let (expiry, mark) = self.mutable;
        fields_below(&Fields { expiry, ..self.fields }, mark)
    }
}

/// What stands beside key and value of an item, as the tiers below have it.
pub(crate) fn fields_below(fields: &Fields, mark: u8) -> compressed::Fields {
    compressed::Fields {
        flags: fields.flags,
        expiry: fields.expiry,
        early_ms: fields.early_ms,
        custom_cas: fields.custom_cas,
        base64_key: fields.base64_key,
        cost: fields.cost,
        mark,
    }
}

impl Cache {
    /// Copies an item's key and value into these.
    pub(crate) fn copy_bytes(&self, item: ItemRef<'_>, key: &mut Vec<u8>, value: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(item.key());
        value.clear();
        self.append_value(item, value);
    }

    /// An item's value, wherever its pieces are.
    pub(crate) fn value_of(&self, item: ItemRef<'_>) -> Vec<u8> {
        let mut value = Vec::with_capacity(item.value_bytes());
        self.append_value(item, &mut value);
        value
    }

    fn append_value(&self, item: ItemRef<'_>, value: &mut Vec<u8>) {
        match item.contiguous() {
            Some(bytes) => value.extend_from_slice(bytes),
            None => (0..item.layout().pieces()).for_each(|number| {
                value.extend_from_slice(self.hot.piece_value(item, number));
            }),
        }
    }
}

/// What may change of a published item and goes down with it: its expiry, and bits of its mark.
fn mutable(item: ItemRef<'_>) -> (u32, u8) {
    (item.expiry(), item.mark().load(Ordering::Relaxed) & KEPT)
}
