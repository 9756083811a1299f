//! Drafting an item: chunks are reserved, the value is filled in, perhaps over several reads of a
//! socket, and then the item is published or the chunks go back.

use std::sync::atomic::Ordering;

use memory::{ClassId, Place};
use policy::cost::Cost;
use stdx::sync::lock;

use crate::chunk::Chunk;
use crate::class::{AllocatedChunk, ClaimedChunk, Class, Zone};
use crate::class_policy::UNCHARGED;
use crate::item::{self, ItemRef};
use crate::layout::{Fields, Layout};
use crate::mark::fresh_mark;
use crate::{CacheHooks, Hot, Shortage, slab};

/// An item that only its owner can see. If it is dropped unpublished, its memory is freed.
#[derive(Debug)]
#[must_use = "a draft that is not published is dropped"]
pub struct Draft<'h> {
    hot: &'h Hot,
    place: Place,
    /// Bytes from there to the tail of a split chunk; 0 if the chunk is whole.
    tail_bytes_away: u32,
    layout: Layout,
    /// Bytes of the value that are filled in.
    written: u32,
    /// Pieces that are allocated: all of them, except while the draft is being made, or if it gets
    /// them one by one.
    pieces: u32,
    /// Whether the order of its class has yet to be told of the chunk.
    is_unentered: bool,
}

impl Hot {
    /// How an item with these fields, key and value would lie in memory.
    pub fn layout(&self, fields: &Fields, key_bytes: usize, value_bytes: usize) -> Layout {
        Layout::new(fields, key_bytes, value_bytes, self.largest)
    }

    /// Reserves memory for an item and lays out everything but its value. `layout` is that of these
    /// fields and this key.
    pub fn draft(
        &self,
        layout: Layout,
        fields: &Fields,
        key: &[u8],
        hooks: &dyn CacheHooks,
    ) -> Result<Draft<'_>, Shortage> {
        let draft = self.begin_draft(layout, fields, key, hooks)?;
        if layout.is_chained() { draft.extended(hooks) } else { Ok(draft) }
    }

    /// As [`Hot::draft`], but without the pieces of a chained value: the draft gets them one by one
    /// ([`Draft::extend`]), as the bytes for them arrive.
    // Always inlined: this is all of a draft that has no pieces.
    #[inline(always)]
    pub fn begin_draft(
        &self,
        layout: Layout,
        fields: &Fields,
        key: &[u8],
        hooks: &dyn CacheHooks,
    ) -> Result<Draft<'_>, Shortage> {
        let need = layout.need(self.largest.is_split);
        let quota = self.quota_for(key, &layout)?;
        let room = self.allocate_under(quota, false, need, fields.cost, hooks)?;
        let AllocatedChunk { place, credit, is_unentered } = room;
        debug_assert!(self.slab_at(place).format().holds(need));
        let tail_bytes_away = if self.largest.is_split {
            // SAFETY: the chunk was allocated just now, for what this layout needs.
            unsafe { self.write_header(place, layout, fields, credit, key) }
        } else {
            let chunk = Chunk::whole(self.arena.pointer(place));
            // SAFETY: as above.
            unsafe { item::write_header(chunk, layout, fields, credit, key) };
            0
        };
        let (written, pieces) = (0, 0);
        Ok(Draft { hot: self, place, tail_bytes_away, layout, written, pieces, is_unentered })
    }

    /// Lays out everything before the value, in a chunk that may be split. Returns how far its tail
    /// is. Out of line, so that stores where no chunk is split do not pay for it.
    ///
    /// # Safety
    /// The caller has just allocated the chunk, for what this layout needs.
    #[inline(never)]
    unsafe fn write_header(
        &self,
        place: Place,
        layout: Layout,
        fields: &Fields,
        credit: u8,
        key: &[u8],
    ) -> u32 {
        let chunk = self.chunk(place);
        // SAFETY: as promised by the caller.
        unsafe { item::write_header(chunk, layout, fields, credit, key) };
        chunk.tail_bytes_away().unwrap_or(0) as u32
    }

    /// A draft of the same item in a taken chunk of its class. Not for an item in pieces.
    pub(crate) fn copy_to(&self, chunk: ClaimedChunk, item: ItemRef<'_>) -> Draft<'_> {
        assert!(!item.layout().is_chained());
        let mut draft = self.begin_copy(chunk, item);
        draft.copy_value(item);
        draft
    }

    /// A draft of the item that begins at `place` and lies in pieces, in chunks of their classes
    /// that are free now. If a class has none left, returns that class.
    pub(crate) fn copy_of_pieces(
        &self,
        item: ItemRef<'_>,
        place: Place,
    ) -> Result<Draft<'_>, ClassId> {
        self.copy_of_pieces_by(item, place, Class::take)
    }

    /// As [`Hot::copy_of_pieces`], in chunks that `take` provides.
    pub(crate) fn copy_of_pieces_by(
        &self,
        item: ItemRef<'_>,
        place: Place,
        take: impl Fn(&mut Class, Zone<'_>, Cost) -> Option<ClaimedChunk>,
    ) -> Result<Draft<'_>, ClassId> {
        let take = |id, cost| take(&mut lock(self.class(id)), self.zone(), cost).ok_or(id);
        let mut draft = self.begin_copy(take(self.class_at(place), item.cost())?, item);
        for number in 0..item.layout().pieces() {
            // On failure the draft gives back what it has so far.
            draft.add_piece(take(self.class_at(item.piece(number)), item.cost_of_piece())?.0);
        }
        draft.copy_value(item);
        Ok(draft)
    }

    /// A copy without its value and its pieces.
    fn begin_copy(&self, chunk: ClaimedChunk, item: ItemRef<'_>) -> Draft<'_> {
        let (layout, place) = (item.layout(), chunk.0);
        assert!(self.slab_at(place).format().holds(layout.need(self.largest.is_split)));
        let credit = item.credit().map_or(0, |credit| credit.load(Ordering::Relaxed));
        // SAFETY: the chunk was taken, and holds what this layout needs.
        let tail_bytes_away =
            unsafe { self.write_header(place, layout, &item.fields(), credit, item.key()) };
        let (written, pieces, is_unentered) = (0, 0, false);
        Draft { hot: self, place, tail_bytes_away, layout, written, pieces, is_unentered }
    }
}

impl<'h> Draft<'h> {
    /// Where the item is, for the index.
    pub fn place(&self) -> Place {
        self.place
    }

    /// How it lies there.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The item as it is so far.
    pub fn item(&self) -> ItemRef<'_> {
        // SAFETY: the header was written when the draft was made, and the chunk is the draft's own
        // until it is dropped or published.
        unsafe { ItemRef::new(&self.hot.arena, self.place) }
    }

    /// Bytes of the value that are still to be filled in.
    pub fn remaining(&self) -> usize {
        self.layout.value_bytes() - self.written as usize
    }

    /// Bytes of memory that it holds by now.
    pub fn held_bytes(&self) -> usize {
        self.layout.bytes_with(self.pieces as usize)
    }

    /// Whether the next bytes of the value are for a piece that the draft does not have yet.
    pub fn lacks_piece(&self) -> bool {
        let allocated = self.pieces as usize * self.layout.piece_bytes();
        self.layout.is_chained() && self.remaining() > 0 && self.written as usize >= allocated
    }

    /// The draft with all of its pieces.
    #[cold]
    #[inline(never)]
    fn extended(mut self, hooks: &dyn CacheHooks) -> Result<Self, Shortage> {
        for _ in self.pieces as usize..self.layout.pieces() {
            // On failure the draft gives back what it has so far.
            self.extend(hooks)?;
        }
        Ok(self)
    }

    /// Allocates the draft's next piece.
    #[inline(never)]
    pub fn extend(&mut self, hooks: &dyn CacheHooks) -> Result<(), Shortage> {
        let (hot, layout, number) = (self.hot, self.layout, self.pieces as usize);
        assert!(number < layout.pieces(), "it has them all");
        let item = self.item();
        // The cost is shared out equally among the pieces.
        let cost = Cost::from_us(item.cost().us() / layout.pieces() as u32);
        let quota = hot.quota_for(item.key(), &layout)?;
        let need = layout.piece_need(number);
        let room = hot.allocate_under(quota, true, need, cost, hooks)?;
        let piece = room.place;
        if room.is_unentered {
            lock(hot.class(hot.class_at(piece))).policy.enter(hot.zone(), piece, cost);
        }
        self.add_piece(piece);
        Ok(())
    }

    /// Makes an allocated chunk the draft's next piece.
    fn add_piece(&mut self, piece: Place) {
        let (hot, layout, number) = (self.hot, self.layout, self.pieces as usize);
        assert!(hot.slab_at(piece).format().holds(layout.piece_need(number)));
        // SAFETY: both chunks were allocated by this draft, the header of the first was written
        // with this layout, and the second holds what the piece needs.
        unsafe {
            item::write_piece(hot.chunk(piece), self.place, number);
            item::list_piece(self.chunk(), layout, number, piece);
        }
        self.pieces += 1;
    }

    /// The next bytes of the value that are contiguous in memory; empty when it is full, or lacks a
    /// piece.
    pub fn writable(&mut self) -> &mut [u8] {
        let (chunk, layout, from) = (self.chunk(), self.layout, self.written as usize);
        if layout.is_chained() {
            if self.lacks_piece() {
                return &mut [];
            }
            // SAFETY: the item is this draft's own, and the slice borrows the draft.
            return unsafe { item::chained_value_mut(&self.hot.arena, chunk, layout, from) };
        }
        // SAFETY: as above.
        unsafe { item::value_mut(chunk, layout, from) }
    }

    #[inline]
    fn chunk(&self) -> Chunk {
        let head = self.hot.arena.pointer(self.place);
        if self.tail_bytes_away == 0 {
            return Chunk::whole(head);
        }
        // SAFETY: the chunk is the draft's own, and this is where its tail is.
        Chunk::split(head, unsafe { head.add(self.tail_bytes_away as usize) })
    }

    /// Notes that `bytes` more of `writable` are filled in.
    pub fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.remaining());
        self.written += bytes as u32;
    }

    /// Copies as much of `value` as still fits; returns the number of bytes, which is less where a
    /// piece is lacking.
    pub fn write(&mut self, value: &[u8]) -> usize {
        let mut taken = 0;
        while taken < value.len() {
            let space = self.writable();
            let bytes = space.len().min(value.len() - taken);
            if bytes == 0 {
                break;
            }
            space[..bytes].copy_from_slice(&value[taken..taken + bytes]);
            self.advance(bytes);
            taken += bytes;
        }
        taken
    }

    /// Copies as much of another item's value as still fits; returns the number of bytes.
    pub fn copy_value(&mut self, item: ItemRef<'_>) -> usize {
        if let Some(value) = item.contiguous() {
            return self.write(value);
        }
        let arena = &self.hot.arena;
        (0..item.layout().pieces()).map(|number| self.write(item.piece_value(arena, number))).sum()
    }

    /// Gives the item another cost than it was drafted with, if it has a field for one. Returns
    /// whether it has. Takes no lock: the credit that the cost is worth is left to the first hand
    /// that comes by.
    pub fn set_cost(&mut self, cost: Cost) -> bool {
        let has_field = self.item().has_cost_field();
        if has_field {
            // SAFETY: the chunk is this draft's own, and its header was written with this layout.
            unsafe {
                item::write_cost(&self.hot.arena, self.place, self.layout, UNCHARGED, cost);
            }
        }
        has_field
    }

    /// Makes the item visible to readers and hands: `sequence` numbers it, and `mark_bits` are
    /// added to a fresh mark. The caller enters the place into the index right after, under the
    /// same lock under which it decided to.
    pub fn publish(self, sequence: u32, mark_bits: u8, now: u32) -> Place {
        self.publish_with(sequence, fresh_mark(now), mark_bits)
    }

    /// Publishes a copy of the item at a place, with the present state of everything that may
    /// change. Under the lock of its index table.
    pub fn publish_as(self, item: ItemRef<'_>, from: Place) -> Place {
        // A field that cannot be changed has not changed.
        let _ = self.item().set_expiry(item.expiry());
        let (sequence, mark) = (item.sequence(), item.mark().load(Ordering::Relaxed));
        if let Some(quotas) = self.hot.quotas.as_deref() {
            let carry = |from, to| quotas.carry(self.hot.zone(), from, to);
            carry(from, self.place);
            for number in 0..self.pieces as usize {
                carry(item.piece(number), self.item().piece(number));
            }
        }
        self.publish_with(sequence, mark, 0)
    }

    fn publish_with(self, sequence: u32, mark: u8, mark_bits: u8) -> Place {
        assert_eq!(self.remaining(), 0, "an item is published whole");
        let arena = &self.hot.arena;
        let item = self.item();
        item.set_sequence(sequence);
        for number in 0..self.pieces as usize {
            // Release: partner is the acquire in the hand, which follows a piece to its owner.
            slab::mark(arena, item.piece(number)).store(mark, Ordering::Release);
        }
        // Release: partner is the acquire in the hand.
        item.mark().store(mark | mark_bits, Ordering::Release);
        for number in 0..self.pieces as usize {
            self.hot.slab_at(item.piece(number)).note_published();
        }
        let place = self.place;
        self.hot.slab_at(place).note_published();
        self.hot.note_expiry(place, item.expiry());
        if self.is_unentered {
            self.hot.enter_later(place);
        }
        std::mem::forget(self);
        place
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        let zone = self.hot.zone();
        let release = |place: Place| {
            let class: ClassId = self.hot.class_at(place);
            lock(self.hot.class(class)).release(zone, place);
        };
        for number in 0..self.pieces as usize {
            release(self.item().piece(number));
        }
        release(self.place);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory::{Arena, Epochs, Guard, SizeClasses};

    use super::*;
    use crate::mark::{FETCHED, fresh_mark};
    use crate::{ChunkLayout, Policy};

    /// Hooks that do nothing.
    struct Nobody;

    impl CacheHooks for Nobody {
        fn now(&self) -> u32 {
            0
        }
        fn may_evict(&self) -> bool {
            false
        }
        fn mutations(&self) -> u64 {
            0
        }
        fn age(&self, _: ItemRef<'_>) -> u64 {
            0
        }
        fn prefetch(&self, _: &Guard<'_>, _: ItemRef<'_>) {}
        fn is_gone(&self, _: ItemRef<'_>) -> bool {
            false
        }
        fn evicted(&self, _: ItemRef<'_>, _: ClassId) {}
        fn unlink(&self, _: &Guard<'_>, _: ItemRef<'_>, _: Place) -> crate::Unlinked {
            crate::Unlinked::Not
        }
    }

    /// Miri takes long for one combination of fields; every seventh still has each field with and
    /// without most others.
    const FIELDS_STEP: usize = if cfg!(miri) { 7 } else { 1 };

    #[test]
    fn a_copy_is_published_with_the_present_state_of_its_item() {
        [ChunkLayout::Inline, ChunkLayout::Split].into_iter().for_each(publish_copy);
    }

    fn publish_copy(layout: ChunkLayout) {
        let arena = Arc::new(Arena::new(0, 4 << 20, 8).expect("addresses are there"));
        let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, 0);
        let epochs = Arc::new(Epochs::new());
        let policy = Policy::CostClock;
        let hot = Hot::new(arena, Arc::clone(&epochs), sizes, layout, policy, 50, |_| 1);
        for bits in (0..64_u32).step_by(FIELDS_STEP) {
            let has = |bit: u32| bits & 1 << bit != 0;
            let fields = Fields {
                flags: if has(0) { 77 } else { 0 },
                expiry: if has(1) { 1_800_000_000 } else { 0 },
                custom_cas: has(2).then_some(u64::MAX - 3),
                base64_key: has(3),
                early_ms: if has(5) { 1 } else { 0 },
                cost: Cost::from_us(if has(4) { 5000 } else { 0 }),
                ..Fields::default()
            };
            let value = vec![bits as u8; 100 * bits as usize];
            let layout = hot.layout(&fields, 3, value.len());
            let mut draft = hot.draft(layout, &fields, b"key", &Nobody).expect("there is room");
            draft.write(&value);
            let (guard, from) = (epochs.pin(), draft.publish(7, 0, 100));
            // SAFETY: published just now, and never unlinked.
            let item = unsafe { hot.item(&guard, from) };
            let free = {
                let mut class = lock(hot.class(hot.class_at(from)));
                class
                    .take_beyond_reserve(hot.zone(), Cost::UNKNOWN)
                    .expect("nearly all of a slab is free")
            };
            let copy = hot.copy_to(free, item);
            // Then the item is touched, renumbered and read.
            item.set_expiry(1_900_000_000);
            item.set_sequence(1234);
            item.mark().fetch_or(FETCHED, Ordering::Relaxed);
            let to = copy.publish_as(item, from);
            // SAFETY: as above.
            let copied = unsafe { hot.item(&guard, to) };
            assert!(to != from && hot.class_at(to) == hot.class_at(from));
            let mark = copied.mark().load(Ordering::Relaxed);
            assert_eq!((mark, copied.sequence()), (fresh_mark(100) | FETCHED, 1234));
            let is_changed = has(1) && !has(5);
            let expiry = if is_changed { 1_900_000_000 } else { fields.expiry };
            assert_eq!((copied.expiry(), copied.layout()), (expiry, item.layout()));
            assert_eq!(copied.fields(), Fields { expiry, ..item.fields() });
            assert_eq!((copied.key(), copied.contiguous()), (&b"key"[..], Some(&value[..])));
            let credit = |item: ItemRef<'_>| item.credit().map(|it| it.load(Ordering::Relaxed));
            assert_eq!(credit(copied), credit(item));
        }
    }

    /// Chunks of a class that hold an item or part of one.
    fn used(hot: &Hot) -> Vec<usize> {
        hot.stats().iter().map(|class| class.used_chunks).collect()
    }

    #[test]
    fn a_copy_of_an_item_in_pieces_has_its_own_pieces_or_no_chunk() {
        let arena = Arc::new(Arena::new(0, 1 << 20, 8).expect("addresses are there"));
        let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, 0);
        let epochs = Arc::new(Epochs::new());
        let (layout, policy) = (ChunkLayout::Inline, Policy::Clock);
        let hot = Hot::new(arena, Arc::clone(&epochs), sizes, layout, policy, 50, |_| 1);
        let fields = Fields { flags: 7, ..Fields::default() };
        let value: Vec<u8> = (0..20_000_u32).map(|at| (at % 251) as u8).collect();
        let layout = hot.layout(&fields, 3, value.len());
        let mut draft = hot.draft(layout, &fields, b"key", &Nobody).expect("there is room");
        draft.write(&value);
        let (guard, from) = (epochs.pin(), draft.publish(7, 0, 100));
        // SAFETY: published just now, and never unlinked.
        let item = unsafe { hot.item(&guard, from) };
        let (pieces, before) = (layout.pieces(), used(&hot));
        assert!(pieces > 2);
        let to = hot.copy_of_pieces(item, from).expect("there is room").publish_as(item, from);
        // SAFETY: as above.
        let copied = unsafe { hot.item(&guard, to) };
        let bytes: Vec<u8> =
            (0..pieces).flat_map(|number| hot.piece_value(copied, number)).copied().collect();
        assert!(bytes == value && copied.key() == b"key" && copied.fields() == item.fields());
        assert!((0..pieces).all(|number| copied.piece(number) != item.piece(number)));
        assert_eq!(used(&hot).iter().sum::<usize>(), before.iter().sum::<usize>() + 1 + pieces);
        // Until a class has no chunk left; then the copy's chunks are free again.
        let class = loop {
            let before = used(&hot);
            match hot.copy_of_pieces(item, from) {
                Ok(copy) => _ = copy.publish_as(item, from),
                Err(class) => {
                    assert_eq!(used(&hot), before);
                    break class;
                }
            }
        };
        assert_eq!(class, hot.class_at(item.piece(0)));
    }
}
