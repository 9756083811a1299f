//! `lru_crawler metadump` and `mgdump`: every item as a line, a little at a time.
//!
//! A dump goes on in its connection's turns: each writes a bounded number of lines, and the next
//! comes when the socket has taken them. So it neither holds a cache session for long nor keeps the
//! worker from its other connections. For items on flash the connection waits, as a get does.
//!
//! Items of flash that a dump keeps lie outside of the memory limit, and for as long as its client
//! takes to read: so there are at most [`DUMPS_MAX`] at one time, of all connections together.

use std::sync::atomic::{AtomicUsize, Ordering};

use larder::{DumpCursor, Dumped, Expiry, ReadRequest, ReadResult};
use protocol::reply;
use protocol::reply::dump::{ItemFacts, metadump, mgdump};

use crate::server::Server;

/// Dumps at one time. Each may keep the items of a segment of flash, some hundred KiB. memcached
/// has one; a few leave room for others beside one whose client does not read.
pub const DUMPS_MAX: usize = 4;

/// Items that one turn visits: about 25 KiB of lines, some tens of microseconds.
const ITEMS_PER_TURN: usize = 256;

/// The format of a dump's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpFormat {
    /// Facts about the item.
    Metadump,
    /// A request that fetches it.
    Mgdump,
}

/// The number of dumps under way.
#[derive(Debug, Default)]
pub struct Dumps(AtomicUsize);

impl Dumps {
    /// Begins one; `None` where the limit is reached.
    pub fn begin(&self, format: DumpFormat) -> Option<Dump<'_>> {
        let more = |count| (count < DUMPS_MAX).then_some(count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Dump { format, cursor: DumpCursor::default(), dumps: self })
    }
}

/// A dump under way, until it is dropped: at its end or with its connection.
#[derive(Debug)]
pub struct Dump<'c> {
    format: DumpFormat,
    cursor: DumpCursor,
    dumps: &'c Dumps,
}

impl Drop for Dump<'_> {
    fn drop(&mut self) {
        self.dumps.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Appends the next lines, with the items that were read for them. Returns whether it goes on, and
/// the reads that it has to wait for.
pub fn write_some(
    server: &Server,
    dump: &mut Dump<'_>,
    fetched: impl IntoIterator<Item = ReadResult>,
    out: &mut Vec<u8>,
) -> (Dumped, Vec<ReadRequest>) {
    let session = server.cache.session();
    session.deliver(fetched);
    let now_s = session.now();
    let format = dump.format;
    let dumped = session.dump(&mut dump.cursor, ITEMS_PER_TURN, |item| match format {
        DumpFormat::Mgdump => mgdump(out, item.key()),
        DumpFormat::Metadump => {
            let expiry = item.expiry();
            let facts = ItemFacts {
                expiry: (expiry != Expiry::NEVER).then(|| u64::from(expiry.second())),
                accessed: u64::from(now_s.saturating_sub(item.idle_seconds())),
                cas: server.shown_cas(item.cas()),
                fetched: item.fetched(),
                size_class: item.class(),
                item_bytes: item.chunk_bytes() as u64,
                client_flags: item.flags(),
                cost_us: item.cost_us(),
            };
            metadump(out, item.key(), &facts);
        }
    });
    if dumped == Dumped::End {
        let end = match format {
            DumpFormat::Metadump => reply::END,
            DumpFormat::Mgdump => reply::META_MISS,
        };
        reply::line(out, end);
    }
    (dumped, session.take_wanted())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_at_its_edge_and_an_ended_dump_makes_room() {
        let dumps = Dumps::default();
        let begun: Vec<_> = (0..DUMPS_MAX).map(|_| dumps.begin(DumpFormat::Mgdump)).collect();
        assert!(begun.iter().all(Option::is_some));
        assert!(dumps.begin(DumpFormat::Metadump).is_none());
        drop(begun);
        assert!(dumps.begin(DumpFormat::Metadump).is_some());
    }
}
