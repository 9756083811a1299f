//! A file that is written whole or not at all: its bytes go to a file beside it, which is renamed
//! at the end. It is compressed by zstd if its name ends in `.zst`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};
use crate::server::scratch::Scratch;

/// zstd's default level: traces are written once and read often, but not so often.
const ZSTD_LEVEL: i32 = 3;

/// A file that is being written; if this is dropped before [`Output::finish`], or the process is
/// interrupted, nothing is left.
pub struct Output {
    path: PathBuf,
    partial: Scratch,
    writer: Option<Writer>,
}

enum Writer {
    Plain(BufWriter<File>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl Output {
    /// Creates a file.
    pub fn create(path: &Path) -> Outcome<Output> {
        let doing = || Failure::io(format!("writing {}", path.display()));
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = Scratch::at(PathBuf::from(partial));
        let file = File::create(partial.path()).map_err(doing())?;
        let file = BufWriter::with_capacity(64 << 10, file);
        let writer = if path.extension().is_some_and(|extension| extension == "zst") {
            let mut encoder = zstd::Encoder::new(file, ZSTD_LEVEL).map_err(doing())?;
            encoder.include_checksum(true).map_err(doing())?;
            Writer::Zstd(encoder)
        } else {
            Writer::Plain(file)
        };
        Ok(Output { path: path.to_owned(), partial, writer: Some(writer) })
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) -> Outcome<()> {
        let written = match &mut self.writer {
            Some(Writer::Plain(writer)) => writer.write_all(bytes),
            Some(Writer::Zstd(writer)) => writer.write_all(bytes),
            None => Err(io::Error::other("the file is finished")),
        };
        written.map_err(Failure::io(format!("writing {}", self.path.display())))
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> Outcome<()> {
        let doing = || Failure::io(format!("writing {}", self.path.display()));
        let mut writer = match self.writer.take() {
            Some(Writer::Plain(writer)) => writer,
            Some(Writer::Zstd(writer)) => writer.finish().map_err(doing())?,
            None => return Ok(()),
        };
        writer.flush().map_err(doing())?;
        fs::rename(self.partial.path(), &self.path).map_err(doing())
    }
}

#[cfg(test)]
mod tests {
    use super::Output;
    use crate::trace::testing::Folder;

    #[test]
    fn a_file_appears_only_when_it_is_finished() {
        let folder = Folder::new();
        for name in ["a.txt", "a.txt.zst"] {
            let path = folder.path(name);
            let mut dropped = Output::create(&path).expect("a file");
            dropped.put(b"half").expect("room");
            drop(dropped);
            assert_eq!(folder.names(), Vec::<String>::new());
            let mut whole = Output::create(&path).expect("a file");
            whole.put(b"whole").expect("room");
            assert!(!path.exists());
            whole.finish().expect("room");
            assert_eq!(folder.names(), [name]);
            std::fs::remove_file(&path).expect("it is there");
        }
    }
}
