//! Properties of any bytes in Redis' protocol: the body of the fuzz target, which stable tests run
//! too.
//!
//! [`commands`] reads a stream in pieces as a connection would, and forgets commands that are too
//! large on the way. Its events must not depend on the pieces.

use larder_protocol::resp::{Scan, Scanned, scan};

/// The limit of a command, in bytes.
pub const BYTES_MAX: usize = 200;

/// The longest header.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// An event of a stream: the words of a command, or anything else.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    Command(Vec<Vec<u8>>),
    TooLarge,
    Refused(String),
}

/// The events of a stream that arrives in pieces of these lengths, over and over.
pub fn commands(stream: &[u8], pieces: &[usize]) -> Vec<Event> {
    let mut events = Vec::new();
    let (mut buffer, mut progress) = (Vec::new(), Scan::default());
    let mut rest = stream;
    for piece in pieces.iter().cycle() {
        let (piece, behind) = rest.split_at(rest.len().min(*piece));
        buffer.extend_from_slice(piece);
        rest = behind;
        loop {
            let consumed = match scan(&buffer, &mut progress, BYTES_MAX) {
                Scanned::Incomplete => break,
                Scanned::Nothing(consumed) => consumed,
                Scanned::TooLarge(consumed) => {
                    events.push(Event::TooLarge);
                    consumed
                }
                Scanned::Refused(refusal) => {
                    events.push(Event::Refused(format!("{refusal:?}")));
                    return events;
                }
                Scanned::Command(command, consumed) => {
                    let mut room = Vec::new();
                    let command = command.unquoted(&mut room);
                    let words: Vec<Vec<u8>> = command.words().map(<[u8]>::to_vec).collect();
                    assert_eq!(words.len(), command.count());
                    assert!(!words.is_empty(), "a command has a name");
                    events.push(Event::Command(words));
                    consumed
                }
            };
            assert!(consumed > 0 && consumed <= buffer.len(), "every event takes bytes");
            assert_eq!(progress, Scan::default(), "every event begins anew");
            buffer.drain(..consumed);
        }
        if progress.is_beyond(BYTES_MAX) {
            let forgotten = progress.forget(buffer.len());
            buffer.drain(..forgotten);
        }
        assert!(buffer.len() <= BYTES_MAX + HEADER_BYTES_MAX, "more is not kept of a command");
        if rest.is_empty() {
            break;
        }
    }
    events
}
