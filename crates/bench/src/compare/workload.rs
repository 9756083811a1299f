//! The workloads of a comparison, and the measurement of one workload on one server.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

use crate::compare::requests::RequestsOptions;
use crate::drive::encode::Operation;
use crate::drive::script::Script;
use crate::drive::{Driver, Run};
use crate::failure::{Failure, Outcome};
use crate::server::Server;
use crate::server::identity::Route;
use crate::server::recipe::Kind;
use crate::server::usage::CpuTime;

/// Requests in one write, or keys in one request, of the workloads with many.
const MANY: usize = 100;
/// The share of a run that is sent before it, unmeasured, to warm up sockets and caches.
const WARM_SHARE: u64 = 20;

/// The name of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// One get in flight on each connection.
    Get,
    /// 100 gets in one write.
    #[value(name = "get-x100")]
    #[serde(rename = "get-x100")]
    GetPipelined,
    /// One get of 100 keys; MGET for Redis.
    #[value(name = "multiget-100")]
    #[serde(rename = "multiget-100")]
    Multiget,
    /// One set in flight on each connection.
    Set,
    /// 100 sets in one write.
    #[value(name = "set-x100")]
    #[serde(rename = "set-x100")]
    SetPipelined,
}

/// How keys are read or written.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Its name in reports.
    pub name: Name,
    /// The operation of each request.
    pub operation: Operation,
    /// Requests in one write.
    pub pipeline: usize,
    /// Keys in one request.
    pub keys_per_request: usize,
}

/// One workload on one server in one round.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// The workload.
    pub workload: Name,
    /// The server's name.
    pub server: String,
    /// The round, from 0.
    pub round: u64,
    /// Keys read or written.
    pub keys: u64,
    /// Keys found; sets have none.
    pub hits: u64,
    /// CPU seconds of the server per million keys.
    pub server_cpu: f64,
    /// CPU seconds of the client per million keys.
    pub client_cpu: f64,
    /// Keys read or written per second.
    pub keys_per_second: f64,
    /// Share of the time that the server ran.
    pub server_busy: f64,
    /// Share of the time that the client ran.
    pub client_busy: f64,
    /// Median microseconds from writing a batch to its last reply.
    pub latency_us_p50: f64,
    /// The 99th percentile of that time.
    pub latency_us_p99: f64,
}

impl Name {
    /// All workloads, in the order in which they are run.
    pub const ALL: [Name; 5] =
        [Name::Get, Name::GetPipelined, Name::Multiget, Name::Set, Name::SetPipelined];

    /// Returns the workload of this name.
    pub fn workload(self) -> Workload {
        let (operation, pipeline, keys_per_request) = match self {
            Name::Get => (Operation::Get, 1, 1),
            Name::GetPipelined => (Operation::Get, MANY, 1),
            Name::Multiget => (Operation::Get, 1, MANY),
            Name::Set => (Operation::Set, 1, 1),
            Name::SetPipelined => (Operation::Set, MANY, 1),
        };
        Workload { name: self, operation, pipeline, keys_per_request }
    }
}

impl Name {
    /// Returns whether it reads keys.
    pub fn reads(self) -> bool {
        self.workload().operation == Operation::Get
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no name is hidden");
        out.pad(value.get_name())
    }
}

impl Workload {
    /// Returns whether the server can answer this. The null server answers a multiget with one
    /// value.
    pub fn suits(&self, kind: Kind) -> bool {
        kind != Kind::Null || self.keys_per_request == 1
    }

    /// Returns whether many keys are in one write.
    pub fn is_many(&self) -> bool {
        self.pipeline > 1 || self.keys_per_request > 1
    }

    /// Runs the workload once.
    pub fn measure(
        &self,
        options: &RequestsOptions,
        server: &Server,
        (address, tls): Route<'_>,
        script: &Script,
        round: u64,
    ) -> Outcome<Sample> {
        let (keys, connections) = if self.is_many() {
            (options.keys_pipelined, options.connections_pipelined)
        } else {
            (options.requests, options.connections)
        };
        let requests = (keys / self.keys_per_request as u64).max(1);
        let check = server.kind != Kind::Null;
        let mut driver =
            Driver::connect_over(address, tls, script, self.pipeline, connections as usize)?;
        driver.run(requests / WARM_SHARE, check)?;
        let server_before = CpuTime::of(server.pid())?;
        let client_before = CpuTime::own()?;
        let run = driver.run(requests, check)?;
        let client_ns = CpuTime::own()?.since_ns(client_before)? as f64;
        let server_ns = CpuTime::of(server.pid())?.since_ns(server_before)? as f64;
        self.verify(&run, &server.name)?;
        let (keys, elapsed_ns) = (run.keys as f64, run.elapsed.as_nanos() as f64);
        Ok(Sample {
            workload: self.name,
            server: server.name.clone(),
            round,
            keys: run.keys,
            hits: run.tally.hits,
            server_cpu: server_ns / keys / 1e3,
            client_cpu: client_ns / keys / 1e3,
            keys_per_second: keys / elapsed_ns * 1e9,
            server_busy: server_ns / elapsed_ns,
            client_busy: client_ns / elapsed_ns,
            latency_us_p50: run.latency_ns.value_at_quantile(0.5) as f64 / 1e3,
            latency_us_p99: run.latency_ns.value_at_quantile(0.99) as f64 / 1e3,
        })
    }

    /// Fails on any unexpected reply; misses are a result.
    pub fn verify(&self, run: &Run, server: &str) -> Outcome<()> {
        let Run { tally, keys, .. } = run;
        let valid = match self.operation {
            Operation::Get => tally.hits <= *keys && tally.stored == 0,
            Operation::Set => tally.stored == *keys && tally.hits == 0,
        };
        let name = self.name;
        if valid { Ok(()) } else { Err(Failure::Reply(format!("{name} on {server}: {tally:?}"))) }
    }
}
