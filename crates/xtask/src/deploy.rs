//! What is handed out for operators: the unit of systemd, the static program, and a container of
//! it. Each part says `not run` where its tool is missing.
//!
//! The unit is started by a systemd of its own, which needs root. The container that
//! `deploy/Containerfile` describes takes its base from a registry, so that only its health check
//! is tried, and the manifests for Kubernetes need a cluster.

mod service;

use std::path::Path;
use std::time::Duration;

use crate::command::{Run, find};
use crate::conformance::server::Recipe;
use crate::conformance::wire::Wire;
use crate::tally::Count;
use crate::{Result, fail};

/// Where parts leave what they make.
const FOLDER: &str = "target/deploy";

/// A target folder of its own, so that the usual build stays as it is.
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";

/// The most that systemd's own estimate of exposure may be, in tenths.
const EXPOSURE_MAX: &str = "15";

const LIMIT: Duration = Duration::from_secs(120);

/// Every part that can run here.
pub fn check() -> Result<Count> {
    std::fs::create_dir_all(FOLDER)?;
    let mut count = Count::default();
    for (name, part) in [
        ("unit", unit as fn() -> Result<Option<String>>),
        ("static program", static_program),
        ("service", || with_program(|program| service::check(program, FOLDER))),
        ("health check", || with_program(health_check)),
        ("container", container),
    ] {
        match part()? {
            None => {
                println!("{name}: passed");
                count.passed += 1;
            }
            Some(missing) => count.not_run(&format!("{name}, {missing}")),
        }
    }
    Ok(count)
}

fn missing(words: &str) -> Result<Option<String>> {
    Ok(Some(words.to_string()))
}

/// The unit is understood, and as closed as it was.
fn unit() -> Result<Option<String>> {
    if find("systemd-analyze").is_none() {
        return missing("systemd-analyze is not installed");
    }
    // The program that the unit names is to be there.
    let program = std::env::current_exe()?;
    let text = std::fs::read_to_string("deploy/larder.service")?;
    let text = text.replace("/usr/bin/larder", &program.to_string_lossy());
    let path = format!("{FOLDER}/larder.service");
    std::fs::write(&path, text)?;
    let path = std::fs::canonicalize(path)?;
    let said = Run::new("systemd-analyze verify").arg(&path).capture(LIMIT)?;
    if said.contains("larder.service") {
        return fail(format!("systemd-analyze verify complains:\n{said}"));
    }
    Run::new("systemd-analyze security --no-pager --offline=true --threshold")
        .arg(EXPOSURE_MAX)
        .arg(path)
        .capture(LIMIT)?;
    Ok(None)
}

/// Where the static program is built.
fn program() -> String {
    format!("{FOLDER}/{STATIC_TARGET}/static/larder")
}

/// The program with musl builds, needs no library and serves.
fn static_program() -> Result<Option<String>> {
    let targets = Run::new("rustc --print target-libdir --target").arg(STATIC_TARGET);
    let folder = targets.capture(LIMIT).unwrap_or_default();
    if find("musl-gcc").is_none() || !Path::new(folder.trim()).is_dir() {
        return missing("musl-gcc or Rust's target for musl is not installed");
    }
    Run::new("cargo build --quiet --profile static -p larder-server --target")
        .arg(STATIC_TARGET)
        .arg("--target-dir")
        .arg(FOLDER)
        .run()?;
    let recipe = Recipe::new(&program(), &[]);
    let server = recipe.start("-m 16")?;
    let mut wire = Wire::connect(server.port)?;
    wire.expect("set static 0 0 1\r\nx\r\n", "STORED\r\n")?;
    wire.expect("get static\r\n", "VALUE static 0 1\r\nx\r\nEND\r\n")?;
    server.stop(LIMIT)?;
    Ok(None)
}

/// What a part says of the static program, if that was built.
fn with_program(part: fn(&str) -> Result<Option<String>>) -> Result<Option<String>> {
    let program = program();
    if Path::new(&program).is_file() {
        part(&program)
    } else {
        missing("there is no static program")
    }
}

/// What the other container asks its server finds one that serves, whoever may use it, at the port
/// of the variable, and none that has ended.
fn health_check(program: &str) -> Result<Option<String>> {
    if find("nc").is_none() {
        return missing("nc is not installed");
    }
    let file = std::fs::read_to_string("deploy/Containerfile")?;
    let Some(check) = file.lines().find_map(|line| line.trim().strip_prefix("CMD ")) else {
        return fail("deploy/Containerfile has no health check");
    };
    let users = format!("{FOLDER}/users.txt");
    std::fs::write(&users, "bob:secret\n")?;
    for options in ["-m 16", &format!("-m 16 -Y {users}")] {
        let server = Recipe::new(program, &[]).start(options)?;
        let port = server.port;
        let healthy = || {
            let mut shell = std::process::Command::new("sh");
            let status = shell.args(["-c", check]).env("LARDER_PORT", port.to_string()).status();
            status.map(|it| it.success())
        };
        if !healthy()? {
            return fail(format!("the health check fails with {options}"));
        }
        server.stop(LIMIT)?;
        if healthy()? {
            return fail(format!("the health check passes without a server of {options}"));
        }
    }
    Ok(None)
}

/// The container is built of it, and the program starts there.
fn container() -> Result<Option<String>> {
    let is_root = Run::new("id -u").capture(LIMIT)?.trim() == "0";
    if find("buildah").is_none() || !is_root {
        return missing("buildah is not installed, or this is not root");
    }
    if Run::new("unshare --mount true").capture(LIMIT).is_err() {
        return missing("this root may make no namespaces");
    }
    if !Path::new(&program()).is_file() {
        return missing("there is no static program");
    }
    // A folder with nothing else in it, for it is copied.
    let context = format!("{FOLDER}/context");
    std::fs::create_dir_all(&context)?;
    std::fs::copy(program(), format!("{context}/larder"))?;
    let storage = std::fs::canonicalize(FOLDER)?.join("containers");
    let outcome = build_and_run(&storage, &context);
    std::fs::remove_dir_all(&context)?;
    // What is mounted for a run is gone by now; if not, the folder is only untidy.
    let _ = std::fs::remove_dir_all(&storage);
    outcome.map(|()| None)
}

fn build_and_run(storage: &Path, context: &str) -> Result {
    let buildah = |work: &str| {
        Run::new("buildah --storage-driver vfs --root")
            .arg(storage.join("root"))
            .arg("--runroot")
            .arg(storage.join("run"))
            .arg(work)
    };
    buildah("bud")
        .arg("--isolation=chroot")
        .arg("--file=deploy/Containerfile.static")
        .arg("--tag=larder")
        .arg(context)
        .capture(LIMIT)?;
    let name = buildah("from").arg("localhost/larder").capture(LIMIT)?;
    let said = buildah("run")
        .arg("--isolation=chroot")
        .arg(name.trim())
        .arg("/usr/bin/larder")
        .arg("--check")
        .capture(LIMIT)?;
    match said.trim_end().lines().next_back() {
        Some("the options are valid") => Ok(()),
        _ => fail(format!("the program in the container says {said:?}")),
    }
}
