//! The table of clients in `docs/compatibility.md`: language, library, its installed version,
//! protocol, and the tests run with it.
//!
//! The table is made from a run, and every run compares its own rows with it, so that the page
//! cannot promise anything untested. `--table write` writes the rows of a run.

use std::path::Path;
use std::time::Duration;

use super::report::{Check, Outcome};
use crate::command::Run;
use crate::install::{EXPORTER, GO_CLIENT, GO_REDIS, NODE, VENV};
use crate::{Result, fail};

const PAGE: &str = "docs/compatibility.md";
const BEGIN: &str = "<!-- clients: written by `cargo xtask conformance --table write` -->\n";
const END: &str = "<!-- end of clients -->\n";
const HEAD: &str = "| `--only` | language | library | version | protocol | what is run |\n\
                    | --- | --- | --- | --- | --- | --- |\n";

const LIMIT: Duration = Duration::from_secs(30);

/// Where the version of an installed client is found.
enum Installed {
    /// A Debian package.
    Debian(&'static str),
    /// A distribution among the Python libraries, under its normal name.
    Python(&'static str),
    /// A module that a Go program is or contains.
    Go(&'static str, &'static str),
    /// A jar.
    Java(&'static str),
    /// An npm package.
    Node(&'static str),
}

use Installed::{Debian, Go, Java, Node, Python};

/// A client: the part of the suite that runs it, language, name, where its version is, protocol.
struct Client(&'static str, &'static str, &'static str, Installed, &'static str);

const GOMEMCACHE: Installed = Go(GO_CLIENT, "github.com/bradfitz/gomemcache");
const GO_REDIS_MODULE: Installed = Go(GO_REDIS, "github.com/redis/go-redis/v9");

const EXPORTER_MODULE: Installed = Go(EXPORTER, "github.com/prometheus/memcached_exporter");

const CLIENTS: &[Client] = &[
    Client("memccapable", "C", "memccapable", Debian("libmemcached-tools"), "text"),
    Client("memccapable-binary", "C", "memccapable", Debian("libmemcached-tools"), "binary"),
    Client("memcached-tool", "Perl", "memcached-tool", Debian("memcached"), "text"),
    Client("memcached-exporter", "Go", "memcached_exporter", EXPORTER_MODULE, "text"),
    Client("pymemcache", "Python", "pymemcache", Python("pymemcache"), "text"),
    Client("meta-memcache", "Python", "meta-memcache", Python("meta_memcache"), "meta"),
    Client(
        "bmemcached",
        "Python",
        "python-binary-memcached",
        Python("python_binary_memcached"),
        "binary",
    ),
    Client(
        "bmemcached-sasl",
        "Python",
        "python-binary-memcached",
        Python("python_binary_memcached"),
        "binary, SASL",
    ),
    Client("gomemcache", "Go", "gomemcache", GOMEMCACHE, "text"),
    Client("spymemcached", "Java", "spymemcached", Java("spymemcached"), "text"),
    Client("spymemcached-binary", "Java", "spymemcached", Java("spymemcached"), "binary"),
    Client("memcache-client", "JavaScript", "memcache-client", Node("memcache-client"), "text"),
    Client("memjs", "JavaScript", "memjs", Node("memjs"), "binary"),
    Client("memjs-sasl", "JavaScript", "memjs", Node("memjs"), "binary, SASL"),
    Client("redis-cli", "C", "redis-cli", Debian("redis-tools"), "RESP2, RESP3"),
    Client("redis-benchmark", "C", "redis-benchmark", Debian("redis-tools"), "RESP2"),
    Client("redis-py", "Python", "redis-py", Python("redis"), "RESP2, RESP3"),
    Client("ioredis", "JavaScript", "ioredis", Node("ioredis"), "RESP2"),
    Client("go-redis", "Go", "go-redis", GO_REDIS_MODULE, "RESP2, RESP3"),
    Client("jedis", "Java", "Jedis", Java("jedis"), "RESP2, RESP3"),
];

/// Compares the rows of a run with the table, or writes them. Returns `None` if no client ran.
pub fn check(checks: &[Check], is_written: bool) -> Result<Option<String>> {
    let mut page = std::fs::read_to_string(PAGE)?;
    let Some((from, to)) = between(&page) else {
        return fail(format!("{PAGE} has no place for the table of clients"));
    };
    let mut table = HEAD.to_string();
    let old: Vec<String> = page[from..to].lines().map(str::to_string).collect();
    let (mut ran, mut wrong) = (0, Vec::new());
    for client in CLIENTS {
        let check = checks.iter().find(|check| check.name == client.0);
        let listed = old.iter().find(|line| line.starts_with(&client.beginning()));
        // A client that did not run now, or failed, says nothing about the table.
        let row = match (check.map(|check| &check.outcome), listed) {
            (Some(Outcome::Passed(words)), _) => {
                let row = client.row(words)?;
                ran += 1;
                if listed != Some(&row) {
                    wrong.push(row.clone());
                }
                row
            }
            (_, Some(row)) => row.clone(),
            (_, None) => continue,
        };
        table.push_str(&format!("{row}\n"));
    }
    if is_written {
        page.replace_range(from..to, &table);
        std::fs::write(PAGE, page)?;
        return Ok(Some(format!("{ran} rows written")));
    }
    let rows = old.iter().filter(|line| line.starts_with("| ")).count();
    if rows != CLIENTS.len() + 2 {
        wrong.push(format!("it has {rows} lines, and there are {} clients", CLIENTS.len()));
    }
    match (ran, wrong.is_empty()) {
        (0, _) => Ok(None),
        (_, true) => Ok(Some(format!("{ran} rows are as in {PAGE}"))),
        (_, false) => fail(format!(
            "{PAGE} says something else (--table write puts it right):\n  {}",
            wrong.join("\n  ")
        )),
    }
}

/// Returns where the table begins and ends.
fn between(page: &str) -> Option<(usize, usize)> {
    let from = page.find(BEGIN)? + BEGIN.len();
    Some((from, from + page[from..].find(END)?))
}

impl Client {
    /// Returns the beginning of this client's row, by which it is found again.
    fn beginning(&self) -> String {
        format!("| `{}` | ", self.0)
    }

    fn row(&self, words: &str) -> Result<String> {
        let Client(_, language, library, installed, protocol) = self;
        let (beginning, version) = (self.beginning(), installed.version()?);
        Ok(format!("{beginning}{language} | {library} | {version} | {protocol} | {words} |"))
    }
}

impl Installed {
    fn version(&self) -> Result<String> {
        let found = match self {
            Debian(package) => {
                let run = Run::new("dpkg-query -W -f ${Version}").arg(package);
                Some(upstream(run.capture(LIMIT)?.trim()).to_string())
            }
            Python(name) => {
                let libraries = Path::new(VENV).join("lib");
                let mut found = None;
                for python in std::fs::read_dir(libraries)? {
                    let packages = python?.path().join("site-packages");
                    found = found.or(named(&packages, &format!("{name}-"), ".dist-info")?);
                }
                found
            }
            Go(program, module) => {
                let text = Run::new("go version -m").arg(program).capture(LIMIT)?;
                let of = |line: &str| {
                    let mut words = line.split_whitespace();
                    let is_module = matches!(words.next(), Some("mod" | "dep"));
                    let is_it = is_module && words.next() == Some(module);
                    words.next().filter(|_| is_it).map(|version| version.replace('v', ""))
                };
                text.lines().find_map(of)
            }
            Java(name) => {
                let jars = Path::new("target/conformance/java/lib");
                named(jars, &format!("{name}-"), ".jar")?
            }
            Node(name) => {
                let file = Path::new(NODE).join("node_modules").join(name).join("package.json");
                let text = std::fs::read_to_string(file)?;
                let line =
                    text.lines().find_map(|line| line.trim().strip_prefix("\"version\": \""));
                line.and_then(|rest| rest.split('"').next()).map(str::to_string)
            }
        };
        found.map_or_else(|| fail("the version of a client that ran is not to be found"), Ok)
    }
}

/// Returns the text between `before` and `after` in a file's or folder's name; it begins with a
/// digit.
fn named(folder: &Path, before: &str, after: &str) -> Result<Option<String>> {
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let middle = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        if let Some(version) = middle.filter(|middle| middle.starts_with(char::is_numeric)) {
            return Ok(Some(version.to_string()));
        }
    }
    Ok(None)
}

/// Returns the upstream version of a package, without Debian's own numbers around it.
fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    version.rsplit_once('-').map_or(version, |(upstream, _)| upstream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debians_numbers_are_left_out() {
        assert_eq!(upstream("5:7.0.15-1~deb12u10"), "7.0.15");
        assert_eq!(upstream("1.1.4-1"), "1.1.4");
    }

    #[test]
    fn the_table_is_found_between_its_marks() {
        let page = format!("a\n{BEGIN}x\ny\n{END}b\n");
        let (from, to) = between(&page).unwrap();
        assert_eq!(&page[from..to], "x\ny\n");
        assert!(between("a\n").is_none());
    }

    #[test]
    fn every_client_is_a_part_of_the_suite() {
        for Client(part, ..) in CLIENTS {
            assert!(super::super::PARTS.iter().any(|(name, _)| name == part), "{part}");
        }
    }
}
