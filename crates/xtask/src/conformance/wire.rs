//! A plain connection that shows in failures what it sent and what came back.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::{Result, fail};

/// The time after which an answer counts as missing.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The most bytes between a line's beginning and a difference for the line to be shown from there.
const LINE_SHOWN: usize = 80;

/// A connection to a server on this machine.
pub struct Wire {
    stream: TcpStream,
    /// All bytes received so far.
    pub received: Vec<u8>,
}

impl Wire {
    /// Connects to a port of the loopback address.
    pub fn connect(port: u16) -> Result<Wire> {
        let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Wire { stream, received: Vec::new() })
    }

    /// Sets the longest wait of each read and write from now on.
    pub fn patience(&self, limit: Duration) -> Result {
        self.stream.set_read_timeout(Some(limit))?;
        self.stream.set_write_timeout(Some(limit))?;
        Ok(())
    }

    /// Sends bytes. A closed connection is no failure here, because the replies decide.
    pub fn send(&mut self, bytes: &[u8]) -> Result {
        match self.stream.write_all(bytes) {
            Err(error) if is_closed(error.kind()) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Reads once; false when the server has closed.
    fn read(&mut self) -> Result<bool> {
        let mut buffer = [0; 65536];
        match self.stream.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error) if is_closed(error.kind()) => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) if is_timeout(error.kind()) => fail("no answer in time"),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads until the bytes since `from` end with `ending`; false when the server closed first.
    pub fn read_until(&mut self, from: usize, ending: &[u8]) -> Result<bool> {
        while !self.received[from..].ends_with(ending) {
            if !self.read()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads until this many bytes are there; false when the server closed first.
    pub fn read_bytes(&mut self, bytes: usize) -> Result<bool> {
        while self.received.len() < bytes {
            if !self.read()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads until the server closes the connection.
    pub fn read_to_end(&mut self) -> Result {
        while self.read()? {}
        Ok(())
    }

    /// Closes the sending side.
    pub fn finish(&mut self) -> Result {
        match self.stream.shutdown(Shutdown::Write) {
            Err(error) if error.kind() != ErrorKind::NotConnected => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Sends a command and returns its reply, which ends with `ending`.
    pub fn ask(&mut self, command: &str, ending: &str) -> Result<String> {
        self.ask_bytes(command.as_bytes(), ending.as_bytes())?;
        Ok(String::from_utf8_lossy(&self.received).into_owned())
    }

    /// Sends bytes and waits for a reply that ends with `ending`.
    pub fn ask_bytes(&mut self, command: &[u8], ending: &[u8]) -> Result {
        self.send(command)?;
        self.received.clear();
        if !self.read_until(0, ending)? {
            let command = String::from_utf8_lossy(command);
            return fail(format!("closed instead of answering {}", shorten(&command)));
        }
        Ok(())
    }

    /// Sends a command, and fails unless the whole answer is this one.
    pub fn expect(&mut self, command: &str, answer: &str) -> Result {
        let reply = self.ask(command, "\n")?;
        // A reply of several lines may come in pieces.
        let mut whole = reply.into_bytes();
        while whole.len() < answer.len() && answer.as_bytes().starts_with(&whole) {
            self.received.clear();
            if !self.read()? {
                break;
            }
            whole.extend_from_slice(&self.received);
        }
        if whole == answer.as_bytes() {
            return Ok(());
        }
        let got = String::from_utf8_lossy(&whole).into_owned();
        fail(format!(
            "{:?}: wanted {:?}, got {:?}",
            shorten(command),
            shorten(answer),
            shorten(&got)
        ))
    }
}

/// Returns the unparsed answer of an HTTP server on this machine to a GET.
pub fn http_get(port: u16, path: &str) -> Result<String> {
    let mut wire = Wire::connect(port)?;
    wire.send(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
    wire.read_to_end()?;
    Ok(String::from_utf8_lossy(&wire.received).into_owned())
}

/// Returns the beginning of a long text.
pub fn shorten(text: &str) -> String {
    let head: String = text.chars().take(160).collect();
    if head.len() < text.len() { format!("{head}... ({} bytes)", text.len()) } else { head }
}

/// Returns where two streams part: the beginning of that line, and both streams from there.
pub fn parting<'a>(left: &'a [u8], right: &'a [u8]) -> (usize, &'a [u8], &'a [u8]) {
    let at = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let from = left[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |line| line + 1);
    // In the middle of a long value the place itself says more than the line's beginning.
    let from = if at - from > LINE_SHOWN { at - LINE_SHOWN / 2 } else { from };
    (from, &left[from..], &right[from..])
}

fn is_closed(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
    )
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::parting;

    #[test]
    fn streams_part_in_the_line_that_differs() {
        assert_eq!(parting(b"HD\nHD t1\n", b"HD\nHD t2\n"), (3, &b"HD t1\n"[..], &b"HD t2\n"[..]));
        assert_eq!(parting(b"HD\n", b"HD\nEN\n"), (3, &b""[..], &b"EN\n"[..]));
        let long = [b'x'; 300];
        let (from, left, right) = parting(&long, &long[..200]);
        assert_eq!((from, left.len(), right.len()), (160, 140, 40));
    }
}
