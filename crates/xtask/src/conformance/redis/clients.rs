//! The programs that people use with Redis, each with a server of its own; `clients` has those of
//! memcached's protocols.

use std::path::Path;
use std::time::Duration;

use super::super::{Bench, Ended};
use super::start;
use crate::command::{Run, find};
use crate::install::{GO_REDIS, NODE, VENV};
use crate::{Result, fail};

const LIMIT: Duration = Duration::from_secs(120);

fn not_run(words: &str) -> Result<Ended> {
    Ok(Ended::NotRun(words.to_string()))
}

/// Returns the last line of a program's output, which summarises its run.
fn last_line(text: &str) -> Ended {
    Ended::Passed(text.trim_end().lines().next_back().unwrap_or("").to_string())
}

/// redis-cli: one command after the other, in both versions, with values through a pipe.
pub fn redis_cli(bench: &Bench) -> Result<Ended> {
    if find("redis-cli").is_none() {
        return not_run("redis-cli is not installed");
    }
    let (_server, port) = start(bench, "-m 64")?;
    let commands: &[(&str, &str)] = &[
        ("ping", "PONG\n"),
        ("set a 1", "OK\n"),
        ("-3 get a", "1\n"),
        ("incrby a 41", "42\n"),
        ("mget a none", "42\n\n"),
        ("-3 config get databases", "databases 1\n"),
        ("-n 0 exists a none", "1\n"),
        ("nonsense x", "ERR unknown command 'nonsense', with args beginning with: 'x' \n\n"),
        ("--scan --pattern a*", "a\n"),
        ("dbsize", "1\n"),
        ("flushall", "OK\n"),
    ];
    for (words, wanted) in commands {
        let run = Run::new("redis-cli -h 127.0.0.1 -p").arg(port.to_string());
        let run = words.split(' ').fold(run, |run, word| run.arg(word));
        let (_, text) = run.output(LIMIT)?;
        if text != *wanted {
            return fail(format!("redis-cli {words} printed {text:?}, not {wanted:?}"));
        }
    }
    Ok(Ended::Passed(format!("{} commands", commands.len())))
}

/// redis-benchmark: its tests that need only strings, alone and pipelined.
pub fn redis_benchmark(bench: &Bench) -> Result<Ended> {
    if find("redis-benchmark").is_none() {
        return not_run("redis-benchmark is not installed");
    }
    let (_server, port) = start(bench, "-m 64")?;
    let tests = "ping_inline,ping_mbulk,set,get,incr,mset";
    let mut lines = 0;
    for options in ["-n 20000 -c 20", "-n 50000 -c 10 -P 16", "-n 200 -c 4 -d 900000"] {
        let run = Run::new("redis-benchmark -h 127.0.0.1 --csv -t").arg(tests).arg("-p");
        let run = options.split(' ').fold(run.arg(port.to_string()), |run, word| run.arg(word));
        // Ten values of this size exceed the limit of a command.
        let run = if options.contains("-d") { run.arg("-t").arg("set,get") } else { run };
        let text = run.capture(LIMIT)?;
        if text.contains("rror") || text.contains("WARN") {
            return fail(format!("redis-benchmark {options} printed\n{text}"));
        }
        lines += text.lines().filter(|line| line.starts_with('"') && !line.contains("rps")).count();
    }
    if lines != 6 + 6 + 2 {
        return fail(format!("redis-benchmark ended {lines} tests"));
    }
    Ok(Ended::Passed(format!("{lines} tests")))
}

/// redis-py, a Python client.
pub fn redis_py(bench: &Bench) -> Result<Ended> {
    let interpreter = format!("{VENV}/bin/python");
    if !Path::new(&interpreter).exists() {
        return not_run("the Python libraries are not installed (cargo xtask install)");
    }
    let (_server, port) = start(bench, "-m 64")?;
    let run = Run::new(&interpreter).arg("conformance/python/redis_client.py").arg("127.0.0.1");
    // It warns about commands that have a newer name; they have to work all the same.
    let run = run.arg(port.to_string()).env("PYTHONWARNINGS", "ignore");
    Ok(last_line(&run.capture(LIMIT)?))
}

/// ioredis, a JavaScript client.
pub fn ioredis(bench: &Bench) -> Result<Ended> {
    let modules = Path::new(NODE).join("node_modules");
    if find("node").is_none() || !modules.join("ioredis").exists() {
        return not_run("the JavaScript clients are not installed (cargo xtask install)");
    }
    let (_server, port) = start(bench, "-m 64")?;
    let run = Run::new("node conformance/node/redis.js").arg(format!("127.0.0.1:{port}"));
    Ok(last_line(&run.env("NODE_PATH", modules).capture(LIMIT)?))
}

/// go-redis, a Go client.
pub fn go_redis(bench: &Bench) -> Result<Ended> {
    if !Path::new(GO_REDIS).exists() {
        return not_run("the Go client of Redis' protocol is not built (cargo xtask install)");
    }
    let (_server, port) = start(bench, "-m 64")?;
    Ok(last_line(&Run::new(GO_REDIS).arg(format!("127.0.0.1:{port}")).capture(LIMIT)?))
}

/// Jedis, a Java client.
pub fn jedis(bench: &Bench) -> Result<Ended> {
    let classes = "target/conformance/java/classes";
    if find("java").is_none() || !Path::new(classes).join("RedisClient.class").exists() {
        return not_run("the Java clients are not built (cargo xtask install)");
    }
    let (_server, port) = start(bench, "-m 64")?;
    let run = Run::new("java -cp").arg(format!("{classes}:target/conformance/java/lib/*"));
    let run = run.arg("RedisClient").arg("127.0.0.1").arg(port.to_string());
    Ok(last_line(&run.capture(LIMIT)?))
}
