//! memcached's own proxy, built from the source of Debian's package, whose binary lacks it.
//!
//! The build happens once, in a copy, so that the source stays clean for its other users.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::proxy::Neighbour;
use super::server::{FOLDER, free_port};
use crate::command::Run;
use crate::{Result, fail, sources};

/// The configuration for operators.
const TEMPLATE: &str = "deploy/scale-out/memcached-proxy.lua";

/// The beginning of a server's line in it.
const SERVER: &str = "    { \"larder-";

const BUILD_LIMIT: Duration = Duration::from_secs(600);

/// A running proxy.
pub struct MemcachedProxy {
    proxy: Neighbour,
    /// The port for clients.
    pub port: u16,
    path: String,
}

impl MemcachedProxy {
    /// The name of its log.
    pub const LOG: &str = "memcached-proxy";

    /// Starts it before servers on these ports; `None` where memcached's source is missing.
    pub fn start(servers: &[u16]) -> Result<Option<Self>> {
        let Some(program) = build()? else { return Ok(None) };
        let port = free_port()?;
        let path = format!("{FOLDER}/memcached-proxy-{port}.lua");
        configure(&path, servers)?;
        let mut command = Command::new(program);
        command
            .args(["-u", "root", "-l", "127.0.0.1", "-t", "1", "-p", &port.to_string()])
            .args(["-o", &format!("proxy_config={path}")]);
        let proxy = Neighbour::start(Self::LOG, &mut command, port)?;
        Ok(Some(Self { proxy, port, path }))
    }

    /// Gives it another list of servers.
    pub fn reload(&self, servers: &[u16]) -> Result {
        configure(&self.path, servers)?;
        self.proxy.reload()
    }
}

/// Writes the configuration with these servers.
fn configure(path: &str, servers: &[u16]) -> Result {
    let template = std::fs::read_to_string(TEMPLATE)?;
    let count = template.lines().filter(|line| line.starts_with(SERVER)).count();
    let (Some(start), 3) = (template.find(SERVER), count) else {
        return fail(format!("{TEMPLATE} has another form than this part expects"));
    };
    let mut text = template[..start].to_string();
    for (place, port) in servers.iter().enumerate() {
        text.push_str(&format!("{SERVER}{}\", \"127.0.0.1\", {port} }},\n", place + 1));
    }
    let rest = template[start..].lines().skip_while(|line| line.starts_with(SERVER));
    rest.for_each(|line| text.push_str(&format!("{line}\n")));
    std::fs::write(path, text)?;
    Ok(())
}

/// Returns the program, built if need be.
fn build() -> Result<Option<PathBuf>> {
    if !sources::has("memcached") {
        return Ok(None);
    }
    let folder = Path::new(sources::FOLDER).join("memcached-proxy");
    let program = folder.join("memcached");
    if program.is_file() {
        return Ok(Some(program.canonicalize()?));
    }
    sources::replace_folder(&folder)?;
    let source = Path::new(sources::FOLDER).join("memcached").join(".");
    Run::new("cp -a").arg(source).arg(&folder).capture(BUILD_LIMIT)?;
    let shown = folder.to_string_lossy();
    let inside = |words: &str| Run::new(words).folder(&shown);
    inside("./configure --enable-proxy").capture(BUILD_LIMIT)?;
    inside("make -C vendor").capture(BUILD_LIMIT)?;
    inside("make -j2 memcached").arg("CFLAGS=-O1 -w").capture(BUILD_LIMIT)?;
    Ok(Some(program.canonicalize()?))
}
