//! A recording from end to end: lines dropped by the server are counted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use larder_bench_tests::program;

/// Ends a server with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends requests, and reads until their last answer.
fn ask(stream: &mut TcpStream, requests: &str, end: &str) -> String {
    stream.write_all(requests.as_bytes()).expect("the server reads");
    let (mut text, mut chunk) = (String::new(), [0; 4096]);
    while !text.ends_with(end) {
        let read = stream.read(&mut chunk).expect("the server answers");
        assert!(read > 0, "the server ended behind {text}");
        text.push_str(str::from_utf8(&chunk[..read]).expect("text"));
    }
    text
}

/// Regression: Larder says `skipped=N`, but only another form was understood: a trace with gaps was
/// called whole.
#[test]
fn lines_dropped_by_the_server_are_reported() {
    let mut command = Command::new(program().with_file_name("larder"));
    command.args(["-p", "0", "-t", "1", "--watcher-logbuf-size", "1"]);
    let server = command.stdout(Stdio::piped()).spawn().expect("the server can be run");
    let mut server = Ended(server);
    let mut line = String::new();
    let said = server.0.stdout.take().expect("its output is piped");
    BufReader::new(said).read_line(&mut line).expect("it says where it listens");
    let address = line.trim().strip_prefix("listening on tcp:").expect("an address").to_owned();
    let mut client = TcpStream::connect(&address).expect("it listens");

    let trace = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("gaps.csv");
    let mut command = Command::new(program());
    command.args(["record", "--server", &address, "--limit", "40"]).arg(&trace);
    let recording = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut recording = recording.expect("the program can be run");
    while !ask(&mut client, "stats\r\n", "END\r\n").contains("STAT log_watchers 1\r\n") {}
    // The one worker logs all of these before it sends any: a kilobyte holds a few of the lines.
    let key = "k".repeat(200);
    let batch = format!("{}mn\r\n", format!("mg {key}\r\n").repeat(100));
    while recording.try_wait().expect("a state").is_none() {
        ask(&mut client, &batch, "MN\r\n");
    }
    let output = recording.wait_with_output().expect("it has ended");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{said}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&found["requests"], &found["not_understood"]), (&40.into(), &0.into()), "{found}");
    let skipped = found["skipped_by_server"].as_u64().expect("a number");
    assert!(
        skipped > 0 && said.contains(&format!("the server left out {skipped} lines")),
        "{said}"
    );
}
