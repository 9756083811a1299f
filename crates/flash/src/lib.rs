//! The flash tier: items in log-structured segments of a file or block device. Most are compressed;
//! those that are read again are stored as they are.
//!
//! ```text
//!   stage -> open unit -> open segment -> one write of a whole segment        (stage, writer)
//!            rows         units, one page or so each                          (unit, fill)
//!
//!   two of each: the cold area and the hot one; read items move between them  (area, promote)
//!
//!   place -> memory: found at once
//!         -> device: a ticket; the caller reads its pages; finish             (reader)
//!
//!   maintain: write full segments, collect the least recently used
//!                                                     (chores, collect, watermarks)
//!             try again what the device refused       (heal)
//!             divide the segments between the areas                 (window, partition, usage)
//!             scrub what flushes of prefixes have removed                     (flushed, scrub)
//!   train:    a dictionary from incoming rows               (sampling, train, dictionaries)
//!   forget:   a note in the segment's journal                           (journal, dead)
//!   sync:     has the device keep it, while requests go on                        (sync)
//!   close:    writes everything, and marks the device clean                       (close)
//!   open, recover: superblock, segment table, item tables, journals  (open, recover, changes)
//! ```
//!
//! The modules, in reading order:
//!
//! ```text
//!   the device   geometry, place             its layout, and how a place names a spot on it
//!                superblock, table, reached  what its first pages say; valid segments; clocks
//!                checked                     which notes are believed
//!   the tier     flash, index_access         the caller's handle; what the tier asks of the index
//!                writer, area, list          streams into segments; two areas, a list for each
//!                stage, unit, fill           how a row gets to the device
//!                reader                      how it is found again
//!   room         chores, watermarks          the background, and when it works
//!                collect, promote            segments made free; rows into the hot area
//!                partition, window, usage    how much of the tier is hot
//!   training     sampling, train             which rows, and when
//!                dictionaries                on the device and in memory
//!   deaths       journal, dead, worn         notes: where, in which bytes, and when they run full
//!                flushed, scrub              flushed prefixes, and their removal
//!                sync, refusal               what the kernel or the device did not keep or give
//!   a restart    close, open, recover        the ends of a process
//!                changes                     keys that change before all is recovered
//!   beside it    walk, stats, sizing         listings, numbers, how much a device would hold
//!                fuzzing                     the bodies of the fuzz targets
//! ```
//!
//! The index is the caller's ([`IndexAccess`]): it leads from a hash to a [`Place`] of 38 bits, and
//! the tier keeps nothing in memory for an item on the device. This is SlimCache's tier (Jia, Shao
//! and Chen, MASCOTS 2018) with units appended without slot classes, and with these changes: places
//! say how many pages to read, items that leave the hot area are compressed whether they were read
//! there or not, and a restart finds the items again.
//!
//! # What keeps an older value from coming back
//!
//! A process that opens the device after this one was killed finds the notes in the order in which
//! they were written. So at every moment the device says of each item that is no longer its key's
//! value that it is dead, or says nothing of it:
//!
//! * [`Flash::forget`] has written its journal entry when it returns, and the entry covers every
//!   key that the index may have taken for the item's ([`INDEX_HASH_BITS`]).
//! * Before a segment is used again its table entry is zeroed, then its journal; only then is a
//!   place in it handed out, since from then on entries have to be written.
//! * A segment's table entry is written after its pages, and nothing else makes it valid.
//! * A row that the index did not lead to when its unit was sealed is dead in the item table.
//! * Collection zeroes the table entry of a segment before it stages any of its items again,
//!   because a staged item can be forgotten without a note ([`mod@collect`]).
//! * Promotion notes that an item is dead at its old place before the index leads to the staged one
//!   ([`mod@promote`]): the segment it leaves stays valid.
//! * Staged rows of the two areas never have the same number, nor do two rows of one unit: a staged
//!   place leads to one row.
//! * The superblock names the segments that recovery has not reached. The items in them cannot be
//!   journalled yet, so [`Flash::note_change`] has written which keys changed meanwhile, and after
//!   another kill an item of one of these is dead ([`mod@changes`]).
//! * A flush raises the sequence below which segments are void before it returns; a flush of a
//!   prefix has by then written the point up to which its keys' items are gone ([`mod@flushed`]).
//! * Expired items stay expired where the clock was put back ([`mod@reached`]).
//! * A journal that overflows, or cannot be written, takes its whole segment with it. So does one
//!   that is just becoming a filter ([`mod@journal`]).
//! * So does a journal that is damaged, or of another life of its segment. A damaged part of the
//!   changes counts for all keys that it may have been about ([`mod@checked`]).
//!
//! After a crash of the machine only a device that was closed cleanly is believed: the superblock
//! holds the boot's id, and says "clean" only between a close and the next opening. Nothing is
//! believed where keys were hashed by another function ([`Settings::hash_check`]).
//!
//! In memory, each segment has a sequence that no other use of it had. A read that began before the
//! segment was used again finds nothing.
//!
//! # Locks
//!
//! The order: the lock of the chores, the writer's, those of the index (in [`IndexAccess`]), that
//! of a segment's bits, that of the changes, the superblock's. [`Flash::forget`],
//! [`Flash::note_change`] and [`Flash::has_changed`] are called under locks of the index and take
//! at most the last three. A sync has a lock of its own between that of the chores and the
//! superblock's. The lock of a dictionary's slot comes after all of them, and so does that of worn
//! journals; nothing is called while they are held. No page is read or written while the writer's
//! lock is held; only notes are.

#![forbid(unsafe_code)]

mod area;
mod changes;
mod checked;
mod chores;
mod close;
mod collect;
mod dead;
mod dictionaries;
mod fill;
mod flash;
mod flushed;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod geometry;
mod heal;
mod index_access;
mod journal;
mod list;
mod open;
mod partition;
mod place;
mod promote;
mod reached;
mod reader;
mod recover;
mod refusal;
mod sampling;
mod scrub;
mod sizing;
mod stage;
mod stats;
mod superblock;
mod sync;
mod table;
#[cfg(test)]
mod tests;
mod train;
mod unit;
mod usage;
mod walk;
mod watermarks;
mod window;
mod worn;
mod writer;

pub use codec::record::{Fields, RECORD_KEY_BYTES_MAX, Record};
pub use {
    area::Area,
    close::CloseError,
    flash::{Flash, LEVEL_DEFAULT, SEGMENT_BYTES_DEFAULT, Settings},
    flushed::PrefixFlush,
    geometry::{DEVICE_BYTES_MAX, INDEX_HASH_BITS},
    index_access::{IndexAccess, Inserted},
    open::{Doubt, Empty, OpenError},
    partition::{Costs, Partition},
    place::{ACCESSES_MAX, PLACE_BITS, Place},
    promote::Promotion,
    reached::{Reached, STANDSTILL_MAX_S},
    reader::{Life, Look, Reader, Ticket, Trace},
    sizing::Sizing,
    stage::Refused,
    stats::{AreaStats, FlashStats},
    unit::Compression,
    walk::{Walk, Walked},
    watermarks::Watermarks,
};
