//! A connection that never waits to write while there is something to read, so that a client and a
//! server that both have much to say do not wait for each other.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::drive::inbox::{Inbox, Received};
use crate::failure::{Failure, Outcome};

/// How long a server that owes a reply may say nothing.
const SILENCE_MAX: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// A socket, what is still to be written to it, and what was read and not yet understood.
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

    /// Writes and reads what can be without waiting; if that is nothing, waits until it is.
    pub fn turn(&mut self) -> Outcome<()> {
        loop {
            let has_written = self.write()?;
            let has_read = self.inbox.receive(&mut self.stream)? != Received::Nothing;
            if has_written || has_read {
                return Ok(());
            }
            self.wait()?;
        }
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
