//! Sums of weights over time slots: a Fenwick tree (Fenwick, 1994). A slot is changed, and all up
//! to a slot are summed, in logarithmic time, with eight bytes for each slot.

/// The weights by slot, from slot 1.
#[derive(Debug)]
pub(crate) struct Order {
    /// Each place has the sum of as many slots, up to it, as its lowest bit says. Place 0 is
    /// unused.
    sums: Box<[u64]>,
    total: u64,
}

impl Order {
    /// An order of `slots` slots without weight.
    pub(crate) fn new(slots: usize) -> Self {
        Self { sums: vec![0; slots + 1].into(), total: 0 }
    }

    /// The number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.sums.len() - 1
    }

    /// The weight of all slots.
    #[cfg(test)]
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The weight of the slots behind this one.
    pub(crate) fn behind(&self, slot: u32) -> u64 {
        let (mut place, mut until) = (slot as usize, 0);
        while place > 0 {
            until += self.sums[place];
            place &= place - 1;
        }
        self.total - until
    }

    /// Adds to a slot's weight.
    pub(crate) fn add(&mut self, slot: u32, weight: u64) {
        self.total += weight;
        self.each(slot, |sum| *sum += weight);
    }

    /// Takes from a slot's weight.
    pub(crate) fn take(&mut self, slot: u32, weight: u64) {
        self.total -= weight;
        self.each(slot, |sum| *sum -= weight);
    }

    fn each(&mut self, slot: u32, change: impl Fn(&mut u64)) {
        let mut place = slot as usize;
        while place < self.sums.len() {
            change(&mut self.sums[place]);
            place += place & place.wrapping_neg();
        }
    }

    /// Starts again with these slots and their weights, in linear time.
    pub(crate) fn fill(&mut self, weights: impl Iterator<Item = (u32, u64)>) {
        self.sums.fill(0);
        self.total = 0;
        for (slot, weight) in weights {
            self.total += weight;
            self.sums[slot as usize] = weight;
        }
        for place in 1..self.sums.len() {
            let parent = place + (place & place.wrapping_neg());
            if parent < self.sums.len() {
                self.sums[parent] += self.sums[place];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stdx::random::Xorshift;

    use super::Order;

    #[test]
    fn sums_are_those_of_a_plain_list() {
        let mut random = Xorshift::seeded(3);
        let mut order = Order::new(77);
        let mut plain = [0_u64; 78];
        for turn in 0..2000 {
            let slot = random.draw() as usize % 77 + 1;
            let weight = random.draw() % 1000;
            if turn % 3 == 0 {
                order.take(slot as u32, plain[slot]);
                plain[slot] = 0;
            } else {
                order.add(slot as u32, weight);
                plain[slot] += weight;
            }
            if turn % 500 == 499 {
                plain[1..].rotate_left(7);
                // In any order.
                let slots = (1..).zip(plain[1..].iter().copied());
                order.fill(slots.collect::<Vec<_>>().into_iter().rev());
            }
            let asked = random.draw() as usize % 78;
            assert_eq!(order.behind(asked as u32), plain[asked + 1..].iter().sum::<u64>());
            assert_eq!(order.total(), plain.iter().sum::<u64>());
        }
    }
}
