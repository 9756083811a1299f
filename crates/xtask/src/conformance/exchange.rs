//! One conversation: a case's bytes sent to a server, and the normal form of the replies.
//!
//! Every conversation ends with `mn` and a half-closed connection, so nothing has to be waited for:
//! the server answers everything it got and closes. An unanswered `mn` shows that the server is
//! still inside a value, or has closed before.

use std::time::Duration;

use super::case::{Case, Part, Step, base64};
use super::normal::{Uniques, normalise};
use super::wire::Wire;
use crate::Result;

/// Time for the server to read the first part of a write that is cut in two.
const CUT_PAUSE: Duration = Duration::from_micros(150);
/// Time for the server to read the bytes before a `pause`.
const PAUSE: Duration = Duration::from_millis(30);
/// Time for the server to close by itself.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

const PROBE: &[u8] = b"mn\r\n";
const ANSWER: &[u8] = b"MN\r\n";
/// Ends the replies of a server that did not answer the probe.
pub const UNANSWERED: &[u8] = b"<no answer to mn>";

/// The answers of memcached and of the server under test, in this order.
pub type Replies = (Vec<u8>, Vec<u8>);

/// Renders parts into bytes, with this key prefix and these uniques.
pub fn render(parts: &[Part], prefix: &str, uniques: &Uniques) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        match part {
            Part::Bytes(plain) => bytes.extend_from_slice(plain),
            Part::Key => bytes.extend_from_slice(prefix.as_bytes()),
            Part::Base64(tail) => {
                let key = [prefix.as_bytes(), tail].concat();
                bytes.extend_from_slice(base64(&key).as_bytes());
            }
            Part::Cas(number) => {
                bytes.extend_from_slice(uniques.nth(*number).to_string().as_bytes())
            }
        }
    }
    bytes
}

/// A conversation under way.
struct Talk<'a> {
    wire: Wire,
    prefix: &'a str,
    pending: Vec<u8>,
    sent: usize,
    cut: Option<usize>,
}

impl Talk<'_> {
    fn uniques(&self) -> Uniques {
        let mut uniques = Uniques::default();
        normalise(&self.wire.received, self.prefix, &mut uniques);
        uniques
    }

    fn flush(&mut self) -> Result {
        let bytes = std::mem::take(&mut self.pending);
        let cut = self.cut.map_or(0, |cut| cut.saturating_sub(self.sent));
        self.sent += bytes.len();
        if cut > 0 && cut < bytes.len() {
            self.wire.send(&bytes[..cut])?;
            std::thread::sleep(CUT_PAUSE);
            return self.wire.send(&bytes[cut..]);
        }
        self.wire.send(&bytes)
    }

    fn step(&mut self, step: &Step) -> Result {
        match step {
            Step::Send(parts) => {
                let bytes = render(parts, self.prefix, &self.uniques());
                self.pending.extend_from_slice(&bytes);
            }
            Step::Sync => {
                self.pending.extend_from_slice(PROBE);
                let from = self.wire.received.len();
                self.flush()?;
                if self.wire.read_until(from, ANSWER)? {
                    let kept = self.wire.received.len() - ANSWER.len();
                    self.wire.received.truncate(kept);
                }
            }
            Step::Pause => {
                self.flush()?;
                std::thread::sleep(PAUSE);
            }
            Step::Sleep(milliseconds) => {
                self.flush()?;
                std::thread::sleep(Duration::from_millis(*milliseconds));
            }
        }
        Ok(())
    }

    fn end(&mut self, case: &Case) -> Result {
        if case.closes {
            self.flush()?;
            self.wire.patience(CLOSE_LIMIT)?;
            return self.wire.read_to_end();
        }
        if case.asks {
            self.pending.extend_from_slice(PROBE);
        }
        self.flush()?;
        self.wire.finish()?;
        self.wire.read_to_end()?;
        if !case.asks {
            return Ok(());
        }
        if self.wire.received.ends_with(ANSWER) {
            let kept = self.wire.received.len() - ANSWER.len();
            self.wire.received.truncate(kept);
        } else {
            self.wire.received.extend_from_slice(UNANSWERED);
        }
        Ok(())
    }
}

/// Plays a case and returns the normal form of the replies. Where the server falls silent the
/// replies end with a remark in angle brackets. `cut` splits the bytes into two writes there.
pub fn play(port: u16, case: &Case, prefix: &str, cut: Option<usize>) -> Result<Vec<u8>> {
    let wire = Wire::connect(port)?;
    let mut talk = Talk { wire, prefix, pending: Vec::new(), sent: 0, cut };
    let outcome = case.steps.iter().try_for_each(|step| talk.step(step));
    if let Err(failure) = outcome.and_then(|()| talk.end(case)) {
        talk.wire.received.extend_from_slice(format!("<{failure}>").as_bytes());
    }
    Ok(normalise(&talk.wire.received, prefix, &mut Uniques::default()))
}

/// Returns the number of bytes that a case sends.
pub fn length(case: &Case) -> usize {
    let sent = |step: &Step| match step {
        Step::Send(parts) => render(parts, "k00000000", &Uniques::default()).len(),
        _ => 0,
    };
    case.steps.iter().map(sent).sum()
}
