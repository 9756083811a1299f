//! What the program writes to standard output and standard error.
//!
//! `println!` and `eprintln!` panic where the write fails, which would end a server because the
//! disk under its log is full, or because whoever read its output has gone. A line that cannot be
//! written is lost instead. Lines of several threads do not mix.
//!
//! Nor does a server wait for who reads its log: a pipe that is full because a collector hangs, or
//! a terminal that is held, would stop one worker after the other, and the thread that is to save
//! memory at the end. What finds no room is lost, and counted in a line of its own as soon as there
//! is room again.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::Duration;

use ::io::poll::is_writable;
use stdx::sync::lock;

/// A pipe in which there is any room takes so many bytes without waiting (`PIPE_BUF`).
const PIECE_BYTES: usize = 4096;

/// So long it is waited for room while nobody is served: what keeps a server from starting is worth
/// it, and so is how it ended.
const PATIENCE: Duration = Duration::from_secs(1);

/// Behind it, one line at a time is written.
static STANDARD_ERROR: Mutex<Lines> = Mutex::new(Lines { lost: 0, is_cut: false });

/// What has become of the lines before.
#[derive(Debug)]
struct Lines {
    /// So many found no room since one did.
    lost: u64,
    /// The last one that was begun has not ended.
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

/// Writes until there is no room, within `patience`, or an error; returns how many bytes that was.
fn write_what_fits(target: &mut (impl Write + AsFd), bytes: &[u8], patience: Duration) -> usize {
    let mut written = 0;
    while written < bytes.len() && is_writable(target.as_fd(), patience) {
        let piece = &bytes[written..bytes.len().min(written + PIECE_BYTES)];
        match target.write(piece) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // There is nobody else to tell.
            Err(_) => break,
        }
    }
    written
}

/// Writes a line to standard error, before anybody is served or after; it may wait a moment.
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

/// Writes what was asked for to standard output. Who has stopped reading it has had enough.
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
    fn what_nobody_reads_is_lost_and_counted() {
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
