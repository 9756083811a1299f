//! [`Plan::fill`] of a text connection whose client may only read: its requests are planned as for
//! any client, and then every change among them becomes a step that refuses it.

use larder::{Cache, Hash};
use protocol::Request;

use super::{Action, End, Payload, Plan, Step, value_bytes_of};
use crate::rights::is_change;

/// The refusal of a change by a client that may only read.
pub const READ_ONLY: &str = "CLIENT_ERROR not allowed for a read-only user\r\n";

impl<'b> Plan<'b> {
    /// Fills a batch with the next requests.
    #[inline(never)]
    pub(super) fn fill_for_reader(
        &mut self,
        cache: &Cache,
        steps: &mut Vec<Step<'b>>,
        hashes: &mut Vec<Hash>,
    ) -> End {
        let end = self.fill_text(cache, steps, hashes);
        for step in steps {
            let Action::Request(request) = step.action else { continue };
            if !is_change(&request) {
                continue;
            }
            // Only the last step of a batch can have a partial value.
            if step.payload == Payload::Part {
                let value_bytes = value_bytes_of(&request).unwrap_or(0);
                self.swallow(value_bytes as u64 + 2);
            }
            let answer = if is_silent(&request) { "" } else { READ_ONLY };
            *step = Step::answer(answer, step.place);
        }
        end
    }
}

/// Whether the refusal is not sent: for a request that wants no answer, and before the end of a
/// line of which more is to come, so that it is sent once.
fn is_silent(request: &Request<'_>) -> bool {
    match request {
        Request::Get(get) => get.more,
        Request::Store(store) => store.noreply,
        Request::Delete { noreply, .. }
        | Request::Arithmetic { noreply, .. }
        | Request::Touch { noreply, .. }
        | Request::FlushAll { noreply, .. }
        | Request::FlushPrefix { noreply, .. }
        | Request::Verbosity { noreply }
        | Request::CacheMemlimit { noreply, .. } => *noreply,
        _ => false,
    }
}
