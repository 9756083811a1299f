//! The report of `flash quiet`: latency of the probe in each situation, and the ratios between
//! situations of one round.

use super::MIB;
use super::counts::OwnCounts;
use super::quiet::{QuietOptions, Sample, Situation, WarmUp};
use crate::load::exchange::Protocol;
use crate::machine::Machine;
use crate::report::Spread;
use crate::report::bound::Bound;
use crate::report::model::{Cell, Document, Section, Table};
use crate::subject::Subject;

/// The median may change by this share.
const CHANGE_MAX: f64 = 0.05;
const UNCHANGED: Bound = Bound::Within(1.0 - CHANGE_MAX, 1.0 + CHANGE_MAX);

/// The ratios: the situations that are divided, and the question.
const RATIOS: [(&str, Situation, Situation); 4] = [
    ("busy with flash / busy without", Situation::FlashBusy, Situation::MemoryBusy),
    ("idle with flash / idle without", Situation::FlashIdle, Situation::MemoryIdle),
    ("busy / idle, with flash", Situation::FlashBusy, Situation::FlashIdle),
    ("busy / idle, without", Situation::MemoryBusy, Situation::MemoryIdle),
];

/// Sums up the samples of all rounds.
pub fn document(
    machine: Machine,
    options: &QuietOptions,
    subject: &Subject,
    commands: &[String],
    warm_up: WarmUp,
    samples: &[Sample],
) -> Document {
    let mut latency = Section::new(
        "Gets of hot keys",
        ["The probe's latency in microseconds from when each get was due; medians of rounds with \
          the lowest and highest."],
    );
    latency.tables.push(latency_table(samples));
    let mut ratios = Section::new(
        "Ratios",
        [format!(
            "Within a round. With flash reads and collection the median shall be within {:.0} % of \
             that with as many requests to memory in every round; if it is in some, the rounds do \
             not tell. The other ratios say what the tier costs when \
             idle, and what the other connections cost with a tier and without. Nothing is judged \
             unless flash was read and segments were collected in every busy phase.",
            100.0 * CHANGE_MAX
        )],
    );
    ratios.tables.push(ratios_table(samples));
    let mut meanwhile = Section::new(
        "What happened meanwhile",
        ["In the busy phases, per second; the background may go on in idle ones."],
    );
    meanwhile.tables.push(meanwhile_table(options, samples));
    let mut detail = Section::detail("Round by round");
    detail.tables.push(rounds_table(samples));
    let tier = &options.tier;
    let load = format!(
        "{} gets/s of {} hot keys on one connection; {} requests/s on {} others, a quarter sets; \
         {} s each",
        options.probe_rate, options.hot_keys, options.rate, options.connections, options.seconds
    );
    let values =
        format!("{}: {} keys, {:.0} bytes each", subject.name, subject.keys, subject.item_bytes);
    let mut facts = vec![
        ("memory limit".to_owned(), format!("{} MiB", tier.memory_mb)),
        ("flash".to_owned(), format!("{} MiB", tier.flash_mb)),
        ("values".to_owned(), values),
        ("load".to_owned(), load),
        ("rounds".to_owned(), options.rounds.to_string()),
        ("warm-up".to_owned(), warm_up.in_words()),
        ("seed".to_owned(), options.subject.seed.to_string()),
    ];
    facts.push(Protocol::fact(1, None));
    facts.extend(commands.iter().map(|command| ("server".to_owned(), command.clone())));
    let sections = vec![latency, ratios, meanwhile, detail];
    Document { title: "Hot keys beside a busy flash tier".into(), machine, facts, sections }
}

impl Situation {
    fn in_words(self) -> &'static str {
        match self {
            Situation::FlashIdle => "with flash, idle",
            Situation::FlashBusy => "with flash, busy",
            Situation::MemoryIdle => "without, idle",
            Situation::MemoryBusy => "without, busy",
        }
    }
}

impl WarmUp {
    fn in_words(self) -> String {
        format!("{} requests, in which {} segments were collected", self.requests, self.collected)
    }
}

impl Sample {
    /// Returns whether the tier did the work that the others were to cause.
    fn is_worked(&self) -> bool {
        self.tier.is_some_and(|(before, after)| {
            after.collected > before.collected && after.reads > before.reads
        })
    }

    fn waited_us(&self, share: f64) -> f64 {
        self.probe.get_ns.value_at_quantile(share) as f64 / 1e3
    }

    /// Returns the growth of a tier's count in this phase, per second.
    fn per_second(&self, count: impl Fn(&OwnCounts) -> u64) -> f64 {
        let seconds = self.probe.elapsed().as_secs_f64().max(1e-9);
        self.tier.map_or(0.0, |(before, after)| (count(&after) - count(&before)) as f64 / seconds)
    }
}

/// The samples of a situation, in the order of the rounds.
fn of(samples: &[Sample], situation: Situation) -> Vec<&Sample> {
    let mut own: Vec<&Sample> =
        samples.iter().filter(|sample| sample.situation == situation).collect();
    own.sort_by_key(|sample| sample.round);
    own
}

fn spread(samples: &[&Sample], figure: impl Fn(&Sample) -> f64) -> Spread {
    Spread::of(samples.iter().map(|sample| figure(sample)))
}

fn latency_table(samples: &[Sample]) -> Table {
    let row = |situation: Situation| {
        let own = of(samples, situation);
        vec![
            Cell::text(situation.in_words()),
            Cell::spread(spread(&own, |sample| sample.waited_us(0.5)), 1),
            Cell::spread(spread(&own, |sample| sample.waited_us(0.9)), 1),
            Cell::spread(spread(&own, |sample| sample.waited_us(0.99)), 1),
            Cell::spread(spread(&own, |sample| sample.waited_us(0.999)), 0),
            Cell::number(spread(&own, |sample| 100.0 * sample.server_busy).median, 0),
        ]
    };
    let columns = ["others", "p50 us", "p90 us", "p99 us", "p99.9 us", "server busy, %"];
    Table::new("latency", &columns, Situation::ALL.map(row).to_vec())
}

/// Compares the situations of each round in one figure.
fn ratio(samples: &[Sample], over: Situation, under: Situation, share: f64) -> Spread {
    let (over, under) = (of(samples, over), of(samples, under));
    let pairs = over.iter().zip(&under);
    Spread::of(pairs.map(|(over, under)| over.waited_us(share) / under.waited_us(share)))
}

/// Describes the tier's part in the median; empty if it had none.
fn verdict(samples: &[Sample], ratio: Spread) -> String {
    let busy = of(samples, Situation::FlashBusy);
    let idle = busy.iter().filter(|sample| !sample.is_worked()).count();
    match idle {
        0 => UNCHANGED.verdict(ratio).in_words().to_owned(),
        _ => format!("not tested: nothing read or collected in {idle} of {}", busy.len()),
    }
}

fn ratios_table(samples: &[Sample]) -> Table {
    let row = |(what, over, under): (&str, Situation, Situation)| {
        let median = ratio(samples, over, under, 0.5);
        let judged = over == Situation::FlashBusy && under == Situation::MemoryBusy;
        vec![
            Cell::text(what),
            Cell::spread(median, 3),
            Cell::spread(ratio(samples, over, under, 0.99), 3),
            if judged { Cell::text(verdict(samples, median)) } else { Cell::Nothing },
        ]
    };
    let columns = ["what", "p50", "p99", "median within 5 %"];
    Table::new("ratios", &columns, RATIOS.map(row).to_vec())
}

fn meanwhile_table(options: &QuietOptions, samples: &[Sample]) -> Table {
    let row = |situation: Situation| {
        let own = of(samples, situation);
        let rate =
            |count: fn(&OwnCounts) -> u64| spread(&own, |sample| sample.per_second(count)).median;
        let hits =
            |sample: &Sample| sample.load.as_ref().map_or(0.0, |found| 100.0 * found.hit_ratio());
        let sent = |sample: &Sample| {
            let found = sample.load.as_ref();
            found.map_or(0.0, |it| it.per_second(it.timed().asked()))
        };
        vec![
            Cell::text(situation.in_words()),
            Cell::number(options.rate, 0),
            Cell::number(spread(&own, sent).median, 0),
            Cell::number(spread(&own, hits).median, 1),
            Cell::number(rate(|counts| counts.reads), 0),
            Cell::number(rate(|counts| counts.staged), 0),
            Cell::number(rate(|counts| counts.written_bytes) / MIB, 2),
            Cell::number(rate(|counts| counts.collected), 2),
        ]
    };
    let columns = [
        "others",
        "requests/s wanted",
        "sent",
        "hits, %",
        "flash reads",
        "items staged",
        "MiB written",
        "segments collected",
    ];
    let busy = [Situation::FlashBusy, Situation::MemoryBusy];
    Table::new("meanwhile", &columns, busy.map(row).to_vec())
}

fn rounds_table(samples: &[Sample]) -> Table {
    let cells = |sample: &Sample| {
        vec![
            Cell::count(sample.round),
            Cell::text(sample.situation.in_words()),
            Cell::count(sample.probe.counts.gets),
            Cell::number(sample.waited_us(0.5), 2),
            Cell::number(sample.waited_us(0.99), 2),
            Cell::number(sample.per_second(|counts| counts.reads), 0),
            Cell::number(sample.per_second(|counts| counts.collected), 2),
        ]
    };
    let columns =
        ["round", "others", "gets", "p50 us", "p99 us", "flash reads/s", "segments collected/s"];
    Table::new("rounds", &columns, samples.iter().map(cells))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{OwnCounts, Situation, Spread, ratio, verdict};
    use crate::flash::quiet::Sample;
    use crate::load::found::Found;

    fn sample(situation: Situation, round: u64, us: u64) -> Sample {
        let (mut probe, now) = (Found::new(), Instant::now());
        probe.answered(true, now, now + Duration::from_micros(us), 10);
        Sample { situation, round, probe, load: None, server_busy: 0.5, tier: None }
    }

    #[test]
    fn ratios_are_taken_within_a_round_whatever_the_order() {
        let samples = [
            sample(Situation::MemoryBusy, 1, 200),
            sample(Situation::FlashBusy, 0, 110),
            sample(Situation::FlashBusy, 1, 220),
            sample(Situation::MemoryBusy, 0, 100),
        ];
        let found = ratio(&samples, Situation::FlashBusy, Situation::MemoryBusy, 0.5);
        assert!((found.min - 1.1).abs() < 0.01 && (found.max - 1.1).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_run_in_which_the_tier_did_not_work_proves_nothing() {
        let busy = |round, reads, collected| {
            let before = OwnCounts { reads: 5, collected: 7, ..OwnCounts::default() };
            let after = OwnCounts { reads, collected, ..before };
            let sample = sample(Situation::FlashBusy, round, 100);
            Sample { tier: Some((before, after)), ..sample }
        };
        let with = |busy| [busy, sample(Situation::MemoryBusy, 0, 100)];
        let one = |ratio| Spread { median: ratio, min: ratio, max: ratio };
        assert_eq!(verdict(&with(busy(0, 6, 8)), one(1.0)), "yes");
        assert_eq!(verdict(&with(busy(0, 6, 8)), one(1.2)), "no");
        // A median is "yes" or "no" by chance where the rounds lie on both sides.
        for (min, max) in [(0.905, 1.402), (1.0, 1.06), (0.94, 1.0)] {
            let ratio = Spread { median: 1.0, min, max };
            assert_eq!(verdict(&with(busy(0, 6, 8)), ratio), "not told apart");
        }
        let worse = Spread { median: 1.1, min: 1.06, max: 1.2 };
        assert_eq!(verdict(&with(busy(0, 6, 8)), worse), "no");
        for idle in [busy(0, 5, 8), busy(0, 6, 7)] {
            assert!(verdict(&with(idle), one(1.0)).contains("collected in 1 of 1"));
        }
    }
}
