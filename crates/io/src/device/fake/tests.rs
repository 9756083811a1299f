//! The fake's promises: each fault happens, and the seed decides when.

use super::*;
use crate::device::Pages;

const PAGES: u64 = 8;
const NOTE_AT: u64 = 7 * PAGE_BYTES as u64;

fn filled(count: usize, byte: u8) -> Pages {
    let mut pages = Pages::zeroed(count);
    pages.bytes_mut().fill(byte);
    pages
}

/// The content of the device.
fn content(device: &FakeDevice) -> Pages {
    let mut pages = Pages::zeroed(PAGES as usize);
    let whole = device.reopened(0, Faults::default());
    whole.read(0, pages.as_pages_mut()).unwrap();
    pages
}

/// The result of a call, as text.
fn told(result: io::Result<()>) -> String {
    result.map_or_else(|error| error.to_string(), |()| "done".to_string())
}

/// Writes and reads pages and notes of rising bytes, and returns how each call ended.
fn run(device: &FakeDevice) -> Vec<(String, Vec<u8>)> {
    let mut log = Vec::new();
    for round in 1..=100 {
        let (mut pages, mut note) = (Pages::zeroed(4), [0; 64]);
        log.push((told(device.write(1, filled(4, round).as_pages())), Vec::new()));
        log.push((told(device.write_note(NOTE_AT, &[round; 64])), Vec::new()));
        let read = told(device.read(1, pages.as_pages_mut()));
        log.push((read, pages.bytes().to_vec()));
        log.push((told(device.read_note(NOTE_AT, &mut note)), note.to_vec()));
    }
    log
}

#[test]
fn without_faults_it_holds_what_is_written_and_counts_the_calls() {
    let device = FakeDevice::new(PAGES, 1, Faults::default());
    assert!(run(&device).iter().all(|(ended, _)| ended == "done"));
    device.sync().unwrap();
    let held = content(&device);
    assert_eq!(held.as_pages()[1..5], *filled(4, 100).as_pages());
    assert_eq!(held.bytes()[NOTE_AT as usize..][..65], *[[100; 64].as_slice(), &[0]].concat());
    let expected = Counts {
        reads: 100,
        pages_read: 400,
        writes: 100,
        pages_written: 400,
        note_reads: 100,
        note_writes: 100,
        syncs: 1,
    };
    assert_eq!(device.counts(), expected);
}

#[test]
fn the_seed_decides_which_calls_fail_and_how() {
    let some = Faults {
        read_error: 0.1,
        short_read: 0.1,
        bit_flip: 0.1,
        write_error: 0.1,
        torn_write: 0.1,
        full: 0.1,
    };
    let [first, again, other] = [7, 7, 8].map(|seed| FakeDevice::new(PAGES, seed, some));
    let log = run(&first);
    assert!(log == run(&again) && content(&first) == content(&again));
    assert!(log != run(&other) && content(&first) != content(&other));
    for words in ["done", "Input/output", "No space", "unexpected end of file"] {
        assert!(log.iter().any(|(ended, _)| ended.contains(words)), "{words}");
    }
}

#[test]
fn a_read_fails_ends_early_or_has_one_wrong_bit_and_changes_nothing() {
    let device = FakeDevice::new(PAGES, 3, Faults::default());
    let written = filled(PAGES as usize, 7);
    device.write(0, written.as_pages()).unwrap();
    let read = |faults: Faults| {
        device.set_faults(faults);
        let mut pages = Pages::zeroed(PAGES as usize);
        let result = device.read(0, pages.as_pages_mut());
        (result, pages)
    };
    let (result, pages) = read(Faults { read_error: 1.0, ..Faults::default() });
    assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(pages, Pages::zeroed(PAGES as usize));
    let (result, pages) = read(Faults { short_read: 1.0, ..Faults::default() });
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    let filled = pages.bytes().iter().take_while(|&&byte| byte == 7).count();
    assert!(filled < pages.bytes().len());
    assert!(pages.bytes()[filled..].iter().all(|&byte| byte == 0));
    let (result, pages) = read(Faults { bit_flip: 1.0, ..Faults::default() });
    result.unwrap();
    let both = pages.bytes().iter().zip(written.bytes());
    assert_eq!(both.map(|(read, held)| (read ^ held).count_ones()).sum::<u32>(), 1);
    assert_eq!(content(&device), written);
}

#[test]
fn a_write_that_fails_or_finds_no_room_writes_nothing() {
    for (write_error, full, code) in [(1.0, 0.0, libc::EIO), (0.0, 1.0, libc::ENOSPC)] {
        let faults = Faults { write_error, full, ..Faults::default() };
        let device = FakeDevice::new(PAGES, 3, faults);
        let pages = device.write(0, filled(4, 7).as_pages()).unwrap_err();
        let note = device.write_note(NOTE_AT, &[7; 64]).unwrap_err();
        assert_eq!([pages.raw_os_error(), note.raw_os_error()], [Some(code); 2]);
        assert_eq!(content(&device), Pages::zeroed(PAGES as usize));
    }
}

/// Checks that pages 1 to 4 hold zeros or 7, and that a beginning of the note's zeros became 7.
/// Returns how many pages and bytes are new.
fn count_new(device: &FakeDevice) -> (usize, usize) {
    let held = content(device);
    let (old, new) = (filled(1, 0), filled(1, 7));
    let (mut new_pages, note) = (0, &held.bytes()[NOTE_AT as usize..]);
    for page in held.as_pages() {
        let is_new = page == &new.as_pages()[0];
        assert!(is_new || page == &old.as_pages()[0] || page.0 == *note);
        new_pages += usize::from(is_new);
    }
    let new_bytes = note.iter().take_while(|&&byte| byte == 7).count();
    assert!(note[new_bytes..].iter().all(|&byte| byte == 0));
    (new_pages, new_bytes)
}

#[test]
fn a_torn_write_leaves_some_of_its_pages_or_the_beginning_of_a_note() {
    let torn = Faults { torn_write: 1.0, ..Faults::default() };
    let (mut pages_seen, mut bytes_seen) = ([false; 5], [false; 4]);
    for seed in 0..200 {
        let device = FakeDevice::new(PAGES, seed, torn);
        device.write(1, filled(4, 7).as_pages()).unwrap_err();
        device.write_note(NOTE_AT, &[7; 3]).unwrap_err();
        let (new_pages, new_bytes) = count_new(&device);
        (pages_seen[new_pages], bytes_seen[new_bytes]) = (true, true);
        // The device lives on.
        device.set_faults(Faults::default());
        device.write(1, filled(4, 9).as_pages()).unwrap();
    }
    assert!(pages_seen.iter().chain(&bytes_seen).all(|&seen| seen));
}

#[test]
fn after_a_kill_all_calls_fail_and_the_next_process_finds_whole_pages() {
    let mut pages_seen = [false; 5];
    for seed in 0..200 {
        let device = FakeDevice::new(PAGES, seed, Faults::default());
        device.kill_at(2);
        device.write_note(NOTE_AT, &[7; 3]).unwrap();
        assert!(!device.is_killed());
        device.write(1, filled(4, 7).as_pages()).unwrap_err();
        assert!(device.is_killed());
        let calls = [
            device.read(0, Pages::zeroed(1).as_pages_mut()),
            device.write(0, filled(1, 9).as_pages()),
            device.read_note(NOTE_AT, &mut [0; 3]),
            device.write_note(NOTE_AT, &[9; 3]),
            device.sync(),
        ];
        assert!(calls.iter().all(Result::is_err), "{calls:?}");
        let next = device.reopened(seed, Faults::default());
        let (new_pages, new_bytes) = count_new(&next);
        pages_seen[new_pages] = true;
        assert_eq!(new_bytes, 3);
        next.write(1, filled(4, 9).as_pages()).unwrap();
        assert_eq!(next.counts().writes, 1);
    }
    assert!(pages_seen.iter().all(|&seen| seen));
}

#[test]
fn a_kill_within_a_note_leaves_its_beginning() {
    let mut bytes_seen = [false; 4];
    for seed in 0..100 {
        let device = FakeDevice::new(PAGES, seed, Faults::default());
        device.kill_at(1);
        device.write_note(NOTE_AT, &[7; 3]).unwrap_err();
        bytes_seen[count_new(&device).1] = true;
    }
    assert!(bytes_seen.iter().all(|&seen| seen));
}

#[test]
fn damage_stays() {
    let device = FakeDevice::new(PAGES, 1, Faults::default());
    device.flip(2, 9, 0x41);
    let mut byte = [0];
    device.read_note(2 * PAGE_BYTES as u64 + 9, &mut byte).unwrap();
    assert_eq!(byte, [0x41]);
}

#[test]
fn a_range_beyond_the_device_is_refused() {
    let device = FakeDevice::new(PAGES, 1, Faults::default());
    let mut pages = Pages::zeroed(2);
    let refused = [
        device.read(PAGES - 1, pages.as_pages_mut()),
        device.write(u64::MAX, pages.as_pages()),
        device.write_note(PAGES * PAGE_BYTES as u64, &[1]),
        device.read_note(PAGES * PAGE_BYTES as u64 - 1, &mut [0; 2]),
    ];
    for result in refused {
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
