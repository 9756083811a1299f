//! `larder-bench restart`: does a flash tier survive, and does nothing stale come back?
//!
//! A server with a flash tier is ended again and again in the middle of its work, mostly by
//! SIGKILL, and restarted on its files. Two things must hold:
//!
//! - No value that is read is older than what the server has acknowledged, whatever was
//!   overwritten, deleted, flushed or expired meanwhile; and each is right to the last byte
//!   (`history` says what may be read, `content` how a value is known).
//! - Nearly all items that were on flash are found again. `course` takes the server through one
//!   round.
//!
//! ```text
//!   fill | load ... killed | recovery under load, sweep | load ... killed | recovery ...
//!        |------------- round 1 ------------------------|------------ round 2 --------
//! ```
//!
//! Each key belongs to one connection (`owner`), which knows the order of its requests and replies.

mod connection;
mod content;
mod course;
mod fuse;
mod history;
mod options;
mod owner;
mod reply;
mod summary;
mod tally;
mod work;

pub use options::RestartOptions;

use crate::failure::Outcome;
use crate::machine::{self, Machine};
use crate::report;
use crate::say;
use crate::server::flash_file::FlashFile;
use content::Content;
use course::{Course, Round};

/// Runs the command.
pub fn run(options: &RestartOptions) -> Outcome<()> {
    let file = FlashFile::in_folder(options.dir.as_deref(), options.keep)?;
    let mut recipe = options.servers_options.recipe()?;
    if !options.no_flash {
        recipe = recipe.with([format!("--flash {}:{}m", file.path().display(), options.flash_mb)]);
    }
    if options.memory_file {
        // Both are removed with the run; one of the two paths is used.
        recipe = recipe.with([format!("--memory-file {}", file.path().display())]);
    }
    let machine = Machine::describe()
        .with_sides(&options.servers_options.server_cores, &[options.servers_options.client_core]);
    machine::pin(options.servers_options.client_core)?;
    let content = Content::new(&options.values, options.seed)?;
    let keys = options.keys(content.item_bytes_mean());
    let progress = report::progress(options.rounds);
    let mut course = Course::start(options, recipe, &content, keys)?;
    let servers = course.servers();
    let mut rounds: Vec<Round> = Vec::new();
    while (rounds.len() as u64) < options.rounds && rounds.iter().all(|round| !round.is_broken()) {
        rounds.push(course.round(rounds.len() as u64 + 1)?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let document = summary::document(machine, options, servers, keys, &rounds);
    say::out(report::text(&document))?;
    let written = options.report.write(&document);
    summary::judge(options, &rounds)?;
    written
}
