//! `md`: delete, mark stale (`I`), or drop the value and keep the item (`x`).

use larder::{Remove, Removed};
use protocol::reply;
use protocol::reply::meta::{MetaCode, MetaCommand, MetaFacts, meta};
use protocol::request::MetaDelete;

use super::{Context, Flow, KeyRoom, Outcome, Target, expiry};
use crate::namespaces::Act;
use crate::output::Output;
use crate::watch::{self, DELETIONS};

/// `md`.
pub fn delete<'s, 'c>(
    context: &Context<'_, 'c>,
    target: Target<'s, 'c>,
    delete: &MetaDelete<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    let remove = Remove {
        compare_cas: context.compared_as_shown(delete.compare_cas),
        invalidate: delete.invalidate,
        touch: delete.touch.map(|time| expiry(time, target.session)),
        drop_value: delete.drop_value,
        flags: delete.client_flags,
        new_cas: context.chosen_cas(delete.new_cas),
    };
    let mut room = KeyRoom::default();
    let key = delete.key.bytes(&mut room);
    let removed = match target.session.remove(key, target.hash, &remove) {
        Ok(removed) => removed,
        Err(refusal) => {
            context.settle(refusal)?;
            reply::line(out.bytes, reply::NO_MEMORY);
            return Ok(Flow::Next);
        }
    };
    let counters = context.counters;
    counters.cmd_meta.one();
    context.count_namespace(key, Act::Delete);
    let code = match removed {
        Removed::Removed if delete.invalidate => MetaCode::Done,
        Removed::Removed => {
            counters.delete_hits.one();
            if context.is_watched(DELETIONS) {
                let key = watch::key_text(key);
                let text = format!("type=deleted key={key} cmd=md clsid=0 size=0");
                context.log(DELETIONS, &text);
            }
            MetaCode::Done
        }
        Removed::NotFound => {
            counters.delete_misses.one();
            MetaCode::NotFound
        }
        Removed::Exists => {
            counters.delete_misses.one();
            MetaCode::Exists
        }
    };
    if code != MetaCode::Done || !delete.quiet {
        let facts = MetaFacts::absent(delete.key);
        meta(out.bytes, MetaCommand::Delete, code, delete.flags, &facts);
    }
    Ok(Flow::Next)
}
