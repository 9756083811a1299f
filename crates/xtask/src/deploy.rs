//! Checks of the files handed out to operators: the systemd unit, the static program, and a
//! container of it. Each part reports `not run` where its tool is missing.
//!
//! The unit is started by a separate systemd, which needs root. The container that
//! `deploy/Containerfile` describes takes its base from a registry, so only its health check is
//! tried; the manifests for Kubernetes need a cluster.

mod service;

use std::path::Path;
use std::time::Duration;

use crate::command::{Run, find};
use crate::conformance::server::Recipe;
use crate::conformance::wire::Wire;
use crate::tally::Count;
use crate::{Result, fail};

/// The folder for the files that the parts make.
const FOLDER: &str = "target/deploy";

/// Built in a target folder of its own, so that the usual build stays as it is.
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";

/// The highest exposure allowed in systemd's own estimate, in tenths.
const EXPOSURE_MAX: &str = "15";

const LIMIT: Duration = Duration::from_secs(120);

/// Runs every part that can run here.
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

/// Checks that systemd understands the unit and that its exposure has not grown.
fn unit() -> Result<Option<String>> {
    if find("systemd-analyze").is_none() {
        return missing("systemd-analyze is not installed");
    }
    // The program named by the unit has to exist.
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

/// The path of the static program.
fn program() -> String {
    format!("{FOLDER}/{STATIC_TARGET}/static/larder")
}

/// Checks that the program builds with musl, needs no library and serves.
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

/// Runs a part that needs the static program, if that was built.
fn with_program(part: fn(&str) -> Result<Option<String>>) -> Result<Option<String>> {
    let program = program();
    if Path::new(&program).is_file() {
        part(&program)
    } else {
        missing("there is no static program")
    }
}

/// Checks that the container's health check, which asks the port in the variable, accepts a serving
/// server, even one that requires users, and fails for one that has ended.
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

/// Checks that the container can be built of the program, which then starts there.
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
    // A folder with nothing else in it, because all of it is copied.
    let context = format!("{FOLDER}/context");
    std::fs::create_dir_all(&context)?;
    std::fs::copy(program(), format!("{context}/larder"))?;
    let storage = std::fs::canonicalize(FOLDER)?.join("containers");
    let outcome = build_and_run(&storage, &context);
    std::fs::remove_dir_all(&context)?;
    // Mounts of the run are gone by now; if not, the folder is only untidy.
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
