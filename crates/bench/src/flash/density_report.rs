//! The report of `flash density`: items beside the log's, moved bytes, and how they were written.

use super::MIB;
use super::counts::OwnCounts;
use super::density::{DensityOptions, Moment, Sample};
use crate::load::exchange::Protocol;
use crate::machine::Machine;
use crate::report::model::{Cell, Document, Section, Table};
use crate::report::share;

/// The target for the ratio of items to those of an uncompressed log, at least.
const ITEMS_WANTED: f64 = 2.2;
/// The target for the moved share of the writes, at most.
const MOVED_WANTED: f64 = 0.042;
/// The phases, with the places in `Sample::moments` where each begins and ends.
const PHASES: [(&str, usize, usize); 2] = [(FILL, 0, 1), ("load", 1, 2)];
/// The phase in which nothing is to be moved.
const FILL: &str = "fill";

/// Sums up the results.
pub fn document(machine: Machine, options: &DensityOptions, samples: &[Sample]) -> Document {
    let head = options.log_head_bytes;
    let mut items = Section::new(
        "Items on flash",
        [format!(
            "Beside a log of the same bytes without compression, in which an item takes {head} \
             bytes beside key and value and nothing is lost. Wanted are {ITEMS_WANTED} times its \
             items. A row is an item as it goes into a unit, with its head; refused are items that \
             the tier did not take since the start, because its words had their share of the \
             memory or its buffers were full. In each phase by itself: a promoted item keeps its \
             row here until it changes or the segment is collected, and is in memory too; if it \
             leaves memory before, it rests here and is not written again; what stores handed \
             down is here uncompressed."
        )],
    );
    items.tables.push(items_table(options, samples));
    let mut writes = Section::new(
        "What was written",
        [format!(
            "In each phase by itself; the fill reads every item once, before it is on flash, and \
             is not judged. At most {:.1} % of what is written shall be moved, which is not tested \
             where nothing was collected. A segment is written at once. The \
             disk counts the writes of everybody on the machine.",
            100.0 * MOVED_WANTED
        )],
    );
    writes.tables.push(writes_table(samples));
    let tier = &options.tier;
    let mut facts = vec![
        ("memory limit".to_owned(), format!("{} MiB", tier.memory_mb)),
        ("flash".to_owned(), format!("{} MiB", tier.flash_mb)),
        (
            "load".to_owned(),
            format!(
                "{}/s; {} requests, zipfian {}, over {} times the flash",
                options.rate, options.requests, options.zipf, options.key_space
            ),
        ),
        ("seed".to_owned(), options.subject.seed.to_string()),
    ];
    facts.push(Protocol::fact(1, None));
    facts.extend(samples.first().map(|sample| ("server".to_owned(), sample.command.clone())));
    Document {
        title: "How many items a flash tier holds".into(),
        machine,
        facts,
        sections: vec![items, writes],
    }
}

/// Returns the items of a log of this size.
fn log_items(flash_bytes: f64, item_bytes: f64, head_bytes: u64) -> f64 {
    flash_bytes / (item_bytes + head_bytes as f64)
}

/// Returns the counts between two moments.
fn between(before: &OwnCounts, after: &OwnCounts) -> OwnCounts {
    OwnCounts {
        collected: after.collected - before.collected,
        written_bytes: after.written_bytes - before.written_bytes,
        moved_bytes: after.moved_bytes - before.moved_bytes,
        staged: after.staged - before.staged,
        refused: after.refused - before.refused,
        handed: after.handed - before.handed,
        promoted: after.promoted - before.promoted,
        rested: after.rested - before.rested,
        raw_bytes: after.raw_bytes - before.raw_bytes,
        stored_bytes: after.stored_bytes - before.stored_bytes,
        reads: after.reads - before.reads,
        notes: after.notes - before.notes,
        ..*after
    }
}

/// Judges the moved share. The fill reads each item before it is on flash, so nothing there is used
/// and moved, and where nothing was collected nothing could be moved.
fn moved_verdict(phase: &str, counts: &OwnCounts, moved: f64) -> Cell {
    match phase {
        FILL => Cell::Nothing,
        _ if counts.collected == 0 => Cell::text("not tested"),
        _ => yes_or_no(moved <= MOVED_WANTED),
    }
}

fn yes_or_no(is_met: bool) -> Cell {
    Cell::text(if is_met { "yes" } else { "no" })
}

fn items_table(options: &DensityOptions, samples: &[Sample]) -> Table {
    let mut rows = Vec::new();
    for sample in samples {
        for (phase, before, after) in PHASES {
            let counts = &sample.moments[after].counts;
            let own = between(&sample.moments[before].counts, counts);
            let flash_bytes = options.tier.flash_bytes();
            let log = log_items(flash_bytes, sample.item_bytes, options.log_head_bytes);
            let ratio = counts.items as f64 / log;
            rows.push(vec![
                Cell::text(sample.values.clone()),
                Cell::text(format!("after the {phase}")),
                Cell::count(counts.items),
                Cell::number(flash_bytes / counts.items.max(1) as f64, 1),
                Cell::number(sample.item_bytes, 1),
                Cell::number(share(own.raw_bytes as f64, own.staged as f64), 1),
                Cell::number(share(own.raw_bytes as f64, own.stored_bytes as f64), 2),
                Cell::count(counts.segments_used),
                Cell::count(counts.segments),
                Cell::count(counts.refused),
                Cell::count(own.promoted),
                Cell::count(own.rested),
                Cell::count(counts.spare),
                Cell::count(own.handed),
                Cell::number(log, 0),
                Cell::number(ratio, 3),
                yes_or_no(ratio >= ITEMS_WANTED),
            ]);
        }
    }
    let columns = [
        "values",
        "when",
        "items",
        "flash bytes / item",
        "key + value bytes",
        "row bytes",
        "compressed, x",
        "segments in use",
        "of",
        "refused",
        "promoted",
        "rested",
        "in memory too",
        "handed down",
        "items of the log",
        "x the log",
        "met",
    ];
    Table::new("items", &columns, rows)
}

fn writes_table(samples: &[Sample]) -> Table {
    let mut rows = Vec::new();
    for sample in samples {
        for (phase, before, after) in PHASES {
            let (before, after) = (&sample.moments[before], &sample.moments[after]);
            rows.push(writes_row(sample, phase, before, after));
        }
    }
    let columns = [
        "values",
        "phase",
        "written MiB",
        "by the kernel's count",
        "collected segments",
        "moved, % of writes",
        "met",
        "writes of segments",
        "KiB each",
        "notes of 4 bytes",
        "flash reads",
        "writes of the disk",
        "KiB each, mean",
    ];
    Table::new("writes", &columns, rows)
}

fn writes_row(sample: &Sample, phase: &str, before: &Moment, after: &Moment) -> Vec<Cell> {
    let counts = between(&before.counts, &after.counts);
    let kernel_bytes = after.kernel_written_bytes - before.kernel_written_bytes;
    let moved = share(counts.moved_bytes as f64, counts.written_bytes as f64);
    let disk = after.disk.zip(before.disk).map(|(after, before)| after.since(before));
    vec![
        Cell::text(sample.values.clone()),
        Cell::text(phase),
        Cell::number(counts.written_bytes as f64 / MIB, 0),
        Cell::number(kernel_bytes as f64 / MIB, 0),
        Cell::count(counts.collected),
        Cell::number(100.0 * moved, 2),
        moved_verdict(phase, &counts, moved),
        Cell::count(counts.written_bytes / counts.segment_bytes.max(1)),
        Cell::count(counts.segment_bytes >> 10),
        Cell::count(counts.notes),
        Cell::count(counts.reads),
        disk.map_or(Cell::Nothing, |disk| Cell::count(disk.count)),
        disk.map_or(Cell::Nothing, |disk| {
            Cell::number(share(disk.bytes as f64, disk.count as f64) / 1024.0, 0)
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::{FILL, between, log_items, moved_verdict};
    use crate::flash::counts::OwnCounts;
    use crate::report::model::Cell;

    /// Regression: nothing moved by no collection met the target.
    #[test]
    fn no_verdict_without_collection() {
        let counts = |collected| OwnCounts { collected, ..OwnCounts::default() };
        assert_eq!(moved_verdict("load", &counts(0), 0.0), Cell::text("not tested"));
        assert_eq!(moved_verdict("load", &counts(1), 0.042), Cell::text("yes"));
        assert_eq!(moved_verdict("load", &counts(1), 0.043), Cell::text("no"));
        assert_eq!(moved_verdict(FILL, &counts(1), 0.0), Cell::Nothing);
    }

    #[test]
    fn a_log_loses_nothing_but_its_heads() {
        assert_eq!(log_items(1000.0, 92.0, 8), 10.0);
        assert_eq!(log_items(1000.0, 100.0, 0), 10.0);
    }

    #[test]
    fn counters_count_from_the_start_of_a_phase_and_gauges_as_they_are() {
        let before = OwnCounts { items: 5, collected: 2, moved_bytes: 10, ..OwnCounts::default() };
        let before = OwnCounts { handed: 6, promoted: 1, ..before };
        let before = OwnCounts { rested: 2, spare: 7, ..before };
        let after =
            OwnCounts { items: 3, collected: 9, promoted: 5, rested: 8, spare: 4, ..before };
        let found = between(&before, &after);
        assert_eq!((found.items, found.collected, found.moved_bytes), (3, 7, 0));
        assert_eq!((found.handed, found.promoted), (0, 4));
        assert_eq!((found.rested, found.spare), (6, 4));
    }
}
