//! One connection over TLS, which behaves like a non-blocking socket.
//!
//! ```text
//! socket -> sealed ------------> rustls -> opened ------> reader
//!           less than a record             what did not fit the target
//!
//! writer         -> rustls -> outgoing --> socket
//!                             what the socket did not take
//! ```
//!
//! Readiness is the socket's and edge-triggered, so bytes that lie here and no longer in the socket
//! would never be announced. A read therefore goes on until the target is full or the socket is
//! drained, and [`TlsStream::holds_input`] says if there is more: bytes that are open already, a
//! socket that was not read to its end, or the end itself, which a client may announce without
//! closing.
//!
//! Sealed bytes cannot be taken back, but a writer must know what it still has to write. As long as
//! a sealed record waits for the socket, its last byte therefore counts as not taken: the writer
//! comes again with it when the socket takes more, and by then it is `owed` and not sealed a second
//! time. So unsent output is the writer's business, as it is without TLS, and no more of it than
//! [`SEALED_BYTES_MAX`] lies here.
//!
//! rustls is used without its own buffers: received, opened and sealed bytes lie in two buffers of
//! the thread, and only those that cannot go on stay with the connection. An idle one owns none.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use mio::net::TcpStream;
use rustix::net::{RecvFlags, SendFlags};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use rustls::{HandshakeKind, InvalidMessage};

use super::Config;

/// The longest record with its header and the bytes that sealing adds (RFC 5246, 6.2.3).
const RECORD_BYTES_MAX: usize = 5 + (16 << 10) + 2048;

/// The most bytes that sealing adds to a record of up to 16 KiB, in any of the suites.
pub(super) const RECORD_EXTRA_BYTES: usize = 64;

/// Bytes received at once, as without TLS.
const RECEIVE_BYTES: usize = 64 << 10;

/// The most bytes that may lie before the received ones: less than a record, or the records of one
/// message of the handshake, which is not that long; rustls' own buffers end there too.
const UNOPENED_BYTES_MAX: usize = 64 << 10;

/// The most times that a read asks the socket, whatever it brings: a client that sends empty
/// records for ever does not keep its worker.
const RECEIVES_MAX: usize = 16;

/// Bytes that are sealed before they are sent.
const SEAL_BYTES: usize = 32 << 10;

/// Pieces of output that are sealed before they are sent; each becomes a record of its own.
const PIECES_MAX: usize = 128;

/// The most bytes that wait here for a socket.
pub const SEALED_BYTES_MAX: usize = SEAL_BYTES + (PIECES_MAX + 2) * RECORD_EXTRA_BYTES;

thread_local! {
    /// The buffers that this thread receives into and seals into; made when first needed.
    static SCRATCH: RefCell<Scratch> = const {
        RefCell::new(Scratch { incoming: Vec::new(), outgoing: Vec::new() })
    };
}

/// A thread's buffers.
struct Scratch {
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

/// A connection over TLS.
pub struct TlsStream {
    socket: TcpStream,
    peer: SocketAddr,
    session: UnbufferedServerConnection,
    /// Received bytes, fewer than can be opened.
    pub(super) sealed: Vec<u8>,
    /// Opened bytes for which the last target had no room.
    pub(super) opened: Vec<u8>,
    /// How many of these have been read.
    opened_read: usize,
    /// Sealed bytes that the socket did not take.
    pub(super) outgoing: Vec<u8>,
    /// How many of these have been sent.
    outgoing_sent: usize,
    /// Whether the socket took some of these since that was last asked.
    has_progressed: bool,
    /// Whether the next byte to be written is the last of those in `outgoing`.
    is_owed: bool,
    /// Whether the socket has said that it has no more for now.
    is_drained: bool,
    /// Whether the client sends no more.
    is_ended: bool,
    /// Whether it was already reported if the session is new.
    is_known: bool,
    /// The error that ended it.
    failure: Option<Box<str>>,
}

impl TlsStream {
    /// Makes a connection of which nothing has been received.
    pub fn new(socket: TcpStream, peer: SocketAddr, config: &Config) -> io::Result<Self> {
        let session = UnbufferedServerConnection::new(config.rustls());
        Ok(Self {
            socket,
            peer,
            session: session.map_err(io::Error::other)?,
            sealed: Vec::new(),
            opened: Vec::new(),
            opened_read: 0,
            outgoing: Vec::new(),
            outgoing_sent: 0,
            has_progressed: false,
            is_owed: false,
            is_drained: true,
            is_ended: false,
            is_known: false,
            failure: None,
        })
    }

    /// The socket below.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The socket below, to be registered.
    pub fn socket_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// The client's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether the handshake is still going on.
    pub fn is_shaking_hands(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Whether the handshake made a new session rather than resuming one: reported once, when it
    /// has ended.
    pub fn take_new_session(&mut self) -> Option<bool> {
        if self.is_known || self.is_shaking_hands() {
            return None;
        }
        self.is_known = true;
        self.session.handshake_kind().map(|kind| kind != HandshakeKind::Resumed)
    }

    /// The error that ended it, in words, if neither side closed it on purpose.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether the socket has taken any waiting sealed bytes since this was last asked.
    pub fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.has_progressed)
    }

    /// Whether a read may find bytes, or the end, although no event announces it.
    pub fn holds_input(&self) -> bool {
        self.is_ended || !self.is_drained || !self.opened.is_empty()
    }

    /// Reads the available bytes, up to the size of `target`; 0 means that the client sends no
    /// more. Continues the handshake if that has not ended.
    pub fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        // Bytes opened before a failure are read first.
        if self.opened.is_empty() || self.failure.is_none() {
            self.check()?;
            self.send_control()?;
        }
        let mut filled = self.read_opened(target);
        SCRATCH.with_borrow_mut(|scratch| {
            let mut receives = 0;
            let goes_on = |stream: &Self| !stream.is_ended && stream.failure.is_none();
            while filled < target.len() && goes_on(self) && receives < RECEIVES_MAX {
                receives += 1;
                match self.receive(&mut scratch.incoming, &mut target[filled..]) {
                    Ok(received) => filled += received,
                    // Bytes that came before it count, as without TLS; the next read meets the end.
                    Err(_) if filled > 0 => {
                        self.is_drained = false;
                        break;
                    }
                    Err(error) => return Err(error),
                }
                if self.is_drained {
                    break;
                }
            }
            Ok::<_, io::Error>(())
        })?;
        match filled {
            0 if !self.is_ended => Err(ErrorKind::WouldBlock.into()),
            filled => Ok(filled),
        }
    }

    /// Takes bytes that were opened before.
    fn read_opened(&mut self, target: &mut [u8]) -> usize {
        let rest = &self.opened[self.opened_read..];
        let read = rest.len().min(target.len());
        target[..read].copy_from_slice(&rest[..read]);
        self.opened_read += read;
        if self.opened_read == self.opened.len() {
            self.opened = Vec::new();
            self.opened_read = 0;
        }
        read
    }

    /// Asks the socket once, and opens what there is. Returns the number of opened bytes.
    fn receive(&mut self, incoming: &mut Vec<u8>, target: &mut [u8]) -> io::Result<usize> {
        incoming.resize(UNOPENED_BYTES_MAX + RECEIVE_BYTES, 0);
        let before = self.sealed.len();
        incoming[..before].copy_from_slice(&self.sealed);
        // Not much more than the target takes, so that few bytes are left here.
        let wanted = (target.len() + RECORD_EXTRA_BYTES).clamp(RECORD_BYTES_MAX, RECEIVE_BYTES);
        let received = loop {
            match rustix::net::recv(
                &self.socket,
                &mut incoming[before..before + wanted],
                RecvFlags::empty(),
            ) {
                Ok((received, _)) => break received,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    self.is_drained = true;
                    return Ok(0);
                }
                Err(error) => return Err(self.fail_below(error.into())),
            }
        };
        self.is_drained = received < wanted;
        if received == 0 {
            // Many clients close without a word. A request tells its own length, so a request that
            // was cut off does not count as whole.
            self.is_ended = true;
            if self.is_shaking_hands() {
                self.failure.get_or_insert_with(|| "the client left the handshake".into());
            }
            return Ok(0);
        }
        let filled = before + received;
        let (used, opened) = self.open(&mut incoming[..filled], target)?;
        let rest = &incoming[used..filled];
        if rest.len() > UNOPENED_BYTES_MAX {
            return Err(self.fail(io::Error::new(ErrorKind::InvalidData, "a message is too long")));
        }
        if rest.is_empty() {
            self.sealed = Vec::new();
        } else {
            self.sealed.clear();
            self.sealed.extend_from_slice(rest);
        }
        self.send_control()?;
        Ok(opened)
    }

    /// Opens all whole records of `incoming`; returns how many of its bytes are used up, and how
    /// many bytes were written to `target`. Bytes that do not fit there are kept.
    fn open(&mut self, incoming: &mut [u8], target: &mut [u8]) -> io::Result<(usize, usize)> {
        let mut used = 0;
        let mut filled = 0;
        loop {
            let status = self.session.process_tls_records(&mut incoming[used..]);
            let UnbufferedStatus { mut discard, state, .. } = status;
            let mut is_over = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        discard += record.discard;
                        let payload = record.payload;
                        let room = payload.len().min(target.len() - filled);
                        target[filled..filled + room].copy_from_slice(&payload[..room]);
                        filled += room;
                        self.opened.extend_from_slice(&payload[room..]);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut self.outgoing, |room| data.encode(room));
                }
                // The data is in `outgoing`, and will be sent.
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.is_ended = true;
                    is_over = true;
                }
                Ok(_) => is_over = true,
                Err(error) => {
                    used += discard;
                    self.alert(&mut incoming[used..]);
                    let error = self.fail(io::Error::new(ErrorKind::InvalidData, words(&error)));
                    if filled == 0 {
                        return Err(error);
                    }
                    // Bytes that came before it count, as without TLS; the next read meets the
                    // failure.
                    self.is_drained = false;
                    return Ok((incoming.len(), filled));
                }
            }
            used += discard;
            if is_over {
                // Behind the end there is nothing.
                return Ok((if self.is_ended { incoming.len() } else { used }, filled));
            }
        }
    }

    /// Sends the client rustls' alert for an error, as well as the socket allows.
    fn alert(&mut self, incoming: &mut [u8]) {
        // Once all of it is sent, rustls may not be asked again: it would look at the same bytes
        // and stumble over its own alert.
        while self.session.wants_write() {
            match self.session.process_tls_records(incoming).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut self.outgoing, |room| data.encode(room));
                }
                _ => break,
            }
        }
        let _ = self.send_rest();
    }

    /// Writes as much as the socket takes.
    pub fn write(&mut self, source: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[io::IoSlice::new(source)])
    }

    /// Writes as much as the socket takes of `sources`, in order.
    pub fn write_vectored(&mut self, sources: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.check()?;
        self.send_rest()?;
        let mut pieces = Pieces { sources, index: 0, offset: 0 };
        let mut taken = 0;
        if self.is_owed {
            self.is_owed = false;
            taken = pieces.next(1).map_or(0, <[u8]>::len);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            loop {
                let (bytes, sealed) = self.seal(&mut pieces, &mut scratch.outgoing)?;
                if bytes == 0 {
                    return Ok(taken);
                }
                let sealed = &scratch.outgoing[..sealed];
                let sent = send(&self.socket, sealed);
                let sent = sent.map_err(|error| self.fail_below(error))?;
                taken += bytes;
                if sent < sealed.len() {
                    self.outgoing.extend_from_slice(&sealed[sent..]);
                    self.is_owed = true;
                    return match taken - 1 {
                        0 => Err(ErrorKind::WouldBlock.into()),
                        taken => Ok(taken),
                    };
                }
            }
        })
    }

    /// Seals the next pieces; returns how many bytes these are, and how many sealed ones they
    /// became.
    fn seal(&mut self, pieces: &mut Pieces<'_>, out: &mut Vec<u8>) -> io::Result<(usize, usize)> {
        out.resize(SEALED_BYTES_MAX, 0);
        let (mut bytes, mut sealed) = (0, 0);
        for _ in 0..PIECES_MAX {
            let Some(piece) = pieces.next(SEAL_BYTES - bytes) else { break };
            let status = self.session.process_tls_records(&mut self.sealed);
            let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state else {
                let text = "something was to be sent before the handshake was over";
                return Err(self.fail(io::Error::new(ErrorKind::InvalidData, text)));
            };
            match traffic.encrypt(piece, &mut out[sealed..]) {
                Ok(more) => sealed += more,
                Err(EncryptError::InsufficientSize(_)) => {
                    unreachable!("there is room for every piece with what sealing adds to it")
                }
                Err(error) => return Err(self.fail(io::Error::other(error.to_string()))),
            }
            bytes += piece.len();
        }
        Ok((bytes, sealed))
    }

    /// Sends output that no writer will repeat: the handshake, an alert. A full socket is no error
    /// here.
    pub fn send_control(&mut self) -> io::Result<()> {
        match self.send_rest() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            sent => sent,
        }
    }

    /// Sends bytes that were sealed before; `WouldBlock` if some remain.
    fn send_rest(&mut self) -> io::Result<()> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        let sent = send(&self.socket, &self.outgoing[self.outgoing_sent..]);
        let sent = sent.map_err(|error| self.fail_below(error))?;
        self.outgoing_sent += sent;
        self.has_progressed |= sent > 0;
        if self.outgoing_sent < self.outgoing.len() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.outgoing = Vec::new();
        self.outgoing_sent = 0;
        Ok(())
    }

    /// Tells the client that nothing more will come, as well as the socket allows.
    pub fn say_goodbye(&mut self) {
        if self.failure.is_some() || self.is_shaking_hands() || self.send_rest().is_err() {
            return;
        }
        let status = self.session.process_tls_records(&mut self.sealed);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state {
            let mut alert = [0; RECORD_EXTRA_BYTES];
            if let Ok(bytes) = traffic.queue_close_notify(&mut alert) {
                let _ = send(&self.socket, &alert[..bytes]);
            }
        }
    }

    /// Returns the failure of an earlier call again.
    fn check(&self) -> io::Result<()> {
        match &self.failure {
            Some(text) if !self.is_ended => {
                Err(io::Error::new(ErrorKind::InvalidData, text.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Notes an error of the socket. That is normal for a connection, but a failure during the
    /// handshake.
    fn fail_below(&mut self, error: io::Error) -> io::Error {
        if self.is_shaking_hands() { self.fail(error) } else { error }
    }

    /// Remembers why the connection ends.
    fn fail(&mut self, error: io::Error) -> io::Error {
        self.failure.get_or_insert_with(|| error.to_string().into());
        error
    }
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rest is keys and bytes sealed with them.
        f.debug_struct("TlsStream").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// The bytes to be written, piece by piece.
struct Pieces<'s> {
    sources: &'s [io::IoSlice<'s>],
    index: usize,
    offset: usize,
}

impl<'s> Pieces<'s> {
    /// The next contiguous bytes, at most `bytes_max`.
    fn next(&mut self, bytes_max: usize) -> Option<&'s [u8]> {
        if bytes_max == 0 {
            return None;
        }
        loop {
            let source: &'s [u8] = self.sources.get(self.index)?;
            let rest = &source[self.offset..];
            if !rest.is_empty() {
                let piece = &rest[..rest.len().min(bytes_max)];
                self.offset += piece.len();
                return Some(piece);
            }
            self.index += 1;
            self.offset = 0;
        }
    }
}

/// Sends until the socket takes no more; returns how much it took.
fn send(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match rustix::net::send(socket, &bytes[sent..], SendFlags::NOSIGNAL) {
            Ok(more) => sent += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sent)
}

/// Appends a record of the handshake.
fn encode(out: &mut Vec<u8>, mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>) {
    let start = out.len();
    let mut room = 0;
    loop {
        out.resize(start + room, 0);
        match encode(&mut out[start..]) {
            Ok(bytes) => return out.truncate(start + bytes),
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size }))
                if required_size > room =>
            {
                room = required_size;
            }
            Err(_) => return out.truncate(start),
        }
    }
}

/// The error in words, for the server's administrator.
fn words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => "the client does not speak TLS".to_owned(),
        rustls::Error::NoCertificatesPresented => "the client shows no certificate".to_owned(),
        rustls::Error::InvalidCertificate(error) => {
            format!("the client's certificate is refused: {error:?}")
        }
        rustls::Error::AlertReceived(alert) => format!("the client refuses: {alert:?}"),
        error => error.to_string(),
    }
}
