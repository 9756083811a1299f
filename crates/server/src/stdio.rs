//! Output of the program to standard output and standard error.
//!
//! `println!` and `eprintln!` panic where the write fails, which would end a server because the
//! disk under its log is full, or because the reader of its output has gone. A line that cannot be
//! written is lost instead. Lines of several threads do not mix.
//!
//! Nor does a server wait for the reader of its log: a pipe that is full because a collector hangs,
//! or a terminal that is held, would stop one worker after the other, and the thread that has to
//! save memory at the end. A line that finds no room is lost, and counted in a line of its own as
//! soon as there is room again.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::Duration;

use ::io::poll::is_writable;
use stdx::sync::lock;

/// Bytes that a pipe with any room takes without waiting (`PIPE_BUF`).
const PIECE_BYTES: usize = 4096;

/// The longest wait for room while no client is served: the reason why a server does not start, or
/// how it ended, is worth it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Its lock has one line written at a time.
static STANDARD_ERROR: Mutex<Lines> = Mutex::new(Lines { lost: 0, is_cut: false });

/// The fate of earlier lines.
#[derive(Debug)]
struct Lines {
    /// Lines that found no room since one last did.
    lost: u64,
    /// The last line that was begun is incomplete.
    is_cut: bool,
}

impl Lines {
    /// Writes a line to `target` as far as it has room, within `patience`.
    fn write(&mut self, target: &mut (impl Write + AsFd), line: &str, patience: Duration) {
        let mut text = String::new();
        if self.is_cut {
            text.push('\n');
        }
        if self.lost > 0 {
            text.push_str(&format!("larder: {} lines were lost, as nobody read them\n", self.lost));
        }
        let before_bytes = text.len();
        text.push_str(line);
        text.push('\n');
        let written = write_what_fits(target, text.as_bytes(), patience);
        if written > 0 {
            self.is_cut = written < text.len();
        }
        // A line that is begun may tell enough.
        self.lost = if written > before_bytes { 0 } else { self.lost + 1 };
    }
}

/// Writes until there is no room, within `patience`, or an error; returns the number of bytes
/// written.
fn write_what_fits(target: &mut (impl Write + AsFd), bytes: &[u8], patience: Duration) -> usize {
    let mut written = 0;
    while written < bytes.len() && is_writable(target.as_fd(), patience) {
        let piece = &bytes[written..bytes.len().min(written + PIECE_BYTES)];
        match target.write(piece) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // There is nowhere else to report it.
            Err(_) => break,
        }
    }
    written
}

/// Writes a line to standard error while no client is served; it may wait a moment.
pub fn err(line: impl Display) {
    write(line, PATIENCE);
}

/// Writes a line to standard error if there is room for it.
pub fn err_at_once(line: impl Display) {
    write(line, Duration::ZERO);
}

fn write(line: impl Display, patience: Duration) {
    lock(&STANDARD_ERROR).write(&mut io::stderr(), &line.to_string(), patience);
}

/// Writes requested text to standard output. A reader that has closed it is no error.
pub fn out(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write the output: {error}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn unread_lines_are_lost_and_counted() {
        let (mut reader, mut writer) = io::pipe().expect("there are descriptors");
        let mut lines = Lines { lost: 0, is_cut: false };
        let mut write = |line: &str| {
            lines.write(&mut writer, line, Duration::ZERO);
            lines.lost
        };
        // Far more than a pipe holds: none of these waits.
        let long = "x".repeat(3 * PIECE_BYTES);
        let lost = (0..1000).map(|_| write(&long)).last().expect("there are some");
        assert!(lost > 900, "{lost}");
        let mut read = vec![0; 1 << 20];
        let count = reader.read(&mut read).expect("it is full");
        assert!(count > 3 * PIECE_BYTES, "{count}");
        assert_eq!(write("there"), 0);
        let count = reader.read(&mut read).expect("it has a line");
        let text = String::from_utf8_lossy(&read[..count]);
        let expected = format!("\nlarder: {lost} lines were lost, as nobody read them\nthere\n");
        assert!(text == expected || text == expected[1..], "{text}");
        drop(reader);
        assert_eq!(write("to nobody"), 1);
    }
}
