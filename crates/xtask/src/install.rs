//! Installs the conformance suite's requirements besides Rust: Debian's packages, and the client
//! libraries of other languages at the versions pinned under `conformance/`.
//!
//! Anything already there is left alone, so a second run takes a second. Anything that cannot be
//! had is a printed line, not a failure here: the client that needs it then reports `not run`,
//! which is a failure only where the environment says `CI=true`.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::command::{Run, find};
use crate::{Result, fail, sources};

/// Where the Python libraries are installed.
pub const VENV: &str = "target/conformance/venv";

/// Where the Go client of memcached's protocol is built.
pub const GO_CLIENT: &str = "target/conformance/go/client";

/// Where the Go client of Redis' protocol is built.
pub const GO_REDIS: &str = "target/conformance/go/redis-client";

/// Where Prometheus' exporter for memcached is built.
pub const EXPORTER: &str = "target/conformance/go/memcached-exporter";

/// The program that checks dependencies.
pub const CARGO_DENY: &str = "target/tools/bin/cargo-deny";

/// Its version, at which `deny.toml` was last written.
const CARGO_DENY_VERSION: &str = "0.20.2";

/// Where Django's source is unpacked; the package that pip installs has no tests.
pub const DJANGO: &str = "target/conformance/sources/django";

/// The Python libraries and their versions.
const REQUIREMENTS: &str = "conformance/python/requirements.txt";

/// Where npm puts the JavaScript libraries.
pub const NODE: &str = "target/conformance/node";

const DEBIAN: &[(&str, &str)] = &[
    ("memcached", "memcached"),
    ("nutcracker", "nutcracker"),
    ("memccapable", "libmemcached-tools"),
    ("redis-server", "redis-server"),
    ("perl", "perl"),
    ("openssl", "openssl"),
    ("tclsh", "tcl"),
    ("xz", "xz-utils"),
    // Its headers, to build memcached with its proxy.
    ("event_rpcgen.py", "libevent-dev"),
    ("python3", "python3"),
    ("go", "golang-go"),
    ("javac", "default-jdk-headless"),
    ("mvn", "maven"),
    ("npm", "npm"),
    ("musl-gcc", "musl-tools"),
    ("buildah", "buildah"),
    ("systemd-analyze", "systemd"),
    ("nc", "netcat-openbsd"),
    ("prometheus", "prometheus"),
    ("chromium", "chromium"),
];

/// Installs everything that is missing.
pub fn all() -> Result {
    for (name, install) in [
        ("Debian packages", debian as fn() -> Result),
        ("sources of Debian packages", sources::install),
        ("Python libraries", python),
        ("Django's tests", django),
        ("Go modules", go),
        ("Maven project", maven),
        ("npm package", npm),
        ("Rust's target for musl", musl),
        ("cargo-deny", cargo_deny),
    ] {
        let started = Instant::now();
        match install() {
            Ok(()) => println!("{name}: there ({:.1} s)", started.elapsed().as_secs_f64()),
            Err(failure) => println!("{name}: not to be had: {failure}"),
        }
    }
    Ok(())
}

fn debian() -> Result {
    let mut missing: Vec<&str> = DEBIAN
        .iter()
        .filter(|(program, _)| find(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    if find("python3").is_some() && !has_venv() {
        missing.push("python3-venv");
    }
    if missing.is_empty() {
        return Ok(());
    }
    let root = Run::new("id -u").capture(Duration::from_secs(5))?.trim() == "0";
    let prefix = if root { "" } else { "sudo -n " };
    // A Debian package starts its service on installation unless this file forbids it.
    let policy = Path::new("/usr/sbin/policy-rc.d");
    let forbid = root && !policy.exists();
    if forbid {
        std::fs::write(policy, "#!/bin/sh\nexit 101\n")?;
        Run::new("chmod +x /usr/sbin/policy-rc.d").capture(Duration::from_secs(5))?;
    }
    let outcome = install_debian(prefix, &missing);
    if forbid {
        std::fs::remove_file(policy)?;
    } else {
        for service in ["memcached", "redis-server", "nutcracker", "prometheus"] {
            // It does not matter whether it was running, or is known at all.
            let stop = format!("{prefix}service {service} stop");
            let _ = Run::new(&stop).capture(Duration::from_secs(20));
        }
    }
    outcome
}

fn install_debian(prefix: &str, missing: &[&str]) -> Result {
    let limit = Duration::from_secs(600);
    let update = format!("{prefix}apt-get update -q");
    Run::new(&update).capture(limit)?;
    let packages = missing.join(" ");
    let install = format!("{prefix}apt-get install -q -y --no-install-recommends {packages}");
    Run::new(&install).env("DEBIAN_FRONTEND", "noninteractive").capture(limit)?;
    Ok(())
}

fn has_venv() -> bool {
    Run::new("python3 -c").arg("import ensurepip, venv").capture(Duration::from_secs(20)).is_ok()
}

fn python() -> Result {
    let wanted = std::fs::read_to_string(REQUIREMENTS)?;
    let stamp = format!("{VENV}/requirements.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let limit = Duration::from_secs(300);
    Run::new("python3 -m venv").arg(VENV).capture(limit)?;
    Run::new(&format!("{VENV}/bin/pip install -q -r {REQUIREMENTS}")).capture(limit)?;
    std::fs::write(stamp, wanted)?;
    Ok(())
}

fn django() -> Result {
    let requirements = std::fs::read_to_string(REQUIREMENTS)?;
    let Some(wanted) = requirements.lines().find(|line| line.starts_with("Django==")) else {
        return fail(format!("{REQUIREMENTS} does not name Django"));
    };
    let stamp = format!("{DJANGO}/unpacked");
    if std::fs::read_to_string(&stamp).is_ok_and(|unpacked| unpacked == wanted) {
        return Ok(());
    }
    let limit = Duration::from_secs(300);
    let fetched = format!("{DJANGO}-fetched");
    sources::replace_folder(Path::new(&fetched))?;
    Run::new(&format!("{VENV}/bin/pip download -q --no-deps --no-binary Django -d {fetched}"))
        .arg(wanted)
        .capture(limit)?;
    let Some(archive) = std::fs::read_dir(&fetched)?.next() else {
        return fail(format!("pip has put nothing into {fetched}"));
    };
    sources::replace_folder(Path::new(DJANGO))?;
    let unpack = Run::new("tar --strip-components=1 -xf").arg(archive?.path()).arg("-C");
    unpack.arg(DJANGO).capture(limit)?;
    std::fs::write(stamp, wanted)?;
    Ok(())
}

fn go() -> Result {
    std::fs::create_dir_all("target/conformance/go")?;
    let exporter = "github.com/prometheus/memcached_exporter/cmd/memcached_exporter";
    let mut failures = Vec::new();
    // Each is a module of its own, so that the Go version one needs is not required of the others.
    for (folder, program, package) in [
        ("conformance/go", GO_CLIENT, "."),
        ("conformance/go-redis", GO_REDIS, "."),
        ("conformance/memcached-exporter", EXPORTER, exporter),
    ] {
        let built = Run::new(&format!("go build -buildvcs=false -o ../../{program} {package}"))
            .folder(folder)
            .capture(Duration::from_secs(300));
        failures.extend(built.err().map(|failure| failure.0));
    }
    if failures.is_empty() { Ok(()) } else { fail(failures.join("\n")) }
}

fn maven() -> Result {
    let mut wanted = std::fs::read_to_string("conformance/java/pom.xml")?;
    for class in ["Client", "RedisClient"] {
        let source = format!("conformance/java/src/main/java/{class}.java");
        wanted += &std::fs::read_to_string(source)?;
    }
    let stamp = "target/conformance/java/built-from";
    if std::fs::read_to_string(stamp).is_ok_and(|built| built == wanted) {
        return Ok(());
    }
    Run::new("mvn -B -q -f conformance/java/pom.xml package").capture(Duration::from_secs(400))?;
    std::fs::write(stamp, wanted)?;
    Ok(())
}

fn musl() -> Result {
    let target = "x86_64-unknown-linux-musl";
    let folder = Run::new("rustc --print target-libdir --target").arg(target);
    let folder = folder.capture(Duration::from_secs(20))?;
    if Path::new(folder.trim()).is_dir() {
        return Ok(());
    }
    Run::new("rustup target add").arg(target).capture(Duration::from_secs(300))?;
    Ok(())
}

/// Two minutes, nearly all of it compilation; the program's own speed does not matter.
fn cargo_deny() -> Result {
    let asked = Run::new(CARGO_DENY).arg("--version").capture(Duration::from_secs(20));
    if asked.is_ok_and(|version| version.trim().ends_with(CARGO_DENY_VERSION)) {
        return Ok(());
    }
    Run::new("cargo install --quiet --locked --root target/tools cargo-deny --version")
        .arg(CARGO_DENY_VERSION)
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .capture(Duration::from_secs(900))?;
    Ok(())
}

fn npm() -> Result {
    let wanted = std::fs::read_to_string("conformance/node/package-lock.json")?;
    let stamp = format!("{NODE}/built-from");
    if std::fs::read_to_string(&stamp).is_ok_and(|built| built == wanted) {
        return Ok(());
    }
    std::fs::create_dir_all(NODE)?;
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(format!("conformance/node/{file}"), format!("{NODE}/{file}"))?;
    }
    Run::new("npm ci --no-audit --no-fund --ignore-scripts")
        .folder(NODE)
        .capture(Duration::from_secs(300))?;
    std::fs::write(stamp, wanted)?;
    Ok(())
}
