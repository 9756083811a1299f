//! `larder-bench paper`: a published system's experiments, with the paper's figures beside ours.
//!
//! A paper is a list of [`Experiment`]s: a name as in the paper, the paper's findings as
//! [`Claim`]s, and a function that measures. To add one, write that definition and enter it; to add
//! a paper, enter its list in [`PAPERS`].
//!
//! A claim may have a goal, a [`Bound`], which the figure measured here meets or does not. Nothing
//! is tuned for it: a missed goal is printed as such.
//!
//! A paper's finding is quoted with its source. Where no source was at hand, the report says "not
//! available here": such a figure is never filled in from memory. Counts (bytes, moves, cache
//! lines) are the same on every machine. Times and runs of the engine are medians of rounds with
//! their range where an experiment takes `--rounds`, and of one run where it does not.

pub mod cavast;
mod data;
mod gd_wheel;
mod measure;
mod memc3;
mod rounds;
mod slimcache;
mod zexpander;

use clap::Args;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};

use crate::failure::{Failure, Outcome};
use crate::machine::{self, Machine};
use crate::report::bound::Bound;
use crate::report::model::{Cell, Document, Plot, Section, Table};
use crate::report::{self, ReportOptions, Spread};
use crate::say;
use crate::values::ValueChoice;
use crate::workload::requests::Requests;

/// Every paper whose experiments can be run.
const PAPERS: &[&Paper] =
    &[&memc3::PAPER, &gd_wheel::PAPER, &zexpander::PAPER, &slimcache::PAPER, &cavast::PAPER];
/// Stands for all experiments of a paper.
const ALL: &str = "all";
/// The scale with `--quick`.
const QUICK_SCALE: f64 = 0.002;
/// The largest scale: at a scale of 1 some experiments take all memory of a large machine.
const SCALE_MAX: f64 = 10.0;
/// The most threads, above the cores of any machine that these experiments were made for.
const THREADS_MAX: u64 = 1024;
/// The default number of rounds.
const ROUNDS: u64 = 5;
/// Rounds with `--quick`.
const QUICK_ROUNDS: u64 = 2;
/// Stands for a figure that no source at hand gives.
const NOT_AVAILABLE: &str = "not available here";
/// The source of a figure that is not available.
const NO_SOURCE: &str = "no source at hand";

/// A published system.
pub struct Paper {
    name: &'static str,
    citation: &'static str,
    experiments: &'static [Experiment],
}

/// One of a paper's experiments.
pub struct Experiment {
    /// Its name in the paper, in the form `figure-5`, or the quantity that it measures.
    name: &'static str,
    /// The quantity measured here.
    title: &'static str,
    /// The paper's findings.
    claims: &'static [Claim],
    /// Options that change its measurement, besides those that all experiments take.
    hears: &'static [Hears],
    run: fn(&Scale) -> Outcome<Findings>,
}

/// An option that not every experiment takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hears {
    /// `--rounds`.
    Rounds,
    /// `--threads`.
    Threads,
    /// `--trace`.
    Trace,
    /// `--values`.
    Values,
}

impl Hears {
    fn option(self) -> &'static str {
        match self {
            Hears::Rounds => "--rounds",
            Hears::Threads => "--threads",
            Hears::Trace => "--trace",
            Hears::Values => "--values",
        }
    }
}

/// One finding of a paper.
pub struct Claim {
    /// The quantity of the figure.
    about: &'static str,
    /// The paper's figure, if a source gave it.
    figure: Option<&'static str>,
    /// Where the figure was read, or why there is none.
    source: &'static str,
    /// The goal for the figure measured here.
    goal: Option<Bound>,
}

/// A finding with a source.
const fn claim(about: &'static str, figure: &'static str, source: &'static str) -> Claim {
    Claim { about, figure: Some(figure), source, goal: None }
}

/// A finding without a source.
const fn unknown(about: &'static str) -> Claim {
    Claim { about, figure: None, source: NO_SOURCE, goal: None }
}

impl Claim {
    /// Adds a goal.
    const fn goal(self, goal: Bound) -> Claim {
        Claim { goal: Some(goal), ..self }
    }

    /// Returns whether a figure measured here meets the goal. A cell without a number neither meets
    /// nor misses a goal.
    fn met(&self, here: &Cell) -> Outcome<Cell> {
        let figure = match here {
            Cell::Number { value, .. } => Spread::of([*value]),
            Cell::Spread { spread, .. } => *spread,
            Cell::Text(_) | Cell::Nothing => return Ok(Cell::Nothing),
        };
        if !(figure.min.is_finite() && figure.max.is_finite()) {
            return Err(Failure::Check(format!("there is no figure of: {}", self.about)));
        }
        let in_words = |goal: Bound| goal.verdict(figure).in_words();
        Ok(self.goal.map_or(Cell::Nothing, |goal| Cell::text(in_words(goal))))
    }
}

/// The results of an experiment.
#[derive(Default)]
pub struct Findings {
    /// One figure beside each claim.
    pub beside: Vec<Cell>,
    /// How it was measured, and what to look at.
    pub text: Vec<String>,
    /// Figures in rows.
    pub tables: Vec<Table>,
    /// Figures as curves.
    pub plots: Vec<Plot>,
}

/// The size and length of an experiment.
#[derive(Debug, Clone)]
pub struct Scale {
    share: f64,
    rounds: u64,
    threads: usize,
    /// One for each thread, in this order; the background's is the last.
    cores: Vec<usize>,
    seed: u64,
    trace: Option<Requests>,
    values: Option<ValueChoice>,
}

impl Scale {
    /// Scales an experiment of `full` items at a scale of 1.
    fn items(&self, full: u64) -> usize {
        ((full as f64 * self.share) as usize).max(10_000)
    }
}

/// The paper and experiments to run, and their scale.
#[derive(Debug, Clone, Args)]
pub struct PaperOptions {
    /// The paper.
    #[arg(value_parser = paper_names())]
    paper: String,
    /// Its experiments; one that it does not have is answered by a list of them.
    #[arg(default_value = ALL)]
    experiments: Vec<String>,
    /// Size of tables and number of operations, as a share of the full experiment (above 0, and at
    /// most 10).
    #[arg(long, default_value_t = 0.05, value_parser = share)]
    scale: f64,
    /// Repetitions of each measurement that varies from run to run, in the experiments that take
    /// this option [default: 5].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: Option<u64>,
    /// The most threads, in the experiments with several [default: the cores].
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=THREADS_MAX))]
    threads: Option<usize>,
    /// The core of the first thread. Further threads take the next of this process' cores, and the
    /// background takes the last.
    #[arg(long, default_value_t = 0)]
    core: usize,
    /// The seed of every choice.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A trace for the experiments that use one: a file, or "make" and the options of a workload in
    /// one argument.
    #[arg(long)]
    trace: Option<Requests>,
    /// The content of values in the experiments that compress: made:RATIO, or the records of a FILE
    /// with their lengths [default: made:3].
    #[arg(long, value_name = "CHOICE")]
    values: Option<ValueChoice>,
    /// A scale of 0.002 and, unless --rounds is given, two rounds, as a smoke test.
    #[arg(long, conflicts_with = "scale")]
    quick: bool,
    #[command(flatten)]
    report: ReportOptions,
}

/// Reads a share of the full experiment.
fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= SCALE_MAX => Ok(share),
        _ => Err(format!("a scale is above 0 and at most {SCALE_MAX}")),
    }
}

impl PaperOptions {
    /// Returns the given options that not every experiment takes.
    fn given(&self) -> Vec<Hears> {
        let given = [
            (Hears::Rounds, self.rounds.is_some()),
            (Hears::Threads, self.threads.is_some()),
            (Hears::Trace, self.trace.is_some()),
            (Hears::Values, self.values.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option).collect()
    }
}

fn paper_names() -> PossibleValuesParser {
    PAPERS.iter().map(|paper| paper.name).collect::<Vec<_>>().into()
}

/// Runs the command.
pub fn run(options: &PaperOptions) -> Outcome<()> {
    let paper = PAPERS.iter().find(|paper| paper.name == options.paper);
    let paper = paper.expect("the parser knows the names");
    let machine = Machine::describe();
    let scale = Scale {
        share: if options.quick { QUICK_SCALE } else { options.scale },
        rounds: options.rounds.unwrap_or(if options.quick { QUICK_ROUNDS } else { ROUNDS }),
        threads: options.threads.unwrap_or(machine.cores).max(1),
        cores: measure::cores_from(options.core)?,
        seed: options.seed,
        trace: options.trace.clone(),
        values: options.values.clone(),
    };
    paper.check(&options.experiments)?;
    let is_wanted = |name: &str| options.experiments.iter().any(|one| one == name || one == ALL);
    let wanted: Vec<&Experiment> =
        paper.experiments.iter().filter(|experiment| is_wanted(experiment.name)).collect();
    paper.check_heard(&wanted, &options.given())?;
    let progress = report::progress(wanted.len() as u64);
    let before = machine::pin(options.core)?;
    let mut sections = Vec::new();
    for experiment in wanted {
        progress.set_message(experiment.name);
        let mut section = experiment.section(paper, (experiment.run)(&scale)?)?;
        section.text.push(experiment.heard(&scale));
        sections.push(section);
        progress.inc(1);
    }
    machine::restore(&before)?;
    progress.finish_and_clear();
    let document = Document {
        title: format!("{}: the paper's figures beside ours", paper.citation),
        machine,
        facts: facts(&scale),
        sections,
    };
    say::out(report::text(&document))?;
    options.report.write(&document)
}

fn facts(scale: &Scale) -> Vec<(String, String)> {
    let facts = [
        ("scale", format!("{} of the full experiments", scale.share)),
        (
            "cores",
            format!(
                "{:?}: of a thread each, in this order; the last of the background",
                scale.cores
            ),
        ),
        ("seed", scale.seed.to_string()),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

impl Paper {
    /// Refuses an experiment of another paper.
    fn check(&self, wanted: &[String]) -> Outcome<()> {
        let is_ours = |name: &&String| {
            *name == ALL || self.experiments.iter().any(|experiment| experiment.name == **name)
        };
        match wanted.iter().find(|name| !is_ours(name)) {
            Some(name) => {
                let known = self.experiments.iter().map(|experiment| experiment.name);
                let known = known.collect::<Vec<_>>().join(", ");
                let what = format!("{} has no experiment {name}: it has {known}", self.name);
                Err(Failure::Usage(what))
            }
            None => Ok(()),
        }
    }

    /// Refuses an option that none of the wanted experiments takes: it would change nothing.
    fn check_heard(&self, wanted: &[&Experiment], given: &[Hears]) -> Outcome<()> {
        let is_deaf = |option: &&Hears| !wanted.iter().any(|one| one.hears.contains(option));
        let Some(option) = given.iter().find(is_deaf) else { return Ok(()) };
        let hears = self.experiments.iter().filter(|one| one.hears.contains(option));
        let names: Vec<&str> = hears.map(|experiment| experiment.name).collect();
        let hears = if names.is_empty() { "none does".into() } else { names.join(", ") };
        Err(Failure::Usage(format!(
            "no experiment that was asked for hears {}; of {}: {hears}",
            option.option(),
            self.name
        )))
    }
}

impl Experiment {
    /// Describes the options that the experiment took, of those that not every one takes.
    fn heard(&self, scale: &Scale) -> String {
        let said = |option: &Hears| match option {
            Hears::Rounds => format!("{} rounds, medians with (min..max)", scale.rounds),
            Hears::Threads => format!("{} threads at most", scale.threads),
            Hears::Trace => "the trace".into(),
            Hears::Values => "the values".into(),
        };
        let said: Vec<String> = self.hears.iter().map(said).collect();
        let once = match self.hears.contains(&Hears::Rounds) {
            true => "",
            false => " Every figure without a range is of one run, times too.",
        };
        let said = if said.is_empty() { "nothing".into() } else { said.join("; ") };
        format!("Of --rounds, --threads, --trace and --values it hears: {said}.{once}")
    }

    /// Returns the section with the findings, under the paper's figures.
    fn section(&self, paper: &Paper, found: Findings) -> Outcome<Section> {
        assert_eq!(self.claims.len(), found.beside.len(), "{}: a figure a claim", self.name);
        let mut section = Section::new(format!("{}: {}", self.name, self.title), found.text);
        let rows = self.claims.iter().zip(found.beside).map(|(claim, here)| {
            let paper = claim.figure.unwrap_or(NOT_AVAILABLE);
            let goal = claim.goal.map_or(Cell::Nothing, |goal| Cell::text(goal.in_words()));
            let met = claim.met(&here)?;
            let source = Cell::text(claim.source);
            Ok(vec![Cell::text(claim.about), source, Cell::text(paper), goal, here, met])
        });
        let rows = rows.collect::<Outcome<Vec<_>>>()?;
        section.tables.push(Table {
            name: format!("{}-{}-beside", paper.name, self.name),
            columns: ["what", "source of the paper's figure", "paper", "goal", "here", "met"]
                .map(String::from)
                .to_vec(),
            rows,
        });
        section.tables.extend(found.tables);
        section.plots = found.plots;
        Ok(section)
    }
}

/// Returns a table with a name that no other paper's table has.
fn table(name: &str, columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
    Table::new(name, columns, rows)
}

#[cfg(test)]
mod tests {
    use super::{Bound, Cell, Experiment, Findings, Hears, PAPERS, Paper, share, unknown};

    #[test]
    fn an_option_that_no_experiment_takes_is_refused() {
        let paper = PAPERS[0];
        let one = |name: &str| -> &Experiment {
            paper.experiments.iter().find(|one| one.name == name).expect("it is the paper's")
        };
        let check = |wanted: &[&str], given: &[Hears]| {
            let wanted: Vec<&Experiment> = wanted.iter().map(|name| one(name)).collect();
            Paper::check_heard(paper, &wanted, given).map_err(|failure| failure.to_string())
        };
        assert_eq!(check(&["figure-7"], &[Hears::Rounds, Hears::Threads]), Ok(()));
        assert_eq!(check(&["table-1", "figure-7"], &[Hears::Threads]), Ok(()), "one hears it");
        let refused = check(&["figure-5"], &[Hears::Rounds, Hears::Threads]).expect_err("deaf");
        assert!(refused.contains("--threads") && refused.contains("figure-8"), "{refused}");
        assert!(check(&["figure-5"], &[Hears::Values]).expect_err("deaf").contains("none does"));
    }

    #[test]
    fn a_scale_is_a_share_that_can_be_run() {
        assert_eq!((share("0.05"), share("10")), (Ok(0.05), Ok(10.0)));
        for text in ["0", "-1", "nan", "inf", "10.1", "x"] {
            assert!(share(text).is_err_and(|said| said.contains("at most 10")), "{text}");
        }
    }

    #[test]
    fn a_goal_can_be_missed_on_each_of_its_sides_and_by_no_number() {
        let met = |goal, figure| unknown("it").goal(goal).met(&Cell::number(figure, 1));
        let [yes, no] = ["yes", "no"].map(Cell::text);
        for (goal, low, middle, high) in [
            (Bound::AtLeast(2.0), &no, &yes, &yes),
            (Bound::AtMost(2.0), &yes, &yes, &no),
            (Bound::Within(1.5, 2.5), &no, &yes, &no),
        ] {
            let found = [1.0, 2.0, 3.0].map(|figure| met(goal, figure).expect("it is a number"));
            assert_eq!(found.each_ref(), [low, middle, high], "{}", goal.in_words());
        }
        assert!(met(Bound::AtMost(2.0), f64::NAN).is_err());
        assert!(met(Bound::AtLeast(2.0), f64::INFINITY).is_err());
    }

    #[test]
    fn names_are_unique_and_every_claim_has_a_source() {
        for paper in PAPERS {
            let mut names: Vec<&str> = paper.experiments.iter().map(|one| one.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), paper.experiments.len(), "{}", paper.name);
            let claims = paper.experiments.iter().flat_map(|experiment| experiment.claims);
            for claim in claims {
                assert!(!claim.source.is_empty(), "{}", claim.about);
            }
        }
    }

    #[test]
    fn a_figure_without_a_source_is_not_filled_in() {
        for experiment in PAPERS.iter().flat_map(|paper| paper.experiments) {
            let beside = experiment.claims.iter().map(|_| Cell::count(1)).collect();
            let found = Findings { beside, ..Findings::default() };
            let section = experiment.section(PAPERS[0], found).expect("all are figures");
            for (row, claim) in section.tables[0].rows.iter().zip(experiment.claims) {
                let wanted = claim.figure.unwrap_or("not available here");
                assert_eq!(row[2], Cell::text(wanted));
            }
        }
    }
}
