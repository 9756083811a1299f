//! The cache as its users meet it, but for the longest tests, which are programs of their own.

mod bursts;
mod compressed;
mod costs;
mod expiry;
mod expiry_below;
mod flash_reads;
mod flooding;
mod hot_keys;
mod late_reads;
mod layout;
mod lost_updates;
mod milliseconds;
mod observe;
mod on_flash;
mod operations;
mod order;
mod prefixes;
mod quotas;
mod repartition;
mod rescue;
mod save;
mod vacate;
