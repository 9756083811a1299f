//! Columns where the kernel gives no huge pages: by the colours of small pages if this process may
//! read their frames, and by offsets if it may not, as statistics say.

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt;

use common::Server;

/// Whether the kernel shows a process of this user the frame of a page that it has just written.
fn frames_are_told() -> bool {
    let page = Box::new(1_u8);
    let entry_at = std::ptr::from_ref::<u8>(&page) as u64 / 4096 * 8;
    let mut entry = [0; 8];
    let file = File::open("/proc/self/pagemap").ok();
    let is_read = file.is_some_and(|file| file.read_exact_at(&mut entry, entry_at).is_ok());
    assert_eq!(*page, 1);
    // The lowest 55 bits are the frame's number.
    is_read && u64::from_ne_bytes(entry) << 9 != 0
}

fn has(text: &str, line: &str) -> bool {
    text.contains(&format!("STAT {line}\r\n"))
}

#[test]
fn columns_use_frames_of_small_pages_or_report_the_refusal() {
    // Every server that this test starts inherits it.
    rustix::thread::disable_transparent_huge_pages(true).expect("Linux knows it");
    // 32 colours, and slabs of 256 KiB, in which a column is half a slab.
    let options = ["--repartition", "--cache-geometry", "2048x16x64", "-m", "128", "-v"];
    let (server, mut log) = Server::start_logged(&options);
    let mut client = server.connect();
    let value = "v".repeat(200);
    for number in 0..4000 {
        client.send(format!("set k{number} 0 0 200 noreply\r\n{value}\r\n").as_bytes());
    }
    client.ask("mn\r\n", "MN\r\n");
    client.send(b"stats settings\r\n");
    let settings = client.read_to("END\r\n");
    let mut said = String::new();
    // Behind how far the memory limit may be raised.
    while !said.contains("columns are made of") {
        let bytes = std::io::BufRead::read_line(&mut log, &mut said);
        assert!(bytes.is_ok_and(|bytes| bytes > 0), "it says what columns go by: {said}");
    }
    if !frames_are_told() {
        assert!(has(&settings, "repartition_frames refused"), "{settings}");
        assert!(has(&settings, "repartition_pages small"), "{settings}");
        assert!(!settings.contains("repartition_right_share"), "{settings}");
        assert!(said.contains("as frames are hidden"), "{said}");
        return;
    }
    assert!(has(&settings, "repartition_frames told"), "{settings}");
    assert!(has(&settings, "repartition_pages coloured"), "{settings}");
    assert!(said.contains("small pages by the colours of their frames"), "{said}");
    // Hits until the background has passed over a slab: one in 64 counts, and a pass takes one for
    // 16 chunks. This many gets have to suffice a hundred times over.
    let looked = (0..5000).any(|_| {
        for _ in 0..20 {
            (0..200).for_each(|number| client.send(format!("get k{number}\r\n").as_bytes()));
            client.ask("mn\r\n", &format!("{}MN\r\n", expected(&value)));
        }
        server.stat("repartition_passes") > 0
    });
    assert!(looked, "no pass came");
    let seen = ["in_order", "coloured", "unknown"]
        .map(|kind| server.stat(&format!("repartition_slabs_{kind}")));
    assert!(seen[0] + seen[1] > 0 && seen[2] == 0, "{seen:?}");
    let [pages, right] =
        ["coloured_pages", "right_pages"].map(|kind| server.stat(&format!("repartition_{kind}")));
    assert!(right <= pages && (pages > 0) == (seen[1] > 0), "{right} of {pages}, {seen:?}");
}

/// The replies to the gets.
fn expected(value: &str) -> String {
    (0..200).map(|number| format!("VALUE k{number} 0 200\r\n{value}\r\nEND\r\n")).collect()
}
