//! The reply to `ms`. Storing itself is [`super::store`]'s.

use larder::Stored;
use protocol::reply::meta::{MetaCode, MetaCommand, MetaFacts, meta};
use protocol::request::MetaSet;

use super::Context;
use crate::output::Output;

/// Answers, with the length of the value that is there now; `q` keeps success silent.
pub fn reply(
    context: &Context<'_, '_>,
    set: &MetaSet<'_>,
    (stored, value_bytes): (Stored, usize),
    out: &mut Output<'_, '_>,
) {
    context.counters.cmd_meta.one();
    let (code, cas) = match stored {
        Stored::Stored { .. } if set.quiet => return,
        Stored::Stored { cas } => (MetaCode::Done, context.shown_cas(cas)),
        Stored::NotStored => (MetaCode::NotStored, 0),
        Stored::Exists => (MetaCode::Exists, 0),
        Stored::NotFound => (MetaCode::NotFound, 0),
    };
    let facts = MetaFacts { cas, value_bytes, ..MetaFacts::absent(set.key) };
    meta(out.bytes, MetaCommand::Set, code, set.flags, &facts);
}
