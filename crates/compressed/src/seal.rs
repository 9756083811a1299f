//! The heart of "never stale": how rows die while their block is being replaced.
//!
//! A block never changes, but for the bits that say which of its rows are dead. A thread that
//! removes a row sets its bit without a lock; a thread that replaces the block holds the lock of
//! its shard, and has copied the rows that were alive when it began. The top bit of each dead word
//! is the *seal*:
//!
//! ```text
//!   writer                                     marker
//!   reads the dead words, builds the new block
//!                                              sets a bit: the seal is not set, so it counts
//!   seals each dead word, reads the final bits
//!   sets in the new block what was set since
//!                                              would set a bit, but the seal is set: waits
//!                                              until the slot leads elsewhere, tries again
//!   publishes the new block in the slot
//! ```
//!
//! Marking and sealing are read-modify-writes of one word. So either the mark is ordered before the
//! seal, and the writer has it, or the marker sees the seal and leaves no mark. It must not leave
//! one: a second marker would find it in the old block, believe that the row is dead, and say so,
//! while the row is alive in the new block (the model `a_removed_row_stays_removed` found that).
//! Between sealing and publishing, the writer allocates nothing and takes no lock but the short one
//! that guards the counts of the trie's levels, so a marker does not wait long.
//!
//! A newcomer's row is *born dead*: it is published with its bit set, and *revealed* when its
//! owner, holding the key's lock, has made sure that it is still the key's item. A row goes from
//! born dead to alive to dead and never back: nothing else clears a bit.
//!
//! The words need no ordering of their own: a reader comes to a word by the slot, whose release and
//! acquire carry the bits that the new block was born with; and a thread that knows of a mark sees
//! it, because all threads see the changes of one word in one order.

use stdx::sync::atomic::{AtomicU32, Ordering};

/// The number of rows that a dead word covers: the top bit is the seal.
pub(crate) const ROWS_PER_DEAD_WORD: usize = 31;

const SEALED: u32 = 1 << ROWS_PER_DEAD_WORD;

/// One bit for each of up to 31 rows, and the seal.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct DeadWord(AtomicU32);

/// The result of an attempt to mark a row dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It was alive, and is dead now.
    Killed,
    /// It was dead already.
    WasDead,
    /// The block is being replaced: look where the slot leads to afterwards.
    Sealed,
}

impl DeadWord {
    /// The bits of the dead rows at this moment.
    #[inline]
    pub(crate) fn bits(&self) -> u32 {
        self.0.load(Ordering::Relaxed) & !SEALED
    }

    /// Whether a row is dead.
    #[inline]
    pub(crate) fn is_dead(&self, bit: usize) -> bool {
        self.bits() & 1 << bit != 0
    }

    /// Marks a row dead.
    pub(crate) fn mark(&self, bit: usize) -> Mark {
        debug_assert!(bit < ROWS_PER_DEAD_WORD);
        let done = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            (word & (SEALED | 1 << bit) == 0).then_some(word | 1 << bit)
        });
        match done {
            Ok(_) => Mark::Killed,
            Err(word) if word & SEALED != 0 => Mark::Sealed,
            Err(_) => Mark::WasDead,
        }
    }

    /// Makes a newcomer alive. Called only under the lock of the shard, so that the word is not
    /// sealed.
    pub(crate) fn reveal(&self, bit: usize) {
        let before = self.0.fetch_and(!(1 << bit), Ordering::Relaxed);
        debug_assert!(before & SEALED == 0 && before & 1 << bit != 0);
    }

    /// Seals the word, after which no mark counts. Returns the final bits.
    pub(crate) fn seal(&self) -> u32 {
        debug_assert!(self.0.load(Ordering::Relaxed) & SEALED == 0, "a block is replaced once");
        self.close()
    }

    /// Seals a word that may already have the seal because it is damaged.
    pub(crate) fn close(&self) -> u32 {
        self.0.fetch_or(SEALED, Ordering::Relaxed) & !SEALED
    }

    /// Carries marks into a block that is not published yet.
    pub(crate) fn bury_all(&self, bits: u32) {
        self.0.fetch_or(bits, Ordering::Relaxed);
    }
}

/// The place of a reference to a block: readers follow it without a lock.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Slot(AtomicU32);

impl Slot {
    /// The reference in the slot.
    #[inline]
    pub(crate) fn load(&self) -> u32 {
        // Acquire: partner is the release in `publish`; behind a reference is the block's content.
        self.0.load(Ordering::Acquire)
    }

    /// Leads readers to another block. Under the lock of the shard.
    pub(crate) fn publish(&self, reference: u32) {
        // Release: partner is the acquire in `load`.
        self.0.store(reference, Ordering::Release);
    }
}

#[cfg(loom)]
impl DeadWord {
    /// Makes a word with these bits.
    pub(crate) fn new(bits: u32) -> Self {
        Self(AtomicU32::new(bits))
    }
}

#[cfg(loom)]
impl Slot {
    /// Makes a slot with this reference.
    pub(crate) fn new(reference: u32) -> Self {
        Self(AtomicU32::new(reference))
    }
}

#[cfg(all(test, loom))]
mod models {
    //! `RUSTFLAGS="--cfg loom" cargo test -p larder-compressed --release --lib models`
    //!
    //! Two blocks of one row, the slot of a leaf that leads from the first to the second, and that
    //! of its parent, to which the first may move. The models have teeth. Each of these makes one
    //! fail: a mark that is left on a sealed word, or that counts there; final bits that are not
    //! carried over; a relaxed slot.

    use super::*;
    use loom::sync::Arc;
    use loom::thread;
    use stdx::sync::Backoff;

    const ROW: usize = 3;
    /// In a slot: its node is no leaf.
    const NO_LEAF: u32 = 2;

    struct World {
        blocks: [DeadWord; 2],
        parent: Slot,
        child: Slot,
    }

    impl World {
        fn new(bits: u32) -> Arc<Self> {
            let blocks = [DeadWord::new(bits), DeadWord::new(0)];
            Arc::new(Self { blocks, parent: Slot::new(NO_LEAF), child: Slot::new(0) })
        }

        /// The leaf's block, looked up as `Trie::leaf` does it.
        fn leaf(&self) -> u32 {
            let mut backoff = Backoff::default();
            loop {
                let mut codes = [&self.parent, &self.child].into_iter().map(Slot::load);
                if let Some(code) = codes.find(|&code| code != NO_LEAF) {
                    return code;
                }
                backoff.wait();
            }
        }

        fn block(&self) -> &DeadWord {
            &self.blocks[self.leaf() as usize]
        }

        /// Lets the parent have the block as it is, as `Trie::replace` does.
        fn move_up(&self) {
            self.child.publish(NO_LEAF);
            self.parent.publish(0);
        }

        /// Replaces the block, as `Zone::commit`, `Zone::append_row` and cleaning do.
        fn replace(&self) {
            self.replace_in(&self.child);
        }

        fn replace_in(&self, slot: &Slot) {
            let (old, new) = (&self.blocks[0], &self.blocks[1]);
            // A row that is dead now is not copied, and stays dead.
            let known = old.bits();
            new.bury_all(known);
            new.bury_all(old.seal());
            slot.publish(1);
        }

        /// Removes the row, as `Zone::remove` does.
        fn remove(&self) -> bool {
            let mut backoff = Backoff::default();
            loop {
                let at = self.leaf();
                let word = &self.blocks[at as usize];
                if word.is_dead(ROW) {
                    return false;
                }
                match word.mark(ROW) {
                    Mark::Killed => return true,
                    Mark::WasDead => return false,
                    Mark::Sealed => {
                        while self.leaf() == at {
                            backoff.wait();
                        }
                    }
                }
            }
        }
    }

    /// A promotion marks the row that it found, once; a removal of the key that follows tries until
    /// it knows. One of them succeeds, and no reader finds the row afterwards, by whichever slot it
    /// comes.
    #[test]
    fn a_removed_row_stays_removed() {
        loom::model(|| {
            let world = World::new(0);
            let writer = {
                let world = world.clone();
                thread::spawn(move || world.replace())
            };
            let promoted = world.blocks[0].mark(ROW) == Mark::Killed;
            let removed = world.remove();
            assert!(world.block().is_dead(ROW), "found after its removal");
            assert!(promoted != removed, "one row is removed once");
            writer.join().expect("the model holds");
            assert!(world.blocks[1].is_dead(ROW));
        });
    }

    /// A reader that begins after it has heard of the removal does not find the row.
    #[test]
    fn a_reader_that_knows_of_a_removal_does_not_find_the_row() {
        loom::model(|| {
            let world = World::new(0);
            let removed = Arc::new(AtomicU32::new(0));
            let writer = {
                let world = world.clone();
                thread::spawn(move || world.replace())
            };
            let marker = {
                let (world, removed) = (world.clone(), removed.clone());
                thread::spawn(move || {
                    assert!(world.remove());
                    // Release: partner is the acquire below.
                    removed.store(1, Ordering::Release);
                })
            };
            // Acquire: partner is the release above.
            if removed.load(Ordering::Acquire) == 1 {
                assert!(world.block().is_dead(ROW), "found after its removal");
            }
            writer.join().expect("the model holds");
            marker.join().expect("the model holds");
        });
    }

    /// A block moves from a leaf to its parent as it is, and is replaced there: a mark counts once,
    /// and for good, by whichever slot its maker came.
    #[test]
    fn a_row_is_removed_once_though_its_block_moves_up_and_is_replaced_there() {
        loom::model(|| {
            let world = World::new(0);
            let writer = {
                let world = world.clone();
                thread::spawn(move || {
                    world.move_up();
                    world.replace_in(&world.parent);
                })
            };
            let promoted = world.block().mark(ROW) == Mark::Killed;
            let removed = world.remove();
            assert!(world.block().is_dead(ROW), "found after its removal");
            assert!(promoted != removed, "one row is removed once");
            writer.join().expect("the model holds");
            assert!(world.block().is_dead(ROW) && world.blocks[1].is_dead(ROW));
        });
    }

    /// A reader that has heard of the removal from another thread does not find the row in the
    /// parent either.
    #[test]
    fn a_reader_that_knows_of_a_removal_finds_no_row_in_a_block_that_moved_up() {
        loom::model(|| {
            let world = World::new(0);
            let removed = Arc::new(AtomicU32::new(0));
            let marker = {
                let (world, removed) = (world.clone(), removed.clone());
                thread::spawn(move || {
                    assert!(world.remove());
                    // Release: partner is the acquire below.
                    removed.store(1, Ordering::Release);
                })
            };
            let writer = {
                let world = world.clone();
                thread::spawn(move || {
                    world.move_up();
                    world.replace_in(&world.parent);
                })
            };
            // Acquire: partner is the release above.
            if removed.load(Ordering::Acquire) == 1 {
                assert!(world.block().is_dead(ROW), "found after its removal");
            }
            writer.join().expect("the model holds");
            marker.join().expect("the model holds");
        });
    }

    /// A newcomer is seen only once it is revealed, and a later removal that holds the key's lock
    /// ends it, though its block is replaced meanwhile.
    #[test]
    fn a_revealed_row_can_be_removed_while_its_block_is_replaced() {
        loom::model(|| {
            let world = World::new(1 << ROW);
            let key = Arc::new(loom::sync::Mutex::new(false));
            let writer = {
                let (world, key) = (world.clone(), key.clone());
                thread::spawn(move || {
                    *key.lock().expect("the model holds") = true;
                    // In the zone `confirm` takes the key's lock for both steps.
                    world.blocks[0].reveal(ROW);
                    world.replace();
                })
            };
            {
                let revealed = key.lock().expect("the model holds");
                if !*revealed {
                    assert!(!world.remove(), "nobody sees what is not revealed");
                }
            }
            writer.join().expect("the model holds");
            assert!(world.remove() && world.block().is_dead(ROW));
        });
    }
}
