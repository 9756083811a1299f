//! Helpers for tests of traces: a temporary folder, a small trace, and files in memory.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::format::{self, Format};
use super::source::Source;
use super::{Operation, Request, Trace};
use crate::failure::Outcome;

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// An empty folder for one test.
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one.
    pub fn new() -> Folder {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("larder-bench-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("the folder for temporary files can be written to");
        Folder(path)
    }

    /// Returns the path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file into it.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("the folder can be written to");
        path
    }

    /// Returns the names of the files in it.
    pub fn names(&self) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("the folder can be read").file_name().to_string_lossy().into_owned()
        };
        fs::read_dir(&self.0).expect("the folder is there").map(name).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Six requests for three objects, with every field in use but costs.
pub fn example() -> Trace {
    let request = |time_s, object: u32, operation, ttl_s| Request {
        time_s,
        object,
        value_bytes: 100 + object,
        ttl_s,
        cost_us: 0,
        key_bytes: 20 + object as u16,
        operation,
    };
    let requests = vec![
        request(0, 0, Operation::Get, 0),
        request(0, 0, Operation::Set, 3600),
        request(1, 1, Operation::Get, 0),
        request(5, 0, Operation::Get, 0),
        request(5, 2, Operation::Add, 60),
        request(9, 1, Operation::Delete, 0),
    ];
    Trace { name: "example".into(), requests, objects: 3 }
}

/// Returns the file of a trace.
pub fn packed(trace: &Trace, format: Format) -> Vec<u8> {
    let folder = Folder::new();
    let path = folder.path("file");
    format::write(trace, &path, Some(format)).expect("the format can be written");
    fs::read(Path::new(&path)).expect("it was written")
}

/// Returns the trace of a file.
pub fn unpacked(bytes: &[u8], format: Format, requests_max: Option<u64>) -> Outcome<Trace> {
    let mut source = Source::new("file".into(), Cursor::new(bytes.to_vec()))?;
    format::read_as(&mut source, format, requests_max)
}
