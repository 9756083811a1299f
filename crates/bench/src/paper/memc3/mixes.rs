//! Tables under simultaneous lookups and insertions, by the share of insertions.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::drive::choice::{Choice, draw};
use crate::failure::{Failure, Outcome};
use crate::paper::measure::{Together, in_rounds, together};
use crate::paper::memc3::nearly_full;
use crate::paper::rounds::{Rounds, cpu, wall};
use crate::paper::{Findings, Scale};
use crate::report::model::{Axis, Cell};
use crate::tables::{
    Chaining, Cuckoo, Items, Key, LarderIndex, Links, Locking, Settings, Table, items, key,
};

/// Insertions in a hundred operations.
const SHARES: [usize; 6] = [0, 1, 5, 10, 50, 100];
/// Operations that a thread does in a row.
const BATCH: usize = 100;

const NAMES: [&str; 3] = ["chaining, LRU, one lock", "cuckoo, tags, versions", "larder-index"];

fn build(which: usize, items: &Items, buckets: usize, seed: u64) -> Box<dyn Table> {
    let settings = Settings { locking: Locking::Optimistic, tags: true, paths: 2, seed };
    match which {
        0 => Box::new(Chaining::<Links>::new(items.clone(), 1)),
        1 => Box::new(Cuckoo::new(items.clone(), buckets, settings)),
        _ => Box::new(LarderIndex::growing(items.clone(), false)),
    }
}

/// Measures operations a second of all threads, by the share of insertions.
pub fn figure_8(scale: &Scale) -> Outcome<Findings> {
    let (count, buckets) = nearly_full(scale.items(20_000_000));
    let items = items(0, count);
    let present = count / 2;
    let wanted: Vec<Key> = draw(Choice::Uniform, present as u64, present, scale.seed)
        .into_iter()
        .map(|number| key(u64::from(number)))
        .collect();
    let kinds: Vec<(usize, usize)> =
        SHARES.iter().flat_map(|share| (0..NAMES.len()).map(|which| (which, *share))).collect();
    let found = in_rounds(scale.rounds, kinds.len(), |kind| {
        let (which, share) = kinds[kind];
        let table = build(which, &items, buckets, scale.seed);
        if !(0..present as u32).all(|place| table.insert(place)) {
            return Err(Failure::Check(format!("{} has no room for half its keys", NAMES[which])));
        }
        let next = AtomicU32::new(present as u32);
        let work = Work { table: &*table, wanted: &wanted, next: &next, end: count as u32, share };
        together(&scale.cores, scale.threads, |thread| work.run(thread, scale.threads))
    })?;
    Ok(findings(scale, &kinds, &found, count))
}

/// The work of every thread.
struct Work<'t> {
    table: &'t dyn Table,
    wanted: &'t [Key],
    /// The next item to insert, and the end of the items.
    next: &'t AtomicU32,
    end: u32,
    share: usize,
}

impl Work<'_> {
    /// Does its part of as many operations as there are items to look up, or until there is nothing
    /// left to insert; returns their number.
    fn run(&self, thread: usize, threads: usize) -> usize {
        let part = self.wanted.len() / threads;
        let (mut done, mut looked) = (0, thread * part);
        while done + BATCH <= part {
            for _ in 0..self.share {
                let place = self.next.fetch_add(1, Ordering::Relaxed);
                if place >= self.end || !self.table.insert(place) {
                    return done;
                }
                done += 1;
            }
            let lookups = BATCH - self.share;
            self.table.find_all(&self.wanted[looked..looked + lookups]);
            looked += lookups;
            done += lookups;
        }
        done
    }
}

fn findings(
    scale: &Scale,
    kinds: &[(usize, usize)],
    found: &[Vec<Together>],
    count: usize,
) -> Findings {
    let rounds = Rounds { name: "memc3-mixes", subjects: &NAMES, kinds, found };
    let columns = ["table", "insertions, %", "M operations / s", "M operations / CPU s"];
    let place = |share| SHARES.iter().position(|one| *one == share).expect("one of them") as f64;
    let axes = (
        Axis::words("insertions in 100 operations", SHARES.map(|s| s.to_string()).to_vec()),
        Axis::linear("million operations / CPU second"),
    );
    let over = rounds.over(1, 0, wall);
    Findings {
        beside: vec![Cell::Text(format!("{over:.2} for lookups alone"))],
        text: vec![
            "What the paper's figure 8 shows could not be looked up.".into(),
            format!(
                "{} threads; each table begins with half of {count} keys and gets more while it is \
                 read. The first two have their full size from the start, while larder-index \
                 grows. Informative: times of one machine.",
                scale.threads
            ),
        ],
        tables: vec![rounds.table(&columns)],
        plots: vec![rounds.plot("Lookups and insertions at once", axes, cpu, place)],
    }
}
