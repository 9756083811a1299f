//! A count-min sketch (Cormode and Muthukrishnan, 2005) of counters up to 15 that fade: after ten
//! times as many uses as the cache has items, every counter is halved. W-TinyLFU asks it how often
//! an object was used lately, whether the cache has the object or not.
//!
//! Sized as in Caffeine: four rows, and sixteen counters for each item. Caffeine packs two counters
//! into a byte; here each has its own.

const ROWS: usize = 4;
/// Counters of a row for each item of the cache.
const WIDTH_PER_ITEM: u64 = 4;
/// The maximum of a counter.
const COUNT_MAX: u8 = 15;
/// Uses per item of the cache, after which counters are halved.
const PERIOD_PER_ITEM: u64 = 10;
/// The greatest size of the sketch, in items.
const ITEMS_MAX: u64 = 1 << 26;

/// Approximate counts of recent uses.
pub struct Sketch {
    mask: u64,
    counters: Vec<u8>,
    period: u64,
    uses: u64,
}

impl Sketch {
    /// Returns a sketch for a cache of about this many items.
    pub fn new(items: u64) -> Sketch {
        let items = items.clamp(1, ITEMS_MAX).next_power_of_two();
        let width = items * WIDTH_PER_ITEM;
        let counters = vec![0; width as usize * ROWS];
        Sketch { mask: width - 1, counters, period: items * PERIOD_PER_ITEM, uses: 0 }
    }

    /// Returns how often an object was used lately: never too low, except for halving.
    pub fn count(&self, object: u32) -> u8 {
        let counts = self.slots(object).map(|slot| self.counters[slot]);
        counts.into_iter().min().unwrap_or(0)
    }

    /// Counts a use.
    pub fn add(&mut self, object: u32) {
        let slots = self.slots(object);
        let mut is_counted = false;
        for slot in slots {
            if self.counters[slot] < COUNT_MAX {
                self.counters[slot] += 1;
                is_counted = true;
            }
        }
        self.uses += u64::from(is_counted);
        if self.uses >= self.period {
            self.counters.iter_mut().for_each(|counter| *counter /= 2);
            self.uses /= 2;
        }
    }

    fn slots(&self, object: u32) -> [usize; ROWS] {
        let width = self.mask as usize + 1;
        std::array::from_fn(|row| {
            let seed = (row as u64) << 32 | u64::from(object);
            let word = crate::random::Random::new(seed).word();
            row * width + (word & self.mask) as usize
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Sketch;

    #[test]
    fn counts_are_never_too_low_and_stop_at_fifteen() {
        let mut sketch = Sketch::new(1024);
        for object in 0..20 {
            (0..object).for_each(|_| sketch.add(object));
        }
        for object in 0..20 {
            assert!(sketch.count(object) >= (object as u8).min(15));
            assert!(sketch.count(object) <= 15);
        }
    }

    #[test]
    fn counts_are_halved_after_the_period() {
        let mut sketch = Sketch::new(64);
        (0..8).for_each(|_| sketch.add(7));
        (1000..1000 + 640 - 8).for_each(|object| sketch.add(object));
        assert!((4..8).contains(&sketch.count(7)), "{}", sketch.count(7));
    }
}
