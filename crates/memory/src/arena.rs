//! The arena: one reserved range of addresses from which all memory for items and index comes,
//! handed out in slabs and never beyond the limit.
//!
//! ```text
//!   start                                                   reserved (the machine's memory)
//!   | slab 0 | slab 1 | slab 2 |  ...  | slab n |  never touched yet ...                  |
//!     taken    given    taken            taken
//!              back
//! ```
//!
//! Reserving takes addresses and no memory: pages come at their first touch, as huge pages where
//! the kernel has them, and a slab that is given back leaves the resident set unless it is needed
//! again at once. The limit counts slabs, so the memory limit can grow and shrink online anywhere
//! below the reservation. Where addresses are not free, because there is a limit on them or the
//! kernel counts them as memory, less is reserved.
//!
//! First touch of a huge page is slow (the kernel zeroes 2 MiB: about 6 ms on a cold machine). So
//! the background keeps one slab *ready*, touched but not taken; it counts as used.
//!
//! A slab is 2 MiB, one huge page, where the memory limit allows at least [`SLABS_WANTED`] of
//! them. Each size class in use needs a slab of its own, so a small arena has smaller slabs, down
//! to 128 KiB, rather than so few that classes take them from each other all the time.
//!
//! Places: a place is an offset into the arena in units of 8 bytes. 38 bits of them reach 2 TiB.

use std::io;
use std::ptr::NonNull;
use std::sync::Mutex;

use ::io::map::{HUGE_PAGE_BYTES, Mapping};
use stdx::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use stdx::sync::lock;
use stdx::units::{KIB, MIB};

/// Bytes of a slab in an arena that is not small: one huge page.
pub const SLAB_BYTES_MAX: usize = 2 * MIB;
/// Bytes of a slab in the smallest arenas: room for a table of the index of any size.
pub const SLAB_BYTES_MIN: usize = 128 * KIB;
/// The fewest slabs an arena should have, while slabs are not the smallest: several times the
/// number of size classes that a mix of values uses.
pub const SLABS_WANTED: usize = 512;
/// Bytes of the unit in which places count.
pub const PLACE_UNIT_BYTES: usize = 8;
/// How many bits a place may need.
pub const PLACE_BITS: u32 = 38;
/// The largest arena, in bytes: what places can address.
pub const ARENA_BYTES_MAX: usize = PLACE_UNIT_BYTES << PLACE_BITS;

const _: () = assert!(SLAB_BYTES_MAX == ::io::map::HUGE_PAGE_BYTES);

/// A slab's number in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlabId(pub u32);

/// Where something begins: an offset into the arena, in units of 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u64);

/// A claim to a slab that is about to be emptied for the one that claims it.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Slabs in use before that one left.
    used_slabs: usize,
    /// The limit at that time, in slabs.
    limit_slabs: usize,
}

/// The reserved range and which of its slabs are free.
pub struct Arena {
    mapping: Mapping,
    slab_bytes: usize,
    limit_slabs: AtomicUsize,
    /// Taken and ready slabs. Written under `free`'s lock.
    used_slabs: AtomicUsize,
    free: Mutex<Free>,
    /// Whether the kernel can back it with huge pages.
    may_be_huge: bool,
    /// Whether huge pages are asked for. Written under `free`'s lock.
    huge_pages: AtomicBool,
}

/// The slabs that are not taken.
#[derive(Debug, Default)]
struct Free {
    /// Touched, counted as used, waiting to be taken.
    ready: Vec<SlabId>,
    /// Given back to the system, to be used again before fresh ones.
    returned: Vec<SlabId>,
    /// Slabs from here on were never used.
    fresh_from: u32,
}

/// How many ready slabs the background keeps.
const READY_SLABS: usize = 1;

impl Arena {
    /// Reserves addresses for `reserved_bytes`, or fewer where the kernel refuses that many, and
    /// allows `limit_bytes` of them to be used, in slabs of a size that suits the limit. Both are
    /// rounded to whole slabs: the limit down, but to no less than `slabs_min`.
    pub fn new(reserved_bytes: usize, limit_bytes: usize, slabs_min: usize) -> io::Result<Self> {
        let slab_bytes = slab_bytes_for(limit_bytes);
        let limit_slabs = (limit_bytes / slab_bytes).max(slabs_min);
        let rounded = |bytes: usize| {
            let bytes = bytes.checked_next_multiple_of(SLAB_BYTES_MAX);
            let bytes = bytes.filter(|&bytes| bytes <= ARENA_BYTES_MAX);
            bytes.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
        };
        let bytes_min = rounded(limit_slabs * slab_bytes)?;
        let mapping = reserve(bytes_min, rounded(reserved_bytes)?.max(bytes_min))?;
        let may_be_huge = mapping.advise_huge();
        Ok(Self {
            mapping,
            slab_bytes,
            limit_slabs: AtomicUsize::new(limit_slabs),
            used_slabs: AtomicUsize::new(0),
            free: Mutex::default(),
            may_be_huge,
            huge_pages: AtomicBool::new(may_be_huge),
        })
    }

    /// Bytes of each slab: a power of two.
    #[inline]
    pub fn slab_bytes(&self) -> usize {
        self.slab_bytes
    }

    /// The place `bytes` behind the start of `slab`; `bytes` is a multiple of 8.
    pub fn place(&self, slab: SlabId, bytes: usize) -> Place {
        debug_assert!(bytes < self.slab_bytes && bytes.is_multiple_of(PLACE_UNIT_BYTES));
        Place(((slab.0 as usize * self.slab_bytes + bytes) / PLACE_UNIT_BYTES) as u64)
    }

    /// The slab that a place lies in, and the bytes from the slab's start.
    #[inline]
    pub fn locate(&self, place: Place) -> (SlabId, usize) {
        let offset = place.0 as usize * PLACE_UNIT_BYTES;
        // A power of two, so that this is a shift and a mask.
        let shift = self.slab_bytes.trailing_zeros();
        (SlabId((offset >> shift) as u32), offset & (self.slab_bytes - 1))
    }

    /// Whether the kernel agreed to back the arena with huge pages, and is still asked to.
    pub fn huge_pages(&self) -> bool {
        self.huge_pages.load(Ordering::Relaxed)
    }

    /// The number of slabs for which addresses are reserved.
    pub fn reserved_slabs(&self) -> usize {
        self.mapping.bytes() / self.slab_bytes
    }

    /// The number of slabs that may be used.
    pub fn limit_slabs(&self) -> usize {
        self.limit_slabs.load(Ordering::Relaxed)
    }

    /// The number of used slabs.
    pub fn used_slabs(&self) -> usize {
        self.used_slabs.load(Ordering::Relaxed)
    }

    /// A number above those of all used slabs. Some slabs below it may be unused, where the limit
    /// was lowered.
    pub fn numbers_end(&self) -> u32 {
        lock(&self.free).fresh_from
    }

    /// The number of slabs that can still be taken.
    pub fn free_slabs(&self) -> usize {
        let ready = lock(&self.free).ready.len();
        (self.limit_slabs() + ready).saturating_sub(self.used_slabs())
    }

    /// The number of slabs by which the use exceeds a limit that was lowered.
    pub fn excess_slabs(&self) -> usize {
        self.used_slabs().saturating_sub(self.limit_slabs())
    }

    /// Changes the limit; at most to what is reserved. A limit lower than the use takes effect as
    /// slabs are given back.
    pub fn set_limit_slabs(&self, limit_slabs: usize) {
        assert!(limit_slabs <= self.reserved_slabs());
        let mut free = lock(&self.free);
        self.limit_slabs.store(limit_slabs, Ordering::Relaxed);
        while self.excess_slabs() > 0 {
            let Some(slab) = free.ready.pop() else { break };
            self.discard(slab);
            free.returned.push(slab);
            self.used_slabs.fetch_sub(1, Ordering::Relaxed);
        }
        self.choose_pages(&free);
    }

    /// Chooses between huge and small pages. Where slabs are smaller than huge pages, the kernel
    /// fills a slab given back between two others when it makes one page of them, sooner or later.
    /// That is harmless while all slabs ever used fit the limit; else it undoes the release of
    /// their memory.
    fn choose_pages(&self, free: &Free) {
        let fits = free.fresh_from as usize <= self.limit_slabs();
        let is_small = !self.may_be_huge || self.slab_bytes >= HUGE_PAGE_BYTES;
        if is_small || self.huge_pages() == fits {
            return;
        }
        let huge_pages = if fits {
            self.mapping.advise_huge()
        } else {
            !self.mapping.advise_small(free.fresh_from as usize * self.slab_bytes)
        };
        self.huge_pages.store(huge_pages, Ordering::Relaxed);
        if !huge_pages {
            // Some may be filled already.
            free.returned.iter().for_each(|&slab| self.discard(slab));
        }
    }

    /// Takes a slab if at least `reserve_slabs` more would be left for others.
    pub fn take(&self, reserve_slabs: usize) -> Option<SlabId> {
        let mut free = lock(&self.free);
        let used = self.used_slabs() - free.ready.len();
        if used + reserve_slabs >= self.limit_slabs() {
            return None;
        }
        if let Some(slab) = free.ready.pop() {
            return Some(slab);
        }
        self.used_slabs.fetch_add(1, Ordering::Relaxed);
        Some(self.untouched(&mut free))
    }

    /// A claim to the next slab that leaves, for a taker that is about to have one emptied; or
    /// still the claim that it has, if a slab has left since.
    pub fn claim(&self, before: Option<Claim>) -> Claim {
        let now = Claim { used_slabs: self.used_slabs(), limit_slabs: self.limit_slabs() };
        let is_due = |before: &Claim| {
            before.limit_slabs == now.limit_slabs && before.used_slabs > now.used_slabs
        };
        before.filter(is_due).unwrap_or(now)
    }

    /// Takes a slab in the place of one that has left since it was claimed, although a lowered
    /// limit is exceeded: no more are in use then than before. Without excess, one that has left
    /// can be [taken](Self::take) by itself.
    pub fn take_claimed(&self, claim: Claim) -> Option<SlabId> {
        let mut free = lock(&self.free);
        let is_same_limit = self.limit_slabs() == claim.limit_slabs;
        if !is_same_limit || self.excess_slabs() == 0 || self.used_slabs() >= claim.used_slabs {
            return None;
        }
        self.used_slabs.fetch_add(1, Ordering::Relaxed);
        Some(self.untouched(&mut free))
    }

    /// Gives a slab back. Its content is gone.
    ///
    /// # Safety
    /// The caller took the slab, and no thread reads or writes it any more.
    pub unsafe fn give(&self, slab: SlabId) {
        {
            let mut free = lock(&self.free);
            if free.ready.len() < READY_SLABS && self.excess_slabs() == 0 {
                free.ready.push(slab);
                return;
            }
        }
        // Not under the lock, at which others wait for slabs: the kernel takes its time, and no
        // thread finds this slab meanwhile.
        let was_huge = self.huge_pages();
        self.discard(slab);
        let mut free = lock(&self.free);
        if was_huge != self.huge_pages() {
            // It may have been filled before small pages were asked for.
            self.discard(slab);
        }
        free.returned.push(slab);
        self.used_slabs.fetch_sub(1, Ordering::Relaxed);
    }

    /// Touches one slab ahead of need, if there is one to touch. For the background: it may take
    /// milliseconds, and holds no lock meanwhile.
    pub fn prepare(&self) {
        let slab = {
            let mut free = lock(&self.free);
            if free.ready.len() >= READY_SLABS || self.used_slabs() >= self.limit_slabs() {
                return;
            }
            self.used_slabs.fetch_add(1, Ordering::Relaxed);
            self.untouched(&mut free)
        };
        self.mapping.populate(slab.0 as usize * self.slab_bytes, self.slab_bytes);
        let mut free = lock(&self.free);
        if self.excess_slabs() == 0 {
            free.ready.push(slab);
            return;
        }
        // The limit was lowered meanwhile.
        self.discard(slab);
        free.returned.push(slab);
        self.used_slabs.fetch_sub(1, Ordering::Relaxed);
    }

    /// The first byte of a slab; the slab is aligned to its size.
    pub fn slab_start(&self, slab: SlabId) -> NonNull<u8> {
        let offset = slab.0 as usize * self.slab_bytes;
        assert!(offset < self.mapping.bytes());
        // SAFETY: the offset was checked to lie in the mapping.
        unsafe { self.mapping.start().add(offset) }
    }

    /// The byte at `place`. Reading or writing there is up to the owner of the slab.
    #[inline]
    pub fn pointer(&self, place: Place) -> NonNull<u8> {
        let offset = place.0 as usize * PLACE_UNIT_BYTES;
        debug_assert!(offset < self.mapping.bytes());
        // SAFETY: places come from slabs of this arena (`Arena::place` with a slab that was taken),
        // so the offset lies in the mapping.
        unsafe { self.mapping.start().add(offset) }
    }

    /// The slab that a pointer into the arena lies in.
    pub fn slab_of(&self, pointer: NonNull<u8>) -> SlabId {
        let offset = pointer.as_ptr() as usize - self.mapping.start().as_ptr() as usize;
        assert!(offset < self.mapping.bytes());
        SlabId((offset / self.slab_bytes) as u32)
    }

    fn untouched(&self, free: &mut Free) -> SlabId {
        free.returned.pop().unwrap_or_else(|| {
            let slab = SlabId(free.fresh_from);
            assert!(
                (slab.0 as usize) < self.reserved_slabs(),
                "the limit is below the reservation"
            );
            free.fresh_from += 1;
            slab
        })
    }

    fn discard(&self, slab: SlabId) {
        // SAFETY: called for slabs that are not taken, so no thread reads, writes or relies on
        // them.
        let done =
            unsafe { self.mapping.discard(slab.0 as usize * self.slab_bytes, self.slab_bytes) };
        done.expect("a range of a live private mapping can always be discarded");
    }
}

/// Addresses for `bytes_max`, or for fewer where the kernel refuses those, but for `bytes_min` at
/// least. It refuses addresses beyond a limit (`ulimit -v`), and where it does not overcommit
/// memory, those beyond its memory. Stacks and other processes draw on the same: so half of what it
/// would give beyond `bytes_min` is left to them.
fn reserve(bytes_min: usize, bytes_max: usize) -> io::Result<Mapping> {
    let whole = Mapping::reserve(bytes_max);
    if whole.is_ok() {
        return whole;
    }
    let half = |bytes: usize| bytes / 2 / SLAB_BYTES_MAX * SLAB_BYTES_MAX;
    let mut beyond = bytes_max - bytes_min;
    while beyond > 0 {
        beyond = half(beyond);
        if Mapping::reserve(bytes_min + beyond).is_ok() {
            break;
        }
    }
    Mapping::reserve(bytes_min + half(beyond))
}

/// The size of slabs for a memory limit.
fn slab_bytes_for(limit_bytes: usize) -> usize {
    let wanted = (limit_bytes / SLABS_WANTED).max(1);
    // The largest power of two that is not larger.
    let floor = 1 << wanted.ilog2();
    usize::clamp(floor, SLAB_BYTES_MIN, SLAB_BYTES_MAX)
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena")
            .field("reserved_slabs", &self.reserved_slabs())
            .field("limit_slabs", &self.limit_slabs())
            .field("used_slabs", &self.used_slabs())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(reserved_slabs: usize, limit_slabs: usize) -> Arena {
        let (reserved, limit) = (reserved_slabs * SLAB_BYTES_MAX, limit_slabs * SLAB_BYTES_MIN);
        Arena::new(reserved, limit, 0).unwrap()
    }

    #[test]
    fn a_small_arena_has_small_slabs_and_a_large_one_huge_pages() {
        for (megabytes, kibibytes) in [(1, 128), (64, 128), (128, 256), (1024, 2048), (4096, 2048)]
        {
            assert_eq!(slab_bytes_for(megabytes << 20), kibibytes << 10, "{megabytes}");
        }
    }

    /// Regression: memory freed by a lower limit came back: the kernel made huge pages of those
    /// slabs.
    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn a_lower_limit_ends_huge_pages_that_would_refill_freed_slabs() {
        let arena = arena(8, 64);
        if !arena.huge_pages() {
            return;
        }
        // How the mapping's first pages are advised, by the kernel's list of all mappings.
        let is_huge = || {
            let start = format!("{:x}-", arena.mapping.start().as_ptr() as usize);
            let list = std::fs::read_to_string("/proc/self/smaps").expect("the kernel tells");
            let of_mapping = list.lines().skip_while(|line| !line.starts_with(&start));
            let flags = of_mapping.filter_map(|line| line.strip_prefix("VmFlags:")).next();
            flags.expect("it has flags").split_whitespace().find_map(|flag| match flag {
                "hg" => Some(true),
                "nh" => Some(false),
                _ => None,
            })
        };
        let slabs: Vec<SlabId> = (0..64).map(|_| arena.take(0).expect("room")).collect();
        // SAFETY: the slabs were never used.
        slabs[40..].iter().for_each(|&slab| unsafe { arena.give(slab) });
        assert_eq!((is_huge(), arena.huge_pages()), (Some(true), true));
        arena.set_limit_slabs(4);
        assert_eq!((is_huge(), arena.huge_pages()), (Some(false), false));
        // SAFETY: as above.
        slabs[4..40].iter().for_each(|&slab| unsafe { arena.give(slab) });
        assert_eq!(arena.used_slabs(), 4);
        arena.set_limit_slabs(64);
        assert_eq!((is_huge(), arena.huge_pages()), (Some(true), true));
    }

    /// Regression: an arena that may grow to all of the machine's memory could not be created where
    /// addresses are limited, or count as memory, though there was room for the memory limit.
    #[test]
    #[cfg_attr(miri, ignore = "reserves more addresses than there are")]
    fn where_addresses_are_refused_fewer_are_reserved() {
        // No process has that many addresses, but each has many hundred times this limit.
        const BYTES: usize = 64 << 20;
        let mapping = reserve(BYTES, 1 << 50).expect("there is room for what is needed");
        assert!(mapping.bytes() > BYTES && mapping.bytes() < 1 << 46);
        let error = reserve(1 << 50, 1 << 50).expect_err("there is no room for this");
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }

    #[test]
    fn slabs_are_taken_up_to_the_limit_and_a_reserve_is_left() {
        let arena = arena(8, 3);
        let first = arena.take(1).unwrap();
        let second = arena.take(1).unwrap();
        assert_ne!(first, second);
        assert_eq!(arena.take(1), None);
        let third = arena.take(0).unwrap();
        assert_eq!(arena.take(0), None);
        for slab in [first, second, third] {
            // SAFETY: taken above and never used.
            unsafe { arena.give(slab) };
        }
        assert!(arena.used_slabs() <= READY_SLABS);
        assert_eq!(arena.free_slabs(), 3);
    }

    #[test]
    fn a_ready_slab_counts_and_is_taken_first() {
        let arena = arena(4, 1);
        arena.prepare();
        arena.prepare();
        assert_eq!((arena.used_slabs(), arena.free_slabs()), (1, 1));
        assert!(arena.take(0).is_some());
        assert_eq!((arena.used_slabs(), arena.free_slabs()), (1, 0));
        assert_eq!(arena.take(0), None);
    }

    #[test]
    fn a_lowered_limit_shows_as_excess_until_slabs_come_back() {
        let arena = arena(4, 4);
        let slabs: Vec<_> = (0..4).map(|_| arena.take(0).unwrap()).collect();
        arena.set_limit_slabs(2);
        assert_eq!(arena.excess_slabs(), 2);
        for slab in slabs {
            // SAFETY: taken above and never used.
            unsafe { arena.give(slab) };
        }
        assert_eq!((arena.excess_slabs(), arena.free_slabs()), (0, 2));
        arena.set_limit_slabs(0);
        assert_eq!((arena.used_slabs(), arena.free_slabs()), (0, 0));
    }

    #[test]
    fn a_claim_is_to_one_slab_that_leaves_while_a_lowered_limit_is_exceeded() {
        let arena = arena(4, 4);
        let mut slabs: Vec<_> = (0..4).map(|_| arena.take(0).unwrap()).collect();
        // SAFETY: each slab was taken, and is never used.
        let give = |slab: Option<SlabId>| unsafe { arena.give(slab.unwrap()) };
        assert!(arena.take_claimed(arena.claim(None)).is_none(), "nothing left");
        arena.set_limit_slabs(2);
        let claim = arena.claim(None);
        assert!(arena.take_claimed(claim).is_none(), "nothing left");
        give(slabs.pop());
        assert_eq!(arena.take(0), None);
        // Asked for once more, it is still due.
        let claim = arena.claim(Some(claim));
        slabs.extend(arena.take_claimed(claim));
        assert_eq!((slabs.len(), arena.used_slabs()), (4, 4));
        assert!(arena.take_claimed(claim).is_none(), "it has come");
        let claim = arena.claim(Some(claim));
        give(slabs.pop());
        arena.set_limit_slabs(1);
        assert!(arena.take_claimed(claim).is_none(), "another limit");
        let claim = arena.claim(Some(claim));
        give(slabs.pop());
        give(slabs.pop());
        assert!(arena.take_claimed(claim).is_none(), "the limit is kept");
    }

    #[test]
    fn a_place_knows_its_slab() {
        let arena = arena(4, 4);
        let place = arena.place(SlabId(3), 4096);
        assert_eq!(arena.locate(place), (SlabId(3), 4096));
        assert_eq!(arena.slab_of(arena.pointer(place)), SlabId(3));
    }
}
