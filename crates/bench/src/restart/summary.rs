//! The results of all rounds, as a report and as a judgement.

use std::time::Duration;

use super::course::Round;
use super::fuse::Stop;
use super::options::RestartOptions;
use crate::failure::{Failure, Outcome};
use crate::machine::Machine;
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};

const COLUMNS: [&str; 15] = [
    "round",
    "end",
    "requests",
    "on flash",
    "segments",
    "recovered",
    "found",
    "found, %",
    "of memory, %",
    "listens, ms",
    "first hit, ms",
    "recovered, ms",
    "checked",
    "stale",
    "wrong",
];

/// Fails if a forbidden value was read, or too little was found again.
pub fn judge(options: &RestartOptions, rounds: &[Round]) -> Outcome<()> {
    let mut broken = Vec::new();
    for round in rounds {
        broken.extend(round.tally.faults.iter().cloned());
        if round.is_broken() {
            let (stale, wrong) = (round.tally.stale, round.tally.wrong);
            broken.push(format!("round {}: {stale} stale, {wrong} wrong", round.number));
        } else if options.no_flash && !saves(options, round) && round.found > 0.0 {
            broken.push(format!("round {}: {:.0} found without flash", round.number, round.found));
        } else if round.is_judged()
            && round.share().is_some_and(|share| share < options.found_share_min)
        {
            let (found, before) = (round.found, round.before.items);
            broken.push(format!("round {}: only {found:.0} of {before} found", round.number));
        } else if saves(options, round)
            && round.share_in_memory().is_some_and(|share| share < options.found_share_min)
        {
            let Round { number, in_memory, found_in_memory, .. } = round;
            let found = format!("{found_in_memory} of {in_memory}");
            broken.push(format!("round {number}: only {found} found of what was in memory"));
        }
    }
    if !options.no_flash && !rounds.iter().any(Round::is_judged) {
        broken.push("too little was on flash to judge how much is found again".into());
    }
    // With a memory file that is all there is to judge; with flash some runs end before the first
    // round without a kill.
    let is_due = options.memory_file || rounds.iter().any(|round| saves(options, round));
    let is_tried = |round: &Round| saves(options, round) && round.in_memory > 0;
    if is_due && !rounds.iter().any(is_tried) {
        broken.push("no round ended by SIGTERM with something in memory".into());
    }
    if rounds.iter().all(|round| round.tally.checked == 0) {
        broken.push("no value was ever read".into());
    }
    if broken.is_empty() { Ok(()) } else { Err(Failure::Check(broken.join("\n  "))) }
}

/// Returns whether the items in memory at the end of a round must be found: the server had the time
/// to save them, and if a second one was killed, they were saved to flash. A memory file is used up
/// by then.
fn saves(options: &RestartOptions, round: &Round) -> bool {
    let is_kept = !options.no_flash || options.memory_file && !round.is_interrupted;
    round.stop == Stop::Terminate && is_kept
}

/// Returns the report.
pub fn document(
    machine: Machine,
    options: &RestartOptions,
    servers: Vec<(String, String)>,
    keys: u32,
    rounds: &[Round],
) -> Document {
    let mut total = Section::new("All rounds", Vec::<String>::new());
    total.tables.push(Table::new("total", &["what", "value"], total_rows(options, rounds)));
    let mut each = Section::new("Each round", Vec::<String>::new());
    each.tables.push(Table::new("rounds", &COLUMNS, rounds.iter().map(cells)));
    each.plots.push(plot(rounds));
    let flash = if options.no_flash { "none".into() } else { format!("{} MiB", options.flash_mb) };
    let facts = [
        ("memory", format!("{} MiB", options.memory_mb)),
        ("flash", flash),
        ("keys", format!("{keys}, values {}", options.values)),
        ("rate", options.rate().map_or("unlimited".into(), |rate| format!("{rate} requests/s"))),
        ("seed", options.seed.to_string()),
        ("found", format!("at least {} of what was on flash", options.found_share_min)),
    ];
    Document {
        title: "Restarts of a flash tier".into(),
        machine,
        facts: [servers, facts.map(|(name, value)| (name.to_owned(), value)).to_vec()].concat(),
        sections: vec![total, each],
    }
}

fn total_rows(options: &RestartOptions, rounds: &[Round]) -> Vec<Vec<Cell>> {
    let sum = |of: fn(&Round) -> u64| Cell::count(rounds.iter().map(of).sum());
    let spread = |of: &dyn Fn(&Round) -> Option<f64>, digits| {
        let mut values = rounds.iter().filter_map(of).peekable();
        let is_measured = values.peek().is_some();
        if is_measured { Cell::spread(Spread::of(values), digits) } else { Cell::Nothing }
    };
    let share = |round: &Round| Some(100.0 * round.share().filter(|_| round.is_judged())?);
    let interrupted_share = |round: &Round| share(round).filter(|_| round.is_interrupted);
    let saved =
        |round: &Round| Some(100.0 * round.share_in_memory().filter(|_| saves(options, round))?);
    let first_hit = |round: &Round| round.first_hit_after.map(ms);
    [
        ("killed", sum(|round| u64::from(round.stop == Stop::Kill))),
        ("asked to end", sum(|round| u64::from(round.stop == Stop::Terminate))),
        ("killed while recovering", sum(|round| u64::from(round.is_interrupted))),
        ("requests", sum(|round| round.tally.requests)),
        ("refused", sum(|round| round.tally.refused)),
        ("values checked", sum(|round| round.tally.checked)),
        ("not found after their end", sum(|round| round.tally.ended)),
        ("stale values", sum(|round| round.tally.stale)),
        ("wrong values", sum(|round| round.tally.wrong)),
        ("on flash before", spread(&|round| Some(round.before.items as f64), 0)),
        ("found of it, %", spread(&share, 2)),
        ("found after a second kill, %", spread(&interrupted_share, 2)),
        ("found of what a clean stop had in memory, %", spread(&saved, 2)),
        ("listens after, ms", spread(&|round| Some(ms(round.listened_after)), 1)),
        ("first hit after, ms", spread(&first_hit, 1)),
        ("recovered after, ms", spread(&|round| Some(ms(round.recovered_after)), 1)),
        ("reads that found damage", sum(|round| round.after.damaged)),
        ("errors of the device", sum(|round| round.after.io_errors)),
        ("segments collected before", sum(|round| round.before.collected)),
        ("segments distrusted", sum(|round| round.after.distrusted)),
    ]
    .map(|(name, cell)| vec![Cell::text(name), cell])
    .to_vec()
}

fn cells(round: &Round) -> Vec<Cell> {
    let end = if round.is_interrupted {
        format!("{} + kill", round.stop)
    } else {
        round.stop.to_string()
    };
    let number = |value: Option<f64>, digits| {
        value.map_or(Cell::Nothing, |value| Cell::number(value, digits))
    };
    vec![
        Cell::count(round.number),
        Cell::Text(end),
        Cell::count(round.tally.requests),
        Cell::count(round.before.items),
        Cell::count(round.before.segments_written),
        Cell::count(round.after.recovered),
        Cell::number(round.found, 0),
        number(round.share().map(|share| 100.0 * share), 2),
        number(round.share_in_memory().map(|share| 100.0 * share), 2),
        Cell::number(ms(round.listened_after), 1),
        number(round.first_hit_after.map(ms), 1),
        Cell::number(ms(round.recovered_after), 1),
        Cell::count(round.tally.checked),
        Cell::count(round.tally.stale),
        Cell::count(round.tally.wrong),
    ]
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn plot(rounds: &[Round]) -> Plot {
    let point = |round: &Round| Some(Point::exact(round.number as f64, round.share()?));
    Plot {
        name: "found".into(),
        title: "Share of the items on flash that was found again".into(),
        x: Axis::linear("round"),
        y: Axis::linear("found / on flash before"),
        series: vec![Series {
            name: "found".into(),
            points: rounds.iter().filter_map(point).collect(),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::{document, judge, total_rows};
    use crate::machine::Machine;
    use crate::report;
    use crate::report::model::Cell;
    use crate::restart::course::Round;
    use crate::restart::fuse::Stop;
    use crate::restart::options::RestartOptions;
    use crate::restart::tally::Tally;
    use crate::server::query::FlashCounts;
    use clap::{Args, Command, FromArgMatches};
    use std::time::Duration;

    fn options(arguments: &[&str]) -> RestartOptions {
        let command = RestartOptions::augment_args(Command::new("restart").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).expect("valid options");
        RestartOptions::from_arg_matches(&matches).expect("valid options")
    }

    fn round(before: u64, found: f64) -> Round {
        Round {
            number: 1,
            stop: Stop::Kill,
            is_interrupted: false,
            before: FlashCounts { items: before, segments_written: 1000, ..FlashCounts::default() },
            found,
            in_memory: 100,
            found_in_memory: 0,
            listened_after: Duration::from_millis(3),
            first_hit_after: None,
            recovered_after: Duration::from_millis(7),
            after: FlashCounts::default(),
            tally: Tally { checked: 1, ..Tally::default() },
        }
    }

    fn reason(arguments: &[&str], round: Round) -> String {
        judge(&options(arguments), &[round]).err().map_or(String::new(), |it| it.to_string())
    }

    #[test]
    fn a_stale_or_wrong_value_fails() {
        let mut stale = round(100, 100.0);
        stale.tally.stale("key 7: version 1".into());
        assert!(reason(&[], stale).contains("key 7: version 1\n  round 1: 1 stale, 0 wrong"));
        let mut wrong = round(100, 100.0);
        wrong.tally.wrong("key 7: another body".into());
        assert!(reason(&["--no-flash"], wrong).contains("0 stale, 1 wrong"));
    }

    #[test]
    fn too_little_found_fails_at_the_limit() {
        assert_eq!(reason(&[], round(100, 95.0)), "");
        assert!(reason(&[], round(100, 94.9)).contains("only 95 of 100"));
        let interrupted = Round { is_interrupted: true, ..round(100, 94.0) };
        assert!(reason(&[], interrupted).contains("only 94 of 100"));
        assert_eq!(reason(&["--found-share-min", "0.5"], round(100, 50.0)), "");
    }

    #[test]
    fn too_little_found_of_what_a_clean_stop_had_in_memory_fails() {
        let stopped =
            |found_in_memory| Round { stop: Stop::Terminate, found_in_memory, ..round(100, 100.0) };
        assert_eq!(reason(&[], stopped(95)), "");
        assert!(reason(&[], stopped(94)).contains("only 94 of 100 found of what was in memory"));
        let unknown = || Round { in_memory: 0, ..stopped(0) };
        assert!(reason(&[], unknown()).contains("no round ended by SIGTERM with something"));
        let both = judge(&options(&[]), &[unknown(), stopped(95)]);
        assert!(both.is_ok(), "of one nothing is known, and the other was judged");
        let killed_then = Round { is_interrupted: true, ..stopped(94) };
        assert!(reason(&[], killed_then).contains("only 94 of 100 found of what was in memory"));
        let killed = Round { stop: Stop::Kill, ..stopped(0) };
        assert_eq!(reason(&[], killed), "");
    }

    #[test]
    fn a_run_that_checks_nothing_fails() {
        for segments_written in [0, 99] {
            let before = FlashCounts { items: 100, segments_written, ..FlashCounts::default() };
            let empty = Round { before, ..round(100, 100.0) };
            assert!(reason(&[], empty).contains("too little was on flash"));
        }
        let idle = Round { tally: Tally::default(), ..round(100, 100.0) };
        assert!(reason(&[], idle).contains("no value was ever read"));
    }

    #[test]
    fn without_flash_nothing_may_be_found() {
        assert_eq!(reason(&["--no-flash"], round(0, 0.0)), "");
        assert!(reason(&["--no-flash"], round(0, 1.0)).contains("1 found without flash"));
    }

    #[test]
    fn with_a_memory_file_a_clean_stop_is_judged_and_a_kill_may_leave_nothing() {
        let arguments = ["--no-flash", "--memory-file"];
        let stopped = |found_in_memory| Round {
            stop: Stop::Terminate,
            found_in_memory,
            ..round(0, found_in_memory as f64)
        };
        assert_eq!(reason(&arguments, stopped(95)), "");
        assert!(reason(&arguments, stopped(94)).contains("only 94 of 100"));
        let killed = Round { stop: Stop::Kill, ..stopped(1) };
        let both = |rounds: &[Round]| judge(&options(&arguments), rounds).err();
        let text = both(&[killed.clone(), stopped(95)]).expect("something was found");
        assert!(text.to_string().contains("1 found without flash"), "{text}");
        let killed_twice = Round { is_interrupted: true, ..stopped(1) };
        assert!(reason(&arguments, killed_twice).contains("1 found without flash"));
        assert!(reason(&arguments, round(0, 0.0)).contains("no round ended by SIGTERM"));
        assert!(both(&[round(0, 0.0), stopped(95)]).is_none());
    }

    #[test]
    fn the_report_shows_what_was_not_measured_as_nothing() {
        let rounds = [Round { is_interrupted: true, ..round(0, 0.0) }];
        assert!(total_rows(&options(&[]), &rounds).iter().any(|row| row[1] == Cell::Nothing));
        let text =
            report::text(&document(Machine::describe(), &options(&[]), Vec::new(), 9, &rounds));
        assert!(text.contains("kill + kill"), "{text}");
    }
}
