//! The report of `flash beside`: medians over rounds for each server and kind of values, the
//! targets beside the results, and every single measurement.

use super::MIB;
use super::beside::{BesideOptions, KINDS, Load, PageCache, Sample};
use super::counts::Sampled;
use crate::load::exchange::Protocol;
use crate::machine::Machine;
use crate::report::Spread;
use crate::report::bound::Bound;
use crate::report::model::{Cell, Document, Section, Table};
use crate::server::recipe::Kind;
use crate::subject::Subject;

/// Sums up the samples of all rounds.
pub fn document(
    machine: Machine,
    options: &BesideOptions,
    subjects: &[Subject],
    samples: &[Sample],
) -> Document {
    let mut promises = Section::new(
        "Larder beside memcached",
        ["Ratios are taken within a round: Larder's figure divided by memcached's. Memory for an \
          item on flash is reckoned from what the servers tell; no server without flash is \
          taken off. A bound is met if it is in every round, and not if it is in none; else the \
          rounds do not tell."],
    );
    if KINDS.iter().all(|kind| options.servers.contains(kind)) {
        promises.tables.push(promises_table(options, subjects, samples));
    }
    let mut held = Section::new(
        "What is found",
        ["Items are the share of evenly drawn keys that was found, times the keys, with 95 % \
          confidence. Items on flash and memory are those at the end."],
    );
    held.tables.push(held_table(options, subjects, samples));
    let mut load = Section::new(
        "The load",
        ["Gets by Zipf's law; what they miss is stored. With a rate, latency counts from when a \
          request was due. CPU time is that of the whole server, sets behind misses included, for \
          each million gets."],
    );
    load.tables.push(load_table(options, subjects, samples));
    let mut writes = Section::new(
        "What was written",
        ["From the start until pages are dropped, by the server's count and by the kernel's, \
          which has notes and tables, too, and what is written twice in the page cache once. A \
          byte stored is one of a key or a value that was sent to be stored. Moved is what was on \
          flash before: bytes of Larder's, items of memcached's."],
    );
    writes.tables.push(writes_table(options, subjects, samples));
    let mut detail = Section::detail("Round by round");
    detail.tables.push(rounds_table(samples));
    detail.tables.push(loads_table(options, samples));
    Document {
        title: "A flash tier beside extstore".into(),
        machine,
        facts: facts(options, subjects, samples),
        sections: vec![promises, held, load, writes, detail],
    }
}

fn facts(
    options: &BesideOptions,
    subjects: &[Subject],
    samples: &[Sample],
) -> Vec<(String, String)> {
    let BesideOptions { tier, zipf, requests, seconds, rate, fill_rate, .. } = options;
    let load = format!(
        "zipfian {zipf}, {} connections; closed loop and {rate}/s, {requests} requests or \
         {seconds} s each; fill and warm-up {fill_rate}/s",
        options.connections
    );
    let mut facts = vec![
        ("memory limit".to_owned(), format!("{} MiB", tier.memory_mb)),
        ("flash".to_owned(), format!("{} MiB", tier.flash_mb)),
        ("load".to_owned(), load),
        Protocol::fact(1, None),
        ("rounds".to_owned(), options.rounds.to_string()),
        ("seed".to_owned(), options.subject.seed.to_string()),
    ];
    for Subject { name, keys, item_bytes, .. } in subjects {
        let text = format!("{name}: {keys} keys, {item_bytes:.0} bytes each with its value");
        facts.push(("values".to_owned(), text));
    }
    for kind in &options.servers {
        let own = samples.iter().find(|sample| sample.kind == *kind);
        facts.extend(own.map(|sample| ("server".to_owned(), sample.command.clone())));
    }
    facts
}

/// Returns the samples of one server with one kind of values.
fn of<'s>(samples: &'s [Sample], subject: &Subject, kind: Kind) -> Vec<&'s Sample> {
    let own = |sample: &&Sample| sample.values == subject.name && sample.kind == kind;
    let mut own: Vec<&Sample> = samples.iter().filter(own).collect();
    own.sort_by_key(|sample| sample.round);
    own
}

/// Returns every kind of values on every server.
fn pairs<'s>(
    options: &'s BesideOptions,
    subjects: &'s [Subject],
) -> impl Iterator<Item = (&'s Subject, Kind)> {
    let servers = &options.servers;
    subjects.iter().flat_map(move |subject| servers.iter().map(move |kind| (subject, *kind)))
}

impl Sample {
    fn found(&self, sampled: Sampled, subject: &Subject) -> f64 {
        sampled.share() * f64::from(subject.keys)
    }

    fn load(&self, page_cache: PageCache, is_paced: bool) -> &Load {
        let wanted = |load: &&Load| (load.page_cache, load.is_paced) == (page_cache, is_paced);
        self.loads.iter().find(wanted).expect("every server gets every part of the load")
    }

    /// Returns resident bytes per item on flash.
    fn resident_bytes_per_item(&self) -> f64 {
        self.tier.resident_bytes as f64 / self.tier.flash_items.max(1) as f64
    }
}

fn page_cache_in_words(page_cache: PageCache) -> &'static str {
    match page_cache {
        PageCache::Kept => "kept",
        PageCache::Dropped => "dropped",
    }
}

fn pace_in_words(options: &BesideOptions, is_paced: bool) -> String {
    if is_paced { format!("{}/s", options.rate) } else { "closed loop".to_owned() }
}

/// Returns the bytes of memory for an item on flash; no number where nothing is there.
fn item_memory_bytes(sample: &Sample) -> f64 {
    sample.tier.item_memory_bytes.unwrap_or(f64::NAN)
}

/// Returns the cell of a figure, empty if a round has none.
fn known(figure: Spread, digits: usize, cell: fn(Spread, usize) -> Cell) -> Cell {
    let is_known = figure.min.is_finite() && figure.max.is_finite();
    if is_known { cell(figure, digits) } else { Cell::Nothing }
}

fn promises_table(options: &BesideOptions, subjects: &[Subject], samples: &[Sample]) -> Table {
    let mut rows = Vec::new();
    for subject in subjects {
        let [ours, theirs] = KINDS.map(|kind| of(samples, subject, kind));
        let mut row = |what: String, wanted: Bound, digits, figure: &dyn Fn(&Sample) -> f64| {
            let [our, their] = [&ours, &theirs].map(|own| own.iter().map(|it| figure(it)));
            let ratios = our.clone().zip(their.clone()).map(|(our, their)| our / their);
            let (our, their) = (Spread::of(our), Spread::of(their));
            let ratio = Spread::of(ratios);
            rows.push(vec![
                Cell::text(subject.name.clone()),
                Cell::text(what),
                known(our, digits, |our, digits| Cell::number(our.median, digits)),
                known(their, digits, |their, digits| Cell::number(their.median, digits)),
                known(ratio, 3, Cell::spread),
                Cell::text(wanted.in_words()),
                Cell::text(wanted.verdict(ratio).in_words()),
            ]);
        };
        let items = |sample: &Sample| sample.found(sample.ended, subject);
        row("items found at the end".into(), Bound::Above(1.0), 0, &items);
        row("bytes of memory for an item on flash".into(), Bound::Below(1.0), 1, &|sample| {
            item_memory_bytes(sample)
        });
        for page_cache in &options.page_cache {
            let words = format!("page cache {}", page_cache_in_words(*page_cache));
            let paced = pace_in_words(options, true);
            row(format!("hits, % of gets, {paced}, {words}"), Bound::Above(1.0), 2, &|sample| {
                100.0 * sample.load(*page_cache, true).phase.found.hit_ratio()
            });
            row(format!("gets/s, closed loop, {words}"), Bound::AtLeast(1.0), 0, &|sample| {
                sample.load(*page_cache, false).phase.gets_per_second()
            });
            for is_paced in [false, true] {
                let pace = pace_in_words(options, is_paced);
                row(format!("p99 us, {pace}, {words}"), Bound::AtMost(1.0), 0, &|sample| {
                    sample.load(*page_cache, is_paced).phase.waited_us(0.99)
                });
            }
        }
    }
    let columns = ["values", "what", "Larder", "memcached", "ratio", "wanted", "met"];
    Table::new("promises", &columns, rows)
}

fn held_table(options: &BesideOptions, subjects: &[Subject], samples: &[Sample]) -> Table {
    let mut rows = Vec::new();
    for (subject, kind) in pairs(options, subjects) {
        let own = of(samples, subject, kind);
        let spread =
            |figure: &dyn Fn(&Sample) -> f64| Spread::of(own.iter().map(|sample| figure(sample)));
        let keys = f64::from(subject.keys);
        let (least, most) = (
            |sample: &Sample| sample.ended.interval().0 * keys,
            |sample: &Sample| sample.ended.interval().1 * keys,
        );
        rows.push(vec![
            Cell::text(subject.name.clone()),
            Cell::text(kind.to_string()),
            Cell::count(subject.keys.into()),
            Cell::spread(spread(&|sample| sample.found(sample.filled, subject)), 0),
            Cell::spread(spread(&|sample| sample.found(sample.ended, subject)), 0),
            Cell::number(spread(&least).median, 0),
            Cell::number(spread(&most).median, 0),
            Cell::number(spread(&|it| it.tier_filled.flash_items as f64).median, 0),
            Cell::number(spread(&|it| it.tier.flash_items as f64).median, 0),
            Cell::number(spread(&|it| it.tier.evictions as f64).median, 0),
            Cell::number(spread(&|it| it.tier.resident_bytes as f64 / MIB).median, 1),
            Cell::number(spread(&Sample::resident_bytes_per_item).median, 1),
            known(spread(&item_memory_bytes), 1, |it, digits| Cell::number(it.median, digits)),
        ]);
    }
    let columns = [
        "values",
        "server",
        "keys",
        "found after the fill",
        "found at the end",
        "at least",
        "at most",
        "on flash after the fill",
        "at the end",
        "evicted",
        "RSS MiB",
        "RSS bytes / item on flash",
        "memory bytes / item on flash",
    ];
    Table::new("held", &columns, rows)
}

fn load_table(options: &BesideOptions, subjects: &[Subject], samples: &[Sample]) -> Table {
    let mut rows = Vec::new();
    for subject in subjects {
        let parts = options.page_cache.iter().flat_map(|it| [(*it, false), (*it, true)]);
        for ((page_cache, is_paced), kind) in
            parts.flat_map(|part| options.servers.iter().map(move |kind| (part, *kind)))
        {
            let own = of(samples, subject, kind);
            let spread = |figure: &dyn Fn(&Load) -> f64| {
                Spread::of(own.iter().map(|sample| figure(sample.load(page_cache, is_paced))))
            };
            let reads = |it: &Load| it.reads as f64 / it.phase.found.counts.gets.max(1) as f64;
            rows.push(vec![
                Cell::text(subject.name.clone()),
                Cell::text(page_cache_in_words(page_cache)),
                Cell::text(pace_in_words(options, is_paced)),
                Cell::text(kind.to_string()),
                Cell::spread(spread(&|it| 100.0 * it.phase.found.hit_ratio()), 2),
                Cell::number(spread(&|it| 100.0 * reads(it)).median, 1),
                Cell::spread(spread(&|it| it.phase.gets_per_second() / 1e3), 2),
                Cell::spread(spread(&|it| it.phase.server_cpu()), 2),
                Cell::number(spread(&|it| it.phase.waited_us(0.5)).median, 0),
                Cell::spread(spread(&|it| it.phase.waited_us(0.99)), 0),
                Cell::spread(spread(&|it| it.phase.waited_us(0.999)), 0),
            ]);
        }
    }
    let columns = [
        "values",
        "page cache",
        "pace",
        "server",
        "hits, %",
        "flash reads, % of gets",
        "k gets/s",
        "server CPU s / M requests",
        "p50 us",
        "p99 us",
        "p99.9 us",
    ];
    Table::new("load", &columns, rows)
}

fn writes_table(options: &BesideOptions, subjects: &[Subject], samples: &[Sample]) -> Table {
    let mut rows = Vec::new();
    for (subject, kind) in pairs(options, subjects) {
        let own = of(samples, subject, kind);
        let spread =
            |figure: &dyn Fn(&Sample) -> f64| Spread::of(own.iter().map(|sample| figure(sample)));
        rows.push(vec![
            Cell::text(subject.name.clone()),
            Cell::text(kind.to_string()),
            Cell::number(spread(&|it| it.stored_bytes / MIB).median, 0),
            Cell::number(spread(&|it| it.tier_loaded.written_bytes as f64 / MIB).median, 0),
            Cell::number(spread(&|it| it.tier_loaded.kernel_written_bytes as f64 / MIB).median, 0),
            Cell::spread(
                spread(&|it| it.tier_loaded.kernel_written_bytes as f64 / it.stored_bytes),
                3,
            ),
            Cell::spread(spread(&|it| 100.0 * it.tier_loaded.moved_share), 2),
        ]);
    }
    let columns = [
        "values",
        "server",
        "stored MiB",
        "written MiB, server",
        "written MiB, kernel",
        "bytes written / byte stored",
        "moved, % of writes",
    ];
    Table::new("writes", &columns, rows)
}

fn rounds_table(samples: &[Sample]) -> Table {
    let cells = |sample: &Sample| {
        vec![
            Cell::text(sample.values.clone()),
            Cell::text(sample.kind.to_string()),
            Cell::count(sample.round),
            Cell::count(sample.filled.asked),
            Cell::count(sample.filled.found),
            Cell::count(sample.ended.found),
            Cell::count(sample.tier.items),
            Cell::count(sample.tier.flash_items),
            Cell::count(sample.tier.resident_bytes),
            Cell::count(sample.tier.written_bytes),
            Cell::count(sample.tier.kernel_written_bytes),
        ]
    };
    let columns = [
        "values",
        "server",
        "round",
        "asked",
        "found after the fill",
        "found at the end",
        "items",
        "items on flash",
        "RSS bytes",
        "written bytes, server",
        "written bytes, kernel",
    ];
    Table::new("rounds", &columns, samples.iter().map(cells))
}

fn loads_table(options: &BesideOptions, samples: &[Sample]) -> Table {
    let cells = |(sample, load): (&Sample, &Load)| {
        vec![
            Cell::text(sample.values.clone()),
            Cell::text(sample.kind.to_string()),
            Cell::count(sample.round),
            Cell::text(page_cache_in_words(load.page_cache)),
            Cell::text(pace_in_words(options, load.is_paced)),
            Cell::count(load.phase.found.counts.gets),
            Cell::count(load.phase.found.counts.hits),
            Cell::count(load.phase.found.counts.fills),
            Cell::count(load.reads),
            Cell::number(load.phase.gets_per_second(), 0),
            Cell::number(load.phase.server_cpu(), 3),
            Cell::number(load.phase.waited_us(0.99), 0),
        ]
    };
    let all = samples.iter().flat_map(|sample| sample.loads.iter().map(move |it| (sample, it)));
    let columns = [
        "values",
        "server",
        "round",
        "page cache",
        "pace",
        "gets",
        "hits",
        "fills",
        "flash reads",
        "gets/s",
        "server CPU s / M requests",
        "p99 us",
    ];
    Table::new("loads", &columns, all.map(cells))
}

#[cfg(test)]
mod tests {
    use super::{Cell, Spread, known};

    /// Regression: the memory of an item was "NaN" where nothing was on flash, and no JSON.
    #[test]
    fn a_figure_that_a_round_does_not_have_is_an_empty_cell() {
        let cell = |figures: [f64; 2]| known(Spread::of(figures), 1, Cell::spread);
        assert_eq!(cell([1.0, f64::NAN]), Cell::Nothing);
        assert_eq!(cell([1.0, 2.0]), Cell::spread(Spread::of([1.0, 2.0]), 1));
    }
}
