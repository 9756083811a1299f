//! Writing to standard output.
//!
//! `println!` panics where a write fails, as it does when the reader, such as `head`, closes the
//! pipe. That reader has all it wanted, so the program ends as usual.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::failure::{Failure, Outcome};

/// Writes a line, or more than one.
pub fn out(text: impl Display) -> Outcome<()> {
    put(&mut io::stdout().lock(), text)
}

fn put(output: &mut impl Write, text: impl Display) -> Outcome<()> {
    match output.write_all(format!("{text}\n").as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::io("writing the output")(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::put;

    #[test]
    fn a_closed_pipe_is_no_error_but_a_full_disk_is() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        put(&mut writer, "a line").expect("somebody reads");
        drop(reader);
        put(&mut writer, "another").expect("nobody wants more");
        let full = File::options().write(true).open("/dev/full");
        let failure = put(&mut full.expect("Linux has it"), "a line").expect_err("no room");
        assert!(failure.to_string().starts_with("writing the output: "), "{failure}");
    }
}
