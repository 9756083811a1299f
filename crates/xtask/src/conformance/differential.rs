//! Sends the same bytes to Debian's memcached and to the server under test, and compares the
//! replies byte for byte once `normal` has removed what must differ.
//!
//! Three passes over the case files: each case alone; all cases of a file in one write; each case
//! cut in two writes at every place (at some places where it is long), against its own uncut
//! replies.

use super::case::{self, Case, Part, Step};
use super::deviations::{self, Deviation};
use super::exchange::{Replies, UNANSWERED, length, play, render};
use super::normal::{Uniques, name_prefix, same};
use super::wire::{parting, shorten};
use super::{Options, Tally};
use crate::random::Random;
use crate::{Failure, Result, fail};

const CASES: &str = "conformance/cases";
const DEVIATIONS: &str = "conformance/deviations.txt";

/// A command before a case, and its reply. memcached drops replies that it has not yet written when
/// a get fails, which a case by itself does not show.
const FIRST: &[u8] = b"touch nothing 0\r\n";
const FIRST_REPLY: &[u8] = b"NOT_FOUND\r\n";

/// With these words the server refuses an option of memcached's that it will have later. Its cases
/// are counted apart until then, and played from then on.
const NOT_THERE_YET: &str = "is not implemented yet";

/// Cases up to this many bytes are cut at every place.
const EVERY_CUT_BYTES: usize = 120;
/// The number of random places at which longer cases are cut.
const CUTS: usize = 40;

/// Both servers, and their kinds.
pub struct Pair<'a> {
    /// Debian's memcached.
    pub reference: u16,
    /// The server under test.
    pub subject: u16,
    /// Whether the subject is Larder, which must have the deviations, or a memcached, which may.
    pub larder: bool,
    /// Whether the reference is newer than Debian's memcached, of a version that Larder follows.
    pub newer: bool,
    /// The user's options.
    pub options: &'a Options,
}

impl Pair<'_> {
    /// Returns the replies of both servers to a case.
    pub fn replies(&self, case: &Case) -> Result<Replies> {
        let prefix = case::prefix();
        let reference = play(self.reference, case, &prefix, None)?;
        let subject = play(self.subject, case, &prefix, None)?;
        Ok((reference, subject))
    }
}

/// Loads all cases, with the name of their file before a slash.
fn load() -> Result<Vec<Case>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(CASES)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            files.push(path);
        }
    }
    files.sort();
    let mut cases = Vec::new();
    for path in files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        cases.extend(case::parse(&name, &std::fs::read_to_string(&path)?)?);
    }
    Ok(cases)
}

/// Calls `visit` with the cases of each set of server options, and servers started with them.
fn each_group(
    pair: &Pair,
    tally: &mut Tally,
    visit: fn(&Pair, &[Case], &mut Tally) -> Result,
) -> Result {
    let cases = load()?;
    let mut groups: Vec<&str> = cases.iter().map(|case| case.server.as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    for group in groups {
        let some: Vec<Case> = cases.iter().filter(|case| case.server == group).cloned().collect();
        if group.is_empty() {
            visit(pair, &some, tally)?;
            continue;
        }
        let arguments = format!("-m 64 {group}");
        let reference = pair.options.reference.start(&arguments)?;
        let subject = match pair.options.server.start(&arguments) {
            Ok(subject) => subject,
            Err(failure) if failure.0.contains(NOT_THERE_YET) => {
                tally.not_there_yet.push(format!("{} cases of {group}", some.len()));
                continue;
            }
            Err(failure) => {
                tally.done(Some(format!("with {group}: {failure}")));
                continue;
            }
        };
        let ports = Pair { reference: reference.port, subject: subject.port, ..*pair };
        visit(&ports, &some, tally)?;
    }
    Ok(())
}

fn known() -> Result<Vec<Deviation>> {
    deviations::parse(&std::fs::read_to_string(DEVIATIONS)?)
}

fn show(bytes: &[u8]) -> String {
    shorten(&case::escape(bytes))
}

/// Returns what is wrong with a pair of replies, if anything.
fn judge(pair: &Pair, known: Option<&Deviation>, replies: &Replies) -> Option<String> {
    let (reference, subject) = replies;
    let Some(deviation) = known else {
        let equal = same(reference, subject);
        return (!equal).then(|| {
            format!("\n    memcached {}\n    server    {}", show(reference), show(subject))
        });
    };
    let listed = same(reference, &deviation.memcached);
    let newer = pair.newer && same(reference, &deviation.larder);
    if !listed && !newer {
        let (listed, now) = (show(&deviation.memcached), show(reference));
        return Some(format!("memcached no longer answers {listed} but {now}"));
    }
    let allowed = same(subject, &deviation.larder) || (!pair.larder && same(subject, reference));
    (!allowed).then(|| {
        let (wanted, got) = (show(&deviation.larder), show(subject));
        format!("(a deviation)\n    wanted {wanted}\n    server {got}")
    })
}

/// Plays each case alone.
pub fn cases(pair: &Pair, tally: &mut Tally) -> Result {
    let (all, known) = (load()?, known()?);
    if let Some(stray) = known.iter().find(|one| !all.iter().any(|case| case.name == one.case)) {
        return fail(format!("a deviation of no case: {}", stray.case));
    }
    if let Some(path) = &pair.options.record {
        std::fs::write(path, "")?;
    }
    each_group(pair, tally, each_alone)
}

/// Returns the replies of both servers to each of these cases.
fn all_replies<'a>(pair: &Pair, cases: &'a [Case]) -> Result<Vec<(&'a Case, Replies)>> {
    let (slow, quick): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.sleeps());
    let mut results = Vec::new();
    // Cases that wait for time to pass wait together.
    std::thread::scope(|scope| {
        let waiting: Vec<_> =
            slow.iter().map(|case| (*case, scope.spawn(|| pair.replies(case)))).collect();
        for case in quick {
            results.push((case, pair.replies(case)?));
        }
        for (case, thread) in waiting {
            match thread.join() {
                Ok(replies) => results.push((case, replies?)),
                Err(_) => return fail(format!("the thread of {} panicked", case.name)),
            }
        }
        Ok(results)
    })
}

fn each_alone(pair: &Pair, cases: &[Case], tally: &mut Tally) -> Result {
    let known = known()?;
    let mut recorded = String::new();
    for (case, replies) in &all_replies(pair, cases)? {
        let deviation = known.iter().find(|one| one.case == case.name);
        tally.done(judge(pair, deviation, replies).map(|text| format!("{} {text}", case.name)));
        if !same(&replies.0, &replies.1) {
            recorded.push_str(&deviations::format(&Deviation {
                case: case.name.clone(),
                memcached: replies.0.clone(),
                larder: replies.1.clone(),
                because: deviation.map_or("?", |one| &one.because).to_string(),
            }));
        }
    }
    if let Some(path) = &pair.options.record {
        let before = std::fs::read_to_string(path)?;
        std::fs::write(path, before + &recorded)?;
    }
    Ok(())
}

/// Plays the cases of each file in one write, twice: against memcached, without the cases that
/// `joins` leaves out; and all of them against the server's own replies when each case's replies
/// are read before the next case is sent.
pub fn pipelined(pair: &Pair, tally: &mut Tally) -> Result {
    each_group(pair, tally, in_one_write)
}

fn in_one_write(pair: &Pair, all: &[Case], tally: &mut Tally) -> Result {
    let mut files: Vec<&str> = all.iter().map(file_of).collect();
    files.dedup();
    for file in files {
        let (mut shared, mut own) = (Vec::new(), Vec::new());
        for case in all.iter().filter(|case| file_of(case) == file && case.is_one_write()) {
            if joins(pair, case)? {
                shared.push(case);
            }
            // A case that ends inside a value would swallow the next one.
            if !play(pair.subject, case, &case::prefix(), None)?.ends_with(UNANSWERED) {
                own.push(case);
            }
        }
        let (reference, subject) =
            pair.replies(&joined(file, &shared, &prefixes(&shared), false))?;
        let wrong = !same(&reference, &subject);
        tally.done(wrong.then(|| format!("{file} in one write: {}", differ(&reference, &subject))));
        if pair.larder {
            let answers = |apart| {
                let prefixes = prefixes(&own);
                let case = joined(file, &own, &prefixes, apart);
                let replies = play(pair.subject, &case, &case::prefix(), None)?;
                Ok::<_, Failure>(numbered(replies, &prefixes))
            };
            let (apart, together) = (answers(true)?, answers(false)?);
            let wrong = !same(&apart, &together);
            tally.done(wrong.then(|| format!("{file} joined: {}", differ(&apart, &together))));
        }
    }
    Ok(())
}

/// Returns whether a case may be joined with others before memcached: its reply alone is the same
/// as Larder's (a deviation is not, and `cases` has judged it), it ends outside a value, and
/// memcached keeps the replies before it. It loses them where a key is too long in a `get` or
/// `gat`: after `touch nothing 0` and `get <251 bytes>` in one write, 1.6.18 and 1.6.45 answer the
/// second alone. A 1.6.45 that swallows a value also holds them back until it has all of it.
fn joins(pair: &Pair, case: &Case) -> Result<bool> {
    let (reference, subject) = pair.replies(case)?;
    if !same(&reference, &subject) {
        return Ok(false);
    }
    let mut second = case.clone();
    second.steps.insert(0, Step::Send(vec![Part::Bytes(FIRST.to_vec())]));
    let replies = play(pair.reference, &second, &case::prefix(), None)?;
    Ok(replies.starts_with(FIRST_REPLY) && !replies.ends_with(UNANSWERED))
}

/// Returns a key prefix for each case.
fn prefixes(cases: &[&Case]) -> Vec<String> {
    cases.iter().map(|_| case::prefix()).collect()
}

/// Joins cases into one, each with its key prefix. `apart`: each is answered before the next is
/// sent.
fn joined(file: &str, cases: &[&Case], prefixes: &[String], apart: bool) -> Case {
    let mut steps: Vec<Step> = Vec::new();
    for (case, prefix) in cases.iter().zip(prefixes) {
        steps.extend(case.steps.iter().map(|step| renamed(step, prefix)));
        if apart {
            steps.push(Step::Sync);
        }
    }
    Case::new(file.to_string(), steps)
}

/// Replaces each case's prefix in the replies by its place.
fn numbered(mut replies: Vec<u8>, prefixes: &[String]) -> Vec<u8> {
    for (place, prefix) in prefixes.iter().enumerate() {
        replies = name_prefix(&replies, prefix, &format!("k{place}"));
    }
    replies
}

fn file_of(case: &Case) -> &str {
    case.name.split('/').next().unwrap_or("")
}

/// Returns a step with its own key prefix, for a conversation of many cases.
fn renamed(step: &Step, prefix: &str) -> Step {
    match step {
        Step::Send(parts) => {
            let bytes = render(parts, prefix, &Uniques::default());
            Step::Send(vec![Part::Bytes(bytes)])
        }
        other => other.clone(),
    }
}

/// Describes the place where two streams part.
fn differ(left: &[u8], right: &[u8]) -> String {
    let (from, left, right) = parting(left, right);
    let (left, right) = (show(left), show(right));
    format!("from byte {from} on\n    one   {left}\n    other {right}")
}

/// Plays each case cut in two writes, against the same server's replies to it uncut.
pub fn cuts(pair: &Pair, tally: &mut Tally) -> Result {
    each_group(pair, tally, in_two_writes)
}

fn in_two_writes(pair: &Pair, cases: &[Case], tally: &mut Tally) -> Result {
    let mut random = Random::new(pair.options.seed);
    for case in cases.iter().filter(|case| !case.sleeps() && case.cuts) {
        let whole = play(pair.subject, case, &case::prefix(), None)?;
        let bytes = length(case);
        let places: Vec<usize> = if bytes <= EVERY_CUT_BYTES {
            (1..bytes).collect()
        } else {
            (0..CUTS).map(|_| 1 + random.below(bytes - 1)).collect()
        };
        let mut wrong = None;
        for place in places {
            let again = play(pair.subject, case, &case::prefix(), Some(place))?;
            if !same(&whole, &again) {
                let how = differ(&whole, &again);
                wrong = Some(format!("{} cut at byte {place}: {how}", case.name));
                break;
            }
        }
        tally.done(wrong);
    }
    Ok(())
}
