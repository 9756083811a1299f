//! The file or device of the flash tier: how it is opened, and the log's lines about it while the
//! server serves and when it ends.
//!
//! A file that was deleted is lost when the server ends. The server says that at its end, instead
//! of what was saved.
//!
//! A device that takes no more writes, because its file system has become read-only, cannot be told
//! of deleted or replaced items. It is told that all on it is void as soon as it takes a write. If
//! the process ends before, only the log can say so: the next start in the same boot would believe
//! what is there.

use std::sync::Arc;

use io::device::{FileDevice, OpenError};
use io::process;
use larder::{CloseError, FlashSettings, SaveEnd, Saved};

use crate::exit::Failed;
use crate::options::Options;
use crate::server::Server;
use crate::stdio;

/// Threads that read from flash, for each worker: the reads that a drive of one queue serves at a
/// time.
const READERS_PER_WORKER: usize = 4;

/// Opens the device of the flash tier, if the options name one.
pub fn open(options: &Options) -> Result<Option<(Arc<FileDevice>, FlashSettings)>, Failed> {
    let Some((path, bytes)) = &options.flash else { return Ok(None) };
    announce_fit(options);
    let opened = FileDevice::open(path, *bytes);
    let (device, opened) = opened.map_err(refused)?;
    if !opened.is_direct {
        stdio::err(format_args!("larder: {} is read through the page cache", path.display()));
    }
    let boot_id = process::boot_id().map_err(|error| {
        format!("cannot identify the boot of this machine, for --flash: {error}")
    })?;
    let device = Arc::new(device);
    let settings = FlashSettings {
        device: Arc::<FileDevice>::clone(&device),
        boot_id,
        is_new: opened.is_new,
        reads_by: options.flash_reads,
        threads: options.threads * READERS_PER_WORKER,
        write_limit: options.flash_write_limit,
    };
    Ok(Some((device, settings)))
}

/// Reports why there is no device. A file of the wrong size stays so, however often it is tried,
/// and so does a path that cannot be one.
fn refused(error: OpenError) -> Failed {
    let text = format!("cannot open --flash: {error}");
    match error {
        OpenError::OtherSize { .. }
        | OpenError::TooSmall { .. }
        | OpenError::Directory { .. }
        | OpenError::NotStorage { .. } => Failed::of_data(text),
        OpenError::Denied { .. }
        | OpenError::NoSpace { .. }
        | OpenError::InUse { .. }
        | OpenError::Io { .. } => text.into(),
    }
}

/// With `-v`, logs how much of flash the index can lead to.
fn announce_fit(options: &Options) {
    if let Some(text) = options.flash_fit_text().filter(|_| options.verbosity > 0) {
        stdio::err(format_args!("larder: {text}"));
    }
}

/// Makes a file that already existed private, once it is known to be a flash tier's.
pub fn make_private(file: &FileDevice, options: &Options) {
    if let (Err(error), Some((path, _))) = (file.make_private(), &options.flash) {
        let path = path.display();
        stdio::err(format_args!("larder: --flash {path} can be read by other users: {error}"));
    }
}

/// Whether items saved to flash can be found again.
pub fn check(server: &Server) -> Result<(), String> {
    let is_deleted = server.flash_file.as_ref().is_some_and(|file| file.is_deleted());
    if !is_deleted {
        return Ok(());
    }
    Err(format!(
        "--flash {} was deleted while the server ran: its items and those in memory are lost",
        path(server)
    ))
}

/// Logs why the tier begins empty, or else how old it is, and what of it was given up: changes made
/// since by a run without it are unknown, and its items are back. Always a line: a tier that has
/// lost all its items without a word would be looked for elsewhere.
pub fn announce(server: &Server) {
    if let Some(why) = server.cache.flash_empty() {
        server.log(0, &format!("--flash {} begins empty: {why}", path(server)));
    } else if let Some(age_s) = server.cache.flash_age_s() {
        server.log(0, &format!("--flash {} {}", path(server), found_text(age_s)));
    }
    let lost = server.cache.flash_segments_lost();
    if lost > 0 {
        server.log(
            0,
            &format!(
                "--flash {} has given up what was in {lost} of its segments: the device cannot \
                 read which of them are in use",
                path(server)
            ),
        );
    }
}

/// Seconds since its last use up to which a tier gives no warning. A restart takes no longer, and
/// hardly anyone serves without the tier in between. A warning at each restart would be ignored
/// when it matters.
const RESTART_S_MAX: u64 = 300;

/// The log's text about a tier that an earlier run has left.
fn found_text(age_s: i64) -> String {
    if let Ok(age_s @ ..=RESTART_S_MAX) = u64::try_from(age_s) {
        return format!("was in use until {age_s} s ago");
    }
    let when = match u64::try_from(age_s) {
        Ok(age_s) => format!("{age_s} s ago"),
        Err(_) => format!("{} s in the future by the clock", age_s.unsigned_abs()),
    };
    format!(
        "holds items of another run, which used it {when}: keys changed since then without it come \
         back with their old values"
    )
}

/// The state of the tier that is watched while the server serves.
#[derive(Debug)]
pub struct Watch {
    was_recovering: bool,
    was_unsound: bool,
}

impl Watch {
    /// The state of a server that begins to serve.
    pub fn begin(server: &Server) -> Self {
        Self { was_recovering: server.cache.is_flash_recovering(), was_unsound: false }
    }
}

/// Logs when all items of an earlier process have been found, and when the device begins or ends to
/// lag behind deletions. To be called now and then.
pub fn watch(server: &Server, watch: &mut Watch) {
    let is_recovering = server.cache.is_flash_recovering();
    if watch.was_recovering && !is_recovering {
        let items = server.cache.flash_stats().map_or(0, |flash| flash.tier.recovered);
        let seconds = server.started.elapsed().as_secs();
        server.log(0, &format!("found {items} items on flash, {seconds} s after the start"));
    }
    watch.was_recovering = is_recovering;
    let is_unsound = server.cache.is_flash_unsound();
    if is_unsound == watch.was_unsound {
        return;
    }
    watch.was_unsound = is_unsound;
    let text = if is_unsound {
        format!("{}, unless it accepts writes before this process ends", stale(server))
    } else {
        format!("--flash {} accepts writes again, and its earlier contents are void", path(server))
    };
    server.log(0, &text);
}

/// The log's text about what was saved to flash, and why the rest was not.
pub fn saved_text(saved: &Saved) -> String {
    let Saved { items, bytes, left, too_large, unindexed, end } = *saved;
    // No client changes anything any more: of those offered only expired ones are left.
    let why = match end {
        SaveEnd::Complete => "expired",
        SaveEnd::Interrupted => "for want of time",
        SaveEnd::Full => "as flash is full",
        SaveEnd::Failing => "as the device accepts no writes",
    };
    let reasons = [
        (left.saturating_sub(too_large + unindexed), why),
        (too_large, "too large for flash"),
        (unindexed, "as the index has no room for them"),
    ];
    let reasons = reasons.iter().filter(|(count, _)| *count > 0);
    let reasons: Vec<_> = reasons.map(|(count, why)| format!("{count} {why}")).collect();
    let colon = if reasons.is_empty() { "" } else { ": " };
    format!(
        "saved {items} items of {bytes} bytes to flash, and left out {left}{colon}{}",
        reasons.join(", ")
    )
}

/// Closes the tier for the next start; the error says what to do before that if closing fails.
pub fn close(server: &Server) -> Result<(), String> {
    server.cache.close_flash().map_err(|error| match error {
        CloseError::Incomplete => format!("items not yet on flash are lost: {error}"),
        CloseError::Unsound => format!(
            "{}: before that, remove the file, or fill the first MiB of the device with zeros",
            stale(server)
        ),
    })
}

fn stale(server: &Server) -> String {
    format!(
        "--flash {} accepts no writes, and the next start may find deleted or replaced items there",
        path(server)
    )
}

/// The path of the tier.
fn path(server: &Server) -> String {
    let flash = server.options.flash.as_ref();
    flash.map(|(path, _)| path.display().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Regression: a supervisor tried a folder again and again.
    #[test]
    fn a_path_that_cannot_be_a_device_is_an_error_that_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let status = |path: &Path| refused(FileDevice::open(path, 1 << 20).unwrap_err()).status;
        assert_eq!(status(folder.path()), crate::exit::EXIT_DATA);
        assert_eq!(status(Path::new("/dev/null")), crate::exit::EXIT_DATA);
        assert_ne!(status(&folder.path().join("missing").join("file")), crate::exit::EXIT_DATA);
    }

    /// Regression: items were left out without a reason.
    #[test]
    fn the_log_says_why_items_were_not_saved() {
        let saved = Saved { items: 9, bytes: 90, ..Saved::default() };
        assert_eq!(saved_text(&saved), "saved 9 items of 90 bytes to flash, and left out 0");
        let reasons = |end, too_large, unindexed| {
            let text = saved_text(&Saved { left: 7, too_large, unindexed, end, ..saved });
            text.split_once("left out ").expect("it tells").1.to_owned()
        };
        assert_eq!(reasons(SaveEnd::Complete, 0, 0), "7: 7 expired");
        let index = "7: 4 expired, 1 too large for flash, 2 as the index has no room for them";
        assert_eq!(reasons(SaveEnd::Complete, 1, 2), index);
        assert_eq!(reasons(SaveEnd::Full, 7, 0), "7: 7 too large for flash");
        assert_eq!(reasons(SaveEnd::Full, 0, 0), "7: 7 as flash is full");
        assert_eq!(reasons(SaveEnd::Interrupted, 0, 0), "7: 7 for want of time");
    }

    #[test]
    fn the_log_says_how_old_a_found_tier_is() {
        let text = found_text(86_400);
        assert!(text.contains("items of another run, which used it 86400 s ago:"), "{text}");
        assert!(found_text(301).contains("used it 301 s ago: keys changed since"));
        // Regression: every restart gave a warning.
        assert_eq!(found_text(300), "was in use until 300 s ago");
        assert_eq!(found_text(0), "was in use until 0 s ago");
        assert!(found_text(-5).contains("5 s in the future by the clock:"));
    }
}
