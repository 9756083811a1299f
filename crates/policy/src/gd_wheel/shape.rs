//! The number of wheels, the number of their queues, and the digits of priorities that follow.

use super::Wheels;

/// The most levels.
pub(super) const LEVELS_MAX: usize = 4;
/// The most queues of a level.
pub(super) const SLOTS_MAX: usize = 1 << BITS_MAX;
const BITS_MAX: u32 = 8;
/// Bits of a priority that a link keeps.
const LINK_BITS: u32 = u16::BITS;

/// Levels of wheels, and queues on each: a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    levels: u32,
    bits: u32,
}

impl Default for Shape {
    /// Two levels of 256 queues: costs from 1 to 65535.
    fn default() -> Shape {
        Shape::new(2, 8)
    }
}

impl Shape {
    /// One to four levels of two to 256 queues (`bits` 1 to 8). All levels but the highest may have
    /// 16 bits together: the bits of a priority that an item keeps.
    pub const fn new(levels: u32, bits: u32) -> Shape {
        assert!(levels >= 1 && levels as usize <= LEVELS_MAX);
        assert!(bits >= 1 && bits <= BITS_MAX);
        assert!((levels - 1) * bits <= LINK_BITS);
        Shape { levels, bits }
    }

    /// The highest cost that is told from others. The priorities of present items differ by no
    /// more, and so by less than a lap of the highest level. A link has 16 bits for it.
    pub const fn cost_max(self) -> u32 {
        let range = 1 << (self.levels * self.bits);
        let link = u16::MAX as u32;
        if range - 1 < link { range - 1 } else { link }
    }

    /// The memory of wheels of this shape, in bytes, without the links.
    pub const fn bytes(self) -> usize {
        size_of::<Wheels>() + self.queues() * size_of::<super::Queue>()
    }

    pub(super) fn clamp(self, cost: u32) -> u16 {
        cost.clamp(1, self.cost_max()) as u16
    }

    pub(super) const fn levels(self) -> usize {
        self.levels as usize
    }

    /// Queues of a level.
    pub(super) const fn slots(self) -> usize {
        1 << self.bits
    }

    pub(super) const fn queues(self) -> usize {
        self.levels() << self.bits
    }

    /// The number of a queue: levels one behind the other.
    pub(super) fn queue(self, level: usize, slot: usize) -> usize {
        (level << self.bits) + slot
    }

    pub(super) fn level_and_slot(self, queue: usize) -> (usize, usize) {
        (queue >> self.bits, queue % self.slots())
    }

    /// The number of a priority's bits below the digit of a level.
    pub(super) fn shift(self, level: usize) -> u32 {
        level as u32 * self.bits
    }

    /// A level's digit of a priority.
    pub(super) fn digit(self, priority: u64, level: usize) -> usize {
        (priority >> self.shift(level)) as usize % self.slots()
    }

    /// The queue of a priority: on the level of the highest digit in which it differs from the
    /// inflation; on the highest level if it differs further up.
    pub(super) fn place(self, inflation: u64, priority: u64) -> usize {
        let differs = inflation ^ priority;
        let above = |&level: &usize| differs >> self.shift(level) != 0;
        let level = (1..self.levels()).rev().find(above).unwrap_or(0);
        self.queue(level, self.digit(priority, level))
    }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn costs_reach_up_to_the_range_or_the_bits_of_a_link() {
        for (levels, bits, cost_max) in
            [(1, 8, 255), (2, 8, 65535), (3, 6, 65535), (2, 4, 255), (1, 1, 1), (4, 4, 65535)]
        {
            let shape = Shape::new(levels, bits);
            assert_eq!(shape.cost_max(), cost_max);
            assert_eq!((shape.clamp(0), shape.clamp(cost_max + 1)), (1, cost_max as u16));
        }
        assert!((4096..4608).contains(&Shape::default().bytes()));
    }

    #[test]
    fn a_queue_follows_from_the_highest_digit_that_differs() {
        let shape = Shape::new(2, 2);
        let place = |inflation, priority| shape.level_and_slot(shape.place(inflation, priority));
        assert_eq!(place(0o6, 0o6), (0, 2));
        assert_eq!(place(0b0110, 0b0111), (0, 3));
        assert_eq!(place(0b0110, 0b1100), (1, 3));
        // A lap ahead: the highest digit may even be the same.
        assert_eq!(place(0b0110, 0b1_0000), (1, 0));
        assert_eq!(place(0b0110, 0b1_0101), (1, 1));
    }

    #[test]
    #[should_panic(expected = "LINK_BITS")]
    fn digits_that_a_link_cannot_keep_are_refused() {
        Shape::new(4, 6);
    }
}
