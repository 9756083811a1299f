//! Notifications to systemd where it asks for them (`Type=notify`): that the server serves, and
//! that it restores memory or stops, and how long that may take.
//!
//! A stop that saves takes as long as `save-seconds` says, and a start as long as the memory file
//! takes to read, which the unit's own limits need not know: the server asks for that time. A
//! longer limit of the unit stays in force.

use std::sync::atomic::Ordering;

use ::io::supervisor::SupervisorSocket;

use crate::server::Server;

/// The variable that names the socket.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Seconds that a stop may take beside saving: replies are sent, and the last write ends.
const STOP_SECONDS: u64 = 30;

/// Seconds that a start may take beside restoring: memory is reserved, and the file removed.
const START_SECONDS: u64 = 30;

/// The least bytes of a memory file restored in a second. Two threads on a machine with other work
/// restored 17 MB.
const RESTORED_BYTES_PER_S: u64 = 1 << 20;

/// The supervisor that started the server, if it wants to be notified.
pub struct Supervisor(Option<SupervisorSocket>);

impl Supervisor {
    /// The one that the environment names.
    pub fn of_the_environment() -> Result<Self, String> {
        let socket = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(|name| {
            SupervisorSocket::new(&name)
                .map_err(|error| format!("{VARIABLE} does not name a socket: {error}"))
        });
        Ok(Self(socket.transpose()?))
    }

    /// Notifies that the server restores a memory file of this many bytes before it serves.
    pub fn restoring(&self, server: &Server, file_bytes: u64) {
        let seconds = START_SECONDS + file_bytes.div_ceil(RESTORED_BYTES_PER_S);
        self.tell(server, &format!("STATUS=Restoring memory\n{}", extension(seconds)));
    }

    /// Notifies that the server serves.
    pub fn ready(&self, server: &Server) {
        let places = server.listening.join(" ");
        self.tell(server, &format!("READY=1\nSTATUS=Serving on {places}"));
    }

    /// Notifies that the server stops, and saves memory if it is to.
    pub fn stopping(&self, server: &Server) {
        let seconds = server.live.save_seconds.load(Ordering::Relaxed) + STOP_SECONDS;
        self.tell(server, &format!("STOPPING=1\nSTATUS=Stopping\n{}", extension(seconds)));
    }

    /// Sends lines; a server that fails to notify serves all the same.
    fn tell(&self, server: &Server, lines: &str) {
        if let Some(socket) = &self.0
            && let Err(error) = socket.tell(lines)
        {
            server.log(0, &format!("cannot notify the supervisor of {VARIABLE}: {error}"));
        }
    }
}

/// Asks for this much time.
fn extension(seconds: u64) -> String {
    format!("EXTEND_TIMEOUT_USEC={}", seconds.saturating_mul(1_000_000))
}
