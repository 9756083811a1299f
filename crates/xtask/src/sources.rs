//! The sources of Debian's redis and memcached, for the tests that come with them.
//!
//! The machine's own list of Debian packages is rewritten to ask for sources, in a separate folder:
//! the machine's packages do not change, and no root is needed. apt checks the sources against
//! Debian's signature.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::Run;
use crate::{Result, fail};

/// Where each source is unpacked, below a folder of its package's name.
pub const FOLDER: &str = "target/conformance/sources";

/// The packages, at the versions whose tests are listed below `conformance/suites/`.
const PACKAGES: &[(&str, &str)] = &[("redis", "7.0.15"), ("memcached", "1.6.18")];

/// Where a machine lists the places it installs packages from.
const LISTS: [&str; 2] = ["/etc/apt/sources.list", "/etc/apt/sources.list.d"];

const LIMIT: Duration = Duration::from_secs(300);

/// Returns whether a package's source is unpacked.
pub fn has(package: &str) -> bool {
    Path::new(FOLDER).join(package).join("unpacked").is_file()
}

/// Fetches and unpacks the missing sources.
pub fn install() -> Result {
    let missing: Vec<_> = PACKAGES.iter().filter(|(package, _)| !has(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(FOLDER)?;
    let folder = std::fs::canonicalize(FOLDER)?;
    let options = apt_options(&folder)?;
    apt("apt-get update -q", &options).capture(LIMIT)?;
    for (package, version) in missing {
        let fetched = folder.join(format!("{package}-fetched"));
        replace_folder(&fetched)?;
        apt("apt-get source -q --download-only", &options)
            .arg(package)
            .folder(&fetched.to_string_lossy())
            .capture(LIMIT)?;
        unpack(package, version, &fetched, &folder.join(package))?;
    }
    Ok(())
}

fn apt(words: &str, options: &[String]) -> Run {
    options.iter().fold(Run::new(words), |run, option| run.arg("-o").arg(option))
}

/// Returns options that make apt read a list of sources in `folder`, and keep its state there.
fn apt_options(folder: &Path) -> Result<Vec<String>> {
    let lists = folder.join("apt.d");
    replace_folder(&lists)?;
    let mut is_any = false;
    for (number, path) in debian_lists()?.iter().enumerate() {
        let text = std::fs::read_to_string(path)?;
        let is_stanzas = path.extension().is_some_and(|extension| extension == "sources");
        let sources = if is_stanzas { of_stanzas(&text) } else { of_lines(&text) };
        let extension = if is_stanzas { "sources" } else { "list" };
        is_any |= !sources.is_empty();
        std::fs::write(lists.join(format!("{number}.{extension}")), sources)?;
    }
    if !is_any {
        return fail(format!("no list of Debian's packages in {}", LISTS.join(" or ")));
    }
    for part in ["state/lists/partial", "cache/archives/partial"] {
        std::fs::create_dir_all(folder.join(part))?;
    }
    let shown = folder.display();
    Ok(vec![
        "Dir::Etc::sourcelist=/dev/null".to_string(),
        format!("Dir::Etc::sourceparts={}", lists.display()),
        format!("Dir::State::lists={shown}/state/lists"),
        format!("Dir::Cache={shown}/cache"),
    ])
}

fn debian_lists() -> Result<Vec<PathBuf>> {
    let [file, folder] = LISTS.map(PathBuf::from);
    let mut lists = Vec::new();
    if file.is_file() {
        lists.push(file);
    }
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder)? {
            lists.push(entry?.path());
        }
    }
    lists.sort();
    Ok(lists)
}

/// Returns Debian's stanzas of a list in the multi-line format, rewritten for sources.
fn of_stanzas(text: &str) -> String {
    let mut sources = String::new();
    for stanza in text.split("\n\n").filter(|stanza| is_debian(stanza)) {
        for line in stanza.lines() {
            let line = if line.starts_with("Types:") { "Types: deb-src" } else { line };
            sources.push_str(&format!("{line}\n"));
        }
        sources.push('\n');
    }
    sources
}

/// Returns Debian's lines of a list in the one-line format, rewritten for sources.
fn of_lines(text: &str) -> String {
    let of_packages = text.lines().filter_map(|line| line.strip_prefix("deb "));
    of_packages.filter(|line| is_debian(line)).map(|line| format!("deb-src {line}\n")).collect()
}

/// Returns whether packages come from a mirror of Debian, not from a third party.
fn is_debian(text: &str) -> bool {
    let mut places = text.split_whitespace().filter(|word| word.contains("://"));
    places.any(|place| place.contains("/debian"))
}

/// Unpacks a package as released upstream, without Debian's changes.
fn unpack(package: &str, version: &str, fetched: &Path, into: &Path) -> Result {
    let wanted = format!("{package}_{version}.orig.tar.");
    let mut found = None;
    for entry in std::fs::read_dir(fetched)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        // Debian may keep a signature beside it.
        if name.is_some_and(|name| name.starts_with(&wanted) && !name.ends_with(".asc")) {
            found = Some(path);
        }
    }
    let Some(archive) = found else {
        return fail(format!("Debian's {package} is not {version} any more"));
    };
    replace_folder(into)?;
    Run::new("tar --strip-components=1 -xf").arg(&archive).arg("-C").arg(into).capture(LIMIT)?;
    std::fs::write(into.join("unpacked"), version)?;
    Ok(())
}

/// Makes an empty folder in place of any existing one.
pub fn replace_folder(folder: &Path) -> Result {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_come_from_where_debians_packages_do() {
        let stanzas = "Types: deb\nURIs: http://a.example/debian\nSuites: s\n\n\
                       Types: deb\nURIs: https://b.example/node\nSuites: t\n";
        let wanted = "Types: deb-src\nURIs: http://a.example/debian\nSuites: s\n\n";
        assert_eq!(of_stanzas(stanzas), wanted);
        let lines = "# deb x\ndeb [a=b] http://a.example/debian-security s main\n\
                     deb https://b.example/apt t main\n";
        assert_eq!(of_lines(lines), "deb-src [a=b] http://a.example/debian-security s main\n");
    }
}
