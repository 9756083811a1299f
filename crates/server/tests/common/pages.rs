//! The admin port from its clients' side.

#![allow(dead_code, reason = "every test binary uses a part of this")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::common::{PATIENCE, Server};

/// A server with an admin port, on free ports.
pub fn start(options: &[&str]) -> (Server, SocketAddr) {
    let mut server = Server::start(&[&["--admin-port", "0"], options].concat());
    let address = of(&mut server);
    (server, address)
}

/// The admin port of a server that has just been started. When this returns it answers, so that
/// clients are served, and what they do from now on is observed.
pub fn of(server: &mut Server) -> SocketAddr {
    let address = loop {
        let line = server.next_line();
        assert!(!line.is_empty(), "it says where the page is");
        if let Some(address) = line.trim().strip_prefix("admin page on http://") {
            break address.trim_end_matches('/').parse().expect("an address");
        }
    };
    assert_eq!(get(address, "/healthz").0, 200);
    assert_eq!(server.stat("rejected_connections"), 0);
    address
}

/// Sends bytes and reads to the end of the connection.
pub fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers and closes");
    answer
}

/// The status, the header and the body of a page.
pub fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    let answer = exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a header ends");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), head.to_lowercase(), body.to_owned())
}

/// The content of `/api/stats`.
pub fn stats(address: SocketAddr) -> Value {
    let (status, _, body) = get(address, "/api/stats");
    assert_eq!(status, 200);
    serde_json::from_str(&body).expect("it is JSON")
}
