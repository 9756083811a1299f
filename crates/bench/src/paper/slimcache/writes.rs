//! Written bytes, and the part moved by collection: into the other area, or into the same.

use ::flash::{Partition, Settings};
use io::device::PAGE_BYTES;

use super::client::{Client, Counts, device_bytes, load, reads};
use super::hit_ratio::POPULAR;
use super::run::Happened;
use super::tier::{Tier, settings};
use crate::failure::{Failure, Outcome};
use crate::paper::data::Data;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Cell, Table};
use crate::report::share;
use crate::workload::popularity::Choice;

const PERCENT: u64 = 10;
/// One request in this many is a store, whether the object is there or not; 0: none.
const STORE_EVERY: [usize; 2] = [0, 2];
const PARTITIONS: [(&str, Partition); 2] =
    [("adaptive", Partition::Adaptive), ("no hot area", Partition::Fixed { hot_percent: 0 })];

/// One run: the counts of its second half, and the device's counts in all.
struct Row {
    choice: Choice,
    every: usize,
    areas: &'static str,
    counts: Counts,
    happened: Happened,
    writes: u64,
    kib_per_write: f64,
    notes: u64,
}

/// Measures writes by popularity, by the share of stores and by the division of the tier.
pub fn writes(scale: &Scale) -> Outcome<Findings> {
    let data = load(scale)?;
    let mut rows = Vec::new();
    for choice in POPULAR {
        let objects = reads(&choice, &data, scale.seed)?;
        for every in STORE_EVERY {
            for partition in PARTITIONS {
                rows.push(run(&choice, every, partition, &data, &objects)?);
            }
        }
    }
    Ok(Findings {
        beside: vec![
            Cell::number(rows[0].happened.moved_percent(), 1),
            Cell::number(rows[1].happened.moved_percent(), 1),
            Cell::number(rows[0].kib_per_write, 0),
        ],
        text: vec![
            format!(
                "{}; flash of {PERCENT} % of that; two requests for each key, a miss is stored, \
                 counted in the second half. Moved are stored bytes of items that collection \
                 staged again, in percent of all bytes that were written in segments.",
                data.in_words()
            ),
            "Every item that was read is kept when its segment is collected, as decision 12 has \
             it, and there is no memory above the tier that serves the hottest items: so nearly \
             all that is popular moves again and again. `larder-bench flash density` measures the \
             same of a server, whose memory serves what is popular."
                .into(),
        ],
        tables: vec![table_of(&rows)],
        plots: Vec::new(),
    })
}

fn run(
    choice: &Choice,
    every: usize,
    (areas, partition): (&'static str, Partition),
    data: &Data,
    objects: &[u32],
) -> Outcome<Row> {
    let bytes = device_bytes(data, PERCENT);
    let mut tier = Tier::in_memory(bytes, &Settings { partition, ..settings(bytes) })?;
    let (mut counts, mut before) = (Counts::default(), Happened::so_far(&tier.stats()));
    for (at, &object) in objects.iter().enumerate() {
        if at == objects.len() / 2 {
            (counts, before) = (Counts::default(), Happened::so_far(&tier.stats()));
        }
        let mut client = Client::new(&mut tier, data);
        match every > 0 && at % every == 0 {
            true => client.set(object, &mut counts)?,
            false => client.get(object, &mut counts)?,
        }
    }
    let (stats, device) = (tier.stats(), tier.device_counts());
    let segments = stats.bytes_written / stats.segment_bytes;
    // Each trained dictionary is one more write.
    if device.writes != segments + stats.trained {
        let writes = device.writes;
        return Err(Failure::Check(format!("{writes} writes of {segments} segments")));
    }
    let written = device.pages_written * PAGE_BYTES as u64;
    Ok(Row {
        choice: choice.clone(),
        every,
        areas,
        counts,
        happened: Happened::so_far(&stats) - before,
        writes: device.writes,
        kib_per_write: share(written as f64, device.writes as f64) / 1024.0,
        notes: device.note_writes,
    })
}

fn table_of(rows: &[Row]) -> Table {
    let rows = rows.iter().map(|row| {
        let (happened, mib) = (&row.happened, 1048576.0);
        let fresh = happened.written.saturating_sub(happened.moved);
        vec![
            Cell::text(row.choice.to_string()),
            Cell::text(if row.every == 0 { "misses" } else { "misses and every other request" }),
            Cell::text(row.areas),
            Cell::number(row.counts.hit_percent(), 2),
            Cell::number(happened.written as f64 / mib, 1),
            Cell::number(happened.moved_percent(), 1),
            Cell::number(share(happened.written as f64, fresh as f64), 2),
            Cell::count(row.writes),
            Cell::number(row.kib_per_write, 0),
            Cell::count(row.notes),
        ]
    });
    let columns = [
        "popular keys",
        "stores",
        "areas",
        "hits, %",
        "written, MiB",
        "moved, % of writes",
        "written / not moved, x",
        "writes",
        "KiB each",
        "notes",
    ];
    table("slimcache-writes", &columns, rows.collect())
}
