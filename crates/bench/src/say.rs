//! What the program writes to standard output.
//!
//! `println!` panics where the write fails, as it does where whoever reads the output has had
//! enough, such as `head`. To them everything was said, and the program ends as usual.

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
    fn who_has_read_enough_is_no_error_and_a_full_disk_is() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        put(&mut writer, "a line").expect("somebody reads");
        drop(reader);
        put(&mut writer, "another").expect("nobody wants more");
        let full = File::options().write(true).open("/dev/full");
        let failure = put(&mut full.expect("Linux has it"), "a line").expect_err("no room");
        assert!(failure.to_string().starts_with("writing the output: "), "{failure}");
    }
}
