//! Runs the unit under a real systemd, which is process 1 of its own namespaces. The service
//! starts, reports that it serves, takes new options, keeps the items in memory over a restart,
//! comes back after a kill, stays down when its options are wrong, and reads a file that only root
//! may read.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Run, find};
use crate::conformance::server::free_port;
use crate::conformance::wire::Wire;
use crate::{Failure, Result, fail};

/// The script that becomes process 1.
const START: &str = "conformance/systemd/start.sh";

const UNIT: &str = "deploy/larder.service";

/// The path of the options file, as the unit names it.
const OPTIONS: &str = "/etc/larder/larder.toml";

/// The path of the installed unit.
const INSTALLED: &str = "/etc/systemd/system/larder.service";

/// The path at which systemd gives the service its file of users.
const USERS: &str = "/run/credentials/larder.service/users";

/// The exit status for wrong options, which the unit knows.
const STATUS_OF_USAGE: &str = "64";

const LIMIT: Duration = Duration::from_secs(60);

/// Runs the scenario with a program, with files below a folder. Returns the reason where systemd
/// cannot run.
pub fn check(program: &str, folder: &str) -> Result<Option<String>> {
    let is_root = Run::new("id -u").capture(LIMIT)?.trim() == "0";
    if !is_root || find("unshare").is_none() || !Path::new("/lib/systemd/systemd").is_file() {
        return Ok(Some("systemd is not installed, or this is not root".to_owned()));
    }
    let port = free_port()?;
    let options = format!("{folder}/service.toml");
    let text = format!("port = {port}\nmemory-limit = \"16\"\n");
    std::fs::write(&options, text + "memory-file = \"/var/lib/larder/memory\"\n")?;
    let machine = match Machine::start(program, &options, folder) {
        Ok(machine) => machine,
        Err(Failure(why)) => return Ok(Some(format!("systemd does not run here: {why}"))),
    };
    let outcome = play(&machine, port);
    match outcome {
        Ok(()) => Ok(None),
        Err(Failure(why)) => {
            let journal = machine.run("journalctl --no-pager --unit=larder");
            let journal = journal.unwrap_or_else(|Failure(text)| text);
            fail(format!("the service under systemd: {why}\n{journal}"))
        }
    }
}

fn play(machine: &Machine, port: u16) -> Result {
    machine.wait_for("ActiveState", "active")?;
    machine.expect("StatusText", &format!("Serving on tcp:127.0.0.1:{port}"))?;
    let stored = "VALUE kept 0 1\r\nx\r\nEND\r\n";
    Wire::connect(port)?.expect("set kept 0 0 1\r\nx\r\n", "STORED\r\n")?;

    machine.run("systemctl reload larder")?;
    machine.run(&format!("cp {OPTIONS} /run/good.toml"))?;
    machine.run(&format!("sed -i $anonsense=1 {OPTIONS}"))?;
    if machine.run("systemctl reload larder").is_ok() {
        return fail("it was reloaded with a file that has an error");
    }
    Wire::connect(port)?.expect("get kept\r\n", stored)?;
    machine.run(&format!("cp /run/good.toml {OPTIONS}"))?;

    machine.run("systemctl restart larder")?;
    Wire::connect(port)?.expect("get kept\r\n", stored)?;

    machine.run("systemctl kill --signal=KILL larder")?;
    machine.wait_for("NRestarts", "1")?;
    machine.wait_for("ActiveState", "active")?;
    // The saved image is older than the stores since.
    Wire::connect(port)?.expect("get kept\r\n", "END\r\n")?;

    machine.run("systemctl stop larder")?;
    machine.expect("Result", "success")?;

    machine.run(&format!("sed -i $anonsense=1 {OPTIONS}"))?;
    if machine.run("systemctl start larder").is_ok() {
        return fail("it was started with a file that has an error");
    }
    machine.expect("ExecMainStatus", STATUS_OF_USAGE)?;
    machine.expect("ActiveState", "failed")?;
    play_with_users(machine, port)
}

/// Runs with a file of users, as the unit's comment describes.
fn play_with_users(machine: &Machine, port: u16) -> Result {
    machine.run(&format!("sed -i s/^#LoadCredential=users/LoadCredential=users/ {INSTALLED}"))?;
    machine.run(&format!("cp /run/good.toml {OPTIONS}"))?;
    machine.run(&format!("sed -i $aauth-file=\"{USERS}\" {OPTIONS}"))?;
    machine.run("systemctl daemon-reload")?;
    machine.run("systemctl start larder")?;
    Wire::connect(port)?.expect("get kept\r\n", "CLIENT_ERROR unauthenticated\r\n")?;
    Wire::connect(port)?.expect("set a 0 0 10\r\nbob secret\r\n", "STORED\r\n")?;
    machine.run("systemctl stop larder")?;
    machine.expect("Result", "success")
}

/// A running systemd. Dropping it ends it with everything it has started.
struct Machine {
    unshare: Child,
    /// The process id of its first process, outside its namespace.
    process: String,
}

impl Machine {
    fn start(program: &str, options: &str, folder: &str) -> Result<Machine> {
        let root = format!("{folder}/systemd");
        std::fs::create_dir_all(&root)?;
        let output = std::fs::File::create(format!("{folder}/systemd.log"))?;
        let unshare = Command::new("unshare")
            .args(["--mount", "--pid", "--cgroup", "--uts", "--ipc", "--fork", "--kill-child"])
            .args([START, &root, program, options, UNIT])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let mut machine = Machine { unshare, process: String::new() };
        let started = Instant::now();
        loop {
            if let Some(status) = machine.unshare.try_wait()? {
                let said = std::fs::read_to_string(format!("{folder}/systemd.log"))?;
                return fail(format!("{status}: {}", said.trim()));
            }
            machine.process = machine.first_process();
            // It answers once `unshare` has become systemd and its bus is there.
            if !machine.process.is_empty() && machine.run("systemctl show larder").is_ok() {
                return Ok(machine);
            }
            if started.elapsed() > LIMIT {
                return fail("it does not answer");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the process that `unshare` has started.
    fn first_process(&self) -> String {
        let process = self.unshare.id();
        let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        children.unwrap_or_default().trim().to_owned()
    }

    /// Runs a command inside.
    fn run(&self, words: &str) -> Result<String> {
        Run::new("nsenter --mount --pid --cgroup --uts --ipc --root --wd --target")
            .arg(&self.process)
            .args(words)
            .capture(LIMIT)
    }

    /// Returns a property of the service.
    fn property(&self, name: &str) -> Result<String> {
        let said = self.run(&format!("systemctl show larder --value --property={name}"))?;
        Ok(said.trim().to_owned())
    }

    fn expect(&self, name: &str, expected: &str) -> Result {
        match self.property(name)? {
            value if value == expected => Ok(()),
            value => fail(format!("{name} is {value:?} and not {expected:?}")),
        }
    }

    /// Waits until a property of the service has the expected value.
    fn wait_for(&self, name: &str, expected: &str) -> Result {
        let started = Instant::now();
        while started.elapsed() < LIMIT {
            if self.property(name)? == expected {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.expect(name, expected)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // All other processes of the namespace end with its first.
        let _ = Run::new("kill -KILL").arg(&self.process).capture(LIMIT);
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}
