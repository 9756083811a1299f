//! A well-behaved client that works beside the bad ones and notices whether they hurt it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::wire::Wire;
use crate::{Result, fail};

const KEYS: usize = 500;

/// A thread that sets and reads its own keys until it is asked for the result.
pub struct Witness {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<usize>>,
}

/// Returns the value of a key in a round.
fn value(key: usize, round: usize) -> String {
    format!("{key}:{round}:{}", "v".repeat(key % 200))
}

impl Witness {
    /// Starts to work with a server.
    pub fn start(port: u16) -> Witness {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || work(port, &seen));
        Witness { stop, thread }
    }

    /// Stops, and reads everything once more; returns how many requests were answered rightly.
    pub fn verify(self) -> Result<usize> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(outcome) => outcome,
            Err(_) => fail("the well-behaved client panicked"),
        }
    }
}

fn work(port: u16, stop: &AtomicBool) -> Result<usize> {
    let mut wire = Wire::connect(port)?;
    let mut answered = 0;
    let mut round = 0;
    loop {
        let last = stop.load(Ordering::Relaxed);
        for key in 0..KEYS {
            let value = value(key, round);
            let length = value.len();
            wire.expect(&format!("set witness:{key} 0 0 {length}\r\n{value}\r\n"), "STORED\r\n")?;
        }
        for key in 0..KEYS {
            let value = value(key, round);
            let length = value.len();
            let answer = format!("VALUE witness:{key} 0 {length}\r\n{value}\r\nEND\r\n");
            wire.expect(&format!("get witness:{key}\r\n"), &answer)?;
        }
        answered += 2 * KEYS;
        round += 1;
        if last {
            return Ok(answered);
        }
    }
}
