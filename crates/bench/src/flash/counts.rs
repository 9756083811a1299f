//! The state of a tier: the servers' own counts, and the kernel's.
//!
//! The memory of an item on flash is calculated from the server's statistics, because both servers
//! fill their memory limit with other items whatever is on flash:
//!
//! ```text
//!   Larder      (hash_bytes * items on flash / items + the tier's buffers) / items on flash
//!   memcached   the slab chunk of an item with its key and 12 bytes in place of the value,
//!               and hash_bytes / items
//! ```
//!
//! `hash_bytes` is the whole index of each. Shown beside it is a figure that leaves nothing out:
//! resident memory, whatever it holds, per item on flash.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::failure::{Failure, Outcome};
use crate::report::share;
use crate::server::recipe::Kind;
use crate::server::{Server, query, usage};

/// Bytes of memcached's item besides key and value: its head, the cas unique and the key's end.
const ITEM_HEAD_BYTES: u64 = 48 + 8 + 1;
/// Bytes that extstore keeps in memory in place of a value.
const EXTSTORE_HEAD_BYTES: u64 = 12;
/// Bytes of a sector, as the kernel counts them.
const SECTOR_BYTES: u64 = 512;
/// Standard deviations around the mean that hold 95 % of a normal distribution.
const SURE: f64 = 1.96;

/// A server and its tier at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct TierCounts {
    /// Items in memory and on flash.
    pub items: u64,
    /// Items on flash.
    pub flash_items: u64,
    /// Items evicted.
    pub evictions: u64,
    /// Items read from flash.
    pub reads: u64,
    /// Bytes that the server has written to the tier, by its own count.
    pub written_bytes: u64,
    /// The share of the writes that moved existing data: bytes for Larder, items for memcached.
    pub moved_share: f64,
    /// Bytes that the server has written to storage, by the kernel's count.
    pub kernel_written_bytes: u64,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Bytes of memory per item on flash, as calculated above; `None` without such items.
    pub item_memory_bytes: Option<f64>,
}

/// Counts of the tier that only Larder reports.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OwnCounts {
    /// Items on flash.
    pub items: u64,
    /// Those that are in memory as well.
    pub spare: u64,
    /// Segments of the device.
    pub segments: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Segments that hold items, or are being filled.
    pub segments_used: u64,
    /// Segments collected.
    pub collected: u64,
    /// Bytes written in segments.
    pub written_bytes: u64,
    /// Those moved by collection.
    pub moved_bytes: u64,
    /// Items put into units, including moved ones.
    pub staged: u64,
    /// Items that the tier refused.
    pub refused: u64,
    /// Items handed down by stores themselves.
    pub handed: u64,
    /// Items promoted into memory.
    pub promoted: u64,
    /// Items that left memory for their spare row on flash, without a write.
    pub rested: u64,
    /// Bytes of items in units before compression.
    pub raw_bytes: u64,
    /// Bytes of units.
    pub stored_bytes: u64,
    /// Reads of the device for requests.
    pub reads: u64,
    /// Notes of deletions.
    pub notes: u64,
}

/// Asks a server and the kernel.
pub fn tier(server: &Server, key_bytes: u16) -> Outcome<TierCounts> {
    ask_for_tier(server, key_bytes).map_err(|failure| server.explain(failure))
}

fn ask_for_tier(server: &Server, key_bytes: u16) -> Outcome<TierCounts> {
    let stats = query::stats(server.address)?;
    let number = |name: &str| query::number(&stats, name);
    let (items, flash_items) = (number("curr_items")?, number("extstore_objects_used")?);
    let index_share = number("hash_bytes")? as f64 / items.max(1) as f64;
    let (moved_share, item_memory_bytes) = if server.kind == Kind::Memcached {
        let moved = number("extstore_compact_rescues")? as f64;
        let slabs = query::stats_of(server.address, "slabs")?;
        let chunk = chunk_bytes(&slabs, key_bytes)?;
        (share(moved, number("extstore_objects_written")? as f64), chunk as f64 + index_share)
    } else {
        let flash = query::stats_of(server.address, "flash")?;
        let of_flash = |name: &str| query::number(&flash, name).map(|count| count as f64);
        let buffers = of_flash("memory_bytes")? / flash_items.max(1) as f64;
        (share(of_flash("bytes_moved")?, of_flash("bytes_written")?), buffers + index_share)
    };
    Ok(TierCounts {
        items,
        flash_items,
        evictions: number("evictions")?,
        reads: number("extstore_objects_read")?,
        written_bytes: number("extstore_bytes_written")?,
        moved_share,
        kernel_written_bytes: usage::written_bytes(server.pid())?,
        resident_bytes: usage::resident(server.pid())?.bytes,
        item_memory_bytes: (flash_items > 0).then_some(item_memory_bytes),
    })
}

/// Asks Larder.
pub fn own(server: &Server) -> Outcome<OwnCounts> {
    let flash = query::stats_of(server.address, "flash");
    let flash = flash.map_err(|failure| server.explain(failure))?;
    let number = |name: &str| query::number(&flash, name);
    Ok(OwnCounts {
        items: number("items")?,
        spare: number("spare")?,
        segments: number("segments")?,
        segment_bytes: number("segment_bytes")?,
        segments_used: number("segments")?
            .saturating_sub(number("segments_free")? + number("segments_refused")?),
        collected: number("collected")?,
        written_bytes: number("bytes_written")?,
        moved_bytes: number("bytes_moved")?,
        staged: number("spilled")? + number("restaged")?,
        refused: number("refused")?,
        handed: number("handed")?,
        promoted: number("promoted")?,
        rested: number("rested")?,
        raw_bytes: number("raw_bytes")?,
        stored_bytes: number("stored_bytes")?,
        reads: number("reads")?,
        notes: number("journalled")?,
    })
}

/// Returns the bytes of memcached's chunk for the rest of an item whose value is on flash.
fn chunk_bytes(slabs: &HashMap<String, String>, key_bytes: u16) -> Outcome<u64> {
    let bytes = ITEM_HEAD_BYTES + u64::from(key_bytes) + EXTSTORE_HEAD_BYTES;
    let sizes = slabs.iter().filter(|(name, _)| name.ends_with(":chunk_size"));
    let sizes = sizes.filter_map(|(_, size)| size.parse().ok());
    let fitting = sizes.filter(|size| *size >= bytes).min();
    fitting.ok_or_else(|| Failure::Reply(format!("memcached has no chunks for {bytes} bytes")))
}

/// The result of looking up a sample of keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Keys requested.
    pub asked: u64,
    /// Those found.
    pub found: u64,
}

impl Sampled {
    /// Returns the share that was found.
    pub fn share(self) -> f64 {
        self.found as f64 / self.asked.max(1) as f64
    }

    /// Returns the 95 % confidence interval of the share of all keys that are there: Wilson's
    /// interval. Its middle is not the sample's share.
    pub fn interval(self) -> (f64, f64) {
        let (count, share, square) = (self.asked.max(1) as f64, self.share(), SURE * SURE);
        let spread = (share * (1.0 - share) / count + square / (4.0 * count * count)).sqrt();
        let whole = 1.0 + square / count;
        let (middle, half) = ((share + square / (2.0 * count)) / whole, SURE * spread / whole);
        (middle - half, middle + half)
    }
}

/// A disk's completed writes, of all processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskWrites {
    /// Their number.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Returns the writes, since the start of the system, of the disk under a file; `None` if the file
/// is on no disk of its own, as in a tmpfs.
pub fn disk_writes(file: &Path) -> Option<DiskWrites> {
    let device = fs::metadata(file).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    disk_writes_of(&text)
}

/// Parses the fields 5 and 7 of a disk's `stat`.
fn disk_writes_of(text: &str) -> Option<DiskWrites> {
    let mut fields = text.split_whitespace().skip(4).map(str::parse::<u64>);
    let count = fields.next()?.ok()?;
    let sectors = fields.nth(1)?.ok()?;
    Some(DiskWrites { count, bytes: sectors * SECTOR_BYTES })
}

impl DiskWrites {
    /// Returns the writes since `before`.
    pub fn since(self, before: DiskWrites) -> DiskWrites {
        DiskWrites { count: self.count - before.count, bytes: self.bytes - before.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::{DiskWrites, Sampled, chunk_bytes, disk_writes_of, share};

    #[test]
    fn a_sample_says_how_sure_it_is() {
        let close = |found: (f64, f64), wanted: (f64, f64)| {
            (found.0 - wanted.0).abs() < 1e-4 && (found.1 - wanted.1).abs() < 1e-4
        };
        // Newcombe (1998), table I: 81 of 263 are 0.2553 to 0.3662, 0 of 20 are 0 to 0.1611.
        let found = Sampled { asked: 263, found: 81 };
        assert!(close(found.interval(), (0.2553, 0.3662)), "{found:?}");
        let none = Sampled { asked: 20, found: 0 };
        assert!(close(none.interval(), (0.0, 0.1611)), "{none:?}");
        // Regression: the middle of the interval counted as the result, and none found became some.
        assert_eq!((none.share(), Sampled { asked: 20, found: 20 }.share()), (0.0, 1.0));
    }

    #[test]
    fn a_header_takes_the_smallest_chunk_that_holds_it() {
        let sizes = [("1:chunk_size", "96"), ("2:chunk_size", "120"), ("1:used_chunks", "94")];
        let slabs = sizes.map(|(name, size)| (name.to_owned(), size.to_owned())).into();
        // 48 + 8 + 1 + 12 and the key.
        assert_eq!(chunk_bytes(&slabs, 27).expect("it fits"), 96);
        assert_eq!(chunk_bytes(&slabs, 28).expect("it fits"), 120);
        assert!(chunk_bytes(&slabs, 52).is_err());
    }

    #[test]
    fn a_disks_writes_are_its_fifth_and_seventh_field() {
        let text = "  104623 11830 9707906 110395 14789 39080 10023776 33375 0 23716 144527";
        let writes = disk_writes_of(text).expect("it is whole");
        assert_eq!(writes, DiskWrites { count: 14_789, bytes: 10_023_776 * 512 });
        let before = DiskWrites { count: 14_000, bytes: 512 };
        assert_eq!(writes.since(before).count, 789);
        assert_eq!(disk_writes_of("1 2 3 4 5 6"), None);
    }

    #[test]
    fn a_share_of_nothing_is_nothing() {
        assert_eq!((share(1.0, 4.0), share(0.0, 0.0)), (0.25, 0.0));
    }
}
