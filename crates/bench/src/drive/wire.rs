//! A connection of the load generator: a socket, or TLS over one.
//!
//! With TLS the handshake is done before anything is measured, and a short read does not mean that
//! there is no more: the socket's bytes may hold another record.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::failure::{Failure, Outcome};

/// The name of a TLS server, in its certificate and for its clients.
pub const SERVER_NAME: &str = "localhost";

/// A connection that does not block.
pub enum Wire {
    /// Plain bytes.
    Plain(TcpStream),
    /// Bytes through TLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    /// Connects, and does the handshake if there is a configuration of TLS.
    pub fn connect(address: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> Outcome<Self> {
        let mut stream = std::net::TcpStream::connect(address)
            .map_err(Failure::io(format!("connecting to {address}")))?;
        stream.set_nodelay(true).map_err(Failure::io("setting TCP_NODELAY"))?;
        let session = tls.map(|config| shake_hands(config, &mut stream)).transpose()?;
        stream.set_nonblocking(true).map_err(Failure::io("making a socket non-blocking"))?;
        let stream = TcpStream::from_std(stream);
        Ok(match session {
            None => Self::Plain(stream),
            Some(session) => Self::Tls(Box::new(StreamOwned::new(session, stream))),
        })
    }

    /// Returns the socket, to wait for.
    pub fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &mut stream.sock,
        }
    }

    /// Returns whether a read that does not fill its buffer has drained the connection.
    pub fn is_drained_by_short_reads(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

fn shake_hands(
    config: &Arc<ClientConfig>,
    stream: &mut std::net::TcpStream,
) -> Outcome<ClientConnection> {
    let name = ServerName::try_from(SERVER_NAME).expect("the constant is a name");
    let session = ClientConnection::new(Arc::clone(config), name);
    let mut session = session.map_err(|error| Failure::Reply(error.to_string()))?;
    while session.is_handshaking() {
        session.complete_io(stream).map_err(Failure::io("shaking hands"))?;
    }
    Ok(session)
}

impl Read for Wire {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(target),
            Self::Tls(stream) => stream.read(target),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, source: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(source),
            Self::Tls(stream) => stream.write(source),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
