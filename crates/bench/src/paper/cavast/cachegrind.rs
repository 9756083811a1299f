//! The cache's model beside valgrind's: cachegrind counts the misses of a program with the reads of
//! the model.
//!
//! The program is this one: `larder-bench touch` reads lines of a buffer in an order that follows
//! from a seed and needs no memory of its own. It runs twice, the second time with twice the reads,
//! and the differences are compared, so that starting and stopping cancel out. cachegrind has a
//! small first level, of sixteen lines, which is put before the model here, too; its last level is
//! this experiment's cache at a scale of 0.05, 640 KiB with 20 ways, since it takes only powers of
//! two of sets.
//!
//! Possible differences: cachegrind's last level holds the program's instructions and stack as
//! well, and counts a read over two lines once. The order here has no such reads.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use clap::Args;
use policy::geometry::CacheGeometry;

use super::llc::Llc;
use crate::failure::{Failure, Outcome};
use crate::paper::{Findings, Scale, table};
use crate::random::Random;
use crate::report::model::Cell;
use crate::server::recipe::find;
use crate::server::scratch::Scratch;

const LINE_BYTES: u64 = 64;
const FIRST_LINES: usize = 16;
const SETS: usize = 512;
const WAYS: usize = 20;
/// Reads of the shorter run.
const READS: u64 = 200_000;
/// The tolerated difference of the two counts, in percent of the reads.
const TOLERANCE_PERCENT: f64 = 0.5;
/// Buffers, in lines: half of the cache, twice, and eight times as much.
const LINES: [u64; 3] = [5_120, 20_480, 81_920];

/// Reads lines of a buffer in an order that follows from the seed.
#[derive(Debug, Clone, Args)]
pub struct TouchOptions {
    /// Lines of the buffer.
    #[arg(long)]
    lines: u64,
    /// Reads.
    #[arg(long)]
    reads: u64,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Returns lines for ever, the first ones more often than the last: the product of two uniform
/// draws.
fn order(lines: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random::new(seed);
    std::iter::repeat_with(move || {
        let end = random.below(lines) + 1;
        random.below(end)
    })
}

/// Runs `touch`.
pub fn touch(options: &TouchOptions) -> Outcome<()> {
    let bytes = ((options.lines + 1) * LINE_BYTES) as usize;
    let buffer = vec![0_u8; bytes];
    // The beginning of the first whole line.
    let first = buffer.as_ptr().align_offset(LINE_BYTES as usize);
    let reads = order(options.lines, options.seed).take(options.reads as usize);
    reads.for_each(|line| {
        black_box(buffer[first + (line * LINE_BYTES) as usize]);
    });
    Ok(())
}

/// Compares both models.
pub fn cachegrind(scale: &Scale) -> Outcome<Findings> {
    let Some(valgrind) = find(Path::new("valgrind")) else {
        let text = vec!["Not run: valgrind is not installed.".to_owned()];
        return Ok(Findings { beside: vec![Cell::Nothing], text, ..Findings::default() });
    };
    let (mut rows, mut most) = (Vec::new(), 0.0_f64);
    for lines in LINES {
        let run = |reads| counted(&valgrind, lines, reads, scale.seed);
        let found = run(2 * READS)? - run(READS)?;
        let model = modelled(lines, 2 * READS, scale.seed) - modelled(lines, READS, scale.seed);
        let of_reads = 100.0 * (found - model).abs() / READS as f64;
        most = most.max(of_reads);
        rows.push(vec![
            Cell::count((lines * LINE_BYTES) >> 10),
            Cell::number(model, 0),
            Cell::number(found, 0),
            Cell::number(of_reads, 3),
        ]);
    }
    if most > TOLERANCE_PERCENT {
        return Err(Failure::Check(format!("the models differ by {most:.2} % of the reads")));
    }
    Ok(Findings {
        beside: vec![Cell::number(most, 3)],
        text: vec![format!(
            "Misses of the last level, 640 KiB with {WAYS} ways, in {READS} reads of lines of a \
             buffer, some more often than others, behind a first level of {FIRST_LINES} lines. The \
             experiment fails where the two differ by more than {TOLERANCE_PERCENT} % of the reads."
        )],
        tables: vec![table(
            "cavast-cachegrind",
            &["buffer, KiB", "model", "cachegrind", "differ by, % of reads"],
            rows,
        )],
        plots: Vec::new(),
    })
}

/// Returns the model's misses of the last level.
fn modelled(lines: u64, reads: u64, seed: u64) -> f64 {
    let cache = |ways, sets| CacheGeometry::new(LINE_BYTES as usize, ways, sets, 1);
    let mut first = Llc::new(&cache(FIRST_LINES, 1).expect("it is a cache"));
    let mut last = Llc::new(&cache(WAYS, SETS).expect("it is a cache"));
    let reads = order(lines, seed).take(reads as usize);
    reads.filter(|line| !first.touch(*line, false) && !last.touch(*line, false)).count() as f64
}

/// Returns cachegrind's data read misses of the last level in one run.
fn counted(valgrind: &Path, lines: u64, reads: u64, seed: u64) -> Outcome<f64> {
    let folder = Scratch::folder("larder-cachegrind")?;
    let file = folder.path().join("counts");
    let this = std::env::current_exe().map_err(Failure::io("finding this program"))?;
    let first = FIRST_LINES as u64 * LINE_BYTES;
    let last = (SETS * WAYS) as u64 * LINE_BYTES;
    let run = Command::new(valgrind)
        .args(["--tool=cachegrind", "--cache-sim=yes", "--I1=65536,2,64"])
        .arg(format!("--D1={first},{FIRST_LINES},{LINE_BYTES}"))
        .arg(format!("--LL={last},{WAYS},{LINE_BYTES}"))
        .arg(format!("--cachegrind-out-file={}", file.display()))
        .arg(this)
        .args(["touch", "--lines", &lines.to_string(), "--reads", &reads.to_string()])
        .args(["--seed", &seed.to_string()])
        .output()
        .map_err(Failure::io("running valgrind"))?;
    let text = fs::read_to_string(&file).map_err(Failure::io("reading cachegrind's counts"));
    let said = || String::from_utf8_lossy(&run.stderr).into_owned();
    misses(&text?).ok_or_else(|| Failure::Reply(format!("cachegrind counted nothing: {}", said())))
}

/// Parses the event `DLmr` of cachegrind's file.
fn misses(text: &str) -> Option<f64> {
    let words = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let at = words("events:")?.split_whitespace().position(|event| event == "DLmr")?;
    words("summary:")?.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{misses, modelled};

    #[test]
    fn a_fitting_buffer_misses_each_line_once() {
        assert_eq!(modelled(2, 10_000, 1), 2.0);
        let twice = modelled(5_120, 400_000, 1) - modelled(5_120, 200_000, 1);
        assert!(twice < 1_000.0, "{twice}");
    }

    #[test]
    fn counts_are_read_by_the_names_of_their_events() {
        let text = "events: Ir Dr DLmr Dw\nfn=x\n1 2 3 4\nsummary: 10 20 30 40\n";
        assert_eq!(misses(text), Some(30.0));
        assert_eq!(misses("events: Ir\nsummary: 10\n"), None);
    }
}
