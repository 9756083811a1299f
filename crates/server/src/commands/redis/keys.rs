//! Keys as such: DEL, EXISTS, TOUCH, TYPE, their number, and flushes.

use larder::{Remove, Removed};
use protocol::resp::reply;

use super::{Done, Ended, SYNTAX, Task};
use crate::commands::admin::{self, Unflushed};
use crate::live_options::is_allowed;
use crate::namespaces::Act;
use crate::output::Output;
use crate::watch::{self, DELETIONS};

impl Task<'_, '_, '_, '_, '_> {
    /// Counts a removal like text's, and tells the watchers.
    pub(super) fn count_delete(&self, key: &[u8], is_hit: bool) {
        let counters = self.context.counters;
        self.context.count_namespace(key, Act::Delete);
        if !is_hit {
            return counters.delete_misses.one();
        }
        counters.delete_hits.one();
        if self.context.is_watched(DELETIONS) {
            let (key, name) = (watch::key_text(key), self.name);
            let text = format!("type=deleted key={key} cmd={name} clsid=0 size=0");
            self.context.log(DELETIONS, &text);
        }
    }

    /// Applies `act` to every key and answers the number of keys for which it returned true. The
    /// client's progress keeps the count, if the command has to continue later.
    fn count_keys(
        &mut self,
        out: &mut Output<'_, '_>,
        mut act: impl FnMut(&Self, &[u8], larder::Hash) -> Result<bool, super::Stop>,
    ) -> Ended {
        self.go_on();
        while self.words.len() > 0 {
            if self.must_pause(out) {
                return Ok(Done::Flush);
            }
            let (key, hash) = self.bare_key();
            let counts = act(self, key, hash)?;
            self.advance(out);
            self.client.progress.count += i64::from(counts);
        }
        reply::integer(out.bytes, self.client.progress.count);
        Ok(Done::Next)
    }
}

/// `DEL key ...`, `UNLINK key ...`.
pub(super) fn del(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    task.count_keys(out, |task, key, hash| {
        let removed = task.session.remove(key, hash, &Remove::default());
        let removed = removed.map_err(|refusal| task.refused(refusal))?;
        task.count_delete(key, removed == Removed::Removed);
        Ok(removed == Removed::Removed)
    })
}

/// `EXISTS key ...`.
pub(super) fn exists(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    task.count_keys(out, |task, key, hash| Ok(task.peek(key, hash)?.is_some()))
}

/// `TOUCH key ...`.
pub(super) fn touch(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    task.count_keys(out, |task, key, hash| Ok(task.look_up(key, hash)?.is_some()))
}

/// `TYPE key`.
pub(super) fn kind(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let (key, hash) = task.bare_key();
    let is_there = task.peek(key, hash)?.is_some();
    reply::simple(out.bytes, if is_there { "string" } else { "none" });
    Ok(Done::Next)
}

/// `DBSIZE`.
pub(super) fn dbsize(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    reply::integer(out.bytes, task.context.server.cache.stats().items as i64);
    out.charge_turn();
    Ok(Done::Next)
}

/// `FLUSHALL [ASYNC | SYNC]`, `FLUSHDB [ASYNC | SYNC]`: at once in any case.
pub(super) fn flush(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let is_known =
        |word: &[u8]| word.eq_ignore_ascii_case(b"async") || word.eq_ignore_ascii_case(b"sync");
    if task.words.len() > 1 || !task.words.all(is_known) {
        return Err(SYNTAX.into());
    }
    let server = task.context.server;
    if !is_allowed(&server.live.flush_allowed) {
        let name = task.name;
        return Err(format!("ERR {name} is not allowed: disable-flush-all is on").into());
    }
    task.context.counters.cmd_flush.one();
    server.cache.flush(None);
    out.charge_turn();
    reply::simple(out.bytes, "OK");
    Ok(Done::Next)
}

/// `FLUSHPREFIX prefix`: Larder's own.
pub(super) fn flush_prefix(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let prefix = task.words.next().unwrap_or_default();
    match admin::flush_prefix(task.context, prefix) {
        Ok(()) => {
            out.charge_turn();
            reply::simple(out.bytes, "OK");
        }
        Err(Unflushed::NotAllowed) => {
            let name = task.name;
            return Err(format!("ERR {name} is not allowed: disable-flush-all is on").into());
        }
        Err(Unflushed::Length) => return Err("ERR a prefix is 1 to 250 bytes here".into()),
        Err(Unflushed::TooMany) => {
            return Err("ERR too many prefixes are being flushed, try again later".into());
        }
    }
    Ok(Done::Next)
}

/// `TIME`: seconds of Unix time, and microseconds, exact to the millisecond.
pub(super) fn time(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let now_ms = task.session.now_ms();
    reply::array(out.bytes, 2);
    reply::bulk(out.bytes, (now_ms / 1000).to_string().as_bytes());
    reply::bulk(out.bytes, (now_ms % 1000 * 1000).to_string().as_bytes());
    Ok(Done::Next)
}
