//! COMMAND: the table of commands, as clients ask for it.

use protocol::resp::{Version, reply};

use super::table::{Entry, TABLE, find};
use super::{Done, Ended, SYNTAX, Subcommands, Task, help, subcommand};
use crate::output::Output;

/// The subcommands of COMMAND.
pub(super) const COMMAND: &Subcommands = &[
    ("count", 0, 0),
    ("list", 0, usize::MAX),
    ("info", 0, usize::MAX),
    ("docs", 0, usize::MAX),
    ("help", 0, 0),
];

/// The commands that clients are told of.
fn listed() -> impl Iterator<Item = &'static Entry> {
    TABLE.iter().filter(|entry| entry.is_listed())
}

/// The one of them with this name.
fn listed_as(name: &[u8]) -> Option<&'static Entry> {
    find(name).map(|number| &TABLE[number]).filter(|entry| entry.is_listed())
}

/// `COMMAND`, `COMMAND COUNT`, `COMMAND INFO name ...`, `COMMAND DOCS name ...`, `COMMAND LIST`.
pub(super) fn command<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let version = task.version();
    let (count, name) = (listed().count(), task.name);
    let describe_all = |out: &mut Output<'_, 's>| {
        reply::array(out.bytes, count);
        listed().for_each(|entry| describe(entry, version, out.bytes));
    };
    let Some(word) = task.words.next() else {
        describe_all(out);
        return Ok(Done::Next);
    };
    let words = task.words.len();
    match subcommand(name, word, words, COMMAND)? {
        "count" => reply::integer(out.bytes, count as i64),
        "list" if words > 0 => return Err(SYNTAX.into()),
        "list" => {
            reply::array(out.bytes, count);
            listed().for_each(|entry| reply::bulk(out.bytes, entry.name.as_bytes()));
        }
        "info" if words == 0 => describe_all(out),
        "info" => return describe_each(task, out),
        "docs" if words == 0 => {
            reply::map(out.bytes, version, count);
            listed().for_each(|entry| document(entry, version, out.bytes));
        }
        "docs" => return document_each(task, out),
        _ => help(name, "COUNT, DOCS [<name> ...], INFO [<name> ...], LIST.", out),
    }
    Ok(Done::Next)
}

/// `COMMAND INFO name ...`, whose answer is ten times as long: its progress is the number of names
/// that have been answered.
fn describe_each<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let (version, count) = (task.version(), task.words.len());
    task.go_on();
    while task.words.len() > 0 {
        if task.must_pause(out) {
            return Ok(Done::Flush);
        }
        if !task.client.progress.is_begun() {
            reply::array(out.bytes, count);
        }
        match listed_as(task.word()) {
            Some(entry) => describe(entry, version, out.bytes),
            None => reply::null(out.bytes, version),
        }
        task.advance(out);
    }
    Ok(Done::Next)
}

/// Writes COMMAND's description of one command: ten fields, of which the last three are empty.
fn describe(entry: &Entry, version: Version, out: &mut Vec<u8>) {
    reply::array(out, 10);
    reply::bulk(out, entry.name.as_bytes());
    reply::integer(out, entry.arity);
    reply::set(out, version, entry.flags.len());
    entry.flags.iter().for_each(|flag| reply::simple(out, flag));
    reply::integer(out, entry.keys.first as i64);
    reply::integer(out, entry.keys.last);
    reply::integer(out, entry.keys.step as i64);
    let categories = categories(entry);
    reply::set(out, version, categories.len());
    categories.iter().for_each(|category| reply::simple(out, category));
    (0..3).for_each(|_| reply::array(out, 0));
}

/// The categories of access control that a command is in, derived from its other fields.
fn categories(entry: &Entry) -> Vec<&'static str> {
    let has = |flag: &str| entry.flags.contains(&flag);
    let mut categories = Vec::new();
    let by_flag =
        [("write", "@write"), ("readonly", "@read"), ("admin", "@admin"), ("admin", "@dangerous")];
    categories.extend(by_flag.iter().filter(|(flag, _)| has(flag)).map(|(_, category)| category));
    let by_group = [("string", "@string"), ("generic", "@keyspace"), ("connection", "@connection")];
    let of_group = by_group.iter().filter(|(group, _)| *group == entry.group);
    categories.extend(of_group.map(|(_, category)| category));
    categories.push(if has("fast") { "@fast" } else { "@slow" });
    categories
}

/// `COMMAND DOCS name ...`, likewise. Unknown names are left out, so all are looked up before the
/// first is answered: its progress is the number of names that have been looked up, and then of
/// those beyond them that have been answered.
fn document_each<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let (version, names) = (task.version(), task.words);
    task.go_on();
    while task.client.progress.keys < names.len() {
        if task.must_pause(out) {
            return Ok(Done::Flush);
        }
        task.client.progress.count += i64::from(listed_as(task.word()).is_some());
        task.advance(out);
    }
    if task.client.progress.keys == names.len() {
        task.words = names;
    }
    while task.words.len() > 0 {
        if task.must_pause(out) {
            return Ok(Done::Flush);
        }
        if task.client.progress.keys == names.len() {
            reply::map(out.bytes, version, task.client.progress.count as usize);
        }
        if let Some(entry) = listed_as(task.word()) {
            document(entry, version, out.bytes);
        }
        task.advance(out);
    }
    Ok(Done::Next)
}

/// Writes COMMAND DOCS' description of one command.
fn document(entry: &Entry, version: Version, out: &mut Vec<u8>) {
    reply::bulk(out, entry.name.as_bytes());
    let facts = [("summary", entry.summary), ("since", entry.since), ("group", entry.group)];
    reply::map(out, version, facts.len());
    for (name, text) in facts {
        reply::bulk(out, name.as_bytes());
        reply::bulk(out, text.as_bytes());
    }
}
