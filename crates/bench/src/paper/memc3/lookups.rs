//! Lookups: their reads, and the rate of one thread.

use crate::drive::choice::{Choice, draw};
use crate::failure::{Failure, Outcome};
use crate::paper::measure::{in_rounds, millions_per_cpu_second, ratio};
use crate::paper::memc3::nearly_full;
use crate::paper::{Findings, Scale, table};
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::tables::{
    Chaining, Cuckoo, Items, Key, LarderIndex, Links, Locking, Settings, Table, Touched, items, key,
};

/// The first number of absent keys.
const ABSENT: u64 = 1 << 40;
/// Lookups whose reads are counted, at each load.
const COUNTED: usize = 20_000;
/// Lookups that are timed, in each round.
const TIMED_MAX: usize = 2_000_000;
/// Loads at which lines are counted, in per cent.
const LOADS: [usize; 8] = [10, 25, 50, 60, 70, 80, 90, 95];

fn cuckoo(
    items: &Items,
    buckets: usize,
    (locking, tags): (Locking, bool),
    seed: u64,
) -> Box<dyn Table> {
    Box::new(Cuckoo::new(items.clone(), buckets, Settings { locking, tags, paths: 2, seed }))
}

fn no_room(name: &str) -> Failure {
    Failure::Check(format!("{name} has no room for its keys"))
}

/// Returns present keys, drawn uniformly, and as many absent ones.
fn wanted(count: usize, draws: usize, seed: u64) -> (Vec<Key>, Vec<Key>) {
    let numbers = draw(Choice::Uniform, count as u64, draws, seed);
    let hits = numbers.into_iter().map(|number| key(u64::from(number))).collect();
    (hits, (0..draws as u64).map(|number| key(ABSENT + number)).collect())
}

/// Measures cache lines by load, for chaining and for cuckoo with and without tags.
pub fn figure_4(scale: &Scale) -> Outcome<Findings> {
    let (count, buckets) = nearly_full(scale.items(20_000_000));
    let items = items(0, count);
    let tables: Vec<(&str, Box<dyn Table>)> = vec![
        ("chaining", Box::new(Chaining::<()>::new(items.clone(), 1))),
        ("cuckoo", cuckoo(&items, buckets, (Locking::Global, false), scale.seed)),
        ("cuckoo with tags", cuckoo(&items, buckets, (Locking::Global, true), scale.seed)),
        ("larder-index", Box::new(LarderIndex::growing(items.clone(), false))),
    ];
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    for (name, table) in &tables {
        let (mut filled, mut points, mut last) = (0, [Vec::new(), Vec::new()], None);
        for load in LOADS {
            let until = (buckets * 4 * load / 100).min(count);
            if !(filled..until).all(|place| table.insert(place as u32)) {
                return Err(no_room(name));
            }
            filled = until;
            let (hits, misses) = wanted(until, COUNTED, scale.seed);
            let found = [mean(&**table, &hits), mean(&**table, &misses)];
            for (points, mean) in points.iter_mut().zip(found) {
                points.push(Point::exact(load as f64, mean.0 + mean.1));
            }
            last = Some(found);
        }
        let found = last.expect("there are loads");
        rows.push((*name, found));
        let [hits, misses] = points;
        series.push(Series { name: format!("{name}, hit"), points: hits });
        series.push(Series { name: format!("{name}, miss"), points: misses });
    }
    let cells = rows.iter().map(|(name, found)| {
        let figures = found.iter().flat_map(|(lines, items)| {
            [lines, items, &(lines + items)].map(|figure| Cell::number(*figure, 3))
        });
        std::iter::once(Cell::text(*name)).chain(figures).collect()
    });
    let tagged = rows[2].1[0];
    Ok(Findings {
        beside: vec![Cell::number(tagged.0 + tagged.1, 2)],
        text: vec![
            "Whether this is the paper's figure 4 could not be looked up.".into(),
            "Counted: a line for each head or bucket that is looked at, one for each item whose \
             key is compared. The table shows 95 % of the cuckoo tables' slots; chaining has as \
             many items. larder-index reads one or two lines of eight words each, and before it \
             says that a key is absent the line of versions, and those two again."
                .into(),
        ],
        tables: vec![table("memc3-lines", &LINES, cells.collect())],
        plots: vec![Plot {
            name: "memc3-lines".into(),
            title: "Cache lines that a lookup reads".into(),
            x: Axis::linear("load of the cuckoo tables (%)"),
            y: Axis::linear("cache lines / lookup"),
            series,
        }],
    })
}

const LINES: [&str; 7] =
    ["table", "hit: table", "hit: items", "hit: all", "miss: table", "miss: items", "miss: all"];

/// Returns the mean lines of the table and items read by a lookup.
fn mean(table: &dyn Table, wanted: &[Key]) -> (f64, f64) {
    let touched = wanted.iter().filter_map(|key| table.touched(key));
    let sum = touched.fold(Touched::default(), |sum, one| Touched {
        lines: sum.lines + one.lines,
        items: sum.items + one.items,
    });
    let count = wanted.len() as f64;
    (sum.lines as f64 / count, sum.items as f64 / count)
}

/// Measures one technique on top of the other, in one thread.
pub fn figure_5(scale: &Scale) -> Outcome<Findings> {
    let (count, buckets) = nearly_full(scale.items(100_000_000));
    let items = items(0, count);
    let tables: Vec<(&str, Box<dyn Table>)> = vec![
        ("chaining, LRU, one lock", Box::new(Chaining::<Links>::new(items.clone(), 1))),
        ("chaining, one lock", Box::new(Chaining::<()>::new(items.clone(), 1))),
        ("cuckoo, one lock", cuckoo(&items, buckets, (Locking::Global, false), scale.seed)),
        ("+ striped locks", cuckoo(&items, buckets, (Locking::Striped, false), scale.seed)),
        ("+ tags", cuckoo(&items, buckets, (Locking::Striped, true), scale.seed)),
        ("+ versions, no locks", cuckoo(&items, buckets, (Locking::Optimistic, true), scale.seed)),
        ("larder-index", Box::new(LarderIndex::growing(items.clone(), false))),
        ("larder-index, ahead", Box::new(LarderIndex::growing(items.clone(), true))),
    ];
    for (name, table) in &tables {
        if !(0..count as u32).all(|place| table.insert(place)) {
            return Err(no_room(name));
        }
    }
    let draws = count.min(TIMED_MAX);
    let (hits, misses) = wanted(count, draws, scale.seed);
    let found = in_rounds(scale.rounds, tables.len(), |which| {
        let (name, table) = &tables[which];
        Ok([time(name, &**table, &hits, draws)?, time(name, &**table, &misses, 0)?])
    })?;
    let column = |which: usize, kind: usize| -> Vec<f64> {
        found[which].iter().map(|round| round[kind]).collect()
    };
    let spread = |which, kind| Spread::of(column(which, kind));
    let over = |which, kind| ratio(&column(which, kind), &column(0, kind));
    let rows = tables.iter().enumerate().map(|(which, (name, _))| {
        vec![
            Cell::text(*name),
            Cell::spread(spread(which, 0), 2),
            Cell::spread(over(which, 0), 2),
            Cell::spread(spread(which, 1), 2),
            Cell::spread(over(which, 1), 2),
        ]
    });
    let bars = |name: &str, kind| Series {
        name: name.to_owned(),
        points: (0..tables.len()).map(|x| Point::spread(x as f64, spread(x, kind))).collect(),
    };
    Ok(Findings {
        beside: vec![Cell::spread(over(5, 0), 2)],
        text: vec![
            format!(
                "{count} keys of 16 bytes, {draws} lookups a round, uniform; the cuckoo tables are \
                 filled to 95 %. Informative: times of one machine."
            ),
            "larder-index is pinned once for a hundred lookups, as the server does for a batch of \
             requests, and \"ahead\" asks for their lines first; its tables lie on huge pages \
             where the kernel has them, those of the others where the allocator puts them. The \
             table marked + versions is MemC3's."
                .into(),
        ],
        tables: vec![table("memc3-lookups", &LOOKUPS, rows.collect())],
        plots: vec![Plot {
            name: "memc3-lookups".into(),
            title: "Lookups of one thread".into(),
            x: Axis::words("technique", tables.iter().map(|(name, _)| (*name).into()).collect()),
            y: Axis::linear("million lookups / CPU second"),
            series: vec![bars("all hits", 0), bars("all misses", 1)],
        }],
    })
}

const LOOKUPS: [&str; 5] =
    ["technique", "hits, M / CPU s", "x first row", "misses, M / CPU s", "x first row's"];

/// Returns millions of lookups per CPU second, of which `wanted` must be found.
fn time(name: &str, table: &dyn Table, keys: &[Key], wanted: usize) -> Outcome<f64> {
    let mut found = 0;
    let rate = millions_per_cpu_second(keys.len(), || found = table.find_all(keys));
    if found != wanted as u64 {
        return Err(Failure::Check(format!("{name} found {found} of {wanted} keys")));
    }
    Ok(rate)
}
