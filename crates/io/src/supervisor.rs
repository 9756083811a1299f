//! The socket on which a supervisor, such as systemd, learns a service's state.
//!
//! A message is one datagram of lines such as `READY=1` (sd_notify(3)). The supervisor names the
//! socket in the environment: a path, or behind `@` a name without a file.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A way to send messages to the supervisor.
#[derive(Debug)]
pub struct SupervisorSocket {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl SupervisorSocket {
    /// Opens a socket to the supervisor's socket called `name`.
    pub fn new(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        Ok(Self { socket: UnixDatagram::unbound()?, address })
    }

    /// Sends lines to the supervisor.
    pub fn tell(&self, lines: &str) -> io::Result<()> {
        let sent = self.socket.send_to_addr(lines.as_bytes(), &self.address)?;
        if sent == lines.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_names_are_reached_and_others_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let abstract_name = format!("@larder-test-{}", std::process::id());
        let named = SocketAddr::from_abstract_name(&abstract_name.as_bytes()[1..]);
        let named = UnixDatagram::bind_addr(&named.expect("a name"));
        for (name, heard) in
            [(path.as_os_str(), UnixDatagram::bind(&path)), (OsStr::new(&abstract_name), named)]
        {
            let heard = heard.expect("a socket");
            let socket = SupervisorSocket::new(name).expect("a name");
            socket.tell("READY=1\nSTATUS=x").expect("it is heard");
            let mut bytes = [0; 100];
            let length = heard.recv(&mut bytes).expect("a message");
            assert_eq!(&bytes[..length], b"READY=1\nSTATUS=x");
        }
        for name in ["", "relative", "vsock:2:1"] {
            assert!(SupervisorSocket::new(OsStr::new(name)).is_err(), "{name}");
        }
        let nobody = folder.path().join("nobody");
        let socket = SupervisorSocket::new(nobody.as_os_str()).expect("a name");
        assert!(socket.tell("READY=1").is_err());
    }
}
