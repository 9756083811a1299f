//! An item of the hot zone as it was when it was copied, so that it is demoted only if it is
//! unchanged.

use hot::{Fields, ItemRef, ItemVersion};

use crate::cache::Cache;

/// An item's fields, without key and value. Made before these are copied: the copies are at least
/// as new.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Snapshot {
    version: ItemVersion,
    fields: Fields,
}

impl Snapshot {
    /// Returns the item as it is now.
    pub(crate) fn of(item: ItemRef<'_>) -> Self {
        Self { version: ItemVersion::of(item), fields: item.fields() }
    }

    /// Whether the item is unchanged, and not gone.
    pub(crate) fn is_same(&self, cache: &Cache, item: ItemRef<'_>) -> bool {
        ItemVersion::of(item) == self.version && !cache.is_gone(item)
    }

    /// Returns the fields that are demoted with key and value.
    pub(crate) fn fields(&self) -> compressed::Fields {
        let ItemVersion { expiry, mark, .. } = self.version;
        row_fields(&Fields { expiry, ..self.fields }, mark)
    }
}

/// Returns an item's fields as lower tiers have them.
pub(crate) fn row_fields(fields: &Fields, mark: u8) -> compressed::Fields {
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
    /// Copies an item's key and value into these buffers, which grow no further than to the
    /// longest.
    pub(crate) fn copy_bytes(&self, item: ItemRef<'_>, key: &mut Vec<u8>, value: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(item.key());
        value.clear();
        value.reserve_exact(item.value_bytes());
        self.append_value(item, value);
    }

    /// Returns a copy of an item's value, wherever its pieces are.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, Condition, Expiry};

    /// Regression: a client that touched the item in between was told so, and then the item was
    /// demoted with the milliseconds that it had had before.
    #[test]
    fn an_item_back_in_its_place_with_other_milliseconds_has_changed() {
        let cache = Cache::builder().memory_bytes(4 << 20).build().expect("a small cache");
        let (key, second) = (b"k", cache.now() + 1000);
        let expiry = |early_ms| Expiry { second, early_ms };
        let attributes = Attributes { expiry: expiry(100), ..Attributes::default() };
        cache.put(key, b"v", attributes, Condition::Always).expect("an empty cache has room");
        let hash = cache.hash(key);
        let look = || {
            let guard = cache.epochs.pin();
            let found = cache.find(&guard, key, hash).expect("it is there");
            (found.place(), Snapshot::of(found.item))
        };
        assert!(cache.get(key).is_some(), "a touch counts as an access");
        let (place, copied) = look();
        // A touch to other milliseconds moves it, and does not count as a mutation.
        let is_back = (101..1000).any(|early_ms| {
            assert_eq!(cache.session().touch(key, hash, expiry(early_ms)), Ok(true));
            while cache.maintain() {}
            look().0 == place
        });
        let (_, now) = look();
        let differing = ItemVersion { early_ms: copied.version.early_ms, ..now.version };
        assert!(is_back && differing == copied.version && now.version != copied.version);
        let guard = cache.epochs.pin();
        let found = cache.find(&guard, key, hash).expect("it is there");
        assert!(now.is_same(&cache, found.item) && !copied.is_same(&cache, found.item));
    }
}
