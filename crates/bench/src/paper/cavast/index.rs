//! The index as a cuckoo table, as Cavast's tree, and as the list of the paper's comparison:
//! memory, cache lines of a lookup, lookups of one thread, and the longest time of an insertion.

use std::time::Instant;

use hdrhistogram::Histogram;
use index::Kind;

use crate::drive::choice::{Choice, draw};
use crate::failure::{Failure, Outcome};
use crate::paper::measure::{in_rounds, millions_per_cpu_second};
use crate::paper::{Findings, Scale, table};
use crate::report::Spread;
use crate::report::model::{Cell, Table as Rows};
use crate::tables::{Chaining, Items, Key, LarderIndex, Table, Touched, items, key};

/// The first number of absent keys.
const ABSENT: u64 = 1 << 40;
/// Lookups whose lines are counted.
const COUNTED: usize = 100_000;
/// Lookups that are timed, in each round.
const TIMED_MAX: usize = 2_000_000;
/// Memory is averaged from this share of the items on: before that, few tables make the average.
const FIRST_SHARE: usize = 16;
/// The ratio between two numbers of items at which memory is read.
const STEP: f64 = 1.01;
/// The longest time of insertion; longer ones count as this.
const INSERT_NS_MAX: u64 = 1_000_000_000;

const KINDS: [(&str, Kind); 3] =
    [("cuckoo", Kind::Cuckoo), ("tree", Kind::Tree), ("list", Kind::List)];

/// An index that has grown to all items, and its figures on the way.
struct Grown {
    name: &'static str,
    index: LarderIndex,
    /// Bytes per item: on average over the logarithm of their number, and at worst.
    bytes_mean: f64,
    bytes_worst: f64,
    insert_ns: Histogram<u64>,
}

/// Runs the whole experiment.
pub fn index(scale: &Scale) -> Outcome<Findings> {
    let count = scale.items(20_000_000);
    let items = items(0, count);
    let mut grown = KINDS
        .iter()
        .map(|(name, kind)| grow(name, *kind, &items))
        .collect::<Outcome<Vec<Grown>>>()?;
    let chaining = Chaining::<()>::new(items.clone(), 1);
    if !(0..count as u32).all(|place| chaining.insert(place)) {
        return Err(Failure::Check("chaining has no room for its keys".into()));
    }
    let draws = count.min(TIMED_MAX);
    let numbers = draw(Choice::Uniform, count as u64, draws, scale.seed);
    let hits: Vec<Key> = numbers.into_iter().map(|number| key(u64::from(number))).collect();
    let misses: Vec<Key> = (0..draws as u64).map(|number| key(ABSENT + number)).collect();
    let mut named: Vec<(&str, &dyn Table)> = vec![("chaining", &chaining)];
    named.extend(grown.iter().map(|one| (one.name, &one.index as &dyn Table)));
    let lines: Vec<[Touched; 2]> = named
        .iter()
        .map(|(_, table)| [&hits, &misses].map(|keys| touched(*table, &keys[..COUNTED.min(draws)])))
        .collect();
    let counted = COUNTED.min(draws) as f64;
    let all = |touched: Touched| (touched.lines + touched.items) as f64 / counted;
    let beside = [0, 3, 2, 1].map(|which: usize| Cell::number(all(lines[which][0]), 2));
    let line_rows = named.iter().zip(&lines).map(|((name, _), [hit, miss])| {
        let mean = |figure: u64| Cell::number(figure as f64 / counted, 3);
        let figures = [mean(hit.lines), mean(hit.items), mean(miss.lines), mean(miss.items)];
        std::iter::once(Cell::text(*name)).chain(figures).collect()
    });
    let tables = vec![
        memory(&grown),
        table("cavast-index-lines", &LINES, line_rows.collect()),
        lookups(&mut grown, scale.rounds, [&hits, &misses])?,
        insertions(&grown),
    ];
    Ok(Findings {
        beside: beside.to_vec(),
        text: vec![
            format!(
                "{count} keys of 16 bytes. Beside the paper's figures: lines of the table and of \
                 the items whose key is compared, of a lookup that finds its key. The paper counts \
                 all lines of a request in its server, so that only the order can be compared."
            ),
            "Memory and lines are counts. A line is a bucket, a head of a chain, or the versions \
             that a cuckoo table's miss compares; the directory's is left out, 8 bytes for each \
             table. \"ahead\" asks for the lines of a hundred lookups before the first, as the \
             server does: of a tree for the roots alone. Times are of one machine; insertions by \
             the wall, with what the clock takes."
                .into(),
        ],
        tables,
        plots: Vec::new(),
    })
}

const MEMORY: [&str; 4] = ["index", "bytes / item, average", "at worst", "at the end"];
const LINES: [&str; 5] = ["table", "hit: table", "hit: items", "miss: table", "miss: items"];
const LOOKUPS: [&str; 5] =
    ["index", "hits, M / CPU s", "ahead", "misses, M / CPU s", "misses ahead"];
const INSERTIONS: [&str; 7] = ["index", "mean, us", "p50", "p99", "p99.9", "p99.99", "longest"];

/// Grows an index to all items.
fn grow(name: &'static str, kind: Kind, items: &Items) -> Outcome<Grown> {
    let index = LarderIndex::of_kind(kind, items.clone(), false);
    let mut insert_ns = Histogram::new_with_max(INSERT_NS_MAX, 3).expect("a valid range");
    let (mut sum, mut samples, mut bytes_worst) = (0.0, 0_u32, 0.0_f64);
    let mut next_sample = (items.len() / FIRST_SHARE) as f64;
    for place in 0..items.len() as u32 {
        let begun = Instant::now();
        let is_in = index.insert(place);
        insert_ns.saturating_record(begun.elapsed().as_nanos() as u64);
        if !is_in {
            return Err(Failure::Check(format!("{name} has no room for its keys")));
        }
        if f64::from(place + 1) >= next_sample {
            let per_item = index.bytes() as f64 / f64::from(place + 1);
            (sum, samples, bytes_worst) = (sum + per_item, samples + 1, bytes_worst.max(per_item));
            next_sample *= STEP;
        }
    }
    let bytes_mean = sum / f64::from(samples);
    Ok(Grown { name, index, bytes_mean, bytes_worst, insert_ns })
}

/// Returns the total reads of lookups of these keys.
fn touched(table: &dyn Table, keys: &[Key]) -> Touched {
    let touched = keys.iter().filter_map(|key| table.touched(key));
    touched.fold(Touched::default(), |sum, one| Touched {
        lines: sum.lines + one.lines,
        items: sum.items + one.items,
    })
}

fn memory(grown: &[Grown]) -> Rows {
    let rows = grown.iter().map(|one| {
        let items = one.index.stats().items as f64;
        vec![
            Cell::text(one.name),
            Cell::number(one.bytes_mean, 2),
            Cell::number(one.bytes_worst, 2),
            Cell::number(one.index.bytes() as f64 / items, 2),
        ]
    });
    table("cavast-index-bytes", &MEMORY, rows.collect())
}

/// Times lookups of each index, one after the other and with their lines prefetched.
fn lookups(grown: &mut [Grown], rounds: u64, keys: [&[Key]; 2]) -> Outcome<Rows> {
    let found = in_rounds(rounds, grown.len(), |which| {
        let one = &mut grown[which];
        let mut rates = [0.0; 4];
        for (at, rate) in rates.iter_mut().enumerate() {
            let (keys, wanted) = if at < 2 { (keys[0], keys[0].len()) } else { (keys[1], 0) };
            one.index.set_ahead(at % 2 == 1);
            let mut found = 0;
            *rate = millions_per_cpu_second(keys.len(), || found = one.index.find_all(keys));
            if found != wanted as u64 {
                let name = one.name;
                return Err(Failure::Check(format!("{name} found {found} of {wanted} keys")));
            }
        }
        Ok(rates)
    })?;
    let rows = grown.iter().zip(&found).map(|(one, rounds)| {
        let column = |at: usize| Cell::spread(Spread::of(rounds.iter().map(|rates| rates[at])), 2);
        std::iter::once(Cell::text(one.name)).chain((0..4).map(column)).collect()
    });
    Ok(table("cavast-index-lookups", &LOOKUPS, rows.collect()))
}

fn insertions(grown: &[Grown]) -> Rows {
    let rows = grown.iter().map(|one| {
        let micros = |ns: f64| Cell::number(ns / 1e3, 2);
        let quantiles = [0.5, 0.99, 0.999, 0.9999, 1.0]
            .map(|share| micros(one.insert_ns.value_at_quantile(share) as f64));
        let mean = micros(one.insert_ns.mean());
        [Cell::text(one.name), mean].into_iter().chain(quantiles).collect()
    });
    table("cavast-index-insertions", &INSERTIONS, rows.collect())
}
