//! Hits by the size of the cache and the popularity of keys, beside the uncompressed log.

use super::client::{Counts, Kept, device_bytes, load, reads, settled};
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series, Table};
use crate::workload::popularity::Choice;

/// Flash in hundredths of all keys and values. The papers' sizes are of this kind; these are ours.
const PERCENT: [u64; 4] = [6, 8, 10, 12];
/// The place of the size shown beside the paper.
const TENTH: usize = 2;
/// The popularity of keys; the shares of the hotspot are ours.
pub const POPULAR: [Choice; 4] = [
    Choice::Zipfian,
    Choice::Hotspot { requests: 80.0, keys: 20.0 },
    Choice::Normal,
    Choice::Uniform,
];
const KEPT: [Kept; 3] = [Kept::Units, Kept::Raw, Kept::Log];

/// A distribution, and the results of each cache for each size.
struct Row {
    choice: Choice,
    sizes: Vec<Vec<Counts>>,
}

/// Measures hits over sizes and distributions.
pub fn hit_ratio(scale: &Scale) -> Outcome<Findings> {
    let data = load(scale)?;
    let mut rows = Vec::new();
    for choice in POPULAR {
        let objects = reads(&choice, &data, scale.seed)?;
        let run = |percent: u64| {
            KEPT.iter()
                .map(|kept| {
                    let mut store = kept.in_memory(device_bytes(&data, percent))?;
                    settled(&mut *store, &data, &objects)
                })
                .collect::<Outcome<Vec<Counts>>>()
        };
        let sizes = PERCENT.iter().map(|percent| run(*percent)).collect::<Outcome<_>>()?;
        rows.push(Row { choice, sizes });
    }
    let fewer = |row: &Row| {
        let [units, log] = [0, 2].map(|kept| 100.0 - row.sizes[TENTH][kept].hit_percent());
        Cell::number(100.0 * (1.0 - units / log), 1)
    };
    Ok(Findings {
        beside: rows.iter().map(fewer).collect(),
        text: vec![format!(
            "{}; two reads for each key, a miss is stored, counted in the second half. The same \
             bytes of flash for each cache. The tier keeps up to sixteen segments free and has \
             tables, notes and dictionaries on the device; the log has nothing but items. A \
             small tier loses more by that: at a larger scale, less.",
            data.in_words()
        )],
        tables: vec![table_of(&rows)],
        plots: rows.iter().map(plot).collect(),
    })
}

fn table_of(rows: &[Row]) -> Table {
    let mut cells = Vec::new();
    for row in rows {
        for (percent, all) in PERCENT.iter().zip(&row.sizes) {
            let log = 100.0 - all[2].hit_percent();
            for (kept, counts) in KEPT.iter().zip(all) {
                let missed = 100.0 - counts.hit_percent();
                cells.push(vec![
                    Cell::text(row.choice.to_string()),
                    Cell::count(*percent),
                    Cell::text(kept.name()),
                    Cell::number(counts.hit_percent(), 2),
                    Cell::number(100.0 * (1.0 - missed / log), 1),
                    Cell::number(counts.pages_per_hit(), 3),
                    Cell::number(counts.us_per_get(), 2),
                    Cell::number(counts.us_per_store(), 2),
                ]);
            }
        }
    }
    let columns = [
        "popular keys",
        "flash, % of the data",
        "kept by",
        "hits, %",
        "fewer misses than the log, %",
        "pages / hit",
        "CPU us / get",
        "CPU us / store",
    ];
    table("slimcache-hit-ratio", &columns, cells)
}

fn plot(row: &Row) -> Plot {
    let series = KEPT.iter().enumerate().map(|(at, kept)| {
        let points = PERCENT.iter().zip(&row.sizes);
        let points = points.map(|(x, all)| Point::exact(*x as f64, all[at].hit_percent()));
        Series { name: kept.name().into(), points: points.collect() }
    });
    let name = row.choice.to_string();
    Plot {
        name: format!("slimcache-hit-ratio-{}", name.split('-').next().unwrap_or_default()),
        title: format!("Hits by the size of the cache, {name}"),
        x: Axis::linear("flash (% of the data)"),
        y: Axis::linear("hits (%)"),
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, Kept, device_bytes, reads, settled};
    use crate::paper::data::Data;

    #[test]
    fn a_compressed_tier_misses_less_than_the_log_of_the_same_bytes() {
        let data = Data::of(60_000, None, 1).expect("no file is needed");
        let objects = reads(&Choice::Zipfian, &data, 1).expect("no file");
        let hits = |kept: Kept| {
            let mut store = kept.in_memory(device_bytes(&data, 10)).expect("large enough");
            let counts = settled(&mut *store, &data, &objects).expect("every value is right");
            assert_eq!((counts.gets, counts.stores), (60_000, counts.gets - counts.hits));
            counts.hit_percent()
        };
        let [units, raw, log] = [Kept::Units, Kept::Raw, Kept::Log].map(hits);
        assert!(units > log + 5.0 && raw < units, "{units} {raw} {log}");
    }
}
