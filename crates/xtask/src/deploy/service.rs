//! The unit under a real systemd, as process 1 of namespaces of its own: it starts, says that it
//! serves, takes new options, keeps what is in memory over a restart, comes back when it is
//! killed, stays down when its options are wrong, and is handed a file that only root may read.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Run, find};
use crate::conformance::server::free_port;
use crate::conformance::wire::Wire;
use crate::{Failure, Result, fail};

/// What becomes process 1.
const START: &str = "conformance/systemd/start.sh";

const UNIT: &str = "deploy/larder.service";

/// Where the options stand, as the unit has it.
const OPTIONS: &str = "/etc/larder/larder.toml";

/// Where the unit is.
const INSTALLED: &str = "/etc/systemd/system/larder.service";

/// What systemd hands the service of the file of users.
const USERS: &str = "/run/credentials/larder.service/users";

/// The status of a program whose options are wrong, which the unit knows.
const STATUS_OF_USAGE: &str = "64";

const LIMIT: Duration = Duration::from_secs(60);

/// Plays it with a program, with files below a folder. Says why where there can be no systemd.
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
    // What was saved before is older than what was served since.
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

/// With the file of users as the unit's comment says.
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

/// A running systemd. It ends with all that it has started when this is dropped.
struct Machine {
    unshare: Child,
    /// Its process, as this machine counts.
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
            // It answers once it is systemd, and its bus is there.
            if !machine.process.is_empty() && machine.run("systemctl show larder").is_ok() {
                return Ok(machine);
            }
            if started.elapsed() > LIMIT {
                return fail("it does not answer");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The process that `unshare` has begun.
    fn first_process(&self) -> String {
        let process = self.unshare.id();
        let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        children.unwrap_or_default().trim().to_owned()
    }

    /// Runs a command there.
    fn run(&self, words: &str) -> Result<String> {
        Run::new("nsenter --mount --pid --cgroup --uts --ipc --root --wd --target")
            .arg(&self.process)
            .args(words)
            .capture(LIMIT)
    }

    /// A property of the service.
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

    /// Waits until a property of the service is as expected.
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
        // With the first process of the namespace all others end.
        let _ = Run::new("kill -KILL").arg(&self.process).capture(LIMIT);
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}
