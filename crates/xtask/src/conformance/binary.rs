//! Random conversations in the binary protocol, played to memcached and to the server under test:
//! requests over one of three keys, each followed by a `noop` whose reply shows that all others
//! have arrived. A sequence is not shrunk: its last requests are shown.
//!
//! CAS uniques differ, so each server is sent the one that it gave last for the key, and only the
//! presence of a unique is compared. Damaged lengths come last in a sequence, because they end it.

use super::Tally;
use super::case::prefix;
use super::differential::Pair;
use super::wire::{Wire, shorten};
use crate::random::Random;
use crate::{Result, fail};

const REQUESTS_MAX: usize = 30;
const KEYS: usize = 3;
/// After this many differences the remaining sequences tell nothing new.
const DIFFERENCES_MAX: usize = 10;
/// The number of last requests shown of a sequence that differs.
const SHOWN: usize = 4;
/// How often a sequence is played again to see whether memcached answers differently.
const PLAYS_MAX: usize = 3;
/// One sequence is played here per this many of the text protocol.
const SHARE: usize = 5;

const HEADER_BYTES: usize = 24;
const NOOP: u8 = 0x0a;
const VERSION: u8 = 0x0b;
/// The status of a reply that refuses to count a value that is no number.
const NON_NUMERIC: [u8; 2] = [0, 6];
/// The mark of the `noop` that ends each exchange.
const LAST: u32 = u32::MAX;

/// All opcodes except those that end the connection, flush the keys of others, or describe the
/// server.
const OPCODES: &[u8] = &[
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x11, 0x12,
    0x13, 0x14, 0x15, 0x16, 0x19, 0x1a, 0x1c, 0x1d, 0x1e, 0x23, 0x24,
];
/// Some opcodes that do not exist, or only with SASL.
const UNKNOWN: &[u8] = &[0x1f, 0x20, 0x21, 0x77, 0xff];

/// A request, the same for both servers except for the CAS unique.
#[derive(Debug, Clone)]
struct Request {
    opcode: u8,
    opaque: u32,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The unique to send: the last one of a key, or one that was never given.
    unique: Unique,
    /// A header whose lengths do not fit, sent without the bytes that it announces.
    misshapen: bool,
}

#[derive(Debug, Clone, Copy)]
enum Unique {
    None,
    Last,
    Wrong,
}

/// A reply. The CAS unique and the version's text are the server's own.
#[derive(Debug, Clone, PartialEq)]
struct Reply {
    header: [u8; 16],
    has_unique: bool,
    body: Vec<u8>,
}

/// The answers of both servers to each request, up to the first difference.
struct Played {
    wanted: Vec<Vec<Reply>>,
    got: Vec<Vec<Reply>>,
}

/// The request that was answered in two ways, and the answers.
struct Difference {
    step: usize,
    wanted: Vec<Reply>,
    got: Vec<Reply>,
}

impl Played {
    fn difference(mut self) -> Option<Difference> {
        let (wanted, got) = (self.wanted.pop()?, self.got.pop()?);
        (wanted != got).then_some(Difference { step: self.got.len(), wanted, got })
    }
}

impl Difference {
    /// Returns whether memcached may have read a number as none. Before 1.6.22 it looks for the
    /// sign of a number from 2^63 on beyond the number's end, up to a zero byte in the earlier
    /// content of the item's memory, and a `-` there makes the number negative. Playing the
    /// sequence again under other keys shows whether it was that.
    fn is_stray_sign(&self) -> bool {
        let is_refusal = |reply: &Reply| reply.header[6..8] == NON_NUMERIC;
        self.wanted.iter().any(is_refusal) && !self.got.iter().any(is_refusal)
    }
}

impl Request {
    fn bytes(&self, unique: u64) -> Vec<u8> {
        let key_bytes = (self.key.len() as u16).to_be_bytes();
        let body_bytes = self.extras.len() + self.key.len() + self.value.len();
        let mut bytes = vec![0x80, self.opcode, key_bytes[0], key_bytes[1]];
        bytes.extend_from_slice(&[self.extras.len() as u8, 0, 0, 0]);
        bytes.extend_from_slice(&(body_bytes as u32).to_be_bytes());
        bytes.extend_from_slice(&self.opaque.to_be_bytes());
        bytes.extend_from_slice(&unique.to_be_bytes());
        [&bytes[..], &self.extras, &self.key, &self.value].concat()
    }
}

/// A conversation with one server.
struct Speaker {
    wire: Wire,
    /// The unique given last for each key.
    uniques: [u64; KEYS],
}

impl Speaker {
    fn connect(port: u16) -> Result<Speaker> {
        Ok(Speaker { wire: Wire::connect(port)?, uniques: [0; KEYS] })
    }

    /// Sends a request over key number `place` and returns all replies to it; the last one is
    /// missing if the server has closed.
    fn ask(&mut self, request: &Request, place: usize) -> Result<Vec<Reply>> {
        let unique = match request.unique {
            Unique::None => 0,
            Unique::Last => self.uniques[place],
            Unique::Wrong => u64::MAX / 3,
        };
        let mut bytes = request.bytes(unique);
        if !request.misshapen {
            bytes.extend_from_slice(&noop().bytes(0));
        }
        self.wire.send(&bytes)?;
        let mut replies = Vec::new();
        while let Some((reply, unique, opaque)) = self.reply()? {
            if unique != 0 {
                self.uniques[place] = unique;
            }
            replies.push(reply);
            if opaque == LAST {
                break;
            }
        }
        Ok(replies)
    }

    /// Returns the next reply with its unique and the request's mark; `None` if the server has
    /// closed.
    fn reply(&mut self) -> Result<Option<(Reply, u64, u32)>> {
        let Some(header) = self.take(HEADER_BYTES)? else {
            return Ok(None);
        };
        let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let unique = u64::from(number(16)) << 32 | u64::from(number(20));
        let Some(mut body) = self.take(number(8) as usize)? else {
            return fail("closed in the middle of a reply");
        };
        let mut head = [0; 16];
        head.copy_from_slice(&header[..16]);
        if header[1] == VERSION && header[7] == 0 {
            body.clear();
            head[8..12].fill(0);
        }
        Ok(Some((Reply { header: head, has_unique: unique != 0, body }, unique, number(12))))
    }

    /// Returns the next bytes from the server; `None` if it has closed before the first.
    fn take(&mut self, bytes: usize) -> Result<Option<Vec<u8>>> {
        if !self.wire.read_bytes(bytes)? {
            return Ok(None);
        }
        let rest = self.wire.received.split_off(bytes);
        Ok(Some(std::mem::replace(&mut self.wire.received, rest)))
    }
}

/// Returns the request that ends an exchange.
fn noop() -> Request {
    Request {
        opcode: NOOP,
        opaque: LAST,
        extras: Vec::new(),
        key: Vec::new(),
        value: Vec::new(),
        unique: Unique::None,
        misshapen: false,
    }
}

/// Plays the sequences and counts each as one.
pub fn sequences(pair: &Pair, tally: &mut Tally) -> Result {
    let mut random = Random::new(pair.options.seed);
    for number in 0..pair.options.sequences.div_ceil(SHARE) {
        tally.done(sequence(pair, number, &mut random)?);
        if tally.failures.len() >= DIFFERENCES_MAX {
            break;
        }
    }
    Ok(())
}

/// Plays one sequence and reports where it is answered in two ways.
fn sequence(pair: &Pair, number: usize, random: &mut Random) -> Result<Option<String>> {
    let random_before = random.clone();
    let asked = requests(random, &prefix());
    let Some(difference) = played(pair, &asked)?.difference() else {
        return Ok(None);
    };
    for _ in 0..PLAYS_MAX {
        if pair.newer || !difference.is_stray_sign() {
            break;
        }
        let second = played(pair, &requests(&mut random_before.clone(), &prefix()))?;
        let same = second.got.get(difference.step) == Some(&difference.got);
        if same && second.difference().is_none() {
            return Ok(None);
        }
    }
    let asked = asked[..=difference.step].iter().map(|(_, request)| request);
    let mut text = format!("sequence {number}, ends so:");
    for request in asked.skip((difference.step + 1).saturating_sub(SHOWN)) {
        text.push_str(&format!("\n    send {}", shorten(&format!("{request:x?}"))));
    }
    text.push_str(&format!("\n    memcached {}", shorten(&format!("{:x?}", difference.wanted))));
    text.push_str(&format!("\n    server    {}", shorten(&format!("{:x?}", difference.got))));
    Ok(Some(text))
}

/// Draws requests, each with the place of its key among those with this prefix.
fn requests(random: &mut Random, prefix: &str) -> Vec<(usize, Request)> {
    let count = 1 + random.below(REQUESTS_MAX);
    let mut requests = Vec::new();
    for step in 0..count {
        let place = random.below(KEYS);
        let mut request = request(random, format!("{prefix}{place}").into_bytes());
        request.opaque = step as u32;
        if step + 1 == count && random.once_in(4) {
            misshape(random, &mut request);
        }
        requests.push((place, request));
    }
    requests
}

/// Sends the requests to both servers, up to the first that they answer in two ways.
fn played(pair: &Pair, requests: &[(usize, Request)]) -> Result<Played> {
    let mut speakers = [Speaker::connect(pair.reference)?, Speaker::connect(pair.subject)?];
    let mut played = Played { wanted: Vec::new(), got: Vec::new() };
    for (place, request) in requests {
        let [reference, subject] = &mut speakers;
        played.wanted.push(reference.ask(request, *place)?);
        played.got.push(subject.ask(request, *place)?);
        if played.wanted.last() != played.got.last() {
            break;
        }
    }
    Ok(played)
}

/// Draws a request over `key`.
fn request(random: &mut Random, key: Vec<u8>) -> Request {
    let some = |random: &mut Random, numbers: &[u64]| numbers[random.below(numbers.len())];
    let opcodes = if random.once_in(40) { UNKNOWN } else { OPCODES };
    let opcode = opcodes[random.below(opcodes.len())];
    let mut request = Request { opcode, key, ..noop() };
    match opcode {
        0x01..=0x03 | 0x11..=0x13 => {
            let flags = some(random, &[0, 5, u64::from(u32::MAX)]) as u32;
            // A time within the last thirty days before 2038, and one that is always in the past.
            let expiry = some(random, &[0, 0, 100, 5_000_000, 2_147_483_647]) as u32;
            request.extras = [flags.to_be_bytes(), expiry.to_be_bytes()].concat();
            request.value = value(random);
        }
        0x0e | 0x0f | 0x19 | 0x1a => request.value = value(random),
        0x05 | 0x06 | 0x15 | 0x16 => {
            let delta = some(random, &[0, 1, 5, u64::MAX]);
            let initial = some(random, &[0, 10, u64::MAX]);
            let expiry = some(random, &[0, 100, u64::from(u32::MAX)]) as u32;
            let numbers = [delta.to_be_bytes(), initial.to_be_bytes()].concat();
            request.extras = [&numbers[..], &expiry.to_be_bytes()].concat();
        }
        0x1c..=0x1e | 0x23 | 0x24 => {
            request.extras = (some(random, &[0, 100, 5_000_000]) as u32).to_be_bytes().to_vec();
        }
        0x00 | 0x04 | 0x09 | 0x0c | 0x0d | 0x14 => {}
        0x21 => (request.key, request.value) = (b"PLAIN".to_vec(), b"x".to_vec()),
        0x1f | 0x77 | 0xff => (request.key, request.value) = (Vec::new(), b"body".to_vec()),
        _ => request.key = Vec::new(),
    }
    request.unique = match random.below(5) {
        0 => Unique::Last,
        1 => Unique::Wrong,
        _ => Unique::None,
    };
    request
}

fn value(random: &mut Random) -> Vec<u8> {
    let values = ["", "1", "99", "18446744073709551615", "word", "12abc", " 5"];
    match random.below(values.len() + 1) {
        place if place < values.len() => values[place].as_bytes().to_vec(),
        _ => vec![b'x'; random.below(3000)],
    }
}

/// Gives a request parts that do not fit its opcode, in a way that memcached can see: its reply
/// ends the connection.
fn misshape(random: &mut Random, request: &mut Request) {
    (request.opcode, request.value) = (0x00, Vec::new());
    request.misshapen = true;
    match random.below(4) {
        0 => request.extras = vec![1; 4],
        1 => (request.key, request.extras) = (Vec::new(), Vec::new()),
        2 => (request.opcode, request.key, request.extras) = (NOOP, vec![b'k'], Vec::new()),
        _ => (request.opcode, request.extras) = (0x05, vec![1; 19]),
    }
}
