//! memcached's layout for one thread: heads, and items in the order of storing, header, key and
//! value together, linked through their headers.

/// memcached's header with its CAS unique.
const HEADER_BYTES: usize = 56;
/// Offsets in it of the next item's place, the key's length and the value's.
const NEXT: usize = 16;
const KEY_LENGTH: usize = 47;
const VALUE_LENGTH: usize = 32;
/// The alignment of items, and the unit of places.
const UNIT_BYTES: usize = 8;
/// memcached doubles its table when there are more items than this many times its heads.
const LOAD_MAX: f64 = 1.5;
/// The end of a chain.
const NOTHING: u32 = 0;

/// A table that is filled once and then read.
pub struct InlineChains {
    heads: Vec<u32>,
    items: Vec<u8>,
}

impl InlineChains {
    /// Returns room for `count` items, with `bytes` bytes of keys and values.
    pub fn new(count: usize, bytes: usize) -> Self {
        let heads = (count as f64 / LOAD_MAX).ceil() as usize;
        let mut items = Vec::with_capacity(bytes + count * (HEADER_BYTES + UNIT_BYTES));
        // Place 0 stands for nothing.
        items.resize(UNIT_BYTES, 0);
        Self { heads: vec![NOTHING; heads.next_power_of_two()], items }
    }

    /// Enters an absent key.
    pub fn insert(&mut self, key: &[u8], hash: u64, value: &[u8]) {
        let head = hash as usize & (self.heads.len() - 1);
        let place = self.items.len();
        self.items.resize(place + HEADER_BYTES, 0);
        let header = &mut self.items[place..];
        header[NEXT..NEXT + 4].copy_from_slice(&self.heads[head].to_le_bytes());
        header[VALUE_LENGTH..VALUE_LENGTH + 4].copy_from_slice(&(value.len() as u32).to_le_bytes());
        header[KEY_LENGTH] = key.len() as u8;
        self.items.extend_from_slice(key);
        self.items.extend_from_slice(value);
        self.items.resize(self.items.len().next_multiple_of(UNIT_BYTES), 0);
        self.heads[head] = u32::try_from(place / UNIT_BYTES).expect("at most 32 GiB");
    }

    /// Returns the key's value.
    pub fn get(&self, key: &[u8], hash: u64) -> Option<&[u8]> {
        let mut place = self.heads[hash as usize & (self.heads.len() - 1)];
        while place != NOTHING {
            let item = &self.items[place as usize * UNIT_BYTES..];
            let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| item[at + byte]));
            let behind = HEADER_BYTES + usize::from(item[KEY_LENGTH]);
            if &item[HEADER_BYTES..behind] == key {
                return Some(&item[behind..behind + number(VALUE_LENGTH) as usize]);
            }
            place = number(NEXT);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::InlineChains;

    #[test]
    fn every_key_has_its_value_and_no_other_key_has_one() {
        let value = |number: u64| vec![number as u8; number as usize % 300];
        let mut table = InlineChains::new(1000, 1000 * 310);
        for number in 0_u64..1000 {
            table.insert(&number.to_le_bytes(), number % 64, &value(number));
        }
        for number in 0_u64..1000 {
            let found = table.get(&number.to_le_bytes(), number % 64);
            assert_eq!(found, Some(&value(number)[..]));
            assert_eq!(table.get(&(number + 1000).to_le_bytes(), number % 64), None);
        }
    }
}
