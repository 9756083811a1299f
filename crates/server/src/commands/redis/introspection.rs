//! COMMAND: the table of commands, as clients ask for it.

use protocol::resp::{Version, reply};

use super::table::{Entry, TABLE, find};
use super::{Done, Ended, SYNTAX, Task, help, unknown_subcommand, wrong_number};
use crate::output::Output;

/// `COMMAND`, `COMMAND COUNT`, `COMMAND INFO name ...`, `COMMAND DOCS name ...`, `COMMAND LIST`.
pub(super) fn command<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let version = task.version();
    let Some(subcommand) = task.words.next() else {
        reply::array(out.bytes, TABLE.len());
        TABLE.iter().for_each(|entry| describe(entry, version, out.bytes));
        return Ok(Done::Next);
    };
    match subcommand.to_ascii_lowercase().as_slice() {
        b"count" if task.words.len() > 0 => return Err(wrong_number("command|count")),
        b"count" => reply::integer(out.bytes, TABLE.len() as i64),
        b"list" if task.words.len() > 0 => return Err(SYNTAX.into()),
        b"list" => {
            reply::array(out.bytes, TABLE.len());
            TABLE.iter().for_each(|entry| reply::bulk(out.bytes, entry.name.as_bytes()));
        }
        b"info" if task.words.len() == 0 => {
            reply::array(out.bytes, TABLE.len());
            TABLE.iter().for_each(|entry| describe(entry, version, out.bytes));
        }
        b"info" => return describe_each(task, out),
        b"docs" if task.words.len() == 0 => {
            reply::map(out.bytes, version, TABLE.len());
            TABLE.iter().for_each(|entry| document(entry, version, out.bytes));
        }
        b"docs" => return document_each(task, out),
        b"help" if task.words.len() == 0 => {
            help(task.name, "COUNT, DOCS [<name> ...], INFO [<name> ...], LIST.", out);
        }
        _ => return Err(unknown_subcommand(task.name, subcommand)),
    }
    Ok(Done::Next)
}

/// `COMMAND INFO name ...`, whose answer is ten times as long: its progress is how many of the
/// names have been answered.
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
        match find(task.word()) {
            Some(number) => describe(&TABLE[number], version, out.bytes),
            None => reply::null_array(out.bytes, version),
        }
        task.advance();
    }
    Ok(Done::Next)
}

/// What COMMAND says of one command: ten things, of which the last three are empty.
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

/// The categories of access control that a command is in, from what else is known of it.
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

/// `COMMAND DOCS name ...`, likewise. What is not known is left out, so that all are looked for
/// before the first is answered.
fn document_each<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let (version, names) = (task.version(), task.words);
    task.go_on();
    while task.words.len() > 0 {
        if task.must_pause(out) {
            return Ok(Done::Flush);
        }
        if !task.client.progress.is_begun() {
            reply::map(out.bytes, version, names.filter_map(find).count());
        }
        if let Some(number) = find(task.word()) {
            document(&TABLE[number], version, out.bytes);
        }
        task.advance();
    }
    Ok(Done::Next)
}

/// What COMMAND DOCS says of one command.
fn document(entry: &Entry, version: Version, out: &mut Vec<u8>) {
    reply::bulk(out, entry.name.as_bytes());
    let facts = [("summary", entry.summary), ("since", entry.since), ("group", entry.group)];
    reply::map(out, version, facts.len());
    for (name, text) in facts {
        reply::bulk(out, name.as_bytes());
        reply::bulk(out, text.as_bytes());
    }
}
