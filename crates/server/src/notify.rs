//! What systemd is told where it asks to be told (`Type=notify`): that the server serves, and that
//! it stops and how long that may take.
//!
//! A stop that saves takes as long as `save-seconds` says, which the unit's own limit need not
//! know: the server asks for that time as it stops.

use std::sync::atomic::Ordering;

use ::io::supervisor::SupervisorSocket;

use crate::server::Server;

/// The variable that names the socket.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Seconds that a stop may take beside saving: replies are sent, and the last write ends.
const STOP_SECONDS: u64 = 30;

/// Who started the server and wants to hear of it, if anybody does.
pub struct Supervisor(Option<SupervisorSocket>);

impl Supervisor {
    /// The one that the environment names.
    pub fn of_the_environment() -> Result<Self, String> {
        let socket = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(|name| {
            SupervisorSocket::new(&name)
                .map_err(|error| format!("{VARIABLE} names no socket: {error}"))
        });
        Ok(Self(socket.transpose()?))
    }

    /// The server serves.
    pub fn ready(&self, server: &Server) {
        let places = server.listening.join(" ");
        self.tell(server, &format!("READY=1\nSTATUS=Serving on {places}"));
    }

    /// The server stops, and saves what is in memory if it is to.
    pub fn stopping(&self, server: &Server) {
        let seconds = server.live.save_seconds.load(Ordering::Relaxed) + STOP_SECONDS;
        let lines = format!(
            "STOPPING=1\nSTATUS=Stopping\nEXTEND_TIMEOUT_USEC={}",
            seconds.saturating_mul(1_000_000)
        );
        self.tell(server, &lines);
    }

    /// A server that nobody hears of serves all the same.
    fn tell(&self, server: &Server, lines: &str) {
        if let Some(socket) = &self.0
            && let Err(error) = socket.tell(lines)
        {
            server.log(0, &format!("the supervisor of {VARIABLE} does not hear: {error}"));
        }
    }
}
