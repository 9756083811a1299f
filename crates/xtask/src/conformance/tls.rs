//! Clients that people use, over TLS: each with a server that has a certificate made for the run,
//! which the client checks.

use std::path::Path;
use std::time::Duration;

use super::server::{FOLDER, free_port};
use super::{Bench, Ended};
use crate::Result;
use crate::command::{Run, find};
use crate::install::VENV;

const LIMIT: Duration = Duration::from_secs(120);

/// The variable that tells the Python programs which certificate authority to trust.
const CA_FILE: &str = "CA_FILE";

/// pymemcache, by the text protocol.
pub fn pymemcache(bench: &Bench) -> Result<Ended> {
    python(bench, "text_client.py", false)
}

/// python-binary-memcached, by the binary protocol.
pub fn bmemcached(bench: &Bench) -> Result<Ended> {
    python(bench, "binary_client.py", false)
}

/// redis-py, by Redis' protocol.
pub fn redis_py(bench: &Bench) -> Result<Ended> {
    if !bench.larder {
        return Ok(Ended::NotRun("only Larder has a port for Redis' clients".to_string()));
    }
    python(bench, "redis_client.py", true)
}

fn python(bench: &Bench, script: &str, is_redis: bool) -> Result<Ended> {
    let interpreter = format!("{VENV}/bin/python");
    if !Path::new(&interpreter).exists() || find("openssl").is_none() {
        let words = "openssl or the Python libraries are not installed (cargo xtask install)";
        return Ok(Ended::NotRun(words.to_string()));
    }
    std::fs::create_dir_all(FOLDER)?;
    let (chain, key) = (format!("{FOLDER}/tls-chain.pem"), format!("{FOLDER}/tls-key.pem"));
    Run::new("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2")
        .arg("-subj")
        .arg("/CN=localhost")
        .arg("-addext")
        .arg("subjectAltName=DNS:localhost,IP:127.0.0.1")
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&chain)
        .capture(LIMIT)?;
    let options = format!("-m 64 -Z -o ssl_chain_cert={chain},ssl_key={key}");
    let redis_port = free_port()?;
    let (server, port) = if is_redis {
        let options = format!("{options} --redis-port {redis_port}");
        (bench.options.server.start(&options)?, redis_port)
    } else {
        let server = bench.options.server.start(&options)?;
        let port = server.port;
        (server, port)
    };
    let text = Run::new(&interpreter)
        .arg(format!("conformance/python/{script}"))
        .arg("127.0.0.1")
        .arg(port.to_string())
        .env(CA_FILE, &chain)
        .env("PYTHONWARNINGS", "ignore")
        .capture(LIMIT)?;
    drop(server);
    Ok(Ended::Passed(text.trim_end().lines().next_back().unwrap_or("").to_string()))
}
