//! Servers for tests, each on a port of its own, ended with the test. Where a server is not
//! installed or built, the test reports that and leaves it out.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use larder_bench_tests::program;

/// Time for a server to start listening.
const START_MAX: Duration = Duration::from_secs(10);

/// A process that ends with the test.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running server.
pub struct Server {
    _child: Ended,
    /// The port it listens on.
    pub port: u16,
}

/// Returns a port that nobody listens on.
pub fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    free.local_addr().expect("it is bound").port()
}

impl Server {
    /// Starts memcached, if it is installed.
    pub fn memcached() -> Option<Server> {
        let arguments = ["-t", "1", "-U", "0", "-u", "root", "-l", "127.0.0.1", "-p"];
        Server::start(installed("memcached")?, &arguments)
    }

    /// Starts Redis, if it is installed.
    pub fn redis() -> Option<Server> {
        let arguments = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port"];
        Server::start(installed("redis-server")?, &arguments)
    }

    /// Starts Larder, if it was built beside the program under test.
    pub fn larder() -> Option<Server> {
        let larder = program().with_file_name("larder");
        if !larder.is_file() {
            eprintln!("larder is not built: not tested");
            return None;
        }
        Server::start(larder, &["-t", "1", "-p"])
    }

    fn start(program: PathBuf, arguments: &[&str]) -> Option<Server> {
        let port = free_port();
        let child = Command::new(program)
            .args(arguments)
            .arg(port.to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("it is installed");
        let server = Server { _child: Ended(child), port };
        let started = Instant::now();
        while let Err(error) = TcpStream::connect(("127.0.0.1", port)) {
            assert!(started.elapsed() < START_MAX, "no server on port {port}: {error}");
            std::thread::yield_now();
        }
        Some(server)
    }
}

fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    if found.is_none() {
        eprintln!("{name} is not installed: not tested");
    }
    found
}
