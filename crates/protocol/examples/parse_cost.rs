//! The cost of reading a request and writing its answer, in nanoseconds: the median of many rounds.
//!
//! `cargo run --release -p larder-protocol --example parse_cost`

use std::hint::black_box;
use std::time::Instant;

use larder_protocol::request::{MetaFlags, Request};
use larder_protocol::{Dialect, Parsed, parse_as, reply};

const ROUNDS: usize = 201;
const REQUESTS_PER_ROUND: usize = 2000;

/// Runs `once` many times and prints the median per `units` (keys, usually).
fn measure(name: &str, units: usize, mut once: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..REQUESTS_PER_ROUND {
                once();
            }
            start.elapsed().as_nanos() as f64 / (REQUESTS_PER_ROUND * units) as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (low, median, high) =
        (rounds[ROUNDS / 10], rounds[ROUNDS / 2], rounds[ROUNDS - ROUNDS / 10]);
    println!("{name:<44} {median:>7.1} ns   (10 % {low:.1}, 90 % {high:.1})");
}

/// Reads everything in `input`, looks at each key, and returns the number of requests.
fn read_all(input: &[u8], dialect: Dialect) -> usize {
    let mut at = 0;
    let mut count = 0;
    while at < input.len() {
        match parse_as(black_box(&input[at..]), None, dialect) {
            Parsed::Request { request, consumed } => {
                at += consumed;
                count += 1;
                match request {
                    Request::Get(get) => get.keys().for_each(|key| {
                        black_box(key);
                    }),
                    Request::Store(store) => at += store.value_bytes + 2,
                    Request::MetaSet(set) => at += set.value_bytes + 2,
                    other => {
                        black_box(other);
                    }
                }
            }
            other => panic!("{other:?}"),
        }
    }
    count
}

fn main() {
    let key = |index: usize| format!("key:{:020}", index * 7919);
    let lines =
        |line: &dyn Fn(usize) -> String| (0..100).map(line).collect::<String>().into_bytes();
    let plain = black_box(Dialect::default());
    let pipelined: [(&str, Vec<u8>); 5] = [
        ("get, 1 key of 24 bytes, 100 pipelined", lines(&|i| format!("get {}\r\n", key(i)))),
        ("gets, 1 key, 100 pipelined", lines(&|i| format!("gets {}\r\n", key(i)))),
        (
            "set of 32 bytes, 100 pipelined",
            lines(&|i| format!("set {} 0 0 32\r\n{}\r\n", key(i), "v".repeat(32))),
        ),
        ("mg v t f, 100 pipelined", lines(&|i| format!("mg {} v t f\r\n", key(i)))),
        (
            "ms T60 of 32 bytes, 100 pipelined",
            lines(&|i| format!("ms {} 32 T60\r\n{}\r\n", key(i), "v".repeat(32))),
        ),
    ];
    for (name, input) in &pipelined {
        measure(name, 100, || {
            black_box(read_all(input, plain));
        });
    }
    let keys: Vec<String> = (0..100).map(key).collect();
    let multiget = format!("get {}\r\n", keys.join(" ")).into_bytes();
    measure("get, 100 keys, per key", 100, || {
        black_box(read_all(&multiget, plain));
    });
    let costs = black_box(Dialect { text_cost: true });
    let sets = lines(&|i| format!("set {} 0 0 32 1500\r\n{}\r\n", key(i), "v".repeat(32)));
    measure("set of 32 bytes with a cost, 100 pipelined", 100, || {
        black_box(read_all(&sets, costs));
    });

    let mut out = Vec::with_capacity(4096);
    measure("VALUE line", 1, || {
        out.clear();
        reply::value_header(black_box(&mut out), keys[0].as_bytes(), 0, 32, None);
    });
    let facts = reply::meta::MetaFacts::absent(larder_protocol::request::Key::plain(b"k"));
    measure("VA line with t and f", 1, || {
        out.clear();
        reply::meta::meta(
            black_box(&mut out),
            reply::meta::MetaCommand::Get,
            reply::meta::MetaCode::Value(32),
            MetaFlags(b"v t f"),
            &facts,
        );
    });
}
