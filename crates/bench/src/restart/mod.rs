//! `larder-bench restart`: does a flash tier survive, and does nothing old come back?
//!
//! A server with a flash tier is ended again and again in the middle of its work, mostly by
//! SIGKILL, and started anew on what it left behind. Two things must hold:
//!
//! - No value that is read is older than what the server has acknowledged, whatever was
//!   overwritten, deleted, flushed or expired meanwhile; and each is right to the last byte
//!   (`history` says what may be read, `content` how a value is known).
//! - Nearly all that was on flash is found again. `course` takes the server through one round.
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

use std::fs;
use std::path::PathBuf;

pub use options::RestartOptions;

use crate::failure::{Failure, Outcome};
use crate::machine::{self, Machine};
use crate::report;
use crate::server::recipe::Kind;
use content::Content;
use course::{Course, Round};

/// Runs the command.
pub fn run(options: &RestartOptions) -> Outcome<()> {
    let file = FlashFile::in_folder(options)?;
    let mut recipe = options.servers_options.recipe(Kind::Larder)?;
    if !options.no_flash {
        recipe = recipe.with([format!("--flash {}:{}m", file.path.display(), options.flash_mb)]);
    }
    let machine = Machine::describe();
    machine::pin(options.servers_options.client_core)?;
    let content = Content::new(&options.values, options.seed)?;
    let keys = options.keys(content.item_bytes_mean());
    let progress = report::progress(options.rounds);
    let mut course = Course::start(options, recipe, &content, keys)?;
    let mut rounds: Vec<Round> = Vec::new();
    while (rounds.len() as u64) < options.rounds && rounds.iter().all(|round| !round.is_broken()) {
        rounds.push(course.round(rounds.len() as u64 + 1)?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let document = summary::document(machine, options, keys, &rounds);
    println!("{}", report::text(&document));
    options.report.write(&document)?;
    summary::judge(options, &rounds)
}

/// The file that the tier is on; it goes away with this.
struct FlashFile {
    path: PathBuf,
    is_kept: bool,
}

impl FlashFile {
    fn in_folder(options: &RestartOptions) -> Outcome<FlashFile> {
        let folder = options.dir.clone().unwrap_or_else(std::env::temp_dir);
        fs::create_dir_all(&folder).map_err(Failure::io(format!("making {}", folder.display())))?;
        let path = folder.join(format!("larder-bench-{}.flash", std::process::id()));
        if path.display().to_string().contains(char::is_whitespace) {
            return Err(Failure::Usage(format!("{} has a space in it", folder.display())));
        }
        Ok(FlashFile { path, is_kept: options.keep })
    }
}

impl Drop for FlashFile {
    fn drop(&mut self) {
        if self.is_kept {
            eprintln!("larder-bench: the flash tier is kept in {}", self.path.display());
        } else {
            // Without a tier there is no such file.
            let _ = fs::remove_file(&self.path);
        }
    }
}
