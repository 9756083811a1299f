//! A server as a child process, and a client that speaks bytes.
//!
//! The server takes a free port and prints it, so tests run side by side. Nothing here waits for
//! time to pass: the client reads until it has what it expects, under a timeout that only ends a
//! test that has failed anyway.

#![allow(dead_code, reason = "every test binary uses a part of this")]

use std::fs::{self, DirEntry};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use socket2::SockRef;

/// The longest time of a read, after which the answer will not come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The most looks at a number until it has the awaited value.
const LOOKS_MAX: usize = 1_000_000;

/// The most ports that may be taken by others one after the other.
const PORTS_MAX: usize = 20;

/// Bytes that a log holds without a reader: the default of Linux, which is twice the size that is
/// asked for. Machines for fast networks allow so much that all of a log fits.
const LOG_BYTES: usize = 104 << 10;

/// A Redis command as an array.
pub fn array(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A running server.
pub struct Server {
    child: Child,
    address: SocketAddr,
    output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts one with these options, on a free port.
    pub fn start(options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(["-p", "0"]).args(options);
        Self::start_by(&mut command)
    }

    /// Starts one whose log can be read.
    pub fn start_logged(options: &[&str]) -> (Self, BufReader<UnixStream>) {
        let (log, its_log) = UnixStream::pair().expect("a pair of sockets");
        SockRef::from(&its_log).set_send_buffer_size(LOG_BYTES).expect("a socket option");
        log.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(["-p", "0"]).args(options).stderr(OwnedFd::from(its_log));
        let server = Self::start_by(&mut command);
        let mut log = BufReader::new(log);
        // Tests are about the lines that come next.
        let mut says = |beginning: &str| {
            let mut line = String::new();
            log.read_line(&mut line).expect("it says something");
            assert!(line.starts_with(beginning), "{line}");
        };
        says("larder: version ");
        if is_root() && !options.contains(&"-u") {
            says("larder: running as root; use -u ");
        }
        if options.contains(&"-v") {
            says("larder: cache_memlimit accepts up to ");
        }
        (server, log)
    }

    /// Starts one that speaks Redis' protocol too, and returns its address.
    pub fn start_with_redis(options: &[&str]) -> (Self, SocketAddr) {
        // Between this look and the server's another process may take the port.
        let try_port = |_| {
            let address = free_address();
            let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
            command.args(["-p", "0", "--redis-port", &address.port().to_string()]).args(options);
            Some((Self::try_start_by(&mut command)?, address))
        };
        (0..PORTS_MAX).find_map(try_port).expect("a port that stays free, and good options")
    }

    /// Starts one by a command that lets it choose its port.
    pub fn start_by(command: &mut Command) -> Self {
        Self::try_start_by(command).expect("it says where it listens")
    }

    /// Starts one by a command; `None` if it ends at once.
    fn try_start_by(command: &mut Command) -> Option<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let output = child.stdout.take().expect("its output is piped");
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { child, address, output: BufReader::new(output) };
        let line = server.next_line();
        if let Some(address) = line.trim().strip_prefix("listening on tcp:") {
            server.address = address.parse().expect("an address");
        }
        Some(server).filter(|_| !line.is_empty())
    }

    /// The next line that it prints.
    pub fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it says more");
        line
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection to it.
    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends it a signal by name.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Stops its threads, and waits until they have stopped: the input that clients send from then
    /// on is there at once when it goes on (by the signal CONT), in the order of sending.
    pub fn stop_threads(&self) {
        self.signal("STOP");
        let is_stopped = |task: std::io::Result<DirEntry>| {
            let stat = fs::read_to_string(task.expect("a thread").path().join("stat"));
            let stat = stat.expect("a thread that is there has one");
            let (_, behind_name) = stat.rsplit_once(')').expect("its name is in brackets");
            behind_name.starts_with(" T")
        };
        let tasks = format!("/proc/{}/task", self.id());
        while !fs::read_dir(&tasks).expect("it is there").all(is_stopped) {}
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("it can be waited for")
    }

    /// The value of a line of `stats`.
    pub fn stat(&self, name: &str) -> u64 {
        self.connect().stat(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, which is what some tests are about.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client.
pub struct Client<S = TcpStream> {
    pub stream: S,
}

/// Whether the tests run as root, and the servers with them.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").expect("Linux has it").uid() == 0
}

/// An address without a listener.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address")
}

impl Client {
    /// A new connection to an address.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it accepts");
        stream.set_nodelay(true).expect("a socket option");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        Self { stream }
    }
}

impl<S: Read + Write> Client<S> {
    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Sends bytes to a server that may have closed the connection.
    pub fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Expects exactly these bytes next.
    #[track_caller]
    pub fn expect(&mut self, bytes: &[u8]) {
        let mut read = vec![0; bytes.len()];
        let mut filled = 0;
        while filled < read.len() {
            match self.stream.read(&mut read[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!(
                    "{error}; so far {:?}, expected {:?}",
                    String::from_utf8_lossy(&read[..filled]),
                    String::from_utf8_lossy(&bytes[..bytes.len().min(500)])
                ),
            }
        }
        assert!(
            read[..filled] == *bytes,
            "got {:?}, expected {:?}",
            String::from_utf8_lossy(&read[..filled.min(500)]),
            String::from_utf8_lossy(&bytes[..bytes.len().min(500)])
        );
    }

    /// Sends a request and expects its answer.
    #[track_caller]
    pub fn ask(&mut self, request: &str, answer: &str) {
        self.send(request.as_bytes());
        self.expect(answer.as_bytes());
    }

    /// Reads until the bytes read end in `end`.
    pub fn read_to(&mut self, end: &str) -> String {
        let mut text = Vec::new();
        let mut chunk = [0; 4096];
        while !text.ends_with(end.as_bytes()) {
            match self.stream.read(&mut chunk) {
                Ok(read) if read > 0 => text.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => panic!("{other:?} after {}", String::from_utf8_lossy(&text)),
            }
        }
        String::from_utf8(text).expect("text")
    }

    /// The value of a line of `stats`.
    #[track_caller]
    pub fn stat(&mut self, name: &str) -> u64 {
        self.send(b"stats\r\n");
        let text = self.read_to("END\r\n");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
    }

    /// Asks for a line of `stats` until its value is right: the work of another thread of the
    /// server may be counted after its answer has come.
    #[track_caller]
    pub fn wait_for_stat(&mut self, name: &str, is_right: impl Fn(u64) -> bool) {
        let mut last = 0;
        for _ in 0..LOOKS_MAX {
            last = self.stat(name);
            if is_right(last) {
                return;
            }
            std::thread::yield_now();
        }
        panic!("{name} stays {last}");
    }

    /// Expects the end of the connection.
    #[track_caller]
    pub fn expect_end(&mut self) {
        let mut rest = Vec::new();
        // A reset is an end too: the server closed with bytes unread.
        let read = self.stream.read_to_end(&mut rest);
        let kind = read.err().map(|error| error.kind());
        assert!(kind.is_none_or(|kind| kind == ErrorKind::ConnectionReset), "{kind:?}");
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }
}
