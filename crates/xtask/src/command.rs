//! Other programs: finding them, starting them, and naming the one that failed.
//!
//! A `Run` inherits the terminal unless it is asked to capture. Nothing here goes through a shell,
//! so no argument needs quoting.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Result, fail};

/// The repository's root: two levels above this crate.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the path of a program on the search path.
pub fn find(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let debian = ["/usr/sbin", "/usr/bin"].map(PathBuf::from);
    std::env::split_paths(&paths)
        .chain(debian)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Variables that cargo sets for one package, besides all that begin with `CARGO_PKG_`.
const OF_A_PACKAGE: [&str; 6] = [
    "CARGO_BIN_NAME",
    "CARGO_CRATE_NAME",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_LINKS",
    "CARGO_MANIFEST_PATH",
    "CARGO_PRIMARY_PACKAGE",
];

fn is_of_a_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || OF_A_PACKAGE.contains(&variable)
}

/// Returns a command without arguments, and without the variables that `cargo xtask` set about this
/// package. Some libraries are rebuilt whenever those change: a cargo started from here and one
/// started by hand would never agree on what is built.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_a_package) {
            command.env_remove(name);
        }
    }
    command
}

/// One program with its arguments, not yet started.
pub struct Run {
    command: Command,
    shown: String,
}

impl Run {
    /// The program with arguments separated by spaces; `arg` adds one that holds spaces.
    pub fn new(words: &str) -> Run {
        let mut words_left = words.split(' ').filter(|word| !word.is_empty());
        let mut command = command(words_left.next().unwrap_or("true"));
        command.args(words_left);
        Run { command, shown: words.to_string() }
    }

    /// Adds one argument, unsplit.
    pub fn arg(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Run {
        let argument = argument.as_ref();
        self.shown = format!("{} {}", self.shown, argument.to_string_lossy());
        self.command.arg(argument);
        self
    }

    /// Adds arguments that are separated by spaces.
    pub fn args(self, words: &str) -> Run {
        words.split(' ').filter(|word| !word.is_empty()).fold(self, Run::arg)
    }

    /// Sets a variable of the program's environment.
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Run {
        self.command.env(name, value);
        self
    }

    /// Runs it in this folder.
    pub fn folder(mut self, folder: &str) -> Run {
        self.command.current_dir(folder);
        self
    }

    /// Runs it on the terminal; anything but exit status 0 is a failure.
    pub fn run(mut self) -> Result {
        println!("$ {}", self.shown);
        match self.command.stdin(Stdio::null()).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => fail(format!("`{}` ended with {status}", self.shown)),
            Err(error) => fail(format!("`{}` did not start: {error}", self.shown)),
        }
    }

    /// Runs it unseen and returns all its output; a failure's message holds the end of that.
    pub fn capture(self, limit: Duration) -> Result<String> {
        let shown = self.shown.clone();
        let (success, text) = self.output(limit)?;
        if success {
            return Ok(text);
        }
        let from = text.len().saturating_sub(3000);
        let tail = text.get(from..).unwrap_or(&text);
        fail(format!("`{shown}` failed:\n{tail}"))
    }

    /// Runs it unseen and returns whether it succeeded, and all its output.
    pub fn output(mut self, limit: Duration) -> Result<(bool, String)> {
        let folder = std::env::temp_dir();
        let name = format!("larder-xtask-{}-{}", std::process::id(), crate::random::ticket());
        let path = folder.join(name);
        let file = std::fs::File::create(&path)?;
        self.command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let mut child = match self.command.spawn() {
            Ok(child) => child,
            Err(error) => return fail(format!("`{}` did not start: {error}", self.shown)),
        };
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if started.elapsed() > limit {
                end(&mut child)?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        std::fs::remove_file(&path)?;
        if status.is_none() {
            text.push_str(&format!("\n(ended after {} seconds)\n", limit.as_secs()));
        }
        Ok((status.is_some_and(|status| status.success()), text))
    }
}

/// Ends a program and everything it has started, which would otherwise run on.
fn end(child: &mut Child) -> Result {
    let others = descendants(child.id());
    child.kill()?;
    child.wait()?;
    if !others.is_empty() {
        // Some may have ended by themselves.
        let _ended = command("kill").arg("-KILL").args(others).stderr(Stdio::null()).status()?;
    }
    Ok(())
}

/// Returns the numbers of all descendants of a process, as other programs show them.
fn descendants(process: u32) -> Vec<String> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let paths = threads.flatten().map(|thread| thread.path().join("children"));
    let children = paths.flat_map(|path| std::fs::read_to_string(path).ok());
    let mut found = Vec::new();
    for child in children.collect::<String>().split_ascii_whitespace() {
        found.push(child.to_owned());
        found.extend(child.parse().map(descendants).unwrap_or_default());
    }
    found
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    /// Regression: an interpreter started by cargo ran on for half an hour after cargo was ended.
    #[test]
    fn ending_a_program_ends_its_descendants() {
        let script = "sh -c 'sleep 1000 & echo $!; wait' & wait";
        let mut shell = command("sh");
        shell.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = shell.spawn().expect("a shell is installed");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut line).expect("it says so");
        let sleeps: u32 = line.trim().parse().expect("a number");
        assert!(descendants(child.id()).contains(&sleeps.to_string()));
        end(&mut child).expect("both can be ended");
        // The process that inherits it may take a while to notice.
        let stat = || std::fs::read_to_string(format!("/proc/{sleeps}/stat"));
        while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_started_program_gets_the_environment_without_this_package() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let path = std::env::var("PATH").expect("programs are searched for");
        let listed = |run: Run| run.capture(Duration::from_secs(20)).expect("env is installed");
        let found = listed(Run::new("env").env("CARGO_PROFILE_TEST_OPT_LEVEL", "0"));
        let names = found.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
        assert_eq!(names.filter(|name| is_of_a_package(name)).count(), 0, "{found}");
        for line in ["CARGO_PROFILE_TEST_OPT_LEVEL=0".to_owned(), format!("PATH={path}")] {
            assert!(found.lines().any(|found| found == line), "no {line}: {found}");
        }
        // A test program is told on purpose.
        let told = listed(Run::new("env").env("CARGO_MANIFEST_DIR", folder));
        assert!(told.contains(&format!("CARGO_MANIFEST_DIR={folder}\n")), "{told}");
    }

    #[test]
    fn the_users_own_cargo_variables_are_kept() {
        for name in ["CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS"] {
            assert!(!is_of_a_package(name), "{name}");
        }
        assert!(is_of_a_package("CARGO_PKG_VERSION") && is_of_a_package("CARGO_MANIFEST_PATH"));
    }
}
