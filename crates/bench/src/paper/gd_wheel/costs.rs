//! The costs of recomputation, hits and latencies of reads, with values of one size and of many.

use clap::ValueEnum;

use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::policies::kind::Kind;
use crate::policies::weight;
use crate::replay::EnginePolicy;
use crate::report::Spread;
use crate::report::model::{Cell, Table};
use crate::trace::{Request, Trace};
use crate::workload::popularity::Choice;
use crate::workload::sizes::SizeChoice;

use super::matrix::{Column, Figures, HIT_US, Matrix, UNIT_US, cell, highest, mean};
use super::runs::{Contender, Counts, ENGINE_ITEM_BYTES, SUBJECT};
use super::workloads::{self, MULTIPLE, SAME, SINGLE};

/// Values of one size, and of many.
const ONE_SIZE: SizeChoice = SizeChoice::Fixed(256);
const MANY_SIZES: SizeChoice = SizeChoice::LogUniform(64, 1024);
/// The models of an experiment; the others are compared with the first.
pub const MODELS: [Kind; 6] =
    [Kind::Lru, Kind::Clock, Kind::GdPq, Kind::GdWheel, Kind::GdWheelLazy, Kind::CostClock];
/// Times that the engine's memory is corrected.
const MEMORY_STEPS: u32 = 2;
/// The cost of stores in the runs that determine its memory: with a cost an item takes more bytes.
const TOLD_US: u32 = 1000;
/// Number of configurations whose latencies are shown in full.
const SHOWN: usize = 3;
/// Units of cost for the tail, in microseconds.
const UNITS_US: [f64; 4] = [1.0, 10.0, 100.0, UNIT_US];

/// A contender of a matrix.
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The cache.
    pub contender: Contender,
    /// The number of the entry that it is compared with.
    pub reference: usize,
    /// Its room.
    pub room: u64,
}

impl Entry {
    /// Returns its column, still without runs.
    pub fn column(&self) -> Column {
        Column { name: self.name.clone(), reference: self.reference, runs: Vec::new() }
    }

    /// Returns its counts in each of `rounds` rounds, where a store states the cost of `told`.
    pub fn runs(
        &self,
        trace: &Trace,
        rounds: u64,
        told: impl Fn(&Request) -> u32,
    ) -> Outcome<Vec<Counts>> {
        let run = |_| self.contender.run(self.room, trace, workloads::warm(trace), &told);
        (0..self.contender.rounds(rounds)).map(run).collect()
    }
}

/// Runs every contender with every configuration of costs.
fn matrix(
    trace: &mut Trace,
    sizes: &SizeChoice,
    costs: &[&str],
    scale: &Scale,
    entries: &[Entry],
) -> Outcome<Matrix> {
    let mut columns: Vec<Column> = entries.iter().map(Entry::column).collect();
    for costs in costs {
        workloads::price(trace, sizes, costs, scale.seed)?;
        for (entry, column) in entries.iter().zip(&mut columns) {
            column.runs.push(entry.runs(trace, scale.rounds, |request| request.cost_us)?);
        }
    }
    let rows = costs.iter().map(|costs| (*costs).to_owned()).collect();
    let left_out = costs.iter().position(|costs| *costs == SAME);
    Ok(Matrix { rows, columns, left_out })
}

/// Returns the models with room for `items` items, and the engine in as much memory; and that
/// memory.
///
/// The engine's number of items is chance, too: the LRU that it is compared with has room for the
/// median of the rounds with CLOCK.
pub fn entries(trace: &Trace, items: u64, rounds: u64) -> Outcome<(Vec<Entry>, u64)> {
    let item_bytes = trace.requests.first().map_or(0, workloads::data_bytes) + ENGINE_ITEM_BYTES;
    let mut memory = items * item_bytes;
    let clock = Contender::Engine(EnginePolicy::Clock);
    let warm = workloads::warm(trace);
    let held = |memory| -> Outcome<u64> {
        let run = |_| Ok(clock.run(memory, trace, warm, |_| TOLD_US)?.items as f64);
        let runs = (0..rounds).map(run).collect::<Outcome<Vec<f64>>>()?;
        Ok(Spread::of(runs).median as u64)
    };
    let mut items_held = held(memory)?;
    // Slabs are coarse and the index takes some: more memory, until it holds as many.
    for _ in 0..MEMORY_STEPS {
        memory = (memory * items / items_held.max(1)).max(memory);
        items_held = held(memory)?;
    }
    let model = |name: String, kind, reference, room| {
        let contender = Contender::Model(kind, weight::Scale::Objects);
        Entry { name, contender, reference, room }
    };
    let mut entries: Vec<Entry> =
        MODELS.iter().map(|kind| model(kind.to_string(), *kind, 0, items)).collect();
    let reference = entries.len();
    entries.push(model("lru, engine's items".into(), Kind::Lru, reference, items_held));
    entries.extend(EnginePolicy::value_variants().iter().map(|policy| Entry {
        name: policy.title().to_owned(),
        contender: Contender::Engine(*policy),
        reference,
        room: memory,
    }));
    Ok((entries, memory))
}

/// Ten configurations with values of one size.
pub fn single_size(scale: &Scale) -> Outcome<Findings> {
    one_size(scale, Choice::Scrambled)
}

/// The same configurations by Zipf's law over the keys.
pub fn by_zipf(scale: &Scale) -> Outcome<Findings> {
    one_size(scale, Choice::Zipfian)
}

fn one_size(scale: &Scale, choice: Choice) -> Outcome<Findings> {
    let keys = workloads::keys(scale);
    let kind = if choice == Choice::Zipfian { "zipf" } else { "single" };
    let law = choice.to_string();
    let mut trace = workloads::requests(keys, choice, &ONE_SIZE, scale.seed)?;
    let room = workloads::room(&trace, weight::Scale::Objects);
    let (entries, memory) = entries(&trace, room, scale.rounds)?;
    let (requests, rounds) = (trace.requests.len(), scale.rounds);
    let matrix = matrix(&mut trace, &ONE_SIZE, &SINGLE, scale, &entries)?;
    let mut foreseen = Vec::new();
    for (row, costs) in SINGLE.iter().enumerate() {
        workloads::price(&mut trace, &ONE_SIZE, costs, scale.seed)?;
        let lru_us = matrix.columns[0].runs[row][0].tally.missed_cost_us;
        foreseen.push(saved_by_foresight(&trace, room, lru_us));
    }
    let mut tables = tables(&matrix, kind);
    tables.push(foresight(&matrix, &foreseen, kind));
    let plots = plots(&matrix, kind, "values of one size");
    let mut beside = claimed(&matrix, &Kind::GdWheel.to_string()).to_vec();
    beside.extend(claimed(&matrix, SUBJECT.title()));
    // Once more beside the engine without costs: this separates the policy's effect from the
    // engine's chance number of items.
    let engines = matrix.among(&engines());
    beside.extend(claimed(&engines, SUBJECT.title()));
    let of_clock = engines.table(&format!("gd-wheel-{kind}-saved-of-clock"), Matrix::saved);
    tables.insert(1, of_clock);
    Ok(Findings {
        beside: beside.iter().map(|figure| cell(figure, 2)).collect(),
        text: vec![
            format!(
                "{keys} keys of 16 bytes, values of 256, {requests} requests: a load of each key, \
                 and {law} reads with skew 0.99, of which the first half warms. Models have room \
                 for {room} items, with which LRU hits 95 %, and are compared with LRU; the engine \
                 has {memory} bytes of memory and is compared with an LRU of as many items as it \
                 holds with CLOCK, and in the second table with the engine with CLOCK in the same \
                 memory. Averages leave out `{SAME}`, where there is nothing to save. The models' \
                 figures are the same on every machine; the engine's hash is seeded anew in each \
                 run, and its figures are medians of {rounds} runs, with (min..max), beside the \
                 median of what they are compared with. The last table has what a set of items \
                 saves that is chosen with the counted reads in hand, and never changed: no policy \
                 knows as much."
            ),
            "What the paper's ten configurations are is known of three, gd-1 to gd-3, second-hand; \
             the others are this tool's, so averages are not of the same ten. One line is the \
             average of the three."
                .into(),
            latency_text(),
        ],
        tables,
        plots,
    })
}

/// Returns the engine with each policy, CLOCK first.
pub fn engines() -> Vec<&'static str> {
    let others = EnginePolicy::value_variants().iter().filter(|one| **one != EnginePolicy::Clock);
    [EnginePolicy::Clock].iter().chain(others).map(|policy| policy.title()).collect()
}

/// Returns the paper's claims about a cache, for each of its runs.
fn claimed(matrix: &Matrix, name: &str) -> [Figures; 6] {
    let column = matrix.column(name);
    let points = matrix.all(column, |matrix, column, row| {
        matrix.points(column, row).iter().map(|points| points.abs()).collect()
    });
    let same = matrix.left_out.map(|row| matrix.saved(column, row)).unwrap_or_default();
    [
        mean(&matrix.all(column, Matrix::saved)),
        highest(&matrix.all(column, Matrix::saved)),
        known(matrix, column),
        highest(&points),
        mean(&matrix.all(column, |matrix, column, row| matrix.tail(column, row, UNIT_US))),
        same.iter().map(|saved| 100.0 - saved).collect(),
    ]
}

/// Returns a column's mean saving over the configurations that are the paper's.
fn known(matrix: &Matrix, column: usize) -> Figures {
    let is_known = |row: &usize| matrix.rows[*row].starts_with("gd-");
    let rows = (0..matrix.rows.len()).filter(is_known);
    mean(&rows.map(|row| matrix.saved(column, row)).collect::<Vec<Figures>>())
}

/// Returns the saving of keeping the set of items that costs most in the counted reads, beside a
/// policy's: not quite the maximum, since the set does not change.
fn foresight(matrix: &Matrix, saved: &[f64], kind: &str) -> Table {
    let column = matrix.column(&Kind::GdWheel.to_string());
    let rows = (0..matrix.rows.len()).map(|row| {
        vec![
            Cell::text(matrix.rows[row].clone()),
            Cell::number(100.0 - matrix.columns[0].runs[row][0].hits_percent(), 2),
            cell(&matrix.saved(column, row), 2),
            Cell::number(saved[row], 2),
        ]
    });
    let columns = ["costs", "LRU misses, %", "gd-wheel saves, %", "foresight saves, %"];
    table(&format!("gd-wheel-{kind}-foresight"), &columns, rows.collect())
}

/// Returns the saving of the best set of `items` items, in percent of LRU's cost.
fn saved_by_foresight(trace: &Trace, items: u64, lru_us: u64) -> f64 {
    let mut paid_us = vec![0; trace.objects as usize];
    for request in &trace.requests[workloads::warm(trace)..] {
        paid_us[request.object as usize] += u64::from(request.cost_us);
    }
    paid_us.sort_unstable_by(|one, other| other.cmp(one));
    let missed_us: u64 = paid_us.iter().skip(items as usize).sum();
    100.0 - 100.0 * missed_us as f64 / lru_us.max(1) as f64
}

/// Three configurations with values of many sizes.
pub fn multiple_sizes(scale: &Scale) -> Outcome<Findings> {
    let keys = workloads::keys(scale);
    let mut trace = workloads::requests(keys, Choice::Zipfian, &MANY_SIZES, scale.seed)?;
    let memory = workloads::room(&trace, weight::Scale::Memcached);
    let (requests, rounds) = (trace.requests.len(), scale.rounds);
    let model = |kind: Kind| Entry {
        name: format!("{kind}, memcached's bytes"),
        contender: Contender::Model(kind, weight::Scale::Memcached),
        reference: 0,
        room: memory,
    };
    let models = [Kind::Lru, Kind::Clock, Kind::GdPq, Kind::GdWheel].map(model);
    let engines = EnginePolicy::value_variants().iter().map(|policy| Entry {
        name: policy.title().to_owned(),
        contender: Contender::Engine(*policy),
        reference: 0,
        room: memory,
    });
    let entries: Vec<Entry> = models.into_iter().chain(engines).collect();
    let mut matrix = matrix(&mut trace, &MANY_SIZES, &MULTIPLE, scale, &entries)?;
    let column = matrix.column(SUBJECT.title());
    let saved = matrix.all(column, Matrix::saved);
    let tail = matrix.all(column, |matrix, column, row| matrix.tail(column, row, UNIT_US));
    let mut tables = tables(&matrix, "multiple");
    let plots = plots(&matrix, "multiple", "values of many sizes");
    // The same once more beside the engine without costs.
    let clock = matrix.column(EnginePolicy::Clock.title());
    matrix.columns.iter_mut().for_each(|column| column.reference = clock);
    let against_clock = mean(&matrix.all(column, Matrix::saved));
    tables.insert(1, matrix.table("gd-wheel-multiple-saved-of-clock", Matrix::saved));
    let figures = [mean(&saved), highest(&saved), mean(&tail), against_clock];
    Ok(Findings {
        beside: figures.map(|figure| cell(&figure, 2)).to_vec(),
        text: vec![
            format!(
                "{keys} keys of 16 bytes, values from 64 to 1024 bytes, each doubling as frequent \
                 as the next, {requests} requests as in by-zipf: by YCSB's zipfian nearly all \
                 items fit where LRU hits 95 %, and bytes for each item would decide. All have \
                 {memory} bytes of memory, with which LRU hits 95 % if an item takes what it takes \
                 memcached: one list over all items, with no slabs that classes hold on to. The \
                 engine's slabs move between its size classes, by age for what it is worth. It \
                 holds more items in the same memory: the second table, beside the engine with \
                 CLOCK, has the policy's share alone. The engine's figures are medians of \
                 {rounds} runs, with (min..max)."
            ),
            latency_text(),
        ],
        tables,
        plots,
    })
}

fn latency_text() -> String {
    format!(
        "Latency is reckoned from the runs: a hit takes {HIT_US} microseconds, and a miss that and \
         its cost, a unit of which is taken for {UNIT_US} microseconds. The paper's times could \
         not be looked up; the last table has the tail for other units, which decide the more the \
         nearer costs are to a hit."
    )
}

/// Returns the tables of cost, hits, the tail by configuration and by unit, and latencies of the
/// first configurations.
fn tables(matrix: &Matrix, kind: &str) -> Vec<Table> {
    let name = |what: &str| format!("gd-wheel-{kind}-{what}");
    let shown: Vec<usize> = (0..matrix.rows.len().min(SHOWN)).collect();
    vec![
        matrix.table(&name("saved"), Matrix::saved),
        matrix.table(&name("points"), Matrix::points),
        matrix.table(&name("tail"), |matrix, column, row| matrix.tail(column, row, UNIT_US)),
        matrix.latencies(&name("latency"), &shown),
        units(matrix, &name("units")),
    ]
}

/// Returns the mean saving of the tail, by the length of a unit of cost.
fn units(matrix: &Matrix, name: &str) -> Table {
    let names = matrix.columns.iter().map(|column| column.name.as_str());
    let columns: Vec<&str> = std::iter::once("unit of cost, us").chain(names).collect();
    let row = |unit: &f64| {
        let tail = |column| {
            let all = matrix.all(column, |matrix, column, row| matrix.tail(column, row, *unit));
            cell(&mean(&all), 2)
        };
        let cells = (0..matrix.columns.len()).map(tail);
        std::iter::once(Cell::number(*unit, 0)).chain(cells).collect()
    };
    table(name, &columns, UNITS_US.iter().map(row).collect())
}

fn plots(matrix: &Matrix, kind: &str, what: &str) -> Vec<crate::report::model::Plot> {
    let saved = format!("Cost saved against LRU, {what}");
    let tail = format!("99th percentile of reads saved against LRU, {what}");
    vec![
        matrix.plot(&format!("gd-wheel-{kind}-saved"), &saved, "cost saved (%)", Matrix::saved),
        matrix.plot(
            &format!("gd-wheel-{kind}-tail"),
            &tail,
            "latency saved (%)",
            |matrix, column, row| matrix.tail(column, row, UNIT_US),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::saved_by_foresight;
    use crate::policies::check::reads;
    use crate::trace::Trace;

    #[test]
    fn foresight_keeps_what_is_paid_for_most() {
        // A load of three objects, four reads that warm, and four counted ones.
        let mut requests = reads(&[0, 1, 2, 0, 0, 0, 0, 0, 0, 1, 2]);
        requests.iter_mut().for_each(|one| one.cost_us = [10, 15, 30][one.object as usize]);
        let trace = Trace { name: "t".into(), requests, objects: 3 };
        assert_eq!(saved_by_foresight(&trace, 1, 70), 50.0);
        assert_eq!(saved_by_foresight(&trace, 3, 70), 100.0);
    }
}
