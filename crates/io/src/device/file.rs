//! A device on a file or a block device.
//!
//! Pages bypass the kernel's page cache where the file system allows it: the tiers above choose
//! which of them are cached, and a second copy in the kernel would take their memory. Notes are a
//! few bytes at any place, which direct I/O cannot write, so they go through the page cache, where
//! they outlive the process as well. The two never share a page, so neither finds an old copy of
//! what the other wrote.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::open::{Descriptors, Request};
use super::{Device, OpenError, Opened, PAGE_BYTES, Page, range};
use crate::lock::make_private;

/// A file or block device, locked for as long as this lives.
#[derive(Debug)]
pub struct FileDevice {
    files: Descriptors,
    pages: u64,
}

impl FileDevice {
    /// Opens the file at `path`, of `bytes` bytes, a multiple of the page. A file that is missing
    /// or empty is made this long, with its room reserved; one of another length is left as it is
    /// and refused. A block device may be longer.
    pub fn open(path: &Path, bytes: u64) -> Result<(Self, Opened), OpenError> {
        Self::begin(Request { path, bytes, keeps_content: true, wants_direct: true })
    }

    /// Opens like [`FileDevice::open`], but drops a file's content, however long it is. A block
    /// device's content stays, for the caller to write over.
    pub fn recreate(path: &Path, bytes: u64) -> Result<(Self, Opened), OpenError> {
        Self::begin(Request { path, bytes, keeps_content: false, wants_direct: true })
    }

    fn begin(request: Request<'_>) -> Result<(Self, Opened), OpenError> {
        assert!(request.bytes > 0 && request.bytes.is_multiple_of(PAGE_BYTES as u64));
        let (files, opened) = request.open()?;
        Ok((Self { files, pages: request.bytes / PAGE_BYTES as u64 }, opened))
    }

    /// Whether it is a file that has no name any more, which disappears when this is dropped.
    pub fn is_deleted(&self) -> bool {
        let found = self.files.notes.metadata();
        found.is_ok_and(|found| found.is_file() && found.nlink() == 0)
    }

    /// Lets only its owner read or write a file, if that is the user that the process runs as.
    pub fn make_private(&self) -> io::Result<()> {
        make_private(&self.files.notes)
    }

    fn pages_file(&self) -> &File {
        self.files.pages.as_ref().unwrap_or(&self.files.notes)
    }
}

/// The calls of std continue after an interruption and after a partial transfer, and report an
/// early end.
impl Device for FileDevice {
    fn pages(&self) -> u64 {
        self.pages
    }

    fn read(&self, page: u64, target: &mut [Page]) -> io::Result<()> {
        let at = range::of_pages(self.pages, page, target.len())?;
        self.pages_file().read_exact_at(bytemuck::cast_slice_mut(target), at)
    }

    fn write(&self, page: u64, source: &[Page]) -> io::Result<()> {
        let at = range::of_pages(self.pages, page, source.len())?;
        self.pages_file().write_all_at(bytemuck::cast_slice(source), at)
    }

    fn read_note(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
        range::of_note(self.pages, at, target.len())?;
        self.files.notes.read_exact_at(target, at)
    }

    fn write_note(&self, at: u64, source: &[u8]) -> io::Result<()> {
        range::of_note(self.pages, at, source.len())?;
        self.files.notes.write_all_at(source, at)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.pages_file().as_fd())
    }

    fn sync(&self) -> io::Result<()> {
        // Both descriptors are of one file, and so is everything written through either.
        self.files.notes.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    use tempfile::TempDir;

    use super::*;
    use crate::device::Pages;

    const BYTES: u64 = 16 * PAGE_BYTES as u64;

    fn folder() -> TempDir {
        tempfile::tempdir().unwrap()
    }

    fn filled(count: usize, byte: u8) -> Pages {
        let mut pages = Pages::zeroed(count);
        pages.bytes_mut().fill(byte);
        pages
    }

    fn read(device: &FileDevice, page: u64, count: usize) -> Pages {
        let mut pages = Pages::zeroed(count);
        device.read(page, pages.as_pages_mut()).unwrap();
        pages
    }

    /// Opens a file in both ways, the second like a system that refuses direct I/O.
    fn both_ways(path: &Path) -> [FileDevice; 2] {
        [(true, "direct"), (false, "cached")].map(|(wants_direct, name)| {
            let path = &path.join(name);
            let request = Request { path, bytes: BYTES, keeps_content: true, wants_direct };
            let (device, opened) = FileDevice::begin(request).unwrap();
            assert!(opened.is_new && (wants_direct || !opened.is_direct));
            device
        })
    }

    #[test]
    fn a_missing_file_is_made_with_its_room_and_for_its_owner_only() {
        let folder = folder();
        let path = folder.path().join("device");
        let (device, opened) = FileDevice::open(&path, BYTES).unwrap();
        assert!(opened.is_new);
        assert_eq!(device.pages(), 16);
        assert_eq!(read(&device, 0, 16), Pages::zeroed(16));
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.len(), found.mode() & 0o777), (BYTES, 0o600));
        assert!(found.blocks() * 512 >= BYTES);
    }

    /// Regression: room that a start had reserved before it was killed was missing for every later
    /// one, which found an empty file and no room on the device.
    #[test]
    fn room_reserved_for_a_file_that_was_not_lengthened_is_given_back() {
        let folder = folder();
        let path = folder.path().join("device");
        let file = fs::File::create(&path).unwrap();
        let reserved = 64 * BYTES;
        match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, reserved) {
            // Then it would not have been reserved either.
            Err(Errno::OPNOTSUPP) => return,
            made => made.unwrap(),
        }
        assert!(file.metadata().unwrap().blocks() * 512 >= reserved);
        let (_device, opened) = FileDevice::open(&path, BYTES).unwrap();
        assert!(opened.is_new);
        let found = file.metadata().unwrap();
        assert_eq!(found.len(), BYTES);
        assert!(found.blocks() * 512 < reserved, "{} blocks", found.blocks());
    }

    #[test]
    fn a_file_that_was_deleted_is_known_to_be() {
        let folder = folder();
        let path = folder.path().join("device");
        let (device, _) = FileDevice::open(&path, BYTES).unwrap();
        assert!(!device.is_deleted());
        fs::rename(&path, folder.path().join("other")).unwrap();
        assert!(!device.is_deleted());
        fs::remove_file(folder.path().join("other")).unwrap();
        assert!(device.is_deleted());
    }

    #[test]
    fn an_empty_file_counts_as_missing() {
        let folder = folder();
        let path = folder.path().join("device");
        fs::write(&path, []).unwrap();
        assert!(FileDevice::open(&path, BYTES).unwrap().1.is_new);
    }

    #[test]
    fn content_is_there_when_the_file_is_opened_again() {
        let folder = folder();
        let path = folder.path().join("device");
        let (device, first) = FileDevice::open(&path, BYTES).unwrap();
        device.write(3, filled(2, 7).as_pages()).unwrap();
        device.write_note(5, b"note").unwrap();
        device.sync().unwrap();
        drop(device);
        let (device, second) = FileDevice::open(&path, BYTES).unwrap();
        assert_eq!(second, Opened { is_new: false, ..first });
        assert_eq!(read(&device, 3, 2), filled(2, 7));
        let mut note = [0; 4];
        device.read_note(5, &mut note).unwrap();
        assert_eq!(&note, b"note");
    }

    #[test]
    fn a_file_that_is_open_cannot_be_opened_again() {
        let folder = folder();
        let path = folder.path().join("device");
        let (device, _) = FileDevice::open(&path, BYTES).unwrap();
        device.write(0, filled(1, 7).as_pages()).unwrap();
        let (opened, recreated) =
            (FileDevice::open(&path, BYTES), FileDevice::recreate(&path, BYTES));
        assert!(matches!(opened, Err(OpenError::InUse { .. })), "{opened:?}");
        assert!(matches!(recreated, Err(OpenError::InUse { .. })), "{recreated:?}");
        assert_eq!(read(&device, 0, 1), filled(1, 7));
        drop(device);
        FileDevice::open(&path, BYTES).unwrap();
    }

    #[test]
    fn a_file_of_another_size_is_refused_unchanged_and_can_be_recreated() {
        let folder = folder();
        let path = folder.path().join("device");
        fs::write(&path, "something dear").unwrap();
        let error = FileDevice::open(&path, BYTES).unwrap_err();
        let OpenError::OtherSize { found, wanted, .. } = error else { panic!("{error}") };
        assert_eq!((found, wanted), (14, BYTES));
        assert_eq!(fs::read(&path).unwrap(), b"something dear");
        let (device, opened) = FileDevice::recreate(&path, BYTES).unwrap();
        assert!(opened.is_new);
        assert_eq!(read(&device, 0, 16), Pages::zeroed(16));
    }

    #[test]
    fn a_path_that_cannot_be_a_device_is_refused_by_its_kind() {
        let folder = folder();
        let open = |path: &Path| FileDevice::open(path, BYTES).unwrap_err();
        let error = open(folder.path());
        assert!(matches!(error, OpenError::Directory { .. }), "{error}");
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        for path in [&path, Path::new("/dev/null")] {
            let error = open(path);
            assert!(matches!(error, OpenError::NotStorage { .. }), "{error}");
        }
        for path in [&folder.path().join("missing").join("device"), Path::new("/proc/uptime")] {
            let error = open(path);
            assert!(matches!(error, OpenError::Io { .. } | OpenError::Denied { .. }), "{error}");
        }
    }

    #[test]
    fn a_file_without_room_is_refused_and_can_be_opened_smaller() {
        let folder = folder();
        let path = folder.path().join("device");
        let system = rustix::fs::statvfs(folder.path()).unwrap();
        let wanted_bytes = (system.f_blocks * system.f_frsize + 1).next_multiple_of(BYTES);
        let error = FileDevice::open(&path, wanted_bytes).unwrap_err();
        let OpenError::NoSpace { wanted, .. } = error else { panic!("{error}") };
        assert_eq!(wanted, wanted_bytes);
        // Regression: an empty file stayed.
        assert!(!path.exists());
        fs::write(&path, []).unwrap();
        let error = FileDevice::open(&path, wanted_bytes).unwrap_err();
        assert!(matches!(error, OpenError::NoSpace { .. }), "{error}");
        let found = fs::metadata(&path).expect("it was there before");
        assert_eq!((found.len(), found.blocks()), (0, 0));
        assert!(FileDevice::open(&path, BYTES).unwrap().1.is_new);
    }

    #[test]
    fn a_link_leads_to_its_file() {
        let folder = folder();
        let (path, link) = (folder.path().join("device"), folder.path().join("link"));
        symlink(&path, &link).unwrap();
        let (device, _) = FileDevice::open(&link, BYTES).unwrap();
        let error = FileDevice::open(&path, BYTES).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
        drop(device);
        assert!(!FileDevice::open(&path, BYTES).unwrap().1.is_new);
    }

    #[test]
    fn notes_and_pages_side_by_side_leave_each_other_alone() {
        let folder = folder();
        for device in both_ways(folder.path()) {
            let mut note = [0; 3];
            for round in 1..=20_u8 {
                let at = PAGE_BYTES as u64 + u64::from(round) * 3;
                device.write(0, filled(1, round).as_pages()).unwrap();
                device.write_note(at, &[round; 3]).unwrap();
                device.write(2, filled(3, round + 100).as_pages()).unwrap();
                assert_eq!(read(&device, 0, 1), filled(1, round));
                assert_eq!(read(&device, 2, 3), filled(3, round + 100));
                for earlier in 1..=round {
                    let at = PAGE_BYTES as u64 + u64::from(earlier) * 3;
                    device.read_note(at, &mut note).unwrap();
                    assert_eq!(note, [earlier; 3]);
                }
            }
        }
    }

    #[test]
    fn a_range_beyond_the_device_is_refused_and_a_file_cut_short_ends_early() {
        let folder = folder();
        for (device, name) in both_ways(folder.path()).iter().zip(["direct", "cached"]) {
            let mut pages = Pages::zeroed(2);
            let beyond = [
                device.read(15, pages.as_pages_mut()),
                device.write(15, pages.as_pages()),
                device.write_note(BYTES - 1, b"ab"),
                device.read_note(u64::MAX, &mut [0; 2]),
            ];
            for result in beyond {
                assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
            }
            let file = File::options().write(true).open(folder.path().join(name)).unwrap();
            file.set_len(BYTES - PAGE_BYTES as u64).unwrap();
            let error = device.read(14, pages.as_pages_mut()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    /// Memory file systems refuse direct I/O before Linux 6.6 and take it since; either is right.
    #[test]
    fn a_file_system_in_memory_will_do() {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
        let path = folder.path().join("device");
        let (device, _) = FileDevice::open(&path, BYTES).unwrap();
        device.write(3, filled(2, 7).as_pages()).unwrap();
        device.sync().unwrap();
        drop(device);
        let (device, opened) = FileDevice::open(&path, BYTES).unwrap();
        assert!(!opened.is_new);
        assert_eq!(read(&device, 3, 2), filled(2, 7));
    }
}
