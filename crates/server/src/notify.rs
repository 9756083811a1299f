//! What systemd is told where it asks to be told (`Type=notify`): that the server serves, and that
//! it restores memory or stops, and how long that may take.
//!
//! A stop that saves takes as long as `save-seconds` says, and a start as long as there is to read,
//! which the unit's own limits need not know: the server asks for that time. A limit of the unit
//! that is longer holds.

use std::sync::atomic::Ordering;

use ::io::supervisor::SupervisorSocket;

use crate::server::Server;

/// The variable that names the socket.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Seconds that a stop may take beside saving: replies are sent, and the last write ends.
const STOP_SECONDS: u64 = 30;

/// Seconds that a start may take beside restoring: memory is reserved, and the file removed.
const START_SECONDS: u64 = 30;

/// Bytes of a memory file that are restored in a second at the least. Two threads on a machine with
/// other work restored 17 MB.
const RESTORED_BYTES_PER_S: u64 = 1 << 20;

/// Who started the server and wants to hear of it, if anybody does.
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

    /// The server restores a memory file of so many bytes before it serves.
    pub fn restoring(&self, server: &Server, file_bytes: u64) {
        let seconds = START_SECONDS + file_bytes.div_ceil(RESTORED_BYTES_PER_S);
        self.tell(server, &format!("STATUS=Restoring memory\n{}", extension(seconds)));
    }

    /// The server serves.
    pub fn ready(&self, server: &Server) {
        let places = server.listening.join(" ");
        self.tell(server, &format!("READY=1\nSTATUS=Serving on {places}"));
    }

    /// The server stops, and saves what is in memory if it is to.
    pub fn stopping(&self, server: &Server) {
        let seconds = server.live.save_seconds.load(Ordering::Relaxed) + STOP_SECONDS;
        self.tell(server, &format!("STOPPING=1\nSTATUS=Stopping\n{}", extension(seconds)));
    }

    /// A server that nobody hears of serves all the same.
    fn tell(&self, server: &Server, lines: &str) {
        if let Some(socket) = &self.0
            && let Err(error) = socket.tell(lines)
        {
            server.log(0, &format!("cannot notify the supervisor of {VARIABLE}: {error}"));
        }
    }
}

/// Asks for so much time.
fn extension(seconds: u64) -> String {
    format!("EXTEND_TIMEOUT_USEC={}", seconds.saturating_mul(1_000_000))
}
