//! `lru_crawler metadump` and `mgdump`: every item as a line, a little at a time.
//!
//! A dump goes on in its connection's turns: each writes a bounded number of lines, and the next
//! comes when the socket has taken them. So it neither holds a cache session for long nor keeps the
//! worker from its other connections. For items on flash the connection waits, as a get does.

use larder::{Arrived, DumpCursor, Dumped, Expiry, Wanted};
use protocol::reply;
use protocol::reply::dump::{ItemFacts, metadump, mgdump};

use crate::connection::DumpFormat;
use crate::server::Server;

/// Items that one turn visits: about 25 KiB of lines, some tens of microseconds.
const ITEMS_PER_TURN: usize = 256;

/// Appends the next lines, with what was read for them. Returns what came of it, and what has to be
/// read before it goes on.
pub fn write_some(
    server: &Server,
    format: DumpFormat,
    cursor: &mut DumpCursor,
    fetched: impl IntoIterator<Item = Arrived>,
    out: &mut Vec<u8>,
) -> (Dumped, Vec<Wanted>) {
    let session = server.cache.session();
    session.deliver(fetched);
    let now_s = session.now();
    let dumped = session.dump(cursor, ITEMS_PER_TURN, |item| match format {
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
