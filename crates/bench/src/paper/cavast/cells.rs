//! The places of items: slabs of 2 MiB, each cut into cells of one size.
//!
//! ```text
//!   inline   | header key value    | header key value    | ...                              |
//!   split    | header key 3 | header key 3 | ...   free   ... | value       | value         |
//!              keys from the top --->                              <--- values from the bottom
//! ```
//!
//! Inline, a cell is a chunk of Larder's size classes. Split, keys and values have cells of their
//! own in the same slab, and an offset of three bytes leads from key to value. So that any two
//! items can swap places, all cells of a slab are alike: sizes of keys go in steps of 16 bytes,
//! those of values by the same classes, and a slab belongs to a pair of both. With `alignment`,
//! cells that are large enough begin on lines.

use std::collections::HashMap;

use memory::SizeClasses;
use memory::class::{CHUNK_BYTES_MIN, GROWTH_FACTOR_MIN};

use super::population::Population;

/// The paper's slab.
pub const SLAB_BYTES: u64 = 2 << 20;
/// Bytes of the offset from a key to its value.
const OFFSET_BYTES: u64 = 3;
const KEY_STEP_BYTES: u64 = 16;
/// No item in this cell.
pub const FREE: u32 = u32::MAX;

/// How a slab is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes before the key.
    pub header_bytes: u64,
    /// Whether values lie apart from keys.
    pub is_split: bool,
    /// Cells of at least this many bytes begin at a multiple of it.
    pub alignment: u64,
}

/// Bytes of a slab's cells: key and value, or 0 for the latter if they are together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    pub key_cell: u64,
    pub value_cell: u64,
}

impl Shape {
    /// Returns the number of items of a slab.
    pub fn cells(&self) -> u32 {
        (SLAB_BYTES / (self.key_cell + self.value_cell)) as u32
    }
}

/// A slab.
pub struct Slab {
    pub shape: Shape,
    /// The item in each cell.
    pub items: Vec<u32>,
}

/// The place of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub slab: u32,
    pub cell: u32,
}

/// All slabs.
pub struct Cells {
    pub layout: Layout,
    pub slabs: Vec<Slab>,
    places: Vec<Place>,
}

/// Addresses and lengths of an item's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    pub key: u64,
    /// Bytes of header, key, and offset if there is one.
    pub key_bytes: u64,
    pub value: u64,
    pub value_bytes: u64,
}

impl Cells {
    /// Stores all items in this order.
    pub fn fill(
        layout: Layout,
        population: &Population,
        order: impl Iterator<Item = u32>,
    ) -> Cells {
        let classes = size_classes();
        let mut cells = Cells {
            layout,
            slabs: Vec::new(),
            places: vec![Place { slab: FREE, cell: FREE }; population.count() as usize],
        };
        let mut open: HashMap<Shape, u32> = HashMap::new();
        for item in order {
            let shape = shape(&layout, &classes, population, item);
            let slab = *open.entry(shape).or_insert_with(|| cells.slabs.len() as u32);
            if slab as usize == cells.slabs.len() {
                let items = Vec::with_capacity(shape.cells() as usize);
                cells.slabs.push(Slab { shape, items });
            }
            let items = &mut cells.slabs[slab as usize].items;
            cells.places[item as usize] = Place { slab, cell: items.len() as u32 };
            items.push(item);
            if items.len() == shape.cells() as usize {
                open.remove(&shape);
            }
        }
        for slab in &mut cells.slabs {
            slab.items.resize(slab.shape.cells() as usize, FREE);
        }
        cells
    }

    /// Returns the place of an item.
    pub fn place(&self, item: u32) -> Place {
        self.places[item as usize]
    }

    /// Swaps the contents of two cells in slabs of one shape.
    pub fn swap(&mut self, one: Place, other: Place) {
        debug_assert!(self.slabs[one.slab as usize].shape == self.slabs[other.slab as usize].shape);
        let (first, second) = (self.item(one), self.item(other));
        for (item, place) in [(first, other), (second, one)] {
            self.slabs[place.slab as usize].items[place.cell as usize] = item;
            if item != FREE {
                self.places[item as usize] = place;
            }
        }
    }

    /// Returns the item in a cell.
    pub fn item(&self, place: Place) -> u32 {
        self.slabs[place.slab as usize].items[place.cell as usize]
    }

    /// Returns the places of an item's parts.
    pub fn parts(&self, population: &Population, item: u32) -> Parts {
        let place = self.place(item);
        let shape = self.slabs[place.slab as usize].shape;
        let base = u64::from(place.slab) * SLAB_BYTES;
        let key = base + u64::from(place.cell) * shape.key_cell;
        let key_alone = self.layout.header_bytes + u64::from(population.key_bytes[item as usize]);
        let value_bytes = u64::from(population.value_bytes[item as usize]);
        if self.layout.is_split {
            let value = base + self.value_offset(place);
            Parts { key, key_bytes: key_alone + OFFSET_BYTES, value, value_bytes }
        } else {
            Parts { key, key_bytes: key_alone, value: key + key_alone, value_bytes }
        }
    }

    /// Returns the offset in its slab of the part that decides a cell's row: its value, or all of
    /// it if they are together.
    pub fn value_offset(&self, place: Place) -> u64 {
        let shape = self.slabs[place.slab as usize].shape;
        if self.layout.is_split {
            // Slabs end on lines, and aligned cells are whole lines.
            SLAB_BYTES - (u64::from(place.cell) + 1) * shape.value_cell
        } else {
            u64::from(place.cell) * shape.key_cell
        }
    }

    /// Returns the distance of a cell from its slab's first column. Values begin at the bottom, and
    /// so does their first column.
    pub fn column_offset(&self, place: Place) -> u64 {
        let shape = self.slabs[place.slab as usize].shape;
        u64::from(place.cell) * (shape.key_cell + shape.value_cell)
    }

    /// Returns the bytes of slabs.
    pub fn bytes(&self) -> u64 {
        self.slabs.len() as u64 * SLAB_BYTES
    }
}

/// Returns Larder's classes where slabs are plenty.
fn size_classes() -> SizeClasses {
    SizeClasses::new(CHUNK_BYTES_MIN, GROWTH_FACTOR_MIN, SLAB_BYTES as usize, 1 << 20, 0)
}

/// Returns the longest item that fits a cell under any header.
pub fn item_bytes_max() -> u32 {
    size_classes().chunk_bytes_max() as u32 - 64
}

fn shape(layout: &Layout, classes: &SizeClasses, population: &Population, item: u32) -> Shape {
    let key = layout.header_bytes + u64::from(population.key_bytes[item as usize]);
    let value = u64::from(population.value_bytes[item as usize]);
    let class = |bytes: u64| classes.chunk_bytes(classes.class_for(bytes.max(1) as usize)) as u64;
    let aligned = |bytes: u64| {
        if bytes >= layout.alignment { bytes.next_multiple_of(layout.alignment) } else { bytes }
    };
    if layout.is_split {
        let key_cell = (key + OFFSET_BYTES).next_multiple_of(KEY_STEP_BYTES);
        Shape { key_cell: aligned(key_cell), value_cell: aligned(class(value)) }
    } else {
        Shape { key_cell: aligned(class(key + value)), value_cell: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::sizes::SizeChoice;

    fn population() -> Population {
        Population::new(SizeChoice::Etc, 8 << 20, item_bytes_max(), 1).expect("no file")
    }

    fn layout(is_split: bool) -> Layout {
        Layout { header_bytes: 8, is_split, alignment: 1 }
    }

    #[test]
    fn no_two_parts_overlap() {
        let population = population();
        for layout in [layout(false), layout(true), Layout { alignment: 64, ..layout(true) }] {
            let cells = Cells::fill(layout, &population, 0..population.count());
            let mut ranges = Vec::new();
            for item in 0..population.count() {
                let parts = cells.parts(&population, item);
                ranges.push((parts.key, parts.key + parts.key_bytes));
                ranges.push((parts.value, parts.value + parts.value_bytes));
                assert!(parts.key / SLAB_BYTES == u64::from(cells.place(item).slab));
                assert!(
                    (parts.value + parts.value_bytes).saturating_sub(1) / SLAB_BYTES
                        == parts.key / SLAB_BYTES
                );
            }
            ranges.sort_unstable();
            assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{layout:?}");
        }
    }

    #[test]
    fn swapped_items_are_found_at_their_new_places() {
        let population = population();
        let mut cells = Cells::fill(layout(false), &population, 0..population.count());
        let slab = cells.place(0).slab;
        let (one, other) = (Place { slab, cell: 0 }, Place { slab, cell: 1 });
        let (first, second) = (cells.item(one), cells.item(other));
        cells.swap(one, other);
        assert_eq!((cells.place(first), cells.place(second)), (other, one));
        let free = Place { slab, cell: cells.slabs[slab as usize].shape.cells() - 1 };
        let last = cells.item(free);
        cells.swap(free, one);
        assert_eq!(cells.item(one), last);
    }
}
