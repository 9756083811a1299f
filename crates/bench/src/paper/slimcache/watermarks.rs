//! The number of segments kept free, under bursts of stores in which the background does nothing.
//!
//! The background has time between bursts only. In a burst, a store that finds no room lets it work
//! a turn, which writes full segments and collects one, while two were filled. So free segments run
//! out in a long burst, and then the least recently used segment is evicted whole, including its
//! recently read items. More free segments last longer, and hold nothing meanwhile.

use ::flash::{Settings, Sizing, Watermarks};

use super::client::{Client, Counts, SKEW, device_bytes, load, reads};
use super::run::Happened;
use super::tier::{Background, Tier, settings};
use crate::failure::Outcome;
use crate::paper::data::Data;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series, Table};
use crate::report::share;
use crate::workload::popularity::Choice;

const PERCENT: u64 = 10;
/// Pairs tried besides the tier's own, where there are segments enough.
const PAIRS: [(usize, usize); 5] = [(3, 4), (4, 8), (8, 16), (16, 32), (32, 64)];
/// Uncompressed bytes of a burst's stores in segments of the tier.
const BURSTS: [u64; 3] = [4, 16, 64];
/// The place of the burst shown beside the paper.
const MIDDLE: usize = 1;

/// One run.
struct Row {
    watermarks: Watermarks,
    burst: u64,
    counts: Counts,
    happened: Happened,
    refused: u64,
}

impl Row {
    fn evicted_percent(&self) -> f64 {
        100.0 * share(self.happened.evicted as f64, self.happened.collected as f64)
    }
}

/// Measures hits and evictions by watermarks and bursts.
pub fn watermarks(scale: &Scale) -> Outcome<Findings> {
    let data = load(scale)?;
    let bytes = device_bytes(&data, PERCENT);
    let objects = reads(&Choice::Zipfian, &data, scale.seed)?;
    let segment_bytes = settings(bytes).segment_bytes;
    let data_bytes = Sizing::of(bytes, segment_bytes).map_or(0, |sizing| sizing.data_bytes);
    let segments = (data_bytes / segment_bytes as u64) as u32;
    let own = Watermarks::of(segments);
    let mut pairs: Vec<Watermarks> = PAIRS.map(|(low, high)| Watermarks { low, high }).to_vec();
    pairs.retain(|pair| pair.fits(segments));
    if !pairs.contains(&own) {
        pairs.push(own);
    }
    let mut rows = Vec::new();
    for burst in BURSTS {
        for &watermarks in &pairs {
            rows.push(run(watermarks, burst, &data, &objects)?);
        }
    }
    let middle: Vec<&Row> = rows.iter().filter(|row| row.burst == BURSTS[MIDDLE]).collect();
    let ours = middle.iter().find(|row| row.watermarks == own).expect("it was run");
    let hits = middle.iter().map(|row| row.counts.hit_percent());
    Ok(Findings {
        beside: vec![
            Cell::number(ours.evicted_percent(), 1),
            Cell::number(ours.counts.hit_percent(), 2),
            Cell::number(hits.fold(0.0, f64::max), 2),
        ],
        text: vec![format!(
            "{}; flash of {PERCENT} % of that, {segments} segments of {} KiB; two zipfian reads \
             for each key (skew {SKEW}), a miss is stored, counted in the second half. A burst is \
             as many stores as are so many segments uncompressed; then the background does all \
             there is to do. Ours are {} and {}; beside the paper: bursts of {} segments. The \
             border below which nothing is moved is two segments in all rows.",
            data.in_words(),
            segment_bytes >> 10,
            own.low,
            own.high,
            BURSTS[MIDDLE]
        )],
        tables: vec![table_of(&rows)],
        plots: vec![plot(&rows)],
    })
}

fn run(watermarks: Watermarks, burst: u64, data: &Data, objects: &[u32]) -> Outcome<Row> {
    let bytes = device_bytes(data, PERCENT);
    let settings = Settings { watermarks: Some(watermarks), ..settings(bytes) };
    let each = data.bytes() / u64::from(data.keys);
    let burst_stores = burst * settings.segment_bytes as u64 / each;
    let mut tier = Tier::in_memory(bytes, &settings)?;
    tier.background = Background::Waiting;
    let (mut counts, mut before) = (Counts::default(), Happened::so_far(&tier.stats()));
    let mut refused = 0;
    for (at, &object) in objects.iter().enumerate() {
        if at == objects.len() / 2 {
            counts = Counts::default();
            (before, refused) = (Happened::so_far(&tier.stats()), tier.refused());
        }
        let stores = counts.stores;
        Client::new(&mut tier, data).get(object, &mut counts)?;
        if counts.stores > stores && counts.stores.is_multiple_of(burst_stores) {
            tier.catch_up();
        }
    }
    let happened = Happened::so_far(&tier.stats()) - before;
    Ok(Row { watermarks, burst, counts, happened, refused: tier.refused() - refused })
}

fn table_of(rows: &[Row]) -> Table {
    let rows = rows.iter().map(|row| {
        vec![
            Cell::count(row.burst),
            Cell::count(row.watermarks.low as u64),
            Cell::count(row.watermarks.high as u64),
            Cell::number(row.counts.hit_percent(), 2),
            Cell::count(row.happened.collected),
            Cell::count(row.happened.evicted),
            Cell::number(row.evicted_percent(), 1),
            Cell::count(row.happened.restaged),
            Cell::number(row.happened.moved_percent(), 1),
            Cell::count(row.refused),
        ]
    });
    let columns = [
        "burst, segments",
        "low",
        "high",
        "hits, %",
        "collected",
        "of these evicted",
        "evicted, %",
        "items moved",
        "moved, % of writes",
        "stores refused",
    ];
    table("slimcache-watermarks", &columns, rows.collect())
}

fn plot(rows: &[Row]) -> Plot {
    let series = BURSTS.iter().map(|burst| {
        let of_burst = rows.iter().filter(|row| row.burst == *burst);
        let mut points: Vec<Point> = of_burst
            .map(|row| Point::exact(row.watermarks.high as f64, row.counts.hit_percent()))
            .collect();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        Series { name: format!("bursts of {burst} segments"), points }
    });
    Plot {
        name: "slimcache-watermarks".into(),
        title: "Hits by the segments that are kept free".into(),
        x: Axis::logarithmic("high watermark (segments)"),
        y: Axis::linear("hits (%)"),
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use ::flash::Watermarks;

    use super::super::client::reads;
    use super::{Data, run};
    use crate::workload::popularity::Choice;

    #[test]
    fn a_long_burst_evicts_and_more_free_segments_put_that_off() {
        let data = Data::of(60_000, None, 1).expect("no file is needed");
        let objects = reads(&Choice::Zipfian, &data, 1).expect("no file");
        let evicted = |low, high, burst| {
            let row = run(Watermarks { low, high }, burst, &data, &objects).expect("it works");
            row.happened.evicted
        };
        let [few, many, short] = [evicted(3, 4, 48), evicted(12, 24, 48), evicted(12, 24, 2)];
        assert!(few > many && short == 0, "{few} {many} {short}");
    }
}
