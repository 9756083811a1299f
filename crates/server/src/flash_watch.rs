//! The watch over the device of the flash tier: it says in the log when the device does not finish
//! what it was asked for, and what a stop waits for then.
//!
//! A file system that is frozen for a snapshot, or a volume that hangs, takes a write and does not
//! come back. The worker that notes there that an item has been replaced waits with all its
//! connections, and so does whoever waits for the worker. Nothing of that fails, so no error tells
//! it. This thread looks once a second at when the earliest unanswered operation began
//! ([`larder::Cache::flash_unanswered_s`]). It takes no lock and never asks the device, and it
//! lives until the tier has been closed: the end of a server waits for the device like any worker.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, Scope};
use std::time::Duration;

use crate::server::{Phase, Server};

/// Interval of the looks.
const TICK: Duration = Duration::from_secs(1);

/// A device that has not answered for this long hangs, as far as clients are concerned: most have
/// given up by then.
const SILENCE_S: u32 = 5;

/// The thread, which ends when this is dropped.
pub struct FlashWatch {
    /// Nothing is sent through it.
    end: Option<Sender<()>>,
}

impl FlashWatch {
    /// Starts the thread, if there is a flash tier.
    pub fn start<'scope, 's: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        server: &'s Server,
    ) -> Result<Self, String> {
        if server.options.flash.is_none() {
            return Ok(Self { end: None });
        }
        let (end, ends) = channel();
        let body = move || {
            let mut told = Told::default();
            while ends.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let is_stopping = server.phase.get() == Phase::Stopping;
                if let Some(text) = told.look(server.cache.flash_unanswered_s(), is_stopping) {
                    server.log(0, &text);
                }
            }
        };
        let spawned = Builder::new().name("flash-watch".to_owned()).spawn_scoped(scope, body);
        let end = Some(end);
        spawned.map(|_| Self { end }).map_err(|error| format!("cannot watch --flash: {error}"))
    }
}

impl Drop for FlashWatch {
    fn drop(&mut self) {
        // The thread sees that nobody is left to send.
        drop(self.end.take());
    }
}

/// The server's phase by name, or what it waits for.
pub fn phase_text(phase: Phase, unanswered_s: u64) -> String {
    unready(phase, unanswered_s).unwrap_or_else(|| phase.name().to_owned())
}

/// Why the server is not ready; `None` if it is.
pub fn unready(phase: Phase, unanswered_s: u64) -> Option<String> {
    match phase {
        Phase::Serving if unanswered_s >= u64::from(SILENCE_S) => {
            Some(format!("flash has not answered for {unanswered_s} s"))
        }
        Phase::Serving => None,
        other => Some(other.name().to_owned()),
    }
}

/// What the log has been told.
#[derive(Debug, Default)]
struct Told {
    /// The longest silence that was seen, while the device hangs; 0 while it answers.
    silence_s: u32,
    /// That the stop waits for it.
    has_told_stop: bool,
}

impl Told {
    /// Takes in a look; returns the line for the log, if there is one.
    fn look(&mut self, unanswered_s: u32, is_stopping: bool) -> Option<String> {
        if unanswered_s < SILENCE_S {
            let silence_s = std::mem::take(&mut self.silence_s);
            self.has_told_stop = false;
            return (silence_s > 0).then(|| format!("flash answers again, after {silence_s} s"));
        }
        let is_new = self.silence_s == 0;
        // Of several operations the earliest may end, and others go on.
        self.silence_s = self.silence_s.max(unanswered_s);
        let tells_stop = is_stopping && !self.has_told_stop;
        self.has_told_stop = is_stopping;
        if tells_stop {
            return Some(format!(
                "stopping waits for flash, which has not answered for {unanswered_s} s: nothing \
                 ends this process before it does"
            ));
        }
        is_new.then(|| {
            format!(
                "flash has not answered for {unanswered_s} s: its file system may be frozen, or \
                 its device hangs; workers that write to it wait, with all their connections"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks with these seconds, one after the other, and returns the beginnings of the lines.
    fn lines(told: &mut Told, seconds: &[u32], is_stopping: bool) -> Vec<String> {
        let looks = seconds.iter().filter_map(|seconds| told.look(*seconds, is_stopping));
        looks.map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect()
    }

    /// Regression: workers hung at a frozen file system, and the log was silent.
    #[test]
    fn the_log_says_once_that_flash_does_not_answer_and_once_that_it_does() {
        let mut told = Told::default();
        assert!(lines(&mut told, &[0, 1, 4, 0], false).is_empty());
        let told_lines = lines(&mut told, &[4, 5, 6, 7, 6, 0, 0, 5, 1], false);
        assert_eq!(
            told_lines,
            [
                "flash has not answered for 5 s",
                "flash answers again, after 7 s",
                "flash has not answered for 5 s",
                "flash answers again, after 5 s",
            ]
        );
    }

    #[test]
    fn a_stop_says_once_what_it_waits_for() {
        let mut told = Told::default();
        assert_eq!(lines(&mut told, &[8], false).len(), 1);
        let waits = "stopping waits for flash, which has not answered for 9 s";
        assert_eq!(lines(&mut told, &[9, 10], true), [waits]);
        assert_eq!(lines(&mut told, &[0], true), ["flash answers again, after 10 s"]);
        let waits = "stopping waits for flash, which has not answered for 5 s";
        assert_eq!(lines(&mut told, &[5, 6], true), [waits]);
    }

    #[test]
    fn a_server_whose_flash_hangs_is_not_ready() {
        assert_eq!(unready(Phase::Serving, 4), None);
        let text = unready(Phase::Serving, 5).expect("it hangs");
        assert_eq!(text, "flash has not answered for 5 s");
        assert_eq!(unready(Phase::Stopping, 0).as_deref(), Some("stopping"));
        assert_eq!(unready(Phase::Restoring, 9).as_deref(), Some("restoring memory"));
    }
}
