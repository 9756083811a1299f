//! Failures of servers during a measurement: a clear message, an exit code, no figures presented as
//! whole, and no process left behind.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use larder_bench_tests::program;

const SOON: Duration = Duration::from_secs(20);

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).args(["--client-core", "0"]);
    command
}

fn output(arguments: &[&str]) -> Output {
    bench(arguments).output().expect("the program can be run")
}

fn message(output: &Output) -> String {
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Returns the null servers whose parent is this process.
fn servers_of(parent: u32) -> HashSet<u32> {
    let processes = fs::read_dir("/proc").expect("proc is mounted").flatten();
    let read = |pid: &u32, file: &str| {
        fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
    };
    let is_server = |pid: &u32| {
        let stat = read(pid, "stat");
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let found = fields.split_whitespace().nth(1).and_then(|ppid| ppid.parse().ok());
        found == Some(parent) && read(pid, "cmdline").contains("null-server")
    };
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(is_server).collect()
}

/// Waits for something that has to happen.
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < SOON, "it does not happen");
        std::thread::yield_now();
    }
}

fn endless() -> Child {
    let endless = ["compare", "--servers", "null", "--requests", "4000000000"];
    bench(&endless)
        .args(["--workloads", "get", "--rounds", "100"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program can be run")
}

#[test]
fn an_interrupted_comparison_leaves_no_server_behind() {
    for signal in ["-INT", "-TERM"] {
        let mut run = endless();
        let servers = wait_for(|| Some(servers_of(run.id())).filter(|pids| !pids.is_empty()));
        let killed = Command::new("kill").args([signal, &run.id().to_string()]).status();
        assert!(killed.expect("kill is installed").success());
        let status = wait_for(|| run.try_wait().expect("it is our child"));
        assert_eq!(status.code(), Some(130));
        for pid in servers {
            assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} is left");
        }
    }
}

#[test]
fn a_server_that_dies_in_between_is_named_and_no_figures_are_shown() {
    if !is_installed("memcached") || !is_installed("timeout") {
        eprintln!("memcached or timeout is not installed: nothing that could die");
        return;
    }
    let peer = "brief=timeout 1 memcached -u root -l 127.0.0.1 -p {port} -m {memory-mb}";
    let many = ["--workloads", "get", "--requests", "4000000000"];
    let output = output(&[&["compare", "--servers", "null", "--peer", peer], &many[..]].concat());
    assert_eq!(output.status.code(), Some(4));
    let message = message(&output);
    assert!(message.contains("brief ended while it was measured"), "{message}");
    assert!(message.contains("timeout 1 memcached"), "{message}");
}

#[test]
fn a_peer_that_does_not_start_is_named_before_anything_is_measured() {
    let missing = output(&["compare", "--servers", "null", "--peer", "other=no-such-one {port}"]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(message(&missing).contains("missing: other (no-such-one)"));
    let ends = output(&["compare", "--servers", "null", "--peer", "other=ls --no-such {port}"]);
    assert_eq!(ends.status.code(), Some(4));
    let message = message(&ends);
    assert!(message.contains("ended at once") && message.contains("ls:"), "{message}");
}

#[test]
fn more_memory_than_the_machine_has_is_refused() {
    for command in ["compare", "density"] {
        let output = output(&[command, "--memory-mb", "1000000000", "--servers", "memcached"]);
        let installed = is_installed("memcached");
        assert_eq!(output.status.code(), Some(if installed { 2 } else { 3 }));
        assert!(!installed || message(&output).contains("the machine has"));
    }
}
