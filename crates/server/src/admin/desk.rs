//! The admin thread: it collects, and answers what has to be collected for.
//!
//! ```text
//!   tick, once a second --> collect -> history             what the charts show
//!   drain, ten times -----> keys                           what clients ask for
//!   Question -------------> collect -> metrics, json       what is asked for
//! ```
//!
//! Statistics are read under locks that workers hold. A worker that waits for a device that hangs
//! may hold one, and then this thread waits for it. The thread that speaks HTTP does not: it asks
//! through a queue, and says by itself whether the server is well.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::Duration;

use ::io::moment::Stopwatch;
use tokio::sync::oneshot;

use super::collect::Collector;
use super::json;
use super::metrics::{self, Now};
use crate::server::Server;

/// How often the history gets a point.
const TICK: Duration = Duration::from_secs(1);

/// Interval at which the workers' lists of events are taken; they may fill once in each.
const DRAIN: Duration = Duration::from_millis(100);

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// `/metrics`.
    Metrics,
    /// `/api/stats`.
    Stats,
    /// `/api/history`.
    History,
}

/// A question, and where its answer goes.
pub type Asked = (Question, oneshot::Sender<String>);

/// Asks, and waits for the answer. `None` if there is none: too many wait, or the end has come.
pub async fn ask(desk: &SyncSender<Asked>, question: Question) -> Option<String> {
    let (sender, answer) = oneshot::channel();
    match desk.try_send((question, sender)) {
        Ok(()) => answer.await.ok(),
        Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => None,
    }
}

/// Collects and answers until nobody is left to ask.
pub fn serve(server: &Server, questions: &Receiver<Asked>) {
    let mut collector = Collector::new(server);
    // The first tick comes after a second, so that it covers one.
    let (mut ticked, mut drained) = (Stopwatch::start(), Stopwatch::start());
    loop {
        match questions.recv_timeout(drained.rest_of(DRAIN).min(ticked.rest_of(TICK))) {
            // Its client may have gone, if this thread was held up.
            Ok((_, sender)) if sender.is_closed() => {}
            Ok((question, sender)) => {
                let _ = sender.send(answer(server, &mut collector, question));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if drained.rest_of(DRAIN).is_zero() {
            drained = Stopwatch::start();
            collector.keys.take(server);
        }
        if ticked.rest_of(TICK).is_zero() {
            ticked = Stopwatch::start();
            collector.tick(server);
        }
    }
}

fn answer(server: &Server, collector: &mut Collector, question: Question) -> String {
    match question {
        Question::Metrics => {
            let snapshot = &collector.collect(server);
            metrics::text(&Now { snapshot, server, collector })
        }
        Question::Stats => {
            let snapshot = collector.collect(server);
            json::stats(server, &snapshot, collector).to_string()
        }
        Question::History => json::history(collector).to_string(),
    }
}
