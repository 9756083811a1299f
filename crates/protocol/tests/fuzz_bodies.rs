//! Runs the bodies of the fuzz targets on mutated requests, so that they run without a fuzzer too.
//!
//! The seed is printed on failure; `LARDER_SEED` repeats a run and `LARDER_RUNS` lengthens it.

mod bodies;

use larder_protocol::Dialect;

/// A small generator of random numbers (splitmix64): a run depends on its seed alone.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

const SEEDS: &[&str] = &[
    "get a\r\n",
    "gets a bb  ccc\r\n",
    "gat 10 a b\r\n",
    "gats -1 a\r\n",
    "get \r\n",
    "set k 0 0 5\r\nhello\r\n",
    "set k 1 60 2 noreply\r\nab\r\n",
    "cas k 0 0 1 42\r\nx\r\n",
    "append k 0 0 1\r\nx\r\n",
    "prepend k 0 0 0\r\n\r\n",
    "replace k 0 -1 1\r\nx\r\n",
    "add k 0 0 1 noreply\r\nx\r\n",
    "set k 0 0 2 1500 noreply\r\nab\r\n",
    "delete k\r\n",
    "delete k noreply\r\n",
    "incr k 1\r\n",
    "decr k 18446744073709551615 noreply\r\n",
    "touch k 100\r\n",
    "flush_all\r\n",
    "flush_all 10 noreply\r\n",
    "version\r\n",
    "verbosity 1\r\n",
    "stats items\r\n",
    "quit\r\n",
    "watch fetchers\r\n",
    "lru_crawler metadump all\r\n",
    "cache_memlimit 64\r\n",
    "shutdown\r\n",
    "mg k v t f c s h l k q O123\r\n",
    "mg Zm9v b k\r\n",
    "mg k N30 R10 T5 E9 C8 v\r\n",
    "ms k 2 T60 F5 c\r\nab\r\n",
    "ms k 2 Pc1500 I C1 MA N3 q\r\nab\r\n",
    "ms Zm9v 1 b k\r\nx\r\n",
    "md k I T30 x q C5\r\n",
    "ma k N0 J10 D5 MD v t\r\n",
    "me k b\r\n",
    "mn\r\n",
    "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
];

const PIECES: &[&[u8]] = &[
    b" ",
    b"  ",
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"-",
    b"noreply",
    b"\x80",
    b"\xff",
    b" b",
    b"99999999999999999999",
    b"2147483648",
    b" HTTP/1.1",
    b"get ",
    b"gat 0 ",
    b"Oxxxxxxxx",
];

/// One request, perhaps a multiget that is longer than a line may be, perhaps damaged.
fn request(random: &mut Random) -> Vec<u8> {
    if random.below(12) == 0 {
        let mut line = random.one_of(&["get ", "gets ", "gat 5 ", " get ", "mg "]).to_string();
        for _ in 0..random.below(150) {
            let length = if random.below(150) == 0 { 251 } else { 1 + random.below(60) };
            line.push_str(&"k".repeat(length));
            line.push_str(random.one_of(&[" ", "  "]));
        }
        line.push_str(random.one_of(&["\r\n", "\n", "end\r\n", "\r\r\n"]));
        return line.into_bytes();
    }
    let mut request = random.one_of(SEEDS).as_bytes().to_vec();
    for _ in 0..random.below(4) {
        let at = random.below(request.len() + 1);
        match random.below(4) {
            0 if at < request.len() => request[at] = random.next() as u8,
            1 if at < request.len() => drop(request.remove(at)),
            2 => drop(request.splice(at..at, random.one_of(PIECES).iter().copied())),
            _ => {
                let filler = random.one_of(b"k 0");
                let count = random.one_of(&[1, 245, 250, 251, 2048]);
                drop(request.splice(at..at, std::iter::repeat_n(filler, count)));
            }
        }
        if request.is_empty() {
            break;
        }
    }
    request
}

fn number_from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn mutated_requests() {
    let seed = number_from_environment("LARDER_SEED", 0x1a2d_e201);
    let runs = number_from_environment("LARDER_RUNS", 6_000);
    for run in seed..seed + runs {
        let mut random = Random(run);
        let stream: Vec<u8> = (0..1 + random.below(8)).flat_map(|_| request(&mut random)).collect();
        let pieces: Vec<usize> = (0..4)
            .map(|_| {
                let most = random.one_of(&[1, 3, 20, 300, 3000]);
                // Single bytes of a long stream take long and show little more than larger pieces.
                1 + random.below(most).max(stream.len() / 500)
            })
            .collect();
        let checked = std::panic::catch_unwind(|| {
            bodies::DIALECTS.map(|dialect| bodies::incremental(&stream, &pieces, dialect))
        });
        if checked.is_err() {
            let shown = String::from_utf8_lossy(&stream).into_owned();
            panic!("LARDER_SEED={run} LARDER_RUNS=1, pieces {pieces:?}, stream {shown:?}");
        }
    }
}

#[test]
fn every_split_of_every_request() {
    let pipeline = SEEDS[..SEEDS.len() - 1].concat().into_bytes();
    for dialect in bodies::DIALECTS {
        for split in 1..pipeline.len() {
            bodies::incremental(&pipeline, &[split, pipeline.len()], dialect);
        }
        bodies::incremental(&pipeline, &[1], dialect);
        let (events, closed) = bodies::walk(&pipeline, dialect);
        assert!(!closed && events.len() == SEEDS.len() - 1, "each line is one request");
    }
}

#[test]
fn splits_of_a_long_multiget() {
    let keys: Vec<String> = (0..700).map(|index| format!("key{index}")).collect();
    for (first, end) in [(1, " \r\n"), (2, "\r\n"), (3, "\n")] {
        let stream = format!("gets {}{end}mn\r\n", keys.join(" "));
        for split in (first..stream.len()).step_by(3) {
            bodies::incremental(stream.as_bytes(), &[split, stream.len()], Dialect::default());
        }
    }
}
