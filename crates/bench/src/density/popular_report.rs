//! The report of density under a load: medians over rounds for each server and kind of values, and
//! every single measurement.

use super::GIB;
use super::popular::{CONNECTIONS, DEPTH, Load, PopularOptions, Sample};
use crate::load::exchange::Protocol;
use crate::machine::Machine;
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};
use crate::server::recipe::{Kind, Recipe};
use crate::subject::Subject;

/// Sums up the samples of all rounds.
pub fn document(
    machine: Machine,
    options: &PopularOptions,
    memory_mb: u64,
    loads: &[Load],
    recipes: &[Recipe],
    samples: &[Sample],
) -> Document {
    let subjects: Vec<&Subject> = loads.iter().map(|load| &load.subject).collect();
    let rows = rows(&subjects, recipes, samples);
    let mut facts = vec![("memory limit".to_owned(), format!("{memory_mb} MiB"))];
    let (zipf, key_bytes) = (options.zipf, options.key_bytes);
    let load = format!("zipfian {zipf}, gets, each miss is followed by a set");
    facts.push(("load".to_owned(), load));
    for Load { subject: Subject { name, keys, .. }, requests } in loads {
        let text = format!("{name}: {requests} requests for {keys} keys of {key_bytes} bytes");
        facts.push(("values".to_owned(), text));
    }
    let pace = options.rate.map_or_else(
        || format!("{CONNECTIONS} connections, {DEPTH} in flight on each"),
        |rate| format!("{CONNECTIONS} connections, {rate} requests/s"),
    );
    facts.push(("pace".to_owned(), pace));
    facts.push(Protocol::fact(DEPTH, options.rate));
    facts.push(("rounds".to_owned(), options.rounds.to_string()));
    let mut lines: Vec<&str> = Vec::new();
    for recipe in recipes {
        let own = samples.iter().find(|sample| sample.server == recipe.name);
        lines.extend(own.map(|sample| sample.command.as_str()));
    }
    facts.extend(lines.iter().map(|line| ("server".to_owned(), (*line).to_owned())));
    let mut text = vec![
        "Items are the server's own count at the end, resident memory is the kernel's. Misses are \
         those of the last fifth of the requests."
            .to_owned(),
    ];
    let idle = rows.iter().filter(|row| row.samples.iter().any(|sample| sample.evictions == 0));
    text.extend(idle.map(|row| {
        let (server, values) = (row.server, row.values);
        format!("Not full: {server} has evicted nothing of {values}; send more or over more keys.")
    }));
    let mut section = Section::new("Items for each GiB of resident memory", text);
    section.plots.push(plot(&subjects, &rows));
    section.tables.push(table(&rows));
    let mut detail = Section::detail("Round by round");
    detail.tables.push(rounds(samples));
    let sections = vec![section, detail];
    Document {
        title: "How many items a server keeps under a load".into(),
        machine,
        facts,
        sections,
    }
}

/// One server with one kind of values over all rounds.
struct Row<'s> {
    values: &'s str,
    server: &'s str,
    samples: Vec<&'s Sample>,
    /// Ratios of items per GiB to memcached's, in each round.
    ratios: Vec<f64>,
}

impl Row<'_> {
    fn range(&self, figure: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(|sample| figure(sample)))
    }
}

fn rows<'s>(
    subjects: &[&'s Subject],
    recipes: &'s [Recipe],
    samples: &'s [Sample],
) -> Vec<Row<'s>> {
    let memcached = Kind::Memcached.to_string();
    let of = |values: &str, server: &str| {
        let its = |sample: &&Sample| sample.values == values && sample.server == server;
        samples.iter().filter(its).collect::<Vec<_>>()
    };
    let row = |(subject, recipe): (&'s Subject, &'s Recipe)| {
        let (own, peers) = (of(&subject.name, &recipe.name), of(&subject.name, &memcached));
        let ratio = |(own, peer): (&&Sample, &&Sample)| own.items_per_gib() / peer.items_per_gib();
        let ratios = own.iter().zip(&peers).map(ratio).collect();
        Row { values: &subject.name, server: &recipe.name, samples: own, ratios }
    };
    let pairs = subjects.iter().flat_map(|subject| recipes.iter().map(move |it| (*subject, it)));
    pairs.map(row).collect()
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        "values",
        "server",
        "items",
        "evicted",
        "RSS MiB",
        "M items / GiB",
        "resident bytes for each item",
        "misses, percent",
        "x memcached",
    ];
    let cells = |row: &Row| {
        let ratios = row.ratios.iter().copied();
        vec![
            Cell::text(row.values),
            Cell::text(row.server),
            Cell::number(row.range(|sample| sample.items as f64).median, 0),
            Cell::number(row.range(|sample| sample.evictions as f64).median, 0),
            Cell::number(row.range(|it| it.resident_bytes as f64).median / (1 << 20) as f64, 1),
            Cell::spread(row.range(|sample| sample.items_per_gib() / 1e6), 2),
            Cell::number(row.range(|sample| GIB / sample.items_per_gib()).median, 1),
            Cell::number(row.range(miss_percent).median, 2),
            if row.ratios.is_empty() { Cell::Nothing } else { Cell::spread(Spread::of(ratios), 2) },
        ]
    };
    Table::new("density", &columns, rows.iter().map(cells))
}

fn miss_percent(sample: &Sample) -> f64 {
    100.0 * sample.misses as f64 / sample.gets.max(1) as f64
}

fn rounds(samples: &[Sample]) -> Table {
    let columns = ["values", "server", "round", "items", "evicted", "RSS bytes", "gets", "misses"];
    let cells = |sample: &Sample| {
        vec![
            Cell::text(&sample.values),
            Cell::text(&sample.server),
            Cell::count(sample.round),
            Cell::count(sample.items),
            Cell::count(sample.evictions),
            Cell::count(sample.resident_bytes),
            Cell::count(sample.gets),
            Cell::count(sample.misses),
        ]
    };
    Table::new("rounds", &columns, samples.iter().map(cells))
}

/// Plots a group of bars for each kind of values, with a bar for each server.
fn plot(subjects: &[&Subject], rows: &[Row]) -> Plot {
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let place = subjects.iter().position(|subject| subject.name == row.values);
        let x = place.expect("every row is of a subject") as f64;
        let point = Point::spread(x, row.range(|sample| sample.items_per_gib() / 1e6));
        Series::add(&mut series, row.server, point);
    }
    let names = subjects.iter().map(|subject| subject.name.clone()).collect();
    Plot {
        name: "density".into(),
        title: "Items for each GiB of resident memory".into(),
        x: Axis::words("values", names),
        y: Axis::linear("million items / GiB"),
        series,
    }
}
