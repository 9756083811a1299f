//! Notifications of a server to systemd.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use crate::common::Server;

/// A message that has not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(20);

fn message(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 1000];
    let length = socket.recv(&mut bytes).expect("a message");
    String::from_utf8(bytes[..length].to_vec()).expect("UTF-8")
}

#[test]
fn a_server_notifies_readiness_and_asks_for_time_to_save_and_restore() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    let saved = folder.path().join("saved");
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["-p", "0", "--save-seconds", "200", "-e"]).arg(&saved);
    let mut server = Server::start_by(command.env("NOTIFY_SOCKET", &path));
    let address = server.address();
    assert_eq!(message(&socket), format!("READY=1\nSTATUS=Serving on tcp:{address}"));
    server.connect().ask("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    server.signal("TERM");
    let stopping = "STOPPING=1\nSTATUS=Stopping\nEXTEND_TIMEOUT_USEC=230000000";
    assert_eq!(message(&socket), stopping);
    assert!(server.wait().success());
    // A start that has to read it first may take longer than the unit allows.
    let bytes = fs::metadata(&saved).expect("it is saved").len();
    assert!((1..1 << 20).contains(&bytes), "{bytes}");
    let server = Server::start_by(&mut command);
    let restoring = "STATUS=Restoring memory\nEXTEND_TIMEOUT_USEC=31000000";
    assert_eq!(message(&socket), restoring);
    assert_eq!(message(&socket), format!("READY=1\nSTATUS=Serving on tcp:{}", server.address()));
}

#[test]
fn a_supervisor_that_is_gone_stops_nobody_and_nonsense_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    let nobody = folder.path().join("nobody");
    let mut server = Server::start_by(command.args(["-p", "0"]).env("NOTIFY_SOCKET", nobody));
    server.connect().ask("mn\r\n", "MN\r\n");
    server.signal("TERM");
    assert!(server.wait().success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    let output = command.args(["-p", "0"]).env("NOTIFY_SOCKET", "nonsense").output();
    assert_eq!(output.expect("it runs").status.code(), Some(1));
}
