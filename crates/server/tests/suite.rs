//! Everything that is tried on a running server, but for what holds for a whole process
//! (`small_pages`): one program, because each takes the linker as long as this one.

mod common;
#[path = "common/identities.rs"]
mod identities;
#[path = "common/packets.rs"]
mod packets;
#[path = "common/pages.rs"]
mod pages;

mod addresses;
mod admin;
mod announced;
mod binary;
mod commands;
mod config;
mod connections;
mod costs;
mod flash_reads;
mod insight;
mod layout;
mod memory_file;
mod meta;
mod misplaced;
mod not_reading;
mod notify;
mod prefixes;
mod quotas;
mod readers;
mod redis;
mod redis_beside_text;
mod redis_flash;
mod redis_pauses;
mod redis_transactions;
mod reload;
mod restart;
mod tls;
mod turns;
mod unread_log;
mod users;
