//! Replacement decisions as pure functions. Nothing here knows items, clocks or threads; the time
//! and the events come as arguments.
//!
//! By question, each group in reading order:
//! * which item of a class is evicted: [`clock`], [`cost`], [`cost_clock`], which is the default,
//!   and [`gd_wheel`];
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

/// The hand's decision on an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The item is evicted.
    Evict,
    /// The item stays for another round, with this mark.
    Keep(u8),
}
