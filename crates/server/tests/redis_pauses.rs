//! Long commands of Redis', and long answers: what the server keeps of them, and where it goes on.

mod common;

use common::{Client, Server};

/// What the kernel says under this name of the server's memory.
fn memory_bytes(server: &Server, name: &str) -> u64 {
    let path = format!("/proc/{}/status", server.id());
    let text = std::fs::read_to_string(path).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("Linux has it");
    let kib = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    kib.parse::<u64>().expect("a number") << 10
}

/// Each had up to a megabyte behind what had come, zeroed and not counted.
#[test]
fn a_command_that_has_not_arrived_takes_the_memory_that_is_counted() {
    const CLIENTS: usize = 100;
    let (server, address) = Server::start_with_redis(&["-m", "64", "-I", "1m"]);
    let mut text = server.connect();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        client.ask("ping\r\n", "+PONG\r\n");
    }
    let before = memory_bytes(&server, "VmRSS");
    let (mut sent, value) = (0, [b'x'; 5_000]);
    // What comes second is read behind the first, which is too long for the worker's buffer.
    for part in
        [[&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n"[..], &value].concat(), value.into()]
    {
        clients.iter_mut().for_each(|client| client.send(&part));
        sent += CLIENTS * part.len();
        text.wait_for_stat("output_parked_bytes", |bytes| bytes >= sent as u64);
    }
    let counted = text.stat("output_parked_bytes");
    let taken = memory_bytes(&server, "VmRSS").saturating_sub(before);
    assert!(taken <= counted + (8 << 20), "{taken} bytes, of which {counted} are counted");
    assert!(counted <= 2 * sent as u64, "{counted} bytes for {sent}");
    for client in &mut clients {
        client.send(&[b'x'; 990_000]);
        client.ask("\r\nping\r\n", "+OK\r\n+PONG\r\n");
    }
    text.wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
}
