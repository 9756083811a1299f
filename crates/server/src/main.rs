//! The cache server.
#![forbid(unsafe_code)]
mod options;
fn main() {
    match options::parse(std::env::args().skip(1)) {
        Ok(options::Command::Print(t)) => print!("{t}"),
        Ok(options::Command::Serve(_)) => {}
        Err(options::UsageError(e)) => eprintln!("{e}"),
    }
}
