//! A connection that never blocks on a write while there is something to read, so that a client and
//! a server with much to send do not wait for each other.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::drive::inbox::{Inbox, Received};
use crate::failure::{Failure, Outcome};

/// How long a server that owes a reply may be silent.
const SILENCE_MAX: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// A socket, with its unwritten requests and its unparsed replies.
#[derive(Debug)]
pub struct Connection {
    /// Requests to be written.
    pub outbox: Vec<u8>,
    /// Replies that were read.
    pub inbox: Inbox,
    stream: TcpStream,
    written: usize,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Outcome<Connection> {
        let doing = || Failure::io(format!("connecting to {address}"));
        let stream = TcpStream::connect(address).map_err(doing())?;
        stream.set_nodelay(true).map_err(doing())?;
        stream.set_nonblocking(true).map_err(doing())?;
        Ok(Connection { outbox: Vec::new(), inbox: Inbox::new(), stream, written: 0 })
    }

    /// Writes and reads as much as possible without waiting; if that is nothing, waits until
    /// something is. A server that died may have answered before: when nothing can be written any
    /// more, received bytes are read all the same.
    pub fn turn(&mut self) -> Outcome<()> {
        loop {
            let has_written = match self.write() {
                Ok(has_written) => has_written,
                Err(failure) => {
                    self.read_the_rest();
                    return Err(failure);
                }
            };
            let has_read = self.inbox.receive(&mut self.stream)? != Received::Nothing;
            if has_written || has_read {
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Reads until the end, or until there is nothing: a dead server sends no more.
    fn read_the_rest(&mut self) {
        while let Ok(Received::Some | Received::Full) = self.inbox.receive(&mut self.stream) {}
    }

    fn write(&mut self) -> Outcome<bool> {
        if self.outbox.is_empty() {
            return Ok(false);
        }
        match self.stream.write(&self.outbox[self.written..]) {
            Ok(bytes) => self.written += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(Failure::io("writing requests")(error)),
        }
        if self.written == self.outbox.len() {
            self.outbox.clear();
            self.written = 0;
        }
        Ok(true)
    }

    fn wait(&self) -> Outcome<()> {
        let for_room = if self.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut waiting = [PollFd::new(&self.stream, PollFlags::IN | for_room)];
        match poll(&mut waiting, Some(&SILENCE_MAX)) {
            Ok(0) => {
                Err(Failure::Reply(format!("the server was silent for {} s", SILENCE_MAX.tv_sec)))
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::io("waiting for a server")(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::Connection;

    /// Regression: acknowledgements sent just before the server was killed were dropped, and stale
    /// values were taken for right.
    #[test]
    fn answers_are_read_after_writing_has_failed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("it is connected to");
            stream.read_exact(&mut [0]).expect("a byte");
            stream.write_all(b"STORED\r\n").expect("it is open");
            // The other byte is unread: the connection is reset.
        });
        let mut connection = Connection::open(address).expect("it listens");
        connection.outbox.extend_from_slice(b"12");
        connection.turn().expect("it is open");
        server.join().expect("it does not panic");
        connection.outbox.extend_from_slice(b"34");
        assert!(connection.turn().is_err());
        assert_eq!(connection.inbox.waiting(), b"STORED\r\n");
    }
}
