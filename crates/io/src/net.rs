//! Sockets: listeners and connections, TCP or Unix domain, behind one type each.
//!
//! Every socket is non-blocking and is closed on exec. Readiness is edge-triggered (see
//! [`crate::poll`]), so a reader or writer goes on until the socket says `WouldBlock`, or takes or
//! gives less than was asked for. Over TLS bytes may lie in between: [`crate::tls`] explains the
//! rule for them, and [`Stream::holds_input`] tells of them.
//!
//! A read also ends before a byte that the peer calls urgent, which `SO_OOBINLINE` would not
//! change: bytes behind one are read when the peer sends more. No client of these protocols sends
//! any.

use std::fs;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::{Interest, Registry, Token};
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::tls::{self, SEALED_BYTES_MAX, TlsStream};

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(mio::net::TcpListener, SocketAddr),
    /// A Unix domain socket. Its name is removed before it is closed.
    Unix(SocketFile, mio::net::UnixListener),
}

/// The name of a listening socket, which is removed on drop unless another socket has it by then: a
/// server that starts while this one ends takes a name at which no process listens.
///
/// To be dropped while the socket is open: until then no other file has its number in the file
/// system, and a process that checks whether the name is in use leaves it alone.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// The device and the number of the file.
    id: (u64, u64),
}

impl SocketFile {
    /// The name of a socket that was bound just now.
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_path_buf(), id: id(&fs::symlink_metadata(path)?) })
    }

    /// Whether the name still leads to this socket.
    fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|found| id(&found) == self.id)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there() {
            // The user that the process has become may not be allowed to; then the next start does
            // it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The identity of a file among all existing ones.
fn id(found: &fs::Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

impl Listener {
    /// Binds `address`. No client can connect before [`Listener::listen`].
    pub fn bind_tcp(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            // So that 0.0.0.0 and [::] can be listened on side by side.
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        socket.set_keepalive(true)?;
        socket.bind(&SockAddr::from(address))?;
        socket.set_nonblocking(true)?;
        let listener = mio::net::TcpListener::from_std(socket.into());
        let address = listener.local_addr()?;
        Ok(Self::Tcp(listener, address))
    }

    /// Binds `path`, which gets the permission bits `mode`, for the listener's lifetime. A socket
    /// that an earlier run left there is removed; one that a process listens at, or has bound and
    /// is yet to listen at, and any other file are errors. No client can connect before
    /// [`Listener::listen`].
    pub fn bind_unix(path: &Path, mode: u32) -> io::Result<Self> {
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                return Err(taken("it is there, and no socket"));
            }
            if is_listened_at(path)? {
                return Err(taken("another process listens there"));
            }
            if is_bound(path) {
                return Err(taken("another process is about to listen there"));
            }
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        crate::process::with_file_mode(mode, || socket.bind(&SockAddr::unix(path)?))?;
        let file = SocketFile::of(path)?;
        socket.set_nonblocking(true)?;
        let listener = mio::net::UnixListener::from_std(socket.into());
        Ok(Self::Unix(file, listener))
    }

    /// Lets connections come in; the kernel keeps up to `backlog` of them that are not accepted
    /// yet. Fails if another process listens there since, or has taken a Unix socket's name: no
    /// client would ever come in.
    pub fn listen(&self, backlog: i32) -> io::Result<()> {
        match self {
            Self::Tcp(listener, _) => rustix::net::listen(listener, backlog)?,
            Self::Unix(file, listener) => {
                rustix::net::listen(listener, backlog)?;
                // Checked afterwards: from here on no process takes it for a socket that was left
                // behind.
                if !file.is_there() {
                    return Err(taken("its name was removed, or another process has it"));
                }
            }
        }
        Ok(())
    }

    /// Accepts the next connection; `WouldBlock` if there is none.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream, peer))
            }
            Self::Unix(_, listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }

    /// Its address, as `stats conns` prints it: `tcp:127.0.0.1:11211`, `unix:/run/larder`.
    pub fn name(&self) -> String {
        match self {
            Self::Tcp(_, address) => format!("tcp:{address}"),
            Self::Unix(file, _) => format!("unix:{}", file.path.display()),
        }
    }
}

/// Whether an address cannot be listened on because this machine does not have it: the kernel does
/// not know its family, or no interface has it.
pub fn is_absent(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::AFNOSUPPORT | rustix::io::Errno::ADDRNOTAVAIL))
}

fn taken(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, why)
}

/// Whether a process takes connections at the socket `path`.
fn is_listened_at(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // If the backlog is full, a blocking connection would wait.
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Ok(true),
            // It may have gone since it was looked at.
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(false),
            // Another kind of socket, or another user's: it may be in use.
            _ => Err(error),
        },
    }
}

/// Whether a process has a socket of this name that does not listen: a server that is yet to serve,
/// which may restore its memory for minutes, looks to a client like a socket that was left
/// behind. Where the kernel shows nothing, for want of `/proc` or since that process is in another
/// network namespace, this is not known, and [`Listener::listen`] refuses there.
fn is_bound(path: &Path) -> bool {
    let sockets = fs::read("/proc/net/unix").unwrap_or_default();
    sockets.split(|&byte| byte == b'\n').any(|line| shows_bound(line, path))
}

/// Whether a line of `/proc/net/unix` shows a socket of this name that does not listen.
///
/// ```text
/// 00000000bb72f872: 00000002 00000000 00010000 0001 01 9404010 /run/larder
///                                     flags    type state inode name, as it was bound
/// ```
fn shows_bound(line: &[u8], path: &Path) -> bool {
    const LISTENS: u32 = 1 << 16;
    let before_name =
        line.strip_suffix(path.as_os_str().as_bytes()).and_then(|head| head.strip_suffix(b" "));
    let Some(Ok(head)) = before_name.map(str::from_utf8) else { return false };
    let words: Vec<&str> = head.split_ascii_whitespace().collect();
    let [_, _, _, flags, _, _, _] = words[..] else { return false };
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & LISTENS == 0)
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(listener, _) => listener.as_raw_fd(),
            Self::Unix(_, listener) => listener.as_raw_fd(),
        }
    }
}

/// A connection's socket.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP, from this address.
    Tcp(mio::net::TcpStream, SocketAddr),
    /// Over a Unix domain socket.
    Unix(mio::net::UnixStream),
    /// Over TLS over TCP. Boxed, so that the others stay small.
    Tls(Box<TlsStream>),
}

/// Reading and writing use rustix, which makes the system call itself: in a program with several
/// threads, libc's wrappers prepare each call for the thread's cancellation, which is not used here
/// and which showed as a few per cent of the samples in a profile of unpipelined gets.
impl Stream {
    /// Reads the available bytes, up to the size of `target`; 0 means that the peer sends no more.
    #[inline]
    pub fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if let Self::Tls(stream) = self {
            return stream.read(target);
        }
        Ok(rustix::net::recv(&*self, target, RecvFlags::empty())?.0)
    }

    /// Writes as much as the socket takes.
    #[inline]
    pub fn write(&mut self, source: &[u8]) -> io::Result<usize> {
        if let Self::Tls(stream) = self {
            return stream.write(source);
        }
        Ok(rustix::net::send(&*self, source, SendFlags::NOSIGNAL)?)
    }

    /// Writes as much as the socket takes of `sources`, in order.
    pub fn write_vectored(&mut self, sources: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Self::Tls(stream) = self {
            return stream.write_vectored(sources);
        }
        Ok(rustix::io::writev(&*self, sources)?)
    }

    /// The peer's address over TCP.
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(_, peer) => Some(*peer),
            Self::Unix(_) => None,
            Self::Tls(stream) => Some(stream.peer()),
        }
    }

    /// Turns the connection into one over TLS from its first byte on. Only TCP has that; bytes over
    /// a Unix domain socket do not leave the machine.
    pub fn into_tls(self, config: &tls::Config) -> io::Result<Self> {
        match self {
            Self::Tcp(socket, peer) => {
                Ok(Self::Tls(Box::new(TlsStream::new(socket, peer, config)?)))
            }
            other => Ok(other),
        }
    }

    /// The TLS connection, if it is one.
    #[inline]
    pub fn tls(&mut self) -> Option<&mut TlsStream> {
        match self {
            Self::Tls(stream) => Some(stream),
            _ => None,
        }
    }

    /// Whether a read may find something although less was there than was asked for, and no event
    /// will announce it.
    #[inline]
    pub fn holds_input(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.holds_input())
    }

    /// Whether the socket below has taken anything since this was last asked, even though none of
    /// the written bytes may count as taken: over TLS they count only with the last byte of what
    /// was sealed.
    pub fn take_progress(&mut self) -> bool {
        self.tls().is_some_and(TlsStream::take_progress)
    }

    /// The most bytes that it may keep of those that it says the peer has not taken.
    pub fn unsent_bytes_max(&self) -> usize {
        if matches!(self, Self::Tls(_)) { SEALED_BYTES_MAX } else { 0 }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream, _) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.socket().as_fd(),
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream, _) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
            Self::Tls(stream) => stream.socket().as_raw_fd(),
        }
    }
}

/// Forwards mio's registration to the socket of each variant.
macro_rules! forward_source {
    ($type:ty, $self:ident, $($pattern:pat => $source:expr),+) => {
        impl Source for $type {
            fn register(&mut $self, r: &Registry, t: Token, i: Interest) -> io::Result<()> {
                match $self {
                    $($pattern => $source.register(r, t, i),)+
                }
            }
            fn reregister(&mut $self, r: &Registry, t: Token, i: Interest) -> io::Result<()> {
                match $self {
                    $($pattern => $source.reregister(r, t, i),)+
                }
            }
            fn deregister(&mut $self, r: &Registry) -> io::Result<()> {
                match $self {
                    $($pattern => $source.deregister(r),)+
                }
            }
        }
    };
}

forward_source!(Listener, self, Self::Tcp(it, _) => it, Self::Unix(_, it) => it);
forward_source!(
    Stream, self, Self::Tcp(it, _) => it, Self::Unix(it) => it, Self::Tls(it) => it.socket_mut()
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_zero_becomes_a_real_one() {
        let address = "127.0.0.1:0".parse().expect("an address");
        let listener = Listener::bind_tcp(address).expect("a free port");
        let Listener::Tcp(_, bound) = &listener else {
            panic!("asked for TCP");
        };
        let refused = std::net::TcpStream::connect(bound).expect_err("nobody listens yet");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        listener.listen(8).expect("nobody else listens there");
        assert_ne!(bound.port(), 0);
        assert_eq!(listener.name(), format!("tcp:{bound}"));
        let error = listener.accept().expect_err("nobody has connected");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn an_address_that_this_machine_lacks_is_told_from_one_that_is_taken() {
        // An address for documentation, which no machine has.
        let error = Listener::bind_tcp("192.0.2.1:0".parse().expect("an address"));
        assert!(is_absent(&error.expect_err("it is nobody's")));
        assert!(!is_absent(&taken("another process listens there")));
    }

    #[test]
    fn a_left_over_unix_socket_is_replaced_and_a_file_is_not() {
        let folder = std::env::temp_dir().join(format!("larder-net-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("socket");
        // A name that std binds stays.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bind"));
        drop(Listener::bind_unix(&path, 0o700).expect("bind again over the left-over socket"));
        fs::write(&path, "precious").expect("write a file");
        Listener::bind_unix(&path, 0o700).expect_err("a file is no socket");
        fs::remove_dir_all(&folder).expect("clean up");
    }

    /// Regression: a server that ended removed the name that the next one listened at.
    #[test]
    fn a_name_is_removed_with_its_listener_unless_another_socket_has_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let first = Listener::bind_unix(&path, 0o700).expect("bind");
        fs::remove_file(&path).expect("it is there");
        let second = Listener::bind_unix(&path, 0o700).expect("bind again");
        second.listen(8).expect("listen");
        drop(first);
        let file = fs::symlink_metadata(&path).expect("it stays");
        assert!(file.file_type().is_socket());
        drop(second);
        assert!(!path.exists(), "it goes with its own");
    }

    /// Regression: a second server with the arguments of one that still restored its memory took
    /// its socket's name, whether it was then refused or not, and no client could ever connect to
    /// the first.
    #[test]
    fn a_unix_socket_is_not_taken_from_a_process_yet_to_listen() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a socket");
        let first = Listener::bind_unix(&path, 0o700).expect("bind");
        let error = Listener::bind_unix(&path, 0o700).expect_err("the first is yet to listen");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        first.listen(8).expect("it has its name");
        std::os::unix::net::UnixStream::connect(&path).expect("it listens");
    }

    /// Regression: it served at a socket that no client could find.
    #[test]
    fn a_listener_that_lost_the_name_of_its_unix_socket_does_not_listen() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let first = Listener::bind_unix(&path, 0o700).expect("bind");
        fs::remove_file(&path).expect("it is there");
        assert_eq!(first.listen(8).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let other = std::os::unix::net::UnixListener::bind(&path).expect("the name is free");
        assert_eq!(first.listen(8).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        std::os::unix::net::UnixStream::connect(&path).expect("the other is still there");
        drop(other);
    }

    #[test]
    fn a_bound_name_without_a_listener_is_found_in_the_kernels_list() {
        let path = Path::new("/run/a socket");
        let shows = |line: &str| shows_bound(line.as_bytes(), path);
        let bound = "00000000bb72f872: 00000002 00000000 00000000 0001 01";
        assert!(shows(&format!("{bound} 9404010 /run/a socket")));
        assert!(shows(&format!("{bound}    17 /run/a socket")));
        assert!(!shows(&format!("{bound} 9404010 /run/a socket2")));
        assert!(!shows(&format!("{bound} 9404010 /other/run/a socket")));
        assert!(!shows(&format!("{bound} 9404010 with /run/a socket")));
        assert!(!shows(&format!("{bound} 9404010")));
        let listens = "00000000bb72f872: 00000002 00000000 00010000 0001 01";
        assert!(!shows(&format!("{listens} 9404010 /run/a socket")));
        assert!(!shows("Num       RefCount Protocol Flags    Type St Inode Path"));
    }

    /// Regression: a socket of datagrams, such as a system log's, was removed because connecting to
    /// it fails.
    #[test]
    fn a_unix_socket_of_another_kind_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let other = std::os::unix::net::UnixDatagram::bind(&path).expect("bind");
        Listener::bind_unix(&path, 0o700).expect_err("it is in use");
        let sender = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
        sender.send_to(b"x", &path).expect("it is still there");
        drop((other, sender));
        assert!(path.exists());
    }

    #[test]
    fn a_unix_socket_is_not_taken_from_a_listening_process() {
        // Regression: a second server with the same socket got all new connections, and at its end
        // it removed the name that the first one listened at.
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = Listener::bind_unix(&path, 0o700).expect("bind");
        listener.listen(0).expect("listen");
        // The first one's connection attempt fills the kernel's queue, so that the others would
        // have to wait.
        for _ in 0..3 {
            let error = Listener::bind_unix(&path, 0o700).expect_err("somebody listens there");
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        }
        listener.accept().expect("the socket is still the first one's");
    }
}
