//! Splits a command line into options and values.
//!
//! It follows getopt: `-m64`, `-m 64`, `-vvA`, `--memory-limit=64`, `--memory-limit 64`, and an
//! unambiguous beginning of a long name. A switch may be followed by `=false`, which overrides the
//! file and the environment.

use super::UsageError;
use super::declare::DECLARATIONS;
use super::kind::{Act, Declaration, Kind};
use super::nearest::suggestion;
use super::settings::Layer;

/// A parsed command line.
#[derive(Default)]
pub struct Arguments {
    /// The options.
    pub layer: Layer,
    /// The action instead of serving.
    pub act: Option<Act>,
    /// Text to print instead of anything else.
    pub printed: Option<String>,
}

/// Reads a command line, without the program's name, up to the first option that prints something.
pub fn read(arguments: &[String]) -> Result<Arguments, UsageError> {
    let mut read = Arguments::default();
    let mut arguments = arguments.iter().cloned();
    while let Some(argument) = arguments.next() {
        if let Some(long) = argument.strip_prefix("--") {
            read.long(long, &mut arguments)?;
        } else if let Some(cluster) = argument.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            read.cluster(cluster, &mut arguments)?;
        } else {
            return Err(UsageError(format!("unexpected argument: {argument}")));
        }
        if read.printed.is_some() {
            break;
        }
    }
    Ok(read)
}

impl Arguments {
    /// `--name`, `--name=value` or `--name value`.
    fn long(
        &mut self,
        long: &str,
        arguments: &mut impl Iterator<Item = String>,
    ) -> Result<(), UsageError> {
        let (name, inline) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let declaration = find(name)?;
        if !declaration.takes_value() {
            return self.take(declaration, &inline.unwrap_or_default());
        }
        let value = inline.or_else(|| arguments.next());
        let value = value.ok_or_else(|| UsageError(format!("--{name} needs a value")))?;
        self.take(declaration, &value)
    }

    /// `-v`, `-vvA`, `-m64`, `-m 64`.
    fn cluster(
        &mut self,
        cluster: &str,
        arguments: &mut impl Iterator<Item = String>,
    ) -> Result<(), UsageError> {
        for (place, letter) in cluster.char_indices() {
            let declaration = DECLARATIONS
                .iter()
                .find(|declaration| declaration.short == Some(letter))
                .ok_or_else(|| UsageError(format!("there is no option -{letter}")))?;
            if !declaration.takes_value() {
                self.take(declaration, "")?;
                if self.printed.is_some() {
                    return Ok(());
                }
                continue;
            }
            let rest = &cluster[place + letter.len_utf8()..];
            let value = if rest.is_empty() {
                arguments.next().ok_or_else(|| UsageError(format!("-{letter} needs a value")))?
            } else {
                rest.to_owned()
            };
            return self.take(declaration, &value);
        }
        Ok(())
    }

    /// Adds one option with its value.
    fn take(&mut self, declaration: &'static Declaration, value: &str) -> Result<(), UsageError> {
        match declaration.kind {
            Kind::Print(print) => self.printed = Some(print()),
            Kind::Act(act) => self.act = Some(act),
            _ => {
                let name = format!("--{}", declaration.long);
                self.layer.add(declaration, value, &name).map_err(UsageError)?;
            }
        }
        Ok(())
    }
}

/// Returns the option with this long name, or the only one that begins with it.
fn find(name: &str) -> Result<&'static Declaration, UsageError> {
    if let Some(exact) = super::settings::find(name) {
        return Ok(exact);
    }
    let begins = |known: &&'static Declaration| !name.is_empty() && known.long.starts_with(name);
    let beginning: Vec<&'static Declaration> = DECLARATIONS.iter().filter(begins).collect();
    match &beginning[..] {
        [only] => Ok(only),
        [others @ .., last] => {
            let others: Vec<String> =
                others.iter().map(|other| format!("--{}", other.long)).collect();
            let others = others.join(", ");
            Err(UsageError(format!("--{name} could be {others} or --{}", last.long)))
        }
        [] => {
            let known = DECLARATIONS.iter().map(|known| known.long);
            let suggestion = suggestion(name, known, "--");
            Err(UsageError(format!("there is no option --{name}{suggestion}")))
        }
    }
}
