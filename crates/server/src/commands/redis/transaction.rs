//! MULTI, EXEC and DISCARD: commands that are queued as they come, and executed together or not at
//! all.
//!
//! ```text
//! MULTI -> Queue of the client <- each command, answered with QUEUED
//!            |
//!          EXEC -> their replies, as one array
//! ```
//!
//! If one of them was refused as it came, EXEC executes none. Those that are executed follow one
//! another in order, but other clients' changes may come in between: Larder has no moment in which
//! several keys stand still. So there is no WATCH, which would promise one.
//!
//! EXEC may be executed again from its start like every command; its queue knows which of them is
//! next.

use std::borrow::Cow;

use protocol::resp::{Command, Scan, Scanned, reply, scan};

use super::kept::KeptBytes;
use super::{
    Client, Context, Done, Ended, Entry, Lookup, ONE_OF_MANY_BYTES, OUT_OF_MEMORY, Stop, Task,
    say_error, too_large,
};
use crate::output::Output;

const NESTED: &str = "ERR MULTI calls can not be nested";
const NO_EXEC: &str = "ERR EXEC without MULTI";
const NO_DISCARD: &str = "ERR DISCARD without MULTI";
const ABORTED: &str = "EXECABORT Transaction discarded because of previous errors.";
const ABORTED_FOR: &[u8] = b"EXECABORT Transaction discarded because of: ";
const FORBIDDEN: &str = "ERR Command not allowed inside a transaction";
/// The most bytes around a word: its type, its length and two ends of a line.
const WORD_BYTES: usize = 1 + 20 + 2 + 2;

/// The commands since MULTI.
#[derive(Debug, Default)]
pub struct Queue {
    /// The commands as arrays, one behind the other.
    pub kept: KeptBytes,
    /// Their number.
    count: usize,
    /// Whether one was refused, so that none will be executed.
    is_flawed: bool,
    /// The start of the one that is executed next, once EXEC has begun.
    next: Option<usize>,
    /// How far that one has been scanned.
    scan: Scan,
}

impl Queue {
    /// Bytes of the commands that are done.
    pub fn bytes_done(&self) -> usize {
        self.next.unwrap_or(0)
    }

    /// Spoils the queue: none of its commands will be executed.
    pub fn spoil(&mut self) {
        *self = Self { is_flawed: true, ..Self::default() };
    }

    /// Queues a command, if all that is queued then has at most `bytes_max`; returns the most bytes
    /// that it may take.
    fn push(&mut self, command: Command<'_>, bytes_max: usize) -> Result<usize, Stop> {
        if self.is_flawed {
            return Ok(0);
        }
        let bytes: usize = command.words().map(|word| word.len() + WORD_BYTES).sum();
        self.kept.reserve(bytes + WORD_BYTES);
        let kept = &mut self.kept.bytes;
        reply::array(kept, command.count());
        for word in command.words() {
            reply::bulk(kept, word);
        }
        self.count += 1;
        if self.kept.bytes.len() > bytes_max {
            self.spoil();
            return Err(too_large("transaction", bytes_max).into());
        }
        Ok(bytes + WORD_BYTES)
    }

    /// Executes the remaining commands.
    fn run<'s>(&mut self, task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
        let mut next = self.next.unwrap_or_else(|| {
            reply::array(out.bytes, self.count);
            0
        });
        while next < self.kept.bytes.len() {
            self.next = Some(next);
            if task.must_pause(out) {
                return Ok(Done::Flush);
            }
            let rest = &self.kept.bytes[next..];
            let scanned = scan(rest, &mut self.scan, usize::MAX);
            let Scanned::Command(command, consumed) = scanned else {
                unreachable!("the queue has whole commands");
            };
            let ran = run_one(task, command, out);
            out.charge(ONE_OF_MANY_BYTES + task.session.take_copied_bytes());
            match ran {
                Ok(Done::Next) => {}
                Err(Stop::Error(text)) => say_error(task.context, &text, out),
                not_yet => {
                    self.scan = Scan::of_whole(command, rest);
                    return not_yet;
                }
            }
            task.client.end_command();
            next += consumed;
        }
        Ok(Done::Next)
    }
}

/// Executes a command of a queue.
fn run_one<'s>(
    task: &mut Task<'_, '_, '_, 's, '_>,
    command: Command<'_>,
    out: &mut Output<'_, 's>,
) -> Ended {
    let entry = Lookup::of(command).entry(command, task.client.progress.is_begun())?;
    let mut words = command.words();
    words.next();
    let mut inner = Task {
        context: task.context,
        session: task.session,
        client: &mut *task.client,
        name: entry.name,
        words,
        ahead: &mut *task.ahead,
        hash_at: 0,
        hashed: 0,
        keys: 0,
    };
    (entry.run)(&mut inner, out)
}

/// Queues a command of a client that has said MULTI, until it says EXEC.
#[cold]
pub(super) fn enqueue(
    context: &Context<'_, '_>,
    client: &mut Client,
    entry: &Entry,
    command: Command<'_>,
    out: &mut Output<'_, '_>,
) -> Ended {
    let queue = client.queue.as_mut().expect("the client has said MULTI");
    if let Err(stop) = entry.check_subcommand(command) {
        queue.spoil();
        return Err(stop);
    }
    // A client's identity does not change within a transaction.
    if entry.is_for_anybody() {
        queue.spoil();
        return Err(FORBIDDEN.into());
    }
    let bytes_max = context.server.parked.command_bytes_max();
    let bytes = queue.push(command, bytes_max)?;
    // It is counted when all input is executed, and a client over the limit is then closed: one
    // that can still be refused is. So there has to be room for one more command of its size, the
    // first part of which is kept before it is checked.
    let more_bytes = queue.kept.uncounted() + bytes;
    let kept_bytes = client.kept_bytes + more_bytes;
    if !context.server.parked.make_room_for_kept(more_bytes, kept_bytes) {
        queue.spoil();
        return Err(OUT_OF_MEMORY.into());
    }
    reply::simple(out.bytes, "QUEUED");
    Ok(Done::Next)
}

/// Notes the error of a command that was refused before it was executed or queued. A refused EXEC
/// also ends the queue.
#[cold]
pub(super) fn refused(client: &mut Client, command: Command<'_>, stop: Stop) -> Stop {
    let is_exec = command.words().next().is_some_and(|name| name.eq_ignore_ascii_case(b"exec"));
    match stop {
        Stop::Error(text) if is_exec => {
            client.queue = None;
            let text = text.strip_prefix(b"ERR ").unwrap_or(&text);
            Stop::Error(Cow::Owned([ABORTED_FOR, text].concat()))
        }
        stop => stop,
    }
}

/// `MULTI`.
pub(super) fn multi(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    if task.client.queue.is_some() {
        return Err(NESTED.into());
    }
    task.client.queue = Some(Queue::default());
    reply::simple(out.bytes, "OK");
    Ok(Done::Next)
}

/// `DISCARD`.
pub(super) fn discard(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    task.client.queue.take().ok_or(NO_DISCARD)?;
    reply::simple(out.bytes, "OK");
    Ok(Done::Next)
}

/// `EXEC`: its progress stands in its queue, and that of the next command in the client.
pub(super) fn exec<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let mut queue = task.client.queue.take().ok_or(NO_EXEC)?;
    if queue.is_flawed {
        return Err(ABORTED.into());
    }
    let ended = queue.run(task, out);
    if !matches!(ended, Ok(Done::Next)) {
        task.client.queue = Some(queue);
    }
    ended
}
