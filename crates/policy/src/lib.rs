//! Which items stay: replacement decisions as pure functions. Nothing here knows items, clocks or
//! threads; what time it is and what has happened come as arguments.
//!
//! By question, each group in reading order:
//! * which item of a class goes: [`clock`], [`cost`], the trait [`CostPolicy`] with [`cost_clock`],
//!   which is the default, and [`gd_wheel`];
//! * which class, zone or tier gets memory: [`rebalance`], [`split`] and [`write_budget`];
//! * which items of a slab change places, where that is asked for: [`temperatures`], [`columns`],
//!   [`geometry`], [`pages`] and [`colours`].

#![forbid(unsafe_code)]

pub mod clock;
pub mod colours;
pub mod columns;
pub mod cost;
pub mod cost_clock;
pub mod gd_wheel;
pub mod geometry;
pub mod pages;
pub mod rebalance;
pub mod split;
pub mod temperatures;
pub mod write_budget;

/// A decision about who is evicted, made from one byte per chunk, the mark, where it is known what
/// items cost to make again: [`clock::pass`] is the one where it is not.
///
/// A hit must not take a lock, so what a policy learns from it is a change of that byte, made by
/// whoever had the hit; the hand, which goes round the chunks of a class, decides from it. What is
/// learned of costs is kept for each class, under the class's lock, as are stores and the hand; a
/// hit needs neither that nor the cost. A trait, so that simulations compare variants of it.
pub trait CostPolicy {
    /// The mark of an item that is stored with this cost; 0 is unknown and counts as 1.
    fn store(&mut self, cost: u32) -> u8;

    /// The mark after a hit, for simulations. Equal to `mark` when there is nothing to write. In
    /// the hot zone a hit leaves more in the mark (`hot::mark::hit_mark`).
    fn hit(mark: u8) -> u8;

    /// What the hand does with a chunk that it finds with this mark.
    fn pass(&self, mark: u8, cost: u32) -> Verdict;
}

/// What the hand decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The item goes.
    Evict,
    /// The item stays for another round, with this mark.
    Spare(u8),
}
