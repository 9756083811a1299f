//! Why a file cannot be a device. Each message names the file and the cause, for it is read by the
//! person who starts the server.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};

/// The cause that prevents opening a file or block device.
#[derive(Debug)]
pub enum OpenError {
    /// The path is a directory.
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// The path is something else that keeps no bytes: a socket, a pipe, a terminal.
    NotStorage {
        /// The path.
        path: PathBuf,
    },
    /// This process may not read and write there, or the file is read-only for all.
    Denied {
        /// The path.
        path: PathBuf,
        /// Which of these.
        source: io::Error,
    },
    /// The file system has too little room.
    NoSpace {
        /// The path.
        path: PathBuf,
        /// The bytes that the file was to have.
        wanted: u64,
    },
    /// Another process has it open as a device, or it is mounted.
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// There is a file of another length. Nothing was changed.
    OtherSize {
        /// The path.
        path: PathBuf,
        /// The bytes that the file has.
        found: u64,
        /// The bytes that it was to have.
        wanted: u64,
    },
    /// The block device is shorter than wanted.
    TooSmall {
        /// The path.
        path: PathBuf,
        /// The bytes that the block device has.
        found: u64,
        /// The bytes that it was to have at least.
        wanted: u64,
    },
    /// Anything else.
    Io {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl OpenError {
    /// The meaning of an error of the system for a file at `path` that is to have `wanted` bytes.
    pub(super) fn explain(path: &Path, wanted: u64, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.raw_os_error() {
            Some(libc::EISDIR) => Self::Directory { path },
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => Self::Denied { path, source },
            Some(libc::ENOSPC | libc::EDQUOT) => Self::NoSpace { path, wanted },
            Some(libc::EBUSY | libc::EWOULDBLOCK) => Self::InUse { path },
            _ => Self::Io { path, source },
        }
    }
}

impl Display for OpenError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path } => {
                write!(f, "{} is a directory; name a file in it", path.display())
            }
            Self::NotStorage { path } => {
                write!(f, "{} is neither a file nor a block device", path.display())
            }
            Self::Denied { path, source } => {
                write!(f, "{} cannot be read and written: {source}", path.display())
            }
            Self::NoSpace { path, wanted } => {
                write!(f, "there is no room for the {wanted} bytes of {}", path.display())
            }
            Self::InUse { path } => write!(f, "{} is in use", path.display()),
            Self::OtherSize { path, found, wanted } => {
                write!(
                    f,
                    "{} has {found} bytes, not the {wanted} wanted, and is left as it is: give \
                     its size, or remove it with what it holds",
                    path.display()
                )
            }
            Self::TooSmall { path, found, wanted } => {
                write!(f, "{} has only {found} bytes of the {wanted} wanted", path.display())
            }
            Self::Io { path, source } => {
                write!(f, "{} cannot be opened: {source}", path.display())
            }
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Denied { source, .. } | Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_file_and_the_cause() {
        let says = |code: i32, words: &str| {
            let error = io::Error::from_raw_os_error(code);
            let message = OpenError::explain(Path::new("/cache/file"), 8192, error).to_string();
            assert!(message.contains("/cache/file") && message.contains(words), "{message}");
        };
        says(libc::EISDIR, "is a directory");
        says(libc::EACCES, "Permission denied");
        says(libc::EROFS, "Read-only file system");
        says(libc::ENOSPC, "no room for the 8192 bytes");
        says(libc::EDQUOT, "no room for the 8192 bytes");
        says(libc::EWOULDBLOCK, "in use");
        says(libc::EBUSY, "in use");
        says(libc::EIO, "Input/output error");
        let other =
            OpenError::OtherSize { path: PathBuf::from("/cache/file"), found: 1, wanted: 2 };
        assert!(other.to_string().contains("give its size, or remove it"), "{other}");
    }
}
