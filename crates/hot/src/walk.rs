//! A walk over all items of the zone, in the order of memory, that continues where it left off.

use std::sync::atomic::Ordering;

use memory::{Place, SlabId};
use stdx::sync::lock;

use crate::{Hot, slab};

/// The progress of a walk over the zone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    slab: u32,
    chunk: u32,
}

impl Cursor {
    /// At a chunk of a slab. Where there is no such chunk, the walk continues with the next one.
    pub fn at(slab: u32, chunk: u32) -> Self {
        Self { slab, chunk }
    }

    /// The slab and the chunk in it that come next.
    pub fn place(&self) -> (u32, u32) {
        (self.slab, self.chunk)
    }
}

impl Hot {
    /// Looks at every published item of the zone, slab by slab: `visit` gets each item once, with
    /// its place. `cursor` says where to continue; returns `false` at the end. Items stored or
    /// removed meanwhile may or may not be seen. The lock of the item's class is held in `visit`:
    /// it alone keeps an item that has left the index, which may be read there and no longer.
    pub fn walk<'g>(
        &self,
        guard: &'g memory::Guard<'_>,
        cursor: &mut Cursor,
        chunks_max: usize,
        mut visit: impl FnMut(crate::ItemRef<'g>, Place),
    ) -> bool {
        let mut left = chunks_max;
        while left > 0 {
            let slab_id = SlabId(cursor.slab);
            let Some(slab) = self.slabs.get(cursor.slab as usize) else {
                return false;
            };
            if !slab.was_owned() {
                cursor.slab += 1;
                continue;
            }
            // The class's lock keeps the slab from changing hands under the walk.
            let class = lock(self.class(slab.class()));
            let owned = slab.belongs_to(class.id);
            let touched = if owned { slab.touched() } else { 0 };
            while left > 0 && cursor.chunk < touched {
                let place = slab.place(&self.arena, slab_id, cursor.chunk);
                cursor.chunk += 1;
                left -= 1;
                // Acquire: partner is the release in `Draft::publish`.
                if slab::mark(&self.arena, place).load(Ordering::Acquire) == 0 {
                    continue;
                }
                if let Some((item, found)) = self.published(guard, place)
                    && found == place
                {
                    visit(item, place);
                }
            }
            if cursor.chunk >= touched {
                cursor.slab += 1;
                cursor.chunk = 0;
                left = left.saturating_sub(1);
            }
        }
        true
    }
}
