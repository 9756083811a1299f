//! The machine of a measurement, and the cores that its two sides run on.

use std::fs;
use std::hint::spin_loop;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use crate::failure::{Failure, Outcome};

/// A file that identifies Larder's repository.
const OF_LARDER: &str = "crates/bench/Cargo.toml";

/// The kernel's list of cores that can be used.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The origin of a report: its machine, build and command.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The CPU's own name.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The commit that the program was built from, if that is known.
    pub commit: Option<String>,
    /// The command that made the report.
    pub command: String,
    /// What the two sides share: such figures depend on both.
    pub notes: Vec<String>,
}

impl Machine {
    /// Describes this machine and this command.
    pub fn describe() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut words = std::env::args();
        let _path = words.next();
        let arguments: Vec<String> = words.map(quoted).collect();
        Machine {
            cpu: cpu_name(&cpuinfo).unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: release.trim().to_owned(),
            commit: commit(),
            command: format!("larder-bench {}", arguments.join(" ")),
            notes: Vec::new(),
        }
    }

    /// Adds notes of the hardware that server and client share.
    pub fn with_sides(mut self, server: &[usize], client: &[usize]) -> Machine {
        self.notes.extend(shared(server, client, siblings));
        self
    }

    /// The lines above a table.
    pub fn lines(&self) -> String {
        let Machine { cpu, cores, kernel, commit, command, notes } = self;
        let commit = commit.as_deref().unwrap_or("unknown");
        let notes: String = notes.iter().map(|note| format!("note:    {note}\n")).collect();
        format!(
            "machine: {cpu}, {cores} cores, Linux {kernel}\ncommit:  {commit}\n{notes}$ {command}"
        )
    }
}

/// Returns a word as a shell takes it.
fn quoted(word: String) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "_-+=:,./@%".contains(it);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Refuses to use more memory than this machine has.
pub fn check_memory(bytes: u64) -> Outcome<()> {
    let machine_bytes = io::map::physical_memory_bytes().map_or(u64::MAX, |bytes| bytes as u64);
    if bytes <= machine_bytes {
        return Ok(());
    }
    let (wanted_mb, machine_mb) = (bytes >> 20, machine_bytes >> 20);
    Err(Failure::Usage(format!("{wanted_mb} MiB are asked for and the machine has {machine_mb}")))
}

/// The cores that the calling thread may run on, from the lowest.
pub fn cores() -> Outcome<Vec<usize>> {
    let doing = Failure::io("asking for the cores of this process");
    let set = sched_getaffinity(None).map_err(Into::into).map_err(doing)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// Returns the same cores, with hardware threads of one core next to each other: half of the list
/// is then half of the processor, and no core is split between both halves.
pub fn cores_by_siblings() -> Outcome<Vec<usize>> {
    Ok(by_siblings(&cores()?, siblings))
}

fn by_siblings(cores: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
    let mut sorted = cores.to_vec();
    sorted.sort_by_key(|core| (siblings(*core).into_iter().min().unwrap_or(*core), *core));
    sorted
}

/// Describes what two sides share.
fn shared(
    server: &[usize],
    client: &[usize],
    siblings: impl Fn(usize) -> Vec<usize>,
) -> Option<String> {
    if server.iter().any(|core| client.contains(core)) {
        return Some("servers and client share cores: neither has them to itself".into());
    }
    let pair = |core: &usize| {
        let other = siblings(*core).into_iter().find(|other| client.contains(other))?;
        Some((*core, other))
    };
    let (ours, theirs) = server.iter().find_map(pair)?;
    Some(format!(
        "core {ours} of the servers and core {theirs} of the client are threads of one core of the \
         processor: the busier one is, the slower is the other"
    ))
}

/// Returns the hardware threads of this one's core, itself included; none if the kernel does not
/// tell.
fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    numbers(&fs::read_to_string(path).unwrap_or_default())
}

/// Parses a list of numbers such as `0-1,8`.
fn numbers(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Pins the calling thread, and its future children, to one core; returns its previous cores.
pub fn pin(core: usize) -> Outcome<CpuSet> {
    pin_to(&[core])
}

/// Pins the calling thread like `pin`, to several cores.
pub fn pin_to(cores: &[usize]) -> Outcome<CpuSet> {
    let doing = || Failure::io(format!("pinning to cores {cores:?}"));
    let before = sched_getaffinity(None).map_err(Into::into).map_err(doing())?;
    let online = numbers(&fs::read_to_string(ONLINE).unwrap_or_default());
    let mut set = CpuSet::new();
    for &core in cores {
        // A set has no place for a core beyond this; one that is offline would be left out.
        if core >= CpuSet::MAX_CPU || !online.is_empty() && !online.contains(&core) {
            return Err(Failure::Usage(format!("there is no core {core}")));
        }
        set.set(core);
    }
    match sched_setaffinity(None, &set) {
        Ok(()) => Ok(before),
        Err(Errno::INVAL) => {
            Err(Failure::Usage(format!("this process may use none of the cores {cores:?}")))
        }
        Err(error) => Err(doing()(error.into())),
    }
}

/// A core that is kept awake while this lives.
#[derive(Debug)]
pub struct Awake {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Keeps a core awake: a thread runs there whenever nobody else wants to. Waking a sleeping core
/// takes time, in a virtual machine as long as a request, and the less a core has to do the more
/// often it sleeps; so latencies under different loads could not be compared.
pub fn keep_awake(core: usize) -> Outcome<Awake> {
    let is_over = Arc::new(AtomicBool::new(false));
    let (sender, begun) = sync_channel(1);
    let told = Arc::clone(&is_over);
    let thread = thread::spawn(move || {
        let doing = Failure::io("taking the idle time of a core");
        let tried = pin(core).and_then(|_| io::thread::take_idle_time().map_err(doing));
        let is_good = tried.is_ok();
        // The caller waits for it.
        let _ = sender.send(tried);
        while is_good && !told.load(Ordering::Relaxed) {
            spin_loop();
        }
    });
    let awake = Awake { is_over, thread: Some(thread) };
    begun.recv().expect("the thread sends before it ends").map(|()| awake)
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let joined = self.thread.take().map(JoinHandle::join);
        debug_assert!(joined.is_none_or(|ended| ended.is_ok()), "it only spins");
    }
}

/// Returns the calling thread to its previous cores.
pub fn restore(before: &CpuSet) -> Outcome<()> {
    sched_setaffinity(None, before).map_err(Into::into).map_err(Failure::io("unpinning"))
}

fn cpu_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(": ").map(|(_, name)| name)
}

/// Returns the commit of the repository that the program was built in, and whether files have
/// changed since: the command's working folder may belong to any other. The build is taken to match
/// the checkout, so a build comes before a measurement. A copy of the program elsewhere knows no
/// commit.
fn commit() -> Option<String> {
    commit_around(std::env::current_exe().ok()?.parent()?)
}

/// Returns the commit for a program in this folder.
fn commit_around(folder: &Path) -> Option<String> {
    let root = folder.ancestors().find(|folder| folder.join(".git").exists())?;
    if !root.join(OF_LARDER).exists() {
        return None;
    }
    let asked = |arguments: &[&str]| {
        let mut git = Command::new("git");
        // A hook sets these, and they override the folder.
        git.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
        let output = git.arg("-C").arg(root).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let commit = asked(&["rev-parse", "--short=12", "HEAD"]).filter(|text| !text.is_empty())?;
    let changed = asked(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}, with changes") })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::{CpuSet, pin, pin_to, quoted, restore, shared};
    use super::{Machine, OF_LARDER, by_siblings, commit_around, cores, cpu_name, numbers};
    use crate::trace::testing::Folder;
    use rustix::thread::sched_getaffinity;

    /// Regression: the commit was looked up in the command's working folder, so a report from
    /// elsewhere had none, or that of some other repository.
    #[test]
    fn the_commit_is_that_of_the_repository_around_the_program() {
        let folder = Folder::new();
        let (root, of_larder) = (folder.path(""), folder.path(OF_LARDER));
        let program = root.join("target/release");
        fs::create_dir_all(&program).expect("a folder");
        fs::create_dir_all(of_larder.parent().expect("it has one")).expect("a folder");
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=a", "-c", "user.email=a@example"];
            let mut git = Command::new("git");
            let output = git.arg("-C").arg(&root).args(identity).args(arguments).output();
            let output = output.expect("git runs");
            assert!(output.status.success(), "{arguments:?}: {output:?}");
            String::from_utf8(output.stdout).expect("text").trim().to_owned()
        };
        assert_eq!(commit_around(&program), None, "no repository");
        git(&["init", "--quiet"]);
        fs::write(root.join("other"), "x").expect("a file");
        git(&["add", "other"]);
        git(&["commit", "--quiet", "--message", "one"]);
        assert_eq!(commit_around(&program), None, "somebody else's");
        fs::write(&of_larder, "x").expect("a file");
        git(&["add", OF_LARDER]);
        git(&["commit", "--quiet", "--message", "two"]);
        let commit = git(&["rev-parse", "--short=12", "HEAD"]);
        assert_eq!(commit_around(&program), Some(commit.clone()));
        fs::write(&of_larder, "y").expect("a file");
        assert_eq!(commit_around(&program), Some(format!("{commit}, with changes")));
        assert_eq!(commit_around(Path::new("/")), None);
    }

    /// Regression: a client on the other hardware thread of the server's core counted as apart from
    /// it.
    #[test]
    fn notes_name_what_two_sides_share() {
        let halves = |core: usize| vec![core % 4, core % 4 + 4];
        let pairs = |core: usize| vec![core & !1, core | 1];
        let alone = |core: usize| vec![core];
        assert_eq!(shared(&[0, 1], &[2, 3], alone), None);
        assert_eq!(shared(&[0, 1], &[2, 3], pairs), None);
        assert!(shared(&[0], &[1], pairs).expect("one core").contains("threads of one core"));
        assert!(shared(&[0, 1], &[4], halves).expect("one core").contains("core 0 of the servers"));
        assert!(shared(&[0, 1], &[1], alone).expect("core 1").contains("share cores"));
        let all: Vec<usize> = (0..8).collect();
        assert_eq!(by_siblings(&all, halves), [0, 4, 1, 5, 2, 6, 3, 7]);
        assert_eq!(by_siblings(&all, pairs), all);
        assert_eq!(by_siblings(&all, |_| Vec::new()), all);
        assert_eq!(numbers("0-1,8\n"), [0, 1, 8]);
        assert!(numbers("").is_empty() && numbers("x-").is_empty());
    }

    /// Regression: a command with a quote, a dollar or an empty word could not be typed again.
    #[test]
    fn a_word_of_a_command_is_quoted_where_a_shell_would_read_it_otherwise() {
        let words = ["--rate=2.5", "make --keys 9", "", "a'b", "$HOME", "x={port}"];
        let output = Command::new("sh")
            .args(["-c", &format!("printf '%s\n' {}", words.map(|it| quoted(it.into())).join(" "))])
            .output()
            .expect("there is a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout), words.join("\n") + "\n");
        assert_eq!(quoted("64,256..1024".into()), "64,256..1024");
    }

    #[test]
    fn the_name_is_found_in_cpuinfo() {
        assert_eq!(cpu_name("processor\t: 0\nmodel name\t: A CPU\n"), Some("A CPU"));
        assert_eq!(cpu_name(""), None);
        assert!(!Machine::describe().kernel.is_empty());
    }

    /// Regression: a core that the machine does not have was left out beside another, and alone it
    /// was an invalid argument.
    #[test]
    fn a_core_that_is_not_there_is_refused_alone_and_beside_another() {
        for cores in [&[CpuSet::MAX_CPU - 1][..], &[0, CpuSet::MAX_CPU - 1], &[usize::MAX]] {
            let refused = pin_to(cores).expect_err("the machine is smaller");
            assert_eq!(refused.exit_code(), 2, "{refused}");
        }
    }

    #[test]
    fn a_pinned_thread_is_on_one_core_until_it_is_restored() {
        let before = pin(0).expect("core 0 exists");
        assert_eq!(cores().expect("readable"), [0]);
        restore(&before).expect("it ran there before");
        assert_eq!(sched_getaffinity(None).expect("readable"), before);
    }
}
